"""Tensors and modes that log every op they see; capture_logs gives the lines as text."""
import contextlib
import logging
import weakref

from ..._root import torch
from ...overrides import enable_reentrant_dispatch
from ...utils._python_dispatch import TorchDispatchMode
from ...utils._pytree import tree_map

_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128", "int8": "i8",
          "int16": "i16", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}


class LoggingTensor(torch.Tensor):
    """Wraps a tensor; what is done with it is done with that one, and logged."""

    elem: torch.Tensor
    __slots__ = ["elem"]
    context = contextlib.nullcontext

    @staticmethod
    def __new__(cls, elem, *args, **kwargs):
        r = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype, layout=elem.layout,
            device=elem.device, requires_grad=kwargs.get("requires_grad", False))
        r.elem = elem.detach() if r.requires_grad else elem
        return r

    def __repr__(self):
        return f"{type(self).__name__}({self.elem})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(e):
            return e.elem if isinstance(e, cls) else e

        def wrap(e):
            return cls(e) if isinstance(e, torch.Tensor) else e

        with cls.context():
            rs = tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))
        logging.getLogger("LoggingTensor").info(f"{func.__module__}.{func.__name__}", args, kwargs, rs)
        return rs


class LoggingTensorMode(TorchDispatchMode):
    """Logs the ops of plain tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        rs = func(*args, **kwargs)
        logging.getLogger("LoggingTensor").info(f"{func.__module__}.{func.__name__}", args, kwargs, rs)
        return rs


class LoggingTensorReentrant(LoggingTensor):
    """Its pieces are looked at again inside."""

    context = enable_reentrant_dispatch


class LoggingTensorHandler(logging.Handler):
    """Turns records into lines, tensors into $0, $1, … in the order they come."""

    def __init__(self, log_list, use_shortid_for_all_tensors, with_type, tracebacks_list=None):
        super().__init__()
        self.log_list, self.all_tensors, self.with_type = log_list, use_shortid_for_all_tensors, with_type
        self.memo = weakref.WeakValueDictionary()
        self.numbers, self.next_id = {}, 0
        self.tracebacks_list = tracebacks_list

    def _shortid(self, t):
        if self.memo.get(id(t)) is not t:
            self.memo[id(t)] = t
            self.numbers[id(t)] = self.next_id
            self.next_id += 1
        return self.numbers[id(t)]

    def _fmt(self, a, with_type=False):
        cls = torch.Tensor if self.all_tensors else LoggingTensor
        if isinstance(a, cls):
            dtype = str(a.dtype).rsplit(".", 1)[-1]
            kind = f": {_SHORT.get(dtype, dtype)}[{', '.join(str(n) for n in a.shape)}]" if with_type and self.with_type else ""
            return f"${self._shortid(a)}{kind}"
        return "Parameter" if isinstance(a, torch.nn.Parameter) else "Tensor" if isinstance(a, torch.Tensor) else repr(a)

    def str_formatter(self, a):
        return [self.str_formatter(x) if isinstance(x, (list, tuple)) else self._fmt(x) for x in a]

    def emit(self, record):
        args, kwargs, rs = record.args if len(record.args) == 3 else ((), {}, record.args[0])
        words = [str(self.str_formatter(a)) if isinstance(a, (list, tuple)) else self._fmt(a) for a in args]
        words += [f"{k}={self._fmt(v)}" for k, v in (kwargs or {}).items()]
        given = ", ".join(self._fmt(a, True) for a in rs) if isinstance(rs, (list, tuple)) else self._fmt(rs, True)
        self.log_list.append(f"{given} = {record.msg}({', '.join(words)})")


def log_input(name, var):
    logging.getLogger("LoggingTensor").info("input", (name,), {}, var)


class _Lines(list):
    pass


@contextlib.contextmanager
def capture_logs(is_mode=False, python_tb=False, script_tb=False, cpp_tb=False):
    if python_tb or script_tb or cpp_tb:
        raise NotImplementedError("capture_logs with tracebacks is not implemented in Taper yet")
    logger, lines = logging.getLogger("LoggingTensor"), _Lines()
    handler = LoggingTensorHandler(lines, is_mode, True)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextlib.contextmanager
def capture_logs_with_logging_tensor_mode(python_tb=False, script_tb=False, cpp_tb=False):
    with LoggingTensorMode(), capture_logs(True, python_tb, script_tb, cpp_tb) as logs:
        yield logs
