"""torch.export: programs against the modules they come from, their files against PyTorch's, and the C example that runs them."""
import io
import os
import pathlib
import shutil
import subprocess

import pytest

import taper
from taper import nn
from taper._dynamo.exc import UserError
from taper.export import Dim, ShapesCollection, dims, export, load, save
from taper.export.graph_signature import InputKind, OutputKind

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = pathlib.Path(__file__).resolve().parent / "exported"
ORACLE = os.environ.get("TAPER_ORACLE")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 8)
        self.second = nn.Linear(8, 2)
        self.register_buffer("calls", taper.zeros(1))
        self.register_buffer("fleeting", taper.ones(2), persistent=False)
        self.offset = taper.tensor([1.0, 2.0])

    def forward(self, x, scale=1.0, *, mode="plain"):
        self.calls.add_(1)
        y = self.second(taper.relu(self.first(x))) * self.fleeting
        return {"y": y * scale + self.offset, "rest": (x.reshape(-1), None, 3)}


def test_state_becomes_inputs():
    model = Mlp()
    program = export(model, (taper.ones(4, 3),), {"mode": "plain"})
    kinds = [(spec.kind, spec.target) for spec in program.graph_signature.input_specs]
    assert kinds == [(InputKind.PARAMETER, "first.weight"), (InputKind.PARAMETER, "first.bias"), (InputKind.PARAMETER, "second.weight"),
                     (InputKind.PARAMETER, "second.bias"), (InputKind.BUFFER, "calls"), (InputKind.BUFFER, "fleeting"),
                     (InputKind.CONSTANT_TENSOR, "offset"), (InputKind.USER_INPUT, None), (InputKind.USER_INPUT, None)]
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    assert names == ["p_first_weight", "p_first_bias", "p_second_weight", "p_second_bias", "b_calls", "b_fleeting", "c_offset", "x", "mode"]
    assert program.graph_signature.output_specs[0].kind is OutputKind.BUFFER_MUTATION
    assert set(program.state_dict) == {"first.weight", "first.bias", "second.weight", "second.bias", "calls"}
    assert set(program.constants) == {"fleeting", "offset"}
    assert program.graph.find_nodes(op="placeholder")[0].meta["val"].requires_grad


@pytest.mark.parametrize("strict", [True, False])
def test_programs_do_what_modules_do(strict):
    model = Mlp()
    program = export(model, (taper.ones(4, 3), 2.0), dynamic_shapes={"x": {0: Dim("batch", min=2, max=9)}, "scale": None}, strict=strict)
    assert model.calls.item() == 0
    x = taper.randn(7, 3)
    got, want = program.module()(x, 2.0), model(x, 2.0)
    assert taper.equal(got["y"], want["y"]) and taper.equal(got["rest"][0], want["rest"][0])
    assert got["rest"][1:] == (None, 3)
    lowered = program.run_decompositions()
    assert taper.allclose(lowered.module()(x, 2.0)["y"], want["y"])
    assert "linear" not in lowered.graph_module.code and "linear" in program.graph_module.code


def test_buffers_and_inputs_are_written():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", taper.zeros(2))

        def forward(self, x):
            self.n.add_(x[0])
            x[0].mul_(3)
            return x + self.n

    program = export(Writes(), (taper.ones(2, 2),))
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["n"]
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]
    module, x, eager, y = program.module(), taper.ones(2, 2), Writes(), taper.ones(2, 2)
    for _ in range(2):
        assert taper.equal(module(x), eager(y))
    assert taper.equal(x, y) and taper.equal(module.n, eager.n)


