"""Programs that are more than one call: writes through views, results that alias arguments or each other, and modules."""
import re

import torch
from torch import nn
from torch.nn import functional as F

from batch import Case


def made(*sizes):
    return [torch.randn(size) for size in sizes]


# ---- what is written through views ----
WRITES = """
y = torch.zeros(2, 3); y[0] = x[0]; return y
y = torch.zeros(2, 3); y[:, 1] = x[:, 0]; return y
y = torch.empty(2, 3); y[0] = x[0]; y[1] = x[1] * 2; return y
y = x.clone(); y[0].relu_(); return y
y = x.clone(); y[1:][0][1] = 5.0; return y, y[1], y.t()
y = torch.zeros(3, 3); y.diagonal().copy_(x[0]); return y
y = torch.ones(3, 3); y.diagonal().zero_(); y.fill_diagonal_(2, wrap=True); return y
y = torch.arange(6.).view(2, 3); y += x; return y
y = torch.arange(6.).view(2, 3); z = y.t(); z[1] = 7; return y, z
y = torch.zeros(2, 3, dtype=torch.int64); y[0] = n[0]; y[1, 1:] = n[1, 1:]; return y, y.sum()
y = torch.zeros(2, 3, dtype=torch.bool); y[0] = x[0] > 0; y |= x > 1; return y
y = torch.full((2, 3), 2.5); y[x > 0] = 0; return y
y = x.clone(); y[:, ::2] *= 3; y[:, 1:] -= y[:, :2].clone(); return y
y = x.clone(); y.copy_(y.flip(0)); return y
y = torch.zeros(4, 3); y[1:3] = x; y[0] = y[1]; y[3] = y[2] + y[0]; return y
y = torch.zeros(3, 3); y[0, 1] = 1.0; y.add_(y.t().clone()); return y
x.add_(1); return x * 2
y = x[0]; y.mul_(2); return x.sum(), y
x[:, 1] = 7; n[0] += n[1]; return n.sum(0)
x.relu_(); return x, x.t()
y = x.clone(); z = y.view(-1); z[2] = 9; y.unsqueeze_(0); y[0, 0, 0] = 4; return y, z
y = x.clone(); y.t_(); y[0] = 1; return y
y = x.clone(); y.transpose_(0, 1).mul_(2); return y
y = x.clone(); a, b = y.unbind(0); a.add_(1); b.mul_(a); return y, a, b
y = x.clone(); a, b = y.split(1, 0); b.zero_(); a += b; return y
y = x.clone(); y.narrow(1, 1, 2).fill_(3); y.select(0, 1).neg_(); return y
y = x.clone(); y.as_strided((2,), (2,), 1).add_(10); return y
y = x.expand(4, 2, 3).clone(); y[:, 0] = 0; y[2].add_(1); return y, y.sum(0)
y = torch.zeros(5); y[torch.tensor(2)] = 1; return y
y = torch.zeros(()); y.add_(3); y.fill_(x.sum()); return y, y + 1
y = torch.zeros(1, 3); y[0] = x[0]; y[:, 0:1] = 2; return y
y = torch.zeros(0, 3); y.add_(1); return y, y.sum(0)
y = torch.zeros(2, 3); z = torch.zeros(2, 3); y[0] = 1; z[1] = 2; return y, z
y = torch.zeros(2, 3); z = torch.zeros(2, 3); y.add_(x); return y, z, torch.zeros(2, 3)
y = torch.eye(3); y[0] = x[0]; return y, torch.eye(3)
y = torch.tensor([1., 2., 3.]); y[0] = x[0, 0]; return y
y = torch.tril(torch.ones(3, 3)); y.masked_fill_(y == 0, float('-inf')); return y
y = torch.cat([x, x]); y[::2].mul_(-1); return y
y = x.clone(); y.clamp_(-0.5, 0.5)[0].exp_(); return y
y = x.clone(); torch.add(x, x, out=y); return y
y = x.clone(); torch.mul(x[0], 2, out=y[1]); return y
y = torch.empty(2, 3); torch.sub(x, 1, out=y); return y
y = x.double(); y[0] = x[1]; return y
y = torch.zeros(2, 3, dtype=torch.int32); y.copy_(x * 10); return y
y = torch.zeros(2, 3, dtype=torch.uint8); y.copy_(n.abs()); y.add_(250); return y
y = torch.zeros(2, 3, dtype=torch.bool); y.copy_(x * 0.1); return y
y = torch.zeros(3, 2).t(); y[0] = x[0]; y.mul_(2); return y
y = torch.select_scatter(x, x[0], 0, 1); return y, x
y = torch.slice_scatter(x, x[:, :2], 1, 1, 3); return y
y = torch.diagonal_scatter(torch.zeros(3, 3), x[0]); return y
y = torch.as_strided_scatter(x, x[:, 0], (2,), (1,), 1); return y
y = torch.slice_scatter(torch.select_scatter(x, x[1], 0, 0), x[:1], 0, 1, 2); return y
y = torch.masked_scatter(x, x > 9, x); return y
y = F.pad(x[None], (1, 1), mode='circular'); return y
y = F.pad(x[None, None], (1, 2, 1, 0), mode='circular'); return y
y = F.relu(x.clone(), inplace=True); F.hardtanh_(y[0]); return y
y = x.clone(); y[0], y[1] = y[1].clone(), y[0].clone(); return y
y = x.clone(); y[..., None].mul_(3); y[None, :, 0] = 1; return y
y = [x[0] * i for i in range(3)]; y[1].add_(1); return torch.stack(y)
y = torch.zeros(4, 3)
for i in range(4): y[i] = x[i % 2] * i
return y
y = torch.zeros(3)
for row in x: y += row
return y
y = x.sum(0); z = y; z += 1; return y
y = x.mean(); y *= 2; return y
y = x @ x.t(); y.fill_diagonal_(0); return y
y = x.softmax(-1); y[:, 0] = 0; return y / y.sum(-1, keepdim=True)
y = x.contiguous(); return y
y = x.reshape(3, 2).clone(); y[0] += x.reshape(-1)[:2]; return y
y = x.new_zeros(2, 3); y.t().copy_(x.t()); y.T[1] = 0; return y
y = x.new_empty(2, 3).fill_(2); y[:, 1].mul_(x[:, 1]); return y
y = torch.zeros_like(x); y[0, :2] = x[1, 1:]; return y
y = torch.ones_like(x).cumsum(1) if False else torch.ones_like(x); y[0].sub_(x[0]); return y
"""

