"""Partitions of random graphs, and what fusing them gives."""
import random

from said import say

import torch
import torch.fx as fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support


def grown(seed, count):
    choose, graph = random.Random(seed), fx.Graph()
    nodes = [graph.placeholder(name) for name in "xyz"]
    for _ in range(count):
        function = choose.choice([torch.add, torch.neg, torch.neg, torch.exp, torch.exp])
        given = tuple(choose.choice(nodes[-12:]) for _ in range(2 if function is torch.add else 1))
        nodes.append(graph.call_function(function, given))
    graph.output(tuple(node for node in nodes if not node.users))
    return fx.GraphModule(torch.nn.Module(), graph)


support = create_op_support(lambda modules, node: node.op == "call_function" and node.target in (torch.add, torch.neg))
for seed in range(60):
    module = grown(seed, 10 + seed % 50)
    for single in (True, False):
        partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=single)
        say(seed, [(one.id, list(one.nodes)) for one in partitioner.propose_partitions()])
    fused = partitioner.partition_and_fuse()
    fused.graph.lint()
    say([node.name for node in fused.graph.nodes])
