"""Programs that branch on sizes: x has (a, 6) elements, y has (b, 6), both sizes dynamic. Each gives a tensor or a tuple of them.

What a branch does is visible in the values, so a program that takes the wrong one is seen."""
import math
import operator

import taper
from taper import nn
from taper.nn import functional as F

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def pick(condition, x):
    return x + 1 if condition else x * 2 - 1


CONDITIONS = """
a < b | a <= b | a > b | a >= b | a == b | a != b | a == 8 | a != 8 | a != 5 | a > 5 | a < 9 | not a == 3 | a == 1 | a > 1 | a
a + b > 15 | a + b == 20 | a - b < 0 | b - a > 3 | abs(a - b) < 5 | 2 * a > b | 2 * a == b + 4 | 3 * a != 2 * b | a + b != 14 | a + 4 == b
a * b > 60 | a * b == 96 | a * a > b | a * a > 50 | a ** 2 < 2 * b ** 2 | a ** 3 > 500 | 2 ** a > 300 | a * b % 5 == 1 | (a + b) % 2 == 0
a % 4 == 0 | a % 2 | a % 3 == 2 | a % b == 8 | b % a == 4 | (a + 1) % 3 == 0 | a % 4 != 1 | a // 2 == 4 | a // 3 > 1 | b // a == 1 | a // b
(a + 3) // 4 == 2 | -a // 3 == -3 | divmod(a, 3)[1] == 2 | divmod(b, a)[0] > 0 | a & 1 | a & 4 == 0 | a | 1 == 9 | a ^ b > 3 | a << 1 > b | a >> 2 == 2
max(a, b) > 10 | min(a, b) < 6 | max(a, 5) == 8 | min(a, 10) == 8 | max(a, b, 9) == 12 | sorted([b, a])[0] == a | taper.sym_max(a, b) > 10
taper.sym_min(a, b) > 6 | taper.sym_max(a, 9) == 9 | taper.sym_min(a, 9) == 9 | taper.sym_max(a, 1) == a | sum([a, b]) > 12 | all([a > 2, b > 2])
any([a < 4, b < 4]) | a in (4, 8, 12) | a not in [3, 5] | a > 3 and b > 3 | a > 10 or b > 10 | (a > 3) == (b > 3) | 2 < a < 10 | a if b > 3 else b
int(a * 1.5) > 10 | int(a * 1.5) == 12 | int(a / 2) == 4 | a / 2 > 3.5 | a / 3 == b / 4 | a / b < 0.7 | a * 0.1 > 0.75 | a * 1.5 > b | a + 0.5 > 7
a ** .5 < 2.5 | a ** 0.5 > b ** 0.5 - 1 | a ** -1 < .2 | round(a / 3) == 3 | round(a * 0.37, 1) > 2.5 | round(a / 2) % 2 | math.floor(a / 3) == 2
math.ceil(a / 3) == 3 | math.trunc(a / 3) == 2 | math.sqrt(a) > 2.5 | math.log(a) < 2 | math.floor(a * 0.7) > 4 | float(a) > 5 | float(a) / b > 0.6
taper.sym_sqrt(a) < 2.5 | taper.sym_float(a) * 0.3 > 2 | taper.sym_int(a * 0.9) == 7 | (a * 0.25) * 4 == a | a - b * 0.5 < 1 | a * 1e-3 < 0.0075
int(a ** 0.5) == 2 | a % 2.5 > 1 | a // 1.5 == 5 | bool(a % 2) | int(a > 5) | (a > 5) + (b > 5) == 2
operator.index(a) > 5 | len(range(a)) > 5 | len([0] * a) == 8 | a.bit_length() == 4 | list(range(20))[a] > 5 | 'abcdefghijklmnopqrstuvwxyz0123456789'[a] > 'g'
len(x) > 5 | len(x) == len(y) | x.__len__() > 5 | len(x.shape) == 2 | x.nbytes > 150 | x.nbytes > y.nbytes | x.numel() > 40 | x.nelement() % 16 == 0
x.shape.numel() > 40 | x.size().numel() > y.numel() | taper.numel(x) > 40 | x.untyped_storage().nbytes() > 150 | x.untyped_storage().size() == 192
len(x.untyped_storage()) > 150 | (x + 1).untyped_storage().nbytes() > 150 | x.storage_offset() == 0 | x[2:].storage_offset() > a | x.t().stride(0) == 1
x.t().contiguous().stride(0) > 5 | x.reshape(-1).stride(0) == 1 | x.t().contiguous().stride()[0] == 8 | x.is_contiguous() | x.t().is_contiguous()
x.shape == y.shape | x.shape != y.shape | x.shape[0:1] == y.shape[0:1] | tuple(x.shape) == (8, 6) | list(x.shape) == [8, 6] | x.is_same_size(y) | taper.is_same_size(x, y) | x.size() > y.size()
x.shape[-2] > 6 | x.size(0) > 6 | x.size(-2) > 6 | x.size()[0] > 6 | 8 in x.shape | x.shape.count(6) == 1 | x.shape.index(6) == 1 | max(x.shape) > 7 | x.T.shape[1] > 6
sum(x.shape) > 12 | math.prod(x.shape) > 40 | x.itemsize * a > 30 | x.dim() == 2 and a > 5 | x.ndim * a > 15 | taper.Size([a, 2]).numel() > 15
taper.cat([x, y]).shape[0] > 15 | taper.cat([x, y], 0).numel() % 10 == 0 | x.reshape(-1).shape[0] > 40 | x.view(-1, 3).shape[0] > 15 | x[2:].shape[0] > 5
x[:5].shape[0] == 5 | x[:2].shape[0] == 2 | x[-3:].shape[0] == 3 | x[::2].shape[0] == 4 | x[1::3].shape[0] > 2 | len(x[2:]) > 5 | x[:, :3].numel() > 20
x.repeat(2, 1).shape[0] > b | x.unsqueeze(0).shape[1] > 5 | x.flatten().shape[0] % 5 == 3 | (x @ y.t()).shape[1] > 10 | (x @ y.t()).numel() > 90
F.pad(x, (0, 0, 1, 2)).shape[0] > 10 | x.unfold(0, 2, 2).shape[0] > 3 | taper.arange(a).shape[0] > 5 | taper.zeros(a, b).numel() > 90 | x.diagonal().shape[0] == 6
x.new_zeros(a + b).shape[0] > 18 | x.expand(2, a, 6).shape[1] > 5 | len(x.chunk(3)) == 3 | len(x.split(3)) == 3 | len(x.tensor_split(3)) == 3 | len(x.unbind()) > 5
len(list(x)) > 5 | len([row for row in x]) == 8 | len(x.tolist()) > 5 | x.chunk(2)[0].shape[0] > 3 | x.split(3)[-1].shape[0] == 2 | x.tensor_split(3)[0].shape[0] == 3
F.avg_pool1d(x.t(), 2).shape[1] > 3 | F.max_pool1d(x.t(), 3, 2).shape[1] == 3 | F.interpolate(x[None], scale_factor=1.5).shape[2] == 9
F.interpolate(x.t()[None], scale_factor=1.5).shape[2] > 10 | F.conv1d(x.t()[None], taper.ones(1, 6, 3)).shape[2] > 5 | x.roll(1, 0).shape[0] > 5
x.sum(0).shape[0] == a - 2 | x.mean(1).shape[0] > 5 | x.cumsum(0).shape[0] > 5 | x.sort(0)[0].shape[0] > 5 | x.topk(2, 0)[0].shape[0] == 2 | x.argmax() > 1000
taper.broadcast_shapes((a, 1), (1, b))[1] > 10 | taper.stack([x, x]).shape[1] > 5 | x.narrow(0, 1, 2).shape[0] == 2 and a > 3
x.swapaxes(0, 1).shape[1] > 5 | x.movedim(0, 1).shape[1] > 5 | x.tile(2).shape[0] > 5 | taper.tril(x).shape[0] > 5 | taper.eye(a).shape[1] > 5
taper.empty(a).numel() > 5 | taper.linspace(0, 1, a).shape[0] > 5 | x.index_select(0, taper.tensor([0, 1])).shape[0] == 2 | x.gather(0, taper.zeros(1, 6).long()).shape[0] == 1
""".replace("\n", " | ")

