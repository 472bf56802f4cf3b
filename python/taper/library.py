"""torch.library: ops that a program defines. Schemas and calls are the extension's; this keeps who defined what."""
import contextlib
import functools
import re
import sys
import weakref

from . import _C
from ._ops import ops
from ._tags import Tag

__all__ = ["Library", "define", "impl", "impl_abstract", "register_fake", "register_kernel", "register_autograd", "register_vmap", "custom_op",
           "fallthrough_kernel", "opcheck", "get_ctx", "infer_schema", "register_torch_dispatch"]

_OPCHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
_DISPATCH_KEYS = frozenset(
    "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta FPGA Vulkan Metal QuantizedCPU QuantizedCUDA "
    "SparseCPU SparseCUDA SparseCsrCPU SparseCsrCUDA NestedTensorCPU NestedTensorCUDA BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize "
    "Named Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor AutogradCPU AutogradCUDA AutogradMeta "
    "AutogradXLA AutogradMPS AutogradXPU AutogradHPU AutogradLazy AutogradMTIA AutogradPrivateUse1 Tracer AutocastCPU AutocastXPU AutocastCUDA "
    "AutocastPrivateUse1 FuncTorchBatched FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot "
    "FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher Undefined Dense Autograd CompositeImplicitAutograd CompositeExplicitAutograd "
    "CompositeExplicitAutogradNonFunctional CompositeImplicitAutogradNestedTensor".split())
_DEVICES = "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone"
_KEYS = {"cpu": "CPU", "meta": "Meta", "cuda": "CUDA", "default": "CompositeExplicitAutograd", "": "CompositeImplicitAutograd"}


def fallthrough_kernel():
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _key(name):
    """The dispatch key of a kind of device; a key is itself."""
    if name in _DISPATCH_KEYS:
        return name
    if name not in _KEYS and name not in _DEVICES.split(", "):
        raise RuntimeError(f"Expected one of {_DEVICES} device type at start of device string: {name}")
    return _KEYS.get(name, name.upper())


def _overload_of(op):
    """The overload that a name, packet or overload means."""
    if isinstance(op, str):
        space, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        return getattr(getattr(getattr(ops, space), name), overload or "default")
    return op.default if hasattr(op, "overloads") else op


_defining = {}                  # namespace -> where its one library that defines was made


def _only_once(ns, place, caller):
    """The text for a namespace that has been defined before."""
    return (
        f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a single "
        "TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
        "duplicated).  If you really intended to define operators for a single namespace in a distributed way, you can use "
        "TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY was registered at "
        f"{place}; latest registration was registered at {caller}")


