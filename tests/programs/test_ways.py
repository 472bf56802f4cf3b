"""Random programs, run every way there is to run a program, must agree bit for bit.

A program is Python text made from a seed: a few tensors, operators, functions, methods, views, in-place writes, loops, containers
and branches on sizes. The ways: plain, captured and compiled, traced by calls (real, fake, symbolic), by symbolic_trace,
by jit.trace, and the graphs run by plan, by interpreter and as Python code; gradients too.
"""
import random

import pytest
import taper as torch
import taper._dynamo as dynamo
from taper.fx import Interpreter, symbolic_trace
from taper.fx.experimental.proxy_tensor import make_fx

UNARY = ["torch.relu({0})", "{0}.sin()", "torch.tanh({0})", "-{0}", "{0}.exp().clamp(max=3)", "{0}.abs()", "torch.sigmoid({0})", "{0}.clone()",
         "{0} * {0}", "F.gelu({0})", "F.softmax({0}, dim=-1)", "{0}.t().contiguous().t()", "{0}.sum(dim=0, keepdim=True) + {0}",
         "{0}.reshape(-1).view(4, 4)", "{0}.transpose(0, 1)", "torch.where({0} > 0, {0}, {0} * 0.5)", "{0}.max(dim=1, keepdim=True)[0] - {0}",
         "torch.cat([{0}[:2], {0}[2:]])", "torch.stack([{0}, {0}]).mean(0)", "{0}.unsqueeze(0).squeeze(0)", "{0}[torch.arange(4)]", "{0}.flip(0)"]
BINARY = ["{0} + {1}", "{0} - {1} * 2", "{0} @ {1}", "torch.mul({0}, {1})", "torch.maximum({0}, {1})", "torch.lerp({0}, {1}, 0.25)",
          "F.linear({0}, {1})", "torch.addcmul({0}, {0}, {1}, value=0.5)", "{0} / ({1}.abs() + 1)", "torch.addmm({0}, {0}, {1})"]
WRITES = ["{0}.add_({1})", "{0}.mul_(0.5)", "{0}[1] = {1}[0]", "{0}[:, 1:3].mul_(2)", "{0}.t()[0].add_(1)", "{0} += {1}", "{0}.copy_({1})"]


def make(seed, writes, branches=True):
    """The text of a program of two 4x4 inputs."""
    rng = random.Random(seed)
    lines, names = ["def program(x, y):"], ["x", "y"]

    def pick():
        return rng.choice(names)

    for i in range(rng.randint(3, 9)):
        kind = rng.random()
        fresh = f"v{i}"
        if writes and kind < 0.25:
            lines.append(f"    {fresh} = {pick()}.clone()")
            lines.append("    " + rng.choice(WRITES).format(fresh, pick()))
        elif branches and kind < 0.35:
            lines.append(f"    items = [{pick()}, {pick()}]")
            lines.append(f"    {fresh} = items[0]")
            lines.append("    for k, item in enumerate(items):")
            lines.append(f"        {fresh} = {fresh} + item * (k + 1) if item.shape[0] == 4 else item")
        elif kind < 0.65:
            lines.append(f"    {fresh} = " + rng.choice(UNARY).format(pick()))
        else:
            lines.append(f"    {fresh} = " + rng.choice(BINARY).format(pick(), pick()))
        names.append(fresh)
    lines.append(f"    return {names[-1]}, {pick()} + 0, {{'k': {pick()} * 1}}")
    return "\n".join(lines)


def load(text):
    space = {"torch": torch, "F": torch.nn.functional}
    exec(text, space)
    return space["program"]


def flat(result):
    a, b, c = result
    return [a, b, c["k"]]


def inputs():
    torch.manual_seed(1)
    return torch.randn(4, 4), torch.randn(4, 4)


def agree(text, want, got, way):
    for a, b in zip(want, got):
        assert a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)), f"{way} differs for\n{text}\n{a}\n{b}"


@pytest.mark.parametrize("seed", range(60))
def test_ways_agree(seed):
    text = make(seed, writes=seed % 3 == 0)
    program = load(text)
    want = flat(program(*inputs()))
    for backend in ("eager", "aot_eager", "inductor"):
        dynamo.reset()
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for _ in range(2):
            agree(text, want, flat(compiled(*inputs())), f"compile({backend})")
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(lambda x, y: flat(program(x, y)), tracing_mode=mode)(*inputs())
        agree(text, want, traced(*inputs()), f"make_fx({mode})")
        agree(text, want, Interpreter(traced).run(*inputs()), f"Interpreter of make_fx({mode})")
    traced = torch.jit.trace(lambda x, y: tuple(flat(program(x, y))), inputs(), check_trace=False)
    agree(text, want, traced(*inputs()), "jit.trace")
    straight = make(seed, writes=False, branches=False)
    program = load(straight)
    agree(straight, flat(program(*inputs())), flat(symbolic_trace(program)(*inputs())), "symbolic_trace")


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_gradients_agree(seed):
    text = make(seed, writes=seed % 2 == 0)
    program = load(text)

    def gradients(f):
        x, y = (t.requires_grad_() for t in inputs())
        out = sum(t.sum() for t in flat(f(x, y)))
        return [torch.zeros(4, 4) if g is None else g for g in torch.autograd.grad(out, (x, y), allow_unused=True)]

    want = gradients(program)
    for backend in ("eager", "aot_eager", "inductor"):
        dynamo.reset()
        agree(text, want, gradients(torch.compile(program, backend=backend, fullgraph=True)), f"gradients through compile({backend})")
    x, y = (t.requires_grad_() for t in inputs())
    traced = torch.jit.trace(lambda x, y: tuple(flat(program(x, y))), (x, y), check_trace=False)
    agree(text, want, gradients(lambda x, y: (lambda r: (r[0], r[1], {"k": r[2]}))(traced(x, y))), "gradients through jit.trace")
