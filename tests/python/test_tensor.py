"""The class Tensor: identity, attributes, literals, conversions, pickling; words of errors as PyTorch's."""
import copy
import gc
import pickle
import subprocess
import sys
import warnings
import weakref

import pytest
import taper as torch


def matrix():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def raises(error, text, function):
    with pytest.raises(error) as caught:
        function()
    assert str(caught.value) == text


# ---- one Python object for each tensor ----
def test_identity_survives_while_c_holds_the_tensor():
    x = matrix()
    x.note = "kept"
    y = x.requires_grad_() * 1.0
    z = y * y                       # the tape keeps y
    y.note = "saved"
    seen = weakref.ref(y)
    del y
    gc.collect()
    assert seen() is not None and seen().note == "saved"
    assert z.grad_fn._saved_self is seen()
    del z
    gc.collect()
    assert seen() is None


def test_grad_is_one_object():
    x = matrix().requires_grad_()
    (x * x).sum().backward()
    assert x.grad is x.grad
    assert x.add_ is not None and x.detach().add_(1).tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_weak_reference_and_dict():
    x = matrix()
    seen = weakref.ref(x)
    assert seen() is x and x.__dict__ == {}
    x.a = 1
    assert x.__dict__ == {"a": 1} and gc.is_tracked(x)
    del x
    assert seen() is None


def test_plain_tensors_are_not_tracked():
    assert not gc.is_tracked(matrix())


@pytest.mark.parametrize("make", ["attribute", "hook", "function"])
def test_cycles_are_collected(make):
    x = torch.tensor([1.0], requires_grad=True)
    y = x * 2.0
    if make == "attribute":
        y.self = y
    elif make == "hook":
        y.register_hook(lambda g: y.sum() and None)
    else:
        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.result = a * a
                return ctx.result

            @staticmethod
            def backward(ctx, g):
                return g

        y = Keep.apply(x)
    seen = weakref.ref(y)
    del y
    gc.collect()
    assert seen() is None


def test_no_allocation_stays():
    x = matrix()

    def work():
        x + x, x + 1, x[0], x[x > 1], x.sum(0), x.max(0), repr(x), x.tolist(), torch.cat([x, x])
        for bad in (lambda: x.sum("a"), lambda: x[9], lambda: x.view(3), lambda: torch.tensor([[1], [1, 2]])):
            with pytest.raises(Exception):
                bad()

    for _ in range(5):
        work()
    gc.collect()
    before = torch._C._live_allocations()
    for _ in range(50):
        work()
    gc.collect()
    assert torch._C._live_allocations() == before


# ---- subclasses ----
class Plain(torch.Tensor):
    pass


def test_subclass_keeps_its_class():
    x = matrix().as_subclass(Plain)
    for y in (x + 1, 1 + x, x.sum(), x[0], torch.add(x, x), x.max(0)[0], x.split(1)[0]):
        assert type(y) is Plain
    assert type(x.shape) is torch.Size


def test_parameter_is_quick_and_gives_tensors():
    p = torch.nn.Parameter(matrix())
    assert isinstance(p, torch.Tensor) and isinstance(p, torch.nn.Parameter) and p.requires_grad and p.is_leaf
    assert type(p + 1) is torch.Tensor
    assert repr(p).startswith("Parameter containing:\ntensor(")


# ---- attributes ----
def test_geometry():
    x = torch.zeros(2, 3)
    assert x.shape == torch.Size([2, 3]) and x.size() == (2, 3) and x.size(-1) == 3 and x.stride() == (3, 1)
    assert (x.dim(), x.ndim, x.numel(), x.element_size(), x.nbytes, x.storage_offset()) == (2, 2, 6, 4, 24, 0)
    assert x[1].storage_offset() == 3 and x.t().stride() == (1, 3) and not x.t().is_contiguous()
    raises(IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 5)", lambda: x.size(5))
    assert x.dtype is torch.float32 and x.device == torch.device("cpu") and x.layout is torch.strided


def test_data_shares_memory_and_not_history():
    x = matrix().requires_grad_()
    y = x.data
    assert not y.requires_grad and y.data_ptr() == x.data_ptr()
    y[0, 0] = 9
    assert x[0, 0].item() == 9 and x._version == 0
    x.data = torch.ones(3)
    assert x.shape == (3,) and x.requires_grad


