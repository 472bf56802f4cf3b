"""Objects to save, made alike with PyTorch and with Taper. As a program, under either:

    python samples.py torch --write FOLDER      one file for each
    python samples.py torch --read FOLDER       what load makes of each, as JSON
"""
import collections
import importlib
import json
import pathlib
import sys


def samples(torch):
    """Name -> object."""
    x = torch.arange(6.0).reshape(2, 3)
    marked = torch.ones(2)
    marked.note = "a tensor with an attribute"
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note = [1]
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    for p in model.parameters():
        torch.nn.init.constant_(p, 0.5)
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.25, momentum=0.5)
    model[0](torch.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
    optimizer.step()
    made = {
        "views": {"a": x, "b": x.t(), "c": [x[1], 1, 2.5, None, True, "s"], "i": torch.arange(3), "scalar": x[1, 2]},
        "parameters": collections.OrderedDict([("w", torch.nn.Parameter(torch.ones(2, 2))), ("f", torch.nn.Parameter(x[0].clone(), False))]),
        "state": {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
        "plain": [torch.float32, torch.device("cpu"), torch.Size([1, 2]), torch.strided, {1}, b"ab\xff", bytearray(b"xy"), 1j, 2**70,
                  -2**70, -5, 300, 70000, 2**40, (), (1,), (1, 2, 3, 4), "\u00e9\U0001f525", [], {}, {1: {2: 3}}, list(range(1001)),
                  {str(i): i for i in range(1001)}],
        "leaves": [marked, parameter, torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2,
                   torch.ones(2, 3, device="meta"), torch.empty(0), torch.tensor(3)],
        "kinds": [torch.tensor([0, 1, 2]).to(getattr(torch, name)) for name in
                  "float16 bfloat16 float64 int8 uint8 int16 int32 bool complex64 complex128".split()],
        "storage": [x.untyped_storage()],
    }
    loop = [1]
    loop.append(loop)
    made["loop"] = loop
    return made


def show(o):
    """A text of an object that tells values, types, strides and sharing."""
    met = {}

    def text(o):
        if hasattr(o, "untyped_storage"):
            place = met.setdefault(("storage", o.untyped_storage().data_ptr() or id(o)), len(met))
            values = None if o.is_meta else [str(v) for v in o.detach().reshape(-1).tolist()]
            return (f"{type(o).__name__}({values}, {str(o.dtype).split('.')[1]}, {tuple(o.size())}, {o.stride()}, {o.storage_offset()}, "
                    f"{o.requires_grad}, storage {place}, {o.__dict__})")
        if isinstance(o, (list, tuple)):
            if id(o) in met:
                return f"#{met[id(o)]}"
            met[id(o)] = len(met)
            return f"{type(o).__name__}[{', '.join(map(text, o))}]"
        if isinstance(o, dict):
            return f"{type(o).__name__}{{{', '.join(f'{text(k)}: {text(v)}' for k, v in o.items())}}}{getattr(o, '_metadata', '')}"
        return repr(o).replace("taper", "torch")

    return text(o)


def main():
    torch = importlib.import_module(sys.argv[1])
    folder = pathlib.Path(sys.argv[3])
    if sys.argv[2] == "--write":
        for name, o in samples(torch).items():
            torch.save(o, folder / f"{name}.pt")
        torch.save(samples(torch)["views"], folder / "old.pt", _use_new_zipfile_serialization=False)
        torch.save(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU()), folder / "module.pt")
    else:
        shown = {p.stem: show(torch.load(p, weights_only=p.stem != "module")) for p in sorted(folder.glob("*.pt")) if p.stem != "module"}
        shown["module"] = list(torch.load(folder / "module.pt", weights_only=False).state_dict())
        print(json.dumps(shown))


if __name__ == "__main__":
    main()
