"""The driver of export: inputs are made fake and named, the module is traced with its state as inputs, the pieces are put together.

Recording, functionalising, lifting and checking are C (src/python/export.c, src/export)."""
import contextlib
import dataclasses
import operator
import re

from .. import _C
from .._dynamo.exc import Unsupported, UserError, UserErrorType
from .._subclasses.fake_tensor import FakeTensorMode
from ..fx import GraphModule
from ..fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode, ShapeEnv
from ..nn import Module
from ..nn.modules.rnn import RNNBase
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ..utils import _pytree as pytree
from ..utils._sympy.numbers import int_oo
from ..utils._sympy.value_ranges import Expression, ValueRanges
from . import dynamic_shapes as shapes
from ._state import everything_kept
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, _flat_inputs
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument,
                              SymFloatArgument, SymIntArgument, TensorArgument)


@dataclasses.dataclass
class ExportDynamoConfig:
    """Settings of capture that export changes."""
    allow_rnn: bool = True
    reorderable_logging_functions: set = dataclasses.field(default_factory=set)


DEFAULT_EXPORT_DYNAMO_CONFIG = ExportDynamoConfig()

_PREFIX = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}
_exporting = []             # one item for each export that is going on


def _is_exporting():
    return bool(_exporting)


# ---- names ----
def _identifier(text):
    return re.sub(r"[^a-zA-Z0-9]", "_", text).lower()


def _free_name(wish, taken):
    name, n = wish, 0
    while name in taken:
        n += 1
        name = f"{wish}_{n}"
    taken.add(name)
    return name


def _key_text(key):
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return _identifier(str(getattr(key, attribute)))
    raise NotImplementedError(f"names of inputs below {type(key).__name__}")


def _argument_names(mod, args, kwargs):
    """What each of args, then of kwargs, is called; arguments beyond the named ones by number."""
    names = shapes._given_names(mod, args, kwargs)
    positional = names[:len(names) - len(kwargs)]
    made = [positional[i] if i < len(positional) else None for i in range(len(args))]
    if args and any(p.kind is p.VAR_POSITIONAL and p.name == positional[-1] for p in shapes._signature(mod).parameters.values()):
        first = len(positional) - 1
        made[first:] = [f"{positional[-1]}_{i}" for i in range(len(args) - first)]
    return made, list(kwargs)


def _user_names(mod, args, kwargs, taken):
    """The names of the leaves of (args, kwargs), what messages and sources call them, and inputs that would have the same name, or None."""
    positional, keyword = _argument_names(mod, args, kwargs)
    names, paths, sources, wishes = [], [], [], {}
    for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]:
        first, second, rest = path[0].idx, path[1], path[2:]
        argument = positional[second.idx] if first == 0 else second.key
        wish = "_".join([_identifier(argument)] + [_key_text(key) for key in rest])
        wishes.setdefault(wish, []).append(f"L[{argument!r}]{pytree.keystr(rest)}")
        names.append(_free_name(wish, taken))
        paths.append(f"*args[{second.idx}]{pytree.keystr(rest)}" if first == 0 else f"{second.key!r}{pytree.keystr(rest)}")
        sources.append(f"L[{argument!r}]{pytree.keystr(rest)}")
    alike = next((" and ".join(several) for several in wishes.values() if len(several) > 1), None)
    return names, paths, sources, positional + keyword, alike


# ---- state ----
def _state_of(mod, taken):
    """(kind, name in the module, persistent, tensor, placeholder name) of every parameter and buffer, each tensor once."""
    rows = []
    fleeting = {f"{path}.{name}" if path else name for path, m in mod.named_modules() for name in m._non_persistent_buffers_set}
    for kind, named in ((InputKind.PARAMETER, mod.named_parameters()), (InputKind.BUFFER, mod.named_buffers())):
        for name, tensor in named:
            persistent = None if kind is InputKind.PARAMETER else name not in fleeting
            rows.append((kind, name, persistent, tensor, _free_name(_PREFIX[kind] + _identifier(name), taken)))
    return rows


