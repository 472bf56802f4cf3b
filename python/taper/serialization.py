"""save and load: checkpoints in PyTorch's format. Archives, pickles and storages are C; here are the options and the messages.

Inside files, classes of this package are called torch's, whatever name it is loaded under.
"""
import contextlib
import io
import os
import pickle
import threading

from . import _C
from ._options import refuse
from .storage import LEGACY, StorageType, TypedStorage, UntypedStorage

NAME = __name__.rsplit(".", 1)[0]
DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_MOST_RECENT_VERSION = 10
_UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. "
    "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code "
    "execution. Do it only if you got the file from a trusted source.")
_state = threading.local()

__all__ = [
    "SourceChangeWarning", "add_safe_globals", "clear_safe_globals", "default_restore_location", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "location_tag", "register_package", "safe_globals", "save", "skip_data",
]


class SourceChangeWarning(Warning):
    """The source of a class has changed since a model was saved whole. Files of today do not carry sources."""


# ---- saving --------------------------------------------------------------------------------------------------

def _is_path(f):
    return isinstance(f, (str, os.PathLike))


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Writes an object to a file or file-like object: tensors by their storages, all else by pickling."""
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization:
        return _save_legacy(obj, f, pickle_module, pickle_protocol)
    data, storages = _pickle(obj, pickle_module, pickle_protocol)
    with _writable(f) as to:
        _write_archive(_C.PyTorchFileWriter(to), data, storages, _disable_byteorder_record)


def _write_archive(writer, data, storages, no_byteorder):
    for name, text in (("data.pkl", data), (".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")):
        if name != "byteorder" or not no_byteorder:
            writer.write_record(name, text, len(text))
    for key, storage in enumerate(storages):
        if getattr(_state, "skip_data", False):
            storage = bytes(storage.nbytes())
        writer.write_record(f"data/{key}", storage, len(storage))
    writer.write_record("version", b"3\n", 2)
    writer.write_end_of_file()


def _writable(f):
    """What the archive is written to, for a `with`."""
    if not _is_path(f):
        return contextlib.nullcontext(f)
    f = os.fspath(f)
    folder = os.path.dirname(f)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if not f.isascii():         # as PyTorch does, whose root folder is then called `archive`
        return _C._OutputFile(f)
    return contextlib.nullcontext(f)


def _pickle(obj, pickle_module, protocol, ids=None):
    """The pickle of an object, and the storages it names."""
    ids = ids or _C._StorageIds(TypedStorage, {kind.dtype: kind for kind in LEGACY.values()})
    kind = type("Pickler", (pickle_module.Pickler,), {"persistent_id": staticmethod(ids)})
    buffer = io.BytesIO()
    kind(buffer, protocol=protocol).dump(obj)
    data = buffer.getbuffer()
    return (data if NAME == "torch" else _C._rename_pickle(data, NAME, "torch")), ids.storages


@contextlib.contextmanager
def skip_data(materialize_fake_tensors=False):
    """While it is entered, save() writes zeros for the bytes of storages."""
    refuse("torch.serialization.skip_data", materialize_fake_tensors=(materialize_fake_tensors, False))
    before, _state.skip_data = getattr(_state, "skip_data", False), True
    try:
        yield
    finally:
        _state.skip_data = before


# ---- where storages live -------------------------------------------------------------------------------------

_packages = []      # (priority, tagger, deserializer), by priority


def register_package(priority, tagger, deserializer):
    """Adds a kind of device: how its storages are tagged in files, and brought back."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def _restore_cuda(storage, location):
    if location.startswith("cuda"):
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
            "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.")


register_package(10, lambda storage: "cpu" if storage.device.type == "cpu" else None,
                 lambda storage, location: storage if location == "cpu" else None)
register_package(20, lambda storage: "cuda:0" if storage.device.type == "cuda" else None, _restore_cuda)
register_package(22, lambda storage: "meta" if storage.device.type == "meta" else None,
                 lambda storage, location: UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None)


def _type_name(o):
    return f"{type(o).__module__}.{type(o).__name__}"


def location_tag(storage):
    for _, tagger, _ in _packages:
        if tag := tagger(storage):
            return tag
    raise RuntimeError(f"don't know how to determine data location of {_type_name(storage)}")


def default_restore_location(storage, location):
    """Moves a fresh storage to the place a tag names."""
    for _, _, deserializer in _packages:
        restored = deserializer(storage, location)
        if restored is not None:
            return restored
    raise RuntimeError(f"don't know how to restore data location of {_type_name(storage)} (tagged with {location})")


