"""Marks for tests that fail when the exported program is made another way, and classes that make it that way."""
import functools
import unittest
from unittest.mock import patch

import torch

_COMPOSITE_OPS_THAT_CAN_BE_PRESERVED_TESTING_ONLY = [
    torch.ops.aten.linear.default, torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default]


def mark(name):
    def decorator(function):
        setattr(function, name, True)
        return function
    return decorator


expectedFailureNonStrict = mark("_expected_failure_non_strict")
expectedFailureRetraceability = mark("_expected_failure_retrace")
expectedFailureRetraceabilityNonStrict = mark("_expected_failure_retrace_non_strict")
expectedFailureSerDer = mark("_expected_failure_serdes")
expectedFailureSerDerPreDispatch = mark("_expected_failure_serdes_pre_dispatch")
expectedFailurePreDispatchRunDecomp = mark("_expected_failure_pre_dispatch")
expectedFailureTrainingIRToRunDecomp = mark("_expected_failure_training_ir_to_run_decomp")


def make_test_cls_with_mocked_export(cls, cls_prefix, fn_suffix, mocked_export_fn, xfail_prop=None):
    """A copy of `cls` whose tests call `mocked_export_fn` wherever their file says `export`."""
    def copy(function, name):
        @functools.wraps(function)
        def test(self, *args, **kwargs):
            with patch(f"{cls.__module__}.export", mocked_export_fn):
                return function(self, *args, **kwargs)
        test.__name__ = name
        return unittest.expectedFailure(test) if getattr(function, xfail_prop or "", False) else test

    members = {}
    for name in dir(cls):
        if name.startswith("test_") and callable(getattr(cls, name)):
            members[name + fn_suffix] = copy(getattr(cls, name), name + fn_suffix)
            members[name] = None                                    # the plain test runs in its own class
    return type(cls_prefix + cls.__name__, (cls,), {**members, "__qualname__": cls_prefix + cls.__name__})
