"""Names of types for annotations, as programs import them from torch.types."""
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias, Union

from ._C import Size, SymBool, SymFloat, SymInt, Tensor, device as _device, dtype as _dtype, layout as _layout

__all__ = ["Number", "Device", "FileLike", "Storage"]

_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
_complex: TypeAlias = complex
_bytes: TypeAlias = bytes
_str: TypeAlias = str
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int | SymInt]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = Union[str, os.PathLike[str], IO[bytes]]
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool


class Storage:
    """What annotations say of a storage."""

    _cdata: int
    device: _device
    dtype: _dtype

    def __len__(self) -> int:
        raise NotImplementedError

    def nbytes(self) -> int:
        raise NotImplementedError

    def tolist(self) -> list[Any]:
        raise NotImplementedError
