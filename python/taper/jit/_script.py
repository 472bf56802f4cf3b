"""ScriptModule: a module whose methods are graphs, with the members of an nn.Module."""
import copy
import os

from .. import _C, _facades
from ..nn.modules.module import Module
from ..nn.parameter import Parameter


# ---- What torch.jit remembers between calls: which names of classes are taken --------------------------------------
taken = {}      # qualified name -> how many classes have it; kept by _jit_make_module


def qualified(obj, name):
    """The name of a function or class in an archive hangs on its module."""
    if getattr(obj, "__module__", "") is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    return name


def _clear_class_state():
    taken.clear()


# ---- Modules ---------------------------------------------------------------------------------------------------------
_PARAMETER, _BUFFER, _MODULE, _ATTRIBUTE = range(4)


class _Members(dict):
    """A dict of parameters or buffers whose entries are slots of the C module: what is set here runs there."""

    def __init__(self, c_module, role):
        self._c_module, self._role = c_module, role

    def __setitem__(self, name, value):
        self._c_module._set(name, self._role, value)
        super().__setitem__(name, value)

    def __delitem__(self, name):
        raise RuntimeError(f"cannot delete '{name}' of a ScriptModule: its graphs read it")

    def __deepcopy__(self, memo):
        return dict(copy.deepcopy(list(self.items()), memo))

    def copy(self):
        return dict(self)


class _Submodules(dict):
    def __delitem__(self, name):
        raise RuntimeError("cannot re-assign modules in a ScriptModule, tried to replace existing module '" + name + "'")


def _wrap(c_module, cls=None, name=None):
    """The Python object of a C module and, below it, those of its submodules."""
    module = (cls or RecursiveScriptModule).__new__(cls or RecursiveScriptModule)
    module._adopt(c_module, name)
    return module


def _cannot_add(what, name):
    return RuntimeError(f"Can't add a new {what} after ScriptModule construction. Tried to add '{name}'")


class ScriptModule(Module):
    """The common face of traced and loaded modules."""

    def __init__(self):
        raise NotImplementedError("torch.jit.ScriptModule: Taper has no script compiler; modules come from trace and load")

    def _adopt(self, c_module, name=None):
        Module.__init__(self)
        own = self.__dict__
        own["_c"] = c_module
        own["original_name"] = name or str(c_module._type()).rpartition(".")[2]
        own["_parameters"] = _Members(c_module, _PARAMETER)
        own["_buffers"] = _Members(c_module, _BUFFER)
        own.pop("_modules", None)
        own["_submodules"] = None
        for slot, role, value in c_module._members():
            if role == _PARAMETER and not isinstance(value, Parameter):
                own["_parameters"][slot] = Parameter(value.detach(), requires_grad=value.requires_grad)
            elif role in (_PARAMETER, _BUFFER):
                dict.__setitem__(own["_parameters" if role == _PARAMETER else "_buffers"], slot, value)
            elif slot == "training":
                own["training"] = value
        return self

    def _child_class(self):
        return RecursiveScriptModule

    @property
    def _modules(self):
        """Objects of submodules are made when first asked for: a trace of a thousand layers mostly never is."""
        own = self.__dict__
        if own.get("_submodules") is None:
            made = _Submodules()
            if "_c" in own:
                for slot, role, value in own["_c"]._slots():
                    if role == _MODULE:
                        dict.__setitem__(made, slot, _wrap(value, self._child_class()))
            own["_submodules"] = made
        return own["_submodules"]

    @_modules.setter
    def _modules(self, value):
        raise RuntimeError("the submodules of a ScriptModule cannot be replaced")

    def __getattr__(self, name):
        c_module = self.__dict__.get("_c")
        if c_module is not None:
            if c_module._has_method(name):
                return c_module._get_method(name)
            if name != "_modules" and name in self._modules:
                return self._modules[name]
            for slot, role, value in c_module._members():
                if slot == name and role == _ATTRIBUTE:
                    return value
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(f"'RecursiveScriptModule' object has no attribute '{name}'") from None

    def __setattr__(self, name, value):
        if name == "training" and "_c" in self.__dict__:
            self._c._set(name, _ATTRIBUTE, value)
        if isinstance(value, Module) and name in self._modules:
            raise RuntimeError(f"Cannot re-assign modules in a ScriptModule, tried to replace existing module '{name}': {value}")
        own = self.__dict__
        if "_c" not in own:
            super().__setattr__(name, value)
        elif isinstance(value, Parameter) and name in own["_parameters"]:
            own["_parameters"][name] = value
        elif isinstance(value, (Parameter, Module)):
            raise _cannot_add("module" if isinstance(value, Module) else "parameter", name)
        else:
            super().__setattr__(name, value)

    def register_parameter(self, name, param):
        if "_c" in self.__dict__ and name not in self._parameters:
            raise _cannot_add("parameter", name)
        super().register_parameter(name, param)

    def register_buffer(self, name, tensor, persistent=True):
        if "_c" in self.__dict__ and name not in self._buffers:
            raise _cannot_add("buffer", name)
        super().register_buffer(name, tensor, persistent)

    def add_module(self, name, module):
        raise _cannot_add("module", name)

    register_module = add_module

    def __delattr__(self, name):
        if name in self._parameters or name in self._buffers:
            raise RuntimeError(f"cannot delete '{name}' of a ScriptModule: its graphs read it")
        super().__delattr__(name)

    def forward(self, *args, **kwargs):
        return self._c._get_method("forward")(*args, **kwargs)

    def __getattribute__(self, name):
        if name == "forward":
            c_module = object.__getattribute__(self, "__dict__").get("_c")
            if c_module is not None and c_module._has_method("forward"):
                return c_module._get_method("forward")
        return super().__getattribute__(name)

    @property
    def graph(self):
        return self._c._get_method("forward").graph

    @property
    def inlined_graph(self):
        return self._c._get_method("forward").inlined_graph

    @property
    def code(self):
        return self._c._get_method("forward").code

    def graph_for(self, *args, **kwargs):
        return self._c._get_method("forward").graph_for(*args, **kwargs)

    def save(self, f, **kwargs):

        return save(self, f, **kwargs)

    def _get_name(self):
        return self.original_name

    def extra_repr(self):
        return f"original_name={self.original_name}"

    def __copy__(self):
        return _wrap(self._c, type(self), self.original_name)

    def __deepcopy__(self, memo):
        return _wrap(_copy_module(self._c, memo), type(self), self.original_name)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("ScriptModules cannot be deepcopied using copy.deepcopy or saved using torch.save. Mixed serialization "
                           "of script and non-script modules is not supported. For purely script modules use my_script_module.save(<filename>) instead.")


