"""fill_uninitialized_memory: whether empty(), resize_() and their like fill new memory while deterministic algorithms are on.

With nan where the type has it, with the largest integer or True elsewhere. On, unless a program sets it."""
import sys
import types

from .. import _C


class _Settings(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        return _C._get_filling()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        _C._set_filling(mode)


sys.modules[__name__].__class__ = _Settings
