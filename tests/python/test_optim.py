"""optim: digits of updates, rates of schedules, messages. Expected values were observed on PyTorch 2.13."""
import copy
import pickle

import pytest

import taper as torch
from words import public

nn = torch.nn
optim = torch.optim
S = torch.optim.lr_scheduler


ERRORS = [
    ('optim.SGD([], lr=.1)', 'ValueError', 'optimizer got an empty parameter list'),
    (
        'optim.SGD(torch.ones(2), lr=.1)',
        'TypeError',
        'params argument given to the optimizer should be an iterable of Tensors or dicts, but got '
        'torch.FloatTensor',
    ),
    ('optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=.1)', 'ValueError', "can't optimize a non-leaf Tensor"),
    ('optim.SGD([1], lr=.1)', 'TypeError', 'optimizer can only optimize Tensors, but one of the params is int'),
    ('optim.SGD([p], lr=-1)', 'ValueError', 'Invalid learning rate: -1'),
    ('optim.SGD([p], momentum=-1)', 'ValueError', 'Invalid momentum value: -1'),
    ('optim.SGD([p], weight_decay=-1)', 'ValueError', 'Invalid weight_decay value: -1'),
    ('optim.SGD([p], nesterov=True)', 'ValueError', 'Nesterov momentum requires a momentum and zero dampening'),
    ('optim.SGD([p], lr=torch.ones(2))', 'ValueError', 'Tensor lr must be 1-element'),
    (
        'optim.SGD([{"params": {p}}], lr=.1)',
        'TypeError',
        'optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets '
        'will change between runs. Please use a list instead.',
    ),
    (
        'optim.SGD([{"params": [p]}, {"params": [p]}], lr=.1)',
        'ValueError',
        'some parameters appear in more than one parameter group',
    ),
    ('optim.SGD([p]).add_param_group(3)', 'TypeError', "param_group must be a dict, but got <class 'int'>"),
    ('optim.SGD([p], fused=True, foreach=True)', 'RuntimeError', '`fused` and `foreach` cannot be `True` together.'),
    (
        'optim.SGD([("a", p), q], lr=.1)',
        'ValueError',
        'all optimizer params should be with/without names. Some param names are missing',
    ),
    (
        'optim.SGD([p]).load_state_dict(optim.SGD([p, q]).state_dict())',
        'ValueError',
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
    ),
    (
        'optim.SGD([p]).load_state_dict(optim.SGD([{"params": [p]}, {"params": [q]}]).state_dict())',
        'ValueError',
        'loaded state dict has a different number of parameter groups',
    ),
    ('optim.Adam([p], betas=(1., .9))', 'ValueError', 'Invalid beta parameter at index 0: 1.0'),
    ('optim.Adam([p], eps=-1)', 'ValueError', 'Invalid epsilon value: -1'),
    ('optim.Adam([p], weight_decay=-1)', 'ValueError', 'Invalid weight_decay value: -1'),
    ('S.StepLR(1, 2)', 'TypeError', 'int is not an Optimizer'),
    ('S.LambdaLR(optim.SGD([p]), [1, 2])', 'ValueError', 'Expected 1 lr_lambdas, but got 2'),
    (
        'S.OneCycleLR(optim.SGD([p]), .1)',
        'ValueError',
        'You must define either total_steps OR (epochs AND steps_per_epoch)',
    ),
    (
        'S.OneCycleLR(optim.SGD([p]), .1, total_steps=-5)',
        'ValueError',
        'Expected positive integer total_steps, but got -5',
    ),
    ('S.CyclicLR(optim.SGD([p]), .1, .2, mode="x")', 'ValueError', 'mode is invalid and scale_fn is None'),
    ('S.ReduceLROnPlateau(optim.SGD([p]), mode="x")', 'ValueError', 'mode x is unknown!'),
    ('S.ReduceLROnPlateau(optim.SGD([p]), factor=2.)', 'ValueError', 'Factor should be < 1.0.'),
    (
        'S.LinearLR(optim.SGD([p]), 0)',
        'ValueError',
        'Starting multiplicative factor expected to be greater than 0 and less or equal to 1.',
    ),
    (
        'S.ConstantLR(optim.SGD([p]), 3.)',
        'ValueError',
        'Constant multiplicative factor expected to be between 0 and 1.',
    ),
    ('S.CosineAnnealingWarmRestarts(optim.SGD([p]), 0)', 'ValueError', 'Expected positive integer T_0, but got 0'),
    (
        'S.SequentialLR(optim.SGD([p]), [], [])',
        'ValueError',
        'SequentialLR expects at least one scheduler, but got no scheduler.',
    ),
    (
        'S.ChainedScheduler([])',
        'ValueError',
        'ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.',
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code, kind, message", ERRORS)
def test_error(code, kind, message):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
    with pytest.raises(Exception) as caught:
        eval(code, globals(), {"p": p, "q": q})
    assert (type(caught.value).__name__, public(str(caught.value))) == (kind, message)


UPDATES = [
    ('SGD(params, lr=0.1)', ['0x1.b72d6e0000000p-5', '-0x1.0cf63a0000000p-4', '-0x1.0597ea0000000p-3']),
    ('SGD(params, lr=0.01, momentum=0.9)', ['0x1.f526900000000p-2', '0x1.532ecc0000000p-3', '-0x1.7868160000000p-9']),
    (
        'SGD(params, lr=0.01, momentum=0.9, dampening=0.1, weight_decay=0.01)',
        ['0x1.00b1680000000p-1', '0x1.60e14a0000000p-3', '0x1.1ad87a0000000p-10'],
    ),
    (
        'SGD(params, lr=0.01, momentum=0.9, nesterov=True)',
        ['0x1.b5b27a0000000p-2', '0x1.0d60920000000p-3', '-0x1.6fc96a0000000p-6'],
    ),
    ('SGD(params, lr=0.01, maximize=True)', ['0x1.830c760000000p-1', '0x1.4861300000000p-2', '0x1.81c6140000000p-4']),
    ('Adam(params)', ['0x1.5095340000000p-1', '0x1.0d3c940000000p-2', '0x1.d867180000000p-5']),
    (
        'Adam(params, lr=0.1, amsgrad=True, weight_decay=0.1)',
        ['0x1.0b75e40000000p-2', '-0x1.0573ec0000000p-3', '-0x1.1a06340000000p-2'],
    ),
    (
        'Adam(params, lr=0.1, maximize=True, betas=(0.5, 0.6), eps=1e-3)',
        ['0x1.0f824a0000000p+0', '0x1.555a500000000p-1', '0x1.d8f3240000000p-2'],
    ),
    (
        'Adam(params, lr=torch.tensor(0.1))',
        ['0x1.0bb11c0000000p-2', '-0x1.0645c40000000p-3', '-0x1.1d1ad40000000p-2'],
    ),
    ('AdamW(params, lr=0.05)', ['0x1.d806ce0000000p-2', '0x1.0ed6d40000000p-4', '-0x1.1160ec0000000p-3']),
]


@pytest.mark.parametrize("code, expected", UPDATES)
def test_update_digits(code, expected):
    torch.manual_seed(1)
    p, q = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))
    optimizer = eval("optim." + code, globals(), {"params": [p, q]})
    for i in range(4):
        p.grad = p.detach() * (i + 1) + q.detach()[0]
        optimizer.step()
    assert [value.hex() for value in p.detach().double().tolist()] == expected


