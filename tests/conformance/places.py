"""Where the test files are, and the modules they import by plain name.

The files are PyTorch's and are not part of this tree. They may lie side by side in one folder, or in a checkout's
`test` folder, where names repeat: hence the table of those that we run. A file finds its helper modules beside it when
it is in a checkout, else among our own in helpers/, one folder for each folder of theirs.
"""
import os

HERE = os.path.dirname(os.path.realpath(__file__))
HELPERS = os.path.join(HERE, "helpers")
PASSING = os.path.join(HERE, "passing")
PAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "conformance.md")

FILES = {                                   # file: the folder of PyTorch's tests that it belongs to
    "test_aotdispatch.py": "functorch",
    "test_export.py": "export",
    "test_fx_to_onnx_with_onnxruntime.py": "onnx",
    "test_modules.py": "dynamo",
    "test_tracer.py": "jit",
}


def find(seeds, name):
    """The path of test file `name`, or None. A path that exists stands for itself."""
    if os.path.dirname(name) and os.path.exists(name):
        return os.path.realpath(name)
    if not seeds:
        return None
    area = FILES.get(os.path.basename(name), "")
    for folder in (os.path.join(seeds, "test", area), os.path.join(seeds, area), os.path.join(seeds, "test"), seeds):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.realpath(os.path.join(folder, name))
    return None


def import_folders(path):
    """What PYTHONPATH must begin with for the file at `path`."""
    area, folder = FILES.get(os.path.basename(path), ""), os.path.dirname(path)
    in_checkout = area and os.path.basename(folder) == area
    return [folder] + [os.path.dirname(folder)] * bool(in_checkout) + [os.path.join(HELPERS, area)] * bool(area)
