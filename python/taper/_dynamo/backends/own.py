"""The built-in back ends: `eager` runs the graph as it is, `aot_eager` through ahead-of-time autograd, `inductor` (the default
one, under the name programs ask for) as a plan in C."""
from ... import _C
from .registry import register_backend


@register_backend(tags=["debug"])
def eager(gm, example_inputs):
    return gm.forward


@register_backend(tags=["debug"])
def aot_eager(gm, example_inputs):
    from ..._functorch.aot_autograd import aot_module_simplified
    from ..._functorch.compilers import nop

    return aot_module_simplified(gm, example_inputs, fw_compiler=nop, bw_compiler=nop)


@register_backend
def inductor(gm, example_inputs, **options):
    from ...fx.experimental.proxy_tensor import make_fx

    if any(node.op == "call_function" and node.target is _C._set_grad_enabled for node in gm.graph.nodes):
        return gm.forward           # a plan runs under one grad mode
    traced = make_fx(gm, tracing_mode="fake", _allow_non_fake_inputs=True, pre_dispatch=True)(*example_inputs)
    return _C._capture._Plan(traced.graph, traced)