RATES = [
    (
        'StepLR(o, 2)',
        [0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.0010000000000000002, 0.0010000000000000002],
    ),
    (
        'MultiStepLR(o, [1, 3, 3], 0.3)',
        [0.1, 0.03, 0.03, 0.0026999999999999997, 0.0026999999999999997, 0.0026999999999999997],
    ),
    (
        'ExponentialLR(o, 0.9)',
        [0.1, 0.09000000000000001, 0.08100000000000002, 0.07290000000000002, 0.06561000000000002, 0.05904900000000002],
    ),
    ('CosineAnnealingLR(o, 3, 0.01)', [0.1, 0.0775, 0.032500000000000015, 0.01, 0.0325, 0.07750000000000005]),
    ('LinearLR(o, total_iters=3)', [0.03333333333333333, 0.05555555555555556, 0.07777777777777778, 0.1, 0.1, 0.1]),
    ('ConstantLR(o, total_iters=2)', [0.03333333333333333, 0.03333333333333333, 0.1, 0.1, 0.1, 0.1]),
    ('PolynomialLR(o, 4, 2.0)', [0.1, 0.05625, 0.024999999999999998, 0.0062499999999999995, 0.0, 0.0]),
    ('LambdaLR(o, lambda e: 0.95 ** e)', [0.1, 0.095, 0.09025, 0.0857375, 0.081450625, 0.07737809374999999]),
    (
        'MultiplicativeLR(o, lambda e: 0.95)',
        [0.1, 0.095, 0.09025, 0.0857375, 0.08145062499999998, 0.07737809374999999],
    ),
    (
        'OneCycleLR(o, 0.5, total_steps=7)',
        [
            0.020000000000000018, 0.4902783136674793, 0.4595221881348553, 0.33634191824027254,
            0.17886938786982853, 0.0496483959466328,
        ],
    ),
    (
        'OneCycleLR(o, 0.5, epochs=2, steps_per_epoch=4, anneal_strategy="linear", three_phase=True)',
        [
            0.02, 0.3628571428571429, 0.29428571428571426, 0.019047714285714286,
            0.014286285714285713, 0.009524857142857142,
        ],
    ),
    (
        'CosineAnnealingWarmRestarts(o, 2, 2, 0.01)',
        [0.1, 0.05500000000000001, 0.1, 0.08681980515339464, 0.05500000000000001, 0.023180194846605363],
    ),
    ('CyclicLR(o, 0.01, 0.2, step_size_up=2)', [0.01, 0.105, 0.2, 0.105, 0.01, 0.105]),
    (
        'CyclicLR(o, 0.01, 0.2, step_size_up=2, mode="exp_range", gamma=0.9)',
        [0.01, 0.0955, 0.16390000000000002, 0.079255, 0.01, 0.06609655],
    ),
    (
        'SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2])',
        [
            0.010000000000000002, 0.010000000000000002, 0.1, 0.09000000000000001,
            0.08100000000000002, 0.07290000000000002,
        ],
    ),
    (
        'ChainedScheduler([S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9)])',
        [
            0.010000000000000002, 0.009000000000000003, 0.008100000000000003, 0.007290000000000003,
            0.06561000000000003, 0.059049000000000025,
        ],
    ),
]


