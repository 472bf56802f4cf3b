"""Calls spelled one way: arguments by name, operators instead of functions."""
import inspect
import operator
import sys

from ... import _facades
from ..._tensor import Tensor
from ..interpreter import Transformer
from ..node import map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from ..proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators", "AnnotateTypesWithSchema"]


def _package():
    return sys.modules[__name__.partition(".")[0]]


class NormalizeArgs(Transformer):
    """All arguments of functions and modules by name, with defaults, where the signature is known."""

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.node_map = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n):
        known = lambda leaf: self.node_map[leaf].type if isinstance(leaf, Proxy) and leaf in self.node_map and self.node_map[leaf].type else type(leaf)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            kinds = tuple(create_type_hint(map_aggregate(arg, known)) for arg in args)
            made = self.call_function(n.target, args, kwargs, kinds, {name: known(value) for name, value in kwargs.items()})
        else:
            made = super().run_node(n)
        if n.op != "output" and isinstance(made, Proxy):
            self.node_map[made] = n
            made.node.meta, made.node.type = dict(n.meta), n.type
        return made

    def call_function(self, target, args, kwargs, arg_types=None, kwarg_types=None):
        try:
            pair = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        except RuntimeError:
            pair = None                 # several overloads fit
        return super().call_function(target, *(pair or (args, kwargs)))

    def call_module(self, target, args, kwargs):
        pair = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(pair or (args, kwargs)))


class NormalizeOperators(Transformer):
    """torch.add(x, y) becomes x + y, and so on."""

    def __init__(self, module):
        super().__init__(module)
        torch = _package()
        self.binary_magic_method_remap = {
            torch.add: operator.add, torch.mul: operator.mul, torch.sub: operator.sub, torch.div: operator.truediv,
            torch.floor_divide: operator.floordiv, torch.remainder: operator.mod, torch.eq: operator.eq, torch.ne: operator.ne,
            torch.lt: operator.lt, torch.le: operator.le, torch.gt: operator.gt, torch.ge: operator.ge,
        }

    def call_function(self, target, args, kwargs):
        if len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap.get(target, target)
        return super().call_function(target, args, kwargs)


class AnnotateTypesWithSchema(Transformer):
    """Gives nodes the type that the signature of what they call returns."""

    def __init__(self, module, annotate_functionals=True, annotate_modules=True, annotate_get_attrs=True):
        super().__init__(module)
        self.annotate_functionals, self.annotate_modules, self.annotate_get_attrs = annotate_functionals, annotate_modules, annotate_get_attrs

    def call_function(self, target, args, kwargs):
        made = super().call_function(target, args, kwargs)
        if self.annotate_functionals and getattr(target, "__module__", None) == f"{_package().__name__}.nn.functional":
            self._note(made, target)
        return made

    def call_module(self, target, args, kwargs):
        made = super().call_module(target, args, kwargs)
        module = self.fetch_attr(target)
        if self.annotate_modules and getattr(_package().nn, type(module).__name__, None) is type(module):
            self._note(made, type(module).forward)
        return made

    def get_attr(self, target, args, kwargs):
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and isinstance(self.fetch_attr(target), Tensor):
            made.node.type = made.node.type or Tensor
        return made

    @staticmethod
    def _note(made, function):
        kind = inspect.signature(function).return_annotation
        if kind is not inspect.Signature.empty and made.node.type is None:
            made.node.type = kind


_facades.settle(__name__)
