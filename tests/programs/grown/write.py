"""Grows random programs on PyTorch: write.py FIRST COUNT FILE. Saves [(seed, text, answer)] of the programs kept.

A program has 10 to 40 lines from templates.txt and writes.txt, then a backward pass; it returns every value it made, by name, and the
gradients. It is kept when PyTorch's own float32 and float64 runs agree, and what is discrete in it does not change when the
inputs move by 1e-6 of themselves: then another implementation has to agree too.
"""
import pathlib
import random
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).parent
SHAPES = [(3, 4), (4,), (3, 1), (2, 3, 4), (4, 3), (4, 4), (2, 3, 4, 4), (3, 3, 3, 3), (1, 3, 4), ()]
ROOM = 1e-4
LARGEST = 50.0


def lines_of(file):
    return [line for line in (HERE / file).read_text().splitlines() if line and not line.startswith("#")]


MAKING, WRITING = lines_of("templates.txt"), lines_of("writes.txt")


class Program:
    """A program being grown: its lines so far, and the values they gave."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.space = {"torch": torch, "F": torch.nn.functional, "D": torch.float64, "NUDGE": 0.0}
        self.lines, self.floats, self.made, self.leaves = [], [], [], []
        self.add(f"torch.manual_seed({seed})")
        for i, shape in enumerate(self.rng.sample(SHAPES, 4)):
            self.leaf(f"x{i}", shape)
        shape = self.rng.choice(SHAPES)
        self.add(f"n = torch.randint(0, 3, {shape})")
        self.add(f"m = torch.rand({self.rng.choice(SHAPES)}) > 0.5")

    def leaf(self, name, shape):
        self.add(f"{name} = (torch.randn({shape}).to(D) * (1 + NUDGE)).requires_grad_()")
        self.floats.append(name)
        self.leaves.append(name)

    def add(self, line):
        exec(line, self.space)
        self.lines.append(line)

    def filled(self, template, target=None):
        rng = self.rng
        names = {key: rng.choice(self.floats) for key in "abc"}
        if target:
            names["w"] = names["a"] = target
        a = self.space[names["a"]]
        if "{b}" in template and rng.random() < 0.7:        # an operand of the same shape, if there is one
            alike = [f for f in self.floats if self.space[f].shape == a.shape]
            names["b"] = rng.choice(alike)
        dim = max(a.dim(), 1)
        d = rng.randrange(-dim, dim)
        size = a.shape[d] if a.dim() else 1
        return template.format(**names, n="n", m="m", d=d, e=rng.randrange(-dim, dim), s=round(rng.uniform(-2, 2), 2), k=size)

    def fits(self, value):
        return (isinstance(value, torch.Tensor) and value.dtype == torch.float64 and 0 < value.numel() <= 600 and value.dim() < 6
                and bool(value.isfinite().all()) and float(value.abs().max()) < LARGEST)

    def keep(self, made):
        """A line that makes a value, unless that is refused or unfit."""
        name = f"v{len(self.made)}"
        line = f"{name} = {made}"
        exec(line, self.space)
        if not self.fits(self.space[name]):
            raise ValueError
        self.lines.append(line)
        self.made.append(name)
        self.floats.append(name)

    def write(self):
        """A line that writes: mostly to a copy made for it, else to any value, whose views and readers then see it."""
        if not self.made:
            return
        if self.rng.random() < 0.7:
            self.keep(f"{self.rng.choice(self.floats)}.clone()")
            target = self.made[-1]
        else:
            target = self.rng.choice(self.made)
        self.add(self.filled(self.rng.choice(WRITING), target))
        if not all(self.fits(self.space[name]) for name in self.made):
            self.add(f"{target}.detach().clamp_(-1, 1)")

    def text(self):
        values = "{" + ", ".join(f"'{name}': {name}" for name in self.made) + "}"
        back = f"sum((v.sum() * 0.1 for v in {values}.values() if v.requires_grad), torch.zeros(()).to(D)).backward()"
        lines = [*self.lines, f"values = {{k: v.detach().clone() for k, v in {values}.items()}}", back,
                 *(f"values['gradient of {leaf}'] = {leaf}.grad" for leaf in self.leaves)]
        return "\n".join(lines)


def grow(seed):
    program = Program(seed)
    wanted = program.rng.randint(10, 40)
    for _ in range(20 * wanted):
        if len(program.made) >= wanted:
            break
        try:
            program.write() if program.rng.random() < 0.12 else program.keep(program.filled(program.rng.choice(MAKING)))
        except Exception:       # refused: another line
            continue
    return program.text()


def run(text, dtype, nudge=0.0):
    space = {"torch": torch, "F": torch.nn.functional, "D": dtype, "NUDGE": nudge}
    exec(text, space)
    return space["values"]


def alike(a, b, room):
    if a is None or b is None:
        return a is b
    a, b = a.double(), b.double()
    return a.shape == b.shape and bool(((a - b).abs() <= room * (1 + b.abs().max())).all())


def kept(text):
    """What a program has to give: its float32 values, or the error it ends with. None when it need not agree."""
    try:
        values = run(text, torch.float32)
    except RuntimeError as error:       # a value that backward needs was written to, say
        return str(error)
    exact, moved = run(text, torch.float64), run(text, torch.float64, 1e-6)
    steady = all(alike(moved[key], exact[key], ROOM) for key in exact)
    return values if steady and all(alike(values[key], exact[key], ROOM) for key in exact) else None


def main():
    first, count, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    programs = []
    for seed in range(first, first + count):
        text = grow(seed)
        if answer := kept(text):
            programs.append((seed, text, answer))
    torch.save(programs, file)
    print(f"{len(programs)} of {count} programs kept")


main()
