"""How a joint graph becomes a forward and a backward one. The work is done in C (src/aot/partition.c)."""
from .. import _C
from ..fx import GraphModule


def _split(joint_module, count, thrifty):
    forward, backward, _, _ = _C._aot_partition(joint_module.graph, count, thrifty)
    return GraphModule(joint_module, forward), GraphModule(joint_module, backward)


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None):
    """The forward computes its results and hands over everything that the backward reads of it."""
    return _split(joint_module, num_fwd_outputs, False)


def min_cut_rematerialization_partition(joint_module, _joint_inputs, compiler="inductor", *, num_fwd_outputs, static_lifetime_input_indices=None):
    """As few bytes as can be are handed over: what runs over elements once is computed again in the backward."""
    return _split(joint_module, num_fwd_outputs, True)
