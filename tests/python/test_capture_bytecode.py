"""Code objects through our own instructions and back: the same operations, places and handlers, the same behaviour."""
import asyncio
import dis
import functools
import gc
import glob
import inspect
import random
import struct
import sys
import sysconfig
import types
import warnings

import pytest
from taper._C import _capture

pytestmark = pytest.mark.skipif(not _capture.available, reason="bytecode capture is not available on this Python")


# ---- tools ----
def codes(code):
    """A code object and all those among its constants."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def rebuilt(code, change=_capture._roundtrip):
    """`change` on a code object and on all those inside it."""
    inner = tuple(rebuilt(c, change) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return change(code.replace(co_consts=inner))


def remade(function, change=_capture._roundtrip):
    made = types.FunctionType(rebuilt(function.__code__, change), function.__globals__, function.__name__,
                              function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def operations(code):
    """What `dis` shows, jumps as counts of operations, with the handler of each."""
    shown = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    # a jump to a long operation goes to its first prefix
    starts, first = {}, None
    for i in dis.get_instructions(code):
        first = i.offset if first is None else first
        if i.opname != "EXTENDED_ARG":
            starts[first] = len(starts)
            first = None
    entries = dis.Bytecode(code).exception_entries

    def handler(offset):
        for e in entries:
            if e.start <= offset < e.end:
                return starts[e.target], e.depth, e.lasti
        return None

    for i in shown:
        jump = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        value = starts[i.argval] if jump else i.argval
        if i.opname in ("LOAD_CONST", "KW_NAMES"):
            value = id(code.co_consts[i.arg])
        # a constant operand moves no source position; KW_NAMES cannot raise, and shares its call's
        yield i.opname, value, i.positions.lineno, None if i.opname == "KW_NAMES" else i.positions, handler(i.offset)


def same_to_the_byte(before, after):
    """Most code is: then nothing need be taken apart. Pools may lack what no operation names."""
    return (before.co_code == after.co_code and before.co_linetable == after.co_linetable and
            before.co_exceptiontable == after.co_exceptiontable and after.co_names == before.co_names[:len(after.co_names)] and
            all(a is b for a, b in zip(after.co_consts, before.co_consts)))


def assert_same(before, after):
    if not same_to_the_byte(before, after):
        ours, theirs = list(operations(after)), list(operations(before))
        for a, b in zip(theirs, ours):
            assert a == b
        assert len(ours) == len(theirs)
    for name in ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_filename", "co_name", "co_qualname",
                 "co_firstlineno", "co_varnames", "co_cellvars", "co_freevars"):
        assert getattr(before, name) == getattr(after, name), name
    assert after.co_stacksize <= max(before.co_stacksize, 1)       # CPython counts code it drops later


def library(step):
    root = sysconfig.get_path("stdlib")
    for path in sorted(glob.glob(root + "/*.py") + glob.glob(root + "/*/*.py"))[::step]:
        try:
            with open(path, "rb") as file, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = compile(file.read(), path, "exec")
            yield module
        except (SyntaxError, ValueError):           # lib2to3's and test's own bad examples
            pass


# ---- the library ----
def test_library_round_trips():
    count = modules = 0
    for module in library(3):
        modules += 1
        for code in codes(module):
            assert_same(code, _capture._roundtrip(code))
            count += 1
    assert modules > 300 and count > 15000


def test_unmarked_code_is_stable():
    """Code written without marks of calls decodes to code that is encoded the same."""
    for module in library(40):
        for code in codes(module):
            once = _capture._unmarked(code)
            assert _capture._roundtrip(once).co_code == once.co_code
            assert _capture._decode(_capture._roundtrip(once)) == _capture._decode(once)


# ---- behaviour ----
def loops(n):
    total, i = 0, 0
    while True:
        i += 1
        if i > n:
            break
        for k in range(i):
            if k % 3 == 0:
                continue
            total += k if k & 1 else -k
        else:
            total ^= 5
    return total, [a for a in range(n) if a % 2], {a: b for a, b in zip("abc", range(n))}, {x % 3 for x in range(n)}


def raising(x):
    log = []
    try:
        try:
            log.append("body")
            if x == 1:
                raise KeyError("one")
            if x == 2:
                return log
            1 / (x - 3)
        except KeyError as e:
            log.append(repr(e))
            raise ValueError("from key") from e
        except (ZeroDivisionError, TypeError) as e:
            log.append(type(e).__name__)
        else:
            log.append("else")
        finally:
            log.append("finally")
            if x == 4:
                return log + ["swallowed"]
    except ValueError as e:
        log.append((str(e), str(e.__cause__)))
    return log


class Manager:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind and kind.__name__)
        return self.swallow


def managing(x):
    log = []
    for swallow in (True, False):
        try:
            with Manager(log, swallow) as a, Manager(log, False):
                log.append(a.swallow)
                if x == 0:
                    raise IndexError
                if x == 1:
                    continue
                if x == 2:
                    return log
        except IndexError as e:
            log.append(repr(e))
    return log


def generating(n):
    def numbers(k):
        try:
            got = yield k
            while got is not None:
                got = yield got * 2
        except ValueError:
            yield "caught"
        finally:
            log.append("closed")
        return "done"

    def outer():
        result = yield from numbers(n)
        log.append(result)
        yield from (x * x for x in range(3))

    log = []
    g = outer()
    log += [next(g), g.send(4), g.throw(ValueError), list(g)]
    g = outer()
    next(g)
    g.close()
    return log


def closing(a, b=2, *c, d, e=5, **f):
    count = 0

    def step(by=b, *, more=e):
        nonlocal count
        count += by + more + len(c)
        return lambda: (count, a, d, sorted(f))

    step()
    del b
    return step()(), step(1, more=2)()


def calling(a, b):
    def show(*args, **kwargs):
        return args, kwargs

    (f := show)(1)
    pairs = {"x": a, "y": b}
    return (show(), show(a), show(a, k=b), show(*pairs), show(**pairs), show(1, *[a, b], z=2, **pairs), f"{a!r:>8}{b:04}{a}",
            "-".join(str(v) for v in (a, b)), [show][0](), (lambda: show)()(a), show(show(show(a if b else 0))), sum([a, b]))


def matching(x):
    match x:
        case 0 | 1:
            return "small"
        case [a, *rest, b] if a != b:
            return "sequence", a, rest, b
        case {"k": v, **others}:
            return "mapping", v, others
        case Point(x=0, y=y):
            return "axis", y
        case Point(x, y):
            return "point", x, y
        case str() as s:
            return s
        case _:
            return None


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def grouping(x):
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3)])][x:])
    except* ValueError as e:
        log.append(("values", len(e.exceptions)))
    except* TypeError as e:
        log.append(("types", len(e.exceptions)))
    return log


def awaiting(n):
    class Later:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return 10

        async def __aexit__(self, *exc):
            return exc[0] is KeyError

    async def ticks(k):
        for i in range(k):
            yield i
            await asyncio.sleep(0)

    async def main():
        async with Later() as ten:
            got = [t + ten async for t in ticks(n)]
            async for t in ticks(2):
                got.append(t)
            raise KeyError
        return got, [await asyncio.sleep(0, x) for x in range(2)]

    return asyncio.run(main())


def classing(x):
    class Base:
        kind: int = x

        def value(self):
            return self.kind

        @property
        def twice(self):
            return 2 * self.value()

    class Sub(Base, metaclass=type):
        kind = x + 1

        def value(self):
            return super().value() + 10, __class__.__name__

    return Sub().value(), Base().twice, Base.__annotations__


def storing(x):
    import os.path as p
    from math import pi, tau as t
    box, seen = [1, 2, 3, 4], {}
    box[0], box[-1] = box[-1], box[0]
    box[1:3] = [x]
    seen["a"] = seen["b"] = x
    del seen["a"], box[0]
    point = Point(1, 2)
    point.x += x
    point.y **= 2
    del point.y
    first, *middle, last = range(5)
    assert x >= 0, "negative"
    return box, seen, point.__dict__, p.basename("a/b"), t / pi, first, middle, last, -x, +x, ~x, not x, 1 < x < 5, x is None, x in box


CASES = [(loops, [(0,), (7,)]), (raising, [(0,), (1,), (2,), (3,), (4,)]), (managing, [(0,), (1,), (2,), (3,)]), (generating, [(3,)]),
         (functools.partial(closing, d=1), [(1,), (1, 2, 3), (1, 2, 3, 4)]), (calling, [(1, 2), (0, 0)]),
         (matching, [(0,), ([1, 2, 3],), ([1, 1],), ({"k": 1, "z": 2},), (Point(0, 1),), (Point(2, 3),), ("s",), (1.5,)]),
         (grouping, [(0,), (1,), (2,)]), (awaiting, [(3,)]), (classing, [(4,)]), (storing, [(0,), (3,), (-1,)])]


def outcome(function, args):
    try:
        return "returned", function(*args)
    except Exception as e:
        return "raised", type(e), str(e), [f.lineno - f.frame.f_code.co_firstlineno for f in inspect.getinnerframes(e.__traceback__)[1:]]


@pytest.mark.parametrize("change", [_capture._roundtrip, _capture._unmarked, lambda c: _capture._roundtrip(_capture._unmarked(c))],
                         ids=["same", "unmarked", "unmarked twice"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: getattr(c[0], "func", c[0]).__name__)
def test_behaviour(case, change):
    function, inputs = case
    if isinstance(function, functools.partial):
        ours = functools.partial(remade(function.func, change), **function.keywords)
    else:
        ours = remade(function, change)
    for args in inputs:
        for _ in range(12):         # enough for the interpreter to specialise the operations
            assert outcome(ours, args) == outcome(function, args)


def test_modules_run():
    """A few modules of the library do their work with all their code remade."""
    for name, work in (("fractions", lambda m: m.Fraction("1.25") * m.Fraction(3, 7) ** 2),
                       ("textwrap", lambda m: m.fill("one two three four five six " * 4, 20)),
                       ("difflib", lambda m: list(m.unified_diff(list("abcdef"), list("abdefg")))),
                       ("string", lambda m: m.Formatter().vformat("{0!r:>5} {a[0]}", (1,), {"a": [2]})),
                       ("json.decoder", lambda m: m.JSONDecoder().decode('{"a": [1, 2.5, null, "x\\u00e9"]}')),
                       ("colorsys", lambda m: m.rgb_to_hsv(0.2, 0.5, 0.7)),
                       ("heapq", lambda m: list(m.merge([1, 4], [2, 3], key=lambda x: x))),
                       ("ast", lambda m: m.unparse(m.parse("def f(a, *b): return [x for x in b if x] or a.c(d=1)"))),
                       ("configparser", lambda m: (p := m.ConfigParser(), p.read_string("[a]\nb=%(c)s\nc=1"), p["a"]["b"])[-1])):
        path = __import__(name, fromlist=["x"]).__file__
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
        results = []
        for body in (code, rebuilt(code), rebuilt(code, _capture._unmarked)):
            module = types.ModuleType(name)
            module.__dict__.update(__file__=path, __package__=name.rpartition(".")[0])
            exec(body, module.__dict__)
            results.append(str(work(module)))
        assert results[0] == results[1] == results[2], name


def test_docstring_is_kept():
    def with_doc():
        "the doc"
        return "x"

    def without():
        return "x"

    assert remade(with_doc).__doc__ == "the doc"
    assert remade(without).__doc__ is None


# ---- what decoding shows ----
def test_instructions():
    def f(a, g):
        return g(a.m(1, k=2), 3)

    rows = [(name, argument, flags, depth) for name, argument, flags, *_, depth in _capture._decode(f.__code__)]
    assert rows == [("RESUME", 0, 0, 0), ("CALLEE", 0, 0, 0), ("LOAD_FAST", "g", 0, 0), ("LOAD_FAST", "a", 0, 1),
                    ("LOAD_ATTR", "m", 1, 2), ("LOAD_CONST", 1, 0, 2), ("LOAD_CONST", 2, 0, 3), ("CALL", (2, ("k",)), 1, 4),
                    ("LOAD_CONST", 3, 0, 2), ("CALL", (2, None), 1, 3), ("RETURN_VALUE", None, 0, 1)]


def test_handlers_count_values_only():
    def f(c, g):
        with c:
            g(1)

    rows = _capture._decode(f.__code__)
    handlers = [r[7] for r in rows if r[0] == "CALL" and r[7]]
    target, depth, lasti = handlers[0]
    assert rows[target][0] == "PUSH_EXC_INFO" and depth == 1 and lasti and rows[target][8] == depth + 2
    assert "except" in _capture._print(f.__code__)


def test_decorators_and_comprehensions_are_plain_calls():
    def f(d):
        @d
        def g():
            pass
        return [x for x in g]

    calls = [(argument, flags) for name, argument, flags, *_ in _capture._decode(f.__code__) if name == "CALL"]
    assert calls == [((1, None), 0), ((1, None), 0)]


def test_long_jumps_and_arguments():
    """Jumps and arguments of one, two and three bytes, forwards and backwards."""
    for size in (10, 20, 300, 12000):
        lines = ["def f(n):", " t = 0", " for i in range(n):", "  if i & 1:", "   t -= 1", "  else:"]
        lines += [f"   t += {1000 + k}" for k in range(size)]
        lines += [" else:", "  t += 1", " return t"]
        space, ours = {}, {}
        module = compile("\n".join(lines), "long", "exec")
        exec(module, space)
        exec(rebuilt(module), ours)
        assert_same(space["f"].__code__, ours["f"].__code__)
        assert ours["f"](3) == space["f"](3)


def test_appended_code():
    def f(a, b):
        total = 0
        for k in range(a):
            try:
                total += b[k]
            except IndexError:
                b.append(total)
                return total
        return total

    box, twice = [1, 2], []
    f(3, box), f(3, box)
    function = types.FunctionType(_capture._twice(f.__code__, "another"), globals())
    assert function(3, twice := [1, 2]) == 6 and twice == box == [1, 2, 3]
    assert function.__code__.co_varnames == ("a", "b", "another", "total", "k")


def test_code_from_nothing():
    def show(*args, **kwargs):
        return args, kwargs

    show.m = lambda: "method"
    cells = tuple(types.CellType(value) for value in (show, "x"))
    function = types.FunctionType(_capture._built((1, 2), 3), {}, "made", None, cells)
    for _ in range(12):
        assert function() == [((), {}), (("x",), {}), ((1, 2), {}), ((), {"k": 3}), "method"]
    names = [row[0] for row in _capture._decode(function.__code__)]
    assert names[:2] == ["COPY_FREE_VARS", "RESUME"] and names.count("CALLEE") == 3     # two calls without arguments, one by tuple


# ---- odd code ----
def test_bad_code_is_an_error():
    def f(a):
        return a + 1

    code = f.__code__

    def units(*pairs):
        return code.replace(co_code=bytes(b for name, arg in pairs for b in (dis.opmap[name] if isinstance(name, str) else name, arg)))

    for pairs in ([], [("LOAD_CONST", 99), ("RETURN_VALUE", 0)], [("LOAD_FAST", 7), ("RETURN_VALUE", 0)], [("RETURN_VALUE", 0)],
                  [("LOAD_FAST", 0)], [("JUMP_FORWARD", 9)], [("JUMP_BACKWARD", 9)], [("EXTENDED_ARG", 1)],
                  [("PRECALL", 0), ("CACHE", 0), ("NOP", 0)], [("KW_NAMES", 0), ("NOP", 0)], [("LOAD_DEREF", 0), ("RETURN_VALUE", 0)],
                  [("PUSH_NULL", 0), ("RETURN_VALUE", 0)], [("PUSH_NULL", 0), ("COPY", 1), ("RETURN_VALUE", 0)],
                  [("LOAD_FAST", 0), ("COPY", 0), ("RETURN_VALUE", 0)], [(255, 0), ("RETURN_VALUE", 0)],
                  [("LOAD_GLOBAL", 0), ("RETURN_VALUE", 0)], [("LOAD_FAST", 0), ("POP_JUMP_FORWARD_IF_TRUE", 1), ("LOAD_FAST", 0),
                                                              ("LOAD_FAST", 0), ("RETURN_VALUE", 0)],
                  [("LOAD_FAST", 0), ("BINARY_OP", 99), ("CACHE", 0), ("RETURN_VALUE", 0)],
                  [("LOAD_FAST", 0), ("JUMP_FORWARD", 1), ("EXTENDED_ARG", 0), ("RETURN_VALUE", 0)],
                  [("LOAD_FAST", 0), ("RETURN_VALUE", 0)],          # no RESUME
                  [("EXTENDED_ARG", 255)] * 3 + [("LOAD_FAST", 0), ("RETURN_VALUE", 0)]):
        with pytest.raises(ValueError):
            _capture._roundtrip(units(*pairs))
    with pytest.raises(ValueError):
        _capture._roundtrip(code.replace(co_exceptiontable=b"\x81"))
    with pytest.raises(ValueError):
        _capture._roundtrip(code.replace(co_linetable=b"\x00"))
    with pytest.raises(ValueError, match="cell"):
        def g():
            return code
        _capture._roundtrip(g.__code__.replace(co_code=g.__code__.co_code[2:]))     # without its COPY_FREE_VARS
    with pytest.raises(TypeError):
        _capture._roundtrip(f)


def test_random_damage_never_crashes():
    """Bytes changed at random: an error, or code that decodes to the same after another round."""
    random.seed(5)
    sources = [c for function, _ in CASES for c in codes(getattr(function, "func", function).__code__)]
    fine = 0
    for _ in range(6000):
        code = random.choice(sources)
        parts = {}
        for name in random.sample(["co_code", "co_code", "co_linetable", "co_exceptiontable"], 2):
            data = bytearray(getattr(code, name))
            for _ in range(random.randint(1, 3)):
                if data:
                    data[random.randrange(len(data))] = random.randrange(256)
            parts[name] = bytes(data)
        code = code.replace(**parts)
        try:
            again = _capture._roundtrip(code)
        except ValueError:
            continue
        assert _capture._decode(again) == _capture._decode(_capture._roundtrip(again))
        fine += 1
    assert fine > 100


def test_allocations_fail():
    """Each allocation fails in turn: a clean error, nothing left behind. The same for code that is refused."""
    for function in (raising, closing, awaiting):
        for code in codes(function.__code__):
            for n in range(10000):
                done, left = _capture._sweep(code, n)
                assert left == 0
                if done:
                    break
            assert done and n > 5
            assert _capture._sweep(code.replace(co_code=code.co_code[:-2]), -1) == (False, 0)
            assert _capture._sweep(code.replace(co_exceptiontable=b"\x80\x01\x7f"), -1) == (False, 0)


def test_no_leak():
    def work():
        for code in codes(closing.__code__):
            _capture._roundtrip(code)
            _capture._decode(code)
            _capture._unmarked(code)
            for bad in (struct.pack("BB", 255, 0), code.co_code[:-2]):
                try:
                    _capture._roundtrip(code.replace(co_code=bad))
                except ValueError:
                    pass

    work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(100):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 50
