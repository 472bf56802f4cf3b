"""Backends of PyTorch and their switches; none of the accelerators is here."""
import types as _types


def _backend(name, **attributes):
    made = _types.SimpleNamespace(**attributes)
    made.__name__ = f"{__name__}.{name}"
    return made


def _no():
    return False


cuda = _backend("cuda", is_built=_no, matmul=_backend("cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True))
cudnn = _backend("cudnn", is_available=_no, enabled=True, benchmark=False, deterministic=False, allow_tf32=True, version=lambda: None)
mps = _backend("mps", is_available=_no, is_built=_no)
mkl = _backend("mkl", is_available=_no)
mkldnn = _backend("mkldnn", is_available=_no, enabled=True)
openmp = _backend("openmp", is_available=_no)
opt_einsum = _backend("opt_einsum", is_available=_no, enabled=False)
cpu = _backend("cpu", get_cpu_capability=lambda: "DEFAULT")
