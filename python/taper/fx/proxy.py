"""Stand-ins for values while a function is traced: what is done to them becomes nodes."""
import copy
import dis
import enum
import operator
import sys
import traceback

from .. import _C
from ..overrides import is_tensor_method_or_property
from . import traceback as fx_traceback
from .node import Node, base_types, map_aggregate

__all__ = ["Scope", "ScopeContextManager", "TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "Attribute", "ParameterProxy"]


_INHERITED = ("stack_trace", "nn_module_stack", "torch_fn", "seq_nr", "custom", "source_fn_stack", "from_node")


class TraceError(ValueError):
    pass


def _package():
    return sys.modules[__name__.partition(".")[0]]


def _user_stack():
    """The frames of the traced program, outermost first, as tracebacks print them; those of fx itself are left out."""
    here = __name__.rpartition(".")[0]
    frame, found = sys._getframe(1), []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(here + "."):
            if frame.f_code.co_name == "trace" and found:   # what is above called the tracer
                break
        elif not module.startswith(here.rpartition(".")[0] + ".nn.modules.module"):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format()).strip()


class Scope:
    """The module whose code is being traced: its path and its type."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """While entered, `scope` says what `current_scope` says."""

    def __init__(self, scope, current_scope):
        self._scope, self._before = scope, copy.copy(scope)
        scope.__dict__.update(current_scope.__dict__)

    def __enter__(self):
        return self._scope

    def __exit__(self, *error):
        self._scope.__dict__.update(self._before.__dict__)


class TracerBase:
    """Makes nodes and proxies of calls."""
    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    graph = None

    module_stack = scope = node_name_to_scope = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            node.meta.update({key: copy.copy(current[key]) for key in _INHERITED if key in current})
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.node_name_to_scope is not None:
            self.node_name_to_scope[node.name] = self.scope.module_path, self.scope.module_type
        if self.record_stack_traces and kind != "output" and not node.stack_trace:
            node.stack_trace = _user_stack()
        return node

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args_, tuple) or not isinstance(kwargs_, dict):
            raise AssertionError("arguments of a node must be a tuple and a dict")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a):
        """What a value of the traced program is as an argument of a node."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = tuple(self.create_arg(item) for item in a)
            if hasattr(a, "_fields"):
                return self.create_node("call_function", a.__class__, items, {})
            return items
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return _dict_arg(self, a)
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, (Node, *base_types, enum.Enum)) or a is ... or _is_plain(a):
            return a
        if _is_dataclass(a):
            fields = {name: self.create_arg(getattr(a, name)) for name in a.__dataclass_fields__}
            return self.create_node("call_function", a.__class__, (), fields)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors")

    def keys(self, obj):
        return Attribute(obj, "keys")()


def _dict_arg(tracer, a):
    made = {}
    for key, value in a.items():
        key = tracer.create_arg(key)

        def refuse(leaf):
            if isinstance(leaf, Node):
                raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")
            return leaf
        map_aggregate(key, refuse)
        made[key] = tracer.create_arg(value)
    return made


def _is_plain(a):
    package = _package()
    kinds = (package.dtype, package.device, package.memory_format, package.layout, package.Tensor, _C.Generator)
    return isinstance(a, kinds) or hasattr(a, "_schema")     # an OpOverload has a schema


def _is_dataclass(a):
    return hasattr(type(a), "__dataclass_fields__")


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists."""

    def __init__(self, graph):
        self.graph = graph
        self.scope, self.node_name_to_scope = Scope("", None), {}


class Proxy:
    """A value that is not there yet; operations on it are recorded in its tracer's graph."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    __hash__ = object.__hash__

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name in ("node", "tracer"):      # not made yet: copying and pickling ask
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self,) + args, kwargs)

    def __iter__(self):
        frame = sys._getframe(1)
        if sys.version_info >= (3, 11):
            at = frame.f_lasti
            instruction = next((i for i in dis.get_instructions(frame.f_code) if i.offset == at), None)
            if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
                return (self[i] for i in range(instruction.argval))
        return self.tracer.iter(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def keys(self):
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be "
                           "recorded, please call torch.fx.wrap('len') at module scope")

    def __contains__(self, item):
        return self.tracer.iter(self)

    def __deepcopy__(self, memo):
        return Proxy(self.node, self.tracer)

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        found = {}

        def note(leaf):
            if isinstance(leaf, Proxy):
                found[leaf.tracer] = None
            return leaf
        map_aggregate((args, kwargs or {}), note)
        if len(found) != 1:
            raise RuntimeError(f"Found multiple different tracers {list(found)} while trying to trace operations "
                               f"{orig_method}")
        tracer = next(iter(found))
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs or {})
        return tracer.create_proxy("call_function", orig_method, args, kwargs or {},
                                   name=tracer.graph._target_to_str(orig_method.__name__))


class Attribute(Proxy):
    """x.name: a method when it is called, else an attribute that is read."""

    def __init__(self, root, attr):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root,) + args, kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter whose shape is known while tracing."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        return self.param.shape

    def size(self):
        return self.param.size()

    def dim(self):
        return self.param.dim()

    @property
    def ndim(self):
        return self.param.ndim

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


def _operator_method(target, reflected):
    def method(self, *args):
        given = (args[0], self) if reflected else (self,) + args
        return self.tracer.create_proxy("call_function", target, given, {})
    return method


_REFLECTABLE = ("add", "and_", "floordiv", "lshift", "matmul", "mod", "mul", "or_", "pow", "rshift", "sub", "truediv",
                "xor")
for _name in _REFLECTABLE + ("eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert", "getitem", "abs"):
    _target, _stem = getattr(operator, _name), _name.rstrip("_")
    setattr(Proxy, f"__{_stem}__", _operator_method(_target, False))
    if _name in _REFLECTABLE:
        setattr(Proxy, f"__r{_stem}__", _operator_method(_target, True))
