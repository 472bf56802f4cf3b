import operator

from said import attempt, case, say

import torch
import torch.fx as fx
def g3():
    g = fx.Graph(); x = g.placeholder("x"); y = g.placeholder("y")
    a = g.call_function(torch.add, (x, y)); b = g.call_function(torch.mul, (a, a), {"out": None}); c = g.call_method("relu", (b,))
    o = g.output((c, [a])); return g, x, y, a, b, c, o
@case
def inserting():
    g, x, y, a, b, c, o = g3()
    with g.inserting_before(b) as q:
        say(q); g.call_function(torch.sin, (a,)); g.call_function(torch.cos, (a,))
    with g.inserting_after(b):
        g.call_function(torch.exp, (a,)); g.call_function(torch.log, (a,))
    with g.inserting_before():
        g.placeholder("first")
    with g.inserting_after():
        g.call_function(torch.tan, (a,))
    g.inserting_before(a)
    g.call_function(torch.relu, (x,))
    say(g)
    h = fx.Graph(); z = h.placeholder("z")
    attempt(g.inserting_before, z); attempt(g.inserting_after, z)
    attempt(g.inserting_before, None)
@case
def rauw():
    g, x, y, a, b, c, o = g3()
    a.meta["k"] = 1
    with g.inserting_after(a): n = g.call_function(torch.neg, (a,))
    r = a.replace_all_uses_with(n, delete_user_cb=lambda u: u is not n, propagate_meta=True)
    say(r, n.meta, a.users, n.users); say(g)
    attempt(a.replace_all_uses_with, n, propagate_meta=True)
    attempt(a.replace_all_uses_with)
    r = n.replace_all_uses_with(n); say(r); say(g)
@case
def inputs():
    g, x, y, a, b, c, o = g3()
    b.replace_input_with(a, x); say(b.format_node(), a.users, x.users)
    b.update_arg(0, y); say(b.args, b.kwargs, x.users, y.users)
    b.update_kwarg("out", x); say(b.kwargs, x.users)
    b.insert_arg(0, 7); say(b.args); b.insert_arg(3, 8); say(b.args)
    attempt(b.insert_arg, 9, 1); attempt(b.insert_arg, -1, 1); attempt(b.update_arg, 10, 1)
    b.update_arg(-1, 5); say(b.args)
    b.args = (1, [x, {"a": y}], slice(x, None, 2)); say(b.args, b.all_input_nodes, b._input_nodes)
    def st(): b.args[1].append(3)
    attempt(st)
    def st(): b.kwargs["x"] = 3
    attempt(st)
    def st(): b.args[1][1]["x"] = 3
    attempt(st)
@case
def order():
    g, x, y, a, b, c, o = g3()
    a.prepend(c); say(list(g.nodes)); attempt(g.lint)
    b.append(c); say(list(g.nodes)); g.lint(); attempt(b.append, b); attempt(b.prepend, b)
    say(a.next, a.prev, x.prev, o.next, x.prev.op, repr(x.prev), o.next is x.prev)
    say(a < b, b < a, a <= a, a > b, a >= a, sorted([c, b, a, o, x]))
    h = fx.Graph(); z = h.placeholder("z")
    attempt(lambda: z < a); attempt(a.append, z); attempt(a.prepend, z); attempt(a.append, 3)
    attempt(lambda: a < 3)
@case
def erase():
    g, x, y, a, b, c, o = g3()
    attempt(g.erase_node, a); g.erase_node(o); g.erase_node(c); attempt(g.erase_node, c)
    say(c.name, c.kwargs, c.users, b.users, c._erased, list(g.nodes))
    h = fx.Graph(); z = h.placeholder("z"); attempt(g.erase_node, z)
@case
def copies():
    g, x, y, a, b, c, o = g3(); a.meta["m"] = [1]; a.type = int
    h = fx.Graph(); vm = {}
    r = h.graph_copy(g, vm); say(r, {k: v for k, v in vm.items()}); say(h)
    r2 = h.graph_copy(g, {}, return_output_node=True); say(r2); say(h)
    k = fx.Graph(); p = k.placeholder("x"); q = k.node_copy(a, lambda n: p); say(k, q.meta, q.type, q.meta is a.meta, q.meta["m"] is a.meta["m"])
    k.node_copy(o, lambda n: p); say(k)
@case
def lint():
    g = fx.Graph(); x = g.placeholder("x"); h = fx.Graph(); z = h.placeholder("z")
    g = fx.Graph(); x = g.placeholder("x"); a = g.call_function(torch.add, (x, x)); x.append(a); a.append(x); attempt(g.lint)
    g = fx.Graph(); x = g.placeholder("x"); x2 = g.placeholder("y"); x2.name = "x"; attempt(g.lint)
    m = torch.nn.Module(); m.lin = torch.nn.Linear(1, 1); m.t = 3
    g = fx.Graph(m); x = g.placeholder("x")
    attempt(g.call_module, "nope", (x,)); attempt(g.lint)
    g = fx.Graph(m); x = g.placeholder("x"); attempt(g.get_attr, "lin.zz"); attempt(g.lint)
    g = fx.Graph(m); x = g.placeholder("x"); attempt(g.call_module, "t", (x,)); attempt(g.lint)
    g = fx.Graph(m); x = g.placeholder("x"); attempt(g.get_attr, "lin.weight"); attempt(g.lint); attempt(g.get_attr, "t"); attempt(g.lint); attempt(g.get_attr, "lin"); attempt(g.lint)
    g = fx.Graph(); x = g.placeholder("x"); g.output(x); attempt(g.output, x); y = g.placeholder("y"); attempt(g.lint)
