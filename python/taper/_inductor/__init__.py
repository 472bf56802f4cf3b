"""The default back end under the name of PyTorch's: graphs become plans in C. Its many options are not there."""

__all__ = ["compile", "list_mode_options", "list_options"]


def compile(gm, example_inputs, options=None):
    """A callable that runs the graph as a plan."""
    if options:
        raise NotImplementedError(f"torch._inductor.compile: Taper has no option {next(iter(options))!r}")
    from .._dynamo.backends.own import inductor

    return inductor(gm, example_inputs)


def list_options():
    return []


def list_mode_options(mode=None, dynamic=None):
    return {}
