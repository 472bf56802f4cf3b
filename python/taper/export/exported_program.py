"""What export gives: a graph without writes, what its inputs and outputs are, the state it belongs to."""
import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from .. import _C
from .._options import refuse
from ..fx import Graph, GraphModule
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from .graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "CallSpec", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    inputs: list
    outputs: list
    in_spec: Any
    out_spec: Any
    forward_arg_names: Optional[list] = None

    def replace_all_uses_with(self, original_node, new_node):
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    fqn: str
    signature: Optional[ModuleCallSignature] = None


class CallSpec(NamedTuple):
    in_spec: Any
    out_spec: Any


def default_decompositions():
    """The table that run_decompositions uses when it is given none."""
    from .._decomp import core_aten_decompositions
    return core_aten_decompositions()


def _assign(module, path, value, kind, persistent=True):
    *prefix, field = path.split(".")
    for part in prefix:
        below = module._modules.get(part)
        if below is None:
            below = Module()
            module.add_module(part, below)
        module = below
    if kind is InputKind.PARAMETER:
        module.register_parameter(field, value)
    elif kind is InputKind.BUFFER:
        module.register_buffer(field, value, persistent=persistent)
    else:
        setattr(module, field, value)


def _refused(word):
    def refuse(self, mode=True):
        raise NotImplementedError(f"Calling {word}() is not supported yet.")
    return refuse


