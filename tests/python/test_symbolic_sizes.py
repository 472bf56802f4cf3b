"""SymInt, SymBool, SymFloat; ShapeEnv and FakeTensorMode as Python sees them."""
import copy
import gc
import weakref

import pytest
import taper as torch
from taper._subclasses import FakeTensor, FakeTensorMode
from taper.fx.experimental.symbolic_shapes import ShapeEnv, hint_int, statically_known_true


def fakes(*shapes):
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    return env, mode, [mode.from_tensor(torch.zeros(*s)) for s in shapes]


def test_equal_sizes_share_a_symbol_and_one_is_a_number():
    _, _, (x, y) = fakes((4, 3), (3, 1))
    assert [str(s) for s in (*x.shape, *y.shape)] == ["s0", "s1", "s1", "1"]
    assert isinstance(y.shape[1], int) and isinstance(x, FakeTensor) and not isinstance(torch.zeros(2), FakeTensor)


def test_ops_give_expressions():
    _, _, (x, y) = fakes((4, 3), (3, 5))
    z = torch.mm(x, y)
    assert [str(s) for s in z.shape] == ["s0", "s2"]
    assert str(z.reshape(-1).shape[0]) == "s0*s2" and str(z.numel()) == "s0*s2"
    assert [str(s) for s in z.stride()] == ["s2", "1"]
    assert str(torch.cat([x, x]).shape[0]) == "2*s0"
    assert str(x[1:].shape[0]) == "s0 - 1" and str(x[: x.shape[1] - 1, 0].shape[0]) == "s1 - 1"
    assert str(x.view(x.shape[1], x.shape[0]).shape[0]) == "s1"


def test_arithmetic():
    _, _, (x,) = fakes((4, 3))
    a, b = x.shape
    assert str(a + 1) == "s0 + 1" and str(2 * a - b) == "2*s0 - s1" and str(a // 2) == "(s0//2)"
    assert a - a == 0 and isinstance(a - a, int) and str(-a) == "-s0" and str(a % 3) == "Mod(s0, 3)"
    assert isinstance(a / 2, torch.SymFloat) and isinstance(a > 100, torch.SymBool)
    assert hint_int(a * b) == 12 and hint_int(7) == 7
    assert copy.deepcopy(a) is a
    with pytest.raises(TypeError):
        a + "x"
    with pytest.raises(TypeError):
        hash(a)
    with pytest.raises(TypeError):
        torch.SymInt(3)


def test_answers_guard():
    env, _, (x,) = fakes((4, 3))
    a, b = x.shape
    assert statically_known_true(a > 1) and not statically_known_true(a > 2) and env.format_guards() == ""
    assert (a > b) and env.format_guards() == " - s0 > s1"
    assert int(b) == 3 and str(x.shape[1]) == "3"
    assert "Eq(s1, 3)" in env.format_guards()


def test_a_mode_makes_factories_fake_and_can_be_entered_again():
    env, mode, (x,) = fakes((4, 3))
    with mode:
        with mode:
            made = torch.ones(2, x.shape[0])
    assert isinstance(made, FakeTensor) and str(made.shape[1]) == "s0"
    assert not isinstance(torch.ones(2), FakeTensor)
    with pytest.raises(RuntimeError, match="not the innermost"):
        mode.__exit__(None, None, None)


def test_the_same_tensor_is_faked_once():
    _, mode, _ = fakes((2,))
    t = torch.zeros(2, 3, requires_grad=True)
    assert mode.from_tensor(t) is mode.from_tensor(t) and mode.from_tensor(t).requires_grad
    assert mode.from_tensor(mode.from_tensor(t)) is mode.from_tensor(t)


def test_real_tensors_are_refused():
    _, _, (x,) = fakes((4, 3))
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors"):
        x + torch.zeros(4, 3)


def test_a_size_outlives_its_environment_object():
    env, mode, (x,) = fakes((4, 3))
    size, dead = x.shape[0], weakref.ref(env)
    del env, mode, x
    gc.collect()
    assert dead() is None and str(size + 1) == "s0 + 1" and size._shape_env is None
