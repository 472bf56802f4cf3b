"""The callables that torch.compile and optimize give."""
import functools
import types

from .. import _C, _facades
from ..nn import Module
from .._options import tell_once
from . import config
from .options import check_dynamic
from .backends.registry import lookup_backend


# ---- Marks on functions: not to be captured, or to break the graph -------------------------------------------------
# Callables a capture stops at; the C side has this very set.
breaks = {print, *(f for name, f in vars(_C).items() if name.startswith("_func_"))}      # transforms call their functions themselves


def graph_break():
    """Does nothing; a capture ends here."""


breaks.add(graph_break)


def disable(fn=None, recursive=True, *, reason=None):
    """The function is run as it is, and so is what it calls. The reason is for who reads the program."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        return fn(*args, **kwargs)

    plain._torchdynamo_disable = True
    return plain


def run(fn=None):
    """Entries that exist are used, none is made."""
    raise NotImplementedError("torch._dynamo.run is not there yet")


def allow_in_graph(fn):
    """The function becomes one node of the graph instead of being followed."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    raise NotImplementedError("torch._dynamo.allow_in_graph is not there yet")


def disallow_in_graph(fn):
    breaks.add(fn)
    return fn


def forbid_in_graph(fn):
    breaks.add(fn)
    return fn


def reset():
    """Forgets everything captured; callables stay usable."""
    _C._capture._reset()


def is_dynamo_supported():
    return _C._capture.available


def is_compiling():
    """Is a program being exported? In captured code the answer is True, and this does not run."""
    from ..export._trace import _is_exporting

    return _is_exporting()


def is_dynamo_compiling():
    """Is the program being captured by its bytecode? Then the capture answers, True, and this does not run."""
    return False


def unsupported(a, b):
    """A function no capture follows; gives b."""
    return b


def _compiled(fn, self, backend, fullgraph, guard_fail_fn):
    made = _C._capture._Compiled(fn, self, backend, fullgraph, guard_fail_fn)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(fn, name):
            setattr(made, name, getattr(fn, name))
    made.__wrapped__ = made._torchdynamo_orig_callable = fn if self is None else types.MethodType(fn, self)
    return made


