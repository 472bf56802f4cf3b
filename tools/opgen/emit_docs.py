"""docs/ops.md: every op with its schema, types, and what else is known of it."""

HEAD = """# Every op
Written by opgen (`make docs`) from `src/ops/*.op`: {count} overloads of {names} names.
Types are those of the first tensor; *all* where the entry names none. Gradient: *yes* by a formula of its own, *pieces* through its
decomposition, *-* none. Fused: runs as a tile program and may join others in one loop. ONNX: *yes* by an operator or its tile
program, *pieces* through its decomposition. Variants (in-place, `out=`, scalar forms, other names) stand below their entry's line.
"""


def types_of(model):
    column = model.column("dtypes")
    return " ".join(column.data["groups"]) if column else "all"


def way(own, pieces):
    return "yes" if own else "pieces" if pieces else "-"


def row(op):
    m = op.entry
    gradient = way(m.grads or m.derivs, m.kind == "composite")
    fused = m.kind == "pointwise" and bool(m.exprs) or m.kind in ("reduction", "scan") and m.column("reduce") is not None
    onnx = way(m.column("onnx") or m.kind == "pointwise" and m.exprs, m.decomps or m.kind == "composite")
    return f"| `{op.schema.full}` | `{op.schema}` | {types_of(m)} | {gradient} | {'yes' if fused else '-'} | {onnx} |"


def emit_docs(world):
    ops = [op for file in world.files for op in file.ops]
    lines = [HEAD.format(count=len(ops), names=len({op.schema.name for op in ops}))]
    for file in world.files:
        if not file.ops:
            continue
        lines += [f"\n## {file.name.rsplit('/', 1)[-1]}", "| op | schema | types | gradient | fused | ONNX |", "|---|---|---|---|---|---|"]
        entry = None
        for op in file.ops:
            if op.entry.where != entry:
                entry = op.entry.where
                lines.append(row(op))
                others = [o.schema.full for o in file.ops if o.entry.where == entry and o is not op]
                if others:
                    lines.append(f"| | also {', '.join(f'`{name}`' for name in others)} | | | | |")
    return "\n".join(lines) + "\n"
