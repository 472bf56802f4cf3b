"""ShapeEnv and the questions one asks of symbolic sizes; expressions and guards themselves are in C."""
import contextlib
import enum
import re
from collections import namedtuple

from ... import _C
from ... import SymBool, SymFloat, SymInt, Tensor
from ...utils._sympy.numbers import int_oo
from ...utils._sympy.value_ranges import Expression, ValueRanges

_LARGEST = 2**63 - 1
_SYMBOLIC = (SymInt, SymFloat, SymBool)


class GuardOnDataDependentSymNode(RuntimeError):
    """A condition on data was asked for while tracing; `cond` is it where the raiser gave it."""

    def __init__(self, *args):
        super().__init__(*args[-1:])
        self.cond = args[0] if len(args) > 1 else None


class ConstraintViolationError(RuntimeError):
    pass


class PendingUnbackedSymbolNotFound(RuntimeError):
    pass


class DimDynamic(enum.Enum):
    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3
    INFER_STRIDE = 4


class StatelessSymbolicContext:
    """How each size of a tensor is to be made symbolic."""

    def __init__(self, dynamic_sizes, dynamic_strides=None, constraint_sizes=None, constraint_strides=None, specialize_on=None,
                 view_base_context=None, shape_ids=None, unbacked_bounds=None):
        none = [None] * len(dynamic_sizes)
        self.dynamic_sizes = dynamic_sizes
        self.dynamic_strides = [DimDynamic.INFER_STRIDE] * len(dynamic_sizes) if dynamic_strides is None else dynamic_strides
        self.constraint_sizes = none if constraint_sizes is None else constraint_sizes
        self.constraint_strides = list(none) if constraint_strides is None else constraint_strides
        self.specialize_on = [[] for _ in dynamic_sizes] if specialize_on is None else specialize_on
        self.view_base_context, self.shape_ids, self.unbacked_bounds = view_base_context, shape_ids, unbacked_bounds


class StatefulSymbolicContext(StatelessSymbolicContext):
    """The same for a tensor that is made fake more than once: it keeps the sizes it got."""

    def __init__(self, dynamic_sizes, dynamic_strides=None, constraint_sizes=None, constraint_strides=None, specialize_on=None,
                 view_base_context=None, tensor_source=None, shape_env_to_source_to_symbol_cache=None):
        super().__init__(dynamic_sizes, dynamic_strides, constraint_sizes, constraint_strides, specialize_on, view_base_context)
        self.tensor_source = tensor_source
        cache = shape_env_to_source_to_symbol_cache
        self.shape_env_to_source_to_symbol_cache = {} if cache is None else cache


StrictMinMaxConstraint = namedtuple("StrictMinMaxConstraint", "warn_only vr")
RelaxedUnspecConstraint = namedtuple("RelaxedUnspecConstraint", "warn_only")
SLoc = namedtuple("SLoc", "framework_loc maybe_user_loc")
ShapeGuard = namedtuple("ShapeGuard", "expr sloc size_oblivious")


class RuntimeAssert(namedtuple("RuntimeAssert", "expr msg stack")):
    def __repr__(self):
        return f"RuntimeAssert(expr={self.expr})"


def _name_of(source):
    if source is None or isinstance(source, str):
        return source or ""
    return source.name() if callable(source.name) else source.name


def _condition(x):
    """Is it a plain condition? Anything else that is no SymBool is a mistake."""
    if isinstance(x, SymBool):
        return False
    if not isinstance(x, bool):
        raise AssertionError(f"Expected bool, got {type(x)}")
    return True


def _bound(low, high):
    return ValueRanges(-int_oo if low == -2**63 else low, int_oo if high >= _LARGEST else high)


def _location(stack):
    return stack and "{}:{} in {}".format(*stack)