# `|` between programs has spaces and stands alone; the bits of sizes are written with operator.or_.
for number, text in enumerate(filter(None, (part.strip() for part in CONDITIONS.replace("a | 1 == 9", "operator.or_(a, 1) == 9").split(" | ")))):
    code = compile(text, f"<size program {number}>", "eval")

    def branch(x, y, code=code):
        return pick(eval(code, globals(), {"x": x, "y": y, "a": x.shape[0], "b": y.shape[0]}), x)
    PROGRAMS[text] = branch


# ---- values ----
VALUES = """
taper.cond(a > 5, lambda x: x + 1, lambda x: x - 1, (x,)) | taper.cond(a % 3 == 2, lambda x: x + 1, lambda x: x - 1, (x,))
taper.cond(x.sum() > 0, lambda x: x * x.shape[0], lambda x: x - x.shape[0], (x,)) | x * taper.sym_sum([a, b, 1])
taper.vmap(lambda r: r * 2 if a < b else r)(x) | taper.func.grad(lambda v: (v * v).sum() if v.shape[0] % 2 == 0 else v.sum())(x)
taper.func.hessian(lambda v: (v ** 3).sum())(x[:, 0]) | taper.utils.checkpoint.checkpoint(lambda v: v + (a % 2), x, use_reentrant=False)
sorted([x, y], key=lambda v: v.shape[0])[0] | max([x, y], key=len) * 2 | taper.stack([r * i for i, r in enumerate(x.unbind(0))])
x[slice(*slice(None, None, 2).indices(a))] | x[list(range(a))[::-1]] | x * float(a) ** 2 | x[taper.arange(a) % 2 == 0]
F.pad(x, (0, 0, 0, (4 - a % 4) % 4)).view(-1, 4, 6).sum(1) | x[:a // 4 * 4].view(-1, 4, 6).mean(1) | taper.cat([x[a // 2:], x[:a // 2]])
x + taper.arange(100.)[:a, None] | x + taper.arange(10.)[:a, None] | (x @ y.t()).masked_fill(taper.ones(a, b).triu(1).bool(), 0.)
F.interpolate(x.t()[None], size=b) | F.adaptive_avg_pool1d(x.t(), b // 4) | taper.stack([c.sum() * i for i, c in enumerate(x.chunk(4))])
[c.sum() for c in x.tensor_split([2, 4])] | [c.sum() for c in x.split(a // 2)] | x[2:] - y[:a - 2] | x.diagonal(1) * a | x.view(a * 2, 3) + 1
taper.bmm(x.reshape(-1, 2, 3), x.reshape(-1, 3, 2)) | taper.diff(x, n=9, dim=0) | taper.fft.rfft(x, n=4, dim=0).abs() | F.unfold(x[None, None], (2, 2))
F.conv1d(x.t(), taper.ones(2, 6, 3), padding="same") | taper.matmul(x.reshape(1, 2, -1, 3), x.reshape(1, 1, 3, -1)) | taper.cov(x) | x.unfold(0, 3, 2).sum(2)
taper.linspace(0, 1, a) | taper.hann_window(a) | taper.tensor(x.shape) | taper.stft(x.reshape(-1), 8, 4, return_complex=True).abs() | x.new_tensor(a)
""".replace("\n", " | ")

