"""The export face of ahead-of-time autograd: a flat graph, and a signature that says what its inputs and outputs are."""
import contextlib
import dataclasses

from .. import _C
from .._options import refuse
from ..autograd import grad
from ..autograd.grad_mode import enable_grad, no_grad
from ..fx import GraphModule
from ..utils import _pytree as pytree
from . import config
from .aot_autograd import _Driver, _flat_function, _joint_module, _over_state, _state_of

_BANNED = "This is currently banned in the aot_export workflow. If you need this functionality, please file a github issue."


@dataclasses.dataclass
class BackwardSignature:
    """Names of the joint graph's outputs: gradients of what, and the loss."""
    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclasses.dataclass
class GraphSignature:
    """Names of a flat graph's inputs and outputs, and what they are."""
    parameters: list
    buffers: list
    user_inputs: list
    user_outputs: list
    inputs_to_parameters: dict
    inputs_to_buffers: dict
    buffers_to_mutate: dict
    user_inputs_to_mutate: dict
    in_spec: object
    out_spec: object
    backward_signature: object
    input_tokens: list = dataclasses.field(default_factory=list)
    output_tokens: list = dataclasses.field(default_factory=list)


class _ExportDriver(_Driver):
    """Keeps the graph; nothing is compiled."""

    def __init__(self, decompositions, num_params_buffers):
        super().__init__(lambda module, _: module, decompositions=decompositions, num_params_buffers=num_params_buffers)
        self.module = self.inputs = None

    def check(self, inputs, outputs):
        super().check(inputs, outputs)
        self.inputs = inputs
        if any(x["metadata"] for x in inputs):
            raise RuntimeError("Found an input that received a metadata mutation, through e.g. a call to `.resize_()` or `.transpose_()`. " + _BANNED)
        if any(x["data"] and x["requires_grad"] for x in inputs):
            raise RuntimeError("Found a graph input that requires gradients, and received a mutation. " + _BANNED)

    def united(self, how):
        raise RuntimeError(f"Encountered {how} inputs that are mutated in the graph. " + _BANNED)

    def inference(self, graph, constants, fakes):
        self.module = GraphModule(constants, graph, "<lambda>")
        return self.module

    def joint(self, graph, constants, primals, tangents, count):
        self.module = _joint_module(constants, graph, primals, tangents, count)
        return self.module, 0, 0


def _check_settings():
    if config.functionalize_rng_ops:
        raise RuntimeError("Functionalized RNG is not currently supported in the aot_export workflow. Please file a github issue, or otherwise "
                           "set torch._functorch.config.functionalize_rng_ops = False.")


def aot_export_joint_simple(func, args, *, trace_joint, num_params_buffers=0, decompositions=None):
    """The graph of a function of flat arguments; with `trace_joint` over primals and tangents, its gradients behind its outputs."""
    _check_settings()
    _, spec = pytree.tree_flatten(tuple(args))
    if any(not child.is_leaf() for child in spec.children()):
        raise RuntimeError(f"aot_export_joint_simple requires individual inputs not to be pytrees. in_spec={spec}")

    def flat(*args):
        out = func(*args)
        _, out_spec = pytree.tree_flatten(out)
        if not out_spec.is_leaf() and any(not child.is_leaf() for child in out_spec.children()):
            raise RuntimeError(f"aot_export_joint_simple requires individual outputs not to be pytrees. out_spec={out_spec}")
        return out

    driver = _ExportDriver(decompositions, num_params_buffers)
    with contextlib.nullcontext() if trace_joint else no_grad():
        _C._AotFunction(flat, driver, ()).compile(*args)
    return driver.module


