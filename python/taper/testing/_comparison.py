"""assert_close: are two values, or two nests of them, the same but for rounding?

A comparison has two phases, as users see from the order of errors: first the containers are walked and each pair of
leaves finds the rule that can judge it, then the pairs are judged in order and the first difference is reported. The
rules are functions `rule(actual, expected, options)` that return None, "not my kind of value", or a function that
judges. A test case has rules of its own in front of and behind these (_internal/equality.py).
"""
import cmath
import sys
from collections.abc import Mapping, Sequence

from .._root import torch


# ---- How far apart two values of a dtype may be and still count as close -------------------------------------------
EXACT = (0.0, 0.0)
BY_DTYPE = {                                # dtype: (relative, absolute); what is not here must be equal
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
if hasattr(torch, "complex32"):
    BY_DTYPE[torch.complex32] = (1e-3, 1e-5)
BY_NUMBER = {int: torch.int64, float: torch.float64, complex: torch.complex128}


def default_of(*dtypes):
    """The wider of the dtypes' tolerances, each of the two on its own."""
    pairs = [BY_DTYPE.get(dtype, EXACT) for dtype in dtypes]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def check_given(rtol, atol):
    """Tolerances come both or not at all; returns whether they were given."""
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, "
                         f"but got no {'rtol' if rtol is None else 'atol'}.")
    return rtol is not None


# ---- The difference between two values, and the text that tells of it ----------------------------------------------
class Mismatch(Exception):
    """Two values differ. `path` leads to them through the containers compared: (1, "a") for x[1]["a"]."""

    def __init__(self, text, path=(), kind=AssertionError):
        super().__init__(text)
        self.text, self.path, self.kind = text, path, kind

    def to_error(self, msg):
        """The exception for the user; `msg` may replace the text or be a function of it."""
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.path)}"
        return self.kind(msg(text) if callable(msg) else msg or text)


def headline(what, rtol, atol):
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def allowed(tolerance, rtol, atol):
    return "" if rtol == 0 and atol == 0 else f" (up to {tolerance} allowed)"


def of_numbers(actual, expected, rtol, atol, what="Scalars"):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return (headline(what, rtol, atol) + f"Expected {expected} but got {actual}.\n"
            f"Absolute difference: {absolute}{allowed(atol, rtol, atol)}\n"
            f"Relative difference: {relative}{allowed(rtol, rtol, atol)}")


def of_tensors(actual, expected, matches, rtol, atol, what="Tensor-likes"):
    """Count of the elements that differ, and where the absolute and the relative difference are greatest."""
    shape = matches.shape
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    actual, expected, matches = (t.detach().flatten() for t in (actual, expected, matches))
    total, wrong = matches.numel(), int((~matches).sum())
    absolute = torch.abs(actual - expected)
    absolute[matches] = 0
    relative = absolute / torch.abs(expected)
    relative[matches] = 0
    lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
    for name, difference, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        place = int(torch.argmax(difference))
        lines.append(f"Greatest {name} difference: {difference[place].item()} at index {index_of(place, shape)}"
                     + allowed(tolerance, rtol, atol))
    return headline(what, rtol, atol) + "\n".join(lines)


def index_of(place, shape):
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))


def numpy_kind(name):
    """A class of numpy's, in a tuple. Values of it exist only once numpy is imported, which takes longer than most comparisons."""
    numpy = sys.modules.get("numpy")
    return (getattr(numpy, name),) if hasattr(numpy, name) else ()


def bools():
    return (bool, *numpy_kind("bool_"))


def numbers():
    return (int, float, complex, *numpy_kind("number"))


def arrays():
    return (torch.Tensor, *numpy_kind("ndarray"))


class Options:
    """What the caller of a comparison asked for."""
    sequences, mappings = (Sequence,), (Mapping,)
    rtol = atol = None
    least = (0.0, 0.0)                      # no tolerance is tighter than these
    equal_nan = check_stride = False
    check_device = check_dtype = check_layout = allow_subclasses = True
    number_dtypes = BY_NUMBER

    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)
        self.given = check_given(self.rtol, self.atol)

    def tolerance(self, *dtypes):
        rtol, atol = (self.rtol, self.atol) if self.given else default_of(*dtypes)
        return max(rtol, self.least[0]), max(atol, self.least[1])


def rule_none(actual, expected, _options):
    if actual is not None and expected is not None:
        return None

    def judge():
        if actual is not expected:
            raise Mismatch(f"None mismatch: {actual} is not {expected}")
    return judge


def rule_bool(actual, expected, _options):
    if not (isinstance(actual, bools()) and isinstance(expected, bools())):
        return None

    def judge():
        if bool(actual) is not bool(expected):
            raise Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    return judge


def to_number(value):
    return value.item() if isinstance(value, numpy_kind("number")) else value


def rule_number(actual, expected, options):
    if not all(isinstance(value, numbers()) and not isinstance(value, bools()) for value in (actual, expected)):
        return None
    actual, expected = to_number(actual), to_number(expected)
    return lambda: judge_numbers(actual, expected, options)


