"""Reads .op text: lines, tokens, and a recursive-descent parser of the whole grammar (docs/op-language.md)."""
import re

from .ast import (Attr, Binary, Call, CFun, Column, Cond, Entry, Error, Fn, For, Guarded, Index, Let, Like, List, Literal,
                  Mistake, Name, Order, Slice, Star, Unary, Where)
from .schema import Arg, Default, Schema, Type
from .emit_values import DTYPES

TOKEN = re.compile(r"""
    (?P<space>[ \t]+) | (?P<comment>\#.*)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<number>(?:\d+\.\d+|\d+\.(?![.\w])|\d+)(?:[eE][-+]?\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>\.\.|->|::|\*\*|//|\?\?|<=|>=|==|!=|[-+*/%<>=?:;,.()\[\]!|])
""", re.VERBOSE)

KINDS = {"pointwise", "reduction", "scan", "rowwise", "channelwise", "contraction", "window", "indexed", "view", "metadata",
         "random", "factory", "composite", "opaque"}
CLASSES = {"value", "index", "type", "unimplemented", "linalg", "runtime", "zero_division"}
DTYPE_GROUPS = {"float", "complex", "real", "integral", "bool", "half"}
CONSTANTS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}


class Token:
    __slots__ = ("kind", "text", "where")

    def __init__(self, kind, text, where):
        self.kind, self.text, self.where = kind, text, where


def tokens_of(text, file, line):
    out, at, where = [], 0, Where(file, line)
    for m in TOKEN.finditer(text):
        if m.start() != at:
            break
        at = m.end()
        if m.lastgroup not in ("space", "comment"):
            out.append(Token(m.lastgroup, m.group(), where))
    if at < len(text):
        raise Mistake(where, f"unexpected character '{text[at]}'")
    return out


def logical_lines(text, file):
    """(indent, tokens): a line that is indented deeper than the column it follows continues it. A line at the same
    depth that begins with an operator word cannot occur, so depth alone decides."""
    out, column_indent = [], None
    for number, raw in enumerate(text.split("\n"), 1):
        tokens = tokens_of(raw, file, number)
        if not tokens:
            continue
        indent = len(raw) - len(raw.lstrip(" \t"))
        if indent == 0:
            column_indent = None
            out.append((0, tokens))
        elif not out:
            raise Mistake(Where(file, number), "a column without an entry")
        elif column_indent is None:
            column_indent = indent
            out.append((1, tokens))
        elif indent > column_indent:
            out[-1][1].extend(tokens)
        elif indent == column_indent:
            out.append((1, tokens))
        else:
            raise Mistake(Where(file, number), "this line is indented less than the columns before it")
    return out


