"""Transformers: encoder and decoder layers, stacks of them, and both together."""
import copy
import warnings

from .. import functional as F
from .. import init
from .._functional.attention import as_scores
from ..._root import torch
from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"]


def _causal_mask(size, device=None, dtype=None):
    """-inf above the diagonal, 0 elsewhere."""
    return torch.triu(torch.full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _is_causal(mask, is_causal, size):
    """What the caller says, or whether the mask is the causal one."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    if mask.dim() != 2 or size is not None and mask.shape != (size, size):
        return False
    return bool((mask == _causal_mask(mask.size(0), mask.device, mask.dtype)).all())


def _length(source, batch_first):
    return source.size(0 if source.dim() == 2 or not batch_first else 1)


def _activation(given):
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return F.relu if given == "relu" else F.gelu


def _copies(module, count):
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoderLayer(Module):
    """Attention of a sequence over itself, then two linear layers; a sum and a normalisation around each."""

    __constants__ = ["norm_first"]

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
        batch_first=False, norm_first=False, bias=True, device=None, dtype=None
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        activation = _activation(activation)
        # 1 and 2 tell the two activations apart that fused layers know.
        is_relu = activation is F.relu or isinstance(activation, torch.nn.ReLU)
        is_gelu = activation is F.gelu or isinstance(activation, torch.nn.GELU)
        self.activation_relu_or_gelu = 1 if is_relu else 2 if is_gelu else 0
        self.activation = activation

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        src_key_padding_mask = as_scores(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype)
        src_mask = as_scores(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        if self.norm_first:
            src = src + self._sa_block(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + self._sa_block(src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(src + self._ff_block(src))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal)[0]
        return self.dropout1(x)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Attention over itself, attention over the memory of an encoder, two linear layers."""

    __constants__ = ["norm_first"]

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
        batch_first=False, norm_first=False, bias=True, device=None, dtype=None
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **where}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def __setstate__(self, state):
        if "activation" not in state:
            state["activation"] = F.relu
        super().__setstate__(state)

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=False, memory_is_causal=False
    ):
        itself = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            tgt = tgt + self._sa_block(self.norm1(tgt), *itself)
            tgt = tgt + self._mha_block(self.norm2(tgt), *other)
            return tgt + self._ff_block(self.norm3(tgt))
        tgt = self.norm1(tgt + self._sa_block(tgt, *itself))
        tgt = self.norm2(tgt + self._mha_block(tgt, *other))
        return self.norm3(tgt + self._ff_block(tgt))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False)[0])

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout2(self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
            need_weights=False)[0])

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other."""

    __constants__ = ["norm"]

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        why_not = self._why_not_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not why_not
        self.mask_check = mask_check
        if enable_nested_tensor and why_not:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}", stacklevel=2)

    @staticmethod
    def _why_not_nested(layer):
        """Why padding may not be skipped; "" when it may."""
        if not isinstance(layer, TransformerEncoderLayer):
            return "encoder_layer was not TransformerEncoderLayer"
        attention = layer.self_attn
        reasons = (
            (layer.norm_first, "encoder_layer.norm_first was True"),
            (not attention.batch_first, "encoder_layer.self_attn.batch_first was not True"
                                        "(use batch_first for better inference performance)"),
            (attention.in_proj_bias is None, "encoder_layer.self_attn was passed bias=False"),
            (not attention._qkv_same_embed_dim, "encoder_layer.self_attn._qkv_same_embed_dim was not True"),
            (not layer.activation_relu_or_gelu, "encoder_layer.activation_relu_or_gelu was not True"),
            (layer.norm1.eps != layer.norm2.eps, "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"),
            (attention.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
        )
        return next((text for holds, text in reasons if holds), "")

    def _skips_padding(self, src, mask, padding):
        """Inference on padded batches gives zeros where the padding is, as long as it stands at the end."""
        if not self.use_nested_tensor or self.training or padding is None or mask is not None or src.dim() != 3:
            return False
        if torch.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters())):
            return False
        hidden = padding != 0
        return not self.mask_check or bool((hidden[:, 1:] | ~hidden[:, :-1]).all())

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        skips = self._skips_padding(src, mask, src_key_padding_mask)
        padding = as_scores(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype)
        mask = as_scores(mask, "mask", None, "", src.dtype, check_other=False)
        batch_first = getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False)
        is_causal = _is_causal(mask, is_causal, _length(src, batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if skips:
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=None, memory_is_causal=False
    ):
        batch_first = getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False)
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, batch_first))
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives."""

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
        activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        for name, given, stack, layer, count in (
            ("encoder", custom_encoder, TransformerEncoder, TransformerEncoderLayer, num_encoder_layers),
            ("decoder", custom_decoder, TransformerDecoder, TransformerDecoderLayer, num_decoder_layers),
        ):
            if given is None:
                one = layer(*options, **where)
                given = stack(one, count, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
            setattr(self, name, given)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
        tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
        memory_is_causal=False
    ):
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        return _causal_mask(sz, device, dtype)

    def _reset_parameters(self):
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)