def _attributes_of(mod):
    """id of a tensor that is a plain attribute -> its names."""
    found = {}
    for path, m in mod.named_modules():
        for name, value in m.__dict__.items():
            if isinstance(value, _C.Tensor):
                found.setdefault(id(value), []).append(f"{path}.{name}" if path else name)
    return found


class _Swapped:
    """While entered, the module's parameters and buffers are these tensors; afterwards it is as it was."""

    def __init__(self, mod, by_id):
        self.mod, self.by_id = mod, by_id

    def __enter__(self):
        self.before = []
        self.attributes = {}
        for path, m in self.mod.named_modules():
            self.before.append((path, m, dict(m._parameters), dict(m._buffers)))
            for name, value in m.__dict__.items():
                if isinstance(value, _C.Tensor):
                    self.attributes[(id(m), name)] = value
            for held in (m._parameters, m._buffers):
                for name, tensor in held.items():
                    if tensor is not None:
                        held[name] = self.by_id.get(id(tensor), tensor)
        return self

    def replaced(self):
        """{name in the module: tensor} of the buffers that were given a new tensor; other tensors must not be."""
        found, assigned = {}, []
        for path, m, _, buffers in self.before:
            for name, tensor in buffers.items():
                now = m._buffers.get(name)
                if tensor is not None and now is not self.by_id.get(id(tensor), tensor):
                    found[f"{path}.{name}" if path else name] = now
            for name, value in m.__dict__.items():
                if isinstance(value, _C.Tensor) and self.attributes.get((id(m), name)) is not value:
                    assigned.append(f"self.{path}.{name}" if path else f"self.{name}")
        if assigned:
            several = len(assigned) > 1
            words = ("s", "were") if several else ("", "was")
            raise ValueError(f"The tensor attribute{words[0]} {', '.join(assigned)} {words[1]} assigned during export. "
                             " Such attributes must be registered as buffers using the `register_buffer` API "
                             "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer).")
        return found

    def __exit__(self, *error):
        for _, m, parameters, buffers in self.before:
            for held, then in ((m._parameters, parameters), (m._buffers, buffers)):
                held.clear()
                held.update(then)
            for name in [name for name, value in m.__dict__.items() if isinstance(value, _C.Tensor)]:
                then = self.attributes.get((id(m), name))
                if then is None:
                    del m.__dict__[name]
                else:
                    m.__dict__[name] = then


@contextlib.contextmanager
def _module_stack(mod, stack):
    """Keeps nn_module_stack of the module that runs on top of `stack`."""
    paths = {id(m): path for path, m in reversed(list(mod.named_modules()))}
    depth = []

    def entered(m, args):
        path = paths.get(id(m))
        depth.append(path is not None)
        if path is not None:
            key = "L__self__" + path.replace(".", "_")
            stack.append({**(stack[-1] if stack else {}), key: (path, f"{type(m).__module__}.{type(m).__qualname__}")})

    def left(m, args, output):
        if depth and depth.pop():
            stack.pop()

    before, after = register_module_forward_pre_hook(entered), register_module_forward_hook(left, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


# ---- inputs ----
def _fake_inputs(mod, args, kwargs, leaves, sources, dynamic_shapes, strict):
    """The mode, the fake leaves, and the symbols they are made of."""
    def error(text):
        return UserError(UserErrorType.CONSTRAINT_VIOLATION, text) if strict else ConstraintViolationError(text)

    mode = next((leaf.fake_mode for leaf in leaves + list(mod.parameters()) + list(mod.buffers())
                 if isinstance(leaf, _C.Tensor) and getattr(leaf, "fake_mode", None) is not None), None)
    if mode is None:
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True, export=True)
    env = mode.shape_env
    if env is None:
        env = mode.shape_env = ShapeEnv()
        mode._set(env, True, True)
    symbols = shapes._Symbols(env, error)
    specs = shapes._flat_specs(mod, args, kwargs, dynamic_shapes)
    later, sizes = [], []
    for leaf, spec, source in zip(leaves, specs, sources):
        sizes.append(shapes._sizes_of(symbols, leaf, spec, source, later) if isinstance(leaf, _C.Tensor) else None)
    for at, i, dim, hint, source in later:
        at[i] = symbols._derived_size(_defined(symbols, dim), hint, source)
    fakes = [_fake(mode, leaf, size) if size is not None else leaf for leaf, size in zip(leaves, sizes)]
    for fake, source in zip(fakes, sources):
        for i, stride in enumerate(fake.stride() if isinstance(fake, _C.Tensor) and fake.layout is _C.strided else ()):
            env._name_source(stride, f"{source}.stride()[{i}]")
    return mode, fakes, symbols


