"""Lists and dicts that nodes hand out: they look like the builtin ones and refuse to change."""
_WHY = """ object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args
"""


def _refuse(self, *args, **kwargs):
    raise TypeError(f"'{type(self).__name__}'{_WHY.rstrip()}")


def _frozen(name, base, changing, rebuild):
    names = {change: _refuse for change in changing}
    names["__hash__"] = lambda self: hash(rebuild(self))
    names["__reduce__"] = lambda self: (type(self), (base(self),))
    names["__module__"] = __name__
    return type(name, (base,), names)


immutable_list = _frozen(
    "immutable_list", list,
    ("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert", "pop", "remove",
     "reverse", "sort"),
    tuple)
immutable_dict = _frozen(
    "immutable_dict", dict,
    ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update"),
    lambda d: frozenset(d.items()))

__all__ = ["immutable_list", "immutable_dict"]