@case
def create():
    g = fx.Graph(); x = g.placeholder("x")
    attempt(fx.Graph().create_node, "foo", "x"); attempt(fx.Graph().create_node, "call_function", torch.add, [x]); attempt(fx.Graph().create_node, "call_function", torch.add, (), [1])
    attempt(g.create_node, "call_function", torch.add, (x,), {}, "x"); attempt(g.call_function, torch.add, (x,), name="1 bad-name")
    attempt(g.create_node, "get_attr", "a.b.c"); attempt(g.create_node, "placeholder", "*args"); attempt(g.create_node, "placeholder", "**kw")
    attempt(g.call_function, torch.add, (x, object)); 
    attempt(g.call_function, torch.add, (x, {1: 1, "a": (x,)})); attempt(g.placeholder, "if"); attempt(g.placeholder, "torch"); attempt(g.placeholder, "self"); attempt(g.placeholder, "print"); attempt(g.placeholder, "_x"); attempt(g.placeholder, "x_1"); attempt(g.placeholder, "x_1"); attempt(g.placeholder, "x")
    say(g); say(g.nodes, len(g.nodes), g._root, g.owning_module)
    for n in g.nodes: say(n, n.name, n.op)
@case
def dce():
    g = fx.Graph(); x = g.placeholder("x"); y = g.placeholder("y")
    a = g.call_function(torch.add, (x, 1)); b = g.call_function(torch.add, (a, 1)); g.call_function(torch._assert, (x, "m")); g.call_function(operator.setitem, (x, 0, 1)); g.call_function(torch.rand, (3,)); g.call_function(torch.ops.aten.add_.Tensor, (x, 1)); g.call_function(torch.ops.aten.rand.default, ([3],)); g.call_method("relu_", (x,)); g.call_method("relu", (x,)); g.call_function(print, (x,)); g.call_function(torch.ops.aten.copy_.default, (x, x)); g.call_function(torch.manual_seed, (1,)); g.call_function(torch.nn.functional.dropout, (x,))
    g.call_module("m", (x,)); g.get_attr("zz")
    g.output(x)
    for n in g.nodes: say(n, n.is_impure(), n.is_impure(False))
    attempt(g.eliminate_dead_code); say(g)
    attempt(g.eliminate_dead_code, lambda n: n.op != "call_function"); say(g); attempt(g.eliminate_dead_code)
    m = torch.nn.Module(); m.drop = torch.nn.Dropout(); m.lin = torch.nn.Linear(1, 1)
    g = fx.Graph(m); x = g.placeholder("x"); n1 = g.call_module("drop", (x,)); n2 = g.call_module("lin", (x,)); g.output(None); attempt(n1.is_impure); attempt(n2.is_impure)
    say(g.eliminate_dead_code(), g)
@case
def walk():
    g, x, y, a, b, c, o = g3()
    say([n.name for n in reversed(g.nodes)], g.output_node(), list(reversed(list(g.nodes))))
    for n in g.nodes:
        if n.op == "call_function":
            with g.inserting_after(n): g.call_function(torch.sin, (n,)) if len(g.nodes) < 12 else None
    say(list(g.nodes))
    for n in reversed(g.nodes):
        if not n.users and n.op != "output": g.erase_node(n)
    say(list(g.nodes)); say(g.find_nodes(op="call_function", target=torch.sin), g.find_nodes(op="placeholder"), g.find_nodes(op="call_method", target="relu"), g.find_nodes(op="call_function", target=torch.mul, sort=False))
    attempt(g.find_nodes, op="call_function"); attempt(g.find_nodes, op="bad"); attempt(g.find_nodes)
    say(a.users, list(a.users), list(a.users.keys()), len(a.users), a.users.get(b), a in b._input_nodes)
@case
def fmt():
    g, x, y, a, b, c, o = g3()
    x.type = torch.Tensor; a.type = int; x.meta["tensor_meta"] = None
    for n in g.nodes: say(repr(n.format_node()), repr(n), str(n))
    ph, ret = [], []
    for n in g.nodes: say(n.format_node(ph, ret))
    say(ph, ret)
    say(g); d = g.placeholder("d", type_expr=int, default_value=3); say(d.format_node(), d.args); say(g.print_tabular() if 0 else "")
    say(a.stack_trace); a.stack_trace = "abc"; say(a.stack_trace, a.meta); a.stack_trace = None; say(a.meta)
    say(a.graph is g, a.is_impure(), a.type, a.op); 
    a.target = torch.sub; say(a.format_node()); a.name = "hello"; say(g)
    a._rename("hello"); a._rename("x"); say(a)
    a.foo = 3; say(a.foo); attempt(lambda: a.nothing)
    say(hash(a) == hash(a), a == a, a != b, bool(a))
    say(fx.node.map_arg((a, [b, {"k": a}], slice(a, 1)), lambda n: n.name)); say(fx.node.map_aggregate((1, [2, {"k": 3}], slice(4, 1)), lambda n: (n, )))
    attempt(fx.node.map_arg, a, 3)
    say(fx.node.map_arg([1], lambda n: n).__class__)