class ShapeEnv(_C._ShapeEnvBase):
    """Symbols s0, s1 … for sizes, and what was assumed of them."""

    def __init__(self, *, should_record_events=None, tracked_fakes=None, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True,
                 assume_static_by_default=False, specialize_zero_one=True, duck_shape=None, co_fields=None,
                 prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=False):
        self.tracked_fakes = tracked_fakes
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.assume_static_by_default = assume_static_by_default
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = True if duck_shape is None else duck_shape
        self.prefer_deferred_runtime_asserts_over_guards = prefer_deferred_runtime_asserts_over_guards
        self.should_record_events = bool(should_record_events)
        self.frozen = self.runtime_asserts_frozen = False
        self._ignored = set()               # fresh symbols that nobody waits for
        self._name_data(allow_scalar_outputs, allow_dynamic_output_shape_ops)

    # ---- symbols ----
    def _size(self, value, source, how, constraint=None):
        if how is DimDynamic.STATIC:
            return value
        if how is DimDynamic.UNBACKED:
            made = self._unbacked(0, _LARGEST)
            made._mark_size()
            return made
        low, high = 0, _LARGEST
        if isinstance(constraint, StrictMinMaxConstraint):
            low, high = int(constraint.vr.lower), int(constraint.vr.upper)
            if not low <= value <= high:
                raise ConstraintViolationError(f"{value} not in range [{constraint.vr.lower}, {constraint.vr.upper}]")
        return self._symbol(value, source, low, high, self.duck_shape and how is DimDynamic.DUCK)

    def _sizes_of(self, tensor, source, context):
        usual = DimDynamic.STATIC if self.assume_static_by_default else DimDynamic.DUCK
        dynamic = getattr(context, "dynamic_sizes", None) or [usual] * tensor.dim()
        constraints = getattr(context, "constraint_sizes", None) or [None] * tensor.dim()
        name = _name_of(source)
        return tuple(self._size(size, f"{name}.size()[{dim}]", dynamic[dim], constraints[dim]) for dim, size in enumerate(tensor.shape))

    def create_symbol(self, val, source, dynamic_dim=DimDynamic.DUCK, constraint_dim=None, positive=True,
                      do_not_specialize_zero_one=False, symbolic_context=None):
        backed = dynamic_dim in (DimDynamic.DYNAMIC, DimDynamic.DUCK)
        if backed and positive is None and (do_not_specialize_zero_one or not self.specialize_zero_one or val not in (0, 1)):
            return Expression(self._integer(val, _name_of(source), -2**63, _LARGEST))
        if backed and do_not_specialize_zero_one:
            return Expression(self._integer(val, _name_of(source), 0, _LARGEST))
        return Expression(self._size(val, _name_of(source), dynamic_dim, constraint_dim))

    def create_unspecified_symbol(self, val, source, dynamic_dim=DimDynamic.DUCK, constraint_dim=None, symbolic_context=None):
        """Of a number that is no size: nothing is taken for granted of it."""
        return self.create_symbol(val, source, dynamic_dim, constraint_dim, positive=None, do_not_specialize_zero_one=True)

    def create_unspecified_symint_and_symbol(self, value, source, dynamic_dim):
        return self.create_symintnode(self.create_unspecified_symbol(value, source, dynamic_dim), hint=value, source=source)

    def create_symintnode(self, sym, *, hint, source=None):
        return self._parse(str(sym))

    create_symboolnode = create_symfloatnode = create_symintnode

    def create_unbacked_symint(self, source=None):
        return self._unbacked()

    def create_unbacked_symfloat(self):
        return self._unbacked_float()

    def create_unbacked_symbool(self):
        return self._unbacked(0, 1) == 1

    def create_symbolic_sizes_strides_storage_offset(self, ex, source, *, symbolic_context=None):
        from ..._subclasses.fake_tensor import FakeTensorMode

        sizes = self._sizes_of(ex, source, symbolic_context)
        fake = FakeTensorMode(shape_env=self)._fake(ex, sizes)
        return tuple(fake.shape), fake.stride(), fake.storage_offset()

    def is_unbacked_symint(self, symbol):
        return str(symbol).startswith("u")

    @property
    def unbacked_symint_counter(self):
        return sum(name.startswith("u") for name, *_ in self._symbols)

    @property
    def unbacked_symfloat_counter(self):
        return sum(name.startswith("zuf") for name, *_ in self._symbols)

    @property
    def pending_fresh_unbacked_symbols(self):
        return [self._key(name) for name, *_ in self._symbols if name.startswith(("u", "zuf")) and name not in self._ignored]

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self):
        before = len(self._symbols)
        try:
            yield
        finally:
            self._ignored.update(name for name, *_ in self._symbols[before:])

    def add_var_to_val(self, expr, val):
        self._set_hint(str(expr), val)

    set_unbacked_var_to_val = add_backed_var_to_val = add_var_to_val

    # ---- what is known ----
    @property
    def var_to_range(self):
        return {self._key(name): _bound(low, high) for name, _, low, high, _, _ in self._symbols}

    @property
    def backed_var_to_val(self):
        return {self._key(name): hint for name, hint, *_ in self._symbols if hint is not None}

    var_to_val = backed_var_to_val

    @property
    def var_to_sources(self):
        return {self._key(name): sources for name, *_, sources in self._symbols if sources}

    @property
    def replacements(self):
        return {self._key(name): Expression(to) for name, _, _, _, to, _ in self._symbols if to is not None}

    @property
    def size_like(self):
        return {self._key(name) for name in self._size_like}

    def _key(self, name):
        return Expression(name)

    @property
    def guards(self):
        return [ShapeGuard(Expression(text), SLoc(_location(stack), None), False) for text, _, deferred, _, stack in self._guards if not deferred]

    @property
    def deferred_runtime_asserts(self):
        """By the youngest symbol that each needs."""
        found = {}
        order = {name: i for i, (name, *_) in enumerate(self._symbols)}
        for text, message, deferred, _, stack in self._guards:
            if deferred:
                names = re.findall(r"\bz?uf?\d+\b", text)
                youngest = max(names, key=order.get)
                found.setdefault(self._key(youngest), []).append(RuntimeAssert(Expression(text), message or "", _location(stack)))
        return found

    @property
    def num_deferred_runtime_asserts(self):
        return sum(map(len, self.deferred_runtime_asserts.values()))

    def get_nontrivial_guards(self):
        return [guard.expr for guard in self.guards if str(self._parse(guard.expr)) != "True"]

    def get_pruned_guards(self, symints):
        wanted = {name for size in symints for name in size._symbols}
        return [guard for guard in self.guards if wanted.issuperset(getattr(self._parse(guard.expr), "_symbols", ("",)))]

    def format_guards(self, verbose=False):
        if not verbose:
            return super().format_guards()
        return "\n".join(f" - {guard.expr} ({guard.sloc.framework_loc})" for guard in self.guards)

    # ---- questions ----
    def simplify(self, expr):
        return Expression(str(self._parse(str(expr))))

    replace = simplify

    def evaluate_expr(self, orig_expr, hint=None, fx_node=None, size_oblivious=False, fallback_value=None, *, forcing_spec=False):
        value = self._parse(str(orig_expr))
        if isinstance(value, SymBool):
            return value._of_sizes() if size_oblivious else bool(value) if fallback_value is None else value._guard_or(fallback_value)
        return int(value) if isinstance(value, SymInt) else float(value) if isinstance(value, SymFloat) else value

    def evaluate_symexpr(self, code):
        """The value of a text over the symbols, at their hints."""
        value = self._parse(code)
        return getattr(value, "_hint", value)

    def deserialize_symexpr(self, code):
        return self._parse(code)

    def size_hint(self, expr, *, allow_none=False):
        value = self._parse(str(expr))
        hint = getattr(value, "_hint", value)
        if hint is None and not allow_none:
            return int(value)               # says why there is none
        return hint

    def bound_sympy(self, expr, size_oblivious=False):
        value = self._parse(str(expr))
        return _bound(*value._range) if is_symbolic(value) else ValueRanges(value, value)

    def guard_or_defer_runtime_assert(self, orig_expr, msg, fx_node=None):
        value = self._parse(str(orig_expr))
        return value._expect() if isinstance(value, SymBool) else bool(value)

    def constrain_symbol_range(self, s, compiler_min, compiler_max):
        self._parse(str(s))._narrow(compiler_min, compiler_max)

    def freeze(self):
        self.frozen = True
        self._freeze(True)

    def freeze_runtime_asserts(self):
        self.runtime_asserts_frozen = True

    @contextlib.contextmanager
    def error_on_new_guards(self):
        """Inside, a question that would need a guard is an error."""
        self._refuse_guards(True)
        try:
            yield
        finally:
            self._refuse_guards(False)

    @contextlib.contextmanager
    def suppress_guards(self):
        self._freeze(True)
        try:
            yield
        finally:
            self._freeze(self.frozen)

    # ---- guards as Python ----
    def produce_guards(self, placeholders, sources, *, ignore_static=True, **_):
        """Conditions over the sources of the inputs: what belongs together, what was assumed, and the ranges."""
        names, conditions = {}, []

        def text(value):
            return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), self._python_text(value))

        def track(source, value):
            if not is_symbolic(value) or str(value).lstrip("-").isdigit():
                if not ignore_static:
                    conditions.append(f"{source} == {value}")
            elif str(value) not in names and Expression(value).is_symbol:
                names[str(value)] = source
            else:
                waiting.append((source, value))

        waiting = []
        for placeholder, source in zip(placeholders, sources):
            source = _name_of(source)
            if not isinstance(placeholder, Tensor):
                track(source, placeholder)
                continue
            for dim, size in enumerate(placeholder.shape):
                track(f"{source}.size()[{dim}]", size)
            for dim, stride in enumerate(placeholder.stride()):
                track(f"{source}.stride()[{dim}]", stride)
            track(f"{source}.storage_offset()", placeholder.storage_offset())
        conditions += [f"{source} == {text(value)}" for source, value in waiting]
        for guard in self.guards:
            condition = self._parse(guard.expr)
            if is_symbolic(condition) and names.keys() >= set(condition._symbols):
                conditions.append(text(condition))
        for name, _, low, high, replaced, _ in self._symbols:
            if name in names and replaced is None:
                low, high = f"{low} <= " if low > 0 else "", f" <= {high}" if high < _LARGEST else ""
                conditions += [low + names[name] + high] if low or high else []
        return conditions

    def produce_guards_expression(self, placeholders, *, guards=None, ignore_static=True):
        """The same as one expression over L['t0'], L['t1'] …, or None when nothing is assumed."""
        made = self.produce_guards(placeholders, [f"L['t{i}']" for i in range(len(placeholders))], ignore_static=ignore_static)
        return " and ".join(made) or None

    def evaluate_guards_expression(self, code, args):
        import math

        return eval(code, {"math": math}, {"L": {f"t{i}": arg for i, arg in enumerate(args)}})

    def evaluate_guards_for_args(self, placeholders, args, *, ignore_static=True):
        code = self.produce_guards_expression(placeholders, ignore_static=ignore_static)
        return code is None or self.evaluate_guards_expression(code, args)

    def bind_symbols(self, placeholders, args):
        """{symbol: its value} where the inputs are these."""
        bound = {}
        for placeholder, arg in zip(placeholders, args):
            pairs = zip(placeholder.shape, arg.shape) if isinstance(placeholder, Tensor) else [(placeholder, arg)]
            for size, value in pairs:
                if is_symbolic(size) and Expression(size).is_symbol:
                    bound.setdefault(self._key(str(size)), int(value))
        return bound


