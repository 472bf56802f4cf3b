"""The meaning over elements: `expr` columns become tile programs.

A program is straight: conditions on what is fixed for a call (which optional arguments are there, dtypes, strings,
flags) are decided before, so an `expr` becomes a tree of such conditions with a program at each leaf, and `select`
walks that tree. Equal programs are one form, equal subexpressions one register."""
import re

from .ast import Attr, Binary, Call, Cond, Guarded, Literal, Mistake, Name, Unary, show, walk

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_div", "%": "mod", "**": "pow", "<": "lt", "<=": "le",
             ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "and": "logical_and", "or": "logical_or"}
NAMED = {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793, "e": 2.718281828459045}


def read_prims(path):
    """name -> operand count, from prims.def."""
    with open(path, encoding="utf-8") as f:
        return {m[1]: int(m[2]) for m in re.finditer(r"^TP_(?:PRIM|SPECIAL)\((\w+), (\d)", f.read(), re.M)}


class Program:
    """One straight program under construction: operands are ('input', arg), ('scalar', key) or ('step', n)."""

    def __init__(self):
        self.steps, self.known, self.inputs, self.scalars = [], {}, [], []

    def input(self, arg):
        if arg not in self.inputs:
            self.inputs.append(arg)
        return ("input", arg)

    def scalar(self, key):
        if key not in self.scalars:
            self.scalars.append(key)
        return ("scalar", key)

    def step(self, prim, *operands):
        key = (prim, operands)
        if key not in self.known:
            self.known[key] = ("step", len(self.steps))
            self.steps.append(key)
        return self.known[key]

    def registers(self):
        inputs = sorted(self.inputs)
        place = {("input", a): i for i, a in enumerate(inputs)}
        for i, key in enumerate(self.scalars):
            place[("scalar", key)] = len(inputs) + i
        for i in range(len(self.steps)):
            place[("step", i)] = len(inputs) + len(self.scalars) + i
        return inputs, place


class Static(Exception):
    """A static condition that is not yet decided."""

    def __init__(self, node):
        self.node = node


class Elements:
    """Compiles the element expressions of one entry."""

    def __init__(self, model, world, prims):
        self.model, self.world, self.prims = model, world, prims

    # ---- what is static ----
    def is_static(self, node):
        """Does it depend on things fixed for the call only?"""
        if isinstance(node, Literal):
            return True
        if isinstance(node, Name):
            if node.name in ("common", "f16", "bf16", "f32", "f64", "c64", "c128", "u8", "i8", "i16", "i32", "i64", "b8"):
                return True
            i = self.model.schema.index(node.name)
            if i >= 0:
                type = self.model.schema.args[i].type
                return type.base in ("str", "bool", "ScalarType", "int", "SymInt", "float") and not type.is_list \
                    or type.base == "Scalar"
            return node.name in self.model.lets and self.is_static(self.model.lets[node.name])
        if isinstance(node, Call):
            return node.name == "has" or node.name in ("is_integral_number", "is_complex_number")
        if isinstance(node, Attr):
            return node.name == "dtype" or node.name in ("is_float", "is_integral", "is_complex", "is_bool", "is_half") \
                and self.is_static(node.of) or node.name == "dim" and node.args == []
        if isinstance(node, Unary):
            return self.is_static(node.of)
        if isinstance(node, Binary):
            if node.op == "in":
                return self.is_static(node.left)
            return self.is_static(node.left) and self.is_static(node.right)
        return False

    def decide(self, node, decided):
        if isinstance(node, Literal) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, Unary) and node.op == "not":
            return not self.decide(node.of, decided)
        if isinstance(node, Binary) and node.op in ("and", "or"):
            left = self.decide(node.left, decided)
            if left == (node.op == "or"):
                return left
            return self.decide(node.right, decided)
        if isinstance(node, Call) and node.name == "has" and isinstance(node.args[0], Name):
            i = self.model.schema.index(node.args[0].name)
            if i >= 0 and not self.model.schema.args[i].type.optional:
                return True
        key = show(node)
        if key not in decided:
            raise Static(node)
        return decided[key]

    # ---- compiling one straight program ----
    def compile(self, node, p, decided, env=None):
        env = env or {}
        if isinstance(node, Literal):
            if isinstance(node.value, bool):
                return p.scalar(("constant", int(node.value)))
            if not isinstance(node.value, (int, float)):
                raise Mistake(node.where, f"{show(node)} is no element")
            return p.scalar(("constant", node.value))
        if isinstance(node, Name):
            return self.name(node, p, decided, env)
        if isinstance(node, Unary):
            if node.op == "not":
                return p.step("logical_not", self.compile(node.of, p, decided, env))
            return p.step("neg", self.compile(node.of, p, decided, env))
        if isinstance(node, Cond):
            if self.is_static(node.test):
                return self.compile(node.yes if self.decide(node.test, decided) else node.no, p, decided, env)
            operands = [self.compile(n, p, decided, env) for n in (node.test, node.yes, node.no)]
            return p.step("where", *operands)
        if isinstance(node, Binary):
            if node.op == "??" and isinstance(node.left, Name):
                present = self.decide(Call(node.where, "has", [node.left], []), decided)
                return self.compile(node.left if present else node.right, p, decided, env)
            if node.op not in OPERATORS:
                raise Mistake(node.where, f"'{node.op}' has no meaning over elements")
            return p.step(OPERATORS[node.op], self.compile(node.left, p, decided, env),
                          self.compile(node.right, p, decided, env))
        if isinstance(node, Call):
            return self.call(node, p, decided, env)
        raise Mistake(node.where, f"{show(node)} has no meaning over elements")

    def name(self, node, p, decided, env):
        if node.name in env:
            return env[node.name]
        i = self.model.schema.index(node.name)
        if i >= 0:
            type = self.model.schema.args[i].type
            if type.is_tensor:
                return p.input(i)
            if type.is_list or type.base not in ("Scalar", "int", "SymInt", "float", "bool"):
                raise Mistake(node.where, f"'{node.name}' is no element")
            return p.scalar(("arg", i))
        if node.name in self.model.lets:
            return self.compile(self.model.lets[node.name], p, decided, env)
        if node.name in NAMED:
            return p.scalar(("constant", NAMED[node.name]))
        raise Mistake(node.where, f"'{node.name}' is not known here")

    def call(self, node, p, decided, env):
        if node.name in self.world.fns:
            fn = self.world.fns[node.name]
            inner = {param: self.compile(a, p, decided, env) for param, a in zip(fn.params, node.args)}
            return self.compile(guards_to_cond(fn.lines, node.where), p, decided, inner)
        if node.name not in self.prims:
            raise Mistake(node.where, f"'{node.name}' is no primitive of the tile executor")
        if len(node.args) != self.prims[node.name]:
            raise Mistake(node.where, f"{node.name} has {self.prims[node.name]} operands, {len(node.args)} are given")
        return p.step(node.name, *[self.compile(a, p, decided, env) for a in node.args])

    # ---- the tree of forms ----
    def forms(self, lines):
        """lines: Guarded list. Gives (tree, [(program, output)]); tree: an index, None (no line applies), or
        (condition, yes, no)."""
        forms, index = [], {}

        def always_inputs(p, decided):
            for i, a in enumerate(self.model.schema.args):
                if a.type.is_tensor and not a.type.optional and not a.type.written:
                    p.input(i)
            if self.model.schema.args and self.model.schema.args[0].type.written:
                p.input(0)

        def grow(decided):
            p = Program()
            try:
                for line in lines:
                    if line.test is not None:
                        if not self.is_static(line.test):
                            raise Mistake(line.where, "this condition changes from element to element: use ? :")
                        if not self.decide(line.test, decided):
                            continue
                    always_inputs(p, decided)
                    out = self.compile(line.body, p, decided)
                    break
                else:
                    return None
            except Static as s:
                key = show(s.node)
                return (s.node, grow({**decided, key: True}), grow({**decided, key: False}))
            key = (tuple(p.steps), tuple(p.inputs), tuple(map(repr, p.scalars)), out)
            if key not in index:
                index[key] = len(forms)
                forms.append((p, out))
            return index[key]

        return grow({}), forms


