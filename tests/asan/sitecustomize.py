"""Python under AddressSanitizer (make asan): leaks of containers are seen, those that others make at import are not.

numpy, onnx (with protobuf) and onnxruntime make types, ufuncs and enums when they are imported and never give all of them
back. Suppressions by stack cannot say so: Python's frames end the stacks, and they would also hide what these packages leak
later on our behalf. So LeakSanitizer looks away during their import, and only then. No float crosses the border in a
recycled block: one that died during the import would be numpy's next, and seem to be that of whoever made it first."""
import ctypes
import gc
import importlib.util
import sys

import leaks311

UNWATCHED = {"numpy", "onnx", "onnxruntime"}
process = ctypes.CDLL(None)


def unwatched(execute):
    def exec_module(module):
        collects = gc.isenabled()
        gc.disable()                                    # a collection would let floats be recycled
        leaks311.recycle_no_floats()
        process.__lsan_disable()
        try:
            execute(module)
        finally:
            process.__lsan_enable()
            if collects:
                gc.enable()
    return exec_module


class Finder:
    """Finds each package that is not watched once, and has its module executed so."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in UNWATCHED:
            return None
        UNWATCHED.remove(name)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader.exec_module = unwatched(spec.loader.exec_module)
        return spec


sys.meta_path.insert(0, Finder)
