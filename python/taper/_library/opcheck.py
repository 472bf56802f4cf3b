"""torch.library.opcheck: is what an op says of itself what it does?"""
from .. import _C
from ..autograd.grad_mode import no_grad
from ..utils._pytree import tree_leaves, tree_map

ALL_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic")
DEFAULT_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    pass


def _copied(values):
    """Tensors of their own, which require gradients where the given ones do."""

    def copy(x):
        return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, _C.Tensor) else x

    return tree_map(copy, values)


def _tensors(values):
    return [x for x in tree_leaves(values) if isinstance(x, _C.Tensor)]


def _described(op, args, kwargs):
    """(argument of the schema, given value)"""
    for i, argument in enumerate(op._schema.arguments):
        if i < len(args) and not argument.kwarg_only:
            yield argument, args[i]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def test_schema(op, args, kwargs):
    args, kwargs = _copied(args), _copied(kwargs)
    before = [(a, x, x.detach().clone(), x._version) for a, value in _described(op, args, kwargs) for x in _tensors(value)]
    with no_grad():
        result = op(*args, **kwargs)
    places = {x.untyped_storage()._cdata for x in _tensors(result)}
    for argument, x, was, version in before:
        alias = argument.alias_info
        written = x._version != version or not _same(x.detach(), was)
        if written and not (alias is not None and alias.is_write):
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated")
        if alias is None and x.numel() and x.untyped_storage()._cdata in places:
            raise RuntimeError(f"Argument {argument.name} is not defined to alias output but was aliasing")


def _same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and _C._VariableFunctions.allclose(a, b, equal_nan=True, rtol=0, atol=0)


def _has_kernel(op, key):
    return key in (_C._library_kernels(op) or {})


def test_autograd_registration(op, args, kwargs):
    args, kwargs = _copied(args), _copied(kwargs)
    if not any(x.requires_grad for x in _tensors((args, kwargs))) or op.namespace in ("aten", "prims") or _has_kernel(op, "Autograd"):
        return
    if not any(x.requires_grad for x in _tensors(op(*args, **kwargs))) or _has_kernel(op, "CompositeImplicitAutograd"):
        return
    raise AssertionError(
        f"{op.name()}: at least one output of this operator has requires_grad=True but the operator does not have an autograd kernel defined at an autograd "
        "key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered an autograd kernel to a non-Autograd DispatchKey, which may "
        "lead to silently incorrect results. If your operator consists of regular PyTorch operations, consider not using an operator at all or registering "
        "your operator as CompositeImplicitAutograd. If you have an autograd.Function registered to a backend (CPU/CUDA/XPU) key, the correct location for it is "
        "the Autograd key.")


def test_faketensor(op, args, kwargs):
    from .._subclasses.fake_tensor import FakeTensorMode
    from ..fx.experimental.symbolic_shapes import ShapeEnv

    args, kwargs = _copied(args), _copied(kwargs)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode, no_grad():
        fake = op(*tree_map(lambda x: mode.from_tensor(x, static_shapes=True) if isinstance(x, _C.Tensor) else x, args),
                  **tree_map(lambda x: mode.from_tensor(x, static_shapes=True) if isinstance(x, _C.Tensor) else x, kwargs))
    with no_grad():
        real = op(*args, **kwargs)
    for r, f in zip(_tensors(real), _tensors(fake)):
        words = None
        if f.dtype != r.dtype:
            words = f"Dtypes {r.dtype} and {f.dtype} are not equal!"
        elif f.dim() != r.dim() or any(isinstance(a, int) and a != b for a, b in zip(f.shape, r.shape)):
            words = f"Shapes {r.shape} and {f.shape} are not equal!"
        elif all(isinstance(n, int) for n in (*f.shape, *f.stride())) and any(n > 1 and a != b for n, a, b in zip(r.shape, f.stride(), r.stride())):
            words = f"Stride mismatch! Strides are {r.stride()} and {f.stride()}"
        if words:
            raise AssertionError(
                f"When comparing the output of {op} on FakeTensor and concrete Tensors, found mismatched tensor metadata: {words}")


def _aot(op, args, kwargs, dynamic, rtol=None, atol=None):
    from .._functorch.aot_autograd import aot_function
    from .._functorch.compilers import nop

    plain, traced = (_copied(args), _copied(kwargs)), (_copied(args), _copied(kwargs))
    given, found = op(*plain[0], **plain[1]), aot_function(lambda a, k: op(*a, **k), nop, dynamic=dynamic)(*traced)
    pairs = [(given, found, "outputs"), (plain, traced, "inputs after the call")]
    if any(x.requires_grad for x in _tensors(given)):
        for values in (given, found):
            sum(x.sum() for x in _tensors(values) if x.requires_grad).backward()
        pairs.append(([x.grad for x in _tensors(plain)], [x.grad for x in _tensors(traced)], "gradients"))
    for a, b, what in pairs:
        for x, y in zip(_tensors(a), _tensors(b)):
            if x.shape != y.shape or not _C._VariableFunctions.allclose(x.detach(), y.detach().to(x.dtype), equal_nan=True, rtol=1e-4 if rtol is None else rtol, atol=1e-5 if atol is None else atol):
                raise AssertionError(f"{what} of the operator under aot_autograd are not those of eager mode: {x} and {y}")


def test_aot_dispatch_static(op, args, kwargs, rtol=None, atol=None):
    _aot(op, args, kwargs, False, rtol, atol)


def test_aot_dispatch_dynamic(op, args, kwargs, rtol=None, atol=None):
    _aot(op, args, kwargs, True, rtol, atol)


def opcheck(op, args, kwargs=None, *, test_utils=DEFAULT_TESTS, raise_exception=True, rtol=None, atol=None):
    """{name of a test: "SUCCESS" or what it raised}; the first failure is raised as OpCheckError unless told otherwise."""
    op = getattr(op, "_opoverload", op)
    if hasattr(op, "overloads"):
        names = op.overloads()
        if len(names) > 1:
            raise RuntimeError(
                f"opcheck can only test operators without overloads. Got the following overloads for {op._qualified_op_name}: "
                f"{['' if n == 'default' else n for n in names]}")
        op = getattr(op, names[0])
    if not isinstance(op, _C._OpOverloadBase):
        raise ValueError(f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got {type(op)}")
    wanted = (test_utils,) if isinstance(test_utils, str) else test_utils
    if not isinstance(wanted, (tuple, list)) or not set(wanted) <= set(ALL_TESTS):
        raise ValueError(f"opcheck(op, ..., test_utils={wanted}), expected test_utils to be subset of {ALL_TESTS} but it was not")
    results = {}
    for name in wanted:
        try:
            tolerances = {"rtol": rtol, "atol": atol} if name.startswith("test_aot") else {}
            globals()[name](op, args, kwargs or {}, **tolerances)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)") from error
            results[name] = error
    return results
