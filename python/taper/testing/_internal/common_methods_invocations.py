"""op_db: the ops under the names PyTorch's tests look up, with sample inputs made from the `try` rows of the op table.

Overloads of one public name are one entry, but where PyTorch has several: `max` binary, `div` with a rounding mode. Built when it
is first asked for.
"""
import operator
import warnings

from .opinfo.core import DecorateInfo, ErrorInput, OpInfo, SampleInput
from ..._root import torch

# PyTorch lists these by their plain names although nn.functional has them too.
PLAIN = {"log_softmax", "sigmoid", "softmax", "tanh"}
# Names with an underscore that PyTorch lists.
INTERNAL = {"_chunk_cat", "_native_batch_norm_legit", "_softmax_backward_data", "_unsafe_masked_index", "_upsample_bilinear2d_aa"}
MODULES = ("linalg", "fft", "special")
# Entries of their own: by overload, or by the value of an argument.
OVERLOADS = {
    **{f"{name}.{overload}": variant for name in ("max", "min")
       for overload, variant in (("default", "reduction_no_dim"), ("dim", "reduction_with_dim"), ("other", "binary"))},
    **{f"{name}.{overload}": "unbiased" for name in ("var", "std", "var_mean", "std_mean") for overload in ("default", "dim")},
    "div.Tensor": "no_rounding_mode", "squeeze.dims": "multiple", "split.sizes": "list_args", "meshgrid.default": "list_of_tensors",
    "norm.nuc": "nuc", "normal.float_Tensor": "number_mean",
}
ARGUMENTS = {
    "div.Tensor_mode": ("rounding_mode", {"trunc": "trunc_rounding", "floor": "floor_rounding", None: "no_rounding_mode"}),
    "index_reduce.default": ("reduce", {}), "scatter_reduce.two": ("reduce", {}), "pad.default": ("mode", {}),
    "polygamma.default": ("n", "polygamma_n_{}"), "special_polygamma.default": ("n", "special_polygamma_n_{}"),
    "mvlgamma.default": ("p", "mvlgamma_p_{}"), "round.decimals": ("decimals", "decimals_{}"),
}


def _public(name):
    """(PyTorch's name, what is called) for an op, or None where it has no public name."""
    for module in MODULES:
        if name.startswith(module + "_"):
            short = name[len(module) + 1:]
            found = getattr(getattr(torch._C, "_" + module), name, None)
            return (f"{module}.{short}", found) if found and hasattr(getattr(torch, module), short) else None
    if name.endswith("_backward") or name.startswith("_") and name not in INTERNAL:
        return None
    in_functional = hasattr(torch.nn.functional, name) and name not in PLAIN
    found = getattr(torch._C._nn, name, None) if in_functional or name in INTERNAL else None
    found = found or getattr(torch, name, None) or getattr(torch.Tensor, name, None)
    if found is not None and not callable(found):
        found = operator.attrgetter(name)
    return found and ("nn.functional." + name if in_functional else name, found)


def _variant(op, names, arguments):
    key = f"{op['name'].rstrip('_')}.{op['overload']}"
    if key in ARGUMENTS:
        argument, spelled = ARGUMENTS[key]
        value = arguments[names.index(argument)]
        return spelled.format(str(value).replace("-", "neg_")) if isinstance(spelled, str) else spelled.get(value, value)
    return OVERLOADS.get(key, "")


def _takes(call, op, sample):
    """Does the public name take the arguments of this overload, in their order?"""
    try:
        call(*sample[:op["positional"]], **dict(zip(op["args"][op["positional"]:], sample[op["positional"]:])))
    except (IndexError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _belongs(op, variant):
    """Which samples of an op are an entry's. An op takes numbers alone for its tensors, a public name does not."""
    without_tensors = "Tensor" not in op["schema"].split(" -> ")[0]

    def has_tensor(arguments):
        return any(isinstance(a, torch.Tensor) or isinstance(a, list) and has_tensor(a) for a in arguments)
    return lambda arguments: _variant(op, op["args"], arguments) == variant and (without_tensors or has_tensor(arguments))


def _build():
    entries = {}
    for op in torch._C._op_table():
        if op["space"] != "aten" or not op["tries"] or op["variant"] == "out":
            continue
        plain = op["name"].rstrip("_") if op["variant"] == "inplace" else op["name"]
        named = _public(plain)
        samples = torch._C._op_samples(op["name"], op["overload"], None, False) if named else ()
        if not samples or not _takes(named[1], op, samples[0]):
            continue
        for variant in dict.fromkeys(_variant(op, op["args"], sample) for sample in samples):
            info = entries.get((named[0], variant))
            if info is None:
                info = entries[named[0], variant] = OpInfo(named[0], op=named[1], aten_name=plain, variant_test_name=variant)
            info.overloads.append((op, _belongs(op, variant)))
    return list(entries.values())


def __getattr__(name):
    if name == "op_db":
        with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
            globals()["op_db"] = _build()
        return globals()["op_db"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
