"""Running a graph on examples, real or fake, and writing down what each node gives."""
import sys
import traceback
import typing

from ... import _C, _facades
from ..._subclasses.fake_tensor import FakeTensorMode
from ..._tensor import Tensor
from ..interpreter import Interpreter
from ..node import map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


class TensorMetadata(typing.NamedTuple):
    shape: typing.Any
    dtype: typing.Any
    requires_grad: bool
    stride: tuple
    memory_format: typing.Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity=True):
    package = sys.modules[__name__.partition(".")[0]]
    form = None
    if include_contiguity:
        for one in (package.contiguous_format, package.channels_last, package.channels_last_3d):
            if result.is_contiguous(memory_format=one):
                form = one
                break
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), form, False, {})


_C._fx_register(tensor_meta=_extract_tensor_metadata)


class ShapeProp(Interpreter):
    """Sets meta["tensor_meta"] of every node that gives tensors."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n):
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = [False]

        def note(leaf):
            if isinstance(leaf, sys.modules[__name__.partition(".")[0]].Tensor):
                found[0] = True
                return _extract_tensor_metadata(leaf)
            return leaf
        meta = map_aggregate(result, note)
        if found[0]:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        if self.fake_mode is None:
            return super().run(*args)
        with self.fake_mode:
            return super().run(*[self.fake_mode.from_tensor(a) if hasattr(a, "dtype") else a for a in args])


# ---- Running a graph on fake tensors and writing down what each node gives -----------------------------------------
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


def reinplace(gm, *sample_args):
    """Makes functional calls write into their first argument where nobody can tell (src/pass/reinplace.c); `sample_args` are inputs."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    run = Interpreter(gm, garbage_collect_values=False)
    with mode:
        run.run(*[mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in sample_args])
    _C._fx_reinplace(gm.graph, dict(run.env))
    gm.recompile()
    return gm


_facades.settle(__name__)