def guards_to_cond(lines, where):
    """The lines of a fn as one expression."""
    from .ast import Let
    body = None
    for line in reversed(lines):
        if isinstance(line, Let):
            raise Mistake(line.where, "a 'let' inside a fn over elements is not supported: write a fn for it")
        body = line.body if line.test is None else Cond(line.where, line.test, line.body, body)
    return body


def constant(value):
    if isinstance(value, int):
        return f"{{ .kind = TP_KIND_INTEGER, .i = {value} }}"
    text = "INFINITY" if value == float("inf") else "-INFINITY" if value == float("-inf") else "NAN" if value != value else repr(value)
    return f"{{ .kind = TP_KIND_FLOAT, .f = {text} }}"


def emit_program(name, p, out, schema):
    """The C of one form: steps, inputs, scalars, and the initialiser of its tp_tile_form."""
    inputs, place = p.registers()
    text = []
    registers = len(inputs) + len(p.scalars) + len(p.steps)
    if p.steps:
        text.append(f"static const tp_tile_step {name}_step[] = {{")
        for i, (prim, operands) in enumerate(p.steps):
            to = len(inputs) + len(p.scalars) + i
            places = [str(place[o]) for o in operands]
            text.append(f"    {{ TP_PRIM_{prim}, {', '.join([str(to)] + places + ['0'] * (3 - len(places)))} }},")
        text.append("};")
    if inputs:
        text.append(f"static const uint8_t {name}_input[] = {{ {', '.join(map(str, inputs))} }};")
    if p.scalars:
        rows = [f"{{ .arg = {key[1]} }}" if key[0] == "arg" else f"{{ .arg = -1, .constant = {constant(key[1])} }}" for key in p.scalars]
        text.append(f"static const struct tp_form_scalar {name}_scalar[] = {{ {', '.join(rows)} }};")
    steps = f".step = {name}_step, .step_count = {len(p.steps)}, " if p.steps else ""
    form = [f".program = {{ {steps}.input_count = {len(inputs)}, .scalar_count = {len(p.scalars)},\n"
            f"                   .register_count = {registers}, .output_count = 1, .output = {{ {place[out]} }} }}"]
    if inputs:
        form.append(f"\n      .input = {name}_input")
    if p.scalars:
        form.append(f".scalar = {name}_scalar")
    return text, "{ " + ", ".join(form).replace(", \n", ",\n") + " }"
