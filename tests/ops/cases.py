"""Cases for every op: the samples of its entry, multiplied, and the standard matrix of its kind.

A case is plain data (JSON), so that the same one runs on Taper and on PyTorch: a tensor is written as its storage and how
it is seen, {"t": dtype, "data": [...], "size": [...], "stride": [...], "offset": n}; other values stand for themselves,
with {"dtype": ...}, {"float": "nan"} and {"c": [re, im]} for what JSON lacks.
"""
import itertools
import math
import pathlib
import random
import re
import zlib

MOST_CASES = 60
DTYPES = ("b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")
MOST_CHOICES = 4
MOST_SMOOTH = 6
PAIRS = (("i64", "f64"), ("f16", "f32"), ("b8", "i32"), ("u8", "i8"), ("f64", "c64"), ("i32", "f16"))
# Ops that meet only the types of their samples: PyTorch's convolutions of halves round each tap, so that the values differ
# by more than rounding once, and those of integers are not here yet; losses of probabilities want them between 0 and 1;
# which of equal elements topk takes is left open; PyTorch's exponential of a matrix of halves is NaN, and random
# complex numbers are no factor of Cholesky's, whose diagonal is real.
ONE_TYPE = {"conv1d", "conv2d", "conv3d", "conv_transpose2d", "convolution", "binary_cross_entropy", "topk", "linalg_matrix_exp", "matrix_exp", "matrix_exp_backward",
            "cholesky_inverse"}
SETS_FILE = pathlib.Path(__file__).parents[2] / "src/ops/samples.def"


def named_sets():
    """The sets that `try` rows name: {name: (dtype, size, elements)}."""
    sets = {}
    for line in re.findall(r"^TP_SAMPLE_SET\((.*)\)$", SETS_FILE.read_text(), re.M):
        name, dtype, ndim, rows, columns, *numbers = [word.strip() for word in line.split(",")]
        size = [int(rows), int(columns)][:int(ndim)]
        sets[name] = (dtype, size, [float(n) if dtype[0] == "f" else int(n) for n in numbers[:math.prod(size)]])
    return sets


SETS = named_sets()


def elements(source, dtype, count):
    """`count` elements of a fixed stream that suit the type."""
    if dtype == "b8":
        return [source.random() < 0.5 for _ in range(count)]
    if dtype[0] in "iu":
        return [source.randint(0 if dtype[0] == "u" else -5, 9) for _ in range(count)]
    if dtype[0] == "c":
        return [[source.uniform(-2, 2), source.uniform(-2, 2)] for _ in range(count)]
    return [source.uniform(-2, 2) for _ in range(count)]


def row_major(size):
    stride, step = [], 1
    for n in reversed(size):
        stride.insert(0, step)
        step *= max(n, 1)
    return stride


def tensor(source, dtype, size, layout=None):
    """A tensor of the stream, laid out in memory as `layout` says."""
    count = math.prod(size)
    if layout == "transposed" and len(size) > 1:
        stride = list(reversed(row_major(list(reversed(size)))))
    elif layout == "strided" and size:
        stride = [2 * s for s in row_major(size)]
        count *= 2
    elif layout == "channels_last" and len(size) == 4:
        n, c, h, w = size
        stride = [h * w * c, 1, w * c, c]
    else:
        stride = row_major(size)
    return {"t": dtype, "data": elements(source, dtype, max(count, 0)), "size": list(size), "stride": stride, "offset": 0}


def sample_value(source, sample):
    kind = sample[0]
    if kind == "tensor":
        return tensor(source, sample[1], sample[2], sample[3])
    if kind == "elements":
        return {"t": "f32", "data": list(sample[1]), "size": [len(sample[1])], "stride": [1], "offset": 0}
    if kind == "set":
        dtype, size, data = SETS[sample[1]]
        return {"t": dtype, "data": list(data), "size": list(size), "stride": row_major(size), "offset": 0}
    value = sample[1]
    return {"dtype": repr(value).split(".")[-1]} if type(value).__name__ == "dtype" else value


