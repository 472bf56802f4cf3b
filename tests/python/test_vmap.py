"""torch.func.vmap: values against the loop over members, words and random numbers against PyTorch's (2.13, recorded)."""
import pytest
import taper
from taper import nn
from taper.func import functional_call, functionalize, grad, jacrev, stack_module_state, vjp, vmap
from taper.fx.experimental.proxy_tensor import make_fx
from taper.nn import functional as F
from taper.utils._python_dispatch import TorchDispatchMode
from taper.utils._pytree import tree_map


def numbers(*size, start=0.0):
    n = 1
    for s in size:
        n *= s
    return ((taper.arange(float(n)) + start) * 0.37).sin().reshape(size)


X, V, W, I = numbers(3, 4, 5), numbers(3, 5, start=9), numbers(6, 5), taper.tensor([[0, 1], [1, 2], [3, 0]])
CASES = {
    "arithmetic": (lambda a: a.sin() * 2 + a, X),
    "views": (lambda a: a.t()[1:].reshape(-1).view(2, -1)[:, ::2], X),
    "lists": (lambda a: taper.cat([*a.split(2), a.unbind(1)[0][:, None].expand(4, 5)]), X),
    "products": (lambda a, v: (a @ W.t()).mv(taper.ones(6)).dot(a @ v), X, V),
    "einsum": (lambda a: taper.einsum("ij,kj->ik", a, W), X),
    "reductions": (lambda a: a.sum() + a.mean(0).max() + a.var() + a.norm() + a.argmax() + a.prod(), X),
    "sorting": (lambda a: a.sort(0)[0] + a.topk(4, 0)[0], X),
    "indices": (lambda a, i: a[i] + a[:, i].t()[0, 0] + a[i, i][:, None], X, I),
    "writes": (lambda a: written(a), X),
    "writes by indices": (lambda a, i: a.index_put((i,), taper.tensor(9.0)).index_add(0, i, a[:2]), X, I),
    "gather and scatter": (lambda a, i: a.scatter(1, i[:, None], 5.0).gather(1, i[:, None]), X, I),
    "masks": (lambda a: taper.where(a > 0, a, -a).masked_fill(a > 0.5, 3.0), X),
    "new tensors": (lambda a: a + a.new_ones(5) + taper.zeros_like(a) + taper.full_like(a, 2.0), X),
    "linear": (lambda a: F.linear(a, W, W[:, 0]) + F.linear(a[0], W), X),
    "convolution": (lambda a, w: F.conv1d(a[None], w[None, :, :2], w[0, :1]), X, X),
    "pooling": (lambda a: F.max_pool1d(a, 2) + F.avg_pool1d(a, 2), X),
    "norms": (lambda a: F.layer_norm(a, (5,), V[0]) + F.group_norm(a[None], 2)[0] + F.batch_norm(a, V[0], V[0].abs() + 1), X),
    "attention": (lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None]), X),
    "losses": (lambda a, i: F.cross_entropy(a[:2], i) + F.mse_loss(a, a * 2), X, I),
    "tables": (lambda a, i: F.embedding(i, a), X, I),
    "matrices": (lambda a: taper.linalg.inv(a[:, :4] + taper.eye(4) * 3) + taper.linalg.det(a[:, :4]) + taper.linalg.svdvals(a).sum(), X),
    "types": (lambda a: a.double().to(taper.float16).float(), X),
    "0-d members": (lambda s, a: s * a, taper.tensor([1.0, 2, 3], dtype=taper.float64), X),
    "gradients": (grad(lambda a: (a.tanh() @ W.t()).sum()), X),
    "gradients of layers": (grad(lambda a: F.layer_norm(a, (5,)).sin().sum() + F.conv1d(a[None], X[0][None, :, :2]).sin().sum()), X),
    "gradients of groups": (grad(lambda a, v: F.group_norm(a[None], 2, v[:4], v[:4]).sin().sum(), (0, 1)), X, V),
    "gradients of channels": (grad(lambda a, v: F.batch_norm(a, None, None, v, v, training=True).sin().sum(), (0, 1)), X, V),
    "gradients of rows": (grad(lambda a, v: F.layer_norm(a, (5,), v, v).sin().sum(), (0, 1)), X, V),
    "gradients of tables": (grad(lambda a, i: F.embedding(i, a).sin().sum()), X, I),
    "gradients of convolutions": (grad(lambda a, w: F.conv1d(a[None], w[None, :, :2], w[0, :1], padding=1).sin().sum(), (0, 1)), X, X),
    "gradients of attention": (grad(lambda a: F.scaled_dot_product_attention(a[None, None], a[None, None], a[None, None]).sin().sum()), X),
    "gradients of losses": (grad(lambda a, i: F.cross_entropy(a[:2], i) + F.nll_loss(a[2:], i, reduction="sum") + F.cross_entropy(a[0], i[0])), X, I),
    "gradients of indices": (grad(lambda a, i: (a[i].sin() * 2).sum() + a[:, i].cos().sum() + a[i, i].sum()), X, I),
    "gradients of pooling": (grad(lambda a: F.max_pool1d(a, 2).sin().sum() + F.avg_pool1d(a, 2).sin().sum()), X),
    "gradients of sizes": (grad(lambda a: F.interpolate(a[None], scale_factor=2.0).sin().sum() + F.pad(a[None], (1, 1), "reflect").sin().sum()), X),
    "puts": (lambda a, i, v: a.index_put((i,), v) + a.index_put((i, i), v[:2], accumulate=True) + a.index_put((None, i), v[0]), X, I, V),
    "puts apart": (lambda a, i, v: a[None].index_put((taper.tensor([0, 0]), None, i), v[:4]), X, I, V),
    "masked puts": (lambda a: a.index_put((X[0] > 0,), taper.tensor(2.0)), X),
    "foreach": (lambda a: taper._foreach_mul([a, a + 1], 2.0)[1], X),
}


