"""Files made to do harm: whatever a .pt2, a TorchScript archive or a checkpoint says, no code of it runs and no file is opened.

Each attack would leave a marker file, or read one. Most are one edit of a file that loads."""
import collections
import io
import json
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import warnings
import zipfile

import pytest

import taper
from taper import nn
from taper.export import Dim, export, load, save


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 2)
        self.register_buffer("calls", taper.zeros(1))
        self.offset = taper.tensor([1.0, 2.0])

    def forward(self, x):
        self.calls.add_(1)
        y = taper.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        a, b = taper.split(self.l(taper.relu(y)) + self.offset, 1, 1)
        return {"y": taper.cat([a, b], 1) + self.calls, "n": x.shape[0] * 2}


@pytest.fixture(scope="module")
def good():
    held = io.BytesIO()
    save(export(Plain(), (taper.ones(4, 3),), dynamic_shapes={"x": {0: Dim("batch", max=50)}}), held)
    return held.getvalue()


def records(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {name.split("/", 1)[1]: z.read(name) for name in z.namelist()}


def archive(files, compress=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in files.items():
            z.writestr("m/" + name, data, zipfile.ZIP_DEFLATED if name in compress else zipfile.ZIP_STORED)
    return out.getvalue()


def with_model(data, change):
    """The file with its model.json edited as a tree, by `change`."""
    files = records(data)
    model = json.loads(files["models/model.json"])
    change(model)
    files["models/model.json"] = json.dumps(model).encode()
    return archive(files)


def replaced(data, old, new):
    """The file with every text `old` of its model changed, the keys of tables included."""
    files = records(data)
    before = files["models/model.json"].decode()
    text = before.replace(json.dumps(old), json.dumps(new))
    assert text != before
    files["models/model.json"] = text.encode()
    return archive(files)


def use(data):
    """Everything a user would do with a loaded program."""
    program = load(io.BytesIO(data))
    module = program.module()
    str(program), module.code, str(module)
    module(taper.ones(5, 3))
    program.run_decompositions().module()(taper.ones(5, 3))
    taper.cc(program)


def refused(data, marker, errors=Exception, match=None):
    with pytest.raises(errors, match=match) as caught:
        use(data)
    assert not marker.exists()
    return caught.value


def code(marker):
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def graph_of(model):
    return model["graph_module"]["graph"]


# ---- names in generated code ---------------------------------------------------------------------------------
PAYLOADS = ("x=CODE", "x, y=CODE", "x\n    CODE\n    y", "x): CODE #", "x; CODE; y", "x\\\nCODE", "__import__('os')", "a.b", "a b", "", "1x", "x\u00a0y",
            "lambda", "None", "True", "class", "*args", "**kwargs", "x" * 300, "x\0y", "ｘ", "größe", "x'", 'x"', "x\r", "x\t", "x#", "x:int", "x-1", "x[0]")


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("where", ["x", "relu", "linear", "p_l_weight", "c_offset", "true_graph_0", "cond", "getitem", "a_1", "split_with_sizes"])
def test_names_of_values_are_names(good, tmp_path, where, payload):
    marker = tmp_path / "ran"
    text = records(good)["models/model.json"].decode()
    if json.dumps(where) not in text:
        where = next(name for name in ("relu", "add", "mul") if json.dumps(name) in text)
    refused(replaced(good, where, payload.replace("CODE", code(marker))), marker, RuntimeError, "is no name|without a name|has no name")


def test_every_name_of_a_node_is_checked(good, tmp_path):
    """Whatever is called a name in the graph: one after another becomes code."""
    marker, found = tmp_path / "ran", set()

    def walk(tree):
        if isinstance(tree, dict):
            for key, value in tree.items():
                if key in ("name", "as_name") and isinstance(value, str):
                    found.add(value)
                walk(value)
        elif isinstance(tree, list):
            for item in tree:
                walk(item)

    model = json.loads(records(good)["models/model.json"])
    walk(graph_of(model))
    assert len(found) > 20
    for name in found:
        with pytest.raises(Exception):
            use(replaced(good, name, f"a={code(marker)}"))
        assert not marker.exists(), name


@pytest.mark.parametrize("payload", ["Symbol('s=CODE', integer=True)", "Symbol('CODE')", "CODE", "Integer(CODE)", "Float('CODE', precision=53)",
                                     "Add(CODE, Integer(1))", "Symbol('x y')", "Symbol('None')"])
def test_expressions_of_sizes_are_no_code(good, tmp_path, payload):
    marker = tmp_path / "ran"

    def change(model):
        for meta in graph_of(model)["tensor_values"].values():
            for size in meta["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = payload.replace("CODE", code(marker).replace("'", ""))
    refused(with_model(good, change), marker, (RuntimeError, NotImplementedError))


@pytest.mark.parametrize("function", ["Add", "Max", "Mul", "Min"])
def test_expressions_of_sizes_end(good, function):
    """They are brought into order, which takes long for thousands."""
    def change(model):
        size = next(s for meta in graph_of(model)["tensor_values"].values() for s in meta["sizes"] if "as_expr" in s)
        size["as_expr"]["expr_str"] = f"{function}({', '.join(f'Symbol({chr(39)}a{i}{chr(39)})' for i in range(20000))})"
    with pytest.raises(RuntimeError, match="more than 512 operands"):
        load(io.BytesIO(with_model(good, change)))


def test_names_of_ranges_are_names(good, tmp_path):
    marker = tmp_path / "ran"

    def change(model):
        model["range_constraints"] = {code(marker): {"min_val": 2, "max_val": 9}}
    refused(with_model(good, change), marker, RuntimeError, "is no name")


@pytest.mark.parametrize("payload", ["x=CODE", "x, y=CODE", "x): CODE #", "*", "", "lambda", "x y"])
def test_names_of_arguments_are_names(good, tmp_path, payload):
    marker = tmp_path / "ran"

    def change(model):
        model["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [payload.replace("CODE", code(marker))]
    refused(with_model(good, change), marker, RuntimeError, "no name for an argument")


@pytest.mark.parametrize("payload", ['a", 0) or CODE or (self, "', "a\\\" + CODE + \"", 'a"\n    CODE\n    "', "__class__.forward", "__init__.__globals__.x",
                                     "__dict__", "l.__class__", "", ".", "l..weight"])
@pytest.mark.parametrize("old", ["l.weight", "calls", "offset"])
def test_paths_of_state_are_quoted(good, tmp_path, old, payload):
    """They stand in texts of generated code; what is odd but harmless may load, as PyTorch's modules may have such names."""
    marker = tmp_path / "ran"
    files, new = records(good), payload.replace("CODE", code(marker))
    for name in ("models/model.json", "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"):
        files[name] = files[name].decode().replace(json.dumps(old), json.dumps(new)).encode()
    before = dict(vars(nn.Module)), dict(vars(taper.fx.GraphModule))
    try:
        use(archive(files))
    except Exception:  # noqa: BLE001 - refused is fine
        pass
    assert not marker.exists()
    assert (dict(vars(nn.Module)), dict(vars(taper.fx.GraphModule))) == before


def test_odd_paths_of_graphs_are_quoted(tmp_path):
    """Paths that a program's author chose stay texts, too."""
    marker = tmp_path / "ran"
    for path in (f'a", 0) or {code(marker)} or getattr(self, "b', 'a\\', 'a\nb', "a'"):
        root = nn.Module()
        setattr(root, path.replace(".", ""), taper.ones(1))
        graph = taper.fx.Graph()
        graph.output(graph.create_node("get_attr", path.replace(".", "")))
        assert taper.fx.GraphModule(root, graph)().tolist() == [1]
        assert not marker.exists()


def test_stack_traces_stay_in_their_comments(good, tmp_path):
    marker = tmp_path / "ran"
    for trace in (f'File "a\n{code(marker)}\n", line 1, in f\n    x', f'File "a.py", line 1, in f\r{code(marker)}\n    x', f'File "a.py", line 1, in f\n    x\r{code(marker)}',
                  f'File "a.py", line 1\r{code(marker)}, in f\n x', f"\n{code(marker)}", f'File "a", line {code(marker)}'):
        def change(model, trace=trace):
            for node in graph_of(model)["nodes"]:
                node["metadata"]["stack_trace"] = trace
        program = load(io.BytesIO(with_model(good, change)))
        shown = program.graph_module.print_readable(print_output=False)
        assert not any(line.lstrip().startswith("__import__") for line in shown.splitlines())
        program.module()(taper.ones(5, 3))
        assert not marker.exists()


def test_texts_among_arguments_stay_texts(good, tmp_path):
    marker = tmp_path / "ran"
    for text in (f"'+{code(marker)}+'", '"""', f"\\'+{code(marker)}#", "\n", "\u2028", "{CODE}"):
        def change(model, text=text):
            node = next(n for n in graph_of(model)["nodes"] if n["target"].endswith("relu.default"))
            node["target"] = "torch.ops.aten.gelu.default"
            node["inputs"].append({"name": "approximate", "arg": {"as_string": text}, "kind": 2})
        refused(with_model(good, change), marker, RuntimeError, "approximate")


# ---- targets --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", [
    "os.system", "posix.system", "builtins.exec", "builtins.eval", "builtins.getattr", "builtins.open", "builtins.__import__", "subprocess.run", "torch.load",
    "torch.hub.load", "torch.utils.cpp_extension.load_inline", "_operator.attrgetter", "_operator.methodcaller", "_operator.setitem", "operator.add", "torch.ops",
    "torch.ops.load_library", "torch.ops.aten", "torch.ops.aten.relu", "torch.ops.aten.relu.default.__call__", "torch.ops.aten.relu.default.x.y", "torch.ops...",
    "torch.ops.__class__.__base__.x", "torch.ops.aten.__init__.default", "torch.ops.higher_order.cond.default", "relu", "", ".", None, 7, ["os.system"]])
def test_targets_are_known_ops(good, tmp_path, target):
    marker = tmp_path / "ran"

    def change(model):
        node = next(n for n in graph_of(model)["nodes"] if n["target"].endswith("relu.default"))
        node["target"] = target
        node["inputs"][0]["arg"] = {"as_string": f"touch {marker}"}
    refused(with_model(good, change), marker, (RuntimeError, NotImplementedError, TypeError))


FROM_FILE = [("filename", {"as_string": "PATH"}), ("shared", {"as_bool": False}), ("size", {"as_int": 5})]


@pytest.mark.parametrize("target", ["torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out"])
@pytest.mark.parametrize("inner", [False, True])
def test_ops_that_open_files_are_refused(good, tmp_path, target, inner):
    secret = tmp_path / "secret"
    secret.write_bytes(b"hush!" * 20)

    def change(model):
        graph = graph_of(model)
        if inner:
            cond = next(n for n in graph["nodes"] if n["target"].endswith("higher_order.cond"))
            graph = next(i["arg"]["as_graph"]["graph"] for i in cond["inputs"] if "as_graph" in i["arg"])
        inputs = [{"name": name, "arg": json.loads(json.dumps(arg).replace("PATH", str(secret))), "kind": 1} for name, arg in FROM_FILE]
        graph["nodes"].insert(0, {"target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": "read"}}], "metadata": {}, "name": "read"})
        graph["tensor_values"]["read"] = {"dtype": 7, "sizes": [{"as_int": 5}], "requires_grad": False, "device": {"type": "cpu", "index": None},
                                          "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}
    with pytest.raises((RuntimeError, NotImplementedError), match="open a file|not implemented"):
        load(io.BytesIO(with_model(good, change)))


# ---- pickles inside -------------------------------------------------------------------------------------------
class Runs:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (eval, (code(self.marker),))


class Writes:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def saved(value):
    held = io.BytesIO()
    taper.save(value, held)
    return held.getvalue()


@pytest.mark.parametrize("attack", [Runs, Writes])
def test_example_inputs_run_no_code(good, tmp_path, attack):
    marker, files = tmp_path / "ran", records(good)
    for data in (saved(((attack(marker),), {})), saved(attack(marker))):
        files["data/sample_inputs/model.pt"] = data
        with pytest.warns(UserWarning, match="example inputs of the file are left out"):
            program = load(io.BytesIO(archive(files)))
        assert program.example_inputs is None and not marker.exists()
        program.module()(taper.ones(5, 3))


def test_example_inputs_of_other_shapes_are_left_out(good):
    files = records(good)
    for data in (b"", b"nothing", b"PK\3\4", saved([1]), saved(((), ())), saved(7), pickle.dumps(((), {}))):
        files["data/sample_inputs/model.pt"] = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert load(io.BytesIO(archive(files))).example_inputs is None
    args, kwargs = load(io.BytesIO(good)).example_inputs
    assert args[0].tolist() == taper.ones(4, 3).tolist() and not [v for v in kwargs.values() if v is not None]


def test_the_command_reads_as_safely(good, tmp_path):
    marker, files = tmp_path / "ran", records(good)
    files["data/sample_inputs/model.pt"] = saved(((Runs(marker),), {}))
    (tmp_path / "m.pt2").write_bytes(archive(files))
    subprocess.run([sys.executable, "-m", "taper", "cc", str(tmp_path / "m.pt2"), "-o", str(tmp_path / "m.c")], capture_output=True)
    assert not marker.exists()


@pytest.mark.parametrize("record", ["data/constants", "data/weights"])
def test_pickled_state_is_refused_by_its_class(good, tmp_path, record):
    marker, files = tmp_path / "ran", records(good)
    page = f"{record}/model_{record.split('/')[1]}_config.json"
    for data, wanted in ((saved(Runs(marker)), "__builtin__.eval|builtins.eval"), (saved(collections.deque()), "is pickled"),
                         (pickle.dumps(Runs(marker), 2), "eval"), (b"nothing", "is pickled")):
        config = json.loads(records(good)[page])
        row = next(iter(config["config"].values()))
        row["use_pickle"] = True
        changed = {**files, page: json.dumps(config).encode(), f"{record}/{row['path_name']}": data}
        error = refused(archive(changed), marker, NotImplementedError, wanted)
        assert next(iter(config["config"])) in str(error)


def test_script_objects_are_refused_by_their_class(good, tmp_path):
    def change(model):
        specs = model["graph_module"]["signature"]["input_specs"]
        specs.append({"custom_obj": {"arg": {"name": "obj", "class_fqn": "__torch__.torch.classes.evil.Thing"}, "custom_obj_name": "o"}})
    refused(with_model(good, change), tmp_path / "ran", NotImplementedError, "custom_obj of the class __torch__.torch.classes.evil.Thing")


@pytest.mark.parametrize("spec", [None, 7, "x", [], [1], [[]], {}, {"x": 1}, {"x": {"arg": 1}}, {"a": 1, "b": 2}, {"custom_obj": None}, {"parameter": []}])
def test_specs_of_inputs_and_outputs_may_be_anything(good, tmp_path, spec):
    for which in ("input_specs", "output_specs"):
        refused(with_model(good, lambda model: model["graph_module"]["signature"][which].append(spec)), tmp_path / "ran", (RuntimeError, NotImplementedError))


# ---- how arguments and results nest ----------------------------------------------------------------------------
@pytest.mark.parametrize("module, name", [("evil_module_of_a_file", "thing"), ("os", "abort"), ("os", "getcwd"), ("posix", "fork"), ("sys", "exit"), ("builtins", "input"),
                                          ("builtins", "exit"), ("taper", "load"), ("", ""), (None, None), (["os"], "abort")])
def test_factories_of_results_are_containers(good, tmp_path, monkeypatch, module, name):
    marker = tmp_path / "ran"
    (tmp_path / "evil_module_of_a_file.py").write_text(code(marker) + "\nthing = list\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def change(model):
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["out_spec"])
        spec[1].update(type="collections.defaultdict", context={"default_factory_module": module, "default_factory_name": name,
                                                                "dict_context": ["y", "n"]})
        signature["out_spec"] = json.dumps(spec)
    refused(with_model(good, change), marker, (NotImplementedError, TypeError))


def test_factories_that_are_containers_load():
    class Counts(nn.Module):
        def forward(self, x):
            return collections.defaultdict(list, {"a": x + 1})

    held = io.BytesIO()
    save(export(Counts(), (taper.ones(2),)), held)
    got = load(io.BytesIO(held.getvalue())).module()(taper.ones(2))
    assert got.default_factory is list and got["a"].tolist() == [2, 2] and got["b"] == []


@pytest.mark.parametrize("spec", [None, 7, "", "[", "[1, null]", "[2, {}]", "[" * 100000, '[1, {"type": "os.system", "context": "null", "children_spec": []}]'])
def test_broken_specs_are_refused(good, tmp_path, spec):
    for which in ("in_spec", "out_spec"):
        def change(model, which=which):
            model["graph_module"]["module_call_graph"][0]["signature"][which] = spec
        with pytest.raises(Exception):
            use(with_model(good, change))


# ---- TorchScript ------------------------------------------------------------------------------------------------
def traced():
    held = io.BytesIO()
    taper.jit.save(taper.jit.trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), taper.ones(2, 3)), held)
    return records(held.getvalue())


