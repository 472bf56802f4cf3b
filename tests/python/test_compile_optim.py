"""torch.compile around optimisers: whatever is compiled, parameters, gradients and the optimiser's state are the plain program's."""
import copy
import warnings

import pytest
import taper as torch
import taper._dynamo as dynamo

OPTIMISERS = {
    "SGD": dict(lr=0.1, momentum=0.9, weight_decay=0.01), "Adam": dict(lr=0.01), "AdamW": dict(lr=0.01, amsgrad=True), "Adadelta": dict(),
    "Adagrad": dict(lr=0.05), "Adamax": dict(), "ASGD": dict(), "NAdam": dict(), "RAdam": dict(), "RMSprop": dict(lr=0.01, momentum=0.5),
    "Rprop": dict(), "LBFGS": dict(lr=0.1, max_iter=3), "Adafactor": dict(), "Muon": dict(lr=0.01),
}


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


def start(name, **options):
    """(model, optimiser, inputs), the same each time."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    trained = [p for p in model.parameters() if p.ndim == 2] if name == "Muon" else model.parameters()
    return model, getattr(torch.optim, name)(trained, **(options or OPTIMISERS[name])), torch.randn(6, 4), torch.randn(6, 2)


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def everything(model, optimiser):
    return plain({"parameters": list(model.parameters()), "gradients": [p.grad for p in model.parameters()], "optimiser": optimiser.state_dict(),
                  "grad": torch.is_grad_enabled()})


def loss_of(model, x, y):
    return ((model(x) - y) ** 2).mean()


# Each gives a function of no arguments that does one step, with `compile` around some part of it.
def step_compiled(model, optimiser, x, y, compile):
    step = compile(optimiser.step)

    def train():
        optimiser.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        step()
        return loss.item()

    return train


def all_compiled(model, optimiser, x, y, compile):
    @compile
    def train():
        optimiser.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimiser.step()
        return loss

    return train


def step_inside(model, optimiser, x, y, compile):
    @compile
    def update(scale):
        optimiser.step()
        return scale * 2

    def train():
        optimiser.zero_grad(set_to_none=False)
        loss_of(model, x, y).backward()
        return update(torch.ones(2))

    return train


def clipped(model, optimiser, x, y, compile):
    @compile
    def update():
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimiser.step()
        return norm

    def train():
        compile(optimiser.zero_grad)()
        compile(lambda: loss_of(model, x, y))().backward()
        return update()

    return train


def with_closure(model, optimiser, x, y, compile):
    def closure():
        optimiser.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        return loss

    step = compile(optimiser.step)
    return lambda: step(closure)


def scheduled(model, optimiser, x, y, compile):
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 1, 0.5)

    @compile
    def train():
        model.zero_grad()
        torch.autograd.backward(loss_of(model, x, y))
        optimiser.step()
        scheduler.step()
        return scheduler.get_last_lr()

    return train


def scaled(model, optimiser, x, y, compile):
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)

    @compile
    def train():
        optimiser.zero_grad()
        scaler.scale(loss_of(model, x, y)).backward()
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
        return scaler.get_scale()

    return train


def by_hand(model, optimiser, x, y, compile):
    @compile
    def train():
        for p in model.parameters():
            p.grad = None
        loss_of(model, x, y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        return [p.grad.sum() for p in model.parameters()]

    return train


def hooked(model, optimiser, x, y, compile):
    seen = []
    optimiser.register_step_pre_hook(lambda *args: seen.append("before"))
    optimiser.register_step_post_hook(lambda *args: seen.append("after"))

    @compile
    def train():
        optimiser.zero_grad()
        loss_of(model, x, y).backward()
        optimiser.step()
        return list(seen)

    return train


def schedules_compiled(model, optimiser, x, y, compile):
    made = torch.optim.lr_scheduler
    schedulers = [made.StepLR(optimiser, 1, 0.5), made.CosineAnnealingLR(optimiser, 5), made.LambdaLR(optimiser, lambda n: 0.9 ** n)]
    steps = [compile(s.step) for s in schedulers]

    def train():
        optimiser.zero_grad()
        loss_of(model, x, y).backward()
        optimiser.step()
        return [step() for step in steps], [s.state_dict().get("last_epoch") for s in schedulers], [g["lr"] for g in optimiser.param_groups]

    return train


def averaged(model, optimiser, x, y, compile):
    kept = torch.optim.swa_utils.AveragedModel(model)
    update = compile(lambda: kept.update_parameters(model))

    def train():
        optimiser.zero_grad()
        loss_of(model, x, y).backward()
        optimiser.step()
        update()
        return [list(kept.parameters()), kept.n_averaged]

    return train


def state_moved(model, optimiser, x, y, compile):
    other, second, _, _ = start(type(optimiser).__name__)

    @compile
    def move():
        second.load_state_dict(optimiser.state_dict())
        other.load_state_dict(model.state_dict())

    def train():
        optimiser.zero_grad()
        loss_of(model, x, y).backward()
        optimiser.step()
        move()
        return everything(other, second)

    return train


WAYS = [step_compiled, all_compiled, step_inside, clipped, with_closure, scheduled, scaled, by_hand, hooked, schedules_compiled, averaged, state_moved]


def steps(way, name, compile, **options):
    model, optimiser, x, y = start(name, **options)
    train, out = way(model, optimiser, x, y, compile), []
    for _ in range(4):
        result = train()
        out.append((plain(result.detach() if isinstance(result, torch.Tensor) else result), everything(model, optimiser)))
    return out


def test_every_optimiser_has_a_row():
    classes = [name for name in dir(torch.optim) if isinstance(getattr(torch.optim, name), type) and
               issubclass(getattr(torch.optim, name), torch.optim.Optimizer)]
    assert set(classes) - {"Optimizer", "SparseAdam"} <= set(OPTIMISERS)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", [name for name in OPTIMISERS if hasattr(torch.optim, name)])
def test_steps_as_the_plain_program(name, way):
    if name == "LBFGS" and way is not with_closure:
        return                                  # its step needs a closure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = steps(way, name, lambda f: f)
        assert steps(way, name, torch.compile) == want
        assert steps(way, name, lambda f: torch.compile(f, backend="eager")) == want
    assert want[0][1]["parameters"] != want[-1][1]["parameters"]


@pytest.mark.parametrize("options", [dict(lr=0.1, foreach=True), dict(lr=0.1, fused=True), dict(lr=0.1, maximize=True), dict(lr=torch.tensor(0.1))],
                         ids=str)
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_flags_of_the_step(name, options):
    assert steps(step_compiled, name, torch.compile, **options) == steps(step_compiled, name, lambda f: f, **options)


@pytest.mark.parametrize("way", [all_compiled, by_hand], ids=lambda way: way.__name__)
def test_fullgraph_refuses_before_anything_is_done(way):
    model, optimiser, x, y = start("Adam")
    optimiser.zero_grad()
    loss_of(model, x, y).backward()
    train = way(model, optimiser, x, y, lambda f: torch.compile(f, fullgraph=True))
    before = copy.deepcopy(everything(model, optimiser))
    with pytest.raises(dynamo.exc.Unsupported):
        train()
    assert everything(model, optimiser) == before


@pytest.mark.parametrize("items", [lambda groups: zip(groups, groups), lambda groups: enumerate(groups), lambda groups: zip(range(2), groups),
                                   lambda groups: zip(reversed(groups), groups), lambda groups: [(None, g) for g in map(lambda g: g, groups)]],
                         ids=["zip", "enumerate", "range", "reversed", "map"])
def test_groups_that_c_code_hands_on_are_written(items):
    def run(compile):
        groups = [{"lr": 1.0, "params": [x]}, {"lr": 2.0, "params": []}]

        @compile
        def step():
            for _, group in items(groups):
                group["lr"] *= 0.5
                group["params"].append(3)
            return groups[0]["lr"]

        return [(step(), [(g["lr"], g["params"][-1]) for g in groups]) for _ in range(3)]

    x = torch.ones(2)
    assert run(torch.compile) == run(lambda f: f)


def test_the_refusal_names_what_it_met():
    model, optimiser, x, y = start("SGD")
    with pytest.raises(dynamo.exc.Unsupported, match="the step of an optimiser \\(_gather_gradients"):
        torch.compile(optimiser.step, fullgraph=True)()
    with pytest.raises(dynamo.exc.Unsupported, match="backward"):
        torch.compile(lambda: loss_of(model, x, y).backward(), fullgraph=True)()
    with pytest.raises(dynamo.exc.Unsupported, match="Tensor.grad"):
        torch.compile(lambda a: a.grad, fullgraph=True)(x)
    with pytest.raises(dynamo.exc.Unsupported, match="'grad'"):
        torch.compile(lambda a: setattr(a, "grad", None), fullgraph=True)(x)


# ---- gradients as results --------------------------------------------------------------------------------------------
def gradients(create):
    def f(a):
        g, = torch.autograd.grad((a ** 3).sum(), a, create_graph=create)
        return g * 2

    return f


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


@pytest.mark.parametrize("backend", ["inductor", "eager", "aot_eager"])
@pytest.mark.parametrize("create", [False, True])
def test_gradients_inside(create, backend):
    f = gradients(create)
    compiled = torch.compile(f, backend=backend)
    for _ in range(3):
        a, b = leaf(), leaf()
        want, got = f(a), compiled(b)
        assert got.tolist() == want.tolist() and got.requires_grad == want.requires_grad
        if create:
            want.sum().backward(), got.sum().backward()
            assert a.grad.tolist() == b.grad.tolist()


def test_gradients_of_what_requires_them_anyway():
    def f(a, w):
        return torch.autograd.grad((a * w).sum(), a)[0]

    a, w = leaf(), leaf()
    assert f(a, w.detach()).tolist() == torch.compile(f)(a, w.detach()).tolist()
    assert f(a, w).requires_grad == torch.compile(f)(a, w).requires_grad


def test_hooks_of_inputs_fire():
    def run(compile):
        a, seen = leaf(), []
        a.register_hook(lambda g: seen.append(g.tolist()))
        out = compile(lambda a: torch.autograd.grad((a ** 2).sum(), a)[0])(a)
        return out.tolist(), seen

    assert run(torch.compile) == run(lambda f: f)


class Tenfold(torch.autograd.Function):
    """A square whose gradient is not that of a square."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(ctx, g):
        return g * 10 * ctx.saved_tensors[0]


@pytest.mark.parametrize("backend", ["inductor", "eager", "aot_eager", lambda gm, inputs: gm, lambda gm, inputs: gm.forward])
def test_functions_with_a_backward_of_their_own(backend):
    compiled = torch.compile(lambda a: Tenfold.apply(a) + 1, backend=backend)
    for _ in range(3):
        a = leaf()
        out = compiled(a)
        out.sum().backward()
        assert out.tolist() == [2, 5, 10] and a.grad.tolist() == [10, 20, 30]