def _defined(symbols, dim):
    symbols.define(dim)
    return dim


def _fake(mode, tensor, sizes=None):
    symbolic = sizes is not None and any(not isinstance(size, int) for size in sizes)
    fake = mode._fake(tensor.detach() if _C._is_fake(tensor) else tensor, tuple(sizes) if symbolic else None)
    if tensor.requires_grad:
        fake.requires_grad_(True)
    return fake


# ---- signature ----
def _argument(node):
    value = node.meta.get("val")
    for kind, made in ((_C.SymInt, SymIntArgument), (_C.SymFloat, SymFloatArgument), (_C.SymBool, SymBoolArgument)):
        if isinstance(value, kind):
            return made(node.name)
    return TensorArgument(node.name)


def _input_specs(graph, rows, leaves):
    """rows: (kind, target, persistent) by placeholder name; the others are the user's."""
    specs, leaves = [], iter(leaves)
    for node in graph.find_nodes(op="placeholder"):
        if node.name in rows:
            kind, target, persistent = rows[node.name]
            specs.append(InputSpec(kind, TensorArgument(node.name), target, persistent))
            continue
        leaf = next(leaves)
        constant = not isinstance(leaf, (_C.Tensor, _C.SymInt, _C.SymFloat, _C.SymBool))
        if constant:
            node.meta["val"] = leaf
        specs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, leaf) if constant else _argument(node), None))
    return specs


def _output_specs(graph, written):
    """written: (kind, target) of the outputs that are new values of inputs."""
    specs = []
    for i, value in enumerate(graph.output_node().args[0]):
        node = hasattr(value, "meta")
        kind, target = written[i] if i < len(written) else (OutputKind.USER_OUTPUT, None)
        specs.append(OutputSpec(kind, _argument(value) if node else ConstantArgument("", value), target))
    return specs


def _lift_constants(graph, constants, aliases, taken, before):
    """Attributes of the graph become inputs before the node; ({placeholder: (kind, target, None)}, {name: tensor})."""
    rows, kept, literals = {}, {}, 0
    for attribute, tensor in constants.items():
        names = aliases.get(id(tensor))
        if names is None:
            names = [f"lifted_tensor_{literals}"]
            literals += 1
        name = _free_name("c_" + _identifier(names[0]), taken)
        _C._export_lift(graph, attribute, name, before)
        rows[name] = (InputKind.CONSTANT_TENSOR, names[0], None)
        kept.update((alias, tensor) for alias in names)
    return rows, kept


def _range_constraints(symbols, facts):
    """Symbols of the inputs' sizes, and expressions of them, with the ranges that were declared or, undeclared, found."""
    known = {name: (low, high) for name, _, low, high, _, _ in symbols.env._symbols}
    declared = {str(symbol): dim for dim, symbol, _ in symbols.of_name.values()}
    ranges = {}
    for fact in facts:
        for size in fact.shape if isinstance(fact, _C.Tensor) else ():
            if not isinstance(size, _C.SymInt) or str(size).isdigit():      # tracing may have made it a number
                continue
            for name in size._symbols:
                low, high = (declared[name].min, declared[name].max) if name in declared else known[name]
                ranges[Expression(name)] = ValueRanges(low, _upper(high))
            if str(size) not in known:
                low, high = symbols.range_of.get(str(size)) or size._range
                ranges[Expression(str(size))] = ValueRanges(low, _upper(high))
    for symbol, found in symbols.env.var_to_range.items():
        if symbol.startswith("u") and symbol not in symbols.env.replacements:
            ranges[symbol] = found
    return ranges


