"""The first line of an entry: an ATen schema, read, changed into its variants, and written again."""
from dataclasses import dataclass, replace

TYPES = {
    "Tensor": "TENSOR", "Scalar": "SCALAR", "number": "SCALAR", "int": "INT", "SymInt": "SYMINT", "float": "FLOAT",
    "bool": "BOOL", "SymBool": "BOOL", "str": "STR", "ScalarType": "DTYPE", "Layout": "LAYOUT", "Device": "DEVICE", "MemoryFormat": "FORMAT",
    "Generator": "GENERATOR", "Storage": "STORAGE", "Dimname": "DIMNAME", "Stream": "STREAM",
}


@dataclass(frozen=True)
class Type:
    base: str                   # "Tensor", "int" …
    alias: str = ""             # "a", "a|b"
    written: bool = False       # '!'
    wild: str = ""              # "a -> *": what stands after the arrow
    items_optional: bool = False
    is_list: bool = False
    length: int = 0
    optional: bool = False

    def __str__(self):
        alias = f"({self.alias}{'!' if self.written else ''}{' -> ' + self.wild if self.wild else ''})" if self.alias else ""
        text = self.base + alias + ("?" if self.items_optional else "")
        if self.is_list:
            text += f"[{self.length or ''}]"
        return text + ("?" if self.optional else "")

    @property
    def is_tensor(self):
        return self.base == "Tensor" and not self.is_list

    @property
    def is_tensors(self):
        return self.base == "Tensor" and self.is_list


@dataclass(frozen=True)
class Arg:
    type: Type
    name: str
    default: object = None      # a Default, or None when there is none
    keyword_only: bool = False

    def __str__(self):
        return f"{self.type} {self.name}".rstrip() + (f"={self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class Default:
    """The value after '='. kind: none bool int float str list name."""
    kind: str
    value: object

    def __str__(self):
        if self.kind == "none":
            return "None"
        if self.kind == "float":
            text = "%.17g" % self.value
            return text if any(c in text for c in ".en") else text + "."
        if self.kind == "str":
            return f'"{self.value}"'
        if self.kind == "list":
            return "[" + ", ".join(map(str, self.value)) + "]"
        return str(self.value)


@dataclass(frozen=True)
class Schema:
    space: str
    name: str
    overload: str
    args: tuple
    results: tuple              # of Arg; names may be ""
    result_parens: bool = False

    @property
    def full(self):
        return self.name + ("." + self.overload if self.overload else "")

    @property
    def symbol(self):
        """The C name of the op's struct without its prefix."""
        space = "" if self.space == "aten" else self.space + "_"
        return space + self.name + ("_" + self.overload if self.overload else "")

    @property
    def signature(self):
        parts, star = [], False
        for a in self.args:
            if a.keyword_only and not star:
                parts.append("*")
                star = True
            parts.append(str(a))
        results = ", ".join(map(str, self.results))
        if len(self.results) != 1 or self.result_parens:
            results = f"({results})"
        return f"({', '.join(parts)}) -> {results}"

    def __str__(self):
        return f"{self.space}::{self.full}{self.signature}"

    def index(self, name):
        for i, a in enumerate(self.args):
            if a.name == name:
                return i
        return -1

    def result_index(self, name):
        for i, a in enumerate(self.results):
            if a.name == name:
                return i
        return -1


def letter(i):
    return "abcdefgh"[i]


def make_inplace(s, name=None, overload=None):
    first = s.args[0]
    written = replace(first, type=replace(first.type, alias="a", written=True))
    results = (Arg(written.type, ""),) if not first.type.is_list else ()        # lists of tensors are written, not given back
    return replace(s, name=name or s.name + "_", overload=s.overload if overload is None else overload,
                   args=(written,) + s.args[1:], results=results, result_parens=not results)


def writes_lists(s):
    """A step of an optimiser: returns nothing and writes lists of tensors."""
    return not s.results and s.args[0].type.written and s.args[0].type.is_list


def make_functional(s, name=None, overload=None):
    """Of an in-place schema."""
    def unwritten(a):
        return replace(a, type=replace(a.type, alias="", written=False))
    plain = tuple(unwritten(a) if a.type.written else a for a in s.args)
    results = tuple(map(unwritten, s.results))
    if writes_lists(s):                                 # what was written comes back
        results = tuple(replace(unwritten(a), name=a.name + "_out") for a in s.args if a.type.written)
    return replace(s, name=name or s.name.rstrip("_"), overload=s.overload if overload is None else overload,
                   args=plain, results=results)


def make_out(s, name=None, overload=None, names=None):
    """Of a functional schema: results become written keyword arguments."""
    if overload is None:
        overload = s.overload + "_out" if s.overload else "out"
    many = len(s.results) > 1
    if overload == "grad_input" and not names:
        names = ["grad_input"]
    names = names or [r.name or (f"out{i}" if many else "out") for i, r in enumerate(s.results)]
    written = [ord(a.type.alias) - ord("a") for a in s.args if a.type.written]
    first = max(3, *written) if written else 0         # PyTorch leaves the letters up to c to what the op itself writes
    first += first in written
    outs, results = [], []
    for i, r in enumerate(s.results):
        type = replace(r.type, alias=letter(first + i), written=True)
        outs.append(Arg(type, names[i], None, True))
        results.append(Arg(type, "" if overload == "output" or names[i] == f"out{i}" else r.name))      # PyTorch names no results there
    if any(r.type.is_list for r in s.results):         # a list is written where it stands and not given back
        results = []
    return replace(s, name=name or s.name, overload=overload, args=s.args + tuple(outs), results=tuple(results))


def make_list_out(s, name=None, overload=None):
    """Of a schema that writes lists: the first is given back in out."""
    first = s.args[0]
    out = Arg(first.type, "out", None, True)
    return replace(s, name=name or s.name.rstrip("_"), overload=overload or (s.overload + "_out" if s.overload else "out"),
                   args=(replace(first, type=replace(first.type, alias="", written=False)),) + s.args[1:] + (out,))


def make_copy(s):
    """Of a view: select.int(Tensor(a) self, …) -> Tensor(a) is copied by select_copy.int(Tensor self, …) -> Tensor."""
    def plain(a):
        return replace(a, type=replace(a.type, alias=""))
    return replace(s, name=s.name + "_copy", args=tuple(map(plain, s.args)), results=tuple(map(plain, s.results)))


def make_scalar(s, names, name=None, overload=None):
    """The listed tensor arguments become numbers; a star before Scalar arguments falls (add.Scalar has none)."""
    args = []
    for a in s.args:
        if a.name in names:
            a = replace(a, type=Type("Scalar", optional=a.type.optional))
        elif a.keyword_only and a.type.base == "Scalar":
            a = replace(a, keyword_only=False)
        args.append(a)
    return replace(s, name=name or s.name, overload="Scalar" if overload is None else overload, args=tuple(args))
