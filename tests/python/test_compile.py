"""torch.compile: what is captured, guarded, replayed and refused."""
import collections
import functools
import gc
import weakref

import pytest
import taper as torch
import taper._dynamo as dynamo
import taper.nn.functional as F
from taper._dynamo.testing import CompileCounter, CompileCounterWithBackend
from taper.nn import Linear, Module, ModuleList, Parameter, ReLU, Sequential

scale = 2.0
seen = []


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


def check(f, *calls, frames=1, ops=None):
    """Each call equals the plain one; the graphs made are as many as said."""
    counter = CompileCounter()
    compiled = dynamo.optimize_assert(counter)(f)
    for args in calls:
        want, got = f(*args), compiled(*args)
        assert dynamo.utils.same(want, got), (want, got)
        assert type(want) is type(got)
    assert counter.frame_count == frames
    if ops is not None:
        assert counter.op_count == ops
    return compiled


x, y = torch.randn(3, 4), torch.randn(3, 4)


def test_functions_operators_and_methods():
    check(lambda a, b: a + b * 2 - torch.relu(a), (x, y), (y, x), ops=4)
    check(lambda a: a.sum(0).view(2, 2).t(), (x,), ops=3)
    check(lambda a: -a @ a.T, (x,), ops=3)
    check(lambda a: F.softmax(a, dim=-1)[0, 1:], (x,), ops=2)


def test_results_of_all_kinds():
    def f(a, b):
        return {"sum": a + b, "both": [a, (b, 3)], "name": "z", "shape": a.shape, "again": a}

    out = check(f, (x, y))(x, y)
    assert out["again"] is x and out["both"][0] is x
    Point = collections.namedtuple("Point", "u v")
    assert check(lambda a: Point(a + 1, 2), (x,))(x).v == 2

    def twice(a):
        made = [a + 1]
        return made, made

    first, second = dynamo.optimize_assert("eager")(twice)(x)
    assert first is second


def test_default_back_end_and_gradients():
    model = Sequential(Linear(4, 8), ReLU(), Linear(8, 2))
    compiled = torch.compile(model, fullgraph=True)
    want, got = model(x), compiled(x)
    assert torch.equal(want, got)
    got.sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert all(torch.equal(g, p.grad) for g, p in zip(grads, model.parameters()))


def test_guards_on_tensors_and_numbers():
    def f(a, n):
        return a * n

    check(f, (x, 2), (y, 2), (x, 2.0), (x, 2), frames=2)
    check(f, (x, 2), (x.double(), 2), (x[0], 2), (x, 2), (x.clone().requires_grad_(), 2), frames=4)


def test_guards_on_globals_and_closures():
    global scale
    n = 1

    def f(a):
        return a * scale + n

    counter = CompileCounter()
    compiled = dynamo.optimize_assert(counter)(f)
    assert torch.equal(compiled(x), x * 2.0 + 1)
    try:
        scale = 3.0
        assert torch.equal(compiled(x), x * 3.0 + 1)
    finally:
        scale = 2.0
    n = 5
    assert torch.equal(compiled(x), x * 2.0 + 5)
    assert counter.frame_count == 3


def test_failing_guards_are_told():
    told = []
    f = lambda a, n: a + n  # noqa: E731
    compiled = dynamo.optimize("eager", guard_fail_fn=told.append)(f)
    compiled(x, 1)
    compiled(x, 1)
    assert told == []
    compiled(x, 2)
    assert told[0][0] == "L['n'] == 1" and told[0][1] is f.__code__


class Block(Module):
    def __init__(self):
        super().__init__()
        self.layers = ModuleList([Linear(4, 4) for _ in range(3)])
        self.weight = Parameter(torch.ones(4))
        self.register_buffer("offset", torch.zeros(4))
        self.count = 0
        self.names = ["a", "b"]

    @property
    def gain(self):
        return self.weight * 2

    def forward(self, a, flag=True, *rest, key=None):
        for i, layer in enumerate(self.layers):
            a = layer(a) if i % 2 == 0 else F.relu(layer(a))
        if flag:
            a = a * self.gain + self.offset
        if self.training:
            a = a + 1
        for r in rest:
            a = a + r
        return a if key is None else a + key


def test_modules():
    m = Block().eval()
    check(m.forward, (x,), (y,), (x, False), frames=2)
    counter = CompileCounter()
    compiled = dynamo.optimize_assert(counter)(m)
    assert isinstance(compiled, dynamo.OptimizedModule)
    assert torch.equal(compiled(x, True, y, key=x), m(x, True, y, key=x))
    m.train()
    assert torch.equal(compiled(x), m(x))
    m.weight = Parameter(torch.full((4,), 3.0))
    assert torch.equal(compiled(x), m(x))
    m.layers[0] = Linear(4, 4)
    assert torch.equal(compiled(x), m(x))


def test_stores_are_replayed():
    class Counter(Module):
        def __init__(self):
            super().__init__()
            self.n = 0
            self.last = None
            self.log = []
            self.table = {}

        def forward(self, a):
            self.n += 1
            b = a * self.n
            self.last = b
            self.log.append(b)
            self.table["k"] = self.n
            return b + self.last

    m, plain = Counter(), Counter()
    compiled = dynamo.optimize_assert("eager")(m)
    for _ in range(3):
        assert torch.equal(compiled(x), plain(x))
    assert m.n == 3 and len(m.log) == 3 and m.log[-1] is m.last and m.table == {"k": 3}
    assert torch.equal(m.log[1], plain.log[1])

    total = [0]

    def outer():
        n = 0

        def step(a):
            nonlocal n
            global seen
            n += 1
            total[0] += n
            seen = seen + [n]
            return a + n

        return step, lambda: n

    step, read = outer()
    compiled = dynamo.optimize_assert("eager")(step)
    before = list(seen)
    for i in range(1, 4):
        assert torch.equal(compiled(x), x + i)
    assert read() == 3 and total == [6] and seen == before + [1, 2, 3]


