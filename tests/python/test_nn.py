"""nn: what modules hold, save and compute; what they print and raise is in test_nn_words.py. Expected values were observed on PyTorch 2.13."""
import copy
import inspect
import math
import pickle
import subprocess
import sys
from collections import OrderedDict

import pytest

import taper as torch
from words import public

nn = torch.nn
F = torch.nn.functional


def bits(tensor, count=3):
    return [value.hex() for value in tensor.detach().double().flatten()[:count].tolist()]


LAYER_BITS = [
    (
        'Linear(20, 7)',
        ['-0x1.b6db360000000p-10', '0x1.eb533e0000000p-4', '-0x1.78e92c0000000p-3'],
        ['0x1.b1c9cc0000000p-3', '0x1.22d2600000000p-3'],
    ),
    (
        'Conv2d(3, 4, 3)',
        ['-0x1.79b5160000000p-10', '0x1.a6dd8a0000000p-4', '-0x1.4464a80000000p-3'],
        ['-0x1.5b782a0000000p-7', '0x1.d96c360000000p-6'],
    ),
    (
        'Conv1d(2, 4, 3, groups=2)',
        ['-0x1.1b47d00000000p-8', '0x1.3d26260000000p-2', '-0x1.e696fc0000000p-2'],
        ['-0x1.1a677a0000000p-1', '-0x1.878bac0000000p-2'],
    ),
    (
        'ConvTranspose2d(2, 4, 3)',
        ['-0x1.471aac0000000p-10', '0x1.6e36500000000p-4', '-0x1.18eec80000000p-3'],
        ['0x1.0c4b760000000p-4', '0x1.1acfc00000000p-3'],
    ),
    ('Embedding(5, 4)', ['-0x1.20370a0000000p+0', '-0x1.2701140000000p+0', '-0x1.0097ac0000000p-2'], None),
    (
        'Bilinear(2, 3, 4)',
        ['-0x1.5af2440000000p-8', '0x1.846d380000000p-2', '-0x1.29f9620000000p-1'],
        ['-0x1.d2d63c0000000p-4', '0x1.32786a0000000p-4'],
    ),
    (
        'LazyLinear(3)',
        ['-0x1.eaa8000000000p-9', '0x1.12a8bc0000000p-2', '-0x1.a5662c0000000p-2'],
        ['-0x1.e923700000000p-2', '-0x1.5316a40000000p-2'],
    ),
]


@pytest.mark.parametrize("code, weight, bias", LAYER_BITS)
def test_initial_values(code, weight, bias):
    torch.manual_seed(0)
    module = eval("nn." + code)
    if code.startswith("Lazy"):
        module(torch.ones(1, 4))
    assert bits(module.weight) == weight
    assert bias is None or bits(module.bias, 2) == bias


INIT_BITS = [
    ('uniform_(t, -1, 2)', ['0x1.45dc700000000p+0', '-0x1.4be9f80000000p-3', '0x1.ac75200000000p-3']),
    ('normal_(t, 1, 2)', ['-0x1.068d740000000p+1', '-0x1.003cc40000000p-1', '-0x1.3b5a580000000p-2']),
    ('xavier_uniform_(t)', ['0x1.98b3380000000p-2', '-0x1.5e18720000000p-2', '-0x1.33896e0000000p-3']),
    ('xavier_normal_(t, gain=2.0)', ['-0x1.5d52220000000p+0', '-0x1.5790f20000000p-1', '-0x1.2b7d080000000p-1']),
    (
        'kaiming_uniform_(t, a=0.3, mode="fan_out")',
        ['0x1.357aae0000000p-1', '-0x1.091a260000000p-1', '-0x1.d1c0460000000p-3'],
    ),
    (
        'kaiming_normal_(t, nonlinearity="relu")',
        ['-0x1.c2f8a20000000p-1', '-0x1.bb8ac40000000p-2', '-0x1.82a34c0000000p-2'],
    ),
    ('trunc_normal_(t)', ['-0x1.868d740000000p+0', '-0x1.801e620000000p-1', '-0x1.4ed6960000000p-1']),
    ('trunc_normal_(t, 0, 1, 3, 4)', ['0x1.d3cea60000000p+1', '0x1.b182160000000p+1', '0x1.82789e0000000p+1']),
    ('sparse_(t, 0.3)', ['-0x1.f3e8420000000p-7', '-0x1.ebac020000000p-8', '-0x1.ac97ca0000000p-8']),
]


