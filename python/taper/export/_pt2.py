"""save and load: what is Python's around .pt2 files; the files themselves are read and written in C (src/export)."""
import io
import json
import keyword
import os
import warnings

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


# A file is not trusted: what it names is a name, and none of it is imported or called.
_FACTORIES = {("builtins", name) for name in ("list", "dict", "set", "frozenset", "tuple", "int", "float", "bool", "str", "bytes", "complex")}
_FACTORIES |= {("collections", name) for name in ("OrderedDict", "Counter", "deque")}


def _check_factories(node):
    """A defaultdict calls what it is given: the file may choose among containers and numbers."""
    if isinstance(node, list):
        for item in node:
            _check_factories(item)
    elif isinstance(node, dict):
        if "default_factory_module" in node or "default_factory_name" in node:
            module, name = node.get("default_factory_module"), node.get("default_factory_name")
            if (module, name) not in _FACTORIES:
                raise NotImplementedError(f"export.load: a defaultdict of {module}.{name} is not implemented in Taper yet")
        for item in node.values():
            _check_factories(item)


def _spec(text):
    if not isinstance(text, str):
        raise RuntimeError("export.load: the file does not say how arguments and results nest")
    _check_factories(json.loads(text))
    return pytree.treespec_loads(text)


def _arguments(names):
    for name in names:
        bare = name.lstrip("*")
        if not bare.isidentifier() or keyword.iskeyword(bare):
            raise RuntimeError(f"export.load: {name!r:.80} is no name for an argument")
    return names


def _state_names(names):
    """Paths that lead to a module's own attributes, and nowhere else."""
    for path in names:
        if any(not part or part.startswith("__") and part.endswith("__") for part in path.split(".")):
            raise RuntimeError(f"export.load: {path!r:.80} is no name for a tensor of a module")


def _examples(data):
    """The example inputs, which nothing needs: whatever cannot be read safely is left out."""
    if not data:
        return None
    try:
        examples = serialization.load(io.BytesIO(data), weights_only=True)
        if not (isinstance(examples, tuple) and len(examples) == 2 and isinstance(examples[0], tuple) and isinstance(examples[1], dict)):
            raise TypeError("they are no (args, kwargs)")
    except Exception as error:  # noqa: BLE001 - of a file anything may be wrong
        reason = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
        warnings.warn(f"export.load: the example inputs of the file are left out: {reason.strip().splitlines()[0] if reason else error!r:.300}",
                      stacklevel=3)
        return None
    return examples


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
    call = ModuleCallSignature([], [], _spec(parts["in_spec"]), _spec(parts["out_spec"]), _arguments(parts["forward"]))
    _state_names([*parts["state"], *parts["constants"], *(target for _, _, target, _ in parts["inputs"] if target is not None)])
    examples = _examples(parts["examples"])
    ranges = {Expression(name): ValueRanges(max(low, -int_oo), _upper(high)) for name, low, high in parts["ranges"]}
    calls = [ModuleCallEntry("", call)] + [ModuleCallEntry(path) for path in parts["modules"]]
    return ExportedProgram(root=GraphModule({}, graph), graph=graph, graph_signature=signature, state_dict=_tensors(parts["state"]),
                           range_constraints=ranges, module_call_graph=calls,
                           example_inputs=examples, constants=_tensors(parts["constants"]), _dialect=parts["dialect"], _guards_code=parts["guards"])
