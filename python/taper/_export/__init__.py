"""What export is made of, under the names programs know."""


def capture_pre_autograd_graph(f, args, kwargs=None, dynamic_shapes=None):
    """The module's graph as a module: in-place operations as they were called."""
    from ..export._trace import _export_for_training
    return _export_for_training(f, args, kwargs, dynamic_shapes).module()
