"""Parameters of the package's functions that their bodies never read: options that would be accepted and ignored.

    python tools/unused_arguments.py            what `make check` asks: those that tools/unused_arguments.txt does not explain

An option acts, or is refused (`_options.refuse`), or is told once that it changes nothing (`_options.tell_once`): each of these reads it. What a
protocol prescribes is left out: special methods, names that begin with `_`, functions that only raise or give a constant, and testing/. All else
needs a line `file:function(parameter, ...)  reason` in the list."""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = pathlib.Path(__file__).with_suffix(".txt")
LEFT_OUT = {"testing"}          # PyTorch's own test helpers: their parameters are what its tests give


def _says_nothing(function):
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    constant = len(body) == 1 and isinstance(body[0], ast.Return) and (body[0].value is None or isinstance(body[0].value, ast.Constant))
    return constant or all(isinstance(s, (ast.Raise, ast.Pass, ast.Import, ast.ImportFrom)) for s in body)


def _unread(function):
    a = function.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x]
    inside = [n for s in function.body for n in ast.walk(s)]
    if any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "locals" for n in inside):
        return []
    read = {n.id for n in inside if isinstance(n, ast.Name)}
    return [n for n in names if n not in read and n not in ("self", "cls", "ctx") and not n.startswith("_")]


def _functions(tree, path=()):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield path, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*path, node.name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _functions(node, path)


def _is_prescribed(path, function):
    name = function.name
    special = name.startswith("__") and name.endswith("__") and name not in ("__init__", "__new__", "__call__")
    return special or name.startswith("_") and not name.startswith("__") or any(part.startswith("_") for part in path)


def found():
    package = ROOT / "python/taper"
    for file in sorted(package.rglob("*.py")):
        if set(file.relative_to(package).parts) & LEFT_OUT:
            continue
        for path, function in _functions(ast.parse(file.read_text())):
            if not _is_prescribed(path, function) and not _says_nothing(function) and (names := _unread(function)):
                yield f"{file.relative_to(package)}:{'.'.join((*path, function.name))}({', '.join(names)})"


def unexplained():
    """Faults: options that are neither read nor explained, and explanations that explain nothing any more."""
    there = set(found())
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    explained = {re.match(r"(.*?\))  \S", line).group(1) for line in lines}
    yield from (f"{one}: accepted and ignored" for one in sorted(there - explained))
    yield from (f"{one}: in {LIST.name}, but no longer so" for one in sorted(explained - there))


if __name__ == "__main__":
    faults = list(unexplained())
    print(*faults, sep="\n")
    sys.exit(bool(faults))
