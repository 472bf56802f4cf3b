"""Makes tools/ importable and offers `generate`: .op text in, C text out."""
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def world():
    """Text of one file, or several as a dict of name -> text, read."""
    from opgen.__main__ import generate
    from opgen.grammar import parse
    from opgen.model import File, World

    def make(text):
        texts = text if isinstance(text, dict) else {"x.op": text}
        made = World([File(name, parse(t, name)) for name, t in texts.items()])
        made.hooks, made.kernels, made.unrunnable, made.named = set(), {}, [], {}
        return made
    return make


@pytest.fixture
def generate(world):
    """The C of one .op text."""
    from opgen.__main__ import generate as run
    from opgen.emit_elements import read_prims

    def make(text):
        made = run(world(text), read_prims(os.path.join(ROOT, "src", "tile", "prims.def")))
        return "\n".join(t for name, t in sorted(made.items()) if name.startswith("ops_") and name != "ops_table.c")
    return make
