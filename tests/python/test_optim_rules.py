"""Update rules over ten steps: parameters as PyTorch 2.13 left them, in float64 up to the rounding of its square root."""
import copy

import pytest

import taper as torch

RULES = [
    ('RMSprop(params, momentum=0.9)',
     [-0.3398639646719977, 0.02505293291851551, -0.07960708419351858, -0.16416615048397723, 0.06994678679106067, 0.08015826860354104]),
    ('RMSprop(params, centered=True, weight_decay=0.1, maximize=True)',
     [1.1312864893178818, 0.8968307205981141, 0.2836246618856984, 1.0532139675691004, -1.1297825172710212, -0.8931279348729236]),
    ('Adagrad(params, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)',
     [0.63259508897903, 0.23651433721980156, 0.053263710182441165, 0.5873017001619899, -0.4125968632146396, -0.13536070540007442]),
    ('Adagrad(params, fused=True, lr_decay=0.1, weight_decay=0.1)',
     [0.6338101637422253, 0.23286060383567375, 0.054218601412295515, 0.5782683631068044, -0.41078547105269386, -0.12641607474074537]),
    ('Adadelta(params, rho=0.5, weight_decay=0.1)',
     [0.6403242158594316, 0.24732216785611813, 0.055715836143351294, 0.6033402295603575, -0.43084486501251623, -0.14939258551173934]),
    ('Adamax(params, lr=0.1, weight_decay=0.1)',
     [0.3312958124940856, -0.05053537317106382, -0.019673531987452343, 0.1870485322725187, 0.016289300841638852, 0.07635946695431106]),
    ('NAdam(params, lr=0.1, momentum_decay=0.1)',
     [0.15355908950437516, 0.09056077865092076, -0.02910146626219109, 0.05668069922947269, 0.04908198436571207, -0.07119617470767994]),
    ('NAdam(params, weight_decay=0.1, decoupled_weight_decay=True)',
     [0.6452919230462394, 0.25079350618204904, 0.05697862307390468, 0.6023403022253091, -0.4326120353857017, -0.15045298757049888]),
    ('RAdam(params, lr=0.1)',
     [0.41251927986769443, 0.09983377150813955, -0.2201922228370388, 0.21018162601969653, -0.08976554201381158, 0.1497072554060405]),
    ('RAdam(params, betas=(0.5, 0.6), weight_decay=0.1, decoupled_weight_decay=True, maximize=True)',
     [0.6860446435800194, 0.27876362761337864, 0.06773422187066952, 0.6480517874995353, -0.4733513837784144, -0.17629114690680228]),
    ('Rprop(params, etas=(0.3, 1.5), step_sizes=(1e-3, 0.02))',
     [0.5717896715704521, 0.1573615982925188, 0.05695225823734829, 0.4997548286854214, -0.33034346470388287, -0.07333023453557193]),
    ('ASGD(params, lr=0.3, lambd=0.1, t0=3.0, weight_decay=0.1)',
     [-0.43275176162385637, 0.6800665783493127, 0.17030026094465273, -1.498438562931551, 1.388435420145502, -1.7823627732179848]),
    ('Adafactor(params, lr=0.3, weight_decay=0.1)',
     [0.18396540815763693, 0.038679946889557656, -0.01355578494736221, 0.10901249050529867, 0.00808684758642902, -0.0176830548253769]),
    ('Adafactor(params, d=2.0, eps=(1e-3, 0.1), maximize=True)',
     [0.7057299673251796, 0.30385284008058, 0.07971796501435958, 0.6671371956732702, -0.5118929984111449, -0.20193677192632575]),
    ('Muon(params, lr=0.1, adjust_lr_fn="match_rms_adamw")',
     [0.4267280755285609, 0.11622964127482839, -0.02183147840574928, 0.3809736747456293, -0.22126102010770607, -0.047134564736349034]),
    ('Muon(params, nesterov=False)',
     [0.6554388338538502, 0.2635512583383353, 0.06010024202179236, 0.6143188412238919, -0.44572456536991684, -0.16285079068542074]),
    ('Adam(params, fused=True, amsgrad=True, weight_decay=0.1, maximize=True)',
     [0.6665441660421628, 0.2742647068810767, 0.0642836291683061, 0.6273250826070355, -0.46087969561178144, -0.1750652347257364]),
    ('AdamW(params, fused=True, lr=torch.tensor(0.1))',
     [0.11241385319096384, -0.08857909005743024, -0.09511347550738118, -0.008404391481176894, 0.1123774196048126, 0.012621091728939299]),
    ('SGD(params, lr=0.1, fused=True, momentum=0.5, nesterov=True, weight_decay=0.1)',
     [0.3791685535640311, 0.1751895803424072, -0.060563290125164156, -0.14497925474635537, 0.06953015246124515, -0.17856155780765628]),
    ('SGD(params, lr=0.1, fused=True, momentum=0.9, dampening=0.1, maximize=True)',
     [67.978413141297, 63.084737779778536, 57.25288304705136, 136.65656104771296, -155.2317288483357, -103.67248871566895]),
]


