"""Running a graph on fake tensors and writing down what each node gives."""
from ..._subclasses.fake_tensor import FakeTensorMode
from ..._tensor import Tensor
from ..interpreter import Interpreter
from .shape_prop import _extract_tensor_metadata
from ..node import map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Sets meta["val"] and meta["tensor_meta"] of every node."""

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n):
        result = super().run_node(n)
        found = []

        def note(leaf):
            if isinstance(leaf, Tensor):
                found.append(leaf)
                return _extract_tensor_metadata(leaf)
            return leaf
        meta = map_aggregate(result, note)
        if result is not None:
            n.meta["val"] = result
        if found:
            n.meta["tensor_meta"] = meta
        return result

    def propagate(self, *args):
        return self.propagate_dont_convert_inputs(*[self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args])

    def propagate_dont_convert_inputs(self, *args):
        with self._mode:
            return super().run(*args)
