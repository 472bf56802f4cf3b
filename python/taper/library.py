"""torch.library: ops that a program defines. Schemas and calls are the extension's; this keeps who defined what."""
import functools
import re
import sys
import weakref

from . import _C
from ._ops import ops

__all__ = ["Library", "define", "impl", "impl_abstract", "register_fake", "register_kernel", "register_autograd", "register_vmap", "custom_op",
           "fallthrough_kernel", "opcheck", "get_ctx", "infer_schema"]

_KEYS = {"cpu": "CPU", "meta": "Meta", "cuda": "CUDA", "default": "CompositeExplicitAutograd", "": "CompositeImplicitAutograd"}


def fallthrough_kernel():
    raise NotImplementedError("fallthrough_kernel() is a mark, not a function")


def _key(name):
    return _KEYS.get(name, name)


def _overload_of(op):
    """The overload that a name, packet or overload means."""
    if isinstance(op, str):
        space, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        return getattr(getattr(getattr(ops, space), name), overload or "default")
    return op.default if hasattr(op, "overloads") else op


def _only_once(ns, caller):
    """The text for a namespace that is the package's own."""
    return (
        f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a single "
        "TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
        "duplicated).  If you really intended to define operators for a single namespace in a distributed way, you can use "
        "TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY was registered at "
        f"{_C.__file__}; latest registration was registered at {caller.f_code.co_filename}:{caller.f_lineno}")


class Library:
    """A set of definitions in one namespace; they end with it."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "prim":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if ns in ("aten", "prims") and kind == "DEF":
            raise RuntimeError(_only_once(ns, sys._getframe(1)))
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined = []
        self._finalizer = weakref.finalize(self, _end, self._defined, ns)

    def define(self, schema, alias_analysis="", *, tags=(), _unaliased=False):
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        overload = _C._library_define(self.ns, schema, _unaliased)
        self._defined.append(overload)
        getattr(ops, self.ns).__dict__.pop(overload._name_only, None)
        return overload._name_only + ("." + overload._overload_text if overload._overload_text else "")

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        name = op_name if isinstance(op_name, str) else op_name.name()
        if "::" not in name:
            name = f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        _C._library_impl(_overload_of(name), key, fn)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        raise NotImplementedError("Library.fallback is not implemented in Taper yet")

    def _destroy(self):
        self._finalizer()


def _end(defined, ns):
    """Takes back what a library defined."""
    for overload in defined:
        getattr(ops, ns).__dict__.pop(overload._name_only, None)
        _C._library_undefine(overload)
    defined.clear()


_kept = {}


def _kept_library(ns):
    if ns not in _kept:
        _kept[ns] = Library(ns, "FRAGMENT")
    return _kept[ns]


def define(qualname, schema, *, lib=None, tags=()):
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    space, separator, name = qualname.partition("::")
    if not separator:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the torch.library '
            "APIs must consist of a namespace and a name, e.g. aten::sin")
    if not re.fullmatch(r"\(.*\) -> .*", schema, re.DOTALL):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"')
    (lib or _kept_library(space)).define(name + schema)


def impl(qualname, types, func=None, *, lib=None):
    if isinstance(qualname, Library):           # impl(library, name, key): the old form
        library, name, key = qualname, types, func or ""

        def register_old(f):
            library.impl(name, f, key)
            return f

        return register_old
    keys = (types,) if isinstance(types, str) else tuple(types)

    def register(f):
        for key in keys:
            _C._library_impl(_overload_of(qualname), _key(key), f)
        return f

    return register if func is None else register(func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    def register(f):
        _C._library_impl(_overload_of(op), "Meta", f)
        return f

    return register if func is None else register(func)


impl_abstract = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None):
    return impl(op if isinstance(op, str) else op._qualname, device_types or "default", func)


def register_vmap(op, func=None, /, *, lib=None):
    """func(info, in_dims, *args) is what the op does to batches; it gives (output, out_dims)."""

    def register(f):
        _C._library_impl(_overload_of(op._qualname if isinstance(op, CustomOpDef) else op), "FuncTorchBatched", f)
        return f

    return register if func is None else register(func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Gives an op a gradient: `setup_context(ctx, inputs, output)` keeps what `backward(ctx, *grads)` reads."""
    if not (isinstance(op, (str, CustomOpDef)) or hasattr(op, "_schema") or hasattr(op, "overloads")):
        raise ValueError(f"register_autograd({op}): got unexpected type for op: {type(op)}")
    overload = op._opoverload if isinstance(op, CustomOpDef) else _overload_of(op)
    if overload._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op} with schema {overload._schema}. Please create a functional "
            "operator and register an autograd formula for that.")
    _C._library_impl(overload, "Autograd", _autograd_kernel(overload, backward, setup_context))


