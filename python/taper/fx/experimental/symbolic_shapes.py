"""ShapeEnv and the questions one asks of symbolic sizes; expressions and guards themselves are in C."""
import enum

from ... import _C
from ... import SymBool, SymFloat, SymInt


class GuardOnDataDependentSymNode(RuntimeError):
    pass


class ConstraintViolationError(RuntimeError):
    pass


class DimDynamic(enum.Enum):
    DYNAMIC = 0
    DUCK = 1
    STATIC = 2


class ShapeEnv(_C._ShapeEnvBase):
    """Symbols s0, s1 … for sizes, and what was assumed of them."""

    def __init__(self, *, assume_static_by_default=False, specialize_zero_one=True, duck_shape=True, tracked_fakes=None):
        self.tracked_fakes = tracked_fakes
        self.assume_static_by_default = assume_static_by_default
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = duck_shape

    def _sizes_of(self, tensor, source, context):
        dynamic = getattr(context, "dynamic_sizes", None)
        name = "" if source is None else source if isinstance(source, str) else source.name()
        sizes = []
        for dim, size in enumerate(tensor.shape):
            how = dynamic[dim] if dynamic else DimDynamic.STATIC if self.assume_static_by_default else DimDynamic.DUCK
            if how is DimDynamic.STATIC:
                sizes.append(size)
            else:
                duck = self.duck_shape and how is DimDynamic.DUCK
                sizes.append(self._symbol(size, f"{name}.size()[{dim}]", 0, 2**63 - 1, duck))
        return tuple(sizes)

    def create_unbacked_symint(self):
        return self._unbacked()

    @property
    def guards(self):
        return self._guards

    @property
    def replacements(self):
        return {name: to for name, _, _, _, to, _ in self._symbols if to is not None}

    @property
    def var_to_val(self):
        return {name: hint for name, hint, *_ in self._symbols if hint is not None}

    def freeze(self):
        self._freeze(True)


def is_symbolic(x):
    return isinstance(x, (SymInt, SymFloat, SymBool))


def hint_int(x, fallback=None):
    if not isinstance(x, SymInt):
        return x
    return fallback if x._hint is None else x._hint


def has_hint(x):
    return not is_symbolic(x) or x._hint is not None


def guard_int(x):
    return int(x)


def guard_bool(x):
    return bool(x)


def statically_known_true(x):
    return bool(x._known) if isinstance(x, SymBool) else bool(x)


def definitely_true(x):
    return statically_known_true(x)


def definitely_false(x):
    return x._known is False if isinstance(x, SymBool) else not x


def guard_size_oblivious(x):
    return bool(x)


def free_symbols(x):
    return set(x._symbols) if is_symbolic(x) else set()
