"""Functions over tensors: decompositions, lists of views, inverses, backward formulas with what they save, forward mode."""
import copy
import re

from .ast import Attr, Binary, Call, CFun, Literal, Mistake, Name, walk
from .emit_infer import Rules, finish, needed_lets
from .emit_values import Val, bare
from .emit_tensors import Lazy, Tensors, tensor
from .emit_text import Body, function, quote, used_prelude
from .model import given_name, node_name

OPEN_HEAD = "(const tp_op *op, const tp_value *arg, tp_value *result)"
SAVES = {"sizes": "SIZES", "strides": "STRIDES", "dtype": "DTYPE", "options": "OPTIONS", "geometry": "GEOMETRY"}


def make_function(head, t, unused=(), lead=()):
    body = Body()
    for word in unused:
        body.add(f"(void){word};")
    for line in lead:
        body.add(line)
    body.add("tp_scope s;")
    body.add("tp_scope_start(&s);")
    for line in used_prelude(t.prelude, t.body):
        body.add(line)
    body.put(t.body)
    return function(head, body)


def use_lets(t, model, nodes):
    """Computes the lets that `nodes` need, in the order of the entry."""
    need = needed_lets(model, nodes)
    for name in model.lets:
        if name in need:
            t.let(name)


def keep_results(t, model, v, node, place="result"):
    """Hands the value of a formula to the caller: one result, several, or a list."""
    n = len(model.schema.results)
    if n == 1:
        t.body.add(f"tp_scope_keep(&s, &{place}[0], {t.to_value(v)});")
        return
    if v.kind == "list" and len(v.items) == n:
        for i, item in enumerate(v.items):
            t.body.add(f"tp_scope_keep(&s, &{place}[{i}], {t.to_value(item)});")
        return
    if v.kind == "results" or getattr(v, "missing", False):
        for i in range(n):
            t.body.add(f"tp_scope_keep(&s, &{place}[{i}], tp_item({v.box}, {i}, &s.failed));")
        return
    raise Mistake(node.where, f"{model.schema.full} has {n} results, this formula gives a thing of kind {v.kind}")


# ---- decompositions ----
def emit_open(model, world, symbol, lines, name, check):
    t = Tensors(model, world, Body())
    uses_op = False
    use_lets(t, model, [x for g in lines for x in (g.test, g.body) if x is not None])
    ended = False
    for g in lines:
        if ended:
            raise Mistake(g.where, "this line is never reached: the one before it has no condition")
        if g.test is not None:
            t.body.open(f"if ({bare(t.as_bool(t.compile(g.test), g.test))})")
        if isinstance(g.body, CFun) and not g.body.args:
            world.hooks.add(g.body.name)
            uses_op = True
            t.body.add(f"return tp_scope_end(&s) && {g.body.name}(op, arg, result);")
        else:
            scope = {k: v for k, v in t.bound[0].items()}
            keep_results(t, model, t.compile(g.body), g.body)
            t.bound[0] = scope
            t.body.add("return tp_scope_end(&s);")
        if g.test is not None:
            t.body.close()
        else:
            ended = True
    if not ended:
        t.body.add(f"(void)tp_scope_fail(&s, TP_ERR_UNIMPLEMENTED, {quote(model.schema.full + ': no decomposition for these arguments')});")
        t.body.add("return tp_scope_end(&s);")
    lead = [f"if (!{check}(arg))", "    return false;"] if check else []
    text = make_function(f"static bool {symbol}_{name}{OPEN_HEAD}", t, [] if uses_op else ["op"], lead)
    if "arg" not in text.split("{", 1)[1]:
        text = text.replace("{\n", "{\n    (void)arg;\n", 1)
    return f"{symbol}_{name}", text