@pytest.mark.parametrize("code, expected", INIT_BITS)
def test_init(code, expected):
    torch.manual_seed(1)
    t = torch.empty(4, 6)
    assert eval("nn.init." + code) is t
    assert bits(t) == expected


@pytest.mark.skipif(not hasattr(torch.Tensor, "t_") or not hasattr(torch.linalg, "qr"), reason="Tensor.t_ and linalg.qr are not there yet")
def test_orthogonal_rows():
    t = nn.init.orthogonal_(torch.empty(3, 5), gain=2)
    assert torch.allclose(t @ t.t(), 4 * torch.eye(3), atol=1e-5)


def test_gain():
    assert nn.init.calculate_gain("relu") == math.sqrt(2.0)
    assert nn.init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2.0 / (1 + 0.2 ** 2))
    assert nn.init.calculate_gain("tanh") == 5 / 3
    assert nn.init._calculate_fan_in_and_fan_out(torch.ones(3, 4, 5, 6)) == (120, 90)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, shift=0):
        return self.second(self.first(x)) * self.scale + shift


def test_members_in_order():
    m = Pair()
    assert [name for name, _ in m.named_parameters()] == [
        "scale", "first.weight", "first.bias", "second.1.weight", "second.1.bias"]
    assert [name for name, _ in m.named_buffers()] == [
        "second.1.running_mean", "second.1.running_var", "second.1.num_batches_tracked"]
    assert [name for name, _ in m.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [name for name, _ in m.named_children()] == ["first", "second"]
    assert [name for name, _ in m.named_parameters(prefix="p", recurse=False)] == ["p.scale"]


def test_shared_module_is_listed_once():
    shared = nn.Linear(2, 2)
    m = nn.Sequential(shared, shared, nn.Sequential(shared))
    assert [name for name, _ in m.named_modules()] == ["", "0", "2"]
    assert [name for name, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1", "2", "2.0"]
    assert len(list(m.parameters())) == 2
    assert len(list(m.named_parameters(remove_duplicate=False))) == 6
    assert list(m.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.0.weight", "2.0.bias"]


def test_attribute_moves_between_kinds():
    m = nn.Module()
    m.register_buffer("x", torch.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"x"} and m.state_dict() == {}
    m.x = nn.Parameter(torch.ones(2))
    assert list(m._parameters) == ["x"] and not m._buffers and not m._non_persistent_buffers_set
    del m.x
    m.x = nn.ReLU()
    assert list(m._modules) == ["x"]
    m.x = None
    assert m._modules == {"x": None}
    m.y = 3
    m.y = nn.Tanh()
    assert "y" not in m.__dict__
    m.z = nn.Buffer(torch.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"z"}


def test_assigning_the_wrong_kind():
    m = Pair()
    with pytest.raises(TypeError) as caught:
        m.scale = torch.ones(1)
    assert public(str(caught.value)) == (
        "cannot assign 'torch.FloatTensor' as parameter 'scale' (torch.nn.Parameter or None expected)")
    with pytest.raises(TypeError) as caught:
        m.first = 3
    assert public(str(caught.value)) == "cannot assign 'int' as child module 'first' (torch.nn.Module or None expected)"


def test_whoever_sees_new_members_sees_all():
    class Own(nn.Module):
        half = property(lambda self: self.full / 2, lambda self, value: setattr(self, "full", value * 2))
        seen = ()

        def register_parameter(self, name, param):
            self.seen = (*self.seen, name)
            super().register_parameter(name, param)

    m = Own()
    m.half = 2
    m.weight = nn.Parameter(torch.ones(1))
    assert m.full == 4 and "half" not in m.__dict__ and m.seen == ("weight",)
    for name, message in (("a.b", 'module name can\'t contain ".", got: a.b'), ("", 'module name can\'t be empty string ""'),
                          ("half", "attribute 'half' already exists"), ("weight", "attribute 'weight' already exists")):
        with pytest.raises(KeyError) as caught:
            m.add_module(name, nn.ReLU())
        assert caught.value.args == (message,)
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'w'"):
        m.w = nn.Parameter(torch.ones(1), requires_grad=False).mul_(m.weight)
    told = []
    handles = [
        nn.modules.module.register_module_parameter_registration_hook(lambda owner, name, value: told.append(name)),
        nn.modules.module.register_module_module_registration_hook(lambda owner, name, value: told.append(name) or nn.Tanh()),
    ]
    try:
        m.bias = nn.Parameter(torch.ones(1))
        m.act = nn.ReLU()
        m.add_module("last", nn.ReLU())
    finally:
        for handle in handles:
            handle.remove()
    assert told == ["bias", "act", "last"] and isinstance(m.act, nn.Tanh) and isinstance(m.last, nn.Tanh)


def test_whoever_answers_for_members_is_asked():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.child = nn.ReLU()

        @property
        def broken(self):
            return self.absent

    class Asks(Own):
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name == "other":
                    return f"asked for {name}"
                raise

    m, asks = Own(), Asks()
    for _ in range(3):
        assert m.weight is m._parameters["weight"] and m.child is m._modules["child"]
        assert asks.weight is asks._parameters["weight"] and asks.other == "asked for other"
        with pytest.raises(AttributeError, match="^'Own' object has no attribute 'other'$"):
            m.other
        with pytest.raises(AttributeError, match="^'Own' object has no attribute 'broken'$"):
            m.broken
        assert not hasattr(m, "broken") and getattr(m, "other", 1) == 1

    # Methods that come later, to the class or above it, and go again.
    Own.__getattr__ = lambda self, name: name
    assert m.weight == "weight" and m.child == "child" and m.training is True
    del Own.__getattr__
    assert m.weight is m._parameters["weight"]
    usual = nn.Module.__getattr__
    seen = []
    nn.Module.__getattr__ = lambda self, name: seen.append(name) or usual(self, name)
    try:
        assert m.weight is m._parameters["weight"] and m.child is m._modules["child"] and seen == ["weight", "child"]
    finally:
        nn.Module.__getattr__ = usual
    assert m.weight is m._parameters["weight"] and seen == ["weight", "child"]
    Own.__getattribute__ = lambda self, name: "all" if name == "weight" else object.__getattribute__(self, name)
    assert m.weight == "all" and m.child is m._modules["child"]
    del Own.__getattribute__
    assert m.weight is m._parameters["weight"]


def test_whoever_calls_modules_is_asked():
    class Double(nn.Module):
        def forward(self, x, by=2):
            return x * by

    m, x = Double(), torch.ones(2)
    for _ in range(2):
        assert m(x).tolist() == [2, 2] and m(x, 3).tolist() == [3, 3] and m(x, by=4).tolist() == m(by=4, x=x).tolist() == [4, 4]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            m()
    Double.__call__ = lambda self, x: self.forward(x, by=5)
    assert m(x).tolist() == [5, 5]
    del Double.__call__
    usual = nn.Module.__call__
    seen = []
    nn.Module.__call__ = lambda self, *args: seen.append(len(args)) or usual(self, *args)
    try:
        assert m(x, 3).tolist() == [3, 3] and seen == [2]
    finally:
        nn.Module.__call__ = usual
    assert m(x).tolist() == m(x).tolist() == [2, 2] and seen == [2]
    object.__setattr__(m, "note", 1)
    assert m.note == 1
    assert str(inspect.signature(m)) == "(*args, **kwargs)" and str(inspect.signature(m.add_module)) == "(name, module)"
    assert str(inspect.signature(nn.Module.__setattr__)) == "(self, /, name, value)"


def test_helpers_before_there_are_modules():
    code = ("import taper._C as C\nprint(C._module_lacks(C.Tensor, 'x'))\nfor call in (C._module_tensors, lambda x: C._module_train_children(x, True)):\n"
            "    try: call(1)\n    except AttributeError as error: print(error)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "'int' object has no attribute 'named_modules'", "'int' object has no attribute 'children'"]


def test_members_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    for value, message in (
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Parameter(torch.ones(1)), "cannot assign parameters before Module.__init__() call"),
        (nn.Buffer(torch.ones(1)), "cannot assign buffer before Module.__init__() call"),
    ):
        with pytest.raises(AttributeError) as caught:
            Early(value)
        assert str(caught.value) == message
    with pytest.raises(AttributeError) as caught:
        Early(3)(1)
    assert str(caught.value) == "'Early' object has no attribute '_backward_hooks'"


def test_state_dict_round_trip():
    m, other = Pair(), Pair()
    state = m.state_dict()
    assert type(state) is OrderedDict
    assert state._metadata == {
        "": {"version": 1}, "first": {"version": 1}, "second": {"version": 1}, "second.0": {"version": 1},
        "second.1": {"version": 2}}
    assert not state["scale"].requires_grad and m.state_dict(keep_vars=True)["scale"].requires_grad
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert torch.equal(other.first.weight, m.first.weight) and other.first.weight is not m.first.weight
    result = other.load_state_dict({"zz": 1, "first.foo": 2}, strict=False)
    assert result.unexpected_keys == ["zz", "first.foo"] and result.missing_keys[0] == "scale"


def test_load_by_assignment_keeps_requires_grad():
    m = nn.Linear(1, 1)
    weight = nn.Parameter(torch.ones(1, 1, dtype=torch.float64), requires_grad=False)
    m.load_state_dict({"weight": weight, "bias": torch.ones(1)}, assign=True)
    assert m.weight is weight and m.weight.requires_grad and isinstance(m.bias, nn.Parameter)


def test_old_batch_norm_state_needs_no_count():
    m = nn.BatchNorm1d(2)
    state = m.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError):
        m.load_state_dict(state)
    state._metadata[""]["version"] = 1
    m.load_state_dict(state)


def test_state_dict_hooks_run_in_order():
    m, seen = nn.Linear(1, 1), []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append(("pre", prefix, keep)))
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: seen.append(("post", list(state), meta)))
    m.register_load_state_dict_pre_hook(lambda mod, state, prefix, *rest: seen.append(("load", list(state), prefix)))
    m.register_load_state_dict_post_hook(lambda mod, keys: seen.append(("loaded", keys.missing_keys)))
    outer = nn.Sequential(m, nn.Linear(1, 1))
    outer.load_state_dict(outer.state_dict())
    assert seen == [
        ("pre", "0.", False), ("post", ["0.weight", "0.bias"], {"version": 1}),
        ("load", ["0.weight", "0.bias"], "0."), ("loaded", [])]


