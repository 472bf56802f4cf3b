"""autocast in code that becomes a graph: the casts are in it, the thread is left as it was, and no cast of a fake or a trace is kept."""
import pytest
import taper as torch
import taper._dynamo as dynamo
from taper._dynamo.testing import CompileCounter
from taper.fx.experimental.proxy_tensor import make_fx

BACKENDS = ["eager", "inductor", "aot_eager"]


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()
    assert not torch.is_autocast_enabled("cpu") and torch._C._autocast_nest(0) == 0


def model():
    torch.manual_seed(1)
    return torch.nn.Linear(3, 3)


def regions(lin):
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = lin(x)
            z = torch.relu(y @ lin(y))
            with torch.autocast("cpu", enabled=False):
                w = z.float() @ x
            with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
                v = x @ x
        return z, w, v, x @ x

    return f


x = torch.arange(9.0).view(3, 3) * 0.1


def same(a, b):
    return all(p.dtype == q.dtype and torch.equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_regions_are_captured(backend):
    lin = model()
    f = regions(lin)
    compiled = torch.compile(f, backend=backend, fullgraph=True)
    for i in range(3):
        want, got = f(x + i), compiled(x + i)
        assert same(want, got)
        lin.zero_grad()
        want[0].sum().backward()
        grads = [p.grad.clone() for p in lin.parameters()]
        lin.zero_grad()
        got[0].sum().backward()
        if backend == "aot_eager":              # its trace casts a weight at each use: two gradients are added in f32, not in bf16
            assert all(torch.allclose(a, p.grad, rtol=0.02) for a, p in zip(grads, lin.parameters()))
        else:
            assert same(grads, [p.grad for p in lin.parameters()])
        with torch.no_grad():
            lin.weight.add_(0.25)               # a kept cast would be stale


def test_one_graph_for_calls_of_one_state():
    counter = CompileCounter()
    compiled = torch.compile(regions(model()), backend=counter, fullgraph=True)
    compiled(x), compiled(x)
    assert counter.frame_count == 1


def test_decorators_and_flags():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def f(x):
        return x @ x, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()

    def g(x):
        return f(x), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cuda")

    got, want = torch.compile(g, fullgraph=True)(x), g(x)
    assert got[0][0].dtype == torch.bfloat16 and torch.equal(got[0][0], want[0][0])
    assert got[0][1:] == want[0][1:] and got[1:] == want[1:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_given_up_inside(backend):
    lin = model()

    def f(x):
        with torch.autocast("cpu"):
            y = lin(x)
            dynamo.graph_break()
            return y @ y

    compiled = torch.compile(f, backend=backend)
    for _ in range(3):
        assert same([f(x)], [compiled(x)])
        assert not torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu"):
            assert not torch._C._is_fake(lin(x))
    with pytest.raises(dynamo.exc.Unsupported):
        torch.compile(f, backend=backend, fullgraph=True)(x)
    assert not torch.is_autocast_enabled("cpu")


def test_casts_of_a_capture_are_not_kept():
    """Inside a region that is off, the cache lives on: what a capture put there would be found by the next region."""
    lin = model()

    def f(x):
        torch.set_autocast_enabled("cpu", True)
        y = lin(x)
        torch.set_autocast_enabled("cpu", False)
        return y

    with torch.autocast("cpu", enabled=False):
        got = torch.compile(f)(x)
        torch.set_autocast_enabled("cpu", True)
        assert lin(x).tolist() == got.tolist() and not torch._C._is_fake(lin(x))
        torch.set_autocast_enabled("cpu", False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_data_inside(backend):
    def f(x, i):
        with torch.autocast("cpu"):
            return torch.index_select(x @ x, 0, i)

    def g(x, i):
        with torch.no_grad():
            return torch.index_select(x @ x, 0, i)

    for function in (f, g):
        compiled = torch.compile(function, backend=backend)
        for i, fails in ((1, False), (7, True), (1, False)):
            if fails:
                with pytest.raises(IndexError):
                    compiled(x, torch.tensor([i]))
            else:
                assert same([function(x, torch.tensor([i]))], [compiled(x, torch.tensor([i]))])
            assert not torch.is_autocast_enabled("cpu") and torch._C._autocast_nest(0) == 0 and torch.is_grad_enabled()


def test_called_under_another_state():
    def f(x):
        return x @ x, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    compiled = torch.compile(f)

    def check():
        want, got = f(x), compiled(x)
        assert same(want[:1], got[:1]) and want[1:] == got[1:]

    for dtype in (torch.bfloat16, torch.float16):
        check()
        with torch.autocast("cpu", dtype=dtype):
            check()
            with torch.autocast("cpu", enabled=False, dtype=dtype):
                check()
        check()


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode):
    lin = model()
    f = regions(lin)
    graph = make_fx(f, tracing_mode=mode, _allow_non_fake_inputs=True)(x)
    assert same(f(x), graph(x))
    with torch.autocast("cpu", enabled=False):
        torch.set_autocast_enabled("cpu", True)
        lin(x)                                  # kept: a trace must not find it
        graph = make_fx(lambda x: lin(x), tracing_mode=mode, _allow_non_fake_inputs=True)(x)
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()
    with torch.no_grad():
        lin.weight.mul_(2)
    with torch.autocast("cpu"):
        assert same([lin(x)], [graph(x)])


def test_tracing_above_autograd_refuses():
    def f(x):
        with torch.autocast("cpu"):
            return x @ x

    with pytest.raises(NotImplementedError, match="autocast in code that is traced above autograd"):
        make_fx(f, pre_dispatch=True)(x)
    assert not torch.is_autocast_enabled("cpu")


def test_jit_trace():
    lin = model()
    for p in lin.parameters():
        p.requires_grad_(False)
    f = regions(lin)
    traced = torch.jit.trace(f, (x,))
    assert same(f(x + 1), traced(x + 1))
    with torch.autocast("cpu"):
        weighted = model()
        weighted(x)
        traced = torch.jit.trace(weighted, (x,))
        with torch.no_grad():
            traced.weight.mul_(2)
        torch.clear_autocast_cache()
        assert torch.equal(traced(x), weighted(x))


def test_an_exception_ends_the_region():
    def f(x):
        with torch.autocast("cpu"):
            x @ x
            raise KeyError(1)

    for trace in (lambda: make_fx(f)(x), lambda: torch.jit.trace(f, (x,)), lambda: torch.compile(f)(x), lambda: torch.compile(f, fullgraph=True)(x)):
        with pytest.raises(KeyError):
            trace()
        assert not torch.is_autocast_enabled("cpu")
