"""The meaning over tensors: formulas become calls of ops through the dispatcher, inside a tp_scope.

Numbers are tp_sym words. A tensor is a Val with `box`, the tp_value that is handed on, and `text`, the pointer that sizes
are asked of; both are made when first asked for, so a formula unboxes only what it uses."""
import re

from .ast import Attr, Binary, Call, CFun, Cond, For, Index, List, Literal, Mistake, Name, Slice, Star, Unary, show
from .emit_sizes import Sizes
from .emit_values import CTYPE, Val, bare, declare
from .emit_text import Body, quote
from .overloads import NUMBERS, resolve

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
             "==": "eq", "!=": "ne"}
CONSTANTS = {"tp_none()": "&tp_value_none", "tp_bool(true)": "&tp_value_true", "tp_bool(false)": "&tp_value_false",
             "tp_int(0)": "&tp_value_0", "tp_int(1)": "&tp_value_1", "tp_int(-1)": "&tp_value_minus_1"}
PLACE = re.compile(r"[A-Za-z_]\w*((->|\.)\w+|\[\w+\])*")     # what has an address
OPTIONS = ("dtype", "layout", "device", "pin_memory")


class Lazy(Val):
    """A Val whose C texts are made when first asked for."""

    def __init__(self, kind, text=None, box=None, present=None, declared=None):
        self.kind, self._text, self._box, self._present = kind, text, box, present
        self.literal, self.items, self.declared, self.node = False, None, declared, None

    def made(self, name):
        value = getattr(self, name)
        if callable(value):
            value = value()
            setattr(self, name, value)
        return value

    text = property(lambda self: self.made("_text"))
    box = property(lambda self: self.made("_box"))
    present = property(lambda self: self.made("_present"))


def tensor(box, optional=False):
    """A tensor that stands in the tp_value `box`."""
    return Val("tensor", f"tp_as_tensor({box})", f"{box}.tag != TP_NONE" if optional else None, box)


