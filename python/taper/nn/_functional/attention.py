"""Attention with many heads.

    query (L, N, E) -> q (N*H, L, D)        scores = q k^T / sqrt(D) + mask
    key   (S, N, .) -> k (N*H, S, D)        weights = softmax(scores), dropped out
    value (S, N, .) -> v (N*H, S, D)        output = out_proj(weights v, heads side by side)
"""
import math
import warnings

from ..._root import torch
from .common import _nn, any_overridden, override

__all__ = ["multi_head_attention_forward"]


def _require(condition, message):
    if not condition:
        raise AssertionError(message)


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the call has a batch dimension; raises where the arguments disagree on it."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor")
    batched = query.dim() == 3
    kind, dims = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    _require(
        key.dim() == dims and value.dim() == dims,
        f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D "
        "tensors respectively",
    )
    if key_padding_mask is not None:
        _require(
            key_padding_mask.dim() == dims - 1,
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead",
        )
    if attn_mask is not None:
        _require(
            attn_mask.dim() in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead",
        )
        if not batched and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            _require(
                attn_mask.shape == expected,
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}",
            )
    return batched


def as_scores(mask, name, other, other_name, dtype, check_other=True):
    """A mask as numbers to add: True becomes -inf."""
    if mask is None:
        return None
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and other.dtype != mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=4,
        )
    if mask.is_floating_point():
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


def _project(query, key, value, packed_weight, packed_bias, separate_weights):
    """q, k and v, from one packed weight or from three."""
    if separate_weights is None:
        if key is value and query is key:
            return _nn.linear(query, packed_weight, packed_bias).chunk(3, -1)
        separate_weights = packed_weight.chunk(3)
    biases = (None, None, None) if packed_bias is None else packed_bias.chunk(3)
    return tuple(
        _nn.linear(given, weight, bias) for given, weight, bias in zip((query, key, value), separate_weights, biases))


def _append_key(k, v, new_k, new_v, attn_mask, key_padding_mask):
    """One more key and value, which no mask hides."""
    k, v = torch.cat([k, new_k], dim=0), torch.cat([v, new_v], dim=0)
    attn_mask = None if attn_mask is None else _nn.pad(attn_mask, (0, 1))
    key_padding_mask = None if key_padding_mask is None else _nn.pad(key_padding_mask, (0, 1))
    return k, v, attn_mask, key_padding_mask


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True,
    attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None,
    static_k=None, static_v=None, average_attn_weights=True, is_causal=False
):
    if any_overridden(
        query, key, value, in_proj_weight, in_proj_bias, bias_k, bias_v, out_proj_weight, out_proj_bias
    ):
        return override(multi_head_attention_forward, locals())
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = key is value, query is key
        query, key, value = _unsqueezed(query, key, value, *same)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    key_padding_mask = as_scores(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint says it all
    else:
        attn_mask = as_scores(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        is_causal = is_causal and key_padding_mask is None and attn_mask is None
    _require(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    _require(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias, separate)
    attn_mask = _check_mask(attn_mask, (length, key.shape[0]), batch * num_heads)
    if bias_k is not None and bias_v is not None:
        k, v, attn_mask, key_padding_mask = _append_key(
            k, v, bias_k.repeat(1, batch, 1), bias_v.repeat(1, batch, 1), attn_mask, key_padding_mask)
    if add_zero_attn and static_k is None and static_v is None:
        zeros = torch.zeros((1, batch, width), dtype=k.dtype, device=k.device)
        k, v, attn_mask, key_padding_mask = _append_key(k, v, zeros, zeros, attn_mask, key_padding_mask)
    q = q.reshape(length, batch * num_heads, head).transpose(0, 1)
    k = static_k if static_k is not None else k.reshape(k.shape[0], batch * num_heads, head).transpose(0, 1)
    v = static_v if static_v is not None else v.reshape(v.shape[0], batch * num_heads, head).transpose(0, 1)
    source = k.size(1)
    if key_padding_mask is not None:
        _require(
            key_padding_mask.shape[0] == batch,
            f"Expected key_padded_mask.shape[0] to be {batch}, but got {key_padding_mask.shape[0]}")
        _require(
            key_padding_mask.shape[1] == source,
            f"Expected key_padded_mask.shape[1] to be {source}, but got {key_padding_mask.shape[1]}")
        hidden = key_padding_mask.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
        hidden = hidden.reshape(batch * num_heads, 1, source)
        attn_mask = hidden if attn_mask is None else attn_mask + hidden
    attend = _attend_with_weights if need_weights else _attend
    output, weights = attend(q, k, v, attn_mask, dropout_p if training else 0.0, is_causal, batch, num_heads)
    output = _nn.linear(output, out_proj_weight, out_proj_bias).view(length, batch, -1)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if not batched:
        return output.squeeze(1), None if weights is None else weights.squeeze(0)
    return output, weights


def _unsqueezed(query, key, value, one_source, all_one):
    """A batch of one; tensors that were one object stay so, for the packed projection."""
    wide_key = key.unsqueeze(1)
    wide_query = wide_key if all_one else query.unsqueeze(1)
    return wide_query, wide_key, wide_key if one_source else value.unsqueeze(1)


def _check_mask(mask, size, heads):
    """The mask with a dimension for heads in front."""
    if mask is None:
        return None
    if mask.dim() == 2:
        if mask.shape != size:
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {size}.")
        return mask.unsqueeze(0)
    if mask.shape != (heads, *size):
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, *size)}.")
    return mask


def _attend_with_weights(q, k, v, mask, dropout_p, is_causal, batch, num_heads):
    _, length, head = q.shape
    q = q * math.sqrt(1.0 / float(head))
    scores = torch.bmm(q, k.transpose(-2, -1)) if mask is None else torch.baddbmm(mask, q, k.transpose(-2, -1))
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    output = torch.bmm(weights, v).transpose(0, 1).contiguous().view(length * batch, num_heads * head)
    return output, weights.view(batch, num_heads, length, k.size(1))


def _attend(q, k, v, mask, dropout_p, is_causal, batch, num_heads):
    _, length, head = q.shape
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view(batch, num_heads, -1, k.size(1))
    q, k, v = (tensor.view(batch, num_heads, -1, head) for tensor in (q, k, v))
    output = _nn.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    return output.permute(2, 0, 1, 3).contiguous().view(batch * length, num_heads * head), None
