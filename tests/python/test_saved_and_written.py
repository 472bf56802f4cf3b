"""What backward notices of later writes, what in-place forms keep, and what `.data` shares: as PyTorch 2.13 was seen to do it."""
import pytest
import taper as torch
import taper.nn.functional as F
from taper.fx.experimental.proxy_tensor import make_fx


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
@pytest.mark.parametrize("other, number", [(0.5, 0), (torch.tensor([1.0, 2.0]), 1)])
def test_comparisons_in_place_have_a_gradient_of_zeros(name, other, number):
    x = leaf(1.0, -1.0)
    y = getattr(x.clone(), name)(other)
    assert y.grad_fn.name() == f"{name[:2].capitalize()}Backward{number}"
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0]
    assert not (x == 1).requires_grad


@pytest.mark.parametrize("write, node", [(F.elu, "EluBackward1"), (F.celu, "CeluBackward1"), (F.leaky_relu, "LeakyReluBackward1"),
                                         (F.selu, "EluBackward1"), (lambda x, inplace=False: F.rrelu(x, 0.2, 0.2, inplace=inplace), "RreluWithNoiseBackward1")])
def test_activations_in_place_read_their_result(write, node):
    x = leaf(-1.0, 2.0)
    wanted = torch.autograd.grad(write(x).sum(), x)[0]
    y = write(x.clone(), inplace=True)
    assert y.grad_fn.name() == node
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], wanted)
    y.detach().fill_(1)
    with pytest.raises(RuntimeError, match=f"output 0 of {node.replace('Backward', '')}, is at version 2; expected version 1"):
        torch.autograd.grad(y.sum(), x)


@pytest.mark.parametrize("write, word", [(F.elu, "elu"), (F.celu, "elu"), (F.leaky_relu, "leakyReLu")])
def test_a_negative_slope_cannot_be_undone(write, word):
    y = write(leaf(-1.0).clone(), -0.5, inplace=True)
    with pytest.raises(RuntimeError, match=f"In-place {word} backward calculation is triggered with a negative slope"):
        y.sum().backward()


def test_indices_written_before_backward_are_noticed():
    x, at = leaf(1.0, 2.0), torch.tensor([0, 1])
    y = x[at]
    at.zero_()
    with pytest.raises(RuntimeError, match=r"\[torch.LongTensor \[2\]\] is at version 1; expected version 0"):
        y.sum().backward()
    stacked = torch.stack([(v := x * 1), v * 2])
    v.zero_()
    assert torch.autograd.grad(stacked.sum(), x)[0].tolist() == [3, 3]


@pytest.mark.parametrize("dtype, word", [(torch.bool, "CPUBoolType"), (torch.bfloat16, "CPUBFloat16Type"), (torch.float16, "torch.HalfTensor")])
def test_types_in_the_words(dtype, word):
    mask = torch.ones(2).to(dtype)
    x = leaf(1.0, 2.0)
    y = x.masked_fill(mask, 2) if dtype == torch.bool else x * mask
    mask.zero_()
    with pytest.raises(RuntimeError, match=rf"\[{word} \[2\]\] is at version 1"):
        y.sum().backward()


def test_pieces_that_are_no_views_count_their_own_writes():
    whole = torch.ones(4, 2)
    piece = torch.unsafe_split(whole, 2)[0]
    piece.add_(torch.ones(2, 2, requires_grad=True))
    assert not piece._is_view() and whole._version == 0 and piece.grad_fn.name() == "AddBackward0"


def test_backward_gives_nothing():
    assert leaf(1.0).sum().backward() is None


def test_gru_whose_state_has_no_gradient():
    x = torch.ones(2, 3, 4, requires_grad=True)
    out, _ = torch.gru(x, torch.zeros(1, 3, 2), (torch.ones(6, 4) * 0.1, torch.ones(6, 2) * 0.2), False, 1, 0.0, False, False, False)
    out.sum().backward()
    assert x.grad.shape == x.shape


def test_data_keeps_history():
    x = leaf(1.0, 2.0)
    v = x * 3
    v.data = x
    assert (v.grad_fn.name(), v.tolist()) == ("MulBackward0", [1, 2])
    assert torch.autograd.grad(v.sum(), x)[0].tolist() == [3, 3]
    w = torch.ones(2)
    w.data.mul_(2)
    w.data.add_(torch.ones(2))
    assert w._version == 0 and w.tolist() == [3, 3]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_data_is_recorded_as_detach(mode):
    traced = make_fx(lambda x: x.clone().data.mul_(2), tracing_mode=mode)(torch.ones(3))
    assert [n.name for n in traced.graph.nodes] == ["x_1", "clone", "detach", "mul_", "output"]
    assert traced(torch.full((3,), 4.0)).tolist() == [8, 8, 8]


