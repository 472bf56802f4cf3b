"""Arguments that fit no op: dimensions that are not there, results written over what is read, other devices, types a distribution lacks."""
import warnings

import torch

warnings.simplefilter("ignore")


def square():
    return torch.arange(9.0).view(3, 3)


def meta(*size):
    return torch.empty(size, device="meta")


def told(text):
    torch.manual_seed(0)
    try:
        value = eval(text)  # noqa: S307
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ", ".join(f"{str(t.dtype).split('.')[-1]} {t.tolist() if t.device.type == 'cpu' else tuple(t.shape)}" for t in ([value] if isinstance(value, torch.Tensor) else value))


DIMS = [f"torch.ones({size}).{call}" for size in ("2, 3", "()")
        for call in ("logcumsumexp(5)", "logcumsumexp(-7)", "logcumsumexp(2**31)", "logcumsumexp(0)", "cumsum(5, 0)", "index_fill(5, torch.tensor([0]), 1.0)",
                     "index_fill(-7, torch.tensor([0]), 1.0)", "index_fill(2**31, torch.tensor([0]), 1.0)", "index_fill(-2**63, torch.tensor([0]), torch.tensor(2.0))",
                     "index_fill(0, torch.tensor([0]), 2.0)", "index_fill_(2**62, torch.tensor([0]), 2.0)", "index_fill(0, torch.tensor([[0]]), 2.0)",
                     "index_add(3, torch.tensor([0]), torch.ones(1))", "index_select(2**31, torch.tensor([0]))", "gather(2**31, torch.tensor([0]))")]
