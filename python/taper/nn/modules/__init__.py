"""All layers, each in the module whose name pickles expect."""
from . import (
    activation, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, lazy,
    linear, loss, module, normalization, padding, pixelshuffle, pooling, rnn, sparse, upsampling, utils,
)
from .module import Module

__all__ = ["Module"]
for _family in (
    activation, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, linear,
    loss, normalization, padding, pixelshuffle, pooling, rnn, sparse, upsampling,
):
    for _name in _family.__all__:
        globals()[_name] = getattr(_family, _name)
    __all__ += _family.__all__
del _family, _name
