"""Tracing a function by calling it with proxies."""
import builtins
import collections
import copy
import functools
import inspect
import math
import sys
import types
import warnings

from .._tensor import Tensor
from ..nn import Module, Parameter, Sequential
from .graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .node import base_types, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["PHBase", "PHWithMeta", "Tracer", "wrap", "symbolic_trace", "ProxyableClassMeta"]


_NN = __name__.partition(".")[0] + ".nn"


def _package():
    return sys.modules[__name__.partition(".")[0]]


class PHBase:
    """Stands for an input in concrete_args."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    def __init__(self, ph_key=None):
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """Instances made with proxies are recorded as calls of their class."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        made = cls.__new__(cls)
        proxies = _proxies_in((args, kwargs))
        if not proxies:
            cls.__init__(made, *args, **kwargs)
            return made
        return proxies[0].tracer.create_proxy("call_function", cls, args, kwargs)


_proxyable_classes = {}


def _proxies_in(tree):
    found = []

    def note(leaf):
        if isinstance(leaf, Proxy):
            found.append(leaf)
        return leaf
    map_aggregate(tree, note)
    return found


_tracing = {"on": False}


def is_fx_tracing():
    return _tracing["on"]


is_fx_symbolic_tracing = is_fx_tracing


def _assert_is_none(value, msg):
    assert value is None, msg


# ---- functions that are recorded whole ----
_wrapped_fns_to_patch = {}          # (id of the globals, name) -> the globals
_wrapped_methods_to_patch = []      # (class, name)


