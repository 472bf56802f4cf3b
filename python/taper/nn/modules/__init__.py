"""All layers, each in the module whose name pickles expect."""
from . import (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, lazy,
    linear, loss, module, normalization, padding, pixelshuffle, pooling, rnn, sparse,
    transformer, upsampling, utils,
)
from .module import Module

__all__ = ["Module"]
for _family in (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm,
    linear, loss, normalization, padding, pixelshuffle, pooling, rnn, sparse, transformer,
    upsampling,
):
    for _name in _family.__all__:
        globals()[_name] = getattr(_family, _name)
    __all__ += _family.__all__
del _family, _name


def __getattr__(name):
    # Needs dataclasses, which are slow to import.
    if name == "LinearCrossEntropyOptions":
        from .linear_cross_entropy_options import LinearCrossEntropyOptions
        return LinearCrossEntropyOptions
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
