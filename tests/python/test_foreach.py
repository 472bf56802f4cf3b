"""Ops over lists of tensors: each member as the single op would have it, and PyTorch's words for lists that do not fit."""
import weakref

import pytest
import taper as torch


def lists():
    torch.manual_seed(0)
    return [torch.rand(2, 3) / 2 + 0.25, torch.rand(4) / 2 + 0.25], [torch.rand(2, 3), torch.rand(4)]


UNARY = [name[9:] for name in dir(torch) if name.startswith("_foreach_") and not name.endswith("_") and hasattr(torch, name[9:])
         and name[9:] not in ("add", "sub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp", "clamp_min", "clamp_max", "maximum", "minimum",
                              "norm", "mm", "max", "copy")]


@pytest.mark.parametrize("name", UNARY)
def test_of_one(name):
    a, _ = lists()
    wanted = [getattr(torch, name)(x) for x in a]
    assert all(torch.equal(x, y) for x, y in zip(getattr(torch, f"_foreach_{name}")(a), wanted))
    if hasattr(torch, f"_foreach_{name}_"):
        assert getattr(torch, f"_foreach_{name}_")(a) is a
        assert all(torch.equal(x, y) for x, y in zip(a, wanted))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"])
@pytest.mark.parametrize("other", ["list", "number", "numbers"])
def test_of_two(name, other):
    a, b = lists()
    given = {"list": b, "number": 2.0, "numbers": [2.0, 0.5]}[other]
    single = {"maximum": "maximum", "clamp_min": "maximum", "minimum": "minimum", "clamp_max": "minimum"}.get(name, name)
    others = given if other != "number" else [given, given]
    wanted = [getattr(torch, single)(x, torch.as_tensor(y)) for x, y in zip(a, others)]
    made = getattr(torch, f"_foreach_{name}")(a, given)
    assert all(torch.equal(x, y) for x, y in zip(made, wanted))
    getattr(torch, f"_foreach_{name}_")(a, given)
    assert all(torch.equal(x, y) for x, y in zip(a, wanted))


def test_of_three_and_out():
    a, b = lists()
    wanted = [torch.addcdiv(x, y, x, value=v) for x, y, v in zip(a, b, (0.5, 2.0))]
    for given in ([0.5, 2.0], torch.tensor([0.5, 2.0])):
        assert all(torch.equal(x, y) for x, y in zip(torch._foreach_addcdiv(a, b, a, given), wanted))
    out = [torch.zeros(2, 3), torch.zeros(4)]
    torch.ops.aten._foreach_addcdiv.ScalarList_out(a, b, a, [0.5, 2.0], out=out)
    assert all(torch.equal(x, y) for x, y in zip(out, wanted))


def test_gradients_pass():
    a = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    sum(t.sum() for t in torch._foreach_mul(a, [2.0, 3.0])).backward()
    assert a[0].grad.tolist() == [2, 2] and a[1].grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize("call, words", [
    (lambda a: torch._foreach_add([], 1), "Tensor list must have at least one tensor."),
    (lambda a: torch._foreach_add(a, a[:1]), "Tensor lists must have the same number of tensors, got 2 and 1"),
    (lambda a: torch._foreach_mul(a, [1.0]), "Tensor list must have same number of elements as scalar list."),
    (lambda a: torch._foreach_add(a, torch.ones(2)), "scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements."),
])
def test_mistakes(call, words):
    with pytest.raises(RuntimeError) as error:
        call(lists()[0])
    assert str(error.value) == words


def test_what_in_place_forms_give():
    a, _ = lists()
    assert torch._foreach_add_(self=a, scalar=1.0) is a and torch.ops.aten._foreach_add_(a, 1.0) is None
    pair = tuple(a)
    assert torch._foreach_zero_(pair) is pair and not any(x.any() for x in a)


ADAM = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)


def adam_state():
    return [torch.ones(2)], [torch.full((2,), 0.5)], [torch.zeros(2)], [torch.zeros(2)], [], [torch.tensor(1.0)]


def test_fused_steps_on_copies():
    stepped = adam_state()
    assert torch._fused_adam_(*stepped, **ADAM) is None
    state, out = adam_state(), [torch.empty(5)]
    made = torch.ops.aten._fused_adam(*state, **ADAM)
    torch.ops.aten._fused_adam.out(*state, **ADAM, out=out)
    assert len(made) == 5 and torch.equal(out[0], stepped[0][0]) and made[4] == []
    for given, copies, fresh, written in zip(state[:4], made, adam_state(), stepped):
        assert torch.equal(given[0], fresh[0]) and torch.equal(copies[0], written[0])
    sums = torch.ops.aten._fused_adagrad.tensor_lr([torch.ones(2)], [torch.ones(2)], [torch.zeros(2)], [torch.tensor(1.0)],
                                                   lr=torch.tensor(0.1), lr_decay=0.0, weight_decay=0.0, eps=1e-8, maximize=False)
    assert len(sums) == 3 and torch.allclose(sums[0][0], torch.full((2,), 0.9))


def test_fused_steps_are_functionalised():
    def step(p, g, m, v, n):
        torch._fused_adam_([p], [g], [m], [v], [], [n], **ADAM)
        return p + m

    flat = [x[0] for x in adam_state() if x]
    stepped = adam_state()
    torch._fused_adam_(*stepped, **ADAM)
    assert torch.equal(torch.func.functionalize(step)(*flat), stepped[0][0] + stepped[2][0])
    assert torch.equal(flat[0], stepped[0][0])


def test_a_fused_step_lets_its_lists_go():
    state = adam_state()
    last = weakref.ref(state[0][0])
    torch._fused_adam_(*state, **ADAM)
    del state
    assert last() is None
