"""The public Python names: functions, classes and their methods, of every module of the package that is loaded.

What they call in the extension gets the arguments that the package hands on, which are not those that targets.py tries."""
import inspect
import sys

import explore
import taper
import targets as _loads_everything  # noqa: F401

# CPython 3.11 crashes by itself where a call that it has specialised for methods of C meets their class: `def f(x): return x.encode()`, then f(str).
explore.NAMES.remove("tensor class")

# Not of the binding: they start processes, wait for the network, or end the process on purpose.
LEFT_OUT = ("taper.testing", "taper.hub", "taper.distributed", "taper.utils.data", "taper.__main__", "taper.as_torch",
            "taper.nn.TransformerEncoder", "taper.nn.TransformerDecoder")        # make as many layers as they are told


def _modules():
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("taper") and not name.startswith(LEFT_OUT) and "._" not in name
            and module is not None and name != "taper._C"]


def targets():
    found, seen = [], set()
    for module in _modules():
        for name in sorted(vars(module)):
            value = vars(module)[name]
            full = f"{module.__name__}.{name}"
            if full.startswith(LEFT_OUT) or name.startswith("_") or not callable(value) or id(value) in seen:
                continue
            if not str(getattr(value, "__module__", "")).startswith("taper"):
                continue
            seen.add(id(value))
            found.append((f"{module.__name__}.{name}", [("", value)]))
            if inspect.isclass(value):
                for method, function in sorted(vars(value).items()):
                    if inspect.isfunction(function) and not (method.startswith("_") and not method.endswith("__")):
                        found.append((f"{module.__name__}.{name}.{method}", [("unbound", function)]))
    for method, function in sorted(vars(taper.Tensor).items()):
        if inspect.isfunction(function):
            found.append((f"taper.Tensor.{method}", [("unbound", function)]))
    return found
