"""torch.ops: namespaces, packets of overloads, overloads. Calls go straight to the extension."""
import sys
import types

from . import _C

_TYPES = (
    "Tensor Scalar int SymInt float bool str ScalarType Layout Device MemoryFormat Generator Storage Dimname Stream Any"
).split()
_package = __name__.rsplit(".", 1)[0]


class _Type:
    """The type of an argument: prints as schemas do, and names itself as TorchScript does."""

    def __init__(self, name, list=False, optional=False, items_optional=False, length=0):
        self.name, self.list, self.optional, self.items_optional, self.length = name, list, optional, items_optional, length

    def __str__(self):
        inner = {"Scalar": "number", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}.get(self.name, self.name)
        if self.items_optional:
            inner = f"Optional[{inner}]"
        if self.list:
            inner = f"List[{inner}]"
        return f"Optional[{inner}]" if self.optional else inner

    __repr__ = __str__

    @property
    def annotation_str(self):
        return str(self)

    def kind(self):
        if self.optional:
            return "OptionalType"
        if self.list:
            return "ListType"
        return {"Tensor": "TensorType", "int": "IntType", "SymInt": "SymIntType", "float": "FloatType", "bool": "BoolType",
                "str": "StringType", "Scalar": "NumberType", "Device": "DeviceObjType"}.get(self.name, self.name + "Type")

    def getElementType(self):
        if self.optional:
            return _Type(self.name, self.list, False, self.items_optional, self.length)
        if self.list:
            return _Type(self.name, False, self.items_optional)
        raise RuntimeError(f"{self} has no element type")

    def __eq__(self, other):
        return isinstance(other, _Type) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class _AliasInfo:
    def __init__(self, letter, is_write):
        self.is_write = is_write
        self.before_set = self.after_set = {chr(letter)} if letter else set()


class Argument:
    def __init__(self, parts):
        (self.name, kind, is_list, optional, items_optional, self.kwarg_only, written, self._has_default, alias,
         self.default_value, length) = parts
        self.name = self.name or ""
        self.N = length or None
        self.type = self.real_type = _Type(_TYPES[kind], is_list, optional, items_optional, length)
        self.alias_info = _AliasInfo(alias, written) if alias else None
        self.is_out = self.kwarg_only and written

    def has_default_value(self):
        return self._has_default

    def __repr__(self):
        return f"{self.type} {self.name}"


class FunctionSchema:
    """A schema: its text and its parts."""

    def __init__(self, text, space, name, overload, arguments, returns):
        self._text = text
        self.name = f"{space}::{name}"
        self.overload_name = overload
        self.arguments = [Argument(a) for a in arguments]
        self.returns = [Argument(r) for r in returns]
        self.is_vararg = self.is_varret = False

    @property
    def is_mutable(self):
        return any(a.alias_info is not None and a.alias_info.is_write for a in self.arguments)

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


class OperatorBase:
    """What overloads and higher-order operators have in common: rules registered from Python."""


class OpOverload(_C._OpOverloadBase, OperatorBase):
    """One overload of an op: torch.ops.aten.add.Tensor."""

    @property
    def _overloadname(self):
        return self._overload_text or "default"

    @property
    def _opname(self):
        return self._name_only

    @property
    def __name__(self):
        return f"{self._name_only}.{self._overloadname}"

    @property
    def __module__(self):
        return f"{__name__}.{self.namespace}"

    @property
    def _qualified_op_name(self):
        return f"{self.namespace}::{self._name_only}"

    @property
    def overloadpacket(self):
        return getattr(getattr(ops, self.namespace), self._name_only)

    @property
    def op(self):
        return self

    _op = op

    @property
    def _schema(self):
        known = self.__dict__.get("_schema_object")
        if known is None:
            known = self.__dict__["_schema_object"] = FunctionSchema(self._schema_text, *self._parts())
        return known

    @property
    def tags(self):
        known = self.__dict__.get("_tags")
        if known is None:
            from ._tags import tags_of

            given = (_C._library_kernels(self) or {}).get("__tags__", ())
            known = self.__dict__["_tags"] = tags_of(self) + list(given)
        return known

    def name(self):
        return self._qualified_op_name + ("." + self._overload_text if self._overload_text else "")

    @property
    def is_view(self):
        return self._kind == 8

    def _can_decompose(self):
        return self._has_decomposition

    def has_kernel_for_dispatch_key(self, key):
        table = _C._library_kernels(self)
        return table is None or str(key) in table

    def py_impl(self, key):
        def register(function):
            self.py_kernels[key] = function
            return function

        return register

    @property
    def py_kernels(self):
        return self.__dict__.setdefault("_py_kernels", {})

    def redispatch(self, keyset, *args, **kwargs):
        return self(*args, **kwargs)

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._name_only}', overload='{self._overloadname}')>"

    def __str__(self):
        return f"{self.namespace}.{self._name_only}.{self._overloadname}"

    def __deepcopy__(self, memo=None):
        return self

    def __copy__(self):
        return self

    def __hash__(self):
        return hash(self.name())

    def __reduce__(self):
        return (_find_overload, (self.namespace, self._name_only, self._overload_text))


