"""Names of the root: parts that load when asked for, and names of PyTorch that are not there yet (names.txt)."""
import os

lazy = frozenset(
    "nn optim utils testing fx func export jit onnx library cuda backends linalg special fft sparse storage compiler distributed "
    "distributions hub profiler quantization ao amp return_types serialization functional futures package monitor multiprocessing "
    "masked nested accelerator cpu mps xpu mtia types signal _decomp _dynamo _functorch _higher_order_ops _inductor _prims "
    "_prims_common _refs _subclasses _utils _export _custom_ops __config__ as_torch torch_version".split()
)
_known = None


def known():
    """Names that PyTorch's root module has."""
    global _known
    if _known is None:
        with open(os.path.join(os.path.dirname(__file__), "names.txt")) as f:
            _known = frozenset(f.read().split())
    return _known
