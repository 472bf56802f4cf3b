"""Decorators that skip a test, expect it to fail, or run it in some setting."""
import contextlib
import functools
import os
import tempfile
import unittest
import warnings

from . import flags
from .._torch import torch


def skip_when(condition, default):
    """A decorator for tests and classes, used bare, with a message, or with msg=."""
    def skipper(target=None, *, msg=default):
        if target is None or isinstance(target, str):
            return unittest.skipIf(condition, target or msg)
        return unittest.skipIf(condition, msg)(target)
    return skipper


skipIfRocm = skip_when(flags.TEST_WITH_ROCM, "test doesn't currently work on the ROCm stack")
skipIfTorchDynamo = skip_when(flags.TEST_WITH_TORCHDYNAMO, "test doesn't currently work with dynamo")
skipIfTorchInductor = skip_when(flags.TEST_WITH_TORCHINDUCTOR, "test doesn't currently work with torchinductor")
skipIfCrossRef = skip_when(flags.TEST_WITH_CROSSREF, "test doesn't currently with crossref")
skipIfCompiledWithoutNumpy = skip_when(not flags.TEST_NUMPY, "PyTorch was compiled without numpy support")
skipIfNoSciPy = skip_when(not flags.TEST_SCIPY, "test require SciPy, but SciPy not found")
skipIfSlowGradcheckEnv = skip_when(False, "")
skipIfMps = skip_when(flags.TEST_MPS, "test doesn't currently work with MPS")
slowTest = skip_when(not flags.TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")


def xfailIfTorchDynamo(function):
    return unittest.expectedFailure(function) if flags.TEST_WITH_TORCHDYNAMO else function


def xfail_inherited_tests(tests):
    """A class decorator: the named tests that the class inherits are expected to fail in it."""
    def decorate(cls):
        for name in tests:
            inherited = getattr(cls, name)

            @functools.wraps(inherited)
            def copied(self, *args, _run=inherited, **kwargs):
                return _run(self, *args, **kwargs)
            setattr(cls, name, unittest.expectedFailure(copied))
        return cls
    return decorate


def suppress_warnings(function):
    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    return quiet


@contextlib.contextmanager
def set_default_dtype(dtype):
    saved = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(saved)


@contextlib.contextmanager
def freeze_rng_state():
    saved = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(saved)


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that can be opened again by others, and is gone afterwards."""
    if kwargs.pop("delete", False):
        raise UserWarning("only TemporaryFileName with delete=False is supported on all platforms.")
    with tempfile.NamedTemporaryFile(*args, delete=False, **kwargs) as file:
        name = file.name
    try:
        yield name
    finally:
        os.unlink(name)


@contextlib.contextmanager
def enable_profiling_mode_for_profiling_tests():
    """We have one executor of traced functions, which needs no profiling runs."""
    yield
