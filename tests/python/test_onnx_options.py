"""Options of onnx.export: those that change a result are followed or refused, those that change only what is printed warn once."""
import io
import warnings

import pytest

import taper as torch
from taper import nn


def export(**options):
    return torch.onnx.export(nn.Linear(2, 2), (torch.ones(1, 2),), io.BytesIO(), **options)


@pytest.fixture
def anew(monkeypatch):
    monkeypatch.setattr("taper._options._told", set())


@pytest.mark.parametrize("option, ignored, followed", [("verbose", True, (None, False)), ("do_constant_folding", False, (True,))])
def test_what_is_not_followed_warns_once(anew, option, ignored, followed):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for value in followed:
            export(**{option: value})
        assert not seen
        export(**{option: ignored})
        export(**{option: ignored})
    assert len(seen) == 1 and f"{option}={ignored} is accepted, but" in str(seen[0].message) and seen[0].filename == __file__


def test_op_level_debug_warns_once(anew):
    options = torch.onnx.ExportOptions(op_level_debug=True)
    with pytest.warns(UserWarning, match="op_level_debug=True is accepted"):
        torch.onnx.dynamo_export(nn.Linear(2, 2), torch.ones(1, 2), export_options=options)


@pytest.mark.parametrize("options", [{"dynamo": False}, {"opset_version": 11}, {"export_params": False}, {"dynamic_axes": {"x": [0]}}, {"training": 1}, {"nonsense": 1}], ids=str)
def test_what_would_change_the_model_is_refused(options):
    with pytest.raises(NotImplementedError, match=next(iter(options))):
        export(**options)
