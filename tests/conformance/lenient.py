"""Loading a test file of which some names do not exist.

A test file imports dozens of names at its top; one that the provider lacks would fail every test of the file. Here such
a name becomes a Missing object: it may be stored, called and used as a decorator while the file loads, and fails every
test that touches it, saying what is missing. A branch on it fails too: a skip must not hide a failure. The file itself
stays as it is.
"""
import __future__

import ast
import builtins
import importlib
import os
import sys
import unittest


class MissingName(Exception):
    """A test used a name that the provider does not have."""


class Missing:
    """Stands for a name that could not be imported."""
    loading = False

    def __init__(self, name):
        self.__dict__["name"] = name

    def fail(self, *_args, **_kwargs):
        raise MissingName(f"not provided: {self.name}")

    def __repr__(self):
        return f"<missing {self.name}>"                 # no address: it may become part of a test's name

    def __getattr__(self, attr):
        if attr.startswith("__") and attr.endswith("__"):
            raise AttributeError(attr)
        return Missing(f"{self.name}.{attr}") if Missing.loading else self.fail()

    def __call__(self, *args, **kwargs):
        if not Missing.loading:
            self.fail()
        if len(args) == 1 and not kwargs and isinstance(args[0], type):
            return args[0]                              # a class decorator: the class goes through as it is
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Missing):
            return self.failing(args[0].__name__)       # a decorator: its test cannot pass
        return self

    def failing(self, name):
        def test(*_args, **_kwargs):
            self.fail()
        test.__name__ = test.__qualname__ = name
        return test

    def __mro_entries__(self, _bases):
        missing = self

        class MissingBase(unittest.TestCase):
            def __init__(self, *args, **kwargs):
                if not unittest.defaultTestLoader.getTestCaseNames(type(self)):
                    missing.fail()
                super().__init__(*args, **kwargs)

            def setUp(self):
                missing.fail()
        return (MissingBase,)

    __bool__ = __iter__ = __len__ = __getitem__ = __add__ = __radd__ = __or__ = __ror__ = fail
    __instancecheck__ = __subclasscheck__ = __enter__ = __exit__ = fail


def load(path, module, helpers):
    """Fill `module` from the test file at `path`; returns what could not be had, one text each. `helpers` are the
    folders whose modules are loaded with the same leniency."""
    loader = Loader(path, helpers)
    plain, builtins.__import__, Missing.loading = builtins.__import__, loader.importer, True
    try:
        loader.run_statements(path, module)
    finally:
        builtins.__import__, Missing.loading = plain, False
    return loader.missing


class Loader:
    def __init__(self, path, helpers):
        self.path, self.helpers, self.missing, self.in_try = path, helpers, [], set()
        self.plain_import = builtins.__import__

    def is_ours(self, file):
        """Leniency is for the test file and its helper modules alone."""
        return file == self.path or os.path.dirname(os.path.realpath(file)) in self.helpers

    def importer(self, name, globals=None, locals=None, fromlist=(), level=0):
        """In place of __import__: absent names become Missing."""
        asker = (globals or {}).get("__file__") or ""
        if level or not self.is_ours(asker):
            return self.plain_import(name, globals, locals, fromlist, level)
        handling = sys.exc_info()[0] is not None
        try:
            module = self.plain_import(name, globals, locals, fromlist, level)
        except Exception as problem:
            if asker in self.in_try and not handling:
                raise                                   # the file has its own answer to this one failing
            module = self.load_helper(name)
            if module is None:
                self.missing.append(f"{name} ({type(problem).__name__}: {problem})")
                module = Missing(name)
        if not fromlist or "*" in fromlist:
            return module
        return self.pick(module, name, fromlist)

    def pick(self, module, name, fromlist):
        """A namespace with the names asked for, whole or in part."""
        space = type(sys)(name)
        for attr in fromlist:
            try:
                value = getattr(module, attr)
            except Exception as problem:
                value = self.submodule(f"{name}.{attr}", problem)
            setattr(space, attr, value)
        return space

    def submodule(self, name, problem):
        try:
            return importlib.import_module(name)
        except Exception:
            reason = "" if isinstance(problem, AttributeError) else f" ({problem})"
            self.missing.append(name + reason)
            return Missing(name)

    def load_helper(self, name):
        """A helper module that does not import as a whole: load what can be loaded."""
        for folder in self.helpers:
            path = os.path.join(folder, name + ".py")
            if os.path.exists(path):
                module = sys.modules[name] = type(sys)(name)
                module.__file__ = path
                self.run_statements(path, module)
                return module
        return None

    def run_statements(self, path, module):
        """Run a file's top-level statements one by one; a class member that cannot be built becomes a failing test."""
        flags = 0
        with open(path, encoding="utf-8") as text:
            tree = ast.parse(text.read())
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                flags |= __future__.annotations.compiler_flag
                continue
            (self.in_try.add if isinstance(node, ast.Try) else self.in_try.discard)(path)
            while not self.run_statement(node, path, module, flags):
                pass

    def run_statement(self, node, path, module, flags):
        """True when done; False when a member was replaced and the statement is worth another try."""
        code = compile(ast.Module([node], []), path, "exec", flags=flags, dont_inherit=True)
        try:
            exec(code, module.__dict__)
            return True
        except Exception as problem:
            self.missing.append(f"line {node.lineno}: {type(problem).__name__}: {problem}")
            member = failing_member(node, problem, path)
            if member is None:
                return True
            name = member.name if isinstance(member, ast.FunctionDef) else member.targets[0].id
            text = f"def {name}(self, *args, **kwargs): raise RuntimeError({f'cannot be built: {problem!r}'!r})"
            stub = ast.parse(text).body[0]
            node.body[node.body.index(member)] = ast.fix_missing_locations(ast.copy_location(stub, member))
            return False


def failing_member(node, problem, path):
    """The member of class `node` on whose lines `problem` arose."""
    if not isinstance(node, ast.ClassDef):
        return None
    lines, trace = [], problem.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == path:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    for item in node.body:
        first = min([item.lineno] + [d.lineno for d in getattr(item, "decorator_list", [])])
        made = isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)   # test_seq = make_test(Seq())
        if (made or isinstance(item, ast.FunctionDef)) and any(first <= line <= item.end_lineno for line in lines):
            return item
    return None