@pytest.mark.parametrize("call", ['torch.from_file("PATH", None, 10)', 'ops.aten.from_file("PATH", False, 10)'])
def test_torchscript_opens_no_files(tmp_path, call):
    (tmp_path / "secret").write_bytes(b"hush" * 50)
    files = traced()
    name = next(n for n in files if n.endswith("activation.py") or b"torch.relu" in files[n])
    files[name] = files[name].replace(b"torch.relu(", b"torch.add(" + call.replace("PATH", str(tmp_path / "secret")).encode() + b", ")
    with pytest.raises(RuntimeError, match="would open a file"):
        taper.jit.load(io.BytesIO(archive(files)))


@pytest.mark.parametrize("text", ["(" * 200000, "[" * 200000, "torch.relu(" * 100000, "annotate(" + "List[" * 100000, "__import__('os').system('true')",
                                  "eval(\"1\")", "open(\"/etc/passwd\")", "torch.ops.load_library(\"x\")", "x.__class__", "self.__dict__", "torch.load(\"x\")"])
def test_torchscript_is_read_and_not_run(text):
    files = traced()
    name = next(n for n in files if b"torch.relu" in files[n])
    files[name] = files[name].replace(b"torch.relu(", text.encode() + b"; torch.relu(")
    with pytest.raises((RuntimeError, NotImplementedError)):
        taper.jit.load(io.BytesIO(archive(files)))