# ---- results that alias ----
ALIASES = """
return x, x
return x, x.t(), x[0], x.view(-1)
y = x + 1; return y, y, y[0], y.t()
return torch.zeros(2, 3), torch.arange(4), torch.tensor(3.5), torch.tensor([True, False])
return n, n.double(), n > 0
return x[:0], x[:, :0].sum(1), torch.cat([x[:0], x]), x[:0].sum()
return x.sum(), x[0, 0], x[0, 0] + n[0, 0], x[0, 0].expand(2, 2), x.mean()[None]
return x.expand(3, 2, 3), x[:1].expand(4, 3), x[:, :1].expand(2, 2) * 2
return x[None].squeeze(0), x[None, None].squeeze(), x[:1].squeeze(0) + 1
return x.to(torch.float32), x.detach(), x.contiguous(), x.reshape(2, 3), x.view(6).view(2, 3)
return [x, {'a': x + 1}, (n,)]
return x.linspace if False else torch.linspace(0, 1, 5), torch.full((2,), 1e30), torch.full((), float('nan'))
return torch.where(x > 0, x, -0.0), -x * 0, x.abs() * -0.0
return x // 0.3, torch.remainder(x, 0.3), torch.fmod(x, -0.3), n // 2, n % 2, torch.div(n, 2, rounding_mode='trunc')
return torch.bmm(x[None], x.t()[None]), x[None] @ x.t()[None], torch.baddbmm(x[None] @ x.t()[None], x[None], x.t()[None])
return torch.bmm(x[:1, :1, None], x[:1, None, :1]), torch.mv(x, x[0]), torch.dot(x[0], x[1]), x[:, :0] @ x[:0].t()[:0]
return F.linear(x, x[:1]), F.bilinear(x, x, torch.ones(1, 3, 3)), torch.outer(x[0], x[1]), torch.addmm(x[0, 0], x, x.t(), beta=0)
return x.mean((0, 1), keepdim=True), x[:0].mean(), x[:, :0].mean(1), x[:0].var(0), x.var(0, keepdim=True), x[:1].std(0)
return F.layer_norm(x[:0], (3,)), F.layer_norm(x, (2, 3)), torch.native_layer_norm(x, (3,), None, None, 1e-5)
"""