# ---- questions about one value ----
def is_symbolic(x):
    return isinstance(x, _SYMBOLIC)


def hint_int(x, fallback=None):
    if not isinstance(x, SymInt):
        return x
    if x._hint is None and fallback is None:
        return int(x)                       # says why there is none
    return fallback if x._hint is None else x._hint


def has_hint(x):
    return not is_symbolic(x) or x._hint is not None


has_guarding_hint = has_hint
guarding_hint_or_throw = hint_int


def optimization_hint(x, fallback=None):
    return hint_int(x, fallback)


def _guarded(kind, symbolic):
    def guard(a):
        if isinstance(a, symbolic):
            return kind(a)
        if type(a) is not kind:
            raise AssertionError(f"Expected {kind.__name__}, got {a}")
        return a

    guard.__name__ = guard.__qualname__ = f"guard_{kind.__name__}"
    return guard


guard_int, guard_float, guard_bool = _guarded(int, SymInt), _guarded(float, SymFloat), _guarded(bool, SymBool)


def guard_scalar(a):
    kind = bool if isinstance(a, (SymBool, bool)) else int if isinstance(a, (SymInt, int)) else float
    if not isinstance(a, (*_SYMBOLIC, bool, int, float)):
        raise AssertionError(f"unrecognized scalar {a}")
    return kind(a)


