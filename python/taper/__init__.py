"""Taper: PyTorch's tensors, autograd and graph stack in C, with this thin package as its face.

The package is written with relative imports only: it is the same code under the name of `torch` (see as_torch).
"""
import sys as _sys


def _wants_to_be_torch():
    """`python -m taper …` imports this package on the way to __main__; TAPER_AS_TORCH asks the same of any program."""
    import os

    arguments = getattr(_sys, "orig_argv", [])
    runs = _sys.argv[:1] == ["-m"] and "-m" in arguments and arguments[arguments.index("-m") + 1:][:1] == ["taper"]
    return __name__ == "taper" and "torch" not in _sys.modules and (runs or os.environ.get("TAPER_AS_TORCH") == "1")


if _wants_to_be_torch():
    # From here on this module is the package `torch`: relative imports, names of types and pickles follow.
    _sys.modules["torch"] = _sys.modules[__name__]
    __name__ = __package__ = "torch"
    __spec__ = type(__spec__)("torch", __spec__.loader, origin=__spec__.origin, is_package=True)
    __spec__.submodule_search_locations = __path__

from . import _C, _facades

_facades.install()

from ._C import (  # noqa: E402
    Generator, Size, SymBool, SymFloat, SymInt, Tensor, UntypedStorage, as_tensor, asarray, can_cast, device, dtype, finfo, from_numpy, frombuffer,
    get_default_dtype, get_num_threads, iinfo, is_grad_enabled, is_inference_mode_enabled, is_anomaly_enabled,
    is_anomaly_check_nan_enabled, is_tensor, layout, memory_format, promote_types, set_num_threads, tensor,
)
from .torch_version import __version__  # noqa: E402

for _name in (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool bfloat16 float double half short int "
    "long cfloat cdouble strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn jagged contiguous_format "
    "preserve_format channels_last channels_last_3d"
).split():
    globals()[_name] = getattr(_C, _name)
legacy_contiguous_format = _C.contiguous_format

# Every op that has a face as a function.
for _name, _value in vars(_C._VariableFunctions).items():
    if not _name.startswith("__"):
        globals()[_name] = _value

from ._tensor import set_printoptions  # noqa: E402  (and methods of Tensor written in Python)
from ._settings import (  # noqa: E402
    are_deterministic_algorithms_enabled, get_default_device, get_deterministic_debug_mode, get_float32_matmul_precision,
    get_num_interop_threads, is_complex, is_deterministic_algorithms_warn_only_enabled, is_floating_point, is_nonzero,
    is_storage, is_warn_always_enabled, set_default_device, set_default_dtype, set_default_tensor_type,
    set_deterministic_debug_mode, set_float32_matmul_precision, set_num_interop_threads, set_warn_always, typename,
    use_deterministic_algorithms, numel, result_type, from_dlpack, _assert, _check, _check_value, _check_type, _check_index,
    _check_not_implemented, _check_is_size, is_inference, is_conj, is_signed, compiled_with_cxx11_abi,
    broadcast_shapes, to_dlpack, _check_with, _check_tensor_all, _check_tensor_all_with, set_anomaly_enabled, init_num_threads,
    get_device, is_neg, spmm, dsmm,
)
from ._symbolic import (  # noqa: E402
    sym_float, sym_fresh_size, sym_int, sym_ite, sym_max, sym_min, sym_not, sym_sqrt, sym_sum,
    _sym_sqrt, _sym_cos, _sym_cosh, _sym_sin, _sym_sinh, _sym_tan, _sym_tanh, _sym_asin, _sym_acos, _sym_atan, _sym_log2,
)
from ._autocast import (  # noqa: E402
    autocast_decrement_nesting, autocast_increment_nesting, clear_autocast_cache, get_autocast_dtype, is_autocast_cache_enabled,
    is_autocast_enabled, set_autocast_cache_enabled, set_autocast_dtype, set_autocast_enabled,
)
from .autograd.grad_mode import (  # noqa: E402
    enable_grad, inference_mode, no_grad, set_grad_enabled,
)
from .functional import lu, norm, split  # noqa: E402
from .random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402
from . import autograd, overrides, random, version  # noqa: E402
from ._compile import compile  # noqa: E402
from ._ops import ops, classes  # noqa: E402
from .functional import (  # noqa: E402
    atleast_1d, atleast_2d, atleast_3d, block_diag, broadcast_tensors, cartesian_prod, cdist, chain_matmul, einsum, meshgrid,
    nonzero, norm, stft, tensordot, unique, unique_consecutive, unravel_index,
)
from ._autocast import deprecated as _deprecated  # noqa: E402

globals().update(_deprecated)

_FACES = {
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64",
    "HalfTensor": "float16", "FloatTensor": "float32", "DoubleTensor": "float64", "BoolTensor": "bool",
    "BFloat16Tensor": "bfloat16", "ComplexFloatTensor": "complex64", "ComplexDoubleTensor": "complex128",
}

# Names of the root that load a part of the package.
_ELSEWHERE = {
    "cc": "._cc", "autocast": ".amp", "vmap": ".func", "cond": "._higher_order_ops.cond", "while_loop": "._higher_order_ops.while_loop", "fork": ".futures", "wait": ".futures",
    "save": ".serialization", "load": ".serialization", "pca_lowrank": "._lowrank", "svd_lowrank": "._lowrank", "Tag": "._tags",
    "Event": "._device", "Stream": "._device", "get_device_module": "._device",
}


def __getattr__(name):
    """Parts of the package are loaded when first asked for; what PyTorch has and Taper has not says so."""
    import importlib

    from ._names import known, lazy

    here = _sys.modules[__name__]
    if name in lazy:
        try:
            value = importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != __name__ + "." + name:
                raise
            value = None
        if value is not None:
            setattr(here, name, value)
            return value
    if name in _FACES:
        from .storage import legacy_type

        value = legacy_type(name, _FACES[name])
        setattr(here, name, value)
        return value
    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
        setattr(here, name, value)
        return value
    if name == "storage" or name.endswith("Storage"):
        from . import storage

        value = storage if name == "storage" else storage.TypedStorage if name == "TypedStorage" else storage.LEGACY.get(name)
        if value is not None:
            return value
    if name in known():
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    from ._names import lazy

    return sorted({*globals(), *lazy, *_FACES, *_ELSEWHERE})


from math import e, inf, nan, pi  # noqa: E402

newaxis = None
_segment_reduce = _C._VariableFunctions.segment_reduce
del _name, _value

if __name__ == "torch":
    from . import as_torch as _as_torch

    _as_torch.answer_for_torch()
