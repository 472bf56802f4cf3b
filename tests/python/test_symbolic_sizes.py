"""SymInt, SymBool, SymFloat; ShapeEnv and FakeTensorMode as Python sees them."""
import copy
import gc
import weakref

import pytest
import taper as torch
from taper._subclasses import FakeTensor, FakeTensorMode
from taper.fx.experimental import symbolic_shapes as shapes
from taper.fx.experimental.sym_node import SymNode
from taper.fx.experimental.symbolic_shapes import DimDynamic, GuardOnDataDependentSymNode, ShapeEnv, hint_int, statically_known_true


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


def test_conditions_among_numbers_are_decided():
    env, _, (x,) = fakes((4, 3))
    a, b = x.shape
    far = a > 3 * b
    assert str(far & (a < 7 * b)) == "(s0 > 3*s1) & (s0 < 7*s1)" and (False & far) is False and str(True & far) == str(far)
    assert str(torch.sym_not(far)) == "s0 <= 3*s1" and env.format_guards() == ""
    with pytest.raises(TypeError, match="unsupported operand type"):
        far & 1
    assert far + 1 == 1 and far * a == 0 and env.format_guards() == " - s0 <= 3*s1"


def test_the_rest_of_a_number():
    _, _, (x,) = fakes((4, 3))
    a, b = x.shape
    assert str(a >> 1) == "(s0//2)" and str(a << 2) == "4*s0" and str(a // 2.5) == "ToFloat(FloorToInt(FloatTrueDiv(ToFloat(s0), 2.5)))"
    assert str(torch.sym_sqrt(a)) == "OpaqueUnaryFn_sqrt(ToFloat(s0))" and torch._sym_log2(8) == 3 and str(torch._sym_sin(a / 2)) == "OpaqueUnaryFn_sin(IntTrueDiv(s0, 2))"
    assert torch.sym_sqrt(a).node.hint == 2.0 and str((a / 2).is_integer()) == "Eq(ToFloat(FloorToInt(IntTrueDiv(s0, 2))), IntTrueDiv(s0, 2))"
    chosen = torch.sym_ite(a > 3 * b, a, b)
    assert isinstance(chosen, torch.SymInt) and chosen.node.hint == 3
    assert int(a / 3) == 1 and str(a) == "s0"
    for mistake in (lambda: f"{b:d}", lambda: ~b, lambda: divmod(b, 2)):
        with pytest.raises(TypeError, match="SymInt"):
            mistake()


def test_nodes():
    env, _, (x,) = fakes((4, 3))
    node = (x.shape[0] + 1).node
    assert (node.pytype, node.hint, node.shape_env, str(node), node.has_hint(), node.is_int(), node.maybe_as_int()) == (int, 5, env, "s0 + 1", True, True, None)
    assert str(node.mul(node)) == "s0**2 + 2*s0 + 1" and node.expr.free_symbols == {"s0"} and str(node.expr.xreplace({"s0": 7})) == "8"
    assert node.ge(node.wrap_int(4)).guard_bool("", 0) and env.guards[0].expr == "s0 + 1 >= 4"


def test_facts_about_data():
    env = ShapeEnv()
    s = env.create_symintnode(env.create_symbol(5, "x"), hint=5)
    u, v = env.create_unbacked_symint(), env.create_unbacked_symint()
    with pytest.raises(shapes.GuardOnDataDependentSymNode, match=r"(?s)Could not guard on data-dependent expression u0 > 3 .*test_symbolic_sizes.py:\d+ in test_facts"):
        bool(u > 3)
    torch._check(u >= 2)
    torch._check(u <= s)
    assert statically_known_true(u >= 1) and not statically_known_true(u >= 3)
    assert {key: [str(a.expr) for a in found] for key, found in env.deferred_runtime_asserts.items()} == {"u0": ["2 <= u0", "u0 <= s0"]}
    torch._check_is_size(v)
    assert env.size_like == {"u1"} and not shapes.guard_size_oblivious(v == 0) and not shapes.guard_size_oblivious(v == 1)
    assert not shapes.guard_or_false(v == 7) and shapes.guard_or_true(v == 7) and shapes.guard_or_false(s == 5)
    torch._check(v == s)
    assert env.replacements == {"s0": "5", "u1": "5"} and str(v + 1) == "6"
    with pytest.raises(RuntimeError, match="^mine$"):
        torch._check(u < 1, lambda: "mine")
    with pytest.raises(ValueError, match="Expected cond to be True, but got False"):
        torch._check_value(u < 1)


def test_questions():
    env = ShapeEnv()
    s, u = env.create_symintnode(env.create_symbol(5, "x"), hint=5), env.create_unbacked_symint()
    assert shapes.free_symbols([s, u]) == {"s0", "u0"} and shapes.free_unbacked_symbols(s + u) == {"u0"} and not shapes.has_free_symbols(3)
    assert shapes.hint_int(u, fallback=8) == 8 and not shapes.has_hint(u) and shapes.is_concrete_int(3) and not shapes.is_concrete_int(s)
    shapes.constrain_range(u, min=3, max=7)
    assert str(env.var_to_range) == "{s0: VR[2, int_oo], u0: VR[3, 7]}" and env.var_to_val == {"s0": 5} and env.bound_sympy(u + 1).upper == 8
    assert str(shapes.sym_and(s > 3, u > 4)) == "(s0 > 3) & (u0 > 4)" and shapes.sym_eq([s, u], [s, u]) is True and str(shapes.sym_or(s > 9, u > 5)) == "(s0 > 9) | (u0 > 5)"
    assert shapes.guard_int(s) == 5 and env.guards[-1].expr == "Eq(s0, 5)" and "in test_questions" in env.guards[-1].sloc.framework_loc
    for wrong, ask in (("Expected int, got a", lambda: shapes.guard_int("a")), ("Expected bool, got 3", lambda: shapes.guard_bool(3))):
        with pytest.raises(AssertionError, match=wrong):
            ask()
    with pytest.raises(ValueError, match=r"Invalid value 5 for range \[7:9\]"):
        shapes.constrain_range(5, min=7, max=9)


def test_guards_as_python():
    env, _, (x, y) = fakes((5, 7, 5), (10, 7))
    torch.cat([x[:, :, 0], x[:, :, 1]]).add(y)
    assert env.produce_guards([x, y], ["x", "y"]) == [
        "x.size()[2] == x.size()[0]", "x.stride()[0] == x.size()[0]*x.size()[1]", "x.stride()[1] == x.size()[0]",
        "y.size()[0] == 2*x.size()[0]", "y.size()[1] == x.size()[1]", "y.stride()[0] == x.size()[1]", "2 <= x.size()[0]", "2 <= x.size()[1]"]
    code = env.produce_guards_expression([x, y])
    assert env.evaluate_guards_expression(code, [torch.empty(6, 7, 6), torch.empty(12, 7)])
    assert not env.evaluate_guards_for_args([x, y], [torch.empty(6, 7, 6), torch.empty(13, 7)])
    assert env.bind_symbols([x, y], [torch.empty(6, 8, 6), torch.empty(12, 8)]) == {"s0": 6, "s1": 8}


def test_zero_and_one_can_stay_symbols():
    env = ShapeEnv(specialize_zero_one=False)
    assert env.create_symbol(1, "x") == "s0" and env.create_symbol(0, "y") == "s1" and str(env.var_to_range["s0"]) == "VR[0, int_oo]"


def test_a_kernel_decides_symbolic_numbers():
    """Without a tracer they are the example's, which is a guard; of data there is no example."""
    env, _, (x,) = fakes((4, 3))
    assert (torch.ones(2) * x.shape[0]).tolist() == [4, 4] and env.format_guards() == " - Eq(s0, 4)"
    env, _, (x,) = fakes((4, 3))
    assert (torch.ones(2) * (x.shape[0] * 0.5)).tolist() == [2, 2] and env.format_guards() == " - Eq(0.5*ToFloat(s0), 2.0)"
    env, _, (x,) = fakes((4, 3))
    assert torch.zeros(x.shape[0]).shape == (4,) and torch.ones(8).view(x.shape[0], -1).shape == (4, 2) and env.format_guards() == " - Eq(s0, 4)"
    for unknown in (env.create_unbacked_symint(), env.create_unbacked_symfloat()):
        with pytest.raises(GuardOnDataDependentSymNode):
            torch.ones(2) * unknown


def test_expressions_too_large_to_walk_are_errors():
    env, _, (x,) = fakes((4, 3))
    a, b = x.shape

    def nest(step, start):
        size = start
        for i in range(5000):
            size = step(size, i)
        return size

    for step in (lambda size, i: size // 2 + b, lambda size, i: -((size + 1) // 3) % 17, lambda size, i: torch.sym_ite(size > i * a, size // 2, size + 3)):
        with pytest.raises(RecursionError):
            nest(step, a)
    with pytest.raises(RecursionError):
        nest(lambda size, i: size * 1.5 + b, a * 1.5)
    for depth in (50, 150):
        size = a
        for _ in range(depth):
            size = size // 2 + b
        assert bool(size > 3) and str(size).count("//") == depth


def test_long_sums_print_soon():
    env = ShapeEnv()
    sizes = [env._symbol(i + 2, None, 0, 2**63 - 1, False) for i in range(3000)]
    total = sum(sizes)
    assert str(total).count(" + ") == 2999 and bool(total > 3)


def test_errors_of_the_example_are_their_own():
    env, _, (x,) = fakes((4, 3))
    a, b = x.shape
    with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero"):
        bool(a // (b - 3) > 1)
    with pytest.raises(OverflowError):
        int(a ** 100)
    with pytest.raises(OverflowError):
        int(a * float("nan"))


def test_nodes_make_numbers():
    env = ShapeEnv()
    symbol = env.create_symbol(5, "x", DimDynamic.DYNAMIC)
    size = torch.SymInt(SymNode(symbol, env, int, 5))
    assert str(size + 1) == "s0 + 1" and size.node.hint == 5
    with pytest.raises(TypeError):
        torch.SymInt(5)


def test_a_size_is_no_float_nor_condition():
    _, _, (x,) = fakes((4, 3))
    for wrong in (x.shape[0] * 1.5, x.shape[0] > 2):
        with pytest.raises(TypeError, match=f"must be tuple of ints, not {type(wrong).__name__}"):
            torch.zeros(wrong)
        with pytest.raises(TypeError):
            torch.ones(4).view(wrong)
    with pytest.raises(IndexError):
        torch.ones(4)[x.shape[0] * 0.5]
