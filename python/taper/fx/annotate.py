"""Types written on nodes while a program is traced, and types of tensors whose sizes are known in part."""
from .. import _facades
from .proxy import Proxy

__all__ = ["annotate", "TensorType", "Dyn", "is_consistent", "is_more_precise"]


def annotate(val, type):
    """Gives a traced value a type; other values are as they were."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new type is "
                               f"{type}. This could happen if you tried to annotate a function parameter value (in which case you should use "
                               "the type slot on the function signature) or you called annotate on the same value twice")
        val.node.type = type
    return val


class TensorType:
    """A tensor of these sizes, some of which may be Dyn."""

    def __init__(self, dim):
        self.__origin__ = TensorType
        self.__args__ = dim

    def __class_getitem__(cls, *args):
        return cls(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    __hash__ = None


class _DynType:
    """Of a size or value nothing is known."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return isinstance(other, _DynType)

    __hash__ = None

    def __repr__(self):
        return "Dyn"


Dyn = _DynType()


def _each(relation, a, b):
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    return len(a.__args__) == len(b.__args__) and all(relation(x, y) for x, y in zip(a.__args__, b.__args__))


def is_consistent(t1, t2):
    """May both be types of one value?"""
    return t1 == t2 or t1 == Dyn or t2 == Dyn or _each(is_consistent, t1, t2)


def is_more_precise(t1, t2):
    """Says the first at least what the second says?"""
    return t1 == t2 or t2 == Dyn or _each(is_more_precise, t1, t2)


_facades.settle(__name__)
