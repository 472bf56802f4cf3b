"""How far apart two values of a dtype may be and still count as close."""
from ._torch import dtypes, torch

EXACT = (0.0, 0.0)
BY_DTYPE = {                                # dtype: (relative, absolute); what is not here must be equal
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
BY_DTYPE.update({dtype: (1e-3, 1e-5) for dtype in dtypes("complex32")})
BY_NUMBER = {int: torch.int64, float: torch.float64, complex: torch.complex128}


def default_of(*dtypes):
    """The wider of the dtypes' tolerances, each of the two on its own."""
    pairs = [BY_DTYPE.get(dtype, EXACT) for dtype in dtypes]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def check_given(rtol, atol):
    """Tolerances come both or not at all; returns whether they were given."""
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, "
                         f"but got no {'rtol' if rtol is None else 'atol'}.")
    return rtol is not None
