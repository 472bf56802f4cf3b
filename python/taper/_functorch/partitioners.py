"""How a joint graph becomes a forward and a backward one. The work is done in C (src/aot/partition.c)."""
from .. import _C
from ..fx import GraphModule


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None):
    """The forward computes its results and hands over everything that the backward reads of it."""
    forward, backward, _, _ = _C._aot_partition(joint_module.graph, num_fwd_outputs)
    return GraphModule(joint_module, forward), GraphModule(joint_module, backward)


def min_cut_rematerialization_partition(joint_module, _joint_inputs, compiler="inductor", *, num_fwd_outputs, static_lifetime_input_indices=None):
    """Saves as little as recomputing cheap operations allows."""
    raise NotImplementedError("min_cut_rematerialization_partition: Taper does not have it yet; default_partition saves everything")
