"""Looking state up in exported programs; dataclasses as nodes of pytrees."""
import dataclasses

from ..utils import _pytree as pytree


def is_param(program, node):
    """Is this placeholder a parameter?"""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    """The parameter of a placeholder; None where it is none."""
    name = program.graph_signature.inputs_to_parameters.get(node.name)
    return None if name is None else program.state_dict[name]


def is_buffer(program, node):
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    name = program.graph_signature.inputs_to_buffers.get(node.name)
    if name is None:
        return None
    return program.constants[name] if name in program.graph_signature.non_persistent_buffers else program.state_dict[name]


def is_lifted_tensor_constant(program, node):
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    name = program.graph_signature.inputs_to_lifted_tensor_constants.get(node.name)
    return None if name is None else program.constants[name]


def register_dataclass_as_pytree_node(cls, flatten_fn=None, unflatten_fn=None, *, serialized_type_name=None, to_dumpable_context=None,
                                      from_dumpable_context=None, return_none_fields=False):
    """Fields are children in order of declaration; those that are None are left out unless asked for."""
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")

    def flatten(obj):
        children, names, absent = [], [], []
        for field in dataclasses.fields(obj):
            value = getattr(obj, field.name, None)
            if value is not None or return_none_fields:
                children.append(value)
                names.append(field.name)
            else:
                absent.append(field.name)
        return children, [names, absent]

    def unflatten(values, context):
        names, absent = context
        return cls(**dict(zip(names, values)), **dict.fromkeys(absent))

    def flatten_with_keys(obj):
        children, context = (flatten_fn or flatten)(obj)
        return [(pytree.MappingKey(name), value) for name, value in zip(context[0], children)], context

    pytree.register_pytree_node(cls, flatten_fn or flatten, unflatten_fn or unflatten, serialized_type_name=serialized_type_name,
                                flatten_with_keys_fn=flatten_with_keys, to_dumpable_context=to_dumpable_context,
                                from_dumpable_context=from_dumpable_context)
