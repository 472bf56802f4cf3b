"""What an export may be told, and what it says when it fails."""
import logging


class InvalidExportOptionsError(RuntimeError):
    """Options that contradict each other or the model."""


class OnnxExporterError(RuntimeError):
    """An export failed; the reason is its __cause__."""

    def __init__(self, onnx_program, message):
        super().__init__(message)
        self.onnx_program = onnx_program


class DiagnosticOptions:
    def __init__(self, verbosity_level=logging.INFO, warnings_as_errors=False):
        self.verbosity_level, self.warnings_as_errors = verbosity_level, warnings_as_errors


class ExportOptions:
    def __init__(self, *, dynamic_shapes=None, op_level_debug=None, fake_context=None, onnx_registry=None, diagnostic_options=None):
        self.dynamic_shapes, self.op_level_debug, self.fake_context = dynamic_shapes, op_level_debug, fake_context
        self.onnx_registry, self.diagnostic_options = onnx_registry, diagnostic_options or DiagnosticOptions()

    def refuse_missing(self):
        """Raises for what this exporter does not do."""
        for name in ("dynamic_shapes", "fake_context", "onnx_registry"):
            if getattr(self, name):
                raise NotImplementedError(f"onnx export with {name}")


class ONNXRuntimeOptions:
    def __init__(self, *, session_options=None, execution_providers=None, execution_provider_options=None):
        self.session_options, self.execution_providers = session_options, execution_providers
        self.execution_provider_options = execution_provider_options


def enable_fake_mode():
    raise NotImplementedError("torch.onnx.enable_fake_mode")


def is_in_onnx_export():
    """Only the exporter by TorchScript runs models in a mode of its own."""
    return False