def emit_list_views(model, world, symbol, check):
    """`results k < n : view`: the opening makes the pieces one by one."""
    (column,) = model.columns_of("results")
    d = column.data
    t = Tensors(model, world, Body())
    use_lets(t, model, [d["count"], d["body"]])
    count = t.as_int(t.compile(d["count"]), d["count"])
    t.body.add("tp_values list = { 0 };")
    t.used_names.add("list")
    t.body.add(f"int64_t count = tp_few({bare(count)}, &s.failed);")
    t.body.open("for (int64_t k = 0; k < count && !s.failed; k++)")
    t.bound.append({d["var"]: Val("int", "k")})
    v = t.compile(d["body"])
    t.body.add(f"tp_values_add(&s, &list, {t.to_value(v)});")
    t.bound.pop()
    t.body.close()
    t.body.add("tp_scope_keep(&s, &result[0], tp_scope_values(&s, &list));")
    t.body.add("return tp_scope_end(&s);")
    lead = [f"if (!{check}(arg))", "    return false;"] if check else []
    return f"{symbol}_open", make_function(f"static bool {symbol}_open{OPEN_HEAD}", t, ["op"], lead)


# ---- inverses of views ----
def emit_inverse(model, world, symbol):
    node = model.column("inverse").data["expr"]
    t = Tensors(model, world, Body())
    t.bound[0].update({"base": tensor("tp_of_tensor(base)"), "new": tensor("tp_of_tensor(fresh)"), "k": Val("int", "k")})
    t.bound[0]["result.strides"] = lambda: t.temp(Val("syms", "tp_scope_result_strides(&s, op, arg)"), "strides")
    use_lets(t, model, [node])
    t.body.add(f"tp_scope_keep(&s, out, {t.to_value(t.compile(node))});")
    t.body.add("return tp_scope_end(&s);")
    head = f"static bool {symbol}_inverse(const tp_op *op, const tp_value *arg, tp_tensor *base, tp_tensor *fresh, int64_t k, tp_value *out)"
    text = make_function(head, t)
    unused = [w for w in ("op", "arg", "base", "fresh", "k") if not uses(text, w)]
    return f"{symbol}_inverse", text.replace("{\n", "{\n" + "".join(f"    (void){w};\n" for w in unused), 1)


def uses(text, word):
    return re.search(rf"(?<![\w.>]){word}\b", text.split("{", 1)[1]) is not None


