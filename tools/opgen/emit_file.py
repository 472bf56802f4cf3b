"""One .op file becomes one .c file."""
import re

from . import emit_formulas, emit_infer, emit_onnx
from .ast import Mistake
from .emit_tables import Tables

HOOKS = {"k": "K", "c": "C", "s": "S", "d": "D", "v": "V", "j": "J", "o": "O"}


def kernel_hook(model):
    """The prototype of a kernel; one whose results are no tensors makes the boxed results itself."""
    tensors = all(r.type.base == "Tensor" and not r.type.is_list for r in model.schema.results)
    return "K" if tensors else "D"


def runs_by_decomposition(model):
    return bool(model.decomps) and not any(model.column(w) for w in ("kernel", "reduce", "turns")) and not model.exprs


def emit_entry(tables, world, op):
    """Functions and tables shared by an op and its variants, then their structs."""
    model, out, functions = op.entry, [], {}
    symbol = op.symbol
    kernel = model.column("kernel")
    if kernel:
        hook = kernel_hook(model)
        world.kernels[kernel.data["name"]] = hook
        if hook == "K":
            functions["kernel"] = kernel.data["name"]
    infer = emit_infer.has_infer(model)
    if model.kind == "pointwise" and (model.exprs or kernel and not infer):
        out += tables.pointwise(op)
        if not infer:
            functions["infer"] = "tp_infer_pointwise"
            functions["infer_sym"] = "tp_infer_pointwise_sym"
    elif tables.run_name(op) in ("tp_run_kernel", "tp_run_reduction", f"{symbol}_run") and not infer:
        raise Mistake(model.where, "a kernel fills results: 'result' must say what they are, as tensor(dtype, sizes, …)")
    if model.column("reduce"):
        out += tables.reducing(op)
    opened = runs_by_decomposition(model)
    if infer and not opened:            # the pieces of what is opened say what they give
        for field, symbolic in (("infer", False), ("infer_sym", True)):
            name, text = emit_infer.emit_infer(model, world, symbol, symbolic)
            if model.seldom and not symbolic and ".unknown = true" not in text:     # the rule on words serves integers, too
                functions[field] = "tp_infer_seldom"
                continue
            functions[field] = name
            out.append(text.rstrip("\n"))
    if (not infer or opened) and (model.columns_of("check") or model.column("dtypes") and not model.exprs):
        name, text = emit_infer.emit_check(model, world, symbol)
        functions["check"] = name
        out.append(text.rstrip("\n"))
    text, more = emit_formulas.emit_functions(op, world, functions, opened)
    out += text
    functions.update(more)
    if model.column("onnx"):
        functions["onnx"], text = emit_onnx.emit_onnx(model, world, symbol)
        if text:
            out.append(text.rstrip("\n"))
    tries, fields = tables.tries(op)
    functions.update(fields)
    return out + tries, functions


def spaced(text):
    """A blank line around functions."""
    text = re.sub(r"\n}\n(?=\S)", "\n}\n\n", text)
    return re.sub(r"(?<=;)\n(?=static \w[\w *]*\([^;{]*\)\n{)", "\n\n", text)


def emit_file(world, file, prims, source):
    tables = Tables(world, prims)
    world.hooks, world.kernels = set(), {}
    parts = []
    shared = {}
    for op in file.ops:
        lines = []
        if op.same_as:
            parts.append(spaced("\n".join(tables.named_struct(op))))
            continue
        if op.base is None:
            lines.append(f"/* ---- {op.schema.full}: from {op.where} ---- */")
            text, shared = emit_entry(tables, world, op)
            lines += text
        lines += tables.schema_tables(op)
        lines += tables.op_struct(op, emit_formulas.for_variant(op, shared))
        parts.append(spaced("\n".join(lines)))
    head = [f"/* From {source}. Written by tools/opgen: change the source, not this file. */", '#include "gen/ops.h"',
            *(['#include "export/onnx/onnx.h"'] if any(op.entry.column("onnx") for op in file.ops) else []), '#include "ops/emit.h"', ""]
    for name in world.hooks:
        world.named[name] = HOOKS[name[3]]
    world.named.update(world.kernels)
    if tables.constant_text:
        head += tables.constant_text + [""]
    return "\n".join(head) + "\n" + "\n\n".join(parts) + "\n"
