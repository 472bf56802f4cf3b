"""Writes the recorded files beside it, with PyTorch: a program in the layout of 2.13 and in that of 2024, and what it computes.

    python tests/python/exported/record.py
"""
import io
import json
import pathlib
import zipfile

import torch
from torch.export import Dim, export, save

HERE = pathlib.Path(__file__).resolve().parent


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.second = torch.nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(1))
        self.offset = torch.tensor([1.0, 2.0])

    def forward(self, x, *, mode="plain"):
        self.calls.add_(1)
        a, b = torch.split(self.second(torch.relu(self.first(x))) + self.offset, 1, 1)
        v, i = torch.max(x, dim=1)
        return {"y": torch.cat([a, b * 2], 1) + self.calls, "v": v, "z": torch.zeros(x.shape[0] + 1, 2)}


def old_layout(program, path):
    """As programs were saved in mid-2024: the same JSON with an older version, state as saved dicts."""
    held = io.BytesIO()
    save(program, held)
    new = zipfile.ZipFile(held)
    model = json.loads(new.read(next(n for n in new.namelist() if n.endswith("models/model.json"))))
    model["schema_version"] = {"major": 5, "minor": 1}
    model["dialect"] = "ATEN"
    del model["verifiers"], model["torch_version"], model["guards_code"]
    for node in model["graph_module"]["graph"]["nodes"]:
        del node["name"]
        for entry in node["inputs"]:
            del entry["kind"]

    def saved(value):
        out = io.BytesIO()
        torch.save(value, out)
        return out.getvalue()

    with zipfile.ZipFile(path, "w") as out:
        out.writestr("serialized_exported_program.json", json.dumps(model))
        out.writestr("serialized_state_dict.pt", saved(program.state_dict))
        out.writestr("serialized_constants.pt", saved(dict(program.constants)))
        out.writestr("serialized_example_inputs.pt", saved(program.example_inputs))
        out.writestr("version", "5.1")


def main():
    torch.manual_seed(0)
    program = export(Mlp(), (torch.ones(5, 3),), {"mode": "plain"}, dynamic_shapes={"x": {0: Dim("batch", max=50)}, "mode": None})
    program = program.run_decompositions({})
    for node in program.graph.nodes:
        for key in ("stack_trace", "from_node"):        # these name places of the machine
            node.meta.pop(key, None)
    save(program, HERE / "mlp.pt2")
    old_layout(program, HERE / "mlp_2024.pt2")
    x = torch.randn(7, 3)
    torch.save({"args": (x,), "kwargs": {"mode": "plain"}, "result": program.module()(x, mode="plain")}, HERE / "mlp_case.pt")


if __name__ == "__main__":
    with torch.no_grad():
        main()
