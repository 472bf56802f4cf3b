"""Whether tracing needed more of the declared sizes than was declared; the question is answered in C."""
from .. import _C
from .._dynamo.exc import UserError, UserErrorType


def check(symbols, keep_complex=False):
    rows = [(name, uses[0][0], symbol, -1) for name, (_, symbol, uses) in symbols.of_name.items()]
    roots = list(symbols.of_name)
    rows += [(dim.__name__, source, size, roots.index(dim.root.__name__)) for dim, source, size in symbols.derived]
    text = _C._export_violations(symbols.env, rows, keep_complex)
    if text is not None:
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text)
