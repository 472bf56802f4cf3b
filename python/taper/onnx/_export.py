"""Exporting: a model is recorded with its example arguments, and the graph written by the engine (src/export/onnx)."""
import inspect

from .. import _C
from .._recording import attribute, input_names, names_of, record
from ..utils import _pytree as pytree
from ._options import ExportOptions, OnnxExporterError
from ._program import ONNXProgram


def _check_defaults(function, args, kwargs):
    """A tensor that stands as a default is an input nobody gives."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return
    for name, parameter in signature.parameters.items():
        if name not in given and isinstance(parameter.default, _C.Tensor):
            raise RuntimeError(f"Unexpectedly found a {type(parameter.default)} in the inputs.")


def _model_bytes(model, module, input_names, output_names):
    named = names_of(model)
    constants, names, used = {}, {}, set(input_names)
    inputs = iter(input_names)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            names[node.name] = next(inputs, node.name)
        elif node.op == "get_attr":
            x = attribute(module, node.target)
            constants[node.name] = x
            name = named.get(id(x), node.target)
            names[node.name] = name if name not in used else f"{name}.{len(used)}"
            used.add(names[node.name])
    return _C._onnx_write(module.graph, constants, names, list(output_names or ()))


def _exported(model, args, kwargs, given_names=None, output_names=None):
    if not callable(model) and hasattr(model, "module"):       # an ExportedProgram
        model = model.module()
    function = model.forward if hasattr(model, "forward") else model
    _check_defaults(function, args, kwargs)
    module, spec = record(model, args, kwargs)
    names = input_names(function, args, kwargs)
    for i, name in enumerate(given_names or ()):
        if i < len(names):
            names[i] = name
    return ONNXProgram(_model_bytes(model, module, names, output_names), spec)


def dynamo_export(model, /, *args, export_options=None, **kwargs):
    """The model as an ONNXProgram, recorded with these arguments."""
    try:
        (export_options or ExportOptions()).refuse_missing()
        return _exported(model, args, kwargs)
    except Exception as error:
        failed = ONNXProgram(None, None, failure=error)
        raise OnnxExporterError(failed, f"Failed to export the model to ONNX: {error}") from error


def export(model, args=(), f=None, *, kwargs=None, export_params=True, verbose=None, input_names=None, output_names=None,
           opset_version=None, dynamic_axes=None, dynamic_shapes=None, dynamo=True, do_constant_folding=True, **unused):
    """The model as an ONNXProgram, written to `f` when one is given."""
    for name, wrong in (("dynamo=False", not dynamo), ("dynamic_axes", dynamic_axes), ("dynamic_shapes", dynamic_shapes),
                        ("export_params=False", not export_params), (f"opset_version={opset_version}", opset_version not in (None, 18))):
        if wrong:
            raise NotImplementedError(f"torch.onnx.export with {name}")
    if unused:
        raise NotImplementedError(f"torch.onnx.export with {', '.join(unused)}")
    args = args if isinstance(args, tuple) else (args,)
    if kwargs is None and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    program = _exported(model, args, kwargs or {}, input_names, output_names)
    if f is not None:
        program.save(f)
    return program
