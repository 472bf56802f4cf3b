"""PyTorch with our torch.testing in place of its own: does a test's outcome depend on our test support?

    python on_torch.py SCRIPT ARGUMENT...
"""
import importlib
import importlib.util
import os
import runpy
import sys

OURS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "python", "taper", "testing")
KEEP = ("torch._dynamo.test_case", "torch._dynamo.testing")     # PyTorch's own users of its torch.testing


def install():
    """From now on `import torch.testing` means ours; returns torch."""
    import torch
    for name in KEEP:
        try:
            importlib.import_module(name)
        except ImportError:
            pass                                                # they need packages that may be absent
    for name in list(sys.modules):
        if name == "torch.testing" or name.startswith("torch.testing."):
            del sys.modules[name]
    spec = importlib.util.spec_from_file_location("torch.testing", os.path.join(OURS, "__init__.py"),
                                                  submodule_search_locations=[OURS])
    torch.testing = sys.modules["torch.testing"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(torch.testing)
    return torch


if __name__ == "__main__":
    del sys.argv[0]
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")