class Parser:
    def __init__(self, tokens, file):
        self.tokens, self.file, self.at = tokens, file, 0

    # ---- tokens ----
    @property
    def where(self):
        return self.tokens[min(self.at, len(self.tokens) - 1)].where

    def fail(self, text):
        found = f"'{self.tokens[self.at].text}'" if self.at < len(self.tokens) else "the end of the line"
        raise Mistake(self.where, f"{text}, found {found}")

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead].text if self.at + ahead < len(self.tokens) else None

    def kind(self, ahead=0):
        return self.tokens[self.at + ahead].kind if self.at + ahead < len(self.tokens) else None

    def take(self):
        token = self.tokens[self.at]
        self.at += 1
        return token.text

    def has(self, text):
        if self.at == len(self.tokens):
            return False
        token = self.tokens[self.at]
        if token.text != text or token.kind == "string":
            return False
        self.at += 1
        return True

    def need(self, text):
        if not self.has(text):
            self.fail(f"expected '{text}'")

    def name(self):
        if self.kind() != "name":
            self.fail("expected a name")
        return self.take()

    def string(self):
        if self.kind() != "string":
            self.fail("expected a text in quotes")
        return unquote(self.take())

    def done(self):
        return self.at >= len(self.tokens)

    def end(self):
        if not self.done():
            self.fail("expected the end of the line")

    def names(self):
        out = [self.ref()]
        while self.has(","):
            out.append(self.ref())
        return out

    def ref(self):
        text = self.name()
        if self.has("."):
            text += "." + self.take()
        return text

    # ---- schema ----
    def schema(self):
        space, name, overload = "aten", self.name(), ""
        if self.has("::"):
            space, name = name, self.name()
        if self.has("."):
            overload = self.take()
        self.need("(")
        args, keyword = [], False
        while not self.has(")"):
            if self.has("*"):
                keyword = True
            else:
                type = self.type()
                name_ = self.name()
                default = self.default() if self.has("=") else None
                args.append(Arg(type, name_, default, keyword))
            if self.peek() != ")":
                self.need(",")
        self.need("->")
        results, parens = [], self.has("(")
        if parens:
            while not self.has(")"):
                results.append(self.result())
                if self.peek() != ")":
                    self.need(",")
        else:
            results.append(self.result())
        self.end()
        return Schema(space, name, overload, tuple(args), tuple(results), parens)

    def result(self):
        type = self.type()
        return Arg(type, self.take() if self.kind() == "name" else "")

    def type(self):
        base, alias, written, wild = self.name(), "", False, ""
        items_optional = is_list = optional = False
        length = 0
        while True:
            if self.has("("):
                alias = self.name()
                while self.has("|"):
                    alias += "|" + self.name()
                written = self.has("!")
                if self.has("->"):
                    wild = self.take()
                self.need(")")
            elif self.has("?"):
                optional = True
            elif self.peek() == "[":
                self.take()
                items_optional, optional, is_list = optional, False, True
                length = 0 if self.peek() == "]" else int(self.take())
                self.need("]")
            else:
                return Type(base, alias, written, wild, items_optional, is_list, length, optional)

    def default(self):
        if self.has("["):
            items = []
            while not self.has("]"):
                items.append(self.default())
                if self.peek() != "]":
                    self.need(",")
            return Default("list", tuple(items))
        if self.kind() == "string":
            return Default("str", self.string())
        sign = -1 if self.has("-") else 1
        if self.kind() == "number":
            value = number(self.take())
            return Default("float" if isinstance(value, float) else "int", sign * value)
        word = self.name()
        if word in ("None", "True", "False"):
            return Default("none" if word == "None" else "bool", CONSTANTS[word])
        if word in ("inf", "nan"):
            return Default("float", sign * float(word))
        return Default("name", word)

    # ---- columns ----
    def column(self):
        where, word = self.where, self.name()
        reader = getattr(self, "column_" + word, None)
        if reader is None:
            self.at -= 1
            self.fail("expected a column")
        data = reader() or {}
        self.end()
        return Column(where, word, data)

    def column_also(self):
        out = [self.variant()]
        while self.has(","):
            out.append(self.variant())
        return {"variants": out}

    def variant(self):
        kind = self.name()
        if kind not in ("inplace", "out", "functional", "scalar", "named", "copy"):
            self.at -= 1
            self.fail("expected inplace, out, functional, scalar(…), named or copy")
        if kind == "named":
            return self.other_name()
        names, given, outs = [], None, None
        if kind == "copy":
            return {"kind": kind, "as": None, "of": self.name() if self.has("of") else None}
        if kind == "scalar":
            self.need("(")
            names = self.names()
            self.need(")")
        if self.has("as"):
            name, overload = self.name(), ""
            if self.has("."):
                overload = self.take()
            given = (name, overload)
        if kind == "out" and self.has("("):
            outs = self.names()
            self.need(")")
        return {"kind": kind, "names": names, "as": given, "outs": outs}

    def other_name(self):
        """named NAME[.overload][(arguments)] [without variant-or-overload …]"""
        name, overload, args, without = self.name(), None, None, []
        if self.has("."):
            overload = self.take()
        if self.has("("):
            args = self.names()
            self.need(")")
        if self.has("without"):
            without.append(self.name())
            while self.kind() == "name":
                without.append(self.name())
        return {"kind": "named", "name": name, "overload": overload, "args": args, "without": without}

    def column_like(self):
        kind = self.name()
        if kind not in KINDS:
            self.at -= 1
            self.fail("expected a kind")
        words, when = [], None
        while not self.done():
            if self.has("to"):
                words.append(("to", [Name(self.where, self.name())]))
            elif self.has("if"):
                when = self.expr()
            elif self.kind() == "number":
                words.append((int(self.take()), None))
            else:
                word = self.name()
                words.append((word, self.args()[0] if self.peek() == "(" else None))
        return {"kind": kind, "words": words, "if": when}

    def column_each(self):
        """each NAME[.overload](argument, name = argument …)"""
        name, overload, args = self.name(), "", []
        if self.has("."):
            overload = self.take()
        self.need("(")
        while not self.has(")"):
            word = self.name()
            args.append((word, self.name()) if self.has("=") else (None, word))
            if self.peek() != ")":
                self.need(",")
        return {"name": name, "overload": overload, "args": args}

    def column_dtypes(self):
        out, message = [], None
        while not self.done():
            if self.has("as"):
                message = self.string()
            else:
                out.append(self.name())
                if out[-1] not in DTYPE_GROUPS and out[-1] not in DTYPES:
                    self.at -= 1
                    self.fail("expected a dtype or one of " + " ".join(sorted(DTYPE_GROUPS)))
        return {"groups": out, "message": message}

    def column_numbers(self):
        return {"names": self.names()}

    column_nograd = column_wide = column_narrow = column_keeps = column_numbers

    def column_core(self):
        return {}

    def column_turns(self):
        """A view whose elements are the conjugates (conj) or negatives (neg) of those it looks at."""
        return {"sign": self.name()}

    def column_commutes(self):
        return {}

    def column_overlap(self):
        how = self.name()
        if how not in ("never", "self", "whole"):
            self.at -= 1
            self.fail("expected never, self or whole")
        return {"how": how}

    def column_name(self):
        out = {"name": self.string() if self.kind() == "string" else self.name(), "variants": {}}
        while self.has(","):
            variant = self.name()
            out["variants"][variant] = self.name()
        return out

    def column_face(self):
        words = []
        while not self.done():
            words.append(self.name())
            if words[-1] not in ("method", "function", "nn", "none"):
                self.at -= 1
                self.fail("expected method, function, nn or none")
        return {"words": words}

    def column_autocast(self):
        word = self.name()
        if word not in ("lower", "fp32", "promote"):
            self.at -= 1
            self.fail("expected lower, fp32 or promote")
        return {"how": word}

    def let(self):
        where, name = self.where, self.name()
        self.need("=")
        return Let(where, name, self.item())

    def column_let(self):
        return {"let": self.let()}

    def column_check(self):
        if self.peek() == "c" and self.kind(1) == "name":
            cfun = self.cfun()
            return {"cfun": cfun, "args": cfun.args or []}
        test = self.expr()
        self.need(":")
        kind = self.take() if self.kind() == "name" else "runtime"
        if kind not in CLASSES:
            self.fail("expected value, index, type, unimplemented or linalg")
        text, args = self.string(), []
        while self.has(","):
            args.append(self.expr())
        if text.count("{}") != len(args):
            self.fail(f"the text has {text.count('{}')} places and {len(args)} arguments follow")
        return {"test": test, "kind": kind, "text": text, "args": args}

    def column_result(self):
        name = self.take() if self.peek() != "=" else None
        self.need("=")
        return {"name": name, "exprs": self.exprs()}

    def exprs(self):
        out = [self.expr()]
        while self.has(","):
            out.append(self.expr())
        return out

    def column_results(self):
        var = self.name()
        self.need("<")
        count = self.sum()
        self.need(":")
        return {"var": var, "count": count, "body": self.expr()}

    def column_inverse(self):
        return {"expr": self.expr()}

    def column_alias(self):
        how = self.name()
        if how not in ("maybe", "alone", "never"):
            self.fail("expected maybe, alone or never")
        return {"how": how, "name": self.name()}

    def column_writes(self):
        return {"names": self.names(), "if": self.expr() if self.has("if") else None}

    def column_functional(self):
        twin = self.ref()
        self.need(":")
        pairs = []
        while True:
            name = self.name()
            self.need("=")
            pairs.append((name, int(self.take())))
            if not self.has(","):
                return {"twin": twin, "pairs": pairs}

    def column_graphs(self):
        """graphs true_fn as true_graph, f as body_graph list [in conditional]: functions, what traced ones are called and give."""
        pairs = []
        while True:
            name = self.name()
            self.need("as")
            pairs.append((name, self.name(), "list" if self.has("list") else "one" if self.has("one") else "tuple"))
            if not self.has(","):
                return {"pairs": pairs, "node": self.name() if self.has("in") else None}

    def column_effect(self):
        kind = self.name()
        if kind not in ("rng", "sync", "io", "file"):
            self.fail("expected rng, sync, io or file")
        return {"kind": kind, "if": self.expr() if self.has("if") else None}

    def column_expr(self):
        return {"guarded": self.guarded()}

    def column_reduce(self):
        return {"expr": self.expr()}

    def column_kernel(self):
        name = self.name()
        args = self.args()[0] if self.peek() == "(" else None
        return {"name": name, "args": args, "if": self.expr() if self.has("if") else None}

    def column_decomp(self):
        traced = self.has("traced")
        return {"traced": traced, "guarded": self.guarded()}

    def column_grad(self):
        if self.peek() == "inplace" and self.kind(1) == "name":
            self.take()
            return self.column_grad() | {"inplace": True}
        names = self.names()
        self.need("=")
        for word in ("zero", "none"):
            if self.peek() == word and self.at + 1 == len(self.tokens):
                self.take()
                return {"names": names, "special": word}
        if self.peek() == "error" and self.kind(1) == "string":
            self.take()
            return {"names": names, "special": "error", "text": self.string()}
        return {"names": names, "special": None, "expr": self.expr()}

    def column_deriv(self):
        name = self.name()
        self.need("=")
        return {"name": name, "expr": self.expr()}

    def column_jvp(self):
        self.need("=")
        for rule in ("linear", "product", "diagonal", "transposed"):
            if self.has(rule):
                names = None
                if self.has("("):
                    names = self.names()
                    self.need(")")
                return {"rule": rule, "names": names}
        return {"rule": None, "exprs": self.exprs()}

    def column_vmap(self):
        word = self.peek()
        if word in ("align", "fold", "shift") and self.kind(1) == "name":
            return {"how": self.take(), "names": self.names()}
        if word in ("align", "decomp", "draw", "loop", "shift") and self.at + 1 == len(self.tokens):
            return {"how": self.take()}
        if word == "error" and self.kind(1) == "string":
            self.take()
            return {"how": "error", "text": self.string()}
        return {"how": "expr", "any": self.has("any"), "expr": self.expr()}

    def column_trace(self):
        pairs = []
        while True:
            name = self.name()
            self.need("=")
            pairs.append((name, self.cfun() if self.peek() == "c" else self.string()))
            if not self.has(","):
                return {"pairs": pairs}

    def column_onnx(self):
        expr = self.expr()
        return {"expr": expr, "if": self.expr() if self.has("if") else None}

    # ---- try rows ----
    def column_try(self):
        rows = [self.row()]
        while self.has(";"):
            rows.append(self.row())
        return {"rows": rows}

    def row(self):
        name, samples = self.name(), []
        self.need("=")
        while True:
            samples.append(self.sample())
            if not self.has(","):
                return (name, samples)

    def sample(self):
        if self.kind() == "name" and self.peek(1) == "[":
            dtype = self.take()
            self.need("[")
            sizes = []
            while not self.has("]"):
                sizes.append(int(self.take()))
                if self.peek() != "]":
                    self.need(",")
            layout = self.name() if self.has("as") else None
            return ("tensor", dtype, sizes, layout)
        if self.peek() == "of" and self.peek(1) == "(":
            self.take()
            self.need("(")
            values = []
            while not self.has(")"):
                sign = -1 if self.has("-") else 1
                token = self.take()
                values.append(sign * (float(token) if token in ("inf", "nan") else number(token)))
                if self.peek() != ")":
                    self.need(",")
            return ("of", values)
        if self.kind() == "name" and self.peek() not in CONSTANTS:
            return ("set", self.take())
        return ("literal", self.una())

    # ---- expressions ----
    def guarded(self):
        where, test = self.where, None
        if self.has("when"):
            test = self.expr()
            self.need(":")
        return Guarded(where, test, self.expr())

    def item(self):
        where, body = self.where, self.expr()
        if not self.has("for"):
            return body
        var = self.name()
        self.need("in")
        low = self.sum_or_post()
        high = self.sum() if self.has("..") else None
        test = self.expr() if self.has("if") else None
        return For(where, body, var, low, high, test)

    def sum_or_post(self):
        return self.sum()

    def expr(self):
        where, test = self.where, self.or_()
        if not self.has("?"):
            return test
        yes = self.expr()
        self.need(":")
        return Cond(where, test, yes, self.expr())

    def or_(self):
        left = self.and_()
        while self.peek() == "or":
            where = self.where
            self.take()
            left = Binary(where, "or", left, self.and_())
        return left

    def and_(self):
        left = self.not_()
        while self.peek() == "and":
            where = self.where
            self.take()
            left = Binary(where, "and", left, self.not_())
        return left

    def not_(self):
        where = self.where
        if self.has("not"):
            return Unary(where, "not", self.not_())
        return self.cmp()

    def cmp(self):
        left = self.dflt()
        if self.peek() in ("<", "<=", ">", ">=", "==", "!=", "in") and self.kind() != "string":
            where, op = self.where, self.take()
            left = Binary(where, op, left, self.dflt())
            if self.peek() in ("<", "<=", ">", ">=", "==", "!=", "in"):
                self.fail("comparisons do not chain")
        return left

    def dflt(self):
        left = self.sum()
        if self.peek() == "??":
            where = self.where
            self.take()
            return Binary(where, "??", left, self.dflt())
        return left

    def sum(self):
        left = self.mul()
        while self.peek() in ("+", "-") and self.kind() == "mark":
            where, op = self.where, self.take()
            left = Binary(where, op, left, self.mul())
        return left

    def mul(self):
        left = self.una()
        while self.peek() in ("*", "/", "//", "%") and self.kind() == "mark":
            where, op = self.where, self.take()
            left = Binary(where, op, left, self.una())
        return left

    def una(self):
        where = self.where
        if self.has("-"):
            of = self.una()
            if isinstance(of, Literal) and type(of.value) in (int, float):
                return Literal(where, -of.value)
            return Unary(where, "-", of)
        return self.pow()

    def pow(self):
        where, left = self.where, self.post()
        if self.has("**"):
            return Binary(where, "**", left, self.una())
        return left

    def post(self):
        of = self.atom()
        while True:
            where = self.where if not self.done() else None
            if self.has("."):
                name = int(self.take()) if self.kind() == "number" else self.name()
                args, keywords = self.args() if self.peek() == "(" else (None, None)
                of = Attr(where, of, name, args, keywords)
            elif self.has("["):
                low = None if self.peek() == ":" else self.expr()
                if self.has(":"):
                    high = None if self.peek() == "]" else self.expr()
                    of = Slice(where, of, low, high)
                else:
                    of = Index(where, of, low)
                self.need("]")
            else:
                return of

    def args(self):
        self.need("(")
        args, keywords = [], []
        while not self.has(")"):
            where = self.where
            if self.has("*"):
                args.append(Star(where, self.item()))
            elif self.kind() == "name" and self.peek(1) == "=":
                name = self.take()
                self.take()
                keywords.append((name, self.expr()))
            else:
                args.append(self.item())
            if self.peek() != ")":
                self.need(",")
        return args, keywords

    def cfun(self):
        where = self.where
        self.need("c")
        name = self.name()
        if not re.fullmatch(r"tp_[kscdvjfo]_\w+", name):
            self.at -= 1
            self.fail("expected a C function: tp_k_, tp_s_, tp_c_, tp_d_, tp_v_, tp_j_, tp_f_ or tp_o_")
        return CFun(where, name, self.args()[0] if self.peek() == "(" else None)

    def atom(self):
        where, kind = self.where, self.kind()
        if kind == "number":
            return Literal(where, number(self.take()))
        if kind == "string":
            return Literal(where, unquote(self.take()))
        if self.has("("):
            inner = self.expr()
            self.need(")")
            return inner
        if self.has("["):
            items = []
            while not self.has("]"):
                at = self.where
                items.append(Star(at, self.item()) if self.has("*") else self.item())
                if self.peek() != "]":
                    self.need(",")
            return List(where, items)
        if kind != "name":
            self.fail("expected an expression")
        word = self.peek()
        if word == "c" and self.kind(1) == "name" and self.peek(1).startswith("tp_"):
            return self.cfun()
        if word in ("like", "order") and (self.kind(1) == "name" or self.peek(1) in ("(", "[")):
            self.take()
            return (Like if word == "like" else Order)(where, self.post())
        if word == "error" and (self.kind(1) == "string" or self.kind(2) == "string" and self.peek(1) in CLASSES):
            self.take()
            return Error(where, self.take() if self.kind() == "name" else "runtime", self.string())
        self.take()
        if word in CONSTANTS:
            return Literal(where, CONSTANTS[word])
        if self.peek() == "(":
            args, keywords = self.args()
            return Call(where, word, args, keywords)
        return Name(where, word)


def number(text):
    return float(text) if any(c in text for c in ".eE") else int(text)


def unquote(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), text[1:-1])


def parse(text, file):
    """The entries and fns of one file, in order."""
    out, seldom = [], False
    for indent, tokens in logical_lines(text, file):
        p = Parser(tokens, file)
        if indent == 1:
            if not out:
                p.fail("expected an entry before this column")
            if isinstance(out[-1], Entry):
                out[-1].columns.append(p.column())
            else:
                out[-1].lines.append(p.let() if p.has("let") else p.guarded())
                p.end()
            continue
        where = p.where
        if p.has("op"):
            out.append(Entry(where, p.schema(), [], seldom))
        elif p.has("fn"):
            name, params = p.name(), []
            p.need("(")
            while not p.has(")"):
                params.append(p.name())
                if p.peek() != ")":
                    p.need(",")
            lines = [Guarded(where, None, p.expr())] if p.has("=") else []
            p.end()
            out.append(Fn(where, name, params, lines))
        elif p.has("seldom"):
            p.end()
            seldom = True
        else:
            p.fail("expected 'op', 'fn' or 'seldom'")
    return out
