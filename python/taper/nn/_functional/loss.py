"""Losses."""
import math
import warnings

from .. import _reduction
from ..._root import torch
from .common import _nn, any_overridden, override

__all__ = [
    "ctc_loss", "nll_loss", "poisson_nll_loss", "gaussian_nll_loss", "kl_div", "cross_entropy", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "smooth_l1_loss", "huber_loss", "l1_loss", "mse_loss", "margin_ranking_loss",
    "hinge_embedding_loss", "multilabel_margin_loss", "soft_margin_loss", "multilabel_soft_margin_loss",
    "cosine_embedding_loss", "multi_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    "linear_cross_entropy",
]


def _number(size_average, reduce, reduction):
    """The reduction's number, after the two flags of old have had their say."""
    if size_average is None and reduce is None:
        return _reduction.get_enum(reduction)
    return _reduction.legacy_get_enum(size_average, reduce)


def _name(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return reduction
    return _reduction.legacy_get_string(size_average, reduce)


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _warn_sizes(input, target):
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _broadcast(input, target, weight):
    """Input and target, spread over each other. A weight has the size that input had."""
    if weight is not None and weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    return torch.broadcast_tensors(input, target)


def _weighted(op, input, target, weight, reduction, *args):
    """`op(input, target)` element by element, times weight; its mean divides by the sum of the weights."""
    losses = op(input, target, *_none_last(args)) * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return torch.sum(losses)
    if reduction == "mean":
        return torch.sum(losses) / torch.sum(weight)
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


def _none_last(args):
    return (_reduction.get_enum("none"), *args)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    if any_overridden(log_probs, targets, input_lengths, target_lengths):
        return override(ctc_loss, locals())
    return torch.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction.get_enum(reduction), zero_infinity
    )


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    if any_overridden(input, target, weight):
        return override(nll_loss, locals())
    return _nn.nll_loss_nd(input, target, weight, _number(size_average, reduce, reduction), ignore_index)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    if any_overridden(input, target):
        return override(poisson_nll_loss, locals())
    reduction = _name(size_average, reduce, reduction)
    number = _reduction.get_enum(reduction)
    return torch.poisson_nll_loss(input, target, log_input, full, eps, number)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if any_overridden(input, target, var):
        return override(gaussian_nll_loss, locals())
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        # One variance for all outputs of a sample: without its last dimension, or with a last dimension of 1.
        if input.size()[:-1] == var.size():
            var = torch.unsqueeze(var, -1)
        elif not (
            input.ndim == var.ndim
            and all(a == b or b == 1 for a, b in zip(input.size(), var.size()))
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if any_overridden(input, target):
        return override(kl_div, locals())
    if size_average is not None or reduce is not None:
        number = _reduction.legacy_get_enum(size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' "
                "divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed to "
                "behave the same as 'batchmean' in the next major release.",
                stacklevel=2,
            )
        number = _reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    result = torch.kl_div(input, target, number, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        result = result / input.size()[0]
    return result


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
    label_smoothing=0.0
):
    if any_overridden(input, target, weight):
        return override(cross_entropy, locals())
    number = _number(size_average, reduce, reduction)
    return _nn.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def linear_cross_entropy(
    input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
    label_smoothing=0.0, options=None
):
    """cross_entropy(linear(input, linear_weight, linear_bias), target); dims between classes and features belong to the loss."""
    if any_overridden(input, linear_weight, target, linear_bias, weight):
        return override(linear_cross_entropy, locals())
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    *out, width = linear_weight.shape
    if input.shape[-1] != width:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {width}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != out:
        raise RuntimeError(f"expected linear_bias shape {tuple(out)}, got {tuple(linear_bias.shape)}")
    if len(out) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {width}), got unbatched input with shape {tuple(input.shape)}"
        )
    if target.is_floating_point() and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(out) > 1:
        bias = None if linear_bias is None else linear_bias.reshape(-1)
        logits = _nn.linear(input, linear_weight.reshape(-1, width), bias).reshape(-1, *out)
    else:
        logits = _nn.linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
        label_smoothing=label_smoothing
    )


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input, target, weight):
        return override(binary_cross_entropy, locals())
    number = _number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.size(), weight.size()))
    return _nn.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    if any_overridden(input, target, weight, pos_weight):
        return override(binary_cross_entropy_with_logits, locals())
    number = _number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if any_overridden(input, target):
        return override(smooth_l1_loss, locals())
    _warn_sizes(input, target)
    number = _number(size_average, reduce, reduction)
    input, target = torch.broadcast_tensors(input, target)
    if beta == 0.0:
        return _nn.l1_loss(input, target, number)
    return _nn.smooth_l1_loss(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    if any_overridden(input, target, weight):
        return override(huber_loss, locals())
    _warn_sizes(input, target)
    input, target = _broadcast(input, target, weight)
    if weight is not None:
        return _weighted(_nn.huber_loss, input, target, weight, reduction, delta)
    return _nn.huber_loss(input, target, _reduction.get_enum(reduction), delta)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if any_overridden(input, target, weight):
        return override(l1_loss, locals())
    _warn_sizes(input, target)
    reduction = _name(size_average, reduce, reduction)
    input, target = _broadcast(input, target, weight)
    if weight is not None:
        return _weighted(_nn.l1_loss, input, target, weight, reduction)
    return _nn.l1_loss(input, target, _reduction.get_enum(reduction))


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if any_overridden(input, target, weight):
        return override(mse_loss, locals())
    _warn_sizes(input, target)
    reduction = _name(size_average, reduce, reduction)
    input, target = _broadcast(input, target, weight)
    if weight is not None:
        return _weighted(lambda x, y, _: torch.pow(x - y, 2), input, target, weight, reduction)
    return _nn.mse_loss(input, target, _reduction.get_enum(reduction))


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input1, input2, target):
        return override(margin_ranking_loss, locals())
    number = _number(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return torch.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input, target):
        return override(hinge_embedding_loss, locals())
    return torch.hinge_embedding_loss(input, target, margin, _number(size_average, reduce, reduction))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input, target):
        return override(multilabel_margin_loss, locals())
    return _nn.multilabel_margin_loss(input, target, _number(size_average, reduce, reduction))


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input, target):
        return override(soft_margin_loss, locals())
    return _nn.soft_margin_loss(input, target, _number(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input, target, weight):
        return override(multilabel_soft_margin_loss, locals())
    reduction = _name(size_average, reduce, reduction)
    loss = -(target * _nn.log_sigmoid(input) + (1 - target) * _nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.dim() - 1
    loss = loss.sum(dim=last) / input.size(last)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return _reduced(loss, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    if any_overridden(input1, input2, target):
        return override(cosine_embedding_loss, locals())
    return torch.cosine_embedding_loss(input1, input2, target, margin, _number(size_average, reduce, reduction))


def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    if any_overridden(input, target, weight):
        return override(multi_margin_loss, locals())
    number = _number(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _nn.multi_margin_loss(input, target, p, margin, weight, number)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
    reduction="mean"
):
    if any_overridden(anchor, positive, negative):
        return override(triplet_margin_loss, locals())
    number = _number(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    if any_overridden(anchor, positive, negative):
        return override(triplet_margin_with_distance_loss, locals())
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if distance_function is None:
        distance_function = torch.pairwise_distance
    if not (anchor.ndim == positive.ndim == negative.ndim):
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near = distance_function(anchor, positive)
    far = distance_function(anchor, negative)
    if swap:
        far = torch.minimum(far, distance_function(positive, negative))
    return _reduced(torch.clamp_min(margin + near - far, 0), reduction)
