"""Which sizes of inputs may vary: Dim, what is derived from it, and how a specification is laid over inputs."""
import enum
import inspect

from .. import _C
from .._dynamo.exc import UserError, UserErrorType
from ..fx.experimental.symbolic_shapes import ConstraintViolationError
from ..utils import _pytree as pytree
from ..utils._sympy.numbers import int_oo

__all__ = ["Dim", "dims", "dynamic_dim", "ShapesCollection", "Constraint", "refine_dynamic_shapes_from_suggested_fixes"]


class _DimHint(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


class Dim:
    """A size that may vary, by name; sizes with the same Dim are equal."""
    AUTO, STATIC, DYNAMIC = _DimHint.AUTO, _DimHint.STATIC, _DimHint.DYNAMIC

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, int_oo if max is None else max
        if not isinstance(name, str):
            raise TypeError(f"Dim name must be a string, got {type(name)}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, high
        self.root, self._factor, self._offset = self, 1, 0

    def fn(self, x):
        """The size for a value of the root."""
        return self._factor * x + self._offset

    def _derive(self, factor, offset):
        made = object.__new__(_DerivedDim)
        made.root, made._factor, made._offset = self.root, factor, offset
        low, high = made.fn(self.root.min), int_oo if self.root.max == int_oo else made.fn(self.root.max)
        if low < 0:
            raise AssertionError(f"Expected min value of {made.__name__} to be >= 0, got {low}")
        made.min, made.max = low, high
        return made

    def __add__(self, other):
        _check_int("add", other)
        return self._derive(self._factor, self._offset + other)

    __radd__ = __add__

    def __sub__(self, other):
        _check_int("substract", other)
        return self._derive(self._factor, self._offset - other)

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. The derived dimension must be increasing.")

    def __mul__(self, other):
        _check_int("multiply", other)
        if other <= 0:
            raise NotImplementedError(f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. "
                                      "(Only increasing linear operations with integer coefficients are supported.)")
        return self._derive(self._factor * other, self._offset * other)

    __rmul__ = __mul__

    def _readable(self, name, low, high):
        parts = [repr(name)]
        if low != 2:
            parts.append(f"min={low}")
        if high != int_oo:
            parts.append(f"max={high}")
        return f"Dim({', '.join(parts)})"

    def __repr__(self):
        return self._readable(self.__name__, self.min, self.max)


class _DerivedDim(Dim):
    """A size that is a linear function of another."""

    @property
    def __name__(self):
        product = self.root.__name__ if self._factor == 1 else f"{self._factor}*{self.root.__name__}"
        if not self._offset:
            return product
        return f"{product} {'+' if self._offset > 0 else '-'} {abs(self._offset)}"

    def __repr__(self):
        return self.__name__


def _check_int(word, value):
    if type(value) is not int:
        raise NotImplementedError(f"Attempted to {word} {value}, where an integer was expected. "
                                  "(Only increasing linear operations with integer coefficients are supported.)")


def dims(*names, min=None, max=None):
    """Several Dims at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class Constraint:
    """A dimension that was marked by dynamic_dim."""

    def __init__(self, tensor, dim):
        self.tensor, self.dim = tensor, dim


def dynamic_dim(t, index, debug_name=None):
    """The older way to mark a dimension."""
    if not isinstance(t, _C.Tensor):
        raise UserError(UserErrorType.DYNAMIC_DIM, f"Expected tensor as input to dynamic_dim but got {type(t)}")
    if t.dim() < 1:
        raise UserError(UserErrorType.DYNAMIC_DIM, "Cannot mark 0-dimension tensors to be dynamic")
    if index >= t.dim():
        raise UserError(UserErrorType.DYNAMIC_DIM, "Expected the dimension passed to dynamic_dim to be in the range "
                                                   f"[0:{t.dim() - 1}] but got {index}, which is out of bounds for the given tensor.")
    return Constraint(t, index)


class ShapesCollection:
    """Specifications by tensor: `collection[tensor] = {0: dim}`; dynamic_shapes lays them over inputs."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, tensor, spec):
        if not isinstance(tensor, _C.Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(tensor)}")
        known = self._shapes.get(id(tensor), (tensor, spec))[1]
        if known != spec:
            raise AssertionError(f"Shapes assigned to tensor are inconsistent: expected {known}, got {spec}")
        self._shapes[id(tensor)] = (tensor, spec)

    def __getitem__(self, tensor):
        return self._shapes.get(id(tensor), (None, {}))[1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        used = set()

        def spec_of(leaf):
            used.add(id(leaf))
            return self._shapes.get(id(leaf), (None, None))[1] if isinstance(leaf, _C.Tensor) else None

        shapes = {name: _mapped(value, spec_of) for name, value in _combine_args(m, args, kwargs).items()}
        if any(key not in used for key in self._shapes):
            raise ValueError("Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                             "passing them as args? Maybe such tensors are contained in classes that were not registered with pytree?")
        return shapes


def _mapped(value, function):
    """Of nested inputs, nested dicts and lists of what the function gives for the leaves."""
    if _is_leaf(value):
        return function(value)
    if isinstance(value, dict):
        return {key: _mapped(child, function) for key, child in value.items()}
    made = [_mapped(child, function) for child in _children(value)]
    return tuple(made) if isinstance(value, tuple) else made


def _is_leaf(value):
    return pytree.tree_structure(value).is_leaf()


def _children(value):
    return pytree.tree_flatten(value, is_leaf=lambda x: x is not value)[0]


def _signature(f):
    return inspect.signature(f.forward if hasattr(f, "forward") else f)


def _combine_args(f, args, kwargs):
    """Argument names, in the order of the signature, and what was given for each."""
    bound = _signature(f).bind(*args, **(kwargs or {})).arguments
    combined = {}
    for name, value in bound.items():
        if _signature(f).parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            combined.update(value)
        else:
            combined[name] = value
    return combined


# ---- laying a specification over inputs ----
def _mismatch(text):
    return UserError(UserErrorType.INVALID_INPUT, text)


def _walk(value, spec, path, found):
    """Appends (leaf, what is said of it) for every leaf, in order."""
    if _is_leaf(value):
        if not isinstance(value, _C.Tensor) and spec not in (None, {}, _DimHint.STATIC, _DimHint.AUTO):
            raise _mismatch(f"Cannot associate shape {spec} specified at `dynamic_shapes{path}` to non-tensor type {type(value)} at "
                            f"`inputs{path}` (expected None)")
        found.append((value, spec))
        return
    if spec is not None and not isinstance(spec, (dict, list, tuple)):
        raise _mismatch(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{path}` is a {type(value)}, "
                        f"but `dynamic_shapes{path}` is not")
    if isinstance(value, dict):
        if spec is not None and (not isinstance(spec, dict) or set(spec) != set(value)):
            raise _mismatch(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{path}` has keys "
                            f"{list(value)}, but `dynamic_shapes{path}` has keys {list(spec) if isinstance(spec, dict) else spec}")
        for key, child in value.items():
            _walk(child, None if spec is None else spec[key], f"{path}[{key!r}]", found)
        return
    children = _children(value)
    if isinstance(spec, dict):
        spec = list(spec.values())
    if spec is not None and len(spec) != len(children):
        raise _mismatch(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{path}` has {len(children)} "
                        f"elements, but `dynamic_shapes{path}` has {len(spec)} elements")
    for i, child in enumerate(children):
        _walk(child, None if spec is None else spec[i], f"{path}[{i}]", found)


def _flat_specs(mod, args, kwargs, dynamic_shapes):
    """What is said of each leaf of (args, kwargs), in their order."""
    count = len(pytree.tree_leaves((args, kwargs)))
    if dynamic_shapes is None or (isinstance(dynamic_shapes, (dict, tuple, list)) and not dynamic_shapes):
        return [None] * count
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    combined = _combine_args(mod, args, kwargs)
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(combined):
            raise _mismatch(f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(combined)} of "
                            f"`inputs`, but here they are {list(dynamic_shapes)}. Alternatively, you could also ignore arg names entirely "
                            "and specify `dynamic_shapes` as a list/tuple matching `inputs`.")
        by_name = dynamic_shapes
    else:
        if len(dynamic_shapes) != len(combined):
            raise _mismatch(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has {len(combined)} "
                            f"elements, but `dynamic_shapes` has {len(dynamic_shapes)} elements")
        by_name = dict(zip(combined, dynamic_shapes))
    parts = {}
    for name, value in combined.items():
        found = []
        _walk(value, by_name[name], f"[{name!r}]", found)
        parts[name] = [spec for _, spec in found]
    flat = []
    for name in _given_names(mod, args, kwargs):
        flat += parts[name]
    return flat


def _given_names(mod, args, kwargs):
    """The names of arguments in the order in which (args, kwargs) are flattened."""
    parameters = list(_signature(mod).parameters.values())
    names = []
    for i in range(len(args)):
        if i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL:
            names.append(parameters[i].name)
        else:
            rest = next(p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL)
            names.append(rest)
            break
    return names + list(kwargs)


# ---- symbols ----
class _Symbols:
    """Makes the symbols of one export: each Dim has one, sizes are expressions of them."""

    def __init__(self, env, error):
        self.env, self.error = env, error
        self.of_name = {}           # name of a root -> (Dim, symbol, [(source, size) of the inputs that have it])
        self.defined = {}           # name -> the first Dim of that name
        self.derived = []           # (Dim, source, size)
        self.range_of = {}          # text of a derived size -> its bounds

    def define(self, dim):
        known = self.defined.setdefault(dim.__name__, dim)
        if known is not dim and (known.min, known.max) != (dim.min, dim.max):
            raise UserError(UserErrorType.INVALID_INPUT, f"Found different definitions {known} and {dim} for the same symbolic dimension")

    def size(self, dim, hint, source):
        """The size of an input, as an expression; derived ones are filled in when all roots are known."""
        if dim is None or dim is _DimHint.STATIC:
            return hint
        if type(dim) is int:
            if dim != hint:
                raise self.error(f"Static shape constraint of {dim} does not match input size of {hint}, for {source}")
            return hint
        if isinstance(dim, _DimHint):
            return self.env._symbol(hint, source, 0, int_oo, False)
        self.define(dim)
        if hint < dim.min or hint > dim.max:
            raise self.error(f"{hint} not in range [{dim.min}, {dim.max}]")
        if isinstance(dim, _DerivedDim):
            return self._derived_size(dim, hint, source)
        fresh = self.env._symbol(hint, source, dim.min, dim.max, False)
        if dim.__name__ not in self.of_name:
            self.of_name[dim.__name__] = (dim, fresh, [(source, hint)])
            return fresh
        _, symbol, uses = self.of_name[dim.__name__]
        if uses[0][1] != hint:
            raise self.error(f"Constraints violated ({dim.__name__})! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                             f"  - The values of {dim.__name__} = {source} and {dim.__name__} = {uses[0][0]} must always be equal.")
        uses.append((source, hint))
        return symbol

    def _derived_size(self, dim, hint, source):
        root = dim.root
        self.define(root)
        known = self.of_name.get(root.__name__)
        if known is None:
            value, rest = divmod(hint - dim._offset, dim._factor)
            if rest:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION,
                                f"Expected shape[{source.rpartition('[')[2][:-1]}] = {hint} of input Tensor to be of the form "
                                f"{dim.__name__}, where {root.__name__} is an integer")
            text = f"(({source} - {dim._offset}) // {dim._factor})"      # no input has this size itself
            known = (root, self.env._symbol(value, text, root.min, root.max, False), [(None, value)])
            self.of_name[root.__name__] = known
        want = dim.fn(known[2][0][1])
        if want != hint:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION,
                            f"Expected input {source} to be equal to {dim.__name__}, where {root.__name__} = {known[2][0][1]}, but got {hint}")
        size = known[1] * dim._factor + dim._offset
        self.range_of[str(size)] = (dim.min, dim.max)
        self.derived.append((dim, source, size))
        return size


def _is_derived(spec):
    return isinstance(spec, _DerivedDim)


def _sizes_of(symbols, tensor, spec, source, later):
    """The sizes of one input; with `later`, derived ones wait (None in their places)."""
    if spec is None:
        return list(tensor.shape)
    if isinstance(spec, _DimHint):
        spec = [spec] * tensor.dim()
    if isinstance(spec, (tuple, list)):
        if len(spec) != tensor.dim():
            raise _mismatch(f"Expected dynamic shape spec {spec} specified at `dynamic_shapes` to have the same length as the actual "
                            f"tensor shape {tensor.shape} of {source} (expected {tensor.dim()}, but got {len(spec)} instead)")
        spec = dict(enumerate(spec))
    sizes = []
    for dim in spec:
        if not 0 <= dim < tensor.dim():
            raise _mismatch(f"Unexpected dimension {dim} in the dynamic shape spec of {source}, a tensor of {tensor.dim()} dimensions")
    for i, hint in enumerate(tensor.shape):
        waits = later is not None and _is_derived(spec.get(i))
        sizes.append(None if waits else symbols.size(spec.get(i), hint, f"{source}.size()[{i}]"))
        if waits:
            symbols.env._symbol(hint, None, spec[i].min, spec[i].max, False)     # takes a number, as every dynamic size does
            later.append((sizes, i, spec[i], hint, f"{source}.size()[{i}]"))
    return sizes


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    raise NotImplementedError("refine_dynamic_shapes_from_suggested_fixes is not implemented in Taper yet")


# ---- Whether tracing needed more of the declared sizes than was declared; the question is answered in C ------------
def check_violations(symbols, keep_complex=False):
    rows = [(name, uses[0][0], symbol, -1) for name, (_, symbol, uses) in symbols.of_name.items()]
    roots = list(symbols.of_name)
    rows += [(dim.__name__, source, size, roots.index(dim.root.__name__)) for dim, source, size in symbols.derived]
    text = _C._export_violations(symbols.env, rows, keep_complex)
    if text is not None:
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text)