def _concrete(kind, symbolic):
    def check(a):
        if isinstance(a, symbolic):
            return Expression(a).is_number
        if not isinstance(a, kind):
            raise AssertionError(f"Expected {kind.__name__}, got {type(a)}")
        return True

    check.__name__ = check.__qualname__ = f"is_concrete_{kind.__name__}"
    return check


is_concrete_int, is_concrete_float, is_concrete_bool = _concrete(int, SymInt), _concrete(float, SymFloat), _concrete(bool, SymBool)


def statically_known_true(x):
    return x if _condition(x) else bool(x._known)


def statically_known_false(x):
    return not x if _condition(x) else x._known is False


definitely_true, definitely_false = statically_known_true, statically_known_false


def has_static_value(a):
    return not is_symbolic(a) or a._range[0] == a._range[1]


def guard_size_oblivious(expr):
    return expr if _condition(expr) else expr._of_sizes()


def guard_or_false(a):
    return a if _condition(a) else a._guard_or(False)


def guard_or_true(a):
    return a if _condition(a) else a._guard_or(True)


def expect_true(a, skip=0):
    return a._expect() if isinstance(a, SymBool) else bool(a)


def sym_and(x, *others):
    for other in others:
        x = x & other
    return x


def sym_or(x, *others):
    for other in others:
        x = x | other
    return x


