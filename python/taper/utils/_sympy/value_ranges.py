"""Ranges of sizes, and the expressions they belong to."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class ValueRanges:
    """All values from lower to upper."""
    lower: int
    upper: int
    is_bool: bool = False

    def __contains__(self, x):
        return self.lower <= x <= self.upper

    def __and__(self, other):
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper), self.is_bool)

    def __str__(self):
        return f"VR[{self.lower}, {self.upper}]"

    __repr__ = __str__


class Expression(str):
    """A symbol or an expression of symbols as a key: prints as itself, equal to others of the same text."""

    @property
    def name(self):
        return str(self)

    def __repr__(self):
        return str(self)
