"""Runs grown programs every way there is to capture a program: `python -m taper ways.py FIRST COUNT [WAY…]`.

What a way gives, forward and backward, must be what the program itself gives. A way may refuse a program: sizes that depend on data, or a
Python number read from a tensor, are no graph; such programs are counted apart.
"""
import collections
import operator
import re
import sys
import warnings

import torch
from grow import far, gradients_of, grow, load, run
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_function
from torch.fx.experimental.proxy_tensor import make_fx

ROOM = 2e-4
LARGER = {2: 6, 3: 5, 4: 8, 5: 7}
ELSEWHERE = "make_fx symbolic at other sizes"
REFUSALS = ("depends on data", "data-dependent", "no value to read", "out of a tracing tensor", "_local_scalar_dense",
            "of the written-to tensor refers to a single memory location")      # the inverse of a view that overlaps itself


def flat(program):
    return lambda *args: list(program(*args).values())


def compiler(gm, _):
    return gm


class Module(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return tuple(self.f(*args))


def compiled(f, args):
    torch._dynamo.reset()
    return torch.compile(f, backend="eager", fullgraph=True)


# name -> (how a function and example arguments become a function, are gradients compared)
WAYS = {
    "make_fx real": (lambda f, args: make_fx(f)(*args), False),
    "make_fx fake": (lambda f, args: make_fx(f, tracing_mode="fake")(*args), False),
    "make_fx symbolic": (lambda f, args: make_fx(f, tracing_mode="symbolic")(*args), False),
    "functionalised": (lambda f, args: make_fx(torch.func.functionalize(f))(*args), False),
    "decomposed": (lambda f, args: make_fx(f, decomposition_table=core_aten_decompositions())(*args), False),
    "aot_function": (lambda f, args: aot_function(f, compiler), True),
    "compile": (compiled, True),
    "jit.trace": (lambda f, args: torch.jit.trace(lambda *a: tuple(f(*a)), tuple(args), check_trace=False), True),
    "export": (lambda f, args: torch.export.export(Module(f), tuple(args)).module(), False),
}


def other_sizes(text):
    """The program with inputs of other sizes, equal ones equal still; its lines have some sizes in them, so it need not run."""
    def larger(m):
        return "(" + re.sub(r"\d+", lambda n: str(LARGER.get(int(n[0]), int(n[0]))), m[1]) + ")"
    head, body = text.split("\ndef program", 1)
    return re.sub(r"\((\d+,(?: \d+)?(?:, \d+)*)\)", larger, head) + "\ndef program" + body


FUNCTIONS = {"Eq": operator.eq, "Ne": operator.ne, "Mod": operator.mod, "PythonMod": operator.mod, "FloorDiv": operator.floordiv, "Max": max,
             "Min": min, "CleanDiv": operator.floordiv}


def guards_hold(traced, args):
    facts = [node.meta["val"] for node in traced.graph.nodes if node.op == "placeholder"]
    sizes = {str(symbol): size for fact, arg in zip(facts, args) for symbol, size in zip(fact.shape, arg.shape)}
    same = all(eval(str(symbol), dict(sizes)) == size for fact, arg in zip(facts, args) for symbol, size in zip(fact.shape, arg.shape))
    replaced = {str(symbol): eval(str(by), {**FUNCTIONS, **sizes}) for symbol, by in traced.shape_env.replacements.items()}
    return same and all(eval(str(guard[0]), {**FUNCTIONS, **replaced, **sizes}) for guard in traced.shape_env.guards)


def elsewhere(text):
    """make_fx with symbols, run at sizes it was not traced at: only where the program itself runs there and the guards hold."""
    inputs, program = load(text, torch.float32)
    moved, there = load(other_sizes(text), torch.float32)
    try:
        wanted = results(flat(there), plain(moved), False)
    except (RuntimeError, IndexError, ValueError):
        return "fixed", None
    try:
        traced = make_fx(flat(program), tracing_mode="symbolic")(*plain(inputs))
    except RuntimeError:                # counted under make_fx symbolic
        return "untraced", None
    if not guards_hold(traced, plain(moved)):
        return "guarded", None
    try:
        given = results(traced, plain(moved), False)
    except RuntimeError as error:
        if "view size is not compatible" in str(error):     # the order of a result's dims in memory is traced, not guarded on
            return "laid out", None
        return "failed", str(error)
    wrong = unlike(given, wanted)
    return ("failed", wrong) if wrong else None


def plain(inputs):
    return [leaf.detach() for leaf in inputs(torch.float32, 0.0)]


def refused(error):
    return any(word in str(error) for word in REFUSALS)


def results(f, leaves, gradients):
    """The values of a call, and the gradients of its leaves or the words of the error that there are instead."""
    values = f(*leaves)
    given = [value.detach().resolve_conj().clone() for value in values]
    if gradients:
        try:
            given += [g if g is None else g.resolve_conj() for g in gradients_of(values, leaves)]
        except RuntimeError:
            given.append("error")
    return given


def unlike(ours, theirs):
    if len(ours) != len(theirs):
        return f"gives {len(ours)} things instead of {len(theirs)}: {[x for x in ours + theirs if isinstance(x, str)]}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a is None or b is None or isinstance(a, str) or isinstance(b, str):
            if a is not b and a != b:
                return f"result {i} is {a} instead of {b}"
        elif a.dtype != b.dtype or a.shape != b.shape:
            return f"result {i} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        elif bool(far(a, b, ROOM).any()):
            return f"result {i} differs"
    return None


def fault(text, way):
    """None, the name of a refusal, or what is wrong."""
    make, gradients = WAYS[way]
    inputs, program = load(text, torch.float32)
    f = flat(program)
    leaves = (lambda: inputs(torch.float32, 0.0)) if gradients else (lambda: plain(inputs))
    wanted = results(f, leaves(), gradients)
    if "error" in [w for w in wanted if isinstance(w, str)]:        # eager has no gradient here: the forward pass alone
        gradients, leaves, wanted = False, lambda: plain(inputs), results(f, plain(inputs), False)
    try:
        captured = make(f, leaves())
        given = results(captured, leaves(), gradients)
    except Exception as error:
        if refused(error):
            return "refused", type(error).__name__
        return "failed", f"{type(error).__name__}: {str(error)[:300]}"
    wrong = unlike(given, wanted)
    if wrong and not steady(text, wanted):
        return "unsteady", wrong
    return ("failed", wrong) if wrong else None


def steady(text, wanted):
    """Is float32 enough for the program? Where it is not, the order of additions shows."""
    exact = [value for name, value in run(text, torch.float64).items() if name != "error"]
    return not any(isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape and bool(far(a, b, ROOM).any())
                   for a, b in zip(wanted, exact))


def main():
    warnings.simplefilter("ignore")
    first, count, ways = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or [*WAYS, ELSEWHERE]
    counts = {way: collections.Counter() for way in ways}
    for seed in range(first, first + count):
        text = grow(seed, captured=True)
        for way in ways:
            outcome = elsewhere(text) if way == ELSEWHERE else fault(text, way)
            counts[way][outcome[0] if outcome else "agreed"] += 1
            if outcome and outcome[0] == "failed":
                print(f"program {seed}, {way}: {outcome[1]}", flush=True)
    for way in ways:
        print(f"{way}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts[way].items())))
    return any(c["failed"] for c in counts.values())


if __name__ == "__main__":
    sys.exit(main())