def lines(text):
    """Programs separated by their return."""
    program = []
    for line in text.strip().splitlines():
        program.append(line)
        if "return " in line:
            yield "\n".join(program)
            program = []


def function_of(text):
    """The function of x and n that this is the body of; only the inputs it mentions are taken."""
    names = [name for name in ("x", "n") if re.search(rf"\b{name}\b", text)]
    body = "\n    ".join(part.strip() if not part.startswith("for") else part for line in text.splitlines()
                         for part in (line.split("; ") if not line.startswith("for") else [line]))
    space = {"torch": torch, "F": F}
    exec(f"def program({', '.join(names)}):\n    {body}\n", space)
    return space["program"], names


def snippets():
    torch.manual_seed(0)
    inputs = {"x": torch.randn(2, 3), "n": torch.randint(-3, 9, (2, 3))}
    for text in [*lines(WRITES), *lines(ALIASES)]:
        program, names = function_of(text)
        yield Case(text.replace("\n", " / "), program, [inputs[name] for name in names])


# ---- modules ----
class Kernel(nn.Module):
    """Writes its taps into a buffer made at each call."""

    def __init__(self):
        super().__init__()
        self.taps = nn.Parameter(torch.randn(3))

    def forward(self, x):
        matrix = torch.zeros(x.shape[-1], x.shape[-1])
        for i in range(3):
            matrix.diagonal(i).add_(self.taps[i])
        return x @ matrix