def _copy_module(c_module, memo):
    """A C module with tensors of its own; graphs are shared, since they never change."""
    known = memo.get(("jit", c_module))
    if known is not None:
        return known
    made = memo[("jit", c_module)] = _C.ScriptModule(str(c_module._type()))
    for name, role, value in c_module._slots():
        made._set(name, role, _copy_module(value, memo) if role == _MODULE else copy.deepcopy(value, memo))
    for name in c_module._method_names():
        made._define(name, c_module._get_method(name).graph)
    return made


class RecursiveScriptModule(ScriptModule):
    """A module read from an archive, or a part of one."""


def script(obj, *args, **kwargs):
    if isinstance(obj, (ScriptModule, _C.ScriptFunction)):
        return obj
    name = getattr(obj, "__name__", type(obj).__name__)
    qualified(obj, "_lambda" if name == "<lambda>" else name)
    raise NotImplementedError("torch.jit.script: Taper has no script compiler yet; use torch.jit.trace")


def script_method(fn):
    raise NotImplementedError("torch.jit.script_method: Taper has no script compiler yet")


def interface(obj):
    raise NotImplementedError("torch.jit.interface: Taper has no script compiler yet")


def freeze(mod, *args, **kwargs):
    raise NotImplementedError("torch.jit.freeze")


def optimize_for_inference(mod, *args, **kwargs):
    raise NotImplementedError("torch.jit.optimize_for_inference")


class CompilationUnit:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.jit.CompilationUnit: Taper has no script compiler yet")


def export(fn):
    fn._torchscript_modifier = "export"
    return fn


def ignore(drop=False, **kwargs):
    def mark(fn):
        fn._torchscript_modifier = "ignore"
        return fn
    return mark(drop) if callable(drop) else mark


def unused(fn):
    fn._torchscript_modifier = "unused"
    return fn


def annotate(the_type, the_value):
    return the_value


# ---- torch.jit.save and load: TorchScript archives -----------------------------------------------------------------
def save(m, f, _extra_files=None):
    """Writes a module or function to a path or a file."""
    if _extra_files:
        raise NotImplementedError("torch.jit.save: _extra_files")
    what = m._c if isinstance(m, ScriptModule) else m
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        _C._jit_save(what, path, os.path.splitext(os.path.basename(path))[0] or "archive")
    else:
        _C._jit_save(what, f, "archive")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads what save wrote, here or with PyTorch."""
    if _extra_files:
        raise NotImplementedError("torch.jit.load: _extra_files")
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if not os.path.exists(path):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(path):
            raise ValueError(f"The provided filename {f} is a directory")
        c_module = _C._jit_load(path)
    else:
        c_module = _C._jit_load(f.read())
    if map_location is not None and str(map_location) != "cpu":
        raise NotImplementedError(f"torch.jit.load: map_location={map_location!r}; tensors live on the CPU")
    return _wrap(c_module, RecursiveScriptModule)


_facades.settle(__name__)
