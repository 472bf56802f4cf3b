"""Shape rules, checks and the choice of a form: the C functions that come from `check`, `result`, `let`."""
from .ast import Binary, Call, Cond, Error, Like, List, Literal, Mistake, Name, Order, walk
from .emit_sizes import Sizes
from .emit_values import CLASSES, Val, bare
from .emit_text import Body, function, quote, used_prelude
from .model import names_in

GROUPS = {"float": "TP_ANY_FLOAT", "complex": "TP_ANY_COMPLEX", "integral": "TP_ANY_INTEGRAL", "bool": "TP_ANY_BOOL",
          "half": "TP_ANY_HALF", "real": "TP_ANY_FLOAT | TP_ANY_INTEGRAL"}


def group_mask(column):
    return " | ".join(GROUPS.get(g, f"1 << TP_{g}") for g in column.data["groups"])


def pointwise_dtypes(column):
    """`dtypes` of an element-wise op: of the common type, asked when it runs; a name alone leaves the types to the steps."""
    mask, title = group_mask(column), column.data["message"]
    return (f", .dtypes = {mask}" if mask else "") + (f", .title = {quote(title)}" if title else "")


def finish(head, sizes, tail=(), lead=()):
    """The whole function: arguments it reads, what it computes, how it ends."""
    body = Body()
    for line in lead:
        body.add(line)
    if sizes.uses_bad:
        body.add("bool bad = false;")
    for line in used_prelude(sizes.prelude, sizes.body):
        body.add(line)
    if body.lines:
        body.add("")
    body.put(sizes.body)
    for line in tail:
        body.add(line)
    return function(head, body)


def needed_lets(model, nodes):
    """Names of the lets that `nodes` need, directly or through another let."""
    need, todo = set(), list(nodes)
    while todo:
        for name in names_in(todo.pop()):
            if name in model.lets and name not in need:
                need.add(name)
                todo.append(model.lets[name])
    return need


def fail_statement(sizes, kind, text, args, pad=""):
    values = [sizes.compile(a) for a in args]
    if not values:
        call = f"tp_fail({CLASSES[kind]}, {quote(text.replace('%', '%%'))})"
    else:
        boxed = ", ".join(sizes.owned_value(v) for v in values)
        call = f"tp_fail_with({CLASSES[kind]}, {quote(text)}, {len(values)}, (tp_value[]){{ {boxed} }})"
    return f"return bad ? NULL : {call};" if sizes.uses_bad else f"return {call};"


