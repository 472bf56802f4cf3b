"""torch.compile."""


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """The callable, captured when it is called and run by a back end; what cannot be captured runs as it is, unless `fullgraph`."""
    from ._dynamo import optimize
    from ._dynamo.options import backend_for, check_dynamic

    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return lambda fn: compile(fn, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    check_dynamic(dynamic)
    backend = backend_for(backend, mode, options)
    return optimize(backend=backend, nopython=fullgraph, dynamic=dynamic, disable=disable)(model)
