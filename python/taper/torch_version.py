"""The version this package answers for, PyTorch's, since libraries refuse old ones; and how the engine was built."""


def _parts(text):
    head = str(text).split("+")[0]
    numbers = []
    for piece in head.replace("-", ".").split("."):
        digits = "".join(c for c in piece if c.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
        if len(digits) != len(piece):
            break
    return tuple(numbers)


class TorchVersion(str):
    """A string that compares as a version with strings and tuples."""

    def _key(self, other):
        mine, theirs = list(_parts(self)), list(other if isinstance(other, tuple) else _parts(other))
        theirs = [int(x) for x in theirs if isinstance(x, int) or str(x).isdigit()]
        length = max(len(mine), len(theirs))
        return mine + [0] * (length - len(mine)), theirs + [0] * (length - len(theirs))

    def __lt__(self, other):
        mine, theirs = self._key(other)
        return mine < theirs

    def __le__(self, other):
        mine, theirs = self._key(other)
        return mine <= theirs

    def __gt__(self, other):
        mine, theirs = self._key(other)
        return mine > theirs

    def __ge__(self, other):
        mine, theirs = self._key(other)
        return mine >= theirs

    def __eq__(self, other):
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        mine, theirs = self._key(other)
        return mine == theirs

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+cpu")
cuda = hip = xpu = None
debug = False
git_version = "taper"


def show():
    import platform

    return f"Taper, as PyTorch {__version__}, built with:\n  - C17\n  - {platform.machine()}, CPU only\n"


def parallel_info():
    from . import get_num_interop_threads, get_num_threads

    return f"get_num_threads() : {get_num_threads()}\nget_num_interop_threads() : {get_num_interop_threads()}\n"
