"""All layers."""
from . import (
    activation, batchnorm, container, conv, dropout, flatten, instancenorm, lazy, linear, loss, module, normalization,
    padding, pooling, shapes, sparse, utils,
)
from .module import Module

__all__ = ["Module"]
for _family in (
    activation, batchnorm, container, conv, dropout, flatten, instancenorm, linear, loss, normalization, padding,
    pooling, shapes, sparse,
):
    for _name in _family.__all__:
        globals()[_name] = getattr(_family, _name)
    __all__ += _family.__all__
del _family, _name
