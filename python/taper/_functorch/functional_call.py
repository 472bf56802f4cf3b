"""A module called with other parameters and buffers than its own."""
import contextlib

from .. import _C, stack
from ..nn import Module


def _tied(named, tensors):
    """The given tensors, under every name of the one each stands for."""
    given = {}                              # id of a member -> names under which it is given
    for name in tensors:
        if name in named:
            given.setdefault(id(named[name]), []).append(name)
    for names in given.values():
        if any(tensors[name] is not tensors[names[0]] for name in names):
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using tie_weights=False")
    return {**{name: tensors[given[id(t)][0]] for name, t in named.items() if id(t) in given}, **tensors}


@contextlib.contextmanager
def _swapped(module, tensors, tie_weights, strict):
    """The module has these tensors while inside; what it had comes back whatever happens."""
    swap = None if strict else _C._module_swap(module, tensors)
    if swap is not None:
        try:
            yield
        finally:
            _C._module_swap_back(swap)
        return
    named, places = _C._module_tensors(module)
    unexpected = [name for name in tensors if name not in named]
    for name in tensors:
        if name in named and not isinstance(tensors[name], (_C.Tensor, type(None))):
            raise TypeError(f"{tensors[name]} is not an instance of {_C.Tensor.__module__}.Tensor")
    if tie_weights and len(set(map(id, named.values()))) < len(named):
        tensors = _tied(named, tensors)
    missing = [name for name in named if name not in tensors] if strict else []
    if strict and (unexpected or missing):
        words = [f"{kind} key(s): {', '.join(map(repr, sorted(names)))}." for kind, names in (("Unexpected", unexpected), ("Missing", missing)) if names]
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(type(module).__name__, "\n\t".join(words)))
    lent = [_place(module, name) for name in unexpected]
    known = {name: t for name, t in tensors.items() if name in named}
    try:
        for (place, attribute, _), name in zip(lent, unexpected):
            place[attribute] = tensors[name]
        _C._module_put(places, known, known)
        yield
    finally:
        _C._module_put(places, known, named)
        for place, attribute, empty in lent:
            if empty:
                place[attribute] = None
            else:
                place.pop(attribute, None)


def _place(module, name):
    """Where a tensor that the module does not have is put: (dict, key, whether None was there). What is there already is no tensor."""
    path, _, attribute = name.rpartition(".")
    if not attribute:
        raise KeyError('tensor name can\'t be empty string ""')
    for i, part in enumerate(path.split(".") if path else ()):
        inner = module._modules.get(part)
        if inner is None and hasattr(module, part):
            raise TypeError(f"submodule `{'.'.join(path.split('.')[:i + 1])}`: {getattr(module, part)} is not an instance of torch.nn.Module")
        if inner is None:
            raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
        module = inner
    for place in (module._parameters, module._buffers):
        if attribute in place:
            return place, attribute, True
    if hasattr(module, attribute):
        raise TypeError(f"attribute `{attribute}`: {getattr(module, attribute)} is not an instance of torch.Tensor")
    return module.__dict__, attribute, False


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (tuple, list)):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        tensors = {name: t for d in parameter_and_buffer_dicts for name, t in d.items()}
        if len(tensors) < sum(map(len, parameter_and_buffer_dicts)):
            names = [name for d in parameter_and_buffer_dicts for name in d]
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    else:
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}")
    if not isinstance(module, Module):
        raise AttributeError(f"'{type(module).__name__}' object has no attribute 'named_parameters'")
    if type(module).__name__ == "DataParallel":
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """(parameters, buffers) of an ensemble: under each name the tensors of all models, stacked."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return tuple(_stacked([dict(getattr(m, kind)()) for m in models]) for kind in ("named_parameters", "named_buffers"))


def _stacked(states):
    """Leaves stack to leaves; what has a history keeps it."""
    out = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        if all(t.is_leaf for t in tensors):
            if len({t.requires_grad for t in tensors}) > 1:
                raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
            out[name] = stack(tensors).detach().requires_grad_(tensors[0].requires_grad)
        else:
            out[name] = stack(tensors)
    return out
