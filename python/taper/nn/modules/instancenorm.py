"""Instance normalisation."""
import warnings

from ..._tensor import Tensor
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """_dims: dimensions of an input without batch."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None,
        *, bias=True
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input):
        if input.dim() not in (self._dims, self._dims + 1):
            raise ValueError(f"expected {self._dims}D or {self._dims + 1}D input (got {input.dim()}D input)")

    def _normed(self, input):
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channel = input.dim() - self._dims
        if input.size(channel) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel} to match num_features ({self.num_features}), but got: "
                    f"{input.size(channel)}."
                )
            warnings.warn(
                f"input's size at dim={channel} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if channel == 0:
            return self._normed(input.unsqueeze(0)).squeeze(0)
        return self._normed(input)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [
                prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict
            ]
            if found:
                names = " and ".join(f'"{key}"' for key in found)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {type(self).__name__} with "
                    "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this may be expected "
                    "because "
                    f"{type(self).__name__} does not track running stats by default since 0.4.0. Please remove these "
                    "keys from state_dict. If the running stats are actually needed, instead set "
                    f"track_running_stats=True in {type(self).__name__} to enable them. See the documentation of "
                    f"{type(self).__name__} for details."
                )
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    _dims = 2


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm1d
    _dims = 2


class InstanceNorm2d(_InstanceNorm):
    _dims = 3


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm2d
    _dims = 3


class InstanceNorm3d(_InstanceNorm):
    _dims = 4


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm3d
    _dims = 4