class Rules(Sizes):
    def owned_value(self, v):
        """A value that the message may release."""
        if v.box:
            return f"tp_value_ref({v.box})"
        if v.kind in ("tensor", "scalar", "tensors"):
            return f"tp_value_ref({self.to_value(v)})"
        return self.to_value(v)

    def borrowed_value(self, v, node):
        """A value that nobody has to release."""
        if not v.box and v.kind in ("str", "ints", "syms"):
            self.fail(node, "a check in C takes arguments, numbers and types")
        return self.to_value(v)

    def check(self, column):
        d = column.data
        if "cfun" in d:
            self.world.hooks.add(d["cfun"].name)
            given = ", ".join(self.borrowed_value(self.compile(a), a) for a in d["args"])
            self.body.add(f"if (!{d['cfun'].name}({f'(tp_value[]){{ {given} }}' if d['args'] else self.read_from}))")
            self.body.add("    return false;")
            return
        test = self.as_bool(self.compile(d["test"]), d["test"])
        self.body.depth += 1
        line, body = self.within(lambda: fail_statement(self, d["kind"], d["text"], d["args"]))
        self.body.depth -= 1
        if body:
            self.body.open(f"if (!({bare(test)}))")
            self.body.put(body)
            self.body.add(line)
            self.body.close()
        else:
            self.body.add(f"if (!({bare(test)}))")
            self.body.add("    " + line)

    def check_dtypes(self, column):
        """`dtypes float complex`: of the first tensor argument."""
        i = next((i for i, a in enumerate(self.schema.args) if a.type.is_tensor and not a.type.optional), None)
        if i is None:
            raise Mistake(column.where, "'dtypes' wants a tensor argument")
        mask = group_mask(column)
        name = column.data["message"] or self.schema.name
        v = self.argument(i)
        self.body.add(f"if (!tp_dtype_among(tp_dtype_of({v.text}), {mask}))")
        self.body.add(f"    return tp_fail_dtype({quote(name)}, tp_dtype_of({v.text}));")

    # ---- one result ----
    def result(self, i, node):
        if isinstance(node, Cond) and isinstance(node.no, Literal) and node.no.value is None:
            self.body.open(f"if ({bare(self.as_bool(self.compile(node.test), node.test))})")
            self.result(i, node.yes)
            self.body.otherwise()
            self.body.add(f"out[{i}].absent = true;")
            self.body.close()
            return
        if not (isinstance(node, Call) and node.name == "tensor"):
            raise Mistake(node.where, "a result is tensor(dtype, sizes, strides, offset = …)")
        prefix = "tp_sym_geometry" if self.symbolic else "tp_geometry"
        dtype = self.as_dtype(self.compile(node.args[0]), node.args[0])
        self.unknown = False
        sizes = self.sized(self.compile(node.args[1]), node.args[1])
        keywords = dict(node.keywords)
        self.body.add(f"{prefix}_start(&out[{i}], {dtype}, &{sizes.text}, {self.device()}, {self.bad_place});")
        if self.unknown or self.asks_data(node.args[1]):
            self.body.add(f"out[{i}].unknown = true;")
        if len(node.args) > 2:
            self.strides(i, node.args[2], prefix)
        if "offset" in keywords:
            self.body.add(f"out[{i}].offset = {self.number(self.compile(keywords['offset']))};")
        elif self.model.kind == "view" or self.model.word("view"):
            t = self.argument(0)
            self.body.add(f"out[{i}].offset = {self.lists}_offset({t.text});")

    def asks_data(self, node):
        """Does a size come from a `let` whose value depends on data?"""
        lets = [self.model.lets[name] for name in needed_lets(self.model, [node])]
        return not self.symbolic and any(isinstance(n, Call) and n.name == "fresh" for e in lets for n in walk(e))

    def strides(self, i, node, prefix):
        if isinstance(node, Cond) and any(isinstance(side, (Like, Order, Call)) for side in (node.yes, node.no)):
            self.body.open(f"if ({bare(self.as_bool(self.compile(node.test), node.test))})")
            self.strides(i, node.yes, prefix)
            self.body.otherwise()
            self.strides(i, node.no, prefix)
            self.body.close()
        elif isinstance(node, Like):
            v = self.compile(node.of)
            if v.kind == "tensors":
                self.body.add(f"{prefix}_like_list(&out[{i}], {v.text});")
            else:
                self.body.add(f"{prefix}_like(&out[{i}], {self.as_tensor(v, node)});")
        elif isinstance(node, Order):
            order = self.as_list(self.compile(node.of), node)
            if order.kind == "syms":            # dims are integers, also where sizes are expressions
                order = self.temp(Val("ints", f"tp_ints_of(&{order.text}, {self.bad_place})"), "order")
            self.body.add(f"{prefix}_order(&out[{i}], &{order.text});")
        elif isinstance(node, Call) and node.name == "channels":
            for a in node.args:
                t = self.compile(a).text
                self.body.add(f"if ({t} && tp_tensor_is_channels_last({t}))")
                self.body.add(f"    {prefix}_channels_last(&out[{i}]);")
        elif isinstance(node, Call) and node.name == "format":
            v = self.compile(node.args[0])
            like = self.as_tensor(self.compile(node.args[1]), node) if len(node.args) > 1 else "NULL"
            self.body.add(f"{prefix}_format(&out[{i}], {self.to_value(v)}, {like}, {self.bad_place});")
        else:
            v = self.sized(self.compile(node), node)
            self.body.add(f"{prefix}_strides(&out[{i}], &{v.text}, {self.bad_place});")

    def device(self):
        """Of the `device` argument if there is one, else of the first tensor."""
        i = self.schema.index("device")
        first = next((j for j, a in enumerate(self.schema.args) if a.type.is_tensor and not a.type.optional), None)
        lists = next((j for j, a in enumerate(self.schema.args) if a.type.is_tensors), None)
        of_tensor = f"tp_device_of({self.argument(first).text})" if first is not None else \
            f"tp_device_of_list(arg[{lists}])" if lists is not None else "(tp_device){ TP_CPU, -1 }"
        return f"tp_device_read(arg[{i}], {of_tensor})" if i >= 0 else of_tensor


def result_exprs(model):
    """The `result` expressions in order of the results, None for what has none."""
    out = [None] * len(model.schema.results)
    for c in model.columns_of("result"):
        if c.data["name"]:
            i = model.schema.result_index(c.data["name"])
            if i < 0:
                raise Mistake(c.where, f"'{c.data['name']}' is no result of {model.schema.full}")
            out[i] = c.data["exprs"][0]
        else:
            if len(c.data["exprs"]) != len(out):
                raise Mistake(c.where, f"{len(c.data['exprs'])} results are given, {model.schema.full} has {len(out)}")
            out = list(c.data["exprs"])
    return out


def has_infer(model):
    exprs = result_exprs(model)
    nothing = bool(model.column("kernel")) and not model.schema.results
    return (bool(exprs) or nothing) and all(is_tensor_rule(e) for e in exprs)


def is_tensor_rule(e):
    """tensor(…), or c ? tensor(…) : none for a result that not every call asks for."""
    return isinstance(e, Call) and e.name == "tensor" or isinstance(e, Cond) and is_tensor_rule(e.yes)


