"""Backends of PyTorch and their switches; none of the accelerators is here."""
from .. import _C


class _Switches:
    """What programs set and read of one backend; most of it changes nothing here."""

    def __init__(self, attributes):
        self.__dict__.update(attributes)


def _backend(name, **attributes):
    made = _Switches(attributes)
    made.__name__ = f"{__name__}.{name}"
    return made


def _no():
    return False


def _attention_switch(number):
    """(enable, enabled) of one way of attention; the switches are called CUDA's but rule all devices."""
    def enable(enabled):
        off = _C._get_attention_off()
        _C._set_attention_off(off & ~(1 << number) if enabled else off | 1 << number)

    return enable, lambda: not _C._get_attention_off() >> number & 1


cuda = _backend("cuda", is_built=_no, matmul=_backend("cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True))
for _number, _name in enumerate(("math", "flash", "mem_efficient", "cudnn")):
    _switch, _asked = _attention_switch(_number)
    setattr(cuda, f"enable_{_name}_sdp", _switch)
    setattr(cuda, f"{_name}_sdp_enabled", _asked)
del _number, _name, _switch, _asked
cudnn = _backend("cudnn", is_available=_no, enabled=True, benchmark=False, deterministic=False, allow_tf32=True, version=lambda: None)
mps = _backend("mps", is_available=_no, is_built=_no)
mkl = _backend("mkl", is_available=_no)
mkldnn = _backend("mkldnn", is_available=_no, enabled=True)
openmp = _backend("openmp", is_available=_no)
opt_einsum = _backend("opt_einsum", is_available=_no, enabled=False)
cpu = _backend("cpu", get_cpu_capability=lambda: "DEFAULT")
