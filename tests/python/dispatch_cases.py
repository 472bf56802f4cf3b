"""Programs whose graphs tell in which order the layers of the dispatcher act. `cases(torch)` gives name -> text of each graph.

    python dispatch_cases.py > dispatch_cases.json      under PyTorch: what the test compares with
"""
import re

OPERATORS = r"\s*#.*$"                      # of jit graphs: where a line comes from
DROPPED = r";\s+[\w \n=]*= None$"           # what a line lets go: versions of PyTorch differ


def text_of(graph):
    lines = [re.sub(DROPPED, "", re.sub(OPERATORS, "", line)).strip() for line in graph.strip().splitlines()]
    return "\n".join(line for line in lines if line)


def cases(torch):
    import importlib

    name = torch.__name__
    make_fx = importlib.import_module(name + ".fx.experimental.proxy_tensor").make_fx
    two_tensor = importlib.import_module(name + ".testing._internal.two_tensor")
    dispatch = importlib.import_module(name + ".utils._python_dispatch")
    tree_map = importlib.import_module(name + ".utils._pytree").tree_map
    func, linear = torch.func, torch.nn.functional.linear
    a, b, w, bias = torch.ones(3, 4), torch.ones(4, 5), torch.ones(5, 4), torch.ones(5)
    made = {}

    def traced(function, *args, **options):
        return text_of(make_fx(function, **options)(*args).code)

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, elem):
            return torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)

        def __init__(self, elem):
            self.elem = elem

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            args, kwargs = tree_map(lambda t: t.elem if isinstance(t, Wrapper) else t, (args, kwargs or {}))
            return tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, function(*args, **kwargs))

    class Swapping(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.sin.default:
                return torch.cos(*args)
            return function(*args, **(kwargs or {}))

    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def inside(context, function):
        def run(*args):
            with context():
                return function(*args)
        return run

    def tensordot(a, b):
        return torch.tensordot(a, b, dims=1)

    def product(b):
        return lambda a: (a @ b).sum().float()

    def plain(x):
        return (x.sin() + x).sum(0)

    def swallowed(x):
        x.clone().add_(1)
        return x * 2

    def through_detach(x):
        x.detach().add_(1)
        return x * 2

    def of_linear(x, w, b):
        return linear(x, w, b)

    def cast_tensordot(a, b):
        with autocast():
            return torch.tensordot(a, b, dims=1)

    made["autocast of a tensordot under jit.trace"] = text_of(str(torch.jit.trace(cast_tensordot, (a, b), check_trace=False).graph))
    with autocast():
        made["jit.trace of a tensordot under autocast"] = text_of(str(torch.jit.trace(tensordot, (a, b), check_trace=False).graph))
    made["autocast of a tensordot"] = traced(inside(autocast, tensordot), a, b)
    made["grad under autocast"] = traced(lambda a, b: inside(autocast, func.grad(product(b)))(a), a, b)
    made["autocast under grad"] = traced(lambda a, b: func.grad(inside(autocast, product(b)))(a), a, b)
    made["grad of grad under autocast"] = traced(lambda a, b: inside(autocast, func.grad(lambda a: func.grad(product(b))(a).sin().sum()))(a), a, b)
    made["a swallowed add_"] = traced(swallowed, a)
    made["a swallowed add_, functionalised"] = traced(func.functionalize(swallowed), a)
    made["add_ through detach"] = traced(through_detach, a.clone())
    made["add_ through detach, functionalised"] = traced(func.functionalize(through_detach), a.clone())
    made["linear under inference mode"] = traced(inside(torch.inference_mode, of_linear), a, w, bias)
    with torch.inference_mode():
        made["tracing linear under inference mode"] = traced(of_linear, a, w, bias)
    made["linear, pre-dispatch"] = traced(of_linear, a, w, bias, pre_dispatch=True)
    made["a TwoTensor comes in"] = traced(plain, two_tensor.TwoTensor(a.clone(), a.clone()))
    made["a TwoTensor is made inside"] = traced(lambda a: plain(two_tensor.TwoTensor(a, a * 2)).a, a)
    made["a wrapper comes in"] = traced(plain, Wrapper(a.clone()))
    made["a wrapper is made inside"] = traced(lambda a: plain(Wrapper(a)).elem, a)
    made["a wrapper in a wrapper"] = traced(plain, Wrapper(Wrapper(a.clone())))
    made["a mode inside"] = traced(inside(Swapping, plain), a)
    with Swapping():
        made["a mode outside"] = traced(plain, a)
    made["grad of a mode"] = traced(func.grad(lambda x: inside(Swapping, plain)(x).sum()), a)
    made["a mode over grad"] = traced(inside(Swapping, func.grad(lambda x: plain(x).sum())), a)
    made["grad of grad"] = traced(func.grad(lambda x: func.grad(lambda x: x.sin().sum())(x).sum()), a)
    made["vmap of grad"] = traced(func.vmap(func.grad(lambda x: x.sin().sum())), a)
    made["grad of vmap"] = traced(func.grad(lambda x: func.vmap(torch.sin)(x).sum()), a)
    made["make_fx in make_fx"] = traced(lambda x: make_fx(lambda y: y.sin() + x)(x)(x), a)
    made["sizes in and out"] = traced(lambda x, n: (x * n, n + 1, x.shape[0]), a, 5, tracing_mode="symbolic")
    made["an assertion"] = traced(lambda x: (torch.ops.aten._assert_async.msg(x.sum() == x.sum(), "mine"), x + 1)[1], a)
    made["random, in order"] = traced(lambda x: (torch.rand(3), x + torch.rand_like(x), torch.rand(2))[1], a)
    for title, write in {
        "t_": lambda y: y.t_().mul_(2), "unsqueeze_": lambda y: y.unsqueeze_(0).add_(1), "transpose_": lambda y: y.transpose_(0, 1).sin_(),
        "squeeze_": lambda y: y.unsqueeze_(0).squeeze_(0).add_(1), "split": lambda y: [part.add_(1) for part in y.split(2, 1)],
        "unbind": lambda y: y.unbind(0)[1].mul_(3), "chunk": lambda y: y.chunk(2, 1)[1].mul_(3),
        "copy_ of another type": lambda y: y.copy_(torch.ones(3, 4, dtype=torch.int64)), "diagonal": lambda y: y.diagonal().fill_(0),
        "as_strided": lambda y: y.as_strided((2, 2), (1, 2)).add_(1), "swapaxes_": lambda y: y.swapaxes_(0, 1).add_(1),
        "as_strided_": lambda y: y.as_strided_((2, 2), (1, 2), 1).add_(1), "squeeze of one dim": lambda y: y.view(3, 1, 4).squeeze(1).mul_(2),
        "squeeze of no dim": lambda y: y.squeeze(0).mul_(2), "squeeze": lambda y: y.view(1, 3, 1, 4).squeeze().mul_(2),
        "flip": lambda y: y.flip(0).mul_(2), "narrow": lambda y: y.narrow(1, 1, 2).zero_(), "expand": lambda y: y[:1].expand(1, 4).mul_(2),
    }.items():
        def into_a_copy(x):
            y = x.clone()
            write(y)
            return y

        made[f"functionalised: {title}"] = traced(func.functionalize(lambda x: into_a_copy(x)), a.clone())
        if title != "expand":       # where PyTorch clones a sum over no dims
            made[f"functionalised, views copied: {title}"] = traced(func.functionalize(lambda x: into_a_copy(x), remove="mutations_and_views"), a.clone())
        made[f"functionalised, of an input: {title}"] = traced(func.functionalize(lambda x: (write(x), x + 0)[1]), a.clone())
    return made


if __name__ == "__main__":
    import json

    import torch

    print(json.dumps(cases(torch), indent=1))
