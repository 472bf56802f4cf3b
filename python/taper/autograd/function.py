"""Function: an op whose forward and backward are written in Python. The work is in the extension."""
import functools

from .. import _C


class FunctionCtx(_C._FunctionBase):
    """What forward tells backward: save_for_backward, mark_dirty, needs_input_grad …"""


class _FunctionMeta(type):
    """Gives each Function a class of contexts of its own, named for the node: MyFunctionBackward."""

    def __init__(cls, name, bases, attributes):
        cls._backward_cls = type(name + "Backward", (FunctionCtx,), {"_forward_cls": cls, "__module__": cls.__module__})
        super().__init__(name, bases, attributes)


class Function(metaclass=_FunctionMeta):
    generate_vmap_rule = False

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
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args, **kwargs):
        separate = cls.setup_context is not Function.setup_context
        if kwargs:
            raise TypeError("apply() takes no keyword arguments")
        return _C._function_apply(cls, cls._backward_cls(), separate, *args)


# vjp is another name of backward that a Function may define.
Function.vjp = Function.backward


def once_differentiable(function):
    """Marks a backward whose own gradient is not defined."""

    @functools.wraps(function)
    def wrapper(ctx, *args):
        from .grad_mode import no_grad

        with no_grad():
            return function(ctx, *args)

    return wrapper


class NestedIOFunction(Function):
    """The old form with nested inputs; not there yet."""

    @classmethod
    def apply(cls, *args, **kwargs):
        raise NotImplementedError("NestedIOFunction is not implemented in Taper yet")


InplaceFunction = Function
