"""JitTestCase: traced and scripted functions against eager ones, also after a trip through a file."""
import functools
import io
import math
import sys

from .decorators import TemporaryFileName, freeze_rng_state
from .test_case import TestCase
from ..._root import torch

RUN_CUDA = RUN_CUDA_HALF = RUN_CUDA_MULTI_GPU = False


def _trace(*args, **kwargs):
    """torch.jit.trace as a decorator."""
    return lambda function: torch.jit.trace(function, args, **kwargs)


def make_global(*objects):
    """Make classes or functions of a test visible where the script compiler looks for names."""
    for item in objects:
        setattr(sys.modules[item.__module__], item.__name__, item)


def enable_cpu_fuser(function):
    """We have one executor of graphs, which needs no switch."""
    return function


def _tmp_donotuse_dont_inline_everything(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        saved = torch._C._jit_get_inline_everything_mode()
        torch._C._jit_set_inline_everything_mode(False)
        try:
            return function(*args, **kwargs)
        finally:
            torch._C._jit_set_inline_everything_mode(saved)
    return wrapper


def flatten(value):
    """The tensors in a nest of lists, tuples and dicts, in order."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, torch.Tensor) or not hasattr(value, "__iter__") or isinstance(value, str):
        return [value]
    return [leaf for item in value for leaf in flatten(item)]


def map_tensors(function, value):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(function, item) for item in value)
    return value


def all_sum(outputs, drop=None):
    """A number that depends on every output, and on each in its own way."""
    outputs = [outputs] if isinstance(outputs, torch.Tensor) and outputs.dim() == 0 else list(outputs)
    if drop is not None:
        outputs = outputs[:-drop]
    outputs = [out for out in outputs if out is not None]
    return sum(math.log(place + 2) * out.sum() for place, out in enumerate(outputs))


class JitTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.jit.TracerWarning.ignore_lib_warnings()

    def tearDown(self):
        super().tearDown()
        torch.jit._state._clear_class_state()

    def runAndSaveRNG(self, func, inputs, kwargs=None):
        with freeze_rng_state():
            return func(*inputs, **(kwargs or {}))

    def getExportImportCopy(self, m, also_test_file=True, map_location=None):
        """`m` saved and loaded; by default twice, the second time through a file with a name."""
        buffer = io.BytesIO()
        torch.jit.save(m, buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer, map_location=map_location)
        if not also_test_file:
            return loaded
        with TemporaryFileName() as name:
            torch.jit.save(loaded, name)
            return torch.jit.load(name, map_location=map_location)

    def createFunctionFromGraph(self, trace):
        graph = trace if isinstance(trace, torch._C.Graph) else trace.graph()
        return torch._C._create_function_from_graph("forward", graph)

    def assertExportImport(self, trace, inputs):
        m = self.createFunctionFromGraph(trace)
        self.assertExportImportModule(m, inputs)

    def assertExportImportModule(self, m, inputs):
        copy = self.getExportImportCopy(m)
        self.assertEqual(self.runAndSaveRNG(m, inputs), self.runAndSaveRNG(copy, inputs))

    def run_pass(self, name, trace):
        """Run torch._C._jit_pass_<name> on a graph that is well formed before and after."""
        graph = trace if isinstance(trace, torch._C.Graph) else trace.graph()
        torch._C._jit_pass_lint(graph)
        result = getattr(torch._C, "_jit_pass_" + name)(graph)
        if result is not None and not isinstance(result, bool):
            graph = result
        torch._C._jit_pass_lint(graph)
        return graph

    def checkTrace(self, func, reference_tensors, input_tensors=None, drop=None, allow_unused=False, verbose=False,
                   inputs_require_grads=True, check_tolerance=1e-5, export_import=True, _force_outplace=False,
                   grad_atol=None, grad_rtol=None):
        """Trace `func`; outputs, gradients and gradients of gradients must be eager's. Returns the traced function."""
        if input_tensors is None:
            input_tensors = reference_tensors
        traced = torch.jit.trace(func, input_tensors, check_tolerance=check_tolerance, check_trace=False,
                                 _force_outplace=_force_outplace)
        if export_import:
            traced = self.getExportImportCopy(traced)
        self.assertEqual(self.runAndSaveRNG(func, reference_tensors), self.runAndSaveRNG(traced, reference_tensors))
        if inputs_require_grads:
            self.compare_gradients(func, traced, reference_tensors, drop, allow_unused, grad_atol, grad_rtol)
        return traced

    def compare_gradients(self, func, traced, reference, drop, allow_unused, atol, rtol):
        def needs_grad(tensor):
            return tensor.detach().clone().requires_grad_(tensor.dtype.is_floating_point or tensor.dtype.is_complex)

        def run(function, create_graph):
            """Outputs, gradients, and with `create_graph` the gradients of these."""
            inputs = map_tensors(needs_grad, reference)
            wanted = [t for t in flatten(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
            out = self.runAndSaveRNG(function, inputs)
            grads = torch.autograd.grad(all_sum(out, drop), wanted, create_graph=create_graph,
                                        allow_unused=allow_unused)
            again = all_sum([grad for grad in grads if grad is not None and grad.requires_grad])
            if not isinstance(again, torch.Tensor):
                return out, grads, None
            return out, grads, torch.autograd.grad(again, wanted, allow_unused=True)

        for create_graph in (False, True):
            out, grads, grads2 = run(func, create_graph)
            traced_out, traced_grads, traced_grads2 = run(traced, create_graph)
            self.assertEqual(out, traced_out)
            self.assertEqual(grads, traced_grads, atol=atol, rtol=rtol)
            self.assertEqual(grads2, traced_grads2, atol=8e-4, rtol=8e-4)