class Window(nn.Module):
    """A list of steps, each written into its place."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        state, out = x.new_zeros(x.shape[1], 4), torch.empty(x.shape[0], x.shape[1], 4)
        for step in range(x.shape[0]):
            state = self.cell(x[step], state)
            out[step] = state
        return out, state


def modules():
    torch.manual_seed(1)
    rows = [
        (nn.Linear(4, 3), (2, 4)), (nn.Linear(4, 3, bias=False), (4,)), (nn.Bilinear(3, 4, 2), (2, 3), (2, 4)), (nn.Identity(), (2, 2)), (nn.Flatten(), (2, 3, 4)),
        (nn.Conv1d(2, 4, 3, padding=1), (1, 2, 8)), (nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), groups=2), (2, 4, 9, 8)), (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), (2, 2, 6)), (nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), (1, 1, 4, 5)),
        (nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode="circular"), (2, 2, 4, 4)), (nn.Conv3d(1, 1, 3, padding=1, padding_mode="circular"), (1, 1, 3, 4, 3)),
        (nn.Conv2d(1, 2, 3, padding="same"), (1, 5, 5)), (nn.CircularPad1d(2), (1, 2, 4)), (nn.CircularPad2d((1, 0, 2, 1)), (2, 1, 3, 4)), (nn.CircularPad3d(1), (1, 1, 2, 3, 2)),
        (nn.ZeroPad2d(1), (1, 1, 3, 3)), (nn.ConstantPad1d(2, 1.5), (1, 2, 3)), (nn.ReflectionPad1d(2), (1, 2, 5)), (nn.ReplicationPad2d(1), (1, 1, 3, 3)),
        (nn.MaxPool1d(2), (1, 2, 7)), (nn.MaxPool2d(3, 2, 1, ceil_mode=True, return_indices=True), (1, 2, 8, 7)), (nn.AvgPool1d(2), (1, 2, 6)),
        (nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (1, 2, 6, 6)), (nn.AdaptiveAvgPool1d(3), (1, 2, 7)), (nn.AdaptiveAvgPool2d((3, 2)), (1, 2, 7, 5)),
        (nn.AdaptiveMaxPool1d(2), (1, 2, 6)), (nn.LPPool1d(2, 2), (1, 2, 6)), (nn.BatchNorm1d(3).eval(), (4, 3)), (nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)),
        (nn.BatchNorm1d(3, affine=False).eval(), (2, 3, 4)), (nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 4)), (nn.BatchNorm3d(2).eval(), (1, 2, 2, 2, 2)),
        (nn.BatchNorm1d(3), (4, 3)), (nn.InstanceNorm1d(3), (2, 3, 5)), (nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(), (2, 3, 4, 4)),
        (nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 5)), (nn.GroupNorm(2, 4), (2, 4, 5)), (nn.LayerNorm((4, 6)), (2, 4, 6)), (nn.RMSNorm(4), (2, 4)),
        (nn.LocalResponseNorm(2), (1, 4, 3)), (nn.Dropout(0.5).eval(), (2, 3)), (nn.ReLU(inplace=True), (2, 3)), (nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True)), (2, 3)),
        (nn.PReLU(), (2, 3)), (nn.Softmax(-1), (2, 3)), (nn.LogSoftmax(0), (2, 3)), (nn.GLU(), (2, 4)), (nn.Hardswish(), (2, 3)), (nn.Threshold(0.1, 20), (2, 3)),
        (nn.PixelShuffle(2), (1, 4, 2, 3)), (nn.PixelUnshuffle(2), (1, 1, 4, 2)), (nn.ChannelShuffle(2), (1, 4, 2, 2)), (nn.Unflatten(1, (2, 2)), (3, 4)), (nn.Fold((4, 4), 2), (1, 4, 9)),
        (nn.Unfold(2), (1, 1, 4, 4)), (nn.Upsample(scale_factor=2), (1, 2, 3)), (nn.CosineSimilarity(), (2, 3), (2, 3)), (nn.PairwiseDistance(), (2, 3), (2, 3)),
        (nn.MSELoss(), (2, 3), (2, 3)), (nn.SmoothL1Loss(), (2, 3), (2, 3)), (nn.GRUCell(3, 4), (2, 3)), (nn.LSTMCell(3, 4), (2, 3)), (nn.RNN(3, 4), (2, 1, 3)),
        (nn.GRU(3, 4, batch_first=True), (1, 3, 3)), (nn.LSTM(3, 4), (3, 2, 3)), (nn.MultiheadAttention(4, 2, batch_first=True), (1, 3, 4), (1, 3, 4), (1, 3, 4)),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), (1, 3, 4)), (nn.ConvTranspose1d(2, 2, 3), (1, 2, 4)), (Kernel(), (2, 5)), (Window(), (3, 2, 3)),
    ]
    for module, *sizes in rows:
        yield Case(f"{type(module).__name__}{sizes}", module, made(*sizes), True)
    yield Case("Embedding", nn.Embedding(5, 3), [torch.randint(0, 5, (2, 4))], True)
    yield Case("EmbeddingBag", nn.EmbeddingBag(5, 3), [torch.randint(0, 5, (2, 4))], True)
    yield Case("CrossEntropyLoss", nn.CrossEntropyLoss(), [torch.randn(3, 4), torch.randint(0, 4, (3,))], True)
