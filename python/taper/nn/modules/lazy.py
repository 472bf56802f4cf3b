"""Modules that learn the shape of their parameters from their first input."""
from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Put before Module among the bases.

    The subclass registers uninitialised parameters and gives `initialize_parameters(*input)`, which materialises them.
    It runs before the first forward; then the module turns into `cls_to_become`.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in self._saved_members():
            # Uninitialised tensors cannot be detached; they are saved as they are.
            destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Gives uninitialised tensors the shape of what is about to be copied into them."""
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            loaded = state_dict.get(prefix + name)
            if value is not None and loaded is not None and is_lazy(value) and not is_lazy(loaded):
                from ..._root import torch

                with torch.no_grad():
                    value.materialize(loaded.shape)

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self):
        return any(is_lazy(value) for value in [*self._parameters.values(), *self._buffers.values()])

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {self._get_name()} has not been fully initialized"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
