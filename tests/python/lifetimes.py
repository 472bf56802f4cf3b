"""What the tests of lifetimes share: running a program over and over must leave as many objects and allocations as before."""
import gc
import signal

import pytest
import taper as torch
import taper._dynamo as dynamo

x = torch.arange(12.0).view(3, 4)
ROUNDS = 6
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's background jobs ignore it, and programs here end by it


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()
    assert torch.is_grad_enabled() and type(x + 1) is torch.Tensor and (x + 1).sum().item() == 78


def counts():
    gc.collect()
    return len(gc.get_objects()), torch._C._live_allocations()


def assert_no_growth(run):
    """The first rounds fill caches; the later ones leave everything as it was."""
    for _ in range(3):
        run()
    before = counts()
    for _ in range(ROUNDS):
        run()
    objects, allocations = counts()
    assert allocations <= before[1], "allocations"
    assert objects - before[0] < ROUNDS, "objects"


def compiled(function, backend="eager", fullgraph=True):
    return torch.compile(function, backend=backend, fullgraph=fullgraph)


def fail(a):
    b = a + 1
    raise ValueError("wanted", b.dim())


def kind_of_error(run):
    try:
        run()
    except Exception as error:
        return type(error), str(error)
    return None
