"""torch.func: grad, vjp, functionalize, functional_call; values against plain autograd, words against PyTorch's."""
import pytest
import taper
from taper.func import functional_call, functionalize, grad, grad_and_value, jacrev, vjp


def test_grad():
    x = taper.tensor([1.0, 2.0])
    assert grad(lambda x: (x ** 3).sum())(x).tolist() == [3, 12]
    assert grad(lambda x, y: (x * y).sum(), argnums=1)(x, x * 2).tolist() == [1, 2]
    a, b = grad(lambda x, y: (x * y).sum(), argnums=(0, -1))(x, x * 2)
    assert a.tolist() == [2, 4] and b.tolist() == [1, 2]
    assert grad(lambda x, y: x.sum(), argnums=1)(x, x).tolist() == [0, 0]
    assert grad(lambda x, k: (x * k).sum())(x, k=x).tolist() == [1, 2]
    tree = grad(lambda d: d["a"].sum() * d["b"][0].sum())({"a": taper.ones(2), "b": [taper.ones(1)]})
    assert tree["a"].tolist() == [1, 1] and tree["b"][0].tolist() == [2]
    g, aux = grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
    assert g.tolist() == [1, 1] and aux.tolist() == [2, 4] and not aux.requires_grad
    g, value = grad_and_value(lambda x: (x * x).sum())(x)
    assert g.tolist() == [2, 4] and value.item() == 5
    g, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), x), has_aux=True)(x)
    assert value.item() == 5 and aux.tolist() == [1, 2]


def test_levels():
    x = taper.tensor(1.0)
    assert taper.allclose(grad(grad(lambda x: x.sin()))(x), -x.sin())
    assert taper.allclose(grad(grad(grad(lambda x: x ** 4)))(x), taper.tensor(24.0))
    assert grad(lambda x: taper.autograd.grad((x * x).sum(), x, create_graph=True)[0].sum())(taper.ones(2)).tolist() == [2, 2]
    y = taper.ones(2, requires_grad=True)
    r = grad(lambda x: (x ** 2).sum())(y)
    assert taper.autograd.grad(r.sum(), y)[0].tolist() == [2, 2]
    with taper.no_grad():
        assert not grad(lambda x: (x ** 2).sum())(y).requires_grad
    assert grad(lambda x: grad(lambda z: (z * x).sum())(x).sum())(taper.ones(3)).tolist() == [1, 1, 1]


def test_vjp():
    x = taper.tensor([1.0, 2.0])
    out, f = vjp(lambda x: x * x, x)
    assert out.tolist() == [1, 4] and not out.requires_grad
    assert f(taper.ones(2))[0].tolist() == [2, 4] and f(taper.tensor([1.0, 0.0]))[0].tolist() == [2, 0]
    out, f = vjp(lambda x, y: (x * 2, {"a": y}), x, x)
    a, b = f((taper.ones(2), {"a": taper.ones(2)}))
    assert a.tolist() == [2, 2] and b.tolist() == [1, 1]
    out, f, aux = vjp(lambda x: (x * 2, x.sum()), x, has_aux=True)
    assert aux.item() == 3
    # A pullback called inside another level.
    _, pull = vjp(lambda x: x ** 3, x)
    assert grad(lambda c: (pull(c)[0] * x).sum())(taper.ones(2)).tolist() == [3, 24]


def test_jacrev():
    x = taper.tensor([1.0, 2.0, 3.0])
    assert jacrev(lambda x: x * x)(x).tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]
    assert jacrev(jacrev(lambda x: (x ** 3).sum()))(x).tolist() == [[6, 0, 0], [0, 12, 0], [0, 0, 18]]
    j = jacrev(lambda x, y: {"a": x.sum() * y}, argnums=(0, 1))(x, x)
    assert j["a"][0].tolist() == [[1] * 3, [2] * 3, [3] * 3] and j["a"][1].tolist() == [[6, 0, 0], [0, 6, 0], [0, 0, 6]]
    j, aux = jacrev(lambda x: (x[:2], x), has_aux=True)(x)
    assert j.tolist() == [[1, 0, 0], [0, 1, 0]] and aux is not None
    with pytest.raises(RuntimeError, match="expected f"):
        jacrev(lambda x: 3)(x)


