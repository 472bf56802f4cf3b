"""Random expressions over symbolic sizes, built here and written down with what Taper makes of them.

    python tests/sym/grow.py FIRST COUNT > cases.json          # z3_check.py reads them

A case is a set of symbols with ranges, facts declared of them, and claims: that an expression as it was written equals the text it
was simplified to, lies in a range, or that a condition holds or does not. Claims are true of every value the facts allow."""
import json
import random
import sys

import taper as torch
from taper.fx.experimental.symbolic_shapes import ShapeEnv, is_symbolic

_ARITHMETIC = ("+", "-", "*", "//", "%", "max", "min")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_APPLY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
          "max": torch.sym_max, "min": torch.sym_min, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
          "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


class Grower:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.env = ShapeEnv()
        self.symbols = {}
        for _ in range(self.random.randint(1, 3)):
            low = self.random.choice((-20, -3, 0, 0, 1, 2, 5))
            high = low + self.random.choice((1, 3, 10, 100, 10**6))
            made = self.env._unbacked(low, high)
            self.symbols[str(made)] = (made, low, high)

    def leaf(self):
        if self.random.random() < 0.35:
            value = self.random.choice((-7, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16))
            return value, value
        name = self.random.choice(list(self.symbols))
        return name, self.symbols[name][0]

    def number(self, depth):
        """(tree, value): the tree is what was written, the value what Taper has of it."""
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        op = self.random.choice(_ARITHMETIC)
        left, right = self.number(depth - 1), self.number(depth - 1)
        if op in ("//", "%") and self.random.random() < 0.7:
            k = self.random.choice((-4, -1, 1, 2, 3, 4, 6, 8))
            right = (k, k)
        return [op, left[0], right[0]], _APPLY[op](left[1], right[1])

    def condition(self, depth):
        op = self.random.choice(_COMPARISONS)
        left, right = self.number(depth), self.number(self.random.choice((0, depth)))
        return [op, left[0], right[0]], _APPLY[op](left[1], right[1])

    def tried(self, make, depth):
        """None: a number is too large, or a divisor is known to be zero."""
        try:
            return make(depth)
        except (ZeroDivisionError, OverflowError):
            return None

    def case(self):
        facts, claims = [], []
        for _ in range(self.random.choice((0, 0, 1, 2, 3))):
            fact = self.tried(self.condition, 1)
            try:
                if fact and is_symbolic(fact[1]) and fact[1]._expect():
                    facts.append(fact[0])
            except (ValueError, RuntimeError, OverflowError, ZeroDivisionError):       # it contradicts those before: no value is left
                return self.written(facts, [])
        for _ in range(4):
            made = self.tried(self.number, self.random.randint(1, 3))
            if made:
                low, high = made[1]._range if is_symbolic(made[1]) else (made[1], made[1])
                claims += [["equal", made[0], str(made[1])], ["range", made[0], low, high]]
            made = self.tried(self.condition, self.random.randint(1, 2))
            known = made and (made[1]._known if is_symbolic(made[1]) else bool(made[1]))
            if known is not None and made:
                claims.append(["known", made[0], known])
        return self.written(facts, claims)

    def written(self, facts, claims):
        return {"symbols": {name: [low, high] for name, (_, low, high) in self.symbols.items()}, "facts": facts, "claims": claims}


def cases(first, count):
    return [{"seed": seed, **Grower(seed).case()} for seed in range(first, first + count)]


if __name__ == "__main__":
    json.dump(cases(int(sys.argv[1]), int(sys.argv[2])), sys.stdout)