# ---- backward ----
class Backward(Tensors):
    """Reads arguments and results from what was saved; notes what that is, and for whom."""

    def __init__(self, model, world, body):
        super().__init__(model, world, body, "b->saved")
        self.saves, self.readers, self.formula_mask, self.all_undefined = [], [], 0, True

    def save(self, what, index):
        key = (what, index)
        if key not in self.saves:
            self.saves.append(key)
            self.readers.append(0)
        i = self.saves.index(key)
        self.readers[i] |= self.formula_mask
        return f"b->saved[{i}]"

    def argument(self, i):
        a = self.schema.args[i]
        if a.type.is_tensor:
            box = lambda: self.save("ARG", i)
            v = Lazy("tensor", lambda: f"tp_as_tensor({box()})", box,
                     (lambda: f"{self.save('SIZES', i)}.tag != TP_NONE") if a.type.optional else None)
            v.saved = i
            v._box = box
            return v
        if a.type.is_tensors:
            v = Lazy("tensors", lambda: self.save("ARG", i), lambda: self.save("ARG", i))
            v.saved = i
            return v
        box = self.save("ARG", i)
        return self.read_value(a.type, a.name, box, self.prelude)

    def result_value(self, n):
        r = self.schema.results[n]
        if r.type.is_tensors:
            return Val("tensors", self.save("RESULT", n), None, self.save("RESULT", n))
        return tensor(self.save("RESULT", n))

    def on_Name(self, node):
        if self.lookup(node.name) is None:
            if node.name == "result":
                return self.result_value(0)
            if self.schema.index(node.name) < 0 and self.schema.result_index(node.name) >= 0:
                return self.result_value(self.schema.result_index(node.name))
            if node.name == "g":
                return self.gradient(0)
            if node.name == "mask" and self.schema.index("mask") < 0:
                return Val("list", items=[Val("bool", f"(b->wanted >> {i} & 1)") for i in self.group])
        return super().on_Name(node)

    def all_arguments(self):
        """For a piece in C that names none: the gradients of the results, then the arguments."""
        return [f"b->g[{i}]" for i in range(len(self.schema.results))] + super().all_arguments()

    def gradient_index(self, node):
        """0 for `g`, N for g.N and g.NAME; None: no gradient."""
        if isinstance(node, Name) and node.name == "g":
            return 0
        if isinstance(node, Attr) and isinstance(node.of, Name) and node.of.name == "g" and node.args is None:
            i = node.name if isinstance(node.name, int) else self.schema.result_index(node.name)
            return i if i >= 0 else None
        return None

    def raw_gradient(self, node):
        i = self.gradient_index(node)
        return None if i is None else f"b->g[{i}]"

    def gradient(self, i):
        if self.schema.results[i].type.is_tensors:
            return Val("tensors", f"b->g[{i}]", None, f"b->g[{i}]")
        if self.sole_gradient or i in self.guarded:
            return tensor(f"b->g[{i}]", i in self.guarded)
        return self.temp(tensor(f"tp_scope_gradient(&s, b, {i})"), f"g{i}")

    def bound_attr(self, node):
        name = node.of.name
        if name == "arg" and node.args is None and self.schema.index(node.name) >= 0:
            return self.argument(self.schema.index(node.name))
        if name == "g" and self.lookup("g") is None:
            i = self.gradient_index(Attr(node.where, node.of, node.name))
            if i is not None and node.args is None:
                return self.gradient(i)
            return None
        if name == "result" and self.lookup("result") is None and isinstance(node.name, int):
            if node.name >= len(self.schema.results):
                self.fail(node, f"{self.schema.full} has {len(self.schema.results)} results")
            return self.result_value(node.name)
        return super().bound_attr(node)

    def attr_of_tensor(self, node, of):
        i = getattr(of, "saved", None)
        if i is None:
            return super().attr_of_tensor(node, of)
        name = node.name
        if name in ("sizes", "size", "dim", "numel"):
            return self.of_sizes(node, self.save("SIZES", i), "tp_syms_read")
        if name in ("strides", "stride"):
            return self.of_sizes(node, self.save("STRIDES", i), "tp_syms_read")
        if name == "dtype":
            return Val("dtype", f"tp_dtype_read({self.save('DTYPE', i)})")
        if name == "options":
            box = self.save("OPTIONS", i)
            return Val("options", items=[Val("value", f"tp_item({box}, {n}, {self.bad_place})") for n in range(4)])
        if name == "geometry":
            return Val("value", self.save("GEOMETRY", i), None, self.save("GEOMETRY", i))
        if name == "layout":
            return Val("layout", "0")
        if name == "is_complex":
            return Val("bool", f"tp_dtype_is_complex(tp_dtype_read({self.save('DTYPE', i)}))")
        return super().attr_of_tensor(node, of)

    def attr_of_tensors(self, node, of):
        """Of a list of tensors, a list of the sizes of each."""
        i = getattr(of, "saved", None)
        if i is None or node.name != "sizes":
            return super().attr_of_tensors(node, of)
        box = self.save("SIZES", i)
        return Val("value", box, None, box)

    def of_sizes(self, node, box, reader):
        if node.name in ("sizes", "strides"):
            return Lazy("syms", lambda: self.in_prelude(box, node.name), box)
        if node.name in ("size", "stride"):
            at = self.as_int(self.compile(node.args[0]), node)
            return Val("sym", f"tp_sizes_at({box}, {bare(at)}, {self.bad_place})")
        if node.name == "dim":
            return Val("int", f"(int64_t)tp_length({box})")
        return Val("sym", f"tp_sizes_product({box})")

    def in_prelude(self, box, name):
        if box not in self.prelude:
            c = self.fresh(name)
            self.prelude[box] = (c, f"tp_syms {c} = tp_syms_read({box}, 0, {self.bad_place});")
        return self.prelude[box][0]

    def to(self, node, of):
        v = self.compile(node.args[0])
        if v.kind == "options" and v.items[0].kind == "value":
            return self.kept(f"tp_scope_to_options(&s, {of.text}, tp_dtype_read({v.items[0].text}), {v.items[2].text}.device)", "cast")
        return super().to(node, of)


def formulas_of(model):
    """(names, expr) in the order they run: a group at its first name, by name."""
    out = []
    for c in model.grads:
        if c.data["special"] in ("none", "error"):
            continue
        expr = c.data.get("expr")
        if c.data["special"] == "zero":
            expr = Call(c.where, "zeros_like", [Name(c.where, "g")], [])
        out.append((c.data["names"], expr, c))
    for c in model.derivs:
        w, d = c.where, c.data["expr"]
        expr = Binary(w, "*", Name(w, "g"), Call(w, "conj", [d], []))
        out.append(([c.data["name"]], expr, c))
    kept = []
    for names, expr, c in out:
        tensors = [n for n in names if model.schema.args[model.schema.index(n)].type.base == "Tensor"]
        if tensors:
            kept.append((names, expr, c))
    return sorted(kept, key=lambda f: f[0][0])


