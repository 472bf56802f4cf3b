"""The structs of the ops: arguments, defaults, how they run, and the table of all."""
from . import emit_infer
from .ast import Attr, Binary, Call, Guarded, List, Literal, Mistake, Name, walk
from .emit_elements import Elements, emit_program
from .emit_text import Body, function, quote, wrapped
from .schema import TYPES, Default, Type, writes_lists

NAMED_DEFAULTS = {
    "contiguous_format": "{ .tag = TP_FORMAT_VALUE, .i = TP_FORMAT_CONTIGUOUS }", "preserve_format": "{ .tag = TP_FORMAT_VALUE, .i = TP_FORMAT_PRESERVE }",
    "strided": "{ .tag = TP_LAYOUT, .i = 0 }", "long": "{ .tag = TP_DTYPE_VALUE, .i = TP_i64 }", "float": "{ .tag = TP_DTYPE_VALUE, .i = TP_f32 }",
    "Mean": "{ .tag = TP_INT, .i = 1 }", "Sum": "{ .tag = TP_INT, .i = 2 }",
}

DTYPE_NAMES = ("u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c64", "c128", "b8", "bf16")


# The parts of tp_op: column -> member.
PARTS = {
    "work": {name: name for name in ("check", "infer", "infer_sym", "kernel", "open_traced", "reducing")},
    "gradient": {"save": "save", "save_count": "save_count", "backward": "backward", "backward_name": "name", "backward_error": "error",
                 "nondifferentiable_results": "nondifferentiable_results", "jvp": "jvp"},
    "rare": {name: name for name in ("hidden_writes", "functional_twin", "functional_map", "same_as", "each", "graphs", "inverse", "onnx")},
}

OWN_MODULES = ("fft_", "linalg_", "special_")       # shown by a module of their own


