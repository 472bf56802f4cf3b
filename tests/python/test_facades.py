"""Modules without files: they behave as files of imports would."""
import importlib
import pickle

import pytest

import taper as torch
from taper import _facades

ROWS = sorted({*_facades.FACADES, *_facades._family_of})


@pytest.mark.parametrize("place", ROWS)
def test_a_row_is_a_module(place):
    module = importlib.import_module("taper." + place)
    assert module.__name__ == module.__spec__.name == "taper." + place
    assert module.__doc__ and module.__all__
    assert set(module.__all__) <= set(dir(module))
    taken = {}
    exec(f"from taper.{place} import *", taken)
    assert all(taken[name] is getattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match=f"^module 'taper.{place}' has no attribute 'nothing': Taper does not have it yet$"):
        module.nothing
    with pytest.raises(ImportError):
        exec(f"from taper.{place} import nothing")


@pytest.mark.parametrize("home", sorted(_facades.FAMILIES))
def test_members_of_a_family_bear_the_names_of_their_modules(home):
    importlib.import_module("taper." + home)
    for place, names in _facades._members(home):
        for name in names:
            value = getattr(importlib.import_module("taper." + place), name)
            if isinstance(value, type):
                assert (value.__module__, pickle.loads(pickle.dumps(value))) == ("taper." + place, value)


def test_a_function_hides_the_module_of_its_name():
    importlib.import_module("taper._higher_order_ops.cond")
    assert callable(torch._higher_order_ops.cond) and torch.signal.windows.hann(3).shape == (3,)


def test_no_module_beside_a_row():
    with pytest.raises(ModuleNotFoundError, match="No module named 'taper.func.nothing'"):
        importlib.import_module("taper.func.nothing")
