"""Options of export, of its programs and of decompositions: each acts, or is refused by name; what is left out is said."""
import io
import warnings

import pytest

import taper
from taper import nn
from taper._options import _told
from taper._decomp import core_aten_decompositions, get_decompositions
from taper.export import Dim, export, export_for_training, load, save
from taper.nn import functional as F

aten = taper.ops.aten


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] % 4 == 0 else x - 1


class Silu(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        return F.silu(self.line(x)).sum()


class Writes(nn.Module):
    def forward(self, x):
        return F.hardtanh(x.clone().add_(1))


def targets(program):
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("how", [export, export_for_training])
def test_module_call_signatures_are_refused(how):
    with pytest.raises(NotImplementedError, match="preserve_module_call_signature"):
        how(Silu(), (taper.ones(2, 3),), preserve_module_call_signature=("line",))
    how(Silu(), (taper.ones(2, 3),), preserve_module_call_signature=())


def test_guards_may_be_left_unchecked():
    program = export(Branch(), (taper.ones(8),), dynamic_shapes={"x": {0: Dim.AUTO}})
    with pytest.raises(AssertionError, match=r"Guard failed: \(x.size\(\)\[0\] % 4\) == 0"):
        program.module()(taper.ones(9))
    assert taper.equal(program.module(check_guards=False)(taper.ones(9)), taper.ones(9) + 1)
    assert taper.equal(program.module(check_guards=True)(taper.ones(12)), taper.ones(12) + 1)


def test_lowering_keeps_guards():
    program = export(Branch(), (taper.ones(8),), dynamic_shapes={"x": {0: Dim.AUTO}})
    for lowered in (program.run_decompositions({}), program.run_decompositions()):
        assert lowered._guards_code == program._guards_code
        with pytest.raises(AssertionError, match="Guard failed"):
            lowered.module()(taper.ones(9))


def test_exporting_again_keeps_guards():
    program = export(Branch(), (taper.ones(8),), dynamic_shapes={"x": {0: Dim.AUTO}})
    again = export(program.module(), (taper.ones(16),), dynamic_shapes=({0: Dim.AUTO},))
    with pytest.raises((AssertionError, RuntimeError)):
        again.module()(taper.ones(9))
    assert taper.equal(again.module()(taper.ones(20)), taper.ones(20) + 1)


def test_exporting_again_keeps_declared_sizes():
    program = export(Plain(), (taper.ones(8), taper.ones(8)), dynamic_shapes={"x": {0: Dim("n", min=4, max=16)}, "y": {0: Dim("n", min=4, max=16)}})
    again = export(program.module(), (taper.ones(8), taper.ones(8)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})).module()
    assert taper.equal(again(taper.ones(9), taper.ones(9)), taper.ones(9) * 2)
    for a, b in ((17, 17), (3, 3), (8, 9)):
        with pytest.raises((AssertionError, RuntimeError)):
            again(taper.ones(a), taper.ones(b))


class Plain(nn.Module):
    def forward(self, x, y):
        return x + y


def test_empty_table_opens_composites_only():
    program = export(Silu(), (taper.ones(2, 3),))
    assert targets(program) == ["aten.linear.default", "aten.silu.default", "aten.sum.default"]
    assert targets(program.run_decompositions({})) == ["aten.t.default", "aten.addmm.default", "aten.silu.default", "aten.sum.default"]
    table = {aten.silu.default: lambda x: x * taper.sigmoid(x)}
    assert targets(program.run_decompositions(table))[2:] == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.sum.default"]
    with pytest.raises(TypeError, match="dict"):
        program.run_decompositions(5)


def test_what_is_left_is_said_once():
    program = export(Silu(), (taper.ones(2, 3),))
    _told.clear()
    with pytest.warns(UserWarning, match=r"no decomposition of aten.silu.default yet: run_decompositions leaves it"):
        program.run_decompositions()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.run_decompositions()


def test_missing_decompositions_are_said():
    _told.clear()
    with pytest.warns(UserWarning, match="no decomposition of aten.silu.default.* yet: get_decompositions leaves it out"):
        assert get_decompositions([aten.silu.default, aten.native_layer_norm]).keys() == get_decompositions([aten.native_layer_norm]).keys()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get_decompositions([aten.silu.default]) == {}
    assert core_aten_decompositions()
    with pytest.raises(ValueError, match="expected an OpOverload"):
        get_decompositions(["silu"])


def test_table_on_a_program_that_writes_is_said():
    program = export_for_training(Writes(), (taper.ones(3),))
    with pytest.warns(UserWarning, match="only lowers it"):
        program.run_decompositions({aten.hardtanh.default: lambda x, a=-1, b=1: x.clamp(a, b)})


def test_versions_of_files_are_refused():
    program, held = export(Silu(), (taper.ones(2, 3),)), io.BytesIO()
    for name, option in (("opset_version", {"opset_version": {"aten": 9}}), ("pickle_protocol", {"pickle_protocol": 4})):
        with pytest.raises(NotImplementedError, match=name):
            save(program, held, **option)
    assert not held.getvalue()
    save(program, held)
    held.seek(0)
    with pytest.raises(NotImplementedError, match="expected_opset_version"):
        load(held, expected_opset_version={"aten": 9})


def test_rnns_may_be_forbidden():
    from taper._dynamo.exc import Unsupported
    from taper.export import _trace

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4)

        def forward(self, x):
            return self.lstm(x)[0]

    export(Recurrent(), (taper.ones(2, 1, 3),))
    _trace.DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn = False
    try:
        with pytest.raises(Unsupported, match="purposely graph breaks on RNN, GRU, LSTMs"):
            export(Recurrent(), (taper.ones(2, 1, 3),), strict=True)
    finally:
        _trace.DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn = True
