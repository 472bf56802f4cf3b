"""FloatTensor and its kin: constructors of one dtype that also answer isinstance."""
from . import _C


class _LegacyType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype and instance.device.type == "cpu"


def legacy_type(name, dtype_name):
    """The class FloatTensor and the like."""
    wanted = getattr(_C, dtype_name)
    package = __name__.rsplit(".", 1)[0]

    def __new__(cls, *args):
        if len(args) == 1 and not isinstance(args[0], int):
            return _C.tensor(args[0], dtype=wanted) if not isinstance(args[0], _C.Size) else _empty(args[0], wanted)
        return _empty(args if args else (0,), wanted)

    return _LegacyType(name, (), {"__new__": __new__, "dtype": wanted, "__module__": package})


def _empty(size, dtype):
    return _C._VariableFunctions.empty(tuple(size), dtype=dtype)
