"""What an export gives: the bytes of a model, and how its arguments and results are brought to flat lists."""
import io

from .._recording import tensors_of
from ..utils import _pytree as pytree


class ONNXProgram:
    """A model in ONNX's form. Call it as the model was called: onnxruntime runs it and gives one array an output."""

    def __init__(self, model_bytes, input_spec, failure=None):
        self._bytes, self._input_spec, self._failure, self._session = model_bytes, input_spec, failure, None
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
            with open(destination, "wb") if isinstance(destination, str) else _Borrowed(destination) as file:
                serializer.serialize(self, file)
        elif isinstance(destination, io.IOBase) or hasattr(destination, "write"):
            destination.write(self._model_bytes())
        else:
            with open(destination, "wb") as file:
                file.write(self._model_bytes())

    def adapt_torch_inputs_to_onnx(self, *args, model_with_state_dict=None, **kwargs):
        """The tensors among the arguments, in the order of the model's inputs."""
        spec = pytree.tree_structure((args, kwargs))
        if spec != self._input_spec:
            raise RuntimeError("Model inputs incompatible with the format that was exported: "
                               f"expected {self._input_spec}, got {spec}")
        return tensors_of((args, kwargs))

    def adapt_torch_outputs_to_onnx(self, model_outputs, model_with_state_dict=None):
        return tensors_of(model_outputs)

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
