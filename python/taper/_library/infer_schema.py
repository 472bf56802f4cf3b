"""Schemas from annotations: what torch.library.infer_schema and custom_op read of a Python function."""
import collections.abc
import functools
import inspect
import typing

from .. import _C


def _lists(kind):
    return [typing.Sequence[kind], typing.List[kind], collections.abc.Sequence[kind], list[kind]]


@functools.lru_cache(None)
def _parameters():
    """{annotation: the schema's word}, in the order in which errors list them."""
    words, scalar = {}, int | float | bool
    words[_C.Tensor], words[typing.Optional[_C.Tensor]] = "Tensor", "Tensor?"
    words.update(dict.fromkeys(_lists(_C.Tensor), "Tensor[]"))
    words.update(dict.fromkeys(_lists(typing.Optional[_C.Tensor]), "Tensor?[]"))
    for kind, word in ((int, "SymInt"), (float, "float"), (bool, "bool")):
        words[kind], words[typing.Optional[kind]] = word, word + "?"
        words.update(dict.fromkeys(_lists(kind), word + "[]"))
        words.update({typing.Optional[each]: word + "[]?" for each in _lists(kind)})
    words[str], words[typing.Optional[str]] = "str", "str?"
    words[scalar], words[typing.Optional[scalar]] = "Scalar", "Scalar?"
    words.update(dict.fromkeys(_lists(scalar), "Scalar[]"))
    for kind, word in ((_C.dtype, "ScalarType"), (_C.device, "Device")):
        words[kind], words[typing.Optional[kind]] = word, word + "?"
    return words


@functools.lru_cache(None)
def _returns():
    return {_C.Tensor: "Tensor", typing.List[_C.Tensor]: "Tensor[]", list[_C.Tensor]: "Tensor[]", int: "SymInt", float: "float", bool: "bool",
            int | float | bool: "Scalar"}


def _word(annotation, words):
    try:
        return words.get(annotation)
    except TypeError:               # what cannot be hashed is no annotation of ours
        return None


def _default(name, value, fail):
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, _C.dtype):
        return str(value).rsplit(".", 1)[-1]
    return fail(f"Parameter {name} has an unsupported default value type {type(value)}. Please file an issue on GitHub so we can prioritize this.")


def _result(annotation, fail):
    if annotation is None or annotation is type(None):
        return "()"
    tupled = typing.get_origin(annotation) is tuple
    kinds = typing.get_args(annotation) if tupled else (annotation,)
    words = []
    for kind in kinds:
        word = _word(kind, _returns())
        if word is None:
            fail(f"Return has unsupported type {annotation}. The valid types are: {_returns()}.")
        words.append(word)
    if not tupled:
        return words[0]
    return f"({', '.join(words)})" if len(words) != 1 else f"(({words[0]}))"


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema that a function's annotations mean."""
    signature = inspect.signature(prototype_function)

    def fail(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. ")
    hints = typing.get_type_hints(prototype_function)
    pieces, seen, starred = [], set(), False
    for i, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not starred:
            pieces.append("*")
            starred = True
        if p.annotation is p.empty:
            fail(f"Parameter {name} must have a type annotation.")
        kind = _word(hints[name], _parameters())
        if kind is None:
            tuples = typing.get_origin(hints[name]) is tuple
            instead = f"list[{', '.join(sorted({getattr(a, '__name__', str(a)) for a in typing.get_args(hints[name])}))}]" if tuples else ""
            hint = f" We do not support Tuple inputs in schema. As a workaround, please try to use List instead. For example, {instead}.\n\n" if tuples else " "
            fail(f"Parameter {name} has unsupported type {hints[name]}.{hint}The valid types are: {_parameters().keys()}.")
        if mutates_args == "unknown" or name in mutates_args:
            if not kind.startswith("Tensor"):
                if mutates_args != "unknown":
                    fail(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            else:
                kind = kind.replace("Tensor", f"Tensor(a{i}!)", 1)
        seen.add(name)
        pieces.append(f"{kind} {name}" + ("" if p.default is p.empty else "=" + _default(name, p.default, fail)))
    if mutates_args != "unknown" and set(mutates_args) - seen:
        fail(f"{set(mutates_args) - seen} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all args that "
             "the custom op mutates, or just the string 'unknown' if you don't know.")
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(pieces)}) -> {_result(hints.get('return'), fail)}"
