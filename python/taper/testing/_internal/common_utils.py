"""The names that test files import from here; each has its home beside this file."""
import sys
import unittest
from pathlib import Path

from .decorators import *
from .parametrized import TestParametrizer, instantiate_parametrized_tests, parametrize, subtest
from .test_case import TestCase, compare_equal_outs_and_grads, outs_and_grads, set_rng_seed
from .._creation import make_tensor
from ..._root import torch


def find_library_location(lib_name):
    """Where a library made for the tests would lie: beside the package's own."""
    return Path(torch.__file__).resolve().parent / "lib" / lib_name


def run_tests(argv=None):
    unittest.main(argv=argv or sys.argv)
