"""Nodes of graphs. The class itself is C."""
import operator
import typing

from .. import _C, _facades

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]


# ---- Lists and dicts that nodes hand out: they look like the builtin ones and refuse to change ---------------------
_WHY = """ object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args
"""


def _refuse(self, *args, **kwargs):
    raise TypeError(f"'{type(self).__name__}'{_WHY.rstrip()}")


def _frozen(name, base, changing, rebuild):
    names = {change: _refuse for change in changing}
    names["__hash__"] = lambda self: hash(rebuild(self))
    names["__reduce__"] = lambda self: (type(self), (base(self),))
    names["__module__"] = __name__
    return type(name, (base,), names)


immutable_list = _frozen(
    "immutable_list", list,
    ("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert", "pop", "remove",
     "reverse", "sort"),
    tuple)
immutable_dict = _frozen(
    "immutable_dict", dict,
    ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update"),
    lambda d: frozenset(d.items()))


def _register_trees():
    from ..utils import _pytree
    opened = {immutable_list: lambda l: (list(l), None), immutable_dict: lambda d: (list(d.values()), list(d))}
    keyed = {immutable_list: lambda l: ([(_pytree.SequenceKey(i), x) for i, x in enumerate(l)], None),
             immutable_dict: lambda d: ([(_pytree.MappingKey(key), x) for key, x in d.items()], list(d))}
    closed = {immutable_list: lambda items, _: immutable_list(items), immutable_dict: lambda items, keys: immutable_dict(zip(keys, items))}
    for cls in opened:
        _pytree.register_pytree_node(cls, opened[cls], closed[cls], flatten_with_keys_fn=keyed[cls],
                                     serialized_type_name=f"torch.fx.immutable_collections.{cls.__name__}")


_register_trees()


# ---- Nodes ---------------------------------------------------------------------------------------------------------
Node = _C._FxNode
map_arg = _C._fx_map_arg
map_aggregate = _C._fx_map_aggregate
_get_qualified_name = _C._fx_qualified_name
_type_repr = _C._fx_type_name

Argument = typing.Any
ArgumentT = typing.TypeVar("ArgumentT", bound=typing.Any)
Target = typing.Union[typing.Callable[..., typing.Any], str]
BaseArgumentTypes = typing.Union[str, int, float, bool, complex]
base_types = (str, int, float, bool, complex, type(None))
_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])

_side_effectful_functions = {operator.setitem}


def has_side_effect(fn):
    """Marks a callable so that dead code elimination keeps its calls."""
    _side_effectful_functions.add(fn)
    return fn


_C._fx_register(immutable_list=immutable_list, immutable_dict=immutable_dict, side_effects=_side_effectful_functions)


def _find_package_effects():
    from .. import _C as c
    package = __import__(__name__.partition(".")[0])
    for name in ("_assert", "_assert_async", "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
                 "randint_like", "randn", "randn_like", "randperm", "set_grad_enabled"):
        if hasattr(package, name):
            has_side_effect(getattr(package, name))
    for name in ("_set_grad_enabled",):
        if hasattr(c, name):
            has_side_effect(getattr(c, name))


_find_package_effects()


# ---- Marks of how stable an interface is; here they only mark ------------------------------------------------------
_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible=False):
    def mark(one):
        _MARKED_WITH_COMPATIBILITY.setdefault(one)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(one)
        return one
    return mark


def _format_arg(arg, max_list_len=float("inf")):
    """An argument as listings of nodes show it."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        items = [_format_arg(one) for one in arg[:max_list_len if max_list_len < len(arg) else None]]
        if max_list_len < len(arg):
            items.append(f"...[total_len={len(arg)}]")
        inside = ", ".join(items)
        return f"[{inside}]" if isinstance(arg, list) else f"({inside}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


_facades.settle(__name__)
