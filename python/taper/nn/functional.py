"""nn.functional: functions without state.

Those that are ops of the engine are the ops themselves; the others are thin faces over ops, kept by family in
`_functional` and public here: `__module__` of each is this module, because traced programs print it.
"""
from . import _reduction
from ._functional import activation, attention, layers, loss, pooling
from .._root import torch

Tensor = torch.Tensor

# public name -> (namespace, op)
_OPS = {
    name: ("root", name)
    for name in (
        "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
        "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "hardshrink",
        "native_channel_shuffle", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_",
        "rrelu_", "selu_", "threshold_",
    )
}
_OPS |= {
    name: ("nn", name)
    for name in (
        "avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardtanh_", "leaky_relu_", "linear", "one_hot",
        "scaled_dot_product_attention", "softplus", "softshrink",
    )
}
_OPS["logsigmoid"] = ("nn", "log_sigmoid")


def __getattr__(name):
    """Ops the engine lacked when this module was loaded: asked for again, so that the engine's own error is raised."""
    if name not in _OPS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    space, op = _OPS[name]
    return getattr(torch if space == "root" else torch._C._nn, op)


def _gather():
    for family in (activation, attention, layers, loss, pooling):
        for name in family.__all__:
            function = getattr(family, name)
            function.__module__ = __name__
            globals()[name] = function
    for name, (space, op) in _OPS.items():
        found = getattr(torch if space == "root" else torch._C._nn, op, None)
        if found is not None:
            globals()[name] = found


_gather()
_threshold = activation._threshold
_verify_batch_size = layers._verify_batch_size
_verify_spatial_size = layers._verify_spatial_size
GRID_SAMPLE_INTERPOLATION_MODES = layers.GRID_SAMPLE_INTERPOLATION_MODES
GRID_SAMPLE_PADDING_MODES = layers.GRID_SAMPLE_PADDING_MODES
_no_grad_embedding_renorm_ = layers._no_grad_embedding_renorm_
_unpool_output_size = pooling._unpool_output_size
