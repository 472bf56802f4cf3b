"""Entries with their defaults applied: what each column says, and the ops that come from one entry.

An Op is one struct of the table: an entry's own schema (variant None), or one of its variants. A `scalar(…)` variant
is an op of its own, with the columns of its entry read again where the named arguments are numbers."""
import re
from dataclasses import dataclass, field, replace

from . import schema as S
from .ast import Attr, Call, CFun, Column, Entry, Fn, For, Guarded, List, Mistake, Name, Node

DEFAULT_RUN = {"pointwise": "tp_run_pointwise", "reduction": "tp_run_reduction", "scan": "tp_run_reduction",
               "composite": "tp_run_open", "metadata": "tp_run_metadata"}


@dataclass
class Op:
    entry: "EntryModel"
    schema: S.Schema
    variant: str = "functional"     # functional inplace out
    base: "Op" = None
    twins: dict = field(default_factory=dict)       # variant -> Op
    same_as: "Op" = None            # of `named`: the op whose other name this is

    @property
    def symbol(self):
        return self.schema.symbol

    @property
    def where(self):
        return self.entry.where


def camel(name):
    """log1p -> Log1P, max_pool2d -> MaxPool2D, nll_loss_forward -> NllLoss: as PyTorch names its nodes."""
    name = re.sub(r"_forward$", "", name)
    return re.sub(r"(?:^|_|(?<=\d))([a-z])", lambda m: m[1].upper(), name)


def node_name(schema):
    return camel(schema.name.strip("_")) + "Backward0"


def given_name(model, variant):
    """The node's name of a variant (inplace, functional, scalar) that the entry gives it, or None."""
    said = model.column("name")
    return said.data["variants"].get(variant) if said else None


class EntryModel:
    """The columns of one entry for one main schema."""

    def __init__(self, entry, main, scalar_of=()):
        self.where, self.columns, self.schema, self.seldom = entry.where, entry.columns, main, entry.seldom
        self.scalar_of = scalar_of
        self.kind, self.words, self.kind_if = "opaque", [], None
        self.lets, self.order = {}, []
        self.exprs, self.decomps, self.traced = [], [], []
        self.grads, self.inplace_grads, self.derivs = [], [], []
        self.one = {}
        self.nograd, self.numbers, self.keeps, self.effects, self.tries, self.trace = [], [], [], [], [], []
        for column in entry.columns:
            self.read(column)
        self.settle()

    def read(self, c):
        d = c.data
        if c.word == "like":
            self.kind, self.words, self.kind_if = d["kind"], d["words"], d["if"]
            self.one["like"] = c
        elif c.word == "let":
            self.lets[d["let"].name] = d["let"].body
            self.order.append(c)
        elif c.word in ("check", "result", "results"):
            self.order.append(c)
        elif c.word == "expr":
            self.exprs.append(d["guarded"])
        elif c.word == "decomp":
            (self.traced if d["traced"] else self.decomps).append(d["guarded"])
        elif c.word == "grad":
            (self.inplace_grads if d.get("inplace") else self.grads).append(c)
        elif c.word == "deriv":
            self.derivs.append(c)
        elif c.word == "nograd":
            self.nograd += d["names"]
        elif c.word == "numbers":
            self.numbers += d["names"]
        elif c.word == "keeps":
            self.keeps += d["names"]
        elif c.word == "effect":
            self.effects.append(d)
        elif c.word == "try":
            self.tries.append(d["rows"])
        elif c.word == "trace":
            self.trace += d["pairs"]
        elif c.word == "also":
            self.one.setdefault("also", []).extend(d["variants"])
        elif c.word in self.one:
            raise Mistake(c.where, f"a second '{c.word}'")
        else:
            self.one[c.word] = c

    def settle(self):
        for name in self.numbers:
            if self.schema.index(name) < 0:
                raise Mistake(self.where, f"'numbers' names '{name}', which is no argument of {self.schema.full}")
        for c in self.grads + self.inplace_grads:
            for name in c.data["names"]:
                if self.schema.index(name) < 0:
                    raise Mistake(c.where, f"'grad' names '{name}', which is no argument of {self.schema.full}")
        for c in self.derivs:
            if self.schema.index(c.data["name"]) < 0:
                raise Mistake(c.where, f"'deriv' names '{c.data['name']}', which is no argument of {self.schema.full}")
        if self.column("each"):
            self.kind = "composite"
        if self.exprs and self.kind not in ("pointwise", "random"):
            raise Mistake(self.where, f"an 'expr' belongs to an element-wise op, {self.schema.full} is '{self.kind}'")

    def column(self, word):
        return self.one.get(word)

    def columns_of(self, word):
        return [c for c in self.order if c.word == word]

    def word(self, name):
        """The arguments of a word of `like`: promote(self, other) -> [Name, Name]; True when it has none."""
        for word, args in self.words:
            if word == name:
                return True if args is None else args
        return None


