from said import attempt, say

import torch
import torch.fx as fx
import torch.nn as nn
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher, InternalMatch
def t(name, pat, root, **kw):
    print("--", name)
    try:
        gm = fx.symbolic_trace(root); p = fx.symbolic_trace(pat)
        m = SubgraphMatcher(p.graph, **kw)
        say(m.pattern_anchors, m.pattern_placeholder_nodes, m.pattern_returning_nodes)
        for r in m.match(gm.graph): say(r.anchors, r.nodes_map, r.placeholder_nodes, r.returning_nodes, r.name_node_map)
    except BaseException as e: say("  raises", type(e).__name__, e)
def f(x):
    a = torch.relu(x); a = torch.relu(a); a = torch.relu(a); a = torch.relu(a); return torch.relu(a)
t("overlap", lambda x: torch.relu(torch.relu(x)), f, remove_overlapping_matches=False)
t("noverlap", lambda x: torch.relu(torch.relu(x)), f)
t("output", lambda x: torch.relu(x), f, match_output=True)
t("output2", f, f, match_output=True)
t("placeholder", lambda x: torch.relu(x), f, match_placeholder=True)
t("placeholder2", lambda x: torch.relu(x), f, match_placeholder=True, match_output=True)
t("op kwargs", lambda x, y: torch.ops.aten.add.Tensor(x, y, alpha=1), lambda p, q: torch.ops.aten.add.Tensor(p, q))
t("op kwargs2", lambda x, y: torch.ops.aten.add.Tensor(x, other=y), lambda p, q: torch.ops.aten.add.Tensor(p, q))
t("op kwargs3", lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda p, q: torch.ops.aten.add.Tensor(p, q, alpha=2))
t("op kwargs4", lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda p, q: torch.ops.aten.add.Tensor(p, q, alpha=1))
t("sum", lambda x: torch.sum(x, dim=1), lambda p: torch.sum(p, dim=1))
t("sum2", lambda x: torch.sum(x, dim=2), lambda p: torch.sum(p, dim=1))
t("lists", lambda x, y: torch.cat([x, [y]]), lambda p, q: torch.cat([p, q]))
t("empty", lambda x: x, f)
t("const out", lambda x: 3, f)
t("mixed", lambda x: (torch.relu(x), x), f)
t("no anchors", lambda x: (lambda a: (a, torch.neg(a)))(torch.relu(x)), lambda p: (lambda a: (a, torch.neg(a)))(torch.relu(p)))
t("None", lambda x: torch.clamp(x, None, 1), lambda p: torch.clamp(p, None, 1) + torch.clamp(p, 1, None))
t("ph None", lambda x, y: torch.clamp(x, y, 1), lambda p: torch.clamp(p, None, 1) + torch.clamp(p, 1, None))
t("same ph literal", lambda x, y: torch.clamp(x, y, y), lambda p: torch.clamp(p, 1, 1) + torch.clamp(p, 1, 2))
t("float int", lambda x: x + 1.0, lambda p: p + 1)
t("three anchors", lambda x: (torch.relu(x), torch.neg(x), torch.exp(x)), lambda p: torch.relu(p) + torch.neg(p) + torch.exp(p) + torch.exp(p))
t("two same", lambda x: (torch.relu(x), torch.relu(x)), lambda p: (torch.relu(p), torch.relu(p), torch.relu(p)))
t("two same2", lambda x, y: (torch.relu(x), torch.relu(y)), lambda p, q: (torch.relu(p), torch.relu(p), torch.relu(q)))
t("two same3", lambda x, y: (torch.relu(x), torch.relu(y)), lambda p, q: (torch.relu(p), torch.relu(p), torch.relu(q)), remove_overlapping_matches=False)
t("split", lambda x: torch.chunk(x, 2)[0], lambda p: torch.chunk(p, 2)[0])
g = fx.Graph(); x = g.placeholder("x"); r = g.call_function(torch.relu, (x,)); d = g.call_function(torch.neg, (x,)); g.output(r)
print("-- dead pattern")
attempt(lambda: SubgraphMatcher(g))
