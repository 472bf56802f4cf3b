import operator

from said import attempt, case, say

import torch
import torch.fx as fx
import torch.nn as nn
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint, pass_result_wrapper
from torch.fx.passes.operator_support import OperatorSupportBase, OperatorSupport, create_op_support, chain, any_chain, OpSupports
from torch.fx.passes.tools_common import get_node_target, legalize_graph, stable_topological_sort, is_node_output_tensor
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition, topo_sort
import torch.fx.passes.pass_manager as old
import torch.fx.passes.graph_manipulation as gmn
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions
class S(OperatorSupportBase):
    def is_node_supported(self, subs, node): return node.op == "call_function" and node.target in (torch.add, torch.neg, operator.getitem)
def f(x, y):
    a = torch.add(x, y); b = torch.neg(a); c = torch.exp(b); d = torch.add(c, a); e = torch.neg(d); f = torch.chunk(e, 2); g = f[0]; h = f[1]; return torch.add(g, h), torch.neg(y), b
@case
def partition():
    gm = fx.symbolic_trace(f)
    for kw in ({}, {"allows_single_node_partition": True}, {"non_compute_ops": ["_operator.getitem", "torch.neg"]}, {"allowed_single_node_partition_ops": ["torch.neg"]}, {"skip_horizontal_fusion": True}, {"skip_horizontal_fusion": True, "allows_single_node_partition": True}):
        p = CapabilityBasedPartitioner(gm, S(), **kw); ps = p.propose_partitions()
        say(kw, [(x.id, list(x.nodes), x.size()) for x in ps], ps)
    p = CapabilityBasedPartitioner(gm, S(), allows_single_node_partition=True)
    ps = p.propose_partitions(); r = p.fuse_partitions(ps); say(r.code)
    for n, c in r.named_children(): say(n, c.code, type(c).__name__)
    say(r is gm, r.graph)
    p = CapabilityBasedPartitioner(fx.symbolic_trace(f), S()); r = p.partition_and_fuse(prefix="zz_"); say(r.code)
    p = CapabilityBasedPartitioner(fx.symbolic_trace(f), S(), non_compute_ops=["_operator.getitem", "torch.neg"]); ps = p.propose_partitions(); p.remove_bookend_non_compute_ops(ps); say([(x.id, list(x.nodes)) for x in ps])
    q = Partition(3, list(gm.graph.nodes)[2:4]); say(q, q.size()); q.add_node(list(gm.graph.nodes)[4]); q.remove_node(list(gm.graph.nodes)[2]); say(q.nodes)
@case
def fuse():
    gm = fx.symbolic_trace(f); ns = {n.name: n for n in gm.graph.nodes}
    say(validate_partition([ns["add"], ns["neg"]]), validate_partition([ns["add"], ns["add_1"]]))
    attempt(fuse_by_partitions, gm, [{ns["add"]: None, ns["add_1"]: None}])
    gm = fx.symbolic_trace(f); ns = {n.name: n for n in gm.graph.nodes}
    attempt(lambda: fuse_by_partitions(gm, [{ns["add"]: None, ns["neg"]: None}, {ns["getitem"]: None, ns["getitem_1"]: None}]).code); say(gm.code); say(gm.fused_0.code, gm.fused_1.code)
    gm = fx.symbolic_trace(f); ns = {n.name: n for n in gm.graph.nodes}
    say(topo_sort([ns["add_1"], ns["add"], ns["neg"], ns["exp"]])); 
@case
def manager():
    def p1(gm): say("p1"); return PassResult(gm, False)
    def p2(gm):
        say("p2"); ch = False
        for n in gm.graph.nodes:
            if n.target == torch.neg: n.target = torch.sin; ch = True
        gm.recompile(); return PassResult(gm, ch)
    def bad(gm): return gm
    class P(PassBase):
        def requires(self, gm): say("requires")
        def ensures(self, gm): say("ensures")
        def call(self, gm): say("call"); return PassResult(gm, True)
    pm = PassManager(passes=[p2, p1, P()], constraints=[this_before_that_pass_constraint(p1, p2)], steps=2)
    say([getattr(p, "__name__", type(p).__name__) for p in pm.passes])
    r = pm(fx.symbolic_trace(f)); say(type(r).__name__, r.modified, r.graph_module.code); say([getattr(p, "__name__", type(p).__name__) for p in pm.passes])
    attempt(PassManager(passes=[bad]), fx.symbolic_trace(f))
    pm = PassManager(passes=[p2, p1], constraints=[this_before_that_pass_constraint(p1, p2)]); attempt(pm.validate_constraints)
    pm.solve_constraints(); say([p.__name__ for p in pm.passes])
    pm = PassManager(passes=[p2, p1], constraints=[this_before_that_pass_constraint(p1, p2), this_before_that_pass_constraint(p2, p1)]); attempt(pm.solve_constraints)
    def raises(gm): raise ValueError("oops")
    attempt(PassManager(passes=[raises]), fx.symbolic_trace(f))
    def check(gm): say("check")
    pm = PassManager(passes=[p1], run_checks_after_each_pass=True); pm.add_checks(check); pm(fx.symbolic_trace(f))
    attempt(pm.add_checks, lambda a, b: 1); attempt(PassManager(passes=[p1]), 3)
    attempt(lambda: pass_result_wrapper(lambda g: None)(fx.symbolic_trace(f))); attempt(lambda: PassBase()); say(pass_result_wrapper(p1) is p1, PassManager().steps)
    pm = PassManager(); pm.add_pass(p1); pm.add_constraint(this_before_that_pass_constraint(p1, p2)); pm.add_pass(p2); say(len(pm.passes)); say(pm(fx.symbolic_trace(f)).modified)
