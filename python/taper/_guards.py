"""What the parts of the compiler share while one of them traces: where a value comes from, and which fake mode is on."""
import dataclasses

from . import _C
from .utils._pytree import tree_leaves


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a value comes from; `name` is Python that finds it again."""

    @property
    def name(self):
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ChainedSource(Source):
    base: Source


def detect_fake_mode(inputs=None):
    """The mode of the fake tensors among the inputs, which must be one, or the mode that is on; None where there is neither."""
    found = None
    mode, outside = _C._leave_fake()
    _C._enter_fake_again(outside)
    if mode is not None:
        found = (mode, "active fake mode", 0)
    for i, leaf in enumerate(tree_leaves(inputs)):
        of = getattr(leaf, "fake_mode", None) if _C._is_fake(leaf) else None
        if of is not None and found is not None and found[0] is not of:
            raise AssertionError(f"fake mode ({found[0]}) from {found[1]} {found[2]} doesn't match mode ({of}) from fake tensor input {i}")
        if of is not None and found is None:
            found = (of, "fake tensor input", i)
    return found and found[0]


def active_fake_mode():
    mode, outside = _C._leave_fake()
    _C._enter_fake_again(outside)
    return mode