def test_what_is_given_new_data_still_gets_gradients():
    p = torch.nn.Parameter(torch.ones(2))
    for other in (p, p.data, p.detach(), torch.ones(2), torch.ones(2).double(), torch.ones(2)):
        p.data = other
        p.grad = None
        (p.exp() * p).sum().backward()
        assert p.grad is not None and p.is_leaf
    conv = torch.nn.Conv2d(1, 1, 3).to(memory_format=torch.channels_last)
    assert conv(torch.rand(1, 1, 4, 4)).requires_grad


def test_reprs():
    assert repr(torch.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(torch.tensor([1, 2], dtype=torch.int32)) == "tensor([1, 2], dtype=taper.int32)"
    assert repr(torch.zeros(1, requires_grad=True)) == "tensor([0.], requires_grad=True)"
    assert repr(torch.zeros(1, requires_grad=True) * 2) == "tensor([0.], grad_fn=<MulBackward0>)"
    assert repr(torch.ones(2, device="meta")) == "tensor(..., device='meta', size=(2,))"
    assert repr(torch.ones(2, device="meta", dtype=torch.int64)) == "tensor(..., device='meta', size=(2,), dtype=taper.int64)"
    assert repr(torch.float32) == "taper.float32" and repr(torch.Size([2])) == "taper.Size([2])"
    assert repr(torch.device("cuda", 1)) == "device(type='cuda', index=1)" and str(torch.device("cuda", 1)) == "cuda:1"


# ---- literals ----
@pytest.mark.parametrize("data, dtype, values", [
    ([1, 2.5, True], torch.float32, [1.0, 2.5, 1.0]),
    ([True, 1], torch.int64, [1, 1]),
    ([], torch.float32, []),
    (1j, torch.complex64, 1j),
    ((1, 2), torch.int64, [1, 2]),
    (range(3), torch.int64, [0, 1, 2]),
    ([[True], [False]], torch.bool, [[True], [False]]),
])
def test_literal(data, dtype, values):
    x = torch.tensor(data)
    assert x.dtype is dtype and x.tolist() == values


@pytest.mark.parametrize("data, error, text", [
    ("a", TypeError, "new(): invalid data type 'str'"),
    ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
    ([1, [2]], TypeError, "'list' object cannot be interpreted as an integer"),
    (None, RuntimeError, "Could not infer dtype of NoneType"),
    (2**63, ValueError, "Overflow when unpacking long long"),
])
def test_wrong_literal(data, error, text):
    raises(error, text, lambda: torch.tensor(data))


# ---- numbers ----
def test_numbers():
    x = torch.tensor([2.5])
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5 and x.item() == 2.5
    assert [10, 20, 30][torch.tensor(1)] == 20 and f"{x[0]:.1f}" == "2.5"
    raises(RuntimeError, "a Tensor with 4 elements cannot be converted to Scalar", lambda: matrix().item())
    raises(RuntimeError, "Boolean value of Tensor with more than one value is ambiguous", lambda: bool(matrix()))
    raises(ValueError, "only one element tensors can be converted to Python scalars", lambda: float(matrix()))


@pytest.mark.parametrize("expression, expected", [
    ("x + 1", [[2, 3], [4, 5]]), ("1 + x", [[2, 3], [4, 5]]), ("x - 1", [[0, 1], [2, 3]]), ("1 - x", [[0, -1], [-2, -3]]),
    ("x * 2", [[2, 4], [6, 8]]), ("2 * x", [[2, 4], [6, 8]]), ("x / 2", [[0.5, 1], [1.5, 2]]), ("12 / x", [[12, 6], [4, 3]]),
    ("x // 2", [[0, 1], [1, 2]]), ("7 // x", [[7, 3], [2, 1]]), ("x % 2", [[1, 0], [1, 0]]), ("7 % x", [[0, 1], [1, 3]]),
    ("x ** 2", [[1, 4], [9, 16]]), ("2 ** x", [[2, 4], [8, 16]]), ("x @ x", [[7, 10], [15, 22]]), ("-x", [[-1, -2], [-3, -4]]),
    ("abs(-x)", [[1, 2], [3, 4]]), ("x > 2", [[False, False], [True, True]]), ("2 > x", [[True, False], [False, False]]),
    ("x == x", [[True, True], [True, True]]), ("x + torch.tensor([1, 2])", [[2, 4], [4, 6]]),
    ("v << 1", [2, 4, 6]), ("v >> 1", [0, 1, 1]), ("v & 1", [1, 0, 1]), ("v | 4", [5, 6, 7]), ("v ^ 1", [0, 3, 2]), ("~v", [-2, -3, -4]),
    ("v / 2", [0.5, 1.0, 1.5]), ("v + 2**40", [2**40 + 1, 2**40 + 2, 2**40 + 3]),
])
def test_operators(expression, expected):
    assert eval(expression, {"x": matrix(), "v": torch.tensor([1, 2, 3]), "torch": torch}).tolist() == expected


def test_short_and_long_way_agree():
    for n in (1, 2, 64, 65):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
            x = torch.arange(1, n + 1).to(dtype)
            y = (torch.arange(n) * 3 - 7).to(dtype)
            for name in ("add", "sub", "mul"):
                assert getattr(x, name)(y).tolist() == getattr(torch.ops.aten, name).Tensor(x, y).tolist()
                assert getattr(x, name)(3).tolist() == getattr(torch.ops.aten, name).Tensor(x, 3).tolist()


def test_in_place_counts_versions():
    x = matrix()
    x += 1
    x.mul_(x)
    assert x._version == 2 and x.tolist() == [[4, 9], [16, 25]]


def test_operators_refuse():
    raises(TypeError, "unsupported operand type(s) for +: 'Tensor' and 'str'", lambda: matrix() + "a")
    raises(TypeError, "unsupported operand type(s) for +: 'Tensor' and 'NoneType'", lambda: matrix() + None)
    raises(TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors", lambda: ~matrix())
    assert (matrix() == "a") is False and (matrix() != None) is True  # noqa: E711


# ---- arguments ----
x = matrix()


@pytest.mark.parametrize("call, text", [
    (lambda: torch.add(x), "add() received an invalid combination of arguments - got (Tensor), but expected (Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)"),
    (lambda: torch.add(x, "a"), "add(): argument 'other' (position 2) must be Tensor, not str"),
    (lambda: torch.add(x, 1, alpha="x"), "add(): argument 'alpha' must be Number, not str"),
    (lambda: torch.mul(x), 'mul() missing 1 required positional arguments: "other"'),
    (lambda: torch.mul(x, x, x), "mul() takes 2 positional arguments but 3 were given"),
    (lambda: torch.relu(self=x), 'relu() missing 1 required positional arguments: "input"'),
    (lambda: torch.zeros(2, 3.5), "zeros(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got float\""),
    (lambda: torch.zeros("a"), "zeros(): argument 'size' (position 1) must be tuple of ints, not str"),
    (lambda: torch.zeros(), 'zeros() missing 1 required positional arguments: "size"'),
    (lambda: torch.ones(2, 2, dtype=3), "ones(): argument 'dtype' must be taper.dtype, not int"),
    (lambda: torch.cat(x), "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    (lambda: torch.cat([x, 1]), "expected Tensor as element 1 in argument 0, but got int"),
    (lambda: x.transpose(0), 'transpose() missing 1 required positional arguments: "dim1"'),
    (lambda: torch.maximum(x, 1), "maximum(): argument 'other' (position 2) must be Tensor, not int"),
    (lambda: torch.arange("a"), "arange(): argument 'end' (position 1) must be Number, not str"),
])
def test_wrong_arguments(call, text):
    raises(TypeError, text, call)


def test_argument_rules():
    assert torch.sum(x, axis=0).tolist() == [4, 6] and torch.sum(input=x, dim=0, keepdims=True).tolist() == [[4, 6]]
    assert x.view(4).tolist() == x.view((4,)).tolist() == x.view([4]).tolist()
    assert x.permute(1, 0).tolist() == x.permute((1, 0)).tolist()
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == (2, 3)
    assert torch.zeros(2, dtype=float).dtype is torch.float64
    out = torch.empty(2, 2)
    assert torch.add(x, x, out=out) is out and out.tolist() == [[2, 4], [6, 8]]
    values, indices = torch.empty(2), torch.empty(2, dtype=torch.int64)
    torch.max(x, 0, out=(values, indices))
    assert values.tolist() == [3, 4] and indices.tolist() == [1, 1]
    result = x.max(0)
    assert result.values.tolist() == [3, 4] and result.indices.tolist() == [1, 1] and type(result).__name__ == "max"


# ---- conversions ----
def test_to():
    assert x.to("cpu") is x and x.to(torch.float32) is x and x.float() is x and x.to(x) is x
    assert x.to(torch.float64).dtype is torch.float64 and x.to(device="cpu", dtype=torch.int32).dtype is torch.int32
    assert x.to(torch.float32, copy=True) is not x and x.long().tolist() == [[1, 2], [3, 4]]
    assert x.type() == "taper.FloatTensor" and x.type(torch.int32).dtype is torch.int32
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        x.cuda()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(2, device="cuda")


def test_pickle_and_copy():
    y = torch.arange(6.0).view(2, 3).t()
    y.note = "n"
    for z in (pickle.loads(pickle.dumps(y)), copy.deepcopy(y)):
        assert z.tolist() == y.tolist() and z.stride() == y.stride() and z.note == "n" and z.data_ptr() != y.data_ptr()
    pair = copy.deepcopy([y, y[0]])
    assert pair[0].untyped_storage().data_ptr() == pair[1].untyped_storage().data_ptr()
    p = pickle.loads(pickle.dumps(torch.nn.Parameter(x)))
    assert type(p) is torch.nn.Parameter and p.requires_grad
    for o in (torch.float32, torch.strided, torch.Size([1, 2]), torch.device("cuda:1"), torch.ops.aten.add.Tensor, torch.ops.aten.add, torch.Tensor.add):
        assert pickle.loads(pickle.dumps(o)) == o
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(torch.zeros(1, requires_grad=True) * 1)


def test_storage():
    s = x.untyped_storage()
    assert s.nbytes() == 16 and s is x[0].untyped_storage() and len(s) == 16 and bytes(memoryview(s))[:4] == b"\0\0\x80?"
    assert x._typed_storage().tolist() == [1, 2, 3, 4]


# ---- the package ----
def test_import_is_light():
    code = "import sys, taper; print('numpy' in sys.modules, any(m.startswith('taper.nn') for m in sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_checks_of_traces_take_no_numpy():
    code = ("import sys, taper as torch; torch.jit.trace(torch.relu, (torch.ones(2),)); torch.testing.assert_close(1.0, 1.0);"
            "print('numpy' in sys.modules); import numpy; torch.testing.assert_close(numpy.float32(1), 1.0, check_dtype=False)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_names_that_are_missing():
    raises(AttributeError, "module 'taper' has no attribute 'nosuch'", lambda: torch.nosuch)
    with pytest.raises(AttributeError, match="Taper does not have it yet"):
        torch.lobpcg


def test_ops():
    add = torch.ops.aten.add
    assert add.Tensor is add.Tensor and add.Tensor.name() == "aten::add.Tensor" and "Tensor" in add.overloads()
    assert str(add.Tensor._schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [a.name for a in add.Tensor._schema.arguments] == ["self", "other", "alpha"]
    assert repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>" and str(add) == "aten.add"
    assert type(torch.ops.aten.split(x, 1)) is list
    raises(AttributeError, "'_OpNamespace' 'aten' object has no attribute 'nosuch'", lambda: torch.ops.aten.nosuch)
    raises(AttributeError, "The underlying op of 'aten.add' has no overload name 'foo'", lambda: add.foo)
    raises(RuntimeError, "aten::add() is missing value for argument 'other'. Declaration: aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", lambda: add.Tensor(x))


def test_sizes_are_recycled_and_shared():
    class Named(torch.Size):
        pass

    def use():
        kept = [torch.empty([n] + [2] * k).shape for k in range(7) for n in range(40)]      # more than are remembered
        assert all(s == (i % 40,) + (2,) * (i // 40) for i, s in enumerate(kept)) and len(set(map(id, kept))) == len(kept)
        assert torch.empty(3, 4).shape is torch.zeros(3, 4).shape and torch.empty(3, 4).shape is not torch.empty(4, 3).shape
        assert Named((1, 2)) == (1, 2) and type(Named((1, 2))) is Named
        return sys.getrefcount(torch.Size)

    use()
    assert len({use() for _ in range(3)}) == 1
    t = torch.empty(2, 2)
    first = t.shape
    t.resize_(3, 1)
    assert first == (2, 2) and t.shape == (3, 1) and torch.empty(()).shape == ()
    with pytest.raises(AttributeError):
        first.note = 1


def test_small_objects():
    assert torch.device("cuda:0") == torch.device("cuda", 0) and hash(torch.device("cpu")) == hash(torch.device("cpu"))
    assert torch.finfo(torch.float32).eps == 2**-23 and torch.iinfo(torch.int8).min == -128
    assert torch.Size([2, 3]).numel() == 6 and type(torch.Size([2, 3]) + (1,)) is torch.Size and type(torch.Size([2, 3])[:1]) is torch.Size
    assert torch.promote_types(torch.int8, torch.uint8) is torch.int16 and torch.result_type(x, 1j) is torch.complex64
    assert torch.__version__ >= (2, 1) and torch.__version__ > "2.9" and torch.version.cuda is None


def test_threads_that_end():
    """Each leaves tensors to recycle and the text of an error; a leak check at the exit sees what their end forgets."""
    import threading
    texts = []

    def work():
        (torch.ones(3) + 1).sum()
        try:
            torch.ones(3).view(7)
        except RuntimeError as error:
            texts.append(str(error))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert texts == ["shape '[7]' is invalid for input of size 3"] * 3


def test_numbers_are_brought_to_the_common_type():
    """A tensor without dims is a number among integers: it wraps as one. Observed on PyTorch 2.13."""
    x = torch.tensor([1, 2, 200], dtype=torch.uint8)
    assert torch.maximum(x, torch.tensor(-300)).tolist() == [212, 212, 212]
    assert (x < torch.tensor(-300)).tolist() == [True, True, True]
    assert (x.to(torch.int16) << 2**31).tolist() == [1, 2, 200]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // torch.tensor(256)
    assert torch.full((2,), 2**40, dtype=torch.bool).tolist() == [True, True]
    h = x.half()
    h[0] = 1e9
    assert h[0].item() == float("inf")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_among_halves(dtype):
    """Products and quotients by a number compute with it as it is, all else rounds it first. Observed on PyTorch 2.13."""
    x, s = torch.linspace(0.1, 4, 200).to(dtype), 0.1234567
    wide, rounded = x.float(), torch.tensor(s).to(dtype).item()
    for made, wanted in [(x * s, wide * s), (x / s, wide / s), (x // s, wide // s), (x * torch.tensor(s), wide * s), (s - x, rounded - wide),
                         (torch.tensor(s) * x, wide * rounded), (x + s, wide + rounded), (x + torch.tensor(s), wide + rounded), (x ** s, wide ** rounded),
                         (x % s, wide % rounded), (torch.atan2(x, torch.tensor(s)), torch.atan2(wide, torch.tensor(rounded)))]:
        assert torch.equal(made, wanted.to(dtype))
    assert torch.full((1,), s, dtype=dtype).eq(s).item()


def test_layouts_of_copies():
    x = torch.arange(24.0).view(2, 3, 4)
    assert x.transpose(1, 2)[..., :2].clone().stride() == (8, 1, 4)         # gaps close, the order of dims stays
    assert x[0].t().scatter(0, torch.zeros(4, 3, dtype=torch.int64), 1.0).stride() == (3, 1)
    out = torch.empty(0)
    assert torch.mul(x.permute(2, 0, 1), 2, out=out).stride() == (1, 12, 4)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        torch.tensor(1.0).roll(1, 0)


def test_an_out_of_another_size_is_named():
    words = ("An output with one or more elements was resized since it had shape [3], which does not match the required output shape [2, 2]. "
             "This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. "
             "You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).")
    x = torch.ones(2, 2)
    calls = (lambda out: torch.add(x, 1, out=out), lambda out: torch.mm(x, x, out=out), lambda out: torch.cumsum(x, 0, out=out),
             lambda out: torch.transpose_copy(x, 0, 1, out=out), lambda out: torch.fmod(x, 2, out=out))
    for call in calls:
        out = torch.empty(3)
        with pytest.warns(UserWarning) as seen:
            assert call(out) is out and out.shape == (2, 2)
        assert [str(w.message) for w in seen] == [words]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (torch.empty(0), torch.empty(2, 2)):
            for call in calls:
                call(out)
        torch.ones(2, 2, out=torch.empty(3))            # a factory makes them new
        out = torch.zeros(3)
        with pytest.raises(UserWarning):
            torch.add(x, 1, out=out)
        assert out.tolist() == [0, 0, 0]
