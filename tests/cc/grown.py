"""Random programs of tests/programs/grown, grown from lines that the C writer accepts one by one: what is tested is how they go together."""
import pathlib
import random
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs" / "grown"))
import grow                             # noqa: E402

from batch import REFUSALS, Case        # noqa: E402

COMPLEX = re.compile(r"\{[zyj]\}|complex|half|bfloat16|rand|dropout|bernoulli|normal|multinomial|empty")
MAKING, WRITING = ([line for line in lines if not grow.DATA.search(line) and not COMPLEX.search(line)] for lines in (grow.MAKING, grow.WRITING))


class Accepted(grow.Program):
    """A program whose every line has words in C. Its inputs are row-major tensors of real types."""
    captured = True

    def __init__(self, seed):
        super().__init__(seed)
        self.writing = WRITING

    def leaf(self, name, made):
        if not name.startswith("z"):
            super().leaf(name, made.replace(".requires_grad_()", ""))

    def accepted(self, line):
        """Is this line alone, on tensors as they are now, written as C?"""
        words = sorted(set(re.findall(r"\b[a-z]\w*\b", line)) & self.space.keys() - {"torch"})
        words = [word for word in words if isinstance(self.space[word], torch.Tensor)]
        made = line.split(" = ")[0] if re.match(r"v\d+ = ", line) else None

        def alone(*tensors):
            space = {"torch": torch, "F": torch.nn.functional, "D": torch.float32, **{w: x + 0 if x.dtype != torch.bool else x.clone() for w, x in zip(words, tensors)}}
            exec(line, space)
            return space[made] if made else [space[word] for word in words]

        try:
            torch.cc(alone, args=tuple(self.space[word].detach().contiguous() for word in words))
            return True
        except REFUSALS:
            return False

    def keep(self, made):
        if not self.accepted(f"v{len(self.made)} = {made}"):
            raise ValueError
        super().keep(made)

    def filled(self, template, **targets):
        line, names = super().filled(template, **targets)
        if targets and not self.accepted(line):
            raise ValueError
        return line, names


def text_of(seed):
    program = Accepted(seed)
    wanted = program.rng.randint(8, 30)
    for _ in range(20 * wanted):
        if len(program.lines) >= wanted:
            break
        try:
            program.write() if program.rng.random() < 0.3 else program.keep(program.filled(program.rng.choice(MAKING))[0])
        except Exception:               # refused: another line
            continue
    return program.text()


def exact_results(text):
    inputs, program = grow.load(text, torch.float64)
    with torch.no_grad():
        return list(program(*[x.detach() for x in inputs(torch.float64, 0.0)]).values())


def programs(first, count):
    for seed in range(first, first + count):
        text = text_of(seed)
        inputs, program = grow.load(text, torch.float32)
        args = [x.detach() for x in inputs(torch.float32, 0.0)]
        yield Case(f"program {seed}", lambda *args, program=program: list(program(*args).values()), args, True, exact=lambda text=text: exact_results(text))
