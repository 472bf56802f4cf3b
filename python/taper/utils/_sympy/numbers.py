"""Infinity among the integers."""


class IntInfinity(int):
    """No bound: larger than any size."""

    def __new__(cls):
        return super().__new__(cls, 2**63 - 1)

    def __repr__(self):
        return "int_oo"

    __str__ = __repr__


int_oo = IntInfinity()
