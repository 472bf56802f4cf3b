"""Every test here must FAIL. The test files are run with the provider's own TestCase, FileCheck and decorators, so a
provider whose checks check nothing would pass everything. Any pass here is a fault.
"""
import unittest
import warnings

import torch
from torch.testing import assert_close, FileCheck
from torch.testing._internal.common_utils import parametrize, instantiate_parametrized_tests, TestCase


class TestCanary(TestCase):
    def test_numbers(self):
        self.assertEqual(1, 2)

    def test_values(self):
        self.assertEqual(torch.ones(3), torch.ones(3) * 1.001)

    def test_one_value_of_many(self):
        x = torch.zeros(1000)
        y = x.clone()
        y[777] = 1
        self.assertEqual(x, y)

    def test_dtype(self):
        self.assertEqual(torch.ones(3), torch.ones(3, dtype=torch.float64))

    def test_shape(self):
        self.assertEqual(torch.ones(3, 1), torch.ones(1, 3))

    def test_nan(self):
        self.assertEqual(torch.tensor(float("nan")), torch.tensor(0.0))

    def test_infinite(self):
        self.assertEqual(torch.tensor(float("inf")), torch.tensor(1.0))

    def test_missing_key(self):
        self.assertEqual({"a": 1}, {"a": 1, "b": 2})

    def test_one_of_two_lists(self):
        self.assertEqual([1, 2], [1])

    def test_not_equal(self):
        self.assertNotEqual(torch.ones(2), torch.ones(2))

    def test_warning(self):
        self.assertNotWarn(lambda: warnings.warn("careful"))

    def test_nested(self):
        self.assertEqual({"a": [torch.ones(2), 1]}, {"a": [torch.ones(2), 2]})

    def test_assert_close(self):
        assert_close(torch.ones(3), torch.ones(3) + 0.01)

    def test_file_check(self):
        FileCheck().check("aten.sin").run("aten.cos")

    def test_file_check_not(self):
        FileCheck().check_not("aten.cos").run("aten.cos")

    def test_file_check_count(self):
        FileCheck().check_count("add", 3, exactly=True).run("add add")

    def test_file_check_order(self):
        FileCheck().check("b").check("a").run("a b")

    def test_file_check_next(self):
        FileCheck().check("a").check_next("c").run("a\nb\nc")

    def test_file_check_same(self):
        FileCheck().check("a").check_same("b").run("a\nb")

    def test_file_check_dag(self):
        FileCheck().check_dag("a").check_dag("z").run("b a")

    def test_inline_text(self):
        self.assertExpectedInline("one", "two")

    def test_no_exception(self):
        with self.assertRaisesRegex(RuntimeError, "anything"):
            pass

    def test_other_message(self):
        with self.assertRaisesRegex(RuntimeError, "expected"):
            raise RuntimeError("something else")

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass

    @parametrize("x", [1, 2])
    def test_parametrised(self, x):
        self.assertEqual(x, 3)


instantiate_parametrized_tests(TestCanary)
