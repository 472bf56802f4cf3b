"""ModuleTracker: which modules are at work, forward and backward."""
import weakref

from .. import _C
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """`parents` are the full names of the modules at work, "Global" always among them."""

    def __init__(self):
        self.parents = {"Global"}
        self.is_bw = False
        self._names = weakref.WeakKeyDictionary()
        self._seen = weakref.WeakSet()
        self._handles = ()

    def _name(self, module):
        """The name below the outermost module that was met first."""
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        if module not in self._seen:
            for child, inner in module.named_children():
                self._names[inner] = f"{name}.{child}"
                self._name(inner)
            self._seen.add(module)
        return name

    def _watch(self, values, change, name):
        def hook(grad):
            self.is_bw = True
            change(name)

        for x in tree_leaves(values):
            if isinstance(x, _C.Tensor) and x.requires_grad and _C.is_grad_enabled():
                x.register_hook(hook)

    def _before(self, module, inputs):
        if self.is_bw:                          # a backward that is over leaves behind the modules whose inputs need no gradient
            self.parents, self.is_bw = {"Global"}, False
        name = self._name(module)
        self.parents.add(name)
        self._watch(inputs, self.parents_discard, name)

    def _after(self, module, inputs, output):
        name = self._name(module)
        self.parents.discard(name)
        self._watch(output, self.parents_add, name)

    def parents_add(self, name):
        self.parents.add(name)

    def parents_discard(self, name):
        self.parents.discard(name)

    def __enter__(self):
        from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = (register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after))
        return self

    def __exit__(self, *error):
        for handle in self._handles:
            handle.remove()
        self.parents, self.is_bw = {"Global"}, False