def written(a):
    c = a.clone()
    c[0] = 7
    c[:, 1].zero_()
    c[1:].t()[0].add_(5)
    return c.unsqueeze_(0).squeeze_(0).t_()


@pytest.mark.parametrize("name", CASES)
def test_the_loop(name):
    f, *batches = CASES[name]
    for alone in (None, *range(len(batches))):          # all batched, then each by itself
        dims = tuple(0 if alone in (None, i) else None for i in range(len(batches)))
        got = vmap(f, dims)(*(b if d == 0 else b[0] for b, d in zip(batches, dims)))
        want = [f(*(b[k if d == 0 else 0] for b, d in zip(batches, dims))) for k in range(3)]
        for one, members in zip(got, zip(*want)) if isinstance(got, tuple) else [(got, want)]:
            assert one.dtype == members[0].dtype and taper.allclose(one, taper.stack(list(members)), atol=1e-5)


def test_an_empty_batch():
    empty = vmap(lambda a: a.sum(0) @ W.t())(taper.ones(0, 4, 5))
    assert empty.shape == (0, 6)


def test_dims():
    f = lambda a: a.sum(0)                              # noqa: E731
    assert taper.equal(vmap(f, in_dims=-1, out_dims=-1)(X), X.sum(0))
    assert taper.equal(vmap(lambda a, b: a * b, (1, None))(X, V), taper.stack([X[:, i] * V for i in range(4)]))
    got = vmap(lambda d: {"s": d["a"] + d["b"][0]}, in_dims=({"a": 0, "b": [None]},), out_dims={"s": 1})({"a": X, "b": [V[0]]})
    assert taper.equal(got["s"], (X + V[0]).transpose(0, 1))
    a, b = vmap(lambda a: [a, V], out_dims=[1, None])(X)
    assert taper.equal(a, X.transpose(0, 1)) and b is V
    assert taper.equal(vmap(lambda a: V[0], out_dims=1)(X), V[0][:, None].expand(5, 3))
    assert taper.equal(vmap(lambda a, k: a * k, chunk_size=2)(X, k=2.0), X * 2)
    assert taper.equal(vmap(vmap(vmap(lambda a: a + 1)))(X), X + 1)
    table = vmap(lambda a: vmap(lambda b: a[0].dot(b), in_dims=1)(X[0]), in_dims=2)(X[1:2])       # columns of X[1] with columns of X[0]
    assert taper.allclose(table.squeeze(), X[1].t() @ X[0], atol=1e-6)
    assert taper.vmap is vmap
    y = X.clone()
    vmap(lambda a: a.add_(1), in_dims=2)(y)
    assert taper.equal(y, X + 1)


