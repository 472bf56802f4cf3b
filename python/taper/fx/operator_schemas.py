"""Signatures of what nodes call, and arguments spelled by them."""
import inspect
import numbers
import sys
import typing

from .. import _C
from .._tensor import Tensor
from .node import _get_qualified_name

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "create_type_hint", "type_matches",
           "normalize_function", "normalize_module"]


class ArgsKwargsPair(typing.NamedTuple):
    """Arguments by place, and by name."""
    args: tuple
    kwargs: dict


_TYPES = {"Tensor": Tensor, "int": int, "SymInt": int, "float": float, "bool": bool, "str": str, "Scalar": numbers.Number, "number": numbers.Number,
          "Device": _C.device, "Generator": _C.Generator}


def _package():
    return sys.modules[__name__.partition(".")[0]]


def _type_of(schema_type):
    """The Python type that a schema's type names."""
    text = str(schema_type)
    if text.startswith("Optional[") and text.endswith("]"):
        return typing.Optional[_type_of(text[9:-1])]
    if text.endswith("?"):
        return typing.Optional[_type_of(text[:-1])]
    if text.startswith("List[") and text.endswith("]"):
        return typing.List[_type_of(text[5:-1])]
    if text.endswith("]"):
        return typing.List[_type_of(text[:text.rindex("[")])]
    return _TYPES.get(text.partition("(")[0], typing.Any)


_torchscript_type_to_python_type = _type_of


def _signature(schema):
    """A schema as inspect has it: `self` is called input there, as in the functions of the package."""
    made, names = [], {argument.name for argument in schema.arguments}
    for argument in schema.arguments:
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        name = "input" if argument.name == "self" and "input" not in names else argument.name
        made.append(inspect.Parameter(name, kind, default=default, annotation=_type_of(argument.type)))
    gives = [_type_of(result.type) for result in schema.returns]
    return inspect.Signature(made, return_annotation=tuple(gives) if len(gives) > 1 else gives[0] if gives else None)


# Functions that do something of their own before they call an op of their name.
_MORE_THAN_OPS = ("cdist", "istft", "lu", "norm", "stft", "tensordot", "unique", "unique_consecutive", "unravel_index")


def _stands_for_op(op, name):
    """Is it a function of the root that does what the op of its name does?"""
    return inspect.isfunction(op) and name not in _MORE_THAN_OPS and getattr(_package(), name, None) is op


def _is_op(op):
    return inspect.isbuiltin(op) or hasattr(op, "_schema") or hasattr(op, "overloads")


def _schemas_of(op):
    """The schemas behind a function of the package, an op or one of its overloads; None: it has none."""
    package = _package()
    if hasattr(op, "_schema"):
        return [op._schema]
    if hasattr(op, "overloads"):
        return [getattr(op, name)._schema for name in op.overloads()]
    name = getattr(op, "__name__", None)
    if name is None or not (inspect.isbuiltin(op) or _stands_for_op(op, name)) or not hasattr(package.ops.aten, name):
        return None
    packet = getattr(package.ops.aten, name)
    return [getattr(packet, overload)._schema for overload in packet.overloads()]


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of an op's overloads; None for what is no op."""
    if isinstance(op, str):
        raise TypeError(f"an op is wanted, not its name {op!r}")
    schemas = _schemas_of(op)
    signatures = None if schemas is None else [_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def create_type_hint(x):
    """The type of a list or tuple of types: list[int] of [int, int]."""
    if isinstance(x, (list, tuple)):
        make = (lambda kind: list[kind]) if isinstance(x, list) else (lambda kind: tuple[kind, ...])
        if not x:
            return make(typing.Any)
        base = x[0]
        for one in x:
            if issubclass(base, one):
                base = one
            elif not issubclass(one, base):
                return make(typing.Any)
        return make(base)
    return x


def type_matches(signature_type, argument_type):
    """May an argument of this type stand where the signature has that one?"""
    if signature_type is argument_type or signature_type is inspect.Parameter.empty:
        return True
    origin, inner = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin is typing.Union:
        return any(type_matches(one, argument_type) for one in inner)
    if origin is list and typing.get_origin(argument_type) in (list, tuple):
        return all(type_matches(inner[0], one) for one in typing.get_args(argument_type) if one is not ...)
    if origin is list and inner == (int,) and argument_type is int:
        return True
    if signature_type is numbers.Number and argument_type in (int, float, bool, complex):
        return True
    return inspect.isclass(signature_type) and inspect.isclass(argument_type) and issubclass(argument_type, signature_type)


def check_for_mutable_operation(target, args, kwargs):
    """Raises when a call writes into an argument, which symbolic execution would get wrong."""
    schemas = _schemas_of(target) or []
    for schema in schemas:
        written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
        if written and _binds(_signature(schema), args, kwargs):
            raise RuntimeError(f"Tried to trace mutable operation {schema}. FX only supports functional code, so operations that mutate "
                               "operands in-place (e.g. via `out` arguments) are not supported")


def _binds(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _fits(signature, arg_types, kwarg_types):
    bound = signature.bind(*arg_types, **(kwarg_types or {})).arguments
    return all(type_matches(signature.parameters[name].annotation, create_type_hint(kind)) for name, kind in bound.items())


def _chosen(target, signatures, args, kwargs, arg_types, kwarg_types):
    """The one signature that the arguments fit; None: none does."""
    fitting = [one for one in signatures if _binds(one, args, kwargs)]
    if len(fitting) > 1 and (arg_types is not None or kwarg_types is not None):
        fitting = [one for one in fitting if _binds(one, arg_types or (), kwarg_types or {}) and _fits(one, arg_types or (), kwarg_types)][:1]
    elif len(fitting) > 1:
        told = "\n".join(map(str, fitting))
        raise RuntimeError(f"Tried to normalize arguments to {_get_qualified_name(target)} but the schema match was ambiguous! Please provide "
                           f"argument types to the normalize_arguments() call. Available schemas:\n{told}")
    return fitting[0] if fitting else None


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """The arguments of a call, those not given by place by name, with defaults; None: the signature is not known."""
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target) if _is_op(target) else None
    if signatures is None:
        try:
            signature = inspect.signature(inspect.unwrap(target))
        except (TypeError, ValueError):
            return None
    else:
        signature = _chosen(target, signatures, args, kwargs, arg_types, kwarg_types)
    return None if signature is None else _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs)


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """The same for the call of a submodule of the package."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have that target!") from error
    if getattr(_package().nn, type(module).__name__, None) is not type(module):
        return None
    return _args_kwargs_to_normalized_args_kwargs(inspect.signature(inspect.unwrap(type(module).forward).__get__(module)), args, kwargs or {},
                                                  normalize_to_only_use_kwargs)


def _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(one.kind not in kinds for one in signature.parameters.values()) or not _binds(signature, args, kwargs):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    placed, named = [], {}
    for i, name in enumerate(signature.parameters):
        if i < len(args) and not normalize_to_only_use_kwargs:
            placed.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(placed), named)


def _normalized_arguments(node, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """Node.normalized_arguments."""
    if node.op == "call_function":
        return normalize_function(node.target, node.args, node.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
    if node.op == "call_module":
        return normalize_module(root, node.target, node.args, node.kwargs, normalize_to_only_use_kwargs)
    return None