def test_reassigned_buffers_are_written_and_other_tensors_must_not_be():
    class Reassigns(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name
            self.register_buffer("n", taper.zeros(2))
            self.plain = taper.zeros(2)

        def forward(self, x):
            setattr(self, self.name, getattr(self, self.name) + x)
            return x

    module = export(Reassigns("n"), (taper.ones(2),)).module()
    module(taper.ones(2))
    assert module.n.tolist() == [1, 1]
    source = Reassigns("plain")
    with pytest.raises(ValueError, match="The tensor attribute self.plain was assigned during export"):
        export(source, (taper.ones(2),))
    assert source.plain.tolist() == [0, 0] and source.n is source._buffers["n"]


class Branch(nn.Module):
    def forward(self, x, y):
        return x + y if x.shape[0] <= 6 else x - y


CALLS = [((taper.ones(2, 3), taper.ones(2, 3)), r"Expected input at \*args\[0\].shape\[0\] to be >= 3, but got 2"),
         ((taper.ones(7, 3), taper.ones(7, 3)), r"Expected input at \*args\[0\].shape\[0\] to be <= 6, but got 7"),
         ((taper.ones(4, 3), taper.ones(5, 3)), r"Expected input at \*args\[1\].shape\[0\] to be equal to 4, but got 5"),
         ((taper.ones(4, 2), taper.ones(4, 2)), r"Expected input at \*args\[0\].shape\[1\] to be equal to 3, but got 2")]


@pytest.mark.parametrize("args, message", CALLS)
def test_calls_are_checked(args, message):
    batch = Dim("batch", min=3, max=6)
    module = export(Branch(), (taper.ones(5, 3), taper.ones(5, 3)), dynamic_shapes=({0: batch}, {0: batch})).module()
    assert module(taper.ones(4, 3), taper.ones(4, 3)).sum().item() == 24
    with pytest.raises(RuntimeError, match=message):
        module(*args)
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        module(taper.ones(4, 3))
    with pytest.raises(NotImplementedError, match=r"Calling train\(\) is not supported yet."):
        module.train()


def test_violations_suggest_fixes():
    a, b = dims("a", "b")
    with pytest.raises(UserError) as error:
        export(Branch(), (taper.ones(5, 3), taper.ones(5, 3)), dynamic_shapes=({0: a}, {0: b}))
    assert "Constraints violated (a, b)!" in error.value.msg
    assert "Suggested fixes:\n  a = Dim('a', max=6)\n  b = a\n" in error.value.msg
    with pytest.raises(UserError, match=r"9 not in range \[10, int_oo\]"):
        export(Branch(), (taper.ones(9, 3), taper.ones(9, 3)), dynamic_shapes=({0: Dim("c", min=10)}, None))


def test_derived_sizes_and_collections():
    class Shifted(nn.Module):
        def forward(self, x, y):
            return x + y[1:]

    base = Dim("base", max=20)
    x, y = taper.ones(5), taper.ones(6)
    shapes = ShapesCollection()
    shapes[x], shapes[y] = {0: base}, {0: base + 1}
    program = export(Shifted(), (x, y), dynamic_shapes=shapes)
    assert [str(node.meta["val"].shape[0]) for node in program.graph.find_nodes(op="placeholder")] == ["s0", "s0 + 1"]
    assert {str(k): (v.lower, v.upper) for k, v in program.range_constraints.items()} == {"s0": (0, 20), "s0 + 1": (1, 21)}
    assert program.module()(taper.ones(9), taper.ones(10)).sum().item() == 18
    with pytest.raises(RuntimeError, match="to be equal to 10, but got 9"):
        program.module()(taper.ones(9), taper.ones(9))


def test_sizes_without_names():
    program = export(nn.Linear(3, 4), (taper.ones(5, 3),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert str(program.range_constraints) == "{s0: VR[2, int_oo]}"
    assert program.module()(taper.ones(9, 3)).shape == (9, 4)


def test_nodes_know_where_they_come_from():
    program = export(Mlp(), (taper.ones(4, 3),))
    node = next(n for n in program.graph.nodes if n.name == "linear")
    assert list(node.meta["nn_module_stack"].values()) == [("", f"{__name__}.Mlp"), ("first", f"{nn.Linear.__module__}.Linear")]
    assert "in forward\n    y = self.second(taper.relu(self.first(x)))" in node.meta["stack_trace"]


def test_a_failed_export_leaves_the_module_as_it_was():
    class Fails(Mlp):
        def forward(self, x):
            self.calls = self.calls + 1
            raise ValueError("no further")

    model = Fails()
    before = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with pytest.raises(ValueError, match="no further"):
        export(model, (taper.ones(4, 3),))
    after = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert list(after) == list(before) and all(after[name] is before[name] for name in before)
    assert taper.ones(2).add(1).tolist() == [2, 2] and not taper._dynamo.is_compiling()


def test_exporting_again_keeps_origins():
    program = export(Mlp(), (taper.ones(4, 3),))
    again = export(program.module(), (taper.ones(4, 3),), strict=False)
    traces = [[n.meta.get("stack_trace") for n in p.graph.nodes if n.op == "call_function"] for p in (program, again)]
    assert traces[0] == traces[1][:len(traces[0])]
    assert [s.target for s in again.graph_signature.input_specs] == [s.target for s in program.graph_signature.input_specs]


# ---- files ----
def exported():
    taper.manual_seed(0)
    return export(Mlp(), (taper.ones(4, 3),), {"mode": "plain"}, dynamic_shapes={"x": {0: Dim("batch", max=50)}, "mode": None})


@pytest.mark.parametrize("as_bytes", [True, False])
def test_programs_survive_files(tmp_path, as_bytes):
    program = exported()
    file = io.BytesIO() if as_bytes else tmp_path / "mlp.pt2"
    save(program, file)
    if as_bytes:
        file.seek(0)
    back = load(file)
    assert str(back.graph_signature) == str(program.graph_signature)
    assert str(back.graph) == str(program.graph)
    assert str(back.range_constraints) == str(program.range_constraints) == "{s0: VR[0, 50]}"
    assert back.call_spec == program.call_spec and back.example_inputs[1] == {"mode": "plain"}
    x = taper.randn(6, 3)
    assert taper.equal(back.module()(x, mode="plain")["y"], program.module()(x, mode="plain")["y"])
    with pytest.raises(RuntimeError, match="to be <= 50, but got 51"):
        back.module()(taper.ones(51, 3), mode="plain")


def test_broken_files_are_errors(tmp_path):
    file = io.BytesIO()
    save(exported(), file)
    data = file.getvalue()
    for cut in range(0, len(data), len(data) // 20):
        with pytest.raises(RuntimeError):
            load(io.BytesIO(data[:cut]))
    with pytest.raises(RuntimeError, match="CRC-32 check failed"):
        load(io.BytesIO(data.replace(b"torch.ops.aten.relu.default", b"torch.ops.aten.relx.default")))


def test_a_file_of_pytorch_runs():
    """mlp.pt2 was written by PyTorch 2.13 (tests/python/exported/record.py), with what it computes beside it."""
    program = load(FILES / "mlp.pt2")
    case = taper.load(FILES / "mlp_case.pt")
    got = program.module()(*case["args"], **case["kwargs"])
    assert taper.allclose(got["y"], case["result"]["y"], atol=1e-6) and taper.equal(got["v"], case["result"]["v"])


def test_the_layout_of_2024_is_read():
    program = load(FILES / "mlp_2024.pt2")
    case = taper.load(FILES / "mlp_case.pt")
    got = program.module()(*case["args"], **case["kwargs"])
    assert taper.allclose(got["y"], case["result"]["y"], atol=1e-6)


@pytest.mark.skipif(not ORACLE, reason="TAPER_ORACLE names no Python with PyTorch")
def test_pytorch_runs_our_file(tmp_path):
    program, x = exported(), taper.randn(6, 3)
    save(program, tmp_path / "ours.pt2")
    taper.save((x, program.module()(x, mode="plain")["y"]), tmp_path / "case.pt")
    code = ("import sys, torch; p = torch.export.load(sys.argv[1]); x, y = torch.load(sys.argv[2]);"
            "assert torch.allclose(p.module()(x, mode='plain')['y'], y, atol=1e-6)")
    subprocess.run([ORACLE, "-c", code, str(tmp_path / "ours.pt2"), str(tmp_path / "case.pt")], check=True)


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_c_example_runs_a_program(tmp_path):
    extension = pathlib.Path(taper._C.__file__).resolve()
    library = next((p for p in (extension.parent, extension.parents[2] / "src") if (p / "libtaper.so").exists()), None)
    if library is None:
        pytest.skip("libtaper.so is not where the extension's build puts it")
    subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples" / "run_program.c"), f"-I{ROOT / 'include'}",
                    f"-L{library}", "-ltaper", f"-Wl,-rpath,{library}", "-o", str(tmp_path / "run_program")], check=True)
    program = exported()
    save(program, tmp_path / "mlp.pt2")
    run = subprocess.run([tmp_path / "run_program", tmp_path / "mlp.pt2", "2x3", "1", "2", "3", "4", "5", "6"], text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    want = program.module()(taper.tensor([[1.0, 2, 3], [4, 5, 6]]), mode="plain")["y"].flatten().tolist()
    assert lines[0].startswith("float32[2, 2] ") and lines[1] == "float32[6] 1 2 3 4 5 6"
    assert [float(v) for v in lines[0].split("] ")[1].split()] == pytest.approx(want, rel=1e-4)
    bad = subprocess.run([tmp_path / "run_program", tmp_path / "mlp.pt2", "2x4"], text=True, capture_output=True)
    assert bad.returncode == 1 and "to be equal to 3, but got 4" in bad.stderr


def test_a_write_to_what_a_composite_gave_back_is_seen():
    class Writes(taper.nn.Module):
        def forward(self, x):
            y = x.clone()
            taper.broadcast_tensors(y, y)[0].fill_(1.5)
            return y

    x = taper.rand(3)
    assert taper.equal(taper.export.export(Writes(), (x,)).module()(x), taper.full((3,), 1.5))


def test_a_lone_operand_comes_back_as_a_view():
    class Model(taper.nn.Module):
        def forward(self, x):
            base = x * 1
            turned = taper.einsum("ij->ji", base)
            base.zero_()
            return turned

    program = export(Model(), (taper.ones(2, 3),))
    assert program.module()(taper.ones(2, 3)).tolist() == [[0, 0]] * 3
