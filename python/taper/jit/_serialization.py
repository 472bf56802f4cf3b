"""torch.jit.save and load: TorchScript archives."""
import os

from .. import _C
from ._script import RecursiveScriptModule, ScriptModule, _wrap


def save(m, f, _extra_files=None):
    """Writes a module or function to a path or a file."""
    if _extra_files:
        raise NotImplementedError("torch.jit.save: _extra_files")
    what = m._c if isinstance(m, ScriptModule) else m
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        _C._jit_save(what, path, os.path.splitext(os.path.basename(path))[0] or "archive")
    else:
        _C._jit_save(what, f, "archive")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads what save wrote, here or with PyTorch."""
    if _extra_files:
        raise NotImplementedError("torch.jit.load: _extra_files")
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if not os.path.exists(path):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(path):
            raise ValueError(f"The provided filename {f} is a directory")
        c_module = _C._jit_load(path)
    else:
        c_module = _C._jit_load(f.read())
    if map_location is not None and str(map_location) != "cpu":
        raise NotImplementedError(f"torch.jit.load: map_location={map_location!r}; tensors live on the CPU")
    return _wrap(c_module, RecursiveScriptModule)
