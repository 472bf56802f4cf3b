"""Our torch.testing says what PyTorch's says, word for word, and its checks do check.

Runs on Taper, or where that is not built on PyTorch's tensors with our torch.testing.
"""
import importlib
import json
import os
import subprocess
import sys
import unittest

import pytest

import on_torch
import testing_cases

HERE = os.path.dirname(os.path.realpath(__file__))


@pytest.fixture(scope="module")
def torch():
    try:
        taper = importlib.import_module("taper")
    except ImportError:
        taper = None
    if hasattr(taper, "Tensor"):
        importlib.import_module("taper.testing")
        return taper
    pytest.importorskip("torch", reason="neither taper's tensors nor PyTorch's are there")
    return on_torch.install()


@pytest.fixture(scope="module")
def utils(torch):
    return importlib.import_module(f"{torch.__name__}.testing._internal.common_utils")


def test_texts_are_pytorchs(torch, utils):
    case = type("Case", (utils.TestCase,), {"test": lambda self: None})("test")
    with open(os.path.join(HERE, "recorded_testing.txt"), encoding="utf-8") as recorded:
        expected = recorded.read()
    assert testing_cases.render(torch, case).replace("taper.", "torch.").split(">>> ") == expected.split(">>> ")


def run(case):
    result = unittest.TestResult()
    case.run(result)
    return len(result.failures) + len(result.errors)


def test_inline_texts(utils):
    class Case(utils.TestCase):
        def test_same(self):
            self.assertExpectedInline("one\n two", """one\n two""")

        def test_other(self):
            self.assertExpectedInline("one", "two")

        def test_raises(self):
            self.assertExpectedRaisesInline(ValueError, lambda: int("x"), "invalid literal for int() with base 10: 'x'")

        def test_raises_other(self):
            self.assertExpectedRaisesInline(ValueError, lambda: int("x"), "x")

        def test_raises_nothing(self):
            self.assertExpectedRaisesInline(ValueError, lambda: None, "x")
    assert [run(Case(name)) for name in ("test_same", "test_other", "test_raises", "test_raises_other",
                                         "test_raises_nothing")] == [0, 1, 0, 1, 1]


def test_parametrised_names(torch, utils):
    parametrize, subtest = utils.parametrize, utils.subtest

    class Case(utils.TestCase):
        @parametrize("x,y", [(1, 2.5), (3, "s")])
        def test_a(self, x, y):
            self.assertLess(x, 3)

        @parametrize("a", [torch.float32, None])
        @parametrize("b", [subtest(4, name="four"), subtest(5, decorators=[unittest.expectedFailure])])
        def test_b(self, a, b):
            self.assertEqual(b, 4)
    utils.instantiate_parametrized_tests(Case)
    names = unittest.defaultTestLoader.getTestCaseNames(Case)
    assert names == ["test_a_x_1_y_2_5", "test_a_x_3_y_s", "test_b_a1_b_5", "test_b_a1_four", "test_b_float32_b_5",
                     "test_b_float32_four"]
    assert [run(Case(name)) for name in names] == [0, 1, 0, 0, 0, 0]


def test_device_instances(torch, utils):
    device_type = importlib.import_module(f"{torch.__name__}.testing._internal.common_device_type")

    class TestX(utils.TestCase):
        @device_type.dtypes(torch.float32, torch.float64)
        @device_type.toleranceOverride({torch.float32: device_type.tol(atol=0.1, rtol=0)})
        def test_a(self, device, dtype):
            one = torch.ones(1, dtype=dtype, device=device)
            self.assertEqual(one, one + 0.05)

        @device_type.onlyCUDA
        def test_b(self, device):
            self.fail()

        @utils.parametrize("x", [1])
        def test_c(self, device, x):
            self.assertEqual(device, "cpu")
    scope = {"TestX": TestX}
    device_type.instantiate_device_type_tests(TestX, scope)
    assert list(scope) == ["TestXCPU"]
    cls = scope["TestXCPU"]
    names = unittest.defaultTestLoader.getTestCaseNames(cls)
    assert names == ["test_a_cpu_float32", "test_a_cpu_float64", "test_b_cpu", "test_c_x_1_cpu"]
    assert [run(cls(name)) for name in names] == [0, 1, 0, 0]


def test_tables_that_are_not_there_say_so(torch, utils):
    with pytest.raises(ImportError, match="module_db is made"):
        exec(f"from {torch.__name__}.testing._internal.common_modules import module_db")


def test_checks_do_check(torch, tmp_path):
    provider, out = "taper" if torch.__name__ == "taper" else "testing", tmp_path / "out.json"
    subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--provider", provider, "--json", str(out),
                    os.path.join(HERE, "canary", "test_must_fail.py")], check=True, timeout=120)
    record = json.loads(out.read_text())[0]
    assert record["strict_error"] is None
    assert {test["outcome"] for test in record["instances"].values()} == {"fail", "error"}
    assert all("Missing" not in test["detail"] for test in record["instances"].values())
