"""Nested containers as leaves and a spec. The work is done in C; here are the names, the keys of paths and the JSON form."""
import functools
import importlib
import types
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar

from .. import _C
from .._C import LeafSpec, TreeSpec

PyTree = Any
Context = Any
PyTreeSpec = TreeSpec
KeyEntry = Any
KeyPath = tuple
T = TypeVar("T")

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"

tree_flatten = _C._pytree_flatten
tree_leaves = _C._pytree_leaves
tree_structure = _C._pytree_structure
tree_unflatten = _C._pytree_unflatten
tree_map = _C._pytree_map
_LEAF_SPEC = tree_structure(0)


# ---- keys of paths ----
class _Key:
    """One step of a path: a frozen record of one field. No dataclass, for those import `inspect` and are compiled at import."""
    __slots__ = ()

    def _field(self):
        return getattr(self, self.__slots__[0])

    def __eq__(self, other):
        return self._field() == other._field() if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash((self._field(),))

    def __repr__(self):
        return f"{type(self).__qualname__}({self.__slots__[0]}={self._field()!r})"

    def __setattr__(self, name, value):
        from dataclasses import FrozenInstanceError
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name):
        from dataclasses import FrozenInstanceError
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self):
        return type(self), (self._field(),)


class SequenceKey(_Key, Generic[T]):
    __slots__ = ("idx",)

    def __init__(self, idx):
        object.__setattr__(self, "idx", idx)

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


class MappingKey(_Key, Generic[T]):
    __slots__ = ("key",)

    def __init__(self, key):
        object.__setattr__(self, "key", key)

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


class GetAttrKey(_Key):
    __slots__ = ("name",)

    def __init__(self, name):
        object.__setattr__(self, "name", name)

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


_C._pytree_set_keys(SequenceKey, MappingKey, GetAttrKey)


def keystr(kp):
    """A path as Python would write it: ['a'][0].x"""
    return "".join(str(k) for k in kp)


def key_get(obj, kp):
    for k in kp:
        obj = k.get(obj)
    return obj


# ---- types that nest ----
class NodeDef(NamedTuple):
    type: Any
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Optional[Callable] = None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: Optional[Callable]
    from_dumpable_context: Optional[Callable]


class ConstantNode(NamedTuple):
    value: Any


SUPPORTED_NODES = _C._pytree_nodes
SUPPORTED_SERIALIZED_TYPES = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {}
CONSTANT_NODES = set()
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})


def is_namedtuple_class(cls):
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple) and callable(getattr(cls, "_make", None))


def is_namedtuple(obj):
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls):
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "n_sequence_fields", None), int)


def is_structseq_instance(obj):
    return is_structseq_class(type(obj))


def is_structseq(obj):
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _register(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None, from_dumpable_context=None,
              flatten_with_keys_fn=None):
    if cls in SUPPORTED_SERIALIZED_TYPES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) ^ (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    name = NO_SERIALIZED_TYPE_NAME_FOUND if serialized_type_name is None else serialized_type_name
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    _register(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name, to_dumpable_context=to_dumpable_context,
              from_dumpable_context=from_dumpable_context, flatten_with_keys_fn=flatten_with_keys_fn)


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(cls, flatten_fn, unflatten_fn, **options):
    warnings.warn("`torch.utils._pytree._register_pytree_node` is deprecated. Please use `torch.utils._pytree.register_pytree_node` instead.",
                  FutureWarning, stacklevel=2)
    options.pop("to_str_fn", None), options.pop("maybe_from_str_fn", None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls):
    definition = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(definition.serialized_type_name, None)
    del SUPPORTED_NODES[cls]
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls, *, serialized_type_name):
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """A dataclass whose fields are children; a field that is None is left out and remembered."""
    if field_names is None:
        import dataclasses

        field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in (drop_field_names or ())]

    def split(obj):
        values = [(name, getattr(obj, name)) for name in field_names]
        present = [(name, value) for name, value in values if value is not None]
        return present, [[name for name, _ in present], [name for name, value in values if value is None]]

    def flatten(obj):
        present, context = split(obj)
        return [value for _, value in present], context

    def flatten_with_keys(obj):
        present, context = split(obj)
        return [(GetAttrKey(name), value) for name, value in present], context

    def unflatten(values, context):
        present, absent = context
        return cls(**dict(zip(present, values)), **dict.fromkeys(absent))

    _register(cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys)


