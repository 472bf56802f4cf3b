"""Fake tensors: literals and what becomes of them, real tensors among them, devices that are not there, sizes changed in place."""
import numpy
import torch
from said import attempt, case, say
from torch._dynamo.decorators import mark_unbacked
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def described(x):
    return f"{tuple(x.shape)} {x.stride()} {x.dtype} {x.device} {isinstance(x, FakeTensor)}"


@case
def literals():
    with FakeTensorMode():
        say(" ", torch.tensor(3).item(), (torch.tensor(3) + 1).item(), f"{torch.tensor(3)}")
        x = torch.tensor(3.0)
        x += 2
        say(" ", x.item())
        x.add_(torch.rand(()))
        attempt(x.item)
        for make in (torch.from_numpy, torch.as_tensor, torch.tensor):
            say(" ", described(make(numpy.ones(3))))


@case
def optimizers():
    with FakeTensorMode():
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(layer.parameters())
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.step()
        say(" ", described(layer.weight))


@case
def real_ones():
    f = FakeTensorMode().from_tensor(torch.ones(3))
    for call in (lambda: f + torch.ones(3), lambda: torch.cat([f, torch.ones(3)]), lambda: f.add(torch.ones(3).long(), alpha=2)):
        attempt(call)


@case
def changed_sizes():
    with FakeTensorMode():
        x = torch.ones(3)
        x.resize_(2, 4)
        y = torch.ones(2)
        y.set_(torch.ones(5))
        say(" ", described(x), x.untyped_storage().nbytes(), described(y))


@case
def gradients():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    say(" ", described(FakeTensorMode().from_tensor(x).grad))


@case
def modes():
    m, n = FakeTensorMode(), FakeTensorMode()
    x = m.from_tensor(torch.ones(2))
    say(" ", detect_fake_mode([x]) is m, detect_fake_mode([torch.ones(2)]), detect_fake_mode(), m.is_our_fake(x), n.is_our_fake(x))
    with m:
        say(" ", detect_fake_mode() is m)
    say(" ", FakeTensor(m, torch.empty(2, device="meta"), torch.device("cuda")))
    attempt(FakeTensor, m, torch.empty(2), torch.device("cuda"))
    say(" ", described(m.fake_tensor_converter.from_real_tensor(m, torch.ones(2))))


@case
def data():
    with FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=False)):
        attempt(torch.ones(3).sum().item)
    with FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=False)):
        attempt(torch.ones(3).nonzero)


@case
def strides():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    for real in (torch.ones(6, 7)[::2, 1:], torch.ones(1, 3).expand(4, 3), torch.ones(3, 4, 5).permute(2, 0, 1)):
        fake = mode.from_tensor(real)
        say(" ", [s.node.hint if isinstance(s, torch.SymInt) else s for s in fake.stride()], fake.is_contiguous())


@case
def marks():
    x, y = torch.ones(3, 4), torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(x, [1])
    torch._dynamo.maybe_mark_dynamic(y, 0)
    torch._dynamo.mark_static(y)
    mark_unbacked(y, 1)
    say(" ", x._dynamo_dynamic_indices, y._dynamo_weak_dynamic_indices, y._dynamo_static_indices, y._dynamo_unbacked_indices)
    attempt(torch._dynamo.mark_dynamic, x, "a")
