"""A module whose forward is generated from a graph."""
import contextlib
import copy
import itertools
import pathlib
import sys
import warnings

from .. import _C
from .._options import refuse
from .._tensor import Tensor
from ..nn import Module, Parameter
from ..nn.modules import _hooks
from .graph import Graph, _PyTreeCodeGen

__all__ = ["GraphModule", "reduce_graph_module"]

_keys = itertools.count()


def _package():
    return sys.modules[__name__.partition(".")[0]]


class _Source:
    """Shows generated code in tracebacks without keeping it anywhere else."""

    def __init__(self, src):
        self.src = src

    def get_source(self, name):
        return self.src


def _exec_with_source(src, names, origin=""):
    key = f"<eval_with_key>.{next(_keys)}{origin}"
    names["__loader__"], names["__name__"] = _Source(src), key
    exec(compile(src, key, "exec"), names)


def _forward_from_src(src, names, origin=""):
    names = dict(names)
    _exec_with_source(src, names, origin)
    return names["forward"]


def _tell_failure(error):
    """Shows on stderr where generated code failed; False: it was other code. C asks when the call of a GraphModule fails."""
    import linecache
    import traceback
    last = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
    if not last or "eval_with_key" not in last[-1].filename:
        return False
    line, lines = last[-1].lineno, linecache.getlines(last[-1].filename)
    print("\n".join(["".join(traceback.format_exception(error)),
                     f"Call using an FX-traced Module, line {line} of the traced Module's generated forward function:",
                     "".join(lines[line - 2:line]), "~" * len(last[-1].line) + "~~~ <--- HERE", "\n".join(lines[line:line + 2])]), file=sys.stderr)
    return True


class _Forward:
    """A generated function, compiled when it is first looked at: most graphs are read or run as plans, and compiling costs more
    than all the rest of making one."""

    def __init__(self, code, origin):
        self.code, self.origin = code, origin

    def __get__(self, module, cls):
        function = _forward_from_src(self.code.src, self.code.globals, self.origin)
        for owner in cls.__mro__:
            if owner.__dict__.get("forward") is self:
                owner.forward = function
        return function if module is None else function.__get__(module, cls)


def _copy_attr(source, to, target):
    *prefix, field = target.split(".")
    for part in prefix:
        from_, there = getattr(source, part), getattr(to, part, None)
        if from_ is there:
            return
        if there is None:
            there = Module()
            setattr(to, part, there)
        source, to = from_, there
    _put_attr(getattr(source, field), to, field)


def _assign_attr(value, to, target):
    *prefix, field = target.split(".")
    for part in prefix:
        there = getattr(to, part, None)
        if there is None:
            there = Module()
            setattr(to, part, there)
        to = there
    _put_attr(value, to, field)


def _put_attr(value, to, field):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        to.register_buffer(field, value)
    else:
        setattr(to, field, value)


def _assign_attrs(values, to, targets):
    """Tensors and modules under fresh plain names go straight into the module's dicts: a traced model has thousands of them."""
    own, cls, parameters, buffers, modules = to.__dict__, type(to), to._parameters, to._buffers, to._modules
    watched = (_hooks._global_parameter_registration_hooks or _hooks._global_buffer_registration_hooks
               or _hooks._global_module_registration_hooks)
    for target in targets:
        value = values[target]
        place = parameters if type(value) is Parameter and value.is_leaf else buffers if type(value) is Tensor \
            else modules if isinstance(value, Module) else None
        fresh = not (target in own or target in parameters or target in buffers or target in modules or hasattr(cls, target))
        if place is not None and fresh and target and "." not in target and not watched:
            place[target] = value
        else:
            _assign_attr(value, to, target)


def _indent(text, by):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * by + line if line.strip() else "" for line in rest])


def _import_line(name, value):
    package = _package()
    if value is package:
        return f"import {package.__name__}" + (f" as {name}" if name != package.__name__ else "")
    if isinstance(value, type(sys)):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float):
        return f"from math import {name}"
    if value is type(None):
        return "NoneType = type(None)"
    qualified = _C._fx_qualified_name(value)
    where, _, last = qualified.rpartition(".")
    if where.partition(".")[0] == "torch":
        where = package.__name__ + where[5:]
    return f"from {where or 'builtins'} import {last}" + (f" as {name}" if name != last else "")


def _import_block(names):
    return "\n".join(_import_line(name, value) for name, value in names.items())


