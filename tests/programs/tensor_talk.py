"""What people type at a prompt: views, indexing, printing, second derivatives, and a mistake."""
import torch

torch.manual_seed(0)
torch.set_printoptions(precision=3)
a = torch.randn(3, 4, requires_grad=True)
first, = torch.autograd.grad(a.softmax(-1).log().sum(), a, create_graph=True)
print(torch.autograd.grad(first.pow(2).sum(), a)[0])
q, k = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
scores = (q @ k.transpose(-2, -1) / 8 ** 0.5).masked_fill(torch.triu(torch.ones(4, 4), 1).bool(), float("-inf"))
print(scores.softmax(-1)[0], scores.argmax(-1), sep="\n")
x = torch.arange(24.0).view(2, 3, 4)
print(x[..., ::2], x[:, [0, 2]].shape, x[x > 20], x[0, 1:, -1], x.permute(2, 0, 1).stride(), sep="\n")
x[0, :, 1] = -1
x[1][x[1] > 20] *= 0.5
print(x, x.mean((0, 2)), x.std(-1, keepdim=True), x.flatten(1).cumsum(1)[:, -1], sep="\n")
print(torch.tensor([3, 1, 2]).sort(), torch.randperm(5), torch.tensor([[1.0, 2.0], [3.0, 4.0]]).topk(1), sep="\n")
print(torch.linspace(0, 1, 5), torch.cat([torch.ones(2), torch.zeros(1)]), torch.where(torch.tensor([True, False]), 1.0, 2.0))
print(torch.tensor([1, 2.5, True]), torch.tensor([1e-8, 1e8]), torch.tensor(3), torch.tensor([1 + 2j]), torch.zeros(0, 3))
print((torch.ones(2, dtype=torch.uint8) + torch.ones(2, dtype=torch.float16)).dtype, (torch.arange(3) / 2).dtype, torch.arange(3) // 2)
b = torch.ones(3, requires_grad=True)
c = b * 1
c[1:].mul_(3)
c.sum().backward()
print(b.grad, c.grad_fn.name(), c)
try:
    torch.ones(2, 3) @ torch.ones(2, 3)
except RuntimeError as error:
    print(error)