def wrap(fn_or_name):
    """Records calls of a function of this module, given by name or as a decorator, instead of tracing into it."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def _wrapped(function):
    @functools.wraps(function)
    def record(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if not proxies:
            return function(*args, **kwargs)
        made = proxies[0].tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made
    record.__fx_already_patched = True
    return record


def _wrapped_method(cls, name):
    function = getattr(cls, name)

    @functools.wraps(function)
    def record(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if not proxies:
            return function(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_method", name, args, kwargs)
    return record


class _Patches:
    """Names that are changed while a trace runs, put back in reverse order."""

    def __init__(self):
        self.undo = []
        self.looked_at = set()              # ids of globals whose functions are wrapped already

    def item(self, names, name, value):
        missing = name not in names
        before = names.get(name)
        self.undo.append((lambda: names.pop(name, None)) if missing else (lambda: names.__setitem__(name, before)))
        names[name] = value

    def method(self, cls, name, value):
        own, before = name in cls.__dict__, cls.__dict__.get(name)
        self.undo.append((lambda: setattr(cls, name, before)) if own else (lambda: delattr(cls, name)))
        setattr(cls, name, value)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while self.undo:
            self.undo.pop()()


class Tracer(TracerBase):
    """Records what a module or function does to its inputs as a graph. Subclasses decide what is a leaf."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        self._autowrap_ids = {id(f) for module in autowrap_modules for name, f in module.__dict__.items()
                              if not name.startswith("_") and callable(f)} | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.tensor_attrs = {}
        self.scope, self.node_name_to_scope = Scope("", None), {}
        self.num_calls = {}                 # path of a module -> how often it was called
        self._listed = {}                   # how members of the root are listed -> {id: (name, member)}
        self._constants = 0

    # ---- what becomes a node ----
    def get_fresh_qualname(self, prefix):
        i = 0
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    def create_arg(self, a):
        if isinstance(a, Parameter):
            name = self._name_of("named_parameters", a)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            name = self._name_of("named_buffers", a)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
            path = self.tensor_attrs.get(id(a))
            if path is None:
                path = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[id(a)] = path
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            name = self._name_of("named_modules", a)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _name_of(self, listing, member):
        """The name of a member of the root, None when it is none. `listing` is walked again only for one it did not have: a
        large model reads thousands of parameters."""
        known = self._listed.setdefault(listing, {})
        found = known.get(id(member))
        if found is None or found[1] is not member:
            known.clear()
            for name, value in getattr(self.root, listing)():
                known.setdefault(id(value), (name, value))
            found = known.get(id(member))
        return None if found is None else found[0]

    def is_leaf_module(self, m, module_qualified_name):
        where = m.__module__
        inside = where.startswith(_NN) or where.startswith("torch.nn")
        return inside and not isinstance(m, Sequential)

    def path_of_module(self, mod):
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        outer = self.module_stack
        times = self.num_calls[path] = self.num_calls.get(path, 0) + 1
        self.module_stack = collections.OrderedDict(outer or {})
        self.module_stack[path if times == 1 else f"{path}@{times - 1}"] = (path, type(m))
        try:
            with ScopeContextManager(self.scope, Scope(path, type(m))):
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
        finally:
            self.module_stack = outer

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        name = None
        if isinstance(attr_val, Parameter):
            name = self._name_of("named_parameters", attr_val)
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            name = self._name_of("named_buffers", attr_val)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            special = {}
            if self.param_shapes_constant:
                special["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **special)
        return parameter_proxy_cache[name]

    # ---- inputs ----
    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        parameter = sig.parameters.get(name.lstrip("*"))
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
        if concrete_args is not None and name in concrete_args:
            return self._specialised(name, concrete_args[name], default)
        if name.startswith("*"):
            default = ()
        annotation = getattr(fn_for_analysis, "__annotations__", {}).get(name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _specialised(self, name, value, default):
        package, count = _package(), [0]

        def one(x):
            count[0] += 1
            out = self.create_proxy("placeholder", f"{name}_{count[0]}", default, {})
            if isinstance(x, PHBase):
                if isinstance(x, PHWithMeta):
                    out.node.ph_key = x.ph_key
                return out
            if x is None:
                wrapped = _wrapped(_assert_is_none)
                made = wrapped(out, f"{name} has been specialized to have value None but got another value")
                made.node.meta.pop("is_wrapped")
            elif isinstance(x, base_types):
                package._assert(out == x, f"{name} has been specialized to have value {x} but got another value")
            else:
                warnings.warn(f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the user "
                              "to make sure that your inputs match the inputs you specialized the function with.", stacklevel=2)
            return x
        return one(value) if isinstance(value, (PHBase, *base_types)) else _tree().tree_map(one, value)

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        fn = inspect.unwrap(root_fn)
        if not isinstance(fn, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(root_fn)}")
        code = fn.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:total])
        sig = inspect.signature(fn)
        args = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
            names = names[1:]
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete "
                                   "arguments")
            concrete_args = dict(zip(names, concrete_args))
        keywords = {}
        for i, name in enumerate(names):
            made = self._proxy_placeholder(name, concrete_args, sig, fn)
            if i + (1 if is_module else 0) < code.co_argcount:
                args.append(made)
            else:
                keywords[name] = made
        at = total
        if code.co_flags & inspect.CO_VARARGS:
            args.append(_Star(self._proxy_placeholder("*" + code.co_varnames[at], concrete_args, sig, fn)))
            at += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            keywords["**"] = _Star(self._proxy_placeholder("**" + code.co_varnames[at], concrete_args, sig, fn))
        called = _calling(root_fn, code, keywords)
        if concrete_args is not None and any(_is_nested(concrete_args[name]) for name in names if name in concrete_args):
            return self._flattened(called, args, ["self"] * is_module + names, concrete_args)
        return called, args

    def _flattened(self, fn, args, names, concrete_args):
        """Inputs and results as trees: the graph's code flattens and unflattens them."""
        _pytree = _tree()
        example = [concrete_args.get(name, PH) for name in names]
        in_spec = _pytree.tree_structure(example)

        def flat(*given):
            result = fn(*given)
            leaves, out_spec = _pytree.tree_flatten(result)
            self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(list(names), in_spec, out_spec))
            return leaves
        flat.__annotations__ = {}
        return flat, args

    # ---- the trace ----
    def trace(self, root, concrete_args=None):
        is_module = isinstance(root, Module)
        if is_module:
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            fn = root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self.tensor_attrs, self._listed, self.num_calls = {}, {}, {}
        if is_module:
            self._collect_tensors(root, "")
        written = inspect.unwrap(fn)
        names = getattr(written, "__globals__", {})
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        returns = getattr(fn, "__annotations__", {}).get("return")
        self.graph._origin = f" from {written.__code__.co_filename}:{written.__code__.co_firstlineno} in {written.__code__.co_name}"
        with _Patches() as patches:
            self._patch(patches, names)
            patches.item(_tracing, "on", True)
            result = self.create_arg(fn(*args))
        self.create_node("output", "output", (result,), {}, type_expr=returns)
        self.submodule_paths = None
        return self.graph

    def _collect_tensors(self, module, prefix):
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                self.tensor_attrs[id(value)] = prefix + name
        if module._modules:
            for name, child in module.named_children():
                self._collect_tensors(child, f"{prefix}{name}.")

    def _patch(self, patches, names):
        cache, lookup, call = {}, Module.__getattr__, Module.__call__

        def module_getattr(module, attr):
            return self.getattr(attr, lookup(module, attr), cache)

        def module_call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return call(module, *args, **kwargs)
            self._autowrap(patches, getattr(inspect.unwrap(type(module).forward), "__globals__", {}))
            return self.call_module(module, forward, args, kwargs)
        patches.method(Module, "__getattr__", module_getattr)
        patches.method(Module, "__call__", module_call)
        for (_, name), where in list(_wrapped_fns_to_patch.items()):
            function = where[name] if name in where else getattr(builtins, name)
            patches.item(where, name, _wrapped(function))
        for cls, name in _wrapped_methods_to_patch:
            patches.method(cls, name, _wrapped_method(cls, name))
        self._autowrap(patches, names)
        for module in self._autowrap_search:
            self._autowrap(patches, module.__dict__)

    def _autowrap(self, patches, names):
        if id(names) in patches.looked_at:
            return
        patches.looked_at.add(id(names))
        for name, value in list(names.items()):
            if id(value) in self._autowrap_ids and not name.startswith("_") and callable(value):
                patches.item(names, name, _wrapped(value))

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():       # modules are looked at, not had
            made.__dict__[name] = list(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return made


def _tree():
    from ..utils import _pytree
    return _pytree


def _is_nested(value):
    return not isinstance(value, (PHBase, *base_types)) and not _tree().tree_structure(value).is_leaf()


class _Star:
    """Carries the proxy of *args or **kwargs past the signature."""

    def __init__(self, proxy):
        self.proxy = proxy


def _calling(fn, code, keywords):
    """Calls with keyword-only arguments filled in, and *args and **kwargs seen as proxies by the function's body."""
    stars = any(isinstance(value, _Star) for value in keywords.values()) or code.co_flags & inspect.CO_VARARGS
    if not keywords and not stars:
        return fn
    if stars:
        fn = _star_free(fn)
    plain = {name: value for name, value in keywords.items() if name != "**"}
    tail = keywords.get("**")

    def called(*args):
        given = [arg.proxy if isinstance(arg, _Star) else arg for arg in args]
        if not stars:
            return fn(*given, **plain)
        flat, last = given, []
        if code.co_flags & inspect.CO_VARARGS:
            flat, last = given[:-1], given[-1:]
        if tail is not None:
            last = last + [tail.proxy]
        return fn(*flat, *plain.values(), *last)
    return called


def _star_free(fn):
    """The same body with *args and **kwargs as plain parameters, so that each can be one proxy."""
    code, count = fn.__code__, fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count + stars, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=flags)
    made = type(fn)(plain, fn.__globals__, fn.__name__, None, fn.__closure__)
    made.__annotations__ = fn.__annotations__
    return made


def symbolic_trace(root, concrete_args=None):
    """A GraphModule of what `root` does."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