def test_forward_is_found_as_any_attribute():
    plain, own, late = nn.ReLU(), nn.ReLU(), nn.ReLU()
    own.forward = lambda x: x - 1

    class Watched(nn.ReLU):
        def __getattribute__(self, name):
            return (lambda x: x + 1) if name == "forward" else super().__getattribute__(name)

    class Static(nn.Module):
        forward = staticmethod(lambda x: x * 2)

    class Missing(nn.Module):
        pass

    x = torch.tensor([-1.0, 1.0])
    assert plain(x).tolist() == plain(input=x).tolist() == [0, 1] and own(x).tolist() == [-2, 0]
    assert Watched()(x).tolist() == [0, 2] and Static()(x).tolist() == [-2, 2]
    with pytest.raises(NotImplementedError, match='Module .Missing. is missing the required "forward" function'):
        Missing()(x)
    late.__class__ = Static
    assert late(x).tolist() == [-2, 2]


def test_forward_hooks():
    class Echo(nn.Module):
        def forward(self, x, y=0):
            return x + y

    m = Echo()
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    m.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"y": 10}), with_kwargs=True)
    assert m(1, y=2) == 12
    last = m.register_forward_hook(lambda mod, args, kwargs, out: (args, kwargs, out), with_kwargs=True)
    first = m.register_forward_hook(lambda mod, args, out: out * 2, prepend=True)
    assert m(1) == ((2,), {"y": 10}, 24)
    last.remove()
    first.remove()
    assert not m._forward_hooks and not m._forward_hooks_with_kwargs
    with m.register_forward_hook(lambda *given: "other"):
        assert m(1) == "other"
    assert m(1) == 12


