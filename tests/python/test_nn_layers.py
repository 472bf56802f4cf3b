"""Layers with state and attention, held against themselves: packed against padded, blocked against products, hooks against parametrizations."""
import pytest

import taper as torch
import taper.nn.functional as F
from taper import nn
from taper.nn.attention import SDPBackend, sdpa_kernel
from taper.nn.utils import parametrizations, parametrize
from taper.nn.utils import rnn as sequences


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_packed_sequence_gives_what_each_sequence_gives(kind, bidirectional):
    torch.manual_seed(0)
    net = kind(3, 4, num_layers=2, bidirectional=bidirectional).double()
    lengths = [2, 5, 3]
    padded = torch.randn(5, 3, 3, dtype=torch.float64)
    packed = sequences.pack_padded_sequence(padded, lengths, enforce_sorted=False)
    output, state = net(packed)
    output, _ = sequences.pad_packed_sequence(output)
    for i, length in enumerate(lengths):
        alone, alone_state = net(padded[:length, i:i + 1])
        assert torch.allclose(output[:length, i:i + 1], alone)
        for ours, theirs in zip(state if kind is nn.LSTM else [state], alone_state if kind is nn.LSTM else [alone_state]):
            assert torch.allclose(ours[:, i:i + 1], theirs)


@pytest.mark.parametrize("cell, layer", [(nn.RNNCell, nn.RNN), (nn.GRUCell, nn.GRU), (nn.LSTMCell, nn.LSTM)])
def test_a_layer_is_its_cell_step_by_step(cell, layer):
    torch.manual_seed(0)
    one, net = cell(3, 4), layer(3, 4)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(net, name + "_l0").data.copy_(getattr(one, name).data)
    x = torch.randn(5, 2, 3)
    state = None
    for step in x:
        state = one(step, state)
    last = net(x)[0][-1]
    assert torch.allclose(state[0] if cell is nn.LSTMCell else state, last, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": "bool"}, {"attn_mask": "float"}])
def test_blocks_give_what_products_give(options):
    torch.manual_seed(0)
    masks = {"bool": torch.rand(150, 600) > 0.5, "float": torch.randn(2, 1, 150, 600, dtype=torch.float64)}
    options = {name: masks.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    shapes = ((2, 4, 150, 8), (2, 4, 600, 8), (2, 4, 600, 8))
    tensors = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    weight = torch.randn(*shapes[0], dtype=torch.float64)
    found = []
    for way in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(way):
            result = F.scaled_dot_product_attention(*tensors, **options)
        found.append([result, *torch.autograd.grad((result * weight).sum(), tensors)])
    assert found[0][0].grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    for blocked, products in zip(*found):
        assert torch.allclose(blocked, products, atol=1e-10)


def test_heads_share_keys():
    torch.manual_seed(0)
    q = torch.randn(2, 6, 5, 4, requires_grad=True)
    k, v = (torch.randn(2, 3, 7, 4, requires_grad=True) for _ in range(2))
    shared = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    apart = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    assert torch.allclose(shared, apart, atol=1e-6)
    for a, b in zip(torch.autograd.grad(shared.sum(), (q, k, v)), torch.autograd.grad(apart.sum(), (q, k, v))):
        assert torch.allclose(a, b, atol=1e-5)


def test_a_query_that_sees_nothing_gets_zeros():
    q = torch.randn(1, 2, 3, 4)
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    result = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert bool((result[:, :, 1] == 0).all()) and not bool(torch.isnan(result).any())


def test_a_padded_batch_leaves_the_encoder_with_zeros():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 4, 8), torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]]).bool()
    with torch.no_grad():
        result = encoder(x, src_key_padding_mask=padding)
    assert bool((result[padding] == 0).all())
    assert torch.allclose(result[0, :2], encoder(x[:1, :2])[0], atol=1e-6)


def test_a_parametrized_weight_learns_through_its_original():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.t()) and type(layer).__name__ == "ParametrizedLinear"
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    with parametrize.cached():
        assert layer.weight is layer.weight
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)


@pytest.mark.filterwarnings("ignore")
def test_norms_by_hooks_and_by_parametrizations():
    for hooked, parametrized in ((nn.utils.weight_norm, parametrizations.weight_norm), (nn.utils.spectral_norm, parametrizations.spectral_norm)):
        torch.manual_seed(0)
        plain = nn.Linear(4, 3)
        a, b = nn.Linear(4, 3), nn.Linear(4, 3)
        for layer in (a, b):
            layer.load_state_dict(plain.state_dict())
        hooked(a)
        parametrized(b)
        for _ in range(60):
            a(torch.ones(1, 4)), b(torch.ones(1, 4))
        assert torch.allclose(a.weight, b.weight, atol=1e-4)


def test_rare_classes_add_up_to_one():
    torch.manual_seed(0)
    loss = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x, target = torch.randn(6, 8), torch.tensor([0, 3, 5, 9, 12, 19])
    everything = loss.log_prob(x)
    assert torch.allclose(everything.exp().sum(1), torch.ones(6), atol=1e-5)
    assert torch.allclose(loss(x, target).output, everything.gather(1, target.unsqueeze(1)).squeeze(1), atol=1e-5)
