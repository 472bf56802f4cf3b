"""Where the nodes that are being run or made come from."""
import contextlib
import functools
import traceback

__all__ = ["preserve_node_meta", "has_preserved_node_meta", "set_stack_trace", "set_grad_fn_seq_nr",
           "reset_grad_fn_seq_nr", "format_stack", "set_current_meta", "get_current_meta", "annotate", "annotate_fn"]


class _State:
    def __init__(self):
        self.meta, self.on = {}, False


_state = _State()


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """Inside, nodes made while another one runs inherit its meta."""
    before = _state.on, _state.meta
    _state.on, _state.meta = enable, dict(_state.meta) if enable else {}
    try:
        yield
    finally:
        _state.on, _state.meta = before


def has_preserved_node_meta():
    return _state.on


def set_stack_trace(stack):
    if _state.on and stack:
        _state.meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr):
    if _state.on:
        _state.meta["grad_fn_seq_nr"] = _state.meta.get("grad_fn_seq_nr", []) + [seq_nr]
        _state.meta["in_grad_fn"] = _state.meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr():
    if _state.on and _state.meta.get("in_grad_fn", 0):
        _state.meta["in_grad_fn"] -= 1
        _state.meta["grad_fn_seq_nr"] = _state.meta["grad_fn_seq_nr"][:-1]


def format_stack():
    if _state.on:
        return [_state.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


class set_current_meta:
    """While entered, `node` is the one whose meta new nodes inherit."""
    __slots__ = ("node", "before")

    def __init__(self, node):
        self.node = node

    def __enter__(self):
        self.before = _state.meta
        if _state.on and self.node.meta:
            _state.meta = dict(self.node.meta)

    def __exit__(self, *error):
        _state.meta = self.before


@contextlib.contextmanager
def annotate(annotation):
    before = _state.meta
    _state.meta = {**before, "custom": {**before.get("custom", {}), **annotation}}
    try:
        yield
    finally:
        _state.meta = before


def annotate_fn(annotation_dict):
    """Makes what a function does be annotated, as inside annotate."""
    def decorate(function):
        @functools.wraps(function)
        def annotated(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)
        return annotated
    return decorate


def get_current_meta():
    return _state.meta