class Tensors(Sizes):
    bad = "&s.failed"

    def __init__(self, model, world, body, read_from="arg"):
        super().__init__(model, world, body, True)
        self.read_from = read_from
        self.used_names |= {"s", "op", "arg", "result", "b", "out", "tangent", "base", "fresh", "k"}

    # ---- arguments ----
    def read_value(self, type, name, box, place):
        if type.is_tensor:
            return tensor(box, type.optional)
        kind, reader = self.reading(type, box)
        present = f"{box}.tag != TP_NONE" if type.optional else None
        if kind in ("value", "tensors", "scalar", "values"):
            return Val(kind, box, present, box, declared=str(type))

        def text():
            if name not in place:
                c = self.fresh(name)
                place[name] = (c, f"{declare(kind, c)} = {reader};")
            return place[name][0]
        return Lazy(kind, text, box, present, str(type))

    def temp(self, val, hint="x"):
        if val.kind == "tensor":
            if val.box and (val.box.isidentifier() or val.box[-1:] == "]" and "(" not in val.box):
                return val
            name = self.fresh(hint)
            self.body.add(f"tp_value {name} = {self.to_value(val)};")
            return tensor(name, val.present is not None)
        if isinstance(val, Lazy) or val.kind in ("results", "filtered", "options", "list", "none"):
            return val
        if val.kind not in CTYPE:
            return val
        return super().temp(val, hint)

    def hold(self, v):
        return not isinstance(v, Lazy) and super().hold(v)

    def to_value(self, v):
        if v.kind == "none":
            return "tp_none()"
        if v.box:
            return v.box
        if v.kind in ("ints", "syms"):
            return f"tp_scope_{v.kind}(&s, &{v.text})"
        if v.kind == "str":
            return f"tp_scope_text(&s, {v.text})"
        if v.kind == "layout":
            return "(tp_value){ .tag = TP_LAYOUT }"
        if v.kind == "list":
            if not v.items:
                return "tp_scope_list(&s, 0, NULL)"
            return f"tp_scope_list(&s, {len(v.items)}, (tp_value[]){{ {', '.join(self.to_value(i) for i in v.items)} }})"
        return super().to_value(v)

    # ---- a formula's piece in C: the hook gets the listed values, boxed, and gives one ----
    # ---- pieces in C: they are handed what stands in their parentheses, or the op's own arguments ----
    def on_CFun(self, node):
        kind = node.name[3]
        if kind not in "sd":
            self.fail(node, f"{node.name} has no meaning inside a formula: tp_d_ gives a value, tp_s_ a list of sizes")
        self.world.hooks.add(node.name)
        if node.args:
            values = [self.to_value(self.compile(a)) for a in node.args]
            args = f"(tp_value[]){{ {', '.join(values)} }}"
        elif self.read_from == "arg":
            args = "arg"
        else:
            args = f"(tp_value[]){{ {', '.join(self.all_arguments())} }}"
        if kind == "s":
            name = self.fresh("sizes")
            self.body.add(f"tp_syms {name} = tp_scope_sizes(&s, {node.name}, {args});")
            return Val("syms", name)
        name = self.fresh("piece")
        self.body.add(f"tp_value {name} = tp_scope_piece(&s, {node.name}, {args});")
        v = tensor(name, True)
        v.missing = True            # one value or a list of them: who uses it knows
        return v

    def all_arguments(self):
        return [self.to_value(self.argument(i)) for i in range(len(self.schema.args))]

    # ---- choices between tensors are made between boxed values: a number may stand in for a tensor ----
    def choose(self, test, yes, no, node):
        self.body.depth += 1
        a, a_body = self.within(yes)
        b, b_body = self.within(no)
        self.body.depth -= 1
        kinds = {a.kind, b.kind}
        if "tensor" in kinds and kinds <= {"tensor", "none", "scalar", "int", "float", "sym"} or kinds <= {"tensors", "none", "values"}:
            v = self.choose_boxed(test, a, a_body, b, b_body, "tensor" if "tensor" in kinds else "tensors")
            v.missing = getattr(a, "missing", False) or getattr(b, "missing", False)
            return v
        if kinds == {"none"}:
            return Val("none")
        if kinds <= {"results", "none"} and "results" in kinds:
            count = (a if a.kind == "results" else b).literal
            v = self.choose_boxed(test, a, a_body, b, b_body, "results")
            v.literal = count
            return v
        return super().choose(test, yes, no, node)

    def choose_boxed(self, test, a, a_body, b, b_body, kind):
        name = self.fresh("chosen")
        a_text, a_more = self.extend(a_body, lambda: self.to_value(a), a)
        b_text, b_more = self.extend(b_body, lambda: self.to_value(b), b)
        if not a_body and not b_body:
            self.body.add(f"tp_value {name} = {test} ? {a_text} : {b_text};")
        else:
            self.body.add(f"tp_value {name};")
            self.body.open(f"if ({bare(test)})")
            self.body.put(a_body)
            self.body.add(f"{name} = {a_text};")
            self.body.otherwise()
            self.body.put(b_body)
            self.body.add(f"{name} = {b_text};")
            self.body.close()
        if kind == "tensor":
            return tensor(name, True)
        return Val(kind, name, f"{name}.tag != TP_NONE", name)

    # ---- names ----
    def on_Name(self, node):
        if node.name == "undefined" and self.lookup(node.name) is None:
            return Val("none")
        return super().on_Name(node)

    def is_bound(self, name):
        return self.lookup(name) is not None or self.schema.index(name) >= 0 or name in self.model.lets

    # ---- operators ----
    def on_Unary(self, node):
        if node.op == "-":
            v = self.compile(node.of)
            if v.kind == "tensor":
                return self.call_values("neg", [v], [], node)
        return super().on_Unary(node)

    def on_Binary(self, node):
        if node.op not in OPERATORS:
            return super().on_Binary(node)
        left, right = self.compile(node.left), self.compile(node.right)
        if "tensor" in (left.kind, right.kind) and "none" not in (left.kind, right.kind):
            return self.tensor_operator(node, left, right)
        if node.op in ("<", "<=", ">", ">=", "==", "!="):
            return self.compare(node, left, right)
        return self.arithmetic(node, left, right)

    def tensor_operator(self, node, left, right):
        op = node.op
        if left.kind == "tensor":
            return self.call_values(OPERATORS[op], [left, right], [], node)
        if op == "-":
            return self.call_values("rsub", [right, left], [], node, "Scalar")
        if op in ("+", "*"):
            return self.call_values(OPERATORS[op], [right, left], [], node)
        if op == "/":
            return self.call_values("mul", [self.call_values("reciprocal", [right], [], node), left], [], node)
        if op == "**":
            return self.call_values("pow", [left, right], [], node, "Scalar")
        swapped = {"<": "gt", "<=": "ge", ">": "lt", ">=": "le", "==": "eq", "!=": "ne"}
        return self.call_values(swapped[op], [right, left], [], node)

    # ---- attributes ----
    def on_Attr(self, node):
        if isinstance(node.of, Name) and not self.is_bound(node.of.name) and node.args is not None and \
                self.lookup(f"{node.of.name}.{node.name}") is None and node.of.name not in ("result", "g", "t"):
            values, keywords = self.values(node)
            return self.call_values(node.of.name, values, keywords, node, str(node.name))
        return super().on_Attr(node)

    def bound_attr(self, node):
        found = self.lookup(f"{node.of.name}.{node.name}")
        if found is not None:
            return found() if callable(found) else found
        return None

    def attr_of_results(self, node, of):
        if isinstance(node.name, int):
            return self.item_of(of, node.name)
        return None

    def item_of(self, of, i):
        return tensor(f"tp_item({of.text}, {i}, {self.bad_place})", True)

    def on_Index(self, node):
        of = self.compile(node.of)
        if getattr(of, "missing", False):
            return of
        if of.kind == "results" and isinstance(node.at, Literal):
            return self.temp(self.item_of(of, node.at.value), "part")
        if of.kind == "tensors":
            at = self.as_int(self.compile(node.at), node.at)
            return self.temp(tensor(f"tp_item({of.text}, {bare(at)}, {self.bad_place})", True), "item")
        return super().on_Index(node)

    def attr_of_tensor(self, node, of):
        name = node.name
        if getattr(of, "missing", False) and isinstance(name, int):
            return of
        if name == "options":
            return self.options_of(of)
        if name == "geometry":
            return Val("value", f"tp_scope_geometry(&s, {of.text})")
        if name == "layout":
            return Val("layout", "0")
        if name == "to":
            return self.to(node, of)
        if name == "sum_to":
            sizes = self.as_syms(self.compile(node.args[0]), node)
            return self.kept(f"tp_scope_sum_to(&s, {of.text}, &{sizes.text})", "sum")
        known = super().attr_of_tensor(node, of)
        if known is not None:
            return known
        if node.args is not None:
            values, keywords = self.values(node)
            return self.call_values(name, [of] + values, keywords, node)
        return None

    def attr_of_options(self, node, of):
        if node.name in OPTIONS:
            return of.items[OPTIONS.index(node.name)]
        return None

    def options_of(self, of):
        return Val("options", items=[Val("dtype", f"tp_dtype_of({of.text})"), Val("layout", "0"),
                                     Val("device", f"tp_device_of({of.text})"), Val("none")])

    def kept(self, text, hint):
        """A tensor that a helper of scope.h gives, in a variable."""
        name = self.fresh(hint)
        self.body.add(f"tp_value {name} = tp_of_tensor({text});")
        return tensor(name)

    def to(self, node, of):
        v = self.compile(node.args[0])
        if v.kind == "options":
            return self.kept(f"tp_scope_to_options(&s, {of.text}, {v.items[0].text}, {v.items[2].text})", "cast")
        if v.kind != "dtype":
            self.fail(node, ".to() takes a dtype or options")
        return self.kept(f"tp_scope_to_dtype(&s, {of.text}, {v.text})", "cast")

    def attr_of_scalar(self, node, of):
        return super().attr_of_scalar(node, of)

    # ---- calls ----
    def values(self, node):
        values = []
        for a in node.args:
            v = self.compile(a.of if isinstance(a, Star) else a)
            values.append(v)
        return values, [(k, self.compile(v)) for k, v in (node.keywords or [])]

    def call_op(self, node):
        values, keywords = self.values(node)
        return self.call_values(node.name, values, keywords, node)

    def call_values(self, name, values, keywords, node, forced=None):
        values, keywords = list(values), list(keywords)
        if values and values[-1].kind == "options":
            options = values.pop()
            keywords += [(k, v) for k, v in zip(OPTIONS, options.items)]
        op = resolve(self.world, name, values, self.fitting(name, keywords), node, forced)
        if op is None:
            self.world.missing.setdefault(name, node.where)
            c = self.fresh(name)
            for v in values:            # computed all the same, as the nodes before it
                if v.kind == "tensor" and v.box and v.box.isidentifier():
                    self.body.add(f"(void){v.box};")
            self.body.add(f"tp_value {c} = tp_scope_missing(&s, {quote(name)});")
            v = tensor(c, True)
            v.missing = True
            return v
        return self.emit_call(op, values, dict(self.fitting(name, keywords)))

    def fitting(self, name, keywords):
        """Options a callee has no argument for are dropped: new_zeros has no generator, full_like all four."""
        ops = self.world.overloads(name)
        known = {a.name for op in ops for a in op.schema.args}
        return [(k, v) for k, v in keywords if k not in OPTIONS or k in known] if ops else keywords

    def emit_call(self, op, values, keywords):
        boxed = []
        for i, a in enumerate(op.schema.args):
            if i < len(values) and not a.keyword_only:
                boxed.append(self.boxed(values[i], a))
            elif a.name in keywords:
                boxed.append(self.boxed(keywords[a.name], a))
            else:
                boxed.append(None)
        args = "".join(", " + a for a in self.addresses(boxed))
        c = self.fresh(op.schema.name.rstrip("_"))
        results = op.schema.results
        if len(results) != 1:
            self.body.add(f"tp_value {c} = tp_scope_all_on(&s, &tp_op_{op.symbol}{args});")
            return Val("results", c, None, c, literal=len(results))
        self.body.add(f"tp_value {c} = tp_scope_on(&s, &tp_op_{op.symbol}{args});")
        if results[0].type.is_tensors:
            return Val("tensors", c, None, c)
        return tensor(c) if results[0].type.is_tensor else Val("scalar", c, None, c)

    def boxed(self, v, arg):
        """The value as the slot wants it."""
        t = arg.type
        if v.kind in ("int", "sym") and t.is_list:
            return self.to_value(Val("list", items=[v]))
        if v.kind == "int" and t.base == "float" and not v.box:
            return f"tp_float({v.text})"
        if v.kind == "list" and t.base in ("int", "SymInt"):
            v = self.as_list(v, v.node)
        if v.kind == "filtered":
            v = self.built_values(None, v.items, v.items[0], True)
        return self.to_value(v)

    def addresses(self, boxed):
        """Where the arguments of a call stand, None: it has its default. What more than one of them computes is computed in order."""
        computed = [a for a in boxed if a is not None and "&s" in a]
        out = []
        for a in boxed:
            if a in computed and len(computed) > 1:
                name = self.fresh("given")
                self.body.add(f"tp_value {name} = {a};")
                a = name
            if a is None:
                out.append("TP_DEFAULT")
            else:
                out.append(CONSTANTS.get(a) or (f"&{a}" if PLACE.fullmatch(a) else f"(tp_value[]){{ {a} }}"))
        return out

    # ---- built-ins ----
    def call_conj(self, node):
        v = self.compile(node.args[0])
        if v.kind == "tensor":
            return self.temp(tensor(f"tp_scope_conj(&s, {self.to_value(v)})"), "conjugate")
        if v.kind == "scalar":
            return Val("scalar", f"tp_scope_conj(&s, {v.text})", declared=v.declared)
        return v

    def call_defined(self, node):
        a = node.args[0]
        raw = self.raw_gradient(a)
        if raw is not None:
            return Val("bool", f"({raw}.tag != TP_NONE)")
        v = self.compile(a)
        return Val("bool", f"({self.to_value(v)}.tag != TP_NONE)")

    def raw_gradient(self, node):
        return None

    def call_is_complex(self, node):
        v = self.compile(node.args[0])
        return Val("bool", f"tp_dtype_is_complex(tp_dtype_of({v.text}))")

    def call_same_sizes(self, node):
        a, b = (self.as_syms(self.compile(x), node) for x in node.args)
        return Val("bool", f"tp_syms_equal(&{a.text}, &{b.text}, {self.bad_place})")

    def call_max(self, node):
        return self.number_or_op(node, super().call_max)

    def call_min(self, node):
        return self.number_or_op(node, super().call_min)

    def number_or_op(self, node, numbers):
        """max and min are built-ins over numbers and ops over tensors."""
        first, _ = self.within(lambda: self.compile(node.args[0]))
        return self.call_op(node) if first.kind == "tensor" else numbers(node)

    def call_unsqueeze_each(self, node):
        """One unsqueeze after the other, at rising dims."""
        v, dims = self.compile(node.args[0]), self.as_list(self.compile(node.args[1]), node)
        name, at = self.fresh("wide"), self.fresh("at")
        self.body.add(f"tp_value {name} = {self.to_value(v)};")
        self.body.open(f"for (int {at} = 0; {at} < {dims.text}.count; {at}++)")
        step = self.call_values("unsqueeze", [tensor(name), Val(dims.kind[:-1], f"{dims.text}.item[{at}]")], [], node)
        self.body.add(f"{name} = {self.to_value(step)};")
        self.body.close()
        return tensor(name)

    def call_write_through(self, node):
        """write_through(x, view(_, …), y): x itself, with y written where the view looks."""
        return self.call_copy_through(node, False)

    def call_copy_through(self, node, copied=True):
        """copy_through(x, view(_, …), y): a clone of x with y written where the view looks."""
        clone = self.temp(self.compile(node.args[0]), "whole")
        if copied:
            clone = self.call_values("clone", [clone], [], node)
        self.bound.append({"_": clone})
        view = self.compile(node.args[1])
        self.bound.pop()
        self.call_values("copy_", [view, self.compile(node.args[2])], [], node)
        return clone

    def built_values(self, name, items, node, build=False):
        name = self.fresh("list")
        self.body.add(f"tp_values {name} = {{ 0 }};")
        for i in items:
            of = i.of if isinstance(i, Star) else i
            if isinstance(of, For):
                self.loop(of, lambda v: self.body.add(f"tp_values_add(&s, &{name}, {self.to_value(v)});"))
            elif isinstance(i, Star):
                self.body.add(f"tp_values_join(&s, &{name}, {self.to_value(self.compile(of))});")
            else:
                self.body.add(f"tp_values_add(&s, &{name}, {self.to_value(self.compile(of))});")
        boxed = self.fresh("list")
        self.body.add(f"tp_value {boxed} = tp_scope_values(&s, &{name});")
        return Val("tensors", boxed, None, boxed)

    def or_else(self, node):
        from .ast import Error
        if isinstance(node.right, Error):
            self.fail(node, "an error here belongs into a 'check'")
        return super().or_else(node)

    def on_Error(self, node):
        name = self.fresh("failed")
        self.body.add(f"tp_value {name} = tp_scope_fail(&s, TP_ERR_{node.kind.upper()}, {quote(node.text)});")
        v = tensor(name, True)
        v.missing = True
        return v

    def loop_item(self, over, var, at):
        item = f"{over.text}.list->item[{at}]"
        return Val("value", item, None, item) if over.kind == "values" else tensor(item, True)
