"""All layers, each in the module whose name pickles expect."""
from . import (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, lazy,
    linear, linear_cross_entropy_options, loss, module, normalization, padding, pixelshuffle, pooling, rnn, sparse,
    transformer, upsampling, utils,
)
from .module import Module

__all__ = ["Module"]
for _family in (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm,
    linear, linear_cross_entropy_options, loss, normalization, padding, pixelshuffle, pooling, rnn, sparse, transformer,
    upsampling,
):
    for _name in _family.__all__:
        globals()[_name] = getattr(_family, _name)
    __all__ += _family.__all__
del _family, _name
