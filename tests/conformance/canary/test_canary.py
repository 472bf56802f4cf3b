"""Tests of known outcome, for test_runner.py: no PyTorch needed. A name ends with the outcome that must be noted."""
import os
import time
import unittest

import torch_that_is_not_there
from canary_helper import here, not_there


class XFailed(BaseException):
    pass


class TestOutcomes(unittest.TestCase):
    def test_one_pass(self):
        self.assertEqual(1, 1)

    def test_one_fail(self):
        self.assertEqual(1, 2)

    def test_one_error(self):
        raise RuntimeError("first line\nlast line")

    def test_one_skip(self):
        self.skipTest("reason")

    @unittest.expectedFailure
    def test_one_xfail(self):
        self.fail()

    @unittest.expectedFailure
    def test_unexpected_success_fail(self):
        pass

    def test_from_within_xfail(self):
        raise XFailed("as pytest.xfail() does")

    def test_one_crash(self):
        os.abort()

    def test_exit_crash(self):
        os._exit(3)

    def test_one_timeout(self):
        time.sleep(1000)

    def test_subtests_fail(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_after_all_that_pass(self):
        pass


class TestSetUpError(unittest.TestCase):
    def setUp(self):
        raise ValueError("set-up")

    def test_never_run_error(self):
        pass


class TestMissing(unittest.TestCase):
    def test_untouched_pass(self):
        self.assertEqual(here(), 3)

    def test_name_error(self):
        not_there()

    def test_module_error(self):
        torch_that_is_not_there.nn.Linear(1, 1)

    @torch_that_is_not_there.decorator("x")
    def test_decorated_error(self):
        pass

    @unittest.skipIf(not torch_that_is_not_there.flag, "a skip must not hide a failure")
    def test_branch_error(self):
        pass

    test_made_error = torch_that_is_not_there.make(1)[0]


class TestMissingBase(torch_that_is_not_there.TestCase):
    def test_base_error(self):
        pass


class TestTemplate(unittest.TestCase):
    """Replaced below by its instances, as instantiate_parametrized_tests does."""


def parametrise(cls, name, values):
    for value in values:
        setattr(cls, f"{name}_{value}_pass", lambda self, value=value: self.assertLess(value, 9))


parametrise(TestTemplate, "test_parametrised", [1, 2])
