"""Layers joined with the batch norm that follows them, for inference."""
import copy

from ..._root import torch
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _fused(weight, bias, mean, var, eps, gain, shift, shape):
    """weight and bias of y = (w x + b - mean) / sqrt(var + eps) gain + shift."""
    bias = torch.zeros_like(mean) if bias is None else bias
    gain = torch.ones_like(mean) if gain is None else gain
    shift = torch.zeros_like(mean) if shift is None else shift
    scale = gain * torch.rsqrt(var + eps)
    weight_grad, bias_grad = weight.requires_grad, bias.requires_grad
    weight = (weight * scale.reshape(shape)).to(weight.dtype)
    bias = ((bias - mean) * scale + shift).to(bias.dtype)
    return Parameter(weight, weight_grad), Parameter(bias, bias_grad)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    ones = [1] * (conv_w.dim() - 2)
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [1, -1, *ones] if transpose else [-1, 1, *ones])


def fuse_conv_bn_eval(conv, bn, transpose=False):
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_linear_bn_eval(linear, bn):
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused
