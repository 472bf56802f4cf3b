"""Programs written as C, many in one library, run beside the programs themselves.

A case is a function of tensors and its arguments. What the C writer accepts is compiled with warnings as errors, called twice in a child
process (static memory is used again at the second call) with guards around every array, and compared with what the function itself
gives: types and sizes, elements, NaN, the signs of zeros; the arguments must be as before. A case ends as one of OUTCOMES.
"""
import collections
import ctypes
import mmap
import os
import pathlib
import re
import signal
import subprocess

import numpy
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

OUTCOMES = ("same", "refused", "no eager result", "unsteady", "wrong")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
TYPES = {"float": numpy.float32, "double": numpy.float64, "int64_t": numpy.int64, "int32_t": numpy.int32, "int16_t": numpy.int16,
         "int8_t": numpy.int8, "uint8_t": numpy.uint8}
# Relative and absolute room of float results. The C sums in order, and calls the functions of libm.
ROOM = {numpy.dtype("float32"): (4e-6, 2e-6), numpy.dtype("float64"): (1e-12, 1e-12)}
REFUSALS = (NotImplementedError, DataDependentOutputException, DynamicOutputShapeException)
REFUSING = ("trying to get value out of a tracing tensor", "Could not guard on data-dependent expression")
ROOM_DEEP = 2e-4
GUARD, GUARD_BYTE, UNWRITTEN = 64, 0xA5, 0x5A
SECONDS = 60

# deep: many calls in a row, whose roundings add up and whose zeros may have either sign. way: how the function gets to the writer.
# exact: gives the results in double precision; a program whose own results in single precision are other ones is no witness.
Case = collections.namedtuple("Case", "name function args deep way exact", defaults=(False, "recorded", None))


class Emitted:
    """A case that was accepted: its text, its arrays, and what it must give."""

    def __init__(self, case, symbol, text, inputs, after, wanted):
        self.case, self.symbol, self.text, self.inputs, self.after, self.wanted = case, symbol, text, inputs, after, wanted

    def parameters(self):
        """The types of the function's parameters as C spells them: inputs, outputs."""
        found = re.search(rf"^void {self.symbol}\((.*)\);$", self.text, re.M)[1]
        words = [] if found == "void" else [word.removeprefix("const ").split(" *") for word in found.split(", ")]
        return [kind for kind, name in words if name.startswith("in_")], [kind for kind, name in words if name.startswith("out_")]

    def unit(self):
        """The text with names of its own, so that many stand in one file."""
        names = sorted(set(re.findall(r"^static (?:const )?\w+ \*?(\w+)[\[(]", self.text, re.M)))
        renamed = "".join(f"#define {name} {name}_{self.symbol}\n" for name in names)
        return f'{renamed}#line 1 "{self.symbol}"\n{self.text}' + "".join(f"#undef {name}\n" for name in names)


def elements(x):
    """The elements of a tensor, row by row."""
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    array = x.numpy().reshape(-1)
    return array.view(numpy.uint8) if array.dtype == numpy.bool_ else array


def has_a_type(x):
    return x.layout == torch.strided and not x.is_complex() and x.dtype not in (torch.float16, torch.bfloat16)


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def cloned(args):
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, args)


