"""The older pass manager: functions of anything, applied in order."""
import functools
import inspect
import logging

from .infra.pass_manager import this_before_that_pass_constraint

__all__ = ["PassManager", "inplace_wrapper", "log_hook", "loop_pass", "this_before_that_pass_constraint",
           "these_before_those_pass_constraint"]

logger = logging.getLogger(__name__)


def inplace_wrapper(fn):
    """A function that changes its argument, as a pass."""
    @functools.wraps(fn)
    def wrapped(gm, *args, **kwargs):
        fn(gm, *args, **kwargs)
        return gm
    return wrapped


def log_hook(fn, level=logging.INFO):
    """Logs a pass when it runs."""
    @functools.wraps(fn)
    def wrapped(gm, *args, **kwargs):
        result = fn(gm, *args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result
    return wrapped


def loop_pass(base_pass, n_iter=None, predicate=None):
    """A pass applied `n_iter` times, or while the predicate holds."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def wrapped(source):
        done = 0
        while (done < n_iter) if n_iter is not None else predicate(source):
            source = base_pass(source)
            done += 1
        return source
    return wrapped


def _validate_pass_schedule_constraint(constraint, passes):
    for i, first in enumerate(passes):
        for second in passes[i + 1:]:
            if not constraint(first, second):
                raise RuntimeError(f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index {i} "
                                   f"and {second} at index{i} in pass list.")


def these_before_those_pass_constraint(these, those):
    """A constraint between passes that were wrapped."""
    return lambda a, b: not (inspect.unwrap(a) is those and inspect.unwrap(b) is these)


class PassManager:
    """Applies passes in order, after its constraints were checked once."""
    _validated = False

    def __init__(self, passes=None, constraints=None):
        self.passes, self.constraints = passes or [], constraints or []

    @classmethod
    def build_from_passlist(cls, passes):
        return cls(passes)

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes):
        if _passes is None:
            return
        self.passes = [one for one in self.passes if one.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement):
        self.passes = [_replacement if one.__name__ == _target.__name__ else one for one in self.passes]
        self._validated = False

    def validate(self):
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source):
        self.validate()
        for one in self.passes:
            source = one(source)
        return source
