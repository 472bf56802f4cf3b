"""Hostile arguments by type, as text: what is written here is evaluated by the names in `words.py`, so every call is a line of Python."""
import math

INTS = (-2**63, 2**63 - 1, 2**31, 2**62, -1, 0, 1, 2, 3, 5, -2, -3, 7, -2**31, 2**32 + 1, 2**40, 1000, -2**62, 63, 64, 65)
FLOATS = ("nan", "inf", "-inf", "-0.0", "0.0", "1e308", "-1e308", "5e-324", "1.0", "0.5", "-1.0", "2.0", "1e-40", "1e30", "3.5")
DTYPES = ("b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")
COMMON = ("f32", "f32", "f32", "f64", "i64", "i64", "b8", "c64")
SIZES = ((), (0,), (1,), (3,), (5,), (2, 3), (3, 3), (3, 0), (0, 3), (1, 1), (4, 1), (2, 3, 4), (2, 0, 4), (2, 3, 4, 4), (1, 2, 5, 5), (2, 2, 3, 3, 3), (1,) * 7,
         (4, 4), (2, 3, 3), (7,), (16,), (1, 2, 1, 3, 1, 2), (2,) * 10, (130,))
RARE_SIZE = (1,) * 64
FILLS = ("'nan'", "'inf'", "'zero'", "'huge'", "'low'", "'odd'")
STRINGS = ("''", "'mean'", "'none'", "'sum'", "'nonsense'", "'reflect'", "'constant'", "'ij,jk->ik'", "'sum' * 1000", "'\\0'", "'é'", "'linear'", "'floor'", "'trunc'",
           "'i...->...i'", "'tanh'", "'reduced'", "'r'", "'L'", "'fro'", "'nuc'", "'ortho'")
FORMATS = ("preserve_format", "contiguous_format", "channels_last", "channels_last_3d")
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn")
TORCH_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint16", "uint64",
                "complex32", "quint8", "float8_e4m3fn")
DEVICES = ("'cpu'", "'meta'", "torch.device('meta')", "'cuda'", "'cpu:0'", "torch.device('cpu')", "'meta:1'", "'mps'")
VIEWS = ("{0}", "{0}", "{0}", "{0}.detach()", "{0}.t()", "{0}.mT", "{0}[1:]", "{0}[:-1]", "{0}.reshape(-1)", "{0}[..., ::2]", "{0}[None]", "{0}.transpose(0, -1)",
         "{0}.flatten()[:1]", "{0}.narrow(0, 1, 1)", "{0}.unsqueeze(0).expand(2, *{0}.shape)", "{0}.as_strided({0}.shape, [1] * {0}.dim())", "{0}.sum(0)", "{0}[0]",
         "{0}.diagonal()", "{0}.squeeze()", "{0}.data", "{0}.view(torch.uint8)", "{0}.resize_(0)")


def row_major(size):
    stride, step = [], 1
    for n in reversed(size):
        stride.insert(0, step)
        step *= max(n, 1)
    return tuple(stride)


class Tensor:
    """What is known of a tensor argument: enough to write it, and to make it hostile in one respect."""

    def __init__(self, dtype, size, stride=None, offset=0, fill=None, device=None, grad=False, sign=None):
        self.dtype, self.size, self.stride, self.offset, self.fill = dtype, tuple(size), stride, offset, fill
        self.device, self.grad, self.sign = device, grad, sign

    def __repr__(self):
        text = f"T({self.dtype!r}, {self.size!r}"
        for name in ("stride", "offset", "grad"):
            value = getattr(self, name)
            text += f", {name}={value!r}" if value else ""
        for name in ("device", "sign"):
            value = getattr(self, name)
            text += f", {name}={value!r}" if value else ""
        return text + (f", fill={self.fill}" if self.fill is not None else "") + ")"

    def copy(self, **changed):
        return Tensor(**{**self.__dict__, **changed})

    def gaps(self):
        size = self.size if math.prod(self.size) < 10000 else (3,)
        return self.copy(size=size, stride=tuple(2 * s for s in row_major(size)), offset=1)

    def turned(self):
        return self.copy(stride=tuple(reversed(row_major(tuple(reversed(self.size))))))


def another_size(rng, size):
    """A size near to this one: a dim more or less, or another length."""
    size = list(size)
    how = rng.random()
    if how < 0.25 or not size:
        size.insert(rng.randrange(len(size) + 1), rng.choice((0, 1, 2, 5)))
    elif how < 0.45:
        del size[rng.randrange(len(size))]
    elif how < 0.9:
        at = rng.randrange(len(size))
        size[at] = rng.choice((0, 1, 2, size[at] + 1, max(size[at] - 1, 0), 7))
    else:
        size = list(rng.choice(SIZES))
    return tuple(size)


