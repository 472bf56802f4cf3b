"""vmap: a level in C, with the signature of PyTorch around it."""
import functools

from .. import _C


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """The function over batches: each call inside sees one member, what runs are calls over all of them."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return _C._func_vmap(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return wrapped
