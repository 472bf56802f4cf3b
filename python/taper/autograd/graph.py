"""Nodes and edges of the tape, and hooks on what it saves."""
import functools
import threading
from collections import namedtuple

from .. import _C
from .._options import refuse
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
        refuse("save_on_cpu", pin_memory=(pin_memory, False))
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


class _Handles:
    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn once in each backward: with the gradients of all these tensors, None for those it does not reach, or with the first of any."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock, tensors = threading.Lock(), list(tensors)
    if mode == "any":
        done = set()

        def first(grad):
            number = _C._current_graph_task_id()
            with lock:
                if number in done:
                    return
                done.add(number)
            fn(grad)

        return _Handles(t.register_hook(first) for t in tensors)
    if not all(t.requires_grad for t in tensors):
        raise AssertionError("Expected gradient function to be set")
    nodes = [get_gradient_edge(t).node for t in tensors]
    waiting = {}                # number of a backward -> [gradients still to come, the gradients]

    def hook(i, grad):
        number = _C._current_graph_task_id()
        with lock:
            if number not in waiting:
                waiting[number] = [sum(_C._will_engine_execute_node(n) for n in nodes), [None] * len(tensors)]
            entry = waiting[number]
            entry[0] -= 1
            entry[1][i] = grad
            if entry[0]:
                return
            del waiting[number]
        fn(entry[1])

    return _Handles(t.register_hook(functools.partial(hook, i)) for i, t in enumerate(tensors))
