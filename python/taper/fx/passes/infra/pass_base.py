"""A pass over graph modules, and what it gives."""
import abc
import collections

__all__ = ["PassResult", "PassBase"]


class PassResult(collections.namedtuple("PassResult", ["graph_module", "modified"])):
    """The module and whether the pass changed it."""
    __slots__ = ()


class PassBase(abc.ABC):
    """A pass: what it requires of a module, what it does, what it ensures."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """The pass itself: gives a PassResult or None."""

    def requires(self, graph_module):
        """Raises when the pass cannot run on this module."""

    def ensures(self, graph_module):
        """Raises when the pass left the module as it must not be."""