def test_what_cannot_be_differentiated_is_said_first():
    x = leaf(1.0)
    wrong, late = x.floor_divide(1.3), (x * 2).exp()
    late.add_(1)
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        (wrong + late).sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::scatter_ is not implemented"):
        x.clone().scatter_(0, torch.tensor([0]), 2.0, reduce="add").sum().backward()


def test_an_index_may_be_a_tensor_of_one_element():
    x = torch.arange(6).reshape(2, 3)
    for at in (torch.tensor([1]), torch.tensor([[1]], dtype=torch.int32), torch.tensor(1)):
        assert x.select(0, at).tolist() == [3, 4, 5]
    for at in (torch.tensor([0, 1]), torch.tensor([1.0])):
        with pytest.raises(TypeError, match="argument 'index' .* must be int, not Tensor"):
            x.select(0, at)


def test_losses_of_odd_operands():
    assert F.binary_cross_entropy_with_logits(torch.ones(3, dtype=torch.float64), torch.ones(3)).dtype == torch.float32
    assert F.mse_loss(torch.ones(1), torch.zeros(2, 3), weight=torch.ones(1)).item() == 6
    none = torch.zeros(0, 4, dtype=torch.int64)
    assert F.nll_loss(torch.zeros(0, 3, 4), none, reduction="none").shape == (0, 4)
    assert F.cross_entropy(torch.zeros(0, 3, 4), none).isnan()
    torch.testing.assert_close(F.cross_entropy(torch.ones(3), torch.tensor(1)), torch.tensor(3.0).log())


def test_nothing_is_read_where_there_is_nothing():
    for write in (lambda x, i, s: x.scatter_(0, i, s), lambda x, i, s: x.scatter_add_(0, i, s), lambda x, i, s: x.scatter_reduce_(0, i, s, "mean")):
        with pytest.raises(RuntimeError, match=r"Expected index \[\] to be no larger than self \[\] apart from dimension 0"):
            write(torch.ones(()), torch.tensor(0), torch.zeros(0))
    for x, w, words in (((2, 1, 5, 0), (2, 1, 5, 0), r"Only zero batch or zero channel inputs are supported, but got input shape: \[2, 1, 5, 0\]"),
                        ((1, 5, 0), (2, 1, 1, 1), r"but got input shape: \[1, 1, 5, 0\]"), ((2, 1, 5, 5), (2, 1, 0, 3), "could not create a primitive"),
                        ((2, 1, 5, 5), (0, 1, 3, 3), r"expected weight to be at least 1 at dimension 0, but got weight of size \[0, 1, 3, 3\]")):
        with pytest.raises(RuntimeError, match=words):
            F.conv2d(torch.ones(x), torch.ones(w), padding=0 if w[2] != 1 else 1)


def test_layouts():
    turned, square = torch.rand(4, 3).t(), torch.rand(3, 3)
    assert torch.renorm(turned, 2, -1, 1.0).stride() == (4, 1)
    assert F.rms_norm(turned, [4]).stride() == (4, 1)
    assert F.binary_cross_entropy(turned, torch.rand(3, 4), reduction="none").stride() == (1, 3)
    assert F.glu(torch.rand(4, 6).t(), 0).stride() == (1, 3)
    assert square.t().index_reduce(0, torch.arange(3), square, "amax").stride() == (3, 1)


@pytest.mark.parametrize("name", ["asinh", "acosh", "atanh"])
def test_inverse_hyperbolic_functions_have_no_gradient_in_place(name):
    y = getattr(leaf(1.5).clone(), f"{name}_")()
    with pytest.raises(NotImplementedError, match=f"the derivative for 'inplace version of {name}' is not implemented."):
        y.sum().backward()


def test_outputs_are_numbered_among_the_differentiable_ones():
    P, L, U = torch.linalg.lu(torch.eye(2).requires_grad_())
    assert [t.output_nr for t in (P, L, U)] == [0, 0, 1]
    assert (U * 2).grad_fn.next_functions[0][1] == 1
    U.detach().fill_(1)
    with pytest.raises(RuntimeError, match="which is output 1 of LinalgLu, is at version 1"):
        U.sum().backward()


def test_relu6_in_place_is_hardtanh_in_place():
    y = F.relu6(leaf(-1.0, 2.0).clone(), inplace=True)
    assert y.grad_fn.name() == "HardtanhBackward0"


@pytest.mark.parametrize("size, node", [((), "CopyBackwards"), ((2,), "FillBackward3")])
def test_a_number_written_to_an_item_is_copied_where_there_are_no_dims(size, node):
    x = torch.zeros(size, requires_grad=True) * 1
    x[...] = leaf(1.0)[0]
    assert node in x.grad_fn.name()


