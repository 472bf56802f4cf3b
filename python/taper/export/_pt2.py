"""save and load: what is Python's around .pt2 files; the files themselves are read and written in C (src/export)."""
import io
import os

from .. import _C, serialization
from ..fx import GraphModule
from ..nn import Parameter
from ..utils import _pytree as pytree
from ..utils._sympy.numbers import int_oo
from ..utils._sympy.value_ranges import Expression, ValueRanges
from . import _trace
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import ExportGraphSignature, InputKind, OutputKind


def save(program, file, extra_files=None):
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(program).__name__}' instead.")
    if extra_files:
        raise NotImplementedError("export.save(extra_files=...) is not implemented in Taper yet")
    examples = None
    if program.example_inputs is not None:
        held = io.BytesIO()
        serialization.save(program.example_inputs, held)
        examples = held.getvalue()
    program.graph_module._note_children()
    root = program.module_call_graph[0].signature
    ranges = [(str(symbol), int(bounds.lower), int(bounds.upper)) for symbol, bounds in program.range_constraints.items()
              if str(symbol).isidentifier()]
    if program._shape_env is not None:      # sizes of inputs that became expressions of others: PyTorch wants a range of each symbol
        known = {name for name, _, _ in ranges}
        ranges += [(name, low, high) for name, _, low, high, value, sources in program._shape_env._symbols
                   if value is not None and sources and name not in known]
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    made = _C._export_save(path, program.graph, program.graph_signature._capsule(), dict(program.state_dict), dict(program.constants), ranges,
                           list(program._guards_code),
                           pytree.treespec_dumps(root.in_spec), pytree.treespec_dumps(root.out_spec), list(root.forward_arg_names or []),
                           [entry.fqn for entry in program.module_call_graph[1:]], program.dialect, examples)
    if path is None:
        file.write(made)


def _tensors(rows):
    """{name: tensor}; one object for each tensor of the file."""
    return {name: Parameter(tensor.detach(), requires_grad=tensor.requires_grad) if parameter else tensor
            for name, (tensor, parameter) in rows.items()}


def _upper(bound):
    return int_oo if bound >= int_oo else bound


def load(file, extra_files=None):
    if extra_files:
        raise NotImplementedError("export.load(extra_files=...) is not implemented in Taper yet")
    parts = _C._export_load(os.fspath(file) if isinstance(file, (str, os.PathLike)) else file.read())
    graph = parts["graph"]
    rows = {name: (InputKind(kind), target, persistent if InputKind(kind) is InputKind.BUFFER else None)
            for kind, name, target, persistent in parts["inputs"] if InputKind(kind) is not InputKind.USER_INPUT}
    leaves = [node.meta.get("val") for node in graph.find_nodes(op="placeholder") if node.name not in rows]
    written = [(OutputKind(kind), target) for kind, target in parts["outputs"]]
    signature = ExportGraphSignature(_trace._input_specs(graph, rows, leaves), _trace._output_specs(graph, written))
    call = ModuleCallSignature([], [], pytree.treespec_loads(parts["in_spec"]), pytree.treespec_loads(parts["out_spec"]), parts["forward"])
    examples = serialization.load(io.BytesIO(parts["examples"]), weights_only=False) if parts["examples"] else None
    ranges = {Expression(name): ValueRanges(max(low, -int_oo), _upper(high)) for name, low, high in parts["ranges"]}
    calls = [ModuleCallEntry("", call)] + [ModuleCallEntry(path) for path in parts["modules"]]
    return ExportedProgram(root=GraphModule({}, graph), graph=graph, graph_signature=signature, state_dict=_tensors(parts["state"]),
                           range_constraints=ranges, module_call_graph=calls,
                           example_inputs=examples, constants=_tensors(parts["constants"]), _dialect=parts["dialect"], _guards_code=parts["guards"])
