"""checkpoint: a part of a model keeps its inputs alone and is run again when its gradients are wanted."""
import contextlib
import itertools
import warnings
import weakref

from .. import _C, random
from .._tensor import Tensor
from ..autograd import Function, backward
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity", "detach_variable",
           "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop", "DefaultDeviceType",
           "set_checkpoint_debug_enabled"]

_EXPLICITLY = ("use_reentrant=False is recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
               "Refer to docs for more details on the differences between the two variants.")
_TIP = """

Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint\u2011debug mode globally.
"""
_early_stop = True


class CheckpointError(RuntimeError):
    pass


class _Enough(Exception):
    """Everything that is missing was computed again."""


class DefaultDeviceType:
    """The kind of device whose generators a checkpoint keeps, beside the CPU's."""
    _type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type():
        return DefaultDeviceType._type


def noop_context_fn():
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Inside, running again does or does not end as soon as nothing is missing."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    if enabled:
        raise NotImplementedError("checkpoint's debug mode is not implemented in Taper yet")
    yield


def get_device_states(*args):
    """Devices other than the CPU, and the states of their generators: there are none."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    if devices or states:
        raise NotImplementedError("generators of other devices are not implemented in Taper yet")


def detach_variable(inputs):
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs):
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=1)


class _Surroundings:
    """What a function finds when it is called, besides its arguments: the generator and autocast."""

    def __init__(self, preserve_rng_state):
        self.generator = random.get_rng_state() if preserve_rng_state else None
        self.flags = _C._autocast_flags()

    @contextlib.contextmanager
    def again(self):
        now = _C._autocast_flags()
        with random.fork_rng(enabled=self.generator is not None):
            if self.generator is not None:
                random.set_rng_state(self.generator)
            _C._set_autocast_flags(*self.flags)
            try:
                yield
            finally:
                _C._set_autocast_flags(*now)


class CheckpointFunction(Function):
    """The whole part as one node, which runs a backward of its own."""

    @staticmethod
    def forward(ctx, function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.function, ctx.around = function, _Surroundings(preserve_rng_state)
        ctx.where = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.save_for_backward(*(args[i] for i in ctx.where))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if _C._backward_of_some_inputs():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                               ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
                               "the `inputs` argument.")
        inputs = list(ctx.others)
        for i, tensor in zip(ctx.where, ctx.saved_tensors):
            inputs[i] = tensor
        inputs = detach_variable(tuple(inputs))
        with ctx.around.again(), enable_grad():
            outputs = ctx.function(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        wanted = [(out, grad) for out, grad in zip(outputs, grads) if isinstance(out, Tensor) and out.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in wanted], [grad for _, grad in wanted])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs))


class _Place:
    """Stands for a saved tensor: the number-th of its part."""
    __slots__ = ("number", "__weakref__")

    def __init__(self, number):
        self.number = number


def _metadata(tensor):
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class _Part:
    """One call of a function whose saved tensors are given up, and computed again when the first of them is asked for."""

    def __init__(self, again, check, early_stop):
        self.again, self.check, self.early_stop = again, check, early_stop
        self.places, self.facts, self.values = [], [], {}

    def pack(self, tensor):
        place = _Place(len(self.places))
        self.places.append(weakref.ref(place))
        self.facts.append(_metadata(tensor))
        return place

    def unpack(self, place):
        if place.number not in self.values:
            self.compute()
        return self.values.pop(place.number)

    def compute(self):
        found, self.values = [], {}

        def keep(tensor):
            number = len(found)
            found.append(_metadata(tensor))
            if number < len(self.places) and self.places[number]() is not None:
                self.values[number] = tensor.detach()
            if self.early_stop and len(found) == len(self.places):
                raise _Enough
            return number

        def give(number):
            return self.values[number]

        with contextlib.suppress(_Enough), saved_tensors_hooks(keep, give), enable_grad():
            self.again()
        if len(found) != len(self.places):
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {len(self.places)}\n"
                                  f"Number of tensors saved during recomputation: {len(found)}.{_TIP}")
        if self.check:
            self.compare(found)

    def compare(self, found):
        differ = "".join(f"tensor at position {i}:\nsaved metadata: {then}\nrecomputed metadata: {now}\n"
                         for i, (then, now) in enumerate(zip(self.facts, found)) if then != now)
        if differ:
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                                  f"forward pass.\n{differ}.{_TIP}")


def _without_reentering(function, args, kwargs, preserve_rng_state, context_fn, determinism_check, early_stop):
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ('default', 'none'), but got {determinism_check}")
    first, second = context_fn()
    around = _Surroundings(preserve_rng_state)

    def again():
        with around.again(), second:
            function(*args, **kwargs)

    part = _Part(again, determinism_check == "default", early_stop and _early_stop)
    with saved_tensors_hooks(part.pack, part.unpack), first:
        return function(*args, **kwargs)


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False, early_stop=True, **kwargs):
    """`function(*args, **kwargs)`, of which the backward keeps the arguments only."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
                      f"checkpoint without use_reentrant will raise an exception. {_EXPLICITLY}", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if debug:
            raise NotImplementedError("checkpoint's debug mode is not implemented in Taper yet")
        return _without_reentering(function, args, kwargs, preserve, context_fn, determinism_check, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """The functions one after another, in so many parts; the last part keeps what it needs."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In version 2.9 we "
                      f"will raise an exception if use_reentrant is not passed. {_EXPLICITLY}", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def part(start, end):
        def run(input):
            for function in itertools.islice(functions, start, end):
                input = function(input)
            return input

        return run

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(last, len(functions))(input)