def emit_backward(model, world, symbol):
    """(function name, text, saves with their readers, mask of differentiable arguments)."""
    formulas = formulas_of(model)
    if not formulas:
        return None
    t = Backward(model, world, Body())
    differentiable = 0
    for names, expr, column in formulas:
        indices = [model.schema.index(n) for n in names]
        mask = sum(1 << i for i in indices if model.schema.args[i].type.base == "Tensor")
        differentiable |= mask
        emit_formula(t, model, names, indices, mask, expr, column)
    t.formula_mask = differentiable
    for what, i in [("ARG", model.schema.index(name)) for name in model.keeps] + [key for key in t.saves if key[0] == "RESULT"]:
        t.save(what, i)         # results are kept whichever gradient is wanted, as PyTorch does
    t.body.add("return tp_scope_end(&s);")
    single = len(model.schema.results) == 1 and not model.schema.results[0].type.is_tensors
    lead = ["if (tp_is_none(b->g[0]))", "    return true;"] if single else []
    text = make_function(f"static bool {symbol}_backward(tp_backward *b)", t, (), lead)
    order = sorted(range(len(t.saves)), key=lambda i: (saved_name(model.schema, *t.saves[i]), i))
    text = re.sub(r"b->saved\[(\d+)\]", lambda m: f"b->saved[{order.index(int(m[1]))}]", text)
    return f"{symbol}_backward", text, [(t.saves[i], t.readers[i]) for i in order], differentiable


def saved_name(schema, what, index):
    """Saved values are looked at in the order of their names, results last: which of several that were written since an error names."""
    return (True, schema.results[index].name) if what == "RESULT" else (False, schema.args[index].name)


def emit_formula(t, model, names, indices, mask, expr, column):
    used = {i for n in walk(expr) for i in [t.gradient_index(n)] if i is not None}
    guarded = {t.gradient_index(n.args[0]) for n in walk(expr) if isinstance(n, Call) and n.name == "defined"} - {None}
    attrs = {id(n.of) for n in walk(expr) if isinstance(n, Attr) and t.gradient_index(n) is not None}
    used = {t.gradient_index(n) for n in walk(expr) if id(n) not in attrs and t.gradient_index(n) is not None}
    single = len(model.schema.results) == 1
    t.guarded, t.sole_gradient, t.group, t.formula_mask = guarded, single or len(used) == 1, indices, mask
    test = f"b->wanted & {mask:#x}" if mask & (mask - 1) else f"b->wanted >> {indices[0]} & 1"
    if not single and used:
        test = f"({test}) && (" + " || ".join(f"b->g[{i}].tag != TP_NONE" for i in sorted(used)) + ")"
    t.body.open(f"if ({test})")
    t.bound.append({})
    outer, t.bound[0] = t.bound[0], dict(t.bound[0])
    use_lets(t, model, [expr])
    v = t.compile(expr)
    if len(indices) == 1:
        t.body.add(f"tp_scope_keep(&s, &b->grad[{indices[0]}], {t.to_value(v)});")
    elif v.kind == "list":
        if len(v.items) != len(indices):
            raise Mistake(column.where, f"{len(indices)} gradients are named, {len(v.items)} are given")
        for i, item in zip(indices, v.items):
            t.body.add(f"tp_scope_keep(&s, &b->grad[{i}], {t.to_value(item)});")
    elif v.kind in ("results", "tensors") or getattr(v, "missing", False):
        for n, i in enumerate(indices):
            t.body.add(f"tp_scope_keep_wanted(&s, b, {i}, {v.box}, {n});")
    elif v.kind != "none":
        raise Mistake(column.where, f"a formula for {len(indices)} inputs gives a thing of kind {v.kind}")
    t.bound.pop()
    t.bound[0] = outer
    t.body.close()