class Whole(torch.nn.Module):
    """A function as a module: what it holds are its parts."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


WAYS = {
    "recorded": lambda case, args, symbol: torch.cc(case.function, args=args, function=symbol),
    "graph": lambda case, args, symbol: torch.cc(make_fx(case.function)(*args), function=symbol),         # its writes stay writes
    "exported": lambda case, args, symbol: torch.cc(torch.export.export(Whole(case.function), tuple(args)), function=symbol),
}


def emitted(case, number):
    """An Emitted, or (outcome, reason)."""
    try:
        with torch.no_grad():
            args = cloned(case.args)
            memory = [x.detach() for x in tensors_of(args)]     # as C sees it: sizes and strides that change in place are not seen there
            wanted = [elements(x).copy() if has_a_type(x) else None for x in tensors_of(case.function(*args))]
    except Exception as error:
        return "no eager result", f"{type(error).__name__}: {error}"
    symbol = f"p{number}"
    try:
        text = WAYS[case.way](case, cloned(case.args), symbol)
    except REFUSALS as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        if any(words in str(error) for words in REFUSING):
            return "refused", str(error)
        return "wrong", f"cc raises {type(error).__name__}: {error}"
    if any(x is None for x in wanted):
        return "wrong", "accepted with results of a type that C has not"
    return Emitted(case, symbol, text, [elements(x) for x in tensors_of(case.args)], [elements(x) for x in memory], wanted)


# ---- compiling ----
def compiled(batch, folder, compiler, options):
    """(path of a library, {symbol: what the compiler says of it}); the accused are left out of the library."""
    accused = {}
    source, library = folder / f"{batch[0].symbol}.c", folder / f"{batch[0].symbol}.so"
    while True:
        kept = [e for e in batch if e.symbol not in accused]
        source.write_text("extern int nothing;\n" + "".join(e.unit() for e in kept))
        done = subprocess.run([compiler, *STRICT, *options, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], capture_output=True, text=True)
        said = {}
        for line in done.stderr.splitlines():
            found = re.match(r"(p\d+):\d+:\d+: (?:error|warning): (.*)", line)
            if found:
                said.setdefault(found[1], "does not compile: " + found[2])
        accused |= said
        if done.returncode == 0 and not said:
            return library, accused
        if not said:
            raise RuntimeError(done.stderr[:2000])


# ---- running ----
class Arena:
    """Memory that a child writes and its parent reads: arrays between guards, and the count of programs that were run."""

    def __init__(self, batch):
        self.places, self.size = [], GUARD
        for e in batch:
            reads, writes = e.parameters()
            arrays = [(a.nbytes, a.tobytes()) for a in e.inputs]
            arrays += [(w.size * numpy.dtype(TYPES[t]).itemsize, None) for w, t in zip(e.wanted, writes)]
            row = []
            for size, data in arrays * 2:
                row.append((self.size, size, data))
                self.size += (size + GUARD + 63) // 64 * 64
            self.places.append(row)
        self.memory = mmap.mmap(-1, self.size + 64)
        self.memory[:self.size] = bytes([GUARD_BYTE]) * self.size
        for row in self.places:
            for at, size, data in row:
                self.memory[at:at + size] = data if data is not None else bytes([UNWRITTEN]) * size

    def fault(self, k):
        """Was anything written behind the arrays of program k?"""
        for i, (at, size, _) in enumerate(self.places[k]):
            if set(self.memory[at + size:at + size + GUARD]) - {GUARD_BYTE}:
                return f"writes behind array {i}"
        return None

    def arrays(self, k, types):
        """Inputs and outputs after the first and the second call."""
        arrays = [numpy.frombuffer(self.memory[at:at + size], TYPES[types[i % len(types)]]) for i, (at, size, _) in enumerate(self.places[k])]
        return arrays[:len(types)], arrays[len(types):]


def call_all(batch, library, arena, first):
    """In the child: runs the programs from `first` on, twice each; says after each that it is done."""
    loaded = ctypes.CDLL(str(library))
    base = ctypes.addressof(ctypes.c_char.from_buffer(arena.memory))
    done = ctypes.c_int64.from_address(base + arena.size)
    for k in range(first, len(batch)):
        done.value = k
        at = [ctypes.c_void_p(base + place) for place, _, _ in arena.places[k]]
        function = getattr(loaded, batch[k].symbol)
        function.restype = None
        function(*at[:len(at) // 2])
        function(*at[len(at) // 2:])
    done.value = len(batch)


def run(batch, library, arena):
    """{symbol: signal} of the programs that end the process."""
    died, first = {}, 0
    while first < len(batch):
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(SECONDS)
                call_all(batch, library, arena, first)
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{error!r}\n".encode())
                os._exit(1)
        _, status = os.waitpid(child, 0)
        first = max(first, int.from_bytes(arena.memory[arena.size:arena.size + 8], "little"))
        if status and first < len(batch):
            died[batch[first].symbol] = f"ends with {'signal ' + str(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else 'an error'}"
            first += 1
    return died


# ---- comparing ----
def difference(got, want, deep):
    """What is wrong with an array, None: nothing."""
    if got.dtype != want.dtype:
        return f"is {got.dtype} instead of {want.dtype}"
    if got.size != want.size:
        return f"has {got.size} elements instead of {want.size}"
    if got.tobytes() == want.tobytes() or got.size == 0:
        return None
    if got.dtype not in ROOM:
        bad = got != want
    else:
        relative, absolute = (ROOM_DEEP, ROOM_DEEP) if deep else ROOM[got.dtype]
        with numpy.errstate(all="ignore"):
            near = numpy.abs(got.astype(numpy.float64) - want) <= absolute + relative * numpy.abs(want.astype(numpy.float64))
        zeros = (got == 0) & (want == 0)
        near[zeros] = deep or numpy.signbit(got[zeros]) == numpy.signbit(want[zeros])
        bad = ~(near | (got == want) & ~zeros | numpy.isnan(got) & numpy.isnan(want))
    if not bad.any():
        return None
    at = int(numpy.argmax(bad))
    return f"[{at}] is {got[at]!r} instead of {want[at]!r} ({int(bad.sum())} of {got.size})"


def verdict(e, k, arena):
    reads, writes = e.parameters()
    fault = arena.fault(k)
    if fault:
        return fault
    for call, arrays in zip(("", ", second call"), arena.arrays(k, reads + writes) if reads + writes else ()):
        for i, (got, want) in enumerate(zip(arrays, e.after + e.wanted)):
            what = difference(got, want, e.case.deep)
            if what:
                return f"{f'input {i}' if i < len(reads) else f'output {i - len(reads)}'}{call} {what}"
    return None


def is_unsteady(e, reason):
    """Does rounding decide what the program gives, so that the C may give something else?"""
    if e.case.exact is None or not reason.startswith("output"):
        return False
    exact = [elements(x).astype(w.dtype) for x, w in zip(tensors_of(e.case.exact()), e.wanted)]
    return any(a.shape != b.shape or difference(a, b, True) for a, b in zip(exact, e.wanted))


def checked(batch, folder, compiler="cc", options=("-O1",)):
    """{symbol: what is wrong} of some Emitted."""
    wrong = {}
    for e in batch:
        reads, writes = e.parameters()
        if len(reads) != len(e.inputs) or len(writes) != len(e.wanted):
            wrong[e.symbol] = f"takes {len(reads)} and gives {len(writes)} arrays instead of {len(e.inputs)} and {len(e.wanted)}"
        elif [numpy.dtype(TYPES[t]) for t in reads] != [a.dtype for a in e.inputs] or [numpy.dtype(TYPES[t]) for t in writes] != [a.dtype for a in e.wanted]:
            wrong[e.symbol] = f"takes {reads} and gives {writes} instead of {[str(a.dtype) for a in e.inputs]} and {[str(a.dtype) for a in e.wanted]}"
    batch = [e for e in batch if e.symbol not in wrong]
    if not batch:
        return wrong
    library, accused = compiled(batch, folder, compiler, list(options))
    batch = [e for e in batch if e.symbol not in accused]
    arena = Arena(batch)
    died = run(batch, library, arena)
    wrong |= accused | died
    for k, e in enumerate(batch):
        if e.symbol not in wrong and (what := verdict(e, k, arena)):
            wrong[e.symbol] = what
    library.unlink()
    return wrong


def check(cases, folder, compiler="cc", options=("-O1",), size=150, report=None):
    """Counts by outcome; `report` is called with (case, outcome, reason) of each."""
    counts, batch, folder = collections.Counter(), [], pathlib.Path(folder)

    def tell(case, outcome, reason):
        counts[outcome] += 1
        if report:
            report(case, outcome, reason)

    def flush():
        wrong = checked(batch, folder, compiler, options) if batch else {}
        for e in batch:
            outcome = "same" if e.symbol not in wrong else "unsteady" if is_unsteady(e, wrong[e.symbol]) else "wrong"
            tell(e.case, outcome, wrong.get(e.symbol))
        batch.clear()

    for number, case in enumerate(cases):
        made = emitted(case, number)
        if isinstance(made, Emitted):
            batch.append(made)
        else:
            tell(case, *made)
        if len(batch) == size:
            flush()
    flush()
    return counts
