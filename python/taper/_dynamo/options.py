"""Options of torch.compile: what is accepted, what is refused, and what is said of those that change nothing here."""
from .._options import warn_once

# Options of PyTorch's compiler whose neglect shows in speed, memory or messages only, and the types of their values. The last two ask
# for what holds here anyway: random numbers and casts as in eager mode.
_SPEED = {
    **dict.fromkeys((
        "epilogue_fusion epilogue_fusion_first max_autotune max_autotune_pointwise max_autotune_gemm shape_padding triton.cudagraphs "
        "triton.cudagraph_trees triton.unique_kernel_names coordinate_descent_tuning fx_graph_cache trace.enabled trace.graph_diagram debug "
        "size_asserts memory_planning reorder_for_locality conv_1x1_as_mm split_reductions benchmark_kernel aggressive_fusion pattern_matcher "
        "permute_fusion dce static_weight_shapes layout_optimization autotune_in_subproc cpp_wrapper loop_ordering_after_fusion combo_kernels "
        "b2b_gemm_pass reorder_for_compute_comm_overlap").split(), bool),
    "max_autotune_gemm_backends": str, "max_autotune_conv_backends": str, "compile_threads": int, "max_fusion_size": int, "cpp.threads": int,
}
_KEPT = {"fallback_random": bool, "emulate_precision_casts": bool}
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def known():
    return sorted({**_SPEED, **_KEPT})


def _check_option(name, value):
    attribute = name.replace("-", "_")
    types = {**_SPEED, **_KEPT}
    if attribute == "guard_filter_fn":
        raise NotImplementedError("torch.compile(options={'guard_filter_fn': ...}): Taper does not drop guards")
    if attribute not in types:
        raise RuntimeError(f"Unexpected optimization option {name}, known options are {known()}")
    if type(value) is not types[attribute]:
        raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__} should be {types[attribute].__name__}")
    if attribute in _SPEED:
        warn_once(f"torch.compile: the option {name!r} changes nothing in Taper, which has one way of running graphs", 5)


def check_dynamic(dynamic):
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if dynamic:
        warn_once("torch.compile(dynamic=True): Taper captures a function for the sizes it is called with, and again for others", 4)


def _with_arguments(backend, named):
    """A back end of the program's own gets what it was given to compile with."""
    def compiler(gm, example_inputs):
        return backend(gm, example_inputs, **named)

    compiler.__name__ = getattr(backend, "__name__", "?")
    return compiler


def backend_for(backend, mode, options):
    """The back end that heeds them."""
    if backend == "inductor":
        if mode is not None and mode not in MODES:
            raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
        if mode not in (None, "default"):
            warn_once(f"torch.compile(mode={mode!r}) changes nothing in Taper, which has one way of running graphs", 4)
        for name, value in (options or {}).items():
            _check_option(name, value)
        return backend
    named = {"mode": mode} if mode not in (None, "default") else {"options": options} if options else {}
    if named and backend in ("eager", "aot_eager"):
        warn_once(f"torch.compile: the back end {backend!r} ignores {named}", 4)
    elif named:
        from .backends.registry import lookup_backend

        return _with_arguments(lookup_backend(backend), named)
    return backend