def _autograd_kernel(overload, backward, setup_context):
    """What runs at autograd's place in the dispatcher: a Function around the call below it. Tensors in lists take part."""
    from .autograd import Function
    from .utils._pytree import tree_flatten, tree_unflatten

    def call(args, keywords):
        with _C._AutoDispatchBelowAutograd():
            return overload(*args, **keywords)

    class Generated(Function):
        @staticmethod
        def forward(ctx, spec, keywords, *leaves):
            args = tree_unflatten(leaves, spec)
            ctx.inputs_spec = spec
            result = call(args, keywords)
            if setup_context is not None:
                extra = {"keyword_only_inputs": keywords} if keywords else {}
                setup_context(ctx=ctx, inputs=args, output=result, **extra)
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def backward(ctx, *grads):
            if backward is None:
                raise RuntimeError(
                    f"Trying to backward through {overload} but no autograd formula was registered. Please use register_autograd to add one.")
            ctx.needs_input_grad = tree_unflatten(list(ctx.needs_input_grad[2:]), ctx.inputs_spec)
            given = backward(ctx, *grads)
            leaves, spec = tree_flatten(given if isinstance(given, tuple) else (given,), is_leaf=lambda x: x is None)
            if spec != ctx.inputs_spec:
                raise RuntimeError(
                    "Expected the return from backward to be of the same structure as the inputs. Got: "
                    f"{spec} (return from backward), {ctx.inputs_spec} (inputs)")
            return (None, None, *leaves)

    Generated.__name__ = Generated.__qualname__ = f"GeneratedBackwardFor_{overload.namespace}_{overload._opname}_{overload._overloadname}"

    def kernel(*args, **keywords):
        leaves, spec = tree_flatten(args, is_leaf=lambda x: x is None)
        if not (_C.is_grad_enabled() and any(isinstance(x, _C.Tensor) and x.requires_grad for x in leaves)):
            return call(args, keywords)
        return Generated.apply(spec, keywords, *leaves)

    return kernel


