"""What capture and export raise."""
from enum import auto, Enum


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class Unsupported(TorchDynamoException):
    """The capture met something it cannot follow; the text says what, and where in the user's program."""

    @property
    def msg(self):
        return str(self)


class TorchRuntimeError(TorchDynamoException):
    pass


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class ResetRequired(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    pass


class FailOnRecompileLimitHit(Exception):
    """Under `fullgraph=True` a function was captured as often as config.recompile_limit allows, and no entry fits the call."""


class UserErrorType(Enum):
    DYNAMIC_CONTROL_FLOW = auto()
    ANTI_PATTERN = auto()
    STANDARD_LIBRARY = auto()
    CONSTRAINT_VIOLATION = auto()
    DYNAMIC_DIM = auto()
    INVALID_INPUT = auto()
    INVALID_OUTPUT = auto()


class UserError(Unsupported):
    """A mistake in what the user asked for."""

    def __init__(self, error_type, msg, case_name=None):
        super().__init__(msg)
        self.error_type = error_type
        self.message = msg
        self.case_name = case_name


class BackendCompilerFailed(TorchDynamoException):
    def __init__(self, backend_fn, inner_exception):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class BackendNeedsData(BackendCompilerFailed, Unsupported):
    """The back end asked for a value that depends on data: without fullgraph, the program runs as it is."""
