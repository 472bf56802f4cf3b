"""Conjugates and negatives that nobody has computed yet: views that are read, written and saved. Observed on PyTorch 2.13."""
import copy
import io
import pickle

import numpy as np
import pytest

import taper as torch


def pair():
    """A complex matrix, and the conjugate of its transpose."""
    x = torch.complex(torch.arange(6.0).reshape(2, 3), torch.arange(1.0, 7.0).reshape(2, 3))
    return x, x.t().conj()


PLAIN = [[-1j, 3 - 4j], [1 - 2j, 4 - 5j], [2 - 3j, 5 - 6j]]


def test_a_conjugate_is_a_view():
    x, y = pair()
    assert y.is_conj() and torch.is_conj(y) and y._is_view() and y.stride() == (1, 3) and y.data_ptr() == x.data_ptr()
    assert y.tolist() == PLAIN and y[1, 1].item() == 4 - 5j and complex(y[1, 1]) == 4 - 5j
    assert repr(y) == "tensor([[0.-1.j, 3.-4.j],\n        [1.-2.j, 4.-5.j],\n        [2.-3.j, 5.-6.j]])"
    assert not y.conj().is_conj() and y.conj().tolist() == x.t().tolist()
    assert x.real.conj().is_conj() is False


@pytest.mark.parametrize("view", [
    lambda y: y[1], lambda y: y[:, 1:], lambda y: y.permute(1, 0), lambda y: y.unsqueeze(0).expand(2, 3, 2), lambda y: y.detach(),
    lambda y: y.diagonal(), lambda y: y.chunk(2)[0], lambda y: y.unfold(0, 2, 1), lambda y: y.data, lambda y: next(iter(y)),
    lambda y: y.to(torch.complex64), lambda y: +y, lambda y: y.t().contiguous(), lambda y: y.resolve_neg(),
])
def test_views_of_it_are_conjugates(view):
    _, y = pair()
    assert view(y).is_conj() and view(y).tolist() == view(torch.tensor(PLAIN)).tolist()


@pytest.mark.parametrize("made", [
    lambda y: y.clone(), lambda y: y.contiguous(), lambda y: y + 0, lambda y: y.to(torch.complex128), lambda y: y.resolve_conj(),
    lambda y: torch.cat([y, y])[:3], lambda y: torch.where(y.abs() >= 0, y, 0), lambda y: y[torch.tensor([0, 1, 2])],
    lambda y: y.conj_physical().conj_physical(), lambda y: copy.deepcopy(y), lambda y: torch.stack([y, y])[1], lambda y: y * 1,
])
def test_what_is_computed_is_not(made):
    _, y = pair()
    assert not made(y).is_conj() and made(y).tolist() == PLAIN


def test_parts():
    x, y = pair()
    assert (y.imag.is_neg(), y.imag.storage_offset(), y.imag.tolist()) == (True, 1, [[-1.0, -4.0], [-2.0, -5.0], [-3.0, -6.0]])
    assert not y.real.is_neg() and y.real.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert y.imag.resolve_neg().stride() == (1, 3) and (y.imag + 1).tolist()[0] == [0.0, -3.0]
    turned = torch._neg_view(x).conj()
    assert turned.is_conj() and turned.is_neg() and turned.tolist()[1] == [-3 + 4j, -4 + 5j, -5 + 6j]
    assert not turned.imag.is_neg() and turned.imag.tolist()[0] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("write, first_of_x", [
    (lambda y: y.mul_(1j), [1 - 0j, 2 - 1j, 3 - 2j]),
    (lambda y: y.copy_(torch.full((3, 2), 1 + 2j)), [1 - 2j] * 3),
    (lambda y: y.fill_(1j), [-1j] * 3),
    (lambda y: y.__setitem__(0, 2 + 3j), [2 - 3j, 1 + 2j, 2 + 3j]),
    (lambda y: torch.add(torch.full((3, 2), 1 + 2j), 0, out=y), [1 - 2j] * 3),
    (lambda y: y.real.mul_(2), [1j, 2 + 2j, 4 + 3j]),
    (lambda y: y.imag.mul_(2), [2j, 1 + 4j, 2 + 6j]),
    (lambda y: y.imag.fill_(5), [-5j, 1 - 5j, 2 - 5j]),
    (lambda y: y[0].mul_(1j), [1 - 0j, 1 + 2j, 2 + 3j]),
    (lambda y: y.copy_(y.conj()), [-1j, 1 - 2j, 2 - 3j]),
    (lambda y: y.index_put_((torch.tensor([0]),), torch.tensor(1j)), [-1j, 1 + 2j, 2 + 3j]),
    (lambda y: torch.conj_physical(torch.full((3, 2), 1 + 2j), out=y), [1 + 2j] * 3),
])
def test_writes_reach_the_memory(write, first_of_x):
    x, y = pair()
    result = write(y)
    assert x[0].tolist() == first_of_x and x._version == 1
    assert y.is_conj() and y.stride() == (1, 3) and y.tolist() == [[v.conjugate() for v in row] for row in x.t().tolist()]
    assert result is None or result.data_ptr() in (x.data_ptr(), x.data_ptr() + 4)


