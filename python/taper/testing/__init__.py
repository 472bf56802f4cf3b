"""Comparing and making tensors in tests, as torch.testing does."""
from ._comparison import assert_close
from ._creation import make_tensor
from ._filecheck import FileCheck

__all__ = ["FileCheck", "assert_close", "make_tensor"]