def _check_loss(outs, index):
    if index is None:
        raise RuntimeError("If trace_joint=Trueit is required that one of your forward outputs must be a scalar loss. You must specify the which "
                           "(index) output is the loss with output_loss_index.")
    for i, out in enumerate(outs):
        if i != index and isinstance(out, _C.Tensor) and out.requires_grad:
            raise RuntimeError(f"Found an output of the forward that requires gradients, that was not the scalar loss. We require all outputs to the "
                               f"forward that are not the scalar loss to not require gradient, because we will only compute a backward graph against "
                               f"the scalar loss. You can fix this by calling .detach() on each of your forward outputs that is not the loss. You "
                               f"specified that output index {index} is the loss, but we found that the output at index {i} requires gradients.")
    loss = outs[index]
    if not loss.requires_grad:
        raise RuntimeError(f"The output at index {index} was marked as the loss, but it does not require gradients")
    if loss.numel() != 1:
        raise RuntimeError(f"We require the output marked as the loss (at index {index}) to be a scalar, but it has shape {loss.shape}")
    return loss


def _with_gradients(call, index, wanted):
    """The function with the gradients of its loss behind its outputs; `wanted` is told which inputs have one."""
    def joint(*args, **kwargs):
        with enable_grad():
            outs = call(*args, **kwargs)
            outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
            loss = _check_loss(outs, index)
            inputs = [x for x in args if isinstance(x, _C.Tensor) and x.requires_grad]
            wanted[:] = [i for i, x in enumerate(args) if isinstance(x, _C.Tensor) and x.requires_grad]
            grads = grad((loss,), inputs, allow_unused=True)
        return (*(x.detach() if isinstance(x, _C.Tensor) else x for x in outs), *grads)

    return joint


def _signature(module, driver, mod, names, wanted, index, in_spec):
    nodes = [node.name for node in module.graph.find_nodes(op="placeholder")]
    outputs = [node.name if hasattr(node, "name") else None for node in module.graph.output_node().args[0]]
    parameters = [name for name, _ in mod.named_parameters(remove_duplicate=False)]
    buffers = [name for name, _ in mod.named_buffers(remove_duplicate=False)]
    by_input = dict(zip(nodes, names))
    mutated = [nodes[i] for i, x in enumerate(driver.inputs) if x["returned"]]
    to_mutate = dict(zip(outputs, mutated))
    user = outputs[len(mutated):len(outputs) - len(wanted)]
    backward = None
    if index is not None:
        gradients = dict(zip(outputs[len(outputs) - len(wanted):], wanted))
        backward = BackwardSignature({out: names[i] for out, i in gradients.items() if i < len(names)},
                                     {out: nodes[i] for out, i in gradients.items() if i >= len(names)}, outputs[index])
    return GraphSignature(
        parameters=parameters, buffers=buffers, user_inputs=nodes[len(names):], user_outputs=user,
        inputs_to_parameters={node: name for node, name in by_input.items() if name in parameters},
        inputs_to_buffers={node: name for node, name in by_input.items() if name in buffers},
        buffers_to_mutate={out: by_input[node] for out, node in to_mutate.items() if node in by_input},
        user_inputs_to_mutate={out: node for out, node in to_mutate.items() if node not in by_input},
        in_spec=in_spec, out_spec=None, backward_signature=backward)


def aot_export_module(mod, args, *, decompositions=None, trace_joint, output_loss_index=None, pre_dispatch=False, dynamic_shapes=None, kwargs=None):
    """(GraphModule, GraphSignature) of a module: parameters and buffers are inputs, what it writes is returned."""
    _check_settings()
    refuse("aot_export_module", pre_dispatch=(pre_dispatch, False), dynamic_shapes=(dynamic_shapes, None))
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True.")
    names, tensors = _state_of(mod)
    wanted = []
    call = _flat_function(mod, names) if isinstance(mod, GraphModule) else _over_state(mod, names)
    if trace_joint:
        call = _with_gradients(call, output_loss_index, wanted)
    driver = _ExportDriver(decompositions, len(names))
    with contextlib.nullcontext() if trace_joint else no_grad():
        _C._AotFunction(call, driver, tensors).compile(*args)
    _, in_spec = pytree.tree_flatten((tuple(args), kwargs or {}))
    return driver.module, _signature(driver.module, driver, mod, names, wanted, output_loss_index if trace_joint else None, in_spec)