# ---- forward mode ----
class Forward(Tensors):
    def __init__(self, model, world, body):
        super().__init__(model, world, body)

    def on_Name(self, node):
        if node.name == "result" and self.lookup("result") is None:
            return tensor("result[0]")
        if self.lookup(node.name) is None and self.schema.index(node.name) < 0 and self.schema.result_index(node.name) >= 0:
            return tensor(f"result[{self.schema.result_index(node.name)}]")
        return super().on_Name(node)

    def bound_attr(self, node):
        if node.of.name == "t" and self.lookup("t") is None and node.args is None:
            i = self.schema.index(node.name)
            if i < 0:
                self.fail(node, f"'{node.name}' is no argument")
            if self.schema.args[i].type.is_tensors:
                return Val("tensors", f"tangent[{i}]", None, f"tangent[{i}]")
            return self.temp(tensor(f"tp_scope_tangent(&s, arg, tangent, {i})"), "t_" + str(node.name))
        if node.of.name == "result" and isinstance(node.name, int):
            return tensor(f"result[{node.name}]")
        return super().bound_attr(node)

    def raw_gradient(self, node):
        if isinstance(node, Attr) and isinstance(node.of, Name) and node.of.name == "t":
            return f"tangent[{self.schema.index(node.name)}]"
        return None


def emit_jvp(model, world, symbol):
    """(C of the field, function text)."""
    column = model.column("jvp")
    head = f"static bool {symbol}_jvp(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)"
    t = Forward(model, world, Body())
    rule = column.data["rule"] if column else default_jvp(model)
    if rule in ("linear", "product"):
        return linear_jvp(model, symbol, head, rule, column and column.data["names"])
    if rule == "transposed":
        world.hooks.add("tp_j_transposed")
        return "tp_j_transposed", None
    if rule:
        return f"tp_jvp_{rule}", None
    if column:
        exprs = column.data["exprs"]
        if len(exprs) == len(model.schema.results) and isinstance(exprs[0], CFun):
            world.hooks.add(exprs[0].name)
            return exprs[0].name, None
        use_lets(t, model, exprs)
        for i, e in enumerate(exprs):
            if isinstance(e, CFun):
                raise Mistake(e.where, "a C function makes all tangents: name it first")
            t.body.add(f"tp_scope_keep(&s, &out[{i}], {t.to_value(t.compile(e))});")
    elif model.derivs:
        emit_deriv_jvp(t, model)
    else:
        return None, None
    t.body.add("return tp_scope_end(&s);")
    text = make_function(head, t)
    unused = [w for w in ("op", "arg", "tangent", "result") if not uses(text, w)]
    return f"{symbol}_jvp", text.replace("{\n", "{\n" + "".join(f"    (void){w};\n" for w in unused), 1)


def is_zero(column):
    e = column.data.get("expr")
    return column.data["special"] == "zero" or isinstance(e, Call) and e.name == "zeros_like" and isinstance(e.args[0], Name) and e.args[0].name == "g"


def default_jvp(model):
    """What the kind gives: views are linear, element-wise ops and reductions use the formula of the gradient."""
    formulas = [c for c in model.grads if c.data["special"] not in ("none", "error")]
    if model.derivs or not formulas:
        return None
    if all(is_zero(c) for c in formulas):
        return "zero"
    kind = "rows" if model.kind == "reduction" and model.column("reduce") and len(model.schema.results) == 1 else None
    return {"view": "linear", "pointwise": "diagonal"}.get(model.kind, kind)


def linear_jvp(model, symbol, head, rule, names):
    """Numbers among the arguments are constants, of which nothing is left in the tangent."""
    named = names or [n for c in model.grads + model.derivs for n in c.data.get("names") or [c.data["name"]]]
    indices = [model.schema.index(n) for n in named]
    if rule == "linear" and not names and all(model.schema.args[i].type.base == "Tensor" for i in indices):
        return "tp_jvp_linear", None
    call = "tp_jvp_linear_in" if rule == "linear" else "tp_jvp_product"
    mask = sum(1 << i for i in set(indices))
    return f"{symbol}_jvp", f"{head}\n{{\n    (void)result;\n    return {call}(op, {mask:#x}, arg, tangent, out);\n}}\n"


