"""Hooks that remove and add hooks while hooks run: what stood in the list when the run began is run."""
import torch

handles = []


def removes(*positions):
    """A hook that says that it ran, and removes others by their place in `handles`."""
    def hook(*_):
        print("hook", positions)
        for position in positions:
            handles[position].remove()
    return hook


def says(text):
    def hook(*_):
        print(text)
    return hook


def leaf():
    handles.clear()
    return torch.ones(3, requires_grad=True)


def run_twice(make, x):
    for _ in range(2):
        make().sum().backward()
    print(x.grad)


print("# of a tensor")
x = leaf()
y = x * 2
handles += [y.register_hook(removes(1)), y.register_hook(says("removed by the first")), y.register_hook(says("last"))]
y.sum().backward(retain_graph=True)
y.sum().backward()
print(x.grad)

print("# one that adds another")
x = leaf()
y = x * 2
y.register_hook(lambda g: y.register_hook(says("added")) and None)
y.sum().backward(retain_graph=True)
y.sum().backward()

print("# of a leaf, all removed by the first")
x = leaf()
handles += [x.register_hook(removes(0, 1)), x.register_hook(says("second"))]
run_twice(lambda: x * 2, x)

print("# after a gradient is accumulated")
x = leaf()
handles += [x.register_post_accumulate_grad_hook(removes(0, 1, 2)) for _ in range(3)]
run_twice(lambda: x * 2, x)

print("# before and after a node")
x = leaf()
y = x * 2
node = y.grad_fn
handles += [node.register_prehook(removes(0, 1)), node.register_prehook(says("second before"))]
handles += [node.register_hook(removes(2, 3)), node.register_hook(says("second after"))]
y.sum().backward(retain_graph=True)
y.sum().backward()
print(x.grad)

print("# one that replaces the gradient and removes itself")
x = leaf()
y = x * 2


def doubles(g):
    handles[0].remove()
    return g * 2


handles.append(y.register_hook(doubles))
y.register_hook(lambda g: g * 3)
y.sum().backward()
print(x.grad)

print("# one that lets its tensor go and raises")
x = leaf()
kept = [x * 2]


def raises(g):
    kept.clear()
    raise ValueError("raised in a hook")


kept[0].register_hook(raises)
try:
    kept[0].sum().backward()
except ValueError as error:
    print(error)

print("# removed twice; beside retain_grad")
x = leaf()
y = x.clone()
y.retain_grad()
handles.append(y.register_hook(removes(0)))
y.sum().backward()
handles[0].remove()
print(y.grad)

print("# of several tensors")
x, y = leaf(), leaf()
handles.append(torch.autograd.graph.register_multi_grad_hook([x, y], removes(0)))
run_twice(lambda: x * y, x)

print("# of a module")
handles.clear()
module = torch.nn.Linear(2, 2)
handles += [module.register_forward_hook(removes(0)), module.register_forward_hook(says("second forward"))]
handles += [module.register_forward_pre_hook(removes(2)), module.register_full_backward_hook(removes(3))]
for _ in range(2):
    module(torch.ones(1, 2, requires_grad=True)).sum().backward()
