"""What lives how long around compiled callables, and what odd programs do to the capture: nothing leaks, hangs or crashes."""
import asyncio
import collections
import gc
import signal
import sys
import threading
import time
import types
import weakref

import pytest
import taper as torch
import taper._dynamo as dynamo
from taper._dynamo.exc import BackendCompilerFailed, Unsupported
from taper._dynamo.utils import same
from taper.fx.experimental.proxy_tensor import make_fx
from taper.nn import Linear, Module, Sequential

from lifetimes import assert_no_growth, compiled, fail, fresh, kind_of_error, x  # noqa: F401 (a fixture)


# ---- compiled callables and what they keep ----
class Model(Module):
    def __init__(self):
        super().__init__()
        self.layers, self.me = Sequential(Linear(4, 4), Linear(4, 2)), [self]

    def forward(self, a):
        return self.layers(a) + 1


def test_a_compiled_model_dies_with_its_parameters():
    model = Model()
    c = torch.compile(model, backend="eager")
    c(x)
    dead = [weakref.ref(o) for o in (model, model.layers[1], model.layers[0].weight)]
    del model, c
    gc.collect()
    gc.collect()                                    # the graph's module is a cycle too, free only now
    assert [d() for d in dead] == [None] * 3

    def one_more():
        compiled(Model())(x)

    assert_no_growth(one_more)


def test_what_a_closure_of_a_compiled_function_holds_dies():
    def make(model):
        return compiled(lambda a: model(a) * 2)

    def run():
        model = Model()
        make(model)(x)
        return weakref.ref(model)

    dead = run()
    gc.collect()
    assert dead() is None
    assert_no_growth(run)


def test_back_ends_and_callables_die():
    class Backend:
        def __call__(self, gm, examples):
            return gm.forward

    def f(a):
        return a + 1

    backend = Backend()
    c = compiled(f, backend)
    c(x)
    dead = weakref.ref(backend), weakref.ref(c)
    del backend, c
    gc.collect()
    assert [d() for d in dead] == [None, None]


def test_reset_gives_everything_back():
    class Parent(Module):                           # its child knows it: the graph's modules and the guards close a cycle
        def __init__(self):
            super().__init__()
            self.layer = Linear(4, 4)
            self.layer.__dict__["parent"] = self

        def forward(self, a):
            return self.layer(a)

    model = Parent()
    compiled(model)(x)
    dead = weakref.ref(model)
    del model
    dynamo.reset()
    gc.collect()
    assert dead() is None


def test_weak_references_of_guards_outlive_them():
    model = Model()
    compiled(model)(x)
    found = weakref.getweakrefs(model)
    dynamo.reset()
    del model
    gc.collect()
    assert all(r() is None for r in found)


def test_guards_that_fail_leave_nothing():
    def run():
        dynamo.reset()
        told = []
        c = dynamo.optimize("eager", guard_fail_fn=told.append)(lambda a, n: a + n)
        for n in range(12):
            assert torch.equal(c(x, n), x + n)
        assert told

    assert_no_growth(run)


def test_a_guard_reporter_that_raises():
    def refuse(reason):
        raise KeyError("reported")

    c = dynamo.optimize("eager", guard_fail_fn=refuse)(lambda a, n: a + n)
    c(x, 1)
    with pytest.raises(KeyError, match="reported"):
        c(x, 2)
    assert torch.equal(c(x, 1), x + 1)


BACKENDS = {
    "raises": (lambda gm, examples: 1 / 0, BackendCompilerFailed),
    "gives None": (lambda gm, examples: None, BackendCompilerFailed),
    "gives a number": (lambda gm, examples: 5, BackendCompilerFailed),
    "takes nothing": (lambda: None, BackendCompilerFailed),
    "gives a tensor": (lambda gm, examples: lambda *a: a[0], TypeError),
    "gives too few": (lambda gm, examples: lambda *a: (), RuntimeError),
    "fails when run": (lambda gm, examples: lambda *a: fail(a[0]), ValueError),
    "is interrupted": (lambda gm, examples: signal.raise_signal(signal.SIGINT), KeyboardInterrupt),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_back_ends_that_fail(name):
    backend, error = BACKENDS[name]

    def run():
        dynamo.reset()
        for fullgraph in (True, False):
            with pytest.raises(error):
                compiled(lambda a: (a + 1, a * 2), backend, fullgraph)(x)

    assert_no_growth(run)


def test_unsupported_in_the_middle():
    def f(a):
        parts = [a + 1]
        with torch.no_grad():
            parts.append((b * 2 for b in parts))
            for b in parts[1]:
                if b.sum() > 0:
                    parts.append(b)
                    break
        return parts[2]

    def run():
        dynamo.reset()
        with pytest.raises(Unsupported):
            compiled(f)(x)
        assert torch.is_grad_enabled()
        assert torch.equal(compiled(f, fullgraph=False)(x), (x + 1) * 2)

    assert_no_growth(run)


# ---- the program changes what is running ----
def test_reset_while_running():
    depth = []

    def backend(gm, examples):
        dynamo.reset()

        def run(*args):
            dynamo.reset()
            gc.collect()
            if len(depth) < 3:
                depth.append(1)
                assert torch.equal(c(x), torch.relu(x) * 2)
            return gm(*args)
        return run

    c = compiled(lambda a: torch.relu(a) * 2, backend)
    for _ in range(4):
        depth.clear()
        assert torch.equal(c(x), torch.relu(x) * 2)


def test_a_function_that_gets_other_code_while_it_runs():
    def other(a, b=1, *c, d=2, **e):
        return a - 1

    def function(text):
        names = {"torch": torch}
        exec(text, names)
        return names["f"]

    def backend(gm, examples):
        def run(*args):
            f.__code__ = other.__code__
            f.__kwdefaults__, f.__defaults__ = {"d": 2}, (1,)
            gc.collect()
            return gm(*args)
        return run

    f = function("def f(a): return torch.relu(a) * 2")
    c = compiled(f, backend)
    assert torch.equal(c(x), torch.relu(x) * 2)
    assert torch.equal(c(x), x - 1)

    def exchange(reason):
        f.__code__ = (lambda a, b, c, d: a).__code__

    f = function("def f(a, n): return a * n")
    c = dynamo.optimize("eager", guard_fail_fn=exchange)(f)
    c(x, 1)
    with pytest.raises(TypeError):
        c(x, 2)


def test_outputs_that_change_under_the_call():
    kept = []

    class Watching(list):
        def __init__(self, items):
            kept.clear()
            gc.collect()
            super().__init__(items)

    def backend(gm, examples):
        def run(*args):
            kept[:] = gm(*args)
            return kept
        return run

    def f(a):
        return Watching([a + 1, a + 2]), a + 3

    got = compiled(f, backend, fullgraph=False)(x)
    assert torch.equal(got[0][1], x + 2) and torch.equal(got[1], x + 3)


def test_keys_with_a_mind_of_their_own():
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            held.clear()
            dynamo.reset()
            gc.collect()
            return False

    def total(d):
        out = 0
        for value in d.values():
            out = out + value
        return out

    c = compiled(total, fullgraph=False)
    for _ in range(3):
        held = {Key(): x}
        assert torch.equal(c(held), x)


def test_a_class_that_lies_while_it_is_looked_at():
    class Liar:
        @property
        def __class__(self):
            held.clear()
            gc.collect()
            return int

    held = [Liar(), x, [1], object()]
    try:
        compiled(lambda l, a: a + len(list(l)), fullgraph=False)(held, x)
    except (IndexError, RuntimeError):
        pass
    assert held == []


def test_each_closure_has_its_own_cells():
    def make():
        n = 0

        def f(a):
            nonlocal n
            n += 1
            return a + n
        return compiled(f), lambda: n

    (f, n), (g, m) = make(), make()
    assert torch.equal(f(x), x + 1) and torch.equal(g(x), x + 1) and torch.equal(f(x), x + 2)
    assert (n(), m()) == (2, 1)


def test_functions_of_one_code_have_their_own_globals():
    def store(a):
        global stored_by_a_test
        stored_by_a_test = a.shape[0]
        return a + 1

    names = [{}, {}]
    for own in names:
        compiled(types.FunctionType(store.__code__, own))(x)
    assert names[0]["stored_by_a_test"] == names[1]["stored_by_a_test"] == 3


# ---- containers that hold themselves ----
def test_containers_that_hold_themselves():
    held = [1]
    held.append(held)
    for function, want in ((lambda l: len(l), 2), (lambda l: l[1][1][0], 1), (lambda l: repr(l), repr(held))):
        assert compiled(function, fullgraph=False)(held) == want
    for function in (lambda a, l: torch.cat(l), lambda a, l: torch.cat([a, l]), lambda a, l: l == [l]):
        assert kind_of_error(lambda: compiled(function, fullgraph=False)(x, held)) == kind_of_error(lambda: function(x, held))
    with pytest.raises(RecursionError):
        make_fx(lambda a: held)(x)


def test_results_that_hold_themselves():
    Pair = collections.namedtuple("Pair", "first second")

    class Items(list):
        pass

    def in_list(a):
        made = [a + 1]
        made.append(made)
        return made

    def in_tuple(a):
        made = []
        made.append((a + 1, made))
        return made[0]

    def in_pair(a):
        made = []
        made.append(Pair(made, a + 1))
        return made[0]

    def in_items(a):
        made = Items([a + 1])
        made.append(made)
        return made

    def run():
        dynamo.reset()
        got = compiled(in_list)(x)
        assert got[1] is got and torch.equal(got[0], x + 1)
        got = compiled(in_tuple)(x)
        assert got[1][0] is got
        for function in (in_pair, in_items):
            got = compiled(function, fullgraph=False)(x)
            assert got[0][0] is got if function is in_pair else got[1] is got

    assert_no_growth(run)


def test_deep_results():
    def f(a):
        made = []
        for _ in range(5000):
            made = [made]
        return made, a + 1

    with pytest.raises(RecursionError):
        compiled(f)(x)
    assert torch.equal(compiled(f, fullgraph=False)(x)[1], x + 1)


def test_dicts_of_a_class_are_kept_apart():
    def f(a):
        return [collections.OrderedDict([(str(i), a + i)]) for i in range(4)]

    assert [list(d) for d in compiled(f)(x)] == [["0"], ["1"], ["2"], ["3"]]


# ---- depth ----
def deeper(a, n):
    return a if n == 0 else deeper(a + 1, n - 1)


def test_deep_inlining():
    assert torch.equal(compiled(deeper)(x, 50), x + 50)
    with pytest.raises(RecursionError):
        compiled(deeper)(x, 100_000)
    with pytest.raises(RecursionError):
        compiled(deeper, fullgraph=False)(x, 100_000)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_recursion_beyond_the_stack(where):
    """With its own limit out of reach, the stack of C ends first."""
    def endless(a):
        return endless(a + 1)

    @torch.compile(backend="eager")
    def calls_itself(a):
        print("", end="")
        return calls_itself(a)

    seen, limit = [], sys.getrecursionlimit()

    def run():
        for function in (compiled(endless), calls_itself):
            with pytest.raises(RecursionError):
                function(x)
            seen.append(function)

    sys.setrecursionlimit(10**7)
    try:
        if where == "main":
            run()
        else:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    finally:
        sys.setrecursionlimit(limit)
    assert len(seen) == 2


# ---- threads and signals ----
def test_threads_call_one_function():
    def f(a, n):
        return torch.relu(a) * n + 1

    c, errors, start, interval = compiled(f), [], threading.Barrier(6), sys.getswitchinterval()

    def run(k):
        try:
            start.wait()
            for i in range(60):
                n = (i + k) % 5
                assert torch.equal(c(x, n), f(x, n))
                if i % 20 == 0:
                    dynamo.reset()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def test_other_threads_run_while_a_capture_lasts():
    ran, stop = threading.Event(), []

    def patient(n):
        while not stop:
            n = n + 1
        return n

    def run():
        ran.set()
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.05, run)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(patient)(1)
    timer.join()
    assert ran.is_set()


@pytest.mark.parametrize("fullgraph", [True, False])
def test_interrupts_leave_the_capture(fullgraph):
    seen = []

    def f(a):
        try:
            with torch.no_grad():
                for b in (a for _ in range(10**9)):
                    a = b.abs() if len(seen) > 10 else b
        except Exception:
            seen.append("handled")
        return a

    def alarm(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(f, fullgraph=fullgraph)(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [] and torch.is_grad_enabled()
    assert torch.equal(compiled(lambda a: a + 1)(x), x + 1)


# ---- odd functions ----
def test_generators_and_coroutines_run_plainly():
    def parts(a):
        yield a + 1
        yield a + 2

    async def later(a):
        return a + 1

    async def stream(a):
        yield a + 1

    async def use():
        return [b async for b in compiled(stream, fullgraph=False)(x)], await compiled(later, fullgraph=False)(x)

    assert [torch.equal(b, x + i + 1) for i, b in enumerate(compiled(parts, fullgraph=False)(x))] == [True, True]
    (first,), second = asyncio.run(use())
    assert torch.equal(first, x + 1) and torch.equal(second, x + 1)
    for function in (parts, later, stream):
        with pytest.raises(Unsupported):
            compiled(function)(x)


def code(text):
    names = {"torch": torch, "x": x}
    exec(text, names)
    return names["f"]


def nested(depth):
    return "def f(a, n=99):\n" + "".join(" " * (i + 1) + f"if n > {i}:\n" for i in range(depth)) + " " * (depth + 1) + "return a + n\n"


ODD = {
    "a class body": ("def f(a):\n class C:\n  z = a + 1\n  def m(self): return a * 2\n return C.z, C().m()", (x,)),
    "255 parameters": (f"def f({', '.join(f'a{i}' for i in range(255))}): return a0 + a254", (x,) * 255),
    "300 parameters": (f"def f({', '.join(f'a{i}' for i in range(300))}): return a0 + a299", (x,) * 300),
    "a call with 300 parameters": (f"def g({', '.join(f'a{i}' for i in range(300))}): return a0 + a299\ndef f(a): return g(*[a] * 300)", (x,)),
    "254 arguments": ("def f(*a): return a[0] + len(a)", (x,) * 254),
    "255 arguments": ("def f(*a): return a[0] + len(a)", (x,) * 255),
    "256 arguments": ("def f(*a): return a[0] + len(a)", (x,) * 256),
    "5000 arguments": ("def f(*a): return a[0] + len(a)", (x,) * 5000),
    "1000 names": ("def g(**k): return len(k)\ndef f(a): return a + g(**{f'k{i}': i for i in range(1000)})", (x,)),
    "names that are none": ("def g(a, **k): return a\ndef f(a): return g(a, **{1: 2})", (x,)),
    "a name twice": ("def g(a, **k): return a\ndef f(a): return g(a, a=a)", (x,)),
    "arguments that are none": ("def f(a): return f(*5)", (x,)),
    "a large number": ("def f(a): return a + 1, 1 << 20000", (x,)),
    "a large index": ("def f(a): return a[1 << 70]", (x,)),
    "large sizes": ("def f(a): return a.view(1 << 40, 1 << 40)", (x,)),
    "a long string": (f"def f(a): return a + len({'z' * 100_000!r})", (x,)),
    "a long list": (f"def f(a): return a + len([{'1,' * 20_000}])", (x,)),
    "a long body": ("def f(a):\n" + " a = a + 1\n" * 2000 + " return a", (x,)),
    "a long expression": ("def f(a): return a" + " + a" * 800, (x,)),
    "deep blocks": (nested(18), (x,)),
    "a deep tuple": ("def f(a): return " + "(" * 90 + "a" + ",)" * 90, (x,)),
    "except*": ("def f(a):\n try: raise ExceptionGroup('g', [ValueError(1)])\n except* ValueError: a = a + 1\n return a", (x,)),
    "match": ("def f(a, k={'u': 1}):\n match k:\n  case {'u': v, **rest}: return a + v\n  case [p, *q]: return a + p\n", (x,)),
    "eval": ("def f(a): return eval('a + 1')", (x,)),
    "locals": ("def f(a): return locals()['a'] + 1", (x,)),
    "a deleted variable": ("def f(a):\n del a\n return a", (x,)),
    "an empty cell": ("def f(a):\n def g(): return b\n g()\n b = a", (x,)),
    "a missing name": ("def f(a): return a + nowhere", (x,)),
    "raise without one": ("def f(a): raise", (x,)),
    "raise of a number": ("def f(a): raise 5", (x,)),
    "a cause that is none": ("def f(a): raise ValueError from 5", (x,)),
    "a cause that is a class": ("def f(a): raise ValueError from KeyError", (x,)),
    "except of a number": ("def f(a):\n try: raise ValueError\n except 5: pass", (x,)),
    "with of a number": ("def f(a):\n with 5: pass", (x,)),
    "too few to unpack": ("def f(a): b, c = [a]", (x,)),
    "exit": ("def f(a): raise ArithmeticError(a.shape)", (x,)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_functions(name):
    text, args = ODD[name]

    def outcome(f):
        try:
            return f(*args)
        except Exception as error:
            return type(error), str(error)

    want = outcome(code(text))
    assert same(want, outcome(compiled(code(text), fullgraph=False)))
    whole = outcome(compiled(code(text)))           # captured, refused, or the program's own error
    assert whole[0] is Unsupported or same(want, whole)


def test_odd_functions_leave_nothing():
    def run():
        for text, args in (ODD[name] for name in ("a class body", "except*", "match", "eval", "names that are none", "with of a number")):
            for fullgraph in (True, False):
                kind_of_error(lambda: compiled(code(text), fullgraph=fullgraph)(*args))

    assert_no_growth(run)


def test_captures_take_their_time_but_end():
    start = time.monotonic()
    got = compiled(lambda a: [a + i for i in range(500)])(x)
    assert len(got) == 500 and time.monotonic() - start < 30