def test_torchscript_pickles_call_nothing(tmp_path):
    marker, files = tmp_path / "ran", traced()
    for name in ("data.pkl", "constants.pkl"):
        with pytest.raises((RuntimeError, NotImplementedError)):
            taper.jit.load(io.BytesIO(archive({**files, name: pickle.dumps(Runs(marker), 2)})))
        assert not marker.exists()


# ---- checkpoints -------------------------------------------------------------------------------------------------
def checkpoint(data, storage=b"\0" * 16):
    return io.BytesIO(archive({"data.pkl": data, "byteorder": b"little", "data/0": storage, "version": b"3\n"}))


def test_weights_only_is_the_default(tmp_path):
    marker = tmp_path / "ran"
    with pytest.raises(pickle.UnpicklingError):
        taper.load(checkpoint(pickle.dumps(Runs(marker), 2)))
    with pytest.raises(pickle.UnpicklingError):
        taper.load(io.BytesIO(saved({"a": [Runs(marker)]})))
    held = io.BytesIO()
    taper.save(Runs(marker), held, _use_new_zipfile_serialization=False)
    with pytest.raises(pickle.UnpicklingError):
        taper.load(io.BytesIO(held.getvalue()))
    assert not marker.exists()


STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK\4tQ"     # four floats


def number(n):
    return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)


