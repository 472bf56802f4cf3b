"""Infinity among the integers."""


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
