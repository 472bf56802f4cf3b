"""How linear_cross_entropy may be cut into pieces."""
import dataclasses
from typing import Literal, Optional

from ..._root import torch

__all__ = ["LinearCrossEntropyOptions"]


@dataclasses.dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Wishes about memory. Results do not depend on them."""

    allow_retain_graph: bool = False
    batch_chunk_size: Optional[int] = None
    chunking_method: Optional[str] = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Optional["torch.dtype"] = None

    def __post_init__(self):
        size, method = self.batch_chunk_size, self.chunking_method
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if method not in (None, "auto") and method.partition(":")[0] != "aspect_ratio":
            raise ValueError(f"invalid chunking_method: {method!r}")
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if self.acc_dtype not in (None, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )
