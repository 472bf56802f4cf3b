"""torch.jit: functions and modules recorded as graphs, and what runs, prints, saves and loads them."""
from .. import _C
from . import _state
from ._script import (
    CompilationUnit, RecursiveScriptModule, ScriptModule, annotate, export, freeze, ignore, interface, load,
    optimize_for_inference, save, script, script_method, unused,
)
from ._trace import (
    ONNXTracedModule, TopLevelTracedModule, TracedModule, TracerWarning, TracingCheckError, _get_trace_graph, _graph_for,
    _unique_state_dict, is_tracing, trace, trace_module,
)
from ..futures import Future, _fork, _wait, fork, wait
from ._settings import (
    _unwrap_optional, enable_onednn_fusion, fuser, is_scripting, isinstance, last_executed_optimized_graph,
    optimized_execution, set_fusion_strategy, strict_fusion,
)

ScriptFunction = _C.ScriptFunction
ScriptMethod = _C.ScriptMethod
Error = RuntimeError
