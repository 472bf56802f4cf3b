"""torch.compile and objects that the captured code did not make: a sweep over kinds of objects, what is done with them, and the ways
in which code comes to them. Three calls, the object changed between them, leave the same results, exceptions and object as the
plain program does, or the capture is refused before it had any effect.

A seeded share is run; TAPER_SWEEP=1 runs them all."""
import itertools
import os
import random
import warnings

import pytest
import taper._dynamo as dynamo
from outside import kinds, stale, ways

SHARE = 1.0 if os.environ.get("TAPER_SWEEP") == "1" else 0.25
MODES = list(itertools.product(ways.ENDS, (False, True)))


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


def cases(kind):
    """Each program in one way and one mode at least, so that each kind meets all of them."""
    dice = random.Random(kind.name)
    for i, body in enumerate(ways.bodies(kind)):
        for j, (way, mode) in enumerate(itertools.product(ways.WAYS, MODES)):
            if j % len(ways.WAYS) == (i + j // len(ways.WAYS)) % len(ways.WAYS) and dice.random() < SHARE:
                yield way, body, *mode


@pytest.mark.parametrize("kind", kinds.kinds, ids=lambda kind: kind.name)
def test_three_calls(kind):
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way, body, end, fullgraph in cases(kind):
            found = ways.compare(kind, way, body, end, fullgraph)
            if found:
                different.append(f"{way}, {end}{', fullgraph' if fullgraph else ''}: {body!r}: {found}")
    assert not different, "\n".join(different)


def test_there_are_kinds_enough():
    assert len(kinds.kinds) >= 60 and len({kind.name for kind in kinds.kinds}) == len(kinds.kinds)
    assert sum(len(list(ways.bodies(kind))) for kind in kinds.kinds) > 1500


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("case", stale.cases, ids=lambda case: case.name)
def test_what_is_exchanged_between_calls_is_seen(case, fullgraph):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert stale.run(case, fullgraph, compiled=True) == stale.run(case, fullgraph, compiled=False)


def test_one_tensor_for_two_that_are_written_under_every_backend():
    for backend in ("eager", "aot_eager", "inductor"):
        for case in stale.cases:
            if case.name.startswith("one tensor"):
                assert stale.run(case, True, True, backend) == stale.run(case, True, False)
