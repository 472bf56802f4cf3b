"""Graphs: the nodes are C's business; here is what concerns modules and code generation."""
import collections
import contextlib
import copy
import types
import typing
import warnings

from .. import _C, _facades
from .._options import refuse
from .node import map_arg

__all__ = ["Graph", "CodeGen", "PythonCode"]


class PythonCode:
    """The source of a graph's function and the global names it uses."""

    def __init__(self, src, globals, _lineno_map=None, _prologue_start=0):
        self.src, self.globals, self._lineno_map, self._prologue_start = src, globals, _lineno_map, _prologue_start

    def __eq__(self, other):
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None

    def __repr__(self):
        return f"PythonCode({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class _WaitingCode(PythonCode):
    """The code of a graph as it is now, written when somebody asks for it or the graph is about to change: most captured graphs are
    read or run by C, and the text of a long one costs a tenth of its capture."""

    def __init__(self, graph, root, names, own, trees):
        self._job, self._raised, self._lineno_map, self._prologue_start = (graph, root, names, own, trees), None, None, 0
        graph._before_edit(self)

    def write(self):
        if self._job is None:
            return
        (graph, root, names, own, trees), self._job = self._job, None
        try:
            self.src, self.globals = _C._fx_code(graph, root, names, False, False, False, own, trees), names
        except Exception as error:
            self._raised = error

    def __getattr__(self, name):
        if name not in ("src", "globals"):
            raise AttributeError(name)
        self.write()
        if self._raised is not None:
            raise self._raised
        return self.__dict__[name]


class _PyTreeInfo(typing.NamedTuple):
    orig_args: list
    in_spec: typing.Any
    out_spec: typing.Any


def _package():
    return __import__(__name__.partition(".")[0])


def _first_globals():
    """What every generated function may name."""
    import importlib
    package = _package()
    names = {"inf": float("inf"), "nan": float("nan"), "NoneType": type(None)}
    names.update(torch=package, device=package.device)
    for name, module in (("fx_pytree", "fx._pytree"), ("pytree", "utils._pytree")):
        with contextlib.suppress(ImportError):
            names[name] = importlib.import_module(f"{package.__name__}.{module}")
    names.update(_custom_builtins)
    return names


_custom_builtins = {}


def _register_custom_builtin(name, import_str, obj):
    """A name that generated code may use without being told where it comes from."""
    _custom_builtins[name] = obj


class _Namespace:
    """Gives names that a graph has not used."""

    def __init__(self, graph):
        self._graph = graph

    def create_name(self, candidate, obj=None):
        return self._graph._fresh_name(candidate)


class CodeGen:
    """How a graph's function takes its inputs and gives its results. Subclasses may print their own way."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args):
        return args

    def process_outputs(self, outputs):
        return outputs

    def additional_globals(self):
        return []

    def _printing(self):
        """What C needs to print for this generator: itself when it has its own ways, and its trees."""
        plain = type(self).gen_fn_def is CodeGen.gen_fn_def and type(self).generate_output is CodeGen.generate_output
        return (None if plain and self._func_name == "forward" else self), None


class _PyTreeCodeGen(CodeGen):
    """Takes and gives nested structures; the nodes see their leaves."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        from ..utils import _pytree
        return _pytree.arg_tree_leaves(*inputs) if hasattr(_pytree, "arg_tree_leaves") else _pytree.tree_leaves(inputs)

    def process_outputs(self, out):
        from ..utils import _pytree
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        if not isinstance(out, (list, tuple)):
            out = [out]
        return _pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def _printing(self):
        names, in_spec, out_spec = self.pytree_info
        positional = -1
        children = list(in_spec.children_specs)
        if in_spec.type is tuple and len(children) == 2 and children[0].type is tuple and children[1].type is dict:
            positional = len(names) - len(children[1].children_specs)
        if super()._printing()[0] is not None:
            return self, None
        return None, (list(names), positional, out_spec is not None)


