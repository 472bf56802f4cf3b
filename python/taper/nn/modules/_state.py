"""state_dict: what a module saves, and how it takes it back."""
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from ..._root import torch
from ..parameter import Parameter, is_lazy
from ._hooks import _add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_PUBLIC_NAME = __name__.rpartition(".")[0] + ".module"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __module__ = _PUBLIC_NAME
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"

    __str__ = __repr__


class _WrappedHook:
    """A hook that gets the module as its first argument, without keeping it alive."""

    __module__ = _PUBLIC_NAME

    def __init__(self, hook, module=None):
        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if self.with_module else None
        for name in ("__name__", "__doc__"):
            if hasattr(hook, name):
                setattr(self, name, getattr(hook, name))

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.__init__(state["hook"], state.get("module"))


def _quoted(keys):
    return ", ".join(f'"{key}"' for key in keys)


class ModuleState:
    """The part of Module that saves and loads."""

    def register_state_dict_pre_hook(self, hook):
        return _add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """The hook may edit the dictionary in place; unlike that of _register_state_dict_hook it returns None."""
        hook._from_public_api = True
        return _add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _add_hook(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook):
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        return _add_hook(self._load_state_dict_post_hooks, hook)

    def get_extra_state(self):
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
        )

    def set_extra_state(self, state):
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
        )

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given["destination"] if destination is None else destination
            prefix = prefix or given.get("prefix", "")
            keep_vars = keep_vars or given.get("keep_vars", False)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if replaced is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replaced is not None:
                destination = replaced
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in self._saved_members():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _saved_members(self):
        members = list(self._parameters.items())
        members += [item for item in self._buffers.items() if item[0] not in self._non_persistent_buffers_set]
        return [(name, value) for name, value in members if value is not None]

    def load_state_dict(self, state_dict, strict=True, assign=False):
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        self._load_tree(state_dict, "", metadata or {}, assign, missing, unexpected, errors)
        if strict:
            texts = []
            if missing:
                texts.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
            if unexpected:
                texts.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            errors = texts + errors
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_tree(self, state_dict, prefix, metadata, assign, missing, unexpected, errors):
        local = metadata.get(prefix[:-1], {})
        if assign:
            local["assign_to_params_buffers"] = assign
        # Keys of every level are gathered whatever `strict` says: it decides only whether they are an error.
        self._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                part = {key: value for key, value in state_dict.items() if key.startswith(path)}
                child._load_tree(part, path, metadata, assign, missing, unexpected, errors)
        keys = _IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._saved_members())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_member(name, key, value, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        takes_extra = type(self).set_extra_state is not ModuleState.set_extra_state
        if takes_extra:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    name, _, deeper = key[len(prefix):].partition(".")
                    if name not in (self._modules if deeper else own):
                        unexpected_keys.append(key)

    def _load_member(self, name, key, value, loaded, assign, error_msgs):
        if not isinstance(loaded, torch.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(loaded)}"
            )
            return
        lazy = is_lazy(value)
        if not lazy and value.dim() == 0 and loaded.dim() == 1 and loaded.shape[0] == 1:
            loaded = loaded[0]  # scalars were saved as one element before tensors could be 0-dimensional
        if not lazy and loaded.shape != value.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {loaded.shape} from checkpoint, the shape in "
                f"current model is {value.shape}."
            )
            return
        if value.is_meta and not loaded.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with torch.no_grad():
                if not assign:
                    value.copy_(loaded)
                    return
                if isinstance(value, Parameter):
                    if isinstance(loaded, Parameter):
                        loaded.requires_grad_(value.requires_grad)
                    else:
                        loaded = Parameter(loaded, requires_grad=value.requires_grad)
                setattr(self, name, loaded)
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {value.size()} and '
                f"whose dimensions in the checkpoint are {loaded.size()}, an exception occurred : {error.args}."
            )
