"""torch.autocast and GradScaler. Expected values were observed on PyTorch 2.13."""
import pickle
import threading

import pytest

import taper as torch

F = torch.nn.functional


def tensors():
    torch.manual_seed(0)
    return torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)


# What PyTorch's autocast on the CPU makes of a call: L the lower type, S float32.
TYPES = [
    ("x @ w", "L"), ("x.mm(w)", "L"), ("F.linear(x, w)", "L"), ("torch.addmm(x, x, w)", "L"), ("torch.bmm(x[None], w[None])", "L"),
    ("F.conv2d(x[None, None], w[None, None])", "L"), ("torch.einsum('ij,jk->ik', x, w)", "L"), ("x + w", "S"), ("x.exp()", "S"),
    ("x.mv(x[0])", "S"), ("x[0].dot(x[1])", "S"), ("(x @ w).softmax(-1)", "L"), ("F.layer_norm(x @ w, (4,))", "L"),
    ("F.cross_entropy(x @ w, torch.arange(4))", "S"), ("F.mse_loss(x @ w, x)", "S"), ("F.l1_loss(x @ w, x)", "S"),
    ("(x @ w).prod()", "S"), ("(x @ w).sum()", "L"), ("torch.cat([x, x @ w])", "S"), ("torch.cat([x @ w, x @ w])", "L"),
    ("torch.stack([x @ w, x])", "S"), ("torch.linalg.inv(x @ w)", "S"), ("F.gelu(x @ w)", "L"),
]


@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("code, kind", TYPES)
def test_types(code, kind, lower):
    x, w = tensors()
    lower = getattr(torch, lower)
    with torch.autocast("cpu", dtype=lower):
        assert eval(code, globals(), {"x": x, "w": w}).dtype == {"L": lower, "S": torch.float32}[kind]


def test_regions_nest_and_end():
    x, w = tensors()
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu"):
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (x @ w).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.float16):
            assert (x @ w).dtype == torch.float16
        assert (x @ w).dtype == torch.bfloat16
        (x @ w).float().sum().backward()
    assert (x @ w).dtype == torch.float32 and w.grad.dtype == torch.float32
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"):
        1 / 0
    assert not torch.is_autocast_enabled("cpu")


def test_flags_are_of_a_thread():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: (seen.append(torch.is_autocast_enabled("cpu")), torch.set_autocast_enabled("cpu", True)))
        thread.start()
        thread.join()
    assert seen == [False] and not torch.is_autocast_enabled("cpu")


def test_decorator_and_custom_function():
    x, _ = tensors()
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, a):
            seen.append((a.dtype, torch.is_autocast_enabled("cpu")))
            return a @ a

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(torch.is_autocast_enabled("cpu"))
            return g * 2

    @torch.autocast("cpu")
    def run(a):
        return Square.apply(a)

    a = x.bfloat16().requires_grad_()
    run(a).sum().backward()
    assert seen == [(torch.float32, False), False] and a.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("code, kind, message", [
    ("torch.autocast(3)", ValueError, "Expected `device_type` of type `str`, got: `<class 'int'>`"),
    ("torch.autocast('meta')", RuntimeError, "unsupported scalarType"),
    ("torch.set_autocast_dtype('cpu', 3)", TypeError, "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not int"),
    ("torch.amp.GradScaler('cpu', growth_factor=1.0)", AssertionError, "The growth factor must be > 1.0."),
    ("torch.amp.GradScaler('cpu').scale(3)", ValueError, "outputs must be a Tensor or an iterable of Tensors"),
    ("torch.amp.GradScaler('cpu').load_state_dict({})", RuntimeError,
     "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."),
])
def test_errors(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value) == message


def test_unsupported_type_warns():
    with pytest.warns(UserWarning, match="the target dtype is not supported"):
        region = torch.autocast("cpu", dtype=torch.float32)
    x, w = tensors()
    with region:
        assert (x @ w).dtype == torch.float32


def test_scaler_leaves_out_infinite_steps():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer, scaler = torch.optim.SGD([p], lr=0.25), torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    scales, values = [], []
    for i in range(4):
        optimizer.zero_grad()
        scaler.scale((p * p).sum() * (float("inf") if i == 1 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        values.append(p.tolist())
    assert scales == [4.0, 2.0, 2.0, 4.0]
    assert values == [[0.5, 1.0], [0.5, 1.0], [0.25, 0.5], [0.125, 0.25]]
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 0}
