"""Nodes and edges of the tape, and hooks on what it saves."""
from collections import namedtuple

from .. import _C
from .._C import _NodeBase as Node

GradientEdge = namedtuple("GradientEdge", ["node", "output_nr"])


def get_gradient_edge(tensor):
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    if node is None:
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


class saved_tensors_hooks:
    """pack and unpack hooks of saved tensors."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks((self.pack_hook, self.unpack_hook))

    def __exit__(self, *error):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda t: t.cpu(), lambda t: t)


def increment_version(tensor):
    for t in (tensor if isinstance(tensor, (list, tuple)) else [tensor]):
        _C._bump_version(t)


class disable_saved_tensors_hooks:
    """Hooks of saved tensors raise with this message inside."""

    def __init__(self, error_message):
        self.error_message = error_message

    def __enter__(self):
        _C._disable_saved_hooks(self.error_message)

    def __exit__(self, *error):
        _C._pop_saved_hooks()