@pytest.mark.parametrize("f, text", [
    (lambda x: grad(lambda x: x)(x), "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with 1 dims. Maybe you wanted to use "
                                     "the vjp or jacrev APIs instead?"),
    (lambda x: grad(lambda x: 1.0)(x), "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'float'>"),
    (lambda x: grad(lambda x: x.sum(), has_aux=True)(x), "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"),
    (lambda x: grad(lambda x: x.sum(), argnums=1)(x), "Got argnum=1, but only 1 positional inputs"),
    (lambda x: grad(lambda x: x.sum(), argnums=(0, 0))(x), "argnums elements must be unique, got (0, 0)"),
    (lambda x: grad(lambda x: x.sum(), argnums="a")(x), "argnums must be int or Tuple[int, ...], got: <class 'str'>"),
    (lambda x: grad(lambda x: x.sum())(3.0), "Thing passed to transform API must be Tensor, got <class 'float'>"),
    (lambda x: vjp(lambda x: 3, x), "vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type <class 'int'>"),
    (lambda x: vjp(lambda x: x * 2, x)[1]((x,)), "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                                                 "cotangents: (*,), primal output: *"),
    (lambda x: grad(lambda x: x.sum().backward())(x), "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
                                                      "functorch.vjp instead or call backward() outside of functorch transforms."),
])
def test_words(f, text):
    with pytest.raises((RuntimeError, ValueError)) as e:
        f(taper.ones(2))
    assert str(e.value) == text


def test_writes_inside():
    def f(x):
        y = x.clone()
        y[0].mul_(3)
        return (y * y).sum()

    x = taper.ones(2, 2)
    assert grad(f)(x).tolist() == [[18, 18], [2, 2]] and x.tolist() == [[1, 1], [1, 1]]
    captured = taper.ones(2)
    with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
        grad(lambda x: captured.add_(x).sum())(taper.ones(2))


def test_functionalize():
    x = taper.ones(2, 2)
    y = functionalize(lambda x: x.view(-1).add_(1))(x)
    assert x.tolist() == [[2, 2], [2, 2]] and y.tolist() == [2, 2, 2, 2]

    def f(x):
        y = x.clone()
        a, b = y.unbind(0)
        b.mul_(3)
        taper.add(a, 1, out=a)
        return y, a

    for given, want in zip(functionalize(f)(x), f(x)):
        assert taper.equal(given, want)
    taper.manual_seed(0)
    first = functionalize(lambda x: taper.nn.functional.dropout(x, 0.5, True))(x)
    taper.manual_seed(0)
    assert taper.equal(first, taper.nn.functional.dropout(x, 0.5, True))
    z = taper.ones(2, requires_grad=True)
    functionalize(lambda z: z.clone().mul_(4).sum())(z).backward()
    assert z.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="received invalid argument for remove=x"):
        functionalize(f, remove="x")


def test_functional_call():
    m = taper.nn.Linear(2, 1)
    w = {"weight": taper.ones(1, 2), "bias": taper.zeros(1)}
    x = taper.tensor([[1.0, 2.0]])
    assert functional_call(m, w, x).item() == 3
    assert grad(lambda w: functional_call(m, w, (x,)).sum())(w)["weight"].tolist() == [[1, 2]]
    assert isinstance(m.weight, taper.nn.Parameter)
    with pytest.raises(RuntimeError):
        functional_call(m, {"weight": taper.ones(3, 3)}, x)
    assert m.weight.shape == (1, 2)


def test_functional_call_of_shared_tensors_and_what_it_leaves():
    tied = taper.nn.Sequential(taper.nn.Linear(2, 2, bias=False), taper.nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    mine, x, own = taper.eye(2) * 3, taper.ones(1, 2), tied[0].weight
    assert functional_call(tied, {"0.weight": mine}, x).tolist() == [[9, 9]]
    assert functional_call(tied, {"0.weight": mine}, x, strict=True).tolist() == [[9, 9]]
    apart = {"0.weight": mine, "1.weight": taper.eye(2)}
    assert functional_call(tied, apart, x, tie_weights=False).tolist() == [[3, 3]]
    with pytest.raises(ValueError, match=r"multiple values for keys \['0.weight', '1.weight'\], which are tied. Consider using tie_weights=False"):
        functional_call(tied, apart, x)
    with pytest.raises(RuntimeError) as error:
        functional_call(taper.nn.Linear(2, 2), {"no": mine, "nix": mine}, x, strict=True)
    assert str(error.value) == "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'nix', 'no'.\n\tMissing key(s): 'bias', 'weight'."
    assert functional_call(tied, {"0.weight": mine}, x, tie_weights=False).tolist() == functional_call(
        tied, {"0.weight": mine, "1.weight": own}, x, tie_weights=False).tolist()
    assert tied[0].weight is own and tied[1].weight is own
    with pytest.raises(ValueError, match=r"\['0.weight'\] appeared in multiple dictionaries"):
        functional_call(tied, ({"0.weight": mine}, {"0.weight": mine}), x)


def test_functional_call_asks_a_class_which_modules_are_below_it():
    class Own(taper.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [taper.nn.Linear(2, 2, bias=False)]

        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix, self
            yield f"{prefix}.hidden" if prefix else "hidden", self.hidden[0]

        def forward(self, x):
            return self.hidden[0](x)

    m, x = taper.nn.Sequential(Own(), taper.nn.ReLU()), taper.ones(1, 2)
    own = m[0].hidden[0].weight
    assert functional_call(m, {"0.hidden.weight": taper.eye(2) * 3}, x).tolist() == [[3, 3]] and m[0].hidden[0].weight is own


def test_functional_call_in_any_order():
    """The names of a module in its own order take a shorter way than others; what they give is the same."""
    m = taper.nn.Sequential(taper.nn.Linear(2, 3), taper.nn.BatchNorm1d(3), taper.nn.Sequential(taper.nn.Linear(3, 1)))
    own = {**dict(m.named_parameters()), **dict(m.named_buffers())}
    given = {name: taper.ones_like(t) for name, t in m.named_parameters()}
    x = taper.arange(8.0).reshape(4, 2)
    wanted = functional_call(m, given, x)
    for names in (list(reversed(given)), sorted(given), list(given)[1::2] + list(given)[::2]):
        assert functional_call(m, {name: given[name] for name in names}, x).equal(wanted)
    assert functional_call(m, dict(list(given.items())[-1:]), x).shape == (4, 1)
    with pytest.raises(RuntimeError):
        functional_call(m, given, taper.ones(4, 5))
    assert all(m.get_parameter(name) is t for name, t in own.items() if name in given)
