"""Numbers, conditions and things that are neither, put together at random: an error of Python's kind or a value that prints, nothing else."""
import copy
import math
import operator
import random

import pytest
import taper as torch
from taper.fx.experimental import symbolic_shapes as shapes

_TWO = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.pow, operator.eq, operator.ne,
        operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, divmod,
        torch.sym_max, torch.sym_min, shapes.sym_and, shapes.sym_or]
_ONE = [operator.neg, operator.pos, abs, operator.invert, math.floor, math.ceil, math.trunc, round, torch.sym_float, torch.sym_int, torch.sym_not,
        torch.sym_sqrt, torch._sym_sin, repr, shapes.hint_int, shapes.guard_or_false, shapes.statically_known_true, shapes.guard_size_oblivious,
        shapes.free_symbols, copy.deepcopy, bool, int, float, hash, lambda x: x.node.expr.xreplace({"u0": 2}), lambda x: x._expect(),
        lambda x: x._narrow(-3, 50), lambda x: x.is_integer()]
_ERRORS = (ArithmeticError, TypeError, ValueError, RuntimeError, AttributeError, AssertionError)


def step(dice, pool):
    if dice.random() < 0.7:
        a, b = dice.choice(pool), dice.choice(pool)
        symbolic = shapes.is_symbolic(a) or shapes.is_symbolic(b)
        return dice.choice(_TWO)(a, b) if symbolic and "x" not in (repr(a)[1:-1], repr(b)[1:-1]) else None
    return torch.sym_ite(dice.choice(pool), dice.choice(pool), dice.choice(pool)) if dice.random() < 0.1 else dice.choice(_ONE)(dice.choice(pool))


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_nothing_falls_over(first):
    for seed in range(first, first + 100):
        dice, env = random.Random(seed), shapes.ShapeEnv()
        pool = [env.create_symintnode(env.create_symbol(size, "a"), hint=size) for size in (5, 7)]
        pool += [env.create_unbacked_symint(), env.create_unbacked_symfloat(), env.create_unbacked_symbool(), 3, 0, -2, 2.5, True, False, None,
                 "x", 2**62, 1j, 0.0, float("nan"), float("inf")]
        for _ in range(60):
            try:
                made = step(dice, pool)
            except _ERRORS:
                continue
            if shapes.is_symbolic(made):
                pool.append(made)
                assert str(made) == repr(made) != "<failed>"
