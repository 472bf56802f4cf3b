"""Words that tests compare with PyTorch's."""
import taper as torch


def public(text):
    """Text with the package's own name replaced by PyTorch's."""
    return text.replace(torch.__name__ + ".", "torch.")
