"""UntypedStorage (in C) and TypedStorage, which shows its bytes as elements."""
from . import _C
from ._C import UntypedStorage

UntypedStorage.__module__ = __name__


class TypedStorage:
    """A storage seen as elements of one dtype."""

    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        self.dtype = dtype or _C.get_default_dtype()
        if device is not None and _C.device(device).type != "cpu":
            raise NotImplementedError(f"TypedStorage(device={device}): Taper has storages of elements on the CPU alone")
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
        return next(name for name, kind in LEGACY.items() if kind.dtype is self.dtype)

    def __repr__(self):
        body = "...\n" if self.device.type == "meta" else "".join(f" {x}\n" for x in self.tolist())
        return f"{body}[{__name__}.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._untyped_storage is other._untyped_storage and self.dtype is other.dtype

    def __hash__(self):
        return hash(self._untyped_storage._cdata)

    def __reduce__(self):
        return (_rebuild_typed, (self._untyped_storage, self.dtype))


def _rebuild_typed(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


class StorageType:
    """What files call torch.FloatStorage: an element type by name, that cannot be called."""

    def __init__(self, name):
        self.name = name
        self.dtype = LEGACY[name].dtype

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


def _legacy_class(name, dtype):
    return type(name, (TypedStorage,), {
        "dtype": dtype, "__module__": __name__.rsplit(".", 1)[0],
        "__init__": lambda self, *args, **options: TypedStorage.__init__(self, *args, dtype=dtype, **options)})


# FloatStorage and its like: names of element types, first of all in files.
LEGACY = {name: _legacy_class(name, getattr(_C, dtype)) for name, dtype in (
    ("FloatStorage", "float32"), ("DoubleStorage", "float64"), ("HalfStorage", "float16"), ("BFloat16Storage", "bfloat16"),
    ("LongStorage", "int64"), ("IntStorage", "int32"), ("ShortStorage", "int16"), ("CharStorage", "int8"), ("ByteStorage", "uint8"),
    ("BoolStorage", "bool"), ("ComplexFloatStorage", "complex64"), ("ComplexDoubleStorage", "complex128"))}


# ---- FloatTensor and its kin: constructors of one dtype that also answer isinstance --------------------------------
class _LegacyType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype and instance.device.type == "cpu"


def legacy_type(name, dtype_name):
    """The class FloatTensor and the like."""
    wanted = getattr(_C, dtype_name)
    package = __name__.rsplit(".", 1)[0]

    def __new__(cls, *args):
        if len(args) == 1 and not isinstance(args[0], int):
            return _C.tensor(args[0], dtype=wanted) if not isinstance(args[0], _C.Size) else _empty(args[0], wanted)
        return _empty(args if args else (0,), wanted)

    return _LegacyType(name, (), {"__new__": __new__, "dtype": wanted, "__module__": package})


def _empty(size, dtype):
    return _C._VariableFunctions.empty(tuple(size), dtype=dtype)
