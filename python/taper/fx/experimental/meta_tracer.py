"""Tracing with shapes known: proxies carry tensors of the meta device, so that programs may ask for sizes and types."""
import sys
import warnings

from ... import nn
from .._symbolic_trace import Tracer, _proxies_in
from ..graph_module import GraphModule
from ..node import map_aggregate
from ..proxy import Attribute, Proxy

__all__ = ["MetaProxy", "MetaAttribute", "MetaDeviceAttribute", "MetaTracer", "proxys_to_metas", "gen_constructor_wrapper",
           "manual_meta_overrides", "symbolic_trace"]


def _package():
    return sys.modules[__name__.partition(".")[0]]


class MetaProxy(Proxy):
    """A proxy that may know the shape and type of what it stands for; what it does not know it records."""

    def install_tensor_meta(self, tensor_meta):
        self._tensor_meta = tensor_meta

    def _known(self):
        return self.__dict__.get("_tensor_meta")

    def size(self, dim=None):
        if self._known() is None:
            return self.tracer.create_proxy("call_method", "size", (self, dim) if dim is not None else (self,), {})
        return self._known().size() if dim is None else self._known().size(dim)

    def dim(self):
        return self.tracer.create_proxy("call_method", "dim", (self,), {}) if self._known() is None else self._known().dim()

    @property
    def shape(self):
        return self._read("shape")

    @property
    def dtype(self):
        return self._read("dtype")

    @property
    def device(self):
        return MetaDeviceAttribute(self, "device")

    def _read(self, name):
        known = self._known()
        return self.tracer.create_proxy("call_function", getattr, (self, name), {}) if known is None else getattr(known, name)

    def __getattr__(self, name):
        if name in ("node", "tracer", "_tensor_meta"):
            raise AttributeError(name)
        return MetaAttribute(self, name)


class MetaAttribute(Attribute, MetaProxy):
    """x.name: a method when it is called, else an attribute that is read."""


class MetaDeviceAttribute(MetaAttribute):
    """x.device: in metadata, the meta device."""


def proxys_to_metas(v):
    """What stands for a proxy where metadata is computed."""
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if isinstance(v, Proxy):
        known = v._known() if isinstance(v, MetaProxy) else None
        if known is None:
            raise AssertionError("MetaProxy does not have an associated meta" if isinstance(v, MetaProxy) else f"Expected MetaProxy, got {type(v)}")
        return known
    return v


def gen_constructor_wrapper(target):
    """A function that makes tensors, recorded when a proxy is among its arguments; and the function itself."""
    def wrapper(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        return proxies[0].tracer.create_proxy("call_function", target, args, kwargs) if proxies else target(*args, **kwargs)
    return wrapper, target


def _embedding(self, input):
    return _package().empty(*input.shape, self.weight.shape[-1], device="meta")


# What modules and functions give on the meta device, where calling them takes more than shapes.
manual_meta_overrides = {nn.Embedding: _embedding, nn.LayerNorm: lambda self, input: input, nn.ReLU: lambda self, input: input}


class MetaTracer(Tracer):
    """A Tracer that computes the metadata of each node as it is made."""
    allow_insert_stateless_mods = True
    _TORCH_METHODS_TO_PATCH = ["arange", "zeros", "ones", "full_like", "eye"]
    _reading_metadata = False

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            made.install_tensor_meta(self.meta_args[target])
        elif kind in ("call_function", "call_method", "call_module", "get_attr"):
            if target in self.orig_fns and "device" in kwargs:
                kwargs = {**kwargs, "device": "meta"}
            try:
                made.install_tensor_meta(self._metadata(kind, target, map_aggregate(args, proxys_to_metas), map_aggregate(kwargs, proxys_to_metas)))
            except Exception as error:
                warnings.warn(f"Could not compute metadata for {kind} target {target}: {error}", stacklevel=2)
        return made

    def _metadata(self, kind, target, args, kwargs):
        if kind == "call_function":
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        self._reading_metadata = True
        try:
            if kind == "get_attr":
                at = self.root
                for part in target.split("."):
                    at = getattr(at, part)
                return at.to(device="meta")
            module = self.root.get_submodule(target)
            if type(module) in manual_meta_overrides:
                return manual_meta_overrides[type(module)](module, *args, **kwargs)
            return self.orig_forward(*args, **kwargs)
        finally:
            self._reading_metadata = False

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        return attr_val if self._reading_metadata else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m, forward, args, kwargs):
        self.orig_forward = forward
        return super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod):
        try:
            return super().path_of_module(mod)
        except NameError:
            if not self.allow_insert_stateless_mods or any(True for _ in mod.parameters()) or any(True for _ in mod.buffers()):
                raise
        name, i = type(mod).__name__.lower(), 0
        while hasattr(self.root, f"{name}_{i}"):
            i += 1
        self.root.add_module(f"{name}_{i}", mod)
        return f"{name}_{i}"

    def proxy(self, node):
        return MetaProxy(node, self)

    def trace(self, root, meta_args, concrete_args=None):
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected meta_args to be dict, got {type(meta_args)}")
        package, self.meta_args = _package(), meta_args
        before = {name: getattr(package, name) for name in self._TORCH_METHODS_TO_PATCH}
        self.orig_fns = set(before.values())
        try:
            for name, function in before.items():
                setattr(package, name, gen_constructor_wrapper(function)[0])
            return super().trace(root, concrete_args)
        finally:
            for name, function in before.items():
                setattr(package, name, function)


def symbolic_trace(root, meta_args=None, concrete_args=None):
    """A GraphModule of what `root` does with inputs of these shapes."""
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args or {}, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, nn.Module) else root.__name__)
