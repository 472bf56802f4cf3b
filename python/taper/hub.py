"""torch.hub: models from a folder with a hubconf.py, and files from the network kept in a cache."""
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")      # of a file name that ends in the start of its SHA-256
READ_DATA_CHUNK = 128 * 1024
_folder = None


def _get_torch_home():
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    return os.path.join(_get_torch_home(), "hub") if _folder is None else _folder


def set_dir(d):
    global _folder
    _folder = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """The file at `url` in `dst`, which appears only when it is whole and, where a prefix is given, has that SHA-256."""
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as remote:
        part = tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", prefix=os.path.basename(dst) + ".", suffix=".partial", delete=False)
        try:
            with part:
                while block := remote.read(READ_DATA_CHUNK):
                    part.write(block)
                    digest.update(block)
            if hash_prefix is not None and digest.hexdigest()[:len(hash_prefix)] != hash_prefix:
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
            shutil.move(part.name, dst)
        finally:
            if os.path.exists(part.name):
                os.remove(part.name)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=False):
    """What torch.load makes of the file at `url`, downloaded once."""
    from .serialization import load as load_file

    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        named = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
        download_url_to_file(url, path, named.group(1) if named else None, progress=progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)


def _hubconf(repo_or_dir, source):
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError("torch.hub: Taper does not fetch repositories; clone it and give source='local'")
    path = os.path.join(repo_or_dir, "hubconf.py")
    sys.path.insert(0, repo_or_dir)
    try:
        spec = importlib.util.spec_from_file_location("hubconf.py", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    return module


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [package for package in getattr(module, "dependencies", None) or [] if importlib.util.find_spec(package) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True, *, source="github"):
    module = _hubconf(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, *, source="github"):
    return _entry(_hubconf(github, source), model).__doc__


def load(
    repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True, skip_validation=False, **kwargs
):
    """Calls the function `model` of the hubconf.py in a folder."""
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)