def test_pre_hook_must_return_a_pair():
    m = nn.Identity()
    m.register_forward_pre_hook(lambda mod, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError) as caught:
        m(1)
    assert str(caught.value) == "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got 3."


def test_always_called_hooks():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("boom")

    m, seen = Broken(), []
    m.register_forward_hook(lambda mod, args, out: seen.append(("always", out)), always_call=True)
    m.register_forward_hook(lambda mod, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="boom"):
        m(1)
    assert seen == [("always", None)]


def test_global_hooks():
    module = nn.modules.module
    seen = []
    handles = [
        module.register_module_forward_pre_hook(lambda mod, args: seen.append(("pre", type(mod).__name__))),
        module.register_module_forward_hook(lambda mod, args, out: seen.append(("post", out))),
    ]
    nn.Identity()(3)
    for handle in handles:
        handle.remove()
    nn.Identity()(4)
    assert seen == [("pre", "Identity"), ("post", 3)]


def test_full_backward_hooks():
    x = torch.ones(2, 3, requires_grad=True)
    m, seen = nn.Linear(3, 2), []
    with torch.no_grad():
        m.weight.fill_(1.0)
    m.register_full_backward_hook(
        lambda mod, grad_in, grad_out: seen.append((grad_in[0].tolist(), grad_out[0].tolist())))
    m(x).sum().backward()
    assert seen == [([[2.0] * 3] * 2, [[1.0] * 2] * 2)]
    m.register_full_backward_hook(lambda mod, grad_in, grad_out: (grad_in[0] * 2,))
    m.register_full_backward_pre_hook(lambda mod, grad_out: (grad_out[0] * 3,))
    x.grad = None
    m(x).sum().backward()
    assert x.grad.tolist() == [[12.0] * 3] * 2
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda *given: None)


