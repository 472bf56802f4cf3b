"""Modes of the tape, each a context and a decorator."""
import functools

from .. import _C, _facades

_is_grad_enabled, _set_grad_enabled = _C.is_grad_enabled, _C._set_grad_enabled
GENERATOR = 0x20        # inspect.CO_GENERATOR, whose module is slow to import


class _Mode:
    """Runs a function inside the mode; generators are inside it only while they run."""

    def clone(self):
        return type(self)()

    def __call__(self, function):
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & GENERATOR:
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapper

    def _wrap_generator(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            generator = function(*args, **kwargs)
            try:
                with self.clone():
                    response = generator.send(None)
                while True:
                    try:
                        request = yield response
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            response = generator.throw(error)
                    else:
                        with self.clone():
                            response = generator.send(request)
            except StopIteration as end:
                return end.value

        return wrapper


class no_grad(_Mode):
    """Nothing is recorded inside."""

    def __new__(cls, function=None):
        made = object.__new__(cls)
        return made if function is None else made(function)

    def __enter__(self):
        self.before = _is_grad_enabled()
        _set_grad_enabled(False)

    def __exit__(self, kind, value, trace):
        _set_grad_enabled(self.before)


class enable_grad(_Mode):
    """Recording is on inside."""

    def __new__(cls, function=None):
        made = super().__new__(cls)
        return made if function is None else made(function)

    def __enter__(self):
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, *error):
        _C._set_grad_enabled(self.before)


class set_grad_enabled(_Mode):
    """Sets recording at once; as a context, brings it back at the end."""

    def __init__(self, mode):
        self.before = _C.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function):
        _C._set_grad_enabled(self.before)
        return super().__call__(function)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *error):
        _C._set_grad_enabled(self.before)

    def clone(self):
        return type(self)(self.mode)

    def __str__(self):
        return f"{__name__}.set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """Tensors made inside have no version and no gradient, ever."""

    def __new__(cls, mode=True):
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.mode = True
        return made(mode)

    def __init__(self, mode=True):
        self.mode = mode if isinstance(mode, bool) else True

    def __enter__(self):
        self.before = (_C.is_inference_mode_enabled(), _C.is_grad_enabled(), _C._is_fwd_grad_enabled())
        _C._set_inference_mode(self.mode)
        _C._set_grad_enabled(not self.mode)
        _C._set_fwd_grad_enabled(not self.mode)

    def __exit__(self, *error):
        inference, grad, forward = self.before
        _C._set_inference_mode(inference)
        _C._set_grad_enabled(grad)
        _C._set_fwd_grad_enabled(forward)

    def clone(self):
        return type(self)(self.mode)


class set_multithreading_enabled(_Mode):
    """Backward runs on the thread that asks for it; the setting is accepted and kept."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass

    def clone(self):
        return type(self)(self.mode)


class _force_original_view_tracking(set_multithreading_enabled):
    pass


# ---- Anomaly mode: backward checks for NaN and names the forward op ------------------------------------------------
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


_facades.settle(__name__)
