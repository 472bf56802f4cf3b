"""What a back end supports, node by node."""
import abc

from .shape_prop import TensorMetadata
from .tools_common import get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "OpSupports", "any_chain"]

_CALLS = ("call_module", "call_function", "call_method")


class OperatorSupportBase(abc.ABC):
    """Says of a node whether it is supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """By the name of what is called, and the dtypes of its inputs where they are given."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        if node.op not in _CALLS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        positional, keywords = self._support_dict[target]
        for i, dtypes in enumerate(positional):
            if len(node.args) <= i:
                break
            if hasattr(node.args[i], "op") and _get_arg_dtype(node.args[i]) not in dtypes:
                return False
        return not any(hasattr(node.kwargs[name], "op") and _get_arg_dtype(node.kwargs[name]) not in dtypes
                       for name, dtypes in keywords.items() if name in node.kwargs)


def create_op_support(is_node_supported):
    """An OperatorSupportBase of a function."""
    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return is_node_supported(submodules, node)
    return FunctionalOperatorSupport()


def chain(*op_support):
    """Supported when all say so."""
    return create_op_support(lambda submodules, node: all(one.is_node_supported(submodules, node) for one in op_support))


def any_chain(*op_support):
    """Supported when one says so."""
    return create_op_support(lambda submodules, node: any(one.is_node_supported(submodules, node) for one in op_support))


class OpSupports:
    """Rules that are often needed."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        return create_op_support(lambda submodules, node: all(_get_arg_dtype(read) != dtype for read in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _get_arg_dtype(arg):
    meta = arg.meta.get("tensor_meta")
    if isinstance(meta, TensorMetadata):
        return meta.dtype
    if meta is None and "val" in arg.meta:
        return arg.meta["val"].dtype
    return arg.meta["type"]
