"""The `onnx` column: a formula over ONNX operators becomes a C function that adds their nodes to a model under construction.

    onnx    Gemm(mat1, mat2, self, alpha = alpha, beta = beta)

A name with a capital is an operator of ONNX: positional arguments are its inputs, keywords its attributes. Everything else
is said over sizes, as in `result`. The function answers 1 (done), 0 (the condition fails: try the decomposition) or -1 (an
error); without a model it only answers (src/export/onnx/onnx.h)."""
from .ast import Binary, CFun, Cond, List, Mistake, Name, Star
from .emit_infer import finish, needed_lets
from .emit_sizes import Sizes
from .emit_text import Body, quote
from .emit_values import Val, bare


class Onnx(Sizes):
    # ---- inputs of an operator ----
    def operand(self, node):
        """A value of the model: C text of its number, 0 where there is none."""
        if isinstance(node, Name):
            i = self.schema.index(node.name)
            if node.name == "absent":
                return Val("onnx", "0")
            if i >= 0 and self.lookup(node.name) is None and self.schema.args[i].type.is_tensor:
                return Val("onnx", f"tp_onnx_arg(o, {i})")
        if isinstance(node, Cond):
            test = self.as_bool(self.compile(node.test), node.test)
            return self.choose(test, lambda: self.operand(node.yes), lambda: self.operand(node.no), node)
        if isinstance(node, Binary) and node.op == "??":
            present = self.compile(node.left).present
            if present is None:
                return self.operand(node.left)
            return self.choose(present, lambda: self.operand(node.left), lambda: self.operand(node.right), node)
        v = self.compile(node)
        if v.kind == "onnx":
            return v
        if v.kind == "tensor" and (v.box or "").startswith("arg["):     # an argument, as the parameter of a fn
            return Val("onnx", f"tp_onnx_arg(o, {v.box[4:-1]})")
        if v.kind == "none":
            return Val("onnx", "0")
        if v.kind in ("int", "float", "bool", "scalar"):
            return Val("onnx", f"tp_onnx_number(o, {self.to_value(v)}, TP_DTYPE_NONE)")
        self.fail(node, f"a thing of kind {v.kind} is no input of an operator; a list of numbers is one as ints(…)")

    def held(self, node):
        return self.temp(self.operand(node), "x").text

    def on_Call(self, node):
        if node.name[0].isupper():
            return self.operator(node)
        return super().on_Call(node)

    def operator(self, node):
        inputs = [(isinstance(a, Star), self.all_of(a.of) if isinstance(a, Star) else self.held(a)) for a in node.args]
        attributes = [self.attribute(name, self.compile(value), value) for name, value in node.keywords]
        self.body.add(f"tp_onnx_begin(o, {quote(node.name)});")
        for many, text in inputs:
            self.body.add(f"tp_onnx_input{'s' if many else ''}(o, {text});")
        for line in attributes:
            self.body.add(line)
        name = self.fresh(node.name.lower())
        self.body.add(f"int {name} = tp_onnx_end(o);")
        return Val("onnx", name)

    def all_of(self, node):
        i = self.schema.index(node.name) if isinstance(node, Name) else -1
        if i < 0 or not self.schema.args[i].type.is_tensors:
            self.fail(node, "'*' wants an argument that is a list of tensors")
        return str(i)

    def attribute(self, name, v, node):
        if v.kind in ("int", "bool"):
            return f"tp_onnx_int(o, {quote(name)}, {bare(v.text)});"
        if v.kind in ("float", "scalar"):
            return f"tp_onnx_float(o, {quote(name)}, {bare(v.text) if v.kind == 'float' else f'tp_as_double({v.text})'});"
        if v.kind == "str":
            return f"tp_onnx_text(o, {quote(name)}, {v.text});"
        v = self.as_list(v, node)
        return f"tp_onnx_ints(o, {quote(name)}, {v.text}.item, {v.text}.count);"

    # ---- built-ins that make inputs ----
    def call_cast(self, node):
        return Val("onnx", f"tp_onnx_cast(o, {self.held(node.args[0])}, {self.as_dtype(self.compile(node.args[1]), node)})")

    def call_number(self, node):
        v, dtype = self.compile(node.args[0]), self.as_dtype(self.compile(node.args[1]), node)
        return Val("onnx", f"tp_onnx_number(o, {self.to_value(v)}, {dtype})")

    def call_ints(self, node):
        """A list of numbers as an input: a constant of type i64."""
        v = self.as_list(self.compile(node.args[0]), node)
        return Val("onnx", f"tp_onnx_list(o, {v.text}.item, {v.text}.count)")

    def call_axes(self, node):
        """Dims of a reduction; none of them, or an empty list: absent, which means all."""
        v = self.as_list(self.compile(node.args[0]), node)
        return Val("onnx", f"({v.text}.count ? tp_onnx_list(o, {v.text}.item, {v.text}.count) : 0)")

    def bound_attr(self, node):
        if node.of.name == "result" and self.schema.index("result") < 0:
            if node.name == "sizes":
                return self.temp(Val("ints", "tp_ints_sizes(tp_onnx_result_fact(o, 0))"), "sizes")
            if node.name == "dtype":
                return Val("dtype", "tp_dtype_of(tp_onnx_result_fact(o, 0))")
        return super().bound_attr(node)


def emit_onnx(model, world, symbol):
    """(name of the function, its text); a rule written in C is named itself."""
    d = model.column("onnx").data
    expr, test = d["expr"], d["if"]
    if isinstance(expr, CFun):
        if not expr.name.startswith("tp_o_"):
            raise Mistake(expr.where, "a rule in C begins with tp_o_")
        world.hooks.add(expr.name)
        return expr.name, None
    t = Onnx(model, world, Body())
    t.used_names |= {"o", "arg"}
    if test is not None:
        for name in model.lets:
            if name in needed_lets(model, [test]):
                t.let(name)
        t.body.add(f"if (!{t.as_bool(t.compile(test), test)})")
        t.body.add("    return 0;")
    t.body.add("if (!o)")
    t.body.add("    return 1;")
    for i, item in enumerate(expr.items if isinstance(expr, List) else [expr]):
        t.body.add(f"tp_onnx_result(o, {i}, {t.operand(item).text});")
    good = "!bad && tp_onnx_good(o)" if t.uses_bad else "tp_onnx_good(o)"
    text = finish(f"static int {symbol}_onnx(tp_onnx *o, const tp_value *arg)", t, [f"return {good} ? 1 : -1;"])
    if "arg[" not in text:
        text = text.replace("{\n", "{\n    (void)arg;\n", 1)
    return f"{symbol}_onnx", text
