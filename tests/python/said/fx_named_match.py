"""A pattern that names nodes."""
from said import say

import torch
import torch.fx as fx
from torch.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap


class Pattern(torch.nn.Module):
    def forward(self, x, y):
        a = torch.add(x, y)
        b = torch.relu(a)
        return b, {"sum": a, "relu": b}


class Program(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(torch.add(x, y)) + torch.relu(torch.add(y, x)) + torch.add(x, 1)


def exported(module):
    return torch.export.export(module, (torch.ones(2), torch.ones(2))).module()


matcher = SubgraphMatcherWithNameNodeMap(exported(Pattern()))
for match in matcher.match(exported(Program()).graph):
    say(match.name_node_map, match.returning_nodes, match.placeholder_nodes)
