"""Forward mode where there is nothing to compare with PyTorch: levels left in any order, owners, tangents that outlive their level.
What it computes and says is in said/forward_mode.py, said/forward_graphs.py, said/autograd_functional.py and said/gradients_checked.py."""
import gc
import threading
import weakref

import pytest
import taper as torch
import taper.autograd.forward_ad as fwAD
from taper.func import grad, jacfwd, jvp, vmap


def test_a_level_may_be_left_under_another():
    def leaves(x):
        fwAD.exit_dual_level()
        return (x * x).sum()

    fwAD.enter_dual_level()
    assert grad(leaves)(torch.tensor([3.0])).tolist() == [6.0]
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fwAD.exit_dual_level()


def test_a_level_may_outlive_the_transform_it_was_entered_in():
    def enters(x):
        fwAD.enter_dual_level()
        return (x * x).sum()

    assert grad(enters)(torch.tensor([3.0])).tolist() == [6.0]
    d = fwAD.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
    assert fwAD.unpack_dual(d * d).tangent.tolist() == [4.0]
    fwAD.exit_dual_level()
    assert (d * d).tolist() == [4.0] and fwAD.unpack_dual(d).tangent is None


def test_a_failing_function_leaves_its_level():
    for f in (jvp, lambda f, x, t: jacfwd(f)(*x)):
        with pytest.raises(ZeroDivisionError):
            f(lambda x: 1 // 0, (torch.ones(2),), (torch.ones(2),))
    assert torch.ones(2).add(1).tolist() == [2.0, 2.0]


def test_wrappers_of_a_level_that_is_gone():
    kept = []
    jvp(lambda x: kept.append(x * 2) or x, (torch.ones(2),), (torch.ones(2),))
    assert (kept[0] + 1).tolist() == [3.0, 3.0]
    assert jvp(lambda x: x * kept[0], (torch.ones(2),), (torch.ones(2),))[1].tolist() == [2.0, 2.0]


def test_levels_belong_to_their_thread():
    with fwAD.dual_level():
        d, seen = fwAD.make_dual(torch.ones(2), torch.ones(2)), []
        worker = threading.Thread(target=lambda: seen.append((d * 2).tolist()))
        worker.start()
        worker.join()
        assert seen == [[2.0, 2.0]]


def test_nothing_is_held():
    x, t = torch.ones(3), torch.ones(3)
    died = weakref.ref(t)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, t)
        y = (d * d).sum()
    del t, d, y
    gc.collect()
    assert died() is None


def test_a_write_to_a_result_leaves_the_argument_alone():
    def f(x):
        y = x.to(torch.float64) + 0
        y.mul_(3)
        return x, y

    assert [v.tolist() for v in jvp(f, (torch.ones(2),), (torch.ones(2),))[1]] == [[1.0, 1.0], [3.0, 3.0]]


def test_batches_of_tangents():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    got = vmap(lambda a: jvp(lambda y: (y * y).sum(), (a,), (torch.ones(2),))[1])(x)
    assert got.tolist() == [6.0, 14.0]


def test_an_input_of_no_elements():
    assert jacfwd(lambda x: x * 2)(torch.ones(0)).shape == (0, 0)
    assert jvp(lambda x: x.sum(), (torch.ones(0),), (torch.ones(0),))[1].item() == 0


COMPLEX = {
    "abs": lambda z: z.abs(), "angle": lambda z: z.angle(), "norm": lambda z: z.norm(), "conj": lambda z: z.conj() * 2, "imag": lambda z: z.imag,
    "sgn": lambda z: z.sgn(), "log": lambda z: z.log(), "prod": lambda z: z.prod(1), "cumprod": lambda z: z.cumprod(0), "std": lambda z: z.std(),
    "gram": lambda z: z @ z.mH, "inv": torch.linalg.inv, "det": torch.linalg.det, "solve": lambda z: torch.linalg.solve(z, z.mH),
    "svdvals": torch.linalg.svdvals, "eigvalsh": lambda z: torch.linalg.eigvalsh(z + z.mH), "fft": torch.fft.fft, "real": torch.view_as_real,
    "power": lambda z: z ** z, "quotient": lambda z: z / (z + 1), "vdot": lambda z: torch.vdot(z[0], z[1]), "written": lambda z: z.clone().mul_(z).abs(),
    "addmm": lambda z: torch.addmm(z, z, z, beta=1 + 1j, alpha=2), "sub": lambda z: torch.sub(z, z * z, alpha=2 + 1j),
    "cholesky": lambda z: torch.linalg.cholesky(z @ z.mH + 3 * torch.eye(3)), "exponential": torch.linalg.matrix_exp,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_tangents_agree_with_differences(name):
    torch.manual_seed(0)
    z = torch.randn(3, 3, dtype=torch.complex128).requires_grad_()
    assert torch.autograd.gradcheck(COMPLEX[name], (z,), check_forward_ad=True)
    assert torch.autograd.gradcheck(COMPLEX[name], (z,), check_forward_ad=True, fast_mode=True)