def emit_deriv_jvp(t, model):
    """The sum of t * d over the inputs that have a tangent."""
    t.body.add("tp_value sum = tp_none();")
    t.used_names.add("sum")
    for c in model.derivs:
        i, w = model.schema.index(c.data["name"]), c.where
        if not model.schema.args[i].type.is_tensor:
            continue
        t.body.open(f"if (tangent[{i}].tag != TP_NONE)")
        outer, t.bound[0] = t.bound[0], dict(t.bound[0])
        use_lets(t, model, [c.data["expr"]])
        d = t.compile(c.data["expr"])
        v = t.call_values("mul", [tensor(f"tangent[{i}]"), d], [], c)
        if len(model.derivs) == 1:
            t.body.add(f"sum = {t.to_value(v)};")
        else:
            t.body.add(f"sum = tp_scope_sum(&s, sum, {t.to_value(v)});")
        t.bound[0] = outer
        t.body.close()
    t.body.add("tp_scope_keep(&s, &out[0], sum);")


# ---- batching ----
VMAP_HEAD = "(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)"


def emit_vmap(model, world, symbol):
    """(C of the field, function text): the rule of the `vmap` column, or the default of the kind."""
    column, name = model.column("vmap"), f"{symbol}_vmap"

    def calling(rule, last):
        return name, f"static bool {name}{VMAP_HEAD}\n{{\n    return {rule}(op, arg, batched, size, result, {last});\n}}\n"

    if column is None:
        dims = [model.schema.index(w) for w, _ in model.words if isinstance(w, str) and model.schema.index(w) >= 0]
        if model.kind == "pointwise":
            return "tp_vmap_pointwise", None
        if model.kind in ("reduction", "scan", "rowwise") and dims:
            several = sum(a.type.is_tensor for a in model.schema.args) > 1
            return calling("tp_vmap_align" if several else "tp_vmap_shift", f"{1 << dims[0]:#x}")
        if model.kind != "composite" and any(e["kind"] == "sync" and e["if"] is None for e in model.effects):
            return "tp_vmap_dynamic", None
        return None, None           # the level opens it, or calls it for each member
    d = column.data
    if d["how"] in ("align", "fold", "shift"):
        masks = 0
        for word in d.get("names", ()):
            if model.schema.index(word) < 0:
                raise Mistake(column.where, f"'vmap {d['how']}' names '{word}', which is no argument")
            masks |= 1 << model.schema.index(word)
        return calling(f"tp_vmap_{d['how']}", f"{masks:#x}")
    if d["how"] in ("draw", "loop"):
        return f"tp_vmap_{d['how']}", None
    if d["how"] == "decomp":
        return None, None           # the level opens an op without a rule
    if d["how"] == "error":
        body = "".join(f"    (void){w};\n" for w in ("op", "arg", "batched", "size", "result"))
        text = quote(d["text"].replace("%", "%%"))
        return name, f"static bool {name}{VMAP_HEAD}\n{{\n{body}    return tp_fail(TP_ERR_RUNTIME, {text});\n}}\n"
    if isinstance(d["expr"], CFun):
        world.hooks.add(d["expr"].name)
        return d["expr"].name, None
    return emit_vmap_formula(model, world, name, d["expr"], d["any"])


def emit_vmap_formula(model, world, name, node, any_batched):
    """A formula over the batched first argument; `batch` is the size of its first dim. `any`: right whichever are batched."""
    t = Tensors(model, world, Body())
    t.used_names.add("size")
    t.bound[0]["batch"] = Val("sym", "size")
    keep_results(t, model, t.compile(node), node)
    t.body.add("return tp_scope_end(&s);")
    lead = ["(void)op, (void)batched, (void)size;"] if any_batched else ["if (batched != 1)", "    return tp_vmap_loop(op, arg, batched, size, result);"]
    return name, make_function(f"static bool {name}{VMAP_HEAD}", t, (), lead)


