"""Which overload a call in a formula means.

Every argument has a price in every slot; the cheapest overload wins. An argument declared Scalar prefers a Scalar slot, a
literal prefers a Tensor slot that takes numbers (`numbers`), as PyTorch's graphs show them. A tie is a mistake."""
from .ast import Mistake

NUMBERS = ("int", "sym", "float", "scalar", "bool")


def slot_price(v, arg, op):
    """Price of value `v` in the slot `arg`; None: it does not go in."""
    t, kind = arg.type, v.kind
    if getattr(v, "missing", False):
        return 0 if t.base == "Tensor" else 3
    if kind == "none":
        return 0 if t.optional or t.base == "Tensor" else None
    if kind == "value":
        return 1
    if t.is_list:
        return list_price(v, arg)
    if t.base == "Tensor":
        if kind == "tensor":
            return 0
        if kind in NUMBERS and arg.name in op.entry.numbers:
            return 0 if v.literal else 2
        return None
    if t.base in ("Scalar", "number"):
        return {"scalar": 0, "int": 1 if v.literal else 0, "float": 1 if v.literal else 0, "sym": 0, "bool": 1}.get(kind)
    if t.base in ("int", "SymInt"):
        return {"int": 0, "sym": 0 if t.base == "SymInt" else 1, "scalar": 2, "bool": 2}.get(kind)
    if t.base == "float":
        return {"float": 0, "int": 1, "scalar": 1}.get(kind)
    same = {"bool": "bool", "str": "str", "ScalarType": "dtype", "MemoryFormat": "format", "Layout": "layout", "Device": "device"}
    if t.base in same:
        return 0 if kind == same[t.base] else None
    return None


def list_price(v, arg):
    t, kind = arg.type, v.kind
    if t.base == "Tensor":
        if kind in ("tensors", "values", "filtered"):
            return 0
        if kind == "list":
            return 0 if all(i.kind in ("tensor", "none") for i in v.items) else None
        return None
    if t.base in ("int", "SymInt"):
        if kind in ("ints", "syms"):
            return 0
        if kind == "list":
            return 0 if all(i.kind in ("int", "sym") for i in v.items) else None
        if kind in ("int", "sym") and t.length:
            return 1
        return 1 if kind == "values" else None
    if t.base == "bool" and kind == "list":
        return 0 if all(i.kind == "bool" for i in v.items) else None
    return 0 if kind in ("values", "list") else None


def match(op, values, keywords):
    """(price, unfilled) of a call, or None."""
    args = op.schema.args
    positional = [a for a in args if not a.keyword_only]
    if len(values) > len(positional):
        return None
    price, filled = 0, set()
    for v, a in zip(values, positional):
        p = slot_price(v, a, op)
        if p is None:
            return None
        price += p
        filled.add(a.name)
    by_name = {a.name: a for a in args}
    for name, v in keywords:
        if name not in by_name or name in filled:
            return None
        p = slot_price(v, by_name[name], op)
        if p is None:
            return None
        price += p
        filled.add(name)
    rest = [a for a in args if a.name not in filled]
    if any(a.default is None and not a.type.optional for a in rest):
        return None
    return price, len(rest)


def resolve(world, name, values, keywords, node, forced=None):
    """The op a call means; None when no file defines the name."""
    candidates = [op for op in world.overloads(name) if op.variant != "out"]
    if not candidates:
        return None
    if forced is not None:
        candidates = [op for op in world.overloads(name) if op.schema.overload == ("" if forced == "default" else forced)]
        if not candidates:
            raise Mistake(node.where, f"{name} has no overload '{forced}'")
        if match(candidates[0], values, keywords) is None:
            raise Mistake(node.where, f"these arguments do not go into {candidates[0].schema}: {kinds(values, keywords)}")
        return candidates[0]
    found = sorted(((match(op, values, keywords), i) for i, op in enumerate(candidates) if match(op, values, keywords)))
    if not found:
        raise Mistake(node.where, f"no overload of {name} takes these arguments: {kinds(values, keywords)}")
    if len(found) > 1 and found[0][0] == found[1][0]:
        names = ", ".join(candidates[i].schema.full for m, i in found if m == found[0][0])
        raise Mistake(node.where, f"a tie between {names}: name the overload")
    return candidates[found[0][1]]


def kinds(values, keywords):
    return ", ".join([v.kind for v in values] + [f"{k} = {v.kind}" for k, v in keywords])