def reduce_graph_module(state, import_block):
    """Makes a GraphModule again from its attributes and its code."""
    from ._symbolic_trace import Tracer

    class Whole(Tracer):
        def is_leaf_module(self, module, path):
            return True

    class Held(Module):
        """The attributes, until there is a graph again."""

        def __init__(self, state):
            super().__init__()
            self.__dict__ = state

    src, info = state.pop("_code"), state.pop("_fx_info")
    names = {}
    exec(import_block, names)
    names.pop("__builtins__", None)
    Held.forward = _forward_from_src(src if info["trees"] is None else info["flat"], names)
    root = Held(state)
    graph = Whole().trace(root)
    if info["trees"] is not None:
        graph._codegen = info["trees"]
    made = GraphModule(root, graph)
    for name, value in state.items():
        if name not in made.__dict__ or name in ("_modules", "_parameters", "_buffers", "training", "meta"):
            made.__dict__[name] = value
    return made


def _naming(graph):
    """The nodes that name members of the module, in the order of the graph."""
    read, called = graph.find_nodes(op="get_attr"), graph.find_nodes(op="call_module")
    return sorted(read + called) if read and called else read or called


def _told_by_repr(nn):
    return (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class GraphModule(Module):
    """A graph, the parameters and modules it names, and the function generated from it."""

    def __new__(cls, *args, **kwargs):
        # A class for each instance: the generated forward belongs to it alone.
        for base in cls.__mro__:
            name = base.__qualname__.rpartition(".")[2]
            if name != "GraphModuleImpl":
                cls = base
                break

        class GraphModuleImpl(cls):
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in _naming(graph):
                if not self._take_child(graph, node.target, hasattr(root, node.target)):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            targets = []
            for node in _naming(graph):
                if self._take_child(graph, node.target, node.target in root):
                    continue
                if node.target not in root:
                    raise RuntimeError(f"Node {node} referenced target {node.target} but that target was not provided in ``root``!")
                targets.append(node.target)
            _assign_attrs(root, self, sorted(targets, key=lambda t: t.count(".")))
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self._replace_hooks, self._create_node_hooks, self._erase_node_hooks, self._deepcopy_hooks = [], [], [], []
        self.meta = {}
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras

    def _take_child(self, graph, name, given):
        """A graph of its own (a branch of torch.cond) becomes a module, unless the root has one."""
        child = None if given else graph._child(name)
        if child is not None and name not in self._modules:
            self.add_module(name, GraphModule({}, child, "<lambda>"))
        return child is not None

    def _note_children(self):
        """Tells the graph which graphs its modules have now: programs without Python look there."""
        for node in self._graph.find_nodes(op="get_attr"):
            child = self._modules.get(node.target)
            if isinstance(child, GraphModule):
                child._note_children()
                self._graph._set_child(node.target, child._graph)

    __jit_unused_properties__ = ["graph", "code"]

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self._take_code(graph._code_when_asked("self"))

    @property
    def _code(self):
        return self.__dict__["_python_code"].src

    @property
    def code(self):
        if "_python_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self):
        """Generates forward anew; to be called after the graph was changed."""
        return self._take_code(self._graph.python_code(root_module="self"))

    def _take_code(self, code):
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        self.__dict__["_python_code"] = code
        type(self).forward = _Forward(code, self._graph._origin)
        return code

    # ---- submodules ----
    def add_submodule(self, target, m):
        *prefix, field = target.split(".")
        at = self
        for part in prefix:
            there = getattr(at, part, None)
            if there is None:
                there = Module()
                setattr(at, part, there)
            if not isinstance(there, Module):
                return False
            at = there
        at.add_module(field, m)
        return True

    def delete_submodule(self, target):
        *prefix, field = target.split(".")
        at = self
        for part in prefix:
            if not isinstance(getattr(at, part, None), Module):
                return False
            at = getattr(at, part)
        if not isinstance(getattr(at, field, None), Module):
            return False
        delattr(at, field)
        return True

    def delete_all_unused_submodules(self):
        used = set()
        for op in ("call_module", "get_attr"):
            for node in self._graph.find_nodes(op=op):
                parts = node.target.split(".")
                used.update(".".join(parts[:i + 1]) for i in range(len(parts)))
                with_inner = self
                for part in parts:
                    with_inner = getattr(with_inner, part, None)
                if op == "call_module" and isinstance(with_inner, Module):
                    used.update(f"{node.target}.{name}" for name, _ in with_inner.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- text ----
    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, *,
                       fast_sympy_print=False, expanded_def=False, additional_meta=None):
        refuse("print_readable", expanded_def=(expanded_def, False), additional_meta=(additional_meta, None))
        text = self._readable(self._get_name(), include_stride, include_device, colored)
        if print_output:
            print(text)
        return text

    def _readable(self, name, stride, device, colored):
        made = self._graph.python_code("self", verbose=True, include_stride=stride, include_device=device, colored=colored)
        text = _indent(f"class {name}(torch.nn.Module):\n" + made.src.lstrip("\n").rstrip(" "), 4)
        for child, module in self.named_children():
            if hasattr(module, "_readable"):
                text += "\n    " + _indent(module._readable(child, stride, device, colored), 4)
        return text

    def __str__(self):
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    def to_folder(self, folder, module_name="FxModule"):
        """Writes a package whose class `module_name` is this module: its code, its state, and modules that no repr makes again."""
        from ..serialization import save
        folder, package = pathlib.Path(folder), _package()
        folder.mkdir(exist_ok=True)
        save(self.state_dict(), folder / "state_dict.pt")
        made, pickled, lines = self._graph.python_code("self"), [], []
        for name, module in self.named_children():
            if isinstance(module, _told_by_repr(package.nn)):
                lines.append(f"setattr(self, {name!r}, {module!r})")
                continue
            save(module, folder / f"{name}.pt")
            pickled.append(name)
            lines.append(f"setattr(self, {name!r}, torch.load(r'{folder / f'{name}.pt'}', weights_only=False)) # {repr(module)}".replace("\n", " "))
        shape = lambda tensor: f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"
        lines += [f"self.register_buffer({name!r}, {shape(value)})" for name, value in self._buffers.items() if value is not None]
        lines += [f"setattr(self, {name!r}, torch.nn.Parameter({shape(value)}))" for name, value in self._parameters.items() if value is not None]
        lines.append(f"self.load_state_dict(torch.load(r'{folder / 'state_dict.pt'}'))")
        head = f"\n{_import_line('torch', package)}\n{_import_block(made.globals)}\n\nfrom {package.__name__}.nn import *\nclass {module_name}(torch.nn.Module):\n"
        body = "    def __init__(self):\n        super().__init__()\n" + "".join(f"        {line}\n" for line in lines)
        for name, text in (("module.py", head + body + _indent(made.src.rstrip(" "), 4) + "\n"), ("__init__.py", "from .module import *")):
            with _C._OutputFile(folder / name) as file:
                file.write(text)
        if pickled:
            warnings.warn("Was not able to save the following children modules as reprs -saved as pickled files instead: " f"{pickled}",
                          stacklevel=2)

    # ---- copies ----
    def __reduce__(self):
        left = ("_graph", "_python_code", "_tracer_cls", "_tracer_extras", "shape_env")      # the last is about this process
        state = {name: value for name, value in self.__dict__.items() if name not in left}
        state["_code"] = self._code
        names, codegen = self._graph.python_code("self").globals, self._graph._codegen
        trees = codegen if isinstance(codegen, _PyTreeCodeGen) else None
        info = {"trees": trees}
        if trees is not None:
            flat = copy.deepcopy(self._graph)
            flat._codegen = type(Graph()._codegen)()
            info["flat"] = flat.python_code("self").src
        state["_fx_info"] = info
        return reduce_graph_module, (state, _import_block(names))

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {name: value for name, value in self.__dict__.items() if name not in ("_graph", "_python_code")}
        made.__dict__.update(copy.deepcopy(state, memo))
        type(made).__name__ = "GraphModule"
        made.graph = copy.deepcopy(self._graph, memo)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def _replicate_for_data_parallel(self):
        made = self.__copy__()
        made._is_replica = True
        return made

    def __copy__(self):
        made = GraphModule(self, self._graph)
        made.meta = self.meta.copy()
        made._graph.owning_module = self
        return made

    # ---- hooks ----
    def _register_replace_node_hook(self, f):
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f):
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f):
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f):
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f):
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f):
        self._deepcopy_hooks.remove(f)

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        """While entered, `f` hears of each replaced node."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


_C._fx_register(graph_module=GraphModule, tell_failure=_tell_failure)