MORE = ("is not possible because there exists a Tensor `other` in extra_args that has more elements than `self`. This happened due to `other` being vmapped "
        "over but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of {}. If said operator is being called inside the "
        "PyTorch framework, please file a bug report instead.")
FILE = "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
RANDOM = ("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or perform the "
          "randomness operation out of vmap")
Y, Z = numbers(3, 2), taper.zeros(2)
SPEC1, SPEC2 = "TreeSpec(tuple, None, [*])", "TreeSpec(tuple, None, [*,\n  *])"


def name(a):
    return a


WORDS = [
    (lambda: vmap(lambda a: a.sum().item())(Y), "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
     "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug report."),
    (lambda: vmap(lambda a: a if a.sum() > 0 else -a)(Y), "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
     "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."),
    (lambda: vmap(lambda a: a.nonzero())(Y), "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::nonzero. " + FILE),
    (lambda: vmap(lambda a: a[a > 0])(Y), "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a boolean mask."),
    (lambda: vmap(lambda a: a.masked_select(a > 0))(Y), "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each "
     "batch this would return a differently shaped Tensor. " + FILE),
    (lambda: vmap(lambda a: taper.equal(a, a))(Y), "Batching rule not implemented for aten::equal. We could not generate a fallback."),
    (lambda: vmap(lambda a: taper.allclose(a, a))(Y), "vmap over torch.allclose isn't supported yet. " + FILE),
    (lambda: vmap(lambda a: a.tolist())(Y), "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda: vmap(lambda a: a.data_ptr())(Y), "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda: vmap(lambda a: Z.copy_(a))(Y), "vmap: inplace arithmetic(self, *extra_args) " + MORE.format("inplace arithmetic")),
    (lambda: vmap(lambda a: Z.index_put_((I[0],), a))(Y), "vmap: index_put_(self, *extra_args) " + MORE.format("index_put_")),
    (lambda: vmap(lambda a: taper.add(a, a, out=Z))(Y), "Batching rule not implemented for aten::add.out; the fallback path doesn't work on out= or view ops."),
    (lambda: vmap(lambda a: a.data)(Y), "accessing `data` under vmap transform is not allowed"),
    (lambda: vmap(lambda a: a + taper.rand(2))(Y), RANDOM),
    (lambda: vmap(lambda a: F.dropout(a))(Y), RANDOM),
    (lambda: vmap(lambda a: Z.normal_(), randomness="different")(Y), "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
     "like same randomness. If this is necessary for your usage, please file an issue with functorch."),
    (lambda: vmap(taper.bernoulli, randomness="same")(Y), "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"),
    (lambda: vmap(name, randomness="bad"), "Only allowed values for randomness are 'error', 'different', or 'same'. Got bad"),
    (lambda: vmap(lambda a: a.requires_grad_())(Y), "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of a "
     "function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, "
     "hessian) or call requires_grad_() outside of a function being transformed instead."),
    (lambda: vmap(lambda a: F.batch_norm(a, taper.zeros(5), taper.ones(5), training=True))(X), "Batch norm got a batched tensor as input while the running_mean or "
     "running_var, which will be updated in place, were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
     "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch your module to work with vmap"),
    (lambda: vmap(name)(3), "vmap(name, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the input is of type <class 'int'>. We cannot vmap over non-Tensor "
     "arguments, please use None as the respective in_dim"),
    (lambda: vmap(name)(), "vmap(name)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no inputs. The latter is "
     "unsupported."),
    (lambda: vmap(name, (0, 0))(Y), f"vmap(name, in_dims=(0, 0), ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. in_dims has structure {SPEC2} but "
     f"inputs has structure {SPEC1}."),
    (lambda: vmap(name, [0])(Y), "vmap(name, in_dims=[0], ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
     "<class 'list'>."),
    (lambda: vmap(name, ((0.5,),))((Y,)), "vmap(name, in_dims=((0.5,),), ...)(<inputs>): Got in_dim=0.5 for an input but in_dim must be either an integer dimension or None."),
    (lambda: vmap(name, (None,))(Y), "vmap: Expected at least one Tensor to vmap over"),
    (lambda: vmap(name, 2)(Y), "vmap(name, in_dims=2, ...)(<inputs>): Got in_dim=2 for some input, but that input is a Tensor of dimensionality 2 so expected in_dim to "
     "satisfy -2 <= in_dim < 2."),
    (lambda: vmap(lambda a, b: a)(Y, Z), "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [3, 2] for the mapped dimension"),
    (lambda: vmap(lambda a: 3)(Y), "vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class 'int'>. Did you mean to set out_dims= to None for output?"),
    (lambda: vmap(name, out_dims=(0, 0))(Y), f"vmap(name, ..., out_dims=(0, 0))(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has structure "
     f"{SPEC2} but outputs has structure *."),
    (lambda: vmap(name, out_dims="x")(Y), "vmap(name, ..., out_dims=x): `out_dims` must be an int, None or a python collection of ints representing where in the outputs the "
     "vmapped dimension should appear."),
    (lambda: vmap(name, out_dims=3)(Y), "Dimension out of range (expected to be in range of [-2, 1], but got 3)"),
    (lambda: vmap(name, out_dims=None)(Y), "vmap(name, ...): `name` can not return a BatchedTensor when out_dim is None"),
    (lambda: vmap(name, chunk_size=0)(Y), "vmap: chunk_size should be None or greater than 0. (got 0)"),
]