def test_gradients_through_writes():
    def gradient(run):
        x = pair()[0].requires_grad_()
        run(x).abs().sum().backward()
        return x.grad.resolve_conj()

    def doubled_imaginary(x):
        z = x.clone()
        z.conj().imag.mul_(2)
        return z

    def turned(x):
        z = x.clone()
        z.conj().mul_(2j)
        return z

    expected = torch.view_as_complex(torch.stack([torch.arange(6.0), 4 * torch.arange(1.0, 7.0)], -1).reshape(2, 3, 2))
    length = torch.complex(torch.arange(6.0), 2 * torch.arange(1.0, 7.0)).abs().reshape(2, 3)
    torch.testing.assert_close(gradient(doubled_imaginary), expected / length)
    x, _ = pair()
    torch.testing.assert_close(gradient(turned), 2 * x / x.abs())
    torch.testing.assert_close(gradient(lambda x: x.t().conj()), x / x.abs())
    torch.testing.assert_close(gradient(lambda x: x.conj().imag), torch.full((2, 3), 1j))
    x = pair()[0].requires_grad_()
    assert type(x.conj().grad_fn).__name__ == "ConjBackward0"
    assert type(x.conj().imag.grad_fn.next_functions[0][0]).__name__ == "NegViewBackward0"


def test_gradients_that_are_conjugates():
    x = torch.arange(1.0, 7.0).reshape(3, 2).requires_grad_()
    z = torch.view_as_complex(x)
    gradient, = torch.autograd.grad(z.conj(), x, torch.full((3,), 1 + 2j))
    assert gradient.tolist() == [[1, -2]] * 3
    kernel = torch.ones(1, 1, 2, dtype=torch.complex64)
    signal = torch.tensor([[[1j, 2.0, 3j]]]).conj()
    assert torch.nn.functional.conv1d(signal, kernel).tolist() == [[[2 - 1j, 2 - 3j]]]


def test_saved_as_they_are():
    _, y = pair()
    for loaded in (pickle.loads(pickle.dumps(y)), torch.load(save(y))):
        assert loaded.is_conj() and not loaded._is_view() and loaded.tolist() == PLAIN
    loaded = torch.load(save(y.imag))
    assert loaded.is_neg() and loaded.storage_offset() == 1 and loaded.tolist() == y.imag.tolist()


def save(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("code, message", [
    ("torch.view_as_real(y)", "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as "
     "real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original."),
    ("y.t().view(torch.float32)", "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."),
    ("y.numpy()", "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead."),
    ("y.imag.numpy()", "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead."),
])
def test_refused(code, message):
    with pytest.raises(RuntimeError) as caught:
        eval(code, {"torch": torch, "y": pair()[1]})
    assert str(caught.value) == message


def test_exchange():
    _, y = pair()
    with pytest.raises(BufferError, match="Can't export tensors with the conjugate bit set"):
        y.__dlpack__()
    assert torch.utils.dlpack.from_dlpack(y.imag).tolist() == y.imag.tolist()


def test_numpy_by_force():
    assert np.array_equal(pair()[1].numpy(force=True), np.array(PLAIN))


def test_under_transforms_and_tracers():
    x, _ = pair()
    assert torch.func.vmap(lambda row: row.conj() * row)(x).tolist() == (x.conj_physical() * x).tolist()
    assert torch.func.vmap(lambda row: row.conj().imag)(x).tolist() == (-x.imag).tolist()
    assert torch.func.functionalize(lambda x: x.clone().conj().mul_(1j))(x).tolist() == (x.conj() * 1j).tolist()

    def write(x):
        z = x.clone()
        z.conj().imag.mul_(3)
        return z, z.conj()

    from taper.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(write, tracing_mode=mode)(x)
        for got, want in zip(graph(2 * x), write(2 * x)):
            assert got.tolist() == want.tolist() and got.is_conj() == want.is_conj()
    got = torch.compile(write)(x)
    assert [t.tolist() for t in got] == [t.tolist() for t in write(x)]


def test_sizes_that_stay_keep_their_strides():
    x = torch.zeros(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3)
    assert x.resize_(3, 2, memory_format=torch.contiguous_format).stride() == (2, 1)
    out = torch.zeros(2, 3).t()
    assert torch.conj_physical(torch.ones(3, 2), out=out).stride() == (1, 3)


def test_decompositions_keep_them_views():
    from taper._decomp import core_aten_decompositions
    from taper.fx.experimental.proxy_tensor import make_fx

    x = torch.tensor(1.5)
    graph = make_fx(lambda x: torch.fft.ifftn(x).conj().imag, decomposition_table=core_aten_decompositions())(x)
    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_function"] == [
        "aten._to_copy.default", "aten._conj.default", "aten._conj.default", "aten.view_as_real.default", "aten._neg_view.default", "aten.select.int"]
    assert graph(x).is_neg() and graph(x).item() == 0