def numbers(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


@pytest.mark.parametrize("offset, size, stride", [
    (0, (5,), (1,)), (1, (4,), (1,)), (4, (1,), (1,)), (-1, (1,), (1,)), (0, (2,), (-1,)), (3, (2,), (-1,)), (0, (-1,), (1,)), (0, (2**62,), (0,)), (0, (2**31, 2**31, 2), (0, 0, 0)),
    (0, (2, 2), (2**62, 2**62)), (2**62, (1,), (1,)), (2**63 - 1, (1,), (1,)), (2**64, (1,), (1,)), (0, (2**63,), (1,)), (0, (2, 2), (1,)), (0, (2,), (2**63 - 1,)),
    (0, (1,) * 70, (1,) * 70), (0, (3, 3), (1, 1)), (0, (2, 3), (2, 1))])
def test_tensors_stay_inside_their_storage(offset, size, stride):
    """Or are as large as they say, if that can be."""
    for name, more in ((b"_rebuild_tensor_v2", b"\x89)R"), (b"_rebuild_tensor", b"")):
        data = b"\x80\x02ctorch._utils\n" + name + b"\n(" + STORAGE + number(offset) + numbers(size) + numbers(stride) + (more and b"\x89}") + b"tR."
        try:
            made = taper.load(checkpoint(data))
        except (RuntimeError, ValueError, TypeError, OverflowError, pickle.UnpicklingError):
            continue
        assert not made.numel() or all(s >= 0 for s in made.stride())
        last = made.storage_offset() + sum((n - 1) * s for n, s in zip(made.size(), made.stride()))
        assert not made.numel() or 0 <= last < 4
        if made.numel() < 100:
            made.tolist()


ODD = [None, 0, -1, 2**40, 2**70, 1.5, "x", b"x", (), [], {}, (1,), (-1,), (2**40,), "cpu", "float32", True]
FUNCTIONS = [("torch._utils", "_rebuild_tensor"), ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor_v3"), ("torch._utils", "_rebuild_parameter"),
             ("torch._utils", "_rebuild_parameter_with_state"), ("torch._utils", "_rebuild_meta_tensor_no_storage"), ("torch._tensor", "_rebuild_from_type_v2"),
             ("torch.serialization", "_get_layout"), ("torch", "Size"), ("torch", "device"), ("torch", "Tensor"), ("torch.nn.parameter", "Parameter"),
             ("torch.storage", "UntypedStorage"), ("torch.storage", "TypedStorage"), ("collections", "OrderedDict"), ("collections", "Counter"),
             ("__builtin__", "set"), ("__builtin__", "bytearray"), ("__builtin__", "complex"), ("_codecs", "encode")]


@pytest.mark.parametrize("module, name", FUNCTIONS)
def test_allowed_functions_survive_any_arguments(module, name, tmp_path):
    """In a child, so that a crash is seen as one: every allowed function on odd arguments, by REDUCE and NEWOBJ, with and without BUILD."""
    script = f"""
import io, itertools, pickle, random, resource, sys, zipfile
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import taper
ODD = {ODD!r}
draw = random.Random({name!r})
def body(v):
    return pickle.dumps(v, 2)[2:-1]
STORAGE = {STORAGE!r}
ITEMS = [body(v) for v in ODD] + [STORAGE, b"ctorch\\nfloat32\\n", b"ctorch\\nTensor\\n", b"ctorch\\nFloatStorage\\n", b"ctorch.nn.parameter\\nParameter\\n",
    b"ctorch._utils\\n_rebuild_tensor_v2\\n", b"ctorch._utils\\n_rebuild_tensor_v2\\n(" + STORAGE + b"K\\x00K\\x04\\x85K\\x01\\x85\\x89}}tR", body({{"a": 1}}), body({{"conj": True}})]
def file(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for n, d in (("data.pkl", data), ("byteorder", b"little"), ("data/0", b"\\0" * 16), ("version", b"3\\n")):
            z.writestr("m/" + n, d)
    out.seek(0)
    return out
for turn in range(400):
    args = b"(" + b"".join(draw.choice(ITEMS) for _ in range(draw.randrange(9))) + b"t"
    how = draw.choice([b"R", b"\\x81"])
    after = draw.choice([b"", draw.choice(ITEMS) + b"b", draw.choice(ITEMS) + draw.choice(ITEMS) + b"s", draw.choice(ITEMS) + b"a"])
    data = b"\\x80\\x02c" + b"{module}\\n{name}\\n" + args + how + after + b"."
    try:
        made = taper.load(file(data))
        repr(made)[:100]
        getattr(made, "numel", int)()
    except (Exception, RecursionError):
        pass
print("done")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), (done.returncode, done.stderr[-500:])


@pytest.mark.parametrize("data", [
    b"\x80\x02" + b"(" * 2000000 + b".", b"\x80\x02" + b"]" * 1000000 + b"a" * 999999 + b".", b"\x80\x02" + b")" + b"\x85" * 1000000 + b".", b"\x80\x02]q\0h\0a.", b"\x80\x02h\5.",
    b"\x80\x02}q\0h\0h\0s.", b"\x80\x02ctorch\nTensor\n(h\0tR.", b"\x80\x02\x8d" + struct.pack("<Q", 2**63) + b"x.", b"\x80\x02\x8b\xff\xff\xff\x7f.", b"\x80\x02r\xff\xff\xff\xff.",
    b"\x80\x02cos\nsystem\nX\4\0\0\0true\x85R.", b"\x80\x02cposix\nsystem\n.", b"\x80\x04\x8c\2os\x8c\6system\x93.", b"\x80\x02cbuiltins\ngetattr\n.", b"\x80\x02cbuiltins\neval\n.",
    b"\x80\x02\x82\1.", b"\x80\x02ios\nsystem\n.", b"\x80\x02(cos\nsystem\no.", b"\x80\x02ctorch._C\n_jit_load\n.", b"\x80\x02ctorch.hub\nload\n.", b"\x80\x02ctorch\nload\n.",
    b"\x80\x02ctorch.serialization\n_get_layout\nX\x0b\0\0\0__class__.x\x85R.", b"\x80\x02ctorch.storage\nUntypedStorage.from_file\n.", b"\x80\x04\x8c\5torch\x8c\x0bTensor.data\x93."])
def test_pickles_that_are_no_checkpoints_raise(data):
    try:
        made = taper.load(checkpoint(data))
    except (pickle.UnpicklingError, RuntimeError, ValueError, TypeError, KeyError, EOFError, RecursionError, OverflowError):
        return
    assert isinstance(made, (list, dict)) and made       # one that holds itself


def test_a_rebuilt_tensor_is_a_tensor():
    """_rebuild_from_type_v2 gives its state to a tensor, and to nothing else that a file can name."""
    for function, type_name, args in ((b"ctorch\ndevice\n", b"ctorch\ndevice\n", b"X\3\0\0\0cpu\x85"), (b"ccollections\nOrderedDict\n", b"ccollections\nOrderedDict\n", b")")):
        data = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(" + function + type_name + args + b"}X\1\0\0\0xK\1stR."
        with pytest.raises((pickle.UnpicklingError, TypeError, RuntimeError, AttributeError)):
            taper.load(checkpoint(data))


# ---- anything at all ---------------------------------------------------------------------------------------------
MUTATE = """
import copy, io, json, os, random, resource, sys, zipfile
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import taper
first, count, source, marker = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
code = f"__import__('pathlib').Path({marker!r}).touch()"
with zipfile.ZipFile(source) as z:
    files = {name: z.read(name) for name in z.namelist()}
pages = [name for name in files if name.endswith(".json")]
trees = {name: json.loads(files[name]) for name in pages}
ODD = [None, True, 0, 1, -1, 2, 7, 64, 2**31, 2**62, -2**63, 2**70, 1.5, float("inf"), "", "x", code, "l.weight", "self", "x=" + code, "Integer(3)",
       "Symbol('s0')", "torch.ops.aten.add.Tensor", "torch.ops.aten.resize_.default", "torch.ops.aten.as_strided.default", "torch.ops.aten.set_.source_Tensor",
       "_operator.getitem", [], {}, [1], {"as_int": 3}, {"as_int": -1}, {"as_int": 2**62}, {"as_none": True}, {"as_tensor": {"name": "x"}}, {"as_ints": [1, -1]},
       {"as_ints": [2**62] * 3}, {"as_string": code}, {"as_tensors": []}, {"as_expr": {"expr_str": "Integer(-7)"}}, {"as_sym_int": {"as_name": "x"}},
       {"as_float": "NaN"}, {"as_bool": True}, {"as_scalar_type": 99}, {"as_device": {"type": "cuda", "index": 3}}, {"as_graph": {"name": "g", "graph": {}}}]
def places(tree, found):
    for key in (tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()):
        found.append((tree, key))
        places(tree[key], found)
    return found
for turn in range(first, first + count):
    draw = random.Random(turn)
    page = draw.choice(pages + ["m/models/model.json"] * 3) if "m/models/model.json" in pages else draw.choice(pages)
    tree = copy.deepcopy(trees[page])
    for _ in range(draw.choice([1, 1, 2, 4])):
        found = places(tree, []) or [([0], 0)]
        holder, key = draw.choice(found)
        act = draw.random()
        if act < 0.55:
            holder[key] = copy.deepcopy(draw.choice(ODD))
        elif act < 0.75:
            other, place = draw.choice(found)
            holder[key] = copy.deepcopy(other[place])
        elif act < 0.9 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(draw.choice(found)[0]))
        else:
            del holder[key]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in files.items():
            z.writestr(name, json.dumps(tree) if name == page else data)
    out.seek(0)
    print(turn, file=sys.stderr, flush=True)
    try:
        program = taper.export.load(out)
    except (Exception, RecursionError):
        program = None
    for use in ((lambda: str(program)), (lambda: program.module()(taper.ones(5, 3))), (lambda: taper.cc(program)),
                (lambda: taper.onnx.export(program, (taper.ones(5, 3),)))) if program else ():
        try:
            use()
        except (Exception, RecursionError):
            pass
    if os.path.exists(marker):
        sys.exit(f"turn {turn} ran code")