@pytest.mark.parametrize("i", range(len(WORDS)))
def test_words(i):
    call, words = WORDS[i]
    with pytest.raises((RuntimeError, ValueError, IndexError)) as e:
        call()
    assert str(e.value) == words
    assert vmap(name)(Y) is not None and not taper._C._functorch.maybe_current_level()      # every level was left


def test_random_numbers():
    def draw(f, how, x=taper.zeros(3, 2)):
        taper.manual_seed(0)
        return [[round(v, 4) for v in row] for row in vmap(f, randomness=how)(x).tolist()]

    same, different = [[0.4963, 0.7682]] * 3, [[0.4963, 0.7682], [0.0885, 0.132], [0.3074, 0.6341]]
    for f in (lambda a: taper.rand(2), taper.rand_like, lambda a: a.clone().uniform_(), lambda a: taper.rand_like(taper.ones(2))):
        assert draw(f, "same") == same and draw(f, "different") == different
    assert draw(lambda a: a.clone().normal_(), "different") == [[1.541, -0.2934], [-2.1788, 0.5684], [-1.0845, -1.3986]]
    assert draw(lambda a: taper.randperm(4), "different") == [[0, 1, 3, 2], [0, 2, 3, 1], [3, 2, 0, 1]]
    assert draw(lambda a: a + taper.ones(2).normal_(), "same") == [[1.541, -0.2934]] * 3
    taper.manual_seed(0)
    a = vmap(F.dropout, randomness="same", chunk_size=1)(taper.ones(3, 8))
    assert taper.equal(a[0], a[1]) and taper.equal(a[0], a[2])
    taper.manual_seed(0)
    inner = vmap(lambda a: vmap(lambda b: b + taper.rand(()), randomness="different")(a), randomness="same")(taper.zeros(2, 3))
    assert taper.equal(inner[0], inner[1]) and inner[0].unique().numel() == 3
    assert taper.equal(vmap(lambda a: F.dropout(a, training=False))(X), X)


