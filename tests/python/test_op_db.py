"""op_db: entries under PyTorch's names, whose samples run through the public name and whose error samples fail as they say."""
import pathlib

import pytest
import taper as torch
from taper.testing._internal.common_device_type import instantiate_device_type_tests, ops
from taper.testing._internal.common_methods_invocations import SampleInput, op_db
from taper.testing._internal.common_utils import TestCase

NAMES = pathlib.Path(__file__).parents[1] / "opdb/covered.txt"
BY_NAME = {op.full_name: op for op in op_db}
CHOSEN = sorted(BY_NAME)[::11]


def results(made):
    return list(made) if isinstance(made, (list, tuple)) else [made]


def test_names_are_pytorchs():
    assert len(op_db) == len(BY_NAME) > 500
    assert len(set(BY_NAME) & set(NAMES.read_text().split())) > 470
    assert {"add", "nn.functional.relu", "linalg.det", "fft.fft", "special.erfcx", "max.binary", "sigmoid", "index_add"} <= set(BY_NAME)
    assert BY_NAME["max.reduction_with_dim"].name == "max" and BY_NAME["nn.functional.pad.constant"].formatted_name == "nn_functional_pad_constant"


def test_what_entries_say():
    add, gcd, relu = BY_NAME["add"], BY_NAME["gcd"], BY_NAME["nn.functional.relu"]
    assert len(add.dtypes) == 12 and gcd.dtypes == {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    assert add.supports_forward_ad and not gcd.supports_forward_ad and not BY_NAME["nn.functional.one_hot"].supports_forward_ad
    assert add.supports_autograd and not gcd.supports_autograd and add.supports_out and torch.complex64 in add.supported_backward_dtypes("cpu")
    assert add.method_variant is torch.Tensor.add and add.inplace_variant is torch.Tensor.add_ and relu.get_op()(torch.tensor(-1.0)) == 0


@pytest.mark.parametrize("name", CHOSEN)
def test_samples(name):
    """In each type the public name runs, and gives what the op gives."""
    info, seen = BY_NAME[name], 0
    of, _ = info.overloads[0]
    op = getattr(getattr(torch.ops.aten, of["name"]), of["overload"]) if len(info.overloads) == 1 and not of["random"] else None
    for dtype in sorted(info.dtypes, key=str):
        for sample in info.sample_inputs("cpu", dtype, requires_grad=dtype in info.supported_backward_dtypes("cpu")):
            made = results(info(sample.input, *sample.args, **sample.kwargs))
            seen += 1
            if op and of["variant"] == "functional":
                torch.testing.assert_close(made, results(op(sample.input, *sample.args, **sample.kwargs)), rtol=0, atol=0, equal_nan=True)
    assert seen


def test_gradients_are_promised_rightly():
    promised = [info for info in map(BY_NAME.get, CHOSEN) if info.supports_autograd]
    assert len(promised) > 25
    for info in promised:
        sample = next(info.sample_inputs("cpu", torch.float32, requires_grad=True))
        outputs = [t for t in results(info(sample.input, *sample.args, **sample.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor) and t.requires_grad]
        if leaves:
            torch.autograd.grad([t.abs().sum() for t in outputs], leaves, allow_unused=True)


def test_errors():
    seen = 0
    for info in op_db:
        for error in info.error_inputs("cpu"):
            sample = error.sample_input
            with pytest.raises(error.error_type, match=error.error_regex):
                call = getattr(torch.ops.aten, info.overloads[0][0]["name"]) if len(info.overloads) == 1 else info.op
                call(sample.input, *sample.args, **sample.kwargs)
            seen += 1
    assert seen > 100


def test_samples_are_the_same_each_time_and_leave_the_generator():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first, second = ([s.input for s in BY_NAME["add"].sample_inputs("cpu", torch.float32)] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second)) and torch.equal(state, torch.get_rng_state())


def test_sample_input():
    sample = SampleInput(torch.ones(2, 3, requires_grad=True), torch.zeros(3), 2, name="x", dim=1)
    wide = sample.transform(lambda v: v.double())
    assert wide.input.dtype == wide.args[0].dtype == torch.float64 and wide.args[1] == 2 and wide.kwargs == {"dim": 1} and wide.name == "x"
    spread = sample.noncontiguous()
    assert not spread.input.is_contiguous() and spread.input.requires_grad and torch.equal(spread.input, sample.input)


def test_the_decorator_makes_a_test_of_each():
    seen = []

    class TestOps(TestCase):
        @ops([BY_NAME["add"], BY_NAME["max.binary"]], allowed_dtypes=(torch.float32, torch.int64))
        def test_it(self, device, dtype, op):
            seen.append((op.full_name, dtype, len(list(op.sample_inputs(device, dtype))) > 0))

    scope = {"TestOps": TestOps}
    instantiate_device_type_tests(TestOps, scope)
    names = [name for name in dir(scope["TestOpsCPU"]) if name.startswith("test_")]
    assert names == ["test_it_add_cpu_float32", "test_it_add_cpu_int64", "test_it_max_binary_cpu_float32", "test_it_max_binary_cpu_int64"]
    for name in names:
        getattr(scope["TestOpsCPU"](name), name)()
    assert len(seen) == 4 and all(row[2] for row in seen)


def test_ops_that_take_functions_have_samples():
    from taper.testing._internal.hop_db import hop_db
    for info in hop_db:
        for sample in info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd):
            out = torch.utils._pytree.tree_leaves(info(sample.input, *sample.args, **sample.kwargs))
            assert any(t.requires_grad for t in out) == info.supports_autograd, info.full_name
