"""Compilers that ahead-of-time autograd can be given: they take a GraphModule and fake inputs, and give a callable."""
from .aot_autograd import aot_function, aot_module, min_cut_rematerialization_partition

__all__ = ["nop", "print_compile", "debug_nop", "simple_ts_compile", "ts_compile", "nnc_jit", "memory_efficient_fusion", "default_decompositions",
           "get_inputs"]


def nop(fx_g, _):
    """The graph as it is."""
    return fx_g


def print_compile(fx_g, _):
    print(fx_g.code)
    return fx_g


def debug_nop(fx_g, _):
    raise NotImplementedError("debug_nop: Taper does not have it yet")


def ts_compile(fx_g, inps):
    raise NotImplementedError("ts_compile: Taper does not have it yet")


def simple_ts_compile(fx_g, _):
    raise NotImplementedError("simple_ts_compile: Taper does not have it yet")


def nnc_jit(f):
    """The function compiled, here by running its graph."""
    return aot_function(f, nop)


def _default_decompositions():
    from .._decomp import _find
    from .._ops import ops

    names = ("detach", "gelu_backward", "leaky_relu_backward", "sigmoid_backward", "threshold_backward", "hardtanh_backward",
             "hardsigmoid_backward", "hardswish_backward", "tanh_backward", "silu_backward", "elu_backward", "cudnn_batch_norm",
             "cudnn_batch_norm_backward", "masked_fill", "masked_fill_", "elu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid",
             "rsub", "native_batch_norm_backward")
    found = [getattr(ops.aten, name) for name in names if hasattr(ops.aten, name)]
    return _find(found)[0]


def __getattr__(name):
    if name == "default_decompositions":
        return _default_decompositions()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")


def memory_efficient_fusion(fn, **kwargs):
    """The function or module compiled so that little is saved for the backward."""
    options = {"fw_compiler": ts_compile, "bw_compiler": ts_compile, "partition_fn": min_cut_rematerialization_partition,
               "decompositions": _default_decompositions(), **kwargs}
    from ..nn import Module

    return aot_module(fn, **options) if isinstance(fn, Module) else aot_function(fn, **options)


def get_inputs(input_data_path):
    raise NotImplementedError("functorch.compile.get_inputs: Taper does not have it yet")