@pytest.mark.parametrize("code, expected", RATES)
def test_schedule(code, expected):
    o = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    schedule = eval("S." + code, {"S": S, "o": o})
    rates = [o.param_groups[0]["lr"]]
    for _ in range(5):
        o.step()
        schedule.step()
        rates.append(o.param_groups[0]["lr"])
    assert rates == expected and schedule.get_last_lr() == rates[-1:]


def test_plateau():
    o = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = S.ReduceLROnPlateau(o, patience=1, factor=0.5, cooldown=1)
    rates = []
    for metric in [1, 1, 1, 1, 0.9, 0.9, 0.9, 0.9]:
        schedule.step(metric)
        rates.append(o.param_groups[0]["lr"])
    assert rates == [0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025]


def test_step_order_warning():
    schedule = S.StepLR(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()


def test_schedule_state():
    o = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = S.StepLR(o, 3)
    assert schedule.state_dict() == {
        "step_size": 3, "gamma": 0.1, "base_lrs": [0.1], "last_epoch": 0, "_step_count": 1, "_is_initial": False,
        "_get_lr_called_within_step": False, "_last_lr": [0.1]}
    other = S.StepLR(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), 4)
    other.load_state_dict(schedule.state_dict())
    assert other.step_size == 3


def test_repr():
    assert repr(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)")