for number, text in enumerate(filter(None, (part.strip() for part in VALUES.split(" | ")))):
    code = compile(text, f"<size value {number}>", "eval")
    PROGRAMS["-> " + text] = lambda x, y, code=code: eval(code, {**globals(), "x": x, "y": y, "a": x.shape[0], "b": y.shape[0]})


# ---- statements ----
@program
def nested_conditions(x, y):
    if x.shape[0] > 4:
        if y.shape[0] % 2 == 0:
            return x + 1
        return x + 2 if x.shape[0] + y.shape[0] > 20 else x + 3
    return x - 1


@program
def while_on_sizes(x, y):
    n, steps = x.shape[0], 0
    while n > 3:
        n, steps = n // 2, steps + 1
    return x + steps


@program
def while_on_two_sizes(x, y):
    n, m = x.shape[0], y.shape[0]
    while m % n > 1:
        n, m = m % n, n
    return x * 1 + (n == 1)


@program
def loop_over_rows(x, y):
    total = x[0]
    for i in range(x.shape[0]):
        total = total + x[i] * (i + 1)
    return total


@program
def loop_over_half(x, y):
    total = y.sum()
    for i in range(x.shape[0] // 4):
        total = total * 2 + i
    return total


@program
def loop_over_ndim(x, y):
    for i in range(x.ndim):
        x = x + 1 if x.shape[i] > 6 else x - 1
    return x


@program
def iterate(x, y):
    return sum(row.sum() * i for i, row in enumerate(x))


@program
def unpack_shape(x, y):
    a, c = x.shape
    return x.reshape(c, a) + (1 if a > c else 2)


@program
def sizes_as_values(x, y):
    return x * x.shape[0] + y.shape[0]


@program
def float_sizes_as_values(x, y):
    return x / x.shape[0] ** 0.5 + y.shape[0] * 0.5


@program
def whole_numbers_of_floats(x, y):
    return x[:int(x.shape[0] * 0.5)] + 1


@program
def rounded_slices(x, y):
    return x[:round(x.shape[0] / 3)], y[:math.ceil(y.shape[0] / 2)], x[math.floor(x.shape[0] * 0.25):]


@program
def full_of_floats(x, y):
    return taper.full((x.shape[0],), x.shape[0] / y.shape[0])


@program
def size_tensors(x, y):
    return taper.tensor(x.shape[0]) + taper.tensor([x.shape[0], y.shape[0]])


@program
def dictionary_of_sizes(x, y):
    table = {"small": x - 1, "large": x + 1}
    return table["small" if x.shape[0] < y.shape[0] else "large"]


@program
def list_at_size(x, y):
    return [x, x + 1, x + 2, x + 3][x.shape[0] % 4]


@program
def masked_by_size(x, y):
    return x * (x.shape[0] > 5)


@program
def conditional_expression(x, y):
    n = x.shape[0] if x.shape[0] < y.shape[0] else y.shape[0]
    return x[:n] + y[:n]


@program
def smaller_of_two(x, y):
    n = min(x.shape[0], y.shape[0])
    return x[:n] - y[:n]


@program
def padded_to_larger(x, y):
    n = max(x.shape[0], y.shape[0])
    return F.pad(x, (0, 0, 0, n - x.shape[0])) + F.pad(y, (0, 0, 0, n - y.shape[0]))


@program
def square_if_possible(x, y):
    root = int(x.numel() ** 0.5)
    return x.reshape(-1)[:root * root].reshape(root, root)


@program
def even_odd_view(x, y):
    return x.view(x.shape[0] // 2, 2, 6) if x.shape[0] % 2 == 0 else x.view(-1)


@program
def view_as_given(x, y):
    return x.view(x.shape[0] * 2, 3) + 1


@program
def view_minus_one(x, y):
    return x.view(4, -1) + 1


@program
def view_of_two(x, y):
    return x.reshape(3, -1, 2) * 2


@program
def unflattened(x, y):
    return x.unflatten(0, (2, -1)) * 2


@program
def add_where_equal(x, y):
    return x + y


@program
def add_shifted(x, y):
    return x[1:] + y[5:]


@program
def cat_then_add(x, y):
    return taper.cat([x, x[:4]]) + y


@program
def matmul_where_equal(x, y):
    return x.t() @ y


@program
def chunks(x, y):
    first, *rest = x.chunk(2)
    return first * 2 + len(rest)


@program
def split_sizes(x, y):
    first, second = x.split([2, x.shape[0] - 2])
    return taper.cat([second, first])


@program
def split_by_three(x, y):
    return [part * i for i, part in enumerate(x.split(3))]


@program
def tensor_splits(x, y):
    return [part + i for i, part in enumerate(x.tensor_split(3))]


@program
def first_rows(x, y):
    return x[:2] * x[:2].shape[0], x[:9] * x[:9].shape[0]


@program
def assigned_rows(x, y):
    z = x.clone()
    z[:x.shape[0] // 2] = 0
    return z


@program
def assigned_wider(x, y):
    z = taper.zeros(6)
    z[:] = x[: x.shape[0] // 8]
    return z


@program
def one_element(x, y):
    z = x[: x.shape[0] // 8, :1]
    return y + z.item() if z.numel() == 1 else y


@program
def truth_of_tensor(x, y):
    return y + 1 if (x[: x.shape[0] // 8, :1] > -100) else y


@program
def jacobian(x, y):
    return taper.func.jacrev(lambda v: v * v)(x[:, 0])


@program
def hidden_in_attention(x, y):
    return F.scaled_dot_product_attention(x[None], y[None], y[None])


@program
def norm_by_shape(x, y):
    return F.layer_norm(x, x.shape[1:]) + F.softmax(x, 0)


@program
def mean_by_hand(x, y):
    return x.sum(0) / len(x)


@program
def per_item(x, y):
    return x.sum() / x.nbytes


@program
def asserted(x, y):
    assert x.shape[0] % 2 == 0, "even"
    return x.view(-1, 12)


@program
def checked(x, y):
    taper._check(x.shape[0] > 3)
    taper._check(x.shape[0] != y.shape[0])
    return x + (1 if x.shape[0] > 3 else 2)


@program
def caught(x, y):
    try:
        return x + y
    except RuntimeError:
        return x - 1


@program
def raised(x, y):
    if x.shape[0] > y.shape[0]:
        raise ValueError("x is the longer one")
    return x + 1


@program
def formatted(x, y):
    return x + (1 if "%d" % x.shape[0] == "8" else 0)


@program
def meshed(x, y):
    grid = taper.meshgrid(taper.arange(x.shape[0]), taper.arange(y.shape[0]), indexing="ij")
    return grid[0] * 10 + grid[1]


@program
def outer(x, y):
    return x[:, :1] * y[:, 0] + taper.arange(y.shape[0])


@program
def triangular(x, y):
    n = x.shape[0]
    return taper.ones(n, n).tril()[: n * (n + 1) // 2 % n + 1]


class Half(nn.Module):
    def forward(self, x):
        return x[: x.shape[0] // 2] if x.shape[0] % 2 == 0 else x


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.halved, self.line = Half(), nn.Linear(6, 6)

    def forward(self, x, y):
        z = self.halved(x)
        return self.line(z) if z.shape[0] < y.shape[0] else z + 1


def model_of(name):
    taper.manual_seed(0)
    return Cell() if name == "submodules" else Plain(PROGRAMS[name])


class Plain(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


NAMES = [*PROGRAMS, "submodules"]
FUNCTIONS = {name for name in NAMES if name.isidentifier() and name != "a"}
# What these compute nobody reads: where it raises, the program, from which it was taken out, does not.
UNREAD = {text for text in NAMES if any(word in text for word in ("interpolate", "topk", "index_select", "gather"))}
