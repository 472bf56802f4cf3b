"""Programs taken out of Python: export, ExportedProgram, save and load."""
from ..utils import _pytree as pytree
from . import dynamic_shapes, exported_program, graph_signature
from .dynamic_shapes import Constraint, Dim, ShapesCollection, dims, dynamic_dim
from .exported_program import (CallSpec, ExportedProgram, ModuleCallEntry, ModuleCallSignature,
                               default_decompositions)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature

__all__ = [
    "Constraint", "Dim", "CallSpec", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry",
    "ModuleCallSignature", "ShapesCollection", "default_decompositions", "dims", "dynamic_dim", "export", "export_for_training", "load",
    "register_dataclass", "save", "unflatten",
]


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=True, preserve_module_call_signature=()):
    """The whole forward of a module, called with these inputs, as one graph of ATen ops without writes. Both values of `strict` mean the
    same tracer, which runs forward with stand-ins for tensors."""
    from ._trace import _export
    return _export(mod, args, kwargs, dynamic_shapes, strict=strict, preserve_module_call_signature=preserve_module_call_signature,
                   pre_dispatch=True)


def export_for_training(mod, args, kwargs=None, *, dynamic_shapes=None, strict=True, preserve_module_call_signature=()):
    """The same with in-place operations as they were called."""
    from ._trace import _export_for_training
    return _export_for_training(mod, args, kwargs, dynamic_shapes, strict=strict, preserve_module_call_signature=preserve_module_call_signature)


def unflatten(module, flat_args_adapter=None):
    raise NotImplementedError("unflatten is not implemented in Taper yet")


def register_dataclass(cls, *, serialized_type_name=None):
    """Instances of the dataclass nest in inputs and outputs, their fields being children."""
    from .._export.utils import register_dataclass_as_pytree_node
    return register_dataclass_as_pytree_node(cls, serialized_type_name=serialized_type_name)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a .pt2 file, a path or an open file."""
    if opset_version is not None or pickle_protocol != 2:
        raise NotImplementedError(f"export.save({'opset_version' if opset_version is not None else 'pickle_protocol'}=...) is not implemented in "
                                  "Taper yet")
    from ._pt2 import save
    return save(ep, f, extra_files)


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads a program that was saved, here or by PyTorch."""
    if expected_opset_version is not None:
        raise NotImplementedError("export.load(expected_opset_version=...) is not implemented in Taper yet")
    from ._pt2 import load
    return load(f, extra_files)
