"""What importlib.metadata says of torch while Taper answers for it."""
import importlib.metadata
import pathlib

from .torch_version import __version__


class Distribution(importlib.metadata.Distribution):
    def read_text(self, filename):
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path):
        return pathlib.Path(__file__).parent.parent / path