def _find_overload(space, name, overload):
    return getattr(getattr(getattr(ops, space), name), overload or "default")


class HigherOrderOperator(OperatorBase):
    """An operator that takes functions, graphs or other operators. A subclass says in `__call__` what it does."""

    def __init__(self, name, *, cacheable=False):
        self._name = self.__name__ = name
        self.namespace = "higher_order"
        self.__module__ = f"{_package}.ops.higher_order"
        setattr(ops.higher_order, name, self)

    @property
    def py_kernels(self):
        return self.__dict__.setdefault("_py_kernels", {})

    def name(self):
        return self._name

    def py_impl(self, key):
        def register(function):
            self.py_kernels[key] = function
            return function

        return register

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"the operator {self._name} is not implemented in Taper yet")

    def __str__(self):
        return self._name


class _GraphsOperator(_C._OpOverloadBase, HigherOrderOperator):
    """One that the op table has: torch.ops.higher_order.cond and its like."""

    __call__ = _C._OpOverloadBase.__call__

    @property
    def _name(self):
        return self._name_only

    __name__ = _name

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return (_find_higher, (self._name_only,))


def _find_higher(name):
    return getattr(ops.higher_order, name)


_C._set_overload_classes(OpOverload, _GraphsOperator)


class OpOverloadPacket:
    """All overloads of a name; a call takes the first that fits."""

    def __init__(self, space, name):
        self._space, self.__name__ = space, name
        self._qualified_op_name = f"{space}::{name}"
        self.__module__ = f"{__name__}.{space}"

    @property
    def _overload_names(self):
        return _C._op_overload_names(self._space, self.__name__)

    def overloads(self):
        return [n or "default" for n in self._overload_names]

    def __getattr__(self, name):
        if name.startswith("__") or name == "_space":
            raise AttributeError(f"'{name}' is not an attribute of an OpOverloadPacket")
        found = _C._op_overload(self._space, self.__dict__["__name__"], "" if name == "default" else name)
        if found is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        self.__dict__[name] = found
        return found

    @property
    def op(self):
        return self

    _op = op

    @property
    def _schemas(self):
        return {n: getattr(self, n or "default")._schema for n in self._overload_names}

    def __call__(self, *args, **kwargs):
        given = (*args, *kwargs.values())
        if _C._has_torch_function(given) or any(_C._has_torch_function(a) for a in given if type(a) in (list, tuple)):
            given = [one for a in given for one in (a if type(a) in (list, tuple) else (a,))]
            return _C._handle_torch_function(self, given, *args, **kwargs)
        overloads = [getattr(self, n or "default") for n in self._overload_names]
        if len(overloads) == 1:
            return overloads[0](*args, **kwargs)
        for overload in overloads:
            if overload._fits(args, kwargs):
                return overload(*args, **kwargs)
        reasons = []
        for overload in overloads:
            try:
                overload(*args, **kwargs)
            except Exception as error:
                reasons.append(str(error))
        raise RuntimeError("Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n\n".join(reasons) + "\n\n")

    def __dir__(self):
        return [*super().__dir__(), *self.overloads()]

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._space}.{self.__name__}')>"

    def __str__(self):
        return f"{self._space}.{self.__name__}"

    def __hash__(self):
        return hash(self._qualified_op_name)

    def __eq__(self, other):
        return self is other

    def __iter__(self):
        return iter(self.overloads())

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return (_find_packet, (self._space, self.__name__))


def _find_packet(space, name):
    return getattr(getattr(ops, space), name)


def _higher(namespace, name):
    """An operator that takes functions, which the op table has, or one that takes operators, which registers itself."""
    found = _C._op_overload("higher_order", name, "")
    if found is None and not name.startswith("__"):
        import importlib

        importlib.import_module(_package + "._higher_order_ops")
        found = namespace.__dict__.get(name)
    return found


class _OpNamespace(types.ModuleType):
    """torch.ops.aten and its like."""

    def __init__(self, name):
        super().__init__(f"{_package}.ops.{name}")
        self.__dict__["_space"] = name

    def __getattr__(self, name):
        space = self.__dict__["_space"]
        if space == "higher_order":
            found = _higher(self, name)
        else:
            found = OpOverloadPacket(space, name) if _C._op_overload_names(space, name) else None
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{name}'")
        setattr(self, name, found)
        return found

    def __dir__(self):
        prefix = self._space + "::"
        return sorted({n[len(prefix):].split(".")[0] for n in _C._dispatch_get_all_op_names() if n.startswith(prefix)})


class _Ops(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        space = _OpNamespace(name)
        setattr(self, name, space)
        return space

    def load_library(self, path):
        raise NotImplementedError("ops.load_library is not implemented in Taper yet")

    def import_module(self, module):
        import importlib

        importlib.import_module(module)


class _Classes(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"classes.{name}: TorchScript classes are not implemented in Taper yet")


ops = _Ops(_package + ".ops")
classes = _Classes(_package + ".classes")
sys.modules[ops.__name__] = ops