def _restore_by(map_location):
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes, _C.device)):
        target = map_location.decode("ascii") if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, target)

    def restore(storage, location):
        restored = map_location(storage, location)
        return default_restore_location(storage, location) if restored is None else restored

    return restore


def _get_layout(name):
    """A layout by its printed name, as pickles name it."""
    layout = getattr(_C, name.split(".")[-1], None)
    if not isinstance(layout, _C.layout):
        raise KeyError(name)
    return layout


# ---- loading -------------------------------------------------------------------------------------------------

def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads what save() wrote, here or in PyTorch. With weights_only (the default) no code of the file runs."""
    if weights_only is None:
        weights_only = pickle_module is None and os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0") not in ("1", "y", "yes", "true")
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0") in ("1", "y", "yes", "true"):
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not _is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not _is_path(f):
        _check_seekable(f)
    unpickle = _weights if weights_only else _anything(pickle_module or pickle)
    pickle_load_args.setdefault("encoding", "utf-8")
    restore = _restore_by(map_location)
    if _is_zip(f):
        reader = _C.PyTorchFileReader(os.fspath(f) if _is_path(f) else f, bool(mmap))
        return _load_archive(reader, restore, _only_meta(map_location), unpickle, pickle_load_args)
    if mmap:
        raise RuntimeError(
            f"mmap can only be used with files saved with `torch.save({f}, _use_new_zipfile_serialization=True), please torch.save "
            "your checkpoint with this option in order to use mmap.")
    if _is_path(f):
        with open(f, "rb") as file:
            data = file.read()
    else:
        data = f.read()
    return _load_legacy(data, restore, unpickle, pickle_load_args)


def _check_seekable(f):
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{name}'. You can only torch.load from a file that is seekable. "
                "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead.")


def _is_zip(f):
    if _is_path(f):
        with open(f, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    start = f.tell()
    try:
        return f.read(4) == b"PK\x03\x04"
    finally:
        f.seek(start)


def _only_meta(map_location):
    return isinstance(map_location, (str, _C.device)) and str(map_location) == "meta"


def _check_version(reader):
    name = "version" if reader.has_record("version") else ".data/version"
    if not reader.has_record(name):
        raise RuntimeError(
            'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  If so, please '
            "report an enhancement request to PyTorch.)")
    try:
        version = int(reader.get_record(name))
    except ValueError:
        raise RuntimeError("Couldn't parse the version of a PyTorch file as Long Long.") from None
    if version > _MOST_RECENT_VERSION:
        raise RuntimeError(
            f"Attempted to read a PyTorch file with version {version}, but the maximum supported version for reading is "
            f"{_MOST_RECENT_VERSION}. The version of your PyTorch installation may be too old, please upgrade PyTorch to latest "
            "version to mitigate this issue.")
    if version < 1:
        raise RuntimeError(
            f"Attempted to read a PyTorch file with version {version}, but the minimum supported version for reading is 1. Your "
            "PyTorch script module file is too old. Please regenerate it with latest version of PyTorch to mitigate this issue.")


def _storage_parts(saved_id):
    """What a persistent id says: element type, key, location, bytes."""
    if not isinstance(saved_id, tuple) or len(saved_id) < 5 or saved_id[0] != "storage":
        raise RuntimeError(f"Unknown typename for persistent_load, expected 'storage' but got '{saved_id!r:.80}'")
    kind, key, location, count = saved_id[1:5]
    if isinstance(location, bytes):
        location = location.decode("ascii")
    dtype = _C.uint8 if kind is UntypedStorage else getattr(kind, "dtype", None)
    if not isinstance(dtype, _C.dtype) or not isinstance(count, int) or not isinstance(key, str) or not isinstance(location, str) or not 0 <= count < 2**60:
        raise RuntimeError("a storage of the file is not described as storages are")
    return dtype, key, location, count * dtype.itemsize


def _load_archive(reader, restore, only_meta, unpickle, arguments):
    if reader.has_record("constants.pkl"):
        if unpickle is _weights:
            raise RuntimeError("Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. " + _UNSAFE)
        raise NotImplementedError("load() of a TorchScript archive is not implemented in Taper yet")
    _check_version(reader)
    order = reader.get_record("byteorder") if reader.has_record("byteorder") else b"little"
    if order not in (b"little", b"big"):
        raise ValueError("Unknown endianness type: " + order.decode("ascii", "replace"))
    loaded = {}

    def persistent_load(saved_id):
        dtype, key, location, size = _storage_parts(saved_id)
        if key not in loaded:
            if only_meta:
                storage = UntypedStorage(size, device="meta")
            else:
                element = dtype.itemsize // (2 if dtype.is_complex else 1) if order == b"big" else 1
                storage = restore(reader._read_storage("data/" + key, size, element), location)
            loaded[key] = TypedStorage(wrap_storage=storage, dtype=dtype)
        return loaded[key]

    return unpickle(reader.get_record("data.pkl"), persistent_load, arguments)[0]


def _anything(pickle_module):
    """Unpickling by Python: whatever the file names is imported and called."""

    def unpickle(data, persistent_load, arguments):
        class Unpickler(pickle_module.Unpickler):
            def find_class(self, module, name):
                if module == "torch" and name in LEGACY:
                    return StorageType(name)
                return super().find_class(_own_module(module), name)

        Unpickler.persistent_load = staticmethod(persistent_load)
        file = io.BytesIO(data)
        return Unpickler(file, **arguments).load(), file.tell()

    return unpickle


def _own_module(module):
    """Where a module of torch is found in this package."""
    return NAME + module[len("torch"):] if module == "torch" or module.startswith("torch.") else module


# ---- loading nothing but weights -----------------------------------------------------------------------------

_safe = []                                          # what the user trusts: objects, or pairs of object and name
_BLOCKED = ("sys", "os", "posix", "nt")


def add_safe_globals(safe_globals):
    """Trusts these classes and functions in weights_only loads; (object, "module.name") pairs give them other names."""
    _safe.extend(safe_globals)


def get_safe_globals():
    return list(_safe)


def clear_safe_globals():
    _safe.clear()


class safe_globals:
    """Trusts some globals inside a `with`."""

    def __init__(self, safe_globals):
        self.globals = safe_globals

    def __enter__(self):
        self.before = list(_safe)
        add_safe_globals(self.globals)

    def __exit__(self, *error):
        _safe[:] = self.before


def _file_name(o):
    """The name of a class or function, as a file would have it."""
    module = o.__module__
    if module == NAME or module.startswith(NAME + "."):
        module = "torch" + module[len(NAME):]
    return f"{module}.{o.__qualname__}"


def _default_globals():
    import _codecs
    import collections
    import importlib

    found = {_file_name(o): o for o in (collections.OrderedDict, collections.Counter, set, bytearray, complex)}
    found["_codecs.encode"] = _codecs.encode
    package = importlib.import_module(NAME)
    for name in LEGACY:
        found["torch." + name] = StorageType(name)
    for name in ("Tensor", "Size", "device", *package._FACES):
        found["torch." + name] = getattr(package, name)
    for name, value in vars(_C).items():
        if isinstance(value, _C.dtype):
            found["torch." + name] = value
    for module, names in (
        ("_utils", "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter _rebuild_parameter_with_state "
                   "_rebuild_meta_tensor_no_storage"),
        ("_tensor", "_rebuild_from_type_v2"), ("storage", "UntypedStorage TypedStorage"), ("nn.parameter", "Parameter"),
        ("serialization", "_get_layout"),
    ):
        loaded = importlib.import_module(f"{NAME}.{module}")
        for name in names.split():
            found[f"torch.{module}.{name}"] = getattr(loaded, name)
    return found


def _user_globals():
    named = {}
    for entry in _safe:
        o, name = entry if isinstance(entry, tuple) else (entry, _file_name(entry))
        named[name] = o
    return named


def _weights(data, persistent_load, arguments):
    default, user = _default_globals(), _user_globals()

    def find(module, name):
        module = "builtins" if module == "__builtin__" else "copyreg" if module == "copy_reg" else module
        full = f"{module}.{name}"
        if module.split(".")[0] in _BLOCKED:
            raise pickle.UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
        if full in user:
            return user[full]
        if full in default:
            return default[full]
        shown = name if module == "builtins" else full
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the `torch.serialization.safe_globals([{shown}])` context "
            "manager to allowlist this global if you trust this class/function.")

    def set_state(made, state):
        import collections

        trusted = tuple(o for o in user.values() if isinstance(o, type))
        if isinstance(made, _C.Tensor) and hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif type(made) is collections.OrderedDict:
            made.__dict__.update(state)
        elif type(made) not in trusted:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{type(made)}")
        elif hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            from ._utils import _set_obj_state

            _set_obj_state(made, state)

    try:
        made, used, protocol = _C._load_pickle(data, find, persistent_load, set_state, arguments["encoding"])
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(_explain(str(error))) from None
    return made, used


def _explain(message):
    if message.startswith("Unsupported global"):
        begin = (
            "This file can still be loaded, to do so you have two options, \033[1mdo those steps only if you trust the source of "
            f"the checkpoint\033[0m. \n\t(1) {_UNSAFE}\n\t(2) Alternatively, to load with `weights_only=True` please check the "
            "recommended steps in the following error message.\n\tWeightsUnpickler error: ")
    elif message.endswith("is blocked."):
        begin = _UNSAFE + "\n\n\n"
    else:
        begin = (
            _UNSAFE + "\nPlease file an issue with the following so that we can make `weights_only=True` compatible with your use "
            "case: WeightsUnpickler error: \n\n")
    return (
        f"Weights only load failed. {begin}{message}\n\nCheck the documentation of torch.load to learn more about types accepted "
        "by default with weights_only https://pytorch.org/docs/stable/generated/torch.load.html.")


def get_unsafe_globals_in_checkpoint(f):
    """The globals of a file that a weights_only load would refuse."""
    _check = {**_default_globals(), **_user_globals()}
    if not _is_zip(f):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    pairs = _C._pickle_globals(_C.PyTorchFileReader(os.fspath(f) if _is_path(f) else f).get_record("data.pkl"))
    names = {"builtins." + name if module == "__builtin__" else f"{module}.{name}" for module, name in pairs}
    return sorted(names - set(_check))


# ---- files of before 2020 ------------------------------------------------------------------------------------

def _save_legacy(obj, f, pickle_module, protocol):
    """Five pickles and the storages behind one another."""
    ids = _C._StorageIds(TypedStorage, {kind.dtype: kind for kind in LEGACY.values()})
    counts = {}

    def with_view(o):
        saved_id = ids(o)
        if saved_id is None:
            return None
        counts[saved_id[2]] = saved_id[4]
        return (*saved_id, None)

    with_view.storages = ids.storages
    sizes = {"short": 2, "int": 4, "long": 4}
    head = {"protocol_version": PROTOCOL_VERSION, "little_endian": True, "type_sizes": sizes}
    data, storages = _pickle(obj, pickle_module, protocol, with_view)
    keys = sorted(str(i) for i in range(len(storages)))
    with _C._OutputFile(f) if _is_path(f) else contextlib.nullcontext(f) as file:
        for part in (MAGIC_NUMBER, PROTOCOL_VERSION, head):
            file.write(pickle_module.dumps(part, protocol=protocol))
        file.write(data)
        file.write(pickle_module.dumps(keys, protocol=protocol))
        for key in keys:
            file.write(counts[key].to_bytes(8, "little"))
            file.write(storages[int(key)])


def _load_legacy(data, restore, unpickle, arguments):
    loaded = {}
    data = memoryview(data)
    if not len(data):
        raise EOFError("Ran out of input")

    def persistent_load(saved_id):
        if unpickle is not _weights and isinstance(saved_id, tuple) and saved_id[:1] == ("module",):
            return saved_id[1]
        dtype, key, location, size = _storage_parts(saved_id)
        if len(saved_id) > 5 and saved_id[5] is not None:
            raise NotImplementedError("load() of a storage that is a view of another is not implemented in Taper yet")
        if size > len(data):
            raise RuntimeError(f"the file is too short for a storage of {size} bytes")
        if key not in loaded:
            loaded[key] = dtype, restore(UntypedStorage(size), location)
        return TypedStorage(wrap_storage=loaded[key][1], dtype=loaded[key][0])

    def next_pickle():
        nonlocal data
        made, used = unpickle(data, persistent_load, arguments)
        data = data[used:]
        return made

    if next_pickle() != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    if (version := next_pickle()) != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    next_pickle()
    made = next_pickle()
    for key in next_pickle():
        if key not in loaded:
            raise RuntimeError(f"the file has a storage {key!r:.40} that nothing uses")
        dtype, storage = loaded[key]
        count, size = int.from_bytes(data[:8], "little"), storage.nbytes()
        if count * dtype.itemsize != size or len(data) < 8 + size:
            raise RuntimeError(f"unexpected EOF, expected {size - len(data) + 8} more bytes. The file might be corrupted.")
        if storage.device.type != "meta":
            memoryview(storage)[:] = data[8:8 + size]
        data = data[8 + size:]
    return made
