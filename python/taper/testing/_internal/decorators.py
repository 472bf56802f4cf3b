"""What tests may know of the machine and of how they are run; decorators that skip a test, expect it to fail, or run it in some
setting."""
import contextlib
import functools
import importlib.util
import os
import platform
import sys
import tempfile
import unittest
import warnings

from ... import _facades
from ..._root import torch


# ---- What tests may know of the machine and of how they are run. The TEST_WITH_ flags are environment switches -----
def switch(name):
    return os.environ.get(name, "0") == "1"


def installed(module):
    return importlib.util.find_spec(module) is not None


IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_X86 = platform.machine() in ("x86_64", "i386")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_PPC = platform.processor() == "ppc64le"
IS_JETSON = IS_FBCODE = IS_SANDCASTLE = False
IS_CI = bool(os.environ.get("CI"))

TEST_WITH_ASAN = switch("PYTORCH_TEST_WITH_ASAN")
TEST_WITH_TSAN = switch("PYTORCH_TEST_WITH_TSAN")
TEST_WITH_UBSAN = switch("PYTORCH_TEST_WITH_UBSAN")
TEST_WITH_SLOW = switch("PYTORCH_TEST_WITH_SLOW")
TEST_SKIP_FAST = switch("PYTORCH_TEST_SKIP_FAST")
TEST_WITH_CROSSREF = switch("PYTORCH_TEST_WITH_CROSSREF")
TEST_WITH_TORCHINDUCTOR = switch("PYTORCH_TEST_WITH_INDUCTOR")
TEST_WITH_AOT_EAGER = switch("PYTORCH_TEST_WITH_AOT_EAGER")
TEST_WITH_TORCHDYNAMO = switch("PYTORCH_TEST_WITH_DYNAMO") or TEST_WITH_TORCHINDUCTOR or TEST_WITH_AOT_EAGER

TEST_WITH_ROCM = TEST_CUDA = TEST_MPS = TEST_XPU = TEST_MKL = TEST_MULTIGPU = False     # a CPU, and our own kernels
TEST_NUMPY = installed("numpy")
TEST_SCIPY = installed("scipy")
TEST_DILL = installed("dill")
TEST_LIBROSA = installed("librosa")
TEST_TRANSFORMERS = installed("transformers")
NO_MULTIPROCESSING_SPAWN = False
SEED = 1234


# ---- What a GPU could do: we have none -----------------------------------------------------------------------------
TEST_CUDNN = TEST_MAGMA = False
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_FUSED_ATTENTION = False
SM53OrLater = SM60OrLater = SM70OrLater = SM75OrLater = SM80OrLater = SM90OrLater = False
TEST_CUDNN_VERSION = 0


def with_tf32_off(function):
    """TF32 is a matter of GPUs."""
    return function


def skip_when(condition, default):
    """A decorator for tests and classes, used bare, with a message, or with msg=."""
    def skipper(target=None, *, msg=default):
        if target is None or isinstance(target, str):
            return unittest.skipIf(condition, target or msg)
        return unittest.skipIf(condition, msg)(target)
    return skipper


skipIfRocm = skip_when(TEST_WITH_ROCM, "test doesn't currently work on the ROCm stack")
skipIfTorchDynamo = skip_when(TEST_WITH_TORCHDYNAMO, "test doesn't currently work with dynamo")
skipIfTorchInductor = skip_when(TEST_WITH_TORCHINDUCTOR, "test doesn't currently work with torchinductor")
skipIfCrossRef = skip_when(TEST_WITH_CROSSREF, "test doesn't currently with crossref")
skipIfCompiledWithoutNumpy = skip_when(not TEST_NUMPY, "PyTorch was compiled without numpy support")
skipIfNoSciPy = skip_when(not TEST_SCIPY, "test require SciPy, but SciPy not found")
skipIfSlowGradcheckEnv = skip_when(False, "")
skipIfMps = skip_when(TEST_MPS, "test doesn't currently work with MPS")
slowTest = skip_when(not TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")


def xfailIfTorchDynamo(function):
    return unittest.expectedFailure(function) if TEST_WITH_TORCHDYNAMO else function


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


_facades.settle(__name__)
