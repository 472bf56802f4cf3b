"""Functions of shape that take tensors one by one, searches and sums of products: what their faces in Python add to the ops."""
import pytest
import taper as torch


def test_tensors_one_by_one_or_in_a_list():
    a, b = torch.arange(2), torch.arange(3)
    for given in ((a, b), ([a, b],)):
        rows, columns = torch.meshgrid(*given, indexing="ij")
        assert rows.tolist() == [[0, 0, 0], [1, 1, 1]] and columns.tolist() == [[0, 1, 2]] * 2
        assert [tuple(t.shape) for t in torch.broadcast_tensors(torch.ones(2, 1), torch.ones(3))] == [(2, 3)] * 2
    assert torch.cartesian_prod(a, b).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert torch.block_diag(torch.ones(1, 2), torch.tensor(5.0)).tolist() == [[1, 1, 0], [0, 0, 5]]
    assert [tuple(t.shape) for t in torch.atleast_2d(torch.tensor(1.0), torch.ones(3))] == [(1, 1), (1, 3)]


def test_einsum_by_lists_of_numbers():
    a, b = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(3, 2)
    want = a @ b
    assert torch.equal(torch.einsum("ij,jk->ik", a, b), want) and torch.equal(torch.einsum("ij,jk", [a, b]), want)
    assert torch.equal(torch.einsum(a, [0, 1], b, [1, 2], [0, 2]), want) and torch.equal(torch.einsum(a, [..., 1], b, [1, 2]), want)
    with pytest.raises(ValueError, match="at least one operand"):
        torch.einsum("ij")


def test_unique():
    x = torch.tensor([3, 1, 3, 2])
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 3], [2, 0, 2, 1], [1, 1, 2])
    assert x.unique().tolist() == [1, 2, 3] and torch.unique(torch.tensor([float("nan")] * 2)).numel() == 2
    rows, inverse = torch.unique(torch.tensor([[2, 1], [0, 5], [2, 1]]), dim=0, return_inverse=True)
    assert rows.tolist() == [[0, 5], [2, 1]] and inverse.tolist() == [1, 0, 1]
    assert torch.unique_consecutive(torch.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]


def test_nonzero_as_a_tuple():
    x = torch.tensor([[0, 1], [2, 0]])
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]] == [t.tolist() for t in torch.nonzero(x, as_tuple=True)]
    assert torch.nonzero(x).tolist() == [[0, 1], [1, 0]] and torch.tensor(1).nonzero(as_tuple=True)[0].tolist() == [0]


def test_lists_are_written_where_they_stand():
    x, out = torch.arange(6.0).view(2, 3), [torch.empty(3), torch.empty(0)]
    assert torch.unbind_copy(x, out=out) is None and torch.equal(torch.stack(out), x)
    with pytest.raises(RuntimeError, match="expected an out= argument of size 2, got size 1"):
        torch.unbind_copy(x, out=out[:1])


def test_a_copy_of_a_view_is_none():
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    y = torch.permute_copy(x, (1, 0))
    assert y.is_contiguous() and not y._is_view() and y.grad_fn.name() == "PermuteBackward0_copy"
    torch.view_copy(x.t(), (6,)).sum().backward()          # what cannot be seen so is copied so
    assert x.grad.tolist() == [[1, 1, 1]] * 2


def test_tensors_on_other_storages():
    x, y = torch.zeros(3), torch.arange(6.0)
    assert x.set_(y.untyped_storage(), 1, (2, 2)).tolist() == [[1, 2], [3, 4]] and x.set_(y, 4, (2,), (1,)).tolist() == [4, 5]
    assert y.is_set_to(y[:]) and not y.is_set_to(y.clone()) and x.set_().numel() == 0
    with pytest.raises(RuntimeError, match="invalid storage offset"):
        x.set_(y.untyped_storage(), -1, (2,))


def test_detach_in_place_is_an_op():
    x = torch.ones(2, requires_grad=True)
    y = torch.ops.aten.detach_(x * 2)
    assert not y.requires_grad and y.is_leaf
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        x[:1].detach_()


def test_a_part_written_into_a_copy_keeps_gaps():
    x = torch.arange(24.0).view(2, 12)[:, :4]
    for y in (x.slice_scatter(torch.zeros(2, 2), 1, 0, 2), x.select_scatter(torch.zeros(2), 1, 0), x.diagonal_scatter(torch.zeros(2))):
        assert y.stride() == (12, 1) and y[1, 3] == 15 and y[0, 0] == 0
    assert torch.arange(4.0).expand(2, 4).select_scatter(torch.zeros(2), 1, 0).stride() == (4, 1)