def test_models():
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    params, y = {k: v.detach() for k, v in model.named_parameters()}, taper.tensor([0, 1, 2])

    def loss(p, a, y):
        return F.cross_entropy(functional_call(model, p, (a.unsqueeze(0),)), y.unsqueeze(0))

    each = vmap(grad(loss), (None, 0, 0))(params, V, y)
    for k in range(3):
        for one, want in zip(each.values(), grad(loss)(params, V[k], y[k]).values()):
            assert taper.allclose(one[k], want, atol=1e-6)
    chunks = vmap(grad(loss), (None, 0, 0), chunk_size=2)(params, V, y)
    assert all(taper.allclose(chunks[k], each[k]) for k in each)
    models = [nn.Linear(5, 2) for _ in range(3)]
    p, b = stack_module_state(models)
    assert p["weight"].shape == (3, 2, 5) and p["weight"].requires_grad and p["weight"].is_leaf and b == {}
    out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), (0, 0, None))(p, b, X[0])
    assert taper.allclose(out, taper.stack([m(X[0]) for m in models]), atol=1e-6)
    out.sum().backward()
    assert taper.allclose(p["weight"].grad, X[0].sum(0).expand(3, 2, 5), atol=1e-5)
    for given, words in (([], "Expected at least one model, got 0."), ([nn.Linear(2, 2), nn.ReLU()], "Expected all models to be of the same class."),
                         ([nn.ReLU(), nn.ReLU().eval()], "Expected all models to have the same training/eval mode.")):
        with pytest.raises(RuntimeError, match=words):
            stack_module_state(given)
    means, variances = taper.zeros(3, 5), taper.ones(3, 5)
    vmap(lambda a, m, v: F.batch_norm(a, m, v, training=True))(X, means, variances)
    assert taper.allclose(means, X.mean(1) * 0.1, atol=1e-6)


def test_nesting():
    x = V[0]
    assert taper.allclose(jacrev(lambda a: vmap(taper.tanh)(a))(x), taper.diag(1 - x.tanh() ** 2), atol=1e-6)
    assert taper.allclose(jacrev(jacrev(lambda a: (a ** 3).sum()), chunk_size=2)(x), taper.diag(6 * x), atol=1e-5)
    assert taper.allclose(vmap(jacrev(taper.sin))(V)[1], taper.diag(V[1].cos()), atol=1e-6)
    j = jacrev(lambda a, b: (a.sin(), {"k": (a * b).sum()}), argnums=(0, 1))(x, x)
    assert j[0][1].abs().sum() == 0 and taper.allclose(j[1]["k"][0], x)
    assert taper.allclose(vmap(vjp(taper.sin, x)[1])(taper.eye(5))[0], taper.diag(x.cos()), atol=1e-6)
    assert taper.allclose(vmap(lambda a: vjp(taper.sin, a)[1](taper.ones(5))[0])(V), V.cos())
    assert taper.equal(functionalize(lambda x: vmap(lambda a: a.clone().add_(1))(x))(X), X + 1)
    assert taper.equal(vmap(functionalize(lambda a: a.clone().add_(1)))(X), X + 1)
    y = X.clone().requires_grad_()
    vmap(lambda a: a.sin().sum())(y).sum().backward()
    assert taper.allclose(y.grad, X.cos())
    leaf = vmap(lambda a: a)(y)
    assert leaf.requires_grad


def test_other_sizes():
    for f in (lambda a: a.sum(0), lambda a: F.linear(a, a).sin().mean(), grad(lambda a: (a.sin() @ a.t()).sum()),
              lambda a: a.reshape(-1).view(a.shape[1], a.shape[0]), lambda a: a.expand(2, *a.shape), lambda a: taper.cat([a, a.new_zeros(a.shape)])):
        gm, x = make_fx(vmap(f), tracing_mode="symbolic")(X), numbers(5, 2, 7)
        assert taper.allclose(gm(x), taper.stack([f(a) for a in x]), atol=1e-5)


def test_captures_see_plain_ops():
    class Model(nn.Module):
        def forward(self, x):
            return vmap(lambda a: a.sin().sum())(x), grad(lambda a: a.sin().sum())(x)

    ep = taper.export.export(Model(), (X,))
    assert [str(n.target) for n in ep.graph.nodes if n.op == "call_function"] == [
        "aten.sin.default", "aten.sum.dim_IntList", "aten.sin.default", "aten.sum.default", "aten.ones_like.default", "aten.expand.default",
        "aten.cos.default", "aten.mul.Tensor"]
    a, b = ep.module()(X + 1)
    assert taper.allclose(a, (X + 1).sin().sum((1, 2)), atol=1e-5) and taper.allclose(b, (X + 1).cos())
    f = taper.compile(lambda x: vmap(lambda a: a.sin().sum())(x) * 2, backend="eager")
    assert taper.allclose(f(X), X.sin().sum((1, 2)) * 2, atol=1e-5)         # not captured, run as it is
    traced = taper.jit.trace(lambda x: vmap(lambda a: a.sin().sum())(x), X)
    assert taper.allclose(traced(X + 1), (X + 1).sin().sum((1, 2)), atol=1e-5)


