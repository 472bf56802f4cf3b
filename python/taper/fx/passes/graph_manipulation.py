"""Targets replaced, and the bytes of nodes."""
import typing

from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["replace_target_nodes_with", "size_bytes", "get_size_of_all_nodes", "get_tensor_meta", "get_size_of_node"]


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Makes every call of one thing a call of another."""
    graph = fx_module.graph
    for node in graph.nodes:
        if node.op == old_op and node.target == old_target:
            with graph.inserting_before(node):
                made = graph.create_node(new_op, new_target, node.args, node.kwargs, None, node.type)
            made.meta = node.meta.copy()
            node.replace_all_uses_with(made)
            name = node.name
            graph.erase_node(node)
            made.name = name
    graph.lint()


class size_bytes(typing.NamedTuple):
    """Bytes of what a node gives, and of that and what it owns."""
    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module, args=None):
    """Sets size_bytes of every node but the output; runs the module on `args` for their shapes."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node):
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return meta


def _bytes_of(meta):
    count = 1
    for size in meta.shape:
        count *= size
    return count * meta.dtype.itemsize


def get_size_of_node(fx_module, node):
    owned = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        owned = sum(p.numel() * p.dtype.itemsize for p in (*module.parameters(), *module.buffers()))
    meta = get_tensor_meta(node)
    size = _bytes_of(meta) if isinstance(meta, TensorMetadata) else sum(map(_bytes_of, meta))
    return size_bytes(size, owned + size)