def _upper(bound):
    return int_oo if bound >= int_oo else bound


# ---- export ----
def _check_call(mod, args, kwargs):
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if not isinstance(kwargs, dict):
        raise UserError(UserErrorType.INVALID_INPUT, f"Expecting `kwargs` to be a dict of example keyword inputs, got {type(kwargs)}")


def _export(mod, args, kwargs=None, dynamic_shapes=None, *, strict=True, preserve_module_call_signature=(), pre_dispatch=False,
            _functional=True, _disable_forced_specializations=False, _allow_complex_guards_as_runtime_asserts=False):
    """Traces the module; both values of `strict` go through the same tracer."""
    kwargs = {} if kwargs is None else kwargs
    _check_call(mod, args, kwargs)
    if preserve_module_call_signature:
        raise NotImplementedError("export(preserve_module_call_signature=...) is not implemented in Taper yet")
    if strict and not DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn and any(isinstance(m, RNNBase) for m in mod.modules()):
        raise Unsupported("TorchDynamo purposely graph breaks on RNN, GRU, LSTMs")
    if _allow_complex_guards_as_runtime_asserts:
        raise NotImplementedError("export with guards as run-time assertions is not implemented in Taper yet")
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    taken = set()
    names, paths, sources, forward_names, alike = _user_names(mod, args, kwargs, taken)
    state = _state_of(mod, taken)
    mode, fakes, symbols = _fake_inputs(mod, args, kwargs, leaves, sources, dynamic_shapes, strict)
    aliases, stack = _attributes_of(mod), []
    asked = len(mode.shape_env._guards)
    inputs = [_fake(mode, row[3]) for row in state] + fakes
    place = {row[1]: i for i, row in enumerate(state)}

    def run(seen):
        swapped = _Swapped(mod, {id(row[3]): seen[i] for i, row in enumerate(state)})
        positional, keyword = pytree.tree_unflatten(seen[len(state):], in_spec)
        with swapped, _module_stack(mod, stack), mode:
            if "_check_inputs" in mod.__dict__:
                output = _call_exported(mod, stack, positional, keyword)
            else:
                output = mod(*positional, **keyword)
            return output, {place[name]: tensor for name, tensor in swapped.replaced().items() if name in place}

    _exporting.append(mod)
    mode.shape_env._keep_decided(True)
    try:
        with everything_kept(mod):
            graph, constants, out_spec, written = _C._export_trace(run, inputs, [row[4] for row in state] + names, _functional, pre_dispatch,
                                                                   None, stack, True, len(state) if pre_dispatch else -1)
    except GuardOnDataDependentSymNode as error:
        if not strict:
            raise
        raise UserError(UserErrorType.ANTI_PATTERN, "Tried to use data-dependent value in the subsequent computation. This can happen "
                        "when we encounter unbounded dynamic value that is unknown during tracing time.  You will need to explicitly "
                        "give hint to the compiler. Please take a look at torch._check OR torch._check_is_size APIs.  "
                        f"{error}") from error
    finally:
        mode.shape_env._keep_decided(False)
        _exporting.pop()
    shapes.check_violations(symbols, _disable_forced_specializations)

    placeholders = graph.find_nodes(op="placeholder")
    before = placeholders[len(state)] if leaves else placeholders[-1].next if placeholders else next(iter(graph.nodes))
    rows = {row[4]: row[:3] for row in state}
    lifted, kept = _lift_constants(graph, constants, aliases, taken, before)
    rows.update(lifted)
    _check_aliased(state, [i for i in written if i < len(state)])
    kinds = []
    for i in written:
        if i < len(state) and state[i][0] is InputKind.PARAMETER:
            raise NotImplementedError(f"export of a program that writes to the parameter {state[i][1]} is not implemented in Taper yet")
        kinds.append((OutputKind.BUFFER_MUTATION, state[i][1]) if i < len(state)
                     else (OutputKind.USER_INPUT_MUTATION, names[i - len(state)]))
    signature = ExportGraphSignature(_input_specs(graph, rows, leaves), _output_specs(graph, kinds))
    guards = _C._export_guards(graph, signature._capsule(), mode.shape_env, asked)
    if guards and alike is not None:
        raise NotImplementedError(f"export of a program whose inputs {alike} have one name, and that branches on sizes, is not implemented in Taper yet")
    module = GraphModule({}, graph)
    if strict:
        module.meta["input_shape_constraints"] = [{"name": name, "dim": i, "size": str(size)} for name, fake in zip(names, fakes)
                                                  for i, size in enumerate(fake.shape if isinstance(fake, _C.Tensor) else ())
                                                  if isinstance(size, _C.SymInt)]
    kept.update((row[1], row[3]) for row in state if row[0] is InputKind.BUFFER and not row[2])
    called = [ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec, forward_names))]
    called += [ModuleCallEntry(path, None) for path, _ in mod.named_modules() if path]
    return ExportedProgram(root=module, graph=graph, graph_signature=signature, state_dict=dict(mod.state_dict(keep_vars=True)),
                           range_constraints=_range_constraints(symbols, fakes), module_call_graph=called,
                           example_inputs=(args, kwargs), constants=kept, _dialect="TRAINING" if pre_dispatch or not _functional else "ATEN",
                           _aliases=_aliases_of(mod), _shape_env=mode.shape_env, _guards_code=guards)


