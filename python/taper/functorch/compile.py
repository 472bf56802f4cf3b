"""functorch.compile: ahead-of-time autograd under its old names, as far as it exists."""


def __getattr__(name):
    import importlib

    package = __name__.rsplit(".", 2)[0]
    for module in ("_functorch.aot_autograd", "_functorch.partitioners", "_functorch.compilers", "_decomp"):
        try:
            return getattr(importlib.import_module(f"{package}.{module}"), name)
        except (ImportError, AttributeError):
            continue
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