def test_backward_hook_without_gradient_of_inputs():
    m, seen = nn.Linear(3, 2), []
    m.register_full_backward_hook(lambda mod, grad_in, grad_out: seen.append(grad_in))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.ones(1, 3)).sum().backward()
    assert seen == [(None,)]


def test_conversions():
    m = Pair()
    weight = m.first.weight
    assert m.double() is m and m.first.weight is weight and weight.dtype == torch.float64
    assert m.second[1].num_batches_tracked.dtype == torch.int64
    assert m.to(torch.float32).scale.dtype == torch.float32
    assert m.to("cpu", torch.float64).scale.dtype == torch.float64
    assert m.to(torch.ones(1)).scale.dtype == torch.float32
    assert m.half().scale.dtype == torch.float16 and m.bfloat16().scale.dtype == torch.bfloat16
    assert m.requires_grad_(False).scale.requires_grad is False
    assert m.eval().second[1].training is False and m.train().second[1].training is True


def test_train_is_asked_of_whoever_overrides_it():
    heard = []

    class Frozen(nn.Linear):
        def train(self, mode=True):
            heard.append(mode)
            return super().train(False)

    class Told(nn.Module):
        def __setattr__(self, name, value):
            if name == "training":
                heard.append("set")
            super().__setattr__(name, value)

    class Hiding(nn.Module):
        def children(self):
            yield self.shown

    twice = Frozen(2, 2)
    hiding = Hiding()
    hiding.shown, hiding.other = nn.ReLU(), nn.ReLU()
    m = nn.Sequential(twice, twice, nn.Sequential(nn.ReLU(), Told()), hiding, None)
    m[2][0].train = lambda mode: heard.append("own")
    heard.clear()
    assert m.eval() is m and heard == [False, "own", "set"] and not m[2].training and m[2][0].training
    assert not hiding.shown.training and hiding.other.training
    assert m.train().training and not twice.training and hiding.shown.training


