"""Parametrizations that are often wanted: weight norm, spectral norm."""
from .. import functional as F
from ..._root import torch
from ..modules.module import Module
from .parametrize import register_parametrization
from .spectral_norm import as_matrix, output_dim

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return torch._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """original0 is the length, original1 the direction."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Takes what the older weight_norm saved."""
        for old, new in (("_g", "original0"), ("_v", "original1")):
            key = f"{prefix}{name}{old}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if dim >= weight.dim() or dim < -weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @torch.no_grad()
    def _power_method(self, matrix, iterations):
        for _ in range(iterations):
            self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(torch.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Buffers change in place in the next call; gradients of this one need them as they are.
        u = self._u.clone(memory_format=torch.contiguous_format)
        v = self._v.clone(memory_format=torch.contiguous_format)
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
