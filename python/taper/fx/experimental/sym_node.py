"""SymNode: what PyTorch keeps inside a SymInt, SymFloat or SymBool. Here the value itself is C's; this is a view of it."""
import operator

from ... import SymBool, SymFloat, SymInt, _symbolic
from ...utils._sympy.value_ranges import Expression

_PYTHON = {SymInt: int, SymFloat: float, SymBool: bool}


def _value(x):
    return x._of if isinstance(x, SymNode) else x


class SymNode:
    __slots__ = ("_of",)
    fx_node = None
    constant = None

    def __init__(self, expr, shape_env=None, pytype=None, hint=None, constant=None, fx_node=None):
        self._of = expr if shape_env is None else shape_env._parse(str(expr))

    expr = _expr = property(lambda self: Expression(self._of))
    shape_env = property(lambda self: getattr(self._of, "_shape_env", None))
    pytype = property(lambda self: _PYTHON.get(type(self._of), type(self._of)))
    hint = property(lambda self: getattr(self._of, "_hint", self._of))

    def has_hint(self):
        return self.hint is not None

    def require_hint(self, fallback=None):
        if self.hint is not None:
            return self.hint
        if fallback is not None:
            return fallback
        return self.pytype(self._of)        # says why there is none

    def is_int(self):
        return self.pytype is int

    def is_float(self):
        return self.pytype is float

    def is_bool(self):
        return self.pytype is bool

    def is_symbolic(self):
        return True

    def is_constant(self):
        return False

    def is_nested_int(self):
        return False

    def nested_int(self):
        return None

    def _known(self, kind):
        """The number that this is known to be, or None."""
        text = str(self._of)
        if self.pytype is not kind or type(self._of) not in _PYTHON:
            return self._of if self.pytype is kind else None
        if kind is bool:
            return self._of._known
        try:
            return kind(text)
        except ValueError:
            return None

    def maybe_as_int(self):
        return self._known(int)

    def maybe_as_float(self):
        return self._known(float)

    def maybe_as_bool(self):
        return self._known(bool)

    def guard_int(self, file, line):
        return int(self._of)

    def guard_float(self, file, line):
        return float(self._of)

    def guard_bool(self, file, line):
        return bool(self._of)

    def int_(self):
        return int(self._of)

    def bool_(self):
        return bool(self._of)

    def guard_size_oblivious(self, file, line):
        return self._of._of_sizes()

    def guard_or_false(self, file, line):
        return self._of._guard_or(False)

    def guard_or_true(self, file, line):
        return self._of._guard_or(True)

    def statically_known_true(self, file, line):
        return bool(self._of._known)

    def expect_true(self, file, line):
        return self._of._expect()

    def expect_size(self, file, line):
        held = (self._of >= 0)._expect() if isinstance(self._of >= 0, SymBool) else self._of >= 0
        if held:
            self._of._mark_size()
        return held

    def wrap_int(self, number):
        return SymNode(number)

    wrap_float = wrap_bool = wrap_int

    def clone(self):
        return self

    def str(self):
        return str(self._of)

    __str__ = _graph_repr = str

    def __repr__(self):
        return f"SymNode({self._of}, shape_env={self.shape_env}, pytype={self.pytype}, hint={self.hint})"

    def sym_ite(self, then, otherwise):
        return SymNode(_symbolic.sym_ite(self._of, _value(then), _value(otherwise)))

    def sym_sum(self, args):
        return SymNode(_symbolic.sym_sum([_value(arg) for arg in args]))


def _add_methods():
    binary = dict(add=operator.add, sub=operator.sub, mul=operator.mul, truediv=operator.truediv, floordiv=operator.floordiv,
                  mod=operator.mod, pow=operator.pow, eq=operator.eq, ne=operator.ne, lt=operator.lt, le=operator.le, gt=operator.gt,
                  ge=operator.ge, and_=operator.and_, or_=operator.or_, lshift=operator.lshift, rshift=operator.rshift,
                  sym_max=_symbolic.sym_max, sym_min=_symbolic.sym_min, int_truediv=operator.truediv, float_truediv=operator.truediv,
                  int_floordiv=operator.floordiv, pow_by_natural=operator.pow, float_pow=operator.pow, sym_and=operator.and_,
                  sym_or=operator.or_)
    import math

    unary = dict(neg=operator.neg, pos=operator.pos, abs=abs, floor=math.floor, ceil=math.ceil, trunc=math.trunc, round=round,
                 sym_not=_symbolic.sym_not, sym_float=_symbolic.sym_float, sym_int=_symbolic.sym_int, sym_sqrt=_symbolic.sym_sqrt)
    for name, function in binary.items():
        setattr(SymNode, name, lambda self, other, function=function: SymNode(function(self._of, _value(other))))
    for name, function in unary.items():
        setattr(SymNode, name, lambda self, function=function: SymNode(function(self._of)))


_add_methods()