def test_zero_grad():
    m = nn.Linear(2, 2)
    m(torch.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.bias.grad.tolist() == [0.0, 0.0]
    m.zero_grad()
    assert m.bias.grad is None


def test_copies_and_pickles():
    m = Pair()
    m.register_buffer("b", torch.ones(1))
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert torch.equal(twin.first.weight, m.first.weight) and twin.first.weight is not m.first.weight
        assert type(twin.scale) is nn.Parameter and list(twin.state_dict()) == list(m.state_dict())


def test_parameter():
    assert repr(nn.Parameter(torch.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert type(nn.Parameter(torch.ones(1)) * 2) is torch.Tensor
    assert not isinstance(torch.ones(1), nn.Parameter) and not isinstance(torch.ones(1), nn.Buffer)
    assert isinstance(nn.Buffer(torch.ones(1)), nn.Buffer)

    class Mine(torch.Tensor):
        pass

    marked = nn.Parameter(torch.ones(2).as_subclass(Mine))
    assert type(marked) is Mine and isinstance(marked, nn.Parameter) and marked.requires_grad


def test_lazy_linear():
    m = nn.LazyLinear(3)
    assert repr(m.weight) == "<UninitializedParameter>" and m.has_uninitialized_params()
    assert m(torch.ones(2, 4)).shape == (2, 3)
    assert type(m) is nn.Linear and m.in_features == 4 and type(m.weight) is nn.Parameter
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict({"weight": torch.ones(3, 5), "bias": torch.ones(3)})
    assert loaded(torch.ones(1, 5)).tolist() == [[6.0, 6.0, 6.0]] and loaded.in_features == 5
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        nn.LazyLinear(3).weight + 1


def test_lazy_norm_and_conv():
    norm, conv = nn.LazyBatchNorm1d(), nn.LazyConv2d(3, 2)
    norm(torch.rand(2, 4))
    conv(torch.ones(1, 4, 5, 5))
    assert type(norm) is nn.BatchNorm1d and norm.running_mean.shape == (4,)
    assert type(conv) is nn.Conv2d and conv.weight.shape == (3, 4, 2, 2)


def test_sequential_edits():
    s = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    names = lambda: [type(m).__name__ for m in s]
    assert [type(m).__name__ for m in s[::2]] == ["ReLU", "Sigmoid"]
    s.insert(1, nn.GELU()).append(nn.ELU())
    assert names() == ["ReLU", "GELU", "Tanh", "Sigmoid", "ELU"]
    del s[1]
    assert type(s.pop(0)).__name__ == "ReLU" and names() == ["Tanh", "Sigmoid", "ELU"]
    assert list(s._modules) == ["0", "1", "2"]
    assert len(s + s) == 6 and len(2 * s) == 6
    s *= 2
    assert len(s) == 6
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert list(named[1:]._modules) == ["b"]


def test_module_list_repr():
    assert repr(nn.ModuleList([nn.Linear(1, 1), nn.ReLU(), nn.ReLU()])) == (
        "ModuleList(\n  (0): Linear(in_features=1, out_features=1, bias=True)\n  (1-2): 2 x ReLU()\n)")
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_parameter_containers():
    p = nn.ParameterList([torch.ones(2), 3])
    assert public(repr(p)) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2]\n    (1): Object of type: int\n)")
    p.append(torch.ones(1))
    assert [name for name, _ in p.named_parameters()] == ["0", "2"] and p[1] == 3
    d = nn.ParameterDict({"b": torch.ones(2), "a": torch.ones(1)})
    assert list(d) == ["a", "b"] and d.popitem()[0] == "b" and "b" not in d
    assert list(d | {"k": 1}) == ["a", "k"]


def test_functions_offer_themselves_for_override():
    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args[1:], kwargs

    x = torch.ones(2, 3).as_subclass(Watched)
    assert F.relu(x) == (F.relu, (), {"inplace": False})
    assert F.layer_norm(x, (3,)) == (F.layer_norm, ((3,),), {"weight": None, "bias": None, "eps": 1e-5})
    assert F.softmax(x, 0) == (F.softmax, (), {"dim": 0, "_stacklevel": 3, "dtype": None})
    assert F.max_pool2d(x, 2)[2] == {
        "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
    assert F.relu.__module__ == torch.__name__ + ".nn.functional"


def test_losses():
    x, y = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[1.0, 1.0, 1.0]])
    assert F.mse_loss(x, y, reduction="sum").item() == 10.0
    assert F.l1_loss(x, y, reduction="none").tolist() == [[0.0, 1.0, 3.0]]
    assert F.l1_loss(x, y, weight=x).item() == 2.0
    assert F.smooth_l1_loss(x, y, reduction="sum").item() == 3.0
    assert F.huber_loss(x, y, reduction="sum", delta=0.5).item() == 0.375 + 1.375
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(x, y[0])


def test_implicit_softmax_dim_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        F.softmax(torch.ones(2, 3))


