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


def _clear_class_state():
    _taken.clear()
