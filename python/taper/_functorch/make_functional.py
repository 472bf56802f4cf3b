"""Models as functions of their parameters, as functorch had them before functional_call."""
import copy
import functools
import warnings

from .. import stack
from ..nn import Module
from .functional_call import functional_call
from .eager_transforms import vmap

_SHORT = "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."


def _warns(instead):
    """The function, warning that it has another name since PyTorch 2.0."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            warnings.warn(
                f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{function.__name__}` is deprecated as of PyTorch "
                f"2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{instead}` instead; see the PyTorch 2.0 release notes and/or the "
                "`torch.func` migration guide for more details https://pytorch.org/docs/main/func.migrating.html", FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _names(named):
    """One name for each tensor, and all the names it has."""
    all_of, first = {}, {}
    for name, tensor in named:
        first.setdefault(id(tensor), name)
        all_of.setdefault(first[id(tensor)], []).append(name)
    return all_of


def _stateless(model):
    """A copy of the model whose tensors have no memory: the caller gives them."""
    made = copy.deepcopy(model)
    for module in made.modules():
        for group in (module._parameters, module._buffers):
            for name, tensor in group.items():
                if tensor is not None:
                    group[name] = type(tensor)(tensor.detach().to("meta"), tensor.requires_grad) if group is module._parameters else tensor.to("meta")
    return made


class FunctionalModule(Module):
    """model(params, *args)"""

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        named = dict(model.named_parameters())
        names = _names(model.named_parameters(remove_duplicate=False))
        params = tuple(p.detach() if disable_autograd_tracking else p for p in named.values())
        return FunctionalModule(_stateless(model), tuple(named), names), params

    def forward(self, params, *args, **kwargs):
        given = {name: p for first, p in zip(self.param_names, params) for name in self.names_map[first]}
        return functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


class FunctionalModuleWithBuffers(Module):
    """model(params, buffers, *args)"""

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        maps = _names(model.named_parameters(remove_duplicate=False)), _names(model.named_buffers(remove_duplicate=False))
        values = tuple(p.detach() if disable_autograd_tracking else p for p in params.values())
        return FunctionalModuleWithBuffers(_stateless(model), tuple(params), tuple(buffers), *maps), values, tuple(buffers.values())

    def forward(self, params, buffers, *args, **kwargs):
        firsts = zip((*self.param_names, *self.buffer_names), (*params, *buffers))
        given = {name: t for first, t in firsts for name in self.all_names_map[first]}
        return functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


@_warns("torch.func.functional_call")
def make_functional(model, disable_autograd_tracking=False):
    """(a function of parameters and arguments, the parameters)"""
    if len(list(model.buffers())) > 0:
        raise RuntimeError(_SHORT)
    return FunctionalModule._create_from(model, disable_autograd_tracking)


@_warns("torch.func.functional_call")
def make_functional_with_buffers(model, disable_autograd_tracking=False):
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


@_warns("torch.func.stack_module_state")
def combine_state_for_ensemble(models):
    """(a function of one member, stacked parameters, stacked buffers)"""
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*(FunctionalModuleWithBuffers._create_from(m) for m in models))
    return functions[0], tuple(stack(p).detach() for p in zip(*params)), tuple(stack(b).detach() for b in zip(*buffers))


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap, a share of the batch at a time."""
    from ..utils import _pytree as pytree

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        if chunks < 1:
            raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
        leaves, spec = pytree.tree_flatten(args)
        dims = pytree._broadcast_to_and_flatten(in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args), spec)
        sizes = [x.size(d) for x, d in zip(leaves, dims) if isinstance(d, int)]
        share = -(-sizes[0] // chunks) if sizes else None
        return vmap(func, in_dims, out_dims, randomness, chunk_size=share)(*args, **kwargs)

    return wrapped


def replace_all_batch_norm_modules_(root):
    """Batch norms of the model no longer keep running statistics, which vmap could not write. In place."""
    from ..nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor inside transforms stands for; all the way down with `recurse`."""
    from .. import _C

    if not _C._functorch.is_functorch_wrapped_tensor(tensor):
        return tensor
    inner = _C._functorch.get_unwrapped(tensor)
    return debug_unwrap(inner) if recurse else inner