def test_clip_grad():
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_([p], 10.0).item() == 5.0 and p.grad.tolist() == [3.0, 4.0]
    nn.utils.clip_grad_value_(p, 3.5)
    assert p.grad.tolist() == [3.0, 3.5]
    p.grad = torch.tensor([3.0, math.nan])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_parameters_as_vector():
    m = nn.Linear(2, 2)
    nn.utils.vector_to_parameters(torch.arange(6.0), m.parameters())
    assert m.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]] and m.bias.tolist() == [4.0, 5.0]
    assert nn.utils.parameters_to_vector(m.parameters()).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_where_classes_live():
    assert nn.Linear.__module__ == torch.__name__ + ".nn.modules.linear"
    assert nn.Module.__module__ == torch.__name__ + ".nn.modules.module"
    assert nn.Parameter.__module__ == torch.__name__ + ".nn.parameter"


@pytest.mark.parametrize("code, shapes", [
    ("LSTM(3, 4)", {"weight_ih_l0": (16, 3), "weight_hh_l0": (16, 4), "bias_ih_l0": (16,), "bias_hh_l0": (16,)}),
    ("GRU(3, 4, bias=False)", {"weight_ih_l0": (12, 3), "weight_hh_l0": (12, 4)}),
    ("LSTM(3, 4, proj_size=2, bias=False)", {
        "weight_ih_l0": (16, 3), "weight_hh_l0": (16, 2), "weight_hr_l0": (2, 4)}),
    ("RNN(3, 4, 2, bidirectional=True, bias=False)", {
        "weight_ih_l0": (4, 3), "weight_hh_l0": (4, 4), "weight_ih_l0_reverse": (4, 3),
        "weight_hh_l0_reverse": (4, 4), "weight_ih_l1": (4, 8), "weight_hh_l1": (4, 4),
        "weight_ih_l1_reverse": (4, 8), "weight_hh_l1_reverse": (4, 4)}),
])
def test_recurrent_weights(code, shapes):
    module = eval("nn." + code)
    assert {name: tuple(param.shape) for name, param in module.named_parameters()} == shapes
    assert module._flat_weights[0] is module.weight_ih_l0


def test_recurrent_initial_values():
    torch.manual_seed(0)
    m = nn.LSTM(3, 4)
    assert m.weight_ih_l0.flatten()[:2].tolist() == [-0.003743410110473633, 0.26822179555892944]
    assert m.weight_hh_l0.flatten()[:2].tolist() == [-0.2217475175857544, -0.01804119348526001]
    assert m.bias_hh_l0[:2].tolist() == [-0.17491668462753296, -0.4098108410835266]