class Cube(taper.autograd.Function):
    """Written on NumPy arrays, which know no wrappers."""
    told = []

    @staticmethod
    def forward(x, k):
        return taper.tensor(x.numpy() ** k)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * Cube.apply(ctx.saved_tensors[0], ctx.k - 1), None

    @staticmethod
    def vmap(info, in_dims, x, k):
        Cube.told.append((*info, in_dims, tuple(x.shape)))
        return Cube.apply(x, k), in_dims[0]


class Product(taper.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h * x.cos(), g * x


def test_functions():
    pytest.importorskip("numpy")
    x = taper.arange(6.0).view(3, 2)
    Cube.told.clear()
    assert taper.equal(vmap(lambda a: Cube.apply(a, 3))(x), x ** 3)
    assert Cube.told == [(3, "error", (0, None), (3, 2))]
    assert taper.equal(vmap(grad(lambda a: Cube.apply(a, 3).sum()))(x), 3 * x ** 2)
    assert taper.equal(grad(lambda x: vmap(lambda a: Cube.apply(a, 3).sum())(x).sum())(x), 3 * x ** 2)
    assert taper.equal(grad(lambda x: grad(lambda y: Cube.apply(y, 3).sum())(x).sum())(x), 6 * x)
    assert taper.equal(vmap(lambda a: a + Cube.apply(taper.ones(2), 3))(x), x + 1)
    a, b = vmap(Product.apply, (0, None))(x, x[0])
    assert taper.equal(a, x * x[0]) and taper.equal(b, x.sin())
    assert taper.equal(grad(lambda y: vmap(Product.apply, (0, None))(x, y)[0].sum())(x[0]), x.sum(0))
    assert taper.equal(vmap(grad(lambda a, b: Product.apply(a, b)[0].sum()), (0, None))(x, x[0]), x[0].expand(3, 2))

    class Both(Product):
        @staticmethod
        def vmap(info, in_dims, *args):
            return None

    class Neither(Product):
        generate_vmap_rule = False

    class Old(taper.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    more = " For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
    for cls, words in ((Both, "You tried to vmap over Both, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                        "delete the overridden vmap staticmethod to avoid ambiguity."),
                       (Neither, "You tried to vmap over Neither, but it does not have vmap support. Please override and implement the vmap staticmethod or set "
                        "generate_vmap_rule=True.")):
        with pytest.raises(RuntimeError) as e:
            vmap(cls.apply)(x, x)
        assert str(e.value) == words + more
    for call in (lambda: vmap(Old.apply)(x), lambda: grad(lambda a: Old.apply(a).sum())(x)):
        with pytest.raises(RuntimeError) as e:
            call()
        assert str(e.value) == ("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the setup_context "
                                "staticmethod." + more)


def test_custom_ops():
    @taper.library.custom_op("vmap_test::square", mutates_args=())
    def square(x: taper.Tensor) -> taper.Tensor:
        return x * x

    assert taper.equal(vmap(square)(X), X * X)          # one by one
    told = []

    @taper.library.register_vmap("vmap_test::square")
    def rule(info, in_dims, x):
        told.append((info.batch_size, in_dims, tuple(x.shape)))
        return square(x).movedim(0, 1), 1

    assert taper.equal(vmap(square)(X), X * X) and told == [(3, (0,), (3, 4, 5))]


class Two(taper.Tensor):
    @staticmethod
    def __new__(cls, a, b):
        return taper.Tensor._make_wrapper_subclass(cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, f, types, args=(), kwargs=None):
        Seen.calls.append(str(f))
        one, two = (f(*tree_map(lambda x: getattr(x, side) if isinstance(x, Two) else x, args), **(kwargs or {})) for side in "ab")
        return Two(one, two)


class Seen(TorchDispatchMode):
    calls = []

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        self.calls.append(str(f))
        return f(*args, **(kwargs or {}))


def seen(call):
    Seen.calls.clear()
    return call(), list(Seen.calls)


def test_subclasses_and_modes():
    x = taper.arange(6.0).view(2, 3)
    pair = Two(x, x + 1)
    each = ["aten.mul.Tensor", "aten.sum.dim_IntList", "aten.ones_like.default", "aten.view.default", "aten.expand.default", "aten.mul.Tensor", "aten.mul.Tensor",
            "aten.add.Tensor"]
    got, calls = seen(lambda: vmap(lambda a: a.sin().sum())(pair))
    assert type(got) is Two and taper.allclose(got.b, (x + 1).sin().sum(1)) and calls == ["aten.sin.default", "aten.sum.dim_IntList"]
    got, calls = seen(lambda: vmap(grad(lambda a: (a * a).sum()))(pair))
    assert taper.equal(got.a, 2 * x) and taper.equal(got.b, 2 * x + 2) and calls == each
    got, calls = seen(lambda: grad(lambda q: vmap(lambda a: (a * a).sum())(q).sum())(pair))
    assert taper.equal(got.a, 2 * x)

    def under_a_mode():
        with Seen():
            return vmap(grad(lambda a: (a * a).sum()))(x)

    got, calls = seen(under_a_mode)
    assert taper.equal(got, 2 * x) and calls == each

    def with_a_mode_inside(a):
        with Seen():
            return a.sin().sum()

    assert seen(lambda: vmap(with_a_mode_inside)(x))[1] == ["aten.sin.default", "aten.sum.dim_IntList"]


def test_what_wrappers_say():
    functorch, shown = taper._C._functorch, []

    def look(a):
        shown.append(repr(a))
        assert functorch.is_batchedtensor(a) and functorch.maybe_get_bdim(a) == 0 and functorch.is_functorch_wrapped_tensor(a)
        assert functorch.get_unwrapped(a).shape == (2, 2) and functorch.current_level() == functorch.maybe_get_level(a)
        return a.sum()

    x = taper.tensor([[1.0, 2], [3, 4]])
    vmap(look)(x)
    grad(lambda q: (shown.append(repr(q)), vmap(look)(q).sum())[1])(x)
    value = "tensor([[1., 2.],\n{0}        [3., 4.]])"
    assert shown[0] == "BatchedTensor(lvl=1, bdim=0, value=\n    " + value.format("    ") + "\n)"
    assert shown[1] == "GradTrackingTensor(lvl=1, value=\n    " + value.format("    ") + "\n)"
    assert shown[2] == "BatchedTensor(lvl=2, bdim=0, value=\n    GradTrackingTensor(lvl=1, value=\n        " + value.format("        ") + "\n    )\n)"
    assert not functorch.is_batchedtensor(x) and functorch.maybe_get_bdim(x) == functorch.maybe_get_level(x) == -1 and functorch.maybe_current_level() is None
    number = functorch._vmap_increment_nesting(2, "error")
    member = functorch._add_batch_dim(x, 1, number)
    out = functorch._remove_batch_dim(member.sum(), number, 2, 0)
    assert functorch._vmap_decrement_nesting() == number == 1 and out.tolist() == [4, 6]
    outlived = []
    vmap(lambda a: (outlived.append(a), a)[1])(x)
    with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
        outlived[0] * 2


def test_composites_that_make_room_and_write():
    """What such an op writes into has to be of the level: diag_embed, one_hot and block_diag failed."""
    batch = taper.arange(24.0).reshape(2, 3, 4)
    for offset in (0, 1, -1):
        for dims in ((-2, -1), (0, 1), (2, 0), (-1, 0)):
            def embed(a):
                return a.diag_embed(offset, *dims)
            assert vmap(embed)(batch).equal(taper.stack([embed(a) for a in batch]))
    index = taper.tensor([0, 2, 1])
    assert vmap(lambda i: taper.nn.functional.one_hot(i, 3))(index).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]

    def blocks(a):
        return taper.block_diag(a, taper.ones(1), a[0])
    assert vmap(blocks)(batch).equal(taper.stack([blocks(a) for a in batch]))
