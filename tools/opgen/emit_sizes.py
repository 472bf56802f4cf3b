"""The meaning over sizes: expressions become C on int64_t (eager) or on tp_sym (symbolic), the same text for both.

Every expression becomes a Val: a kind and a piece of C. Failures are sticky: helpers of ops/emit.h take `bad`, a place
that remembers that something went wrong, and give a harmless value; the function looks at it before it returns. So an
expression stays an expression. Only lists need statements; a branch that needs statements becomes an `if`."""
from .ast import Error, For, List, Literal, Mistake, Name, Star, show
from .emit_builtins import Builtins
from .emit_text import Body, quote
from .emit_values import CLASSES, COMPARE, CTYPE, DTYPES, FORMATS, Val, bare, c_name, declare, simple


class Sizes(Builtins):
    """Compiles expressions of one function. `symbolic`: sizes are tp_sym words."""

    bad = "&bad"

    def __init__(self, model, world, body, symbolic=False):
        self.model, self.world, self.body, self.symbolic = model, world, body, symbolic
        self.schema = model.schema
        self.prelude, self.bound, self.used_names = {}, [{}], set()
        self.read_from = "arg"
        self.uses_bad = False
        self.depth = 0

    # ---- names ----
    def fresh(self, hint="x"):
        name = c_name(hint)
        n = 1
        while name in self.used_names:
            n += 1
            name = f"{c_name(hint)}{n}"
        self.used_names.add(name)
        return name

    def fail(self, node, text):
        raise Mistake(node.where, text)

    def temp(self, val, hint="x"):
        """The value in a variable of its own."""
        if val.text.isidentifier() or val.kind in ("none", "list"):
            return val
        name = self.fresh(hint)
        self.body.add(f"{declare(val.kind, name)} = {val.text};")
        return Val(val.kind, name, val.present, val.box, False, None, val.declared)

    @property
    def bad_place(self):
        self.uses_bad = True
        return self.bad

    def argument(self, i):
        """The i-th argument as a Val; reading it goes to the top of the function, once."""
        a = self.schema.args[i]
        return self.read_value(a.type, a.name, f"{self.read_from}[{i}]", self.prelude)

    def read_value(self, type, name, box, place):
        kind, reader = self.reading(type, box)
        present = f"{box}.tag != TP_NONE" if type.optional else None
        if kind in ("value", "tensors", "scalar", "values"):
            return Val(kind, box, present, box, declared=str(type))
        if name not in place:
            c = self.fresh(name)
            place[name] = (c, f"{declare(kind, c)} = {reader};")
        c = place[name][0]
        if kind == "tensor" and type.optional:
            present = c
        return Val(kind, c, present, box, declared=str(type))

    def reading(self, type, box):
        """(kind, C that unboxes)."""
        base = type.base
        if type.is_list:
            if base == "Tensor":
                return "tensors", box
            if base in ("int", "SymInt"):
                if self.symbolic and base == "SymInt":
                    return "syms", f"tp_syms_read({box}, {type.length}, {self.bad_place})"
                return "ints", f"tp_ints_read({box}, {type.length}, {self.bad_place})"
            return "values", box
        if base == "Tensor":
            return "tensor", f"tp_as_tensor({box})"
        if base == "SymInt" and self.symbolic:
            return "sym", f"tp_sym_read({box})"
        if base in ("int", "SymInt"):
            return "int", f"tp_int_read({box})" if type.optional else f"tp_as_int({box})"
        if base == "float":
            return "float", f"tp_float_read({box})" if type.optional else f"tp_as_double({box})"
        if base == "bool":
            return "bool", f"tp_as_bool({box})"
        if base == "str":
            return "str", f"tp_str_read({box})"
        if base == "ScalarType":
            return "dtype", f"tp_dtype_read({box})"
        if base in ("Scalar", "number"):
            return "scalar", box
        if base == "MemoryFormat":
            return "format", f"tp_format_read({box})"
        return "value", box

    def lookup(self, name):
        for scope in reversed(self.bound):
            if name in scope:
                return scope[name]
        return None

    # ---- statements ----
    def within(self, make):
        """Compiles into a body of its own. Gives (value, body)."""
        outer, self.body = self.body, self.body.capture()
        try:
            value = make()
            return value, self.body
        finally:
            self.body = outer

    def choose(self, test, yes, no, node):
        """test: C text; yes and no: functions that compile a branch."""
        self.body.depth += 1
        a, a_body = self.within(yes)
        b, b_body = self.within(no)
        a, a_body = self.extend(a_body, lambda: self.branch_kind(a, b, node), a)
        b, b_body = self.extend(b_body, lambda: self.branch_kind(b, a, node), b)
        self.body.depth -= 1
        if a.kind == "list" or b.kind == "list":
            self.fail(node, "the branches of this choice are lists of things that are no numbers")
        if not a_body and not b_body and a.kind not in ("ints", "syms"):
            return Val(a.kind, f"({test} ? {a.text} : {b.text})", self.choose_present(test, a, b))
        name = self.fresh("chosen")
        self.body.add(f"{declare(a.kind, name)};")
        self.body.open(f"if ({test})")
        self.body.put(a_body)
        self.body.add(f"{name} = {a.text};")
        self.body.otherwise()
        self.body.put(b_body)
        self.body.add(f"{name} = {b.text};")
        self.body.close()
        present = self.choose_present(test, a, b)
        if a.kind == "tensor":
            present = name
        return Val(a.kind, name, present)

    def extend(self, body, make, value):
        outer, self.body = self.body, body
        try:
            return make(), body
        finally:
            self.body = outer

    def choose_present(self, test, a, b):
        if a.present is None and b.present is None:
            return None
        return f"({test} ? {a.present or 'true'} : {b.present or 'true'})"

    def branch_kind(self, a, b, node):
        """`a` brought to the kind it shares with `b`."""
        kinds = {a.kind, b.kind}
        if a.kind == "list" and all(i.kind in ("int", "sym") for i in a.items):
            return self.as_list(a, node) if b.kind != "syms" else self.as_syms(a, node)
        if a.kind == b.kind:
            return a
        if b.kind == "list" and a.kind in ("ints", "syms"):
            return a if not any(i.kind == "sym" for i in b.items) else self.as_syms(a, node)
        if kinds <= {"int", "sym"}:
            return self.as_sym(a)
        if kinds <= {"ints", "syms"}:
            return self.as_syms(a, node)
        if kinds <= {"int", "float"}:
            return Val("float", a.text if a.kind == "float" else f"(double){a.text}")
        if kinds <= {"int", "float", "scalar", "bool"}:
            return self.as_scalar(a)
        if a.kind == "none" and b.kind == "tensor":
            return Val("tensor", "NULL", "false")
        if b.kind == "none" and a.kind == "tensor":
            return a
        if "none" in kinds and not ({"list"} & kinds):
            other = b.kind if a.kind == "none" else a.kind
            if other in ("dtype",):
                return Val("dtype", "TP_DTYPE_NONE", "false") if a.kind == "none" else a
            if other in ("ints", "syms", "int", "sym", "float", "scalar", "value", "bool"):
                return Val("value", self.to_value(a), a.present if a.kind != "none" else "false")
        self.fail(node, f"the branches of this choice are of different kinds: {a.kind} and {b.kind}")

    # ---- kinds ----
    def as_sym(self, v):
        if v.kind == "sym":
            return v
        if v.kind != "int":
            raise Mistake(v.node.where if v.node else self.model.where, f"a number is wanted, this is of kind {v.kind}")
        return Val("sym", f"tp_sym_int({v.text})", v.present, v.box)

    def as_scalar(self, v):
        if v.kind == "scalar":
            return v
        make = {"int": "tp_int", "float": "tp_float", "bool": "tp_bool"}
        if v.kind == "sym":
            return Val("scalar", f"tp_of_sym({v.text})")
        return Val("scalar", v.box or f"{make[v.kind]}({v.text})")

    def as_int(self, v, node):
        if v.kind == "int":
            return v.text
        if v.kind == "sym":
            return f"tp_sym_fixed({v.text}, {self.bad_place})"
        if v.kind == "scalar":
            return f"tp_as_int({v.text})"
        if v.kind == "bool":
            return v.text
        self.fail(node, f"an integer is wanted, {show(node)} is of kind {v.kind}")

    def as_bool(self, v, node):
        if v.kind == "bool":
            return v.text
        if v.kind == "value" or v.kind == "scalar":
            return f"tp_as_bool({v.text})"
        if v.kind in ("int", "float"):
            return f"({v.text} != 0)"
        if v.kind == "sym":
            return f"tp_guard(tp_sym_ne({v.text}, tp_sym_int(0)), {self.bad_place})"
        self.fail(node, f"a condition is wanted, {show(node)} is of kind {v.kind}")

    def as_list(self, v, node):
        """A list of numbers in a variable."""
        if v.kind in ("ints", "syms"):
            return self.temp(v, "list")
        if v.kind == "none":
            name = self.fresh("empty")
            self.body.add(f"tp_ints {name} = {{ .count = 0 }};")
            return Val("ints", name, "false")
        if v.kind == "list" and all(i.kind in ("int", "sym") for i in v.items):
            v = Val("ints" if all(i.kind == "int" for i in v.items) else "syms", items=v.items)
            name = self.fresh("list")
            t = v.kind
            self.body.add(f"tp_{t} {name} = {{ .count = 0 }};" if not v.items else f"tp_{t} {name};")
            if v.items:
                self.body.add(f"{name}.count = 0;")
            for i in v.items:
                self.body.add(f"tp_{t}_add(&{name}, {i.text if t == 'ints' else self.as_sym(i).text});")
            return Val(t, name)
        if v.kind in ("int", "sym"):
            return self.as_list(Val("list", items=[v]), node)
        self.fail(node, f"a list of numbers is wanted, {show(node)} is of kind {v.kind}")

    def as_syms(self, v, node):
        v = self.as_list(v, node)
        if v.kind == "syms":
            return v
        return self.temp(Val("syms", f"tp_syms_of(&{v.text})", v.present), "list")

    def sized(self, v, node):
        """A list of the kind sizes have in this function."""
        return self.as_syms(v, node) if self.symbolic else self.as_list(v, node)

    def number(self, v):
        """A number of the kind sizes have in this function."""
        return self.as_sym(v).text if self.symbolic else v.text

    @property
    def lists(self):
        return "tp_syms" if self.symbolic else "tp_ints"

    @property
    def num(self):
        return "sym" if self.symbolic else "int"

    @property
    def many(self):
        return "syms" if self.symbolic else "ints"

    def as_dtype(self, v, node):
        if v.kind == "dtype":
            return v.text
        self.fail(node, f"a dtype is wanted, {show(node)} is of kind {v.kind}")

    def as_tensor(self, v, node):
        if v.kind == "tensor":
            return v.text
        if v.kind == "value":
            return f"tp_as_tensor({v.text})"
        if v.kind == "none":
            return "NULL"
        self.fail(node, f"a tensor is wanted, {show(node)} is of kind {v.kind}")

    def to_value(self, v):
        """C text of a tp_value; what it owns is released by the message that takes it."""
        if v.kind == "none":
            return "tp_none()"
        if v.box:
            return v.box
        simple = {"int": "tp_int", "bool": "tp_bool", "float": "tp_float", "dtype": "tp_of_dtype", "sym": "tp_of_sym",
                  "tensor": "tp_of_tensor", "format": "tp_of_format", "device": "tp_of_device"}
        if v.kind in simple:
            return f"{simple[v.kind]}({v.text})"
        if v.kind == "str":
            return f"tp_value_text({v.text})"
        if v.kind in ("ints", "syms"):
            return f"tp_value_of_{v.kind}(&{v.text})"
        if v.kind in ("scalar", "value", "values", "tensors"):
            return v.text
        raise Mistake(self.model.where, f"a thing of kind {v.kind} cannot be handed on")

    # ---- expressions ----
    def compile(self, node):
        method = getattr(self, "on_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{show(node)} has no meaning here")
        v = method(node)
        v.node = node
        return v

    def on_Literal(self, node):
        value = node.value
        if value is None:
            return Val("none")
        if isinstance(value, bool):
            return Val("bool", "true" if value else "false", literal=True)
        if isinstance(value, int):
            return Val("int", str(value) if abs(value) < 2**31 else f"INT64_C({value})", literal=True)
        if isinstance(value, float):
            return Val("float", repr(value), literal=True)
        return Val("str", quote(value), literal=True)

    def on_Name(self, node):
        found = self.lookup(node.name)
        if found is not None:
            return found
        i = self.schema.index(node.name)
        if i >= 0:
            return self.argument(i)
        if node.name in DTYPES:
            return Val("dtype", "TP_" + node.name)
        if node.name in FORMATS:
            return Val("format", FORMATS[node.name])
        if node.name in ("inf", "nan"):
            return Val("float", "INFINITY" if node.name == "inf" else "NAN", literal=True)
        if node.name == "default_dtype":
            return Val("dtype", "(tp_dtype)tp_the_runtime.default_dtype")
        if node.name in self.model.lets:
            return self.let(node.name)
        self.fail(node, f"'{node.name}' is not known here")

    def let(self, name):
        body = self.model.lets[name]
        v = self.compile(body)
        if v.kind in CTYPE and not v.text.isidentifier():
            v = self.temp(v, name)
        self.bound[0][name] = v
        return v

    def on_Cond(self, node):
        test = self.as_bool(self.compile(node.test), node.test)
        return self.choose(test, lambda: self.compile(node.yes), lambda: self.compile(node.no), node)

    def on_Unary(self, node):
        v = self.compile(node.of)
        if node.op == "not":
            if v.text in ("true", "false"):
                return Val("bool", "false" if v.text == "true" else "true")
            return Val("bool", f"!{self.as_bool(v, node.of)}" if v.kind == "bool" and simple(v.text) else f"!({self.as_bool(v, node.of)})")
        if v.kind == "sym":
            return Val("sym", f"tp_sym_neg({v.text})")
        if v.kind in ("int", "float"):
            return Val(v.kind, f"-{v.text}")
        if v.kind == "scalar":
            return Val("scalar", f"tp_number_negated({v.text})")
        self.fail(node, f"'-' of kind {v.kind}")

    def on_Binary(self, node):
        if node.op in ("and", "or"):
            left = self.as_bool(self.compile(node.left), node.left)
            if left in ("true", "false"):
                return Val("bool", left) if (left == "true") == (node.op == "or") else self.compile(node.right)
            right, body = self.within(lambda: Val("bool", self.as_bool(self.compile(node.right), node.right)))
            sign = "&&" if node.op == "and" else "||"
            if right.text in ("true", "false") and not body:
                return Val("bool", right.text) if (right.text == "true") == (node.op == "or") else Val("bool", left)
            if not body:
                return Val("bool", f"({left} {sign} {right.text})")
            self.body.depth += 1
            right, body = self.within(lambda: Val("bool", self.as_bool(self.compile(node.right), node.right)))
            self.body.depth -= 1
            name = self.fresh("holds")
            self.body.add(f"bool {name} = {left};")
            self.body.open(f"if ({name})" if node.op == "and" else f"if (!{name})")
            self.body.put(body)
            self.body.add(f"{name} = {right.text};")
            self.body.close()
            return Val("bool", name)
        if node.op == "??":
            return self.or_else(node)
        if node.op == "in":
            return self.contains(node)
        left, right = self.compile(node.left), self.compile(node.right)
        if node.op in COMPARE:
            return self.compare(node, left, right)
        return self.arithmetic(node, left, right)

    def or_else(self, node):
        if isinstance(node.right, Error):
            v = self.compile(node.left)
            self.body.add(f"if (!({v.present or 'true'}))")
            failed = f"tp_fail({CLASSES[node.right.kind]}, {quote(node.right.text.replace('%', '%%'))})"
            self.body.add(f"    return {'bad ? NULL : ' if self.uses_bad else ''}{failed};")
            return Val(v.kind, v.text, None, v.box)
        v = self.compile(node.left)
        if v.kind == "none":
            return self.compile(node.right)
        if v.present is None:
            return v
        chosen = self.choose(v.present, lambda: Val(v.kind, v.text, None, v.box), lambda: self.compile(node.right), node)
        return chosen

    def contains(self, node):
        left = self.temp(self.compile(node.left), "one")
        if not isinstance(node.right, List):
            self.fail(node, "'in' wants a list in brackets")
        tests = [self.compare(node, left, self.compile(i), "==").text for i in node.right.items]
        return Val("bool", "(" + " || ".join(tests) + ")" if tests else "false")

    def compare(self, node, a, b, op=None):
        op = op or node.op
        kinds = {a.kind, b.kind}
        if "list" in kinds or kinds <= {"ints", "syms"} and kinds:
            if a.kind == "list" or b.kind == "list" or kinds <= {"ints", "syms"}:
                a, b = self.sized(a, node), self.sized(b, node)
            if op not in ("==", "!="):
                self.fail(node, f"'{op}' of lists")
            return Val("bool", f"{'!' if op == '!=' else ''}{self.lists}_equal(&{a.text}, &{b.text}, {self.bad_place})")
        if kinds <= {"int", "float", "bool"}:
            return Val("bool", f"({a.text} {op} {b.text})")
        if kinds <= {"int", "sym"}:
            return Val("bool", f"tp_guard(tp_sym_{COMPARE[op]}({self.as_sym(a).text}, {self.as_sym(b).text}), {self.bad_place})")
        if kinds == {"dtype"}:
            return Val("bool", f"({a.text} {op} {b.text})")
        if kinds == {"format"} or kinds == {"device"}:
            return Val("bool", f"({a.text} {op} {b.text})")
        if kinds == {"str"}:
            return Val("bool", f"{'' if op == '==' else '!'}tp_text_same({a.text}, {b.text})")
        if "scalar" in kinds and kinds <= {"scalar", "int", "float", "bool", "sym"}:
            return Val("bool", f"tp_number_compare({self.as_scalar(a).text}, {self.as_scalar(b).text}) {op} 0"
                       if op not in ("==", "!=") else
                       f"{'!' if op == '!=' else ''}tp_number_equal({self.as_scalar(a).text}, {self.as_scalar(b).text})")
        if "none" in kinds:
            other = a if b.kind == "none" else b
            absent = f"!({other.present})" if other.present else "false"
            return Val("bool", absent if op == "==" else f"!({absent})")
        self.fail(node, f"'{op}' of {a.kind} and {b.kind}")

    def arithmetic(self, node, a, b):
        op, kinds = node.op, {a.kind, b.kind}
        if "bool" in kinds and kinds <= {"bool", "int", "sym"}:
            a = Val("int", f"(int64_t){a.text}") if a.kind == "bool" else a
            b = Val("int", f"(int64_t){b.text}") if b.kind == "bool" else b
            kinds = {a.kind, b.kind}
        if op == "+" and kinds <= {"ints", "syms", "list"}:
            return self.compile(List(node.where, [Star(node.where, node.left), Star(node.where, node.right)]))
        if kinds <= {"int", "sym"} and "sym" in kinds:
            x, y = self.as_sym(a).text, self.as_sym(b).text
            names = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "**": "pow", "/": "truediv"}
            if op in ("+", "-", "*", "//", "%"):
                return Val("sym", f"tp_sym_{names[op]}({x}, {y})")
            self.fail(node, f"'{op}' of symbolic sizes")
        if kinds == {"int"}:
            if op in ("+", "-", "*"):
                return Val("int", f"({a.text} {op} {b.text})")
            if op == "//":
                return Val("int", f"tp_int_quotient({bare(a.text)}, {bare(b.text)}, {self.bad_place})")
            if op == "%":
                return Val("int", f"tp_int_remainder({bare(a.text)}, {bare(b.text)}, {self.bad_place})")
            if op == "/":
                return Val("float", f"((double){a.text} / (double){b.text})")
            self.fail(node, f"'{op}' of integers")
        if kinds <= {"int", "float"}:
            if op == "**":
                return Val("float", f"pow({bare(a.text)}, {bare(b.text)})")
            if op in ("+", "-", "*", "/"):
                x, y = (f"(double){v.text}" if v.kind == "int" and not v.literal else v.text for v in (a, b))
                return Val("float", f"({x} {op} {y})")
        if kinds <= {"int", "float", "scalar", "bool", "sym"}:
            names = {"+": "sum", "-": "difference", "*": "product", "/": "quotient"}
            if op in names:
                return Val("scalar", f"tp_number_{names[op]}({self.as_scalar(a).text}, {self.as_scalar(b).text})")
        self.fail(node, f"'{op}' of {a.kind} and {b.kind}")

    # ---- lists ----
    def on_List(self, node):
        if not any(isinstance(i, (Star, For)) for i in node.items):
            return Val("list", items=[self.compile(i) for i in node.items])
        return self.built(node, node.items)

    def built(self, node, items):
        """A list with parts that repeat: filled statement by statement. Whether it is of plain or symbolic numbers is
        known after its parts have been compiled, so its declaration is put in front of them then."""
        name = self.fresh("list")
        if self.numbers_of(node, items):
            inner, body = self.within(lambda: self.fill(name, items, node))
            kind = "syms" if inner else "ints"
            text = "\n".join(body.lines).replace("@LIST@", kind)
            self.body.add(f"tp_{kind} {name};")
            self.body.add(f"{name}.count = 0;")
            self.body.lines += text.split("\n")
            return Val(kind, name)
        return self.built_values(name, items, node)

    def numbers_of(self, node, items):
        """Are the items numbers? Looked at by compiling a copy that is thrown away."""
        saved = self.body, [dict(b) for b in self.bound]
        self.body = Body()
        try:
            kinds = set()
            for i in items:
                of = i.of if isinstance(i, Star) else i
                if isinstance(of, For):
                    self.loop(of, lambda v: kinds.add(v.kind))
                else:
                    v = self.compile(of)
                    kinds.add({"ints": "int", "syms": "sym"}.get(v.kind, v.kind) if isinstance(i, Star) else v.kind)
            return kinds <= {"int", "sym", "list", "none", "bool"}
        finally:
            self.body, self.bound = saved

    def fill(self, name, items, node):
        """Statements that add the items; true when one is symbolic."""
        symbolic = [False]

        def one(v):
            if v.kind == "sym":
                symbolic[0] = True
                return v.text
            if v.kind != "int":
                self.fail(node, f"a list of numbers has an item of kind {v.kind}")
            return f"@INT@({v.text})"

        for i in items:
            of = i.of if isinstance(i, Star) else i
            if isinstance(of, For):
                self.loop(of, lambda v: self.body.add(f"tp_@LIST@_add(&{name}, {one(v)});"))
            elif isinstance(i, Star):
                v = self.compile(of)
                v = self.as_list(v, node)
                if v.kind == "syms":
                    symbolic[0] = True
                    self.body.add(f"tp_syms_join(&{name}, &{v.text});")
                else:
                    self.body.add(f"tp_@LIST@_join{'@OF@'}(&{name}, &{v.text});")
            else:
                self.body.add(f"tp_@LIST@_add(&{name}, {one(self.compile(i))});")
        kind = symbolic[0]
        for n, line in enumerate(self.body.lines):
            line = line.replace("@INT@", "tp_sym_int" if kind else "").replace("@OF@", "_ints" if kind else "")
            self.body.lines[n] = line
        return kind

    def built_values(self, name, items, node):
        (f,) = items if len(items) == 1 else (None,)
        if isinstance(f, For) and isinstance(f.body, Name) and f.body.name == f.var:
            return Val("filtered", items=[f])       # [t for t in tensors if …]: never built, gone through where it is used
        self.fail(node, "a list of things that are no numbers cannot be built here")

    def loop(self, f, each):
        """for var in low..high, or over the items of a list; `each` gets the compiled body."""
        var = self.fresh(f.var)
        if f.high is not None:
            low, high = self.as_int(self.compile(f.low), f.low), self.as_int(self.compile(f.high), f.high)
            if not bare(high).isdigit() and not bare(high).startswith("tp_dim("):
                high = f"tp_few({bare(high)}, {self.bad_place})"
            self.body.open(f"for (int64_t {var} = {low}; {var} < {bare(high)}; {var}++)")
            self.bound.append({f.var: Val("int", var)})
        else:
            over = self.compile(f.low)
            if over.kind == "list":
                for item in over.items:
                    self.bound.append({f.var: item})
                    self.tested(f, each)
                    self.bound.pop()
                return
            if over.kind == "filtered":
                def inner(v):
                    self.bound.append({f.var: v})
                    self.tested(f, each)
                    self.bound.pop()
                self.loop(over.items[0], inner)
                return
            at = self.fresh("at")
            if over.kind in ("tensors", "values"):
                self.body.open(f"for (uint32_t {at} = 0; {at} < tp_length({over.text}); {at}++)")
                self.bound.append({f.var: self.loop_item(over, var, at)})
            elif over.kind in ("ints", "syms"):
                over = self.temp(over, "list")
                self.body.open(f"for (int {at} = 0; {at} < {over.text}.count; {at}++)")
                kind = over.kind[:-1]
                self.body.add(f"{declare(kind, var)} = {over.text}.item[{at}];")
                self.bound.append({f.var: Val(kind, var)})
            else:
                self.fail(f, f"cannot go through a thing of kind {over.kind}")
        self.tested(f, each)
        self.bound.pop()
        self.body.close()

    def loop_item(self, over, var, at):
        if over.kind == "values":
            return Val("value", f"{over.text}.list->item[{at}]")
        self.body.add(f"tp_tensor *{var} = tp_as_tensor({over.text}.list->item[{at}]);")
        return Val("tensor", var, var, f"{over.text}.list->item[{at}]")

    def tested(self, f, each):
        if f.test is not None:
            self.body.open(f"if ({self.as_bool(self.compile(f.test), f.test)})")
        each(self.compile(f.body))
        if f.test is not None:
            self.body.close()

    def on_For(self, node):
        return self.built(node, [node])

    def on_Index(self, node):
        of = self.compile(node.of)
        if of.kind == "list":
            if isinstance(node.at, Literal) and isinstance(node.at.value, int):
                return of.items[node.at.value]
            of = self.as_list(of, node)
        at = self.compile(node.at)
        if of.kind in ("ints", "syms"):
            of = self.temp(of, "list")
            return Val(of.kind[:-1], f"tp_{of.kind}_at(&{of.text}, {bare(self.as_int(at, node.at))}, {self.bad_place})")
        if of.kind == "tensors":
            text = f"tp_item({of.text}, {self.as_int(at, node.at)}, {self.bad_place})"
            name = self.fresh("item")
            self.body.add(f"tp_tensor *{name} = tp_as_tensor({text});")
            return Val("tensor", name)
        if of.kind == "filtered":
            left, name = self.fresh("left"), self.fresh("item")
            self.body.add(f"int64_t {left} = {self.as_int(at, node.at)};")
            self.body.add(f"tp_tensor *{name} = NULL;")
            self.loop(of.items[0], lambda v: self.body.add(f"{name} = {left}-- == 0 ? {v.text} : {name};"))
            return Val("tensor", name)
        if of.kind == "values":
            return Val("value", f"tp_item({of.text}, {self.as_int(at, node.at)}, {self.bad_place})")
        self.fail(node, f"a thing of kind {of.kind} has no items")

    def on_Slice(self, node):
        of = self.as_list(self.compile(node.of), node)
        low = self.as_int(self.compile(node.low), node.low) if node.low else "0"
        high = self.as_int(self.compile(node.high), node.high) if node.high else "INT64_MAX"
        return self.temp(Val(of.kind, f"tp_{of.kind}_slice(&{of.text}, {bare(low)}, {bare(high)})"), "part")

    # ---- attributes ----
    def on_Attr(self, node):
        if isinstance(node.of, Name):
            special = self.bound_attr(node)
            if special is not None:
                return special
        of = self.compile(node.of)
        method = getattr(self, "attr_of_" + of.kind, None)
        found = method(node, of) if method else None
        if found is None:
            self.fail(node, f"a thing of kind {of.kind} has no '{node.name}'")
        return found

    def bound_attr(self, node):
        if node.of.name == "result" and node.name == "dtype":
            found = self.lookup("result.dtype")
            if found is None:
                self.fail(node, "the dtype of the result is not known here")
            return found
        return None

    def attr_of_tensor(self, node, of):
        t, name = of.text, node.name
        args = [self.compile(a) for a in node.args] if node.args else []
        if name == "sizes":
            return self.temp(Val(self.many, f"{self.lists}_sizes({t})"), "sizes")
        if name == "strides":
            return self.temp(Val(self.many, f"{self.lists}_strides({t})"), "strides")
        if name == "size":
            return Val(self.num, f"{self.lists}_size({t}, {bare(self.as_int(args[0], node))}, {self.bad_place})")
        if name == "stride":
            return Val(self.num, f"{self.lists}_stride({t}, {bare(self.as_int(args[0], node))}, {self.bad_place})")
        if name == "dim":
            return Val("int", f"tp_dim({t})")
        if name == "numel":
            return Val(self.num, f"{self.lists}_numel({t})")
        if name == "storage_offset":
            return Val(self.num, f"{self.lists}_offset({t})")
        if name == "dtype":
            return Val("dtype", f"tp_dtype_of({t})")
        if name == "device":
            return Val("device", f"tp_device_of({t})")
        if name == "is_contiguous":
            return Val("bool", f"tp_tensor_is_contiguous({t})")
        if name == "is_channels_last":
            return Val("bool", f"tp_tensor_is_channels_last({t})")
        if name == "requires_grad":
            return Val("bool", f"tp_tensor_requires_grad({t})")
        if name == "is_meta":
            return Val("bool", f"(tp_device_of({t}).type == TP_META)")
        return None

    def attr_of_dtype(self, node, of):
        d, name = of.text, node.name
        if name in ("is_integral", "is_float", "is_complex", "is_half", "is_inexact"):
            return Val("bool", f"tp_dtype_{name}({d})")
        if name == "is_bool":
            return Val("bool", f"({d} == TP_b8)")
        if name in ("to_real", "to_complex"):
            return Val("dtype", f"tp_dtype_{name}({d})")
        if name in ("title", "cpp", "python", "name"):
            return Val("str", f"tp_dtypes[{d}].{name}")
        return None

    def attr_of_scalar(self, node, of):
        tests = {"is_integral": f"tp_number_is_integral({of.text})", "is_float": f"({of.text}.tag == TP_FLOAT)",
                 "is_complex": f"({of.text}.tag == TP_COMPLEX)", "is_bool": f"({of.text}.tag == TP_BOOL)"}
        if node.name in tests:
            return Val("bool", tests[node.name])
        if node.name == "dtype":
            return Val("dtype", f"tp_dtype_of_number({of.text})")
        if node.name == "to_float":
            return Val("float", f"tp_as_double({of.text})")
        return None

    def attr_of_tensors(self, node, of):
        return None

    # ---- calls ----
    def on_Call(self, node):
        builtin = getattr(self, "call_" + node.name, None)
        if builtin:
            return builtin(node)
        if node.name in self.world.fns:
            return self.template(node, self.world.fns[node.name])
        return self.call_op(node)

    def call_op(self, node):
        self.fail(node, f"'{node.name}' is no built-in over sizes and no fn")

    def template(self, node, fn):
        if len(node.args) + len(node.keywords) != len(fn.params):
            self.fail(node, f"fn {fn.name} has {len(fn.params)} parameters, {len(node.args)} are given")
        self.depth += 1
        if self.depth > 20:
            self.fail(node, f"fn {fn.name} calls itself")
        values = {}
        for param, a in zip(fn.params, node.args):
            v = self.compile(a)
            values[param] = self.temp(v, param) if self.hold(v) else v
        for name, a in node.keywords:
            values[name] = self.temp(self.compile(a), name)
        outer, self.bound = self.bound, [self.base_scope(), values]
        outer_lets, self.model_lets = getattr(self, "model_lets", None), {}
        try:
            return self.guarded_lines(fn.lines, node)
        finally:
            self.bound, self.depth, self.model_lets = outer, self.depth - 1, outer_lets

    def hold(self, v):
        """Does a template parameter need a variable, so that its text is not repeated?"""
        return v.kind in CTYPE and not v.literal and not v.text.isidentifier()

    def base_scope(self):
        return {}

    def guarded_lines(self, lines, node):
        from .ast import Let
        if not lines:
            self.fail(node, "no line applies when the conditions above all fail")
        first = lines[0]
        if isinstance(first, Let):
            v = self.compile(first.body)
            self.bound[-1][first.name] = self.temp(v, first.name) if v.kind in CTYPE else v
            return self.guarded_lines(lines[1:], node)
        if first.test is None:
            return self.compile(first.body)
        if isinstance(first.test, Literal):
            return self.compile(first.body) if first.test.value else self.guarded_lines(lines[1:], node)
        test = self.as_bool(self.compile(first.test), first.test)
        if test in ("true", "false"):
            return self.compile(first.body) if test == "true" else self.guarded_lines(lines[1:], node)
        snapshot = dict(self.bound[-1])

        def rest():
            self.bound[-1] = dict(snapshot)
            return self.guarded_lines(lines[1:], node)
        return self.choose(test, lambda: self.compile(first.body), rest, node)

    def on_CFun(self, node):
        if not node.name.startswith("tp_s_"):
            self.fail(node, "over sizes only a tp_s_ function has a meaning")
        self.world.hooks.add(node.name)
        name = self.fresh("sizes")
        self.body.add(f"tp_syms {name};")
        self.body.add(f"if (!{node.name}({self.read_from}, &{name}))")
        self.body.add("    return false;")
        if self.symbolic:
            return Val("syms", name)
        return self.temp(Val("ints", f"tp_ints_of(&{name}, {self.bad_place})"), "sizes")
