"""Calling a module: hooks of one module, hooks of all modules, and the short way when there are none."""
import warnings
from collections import OrderedDict
from functools import partial

from ... import _C, _facades
from ..._root import torch
from ...utils.hooks import BackwardHook, RemovableHandle

_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()


def _has_any_global_hook():
    return bool(
        _global_backward_pre_hooks or _global_backward_hooks or _global_forward_pre_hooks or _global_forward_hooks
        or _global_forward_hooks_always_called or _global_forward_hooks_with_kwargs
    )


def _add_hook(hooks, hook, extra=(), prepend=False):
    handle = RemovableHandle(hooks, extra_dict=extra or None)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook):
    return _add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    return _add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    return _add_hook(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    return _add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    handle = _add_hook(
        _global_forward_hooks, hook, [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _set_global_backward_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook):
    _set_global_backward_kind(False)
    return _add_hook(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    return _add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    _set_global_backward_kind(True)
    return _add_hook(_global_backward_hooks, hook)


def _registered(hooks, module, name, value):
    """What the registration hooks make of a new member."""
    for hook in hooks.values() if hooks else ():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def _warn_old_hook(where, missing):
    warnings.warn(
        f"Using {where} is deprecated and will be removed in future versions. This hook will be missing {missing}. "
        "Please use register_full_backward_hook to get the documented behavior.",
        FutureWarning,
        stacklevel=4,
    )


def _first_tensor(result):
    while not isinstance(result, torch.Tensor):
        if isinstance(result, dict):
            result = next(value for value in result.values() if isinstance(value, torch.Tensor))
        else:
            result = result[0]
    return result


class ModuleCalls:
    """The part of Module that runs forward and everything hooked to it."""

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        handle = _add_hook(self._forward_pre_hooks, hook, [self._forward_pre_hooks_with_kwargs], prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = _add_hook(self._forward_hooks, hook, extra, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook, prepend=False):
        return _add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        self._set_backward_kind(False)
        return _add_hook(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook, prepend=False):
        self._set_backward_kind(True)
        return _add_hook(self._backward_hooks, hook, prepend=prepend)

    def _set_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self):
        """(full hooks, regular hooks), those of all modules first."""
        kinds = {True: [], False: [], None: []}
        kinds[_global_is_full_backward_hook] += _global_backward_hooks.values()
        kinds[self._is_full_backward_hook] += self._backward_hooks.values()
        return kinds[True], kinds[False]

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _wrapped_call_impl(self, *args, **kwargs):
        own = self.__dict__
        try:
            if not (
                own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
                or own["_backward_pre_hooks"] or "_compiled_call_impl" in own or _global_forward_hooks
                or _global_forward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks
            ):
                return self._slow_forward(*args, **kwargs)
        except KeyError:
            # Without Module.__init__ there are no hook dictionaries; an error of forward itself goes on its way.
            if "_backward_hooks" in own:
                raise
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_backward_hooks'") from None
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    # The question whether there is any hook is asked in C; where there is one, the function above does the rest.
    __call__ = _C._module_call(
        _wrapped_call_impl, _global_forward_hooks, _global_forward_pre_hooks, _global_backward_hooks, _global_backward_pre_hooks
    )

    def _call_impl(self, *args, **kwargs):
        called = set()
        result = None
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            full, regular = self._get_backward_hooks()
            pre = self._get_backward_pre_hooks()
            backward = BackwardHook(self, full, pre) if full or pre else None
            if backward is not None:
                args = backward.setup_input_hook(args)
            result = self._slow_forward(*args, **kwargs)
            for key, hook, with_kwargs, always in self._forward_hook_list():
                # Marked before it runs: a hook that failed is not run a second time.
                called.add(key)
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
            if backward is not None:
                result = backward.setup_output_hook(result)
            if regular:
                self._hook_grad_fn(regular, args, result)
            return result
        except Exception:
            self._run_missed_hooks(called, args, kwargs, result)
            raise

    def _run_pre_hooks(self, args, kwargs):
        hooks = [(hook, False) for hook in _global_forward_pre_hooks.values()]
        hooks += [
            (hook, key in self._forward_pre_hooks_with_kwargs) for key, hook in self._forward_pre_hooks.items()
        ]
        for hook, with_kwargs in hooks:
            if not with_kwargs:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
                continue
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                )
            args, kwargs = changed
        return args, kwargs

    def _forward_hook_list(self):
        """[(key, hook, takes keyword arguments, runs after a failure)] in the order of running."""
        every = [
            (key, hook, key in _global_forward_hooks_with_kwargs, key in _global_forward_hooks_always_called)
            for key, hook in _global_forward_hooks.items()
        ]
        return every + [
            (key, hook, key in self._forward_hooks_with_kwargs, key in self._forward_hooks_always_called)
            for key, hook in self._forward_hooks.items()
        ]

    def _run_missed_hooks(self, called, args, kwargs, result):
        for key, hook, with_kwargs, always in self._forward_hook_list():
            if not always or key in called:
                continue
            try:
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
            except Exception as error:
                kind = "global module" if key in _global_forward_hooks else "module"
                warnings.warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error}",
                    stacklevel=3,
                )

    def _hook_grad_fn(self, hooks, args, result):
        grad_fn = _first_tensor(result).grad_fn
        if grad_fn is None:
            return
        for hook in hooks:
            grad_fn.register_hook(partial(hook, self))
        self._maybe_warn_non_full_backward_hook(args, result, grad_fn)

    def _maybe_warn_non_full_backward_hook(self, inputs, result, grad_fn):
        """A regular hook sees the gradients of one autograd node only; warns where that is not the whole module."""
        single = "that does not {} a single Tensor or a tuple of Tensors"
        outputs = (result,) if isinstance(result, torch.Tensor) else result
        if not (isinstance(outputs, tuple) and all(isinstance(value, torch.Tensor) for value in outputs)):
            return _warn_old_hook(
                "non-full backward hooks on a Module " + single.format("return"), "some of the grad_output")
        inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
        if not (isinstance(inputs, tuple) and all(isinstance(value, torch.Tensor) for value in inputs)):
            return _warn_old_hook(
                "non-full backward hooks on a Module " + single.format("take as input"), "some of the grad_input")
        if len({value.grad_fn for value in outputs if value.grad_fn is not None}) > 1:
            return _warn_old_hook(
                "a non-full backward hook when outputs are generated by different autograd Nodes", "some grad_output")
        if {value.grad_fn for value in inputs if value.grad_fn is not None} != {n[0] for n in grad_fn.next_functions}:
            return _warn_old_hook(
                "a non-full backward hook when the forward contains multiple autograd Nodes", "some grad_input")
        return None

    def _slow_forward(self, *input, **kwargs):
        if _C._get_tracing_state() is None:
            return self.forward(*input, **kwargs)
        return _C._jit_forward(self, *input, **kwargs)


# ---- The identity whose autograd node carries module hooks ---------------------------------------------------------
class BackwardHookFunction(torch.autograd.Function):
    """Returns its tensors; those that need no gradient stay so."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return grads


def pass_through(module, values):
    """(values with tensors sent through the identity, its node, positions of the tensors); node None if no gradient."""
    where = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if not (torch.is_grad_enabled() and any(values[i].requires_grad for i in where)):
        return values, None, where
    outputs = BackwardHookFunction.apply(*(values[i] for i in where))
    node = next((out.grad_fn for out in outputs if out.requires_grad and out.grad_fn is not None), None)
    if node is None or type(node).__name__ != "BackwardHookFunctionBackward":
        raise RuntimeError(
            "Error while setting up backward hooks. Please open an issue with a code sample to reproduce.")
    sent = list(values)
    for i, out in zip(where, outputs):
        sent[i] = out
    kind = type(values)
    return (kind(*sent) if hasattr(values, "_fields") else tuple(sent)), node, where


_facades.settle(__name__)
