"""L-BFGS, with a line search that meets the strong Wolfe conditions."""
from .._root import torch
from .optimizer import Optimizer, _check_lr

__all__ = ["LBFGS"]


def _cubic(a, b, low=None, high=None):
    """Where the cubic through two points (x, value, slope) is least, within bounds."""
    (x1, f1, g1), (x2, f2, g2) = a, b
    if low is None:
        low, high = (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt() if isinstance(square, torch.Tensor) else square ** 0.5
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(place, low), high)


class _Point:
    """A step length with what was found there."""

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope

    @property
    def known(self):
        return self.t, self.loss, self.slope


class _Search:
    """Looks for a step that lowers the loss enough and where the slope has become small."""

    ENOUGH, FLAT, MOST = 1e-4, 0.9, 25

    def __init__(self, evaluate, direction, start, change):
        self.evaluate, self.direction, self.start, self.change = evaluate, direction, start, change
        self.calls = self.rounds = 0

    def at(self, t):
        loss, grad = self.evaluate(t)
        self.calls += 1
        return _Point(t, loss, grad.clone(), grad.dot(self.direction))

    def too_high(self, point):
        return point.loss > self.start.loss + self.ENOUGH * point.t * self.start.slope

    def flat(self, point):
        return abs(point.slope) <= -self.FLAT * self.start.slope

    def bracket(self, t):
        """One point that will do, or two with a minimum between them."""
        before, now = self.start, self.at(t)
        while self.rounds < self.MOST:
            if self.too_high(now) or (self.rounds > 1 and now.loss >= before.loss):
                return [before, now]
            if self.flat(now):
                return [now]
            if now.slope >= 0:
                return [before, now]
            t = _cubic(before.known, now.known, now.t + 0.01 * (now.t - before.t), now.t * 10)
            before, now = now, self.at(t)
            self.rounds += 1
        return [self.start, now]

    def run(self, t):
        ends = self.bracket(t)
        if len(ends) == 1:
            return ends[0]
        size = self.direction.abs().max()
        stuck = False
        low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
        while self.rounds < self.MOST and abs(ends[1].t - ends[0].t) * size >= self.change:
            t = _cubic(ends[0].known, ends[1].known)
            least, most = min(ends[0].t, ends[1].t), max(ends[0].t, ends[1].t)
            margin = 0.1 * (most - least)
            # Twice too near an end is no progress: then a step away from it.
            if min(most - t, t - least) < margin:
                if stuck or t >= most or t <= least:
                    t = most - margin if abs(t - most) < abs(t - least) else least + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            now = self.at(t)
            self.rounds += 1
            if self.too_high(now) or now.loss >= ends[low].loss:
                ends[high] = now
                low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
                continue
            done = self.flat(now)
            if not done and now.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = now
            if done:
                break
        return ends[low]


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last `history_size` changes of gradient; one step() makes up to `max_iter` of them."""

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None
    ):
        _check_lr(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        parts = [
            (param.new_zeros(param.numel()) if param.grad is None else param.grad.reshape(-1)) for param in self._params]
        return torch.cat([torch.view_as_real(part).reshape(-1) if part.is_complex() else part for part in parts], 0)

    def _move(self, t, direction):
        offset = 0
        for param in self._params:
            flat = torch.view_as_real(param) if param.is_complex() else param
            flat.add_(direction[offset:offset + flat.numel()].view_as(flat), alpha=t)
            offset += flat.numel()

    def _evaluate(self, closure, places, t, direction):
        """Loss and gradient a step away; the parameters come back."""
        self._move(t, direction)
        loss, grad = float(closure()), self._gradient()
        for param, place in zip(self._params, places):
            param.copy_(place)
        return loss, grad

    @staticmethod
    def _direction(state, grad, history):
        """The quasi-Newton direction: the two loops over what is remembered."""
        change, step = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        agreement = change.dot(step)
        dirs, steps, inverse = state["old_dirs"], state["old_stps"], state["ro"]
        if agreement > 1e-10:
            if len(dirs) == history:
                for remembered in (dirs, steps, inverse):
                    remembered.pop(0)
            dirs.append(change)
            steps.append(step)
            inverse.append(1.0 / agreement)
            state["H_diag"] = agreement / change.dot(change)
        if "al" not in state:
            state["al"] = [None] * history
        q, factors = grad.neg(), state["al"]
        for i in range(len(dirs) - 1, -1, -1):
            factors[i] = steps[i].dot(q) * inverse[i]
            q.add_(dirs[i], alpha=-factors[i])
        q = q.mul(state["H_diag"])
        for i in range(len(dirs)):
            q.add_(steps[i], alpha=factors[i] - dirs[i].dot(q) * inverse[i])
        return q

    @torch.no_grad()
    def step(self, closure):
        given = closure

        def closure():
            with torch.enable_grad():
                return given()

        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, change = group["lr"], group["tolerance_change"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluations, iterations = float(first), 1, 0
        state["func_evals"] += 1
        grad = self._gradient()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            begins = state["n_iter"] == 1
            if begins:
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
                state["d"] = grad.neg()
            else:
                state["d"] = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone()
            before = state["prev_loss"] = loss
            state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if begins else lr
            direction, slope = state["d"], grad.dot(state["d"])
            if slope > -change:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                places = [param.clone(memory_format=torch.contiguous_format) for param in self._params]
                search = _Search(
                    lambda t: self._evaluate(closure, places, t, direction), direction, _Point(0, loss, grad.clone(), slope), change)
                found = search.run(state["t"])
                loss, grad, state["t"], calls = found.loss, found.grad, found.t, search.calls
                self._move(state["t"], direction)
                flat = grad.abs().max() <= group["tolerance_grad"]
            else:
                self._move(state["t"], direction)
                flat = False
                if iterations != group["max_iter"]:
                    loss, grad, calls = float(closure()), self._gradient(), 1
                    flat = grad.abs().max() <= group["tolerance_grad"]
            evaluations += calls
            state["func_evals"] += calls
            if (evaluations >= group["max_eval"] or flat or direction.mul(state["t"]).abs().max() <= change
                    or abs(loss - before) < change):
                break
        return first