def test_state_round_trip():
    p = nn.Parameter(torch.ones(2))
    o = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = torch.ones(2)
    o.step()
    saved = o.state_dict()
    assert saved["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]
    assert saved["param_groups"] == [{
        "lr": 0.1, "momentum": 0.9, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False,
        "foreach": None, "differentiable": False, "fused": None, "params": [0]}]
    q = nn.Parameter(torch.ones(2))
    other = optim.SGD([q], lr=0.5)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.1 and other.param_groups[0]["params"][0] is q
    assert other.state[q]["momentum_buffer"].tolist() == [1.0, 1.0]


def test_loaded_state_takes_the_parameters_dtype():
    p = nn.Parameter(torch.ones(2))
    o = optim.Adam([p])
    p.grad = torch.ones(2)
    o.step()
    q = nn.Parameter(torch.ones(2, dtype=torch.float64))
    other = optim.Adam([q])
    other.load_state_dict(o.state_dict())
    assert other.state[q]["exp_avg"].dtype == torch.float64
    assert other.state[q]["step"].dtype == torch.float32 and other.state[q]["step"].item() == 1.0


def test_named_parameters():
    o = optim.SGD(nn.Linear(2, 2).named_parameters(), lr=0.1)
    assert o.param_groups[0]["param_names"] == ["weight", "bias"]
    assert o.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_groups_have_their_own_options():
    p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    o = optim.SGD([{"params": [p], "lr": 0.5}, {"params": q}], lr=0.25)
    p.grad = q.grad = torch.ones(1)
    o.step()
    assert p.tolist() == [0.5] and q.tolist() == [0.75]


def test_step_hooks_and_closure():
    p, seen = nn.Parameter(torch.ones(1)), []
    o = optim.SGD([p], lr=0.1)
    o.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("pre"))
    o.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("post"))

    def closure():
        seen.append(torch.is_grad_enabled())
        return 7

    assert o.step(closure) == 7 and seen == ["pre", True, "post"]


def test_zero_grad():
    p = nn.Parameter(torch.ones(1))
    o = optim.SGD([p], lr=0.1)
    p.grad = torch.ones(1)
    o.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    o.zero_grad()
    assert p.grad is None


def test_own_optimizer():
    class Mine(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            return 5

    m, seen = Mine([nn.Parameter(torch.ones(1))]), []
    m.register_step_post_hook(lambda *given: seen.append(1))
    assert m.step() == 5 and seen == [1]


def test_copies_and_pickles():
    o = optim.Adam([nn.Parameter(torch.ones(1))], lr=0.1)
    for twin in (copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
        assert repr(twin) == repr(o)
        twin.step()


def test_steps_are_seen_by_modes_and_subclasses():
    from taper.overrides import TorchFunctionMode
    from taper.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **kwargs or {})

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **kwargs or {})

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append("named " + function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    p.grad = torch.ones(2)
    chosen = optim.SGD([p, q], lr=0.5)
    with Functions():
        chosen.step()
    assert seen.count("__get__") == 2 and "add_" in seen and p.tolist() == [0.5, 0.5]
    seen.clear()
    with Ops():
        chosen.step()
    assert seen == ["aten.add_.Tensor"] and p.tolist() == [0, 0] and p._version == 2
    seen.clear()
    p.grad = torch.ones(2).as_subclass(Named)
    chosen.step()
    assert "named add_" in seen and p.tolist() == [-0.5, -0.5] and q.tolist() == [1, 1, 1]


def test_step_restores_the_mode_of_gradients():
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(3, 2)[0]
    chosen = optim.SGD([p], lr=0.5)
    chosen.param_groups[0]["params"] = (p,)            # any iterable serves
    chosen.step()
    assert torch.is_grad_enabled() and p.tolist() == [0.5, 0.5]

    def broken():
        raise KeyError("closure")

    with pytest.raises(KeyError):
        chosen.step(broken)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        chosen.step(lambda: torch.ones(1))
        assert not torch.is_grad_enabled()
    chosen.zero_grad()
    assert p.grad is None
    with pytest.raises(AttributeError):
        optim.Optimizer._with_grads({"params": [3]})
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation."):
        torch._C._add_scaled_([p], [torch.ones(2)], 1.0)
