"""Ops whose answers are no tensors, and claims that raise when they do not hold."""
import pytest
import taper as torch

aten = torch.ops.aten


def test_what_a_tensor_is():
    x = torch.arange(6.0).view(2, 3)
    assert [aten._debug_has_internal_overlap(t) for t in (x, x.t(), x[0].expand(4, 3), x[:, ::2], x[:0].expand(0, 3))] == [0, 0, 1, 2, 0]
    assert [aten._has_same_storage_numel(x, t) for t in (x[0], x.half(), torch.ones(5))] == [True, True, False]
    assert [torch._has_compatible_shallow_copy_type(x, t) for t in (x.int(), x.to("meta"))] == [True, False]
    assert [aten.sym_is_contiguous(x), aten.sym_is_contiguous(x.t()), aten.sym_is_contiguous(x, torch.channels_last)] == [True, False, False]
    assert aten.sym_size(x) == [2, 3] and aten.sym_size.int(x, 1) == 3


@pytest.mark.parametrize("claim", [
    lambda: torch._assert_async(torch.tensor([[2.0]])), lambda: torch._assert_async(torch.tensor(2j), "no"), lambda: aten._assert_scalar(0.5, "no"),
    lambda: aten.sym_constrain_range(2.5, min=1, max=5), lambda: torch.sym_constrain_range(-3), lambda: aten.sym_constrain_range_for_size(0, max=3),
])
def test_claims_that_hold(claim):
    assert claim() is None


@pytest.mark.parametrize("claim, words", [
    (lambda: torch._assert_async(torch.tensor(0)), "Expected Tensor with single nonzero value, but got zero"),
    (lambda: torch._assert_async(torch.tensor(0), "no way"), "no way"),
    (lambda: torch._assert_async(torch.ones(2), "no"), "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: torch._assert_async(torch.ones(0)), "Boolean value of Tensor with no values is ambiguous"),
    (lambda: aten._assert_scalar(False, "no"), "no"),
    (lambda: aten.sym_constrain_range(7, min=1, max=5), "Invalid value range for 7 between [1, 5]."),
    (lambda: aten.sym_constrain_range(3, min=6, max=5), "Max must be greater than or equal to min. Got min=6 max=5"),
    (lambda: aten.sym_constrain_range_for_size(-1), "Invalid value range for -1 between [0, 9223372036854775807]."),
    (lambda: aten.sym_constrain_range_for_size(1, max=2), "Max value to constrain_range_for_size must be greater than 2. got: 2"),
])
def test_claims_that_do_not(claim, words):
    with pytest.raises(RuntimeError) as error:
        claim()
    assert str(error.value) == words


def test_products_of_a_wider_type():
    a = torch.arange(6.0).view(2, 3).half()
    assert torch.mm(a, a.t(), out_dtype=torch.float32).dtype == torch.float32
    out = torch.empty(0)
    assert torch.mm(a, a.t(), torch.float32, out=out) is out and out.tolist() == [[5, 14], [14, 50]]
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype or fp32"):
        aten.bmm.dtype(a[None], a.t()[None], torch.float64)


def test_lu_of_a_singular_matrix_is_given_as_it_is():
    ones = torch.ones(2, 2)
    for made in (torch.lu(ones), torch._lu_with_info(ones), torch.lu(ones, get_infos=True)):
        assert made[0].tolist() == [[1, 1], [1, 0]] and made[1].tolist() == [1, 2]
    out = torch.empty(0), torch.empty(0, dtype=torch.int32)
    assert torch.lu(ones, out=out) is out and out[0].tolist() == [[1, 1], [1, 0]]
    with pytest.raises(TypeError, match="expected tuple of 2 elements but got 1"):
        torch.lu(ones, out=out[:1])