print("done")
"""


class Pure(nn.Module):
    """Writes nothing, so that there is C and ONNX of it."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 2)
        self.offset = taper.tensor([1.0, 2.0])

    def forward(self, x):
        a, b = taper.split(self.l(taper.relu(x)) + self.offset, 1, 1)
        m, i = taper.max(x, dim=1)
        return taper.cat([a, b], 1).softmax(-1), m, i, taper.full((2, 3), 1.5) + x[:2]


@pytest.fixture(scope="module")
def pure():
    held = io.BytesIO()
    save(export(Pure(), (taper.ones(5, 3),)), held)
    return held.getvalue()


@pytest.mark.parametrize("which", ["good", "pure"])
def test_mutated_programs_are_read_or_refused(request, tmp_path, which):
    """Random edits of the pages of a program, all of it used afterwards, in a child."""
    (tmp_path / "good.pt2").write_bytes(archive(records(request.getfixturevalue(which))))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", MUTATE, "0", "400", str(tmp_path / "good.pt2"), str(tmp_path / "ran")],
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), (done.returncode, done.stderr[-300:])


# ---- values that are not what they are said to be -----------------------------------------------------------------
LIES = [{"as_int": 7}, {"as_int": 2**62}, {"as_int": -1}, {"as_string": "text"}, {"as_none": True}, {"as_bool": True}, {"as_ints": [1, 2]}, {"as_tensors": [{"name": "x"}]},
        {"as_device": {"type": "cpu", "index": None}}, {"as_scalar_type": 7}, {"as_float": 1.5}, {"as_complex": {"real": 1.0, "imag": 2.0}}]


