"""torch.sym_*: arithmetic on sizes that may be symbolic, in words that a graph can record."""
import builtins
import math

from ._C import SymBool, SymFloat, SymInt


def _recorded(function):
    """A proxy among the arguments records the call instead."""
    import functools

    @functools.wraps(function)
    def call(*args, **kwargs):
        if all(type(arg) in _PLAIN for arg in args):
            return function(*args, **kwargs)
        from .overrides import handle_torch_function, has_torch_function

        if has_torch_function(args):
            return handle_torch_function(call, args, *args, **kwargs)
        return function(*args, **kwargs)

    return call


_PLAIN = (int, float, bool, SymInt, SymFloat, SymBool, list, tuple)


@_recorded
def sym_int(a):
    """int(a), rounded towards zero."""
    if isinstance(a, SymInt):
        return a
    return math.trunc(a) if isinstance(a, SymFloat) else builtins.int(a)


@_recorded
def sym_float(a):
    if isinstance(a, SymFloat):
        return a
    return a.__sym_float__() if hasattr(a, "__sym_float__") else builtins.float(a)


@_recorded
def sym_not(a):
    return a._not() if isinstance(a, SymBool) else not a


def _extreme(name, choose, a, b):
    if isinstance(a, (SymInt, SymFloat)):
        return getattr(a, name)(b)
    if isinstance(b, (SymInt, SymFloat)):
        return getattr(b, name)(a)
    for one in (a, b):
        if not (isinstance(one, (builtins.int, builtins.float)) or hasattr(one, "dtype") and type(one).__module__ == "numpy"):
            raise AssertionError(f"expected a number, got {type(one)}")
    either = isinstance(a, builtins.float) or isinstance(b, builtins.float)
    return builtins.float(choose(a, b)) if either else choose(a, b)


@_recorded
def sym_max(a, b):
    return _extreme("__sym_max__", max, a, b)


@_recorded
def sym_min(a, b):
    return _extreme("__sym_min__", min, a, b)


@_recorded
def sym_ite(b, t, f):
    """t if b else f, without a guard where they are numbers."""
    if not isinstance(b, (SymBool, builtins.bool)):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return b._choose(t, f) if isinstance(b, SymBool) and isinstance(t, (SymInt, SymFloat, builtins.int, builtins.float)) else t if b else f


@_recorded
def sym_sum(args):
    return sum(args)


def _function(name):
    @_recorded
    def call(a):
        return a._apply(name) if isinstance(a, (SymInt, SymFloat)) else getattr(math, name)(a)

    call.__name__ = call.__qualname__ = f"_sym_{name}"
    return call


_sym_sqrt, _sym_cos, _sym_cosh, _sym_sin, _sym_sinh, _sym_tan, _sym_tanh, _sym_asin, _sym_acos, _sym_atan, _sym_log2 = (
    _function(name) for name in "sqrt cos cosh sin sinh tan tanh asin acos atan log2".split())
sym_sqrt = _sym_sqrt


def sym_fresh_size(expr):
    return expr
