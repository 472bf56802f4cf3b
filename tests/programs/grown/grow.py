"""Random programs: how they are grown, and how one is run. `torch` is whichever library the interpreter was started with.

A program has 10 to 40 lines from templates.txt and writes.txt. Its text defines `inputs(D, NUDGE)` and `program(…)`, which gives every
value it made, by name. D is the type of its floats.
"""
import pathlib
import random
import re

import torch

HERE = pathlib.Path(__file__).parent
SHAPES = [(3, 4), (4,), (3, 1), (2, 3, 4), (4, 3), (4, 4), (2, 3, 4, 4), (3, 3, 3, 3), (1, 3, 4), (), (3, 3), (5,), (1,), (2, 0), (0,), (2, 4)]
LIKELY = [30 if 0 not in shape else 6 for shape in SHAPES]
LARGEST = 50.0
FLOATS = (torch.float32, torch.float64)
# placeholder letters by the kind of value that fills them
LETTERS = {"abc": "float", "np": "integer", "ml": "mask", "zy": "complex"}
WRITTEN = {"w": "float", "i": "integer", "o": "mask", "j": "complex"}


def lines_of(file):
    return [line for line in (HERE / file).read_text().splitlines() if line and not line.startswith("#")]


MAKING, WRITING = lines_of("templates.txt"), lines_of("writes.txt")
# What no graph can hold: sizes that depend on data, numbers read from tensors, by the program or by a function it calls; what is done to the
# Python object of a tensor (x.data is a constant to jit.trace, PyTorch's and ours; detach_ may reach an input). torch.compile does not follow functions of torch.func yet.
DATA = re.compile(r"item\(\)|\[(:, )?\{m\}(\[..., 0\])?\]($| [+*]=)|masked_select|bincount|gaussian_nll_loss|one_hot|cov|corrcoef|combinations|nonzero\(|argwhere|unique|lstsq"
                  r"|\.select\(\{d\}, torch|torch\.tensor\(0\)|== 0\]|> 0\]|repeat_interleave\(\{a\}, torch|\.data\b|requires_grad_|detach_\(\)|torch\.func")


def kind_of(value):
    if value.dtype in FLOATS:
        return "float"
    if value.dtype == torch.bool:
        return "mask"
    return "complex" if value.is_complex() else "integer"


def overlaps_itself(t):
    """Do two elements share a place? Such a tensor is not to be written."""
    places = {0}
    for size, stride in zip(t.shape, t.stride()):
        places = {p + i * stride for p in places for i in range(size)}
    return len(places) < t.numel()


