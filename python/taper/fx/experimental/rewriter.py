"""Tracing programs that assert: their source is changed before it is traced, so that asserts and annotated assignments are calls."""
import ast
import inspect
import textwrap
import types

from ...nn import Module
from .._symbolic_trace import Tracer
from ..annotate import annotate

__all__ = ["AST_Rewriter", "RewritingTracer"]


def _call(name, *args):
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


class AST_Rewriter(ast.NodeTransformer):
    """`assert c, m` becomes torch._assert(c, m), and `y: T = v` becomes y = annotate(v, T)."""

    def visit_Assert(self, node):
        self.generic_visit(node)
        made = ast.Expr(_call("__fx_assert", node.test, node.msg or ast.Constant(value="")))
        return ast.copy_location(made, node)

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        if node.value is None:
            return node
        made = ast.Assign(targets=[node.target], value=_call("__fx_annotate", node.value, node.annotation))
        return ast.copy_location(made, node)

    def rewrite(self, fn):
        """The same function of the changed source, with the globals and the closure of the first."""
        tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(fn)[0])))
        ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
        written = tree.body[0]
        if not isinstance(written, ast.FunctionDef):
            raise NotImplementedError(f"only functions that are written with def can be rewritten, {fn} is not")
        written.decorator_list = []
        self.visit(tree)
        package = __import__(__name__.partition(".")[0])
        cells = {"__fx_assert": types.CellType(package._assert), "__fx_annotate": types.CellType(annotate),
                 **dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))}
        # What the function finds in cells are parameters of a function around it: the compiler then makes cells of them again.
        around = ast.FunctionDef(name="around", args=ast.arguments(posonlyargs=[], args=[ast.arg(arg=name) for name in cells], kwonlyargs=[],
                                                                   kw_defaults=[], defaults=[]), body=[written], decorator_list=[])
        tree.body = [around]
        code = compile(ast.fix_missing_locations(tree), fn.__code__.co_filename, "exec")
        for name in ("around", fn.__name__):
            code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
        made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars))
        made.__kwdefaults__, made.__annotations__, made.__module__ = fn.__kwdefaults__, fn.__annotations__, fn.__module__
        return made


def _rewritten(root):
    if not isinstance(root, Module):
        return AST_Rewriter().rewrite(inspect.unwrap(root))
    made = type(root)
    if not made.__module__.startswith(__name__.partition(".")[0] + ".nn"):
        forward = AST_Rewriter().rewrite(inspect.unwrap(made.forward))
        made = type("RewrittenModule", (made,), {"forward": forward, "__module__": made.__module__})
    new = made.__new__(made)
    new.__dict__.update({name: value.copy() if isinstance(value, dict) else value for name, value in root.__dict__.items()})
    for name, child in root.named_children():
        new._modules[name] = _rewritten(child)
    return new


class RewritingTracer(Tracer):
    """A Tracer of the rewritten program; its root is a module of the same members."""

    def trace(self, root, concrete_args=None):
        return super().trace(_rewritten(root), concrete_args)
