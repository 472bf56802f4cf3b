"""set_printoptions: the options of the printer, which is in C."""
from . import _C

_profiles = {
    "default": dict(precision=4, threshold=1000, edgeitems=3, linewidth=80),
    "short": dict(precision=2, threshold=1000, edgeitems=2, linewidth=80),
    "full": dict(precision=4, threshold=float("inf"), edgeitems=3, linewidth=80),
}
_options = dict(_profiles["default"], sci_mode=None)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    if profile is not None:
        _options.update(_profiles[profile])
    given = dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth)
    _options.update((k, v) for k, v in given.items() if v is not None)
    _options["sci_mode"] = sci_mode
    _C._set_print_options(_options)


def get_printoptions():
    return dict(_options)


class printoptions:
    """Sets options for a while."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.before = dict(_options)
        set_printoptions(**self.options)

    def __exit__(self, *error):
        set_printoptions(**self.before)
