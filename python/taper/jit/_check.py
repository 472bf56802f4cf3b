"""After a trace: is it what the Python function does, and does a second one say the same?"""
import copy
import difflib
import re
import warnings

from .. import _C
from ..autograd.grad_mode import no_grad
from ..testing import assert_close
from ._trace import TracerWarning, TracingCheckError, _indent

_MANGLED = re.compile(r"___torch_mangle_\d+\.")


def _clone(value):
    if isinstance(value, _C.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad) if value.dtype.is_floating_point else value.detach().clone()
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(map(_clone, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_clone, value))
    return value


def _tensors(value):
    if isinstance(value, _C.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _tensors(item)]
    return [leaf for item in value for leaf in _tensors(item)] if isinstance(value, (list, tuple)) else []


def _call(function, inputs):
    inputs = _clone(inputs)
    return function(**inputs) if isinstance(inputs, dict) else function(*inputs)


def _canonical(function, c_module):
    graph = _C._jit_pass_inline(function.graph, c_module) if c_module is not None else _C._jit_pass_inline(function.graph)
    graph = _C._jit_pass_canonicalize(graph)
    _C._jit_pass_erase_shape_information(graph)
    return graph


def _text(thing):
    return _MANGLED.sub("", str(thing))


def _graph_difference(first, second):
    """(how the graphs differ, how their constants differ), None where they do not."""
    graph_error = tensor_error = None
    if _text(first) != _text(second):
        diff = difflib.ndiff(_text(first).splitlines(True), _text(second).splitlines(True))
        graph_error = "Graph diff:\n" + _indent("".join(diff)) + "\n"
    for mine, other in zip(first.nodes(), second.nodes()):
        if graph_error and _text(mine) != _text(other):
            diff = difflib.ndiff(_text(mine).splitlines(True), _text(other).splitlines(True))
            graph_error += "First diverging operator:\nNode diff:\n" + _indent("".join(diff)) + "\n"
            if mine.sourceRange():
                graph_error += "Trace source location:\n" + _indent(mine.sourceRange()) + "\n"
            if other.sourceRange():
                graph_error += "Check source location:\n" + _indent(other.sourceRange()) + "\n"
        if mine.kind() != other.kind():
            break
        if mine.kind() == "prim::Constant" and mine.hasAttribute("value") and mine.kindOf("value") == "t" and other.kindOf("value") == "t":
            try:
                assert_close(mine.t("value"), other.t("value"), equal_nan=True)
            except (AssertionError, RuntimeError) as error:
                tensor_error = f"Node:\n{_indent(str(mine))}\nSource Location:\n{_indent(mine.sourceRange())}\n"
                tensor_error += "Comparison exception: " + _indent(str(error))
                break
        if graph_error and _text(mine) != _text(other):
            break
    return graph_error, tensor_error


def _warn(text):
    warnings.warn(text, category=TracerWarning, stacklevel=5)


def _compare(outs, expected, what, tolerance):
    """Do the tensors of two runs agree? Warns about the first that do not."""
    for place, (mine, theirs) in enumerate(zip(_tensors(outs), _tensors(expected))):
        try:
            assert_close(mine.double() if mine.dtype.is_floating_point else mine, theirs.double() if theirs.dtype.is_floating_point else theirs,
                         rtol=tolerance, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            _warn(f"Output nr {place + 1}. of the traced function does not match the corresponding output of the {what}. "
                  f"Detailed error:\n{error}")
            return False
    return True


def check_trace(inputs, function, traced, trace_again, tolerance, c_module):
    with no_grad():
        second, second_module = trace_again(_clone(inputs))
        first_graph, second_graph = _canonical(traced, c_module), _canonical(second, second_module)
        graph_error, tensor_error = _graph_difference(first_graph, second_graph)
        random = [node for node in traced.graph.nodes() if node.isNondeterministic()]
        if random:
            lines = "\n".join(_indent(str(node).rstrip()) for node in random[:20])
            _warn("Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n" + lines +
                  "\nThis may cause errors in trace checking. To disable trace checking, pass check_trace=False to torch.jit.trace()")
        out = _call(traced, inputs)
        if _compare(out, _call(function, inputs), "Python function", tolerance):
            _compare(out, _call(second, inputs), "repeated trace", tolerance)
        if graph_error is not None or tensor_error is not None:
            raise TracingCheckError(graph_error, tensor_error)
