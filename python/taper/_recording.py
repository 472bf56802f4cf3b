"""A call of a model as a graph over tensors alone: what is written in other formats (onnx, cc) begins with."""
import inspect
import re

from . import _C
from .autograd.grad_mode import no_grad
from .utils import _pytree as pytree


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


def _writes(module):
    return any(getattr(node.target, "_schema", None) is not None and node.target._schema.is_mutable
               for node in module.graph.nodes if node.op == "call_function")


def record(model, args, kwargs):
    """The graph of a call, as a GraphModule that takes the tensors among the arguments and gives those among the results."""
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
    with no_grad():
        module = make_fx(flat)(*[x.clone() for x in tensors])
        if _writes(module):
            module = make_fx(functionalize(flat, remove="mutations"))(*[x.clone() for x in tensors])
    return module, spec


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
