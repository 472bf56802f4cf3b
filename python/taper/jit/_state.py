"""What torch.jit remembers between calls: which names of classes are taken."""
taken = {}      # qualified name -> how many classes have it; kept by _jit_make_module


def qualified(obj, name):
    """The name of a function or class in an archive hangs on its module."""
    if getattr(obj, "__module__", "") is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    return name


def _clear_class_state():
    taken.clear()
