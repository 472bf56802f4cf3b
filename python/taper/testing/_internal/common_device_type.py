"""Tests that run once for each device, and the decorators that name dtypes, ops, devices and tolerances.

instantiate_device_type_tests turns `class TestX` with `def test_a(self, device)` into `class TestXCPU` with
`test_a_cpu`. We have one device that computes, the CPU.
"""
import collections
import enum
import functools
import inspect
import unittest

from .opinfo.core import active_decorators
from .parametrized import MARK, TestParametrizer, add_test, bind, join
from .test_case import TestCase
from ..._root import torch

tol = collections.namedtuple("tol", ["atol", "rtol"])


class DeviceTypeTestBase(TestCase):
    device_type = "generic_device_type"

    @classmethod
    def get_primary_device(cls):
        return cls.device_type


class CPUTestBase(DeviceTypeTestBase):
    device_type = "cpu"


def get_device_type_test_bases():
    """One class for each kind of device that tests run on."""
    return [CPUTestBase]


class OpDTypes(enum.Enum):
    """Which dtypes of an op to test."""
    supported = 0
    unsupported = 1
    supported_backward = 2
    unsupported_backward = 3
    any_one = 4
    none = 5
    any_common_cpu_cuda_one = 6


class dtypes(TestParametrizer):
    """@dtypes(torch.float32, torch.int64): one test for each; `device_type` limits it to one device."""

    def __init__(self, *args, device_type="all"):
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = args[0]
        self.dtypes, self.device_type = list(args), device_type

    def instances(self, test, generic_class, device_class):
        if device_class is None or self.device_type not in ("all", device_class.device_type):
            yield test, "", {}, lambda _kwargs: ()
            return
        for dtype in self.dtypes:
            yield test, "", {"dtype": dtype}, lambda _kwargs: ()


class ops(TestParametrizer):
    """@ops(op_db): one test for each op and dtype."""

    def __init__(self, op_list, *, dtypes=OpDTypes.supported, allowed_dtypes=None, skip_if_dynamo=True):
        self.op_list, self.dtypes = list(op_list), dtypes
        self.allowed = None if allowed_dtypes is None else set(allowed_dtypes)

    def dtypes_of(self, op, device):
        supported = set(op.supported_dtypes(device))
        if not isinstance(self.dtypes, OpDTypes):
            chosen = set(self.dtypes)
        elif self.dtypes is OpDTypes.none:
            return [None]
        elif self.dtypes is OpDTypes.supported:
            chosen = supported
        elif self.dtypes is OpDTypes.supported_backward:
            chosen = set(op.supported_backward_dtypes(device))
        elif self.dtypes is OpDTypes.any_one:
            preferred = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64]
            chosen = set([d for d in preferred if d in supported][:1] or sorted(supported, key=str)[:1])
        else:
            raise NotImplementedError(str(self.dtypes))
        return sorted(chosen if self.allowed is None else chosen & self.allowed, key=str)

    def instances(self, test, generic_class, device_class):
        if device_class is None:
            raise RuntimeError("The @ops decorator is only intended to be used in a device-specific context; use it "
                               "with instantiate_device_type_tests() instead of instantiate_parametrized_tests()")
        device = device_class.device_type
        for op in self.op_list:
            for dtype in self.dtypes_of(op, device):
                kwargs = {"op": op} if dtype is None else {"op": op, "dtype": dtype}
                yield test, op.formatted_name, kwargs, lambda kwargs, op=op, dtype=dtype: active_decorators(
                    op.decorators, generic_class.__name__, test.__name__, device, dtype, kwargs)


class toleranceOverride:
    """@toleranceOverride({torch.float32: tol(atol=1e-2, rtol=1e-3)}): assertEqual is that loose in this test."""

    def __init__(self, d):
        self.overrides = d

    def __call__(self, function):
        function.tolerance_overrides = self.overrides
        return function


class precisionOverride(toleranceOverride):
    """The same for the absolute tolerance alone."""

    def __init__(self, d):
        super().__init__({dtype: tol(atol=precision, rtol=0) for dtype, precision in d.items()})


class onlyOn:
    """A test for one kind of device, skipped on others."""

    def __init__(self, device_type):
        self.device_types = [device_type] if isinstance(device_type, str) else list(device_type)

    def __call__(self, function):
        @functools.wraps(function)
        def only(case, *args, **kwargs):
            if case.device_type not in self.device_types:
                raise unittest.SkipTest(f"Only runs on {', '.join(self.device_types)}")
            return function(case, *args, **kwargs)
        return only


onlyCPU, onlyCUDA = onlyOn("cpu"), onlyOn("cuda")


class skipIf:
    """Skip on a device, or on all, when `dep` holds."""

    def __init__(self, dep, reason, device_type=None):
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def __call__(self, function):
        @functools.wraps(function)
        def maybe(case, *args, **kwargs):
            if self.device_type in (None, case.device_type) and self.dep:
                raise unittest.SkipTest(self.reason)
            return function(case, *args, **kwargs)
        return maybe


def skipCPUIf(dep, reason):
    return skipIf(dep, reason, device_type="cpu")


def skipCUDAIf(dep, reason):
    return skipIf(dep, reason, device_type="cuda")


class expectedFailure:
    """On this device the test is expected to fail."""

    def __init__(self, device_type):
        self.device_type = device_type

    def __call__(self, function):
        function.expected_failure_on = self.device_type
        return function


def on_device(test, name, device, kwargs, decorators):
    """The method `name`: `test` with its arguments, on `device`, with the tolerance its dtype was given."""
    bound = bind(test, name, kwargs, decorators)
    takes_device = "device" in inspect.signature(test).parameters
    override = getattr(bound, "tolerance_overrides", {}).get(kwargs.get("dtype"))

    @functools.wraps(bound)
    def instance(self):
        if override is not None:
            self.precision, self.rel_tol = override.atol, override.rtol
        return bound(self, **({"device": device} if takes_device else {}))
    if getattr(bound, "expected_failure_on", None) == device:
        return unittest.expectedFailure(instance)
    return instance


def instances(test, generic_class, device_class):
    if not hasattr(test, MARK):
        return [(test, "", {}, lambda _kwargs: ())]
    return getattr(test, MARK).instances(test, generic_class, device_class)


def dtype_name(dtype):
    parts = dtype if isinstance(dtype, (list, tuple)) else [dtype] if dtype is not None else []
    return "_".join(str(part).split(".")[-1] for part in parts)


def instantiate_device_type_tests(generic_test_class, scope, except_for=None, only_for=None, include_lazy=False,
                                  allow_mps=False, allow_xpu=False):
    """Replace a class in `scope` by one for each device, its tests by their instances there."""
    tests = {name: member for name, member in vars(generic_test_class).items() if name.startswith("test")}
    for name in tests:
        delattr(generic_test_class, name)
    del scope[generic_test_class.__name__]
    listed = lambda device, names: device in ([names] if isinstance(names, str) else names)
    for base in get_device_type_test_bases():
        device = base.device_type
        if (only_for is not None and not listed(device, only_for)) or (except_for and listed(device, except_for)):
            continue
        cls = type(generic_test_class.__name__ + device.upper(), (base, generic_test_class), {})
        cls.__module__ = generic_test_class.__module__
        for name, member in tests.items():
            for test, suffix, kwargs, decorators in instances(member, generic_test_class, base):
                full = join(name, suffix, device, dtype_name(kwargs.get("dtype")))
                add_test(cls, full, on_device(test, full, device, kwargs, decorators(kwargs)))
        scope[cls.__name__] = cls
