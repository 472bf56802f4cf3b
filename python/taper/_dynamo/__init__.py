"""Names of the capture that programs and tests use; the capture itself is in C."""
from . import exc

__all__ = ["exc", "is_compiling", "is_dynamo_supported", "disable", "reset"]


def is_dynamo_supported():
    return True


def is_compiling():
    from ..export._trace import _is_exporting
    return _is_exporting()


def disable(fn=None, recursive=True):
    """Marks a function that is never captured; call tracing goes through it either way."""
    return (lambda function: function) if fn is None else fn


def reset():
    """Nothing is kept between captures."""
