"""Arguments that fit no op: what PyTorch says of them stands in said/hostile_arguments.txt; here is what it computes wrongly, or reads
beyond its memory for, or has and Taper has not, and a share of the generated calls of `make fuzz-ops`."""
import math
import os
import pathlib
import subprocess
import sys

import pytest
import taper as torch
import taper.nn.functional as F
from taper._subclasses import FakeTensorMode

ROOT = pathlib.Path(__file__).parents[2]
HERE = os.pathsep.join(str(pathlib.Path(path).resolve()) for path in sys.path if path)
OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory location"


def square():
    return torch.arange(9.0).view(3, 3)


# ---- results that are written over what is read: refused, or as if they were not ----
@pytest.mark.parametrize("mm", [lambda a: torch.mm(a, square(), out=a), lambda a: torch.mm(square(), a, out=a), lambda a: torch.mm(square(), a, out=a.t()),
                                lambda a: torch.mm(torch.ones(2, 2), a.view(-1)[:4].view(2, 2), out=a.view(-1)[1:5].view(2, 2))])
def test_mm_is_not_written_over_its_operands(mm):
    a = square()
    with pytest.raises(RuntimeError, match=OVERLAP):
        mm(a)
    assert torch.equal(a, square())


ALONE = {
    "matmul": lambda a, **out: torch.matmul(a, square(), **out),
    "mv": lambda a, **out: torch.mv(square(), a[0], **({"out": a[0]} if out else {})),
    "addmm": lambda a, **out: torch.addmm(square(), a, square(), **out),
    "linear": lambda a, **out: torch._C._nn.linear(square(), a, **out),
    "flip": lambda a, **out: torch.flip(a, (0,), **out),
    "roll": lambda a, **out: torch.roll(a, 1, 0, **out),
    "tril": lambda a, **out: torch.tril(a, **({"out": a.t()} if out else {})),
    "softmax": lambda a, **out: torch.softmax(a, 0, **({"out": a.t()} if out else {})),
    "cdist": lambda a, **out: torch.ops.aten._cdist_forward.out(a, square(), 2.0, None, out=a) if out else torch.ops.aten._cdist_forward(a, square(), 2.0, None),
    "embedding": lambda a, **out: torch.ops.aten.embedding.out(a, torch.tensor([2, 1, 0]), out=a) if out else torch.embedding(a, torch.tensor([2, 1, 0])),
    "im2col": lambda a, **out: torch._C._nn.im2col(a.view(1, 1, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1), **({"out": a.view(1, 1, 3, 3)} if out else {})),
    "amax": lambda a, **out: torch.amax(a, 0, **({"out": a[1]} if out else {})),
    "resized": lambda a, **out: torch.amin(a, 0, **out),
    "kron": lambda a, **out: torch.kron(torch.ones(2, 2), a, **out),
    "svd": lambda a, **out: torch.linalg.svd(a, full_matrices=False, **({"out": (a, torch.empty(0), a)} if out else {}))[2],
    "interleaved": lambda a, **out: torch.add(a.view(-1)[:-1:2], a.view(-1)[1::2], **({"out": a.view(-1)[2:6]} if out else {})),
    "unfold_copy": lambda a, **out: torch.ops.aten.unfold_copy.out(a, 0, 2, 1, out=a) if out else torch.unfold_copy(a, 0, 2, 1),
}


@pytest.mark.parametrize("name", ALONE)
def test_results_over_operands_are_right(name):
    a = square()
    assert torch.equal(ALONE[name](a, out=a), ALONE[name](square()))


def test_in_place_kernels_read_what_was_there():
    assert torch.equal(square().masked_scatter_(torch.ones(3, 3, dtype=torch.bool), (a := square()).t()), a.t())
    a = square()
    assert torch.equal(a.masked_scatter_(torch.ones(3, 3, dtype=torch.bool), a.t()), square().t())
    turn = torch.tensor([1, 2, 0])
    assert turn.index_fill_(0, turn[:2], 5).tolist() == [1, 5, 5]


@pytest.mark.parametrize("write", [lambda a: a.index_copy_(0, torch.tensor([0, 1, 2]), a.t()), lambda a: a.put_(torch.arange(9), a.t()), lambda a: a.index_add_(0, torch.arange(3), a),
                                   lambda a: a.scatter_(0, torch.zeros(3, 3, dtype=torch.int64), a), lambda a: a.scatter_add_(0, torch.zeros(3, 3, dtype=torch.int64), a),
                                   lambda a: a.index_put_((torch.tensor([0]),), a[1]), lambda a: (i := torch.tensor([1, 2, 0])).index_put_((i,), i + 6)])
def test_in_place_kernels_refuse_what_they_write(write):
    with pytest.raises(RuntimeError, match=OVERLAP):
        write(square())


def test_two_results_in_one_tensor():
    a = torch.empty(0)
    torch.linalg.qr(square(), out=(a, a))
    assert a.shape == (3, 3)