def test_python_of_many_kinds():
    def gen(a, n):
        for i in range(n):
            got = yield a * i
            assert got is None
        return "end"

    def chained(a):
        last = yield from gen(a, 2)
        yield a + len(last)

    def deco(f):
        @functools.wraps(f)
        def g(*args, **kwargs):
            return f(*args, **kwargs) + 1

        return g

    @deco
    def helper(a, *, k=2):
        return a * k

    class Thing:
        factor = 3

        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return Thing(self.v + other)

        def __call__(self, a):
            return a * self.v * self.factor

        def __len__(self):
            return 2

    def f(a, words):
        out = [t for t in chained(a)]
        out += [helper(a, k=3), helper(a)]
        out.append((Thing(a) + 1)(a))
        try:
            words["missing"]
        except KeyError as e:
            out.append(a + len(e.args))
        finally:
            out.append(a - 1)
        first, *middle, last = words["n"]
        out.append(a * first + sum(middle) + last)
        out.extend(a + v for k, v in sorted(words["d"].items(), key=lambda kv: -kv[1]) if k != "skip")
        with torch.no_grad():
            out.append(a.sum())
        s = f"{first:02d}-{'x' * 2!r}"
        pairs = list(zip(words["n"], reversed(words["n"])))
        out.append(a + any(p == (1, 4) for p in pairs) + len(Thing(1)) + len(s))
        out.append(functools.reduce(lambda p, q: p + q, [a, a, a]))
        return out, {k: v for k, v in words["d"].items()}, {1, 2} | {3}

    check(f, (x, {"n": [1, 2, 3, 4], "d": {"a": 1, "b": 2, "skip": 9}}), (y, {"n": [1, 2, 3, 4], "d": {"a": 1, "b": 2, "skip": 9}}))


def test_grad_mode_inside():
    w = torch.randn(4, requires_grad=True)

    def f(a):
        with torch.no_grad():
            b = a * w
        return b, a * w

    for backend in ("eager", "inductor"):
        dynamo.reset()
        b, c = torch.compile(f, backend=backend, fullgraph=True)(x)
        assert not b.requires_grad and c.requires_grad
        assert torch.is_grad_enabled()


def test_aliased_arguments():
    def f(a, b):
        a.add_(1)
        return a + b

    compiled = dynamo.optimize_assert("eager")(f)
    u, v = torch.zeros(2), torch.zeros(2)
    assert torch.equal(compiled(u, v), torch.ones(2))
    assert torch.equal(compiled(v, v), torch.full((2,), 2.0))
    assert torch.equal(compiled(u, v), torch.full((2,), 3.0))


def branchy(a):
    a = a + 1
    if a.sum() > 0:
        return a * 2
    return a


def test_what_cannot_be_followed():
    with pytest.raises(dynamo.exc.Unsupported, match=r"Data-dependent branching(?s:.*)line \d+, in branchy"):
        torch.compile(branchy, fullgraph=True)(x)
    counter = CompileCounter()
    assert torch.equal(dynamo.optimize(counter)(branchy)(x), branchy(x))
    assert counter.frame_count == 0
    with pytest.raises(dynamo.exc.Unsupported, match="Tensor.item"):
        torch.compile(lambda a: a.sum().item(), fullgraph=True)(x)
    assert torch.is_grad_enabled()


def test_errors_are_the_programs_own():
    def f(a, b):
        return a @ b

    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.compile(f)(x, y)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        torch.compile(f)(x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        torch.compile(f)(x, c=y)

    def g(a):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        torch.compile(g, fullgraph=True)(x)


def test_a_back_end_that_fails():
    def bad(gm, inputs):
        raise KeyError("no")

    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="bad.*raised"):
        torch.compile(lambda a: a + 1, backend=bad)(x)
    with pytest.raises(dynamo.exc.InvalidBackend):
        torch.compile(lambda a: a, backend="nothing")


def test_the_graph_that_back_ends_see():
    keep = CompileCounterWithBackend("eager")
    m = Block().eval()
    dynamo.optimize_assert(keep)(m)(x)
    text = keep.graphs[0].code
    assert "self.L__self___layers_0(l_a_)" in text and "self.L__self___weight" in text
    assert "torch.nn.functional.relu" in text.replace("taper", "torch")


def test_nothing_is_kept_alive():
    def f(a, b):
        return [a + b], a

    counter = CompileCounter()
    compiled = dynamo.optimize_assert(counter)(f)
    u, v = torch.randn(2), torch.randn(2)
    dead = weakref.ref(u)
    compiled(u, v)
    del u
    gc.collect()
    assert dead() is None
    failing = torch.compile(branchy)
    u = torch.randn(3)
    dead = weakref.ref(u)
    failing(u)
    del u
    gc.collect()
    assert dead() is None


def test_calls_under_tracers_run_plainly():
    from taper.fx.experimental.proxy_tensor import make_fx

    compiled = torch.compile(lambda a: torch.relu(a) + 1)
    assert "relu" in make_fx(compiled)(x).code


def test_methods_and_callable_objects():
    class Box:
        def __init__(self, k):
            self.k = k

        @torch.compile
        def scale(self, a):
            return a * self.k

        def __call__(self, a):
            return a + self.k

    box = Box(2)
    assert torch.equal(box.scale(x), x * 2)
    assert torch.equal(torch.compile(box)(x), x + 2)
    assert torch.equal(torch.compile(torch.add)(x, y), x + y)