def emit_infer(model, world, symbol, symbolic=False):
    """The shape rule of an op that has `result` columns."""
    exprs = result_exprs(model)
    sizes = Rules(model, world, Body(), symbolic)
    checks = [c.data.get("test") for c in model.columns_of("check")] + \
             [a for c in model.columns_of("check") for a in c.data.get("args", [])]
    need = needed_lets(model, [e for e in exprs + checks if e is not None])
    if model.column("dtypes"):
        sizes.check_dtypes(model.column("dtypes"))
    place = {}
    for i, e in enumerate(exprs):
        place[id(e)] = i
    for c in model.order:
        if c.word == "let" and c.data["let"].name in need and c.data["let"].name not in sizes.bound[0]:
            sizes.let(c.data["let"].name)
        elif c.word == "check":
            sizes.check(c)
        elif c.word == "result":
            for e in c.data["exprs"]:
                sizes.result(place[id(e)], e)
    kind = "tp_sym_geometry" if symbolic else "tp_geometry"
    name = f"{symbol}_infer{'_sym' if symbolic else ''}"
    head = f"static bool {name}(const tp_op *op, const tp_value *arg, {kind} *out)"
    return name, finish(head, sizes, ["return !bad;" if sizes.uses_bad else "return true;"], ["(void)op;"] if exprs else ["(void)op, (void)arg, (void)out;"])


def emit_check(model, world, symbol):
    """The `check` lines of an op whose kind infers its results, or that is a composite."""
    columns = model.columns_of("check")
    dtypes = None if model.exprs else model.column("dtypes")
    opens = model.kind == "composite" or bool(model.columns_of("results"))
    sizes = Rules(model, world, Body(), opens)          # an opening meets symbolic sizes: its checks guard
    nodes = [n for c in columns for n in [c.data.get("test")] + c.data.get("args", []) if n is not None]
    if any(isinstance(n, Name) and n.name == "result" for x in nodes for n in walk(x)):
        bind_common(sizes, model)
    need = needed_lets(model, nodes)
    if dtypes:
        sizes.check_dtypes(dtypes)
    for c in model.order:
        if c.word == "let" and c.data["let"].name in need and c.data["let"].name not in sizes.bound[0]:
            sizes.let(c.data["let"].name)
        elif c.word == "check":
            sizes.check(c)
    name = f"{symbol}_check"
    return name, finish(f"static bool {name}(const tp_value *arg)", sizes, ["return !bad;" if sizes.uses_bad else "return true;"])


def bind_common(sizes, model):
    """`result.dtype` in the checks of an element-wise op: its promoted type, computed where a check asks for it."""
    mask = sum(1 << i for i in promoting(model))
    to_float = "true" if model.word("float") is not None else "false"
    sizes.bound[0]["result.dtype"] = Val("dtype", f"tp_promoted(arg, {mask:#x}, {to_float})")


def promoting(model):
    """Indices of the arguments that promote."""
    for word in ("promote", "float", "complex", "into", "same"):
        args = model.word(word)
        if args is None:
            continue
        if args is not True:
            return [index_of(model, a) for a in args]
        break
    return [i for i, a in enumerate(model.schema.args) if a.type.is_tensor and not a.type.written or i == 0 and a.type.written]


def rounded(model):
    """Mask of the arguments whose numbers are rounded to a half type first: those that promote and are not `wide`, and `narrow` ones."""
    of = {word: {model.schema.index(n) for n in model.column(word).data["names"]} if model.column(word) else set() for word in ("wide", "narrow")}
    if -1 in of["wide"] | of["narrow"]:
        raise Mistake(model.where, f"'wide' or 'narrow' names what is no argument of {model.schema.full}")
    return sum(1 << i for i in set(promoting(model)) - of["wide"] | of["narrow"])


def index_of(model, node):
    i = model.schema.index(node.name) if isinstance(node, Name) else -1
    if i < 0:
        raise Mistake(node.where, f"no such argument of {model.schema.full}")
    return i


def emit_select(model, world, symbol, tree):
    """Which form serves a call: the tree of static conditions as nested ifs."""
    sizes = Rules(model, world, Body())
    sizes.bound[0]["common"] = Val("dtype", "common")
    sizes.used_names.add("common")
    sizes.uses_common = False

    def walk_tree(t):
        if t is None:
            sizes.body.add(f'(void)tp_fail(TP_ERR_UNIMPLEMENTED, "{model.schema.full}: no formula for these arguments");')
            sizes.body.add("return -1;")
        elif isinstance(t, int):
            sizes.body.add(f"return {t};")
        else:
            test, yes, no = t
            sizes.body.open(f"if ({bare(sizes.as_bool(sizes.compile(test), test))})")
            walk_tree(yes)
            sizes.body.close()
            walk_tree(no)
    walk_tree(tree)
    name = f"{symbol}_select"
    text = finish(f"static int {name}(const tp_value *arg, tp_dtype common)", sizes, (), ())
    lines = text.split("\n")
    body = "\n".join(lines[2:])
    lead = [f"    (void){word};" for word in ("arg", "common") if word + "[" not in body and (word == "arg" or "common" not in body)]
    return name, "\n".join(lines[:2] + lead) + "\n" + body
