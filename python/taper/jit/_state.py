"""What torch.jit remembers between calls: which names of classes are taken."""
_taken = {}


def unique_name(name):
    """`name`, or with a mangled package when a traced class of that name exists: classes of modules differ by their code."""
    count = _taken.get(name, 0)
    _taken[name] = count + 1
    if not count:
        return name
    package, _, last = name.rpartition(".")
    total = _taken[""] = _taken.get("", -1) + 1
    return f"{package}.___torch_mangle_{total}.{last}"


def qualified(obj, name):
    """The name of a function or class in an archive hangs on its module."""
    if getattr(obj, "__module__", "") is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    return name


def _clear_class_state():
    _taken.clear()