def judge_numbers(actual, expected, options):
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    if actual == expected:
        return
    rtol, atol = options.tolerance(*(options.number_dtypes.get(type(n), torch.int64) for n in (actual, expected)))
    if cmath.isnan(actual) and cmath.isnan(expected):
        near = options.equal_nan
    else:
        finite = cmath.isfinite(actual) and cmath.isfinite(expected)        # infinity is close to itself alone
        near = finite and abs(actual - expected) <= atol + rtol * abs(expected)
    if not near:
        raise Mismatch(of_numbers(actual, expected, rtol, atol))


def rule_tensor(actual, expected, options):
    """Tensors, and whatever can be taken for one, when one type derives from the other."""
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not related or (not options.allow_subclasses and type(actual) is not type(expected)):
        return None
    try:
        actual, expected = (t if isinstance(t, torch.Tensor) else torch.as_tensor(t) for t in (actual, expected))
    except Exception:
        return None
    return lambda: judge_tensors(actual, expected, options)


def judge_tensors(actual, expected, options):
    check_attributes(actual, expected, options)
    if actual.device.type == "meta" or expected.device.type == "meta":
        return                                          # nothing to compare but what has been compared
    if getattr(actual, "is_nested", False):
        for place, pair in enumerate(zip(actual.unbind(), expected.unbind())):
            judge_at((place,), lambda: judge_tensors(*pair, options))
        return
    for tensor in (actual, expected):
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise NotImplementedError(f"comparing tensors of layout {tensor.layout}, dtype {tensor.dtype}")
    rtol, atol = options.tolerance(actual.dtype, expected.dtype)
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        dtype = torch.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    matches = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if torch.all(matches):
        return
    if matches.dim() == 0:
        raise Mismatch(of_numbers(actual.item(), expected.item(), rtol, atol))
    raise Mismatch(of_tensors(actual, expected, matches, rtol, atol))


def check_attributes(actual, expected, options):
    checks = [("shape", True, lambda t: t.shape),
              ("layout", options.check_layout, lambda t: t.layout),
              ("stride()", options.check_stride, lambda t: t.stride()),
              ("device", options.check_device, lambda t: t.device),
              ("dtype", options.check_dtype, lambda t: t.dtype)]
    if getattr(actual, "is_nested", False) or getattr(expected, "is_nested", False):
        checks[0] = ("is_nested", True, lambda t: t.is_nested)
    for name, wanted, read in checks:
        if wanted and read(actual) != read(expected):
            raise Mismatch(f"The values for attribute '{name}' do not match: {read(actual)} != {read(expected)}.")


def judge_at(path, judge):
    """Run `judge`; a mismatch it finds lies at `path`."""
    try:
        judge()
    except Mismatch as mismatch:
        raise Mismatch(mismatch.text, path + mismatch.path, mismatch.kind) from None


def pairs(actual, expected, rules, options, path=()):
    """All pairs of leaves as (path, judge), in order; raises Mismatch where the containers differ."""
    if (isinstance(actual, options.sequences) and isinstance(expected, options.sequences)
            and not isinstance(actual, str) and not isinstance(expected, str)):
        yield from sequence_pairs(actual, expected, rules, options, path)
    elif isinstance(actual, options.mappings) and isinstance(expected, options.mappings):
        yield from mapping_pairs(actual, expected, rules, options, path)
    else:
        for rule in rules:
            judge = rule(actual, expected, options)
            if judge is not None:
                yield path, judge
                return
        raise Mismatch("No comparison pair was able to handle inputs of type "
                       f"{type(actual)} and {type(expected)}.", path, TypeError)


def sequence_pairs(actual, expected, rules, options, path):
    if len(actual) != len(expected):
        raise Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
    for place in range(len(actual)):
        yield from pairs(actual[place], expected[place], rules, options, path + (place,))


def mapping_pairs(actual, expected, rules, options, path):
    missing = [key for key in expected.keys() if key not in actual.keys()]
    more = [key for key in actual.keys() if key not in expected.keys()]
    if missing or more:
        raise Mismatch("The keys of the mappings do not match:\n"
                       f"Missing keys in the actual mapping: {in_order(missing)}\n"
                       f"Additional keys in the actual mapping: {in_order(more)}", path)
    for key in in_order(actual.keys()):
        yield from pairs(actual[key], expected[key], rules, options, path + (key,))


def in_order(keys):
    try:
        return sorted(keys)
    except Exception:
        return list(keys)


def first_mismatch(actual, expected, rules, options):
    """None when the two agree."""
    try:
        for path, judge in list(pairs(actual, expected, rules, options)):
            judge_at(path, judge)
    except Mismatch as mismatch:
        return mismatch
    return None


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise AssertionError unless `actual` and `expected` are close:
    |actual - expected| <= atol + rtol * |expected|, with tolerances that depend on the dtype unless given."""
    options = Options(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan,
                      check_device=check_device, check_dtype=check_dtype, check_layout=check_layout,
                      check_stride=check_stride)
    mismatch = first_mismatch(actual, expected, (rule_none, rule_bool, rule_number, rule_tensor), options)
    if mismatch is not None:
        raise mismatch.to_error(msg)