def _check_aliased(state, written):
    """State that is written shares no memory with other state: the graph has them as tensors of their own."""
    def memory(tensor):
        return tensor.untyped_storage().data_ptr()

    for i in written:
        for row in state:
            if row[3] is not state[i][3] and memory(row[3]) and memory(row[3]) == memory(state[i][3]):
                raise NotImplementedError(f"export of a program that writes to {state[i][1]}, whose memory {row[1]} shares, is not implemented in "
                                          "Taper yet")


def _aliases_of(mod):
    """Names of state that is the same tensor as another's."""
    first, found = {}, {}
    for named in (mod.named_parameters(remove_duplicate=False), mod.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            known = first.setdefault(id(tensor), name)
            if known != name:
                found[name] = known
    return found


def _export_for_training(mod, args, kwargs=None, dynamic_shapes=None, *, strict=True, preserve_module_call_signature=()):
    """The graph as it was called: writes stay writes."""
    return _export(mod, args, kwargs, dynamic_shapes, strict=strict, pre_dispatch=True, _functional=False,
                   preserve_module_call_signature=preserve_module_call_signature)


def _export_to_torch_ir(f, args, kwargs=None, constraints=None, *, preserve_module_call_signature=(), disable_constraint_solver=False,
                        restore_fqn=True, _log_export_usage=True):
    raise NotImplementedError("_export_to_torch_ir is not implemented in Taper yet")


# ---- again ----
_METADATA = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "size", "stride", "numel", "dim"}
_WRITES_BY_FLAG = {"native_batch_norm", "batch_norm", "instance_norm", "_batch_norm_impl_index", "cudnn_batch_norm", "miopen_batch_norm"}


def _check_preserved(ops):
    """Only composites that neither write nor alias can be kept whole."""
    COMPOSITE = 12
    for op in ops:
        name, schema = f"{op.namespace}.{op._opname}.{op._overloadname or 'default'}", op._schema
        if op._opname in _METADATA:
            raise RuntimeError(f"{name} is a metadata query function, it is not possible to preserve it")
        if op._opname in _WRITES_BY_FLAG:
            raise RuntimeError(f"We can't detect {name} as a functional op statically, so we can't preserve it")
        if schema.is_mutable or any(a.alias_info is not None for a in (*schema.arguments, *schema.returns)):
            raise RuntimeError(f"{name} is a mutating/aliasing op, we can't preserve it as is")
        if op._kind != COMPOSITE:
            raise RuntimeError(f"{name} is not CompositeImplicitAutograd op, so we will preserve it as long as the decomposition table "
                               "does not contain it; it need not be listed")
        raise NotImplementedError("run_decompositions(_preserve_ops=...) is not implemented in Taper yet")