def test_a_single_element_is_copied_by_an_index():
    x, y = leaf(1.0, 2.0, 3.0), torch.tensor(5.0, requires_grad=True)
    copied = x.index_copy(0, torch.tensor([1]), y)
    assert copied.tolist() == [1, 5, 3]
    assert torch.autograd.grad((copied * torch.tensor([1.0, 2.0, 3.0])).sum(), y)[0] == 2
    with pytest.raises(IndexError, match=r"When source is scalar, index should have one element \(got 2\)"):
        x.index_copy(0, torch.tensor([0, 1]), y)


def test_pooling_no_channels_has_a_gradient():
    x = torch.zeros(0, 3, 4, requires_grad=True)
    F.adaptive_avg_pool2d(x, 2).sum().backward()
    assert x.grad.shape == (0, 3, 4)


def test_one_class_given_as_a_vector_has_no_gradient():
    loss = F.nll_loss(leaf(1.0, 2.0, 3.0), torch.tensor([1]))
    assert loss.item() == -2
    with pytest.raises(RuntimeError, match=r"size mismatch \(got input: \[3\], target: \[1\]\)"):
        loss.backward()


def test_cholesky_solve_keeps_its_right_side():
    b = torch.ones(2, 2, requires_grad=True) * 1
    x = torch.cholesky_solve(b, torch.eye(2))
    b.detach().zero_()
    with pytest.raises(RuntimeError, match="which is output 0 of Mul, is at version 1"):
        x.sum().backward()


def test_who_counts_writes_with_whom():
    x = torch.ones(3)
    data = x.data
    view, same = data[0], data.detach()
    view.add_(1), same.add_(1)
    assert (x._version, data._version, view._version, same._version) == (0, 2, 2, 2)
    z, y = torch.ones(3).mul_(1), torch.ones(3)
    z.data = y
    z.add_(1), z[0].add_(1)
    assert (z._version, y._version) == (3, 0) and y.tolist() == [3, 2, 2]


def test_a_write_to_what_data_was_set_from_is_none_to_it():
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    z = x.clone()
    z.data = y
    loss = (z * x).sum()
    y.mul_(2)
    assert [g.tolist() for g in torch.autograd.grad(loss, x)] == [[3, 3, 3]]
    p = torch.nn.Parameter(torch.ones(3))
    p.data = torch.ones(3)
    loss = (p * p).sum()
    with torch.no_grad():
        p[0].mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        loss.backward()


def test_kron_counts_no_writes_to_its_operands():
    a, b = torch.ones(2, requires_grad=True), torch.ones(3)
    product = torch.kron(a, b)
    b.mul_(2)
    product.sum().backward()
    assert a.grad.tolist() == [6, 6]


def test_ldexp_keeps_the_type_and_every_digit():
    assert torch.ldexp(torch.ones(1, dtype=torch.float16), torch.tensor([3])).dtype == torch.float16
    assert torch.ldexp(torch.tensor([1.5e-30, 0.0, 1.0, 3.0]), torch.tensor([130, 5000, -149, -5000])).tolist() == \
        [torch.tensor(1.5e-30).item() * 2.0 ** 130, 0.0, 2.0 ** -149, 0.0]
    assert torch.ldexp(torch.tensor([1.5], dtype=torch.float64), torch.tensor([1023])).tolist() == [1.5 * 2.0 ** 1023]
    assert torch.ldexp(torch.ones(1, 2), torch.tensor([[1, 2, 3], [0, 1, 2]]).t()).stride() == (1, 3)
    with pytest.raises(NotImplementedError, match="\"ldexp_cpu_exp\" not implemented for 'Bool'"):
        torch.ldexp(torch.ones(1), torch.tensor([True]))


def test_attention_with_a_mask_that_is_a_view_lies_as_the_query():
    q = torch.ones(2, 3, 4, 8).transpose(0, 1)
    mask = torch.ones(2, 3, 4, 4).transpose(0, 1)
    assert torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).stride() == q.stride()


@pytest.mark.parametrize("write, maker", [
    (lambda base, view: view.add_(1), "Exp2"), (lambda base, view: view.t_(), "AsStrided"), (lambda base, view: base.add_(1), "AsStrided"),
    (lambda base, view: (base.add_(1), view.grad_fn), "Exp2"), (lambda base, view: base[1:].mul_(3), "AsStrided"),
    (lambda base, view: view.detach().mul_(3), "AsStrided"),
])
def test_a_result_written_into_a_view_is_named_by_its_history(write, maker):
    base = torch.ones(4, requires_grad=True).clone()
    view = base[:2]
    view.exp2_()
    write(base, view)
    with pytest.raises(RuntimeError, match=f"which is output 0 of {maker}, is at version 2; expected version 1 instead"):
        base.sum().backward()


def test_a_view_that_is_gone_names_nothing():
    base = torch.ones(4, requires_grad=True).clone()
    base[:2].exp2_()
    base.add_(1)
    with pytest.raises(RuntimeError, match="which is output 0 of Exp2, is at version 2; expected version 1 instead"):
        base.sum().backward()
