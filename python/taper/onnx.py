"""torch.onnx: models as ONNX files. Lowering and writing are done in C (src/export/onnx); here arguments are flattened and programs are kept."""
import inspect
import io
import logging
import os

from . import _C
from ._options import warn_once
from ._recording import attribute, input_names, record, state_of, tensors_of
from .utils import _pytree as pytree

__all__ = ["DiagnosticOptions", "ExportOptions", "InvalidExportOptionsError", "ONNXProgram", "ONNXRuntimeOptions",
           "OnnxExporterError", "dynamo_export", "enable_fake_mode", "export", "is_in_onnx_export"]


# ---- What an export may be told, and what it says when it fails ----------------------------------------------------
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
        if self.op_level_debug:
            warn_once("torch.onnx: op_level_debug=True is accepted, but ops are not compared one by one")


class ONNXRuntimeOptions:
    def __init__(self, *, session_options=None, execution_providers=None, execution_provider_options=None):
        self.session_options, self.execution_providers = session_options, execution_providers
        self.execution_provider_options = execution_provider_options


def enable_fake_mode():
    raise NotImplementedError("torch.onnx.enable_fake_mode")


def is_in_onnx_export():
    """Only the exporter by TorchScript runs models in a mode of its own."""
    return False


# ---- What an export gives: the bytes of a model, and how its arguments and results are brought to flat lists -------
class ONNXProgram:
    """A model in ONNX's form. Call it as the model was called: onnxruntime runs it and gives one array an output."""

    def __init__(self, model_bytes, input_spec, failure=None, supplied=(), mutated=()):
        self._bytes, self._input_spec, self._failure, self._session = model_bytes, input_spec, failure, None
        self._supplied, self._mutated = list(supplied), list(mutated)      # weights that are inputs; buffers that are outputs
        self.model_signature = self.fake_context = self.diagnostic_context = None

    def _model_bytes(self):
        if self._failure is not None:
            raise self._failure
        return self._bytes

    @property
    def model_proto(self):
        """The model as an onnx.ModelProto; needs the package `onnx`."""
        import onnx

        return onnx.load_model_from_string(self._model_bytes())

    def save(self, destination, *, include_initializers=True, model_state=None, serializer=None):
        """Writes the model to a path or a binary file."""
        if model_state is not None and not isinstance(destination, str):
            raise RuntimeError("`destination` must be a string with a path when `model_state` is specified.")
        if model_state is not None or not include_initializers:
            raise NotImplementedError("ONNXProgram.save with weights beside the model")
        if serializer is not None:
            with _C._OutputFile(destination) if isinstance(destination, (str, os.PathLike)) else _Borrowed(destination) as file:
                serializer.serialize(self, file)
        elif isinstance(destination, io.IOBase) or hasattr(destination, "write"):
            destination.write(self._model_bytes())
        else:
            model = self._model_bytes()
            with _C._OutputFile(destination) as file:
                file.write(model)

    def adapt_torch_inputs_to_onnx(self, *args, model_with_state_dict=None, **kwargs):
        """The tensors among the arguments, in the order of the model's inputs."""
        spec = pytree.tree_structure((args, kwargs))
        if spec != self._input_spec:
            raise RuntimeError("Model inputs incompatible with the format that was exported: "
                               f"expected {self._input_spec}, got {spec}")
        return self._supplied + tensors_of((args, kwargs))

    def adapt_torch_outputs_to_onnx(self, model_outputs, model_with_state_dict=None):
        return self._mutated + tensors_of(model_outputs)

    def __call__(self, *args, model_with_state_dict=None, options=None, **kwargs):
        import onnxruntime

        if self._session is None or options is not None:
            providers = options.execution_providers if options is not None and options.execution_providers else ["CPUExecutionProvider"]
            session_options = options.session_options if options is not None else None
            self._session = onnxruntime.InferenceSession(self._model_bytes(), sess_options=session_options, providers=providers)
        tensors = self.adapt_torch_inputs_to_onnx(*args, **kwargs)
        names = [value.name for value in self._session.get_inputs()]
        return self._session.run(None, {name: x.detach().cpu().numpy() for name, x in zip(names, tensors)})


class _Borrowed:
    """A file somebody else closes."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self.file

    def __exit__(self, *_):
        pass


# ---- Exporting: a model is recorded with its example arguments, and the graph written by the engine (src/export/onnx) ----
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


def _model_bytes(named, module, input_names, output_names):
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
    function = model.forward if hasattr(model, "forward") else model
    _check_defaults(function, args, kwargs)
    module, spec, named = record(model, args, kwargs)
    names = input_names(function, args, kwargs)
    for i, name in enumerate(given_names or ()):
        if i < len(names):
            names[i] = name
    return ONNXProgram(_model_bytes(named, module, names, output_names), spec)


def _exported_program(program, args, kwargs, weights_inside, given_names=None, output_names=None):
    """Of an ExportedProgram: its graph as it is. Weights are inputs that the adapter supplies, or stand inside."""
    rows = state_of(program)
    constants = {p: x for p, (_, x) in rows.items()} if weights_inside else {}
    names = {p: name for p, (name, _) in rows.items()} if weights_inside else {}
    for node in program.graph.nodes:
        if node.op == "get_attr":
            constants[node.name] = attribute(program.graph_module, node.target)
    names.update(zip(program.graph_signature.user_inputs, given_names or ()))
    data = _C._onnx_write(program.graph, constants, names, list(output_names or ()))
    mutated = [program.state_dict[name] for name in program.graph_signature.buffers_to_mutate.values()]
    supplied = [] if weights_inside else [x.detach() for _, x in rows.values()]
    return ONNXProgram(data, pytree.tree_structure((args, kwargs)), supplied=supplied, mutated=mutated)


def dynamo_export(model, /, *args, export_options=None, **kwargs):
    """The model as an ONNXProgram, recorded with these arguments."""
    try:
        (export_options or ExportOptions()).refuse_missing()
        if hasattr(model, "graph_signature"):
            return _exported_program(model, args, kwargs, weights_inside=False)
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
    if verbose:
        warn_once("torch.onnx: verbose=True is accepted, but the exporter prints nothing")
    if not do_constant_folding:
        warn_once("torch.onnx: do_constant_folding=False is accepted, but what depends on constants alone is still computed at export")
    args = args if isinstance(args, tuple) else (args,)
    if kwargs is None and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    if hasattr(model, "graph_signature"):
        program = _exported_program(model, args, kwargs or {}, True, input_names, output_names)
    else:
        program = _exported(model, args, kwargs or {}, input_names, output_names)
    if f is not None:
        program.save(f)
    return program
