"""TestCase: unittest's, with tensors in assertEqual, texts compared whole, and the same random numbers in each test."""
import contextlib
import random
import re
import unittest
import warnings

from ..._root import torch
from . import equality
from .decorators import SEED, TEST_NUMPY

ACCEPT = ("To accept the new output, re-run test with envvar EXPECTTEST_ACCEPT=1 "
          "(we recommend staging/committing your changes before doing this)")


def set_rng_seed(seed=SEED):
    torch.manual_seed(seed)
    random.seed(seed)
    if TEST_NUMPY:
        import numpy
        numpy.random.seed(seed)


class TestCase(unittest.TestCase):
    precision = 0                           # no absolute tolerance is tighter (toleranceOverride sets it)
    rel_tol = 0                             # the same for relative tolerances
    maxDiff = None

    def setUp(self):
        super().setUp()
        set_rng_seed()

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False,
                    exact_layout=False, exact_stride=False, exact_is_coalesced=False):
        """x and y are equal, floats within their dtype's tolerance. `msg` is added to the text, or makes it."""
        mismatch = equality.first_mismatch(
            x, y, rtol=rtol, atol=atol, least=(self.rel_tol, self.precision), equal_nan=equal_nan,
            check_dtype=exact_dtype, check_device=exact_device, check_layout=exact_layout, check_stride=exact_stride)
        if mismatch is not None:
            raise mismatch.to_error(msg if callable(msg) or msg is None else lambda text: f"{text}\n{msg}")

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs):
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualBroadcasting(self, x, y, *args, **kwargs):
        self.assertEqual(x, torch.as_tensor(y, dtype=x.dtype, device=x.device).broadcast_to(x.shape), *args, **kwargs)

    def assertObjectIn(self, obj, iterable):
        if not any(item is obj for item in iterable):
            raise AssertionError("object not found in iterable")

    def assertExpectedInline(self, actual, expect, skip=0):
        """The text of `actual` is `expect`, which stands in the test's own source."""
        self.assertMultiLineEqual(expect, str(actual), msg=ACCEPT)

    def assertExpectedRaisesInline(self, exc_type, callable, expect, *args, **kwargs):
        skip = kwargs.pop("skip", 0)
        try:
            callable(*args, **kwargs)
        except exc_type as problem:
            return self.assertExpectedInline(str(problem), expect, skip=skip + 1)
        self.fail(msg="Did not raise when expected to")

    def assertNotWarn(self, callable, msg=""):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(len(caught) == 0, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        """Exactly one warning of `category` that matches; warnings of other kinds are let be."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        found = [w for w in caught if issubclass(w.category, category)]
        self.assertEqual(len(found), 1, f"expected one {category.__name__}, got {[str(w.message) for w in found]}")
        self.assertTrue(re.search(regex, str(found[0].message)), f"{found[0].message} does not match {regex}")


# ---- Running two versions of a function and comparing outputs and gradients ----------------------------------------
def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def tensors_that_need_grad(tree):
    return [x for x in leaves(tree) if isinstance(x, torch.Tensor) and x.requires_grad]


def outs_and_grads(fn, graph_inps, inps):
    """fn's outputs, and the gradients that their sums leave in the tensors of `inps`."""
    outs = fn(*graph_inps)
    for out in tensors_that_need_grad(outs):
        out.sum().backward(retain_graph=True)
    tensors = [x for x in leaves(inps) if isinstance(x, torch.Tensor)]
    grads = [x.grad for x in tensors]
    for x in tensors:
        x.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test, m1, m2, inps):
    r1, g1 = outs_and_grads(m1, inps, inps)
    r2, g2 = outs_and_grads(m2, inps, inps)
    test.assertEqual(r1, r2)
    test.assertEqual(g1, g2)