OVER = """
torch.index_select((a := square()), 0, torch.tensor([2, 1, 0]), out=a)
torch.index_select((a := torch.arange(12.0).view(4, 3))[:3], 0, torch.tensor([2, 1, 0]), out=a[1:])
torch.gather((a := torch.arange(3)), 0, a, out=a)
torch.take((a := torch.arange(3.0)), torch.tensor([2, 1, 0]), out=a)
torch.take_along_dim((a := square()), torch.zeros(3, 3, dtype=torch.int64), 0, out=a)
torch.cat([(a := square()), a, a], 0, out=a)
torch.cat([(a := square())], 0, out=a)
torch.cat([(a := torch.arange(6.0))[:3], a[:3]], 0, out=a)
torch.stack([(a := square()), a], 0, out=a)
torch.hstack([(a := square()), a], out=a)
torch.cross((a := square()), square(), dim=1, out=a)
torch.linalg.cross(square(), (a := square()), out=a)
torch.kron((a := torch.arange(5.0))[:4], torch.ones(1), out=a[1:])
torch.outer((a := torch.arange(3.0)), torch.ones(3), out=a.expand(3, 3))
torch.sort((a := torch.tensor([3.0, 1.0, 2.0, 0.0]))[:3], out=(a[1:], torch.empty(0, dtype=torch.int64)))
torch.sort((a := torch.tensor([3.0, 1.0, 2.0])), out=(a, torch.empty(0, dtype=torch.int64)))
torch.cumsum((a := torch.arange(4.0))[:3], 0, out=a[1:])
torch.cumsum((a := torch.arange(4.0)), 0, out=a)
torch.cumprod((a := torch.arange(4.0))[:3], 0, out=a[1:])
torch.logcumsumexp((a := torch.arange(4.0))[:3], 0, out=a[1:])
torch.scatter((a := square()), 0, torch.zeros(3, 3, dtype=torch.int64), a, out=a)
torch.scatter_add(torch.ones(3, 3), 0, torch.zeros(3, 3, dtype=torch.int64), (a := square()), out=a)
torch.index_add(torch.ones(3, 3), 0, torch.tensor([0, 1, 2]), (a := square()), out=a)
torch.index_add((a := square()), 0, torch.tensor([0, 1, 2]), square(), out=a)
torch.add((a := torch.arange(4.0))[:3], 1, out=a[1:])
torch.add((a := torch.arange(4.0)), torch.ones(2, 4), out=a)
torch.square((a := torch.arange(4.0))[:3], out=a[1:])
torch.ldexp((a := torch.arange(4.0))[:3], torch.ones(3), out=a[1:])
torch.diff((a := torch.arange(4.0)), out=a[1:])
torch.renorm((a := torch.arange(12.0).view(4, 3))[:3], 2, 0, 1.0, out=a[1:])
torch.max((a := torch.arange(4.0))[:3], torch.ones(3), out=a[1:])
torch.addmm((a := square()), square(), square(), out=a)
torch.baddbmm((a := torch.arange(18.0).view(2, 3, 3)), torch.ones(2, 3, 3), torch.ones(2, 3, 3), out=a)
torch.addmv((a := torch.arange(4.0))[:3], square(), torch.ones(3), out=a[1:])
torch.linalg.inv((a := torch.tensor([[1.0, 2.0], [0.0, 4.0]])), out=a)
torch.linalg.inv_ex((a := torch.tensor([[1.0, 2.0], [0.0, 4.0]])), out=(a, torch.empty(0, dtype=torch.int32)))
torch.abs(torch.ones(3), out=torch.empty(1).expand(3))
torch.mm(square(), square(), out=torch.empty(1).expand(3, 3))
torch.index_add(square(), 0, torch.tensor([0]), torch.ones(1, 3), out=torch.empty(1).expand(3, 3))
torch.index_put(square(), (torch.tensor([0]),), torch.ones(3)).sum()
torch.scatter(square(), 0, torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3), out=torch.empty(1).expand(3, 3))
""".strip().splitlines()
DEVICES = """
torch.gt(meta(3), meta(3), out=torch.ones(3, dtype=torch.bool))
torch.gt(torch.ones(3), torch.ones(3), out=torch.ones(3, dtype=torch.bool, device="meta"))
torch.mm(square(), square(), out=meta(3, 3))
torch.mm(meta(3, 3), meta(3, 3), out=square())
torch.add(torch.ones(3), 1, out=meta(3))
torch.abs(meta(3), out=torch.ones(3))
torch.cumsum(torch.ones(3), 0, out=meta(3))
torch.sort(torch.ones(3), out=(meta(3), torch.ones(3, dtype=torch.int64)))
torch.softmax(torch.ones(3), 0, out=meta(3))
torch.sum(meta(3), 0, out=torch.ones(()))
torch.cat([torch.ones(3)], out=meta(3))
torch.zeros(3, out=meta(3))
""".strip().splitlines()
SIZES = """
torch.ones(3).resize_([1000], memory_format=torch.channels_last_3d)
torch.ones(3).resize_([10], memory_format=torch.channels_last)
torch.ones(3).resize_([2, 2], memory_format=torch.preserve_format)
torch.ones(48).resize_([1, 2, 4, 6], memory_format=torch.channels_last).stride() and torch.ones(1)
torch.ones(3).bernoulli_(torch.ones(0))
torch.ones(3).bernoulli_(torch.ones(2))
torch.ones(2, 3).bernoulli_(torch.ones(3))
torch._standard_gamma_grad(torch.ones(3), torch.ones(2))
torch._standard_gamma_grad(torch.ones(3), torch.ones(3, dtype=torch.float64))
torch._dirichlet_grad(torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(3))
torch._C._nn.replication_pad1d(torch.ones(3, 4), [1])
torch._C._nn.reflection_pad1d(torch.ones(3, 4), [1])
torch._C._nn.reflection_pad2d(torch.ones(3, 4, 4), [1])
torch.ops.aten.replication_pad1d_backward(torch.ones(3, 6), torch.ones(3, 4), [1])
torch.ops.aten._segment_reduce_backward(torch.ones(2), torch.ones(2), torch.ones(5), "sum")
torch.ops.aten._segment_reduce_backward(torch.ones(2), torch.ones(2), torch.ones(5), "nonsense", lengths=torch.tensor([2, 3]))
torch.ops.aten._segment_reduce_backward(torch.ones(2, dtype=torch.float64), torch.ones(2), torch.ones(5), "sum", lengths=torch.tensor([2, 3]))
torch.ops.aten._segment_reduce_backward(torch.ones(2), torch.ones(2), torch.ones(5), "sum", lengths=torch.tensor([2, 3]))
torch.ops.aten._cdist_backward(torch.ones(2, 3), torch.ones(4), torch.ones(3, 4), 2.0, torch.ones(2, 3))
torch.ops.aten._cdist_backward(torch.ones(2, 3).double(), torch.ones(2, 4), torch.ones(3, 4), 2.0, torch.ones(2, 3))
torch.ops.aten._pdist_backward(torch.ones(3).double(), torch.ones(3, 2), 2.0, torch.ones(3))
torch.tril_indices(3, 2**62)
torch.triu_indices(2**62, 3)
torch.triu_indices(2**40, 3)
torch.tril_indices(2**40, 3, -2**40 + 1)
torch.tril_indices(-1, 3)
torch.triu_indices(3, -1)
torch.tril_indices(3, 3, dtype=torch.float32)
torch.triu_indices(3, 3, dtype=torch.bool)
torch.tril_indices(3, 3, -2**63)
torch.triu_indices(4, 6, 2)
torch.tril_indices(4, 3, 1)
torch.tril_indices(6, 4, -2)
""".strip().splitlines()
KINDS = [f"torch.ones(3, dtype=torch.{dtype}).{call}" for dtype in ("complex64", "int64", "bool", "uint8", "float16")
         for call in ("random_()", "random_(5)", "random_(-5, 3)", "random_(5, None)", "random_(0, 300)", "random_(0, 70000)", "exponential_()", "cauchy_()", "geometric_(0.5)",
                      "log_normal_()", "bernoulli_()", "bernoulli_(torch.ones(3))")
         if (dtype, call) not in {("bool", "geometric_(0.5)"), ("float16", "exponential_()")}]
KINDS += ["torch.randint(0, 5, (3,), dtype=torch.complex64)", "torch.randint(0, 300, (3,), dtype=torch.uint8)", "torch.randint_like(torch.ones(3, dtype=torch.complex64), 5)",
          "torch.binomial(torch.tensor([5.0]), torch.tensor([float('nan')]))"]

for line in (*DIMS, *OVER, *DEVICES, *SIZES, *KINDS):
    print(line)
    print("   ", told(line))
