"""torch.onnx: models as ONNX files. Lowering and writing are done in C; here arguments are flattened and programs are kept."""
from ._options import (DiagnosticOptions, ExportOptions, InvalidExportOptionsError, OnnxExporterError, ONNXRuntimeOptions,
                       enable_fake_mode, is_in_onnx_export)
from ._program import ONNXProgram
from ._export import dynamo_export, export

__all__ = ["DiagnosticOptions", "ExportOptions", "InvalidExportOptionsError", "ONNXProgram", "ONNXRuntimeOptions",
           "OnnxExporterError", "dynamo_export", "enable_fake_mode", "export", "is_in_onnx_export"]
