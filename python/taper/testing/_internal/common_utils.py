"""The names that test files import from here; each has its home beside this file."""
import sys
import unittest
from pathlib import Path

from .decorators import (TemporaryFileName, enable_profiling_mode_for_profiling_tests, freeze_rng_state,
                         set_default_dtype, skipIfCompiledWithoutNumpy, skipIfCrossRef, skipIfMps, skipIfNoSciPy,
                         skipIfRocm, skipIfSlowGradcheckEnv, skipIfTorchDynamo, skipIfTorchInductor, slowTest,
                         suppress_warnings, xfail_inherited_tests, xfailIfTorchDynamo)
from .flags import *
from .grads import compare_equal_outs_and_grads, outs_and_grads
from .parametrized import TestParametrizer, instantiate_parametrized_tests, parametrize, subtest
from .test_case import TestCase, set_rng_seed
from .._creation import make_tensor
from .._torch import torch


def find_library_location(lib_name):
    """Where a library made for the tests would lie: beside the package's own."""
    return Path(torch.__file__).resolve().parent / "lib" / lib_name


def run_tests(argv=None):
    unittest.main(argv=argv or sys.argv)
