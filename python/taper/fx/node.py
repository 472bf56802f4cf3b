"""Nodes of graphs. The class itself is C."""
import operator
import typing

from .. import _C
from .immutable_collections import immutable_dict, immutable_list

Node = _C._FxNode
map_arg = _C._fx_map_arg
map_aggregate = _C._fx_map_aggregate
_get_qualified_name = _C._fx_qualified_name
_type_repr = _C._fx_type_name

Argument = typing.Any
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

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]