class Program:
    """A program being grown: its lines so far, and the values they gave."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.space = {"torch": torch, "F": torch.nn.functional, "D": torch.float32, "NUDGE": 0.0}
        self.making, self.lines, self.made, self.leaves = [], [], [], []
        self.names = {kind: [] for kind in LETTERS.values()}
        self.start(f"torch.manual_seed({seed})")
        for i, shape in enumerate(self.rng.choices(SHAPES, LIKELY, k=4)):
            self.leaf(f"x{i}", f"(torch.randn({shape}).to(D) * (1 + NUDGE)).requires_grad_()")
        self.leaf("z0", f"(torch.randn({self.shape()}, dtype=torch.complex64).to(D.to_complex()) * (1 + NUDGE)).requires_grad_()")
        self.leaf("n0", f"torch.randint(-2, 4, {self.shape()})")
        self.leaf("n1", f"torch.randint(0, 3, {self.shape()}, dtype=torch.{self.rng.choice(['int32', 'uint8', 'int64'])})")
        self.leaf("m0", f"torch.rand({self.shape()}) > 0.5")

    def shape(self):
        return self.rng.choices(SHAPES, LIKELY)[0]

    def start(self, line):
        exec(line, self.space)
        self.making.append(line)

    def leaf(self, name, made):
        self.start(f"{name} = {made}")
        self.names[kind_of(self.space[name])].append(name)
        self.leaves.append(name)

    def pick(self, kind):
        """Any value of the kind, the last ones more often: programs are deep rather than wide."""
        names = self.names[kind]
        return self.rng.choice(names[-6:] if self.rng.random() < 0.5 else names)

    def filled(self, template, **targets):
        """The template as a line, and the names in it. The targets are names for the letters of what is written."""
        rng = self.rng
        template = template.replace("{u}", "({a} + torch.arange({a}.numel(), dtype=D).reshape({a}.shape) * 0.01)")
        template = re.sub(r"<<(.*?)>>", lambda m: rng.choice(m[1].split("|")), template)
        names = {letter: self.pick(kind) for letters, kind in LETTERS.items() for letter in letters if f"{{{letter}}}" in template}
        names |= targets
        first = self.space[names[min(names, key=lambda letter: template.find(f"{{{letter}}}") % 10000)]] if names else torch.zeros(())
        for letter, kind in (("b", "float"), ("y", "complex"), ("c", "float")):
            if letter in names and rng.random() < 0.7:        # an operand of the same shape, if there is one
                alike = [f for f in self.names[kind] if self.space[f].shape == first.shape]
                names[letter] = rng.choice(alike) if alike else names[letter]
        dims = max(first.dim(), 1)
        d = rng.randrange(-dims, dims)
        line = template.format(**names, d=d, e=rng.randrange(-dims, dims), s=round(rng.uniform(-2, 2), 2), k=first.shape[d] if first.dim() else 1)
        return line, {name for letter, name in names.items() if f"{{{letter}}}" in template}

    def fits(self, value):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.numel() > 600 or value.dim() > 5:
            return False
        if kind_of(value) in ("mask", "integer"):
            return value.numel() == 0 or value.dtype == torch.bool or int(value.abs().max()) < 1000
        return value.dtype not in (torch.float16, torch.bfloat16) and (
            value.numel() == 0 or bool(value.isfinite().all()) and float(value.detach().abs().max()) < LARGEST)

    def keep(self, made):
        """A line that makes a value, unless that is refused or unfit."""
        name = f"v{len(self.made)}"
        line = f"{name} = {made}"
        exec(line, self.space)
        if not self.fits(self.space[name]):
            raise ValueError
        self.lines.append(line)
        self.made.append(name)
        self.names[kind_of(self.space[name])].append(name)

    def write(self):
        """A line that writes: mostly to a copy made for it, else to any value, whose views and readers then see it. What lies over
        itself, or under another operand, would be written in an order that nobody promises."""
        template = self.rng.choice(self.writing)
        letter = next(letter for letter in WRITTEN if f"{{{letter}}}" in template)
        kind = WRITTEN[letter]
        if self.rng.random() < 0.6:
            self.keep(f"{self.pick(kind)}.clone()")
            target = self.made[-1]
        else:
            target = self.rng.choice([name for name in self.made if kind_of(self.space[name]) == kind])
        line, names = self.filled(template, **{letter: target})
        if self.captured and DATA.search(line):     # one of several words of the template
            raise ValueError
        if line.count(target) > template.count(f"{{{letter}}}"):        # an operand that is written meanwhile
            raise ValueError
        written = self.space[target].untyped_storage().data_ptr()
        if overlaps_itself(self.space[target]) or any(self.space[n].untyped_storage().data_ptr() == written for n in names - {target}):
            raise ValueError
        exec(line, self.space)
        self.lines.append(line)
        if not all(self.fits(self.space[name]) for name in self.made):
            self.lines.append(f"{target}.detach().{'zero_()' if kind == 'complex' else 'clamp_(-1, 1)'}")
            exec(self.lines[-1], self.space)

    def text(self):
        made = ", ".join(f"'{name}': {name}" for name in self.made)
        body = "\n    ".join(self.lines)
        return (f"def inputs(D, NUDGE):\n    " + "\n    ".join(self.making) + f"\n    return [{', '.join(self.leaves)}]\n\n"
                f"def program({', '.join(self.leaves)}):\n    {body}\n    return {{{made}}}\n")


def grow(seed, captured=False):
    """The text of a program; captured: one that is all graph."""
    program = Program(seed)
    program.captured = captured
    making, program.writing = ([line for line in lines if not captured or not DATA.search(line)] for lines in (MAKING, WRITING))
    wanted = program.rng.randint(10, 40)
    for _ in range(20 * wanted):
        if len(program.lines) >= wanted:
            break
        try:
            program.write() if program.rng.random() < 0.15 else program.keep(program.filled(program.rng.choice(making))[0])
        except Exception:       # refused: another line
            continue
    return program.text()


# ---- running ----
def load(text, dtype, **more):
    space = {"torch": torch, "F": torch.nn.functional, "D": dtype, **more}
    exec(text, space)
    return space["inputs"], space["program"]


def loss_of(values):
    """One number: sums of some values, which spread one gradient over them, and sums with weights of the others."""
    total = 0
    for i, value in enumerate(values):
        if value.requires_grad:
            real = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
            weight = torch.cos(torch.arange(real.numel(), dtype=real.dtype)).reshape(real.shape) if i % 2 else 1
            total = total + (real * weight).sum() * 0.1
    return total


def gradients_of(values, leaves):
    loss = loss_of(values)
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    return torch.autograd.grad(loss, leaves, allow_unused=True) if isinstance(loss, torch.Tensor) else [None] * len(leaves)


def jittered(text):
    """The program with every line that makes a value followed by one that moves what it made."""
    return re.sub(r"^    (v\d+) = .*$", r"\g<0>\n    JITTER(\1)", text, flags=re.MULTILINE)


def mover(size, seed):
    noise = torch.Generator().manual_seed(seed)

    def move(value):
        if value.dtype in FLOATS and value._base is None and not overlaps_itself(value):        # unseen by the tape: .data counts its own writes
            value.data.add_(torch.randn(value.shape, generator=noise, dtype=value.dtype) * size)
    return move


def strides(t):
    """Those of the dims that have a second element, of a tensor that has elements."""
    return torch.tensor([stride for size, stride in zip(t.shape, t.stride()) if size > 1 and t.numel()], dtype=torch.int64)


def run(text, dtype, nudge=0.0, jitter=0.0, seed=1):
    """Every value of the program, the gradients of its leaves or the words of the error where there are none (a value that backward needs
    was written to, say), and the strides of every value, by name."""
    inputs, program = load(jittered(text) if jitter else text, dtype, JITTER=mover(jitter, seed))
    leaves = inputs(dtype, nudge)
    values = program(*leaves)
    given = {name: value.detach().resolve_conj().clone() for name, value in values.items()}
    laid = {f"strides of {name}": strides(value) for name, value in values.items()}
    try:
        gradients = gradients_of(values.values(), leaves)
    except RuntimeError as error:
        return given | {"error": str(error).splitlines()[0]} | laid
    return given | {f"gradient {i}": None if g is None else g.detach().resolve_conj().clone() for i, g in enumerate(gradients)} | laid


def far(a, b, room):
    """Where two tensors of one shape differ; numbers that are no numbers are like themselves."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    finite = b.isfinite()
    largest = b[finite].abs().max() if bool(finite.any()) else 0
    same = (a == b) | (a.isnan() & b.isnan())
    return ~same & ~((a - b).abs() <= room * (1 + largest))
