"""One provider's figures: best times of small programs, printed as JSON. Run by bench.py as `python measures.py GROUP`."""
import importlib
import json
import os
import sys
import time
import timeit


def best_of(run, seconds=0.25, rounds=5):
    """Seconds a call: the best of several batches."""
    run()
    count, spent = 1, 0.0
    while spent < seconds / rounds / 4:
        count *= 2
        spent = timeit.timeit(run, number=count)
    count = max(1, int(count * seconds / rounds / spent))
    return min(timeit.timeit(run, number=count) / count for _ in range(rounds))


def statement(text, **names):
    timer = timeit.Timer(text, globals=names)
    timer.timeit(1000)
    count = 20000
    return min(timer.timeit(count) / count for _ in range(7))


def startup():
    started = time.perf_counter()
    importlib.import_module(os.environ["BENCH_MODULE"])
    yield "import, ms", (time.perf_counter() - started) * 1e3
    with open("/proc/self/status") as status:
        yield "peak memory after import, MB", next(int(l.split()[1]) for l in status if l.startswith("VmHWM")) / 1024


def overhead():
    import torch
    nn, functional = torch.nn, torch.nn.functional
    x, y, g, a = torch.randn(2, 2), torch.randn(2, 2), torch.randn(2, 2).requires_grad_(), torch.zeros(2, 2)
    for name, text in (("add 2x2", "x + y"), ("add 2x2 with grad", "g + y"), ("add scalar", "x + 1.0"),
                       ("mul_ in place", "a.mul_(y)"), ("torch.add", "torch.add(x, y)"), ("matmul 2x2", "x @ y"),
                       ("view", "x.view(4)"), ("x[0]", "x[0]"), ("sum", "x.sum()"), ("zeros", "torch.zeros(2, 2)"),
                       ("Linear(2, 2)", "lin(x)")):
        yield name + ", us", statement(text, x=x, y=y, g=g, a=a, torch=torch, lin=nn.Linear(2, 2)) * 1e6
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    batch, target = torch.randn(1, 64), torch.randint(0, 10, (1,))

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(net(batch), target).backward()
        optimizer.step()

    yield "MLP 64-64-10 train step, us", best_of(step) * 1e6


def throughput():
    import torch
    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    n = 1 << 20
    with torch.no_grad():
        x, y, m = torch.randn(n), torch.randn(n), torch.randn(1024, 1024)
        for name, run in (("add 1M", lambda: x + y), ("mul_ 1M", lambda: y.mul_(1.0)), ("exp 1M", lambda: torch.exp(x)),
                          ("tanh 1M", lambda: torch.tanh(x)), ("sigmoid 1M", lambda: torch.sigmoid(x)),
                          ("gelu 1M", lambda: torch.nn.functional.gelu(x)), ("relu 1M", lambda: torch.relu(x)),
                          ("sum 1M", lambda: x.sum()), ("sum dim 0", lambda: m.sum(0)), ("sum dim 1", lambda: m.sum(1)),
                          ("softmax 1024x1024", lambda: torch.softmax(m, -1)),
                          ("transpose copy 1024", lambda: m.t().contiguous()), ("randn 1M", lambda: torch.randn(n))):
            yield name + ", us", best_of(run) * 1e6
        for size in (64, 128, 256, 512, 1024):
            a, b = torch.randn(size, size), torch.randn(size, size)
            yield f"matmul {size}, us", best_of(lambda: a @ b) * 1e6
        for channels, size, kernel in ((64, 56, 3), (256, 14, 3), (128, 28, 1)):
            image, weight = torch.randn(1, channels, size, size), torch.randn(channels, channels, kernel, kernel)
            yield (f"conv {kernel}x{kernel} {channels} {size}, us",
                   best_of(lambda: torch.nn.functional.conv2d(image, weight, padding=kernel // 2)) * 1e6)


def graphs():
    import torch
    from torch import fx
    count = 100_000

    def chain():
        graph = fx.Graph()
        x, call, neg = graph.placeholder("x"), graph.call_function, torch.neg
        for _ in range(count):
            x = call(neg, (x,))
        graph.output(x)
        return graph

    yield f"Graph of {count} nodes from Python, ms", best_of(chain) * 1e3
    graph = chain()
    for name, run in (("code", lambda: graph.python_code("self")), ("lint", graph.lint), ("eliminate_dead_code", graph.eliminate_dead_code),
                      ("sorted nodes", lambda: sorted(graph.nodes))):
        yield f"{name} of {count} nodes, ms", best_of(run) * 1e3


def captures():
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    nn = torch.nn
    for count in (1000, 10_000) if os.environ["BENCH_MODULE"] == "taper" else (1000,):      # PyTorch takes half a minute for the second
        net, x = nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(4, 4), nn.ReLU()))), torch.randn(2, 4)
        state = {name: parameter.detach() for name, parameter in net.named_parameters()}

        def capture():
            with torch.no_grad():
                call = lambda state, x: torch.func.functional_call(net, state, (x,))
                return make_fx(call, tracing_mode="fake", record_stack_traces=True)(state, x)

        capture()
        yield f"make_fx (fake, with lines) of {count} x (Linear, ReLU), ms", min(timeit.repeat(capture, number=1, repeat=3 if count > 1000 else 5)) * 1e3


GROUPS = {"startup": startup, "overhead": overhead, "throughput": throughput, "graphs": graphs, "captures": captures}

if __name__ == "__main__":
    for metric, value in GROUPS[sys.argv[1]]():
        print(json.dumps([metric, value]), flush=True)