class Graph(_C._FxGraph):
    """A list of nodes: what a function does, step by step."""
    _origin = ""            # " from file:line in name": of the traced function, in the file name of the generated code

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    __hash__ = object.__hash__

    @property
    def owning_module(self):
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module):
        self._owning_module = module

    @property
    def _len(self):
        return len(self.nodes)

    @property
    def _graph_namespace(self):
        return _Namespace(self)

    # ---- building ----
    def _target_to_str(self, target):
        return _C._fx_wish(target)

    def get_attr(self, qualified_name, type_expr=None):
        owner = self._owning_module
        if owner is not None and not _holds(owner, qualified_name):
            warnings.warn("Attempted to insert a get_attr Node with no underlying reference in the owning "
                          "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                          "GraphModule.add_parameter to add the necessary Parameter, or nn.Module.register_buffer to "
                          "add the necessary buffer", stacklevel=2)
        return super().get_attr(qualified_name, type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        if self._owning_module is not None:
            self._owning_module.get_submodule(module_name)
        return super().call_module(module_name, args, kwargs, type_expr)

    # ---- checking ----
    def lint(self):
        """Raises when the graph is not well formed: order, names, and targets in its module."""
        super().lint()
        if self._owning_module is None:
            return
        for op in ("get_attr", "call_module"):
            for node in self.find_nodes(op=op):
                _lint_target(node, self._owning_module)

    # ---- code ----
    def process_inputs(self, *args):
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen):
        self._codegen = codegen

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False, colored=False,
                    expanded_def=False, record_func=False, additional_meta=None):
        refuse("python_code", colored=(colored, False), expanded_def=(expanded_def, False), record_func=(record_func, False),
               additional_meta=(additional_meta, None))
        names, own, trees = self._printing()
        src = _C._fx_code(self, root_module, names, verbose, include_stride, include_device, own, trees)
        transform = self._codegen._body_transformer
        if transform is not None:
            head, colon, body = src.partition(":\n")
            lines = [line[4:] if line.startswith("    ") else line for line in body.rstrip(" ").splitlines(keepends=True)]
            lines = "".join(transform(lines)).splitlines(keepends=True)
            src = head + colon + "".join("    " + line for line in lines) + "    "
        return PythonCode(src, names)

    def _printing(self):
        """The first global names, and what the generator has to say."""
        names = _first_globals()
        names.update(self._codegen.additional_globals())
        return names, *self._codegen._printing()

    def _code_when_asked(self, root_module):
        """As python_code; it may be written later where nothing but C has to do with it."""
        names, own, trees = self._printing()
        if own is not None or self._codegen._body_transformer is not None or type(self).python_code is not Graph.python_code:
            return self.python_code(root_module)
        return _WaitingCode(self, root_module, names, own, trees)

    @contextlib.contextmanager
    def _restoring(self, before):
        try:
            yield
        finally:
            self._codegen._body_transformer = before

    def on_generate_code(self, make_transformer):
        """Registers a transformer of the generated lines; a context manager that undoes it."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return self._restoring(before)

    def print_tabular(self):
        print(_C._fx_table(self))

    # ---- copies ----
    def __deepcopy__(self, memo=None):
        made = self._copied()
        made._owning_module = None
        made._tracer_cls = self._tracer_cls
        made._tracer_extras = self._tracer_extras
        made._codegen = copy.deepcopy(self._codegen, memo)
        if memo is not None:
            memo[id(self)] = made
        return made

    def __reduce__(self):
        place = {node: _Place(i) for i, node in enumerate(self.nodes)}
        rows = [(n.op, _Named.of(n.target), map_arg(n.args, place.__getitem__), dict(map_arg(n.kwargs, place.__getitem__)),
                 n.name, n.type, dict(n.meta)) for n in self.nodes]
        state = {name: value for name, value in self.__dict__.items() if name != "_owning_module"}
        return _make_again, (type(self),), (rows, state)

    def __setstate__(self, state):
        rows, attributes = state
        self.__dict__.update(attributes)
        made = []
        back = lambda leaf: made[leaf] if type(leaf) is _Place else leaf
        for op, target, args, kwargs, name, kind, meta in rows:
            target = target.find() if type(target) is _Named else target
            args, kwargs = _C._fx_map_aggregate(args, back), _C._fx_map_aggregate(kwargs, back)
            node = self.create_node(op, target, args, kwargs, name, kind)
            node.meta.update(meta)
            made.append(node)


class _Place(int):
    """Stands for the n-th node in pickles."""


class _Named(str):
    """Stands for a builtin function of the package in pickles."""

    @staticmethod
    def of(target):
        name = _C._fx_qualified_name(target) if isinstance(target, types.BuiltinFunctionType) else ""
        return _Named(name) if name.startswith("torch.") else target

    def find(self):
        at = _package()
        for part in self.split(".")[1:]:
            at = getattr(at, part)
        return at


def _make_again(cls):
    return cls()


def _holds(module, path):
    """Is there a module, parameter or buffer of that name?"""
    *prefix, last = path.split(".")
    for part in prefix:
        module = getattr(module, part, None)
        if not isinstance(module, _package().nn.Module):
            return False
    return any(last in held for held in (module._modules, module._parameters, module._buffers))


def _lint_target(node, owner):
    parts, at = node.target.split("."), owner
    for i, part in enumerate(parts):
        above = ".".join(parts[:i])
        if not hasattr(at, part):
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of {above}")
        at = getattr(at, part)
        if node.op == "call_module" and i == len(parts) - 1 and not isinstance(at, _package().nn.Module):
            raise RuntimeError(f"Node {node} target {node.target} {part} of {above} does not reference an nn.Module")


_C._fx_register(graph=Graph)
_C._fx_find_builtins()


# ---- Names that generated code uses: arguments taken apart along a spec --------------------------------------------
SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec):
    """The leaves of `pytree` as the spec has them; keys of dicts that the spec does not have are left out."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
    elif spec.type in (dict, collections.OrderedDict):
        children = [pytree[key] for key in spec.context]
    elif spec.type in (list, tuple, collections.namedtuple):        # read by items: a proxy of one has no other ways
        children = [pytree[i] for i in range(spec.num_children)]
    else:
        return spec.flatten_up_to(pytree)
    return [leaf for child, child_spec in zip(children, spec.children()) for leaf in tree_flatten_spec(child, child_spec)]


_facades.settle(__name__)
