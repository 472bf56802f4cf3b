"""Writing C: lines with an indent, blocks, and text literals."""
import collections
import re


def quote(text):
    out = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + out.replace("??", '?""?') + '"'


class Body:
    """Statements of a function under construction."""

    def __init__(self, depth=1):
        self.lines, self.depth = [], depth

    def add(self, text):
        self.lines.append("    " * self.depth + text if text else "")

    def open(self, text):
        self.add(text + " {")
        self.depth += 1

    def close(self, tail=""):
        self.depth -= 1
        self.add("}" + tail)

    def otherwise(self, text="else"):
        self.depth -= 1
        self.add("} " + text + " {")
        self.depth += 1

    def capture(self):
        """Another body at the same depth, to look at before it is put in."""
        return Body(self.depth)

    def put(self, other):
        self.lines += other.lines

    def __bool__(self):
        return bool(self.lines)


def wrapped(items, indent="    ", width=116):
    """Items joined by commas in lines of at most `width`."""
    lines, line = [], indent
    for i, item in enumerate(items):
        piece = item + ("," if i + 1 < len(items) else "")
        if len(line) + len(piece) > width and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += piece + " "
    return "\n".join(lines + [line.rstrip()])


STRING = re.compile(r'"(?:\\.|[^"\\])*"')
VARIABLE = re.compile(r"(?<![\w.>])[A-Za-z_]\w*")
DECLARATION = re.compile(r"( *)tp_(?:value|syms|ints) (\w+) = (.*);$")


def mentions(lines):
    """How often each name stands in lines of C, members and texts left out."""
    return collections.Counter(VARIABLE.findall(STRING.sub('""', "\n".join(lines))))


def without_unused(lines):
    """A value that nobody reads is computed for what it does, or not at all."""
    count, out, changed = mentions(lines), [], False
    for line in lines:
        m = DECLARATION.match(line)
        if m and count[m[2]] == 1:
            changed = True
            if not m[3].startswith("tp_scope_"):
                continue
            line = f"{m[1]}(void){m[3]};"
        out.append(line)
    return without_unused(out) if changed else out


def used_prelude(prelude, body):
    """The lines of a prelude whose variables are read."""
    count = mentions([line for _, line in prelude.values()] + body.lines)
    return [line for name, line in prelude.values() if count[name] > 1]


def folded(line, width=120):
    """A long call with its arguments on a line of their own."""
    at = re.search(r"(?<=_on\(&s, )&tp_op_|\(tp_value\[\]\)\{", line)
    if len(line) <= width or not at:
        return [line]
    at = at.start() if line[at.start()] == "(" else line.find(", ", at.start()) + 2
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    return [line[:at].rstrip(), indent + line[at:]]


def in_place(line):
    """A list of integers is written where it belongs: to return one is to copy all its room."""
    m = re.match(r"( *)tp_ints (\w+) = (tp_ints_\w+)\((.*)\);$", line)
    return [f"{m[1]}tp_ints {m[2]};", f"{m[1]}{m[3]}(&{m[2]}, {m[4]});"] if m else folded(line)


def function(head, body):
    body.lines = [part for line in without_unused(body.lines) for part in in_place(line)]
    return head + "\n{\n" + "\n".join(body.lines) + "\n}\n"
