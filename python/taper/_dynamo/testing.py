"""Back ends that count, and the standard test of a captured function."""
from . import eval_frame, optimize_assert, reset
from .backends.registry import lookup_backend
from .eval_frame import unsupported
from .utils import same

__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "expectedFailureDynamic", "same", "standard_test", "unsupported"]


def _calls(gm):
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += _calls(gm)
        return gm.forward

    def clear(self):
        self.frame_count = 0
        self.op_count = 0


class CompileCounterWithBackend:
    def __init__(self, backend):
        self.backend = backend
        self.graphs = []
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += _calls(gm)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        self.frame_count = 0
        self.op_count = 0
        self.graphs = []


class EagerAndRecordGraphs:
    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


def expectedFailureDynamic(fn):
    fn._expected_failure_dynamic = True
    return fn


def standard_test(self, fn, nargs, expected_ops=None, expected_ops_dynamic=None, expected_frame_count=1):
    from .. import randn

    first = [randn(10, 10) for _ in range(nargs)]
    second = [randn(10, 10) for _ in range(nargs)]
    right = [fn(*first), fn(*second)]
    reset()
    counter = CompileCounter()
    compiled = optimize_assert(counter)(fn)
    results = [compiled(*first), compiled(*second), compiled(*first), compiled(*second)]
    reset()
    for got, want in zip(results, right * 2):
        self.assertTrue(same(want, got))
    self.assertEqual(counter.frame_count, expected_frame_count)
    if expected_ops is not None:
        self.assertEqual(counter.op_count, expected_ops)
