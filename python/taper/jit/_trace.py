"""torch.jit.trace: names, defaults and modules around the recorder in C."""
import functools
import inspect
import re
import warnings

from .. import _C
from ..nn.modules.module import Module
from ._script import ScriptModule, _wrap, qualified, taken


class TracerWarning(Warning):
    @staticmethod
    def ignore_lib_warnings():
        """Our own modules look at sizes; that is no fault of the user's."""
        package = __name__.partition(".")[0]
        warnings.filterwarnings("ignore", category=TracerWarning, module=rf"{package}\.(?!jit)")


_C._jit_set_tracer_warning(TracerWarning)
TracerWarning.ignore_lib_warnings()


class TracingCheckError(Exception):
    def __init__(self, graph_diff_error, tensor_compare_error, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        if graph_diff_error is not None:
            self.message += "ERROR: Graphs differed across invocations!\n" + _indent(graph_diff_error) + "\n"
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This often indicates that the "
                "tracer has encountered untraceable code.\n" + _indent(tensor_compare_error) + "\n")
        super().__init__(self.message)


def _indent(text):
    return "\n".join("\t" + line for line in text.splitlines())


def is_tracing():
    return _C._is_tracing()


# --- names ---------------------------------------------------------------------------------------------------------

def _argument_names(fn):
    """Names of the parameters that can be given by position."""
    if isinstance(fn, functools.partial):
        return [name for name in _argument_names(fn.func)[len(fn.args):] if name not in fn.keywords]
    try:
        parameters = inspect.signature(fn.forward if isinstance(fn, Module) else fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _function_name(fn):
    if isinstance(fn, functools.partial):
        return _function_name(fn.func)
    name = getattr(fn, "__name__", type(fn).__name__)
    return "_lambda" if name == "<lambda>" else re.sub(r"\W", "_", name)


@functools.lru_cache(maxsize=None)
def _full_name(cls):
    package = cls.__module__
    if package == "__main__":
        package = ""
    elif package.startswith("taper."):
        package = "torch" + package[len("taper"):]
    name = re.sub(r"\W", "_", cls.__name__)
    return ".".join(["__torch__"] + ([package] if package else []) + [name])


def _as_tuple(inputs):
    if isinstance(inputs, (list, tuple)):
        return tuple(inputs)
    return (inputs,)


# --- modules -------------------------------------------------------------------------------------------------------

class TracedModule(ScriptModule):
    """A submodule of a traced module."""

    def _child_class(self):
        return TracedModule


class TopLevelTracedModule(TracedModule):
    """What trace gives for a module."""


class ONNXTracedModule(Module):
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.jit.ONNXTracedModule")


def _make_c_module(module):
    """The C module with the members of `module` and of those in it."""
    return _C._jit_make_module(module, _full_name, taken, ScriptModule)


# --- tracing -------------------------------------------------------------------------------------------------------

def _record_method(module, c_module, method, args, kwargs, strict, force_outplace):
    """The graph of one method of a module; submodules that it calls get methods of their own."""
    call = module if method == "forward" else getattr(module, method)
    names = _argument_names(module if method == "forward" else call)
    given, names = _with_keywords(call, args, kwargs, names)
    graph, _, _ = _C._jit_trace(given[0], given[1], tuple(names), c_module, module, ScriptModule, strict, force_outplace, False)
    c_module._define(method, graph)


def _with_keywords(call, args, kwargs, names):
    """(callable of positional arguments, arguments) and the names of these."""
    if not kwargs:
        return (call, args), names[:len(args)]
    for name in kwargs:
        if name not in names:
            raise NameError(f"'{name}' is not in forward() method's arguments. Valid arguments name are {names}")
    keys = [name for name in names if name in kwargs]
    return (lambda *values: call(**dict(zip(keys, values))), tuple(kwargs[key] for key in keys)), keys


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
                 _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
                 _store_inputs=True):
    """Traces the methods named in `inputs` into one module."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if isinstance(mod, ScriptModule):
        return mod
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    c_module = _make_c_module(mod)
    for method, example in inputs.items():
        args, kwargs = ((), example) if example_inputs_is_kwarg else (_as_tuple(example), None)
        _record_method(mod, c_module, method, args, kwargs, strict, _force_outplace)
    made = _wrap(c_module, TopLevelTracedModule)
    if check_trace:
        from ._check import check_trace as check

        for example in check_inputs if check_inputs is not None else [inputs]:
            if not isinstance(example, dict):
                example = {"forward": example}
            for method, values in example.items():
                call = mod if method == "forward" else getattr(mod, method)

                def again(arguments, method=method):
                    other = _make_c_module(mod)
                    args, kwargs = ((), arguments) if example_inputs_is_kwarg else (arguments, None)
                    _record_method(mod, other, method, args, kwargs, strict, _force_outplace)
                    return other._get_method(method), other

                check(values if example_inputs_is_kwarg else _as_tuple(values), call, c_module._get_method(method), again,
                      check_tolerance, c_module)
    return made


def _trace_function(func, args, kwargs, strict, force_outplace):
    name = qualified(func, _function_name(func))
    (call, args), names = _with_keywords(func, args, kwargs, _argument_names(func))
    graph, _, _ = _C._jit_trace(call, args, tuple(names), None, [], None, strict, force_outplace, False)
    return _C._create_function_from_graph(name, graph)


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
          _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """Runs `func` on the example and gives what replays its tensor operations."""
    if optimize is not None:
        warnings.warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
                      FutureWarning, stacklevel=2)
    if isinstance(func, ScriptModule):
        warnings.warn("The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.", stacklevel=2)
        return func
    is_kwarg = example_inputs is None
    if is_kwarg and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if is_kwarg and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    example = example_kwarg_inputs if is_kwarg else example_inputs
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and not isinstance(func, Module):
        if func.__name__ != "forward":
            raise AttributeError("trace doesn't support compiling individual module's functions.\nPlease use trace_module")
        func = owner
    if isinstance(func, Module):
        return trace_module(func, {"forward": example}, None, check_trace, _method_inputs(check_inputs), check_tolerance, strict,
                            _force_outplace, example_inputs_is_kwarg=is_kwarg)
    args, kwargs = ((), example) if is_kwarg else (_as_tuple(example), None)
    made = _trace_function(func, args, kwargs, strict, _force_outplace)
    if check_trace:
        from ._check import check_trace as check

        def again(arguments):
            given = ((), arguments) if is_kwarg else (arguments, None)
            return _trace_function(func, *given, strict, _force_outplace), None

        for inputs in check_inputs if check_inputs is not None else [example]:
            check(inputs if is_kwarg else _as_tuple(inputs), func, made, again, check_tolerance, None)
    return made


def _method_inputs(check_inputs):
    return None if check_inputs is None else [{"forward": inputs} for inputs in check_inputs]


def _unique_state_dict(module, keep_vars=False):
    """The state of a module, shared tensors under their first name only."""
    seen, state = set(), {}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            state[name] = value if keep_vars else value.detach()
    return state


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False, _return_inputs_states=False):
    """(graph, output): the flat graph of a call, parameters and buffers as its last inputs."""
    args = _as_tuple(args)
    names = _argument_names(f)[:len(args)]
    attributes = list(_unique_state_dict(f, keep_vars=True).items()) if isinstance(f, Module) else []
    call = functools.partial(f, **kwargs) if kwargs else f
    before = [value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, _C.Tensor) else value for value in args]
    graph, output, _ = _C._jit_trace(call, args, tuple(names), None, attributes, None, strict, _force_outplace, True)
    if not return_inputs:
        return graph, output
    return graph, output, tuple(before) + tuple(value.detach().clone() for _, value in attributes)


def _graph_for(self, *args, **kwargs):
    """The graph that runs: calls inlined, numbers that stood in tensors' places as numbers."""
    self(*args, **kwargs)
    graph = self.inlined_graph
    _C._jit_pass_constant_pooling(graph)
    return graph
