"""Tests of the Python package: run with PYTHONPATH leading to the build folder's package."""
import pytest


@pytest.fixture(autouse=True)
def same_settings():
    """Each test finds the defaults, and leaves them."""
    import taper as torch

    torch.set_default_dtype(torch.float32)
    torch._C._set_grad_enabled(True)
    yield
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    torch.set_default_dtype(torch.float32)
