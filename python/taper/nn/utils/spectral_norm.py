"""A weight divided by its largest singular value, which a power iteration follows."""
from .. import functional as F
from ..._root import torch
from ..parameter import Parameter

__all__ = ["SpectralNorm", "spectral_norm", "remove_spectral_norm"]


def as_matrix(weight, dim):
    """Rows along `dim`, everything else in columns."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


def output_dim(module):
    """The dim of a module's weight that counts its outputs."""
    transposed = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm:
    """The hook that sets `name` from `name_orig`; in training it also improves the vectors `name_u` and `name_v`."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight):
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v = F.normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    u = F.normalize(torch.mv(matrix, v), dim=0, eps=self.eps, out=u)
                # The buffers change in the next call; what the gradient needs may not.
                u, v = u.clone(), v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module):
        with torch.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("_u", "_v", "_orig"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with torch.no_grad():
            height, width = hook.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        return hook


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