def variants_of(entry, base_schema, scalar_of=(), only=None):
    """The ops of an entry for one main schema, base first."""
    model = EntryModel(entry, base_schema, scalar_of)
    inplace_first = base_schema.args and base_schema.args[0].type.written and base_schema.name.endswith("_")
    base = Op(model, base_schema, "inplace" if inplace_first else "functional")
    ops = [base]
    functional = S.make_functional(base_schema) if inplace_first else base_schema
    for v in model.one.get("also", []):
        kind, given = v["kind"], v.get("as")
        if kind in ("scalar", "named", "copy") or only is not None and kind not in only:
            continue
        name, overload = given if given and not scalar_of else (None, None)
        if kind == "inplace":
            made = S.make_inplace(base_schema, name, overload)
        elif kind == "functional":
            made = functional = S.make_functional(base_schema, name, overload)
        elif S.writes_lists(base_schema):
            made = S.make_list_out(base_schema, name, overload)
        else:
            made = S.make_out(functional, name, overload, v["outs"])
        op = Op(model, made, kind, base)
        base.twins[kind] = op
        ops.append(op)
    return ops


def expand(entry):
    """All ops of an entry: main schema with its variants, then each scalar variant with its own."""
    ops = variants_of(entry, entry.schema)
    also = ops[0].entry.one.get("also", [])
    for v in also:
        if v["kind"] != "scalar":
            continue
        for name in v["names"]:
            if entry.schema.index(name) < 0:
                raise Mistake(entry.where, f"scalar({name}): no such argument")
        name, overload = v["as"] or (None, None)
        main = S.make_scalar(entry.schema, v["names"], name, overload)
        ops += variants_of(entry, main, tuple(v["names"]), ("inplace", "out"))
    ops += [op for v in also if v["kind"] == "named" for op in named(entry, v, ops)]
    return ops + [op for v in also if v["kind"] == "copy" for op in expand(copy_entry(entry, v["of"]))]


def named(entry, v, ops):
    """The ops of an entry under another name. An overload given in `named` is for the entry's own schema: its scalar
    variants have none then. special_ names have no in-place form."""
    made, left = {}, set(v["without"])
    for op in ops:
        kind, overload = op.variant, op.schema.overload
        unwanted = {kind, overload} & left.union(["inplace"] if v["name"].startswith("special_") and op.base else [])
        if unwanted or v["overload"] is not None and (op.base or op) is not ops[0]:
            v["without"] = [w for w in v["without"] if w not in unwanted]
            continue
        if v["overload"] is not None:
            given = v["overload"].removeprefix("default")
            overload = given if kind != "out" else given + "_out" if given else "out"
        args = op.schema.args
        if v["args"] is not None:
            if len(v["args"]) != len(ops[0].schema.args):
                raise Mistake(entry.where, f"named {v['name']}: {len(v['args'])} names for {len(ops[0].schema.args)} arguments")
            args = tuple(replace(a, name=n) for a, n in zip(args, v["args"])) + args[len(v["args"]):]
        name = v["name"] + ("_" if kind == "inplace" and op.base else "")
        base = made.get(op.base and op.base.symbol)
        other = Op(op.entry, replace(op.schema, name=name, overload=overload, args=args), kind, base, same_as=op)
        if base:
            base.twins[kind] = other
        made[op.symbol] = other
    if v["without"]:
        raise Mistake(entry.where, f"named {v['name']} without '{v['without'][0]}': there is none")
    return list(made.values())