def hostile_tensor(rng, t):
    """A plausible tensor, made hostile in one respect."""
    how = rng.randrange(16)
    if how < 2:
        return t.copy(dtype=rng.choice(DTYPES), fill=None, sign=None)
    if how < 5:
        return t.copy(size=another_size(rng, t.size), stride=None, fill=None)
    if how == 5:
        return t.gaps()
    if how == 6:
        return t.turned()
    if how == 7:
        return t.copy(stride=tuple(0 if rng.random() < 0.5 else s for s in row_major(t.size)), fill=None)
    if how == 8:
        return t.copy(stride=tuple(1 for _ in t.size), fill=None)
    if how == 9:
        return t.copy(stride=tuple(rng.choice((1, 2, 3, 5, 100)) for _ in t.size), offset=rng.randrange(3), fill=None) if len(t.size) < 6 else t
    if how < 13:
        return t.copy(fill=rng.choice(FILLS))
    if how == 13:
        return t.copy(device="meta")
    if how == 14:
        return t.copy(sign=rng.choice(("conj", "neg")), dtype=t.dtype if t.dtype[0] in "fcb" and t.dtype != "b8" else "c64", fill=None)
    return t.copy(grad=t.dtype[0] in "fc" or t.dtype == "bf16")


def any_tensor(rng):
    t = Tensor(rng.choice(COMMON), rng.choice(SIZES) if rng.random() < 0.98 else RARE_SIZE)
    while rng.random() < 0.4:
        t = hostile_tensor(rng, t)
    return t


NEAR = ((2, 3), (3, 3), (3,), (4, 4), (2, 3, 4), (2, 3, 4, 4))
INDICES = ("index", "indices", "lengths", "offsets", "target", "batch_sizes", "mask", "offset2bag", "bag_size")


class Plausible:
    """Values that fit together: tensors of one type and size, small integers."""

    def __init__(self, rng):
        self.size, self.dtype = rng.choice(NEAR), rng.choice(("f32", "f32", "f64", "i64", "c64"))

    def value(self, rng, kind, name):
        if kind == "Tensor":
            return Tensor("i64", rng.choice((self.size, self.size[:1], (3,)))) if name in INDICES else Tensor(self.dtype, self.size)
        if kind in ("int", "SymInt", "Scalar"):
            return rng.choice((0, 1, 1, 2, 3))
        if kind == "float":
            return rng.choice(("0.5", "1.0", "0.1"))
        return value_of(rng, kind)


def any_int(rng):
    return rng.choice(INTS)


def any_float(rng):
    return rng.choice(FLOATS)


def any_number(rng):
    how = rng.random()
    return any_int(rng) if how < 0.4 else any_float(rng) if how < 0.8 else rng.choice(("True", "complex(nan, inf)", "1e200j", "2+3j", "2**64", "-2**70", "1 << 200"))


def ints(rng, count):
    count = count or rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 64, 70))
    if rng.random() < 0.15:
        count = rng.choice((0, 1, count + 1, max(count - 1, 0)))
    return [any_int(rng) if rng.random() < 0.5 else rng.choice((0, 1, 2, 3)) for _ in range(count)]


def value_of(rng, kind):
    """Any value of a type without its `?` and `[]`."""
    if kind == "Tensor":
        return any_tensor(rng)
    if kind in ("int", "SymInt"):
        return any_int(rng)
    if kind == "float":
        return any_float(rng)
    if kind == "Scalar":
        return any_number(rng)
    if kind == "bool":
        return rng.choice(("True", "False"))
    if kind == "str":
        return rng.choice(STRINGS)
    if kind == "ScalarType":
        return f"torch.{rng.choice(TORCH_DTYPES)}"
    if kind == "MemoryFormat":
        return f"torch.{rng.choice(FORMATS)}"
    if kind == "Layout":
        return f"torch.{rng.choice(LAYOUTS)}"
    if kind == "Device":
        return rng.choice(DEVICES)
    if kind == "Generator":
        return rng.choice(("torch.Generator()", "torch.default_generator", "None"))
    if kind == "Storage":
        return rng.choice(("T('f32', (3,)).untyped_storage()", "T('f32', (0,)).untyped_storage()", "torch.UntypedStorage(7)"))
    return rng.choice(("None", "0", "[]", "(lambda *a: a)", "(lambda *a: a[0])", "[T('f32', (3,))]", "{}", "'x'"))
