"""Anomaly mode: backward checks for NaN and names the forward op."""
from .. import _C


class set_detect_anomaly:
    def __init__(self, mode, check_nan=True):
        self.before = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly_enabled(mode)
        _C._set_anomaly_check_nan(check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _C._set_anomaly_enabled(self.before[0])
        _C._set_anomaly_check_nan(self.before[1])


class detect_anomaly:
    def __init__(self, check_nan=True):
        self.check_nan = check_nan

    def __enter__(self):
        self.mode = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *error):
        self.mode.__exit__(*error)