@pytest.mark.parametrize("code, kind, message", [
    ("nn.LSTM(3, 0)", ValueError, "hidden_size must be greater than zero"),
    ("nn.LSTM(3, 4, proj_size=4)", ValueError, "proj_size has to be smaller than hidden_size"),
    ("nn.GRU(3, 4, proj_size=2)", ValueError, "proj_size argument is only supported for LSTM, not RNN or GRU"),
    ("nn.RNN(3, 4, nonlinearity='x')", ValueError, "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'."),
    ("nn.LSTM(3, 4)(torch.ones(3))", ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
    ("nn.GRU(3, 4)(torch.ones(2, 2, 5))", RuntimeError,
     "input.size(-1) must be equal to input_size. Expected 3, got 5"),
    ("nn.GRU(3, 4)(torch.ones(2, 2, 3), torch.ones(1, 3, 4))", RuntimeError,
     "Expected hidden size (1, 2, 4), got [1, 3, 4]"),
    ("nn.LSTMCell(3, 4)(torch.ones(1, 1, 3))", ValueError, "LSTMCell: Expected input to be 1D or 2D, got 3D instead"),
])
def test_recurrent_errors(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value) == message


@pytest.mark.skipif(not hasattr(torch, "allclose") or not hasattr(torch._C._nn, "scaled_dot_product_attention"),
                    reason="allclose and scaled_dot_product_attention are not there yet")
def test_attention():
    torch.manual_seed(0)
    m = nn.MultiheadAttention(4, 2)
    assert [name for name, _ in m.named_parameters()] == [
        "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    assert m.in_proj_weight.flatten()[:2].tolist() == [0.22242416441440582, 0.508506715297699]
    assert m.out_proj.weight.flatten()[:2].tolist() == [-0.003743410110473633, 0.26822179555892944]
    assert m.in_proj_bias.tolist() == [0.0] * 12
    q = torch.rand(3, 2, 4)
    hidden = torch.ones(3, 3).triu(1).bool()
    output, weights = m(q, q, q, attn_mask=hidden)
    assert output.shape == (3, 2, 4) and weights.shape == (2, 3, 3)
    assert weights[0, 0].tolist() == [1.0, 0.0, 0.0] and torch.allclose(weights.sum(-1), torch.ones(2, 3))
    alone, none = m(q, q, q, attn_mask=hidden, need_weights=False)
    assert none is None and torch.allclose(alone, output, atol=1e-6)
    unbatched, _ = m(q[:, 0], q[:, 0], q[:, 0], attn_mask=hidden)
    assert torch.allclose(unbatched, output[:, 0], atol=1e-6)


@pytest.mark.parametrize("code, kind, message", [
    ("nn.MultiheadAttention(5, 2)", AssertionError, "embed_dim must be divisible by num_heads"),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 5)] * 3)", AssertionError,
     "was expecting embedding dimension of 4, but got 5"),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3, attn_mask=torch.zeros(5, 5))", RuntimeError,
     "The shape of the 2D attn_mask is torch.Size([5, 5]), but should be (2, 2)."),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3, is_causal=True)", RuntimeError,
     "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
     "`generate_square_subsequent_mask` to create this mask."),
])
def test_attention_errors(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert public(str(caught.value)) == message


def test_data_parallel_is_the_module_itself():
    m = nn.DataParallel(nn.Linear(2, 2), device_ids=[0])
    assert m.device_ids == [] and list(m.state_dict()) == ["module.weight", "module.bias"]
    x = torch.ones(1, 2)
    assert torch.equal(m(x), m.module(x))


@pytest.mark.parametrize("a, b, offs", [((16, 32), (3, 32, 24), [4, 9, 16]), ((16, 32), (32, 24), [8, 16, 32]),
                                        ((3, 16, 32), (32, 24), [8, 16, 24]), ((3, 16, 32), (3, 32, 24), None)])
def test_grouped_mm(a, b, offs):
    torch.manual_seed(0)
    a, b = torch.randn(*a, requires_grad=True), torch.randn(*b, requires_grad=True)
    got = torch.nn.functional.grouped_mm(a, b, offs=offs and torch.tensor(offs, dtype=torch.int32))
    if offs is None:
        assert torch.equal(got, torch.bmm(a, b))
        return
    groups = list(enumerate(zip([0, *offs], offs)))
    if a.dim() == b.dim() == 2:
        wanted = torch.stack([a[:, begin:end] @ b[begin:end] for _, (begin, end) in groups])
    elif a.dim() == 2:
        wanted = torch.cat([a[begin:end] @ b[i] for i, (begin, end) in groups])
    else:
        wanted = torch.cat([a[i] @ b[:, begin:end] for i, (begin, end) in groups], 1)
    assert torch.allclose(got, wanted, atol=1e-5)
    for one, other in zip(*(torch.autograd.grad((y * y).sum(), (a, b)) for y in (got, wanted))):
        assert torch.allclose(one, other, atol=1e-3)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        torch.nn.functional.grouped_mm(a, b, offs=torch.tensor(offs))


def test_losses_called_directly():
    """As functions without a reduction they are not reduced, as ops they are."""
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert torch._C._nn.mse_loss(x, y).tolist() == [1, 4] and torch.ops.aten.mse_loss(x, y).item() == 2.5
    assert torch.kl_div(x, y).dim() == 1 and torch.ops.aten.kl_div(x, y).dim() == 0 and F.mse_loss(x, y).item() == 2.5


def test_an_expanded_input_of_huber_loss_decides_how_the_losses_lie():
    target = torch.zeros(3, 2).t()
    assert F.huber_loss(torch.zeros(()), target, reduction="none").stride() == (3, 1)
    assert F.huber_loss(target, torch.zeros(()), reduction="none").stride() == (1, 2)
