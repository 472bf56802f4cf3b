"""Marks on functions: not to be captured, or to break the graph."""
import functools

from .. import _C

# Callables a capture stops at; the C side has this very set.
breaks = {print, *(f for name, f in vars(_C).items() if name.startswith("_func_"))}      # transforms call their functions themselves


def graph_break():
    """Does nothing; a capture ends here."""


breaks.add(graph_break)


def disable(fn=None, recursive=True):
    """The function is run as it is, and so is what it calls."""
    if fn is None:
        return functools.partial(disable, recursive=recursive)

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        return fn(*args, **kwargs)

    plain._torchdynamo_disable = True
    return plain


def run(fn=None):
    """Entries that exist are used, none is made."""
    raise NotImplementedError("torch._dynamo.run is not there yet")


def allow_in_graph(fn):
    """The function becomes one node of the graph instead of being followed."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    raise NotImplementedError("torch._dynamo.allow_in_graph is not there yet")


def disallow_in_graph(fn):
    breaks.add(fn)
    return fn


def forbid_in_graph(fn):
    breaks.add(fn)
    return fn
