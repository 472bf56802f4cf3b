"""What the text of a test file says, without importing it.

A *base* test is `Class.test_method` as the source spells it; an *instance* is what runs after parametrisation:
`TestPythonKeyCPU.test_make_fx_cpu` is an instance of `TestPythonKey.test_make_fx`. Because the base tests are read from
the text, a file that does not even import still counts in full.
"""
import ast
import re


class Source:
    """The test classes of a file, their bases and their test methods."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as text:
            self.tree = ast.parse(text.read())
        self.methods, self.bases, self.opdb = {}, {}, set()
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.read_class(node)

    def read_class(self, node):
        self.bases[node.name] = [ast.unparse(base).split(".")[-1] for base in node.bases]
        tests = self.methods.setdefault(node.name, [])
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name.startswith("test"):
                tests.append(item.name)
                if any(re.match(r"(ops|modules|optims)\(", ast.unparse(d)) for d in item.decorator_list):
                    self.opdb.add(f"{node.name}.{item.name}")
            elif isinstance(item, ast.Assign):                      # test_seq = make_test(Seq())
                tests += [t.id for t in item.targets if isinstance(t, ast.Name) and t.id.startswith("test")]

    def base_tests(self):
        """All base tests, a class's inherited ones included."""
        return [f"{cls}.{name}" for cls in self.methods
                for name in dict.fromkeys(name for owner in self.lineage(cls) for name in self.methods[owner])]

    def is_template(self, cls):
        """Others in the file derive from it: it may hold tests for them and have none of its own to run."""
        return any(cls in bases for bases in self.bases.values())

    def lineage(self, cls):
        """cls and its ancestors that this file defines, nearest first."""
        found = [cls]
        for name in found:
            found += [base for base in self.bases.get(name, []) if base in self.methods and base not in found]
        return found

    def base_of(self, cls, method):
        """(base test, class whose text defines it) of an instance; the longest names that fit win."""
        owner = cls if cls in self.methods else max(
            (name for name in self.methods if cls.startswith(name)), key=len, default=cls)
        for ancestor in self.lineage(owner):
            fits = [name for name in self.methods.get(ancestor, []) if method == name or method.startswith(name + "_")]
            if fits:
                return f"{owner}.{max(fits, key=len)}", ancestor
        return f"{owner}.{method}", None

    def describe(self, cls, method):
        """The record of an instance, as the worker lists it."""
        base, owner = self.base_of(cls, method)
        return {"id": f"{cls}.{method}", "base": base, "opdb": f"{owner}.{base.split('.')[1]}" in self.opdb}
