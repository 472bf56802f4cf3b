"""Back ends by name, and the built-in ones: `eager` runs the graph as it is, `aot_eager` through ahead-of-time autograd, `inductor`
(the default one, under the name programs ask for) as a plan in C."""
import functools

from ... import _C

_backends = {}
_debug = set()


def register_backend(compiler_fn=None, name=None, tags=()):
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    _backends[name] = compiler_fn
    if set(tags) & {"debug", "experimental"}:
        _debug.add(name)
    return compiler_fn


def lookup_backend(compiler_fn):
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _backends:
        from ..exc import InvalidBackend

        raise InvalidBackend(name=compiler_fn)
    return _backends[compiler_fn]


def list_backends(exclude_tags=("debug", "experimental")):
    return sorted(name for name in _backends if not exclude_tags or name not in _debug)


@register_backend(tags=["debug"])
def eager(gm, example_inputs):
    return gm.forward


def _acts(gm):
    """Does the graph change the gradient mode or autocast? A plan, or a graph of ahead-of-time autograd, runs under one of them."""
    from .._words import acting

    return any(node.op == "call_function" and node.target in acting() for node in gm.graph.nodes)


@register_backend(tags=["debug"])
def aot_eager(gm, example_inputs):
    from ..._functorch.aot_autograd import aot_module_simplified
    from ..._functorch.compilers import nop

    if _acts(gm):
        return gm.forward
    return aot_module_simplified(gm, example_inputs, fw_compiler=nop, bw_compiler=nop)


@register_backend
def inductor(gm, example_inputs, **options):
    from ..._options import refuse
    from ...fx.experimental.proxy_tensor import make_fx
    refuse("the back end inductor", **{name: (value, None) for name, value in options.items()})
    if _acts(gm):
        return gm.forward
    traced = make_fx(gm.forward, tracing_mode="fake", _allow_non_fake_inputs=True, pre_dispatch=True)(*example_inputs)
    return _C._FxPlan(traced.graph, traced, fixed=True)


# ---- torch._inductor -----------------------------------------------------------------------------------------------
def compile(gm, example_inputs, options=None):
    """A callable that runs the graph as a plan."""
    if options:
        raise NotImplementedError(f"torch._inductor.compile: Taper has no option {next(iter(options))!r}")
    return inductor(gm, example_inputs)


def list_options():
    from ..options import known

    return known()


def list_mode_options(mode=None, dynamic=None):
    return {}
