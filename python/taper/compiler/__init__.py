"""Questions that programs ask about capture."""
from .._dynamo import disable, is_compiling, reset

__all__ = ["disable", "is_compiling", "is_dynamo_compiling", "reset"]


def is_dynamo_compiling():
    """Is the program being captured by its bytecode? Code that is captured never runs this."""
    return False