class Library:
    """A set of definitions in one namespace; they end with it."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "prim":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        frame = sys._getframe(1)
        self._place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        taken = _C.__file__ if ns in ("aten", "prims") else _defining.get(ns)
        if kind == "DEF" and taken:
            raise RuntimeError(_only_once(ns, taken, self._place))
        if kind == "DEF":
            _defining[ns] = self._place
        if dispatch_key and dispatch_key not in _DISPATCH_KEYS:
            raise RuntimeError(f"could not parse dispatch key: {dispatch_key}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined, self._registered = [], []
        self._finalizer = weakref.finalize(self, _end, self._defined, self._registered, ns, kind)

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema, alias_analysis="", *, tags=(), _unaliased=False):
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        block = "TORCH_LIBRARY" + {"DEF": "", "IMPL": "_IMPL", "FRAGMENT": "_FRAGMENT"}[self.kind]
        where = f"(Error occurred while processing {block} block at {self._place})"
        head = schema.partition("(")[0]
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{head}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed in the (unique) TORCH_LIBRARY '
                f"block for their namespace.  {where}")
        if "::" in head and head.partition("::")[0] != self.ns:
            raise RuntimeError(
                f"Explicitly provided namespace ({head.partition('::')[0]}) in schema string does not match namespace of enclosing TORCH_LIBRARY block "
                f"({self.ns}).  Move this definition to the (unique) TORCH_LIBRARY block corresponding to this namespace (and consider deleting the namespace "
                f"from your schema string.)  {where}")
        tags = (tags,) if isinstance(tags, Tag) else tuple(tags)
        overload = _C._library_define(self.ns, schema, _unaliased)
        self._defined.append(overload)
        if tags:
            _C._library_impl(overload, "__tags__", tags)
        getattr(ops, self.ns).__dict__.pop(overload._name_only, None)
        return overload._name_only

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        name = op_name if isinstance(op_name, str) else op_name.name()
        if "::" not in name:
            name = f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if key not in _DISPATCH_KEYS:
            raise RuntimeError(f"could not parse dispatch key: {key}")
        if with_keyset:
            raise NotImplementedError("Library.impl(with_keyset=True) is not implemented in Taper yet")
        if name.partition("::")[0] != self.ns:
            raise RuntimeError(
                f"Explicitly provided namespace ({name.partition('::')[0]}) in operator name does not match namespace of enclosing TORCH_LIBRARY_IMPL "
                f"block ({self.ns}). Move this definition to the TORCH_LIBRARY_IMPL block corresponding to this namespace.")
        self._register(_overload_of(name), key, fn)

    def _register(self, overload, key, kernel):
        """A kernel that ends with this library, if no other has come in its place."""
        _C._library_impl(overload, key, kernel)
        self._registered.append((overload, key, kernel))

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        raise NotImplementedError("Library.fallback is not implemented in Taper yet")

    def _destroy(self):
        self._finalizer()


def _register(lib, overload, key, kernel):
    """A kernel of the library, or one that stays."""
    if lib is None:
        _C._library_impl(overload, key, kernel)
    else:
        lib._register(overload, key, kernel)


def _end(defined, registered, ns, kind):
    """Takes back what a library registered and defined."""
    for overload, key, kernel in reversed(registered):
        _C._library_remove(overload, key, kernel)
    registered.clear()
    if kind == "DEF":
        _defining.pop(ns, None)
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
    (lib or _kept_library(space)).define(name + schema, tags=tags)


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
            _register(lib, _overload_of(qualname), _key(key), f)
        return f

    if func is None:
        return register
    register(func)
    return None


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    def register(f):
        _register(lib, _overload_of(op), "Meta", f)
        return f

    return register if func is None else register(func)


impl_abstract = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None):
    return impl(op if isinstance(op, str) else op._qualname, device_types or "default", func, lib=lib)


def register_vmap(op, func=None, /, *, lib=None):
    """func(info, in_dims, *args) is what the op does to batches; it gives (output, out_dims)."""

    def register(f):
        _register(lib, _overload_of(op._qualname if isinstance(op, CustomOpDef) else op), "FuncTorchBatched", f)
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
    _register(lib, overload, "Autograd", _autograd_kernel(overload, backward, setup_context))


def _autograd_kernel(overload, backward, setup_context):
    """What runs at autograd's place in the dispatcher: a Function around the call below it. Tensors in lists take part."""
    from .autograd import Function
    from .utils._pytree import tree_flatten, tree_unflatten

    def call(args, keywords):
        with _C._AutoDispatchBelowAutograd():
            return overload(*args, **keywords)

    class Generated(Function):
        @staticmethod
        def forward(ctx, spec, keywords, form, *leaves):
            args = tree_unflatten(leaves, spec)
            ctx.inputs_spec = spec
            result = call(args, keywords)
            _, ctx.output_spec = tree_flatten(result if isinstance(result, tuple) else (result,), is_leaf=lambda x: x is None)
            if setup_context is not None:
                extra = {"keyword_only_inputs": keywords} if keywords else {}
                setup_context(ctx=ctx, inputs=args, output=result, **extra)
            flat, made = tree_flatten(result, is_leaf=lambda x: x is None)
            form += [made] if isinstance(result, (list, tuple)) else []
            return tuple(flat) if isinstance(result, (list, tuple)) else result

        @staticmethod
        def backward(ctx, *grads):
            if backward is None:
                raise RuntimeError(
                    f"Trying to backward through {overload} but no autograd formula was registered. Please use register_autograd to add one.")
            ctx.needs_input_grad = tree_unflatten(list(ctx.needs_input_grad[3:]), ctx.inputs_spec)
            given = backward(ctx, *tree_unflatten(list(grads), ctx.output_spec))
            leaves, spec = tree_flatten(given if isinstance(given, tuple) else (given,), is_leaf=lambda x: x is None)
            if spec != ctx.inputs_spec:
                raise RuntimeError(
                    "Expected the return from backward to be of the same structure as the inputs. Got: "
                    f"{spec} (return from backward), {ctx.inputs_spec} (inputs)")
            return (None, None, None, *leaves)

    Generated.__name__ = Generated.__qualname__ = f"GeneratedBackwardFor_{overload.namespace}_{overload._opname}_{overload._overloadname}"

    def kernel(*args, **keywords):
        leaves, spec = tree_flatten(args, is_leaf=lambda x: x is None)
        if not (_C.is_grad_enabled() and any(isinstance(x, _C.Tensor) and x.requires_grad for x in leaves)):
            return call(args, keywords)
        form = []               # of the results, when they are more than one tensor
        flat = Generated.apply(spec, keywords, form, *leaves)
        return tree_unflatten(list(flat), form[0]) if form else flat

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


