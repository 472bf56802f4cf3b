"""Ahead-of-time autograd: functions and modules compiled with their backward.

The engine studies and traces (src/aot); here are the options, the GraphModules and the calls of the user's compilers.
"""
import contextlib
import functools
import itertools

from .. import _C, _facades
from .._options import refuse, tell_once
from ..fx import GraphModule
from ..fx.experimental.proxy_tensor import is_sym_node
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from ..nn import Module
from ..utils import _pytree as pytree
from . import config

__all__ = ["aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "make_boxed_func",
           "make_boxed_compiler", "get_aot_compilation_context", "get_aot_graph_name", "get_graph_being_compiled", "AOT_COUNTER"]

AOT_COUNTER = itertools.count()
KNOWN_TYPES = [_C.Tensor, int, str, float, bool, type(None)]
model_name = "model"
nth_graph = 0
_being_compiled = []


# ---- which graph is being compiled ----
def get_aot_compilation_context():
    return list(_being_compiled), model_name, nth_graph


def get_aot_graph_name():
    """The name of the graph being compiled, unique in this program."""
    return f"{model_name}__{'_'.join(_being_compiled)}_{nth_graph}"


get_graph_being_compiled = get_aot_graph_name


@contextlib.contextmanager
def _compiling(graph):
    global nth_graph
    _being_compiled[:] = [graph]
    try:
        yield
    finally:
        nth_graph += 1
        _being_compiled.clear()


# ---- how a joint graph becomes a forward and a backward one; the work is done in src/aot/partition.c ----
def _split(joint_module, count, thrifty):
    forward, backward, _, _ = _C._aot_partition(joint_module.graph, count, thrifty)
    return GraphModule(joint_module, forward), GraphModule(joint_module, backward)


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None):
    """The forward computes its results and hands over everything that the backward reads of it."""
    return _split(joint_module, num_fwd_outputs, False)


def min_cut_rematerialization_partition(joint_module, _joint_inputs, compiler="inductor", *, num_fwd_outputs, static_lifetime_input_indices=None):
    """As few bytes as can be are handed over: what runs over elements once is computed again in the backward."""
    return _split(joint_module, num_fwd_outputs, True)


# ---- compilers and their results ----
def make_boxed_func(f):
    """`f` taking one list instead of several arguments."""
    def g(args):
        return f(*args)

    g._boxed_call = True
    g._runs = f
    return g


def make_boxed_compiler(compiler):
    @functools.wraps(compiler, updated=())
    def f(fx_g, inps):
        return make_boxed_func(compiler(fx_g, inps))

    return f


def _runnable(compiled, module):
    """The graph itself, run in C, where the compiler gave back the module it got."""
    runs = getattr(compiled, "_runs", compiled)
    if runs is module or getattr(runs, "__self__", None) is module and getattr(runs, "__name__", "") == "forward":
        return _C._FxPlan(module.graph, module)
    return compiled


def _inner_tensors(t):
    """The plain tensors that a wrapper subclass is made of."""
    if not hasattr(t, "__tensor_flatten__"):
        return [t]
    return [inner for name in t.__tensor_flatten__()[0] for inner in _inner_tensors(getattr(t, name))]


# ---- the driver: what the engine asks while it compiles one function ----
class _Driver:
    def __init__(self, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None, num_params_buffers=0,
                 keep_inference_input_mutations=False, inference_compiler=None, dynamic=False):
        self.fw_compiler = fw_compiler
        self.bw_compiler = bw_compiler or fw_compiler
        self.inference_compiler = inference_compiler or fw_compiler
        self.partition_fn = partition_fn
        self.table = {op: f for op, f in (decompositions or {}).items() if isinstance(op, _C._OpOverloadBase)} or None
        self.num_params_buffers = num_params_buffers
        self.keep_mutations = keep_inference_input_mutations
        self.dynamic = dynamic
        self.aot_id = next(AOT_COUNTER)
        self.bw_module = None
        self.subclasses = []

    def checks(self):
        return bool(config.debug_assert), self.aot_id

    def check(self, inputs, outputs):
        """What is not allowed raises here; the plain way allows all that could be studied, but for subclasses."""
        if not self.subclasses:
            return
        if any(x["metadata"] for x in inputs):
            raise RuntimeError("Metadata mutations are currently not allowed on tensor subclasses")
        if any(x["data"] for x in inputs) and not all(leaf.is_contiguous() for leaf in self.subclasses):
            raise RuntimeError("Mutations on non-contiguous inputs are currently not allowed on tensor subclasses")
        inner = [t.untyped_storage()._cdata for leaf in self.subclasses for t in _inner_tensors(leaf)]
        if any(x["data"] for x in inputs) and len(set(inner)) < len(inner):
            self.united("aliased")

    def united(self, how):
        """Inputs that are written are `duplicated` or `aliased`: the graph gets one for them."""
        if how == "aliased" and self.subclasses:
            raise RuntimeError("Encountered aliased inputs that are mutated in the graph, but at least one input/output to the graph is a "
                               "tensor subclass. This is not supported today. You can try to remove the aliasing yourself as a workaround, "
                               "or otherwise file an issue on github.")

    def prepare(self, leaves):
        """Fakes of the inputs, and the mode in which the function runs."""
        from .._subclasses.fake_tensor import FakeTensorMode
        from ..fx.experimental.symbolic_shapes import ShapeEnv

        self.subclasses = [leaf for leaf in leaves if isinstance(leaf, _C.Tensor) and hasattr(leaf, "__tensor_flatten__")]
        mode = FakeTensorMode(shape_env=ShapeEnv() if self.dynamic else None)
        fakes = []
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, _C.Tensor):
                static = i < self.num_params_buffers and config.static_weight_shapes
                leaf = mode.from_tensor(leaf, static_shapes=True if static else None)
            fakes.append(leaf)
        return fakes, mode

    def _compile(self, compiler, module, inputs, which):
        with _compiling(f"{self.aot_id}_{which}"):
            return _runnable(compiler(module, inputs), module)

    def inference(self, graph, constants, fakes):
        return self._compile(self.inference_compiler, GraphModule(constants, graph), fakes, "inference")

    def joint(self, graph, constants, primals, tangents, count):
        joint = _joint_module(constants, graph, primals, tangents, count)
        forward, self.bw_module = self.partition_fn(joint, (primals, tangents), num_fwd_outputs=count)
        saved = forward.graph.output_node().args[0][count:]
        sizes = sum(is_sym_node(node) for node in saved)
        return self._compile(self.fw_compiler, forward, primals, "forward"), len(saved) - sizes, sizes

    def backward(self):
        module = self.bw_module
        inputs = [node._val for node in module.graph.find_nodes(op="placeholder")]
        return self._compile(self.bw_compiler, module, inputs, "backward")


