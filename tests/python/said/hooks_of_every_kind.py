"""Hooks of every kind that remove, add, raise, let go of what they hang on, run backward again or write gradients while hooks run."""
import gc
import threading
import weakref

import torch
from torch import nn

handles = []


def hook(text, *positions, result=None):
    """Says its text, removes other hooks by their place in `handles`, gives its result."""
    def run(*_, **__):
        print(text)
        for position in positions:
            handles[position].remove()
        return result
    return run


def leaf(size=3):
    handles.clear()
    return torch.ones(size, requires_grad=True)


def attempt(run):
    try:
        return run()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])


print("# retains_grad, hooks before and after it, one of which retains again")
x = leaf()
y = x * 2
handles.append(y.register_hook(hook("before", 0)))
y.retain_grad()
handles.append(y.register_hook(lambda g: y.retain_grad()))
y.register_hook(lambda g: g * 5)
(y * 3).sum().backward()
print(y.grad, x.grad, y.retains_grad)

print("# a hook adds hooks to its node, its leaf and what comes after")
x = leaf()
y = x.exp()
z = y * 2


def adds(g):
    y.register_hook(hook("late on the tensor"))
    y.grad_fn.register_prehook(hook("late before the node"))
    y.grad_fn.register_hook(hook("late after the node"))
    x.register_hook(hook("late on the leaf"))
    x.register_post_accumulate_grad_hook(hook("late after accumulation"))


z.register_hook(adds)
z.sum().backward(retain_graph=True)
z.sum().backward()

print("# raising, then again without it")
for add in ("register_hook", "register_post_accumulate_grad_hook"):
    x = leaf()

    def raises(_):
        handles[0].remove()
        raise ValueError(f"raised by {add}")
    handles.append(getattr(x, add)(raises))
    y = (x * 2).sum()
    attempt(lambda: y.backward(retain_graph=True))
    attempt(lambda: y.backward())
    print(x.grad)

print("# node hooks: raising, wrong counts, wrong kinds")
for given in ((), (None,), (None, None), (torch.ones(3), torch.ones(3), torch.ones(3)), [1], 5):
    x, w = leaf(), torch.ones(3, requires_grad=True)
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: given)
    attempt(lambda: y.sum().backward())
    y = x * w
    y.grad_fn.register_prehook(lambda outputs: given)
    attempt(lambda: y.sum().backward())

print("# letting go of tensor, node, graph and hook")
x = leaf()
kept = {"y": x * 2}
kept["z"] = kept["y"] * 3
kept["node"] = kept["y"].grad_fn
dead = weakref.ref(kept["y"])


def forgets(*_):
    kept.clear()
    handles[0].remove()
    handles.clear()
    gc.collect()
    print("forgotten")


handles += [kept["z"].register_hook(forgets)]
kept["y"].register_hook(hook("of y"))
kept["z"].sum().backward()
gc.collect()
print(x.grad, dead() is None)

print("# backward within hooks")
x = leaf()
inner = torch.full((3,), 2.0, requires_grad=True)


def again(g):
    with torch.enable_grad():
        (inner * inner).sum().backward()
    print("inner", inner.grad)


y = x * 2
y.register_hook(again)
y.grad_fn.register_hook(lambda *_: again(None))
x.register_post_accumulate_grad_hook(again)
y.sum().backward()
print(x.grad)

print("# the same graph again, from a hook")
x = leaf()
y = x * 2
total = y.sum()
depth = []


def deeper(g):
    if len(depth) < 3:
        depth.append(0)
        total.backward(retain_graph=True)


y.register_hook(deeper)
total.backward(retain_graph=True)
print(x.grad)

print("# writing .grad in hooks")
x = leaf()
handles.append(x.register_hook(lambda g: setattr(x, "grad", torch.full((3,), 10.0))))
(x * 2).sum().backward()
print(x.grad)
handles[0].remove()
x.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
(x * 2).sum().backward()
print(x.grad)
x = leaf()
x.register_post_accumulate_grad_hook(lambda p: p.grad.zero_() and None if p.grad.sum() == 0 else p.grad.zero_())
attempt(lambda: (x * 2).sum().backward())
print(x.grad)
x = leaf()
x.register_post_accumulate_grad_hook(lambda p: setattr(p, "requires_grad", False))
attempt(lambda: (x * 2).sum().backward())
print(x.grad, x.requires_grad)

print("# hooks given to the wrong tensors")
attempt(lambda: torch.ones(3).register_hook(print))
attempt(lambda: torch.ones(3).register_post_accumulate_grad_hook(print))
attempt(lambda: (leaf() * 2).register_post_accumulate_grad_hook(print))

print("# hooks over several tensors, all and any")
for mode in ("all", "any"):
    x, w = leaf(), torch.ones(3, requires_grad=True)
    handles.append(torch.autograd.graph.register_multi_grad_hook([x, w], hook(mode, 0), mode=mode))
    handles.append(torch.autograd.graph.register_multi_grad_hook([w, x], hook(mode + " second", 0, 1), mode=mode))
    for _ in range(2):
        (x * w).sum().backward()

print("# saved tensors: hooks popped, pushed and raising while they run")


def packs_badly(x):
    raise RuntimeError("pack raised")


def unpacks_badly(x):
    raise RuntimeError("unpack raised")


x = leaf()
with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), unpacks_badly):
    y = x * x
attempt(lambda: y.sum().backward())
with torch.autograd.graph.saved_tensors_hooks(packs_badly, lambda t: t):
    attempt(lambda: x * x)
print((x * x).sum().item())
with torch.autograd.graph.saved_tensors_hooks(lambda t: 5, lambda t: t):
    y = x * x
attempt(lambda: y.sum().backward())

