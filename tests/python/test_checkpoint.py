"""utils.checkpoint: parts of a model that are run again. Texts and counts were observed on PyTorch 2.13."""
import gc
import weakref

import pytest
import taper as torch
from taper.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop


def gradients(run, *leaves):
    for leaf in leaves:
        leaf.grad = None
    assert run().sum().backward() is None
    return [leaf.grad.clone() for leaf in leaves]


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_are_those_of_the_plain_call(reentrant):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4, requires_grad=True)
    leaves = [x, *net.parameters()]
    torch.manual_seed(1)
    plain = gradients(lambda: net(x), *leaves)
    after = torch.rand(1)
    torch.manual_seed(1)
    again = gradients(lambda: checkpoint(net, x, use_reentrant=reentrant), *leaves)
    assert all(torch.equal(a, b) for a, b in zip(plain, again)) and torch.equal(torch.rand(1), after)


@pytest.mark.parametrize("reentrant", [False, True])
def test_all_parts_but_the_last_run_twice(reentrant):
    calls = []

    def layer(x):
        calls.append(x.requires_grad)
        return x.exp().sin()

    x = torch.rand(3, requires_grad=True)
    gradients(lambda: checkpoint_sequential([layer] * 4, 2, x, use_reentrant=reentrant), x)
    assert len(calls) == 6


def test_running_again_ends_when_nothing_is_missing():
    done = []

    def f(x):
        y = x.exp()
        done.append("exp")
        y = y.sin()
        done.append("sin")
        return y

    x = torch.rand(3, requires_grad=True)
    gradients(lambda: checkpoint(f, x, use_reentrant=False), x)
    assert done == ["exp", "sin", "exp"]
    del done[:]
    with set_checkpoint_early_stop(False):
        gradients(lambda: checkpoint(f, x, use_reentrant=False), x)
    assert done == ["exp", "sin"] * 2


def test_nothing_but_the_arguments_is_kept():
    held = []

    def f(x):
        y = x.exp()
        held.append(weakref.ref(y))
        return y.sin().cos()

    x = torch.rand(3, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False)
    gc.collect()
    assert held[0]() is None
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * torch.autograd.grad(f(x).sum(), x)[0])


def test_parts_in_parts_and_gradients_of_gradients():
    def inner(x):
        return (x * x).exp()

    def outer(x):
        return checkpoint(inner, x, use_reentrant=False).sin() * x

    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    first, = torch.autograd.grad(checkpoint(outer, x, use_reentrant=False).sum(), x, create_graph=True)
    plain, = torch.autograd.grad((inner(x).sin() * x).sum(), x, create_graph=True)
    assert torch.equal(first, plain)
    assert torch.allclose(*(torch.autograd.grad(g.sum(), x)[0] for g in (first, plain)))


def test_a_function_that_does_something_else_is_noticed():
    calls = []

    def shorter(x):
        calls.append(x)
        return (x if len(calls) == 1 else x[:1]).exp().cos()

    def fewer(x):
        calls.append(x)
        return x.exp().cos().sin() if len(calls) == 1 else x.exp()

    x = torch.rand(2, 3, requires_grad=True)
    with pytest.raises(CheckpointError, match=r"different metadata than during the forward pass.\ntensor at position 0:\nsaved metadata: {'shape'"):
        checkpoint(shorter, x, use_reentrant=False).sum().backward()
    del calls[:]
    with pytest.raises(CheckpointError, match="Number of tensors saved during forward: 3\nNumber of tensors saved during recomputation: 1."):
        checkpoint(fewer, x, use_reentrant=False).sum().backward()


def test_refusals():
    net, x = torch.nn.Linear(3, 3), torch.rand(2, 3, requires_grad=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(net, x, use_reentrant=True, foo=1)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(net, x)
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        torch.autograd.grad(checkpoint(net, x, use_reentrant=True).sum(), x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(net, x.detach(), use_reentrant=True)
