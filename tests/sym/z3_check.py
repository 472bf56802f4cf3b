"""Reads cases of grow.py from stdin; prints those whose claims Z3 refutes, as JSON: [{"seed", "claim", "facts", "model"}], and how
many claims were proved, left undecided, or about values that cannot be."""
import json
import operator
import sys

import z3

MILLISECONDS = 100          # for a claim; what takes longer stays undecided


class Term:
    """An integer with Python's rounding; every divisor met is noted."""

    def __init__(self, value, divisors):
        self.value, self.divisors = value, divisors

    def _with(self, value, *others):
        noted = self.divisors + [d for o in others if isinstance(o, Term) for d in o.divisors]
        return Term(value, noted)

    def __add__(self, other): return self._with(self.value + _plain(other), other)
    def __sub__(self, other): return self._with(self.value - _plain(other), other)
    def __mul__(self, other): return self._with(self.value * _plain(other), other)
    def __neg__(self): return self._with(-self.value)
    def __radd__(self, other): return self + other
    def __rmul__(self, other): return self * other
    def __rsub__(self, other): return self._with(_plain(other) - self.value)

    def __pow__(self, n):
        made = self
        for _ in range(n - 1):
            made = made * self
        return made

    def __floordiv__(self, other):
        a, b = self.value, _plain(other)
        made = self._with(z3.If(b > 0, a / b, (-a) / (-b)), other)
        made.divisors.append(b)
        return made

    def __rfloordiv__(self, other): return _term(other) // self
    def __mod__(self, other): return self - (self // other) * other
    def __rmod__(self, other): return _term(other) % self


def _plain(x):
    return x.value if isinstance(x, Term) else z3.IntVal(x)


def _term(x):
    return x if isinstance(x, Term) else Term(z3.IntVal(x), [])


def _choose(pick):
    def extreme(*args):
        args = [_term(a) for a in args]
        made = args[0]
        for other in args[1:]:
            made = made._with(z3.If(pick(made.value, other.value), made.value, other.value), other)
        return made
    return extreme


_max, _min = _choose(operator.ge), _choose(operator.le)
_APPLY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
          "max": _max, "min": _min}
_COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def built(tree, symbols):
    """The tree as it was written; a comparison gives (condition, divisors)."""
    if not isinstance(tree, list):
        return symbols[tree] if isinstance(tree, str) else _term(tree)
    op, left, right = tree
    a, b = built(left, symbols), built(right, symbols)
    return (_COMPARE[op](a.value, b.value), a.divisors + b.divisors) if op in _COMPARE else _APPLY[op](a, b)


def read(text, symbols):
    names = {**symbols, "Mod": lambda a, b: _term(a) % b, "PythonMod": lambda a, b: _term(a) % b, "Max": _max, "Min": _min}
    return _term(eval(text, {"__builtins__": {}}, names))


def refuted(case, claim, symbols, world):
    """A model in which the claim is false; None: there is none, or Z3 does not know ("undecided" is then noted)."""
    made = built(claim[1], symbols)
    if claim[0] == "known":
        condition, divisors = made
        false = z3.Not(condition) if claim[2] else condition
    else:
        divisors = list(made.divisors)
        if claim[0] == "equal":
            false = made.value != read(claim[2], symbols).value
        else:
            low, high = claim[2:]
            false = z3.Or(*([made.value < low] if low > -2**63 else []), *([made.value > high] if high < 2**63 - 1 else []))
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(*world, *(d != 0 for d in divisors), false)
    answer = solver.check()
    return solver.model() if answer == z3.sat else "undecided" if answer == z3.unknown else None


def main():
    wrong, proved, undecided = [], 0, 0
    for case in json.load(sys.stdin):
        symbols = {name: Term(z3.Int(name), []) for name in case["symbols"]}
        world = [z3.And(symbols[name].value >= low, symbols[name].value <= high) for name, (low, high) in case["symbols"].items()]
        for fact in case["facts"]:
            condition, divisors = built(fact, symbols)
            world += [condition, *(d != 0 for d in divisors)]
        for claim in case["claims"]:
            model = refuted(case, claim, symbols, world)
            proved += model is None
            undecided += model == "undecided"
            if model is not None and model != "undecided":
                wrong.append({"seed": case["seed"], "symbols": case["symbols"], "facts": case["facts"], "claim": claim, "model": str(model)})
    json.dump({"wrong": wrong, "proved": proved, "undecided": undecided}, sys.stdout)


if __name__ == "__main__":
    main()
