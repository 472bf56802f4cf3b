"""x[key] and x[key] = value, each row against what PyTorch 2.13 gives."""
import pytest
import taper as torch

NAMES = {"torch": torch}


def fresh():
    return dict(
        NAMES, x=torch.tensor([[1.0, 2.0], [3.0, 4.0]]), m=torch.tensor([[True, False], [True, True]]), v=torch.tensor([0, 1]),
        z=torch.arange(8.0).view(2, 2, 2), s=torch.tensor(5.0))


@pytest.mark.parametrize("expression, expected", [
    ("x[0]", [1, 2]), ("x[-1]", [3, 4]), ("x[0, 1]", 2), ("x[0][1]", 2), ("x[:, 1]", [2, 4]), ("x[..., 1]", [2, 4]),
    ("x[None]", [[[1, 2], [3, 4]]]), ("x[:, None, 1:]", [[[2]], [[4]]]), ("x[1:]", [[3, 4]]), ("x[-1:]", [[3, 4]]),
    ("x[::2]", [[1, 2]]), ("x[5:9]", []), ("x[()]", [[1, 2], [3, 4]]), ("x[...]", [[1, 2], [3, 4]]),
    ("x[[0, 1]]", [[1, 2], [3, 4]]), ("x[[1]]", [[3, 4]]), ("x[[0, 1], [1, 0]]", [2, 3]), ("x[v]", [[1, 2], [3, 4]]),
    ("x[torch.tensor(1)]", [3, 4]), ("x[torch.tensor([[0, 1], [1, 0]])]", [[[1, 2], [3, 4]], [[3, 4], [1, 2]]]),
    ("x[m]", [1, 3, 4]), ("x[m[0]]", [[1, 2]]), ("x[:, m[0]]", [[1], [3]]), ("x[x > 1]", [2, 3, 4]),
    ("x[True]", [[[1, 2], [3, 4]]]), ("x[False]", []), ("s[...]", 5), ("s[None]", [5]), ("s[True]", [5]),
    ("z[0, :, [0, 1]]", [[0, 1], [2, 3]]), ("z[:, [0, 1]]", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
    ("z[[0, 1], :, [1, 0]]", [[1, 3], [4, 6]]), ("z[..., 0]", [[0, 2], [4, 6]]), ("z[1, ...]", [[4, 5], [6, 7]]),
    ("z[:, :, None, 0]", [[[0], [2]], [[4], [6]]]), ("x[range(2)]", [[1, 2], [3, 4]]), ("x[[]]", []),
    ("z[m, v[:1]]", [0, 4, 6]), ("z[m, True]", [[0, 1], [4, 5], [6, 7]]), ("z[m, None, 1:]", [[[1]], [[5]], [[7]]]),
])
def test_get(expression, expected):
    assert eval(expression, fresh()).tolist() == expected


@pytest.mark.parametrize("statement, expected", [
    ("x[0] = 9", [[9, 9], [3, 4]]), ("x[0] = torch.tensor([7., 8.])", [[7, 8], [3, 4]]), ("x[:, 1] = 0.", [[1, 0], [3, 0]]),
    ("x[m] = 5.", [[5, 2], [5, 5]]), ("x[m] = torch.tensor([7., 8., 9.])", [[7, 2], [8, 9]]),
    ("x[[0, 1], [1, 0]] = torch.tensor([9., 8.])", [[1, 9], [8, 4]]), ("x[...] = 1", [[1, 1], [1, 1]]),
    ("x[None] = 2", [[2, 2], [2, 2]]), ("x[True] = 3", [[3, 3], [3, 3]]), ("x[False] = 3", [[1, 2], [3, 4]]),
    ("x[0, 1] = 10", [[1, 10], [3, 4]]), ("x[0:1] = torch.tensor([[[4., 5.]]])", [[4, 5], [3, 4]]),
    ("x[:, 0] = torch.tensor([1, 2])", [[1, 2], [2, 4]]), ("x[1][0] = 7", [[1, 2], [7, 4]]), ("x[0] += 1", [[2, 3], [3, 4]]),
    ("x[m, None] = torch.tensor([[7.], [8.], [9.]])", [[7, 2], [8, 9]]),
])
def test_set(statement, expected):
    names = fresh()
    exec(statement, names)
    assert names["x"].tolist() == expected


@pytest.mark.parametrize("expression, error, text", [
    ("x[3]", IndexError, "index 3 is out of bounds for dimension 0 with size 2"),
    ("x[0, -3]", IndexError, "index -3 is out of bounds for dimension 1 with size 2"),
    ("x[0, 0, 0]", IndexError, "too many indices for tensor of dimension 2"),
    ("x[1:0:-1]", ValueError, "step must be greater than zero"),
    ("x[0.5]", IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got float)"),
    ("s[0]", IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"),
    ("s[1]", IndexError, "index 1 is out of bounds for dimension 0 with size 0"),
    ("s[:]", IndexError, "slice() cannot be applied to a 0-dim tensor."),
    ("x[..., 3]", IndexError, "index 3 is out of bounds for dimension 1 with size 2"),
    ("x[:, torch.tensor([3])]", IndexError, "index 3 is out of bounds for dimension 0 with size 2"),
    ("z[v, m]", IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3], [3]"),
    ("x.__setitem__(v.to(torch.uint8), 1)", RuntimeError, "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"),
    ("x[x]", IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    ("x.__setitem__(0, 'a')", TypeError, "can't assign a str to a taper.FloatTensor"),
])
def test_wrong(expression, error, text):
    with pytest.raises(error) as caught:
        eval(expression, fresh())
    assert str(caught.value) == text


def test_views_share_and_remember():
    x = torch.zeros(2, 2)
    y = x[0]
    y += 1
    assert x.tolist() == [[1, 1], [0, 0]] and y._base is x and x._version == 1 and x[...] is not x


def test_gradients_flow_through_indexing():
    x = torch.arange(4.0).view(2, 2).requires_grad_()
    (x[0].sum() + 2 * x[:, 1].sum() + 3 * x[x > 2].sum() + 4 * x[[0, 0]].sum()).backward()
    assert x.grad.tolist() == [[9, 11], [0, 5]]
    w = torch.zeros(3, requires_grad=True)
    y = w * 1
    y[1] = torch.tensor(2.0, requires_grad=True) * 3
    y.sum().backward()
    assert w.grad.tolist() == [1, 0, 1]


def test_iteration():
    v = torch.tensor([1, 2, 3])
    assert [i.item() for i in v] == [1, 2, 3] and 2 in v and 5 not in v and [i.item() for i in reversed(v)] == [3, 2, 1]
    assert len(v) == 3
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1))
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(torch.tensor(1))


FITS = "Expected index [4, 2] to be no larger than self [2, 2] apart from dimension 1"


@pytest.mark.parametrize("expression, text", [
    ("x.gather(1, i)", "Size does not match at dimension 0 expected index [4, 2] to be no larger than self [2, 2] apart from dimension 1"),
    ("x.scatter(1, i, 2.0)", FITS),
    ("x.scatter(1, i, 2.0, reduce='add')", FITS),
    ("x.scatter(1, i, y)", FITS + " and to be no larger size than src [4, 5]"),
    ("x.scatter(1, i, y, reduce='add')", FITS + " and to be no larger size than src [4, 5]"),
    ("x.scatter_add(1, i, y)", FITS + " and to be no larger size than src [4, 5]"),
    ("x.scatter_reduce(1, i, y, 'sum')", FITS + " and to be no larger size than src [4, 5]"),
    ("x.scatter_reduce(0, i[0], y, 'sum')", "Index tensor must have the same number of dimensions as self tensor"),
    ("x.scatter_reduce(0, i[:1], y[None], 'sum')", "Index tensor must have the same number of dimensions as src tensor"),
    ("x.scatter(0, i[:1].float(), 1.0, reduce='multiply')", "scatter(): Expected dtype int32/int64 for index"),
])
def test_index_larger_than_what_it_addresses(expression, text):
    names = dict(fresh(), i=torch.zeros(4, 2, dtype=torch.int64), y=torch.ones(4, 5))
    with pytest.raises(RuntimeError) as caught:
        eval(expression, names)
    assert str(caught.value) == text
