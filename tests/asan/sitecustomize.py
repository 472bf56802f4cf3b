"""Python under AddressSanitizer (make asan): what numpy allocates while it is imported is no leak of ours.

It makes its ufuncs and promoters then and never gives them back (seen with 2.4.6). Suppressions by stack cannot say so
precisely: a float may lie in a block that CPython recycled, whose stack is of whoever had it first. So LeakSanitizer looks
away during the import, and CPython's free floats are used up before it and after it: none crosses the border."""
import ctypes
import importlib.util
import sys

RECYCLED = 100                  # floats that CPython keeps for reuse, at most
kept = []


def use_up_free_floats():
    kept.append([float(i) for i in range(2 * RECYCLED)])


class NumpyIsNotWatched:
    """Finds numpy once, and has its module executed unwatched."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "numpy":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec("numpy")
        if spec is None:
            return None
        execute, process = spec.loader.exec_module, ctypes.CDLL(None)
        look_away, look_again = (getattr(process, name) for name in ("__lsan_disable", "__lsan_enable"))

        def exec_module(module):
            look_away()
            try:
                use_up_free_floats()
                execute(module)
                use_up_free_floats()
            finally:
                look_again()

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, NumpyIsNotWatched)