def arranged(op, sample, arguments):
    """Named sets of floats take the type of the first float beside them; a list of tensors is the tensor twice."""
    float_type = next((s[1] for s in sample if s[0] == "tensor" and s[1] in ("f32", "f64")), "f32")
    for (name, value), s in zip(arguments.items(), sample):
        if s[0] == "set" and value["t"] == "f32":
            value["t"] = float_type
        if is_tensor(value) and re.search(rf"Tensor\(?\w?\)?\??\[\] {name}\b", op["schema"]):
            arguments[name] = [value] if name == "indices" else [value, value]
    return arguments


def sampled(op):
    """The rows of each `try`, multiplied."""
    for number, rows in enumerate(op["tries"]):
        names = [name for name, _ in rows]
        for chosen in itertools.islice(itertools.product(*(samples for _, samples in rows)), MOST_CASES):
            source = random.Random(zlib.crc32(f"{op['name']}.{op['overload']}.{number}.{chosen!r}".encode()))
            yield arranged(op, chosen, {name: sample_value(source, sample) for name, sample in zip(names, chosen)})


def is_tensor(value):
    return isinstance(value, dict) and "t" in value


def of_type(op, sample, dtypes, swept):
    """The sample with its tensors of other types: the first of dtypes for the first tensor, the second for the rest."""
    source = random.Random(zlib.crc32(f"{op['name']}.{op['overload']}.{dtypes[0]}".encode()))
    names = [k for k, v in sample.items() if is_tensor(v) and swept(v["t"])]
    return {k: tensor(source, dtypes[k != names[0]], v["size"]) if k in names else v for k, v in sample.items()}


def choices(samples):
    """The first sample for each choice of what is no tensor, a few of them."""
    found = {}
    for sample in samples:
        found.setdefault(repr([(k, is_tensor(v) or v) for k, v in sample.items()]), sample)
    return list(found.values())[:MOST_CHOICES]


def matrix(op):
    """Types and layouts that every element-wise op and reduction meets, and types that the floats of every other op do."""
    samples = list(itertools.islice(sampled(op), MOST_CASES))
    if not samples or not any(is_tensor(v) for v in samples[0].values()):
        return
    if op["kind"] not in ("pointwise", "reduction"):
        if op["name"] not in ONE_TYPE and any(is_tensor(v) and v["t"][0] == "f" for v in samples[0].values()):
            yield from (of_type(op, samples[0], (dtype, dtype), lambda t: t[0] == "f") for dtype in DTYPES)
        return
    for sample in choices(samples):
        yield from (of_type(op, sample, (dtype, dtype), lambda t: True) for dtype in DTYPES)
    first = samples[0]
    if sum(map(is_tensor, first.values())) > 1:
        yield from (of_type(op, first, pair, lambda t: True) for pair in PAIRS)
    for layout, shape in (("transposed", [3, 4]), ("strided", [3, 4]), (None, [0]), (None, []), ("channels_last", [2, 3, 2, 2])):
        source = random.Random(zlib.crc32(f"{op['name']}.{op['overload']}.{layout}.{shape}".encode()))
        yield {k: tensor(source, v["t"], shape, layout) if is_tensor(v) else v for k, v in first.items()}


def cases_of(op):
    """All cases of an op, as a list of argument dicts."""
    return list(itertools.chain(itertools.islice(sampled(op), MOST_CASES), matrix(op)))


def smooth_cases(op):
    """The first few of an op's own samples in which a tensor could want a gradient."""
    def could(value):
        return is_tensor(value) and value["t"] in ("f32", "f64", "c64", "c128") or isinstance(value, list) and any(map(could, value))

    return list(itertools.islice((case for case in sampled(op) if any(map(could, case.values()))), MOST_SMOOTH))