def copy_entry(entry, of=None):
    """`also copy`: the entry of view_copy from that of view. The same checks, sizes and gradient; the view (or what `of` calls
    it, where the view may fail and a copy may not) is cloned, each piece of a list by itself."""
    w, schema = entry.where, entry.schema
    if not any(c.word == "like" and c.data["kind"] == "view" for c in entry.columns):
        raise Mistake(w, "'also copy' belongs to a view")
    args = [Name(w, a.name) for a in schema.args if not a.keyword_only]
    view = Call(w, of, args, []) if of else Attr(w, Name(w, schema.name), schema.overload, args, []) if schema.overload else \
        Call(w, schema.name, args, [])

    def cloned(x):
        return Call(w, "clone", [x], [("memory_format", Name(w, "contiguous_format"))])

    body = List(w, [For(w, cloned(Name(w, "piece")), "piece", view, None, None)]) if schema.results[0].type.is_tensors else cloned(view)
    columns = [Column(w, "also", {"variants": [{"kind": "out", "names": [], "as": None, "outs": None}]}),
               Column(w, "face", {"words": ["function"]}), Column(w, "like", {"kind": "opaque", "words": [], "if": None}),
               Column(w, "decomp", {"traced": False, "guarded": Guarded(w, None, body)}), Column(w, "vmap", {"how": "decomp"})]
    given = next((c.data["name"] for c in entry.columns if c.word == "name"), None)
    columns.append(Column(w, "name", {"name": (given or node_name(schema)) + "_copy", "variants": {}}))
    for c in entry.columns:
        if c.word == "result":
            columns.append(Column(c.where, "result", dict(c.data, exprs=[Call(e.where, e.name, e.args[:2], []) for e in c.data["exprs"]])))
        elif c.word in ("let", "check", "grad", "onnx"):
            columns.append(c)
        elif c.word == "try" and schema.index("stride") < 0:        # strides of any kind show memory between the samples' elements
            columns.append(c)
    if any(c.word == "grad" for c in columns):
        columns.append(Column(w, "jvp", {"rule": "linear", "names": None}))
    else:
        text = f"derivative for aten::{schema.name}_copy is not implemented"
        columns.append(Column(w, "grad", {"names": [schema.args[0].name], "special": "error", "text": text}))
    return Entry(w, S.make_copy(schema), columns)


class File:
    def __init__(self, name, items):
        self.name = name
        self.entries = [i for i in items if isinstance(i, Entry)]
        self.fns = {i.name: i for i in items if isinstance(i, Fn)}
        self.ops = [op for e in self.entries for op in expand(e)]


class World:
    """All files: ops by name, fns by name."""

    def __init__(self, files):
        self.files, self.by_name, self.by_full, self.fns = files, {}, {}, {}
        symbols = {}
        for f in files:
            for name, fn in f.fns.items():
                if name in self.fns:
                    raise Mistake(fn.where, f"fn {name} is also defined at {self.fns[name].where}")
                self.fns[name] = fn
            for op in f.ops:
                key = f"{op.schema.space}::{op.schema.full}"
                if key in self.by_full:
                    raise Mistake(op.where, f"{op.schema.full} is also defined at {self.by_full[key].where}")
                if op.symbol in symbols:
                    raise Mistake(op.where, f"{op.schema.full} and {symbols[op.symbol].schema.full} have one C name")
                symbols[op.symbol] = self.by_full[key] = op
                self.by_name.setdefault(op.schema.name, []).append(op)
        self.missing = {}           # ops that formulas call and no file defines: name -> first place

    def overloads(self, name, space="aten"):
        """Ops of a name; one that ATen lacks may be our own (`op taper::name`)."""
        found = self.by_name.get(name, [])
        return [op for op in found if op.schema.space == space] or (found if space == "aten" else [])


def names_in(node):
    """Names an expression reads. A C function reads the boxed arguments itself: what is named in its parentheses is for
    the reader."""
    if isinstance(node, CFun):
        return set()
    if isinstance(node, Name):
        return {node.name}
    if isinstance(node, Node):
        node = list(vars(node).values())
    return set().union(*map(names_in, node)) if isinstance(node, (list, tuple)) and node else set()