def _callable(fn, backend, fullgraph, guard_fail_fn):
    """Any callable that is no module."""
    if getattr(fn, "_torchdynamo_disable", False):
        return fn
    if isinstance(fn, _C._capture._Compiled):
        fn = fn._torchdynamo_orig_callable
    if isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType):
        return _compiled(fn.__func__, fn.__self__, backend, fullgraph, guard_fail_fn)
    if isinstance(fn, types.FunctionType):
        return _compiled(fn, None, backend, fullgraph, guard_fail_fn)
    call = getattr(type(fn), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(fn, type):
        return _compiled(call, fn, backend, fullgraph, guard_fail_fn)

    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return _compiled(wrapper, None, backend, fullgraph, guard_fail_fn)


class OptimizedModule(Module):
    """A module whose forward is captured; everything else is the original's."""

    def __init__(self, mod, options):
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_options"] = options
        self._start()

    def _start(self):
        self.__dict__["_callables"] = {}

    def _forward_of(self, mod):
        forward = mod.forward
        function = getattr(forward, "__func__", forward)
        known = self._callables.get(function)
        if known is None:
            known = self._callables[function] = _callable(forward, *self._options)
        return known

    def forward(self, *args, **kwargs):
        mod = self.__dict__["_modules"]["_orig_mod"]
        while isinstance(mod, OptimizedModule):
            mod = mod._orig_mod
        if type(mod).__call__ is not Module.__call__ or mod._forward_hooks or mod._forward_pre_hooks or mod._backward_hooks or mod._backward_pre_hooks:
            own = mod.__dict__.get("forward")
            mod.__dict__["forward"] = self._forward_of(mod)
            try:
                return mod(*args, **kwargs)
            finally:
                if own is None:
                    del mod.__dict__["forward"]
                else:
                    mod.__dict__["forward"] = own
        return self._forward_of(mod)(*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name == "_orig_mod" or name in type(self).__dict__:
            return super().__setattr__(name, value)
        return setattr(self._orig_mod, name, value)

    def __getstate__(self):
        state = dict(self.__dict__)
        state.pop("_callables", None)
        return state

    def __setstate__(self, state):
        self.__dict__ = state
        self._start()

    def __dir__(self):
        return list(set(super().__dir__()) | set(dir(self._orig_mod)))


class _Optimize:
    """A decorator, and (where config allows) a context manager."""

    def __init__(self, backend, nopython, guard_fail_fn):
        self.options = (lookup_backend(backend), nopython, guard_fail_fn)

    def __call__(self, fn):
        if isinstance(fn, Module):
            return OptimizedModule(fn, self.options)
        if isinstance(fn, type):
            fn.__call__ = self(fn.__call__)
            return fn
        if not callable(fn):
            raise TypeError(f"a callable is wanted, not {type(fn).__name__}")
        return _callable(fn, *self.options)

    def __enter__(self):
        if config.raise_on_ctx_manager_usage:
            raise RuntimeError("torch._dynamo.optimize(...) is used with a context manager. Please refer to https://pytorch.org/tutorials/"
                               "intermediate/torch_compile_tutorial.html to use torch._dynamo.optimize(...) as an annotation/decorator.")
        raise NotImplementedError("torch._dynamo.optimize as a context manager is not there yet")

    def __exit__(self, *_):
        return None


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None, disable=False, dynamic=None):
    if guard_export_fn is not None:
        raise NotImplementedError("torch._dynamo.optimize(guard_export_fn=...)")
    if disable:
        return lambda fn: fn
    check_dynamic(dynamic)
    return _Optimize(backend, nopython, guard_fail_fn)


def optimize_assert(backend, *, hooks=None, export=False, export_constraints=None, dynamic=None):
    if hooks is not None or export or export_constraints is not None:
        raise NotImplementedError("torch._dynamo.optimize_assert with hooks, export or export_constraints")
    check_dynamic(dynamic)
    return _Optimize(backend, True, None)


# ---- What calls of compiled callables do ----------------------------------------------------------------------------
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")       # by their numbers in the capture


class set_stance:
    """Sets it at once; as a context, for the block; as a decorator, for calls of the function."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance in ("eager_then_compile", "aot_eager_then_compile"):
            raise NotImplementedError(f"torch.compiler.set_stance({stance!r})")
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError("non-default stance cannot have force_backend set")
            raise NotImplementedError("torch.compiler.set_stance(force_backend=...)")
        if skip_guard_eval_unsafe:
            raise NotImplementedError("torch.compiler.set_stance(skip_guard_eval_unsafe=True)")
        self.number = _STANCES.index(stance)
        self.before = _C._capture._set_stance(self.number)

    def __enter__(self):
        _C._capture._set_stance(self.number)

    def __exit__(self, *error):
        _C._capture._set_stance(self.before)

    def __call__(self, fn):
        self.__exit__()

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            before = _C._capture._set_stance(self.number)
            try:
                return fn(*args, **kwargs)
            finally:
                _C._capture._set_stance(before)

        return wrapper


# ---- what a program says of the sizes of its tensors ----
# Functions are captured for the sizes they are called with, so these change no result, only how often that is: they are kept where
# PyTorch keeps them, for backends and tools that ask.
def _mark(t, index, attribute):
    if not isinstance(index, (int, list, tuple)):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")
    marked = getattr(t, attribute, None) or set()
    marked.update([index] if isinstance(index, int) else index)
    setattr(t, attribute, marked)


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """These dimensions vary from call to call."""
    tell_once("mark_dynamic", "a function is captured for the sizes it is called with, and again for others", hint_override=(hint_override, None),
              min=(min, None), max=(max, None), specialize_on=(specialize_on, None))
    _mark(t, index, "_dynamo_dynamic_indices")


def maybe_mark_dynamic(t, index):
    """The same without a promise."""
    _mark(t, index, "_dynamo_weak_dynamic_indices")


def mark_unbacked(t, index, **options):
    """The same, and nothing is to be assumed of their sizes."""
    tell_once("mark_unbacked", "a function is captured for the sizes it is called with, and again for others",
              **{name: (value, None) for name, value in options.items()})
    _mark(t, index, "_dynamo_unbacked_indices")


def mark_static(t, index=None):
    """These dimensions, or all, do not vary."""
    _mark(t, list(range(t.dim())) if index is None else index, "_dynamo_static_indices")


_facades.settle(__name__)
