"""Windows as functions of a number of points. Each is an expression over evenly spaced points; what they share, the checks and the
cases of none and one point, is in `_window`."""
from math import pi, sqrt

from .. import _C, strided

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall"]
_functions = _C._VariableFunctions


def _window(shape):
    """shape(points, M, sym, …) gives a window; points(start, end) are M of them, made with the caller's options."""
    name = shape.__name__

    def window(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False, **parameters):
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout != strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        options = {"dtype": dtype, "layout": layout, "device": device}

        def points(start, end):
            return _functions.linspace(start, end, M, **options, requires_grad=requires_grad)

        make = shape(points, M, sym, **parameters)
        if M == 0:
            return _functions.empty((0,), **options, requires_grad=requires_grad)
        if M == 1:
            return _functions.ones((1,), **options, requires_grad=requires_grad)
        return make()

    window.__name__ = window.__qualname__ = name
    window.__doc__ = shape.__doc__
    return window


# Each checks its parameters first and gives what makes the window, for no point is computed of a short one.
@_window
def exponential(points, M, sym, center=None, tau=1.0):
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
    return lambda: points(-middle / tau, (-middle + M - 1) / tau).abs().neg().exp()


@_window
def cosine(points, M, sym):
    step = pi / (M + 1 if not sym and M > 1 else M or 1)
    return lambda: points(0.5 * step, (0.5 + M - 1) * step).sin()


@_window
def gaussian(points, M, sym, std=1.0):
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    start, scale = -(M if not sym and M > 1 else M - 1) / 2.0, 1 / (std * sqrt(2))
    return lambda: (points(start * scale, (start + M - 1) * scale) ** 2).neg().exp()


@_window
def kaiser(points, M, sym, beta=12.0):
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def make():
        last = -beta + 2.0 * beta / (M if not sym else M - 1) * (M - 1)
        top = _functions.scalar_tensor(beta, dtype=points(0, 0).dtype)
        return _functions.i0((beta * beta - points(-beta, min(last, beta)) ** 2).clamp(min=0).sqrt()) / _functions.i0(top)

    return make


@_window
def bartlett(points, M, sym):
    return lambda: 1 - points(-1, -1 + 2.0 / (M if not sym else M - 1) * (M - 1)).abs()


def _cosines(points, M, sym, weights):
    turn = points(0, 2 * pi / (M if not sym else M - 1) * (M - 1))
    return sum((-1) ** k * weight * (turn * k).cos() for k, weight in enumerate(weights))


@_window
def general_cosine(points, M, sym, *, a):
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return lambda: _cosines(points, M, sym, a)


@_window
def blackman(points, M, sym):
    return lambda: _cosines(points, M, sym, [0.42, 0.5, 0.08])


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def nuttall(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)