class FakeImplCtx:
    """What a fake kernel may ask for."""

    def __init__(self, op=None):
        self._shape_env, self._op = _C._current_shape_env(), op

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that only the data will tell."""
        from ._subclasses.fake_tensor import DynamicOutputShapeException

        if self._shape_env is None:
            raise DynamicOutputShapeException(self._op)
        if isinstance(min, _C.SymInt) or isinstance(max, _C.SymInt):
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be statically known ints but got SymInt. This is "
                "not supported.")
        if min < 0:
            raise ValueError(f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal to 0: this API can only create non-negative sizes.")
        size = self._shape_env.create_unbacked_symint()
        _C._VariableFunctions.sym_constrain_range_for_size(size, min=min, max=max)
        return size

    create_unbacked_symint = new_dynamic_size


def get_ctx():
    """To be called in a fake kernel."""
    return FakeImplCtx()


def opcheck(*args, **kwargs):
    raise NotImplementedError("library.opcheck is not implemented in Taper yet")


_ANNOTATIONS = {"Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str", "dtype": "ScalarType",
                "device": "Device", "Number": "Scalar", "Union[int, float, bool]": "Scalar"}


def _annotation(annotation):
    """The schema's word for a Python annotation."""
    import typing

    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union and len(args) == 2 and type(None) in args:
        return _annotation(next(a for a in args if a is not type(None))) + "?"
    if origin in (list, typing.Sequence) or str(origin) == "<class 'collections.abc.Sequence'>":
        return _annotation(args[0]) + "[]"
    if origin is typing.Union:
        return "Scalar"
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if name.rsplit(".", 1)[-1] not in _ANNOTATIONS:
        raise ValueError(f"infer_schema(func): Parameter has unsupported type {annotation}.")
    return _ANNOTATIONS[name.rsplit(".", 1)[-1]]


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema that a function's annotations mean."""
    import inspect
    import typing

    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    pieces, starred = [], False
    for i, (name, p) in enumerate(signature.parameters.items()):
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature})")
        if p.kind is p.KEYWORD_ONLY and not starred:
            pieces.append("*")
            starred = True
        kind = _annotation(hints[name])
        if mutates_args == "unknown" or name in mutates_args:
            kind = kind.replace("Tensor", f"Tensor(a{i}!)", 1)
        default = "" if p.default is p.empty else f"={p.default!r}" if not isinstance(p.default, str) else f'="{p.default}"'
        pieces.append(f"{kind} {name}{default}")
    returned = hints.get("return", type(None))
    if returned is type(None):
        result = "()"
    elif typing.get_origin(returned) is tuple:
        result = "(" + ", ".join(_annotation(a) for a in typing.get_args(returned)) + ")"
    else:
        result = _annotation(returned)
    return f"{op_name or ''}({', '.join(pieces)}) -> {result}"


class CustomOpDef:
    """What custom_op makes of a function."""

    def __init__(self, qualname, schema, function, device_types):
        self._qualname = qualname
        self._namespace, _, self._name = qualname.partition("::")
        self._init_fn = function
        self._lib = Library(self._namespace, "FRAGMENT")
        self._lib.define(self._name + schema, _unaliased=True)
        if self._opoverload._schema.is_mutable:
            _C._library_impl(self._opoverload, "Autograd", self._write)
        else:
            register_autograd(self, None)
        self.register_fake(self._no_fake)
        for key in ("default",) if device_types is None else (device_types,) if isinstance(device_types, str) else device_types:
            self.register_kernel(key, function)
        functools.update_wrapper(self, function)

    @property
    def _opoverload(self):
        return _overload_of(self._qualname)

    def register_kernel(self, device_types, fn=None, /):
        return impl(self._qualname, device_types or "default", fn)

    def register_fake(self, fn):
        return register_fake(self._qualname, fn)

    def register_vmap(self, func=None, /):
        return register_vmap(self._qualname, func)

    def register_autograd(self, backward, /, *, setup_context=None):
        register_autograd(self, backward, setup_context=setup_context)

    def _no_fake(self, *args, **kwargs):
        """An op that gives nothing needs no word about what it gives."""
        if not self._opoverload._schema.returns:
            return None
        raise RuntimeError(
            f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing to work. Please use "
            f"`{self._init_fn.__name__}.register_fake` to add an fake impl.")

    def _write(self, *args, **kwargs):
        """Writes go unrecorded, but are counted."""
        with _C._AutoDispatchBelowAutograd():
            result = self._opoverload(*args, **kwargs)
        for given, described in zip(args, self._opoverload._schema.arguments):
            if described.alias_info is not None and described.alias_info.is_write and isinstance(given, _C.Tensor):
                _C._bump_version(given)
        return result

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes an op of a Python function."""

    def make(function):
        return CustomOpDef(name, schema or infer_schema(function, mutates_args=mutates_args), function, device_types)

    return make if fn is None else make(fn)