def _retrace(program, table, preserved):
    """The program traced below autograd: composites open, then the table's decompositions."""
    old, placeholders = program.graph, program.graph.find_nodes(op="placeholder")
    _check_preserved(preserved)
    values = [node.meta["val"] for node in placeholders]
    mode = FakeTensorMode(shape_env=program._shape_env or ShapeEnv(), allow_non_fake_inputs=True, export=True)
    inputs = [_fake(mode, v, v.shape) if isinstance(v, _C.Tensor) else v for v in values]
    stack, asked = [], len(mode.shape_env._guards)

    def run(seen):
        with mode:
            return list(_run_nodes(old, seen, stack, program.graph_module)), {}

    graph, constants, _, written = _C._export_trace(run, inputs, [node.name for node in placeholders], True, False, table, stack)
    if constants:
        raise NotImplementedError("decompositions that make tensor constants are not implemented in Taper yet")
    fresh = {name: (spec.kind, spec.target, spec.persistent) for spec in program.graph_signature.input_specs for name in [spec.arg.name]
             if spec.kind is not InputKind.USER_INPUT}
    leaves = [spec.arg.value if isinstance(spec.arg, ConstantArgument) else node.meta["val"]
              for spec, node in zip(program.graph_signature.input_specs, placeholders) if spec.kind is InputKind.USER_INPUT]
    inputs_of = program.graph_signature.input_specs
    kinds = [(OutputKind.BUFFER_MUTATION, inputs_of[i].target) if inputs_of[i].kind is InputKind.BUFFER
             else (OutputKind.USER_INPUT_MUTATION, inputs_of[i].arg.name) for i in written]
    kinds += [(spec.kind, spec.target) for spec in program.graph_signature.output_specs]
    signature = ExportGraphSignature(_input_specs(graph, fresh, leaves), _output_specs(graph, kinds))
    found = _C._export_guards(graph, signature._capsule(), mode.shape_env, asked)
    return graph, signature, program._guards_code + [text for text in found if text not in program._guards_code]


def _run_nodes(graph, inputs, stack, owner):
    """Calls what the nodes call, each on top of `stack` meanwhile, so that what is recorded comes from where it came from."""
    known = dict(zip(graph.find_nodes(op="placeholder"), inputs))

    def value(leaf):
        return known[leaf] if isinstance(leaf, _C._FxNode) else leaf

    for node in graph.nodes:
        if node.op == "get_attr":
            known[node] = operator.attrgetter(node.target)(owner)
        elif node.op == "call_function":
            args, kwargs = _C._fx_map_aggregate((node.args, node.kwargs), value)
            stack.append(node)
            known[node] = node.target(*args, **kwargs)
            stack.pop()
        elif node.op not in ("placeholder", "output"):
            raise NotImplementedError(f"running {node.op} nodes of an exported graph is not implemented in Taper yet")
    return _C._fx_map_aggregate(graph.output_node().args[0], value)


def _call_exported(mod, stack, args, kwargs):
    """A call of what ExportedProgram.module gave, node by node; inputs are checked as in any call."""
    in_spec, out_spec = mod._in_spec, mod._out_spec
    mod._check_inputs(mod, args, kwargs)
    return pytree.tree_unflatten(list(_run_nodes(mod.graph, _flat_inputs(in_spec, args, kwargs), stack, mod)), out_spec)


def capture_pre_autograd_graph(f, args, kwargs=None, dynamic_shapes=None):
    """The module's graph as a module: in-place operations as they were called."""
    return _export_for_training(f, args, kwargs, dynamic_shapes).module()