# ---- all of one entry ----
def emit_functions(op, world, functions, opened):
    """Text of the functions over tensors of an entry, and the fields of tp_op they fill."""
    model, symbol, out, fields = op.entry, op.symbol, [], {}
    check = functions.get("check") if model.kind == "composite" or model.columns_of("results") or "infer" in functions or opened else None

    def put(field, made):
        name, text = made
        if text:
            out.append(text.rstrip("\n"))
        if name:
            fields[field] = name

    if model.columns_of("results"):
        put("open", emit_list_views(model, world, symbol, check))
    elif model.decomps:
        put("open", emit_open(model, world, symbol, model.decomps, "open", check))
    if model.traced:
        put("open_traced", emit_open(model, world, symbol, model.traced, "open_traced", check))
    kernel = model.column("kernel")
    if kernel and kernel.data["if"] is not None:
        sizes = Rules(model, world, Body())
        test = sizes.as_bool(sizes.compile(kernel.data["if"]), kernel.data["if"])
        sizes.body.add(f"return {bare(test)} ? tp_run_kernel(op, arg, result) : tp_run_open(op, arg, result);")
        out.append(finish(f"static bool {symbol}_run{OPEN_HEAD}", sizes).rstrip("\n"))
    if model.column("inverse"):
        put("inverse", emit_inverse(model, world, symbol))
    gradient = emit_gradient(model, world, symbol, out)
    error = next((c for c in model.grads if c.data["special"] == "error"), None)
    if error:
        fields["backward_error"] = quote(error.data["text"])
        fields["differentiable"] = f"{sum(1 << model.schema.index(n) for n in error.data['names']):#x}"
    if gradient:
        said = model.column("name")
        given = model.scalar_of and given_name(model, "scalar") or (said.data["name"] if said else node_name(model.schema))
        fields.update(gradient | {"backward_name": quote(given)})
    if model.inplace_grads:
        inplace = copy.copy(model)
        inplace.grads = model.inplace_grads
        fields["inplace"] = emit_gradient(inplace, world, f"{symbol}_inplace", out)
    results = {i for n in model.nograd for i in [nograd_result(model, n)] if i is not None}
    if results:
        fields["nondifferentiable_results"] = f"{sum(1 << i for i in results):#x}"
    put("jvp", emit_jvp(model, world, symbol))
    put("vmap", emit_vmap(model, world, symbol))
    return out, fields


def emit_gradient(model, world, symbol, out):
    """The fields of the gradient's formulas, whose text goes to `out`; None when there are no formulas."""
    made = emit_backward(model, world, symbol)
    if not made:
        return None
    name, text, saves, differentiable = made
    fields = {"backward": name, "differentiable": f"{differentiable:#x}"}
    if saves:
        rows = ", ".join(f"{{ TP_SAVE_{what}, {i}, {readers:#x} }}" for (what, i), readers in saves)
        out.append(f"static const tp_save {symbol}_save[] = {{ {rows} }};")
        fields |= {"save": f"{symbol}_save", "save_count": str(len(saves))}
    out.append(text.rstrip("\n"))
    return fields


def nograd_result(model, name):
    """The index of a result that `nograd` names: result.N, or its name."""
    if name.startswith("result."):
        return int(name[7:])
    i = model.schema.result_index(name)
    if i < 0 and model.schema.index(name) < 0:
        raise Mistake(model.where, f"'nograd' names '{name}', which is neither argument nor result")
    return i if i >= 0 else None


def for_variant(op, shared):
    """The fields a variant takes from its entry: an out form has no gradient, and opens by copying."""
    fields = dict(shared)
    inplace = fields.pop("inplace", {})
    if "backward_error" in fields:
        fields["backward_error"] = fields["backward_error"].replace("{}", op.schema.name)
    if op.base is None:
        return fields
    if op.variant == "inplace" and inplace:
        fields = {name: value for name, value in fields.items() if name not in ("save", "save_count")} | inplace
    for name in ("tries", "try_count"):
        fields.pop(name, None)
    column = op.entry.column("vmap")
    if op.variant == "inplace" and op.entry.kind != "view" and column and column.data["how"] in ("expr", "fold") and \
            not isinstance(column.data.get("expr"), CFun):
        fields.pop("vmap", None)        # such a rule gives a new tensor
    if op.variant == "out":
        for name in ("backward", "backward_name", "backward_error", "save", "save_count", "differentiable", "jvp", "vmap", "inverse",
                     "nondifferentiable_results", "onnx"):
            fields.pop(name, None)
    elif given := given_name(op.entry, op.variant):
        fields["backward_name"] = quote(given)
    if "open" in fields and op.base.variant == "functional":
        fields["open"] = "tp_open_variant"
        fields.pop("open_traced", None)
    return fields
