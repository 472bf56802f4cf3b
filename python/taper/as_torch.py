"""The package under the name of `torch`: programs that import torch get Taper, unchanged.

`python -m taper script.py` does it for one run; TAPER_AS_TORCH=1 for programs that import taper first. The extension can be
loaded once in a process, so the name is chosen when the package is first imported.
"""
import importlib
import importlib.machinery
import sys

NAME = __name__.rsplit(".", 1)[0]


def install():
    """Makes sure that `import torch` gives Taper."""
    if NAME != "torch":
        raise RuntimeError(
            "Taper is already loaded under its own name; run the program by `python -m taper program.py`, or set "
            "TAPER_AS_TORCH=1 before taper is imported")


class _Alias:
    """`taper.x` is `torch.x`, and `functorch` is `torch.functorch`. Not an importlib.abc finder: those take longer to import than Taper."""

    def find_spec(self, name, path=None, target=None):
        alias = name.startswith("taper.") and name != "taper.__main__" or name.partition(".")[0] == "functorch"
        return importlib.machinery.ModuleSpec(name, self) if alias else None

    def create_module(self, spec):
        whole = "torch." + spec.name if spec.name.startswith("functorch") else "torch" + spec.name[len("taper"):]
        return importlib.import_module(whole)

    def exec_module(self, module):
        pass

    def find_distributions(self, context=None):
        """Asked by importlib.metadata."""
        return [_distribution()] if context is None or context.name in (None, "torch") else []


def _distribution():
    """What importlib.metadata says of torch while Taper answers for it."""
    import importlib.metadata
    import pathlib

    from .torch_version import __version__

    class Distribution(importlib.metadata.Distribution):
        def read_text(self, filename):
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename in ("METADATA", "PKG-INFO") else None

        def locate_file(self, path):
            return pathlib.Path(__file__).parent.parent / path

    return Distribution()


def answer_for_torch():
    """Sets up the alias and the metadata; called by the package when it is torch."""
    alias = _Alias()
    sys.meta_path.insert(0, alias)
    root = sys.modules["torch"]
    sys.modules["taper"] = root
