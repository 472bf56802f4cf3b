"""Handles of registered hooks, and the pair of identity nodes that full backward hooks hang on."""
import warnings
import weakref
from collections import OrderedDict

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks", "BackwardHook"]


class RemovableHandle:
    """Removes one hook from its dictionary (and from dictionaries keyed alike). Holds them weakly."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if extra_dict is None:
            extras = ()
        elif isinstance(extra_dict, dict):
            extras = (extra_dict,)
        else:
            extras = extra_dict
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self):
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state):
        # A dictionary that was gone when the handle was written is replaced by one that is gone from the start.
        hooks, self.id = state[0], state[1]
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extras = state[2] if len(state) > 2 else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if extra is None else extra) for extra in extras)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.remove()


def unserializable_hook(function):
    """Marks a hook that is dropped, with a warning, when its tensor is written to a file."""
    function.__torch_unserializable__ = True
    return function


def warn_if_has_hooks(tensor):
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


class BackwardHook:
    """Runs a module's full backward hooks for one call of the module.

        args -> identity A -> forward -> identity B -> result

    The gradient that reaches B is grad_output: the pre-hooks see it first and may replace it. The gradient that leaves
    A is grad_input: the hooks run then, with both. Where no argument needs a gradient there is no A, and the hooks run
    at B with grad_input all None.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.has_input_node = False
        self.argument_count = 0

    def setup_input_hook(self, args):
        from ..nn.modules._hooks import pass_through

        self.argument_count = len(args)
        args, node, where = pass_through(self.module, args)
        if node is not None:
            self.has_input_node = True
            node.register_hook(lambda grad_input, _: self._leave_input(grad_input, where))
        return args

    def setup_output_hook(self, result):
        from .._root import torch
        from ..nn.modules._hooks import pass_through

        single = isinstance(result, torch.Tensor)
        if not single and not isinstance(result, tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=2,
            )
            return result
        outputs, node, where = pass_through(self.module, (result,) if single else result)
        if node is None:
            return result
        count = len(outputs)
        node.register_prehook(lambda grad_output: self._enter_output(grad_output, where, count))
        return outputs[0] if single else outputs

    def _enter_output(self, grad_output, where, count):
        grads = _spread(grad_output, where, count)
        changed = False
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is None:
                continue
            if len(replaced) != count:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(replaced)}, but expected {count}"
                )
            grads, changed = replaced, True
        self.grad_outputs = grads
        if not self.has_input_node:
            self._run_without_input()
        if changed:
            return tuple(grads[i] for i in where)
        return None

    def _run_without_input(self):
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=5,
        )
        grads = (None,) * self.argument_count
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, self.grad_outputs)
            if replaced is not None and any(grad is not None for grad in replaced):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None

    def _leave_input(self, grad_input, where):
        if self.grad_outputs is None:
            return None
        grads = _spread(grad_input, where, self.argument_count)
        changed = False
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, self.grad_outputs)
            if replaced is None:
                continue
            if len(replaced) != self.argument_count:
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(replaced)}, but expected {self.argument_count}"
                )
            grads, changed = replaced, True
        self.grad_outputs = None
        return tuple(grads[i] for i in where) if changed else None


def _spread(grads, where, count):
    """Puts the gradients of the tensors at positions `where` among `count` arguments; the others have None."""
    full = [None] * count
    for i, grad in zip(where, grads):
        full[i] = grad
    return tuple(full)
