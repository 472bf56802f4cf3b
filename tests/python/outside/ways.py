"""How captured code comes to an object from outside, and the comparison of a compiled program with the plain one."""
import contextlib
import decimal
import itertools
import logging
import os
import random
import re
import sys
import threading
import warnings

import numpy
import taper
import taper._dynamo as dynamo
from outside.kinds import SETUP, SHARED

# What stands before the body, and how the program is called with the object: as a global, a variable of the function around it, an
# argument, an attribute of an instance or a module, an item of a list or dict, or as a default.
WAYS = {
    "global": ("def f(x):", "o = OBJECT", "f(x)"),
    "closure": ("def outer(box):\n  inner = box\n  def f(x):", "o = inner", None),
    "argument": ("def f(x, o):", "pass", "f(x, OBJECT)"),
    "attribute": ("def f(x, box):", "o = box.held", "f(x, BOX)"),
    "module": ("def f(x, box):", "o = box.held", "f(x, MODULE)"),
    "item": ("def f(x, box):", "o = box[0]", "f(x, LIST)"),
    "value": ("def f(x, box):", "o = box['k']", "f(x, DICT)"),
    "nested": ("def f(x, box):", "o = box.held[0]['k']", "f(x, DEEP)"),
    "default": ("def f(x, o=None):", "pass", "f(x)"),
}
# What comes after: the result, or something at which the capture is given up.
ENDS = {"captured": "pass", "given up": "if x.sum() > 1000: r = None"}


codes = {}


def compile_source(source, mode="exec"):
    if (source, mode) not in codes:
        codes[source, mode] = compile(source, "<program>", mode)
    return codes[source, mode]


class Box:
    pass


shared = {"__name__": "outside_shared"}
exec(SHARED, shared)


def fresh_space():
    space = {**shared, "__name__": "outside_program"}
    exec(compile_source(SETUP), space)
    return space


class Program:
    """One copy of a program with an object of its own."""

    def __init__(self, kind, way, body, compile):
        self.space = space = fresh_space()
        space.update(LOG=[], TABLE={"a": 1}, TARGET=space["Plain"](), BUFFER=bytearray(8), RELU=taper.nn.ReLU(),
                     LIMIT=__import__("sys").getrecursionlimit(), FILTERS=len(__import__("warnings").filters), x=taper.ones(3))
        exec("@contextlib.contextmanager\ndef LOGGED():\n  LOG.append(1)\n  yield len(LOG)\n  LOG.append(2)", space)
        space["OBJECT"] = made = eval(kind.make, space)
        self.kind = kind
        head, get, _ = WAYS[way]
        lines = [get, "r = None", *body.split("\n"), "return x + 1, r"]
        indent = "    " if way == "closure" else "  "
        source = head + "\n" + "\n".join(indent + line for line in lines) + ("\n  return f" if way == "closure" else "")
        exec(compile_source(source), space)
        box, module = Box(), taper.nn.Module()
        box.held, module.__dict__["held"] = made, made
        deep = Box()
        deep.held = [{"k": made}]
        f = space["outer"](made) if way == "closure" else space["f"]
        if way == "default":
            f.__defaults__ = (made,)
        self.plain, self.f = f, compile(f)
        self.rest = {"global": (), "closure": (), "argument": (made,), "attribute": (box,), "module": (module,), "item": ([made],),
                     "value": ({"k": made},), "nested": (deep,), "default": ()}[way]

    def change(self):
        self.space["o"] = self.space["OBJECT"]
        try:
            exec(compile_source(self.kind.change), self.space)
        except (LookupError, StopIteration):        # what the program left has nothing to change
            pass

    def state(self):
        return plain(eval(compile_source(self.kind.state, "eval"), self.space | {"o": self.space["OBJECT"]}))

    def call(self, f, x):
        try:
            return plain(f(x, *self.rest))
        except dynamo.exc.Unsupported:
            raise
        except Exception as error:
            return type(error).__name__, re.sub("0x[0-9a-f]+", "0x", str(error))


def plain(value):
    """What can be compared, and shows a type that is another."""
    if isinstance(value, taper.Tensor):
        return "tensor", value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, dict):
        return type(value).__name__, [(plain(k), plain(v)) for k, v in value.items()]
    if isinstance(value, set):
        return "set", sorted(map(repr, value))
    return type(value).__name__, re.sub("0x[0-9a-f]+", "0x", repr(value))


def bodies(kind):
    """Reads, writes, and both, in either order; a program is a few lines that leave what they found in r."""
    for read in kind.reads:
        yield f"r = {read}"
    for write in kind.writes:
        yield write
    for i, (read, write) in enumerate(itertools.product(kind.reads[:3], kind.writes)):
        yield f"r = {read}\n{write}" if i % 2 else f"{write}\nr = {read}"
        if i > 12:
            break
    for i, read in enumerate(kind.reads[3:]):
        if kind.writes:
            yield f"{kind.writes[i % len(kind.writes)]}\nr = {read}"


@contextlib.contextmanager
def undisturbed():
    """What there is once in a process is as it was, afterwards."""
    logger, context, thread = logging.getLogger("outside"), decimal.getcontext().copy(), threading.current_thread()
    was = dict(os.environ), list(sys.path), list(warnings.filters), sys.getrecursionlimit(), numpy.random.get_state()
    random.seed(0)
    numpy.random.seed(0)
    taper.manual_seed(0)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(was[0])
        sys.path[:], warnings.filters[:] = was[1], was[2]
        sys.setrecursionlimit(was[3])
        numpy.random.set_state(was[4])
        decimal.setcontext(context)
        logger.setLevel(0)
        logger.disabled = False
        logger.handlers.clear()
        sys.modules.pop("outside_m", None)
        vars(sys).pop("outside", None)
        vars(thread).pop("tag", None)


def compare(kind, way, body, end, fullgraph):
    """None, or what differs between three calls of the compiled program and of the plain one. The calls of a program come one
    after the other, for some objects are there once in a process; what the caller does between them is part of it."""
    body = body + "\n" + ENDS[end] if ENDS[end] != "pass" else body
    dynamo.reset()
    with undisturbed():
        want = run(Program(kind, way, body, lambda f: f), False)
    with undisturbed():
        got = run(Program(kind, way, body, lambda f: taper.compile(f, backend="eager", fullgraph=fullgraph)), fullgraph)
    for i, (a, b) in enumerate(zip(want, got)):
        if a != b:
            return f"call {i + 1}: {b} instead of {a}"
    return None


def run(program, fullgraph):
    seen = []
    for i in range(3):
        x = taper.ones(3) * (i + 1)
        before = program.state() if fullgraph else None
        try:
            result = program.call(program.f, x)
        except dynamo.exc.Unsupported as error:
            if not fullgraph:
                result = f"Unsupported: {error}"
            elif program.state() != before:
                result = f"Unsupported after an effect: {program.state()} instead of {before}; {error}"
            elif "<program>" not in str(error) and "File" not in str(error):
                result = f"no line: {error}"
            else:
                result = program.call(program.plain, x)
        seen.append((result, program.state()))
        if i < 2:
            program.change()
    return seen