@case
def oldmanager():
    def a(x): return x + [1]
    def b(x): return x + [2]
    pm = old.PassManager(passes=[a, b]); say(pm([])); pm.add_constraint(old.this_before_that_pass_constraint(b, a)); attempt(pm.validate)
    pm = old.PassManager.build_from_passlist([a, b]); say(pm([])); say(old.loop_pass(a, n_iter=3)([])); say(old.loop_pass(a, predicate=lambda x: len(x) < 5)([])); attempt(old.loop_pass, a); pm.remove_pass(["a"]); say(pm([])); pm.replace_pass(b, a); say(pm([]))
    say(old.inplace_wrapper(lambda x: x.append(3))([]))
    attempt(pm)
@case
def support():
    class M(nn.Module):
        def __init__(s): super().__init__(); s.lin = nn.Linear(2, 2)
        def forward(s, x): return torch.relu(s.lin(x)).neg() + 1
    gm = fx.symbolic_trace(M()); subs = dict(gm.named_modules())
    for n in list(gm.graph.nodes)[1:-1]: attempt(get_node_target, subs, n)
    ShapeProp(gm).propagate(torch.ones(1, 2))
    o = OperatorSupport({"torch.relu": None, "torch.nn.modules.linear.Linear": (((torch.float32,),), {}), "neg": (((torch.int64,),), {})})
    say([(n.name, o.is_node_supported(subs, n)) for n in gm.graph.nodes])
    c = create_op_support(lambda s, n: n.op == "call_module"); say([c.is_node_supported(subs, n) for n in gm.graph.nodes], [chain(c, o).is_node_supported(subs, n) for n in gm.graph.nodes], [any_chain(c, o).is_node_supported(subs, n) for n in gm.graph.nodes])
    d = OpSupports.decline_if_input_dtype(torch.float32); say([d.is_node_supported(subs, n) for n in gm.graph.nodes]); d = OpSupports.decline_if_node_in_names({"relu"}); say([d.is_node_supported(subs, n) for n in gm.graph.nodes])
    say([is_node_output_tensor(n) for n in gm.graph.nodes])
@case
def orders():
    gm = fx.symbolic_trace(f); ns = {n.name: n for n in gm.graph.nodes}
    ns["x"].append(ns["neg_1"]); ns["exp"].append(ns["neg"]); say(list(gm.graph.nodes)); legalize_graph(gm); say(list(gm.graph.nodes)); gm.graph.lint()
    gm = fx.symbolic_trace(f); ns = {n.name: n for n in gm.graph.nodes}
    ns["exp"].append(ns["neg"]); ns["x"].append(ns["neg_2"]); say(list(gm.graph.nodes)); stable_topological_sort(gm); say(list(gm.graph.nodes)); gm.graph.lint()
    g = fx.Graph(); x = g.placeholder("x"); a = g.call_function(torch.neg, (x,)); b = g.call_function(torch.neg, (a,)); a.args = (b,); g.output(b); gm = fx.GraphModule(nn.Module(), g)
    attempt(legalize_graph, gm); attempt(stable_topological_sort, gm)
@case
def manip():
    class M(nn.Module):
        def __init__(s): super().__init__(); s.lin = nn.Linear(2, 2)
        def forward(s, x): return torch.relu(s.lin(x)) + 1
    gm = fx.symbolic_trace(M()); gmn.get_size_of_all_nodes(gm, [torch.ones(1, 2)]); say([(n.name, n.size_bytes) for n in gm.graph.nodes if n.op != "output"])
    gmn.replace_target_nodes_with(gm, "call_function", torch.relu, "call_function", torch.neg); gm.recompile(); say(gm.code); attempt(gmn.get_tensor_meta, list(gm.graph.nodes)[1]); attempt(gmn.get_tensor_meta, fx.Graph().placeholder("q"))
    gm = fx.symbolic_trace(M()); from torch._subclasses.fake_tensor import FakeTensorMode; FakeTensorProp(gm, FakeTensorMode(allow_non_fake_inputs=True)).propagate(torch.ones(1, 2)); say([(n.name, n.meta.get("val").shape if hasattr(n.meta.get("val"), "shape") else n.meta.get("val")) for n in gm.graph.nodes])
@case
def cse():
    def g(x): return torch.ops.aten.add.Tensor(torch.ops.aten.neg.default(x), torch.ops.aten.neg.default(x)), torch.ops.aten.rand_like.default(x), torch.ops.aten.rand_like.default(x)
    gm = fx.symbolic_trace(g); r = CSEPass()(gm); say(r.modified, r.graph_module.code); r = CSEPass()(r.graph_module); say(r.modified)
    r = CSEPass(banned_ops={torch.ops.aten.neg})(fx.symbolic_trace(g)); say(r.modified); r = CSEPass(banned_ops=get_CSE_banned_ops())(fx.symbolic_trace(g)); say(r.modified, r.graph_module.code)
@case
def source():
    class M(nn.Module):
        def __init__(s): super().__init__(); s.lin = nn.Linear(2, 2); s.lin2 = nn.Linear(2, 2)
        def forward(s, x): return torch.relu(s.lin2(s.lin(x)))
    gm = fx.symbolic_trace(M()); r = get_source_partitions(gm.graph, [nn.Linear, torch.relu]); say(r)