class ExportedProgram:
    """A program: its graph, its signature, its state."""

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph, example_inputs=None, constants=None,
                 verifiers=None, *, _dialect="TRAINING", _aliases=None, _shape_env=None, _guards_code=()):
        refuse("ExportedProgram", verifiers=(verifiers, None))
        graph._codegen = Graph()._codegen
        self._graph_module = root if isinstance(root, GraphModule) else GraphModule(root, graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = {} if constants is None else constants
        self._dialect = _dialect
        self._aliases = {} if _aliases is None else _aliases
        self._shape_env = _shape_env
        self._guards_code = list(_guards_code)      # what calls must meet beyond ranges, as Python over the sources of the inputs

    graph_module = property(lambda self: self._graph_module)
    graph = property(lambda self: self._graph_module.graph)
    graph_signature = property(lambda self: self._graph_signature)
    state_dict = property(lambda self: self._state_dict)
    range_constraints = property(lambda self: self._range_constraints)
    module_call_graph = property(lambda self: self._module_call_graph)
    example_inputs = property(lambda self: self._example_inputs)
    constants = property(lambda self: self._constants)
    tensor_constants = property(lambda self: self._constants)
    dialect = property(lambda self: self._dialect)

    @graph_module.setter
    def graph_module(self, value):
        raise RuntimeError("Unable to set ExportedProgram's graph_module attribute.")

    @example_inputs.setter
    def example_inputs(self, value):
        pair = isinstance(value, tuple) and len(value) == 2
        if value is not None and not (pair and isinstance(value[0], tuple) and isinstance(value[1], dict)):
            raise ValueError("Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs "
                             "(as a dictionary).")
        self._example_inputs = value

    @property
    def call_spec(self):
        signature = self._module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    # ---- state ----
    def parameters(self):
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self):
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        fleeting = set(self._graph_signature.non_persistent_buffers)
        for name in self._graph_signature.buffers:
            yield name, self._constants[name] if name in fleeting else self._state_dict[name]

    # ---- running ----
    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def _paths(self):
        """What messages call the inputs."""
        paths, in_spec = [], self.call_spec.in_spec
        for path, _ in pytree.tree_flatten_with_path(pytree.tree_unflatten([0] * in_spec.num_leaves, in_spec))[0]:
            first, second, rest = path[0].idx, path[1], path[2:]
            paths.append(f"*args[{second.idx}]{pytree.keystr(rest)}" if first == 0 else f"{second.key!r}{pytree.keystr(rest)}")
        return paths

    def _checker(self, check_guards):
        """A hook that raises when a call's inputs are not what was exported."""
        in_spec, graph, signature, paths = self.call_spec.in_spec, self.graph, self._graph_signature._capsule(), self._paths()
        guards = _C._export_read_guards(graph, signature, self._guards_code) if check_guards and self._guards_code else None

        def check(module, args, kwargs):
            leaves = _flat_inputs(in_spec, args, kwargs)
            _C._export_check(graph, signature, leaves, paths, guards)
        return check

    def module(self, check_guards=True):
        """The program as a module whose state is its own attributes; it checks its inputs, without `check_guards` only their sizes
        and constants, not what the trace took for granted beyond them."""
        graph = self.graph.__deepcopy__()
        _C._export_unlift(graph, self._graph_signature._capsule())
        in_spec, out_spec = self.call_spec
        names = self._module_call_graph[0].signature.forward_arg_names
        graph._codegen = _PyTreeCodeGen(_PyTreeInfo(list(names), in_spec, out_spec))
        root = Module()
        for name, value, kind, persistent in self._attributes():
            _assign(root, name, value, kind, persistent)
        made = GraphModule(root, graph)
        for name, value, kind, persistent in self._attributes():
            _assign(made, name, value, kind, persistent)
        made.meta.update(self._graph_module.meta)
        made.range_constraints = self._range_constraints
        made.__dict__["_check_inputs"] = self._checker(check_guards)
        made.register_forward_pre_hook(made._check_inputs, with_kwargs=True)
        type(made).train, type(made).eval = _refused("train"), _refused("eval")
        return made

    def _attributes(self):
        rows = []
        for spec in self._graph_signature.input_specs:
            if spec.target is not None:
                held = self._state_dict if spec.target in self._state_dict else self._constants
                rows.append((spec.target, held[spec.target], spec.kind, spec.persistent is not False))
        known = {name: (kind, persistent) for name, _, kind, persistent in rows}
        for alias, name in self._aliases.items():
            if alias in self._state_dict and name in known:
                rows.append((alias, self._state_dict[alias], *known[name]))
        for name, value in self._constants.items():
            if name not in known:
                rows.append((name, value, InputKind.CONSTANT_TENSOR, False))
        return rows

    # ---- lowering ----
    def run_decompositions(self, decomp_table=None, _preserve_ops=()):
        """A new program whose graph is below autograd: composites are opened, then the table is applied."""
        from . import _trace
        table = default_decompositions() if decomp_table is None else decomp_table
        if not isinstance(table, Mapping):
            raise TypeError(f"run_decompositions() takes a dict of ops and functions, got {type(table).__name__}")
        if any(n.target is not None and n.op == "call_function" and getattr(getattr(n.target, "_schema", None), "is_mutable", False)
               for n in self.graph.nodes):
            if decomp_table or _preserve_ops:
                warnings.warn("run_decompositions() of a program that writes in place only lowers it: the table and _preserve_ops take effect "
                              "when it is called on the result", stacklevel=2)
            table = {}      # from training IR this only lowers, whatever the table
        graph, signature, guards = _trace._retrace(self, _trace_table(table), _preserve_ops)
        if decomp_table is None and table:
            _warn_left(graph, table)
        return ExportedProgram(GraphModule({}, graph), graph, signature, self._state_dict, self._range_constraints, self._module_call_graph,
                               self._example_inputs, self._constants, _dialect="ATEN", _aliases=self._aliases, _shape_env=self._shape_env, _guards_code=guards)

    # ---- showing ----
    def __str__(self):
        module = self._graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self._graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {module}\nGraph signature: {signature}\nRange constraints: {self._range_constraints}\n"


def _warn_left(graph, table):
    """Names, once, the ops in the graph that are not core and that nothing opens."""
    from .._decomp import warn_missing
    CORE = 1
    ops = dict.fromkeys(n.target for n in graph.nodes if isinstance(n.target, _C._OpOverloadBase) and n.target.namespace == "aten")
    warn_missing([op for op in ops if not op._flags & CORE and op not in table], "run_decompositions leaves it in the graph")


def _trace_table(table):
    return {op: function for op, function in table.items() if isinstance(op, _C._OpOverloadBase)}


def _flat_inputs(in_spec, args, kwargs):
    """The leaves of a call; keywords may come in any order."""
    wanted = in_spec.children_specs[1].context
    if set(kwargs) != set(wanted):
        raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {list(wanted)}")
    leaves, got = pytree.tree_flatten((tuple(args), {key: kwargs[key] for key in wanted}))
    if got != in_spec:
        raise ValueError(f"Trying to flatten user inputs with exported input tree spec: \n{in_spec}\nbut actually got inputs with tree spec "
                         f"of: \n{got}.\nPlease check that the inputs have the same number and type of args and kwargs as the ones you used "
                         "when tracing.")
    return leaves