class Tables:
    """Writes one .c file."""

    def __init__(self, world, prims):
        self.world, self.prims = world, prims
        self.constants, self.constant_text = {}, []
        self.known_rows, self.table_of = {}, {}     # rows -> table that begins with them; (op, "arg" or "result") -> its table
        self.known_samples = {}                     # samples of a try row -> their table
        self.known_parts = {}                       # (part of the struct, its text) -> its table

    # ---- defaults ----
    def fallback(self, arg):
        d, type = arg.default, arg.type
        if d.kind == "none":
            return "{ .tag = TP_NONE }"
        if d.kind == "list" or type.is_list:
            items = list(d.value) if d.kind == "list" else [d] * max(type.length, 1)
            return f"{{ .tag = TP_LIST, .list = (tp_list *){self.list_constant(type, items)} }}"
        return self.one_default(type, d)

    def one_default(self, type, d):
        if d.kind == "bool":
            return f"{{ .tag = TP_BOOL, .b = {'true' if d.value else 'false'} }}"
        if d.kind == "float" or d.kind == "int" and type.base == "float":
            text = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(repr(float(d.value)), repr(float(d.value)))
            return f"{{ .tag = TP_FLOAT, .f = {text} }}"
        if d.kind == "int" and type.base == "MemoryFormat":
            return f"{{ .tag = TP_FORMAT_VALUE, .i = {d.value} }}"
        if d.kind == "int" and type.base == "ScalarType":      # PyTorch's number of the type, which dtype.def follows
            return f"{{ .tag = TP_DTYPE_VALUE, .i = {d.value} }}"
        if d.kind == "int":
            return f"{{ .tag = TP_INT, .i = {d.value if abs(d.value) < 2**31 else f'INT64_C({d.value})'} }}"
        if d.kind == "str":
            return f"{{ .tag = TP_STRING, .string = (tp_string *){self.string_constant(d.value)} }}"
        if d.value in NAMED_DEFAULTS:
            return NAMED_DEFAULTS[d.value]
        raise Mistake(self.where, f"the default '{d.value}' is not known")

    def list_constant(self, type, items):
        rows = ", ".join(self.one_default(type, i) for i in items)
        if rows not in self.constants:
            name = self.constants[rows] = f"list_{len(self.constants)}"
            fill = f"{{ {rows} }}" if items else "{ { .tag = TP_NONE } }"
            self.constant_text.append(f"static const struct {{ tp_count refs; uint32_t count; tp_value item[{max(len(items), 1)}]; }} "
                                      f"{name} = {{ TP_STACK_LIST, {len(items)}, {fill} }};")
        return "&" + self.constants[rows]

    def default_constant(self, value):
        key = "default", value
        if key not in self.constants:
            self.constants[key] = f"default_{len(self.constants)}"
            self.constant_text.append(f"static const tp_value {self.constants[key]} = {value};")
        return "&" + self.constants[key]

    def string_constant(self, text):
        if text not in self.constants:
            name = self.constants[text] = f"text_{len(self.constants)}"
            self.constant_text.append(f"static const struct {{ tp_count refs; uint32_t length; char text[{len(text) + 1}]; }} "
                                      f"{name} = {{ TP_STACK_LIST, {len(text)}, {quote(text)} }};")
        return "&" + self.constants[text]

    # ---- schema tables ----
    def arg_row(self, op, a, is_result=False):
        t = a.type
        parts = [f".name = {quote(a.name)}", f".type = TP_TYPE_{TYPES.get(t.base, 'ANY')}"]
        for flag, on in (("list", t.is_list), ("optional", t.optional), ("items_optional", t.items_optional),
                         ("keyword_only", a.keyword_only), ("written", t.written)):
            if on:
                parts.append(f".{flag} = true")
        if t.alias:
            parts.append(f".alias = '{t.alias[0]}'")
        if t.length:
            parts.append(f".length = {t.length}")
        if not is_result and a.name in op.entry.numbers and t.is_tensor:
            parts.append(".number_allowed = true")
        if a.default is not None:
            parts.append(f".fallback = {self.default_constant(self.fallback(a))}")
        return "    { " + ", ".join(parts) + " },"

    def schema_tables(self, op, wanted=("arg", "result")):
        """Tables of arguments and results. One that begins like another is that other: counts stand in the op."""
        out, self.where = [], op.where
        for what in wanted:
            rows = self.rows(op, what)
            if rows and rows not in self.known_rows:
                longer = self.rows(op.twins["out"], what) if "out" in op.twins and what == "arg" else ()
                given = longer if longer[:len(rows)] == rows else rows
                table = f"{op.symbol}_{what}"
                out += [f"static const tp_arg {table}[] = {{", *given, "};"]
                for n in range(len(given)):
                    self.known_rows.setdefault(given[:n + 1], table)
            if rows:
                self.table_of[op.symbol, what] = self.known_rows[rows]
        return out

    def rows(self, op, what):
        return tuple(self.arg_row(op, a, what == "result") for a in (op.schema.args if what == "arg" else op.schema.results))

    # ---- try rows ----
    def tries(self, op):
        """Tables of sample rows, a table for rows alike; rows for arguments that this variant of the entry does not take as such are kept."""
        model, out, lines = op.entry, [], []
        for n, rows in enumerate(model.tries):
            made = []
            for name, samples in rows:
                i = model.schema.index(name)
                if i < 0:
                    raise Mistake(model.where, f"'try' names '{name}', which is no argument of {model.schema.full}")
                kept = [s for s in samples if not (name in model.scalar_of and s[0] != "literal")]
                if not kept:
                    continue
                given = tuple(f"    {self.sample(s, model.schema.args[i].type)}," for s in kept)
                if given not in self.known_samples:
                    table = self.known_samples[given] = f"{op.symbol}_try{n}_{name}"
                    out += [f"static const tp_sample {table}[] = {{", *given, "};"]
                made.append(f"{{ .arg = {i}, .sample_count = {len(kept)}, .sample = {self.known_samples[given]} }}")
            out.append(f"static const tp_try_row {op.symbol}_rows{n}[] = {{")
            out += [f"    {row}," for row in made]
            out.append("};")
            lines.append(f"{{ .row = {op.symbol}_rows{n}, .row_count = {len(made)} }}")
        if not lines:
            return [], {}
        out.append(f"static const tp_try {op.symbol}_tries[] = {{ {', '.join(lines)} }};")
        return out, {"tries": f"{op.symbol}_tries", "try_count": str(len(lines))}

    def sample(self, s, type):
        if s[0] == "tensor":
            dtype = {"bool": "b8"}.get(s[1], s[1])
            sizes = f".count = {len(s[2])}, .size = {{ {', '.join(map(str, s[2]))} }}" if s[2] else ".count = 0"
            layout = f", .name = {quote(s[3])}" if s[3] else ""
            return f"{{ .kind = TP_SAMPLE_TENSOR, .dtype = TP_{dtype}, {sizes}{layout} }}"
        if s[0] == "of":
            values = ", ".join("INFINITY" if v == float("inf") else "-INFINITY" if v == float("-inf") else "NAN" if v != v else repr(float(v)) for v in s[1])
            return f"{{ .kind = TP_SAMPLE_ELEMENTS, .count = {len(s[1])}, .element = (const double[]){{ {values} }} }}"
        if s[0] == "set":
            if s[1] in DTYPE_NAMES and type.base == "ScalarType":
                return f"{{ .kind = TP_SAMPLE_VALUE, .value = {{ .tag = TP_DTYPE_VALUE, .i = TP_{s[1]} }} }}"
            if s[1] in ("inf", "nan"):
                return f"{{ .kind = TP_SAMPLE_VALUE, .value = {{ .tag = TP_FLOAT, .f = {'INFINITY' if s[1] == 'inf' else 'NAN'} }} }}"
            return f"{{ .kind = TP_SAMPLE_SET, .name = {quote(s[1])} }}"
        return f"{{ .kind = TP_SAMPLE_VALUE, .value = {self.literal(s[1], type)} }}"

    def literal(self, node, type):
        """A literal of a try row, as the constant of its kind."""
        if isinstance(node, List):
            items = tuple(Default("bool" if isinstance(i.value, bool) else "int" if isinstance(i.value, int) else "float", i.value) for i in node.items)
            return f"{{ .tag = TP_LIST, .list = (tp_list *){self.list_constant(type, items)} }}"
        if not isinstance(node, Literal):
            raise Mistake(node.where, "a sample is a tensor, of(…), a name or a literal")
        v = node.value
        if v is None:
            return "{ .tag = TP_NONE }"
        kind = "bool" if isinstance(v, bool) else "int" if isinstance(v, int) else "float" if isinstance(v, float) else "str"
        base = Type(type.base) if type.base == "float" else Type("Scalar")
        return self.one_default(base, Default(kind, v))

    # ---- element-wise ----
    def pointwise(self, op):
        model, symbol = op.entry, op.symbol
        elements = Elements(model, self.world, self.prims)
        lines = model.exprs
        if not lines:           # a kernel does the work; the form only says which tensors make the shape
            first = next(i for i, a in enumerate(model.schema.args) if a.type.is_tensor)
            lines = [Guarded(model.where, None, Name(model.where, model.schema.args[first].name))]
        tree, forms = elements.forms(lines)
        if not forms:
            raise Mistake(model.where, "no formula")
        out, rows = [], []
        for i, (p, result) in enumerate(forms):
            text, row = emit_program(f"{symbol}_form{i}" if len(forms) > 1 else f"{symbol}_form", p, result, model.schema)
            out += text
            rows.append(row)
        out.append(f"static const tp_tile_form {symbol}_forms[] = {{")
        out += [f"    {row}," for row in rows]
        out.append("};")
        select = ""
        if not isinstance(tree, int):
            name, text = emit_infer.emit_select(model, self.world, symbol, tree)
            out.append(text.rstrip("\n"))
            select = f", .select = {name}"
        mask = sum(1 << i for i in emit_infer.promoting(model))
        base = {"promote": "TP_PROMOTE", "float": "TP_PROMOTE_FLOAT", "complex": "TP_PROMOTE_COMPLEX", "into": "TP_PROMOTE_INTO", "same": "TP_PROMOTE_SAME"}
        how = [w for w, _ in model.words if w in base] or ["promote"]
        to = model.word("to")
        target = "TP_DTYPE_NONE"
        if to:
            target = {"bool": "TP_b8", "real": "TP_TO_REAL"}.get(to[0].name, "TP_" + to[0].name)
        rounded = emit_infer.rounded(model)
        body = f".to = {target}, .promoting = {mask:#x}, .rounded = {rounded:#x},\n    .form_count = {len(forms)}, .form = {symbol}_forms{select}"
        if model.column("dtypes"):
            body += emit_infer.pointwise_dtypes(model.column("dtypes"))
        rules = [f".promotion = {base[h]}, {body}" for h in how]
        if model.word("row_major"):
            rules = rules + [rules[0] + ", .row_major = true"] if model.kind_if is not None else [rules[0] + ", .row_major = true"]
        if len(rules) == 2:     # like pointwise float promote if c, float row_major if c: the second while c holds
            out += self.rule_pick(model, symbol, rules)
        else:
            out.append(f"static const tp_pointwise {symbol}_pointwise = {{\n    {rules[0]},\n}};")
        return out

    def rule_pick(self, model, symbol, rules):
        sizes = emit_infer.Rules(model, self.world, Body())
        test = sizes.as_bool(sizes.compile(model.kind_if), model.kind_if)
        sizes.body.add(f"return {test} ? &{symbol}_second : NULL;")
        out = [f"static const tp_pointwise {symbol}_second = {{\n    {rules[1]},\n}};"]
        out.append(emit_infer.finish(f"static const tp_pointwise *{symbol}_pick(const tp_value *arg)", sizes).rstrip("\n"))
        out.append(f"static const tp_pointwise {symbol}_pointwise = {{\n    {rules[0]}, .pick = {symbol}_pick,\n}};")
        return out

    # ---- reductions ----
    def reducing(self, op):
        model, symbol = op.entry, op.symbol
        node, out = model.column("reduce").data["expr"], []
        name, args = (node.name, node.args) if isinstance(node, (Call, Attr)) else (node.name if isinstance(node, Name) else None, [])
        if name is None:
            raise Mistake(node.where, "expected the name of a reduction")
        name = {"amax": "max", "amin": "min"}.get(name, name)
        parameter, constant, form = -1, 0.0, None
        for a in args or []:
            names = {n.name for n in walk(a) if isinstance(n, Name)}
            if any(model.schema.index(n) >= 0 and model.schema.args[model.schema.index(n)].type.is_tensor for n in names):
                form = a
            elif isinstance(a, Binary) and a.op == "??":
                parameter, constant = emit_infer.index_of(model, a.left), float(a.right.value)
            elif isinstance(a, Literal):
                constant = float(a.value)
            else:
                parameter = emit_infer.index_of(model, a)
        dims = [w for w, _ in model.words if isinstance(w, str)]
        dim = model.schema.index(dims[0]) if dims else -1
        keep = model.schema.index(dims[1]) if len(dims) > 1 else -1
        for w in dims:
            if model.schema.index(w) < 0:
                raise Mistake(model.where, f"'like {model.kind}' names '{w}', which is no argument")
        row = [f".reduction = TP_REDUCE_{name}", f".dim = {dim}", f".keepdim = {keep}", f".parameter = {parameter}"]
        if constant:
            row.append(f".constant = {constant!r}")
        if form is not None:
            _, forms = Elements(model, self.world, self.prims).forms([Guarded(node.where, None, form)])
            text, row_form = emit_program(f"{symbol}_form", *forms[0], model.schema)
            out += text + [f"static const tp_tile_form {symbol}_forms[] = {{ {row_form} }};"]
            row.append(f".form = {symbol}_forms")
        out.append(f"static const tp_reducing {symbol}_reducing = {{ {', '.join(row)} }};")
        return out

    # ---- how an op runs ----
    def run_name(self, op):
        model = op.entry
        kernel = model.column("kernel")
        tensors_only = all(r.type.base == "Tensor" and not r.type.is_list for r in op.schema.results)
        first_inplace = (op.base or op).variant == "inplace"
        if on_copies(op):
            return "tp_run_open"
        if kernel and not tensors_only:
            return kernel.data["name"]
        if model.kind == "pointwise" and model.exprs:
            return "tp_run_pointwise"
        if model.column("reduce"):
            return "tp_run_reduction"
        if model.columns_of("results"):
            return "tp_run_list_view"
        if first_inplace and kernel:
            return "tp_run_variant" if op.base else "tp_run_metadata"
        if kernel:
            return "tp_run_kernel" if kernel.data["if"] is None else f"{(op.base or op).symbol}_run"
        if model.column("turns") and op.variant == "functional":
            return "tp_run_turn"
        if (model.kind == "view" or model.word("view")) and emit_infer.has_infer(model):
            return "tp_run_view"
        if model.decomps or model.traced or model.column("each"):
            return "tp_run_open"
        return "tp_run_missing"

    def layers(self, op):
        writes = any(a.type.written for a in op.schema.args)
        pieces = op.schema.name.startswith("unsafe_split")          # they lie in their argument and are none of its views
        return "TP_LAYER_BIT(TP_LAYER_GRAD)" if writes or pieces or op.entry.kind == "view" else None

    def flags(self, op):
        model, out = op.entry, []
        if model.column("core") and op.base is None:
            out.append("TP_OP_CORE")
        if model.column("commutes"):
            out.append("TP_OP_COMMUTES")
        out += sorted({f"TP_OP_{e['kind'].upper()}" for e in model.effects})
        if model.kind == "random" and "TP_OP_RNG" not in out:
            out.append("TP_OP_RNG")
        if model.column("turns"):
            out.append(f"TP_OP_TURNS_{model.column('turns').data['sign'].upper()}")
        alias = model.column("alias")
        if alias and alias.data["how"] != "never":
            out.append(f"TP_OP_ALIAS_{alias.data['how'].upper()}")
        overlap = model.column("overlap")
        if overlap and (op.variant == "out" or op.base is None and op.variant == "inplace"):
            out.append(f"TP_OP_APART_{overlap.data['how'].upper()}")
        out += [f"TP_OP_{w.upper()}" for w in self.faces(op)]
        if any(model.schema.index(n) >= 0 and model.schema.args[model.schema.index(n)].type.is_tensor for n in model.numbers):
            out.append("TP_OP_NUMBERS")
        return " | ".join(out)

    def faces(self, op):
        in_module = op.schema.name.startswith(OWN_MODULES)
        if op.entry.column("face") and not (op.same_as and in_module):
            return [w for w in op.entry.column("face").data["words"] if w != "none"]
        if op.schema.space != "aten":
            return []
        if in_module:
            return ["nn"]
        return ["function"] + (["method"] if op.schema.args and op.schema.args[0].name == "self" else [])

    def hidden_writes(self, op):
        column = op.entry.column("writes")
        return sum(1 << op.entry.schema.index(n) for n in column.data["names"]) if column else 0

    def named_struct(self, op):
        """Another name of an op: a composite that calls it, with its tables."""
        s, same = op.schema, op.same_as
        tables = op if s.args != same.schema.args else same
        out = self.schema_tables(op, ("arg",)) if tables is op else []
        flags = " | ".join([f"TP_OP_{w.upper()}" for w in self.faces(op)] + ["TP_OP_NUMBERS"] * ("TP_OP_NUMBERS" in self.flags(same)))
        fields = [*self.signature(op, tables.symbol if s.args else "", same.symbol), f".kind = TP_LIKE_COMPOSITE, .variant = TP_{op.variant.upper()}",
                  *([f".flags = {flags}"] if flags else []), *self.twin_fields(op)]
        return out + self.struct(op, fields, {"same_as": f"&tp_op_{same.symbol}", "open": "tp_open_named", "run": "tp_run_open"})

    def signature(self, op, args, results):
        """Fields of the schema; args, results: whose tables hold them."""
        s = op.schema
        fields = [f".space = {quote(s.space)}, .name = {quote(s.name)}, .overload = {quote(s.overload)}", f".signature = {quote(s.signature)}"]
        if s.args:
            fields.append(f".arg = {self.table_of[args, 'arg']}")
        if s.results:
            fields.append(f".result = {self.table_of[results, 'result']}")
        return fields + [f".arg_count = {len(s.args)}, .positional_count = {sum(not a.keyword_only for a in s.args)}, .result_count = {len(s.results)}"]

    def parts(self, op, fields):
        """Of the columns, those that stand in parts of the struct become tables (ops/op.h); equal ones are one table."""
        out, text = [], []
        for part, names in PARTS.items():
            given = tuple(f".{member} = {fields[field]}" for field, member in names.items() if field in fields)
            table = self.known_parts.get((part, given), f"{op.symbol}_{part}") if given else f"tp_no_{part}"
            if given and (part, given) not in self.known_parts:
                self.known_parts[part, given] = table
                text += [f"static const tp_{part} {table} = {{", wrapped(given) + ",", "};"]
            out.append(f".{part} = &{table}")
        inside = {field for names in PARTS.values() for field in names}
        return text, [f".{field} = {value}" for field, value in fields.items() if field not in inside] + [", ".join(out)]

    def struct(self, op, fields, columns):
        text, rest = self.parts(op, columns)
        return text + [f"const tp_op tp_op_{op.symbol} = {{"] + [wrapped([f], "    ") + "," for f in fields + rest] + ["};"]

    def twin_fields(self, op):
        fields = []
        if op.base:
            fields.append(f".base = &tp_op_{op.base.symbol}")
        for kind in ("inplace", "out", "functional"):
            other = (op.base or op).twins.get(kind)
            if other is not None and other is not op:
                fields.append(f".{kind} = &tp_op_{other.symbol}")
        if op.base is not None and op.base.variant == "functional":
            fields.append(f".functional = &tp_op_{op.base.symbol}")
        elif op.base is not None and op.base.variant == "inplace":
            fields.append(f".inplace = &tp_op_{op.base.symbol}")
        return fields

    def each_fields(self, op):
        """The op that is called for each member of the lists, and where its arguments come from."""
        said = op.entry.column("each")
        found = self.world.by_full.get("aten::" + said.data["name"] + ("." + said.data["overload"] if said.data["overload"] else ""))
        if found is None:
            raise Mistake(said.where, f"each {said.data['name']}: no such op")
        target = found.twins.get("inplace", found) if op.variant == "inplace" else found
        places = [-1] * len(target.schema.args)
        for i, (slot, name) in enumerate(said.data["args"]):
            places[i if slot is None else found.schema.index(slot)] = op.schema.index(name)
            if op.schema.index(name) < 0 or slot is not None and found.schema.index(slot) < 0:
                raise Mistake(said.where, f"each {said.data['name']}: no argument '{slot or name}'")
        return {"same_as": f"&tp_op_{target.symbol}", "each": f"(const int8_t[]){{ {', '.join(map(str, places))} }}", "open": "tp_open_each"}

    def graphs_field(self, op):
        """Which arguments are functions, and what their graphs are called in a graph."""
        said = op.entry.column("graphs")
        for name, *_ in said.data["pairs"]:
            if op.schema.index(name) < 0:
                raise Mistake(said.where, f"'graphs' names '{name}', which is no argument of {op.schema.full}")
        items = ", ".join(f"{{ {op.schema.index(name)}, TP_GIVES_{gives.upper()}, {quote(prefix)} }}" for name, prefix, gives in said.data["pairs"])
        return (f"&(const tp_graphs){{ .node = {quote(said.data['node'] or op.schema.name)}, .count = {len(said.data['pairs'])}, "
                f".item = {{ {items} }} }}")

    # ---- the struct ----
    def op_struct(self, op, functions):
        """functions: field -> C text, made by the other emitters."""
        model, s = op.entry, op.schema
        base = (op.base or op).symbol
        fields = [*self.signature(op, op.symbol, op.symbol), f".kind = TP_LIKE_{model.kind.upper()}, .variant = TP_{op.variant.upper()}"]
        cast = model.column("autocast")
        if cast:
            fields.append(f".autocast = TP_AUTOCAST_{cast.data['how'].upper()}")
        if self.flags(op):
            fields.append(f".flags = {self.flags(op)}")
        if self.layers(op):
            fields.append(f".layers = {self.layers(op)}")
        fields += self.twin_fields(op)
        columns = {}
        if self.hidden_writes(op):
            columns["hidden_writes"] = f"{self.hidden_writes(op):#x}"
        twin = model.column("functional")
        if twin and op.base is None:
            found = self.world.by_full.get("aten::" + twin.data["twin"])
            columns["functional_map"] = f"{{ {', '.join(str(i) for _, i in twin.data['pairs'])} }}"
            if found:
                columns["functional_twin"] = f"&tp_op_{found.symbol}"
        if model.kind == "pointwise" and (model.exprs or model.column("kernel") and not emit_infer.has_infer(model)):
            columns["pointwise"] = f"&{base}_pointwise"
        if model.column("reduce"):
            columns["reducing"] = f"&{base}_reducing"
        if model.column("each"):
            columns.update(self.each_fields(op))
        if model.column("graphs"):
            columns["graphs"] = self.graphs_field(op)
        columns.update({"open": "tp_open_on_copies"} if on_copies(op) else functions)
        if self.run_name(op) == "tp_run_missing":
            self.world.unrunnable.append(op)
        columns["run"] = self.run_name(op)
        return self.struct(op, fields, columns)