inside = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: print("inner unpack") or t)


def pushes(t):
    if not handles:
        handles.append(0)
        inside.__enter__()
    return t


with torch.autograd.graph.saved_tensors_hooks(pushes, lambda t: print("outer unpack") or t):
    y = x.exp() * x
    inside.__exit__(None, None, None)
y.sum().backward()

x = leaf()
tensors = [x * 1, x * 2, x * 3]


def empties(t):
    tensors.clear()
    gc.collect()
    return t


with torch.autograd.graph.saved_tensors_hooks(empties, lambda t: t):
    y = torch.stack(tensors).prod(0)
y.sum().backward()
print(x.grad)

print("# modules: forward, before, backward, before backward, all removed by the first")
handles.clear()
module = nn.Linear(2, 2)
with torch.no_grad():
    module.weight.fill_(1.0)
    module.bias.zero_()
for kind in ("register_forward_pre_hook", "register_forward_hook", "register_full_backward_pre_hook", "register_full_backward_hook"):
    first = len(handles)
    handles += [getattr(module, kind)(hook(kind + " first", first, first + 1)), getattr(module, kind)(hook(kind + " second"))]
for _ in range(2):
    attempt(lambda: module(torch.ones(1, 2, requires_grad=True)).sum().backward())

print("# modules: hooks that add hooks")
module = nn.Linear(2, 2)
for kind in ("register_forward_pre_hook", "register_forward_hook", "register_full_backward_pre_hook", "register_full_backward_hook"):
    getattr(module, kind)(lambda *_, kind=kind: getattr(module, kind)(hook("added " + kind)) and None)
attempt(lambda: module(torch.ones(1, 2, requires_grad=True)).sum().backward())
module = nn.Linear(2, 2)
module.register_forward_hook(lambda m, *_: m._forward_hooks.clear())
print(module(torch.ones(1, 2)).shape, len(module._forward_hooks))

print("# modules: global hooks, raising ones and always called ones")
handles.clear()
handles += [nn.modules.module.register_module_forward_hook(hook("global", 0)), nn.modules.module.register_module_forward_pre_hook(hook("global before", 1))]
nn.Identity()(1)
nn.Identity()(1)
module = nn.Identity()
handles[:] = [module.register_forward_hook(hook("always", 0), always_call=True)]


def refuses(*_):
    raise ValueError("before")


handles.append(module.register_forward_pre_hook(refuses))
attempt(lambda: module(1))
attempt(lambda: module(1))

print("# state dicts")
handles.clear()
module = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
handles += [module.register_state_dict_pre_hook(hook("before state", 0)), module.register_state_dict_post_hook(hook("after state", 1)),
            module.register_load_state_dict_pre_hook(hook("before load", 2)), module.register_load_state_dict_post_hook(hook("after load", 3))]
handles += [module.register_state_dict_post_hook(hook("second after state", 1)), module.register_load_state_dict_post_hook(hook("second after load"))]
for _ in range(2):
    attempt(lambda: module.load_state_dict(module.state_dict()))
module = nn.Linear(1, 1)
module.register_state_dict_post_hook(lambda m, state, *_: state.clear())
print(dict(module.state_dict()))
module = nn.Linear(1, 1)
module.register_load_state_dict_pre_hook(lambda m, state, *_: state.clear())
attempt(lambda: module.load_state_dict(nn.Linear(1, 1).state_dict()))

print("# optimisers")
handles.clear()
x = leaf()
optimizer = torch.optim.SGD([x], lr=1.0)
handles += [optimizer.register_step_pre_hook(hook("before step")), optimizer.register_step_pre_hook(hook("before step, second"))]
handles += [optimizer.register_step_post_hook(hook("after step")), optimizer.register_step_post_hook(hook("after step, second"))]
handles += [optimizer.register_state_dict_pre_hook(hook("before state", 4)), optimizer.register_state_dict_post_hook(hook("after state", 5)),
            optimizer.register_load_state_dict_pre_hook(hook("before load", 6)), optimizer.register_load_state_dict_post_hook(hook("after load", 7))]
for _ in range(2):
    x.grad = torch.ones(3)
    attempt(optimizer.step)
    attempt(lambda: optimizer.load_state_dict(optimizer.state_dict()))
optimizer.register_step_pre_hook(lambda o, *_: o.param_groups.clear())
attempt(optimizer.step)
print(x)
x = leaf()
optimizer = torch.optim.SGD([x], lr=1.0)
x.register_post_accumulate_grad_hook(lambda p: optimizer.step() or optimizer.zero_grad())
for _ in range(2):
    (x * 2).sum().backward()
print(x, x.grad)

print("# removed from another thread while it runs")
x = leaf()
y = x * 2
for _ in range(50):
    handles.append(y.register_hook(lambda g: g + 0))


def elsewhere(g):
    thread = threading.Thread(target=lambda: [handle.remove() for handle in handles])
    thread.start()
    thread.join()
    handles.clear()
    gc.collect()


y.register_hook(elsewhere)
y.register_hook(hook("last"))
y.sum().backward()
print(x.grad)

print("# a handle outlives its tensor and its hooks")
x = leaf()
y = x * 2
handle = y.register_hook(print)
del y
gc.collect()
handle.remove()
handle = x.register_post_accumulate_grad_hook(print)
del x
handle.remove()
handle.remove()

print("# a hook on what a Function gives")


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        handles[0].remove()
        x, = ctx.saved_tensors
        return g * 2


x = leaf()
y = Doubles.apply(x)
handles += [y.grad_fn.register_hook(hook("after the function")), y.register_hook(hook("on its result", 0))]
attempt(lambda: y.sum().backward())
print(x.grad)