def lying(data, arg, target="relu.default"):
    def change(model):
        next(n for n in graph_of(model)["nodes"] if n["target"].endswith(target))["inputs"][0]["arg"] = arg
    return with_model(data, change)


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_programs_run_by_c_check_their_arguments(pure, tmp_path):
    """Nobody but the plan stands between the file and the kernels."""
    root, extension = pathlib.Path(__file__).resolve().parents[2], pathlib.Path(taper._C.__file__).resolve()
    library = next((p for p in (extension.parent, extension.parents[2] / "src") if (p / "libtaper.so").exists()), None)
    assert library, "libtaper.so is not where the extension's build puts it"
    subprocess.run(["cc", "-std=c17", str(root / "examples" / "run_program.c"), f"-I{root / 'include'}", f"-L{library}", "-ltaper", f"-Wl,-rpath,{library}",
                    "-o", str(tmp_path / "run")], check=True)
    command = [str(tmp_path / "run"), str(tmp_path / "m.pt2"), "5x3", *["1"] * 15]
    (tmp_path / "m.pt2").write_bytes(archive(records(pure)))
    assert subprocess.run(command, capture_output=True).returncode == 0
    for arg in LIES:
        for target in ("relu.default", "linear.default", "split.Tensor", "max.dim"):
            (tmp_path / "m.pt2").write_bytes(lying(pure, arg, target))
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 1 and "Expected a value of type 'Tensor'" in done.stderr, (arg, target, done)