def on_copies(op):
    """A variant of a step over lists: the step runs on copies of what it writes."""
    return op.base is not None and op.variant != "inplace" and writes_lists(op.base.schema)


def sort_key(op):
    return (op.schema.space, op.schema.name)


def emit_table(world):
    """The table of all ops: by space and name, overloads in order of definition."""
    ops = sorted((op for f in world.files for op in f.ops), key=sort_key)
    text = ["/* All ops, sorted by space and name; overloads of one name in order of their definition. */", '#include "gen/ops.h"',
            '#include "ops/registry.h"', "", "const tp_op *const tp_op_table[] = {"]
    text += [f"    &tp_op_{op.symbol}," for op in ops]
    text += ["};", f"const size_t tp_op_table_count = {len(ops)};", ""]
    return "\n".join(text)


def emit_header(world):
    text = ["/* ops.h - every op that an .op file defines, and the C functions that their entries name. */", "#ifndef TP_GEN_OPS_H",
            "#define TP_GEN_OPS_H", "", '#include "ops/hooks.h"', ""]
    for f in world.files:
        text.append(f"/* {f.name} */")
        text += [f"extern const tp_op tp_op_{op.symbol};" for op in f.ops]
        text.append("")
    text += [f"TP_HOOK_{hook}({name});" for name, hook in sorted(world.named.items())]
    return "\n".join(text + ["", "#endif", ""])