def opcheck(op, args, kwargs=None, *, test_utils=_OPCHECKS, raise_exception=True, atol=None, rtol=None):
    """Tests an op against its schema, its fake kernel, autograd and ahead-of-time autograd."""
    from ._library.opcheck import opcheck as check

    return check(op, args, kwargs, test_utils=test_utils, raise_exception=raise_exception, atol=atol, rtol=rtol)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema that a function's annotations mean."""
    from ._library.infer_schema import infer_schema as infer

    return infer(prototype_function, mutates_args=mutates_args, op_name=op_name)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """func(cls or mode, op, types, args, kwargs) in place of the class's __torch_dispatch__ for this op."""
    overload = _overload_of(op._qualname if isinstance(op, CustomOpDef) else op)

    def register(f):
        rules = dict((_C._library_kernels(overload) or {}).get("__torch_dispatch__", {}))
        _register(lib, overload, "__torch_dispatch__", {**rules, torch_dispatch_class: f})
        return f

    return register if func is None else register(func)


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


_custom_ops = {}         # qualified name -> the CustomOpDef that has it; programs need not keep what custom_op gave them


class CustomOpDef:
    """What custom_op makes of a function; a later one of the same name takes its place."""

    def __init__(self, qualname, schema, function, device_types, tags=()):
        self._qualname = qualname
        self._namespace, _, self._name = qualname.partition("::")
        self._init_fn = function
        before = _custom_ops.get(qualname)
        if before is not None:
            before._lib._destroy()
        _custom_ops[qualname] = self
        self._off = set()
        self._lib = Library(self._namespace, "FRAGMENT")
        self._lib.define(self._name + schema, _unaliased=True, tags=tags)
        if self._opoverload._schema.is_mutable:
            _C._library_impl(self._opoverload, "Autograd", self._write)
        else:
            register_autograd(self, None)
        self.register_fake(self._no_fake)
        for key in ("default",) if device_types is None else (device_types,) if isinstance(device_types, str) else device_types:
            self.register_kernel(key, self._switched(key, function))
        functools.update_wrapper(self, function)

    @property
    def _opoverload(self):
        return _overload_of(self._qualname)

    def register_kernel(self, device_types, fn=None, /):
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        for key in ("default",) if device_types is None else (device_types,) if isinstance(device_types, str) else device_types:
            impl(self._qualname, key, self._switched(key, fn))
        return fn

    def _switched(self, key, fn):
        """The kernel, unless set_kernel_enabled turned it off: then what the op was made of."""
        if fn is self._init_fn:
            return fn

        @functools.wraps(fn)
        def kernel(*args, **kwargs):
            return (self._init_fn if key in self._off else fn)(*args, **kwargs)

        return kernel

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        before = set(self._off)
        (self._off.discard if enabled else self._off.add)(device_type)
        try:
            yield
        finally:
            self._off = before

    def register_fake(self, fn):
        return register_fake(self._qualname, fn)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        return register_torch_dispatch(self._qualname, torch_dispatch_class, fn)

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
        text = schema or infer_schema(function, mutates_args=mutates_args)
        made = CustomOpDef(name, text, function, device_types, tags or ())
        if schema is not None:
            written = {a.name for a in made._opoverload._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
            if mutates_args != "unknown" and written != set(mutates_args):
                made._lib._destroy()
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The schema suggests that the op mutates "
                    f"{written}which is different from what was provided to us in `mutates_args`. Please make these consistent.")
        return made

    return make if fn is None else make(fn)
