"""Ranges of sizes, and the expressions they belong to."""
from collections import namedtuple

from ... import _facades


# ---- Infinity among the integers -----------------------------------------------------------------------------------
class IntInfinity(int):
    """No bound: larger than any size."""

    def __new__(cls):
        return super().__new__(cls, 2**63 - 1)

    def __repr__(self):
        return "int_oo"

    def __neg__(self):
        return _negative

    __str__ = __repr__


class NegativeIntInfinity(int):
    """No bound: smaller than any size."""

    def __new__(cls):
        return super().__new__(cls, -2**63)

    def __repr__(self):
        return "-int_oo"

    def __neg__(self):
        return int_oo

    __str__ = __repr__


_negative = NegativeIntInfinity()
int_oo = IntInfinity()


class ValueRanges(namedtuple("ValueRanges", "lower upper is_bool", defaults=(False,))):
    """All values from lower to upper."""

    def __contains__(self, x):
        return self.lower <= x <= self.upper

    def __and__(self, other):
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper), self.is_bool)

    def __str__(self):
        return f"VR[{self.lower}, {self.upper}]"

    __repr__ = __str__


class Expression(str):
    """A symbol or an expression of symbols as a key: prints as itself, equal to others of the same text."""

    def __new__(cls, value):
        self = super().__new__(cls, value)
        self._of = None if isinstance(value, str) else value      # the SymInt and the like, or number, that it shows
        return self

    @property
    def name(self):
        return str(self)

    def __repr__(self):
        return str(self)

    @property
    def free_symbols(self):
        return {Expression(name) for name in getattr(self._of, "_symbols", ())}

    @property
    def is_symbol(self):
        return self.isidentifier() and self not in ("True", "False")

    @property
    def is_number(self):
        return not getattr(self._of, "_symbols", self.is_symbol)

    def xreplace(self, rule):
        """With symbols replaced by numbers or expressions."""
        if not hasattr(self._of, "_replace"):
            return rule.get(self, self)
        values = {str(symbol): getattr(value, "_of", value) for symbol, value in rule.items()}
        return Expression(self._of._replace(values))

    def subs(self, rule, value=None):
        return self.xreplace(dict(rule) if value is None else {rule: value})

    def __int__(self):
        return int(str(self))


_facades.settle(__name__)
