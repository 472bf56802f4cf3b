"""functorch.compile: ahead-of-time autograd under its old names."""
from .._functorch import config  # noqa: F401
from .._functorch.aot_autograd import (  # noqa: F401
    aot_function, aot_module, aot_module_simplified, compiled_function, compiled_module, get_aot_compilation_context,
    get_aot_graph_name, get_graph_being_compiled, make_boxed_compiler, make_boxed_func)
from .._functorch.compilers import (  # noqa: F401
    debug_nop, memory_efficient_fusion, nnc_jit, nop, print_compile, simple_ts_compile, ts_compile)
from .._functorch.partitioners import default_partition, min_cut_rematerialization_partition  # noqa: F401


def __getattr__(name):
    if name == "default_decompositions":
        from .._functorch import compilers
        return compilers.default_decompositions
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