def register_constant(cls):
    """Instances have no children: they are part of the spec."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None or cls.__hash__ is object.__hash__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    _register(cls, lambda x: ([], ConstantNode(x)), lambda _, context: context.value, flatten_with_keys_fn=lambda x: ([], ConstantNode(x)))
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _with_keys(key):
    def flatten(obj):
        children, context = _C._pytree_open(obj)
        return [(key(obj, i), child) for i, child in enumerate(children)], context

    return flatten


def _namedtuple_serialize(context):
    if context not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. "
                                  "Please register using `_register_namedtuple`.")
    name = SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name
    if name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(f"Can't serialize TreeSpec of namedtuple class {context} because we couldn't find a serializated_type_name. "
                                  "Please register using `_register_namedtuple`.")
    return name


def _namedtuple_deserialize(text):
    if text not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Can't deserialize TreeSpec of namedtuple class {text} because we couldn't find a serializated name.")
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[text]


def _defaultdict_serialize(context):
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys}


def _defaultdict_deserialize(context):
    module = importlib.import_module(context["default_factory_module"])
    return [getattr(module, context["default_factory_name"]), context["dict_context"]]


def _register_builtins():
    by_index, by_name = lambda _, i: SequenceKey(i), lambda obj, i: GetAttrKey(type(obj)._fields[i])
    by_key = lambda obj, i: MappingKey(list(obj)[i])  # noqa: E731
    for cls, key, name, dump, load in (
        (list, by_index, "builtins.list", None, None), (tuple, by_index, "builtins.tuple", None, None),
        (dict, by_key, "builtins.dict", None, None), (OrderedDict, by_key, "collections.OrderedDict", None, None),
        (defaultdict, by_key, "collections.defaultdict", _defaultdict_serialize, _defaultdict_deserialize),
        (deque, by_index, "collections.deque", None, None),
        (namedtuple, by_name, "collections.namedtuple", _namedtuple_serialize, _namedtuple_deserialize),
    ):
        _register(cls, _C._pytree_open, functools.partial(lambda cls, children, context: _C._pytree_close(cls, children, context), cls),
                  serialized_type_name=name, to_dumpable_context=dump, from_dumpable_context=load, flatten_with_keys_fn=_with_keys(key))


_register_builtins()


def _get_node_type(tree):
    return namedtuple if type(tree) not in SUPPORTED_NODES and is_namedtuple_instance(tree) else type(tree)


# ---- what is said in a few words of the above ----
def tree_is_leaf(tree, is_leaf=None):
    return _C._pytree_is_leaf(tree) or (is_leaf is not None and is_leaf(tree))


_is_leaf = tree_is_leaf


def tree_iter(tree, is_leaf=None):
    yield from tree_leaves(tree, is_leaf)


def arg_tree_leaves(*args, **kwargs):
    return tree_leaves((args, kwargs))


def tree_map_(func, tree, *rests, is_leaf=None):
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(type_or_types_or_pred, /):
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        pred = lambda x: isinstance(x, type_or_types_or_pred)  # noqa: E731
    elif callable(type_or_types_or_pred):
        pred = type_or_types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: lambda x: func(x) if pred(x) else x


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    return _C._pytree_broadcast(tree, treespec, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return _C._pytree_leaves_with_path(tree, is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    return _C._pytree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    paths, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(paths, *others)])


def treespec_leaf():
    return _LEAF_SPEC


def treespec_tuple(iterable=(), /):
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs):
    given = dict(mapping, **kwargs)
    return TreeSpec(dict, list(given), list(given.values()))


class _Asterisk:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))


# ---- specs as text ----
def _json():
    """Imported when a spec is written or read: every compiled program needs trees, hardly one needs their text."""
    import json
    return json


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    definition = SUPPORTED_SERIALIZED_TYPES[spec.type]
    if definition.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call with a "
                                  "`serialized_type_name` kwarg.")
    if definition.to_dumpable_context is not None:
        context = definition.to_dumpable_context(spec.context)
    else:
        try:
            context = _json().dumps(spec.context)
        except TypeError as e:
            raise TypeError("Unable to serialize context. Please make the context json dump-able, or register a custom serializer using "
                            "_register_pytree_node.") from e
    return {"type": definition.serialized_type_name, "context": context, "children_spec": [_to_json(c) for c in spec.children()]}


def _from_json(schema):
    if schema["type"] is None and schema["context"] is None and not schema["children_spec"]:
        return _LEAF_SPEC
    if schema["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {schema['type']} in pytree is not registered.")
    definition = SUPPORTED_SERIALIZED_TYPES[SERIALIZED_TYPE_TO_PYTHON_TYPE[schema["type"]]]
    load = definition.from_dumpable_context or _json().loads
    return TreeSpec(definition.typ, load(schema["context"]), [_from_json(c) for c in schema["children_spec"]])


def treespec_dumps(treespec, protocol=None):
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got item of type {type(treespec)}.")
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]")
    return _json().dumps((protocol, _to_json(treespec)))


def treespec_loads(serialized):
    protocol, schema = _json().loads(serialized)
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]")
    return _from_json(schema)


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads
