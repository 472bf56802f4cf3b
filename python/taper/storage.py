"""UntypedStorage (in C) and TypedStorage, which shows its bytes as elements."""
from . import _C
from ._C import UntypedStorage

UntypedStorage.__module__ = __name__


class TypedStorage:
    """A storage seen as elements of one dtype."""

    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        self.dtype = dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], int):
            self._untyped_storage = _C.tensor(list(args[0]), dtype=self.dtype).untyped_storage()
        else:
            size = args[0] if args else 0
            self._untyped_storage = UntypedStorage(size * self.dtype.itemsize)

    def _as_tensor(self):
        return _C._tensor_of_storage(self._untyped_storage, self.dtype)

    def untyped(self):
        return self._untyped_storage

    @property
    def device(self):
        return self._untyped_storage.device

    def __len__(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    size = _size = __len__

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def tolist(self):
        return self._as_tensor().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.tolist()[index]

    def __setitem__(self, index, value):
        self._as_tensor()[index] = value

    def fill_(self, value):
        self._as_tensor().fill_(value)
        return self

    def clone(self):
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def copy_(self, source, non_blocking=None):
        self._as_tensor().copy_(source._as_tensor() if isinstance(source, TypedStorage) else source)
        return self

    def pickle_storage_type(self):
        return {"float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
                "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
                "uint8": "ByteStorage", "bool": "BoolStorage", "complex64": "ComplexFloatStorage",
                "complex128": "ComplexDoubleStorage"}[str(self.dtype).split(".")[1]]

    def __repr__(self):
        body = "".join(f" {x}\n" for x in self.tolist())
        return f"{body}[{__name__}.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._untyped_storage is other._untyped_storage and self.dtype is other.dtype

    def __hash__(self):
        return hash(self._untyped_storage._cdata)

    def __reduce__(self):
        return (_rebuild_typed, (self._untyped_storage, self.dtype))


def _rebuild_typed(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype)
