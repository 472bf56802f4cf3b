"""Function: an op whose forward and backward are written in Python. The work is in the extension."""
import functools
import warnings

from .. import _C


class FunctionCtx(_C._FunctionBase):
    """What forward tells backward: save_for_backward, mark_dirty, needs_input_grad …"""


class BackwardCFunction(FunctionCtx):
    """The context of a Function of the program, which is also its node's face."""


class FunctionMeta(type):
    """Gives each Function a class of contexts of its own, named for the node: MyFunctionBackward."""

    def __init__(cls, name, bases, attributes):
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attributes)


def _argument_count(forward):
    """Of a plain function without varargs; None of anything else."""
    code = getattr(forward, "__code__", None)
    return code.co_argcount if code is not None and not code.co_flags & 0x0C and not code.co_kwonlyargcount else None


def _bound(forward, args, kwargs):
    """The arguments by position, defaults too: setup_context sees all that forward saw."""
    import inspect

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class Function(metaclass=FunctionMeta):
    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself. "
            "Instantiating an autograd function will raise an error in a future version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with "
            "static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
            "mode AD.")

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args, **kwargs):
        separate = cls.setup_context is not Function.setup_context
        if separate and (kwargs or len(args) != _argument_count(cls.forward)):
            args = _bound(cls.forward, args, kwargs)
        elif kwargs:
            raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
        return _C._function_apply(cls, cls._backward_cls(), separate, *args)


# vjp is another name of backward that a Function may define.
Function.vjp = Function.backward


class _Twice(Function):
    """Stands behind what a once_differentiable backward gave, and says so when somebody differentiates it."""

    @staticmethod
    def forward(ctx, *values):
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(function):
    """Marks a backward whose own gradient is not defined."""

    @functools.wraps(function)
    def wrapper(ctx, *args):
        from .. import Tensor, is_grad_enabled
        from .grad_mode import no_grad

        with no_grad():
            outputs = function(ctx, *args)
        if not is_grad_enabled() or not any(isinstance(x, Tensor) and x.requires_grad for x in args):
            return outputs
        every = outputs if isinstance(outputs, tuple) else (outputs,)
        guarded = iter(_Twice.apply(*(x.detach().requires_grad_() for x in every if x is not None)))
        every = tuple(None if x is None else next(guarded) for x in every)
        return every if isinstance(outputs, tuple) else every[0]

    return wrapper


class NestedIOFunction(Function):
    """The old form with nested inputs; not there yet."""

    @classmethod
    def apply(cls, *args, **kwargs):
        raise NotImplementedError("NestedIOFunction is not implemented in Taper yet")


class InplaceFunction(Function):
    """Remembers whether it was asked to write its arguments."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace
