"""The frame hook: asked about frames before they run, it lets them run, runs other code in them, or has the result."""
import asyncio
import gc
import subprocess
import sys
import threading
import weakref

import pytest
from taper._C import _capture
from test_capture_bytecode import CASES, outcome

pytestmark = pytest.mark.skipif(not _capture.available, reason="bytecode capture is not available on this Python")
swap = _capture._swap_constant


@pytest.fixture(autouse=True)
def all_left():
    yield
    assert _capture._entered() == 0


class Asker:
    """Logs the frames it is asked about; answers by the code's name."""

    def __init__(self, **answers):
        self.seen, self.answers = [], answers

    def __call__(self, code, arguments):
        self.seen.append(code.co_name)
        answer = self.answers.get(code.co_name)
        return answer(code, arguments) if callable(answer) else answer

    def run(self, function, *args, **kwargs):
        return _capture._watch(self, function, *args, **kwargs)


def eight(code, arguments):
    return swap(code, 7, 8)


def eight_flat(code, arguments):
    return _capture._flattened(swap(code, 7, 8))


def add(a, b=2, *c, k=3, **d):
    return a + 7, b, c, k, d


def callee():
    return 7


def caller(n):
    return [callee() for _ in range(n)], callee()


# ---- answers ----
@pytest.mark.parametrize("answer", [eight, eight_flat])
def test_other_code_runs_with_the_frame_s_arguments(answer):
    asker = Asker(add=answer)
    assert asker.run(add, 1) == (9, 2, (), 3, {})
    assert asker.run(add, 1, 5, 6, 7, k=8, z=9) == (9, 5, (6, 7), 8, {"z": 9})
    assert add(1) == (8, 2, (), 3, {})
    assert asker.seen == ["add", "add"]


def test_frames_below_are_asked_about():
    asker = Asker(callee=eight)
    assert asker.run(caller, 2) == ([8, 8], 8)
    assert asker.seen == ["caller", "<listcomp>", "callee", "callee", "callee"]
    assert caller(1) == ([7], 7)


def test_plain_frames_hide_those_below():
    asker = Asker(caller=lambda code, arguments: False, callee=eight)
    assert asker.run(caller, 1) == ([7], 7)
    assert asker.seen == ["caller"]
    assert asker.run(callee) == 8


def test_result_instead_of_frame():
    asker = Asker(callee=lambda code, arguments: (42,), caller=lambda code, arguments: None)
    assert asker.run(caller, 1) == ([42], 42)

    def fail(code, arguments):
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        Asker(callee=fail).run(caller, 1)


def test_arguments_are_shown():
    seen = []
    Asker(add=lambda code, arguments: seen.append(arguments)).run(add, 1, 2, 3, z=4)
    assert seen == [(1, 2, 3, (3,), {"z": 4})]


def test_the_asker_is_not_asked_about():
    def ask(code, arguments):
        return helper(code)

    def helper(code):
        seen.append(code.co_name)

    seen = []
    _capture._watch(ask, callee)
    assert seen == ["callee"]


def test_code_that_does_not_fit_is_refused():
    def other(a, b):
        return a

    def cell():
        return free

    free = 1
    for code in (other.__code__, cell.__code__, (lambda: (yield)).__code__):
        with pytest.raises(RuntimeError, match="does not fit the frame"):
            Asker(callee=lambda c, arguments: code).run(callee)
    with pytest.raises(RuntimeError, match="no code object"):
        Asker(callee=lambda c, arguments: 3).run(callee)
    with pytest.raises(ValueError, match="tuple of one"):
        Asker(callee=lambda c, arguments: ()).run(callee)
    assert Asker().run(callee) == 7


def test_larger_and_smaller_code():
    def small():
        return 7

    space = {}
    exec("def large():\n" + "".join(f"    v{k} = {k}\n" for k in range(300)) + "    return [" +
         ", ".join(f"v{k}" for k in range(300)) + ", max(*(v1, v2), *[v3]), locals()]", space)
    large = space["large"]
    items = Asker(small=lambda code, arguments: large.__code__).run(small)
    assert items[:301] == [*range(300), 3] and len(items[301]) == 300
    assert Asker(large=lambda code, arguments: small.__code__).run(large) == 7


# ---- what frames can be ----
def test_closures_cells_and_super():
    class Base:
        def value(self):
            return 7

    class Sub(Base):
        def value(self, by=1):
            def inner():
                return by + 7
            return super().value() + inner()

    assert Asker(value=eight).run(Sub().value) == 8 + 8
    assert Asker(value=eight, inner=eight).run(Sub().value, 2) == 8 + 10


def test_class_bodies():
    def make():
        class Body:
            x = 7
            y = [x for _ in range(2)] if False else x
        return Body

    body = Asker(Body=eight).run(make)
    assert body.x == body.y == 8


@pytest.mark.parametrize("answer", [eight, eight_flat])
def test_generators(answer):
    def numbers(n, *rest, by=1):
        try:
            for k in range(n):
                got = yield k + 7 + by
                if got:
                    yield got, callee(), rest
        finally:
            log.append(7)

    log = []
    asker = Asker(numbers=answer)
    assert asker.run(lambda: list(numbers(2))) == [9, 10]
    g = asker.run(numbers, 2, 5, by=2)
    assert next(g) == 10 and g.send("x") == ("x", 7, (5,))
    g.close()
    assert log == [8, 8]
    # entered once, resumed unasked; what it calls is asked about
    asker = Asker(numbers=answer, callee=eight)

    def drive():
        g = numbers(1)
        return next(g), g.send(1)

    assert asker.run(drive) == (9, (1, 8, ()))
    assert asker.seen == ["drive", "numbers", "callee"]


def test_generators_keep_their_names():
    def numbers():
        yield 7

    numbers.__name__, numbers.__qualname__ = "renamed", "quite.renamed"
    g = Asker(numbers=eight).run(numbers)
    assert (g.__name__, g.__qualname__, next(g)) == ("renamed", "quite.renamed", 8)


@pytest.mark.parametrize("change", [_capture._roundtrip, _capture._flattened, _capture._unmarked], ids=["same", "flat", "unmarked"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: getattr(c[0], "func", c[0]).__name__)
def test_every_frame_runs_other_code(case, change):
    """Programs of all kinds of code, the library they call among it, with each frame's code exchanged."""
    made = {}

    def ask(code, arguments):
        if code not in made:
            made[code] = change(code)
        return made[code]

    function, inputs = case
    for args in inputs:
        assert outcome(lambda *a: _capture._watch(ask, function, *a), args)[:3] == outcome(function, args)[:3]
    assert made


def test_coroutines():
    async def inner(x):
        await asyncio.sleep(0)
        return x + 7

    async def outer():
        return [await inner(k) async for k in ticks(2)]

    async def ticks(n):
        for k in range(n):
            yield k * 7

    asker = Asker(inner=eight, ticks=eight)
    assert asker.run(asyncio.run, outer()) == [8, 16]


def test_exceptions_pass_through():
    def risky(x):
        try:
            return 7 // x
        except ZeroDivisionError as e:
            raise ValueError(7) from e

    asker = Asker(risky=eight)
    assert asker.run(risky, 2) == 4
    with pytest.raises(ValueError) as caught:
        asker.run(risky, 0)
    assert caught.value.args == (8,) and isinstance(caught.value.__cause__, ZeroDivisionError)
    frame = caught.traceback[-1]
    assert frame.name == "risky" and frame.lineno == risky.__code__.co_firstlineno + 3


def test_recursion():
    def deep(n):
        return 0 if n == 0 else 7 + deep(n - 1)

    asker = Asker(deep=eight)
    assert asker.run(deep, 300) == 8 * 300
    with pytest.raises(RecursionError):
        asker.run(deep, 10 ** 6)
    assert asker.run(deep, 300) == 8 * 300


def test_recursion_with_larger_frames():
    """Frames grow on the interpreter's stack until a chunk ends, where a function is called instead."""
    def deep(n, *rest, k=1):
        return 0 if n == 0 else k + deep(n - 1, n, k=7)

    def larger(n, *rest, k=1):
        a, b, c, d, e, f, g, h = 1, 2, 3, 4, 5, 6, 7, n
        return 0 if n == 0 else k + deep(n - 1, n, k=max(a, b, c, d, e, f, g, min(h, 0), 9))

    assert Asker(deep=lambda code, arguments: larger.__code__.replace(co_freevars=code.co_freevars)).run(deep, 200) == 1 + 199 * 9


def test_the_c_stack_is_guarded():
    """With the hook Python calls recurse in C: the end of the C stack must be an error, in threads too."""
    program = """
import sys, threading
from taper._C import _capture
sys.setrecursionlimit(10 ** 7)
def deep(n):
    return n and deep(n - 1)
def run():
    for _ in range(2):
        try:
            _capture._watch(lambda code, arguments: None, deep, 10 ** 7)
        except RecursionError as e:
            print(e)
    print(_capture._watch(lambda code, arguments: None, deep, 100))
run()
t = threading.Thread(target=run)
t.start()
t.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    message = "maximum recursion depth exceeded: the C stack is used up\n"
    assert (done.returncode, done.stdout) == (0, (2 * message + "0\n") * 2), done.stderr


# ---- the world around ----
def test_nested_captures():
    inner, outer = Asker(callee=eight), Asker()

    def nest():
        return callee(), inner.run(callee), callee()

    assert outer.run(nest) == (7, 8, 7)
    assert "callee" in inner.seen and outer.seen.count("callee") == 2
    # a plain region below which another capture is entered
    plain = Asker(nest=lambda code, arguments: False)
    inner.seen.clear()
    assert plain.run(nest) == (7, 8, 7) and plain.seen == ["nest"] and inner.seen == ["callee"]


def test_threads_are_asked_alone():
    inside, done, results = threading.Event(), threading.Event(), []

    def other():
        inside.wait(20)
        results.append(caller(3))
        done.set()

    def main():
        inside.set()
        done.wait(20)
        return callee()

    thread = threading.Thread(target=other)
    thread.start()
    asker = Asker(callee=eight)
    assert asker.run(main) == 8
    thread.join()
    assert results == [([7, 7, 7], 7)] and asker.seen.count("callee") == 1


def test_many_threads():
    def work(k):
        asker = Asker(callee=lambda code, arguments: swap(code, 7, k))
        for _ in range(60):
            results.append(asker.run(caller, 2) == ([k, k], k))

    results = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 360 and _capture._entered() == 0


@pytest.mark.parametrize("tool", ["settrace", "setprofile"])
def test_tracing_and_profiling(tool):
    events = []

    def watch(frame, event, arg):
        if frame.f_code.co_name in ("callee", "caller"):
            events.append((event, frame.f_code.co_name, arg if event == "return" else None))
        return watch

    asker = Asker(callee=eight)
    old = getattr(sys, "gettrace" if tool == "settrace" else "getprofile")()
    getattr(sys, tool)(watch)
    try:
        result = asker.run(caller, 1)
    finally:
        getattr(sys, tool)(old)
    assert result == ([8], 8)
    assert [e for e in events if e[0] in ("call", "return")] == [
        ("call", "caller", None), ("call", "callee", None), ("return", "callee", 8), ("call", "callee", None),
        ("return", "callee", 8), ("return", "caller", ([8], 8))]


def test_other_code_holds_arguments_no_longer():
    def count(thing):
        return sys.getrefcount(thing), 7

    plain, _ = Asker().run(lambda: count(object()))
    assert Asker(count=eight).run(lambda: count(object())) == (plain, 8)


def test_frames_see_their_code():
    def look():
        return sys._getframe().f_code, 7

    code, value = Asker(look=eight).run(look)
    assert value == 8 and code is not look.__code__ and code.co_name == "look"


def test_no_leak():
    class Thing:
        pass

    def work(thing, *rest, k=None):
        return [7, thing][0]

    def numbers(thing):
        yield 7

    asker = Asker(work=eight, numbers=eight)
    watched = []

    def all_of_it():
        thing = Thing()
        watched.append(weakref.ref(thing))
        assert asker.run(work, thing, thing, k=thing) == 8
        assert asker.run(lambda: list(numbers(thing))) == [8]
        with pytest.raises(TypeError):
            asker.run(work)

    for _ in range(20):
        all_of_it()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        all_of_it()
    asker.seen.clear()
    gc.collect()
    assert not any(w() for w in watched)
    watched.clear()
    assert sys.getallocatedblocks() - before < 400


def test_captures_overlap_in_threads():
    """The first to enter leaves first: the hook stays for the other."""
    first, second = Asker(callee=eight), Asker()
    order = []

    def below(name, gate):
        gate.wait(20)
        order.append(name)
        return callee()

    gates = [threading.Event(), threading.Event()]
    results = {}
    threads = [threading.Thread(target=lambda k=k, a=a: results.update({k: a.run(below, k, gates[k])}))
               for k, a in enumerate((first, second))]
    for t in threads:
        t.start()
    for k in (0, 1):
        gates[k].set()
        threads[k].join()
    assert results == {0: 8, 1: 7} and order == [0, 1] and _capture._entered() == 0


# ---- what hangs on code objects ----
def test_code_keeps_an_object():
    class Thing:
        pass

    space = {}
    exec("def f(): pass", space)
    code = space.pop("f").__code__
    assert _capture._kept(code) is None
    thing = Thing()
    watch = weakref.ref(thing)
    _capture._keep(code, thing)
    assert _capture._kept(code) is thing and _capture._kept(callee.__code__) is None
    _capture._keep(code, "another")
    del thing
    gc.collect()
    assert watch() is None and _capture._kept(code) == "another"
    last = Thing()
    watch = weakref.ref(last)
    _capture._keep(code, last)
    del last, code
    space.clear()
    gc.collect()
    assert watch() is None
