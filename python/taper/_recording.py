"""A call of a model as a graph over tensors alone: what is written in other formats (onnx, cc) begins with."""
import inspect
import re

from . import _C
from .autograd.grad_mode import no_grad
from .utils import _pytree as pytree


CONSTANT = "weights, buffers and other attributes are constant in what is written of it"


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, _C.Tensor)]


def input_names(function, args, kwargs):
    """A name for each tensor among the arguments: its parameter's, with the keys that lead to it."""
    try:
        parameters = [p.name for p in inspect.signature(function).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    roots = [(parameters[i] if i < len(parameters) else f"arg{i}", arg) for i, arg in enumerate(args)]
    names = []
    for root, tree in [*roots, *kwargs.items()]:
        for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
            if isinstance(leaf, _C.Tensor):
                name = re.sub(r"\W+", "_", root + pytree.keystr(path)).rstrip("_")
                names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _written(module):
    """The nodes that some call of the graph writes into."""
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is not None and schema.is_mutable:
            given = {argument.name: value for argument, value in zip(schema.arguments, node.args)} | node.kwargs
            for argument in schema.arguments:
                if argument.alias_info is not None and argument.alias_info.is_write:
                    yield from (leaf for leaf in pytree.tree_leaves(given.get(argument.name)) if hasattr(leaf, "op"))


def _memory_of(node):
    """The node whose memory this one is: views and calls in place are followed back."""
    while node.op == "call_function" and node.args and hasattr(node.args[0], "op"):
        schema = getattr(node.target, "_schema", None)
        if schema is not None and (schema.arguments[0].alias_info is None or all(r.alias_info is None for r in schema.returns)):
            break
        node = node.args[0]
    return node


def _check_written(module, written, named):
    """What is written must not outlive the call: neither C nor ONNX has a place for it."""
    for node in map(_memory_of, written):
        if node.op == "get_attr":
            name = named.get(id(attribute(module, node.target)))
            raise NotImplementedError(f"the program writes to {repr(name) if name else 'a tensor that is not among its arguments'}: {CONSTANT}")


def record(model, args, kwargs):
    """The graph of a call, as a GraphModule that takes the tensors among the arguments and gives those among the results; how arguments nest;
    and what the model calls the tensors that stand in the graph, by id. The model runs on copies of its state."""
    from ._kept_state import KeptState
    from .func import functionalize
    from .fx.experimental.proxy_tensor import make_fx

    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _C.Tensor)]

    def flat(*tensors):
        full = list(leaves)
        for i, x in zip(places, tensors):
            full[i] = x
        positional, named = pytree.tree_unflatten(full, spec)
        return tensors_of(model(*positional, **named))

    tensors = [leaves[i].detach() for i in places]
    def recorded(program):
        with no_grad(), KeptState(model) as kept:
            named = names_of(model)
            module = make_fx(program)(*[x.clone() for x in tensors])
            for name in kept.replaced():
                raise NotImplementedError(f"the program gives {name!r} another tensor: {CONSTANT}")
            return module, named

    module, named = recorded(flat)
    written = list(_written(module))
    _check_written(module, written, named)
    if written:
        module, named = recorded(functionalize(flat, remove="mutations"))
    return module, spec, named


def attribute(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def names_of(model):
    """Names of parameters and buffers, by the id of the tensor; the first of several."""
    named = {}
    for listing in ("named_parameters", "named_buffers"):
        for name, x in getattr(model, listing, lambda: ())():
            named.setdefault(id(x), name)
    return named


def state_of(program):
    """{placeholder: (name, tensor)} of an ExportedProgram, in the order of its graph."""
    signature, rows = program.graph_signature, {}
    for group in (signature.inputs_to_parameters, signature.inputs_to_buffers, signature.inputs_to_lifted_tensor_constants):
        for placeholder, name in group.items():
            rows[placeholder] = name, program.state_dict[name] if name in program.state_dict else program.constants[name]
    return {node.name: rows[node.name] for node in program.graph.nodes if node.name in rows}
