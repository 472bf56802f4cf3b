"""What the parser makes of an expression: small nodes, each with the line it came from."""
from dataclasses import dataclass, field


class Mistake(Exception):
    """An error in an .op file; the text begins with file:line."""

    def __init__(self, where, text):
        super().__init__(f"{where}: {text}")


@dataclass(frozen=True)
class Where:
    file: str
    line: int

    def __str__(self):
        return f"{self.file}:{self.line}"


@dataclass
class Node:
    where: Where = field(repr=False, compare=False)


@dataclass
class Literal(Node):            # int, float, str, bool, None
    value: object


@dataclass
class Name(Node):
    name: str


@dataclass
class Call(Node):               # name(args); keywords are (name, expr) pairs
    name: str
    args: list
    keywords: list


@dataclass
class Attr(Node):               # of.name, of.name(args), of.0
    of: Node
    name: object                # a text, or an int
    args: list = None           # None: no parentheses
    keywords: list = None


@dataclass
class Index(Node):
    of: Node
    at: Node


@dataclass
class Slice(Node):
    of: Node
    low: Node
    high: Node


@dataclass
class Unary(Node):              # '-', 'not'
    op: str
    of: Node


@dataclass
class Binary(Node):             # arithmetic, comparisons, 'and', 'or', '??', 'in'
    op: str
    left: Node
    right: Node


@dataclass
class Cond(Node):
    test: Node
    yes: Node
    no: Node


@dataclass
class List(Node):
    items: list


@dataclass
class Star(Node):
    of: Node


@dataclass
class For(Node):                # body for var in low..high, or in sequence
    body: Node
    var: str
    low: Node
    high: Node                  # None: `low` is a sequence
    test: Node                  # None: all


@dataclass
class CFun(Node):               # c tp_s_index(self, ix)
    name: str
    args: list


@dataclass
class Like(Node):
    of: Node


@dataclass
class Order(Node):
    of: Node


@dataclass
class Error(Node):
    kind: str
    text: str


@dataclass
class Guarded(Node):            # when test : body; test None: always
    test: Node
    body: Node


@dataclass
class Let(Node):
    name: str
    body: Node


@dataclass
class Column(Node):
    word: str
    data: dict


@dataclass
class Fn(Node):
    name: str
    params: list
    lines: list                 # Let and Guarded


@dataclass
class Entry(Node):
    schema: object
    columns: list
    seldom: bool = False        # it stands below a line `seldom`


def walk(node):
    """All nodes below and including `node`, in source order."""
    if isinstance(node, Node):
        yield node
        for value in vars(node).values():
            yield from walk(value)
    elif isinstance(node, (list, tuple)):
        for item in node:
            yield from walk(item)


def show(node):
    """The expression as text again, for comments and as a key of common subexpressions."""
    if isinstance(node, Literal):
        return {True: "true", False: "false", None: "none"}.get(node.value, repr(node.value)) \
            if node.value is None or isinstance(node.value, bool) else repr(node.value)
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Call):
        return f"{node.name}({', '.join([show(a) for a in node.args] + [f'{k} = {show(v)}' for k, v in node.keywords])})"
    if isinstance(node, Attr):
        tail = "" if node.args is None else f"({', '.join([show(a) for a in node.args] + [f'{k} = {show(v)}' for k, v in node.keywords])})"
        return f"{show(node.of)}.{node.name}{tail}"
    if isinstance(node, Index):
        return f"{show(node.of)}[{show(node.at)}]"
    if isinstance(node, Slice):
        return f"{show(node.of)}[{show(node.low) if node.low else ''}:{show(node.high) if node.high else ''}]"
    if isinstance(node, Unary):
        return f"{node.op}{' ' if node.op == 'not' else ''}{show(node.of)}"
    if isinstance(node, Binary):
        return f"({show(node.left)} {node.op} {show(node.right)})"
    if isinstance(node, Cond):
        return f"({show(node.test)} ? {show(node.yes)} : {show(node.no)})"
    if isinstance(node, List):
        return f"[{', '.join(map(show, node.items))}]"
    if isinstance(node, Star):
        return f"*{show(node.of)}"
    if isinstance(node, For):
        return f"{show(node.body)} for {node.var} in {show(node.low)}{'..' + show(node.high) if node.high else ''}" \
               f"{' if ' + show(node.test) if node.test else ''}"
    if isinstance(node, CFun):
        return f"c {node.name}({', '.join(map(show, node.args or []))})"
    if isinstance(node, Like):
        return f"like {show(node.of)}"
    if isinstance(node, Order):
        return f"order {show(node.of)}"
    if isinstance(node, Error):
        return f'error "{node.text}"'
    return repr(node)
