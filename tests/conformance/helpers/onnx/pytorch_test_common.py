"""Marks for ONNX export tests: expected failures that depend on the parameters of the test's class."""
import enum
import functools
import random
import unittest

import numpy
import torch
from torch.testing._internal import common_utils


class TorchModelType(enum.Enum):
    TORCH_NN_MODULE = enum.auto()
    TORCH_EXPORT_EXPORTEDPROGRAM = enum.auto()


class XFailed(BaseException):
    """The test failed as it should. No Exception, so that an outer mark does not take it for the failure it expects."""


def run_expecting_failure(function, error_message, reason, self, args, kwargs):
    try:
        function(self, *args, **kwargs)
    except unittest.SkipTest:
        raise
    except Exception as problem:
        cause = problem.__cause__ if type(problem).__name__ == "OnnxExporterError" and problem.__cause__ else problem
        if error_message in str(cause):
            raise XFailed(reason or error_message) from problem
        raise AssertionError(f"Expected failure with {error_message!r}, but got {cause!r}") from problem
    raise AssertionError("Unexpected success!")


def xfail_when(condition, error_message, reason):
    """A decorator: when condition(test case) holds, the test must fail with `error_message` in its text."""
    def decorate(function):
        @functools.wraps(function)
        def wrapper(self, *args, **kwargs):
            if condition(self):
                return run_expecting_failure(function, error_message, reason, self, args, kwargs)
            return function(self, *args, **kwargs)
        return wrapper
    return decorate


def is_program(self):
    return self.model_type == TorchModelType.TORCH_EXPORT_EXPORTEDPROGRAM


def is_type(self, model_type):
    return model_type is None or self.model_type == model_type


def xfail(error_message, reason=None):
    return xfail_when(lambda self: True, error_message, reason)


def xfail_dynamic_fx_test(error_message, model_type=None, reason=None):
    return xfail_when(lambda self: self.dynamic_shapes and is_type(self, model_type), error_message, reason)


def xfail_op_level_debug_test(error_message, model_type=None, reason=None):
    return xfail_when(lambda self: self.op_level_debug and is_type(self, model_type), error_message, reason)


def xfail_if_model_type_is_exportedprogram(error_message, reason=None):
    return xfail_when(is_program, error_message, reason)


def xfail_if_model_type_is_not_exportedprogram(error_message, reason=None):
    return xfail_when(lambda self: not is_program(self), error_message, reason)


def skip_dynamic_fx_test(reason, model_type=None):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(self, *args, **kwargs):
            if self.dynamic_shapes and is_type(self, model_type):
                raise unittest.SkipTest(f"Skip verify dynamic shapes test for FX. {reason}")
            return function(self, *args, **kwargs)
        return wrapper
    return decorate


skipIfNoCuda = unittest.skipIf(not torch.cuda.is_available(), "No CUDA")


class ExportTestCase(common_utils.TestCase):
    def setUp(self):
        super().setUp()
        try:
            from torch.onnx._internal.diagnostics import engine
        except ImportError:                 # a provider that keeps no diagnostics has none to forget
            pass
        else:
            engine.clear()
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
