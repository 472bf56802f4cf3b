"""Exporting a model to ONNX, running it, and comparing with the model itself."""
import copy
import io

import onnxruntime
import pytorch_test_common
import torch
from pytorch_test_common import TorchModelType

SILENT = 3                                  # log severity: errors only


def run_ort(onnx_model, pytorch_inputs):
    """The outputs of a program, or of a model file, for these inputs."""
    if isinstance(onnx_model, torch.onnx.ONNXProgram):
        buffer = io.BytesIO()
        onnx_model.save(buffer)
        model = buffer.getvalue()
    else:
        model = onnx_model
    options = onnxruntime.SessionOptions()
    options.log_severity_level = SILENT
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"], sess_options=options)
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(pytorch_inputs):
        raise AssertionError(f"Expected {len(names)} inputs, got {len(pytorch_inputs)}")
    return session.run(None, {name: x.cpu().numpy() for name, x in zip(names, pytorch_inputs)})


def assert_dynamic_shapes(onnx_program, dynamic_shapes):
    """Some dimension of an input has a name just when shapes are dynamic; None asks nothing."""
    if dynamic_shapes is None:
        return
    inputs = onnx_program.model_proto.graph.input
    named = [dim.dim_param for value in inputs for dim in value.type.tensor_type.shape.dim if dim.dim_param]
    if bool(named) != dynamic_shapes:
        raise AssertionError(f"dynamic shapes {'expected' if dynamic_shapes else 'not expected'}, found {named}")


def compare_onnx_pytorch_outputs(onnx_program, model, args, kwargs, *, rtol, atol, has_mutation):
    """Run both on the same inputs; a model that writes its inputs gets copies."""
    if has_mutation:
        reference, reference_args, reference_kwargs = copy.deepcopy((model, args, kwargs))
    else:
        reference, reference_args, reference_kwargs = model, args, kwargs
    inputs = onnx_program.adapt_torch_inputs_to_onnx(*args, model_with_state_dict=model, **kwargs)
    expected = onnx_program.adapt_torch_outputs_to_onnx(reference(*reference_args, **reference_kwargs),
                                                        model_with_state_dict=model)
    actual = run_ort(onnx_program, inputs)
    if len(expected) != len(actual):
        raise AssertionError(f"Expected {len(expected)} outputs, got {len(actual)}")
    for one, other in zip(expected, actual):
        torch.testing.assert_close(torch.tensor(other), one, rtol=rtol, atol=atol)


class _TestONNXRuntime(pytorch_test_common.ExportTestCase):
    op_level_debug = dynamic_shapes = False
    model_type = TorchModelType.TORCH_NN_MODULE

    def setUp(self):
        super().setUp()
        onnxruntime.set_seed(0)

    def run_test_with_fx_to_onnx_exporter_and_onnx_runtime(
            self, model, input_args, *, input_kwargs=None, rtol=1e-3, atol=1e-7, has_mutation=False,
            additional_test_inputs=None, skip_dynamic_shapes_check=False):
        """Export as the class's parameters say; outputs must agree, with dynamic shapes also for other inputs."""
        args, kwargs = tuple(input_args), dict(input_kwargs or {})
        reference = model
        if isinstance(model, torch.nn.Module) and has_mutation:
            reference = copy.deepcopy(model)
        if self.model_type == TorchModelType.TORCH_EXPORT_EXPORTEDPROGRAM:
            model = torch.export.export(model, args=copy.deepcopy(args))
            if self.dynamic_shapes:
                raise pytorch_test_common.XFailed("exported programs: no dynamic shapes here")
            reference = model.module()
        options = torch.onnx.ExportOptions(op_level_debug=self.op_level_debug, dynamic_shapes=self.dynamic_shapes)
        given_args, given_kwargs = copy.deepcopy((args, kwargs)) if has_mutation else (args, kwargs)
        onnx_program = torch.onnx.dynamo_export(model, *given_args, **given_kwargs, export_options=options)
        if not skip_dynamic_shapes_check:
            assert_dynamic_shapes(onnx_program, self.dynamic_shapes)
        cases = [(args, kwargs)]
        if self.dynamic_shapes:
            cases += [(case[0], case[1] if len(case) == 2 else {}) for case in additional_test_inputs or ()]
        for args, kwargs in cases:
            compare_onnx_pytorch_outputs(onnx_program, reference, args, kwargs, rtol=rtol, atol=atol,
                                         has_mutation=has_mutation)
