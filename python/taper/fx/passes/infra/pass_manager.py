"""Passes applied in an order that keeps given constraints."""
import abc
import collections
import functools
import inspect

from .... import _facades
from ....nn import Module

__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]


# ---- A pass over graph modules, and what it gives ------------------------------------------------------------------
class PassResult(collections.namedtuple("PassResult", ["graph_module", "modified"])):
    """The module and whether the pass changed it."""
    __slots__ = ()


class PassBase(abc.ABC):
    """A pass: what it requires of a module, what it does, what it ensures."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """The pass itself: gives a PassResult or None."""

    def requires(self, graph_module):
        """Raises when the pass cannot run on this module."""

    def ensures(self, graph_module):
        """Raises when the pass left the module as it must not be."""


def _name(of):
    return of.__name__ if inspect.isfunction(of) else type(of).__name__


def pass_result_wrapper(fn):
    """A pass that may give None, as one that gives a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            return PassResult(result, True)
        return None
    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this, that):
    """A constraint between two passes, wherever they stand."""
    return lambda a, b: not (a == that and b == this)


def _validate_pass_schedule_constraint(constraint, passes):
    for i, first in enumerate(passes):
        for second in passes[i + 1:]:
            if not constraint(first, second):
                raise RuntimeError(f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index {i} "
                                   f"and {second} at index {i} in pass list.")


def _topological_sort_passes(passes, constraints):
    """Those that need nothing before them first, each as early as it stood; a circle of constraints is an error."""
    if not constraints:
        return passes
    after = {one: [] for one in passes}
    waits = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            if a is not b and not all(allows(a, b) for allows in constraints):
                after[b].append(a)          # a may not come before b
                waits[a] += 1
    ready = [one for one in passes if not waits[one]]
    for one in ready:
        for later in after[one]:
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    if len(ready) < len(passes):
        stuck = [one for one in passes if waits[one]]
        raise RuntimeError(f"Circular dependency detected within the following passes: {stuck}")
    return ready


class PassManager:
    """Runs passes, `steps` times or until none changes anything, in an order its constraints allow."""
    passes: list
    constraints: list
    _validated = False
    steps = 1

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False, suppress_check_failures=False):
        self.passes, self.constraints = passes or [], constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self):
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self):
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check):
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check

    def check(self, module):
        """What must hold of a module before and after the passes."""

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed_at_all = False
        for _ in range(self.steps):
            changed = False
            for i, one in enumerate(self.passes):
                try:
                    result = one(module)
                    if not isinstance(result, PassResult):
                        raise TypeError(f"The result of the pass {_name(one)} should be type PassResult. Please wrap it with "
                                        "pass_result_wrapper()")
                except Exception as error:
                    before = [_name(done) for done in self.passes[:i]]
                    raise Exception(f"An error occurred when running the '{_name(one)}' pass after the following passes: {before}") from error
                module, changed = result.graph_module, changed or result.modified
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed_at_all = changed_at_all or changed
            if not changed:
                break
        return PassResult(module, changed_at_all)


_facades.settle(__name__)
