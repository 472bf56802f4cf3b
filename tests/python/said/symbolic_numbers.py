"""Arithmetic of symbolic numbers: what they print, what they are of the example, what they guard."""
import math
import operator

import torch
from said import attempt, case, say
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


def number(env, value, name, **options):
    symbol = env.create_symbol(value, ConstantSource(name), DimDynamic.DYNAMIC, None, **options)
    return env.create_symintnode(symbol, hint=value)


def text(env, value):
    """With the symbol, of which there is one, called s."""
    names = [str(name) for name in env.backed_var_to_val]
    shown = str(value)
    for name in names:
        shown = shown.replace(name, "s")
    return shown


def ask(f, *values):
    env = ShapeEnv()
    try:
        result = f(number(env, 5, "a"), *values)
        kind = type(result).__name__.removeprefix("Sym").lower()
        shown = text(env, result)
        plain = {"int": int, "float": float, "bool": bool}.get(kind, str)(result)
        say(" ", kind, shown, plain, [text(env, guard.expr) for guard in env.guards])
    except Exception as error:
        say("  raises", type(error).__name__, error)


@case
def bits():
    for f in (operator.and_, operator.or_, operator.xor):
        for other in (3, 12, -2, 2.5):
            ask(f, other)
            ask(lambda x, y: f(y, x), other)


@case
def shifts():
    for f in (operator.lshift, operator.rshift):
        for other in (0, 3, -2, 2.5):
            ask(f, other)


@case
def powers():
    for other in (0, 1, 2, -1, -2, 0.5):
        ask(operator.pow, other)
    ask(lambda x: 2 ** x)


@case
def floats():
    ask(lambda x: torch.sym_max(x * 1.5, 4))
    ask(lambda x: torch.sym_min(x * 1.5, 4.0))
    ask(lambda x: torch.sym_max(4.5, x))
    ask(lambda x: round(x * 1.5, 1))
    ask(lambda x: round(x, 2))
    ask(lambda x: (x * 1.5).hex())
    ask(lambda x: hash(x * 1.5) == hash(7.5))
    ask(lambda x: hash(x > 3) == hash(True))
    ask(lambda x: (x * 1.5).as_integer_ratio() == (15, 2))
    ask(lambda x: x.as_integer_ratio()[1])
    ask(lambda x: x.bit_length())


@case
def nothing_divides():
    ask(lambda x: x // 0)
    ask(lambda x: x / 0)
    for f in (operator.floordiv, operator.mod):
        ask(lambda x: bool(f(7, x - 5) > 1))


@case
def tensors_of_numbers():
    for f in (lambda x: torch.tensor(x), lambda x: torch.tensor([x, 2]), lambda x: torch.tensor(x * 0.5), lambda x: torch.arange(x)):
        env = ShapeEnv()
        say(" ", f(number(env, 5, "a")), [text(env, guard.expr) for guard in env.guards])


@case
def environments():
    env = ShapeEnv()
    say(" ", text(env, number(env, -5, "a", positive=None)), list(env.var_to_range.values()))
    env = ShapeEnv()
    say(" ", text(env, number(env, 1, "a", do_not_specialize_zero_one=True)), list(env.var_to_range.values()))
    env = ShapeEnv()
    u, f = env.create_unbacked_symint(), env.create_unbacked_symfloat()
    say(" ", env.unbacked_symint_counter, env.unbacked_symfloat_counter, env.pending_fresh_unbacked_symbols)
    torch._check(u >= 3)
    say(" ", env.num_deferred_runtime_asserts, env.deferred_runtime_asserts)
    with env.ignore_fresh_unbacked_symbols():
        env.create_unbacked_symint()
    say(" ", env.pending_fresh_unbacked_symbols)
    x = number(env, 6, "x")
    try:
        with env.error_on_new_guards():
            bool(x > 3)
    except RuntimeError as error:
        say(" ", text(env, error))
    attempt(torch._check, torch.tensor(True))