def step(param, optimizer, i):
    param.grad = param.detach() * (i + 1) + torch.randn(2, 3, dtype=torch.float64)
    optimizer.step()


@pytest.mark.parametrize("code, expected", RULES)
def test_ten_steps(code, expected):
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
    optimizer = eval("torch.optim." + code, globals(), {"params": [p]})
    for i in range(10):
        step(p, optimizer, i)
    # Muon works in bfloat16, where a rounding of a product can go the other way.
    assert p.detach().flatten().tolist() == pytest.approx(expected, rel=1e-2 if code.startswith("Muon") else 1e-13)


@pytest.mark.parametrize("code", [code for code, _ in RULES])
def test_state_goes_on_from_a_copy(code):
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
    optimizer = eval("torch.optim." + code, globals(), {"params": [p]})
    for i in range(3):
        step(p, optimizer, i)
    q = torch.nn.Parameter(p.detach().clone())
    other = eval("torch.optim." + code, globals(), {"params": [q]})
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for param, optim in ((p, optimizer), (q, other)):
        torch.manual_seed(2)
        for i in range(3):
            step(param, optim, i)
    # Numbers of the state other than the step take the type of the parameter when they are loaded.
    assert torch.allclose(p, q, rtol=1e-6)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("options, expected, calls", [
    ({}, [-0.7756631903074452, 0.6130989280430192, 0.3820696605999879, 0.14597872133417167], 27),
    ({"line_search_fn": "strong_wolfe"}, [-0.7756592341828463, 0.6130934139995303, 0.3820628718720334, 0.14597196304568397], 28),
    ({"lr": 0.1, "max_iter": 5, "history_size": 3}, [-0.9119239155220684, 0.9033842604001127, 0.8524690467485639, 0.8324632319882879], 15),
    ({"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 4}, [-0.8602735901935626, 0.7500066723290704, 0.5663099395680183, 0.32564086988974866], 15),
])
def test_lbfgs(options, expected, calls):
    p = torch.nn.Parameter(torch.tensor([-0.5, 0.7, 0.3, 1.2], dtype=torch.float64))
    optimizer = torch.optim.LBFGS([p], **options)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert p.tolist() == pytest.approx(expected, rel=1e-8)
    assert optimizer.state[p]["func_evals"] == calls


def test_averages():
    averages = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(2, 2))
    ema = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(2, 2), multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for i in range(4):
        model = torch.nn.Linear(2, 2)
        with torch.no_grad():
            for param in model.parameters():
                param.fill_(float(i))
        averages.update_parameters(model)
        ema.update_parameters(model)
    assert averages.module.bias.tolist() == [1.5, 1.5] and ema.module.bias.tolist() == [2.125, 2.125]
    assert averages.n_averaged.item() == 4


def test_swa_rate():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.5)
    schedule = torch.optim.swa_utils.SWALR(optimizer, 0.05, anneal_epochs=3, anneal_strategy="linear")
    rates = []
    for _ in range(4):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    assert rates == pytest.approx([0.35, 0.2, 0.05, 0.05])


def test_fused_skips_and_scales():
    p, grad = torch.ones(3), torch.full((3,), 8.0)
    torch._fused_sgd_([p], [grad], [], weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False, maximize=False,
                      is_first_step=False, grad_scale=torch.tensor(4.0), found_inf=torch.tensor(1.0))
    assert p.tolist() == [1, 1, 1]
    torch._fused_sgd_([p], [grad], [], weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False, maximize=False,
                      is_first_step=False, grad_scale=torch.tensor(4.0), found_inf=torch.tensor(0.0))
    assert p.tolist() == [0, 0, 0] and grad.tolist() == [2, 2, 2]
    half, strided = torch.ones(4, dtype=torch.bfloat16), torch.ones(4, 2)[:, 0]
    for param in (half, strided):
        torch._fused_adam_([param], [torch.ones_like(param)], [torch.zeros_like(param)], [torch.zeros_like(param)], [],
                           [torch.tensor(1.0)], lr=0.5, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
        assert param.tolist() == pytest.approx([0.5] * 4, rel=1e-2)
