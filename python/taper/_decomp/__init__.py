"""Tables of decompositions: OpOverload -> function. An op's own entry (its `decomp`) serves where Python registered nothing."""
from .. import _C
from .._options import refuse, warn_once
from .._ops import OpOverload, OpOverloadPacket

global_decomposition_table = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def _overloads(op):
    if isinstance(op, OpOverload):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    raise ValueError(f"Found unexpected type {type(op)} for {op}: expected an OpOverload or OpOverloadPacket")


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator: the function is what this op (or these ops) can be written as."""
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be one of post_autograd, pre_autograd, or meta, got {type}")
    refuse("register_decomposition", unsafe=(unsafe, False))

    def register(fn):
        table = global_decomposition_table[type] if registry is None else registry
        for op in aten_op if isinstance(aten_op, (list, tuple)) else [aten_op]:
            for overload in _overloads(op):
                if overload in table:
                    raise RuntimeError(f"multiple registrations for {overload}")
                table[overload] = fn
        return fn

    return register


def _own(overload):
    """The decomposition of the op's own entry, as a function; None: it has none."""
    return overload.decompose if overload._has_decomposition else None


def warn_missing(ops, what):
    """Warns, once of each, that there is no decomposition of these ops."""
    for op in ops:
        warn_once(f"Taper has no decomposition of {op} yet: {what}", stacklevel=4)


def get_decompositions(aten_ops, type="post_autograd"):
    """The table of these ops, by registration or from their entries; ops without either are left out, with a warning."""
    found, missing = _find(aten_ops, type)
    warn_missing(missing, "get_decompositions leaves it out")
    return found


def _find(aten_ops, type="post_autograd"):
    """The table, and the overloads that are missing from it."""
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be one of post_autograd, pre_autograd, or meta, got {type}")
    table = global_decomposition_table[type]
    found, missing = {}, []
    for op in aten_ops:
        functions = {overload: table.get(overload) or (_own(overload) if type == "post_autograd" else None) for overload in _overloads(op)}
        found.update((overload, function) for overload, function in functions.items() if function is not None)
        # Of a packet only the overload that gives new tensors from tensors as they are is asked for by all who ask.
        first = next(iter(functions), None)
        if first is not None and functions[first] is None:
            missing.append(first)
    return found, missing


def remove_decompositions(decompositions, aten_ops):
    for op in aten_ops:
        for overload in _overloads(op):
            decompositions.pop(overload, None)


def _entries():
    """Every op that has a decomposition of its own, composites left out: they are opened anyway."""
    COMPOSITE = 12
    for name in _C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        op = _C._op_overload(space, base, overload)
        if op is not None and op._has_decomposition and op._kind != COMPOSITE:
            yield op


def _core_forms():
    """Core ops have one form of a transposition and of a whole sum."""
    def find(name, overload=""):
        return _C._op_overload("aten", name, overload)

    permute, sums = find("permute"), find("sum", "dim_IntList")
    return {find("t"): lambda x: permute(x, list(range(x.dim()))[::-1]),
            find("transpose", "int"): lambda x, a, b: permute(x, _swapped(x.dim(), a, b)),
            find("sum"): lambda x, *, dtype=None: sums(x, [], dtype=dtype)}


def _swapped(count, a, b):
    order = list(range(count))
    if count:
        order[a], order[b] = order[b], order[a]
    return order


def core_aten_decompositions():
    """What turns every op that is not core into core ones, as far as entries say how. Conjugates stay views."""
    CORE, TURNS = 1, 3 << 13
    table = {op: op.decompose for op in _entries() if not op._flags & (CORE | TURNS)}
    table.update(_core_forms())
    table.update(decomposition_table)
    return table