@pytest.mark.parametrize("arg", LIES)
def test_writers_check_arguments(pure, arg):
    for target in ("relu.default", "linear.default", "split.Tensor", "max.dim"):
        program = load(io.BytesIO(lying(pure, arg, target)))
        for write in (taper.cc, lambda p: taper.onnx.export(p, (taper.ones(5, 3),))):
            with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
                write(program)


@pytest.mark.parametrize("change", [{"sizes": [{"as_int": 200}, {"as_int": 3}]}, {"dtype": 8}, {"sizes": [{"as_int": 2}], "strides": [{"as_int": 1}]},
                                    {"sizes": [{"as_int": 2}, {"as_int": 4}]}])
def test_weights_are_as_the_graph_says(pure, change):
    """Writers read them by what it says."""
    with pytest.raises(RuntimeError, match="l.weight is of another type or size than the graph says"):
        load(io.BytesIO(with_model(pure, lambda model: graph_of(model)["tensor_values"]["p_l_weight"].update(change))))


LYING_SCRIPT = r"""
import io, sys, zipfile
import taper
with zipfile.ZipFile(sys.argv[1]) as z:
    files = {name: z.read(name) for name in z.namelist()}
linear = next(name for name in files if b"torch.linear" in files[name])
for value in ("7", "4702111234474983745", "1.5", '"text"', "None", "[7]", "(7, 8)", "True", 'torch.device("cpu")', "self", "(input, input)", "[input]", "{}"):
    for how in ("return " + value + "\\n    return", "return torch.relu(" + value + ") #", "return torch.add(input, " + value + ") #", "return torch.cat(" + value + ") #",
                "return torch.size(" + value + ", 0) #", "return torch.numel(" + value + ") #", "return torch.view(input, " + value + ") #", "a, b = " + value + "\\n    return",
                "return int(" + value + ") #", "return (" + value + ")[0] #", "return torch.linear(input, self.weight, " + value + ") #",
                "return torch.softmax(input, " + value + ", " + value + ") #", "return torch.linear(input, " + value + ", self.training) #"):
        changed = dict(files)
        changed[linear] = files[linear].replace(b"return", how.encode().decode("unicode_escape").encode(), 1)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for name, data in changed.items():
                z.writestr(name, data)
        out.seek(0)
        try:
            taper.jit.load(out)(taper.ones(2, 3))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError):
            pass
for role in (b"weight", b"bias"):
    for value in (b"K\x07", b"\x8a\x08AAAAAAAA", b"N", b"X\x01\x00\x00\x00x", b"\x88", b"]", b")", b"}", b"G?\xf0\x00\x00\x00\x00\x00\x00"):
        name = next(n for n in files if n.endswith("/data.pkl"))
        at = files[name].index(role)
        at = files[name].index(b"ctorch._utils" if role == b"weight" else b"h", at)
        end = files[name].index(b"R", files[name].index(b")R", at) + 2) + 1
        changed = dict(files)
        changed[name] = files[name][:at] + value + files[name][end:]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for n, data in changed.items():
                z.writestr(n, data)
        out.seek(0)
        try:
            module = taper.jit.load(out)
            module(taper.ones(2, 3))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError):
            pass
print("done")
"""


def test_torchscript_values_are_checked(tmp_path):
    """What a method gives and an attribute holds is not what the text declares: an error, in a child that would crash."""
    (tmp_path / "m.pt").write_bytes(archive(traced()))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LYING_SCRIPT, str(tmp_path / "m.pt")], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), (done.returncode, done.stderr[-500:])
