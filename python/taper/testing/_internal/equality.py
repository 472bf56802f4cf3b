"""What TestCase.assertEqual takes for equal: more kinds of values than assert_close, and numbers more loosely."""
import unittest
from collections.abc import Sequence

from .. import _comparison
from .._comparison import Options, arrays, bools, judge_numbers, judge_tensors, numbers, to_number
from .._comparison import Mismatch
from ..._root import torch

SYMBOLS = {getattr(torch, name): kind for name, kind in (("SymInt", int), ("SymFloat", float), ("SymBool", bool))
           if hasattr(torch, name)}


class TestOptions(Options):
    """Floats are as close as float32 needs them, devices and layouts may differ, and modules that hold others are
    containers."""
    __test__ = False                        # pytest: not a test class
    check_device = check_layout = False
    equal_nan = True

    def __init__(self, **given):
        nn = torch.nn
        self.sequences = Options.sequences + (nn.Sequential, nn.ModuleList, nn.ParameterList)
        self.mappings = Options.mappings + (nn.ModuleDict, nn.ParameterDict)
        self.number_dtypes = {int: torch.int64, float: torch.get_default_dtype(), complex: torch.complex64}
        super().__init__(**given)


class LooseNumbers:
    """The caller's options, but a number's type is not compared."""
    check_dtype = False

    def __init__(self, options):
        self.equal_nan, self.number_dtypes, self.tolerance = options.equal_nan, options.number_dtypes, options.tolerance


def plain(value):
    """A symbolic number as a Python number, an array of one element as that element."""
    for symbol, kind in SYMBOLS.items():
        if isinstance(value, symbol):
            return kind(value)
    if isinstance(value, arrays()):
        count = value.numel() if isinstance(value, torch.Tensor) else value.size
        if count > 1:
            raise ValueError("Only single element tensor-likes can be compared against a number. "
                             f"Got {count} elements instead.")
        return value.item()
    return to_number(value)


def rule_number(actual, expected, options):
    """Numbers of any type, also against tensors of one element; a bool on one side makes both bools."""
    scalars = bools() + numbers() + tuple(SYMBOLS)
    kinds = [isinstance(value, scalars) for value in (actual, expected)]
    if not any(kinds) or not all(kind or isinstance(value, arrays()) for kind, value in zip(kinds, (actual, expected))):
        return None
    actual, expected = plain(actual), plain(expected)
    if isinstance(actual, bools()) or isinstance(expected, bools()):
        return _comparison.rule_bool(bool(actual), bool(expected), options)
    return lambda: judge_numbers(actual, expected, LooseNumbers(options))


def rule_array(actual, expected, options):
    """Tensors, numpy arrays and typed storages, in any combination."""
    kinds = arrays() + ((torch.TypedStorage,) if hasattr(torch, "TypedStorage") else ())
    if not (isinstance(actual, kinds) and isinstance(expected, kinds)):
        return None
    return lambda: judge_tensors(as_tensor(actual), as_tensor(expected), options)


def as_tensor(value):
    if isinstance(value, arrays()):
        return value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    return torch.tensor([], dtype=value.dtype, device=value.device).set_(value)


def rule_object(actual, expected, _options):
    """Everything else, by ==, in unittest's words."""
    name = "Object"
    for title, kind in (("String", str), ("Set", (set, frozenset)), ("Type", type)):
        if isinstance(actual, kind) and isinstance(expected, kind):
            name = title

    def judge():
        case = unittest.TestCase()
        try:
            (case.assertSetEqual if name == "Set" else case.assertEqual)(actual, expected)
        except case.failureException as problem:
            raise Mismatch(f"{name} comparison failed: {problem}") from None
    return judge


RULES = (_comparison.rule_none, rule_number, rule_array, rule_object)


def match_kinds(x, y):
    """A sequence against a tensor is taken for a tensor of the same dtype and device."""
    if isinstance(x, torch.Tensor) and isinstance(y, Sequence):
        return x, torch.as_tensor(y, dtype=x.dtype, device=x.device)
    if isinstance(y, torch.Tensor) and isinstance(x, Sequence):
        return torch.as_tensor(x, dtype=y.dtype, device=y.device), y
    return x, y


def first_mismatch(x, y, **given):
    return _comparison.first_mismatch(*match_kinds(x, y), RULES, TestOptions(**given))