def test_results_that_overlap_themselves():
    for call in (lambda out: torch.sum(square(), 0, out=out), lambda out: torch.amax(square(), 0, out=out), lambda out: torch.mv(square(), torch.ones(3), out=out)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call(torch.empty(1).expand(3))


# ---- other layouts ----
FACTORIES = ["torch.zeros(2, layout=L)", "torch.empty(2, layout=L)", "torch.full((2,), 1, layout=L)", "torch.arange(3, layout=L)", "torch.eye(3, layout=L)", "torch.rand(2, layout=L)",
             "torch.randn(2, layout=L)", "torch.randint(5, (2,), layout=L)", "torch.randperm(3, layout=L)", "torch.linspace(0, 1, 3, layout=L)", "torch.zeros_like(x, layout=L)",
             "torch.empty_like(x, layout=L)", "torch.full_like(x, 1, layout=L)", "x.new_zeros(2, layout=L)", "x.new_empty_strided((2,), (1,), layout=L)", "torch.hann_window(3, layout=L)",
             "torch.tril_indices(3, 3, layout=L)", "torch.ops.aten.to.dtype_layout(x, dtype=torch.float32, layout=L)", "torch.fft.fftfreq(3, layout=L)",
             "torch.normal(0.0, 1.0, (2,), layout=L)", "torch.zeros(2, layout=L, device='meta')", "torch.empty_strided((2,), (1,), layout=L)"]


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged"])
def test_other_layouts_are_refused(layout):
    for text in FACTORIES:
        with pytest.raises(NotImplementedError, match=f"layout=(torch|taper).{layout} is not implemented"):
            eval(text, {"torch": torch, "x": torch.ones(2), "L": getattr(torch, layout)})  # noqa: S307
        assert eval(text, {"torch": torch, "x": torch.ones(2), "L": torch.strided}).layout is torch.strided  # noqa: S307


def test_sparse_gradients_are_refused():
    table, index = torch.ones(4, 3, requires_grad=True), torch.tensor([0, 1])
    for call in (lambda: torch.nn.Embedding(4, 3, sparse=True)(index), lambda: F.embedding(index, table, sparse=True), lambda: torch.embedding(table, index, sparse=True),
                 lambda: F.embedding_bag(index[None], table, sparse=True), lambda: torch.nn.EmbeddingBag(4, 3, sparse=True)(index[None]),
                 lambda: torch.gather(table, 0, torch.tensor([[0]]), sparse_grad=True), lambda: F.embedding(index, table, max_norm=0.1, sparse=True)):
        with pytest.raises(NotImplementedError, match="(embedding|embedding_bag|gather): sparse(_grad)?=True"):
            call()
    assert torch.equal(table, torch.ones(4, 3))


# ---- sizes that would be read beyond ----
T = torch.ones
REFUSED = {
    "_cdist_backward": [lambda: torch.ops.aten._cdist_backward(T(1, 3), T(2, 4), T(3, 4), 2.0, T(2, 3)), lambda: torch.ops.aten._cdist_backward(T(0, 3), T(2, 4), T(3, 4), 2.0, T(2, 3)),
                        lambda: torch.ops.aten._cdist_backward(T(2, 3), T(2, 4), T(3, 4), 2.0, T(2, 2)), lambda: torch.ops.aten._cdist_backward(T(2, 3), T(2, 4), T(3, 5), 2.0, T(2, 3))],
    "_pdist_backward": [lambda: torch.ops.aten._pdist_backward(T(2), T(3, 2), 2.0, T(3)), lambda: torch.ops.aten._pdist_backward(T(3), T(3, 2), 2.0, T(1)),
                        lambda: torch.ops.aten._pdist_backward(T(3), T(3, 2, 1), 2.0, T(3))],
    "_segment_reduce_backward": [lambda: torch.ops.aten._segment_reduce_backward(T(1), T(2), T(5), "sum", lengths=torch.tensor([2, 3])),
                                 lambda: torch.ops.aten._segment_reduce_backward(T(2), T(2), T(5), "sum", lengths=torch.tensor([2, 30])),
                                 lambda: torch.ops.aten._segment_reduce_backward(T(2), T(2), T(5), "sum", offsets=torch.tensor([0, 2, 50])),
                                 lambda: torch.ops.aten._segment_reduce_backward(T(2), T(2), T(5), "sum", lengths=torch.tensor(5)),
                                 lambda: torch.ops.aten._segment_reduce_backward(T(2), T(2), T(5), "sum", lengths=torch.tensor([2**62, 2**62, 2**62]))],
    "_fused": [lambda: torch._fused_sgd_([T(3), T(3)], [T(3)], [], weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False),
               lambda: torch._fused_sgd_([T(3)], [T(3)], [], weight_decay=0.0, momentum=0.5, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False),
               lambda: torch._fused_adam_([T(3)], [T(3)], [T(3)], [], [], [T(())], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False),
               lambda: torch._fused_adamw_([T(3)], [T(3)], [T(3)], [T(3)], [], [], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False),
               lambda: torch._fused_adagrad_([T(3)], [T(3)], [], [T(())], lr=0.1, lr_decay=0.9, weight_decay=0.0, eps=1e-8, maximize=False)],
    "pieces": [lambda: torch.tensor_split(T(3), 2**62), lambda: torch.tensor_split(T(3), 2**33), lambda: T(1).expand(2**40).unbind(),
               lambda: torch.combinations(T(4), 2**63 - 1, True), lambda: torch.combinations(T(4), 2**32 + 1)],
    "masks": [lambda: torch.ops.aten._unsafe_masked_index_put_accumulate(T(3), T(3) > 0, [torch.tensor([0])] * 5, T(3))],
    "dims": [lambda: T(3, 4).t()[torch.zeros((1,) * 64, dtype=torch.int64)]],
    "_trilinear": [lambda: torch._trilinear(T(2, 3), T(2, 5), T(2, 4), [2, 3], [2, 3, 2, 3], [1, 2], [0])],
    "ctc": [lambda: torch.ops.aten._ctc_loss_backward(T(2), T(7, 2, 5).bfloat16(), torch.zeros(2, 3, dtype=torch.int64), [7, 6], [3, 2], T(2), T(2, 7, 7), 3),
            lambda: torch.ops.aten._ctc_loss_backward(T(2), T(7, 3, 5), torch.zeros(3, 3, dtype=torch.int64), [7, 6, 6], [3, 2, 2], T(3), T(3, 7, 7), 3)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_do_not_fit_are_refused(name):
    for call in REFUSED[name]:
        with pytest.raises((RuntimeError, IndexError)):
            call()


def test_statistics_that_are_missing():
    x = torch.ones(1, 6, 4, dtype=torch.float64, requires_grad=True)
    for train in (True, False):
        made = torch.ops.aten.native_batch_norm_backward(x, x, None, None, None, None, None, train, 1e-5, [True, True, True])
        with pytest.raises(NotImplementedError, match="without the statistics"):
            made[0].sum().backward()


def test_a_formula_without_its_gradient():
    x = torch.ones(3, requires_grad=True)
    torch.dist(x, torch.zeros(3), 0).backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="Expected a proper Tensor but got None .* for argument #0 'self'"):
        torch.dist(torch.zeros(3), x, 0).backward()


def test_segments_and_distances_as_they_were():
    lengths = torch.tensor([2, 3])
    assert torch.ops.aten._segment_reduce_backward(torch.tensor([1.0, 2.0]), T(2), T(5), "sum", lengths=lengths).tolist() == [1, 1, 2, 2, 2]
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    torch.cdist(x, torch.zeros(1, 2)).sum().backward()
    assert torch.allclose(x.grad, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))


# ---- no data ----
def test_tensors_without_memory():
    x = torch.empty(4, 2, device="meta")
    with pytest.raises(NotImplementedError, match="_histogramdd_bin_edges: attempted to run this operator with Meta tensors"):
        torch.histogramdd(x, [2, 2])
    with FakeTensorMode():
        made = torch.ops.aten._fused_sgd([T(3)], [T(3)], [], weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False)
        assert [[t.shape for t in part] for part in made] == [[(3,)], [(3,)], []]
    with pytest.raises(NotImplementedError, match="no data"):
        torch.linspace(torch.tensor(0.0), torch.empty((), device="meta"), 5)
    with pytest.raises(NotImplementedError, match="no data"):
        F.linear(T(3), torch.empty(3, 3, device="meta"))


# ---- numbers that loops wait for ----
def test_what_was_endless():
    assert math.isnan(torch.binomial(torch.tensor([float("nan")]), torch.tensor([0.5])).item())
    assert math.isnan(torch.binomial(torch.tensor([5.0]), torch.tensor([float("nan")])).item())
    with pytest.raises(RuntimeError, match="overflowed"):
        torch.tril_indices(2**62, 3)
    assert torch.tril_indices(3, 2**62).shape == (2, 6) and torch.triu_indices(3, 3, 2**63 - 1).shape == (2, 0)
    huge = torch.full((4, 4), 1e308, dtype=torch.float64)
    try:
        assert torch.linalg.eigvals(huge).shape == (4,)
    except torch.linalg.LinAlgError:
        pass
    assert torch._dirichlet_grad(T(3) / 2, torch.full((3,), float("inf")), T(3)).isnan().all()


def test_scales_that_are_no_numbers():
    x = torch.arange(4.0).view(1, 1, 4)
    for scale in (1e-300, 1e300, 5e-324):
        for op in (torch.ops.aten.upsample_nearest1d, torch.ops.aten.upsample_linear1d):
            extra = [False] if op is torch.ops.aten.upsample_linear1d else []
            made = op.default(x, [5], *extra, scale)
            assert bool(((made >= 0) & (made <= 3)).all())


def test_a_share_of_generated_calls():
    done = subprocess.run([sys.executable, "run.py", "8000", "--seed", "1", "--jobs", "2"], cwd=ROOT / "tests/hostile", capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": HERE})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "8000 calls, 0 of them wrong" in done.stdout