def sym_eq(x, y):
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and sym_and(True, *(sym_eq(a, b) for a, b in zip(x, y)))
    if isinstance(x, (int, SymInt)) and isinstance(y, (int, SymInt)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def constrain_range(a, *, min, max=None):
    low, high = -2**63 if min is None else min, _LARGEST if max is None else max
    if high < low:
        raise ValueError("Maximum value to constrain_as_size can't be less than the specified min value, received min={} and max={}".format(min, max))
    if isinstance(a, SymInt):
        if a._hint is not None and not low <= a._hint <= high:
            raise AssertionError(f"{a._hint} not in {_bound(low, high)}")
        a._narrow(low, high)
    elif not low <= a <= high:
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def _constrain_range_for_size(a, min=None, max=None):
    if not isinstance(a, SymInt):
        raise AssertionError("can only constrain range for SymInt")
    constrain_range(a, min=0 if min is None else min, max=max)
    a._mark_size()


def constrain_unify(a, b):
    if not (a == b if not isinstance(a == b, SymBool) else (a == b)._expect()):
        raise ValueError(f"{a} and {b} cannot be equal")


def _each(value):
    """The numbers inside: of a tensor its sizes, strides and offset."""
    if isinstance(value, Tensor):
        yield from (*value.shape, *value.stride(), value.storage_offset())
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _each(item)
    elif value is not None:
        yield value


def free_symbols(val):
    return {symbol for x in _each(val) if is_symbolic(x) for symbol in Expression(x).free_symbols}


def free_unbacked_symbols(x):
    return {symbol for symbol in free_symbols(x) if symbol.startswith(("u", "zu"))}


def has_free_symbols(val):
    return bool(free_symbols(val))


def has_free_unbacked_symbols(x):
    return bool(free_unbacked_symbols(x))


def has_symbolic_sizes_strides(elem):
    return any(is_symbolic(x) for x in _each(elem))


def is_nested_int(s):
    return False


def fx_placeholder_vals(gm):
    return [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]


def fx_placeholder_targets(gm):
    return [node.target for node in gm.graph.find_nodes(op="placeholder")]


def eval_guards(gm, *args, ignore_static=True):
    return gm.shape_env.evaluate_guards_for_args(fx_placeholder_vals(gm), args, ignore_static=ignore_static)


def bind_symbols(gm, *args):
    return gm.shape_env.bind_symbols(fx_placeholder_vals(gm), args)