def _joint_module(constants, graph, primals, tangents, count):
    """The joint graph takes two lists, as partitioners know it."""
    _, in_spec = pytree.tree_flatten([primals, tangents])
    results = graph.output_node().args[0]
    _, out_spec = pytree.tree_flatten((list(results[:count]), list(results[count:])))
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(["primals", "tangents"], in_spec, out_spec))
    return GraphModule(constants, graph)


# ---- functions and modules ----
def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None, num_params_buffers=0,
                 keep_inference_input_mutations=False, inference_compiler=None, *, dynamic=False, enable_log=True, disable_functionalization=False):
    """`fn` compiled at its first call: its forward by `fw_compiler`, its backward, when first run, by `bw_compiler`."""
    refuse("aot_function", disable_functionalization=(disable_functionalization, False))
    driver = _Driver(fw_compiler, bw_compiler, partition_fn, decompositions, num_params_buffers, keep_inference_input_mutations,
                     inference_compiler, dynamic)
    return _named(_C._AotFunction(fn, driver, ()), fn)


def _named(made, fn):
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(fn, name):
            setattr(made, name, getattr(fn, name))
    made.__wrapped__ = fn
    return made


def _state_of(mod):
    """Names and tensors of parameters, then buffers."""
    named = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}
    return list(named), tuple(named.values())


def _over_state(mod, names):
    """The module as a function of its parameters and buffers first."""
    from .functional_call import functional_call

    def call(*args, **kwargs):
        return functional_call(mod, dict(zip(names, args)), args[len(names):], kwargs)

    return call


class AOTModule(Module):
    """A module whose forward is compiled; parameters and buffers are those of the original."""

    def __init__(self, mod, compiled):
        super().__init__()
        self.orig_module = mod
        self.__dict__["_compiled"] = compiled

    def forward(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)


def aot_module(mod, *args, **kwargs):
    refuse("aot_module", disable_functionalization=(kwargs.pop("disable_functionalization", False), False))
    kwargs.pop("enable_log", None)
    names, tensors = _state_of(mod)
    driver = _Driver(*args, num_params_buffers=len(names), **kwargs)
    return AOTModule(mod, _C._AotFunction(_over_state(mod, names), driver, tensors))


def _flat_function(mod, names):
    """A module without pytrees around it: a GraphModule is interpreted, so that its nodes' stack traces go on."""
    if not isinstance(mod, GraphModule):
        call = _over_state(mod, names)
    else:
        from .functional_call import _swapped
        from ..fx.interpreter import Interpreter
        from ..fx.traceback import preserve_node_meta

        def call(*args, **kwargs):
            with _swapped(mod, dict(zip(names, args)), True, False), preserve_node_meta():
                return Interpreter(mod).run(*args[len(names):], **kwargs)

    def checked(*args, **kwargs):
        out = call(*args, **kwargs)
        if not isinstance(out, (tuple, list)):
            raise RuntimeError("Graph output must be a (). This is so that we can avoid pytree processing of the outputs. Please change the "
                               "module to have tuple outputs or use aot_module instead.")
        return out

    return checked


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                          keep_inference_input_mutations=False, inference_compiler=None, cudagraphs=None, boxed_forward_device_index=None,
                          ignore_shape_env=False, disable_functionalization=False):
    """The module compiled at once for these flat arguments, real or fake."""
    refuse("aot_module_simplified", ignore_shape_env=(ignore_shape_env, False), disable_functionalization=(disable_functionalization, False))
    tell_once("aot_module_simplified", "there are no CUDA graphs", cudagraphs=(cudagraphs, None),
              boxed_forward_device_index=(boxed_forward_device_index, None))
    names, tensors = _state_of(mod)
    driver = _Driver(fw_compiler, bw_compiler, partition_fn, decompositions, len(names), keep_inference_input_mutations, inference_compiler)
    compiled = _C._AotFunction(_flat_function(mod, names), driver, tensors)
    compiled.compile(*args)
    compiled.zero_grad, compiled.named_parameters, compiled.named_buffers = mod.zero_grad, mod.named_parameters, mod.named_buffers
    return compiled


compiled_function = aot_function
compiled_module = aot_module


def __getattr__(name):
    if name in ("aot_export_module", "aot_export_joint_simple", "GraphSignature", "BackwardSignature"):
        from . import _aot_export
        return getattr(_aot_export, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")


_facades.settle(__name__)
