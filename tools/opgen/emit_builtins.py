"""The built-ins over sizes and dtypes: what a call of each becomes."""
from .ast import Binary, For, Name, Star
from .emit_text import quote
from .emit_values import COMPARE, Val, bare, declare


class Builtins:
    """A part of emit_sizes.Sizes: one method per built-in."""

    def call_has(self, node):
        if isinstance(node.args[0], Name) and self.schema.index(node.args[0].name) >= 0 and self.lookup(node.args[0].name) is None:
            i = self.schema.index(node.args[0].name)
            if not self.schema.args[i].type.optional:
                return Val("bool", "true")
        v = self.compile(node.args[0])
        if v.kind == "none":
            return Val("bool", "false")
        if v.present is None:
            return Val("bool", "true")
        if v.kind == "tensor" and v.present == v.text:
            return Val("bool", f"({v.text} != NULL)")
        return Val("bool", f"({v.present})")

    def call_len(self, node):
        v = self.compile(node.args[0])
        if v.kind in ("ints", "syms"):
            return Val("int", f"{v.text}.count")
        if v.kind == "list":
            return Val("int", str(len(v.items)))
        if v.kind in ("tensors", "values"):
            return Val("int", f"(int64_t)tp_length({v.text})")
        self.fail(node, f"a thing of kind {v.kind} has no length")

    def extreme(self, node, which):
        parts = [self.compile(a) for a in node.args]
        out = parts[0]
        for v in parts[1:]:
            if "sym" in (out.kind, v.kind):
                out = Val("sym", f"tp_sym_{which}({self.as_sym(out).text}, {self.as_sym(v).text})")
            elif {out.kind, v.kind} <= {"int"}:
                out = Val("int", f"tp_int_{which}({bare(out.text)}, {bare(v.text)})")
            else:
                self.fail(node, f"{which} of {out.kind} and {v.kind}")
        return out

    def call_min(self, node):
        return self.extreme(node, "min")

    def call_max(self, node):
        return self.extreme(node, "max")

    def call_wrap(self, node):
        dim, n = (self.as_int(self.compile(a), a) for a in node.args)
        return Val("int", f"tp_wrap({bare(dim)}, {bare(n)}, {self.bad_place})")

    def call_place(self, node):
        """An index counted from the front; -1 where it is out of range."""
        index, n = (self.compile(a) for a in node.args)
        if "sym" in (index.kind, n.kind):
            return Val("sym", f"tp_sym_place({self.as_sym(index).text}, {self.as_sym(n).text}, {self.bad_place})")
        return Val("int", f"tp_int_place({bare(index.text)}, {bare(n.text)})")

    def call_reduced(self, node):
        sizes = self.sized(self.compile(node.args[0]), node)
        dims = self.compile(node.args[1])
        keep = self.as_bool(self.compile(node.args[2]), node.args[2]) if len(node.args) > 2 else "false"
        if dims.kind == "ints" and dims.present:
            pass            # tp_ints_read of none gives an empty list: all dims
        dims = self.as_list(dims, node)
        return self.temp(Val(self.many, f"{self.lists}_reduced(&{sizes.text}, &{dims.text}, {keep}, {self.bad_place})"), "kept")

    def call_broadcast(self, node):
        out = self.sized(self.compile(node.args[0]), node)
        for a in node.args[1:]:
            more = self.sized(self.compile(a), node)
            out = self.temp(Val(self.many, f"{self.lists}_broadcast(&{out.text}, &{more.text}, {self.bad_place})"), "wide")
        return out

    def call_infer_size(self, node):
        sizes = self.sized(self.compile(node.args[0]), node)
        numel = self.number(self.compile(node.args[1]))
        return self.temp(Val(self.many, f"{self.lists}_infer(&{sizes.text}, {numel}, {self.bad_place})"), "sizes")

    def call_expand_size(self, node):
        have, want = (self.sized(self.compile(a), node) for a in node.args)
        return self.temp(Val(self.many, f"{self.lists}_expanded(&{have.text}, &{want.text}, {self.bad_place})"), "sizes")

    def call_view_strides(self, node):
        t = self.as_tensor(self.compile(node.args[0]), node)
        sizes = self.sized(self.compile(node.args[1]), node)
        name = self.fresh("strides")
        self.body.add(f"{self.lists} {name};")
        ok = self.fresh("viewable")
        self.body.add(f"bool {ok} = {self.lists}_view(&{name}, {t}, &{sizes.text}, {self.bad_place});")
        return Val(self.many, name, ok)

    def call_product(self, node):
        v = self.sized(self.compile(node.args[0]), node)
        return Val(self.num, f"{self.lists}_product(&{v.text})")

    def call_known(self, node):
        c = node.args[0]
        if self.symbolic and isinstance(c, Binary) and c.op in COMPARE:
            a, b = self.compile(c.left), self.compile(c.right)
            if "sym" in (a.kind, b.kind):
                return Val("bool", f"(tp_sym_known(tp_sym_{COMPARE[c.op]}({self.as_sym(a).text}, {self.as_sym(b).text})) == TP_YES)")
            return self.compare(c, a, b)
        return self.compile(c)

    def fold(self, node, start, step):
        """sum(…), any(…), all(…), same(…) of `body for x in …`."""
        (f,) = node.args
        return f

    def call_sum(self, node):
        if len(node.args) != 1 or not isinstance(node.args[0], For):
            return self.call_op(node)
        name = self.fresh("sum")
        place = len(self.body.lines)
        kinds = set()

        def each(v):
            kinds.add(v.kind)
            self.body.add(f"{name} = tp_sym_add({name}, {v.text});" if v.kind == "sym" else f"{name} += {bare(v.text)};")
        self.loop(node.args[0], each)
        kind = "sym" if "sym" in kinds else "int"
        self.body.lines.insert(place, "    " * self.body.depth + f"{declare(kind, name)} = {'tp_sym_int(0)' if kind == 'sym' else '0'};")
        return Val(kind, name)

    def quantified(self, node, start, stop):
        if len(node.args) != 1 or not isinstance(node.args[0], For):
            return self.call_op(node)
        name = self.fresh("any" if stop else "all")
        self.body.add(f"bool {name} = {start};")
        f = node.args[0]
        self.loop(f, lambda v: self.body.add(f"{name} = {name} {'||' if stop else '&&'} {self.as_bool(v, f.body)};"))
        return Val("bool", name)

    def call_any(self, node):
        return self.quantified(node, "false", True)

    def call_all(self, node):
        return self.quantified(node, "true", False)

    def call_same(self, node):
        """All equal, and that value."""
        if len(node.args) == 1 and isinstance(node.args[0], For):
            name, first = self.fresh("same"), self.fresh("first")
            place = len(self.body.lines)
            kinds = []

            def each(v):
                kinds.append(v.kind)
                one = self.temp(v, "one")
                self.body.open(f"if ({first})")
                self.body.add(f"{name} = {one.text};")
                self.body.otherwise(f"else if (!({self.compare(node, Val(v.kind, name), one, '==').text}))")
                self.body.add(f"tp_not_same({self.bad_place});")
                self.body.close()
                self.body.add(f"{first} = false;")
            self.loop(node.args[0], each)
            indent = "    " * self.body.depth
            self.body.lines.insert(place, indent + f"bool {first} = true;")
            self.body.lines.insert(place, indent + f"{declare(kinds[0], name)} = {'tp_sym_int(0)' if kinds[0] == 'sym' else '0'};")
            return Val(kinds[0], name)
        values = [self.compile(a) for a in node.args]
        for v in values[1:]:
            self.body.add(f"if (!({self.compare(node, values[0], v, '==').text}))")
            self.body.add(f"    tp_not_same({self.bad_place});")
        return values[0]

    def call_promoted(self, node):
        """The common type of tensors, numbers and lists of tensors."""
        name = self.fresh("common")
        self.body.add(f"tp_common {name} = TP_COMMON_START;")
        for a in node.args:
            of = a.of if isinstance(a, Star) else a
            v = self.compile(of)
            if v.kind == "tensors":
                self.body.add(f"tp_common_add_list(&{name}, {v.text});")
            else:
                self.body.add(f"tp_common_add(&{name}, {self.to_value(v)});")
        return Val("dtype", f"tp_common_dtype(&{name})")

    def call_promote_dtypes(self, node):
        a, b = (self.as_dtype(self.compile(x), x) for x in node.args)
        return Val("dtype", f"tp_dtype_promote({a}, {b})")

    def call_opmath(self, node):
        return Val("dtype", f"tp_dtype_opmath({self.as_dtype(self.compile(node.args[0]), node)})")

    def call_fits(self, node):
        number = self.as_scalar(self.compile(node.args[0]))
        d = self.as_dtype(self.compile(node.args[1]), node)
        return Val("bool", f"(tp_number_is_integral({number.text}) || tp_number_fits({number.text}, {d}))")

    def call_can_cast(self, node):
        a, b = (self.as_dtype(self.compile(x), x) for x in node.args)
        return Val("bool", f"tp_dtype_can_cast({a}, {b})")

    def call_join(self, node):
        v = self.sized(self.compile(node.args[0]), node)
        between = node.args[1].value if len(node.args) > 1 else ", "
        return Val("value", f"tp_value_joined_{v.kind}(&{v.text}, {quote(between)})")

    def call_int(self, node):
        v = self.compile(node.args[0])
        return v if v.kind in ("int", "sym") else Val("int", f"(int64_t){v.text}" if v.kind != "scalar" else f"tp_as_int({v.text})")

    def call_float(self, node):
        v = self.compile(node.args[0])
        if v.kind == "sym":
            return Val("float", f"(double)tp_sym_fixed({v.text}, {self.bad_place})")
        return Val("float", f"tp_as_double({v.text})" if v.kind == "scalar" else f"(double){v.text}")

    def call_fresh(self, node):
        if self.symbolic:
            low, high = (self.as_sym(self.compile(a)).text for a in node.args)
            return Val("sym", f"tp_sym_fresh({low}, {high}, {self.bad_place})")
        self.unknown = True
        return Val("int", "0")

    def call_bytes(self, node):
        return Val("int", f"(int64_t)tp_dtype_bytes({self.as_dtype(self.compile(node.args[0]), node)})")

    def call_distinct(self, node):
        v = self.as_list(self.compile(node.args[0]), node)
        return Val("bool", f"tp_ints_distinct(&{v.text})")

    def call_sorted_dims(self, node):
        """Dims wrapped and in rising order."""
        v = self.as_list(self.compile(node.args[0]), node)
        n = self.as_int(self.compile(node.args[1]), node)
        return self.temp(Val("ints", f"tp_ints_sorted(&{v.text}, {bare(n)}, {self.bad_place})"), "dims")

    def call_inverse_order(self, node):
        v = self.as_list(self.compile(node.args[0]), node)
        return self.temp(Val("ints", f"tp_ints_inverse(&{v.text})"), "order")

    def call_moved_order(self, node):
        n = self.as_int(self.compile(node.args[0]), node)
        a, b = (self.as_list(self.compile(x), node) for x in node.args[1:])
        return self.temp(Val("ints", f"tp_ints_moved({bare(n)}, &{a.text}, &{b.text}, {self.bad_place})"), "order")

    def call_log_number(self, node):
        return Val("scalar", f"tp_number_log({self.as_scalar(self.compile(node.args[0])).text})")

    def call_trailing(self, node):
        return self.compile(node.args[0])
