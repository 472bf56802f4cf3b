"""Gradients against differences. The Jacobians are made in the extension; here they are asked for and compared."""
from .. import _C
from .._C import Tensor, promote_types
from .function import Function
from .grad_mode import enable_grad

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]
_functions = _C._VariableFunctions


class GradcheckError(RuntimeError):
    """An error raised by gradcheck and gradgradcheck."""


NOT_REENTRANT = """Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, \
although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.

NOTE: If your op relies on non-deterministic operations i.e., it is listed here:
https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
this failure might be expected.

If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.
If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
  with `nondet_tol=<tol>` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `gradcheck_nondet_tol=<tol>`.
- is a Module test (e.g., in common_nn.py), then modify the corresponding
  module_test entry to have `gradcheck_nondet_tol=<tol>`
"""
FAST_MODE = """
The above quantities relating the numerical and analytical jacobians are computed 
in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background 
about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:

Numerical:
 {}
Analytical:
{}

The max per-element difference (slow mode) is: {}.
"""
BATCHED = """
gradcheck or gradgradcheck failed while testing batched gradient computation.
The backward of the function has to work under torch.func.vmap: it must not look at values (`.item()`), and an autograd.Function needs a vmap rule \
or generate_vmap_rule=True."""


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _wanted(inputs):
    """The numbers of the inputs that are checked."""
    found = []
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            if any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride())):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to "
                    "compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck.")
            found.append(i)
    if not found:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")
    return found


def _same(a, b, rtol, atol):
    wide = promote_types(a.dtype, b.dtype)
    return _functions.allclose(a.to(wide), b.to(wide), rtol, atol)


def _mismatch(numerical, analytical, output, number, forward):
    mode = "computed with forward mode " if forward else ""
    return (f"Jacobian {mode}mismatch for output {output} with respect to input {number},\n"
            f"numerical:{numerical}\nanalytical:{analytical}\n")


def _reverse(func, inputs, wanted):
    """By input, by output: matrices like those of the differences."""
    others = list(inputs)

    def rows(*chosen):
        for i, x in zip(wanted, chosen):
            others[i] = x
        return tuple(_C._gradcheck_rows(func(*others)))

    found = _C._functional_jacobian("gradcheck", rows, tuple(inputs[i] for i in wanted), False, False)
    return [[by[k].reshape(by[k].shape[0], -1).t() for by in found] for k in range(len(wanted))]


def _matrices(func, inputs, wanted, eps):
    """The same by differences, by dual tensors when eps is 0."""
    return [[m.detach() for m in _C._gradcheck_jacobian(func, inputs, i, eps)] for i in wanted]


def _check_slow(func, inputs, wanted, eps, rtol, atol, forward, backward, nondet_tol):
    numerical = _matrices(func, inputs, wanted, eps)
    reverse = _reverse(func, inputs, wanted) if backward else []
    for analytical, is_forward in ((_matrices(func, inputs, wanted, 0.0) if forward else [], True), (reverse, False)):
        for i, by_number, by_rule in zip(wanted, numerical, analytical):
            for output, (n, a) in enumerate(zip(by_number, by_rule)):
                if not _same(a, n, rtol, atol):
                    raise GradcheckError(_mismatch(n, a, output, i, is_forward))
    again = _reverse(func, inputs, wanted) if backward else []
    for x, y in zip(reverse, again):
        _check_again(x, y, nondet_tol)


def _check_again(first, second, nondet_tol):
    """Gradients that were computed twice, from the same gradients of the outputs."""
    if any((a - b).abs().max() > nondet_tol for a, b in zip(first, second) if a.numel()):
        raise GradcheckError(NOT_REENTRANT.format(nondet_tol))


def _check_fast(func, inputs, wanted, eps, rtol, atol, forward, backward, nondet_tol):
    """One direction v for each input and one u for each output: <u, J v> by differences, tangents and gradients."""
    from . import grad

    made = tuple(_C._gradcheck_rows(func(*inputs)))
    weights = tuple(_functions.rand_like(o) for o in made)

    def compare(want, got, output, i, is_forward):
        if _same(got, want, rtol, atol):
            return
        slow, = _matrices(func, inputs, [i], eps)
        rule, = _matrices(func, inputs, [i], 0.0) if is_forward else _reverse(func, inputs, [i])
        raise GradcheckError(_mismatch(want, got, output, i, is_forward) +
                             FAST_MODE.format(slow[output], rule[output], (slow[output] - rule[output]).abs().max().item()))

    for i in wanted:
        v = _functions.rand_like(inputs[i])
        numerical = _C._gradcheck_along(func, inputs, i, eps, v)
        tangents = _C._gradcheck_along(func, inputs, i, 0.0, v) if forward else []
        for output, (n, u) in enumerate(zip(numerical, weights)):
            want = (n.detach() * u).sum()
            if forward:
                compare(want, (tangents[output].detach() * u).sum(), output, i, True)
            if backward and made[output].requires_grad:
                g, = grad(made[output], inputs[i], u, retain_graph=True, materialize_grads=True)
                _check_again((g,), grad(made[output], inputs[i], u, retain_graph=True, materialize_grads=True), nondet_tol)
                compare(want, (g * v.conj()).sum().real if g.is_complex() else (g * v).sum(), output, i, False)


def _expect_zero(func, inputs, wanted, eps):
    """A function none of whose outputs requires a gradient does not change."""
    if any((m != 0).any() for by_output in _matrices(func, inputs, wanted, eps) for m in by_output):
        raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_batched(func, inputs, wanted):
    """Gradients of two gradients of the outputs at once, by vmap, are those of one after the other."""
    from . import grad

    chosen = [inputs[i] for i in wanted]
    for output in _tuple(func(*inputs)):
        if not output.requires_grad:
            continue
        given = _functions.stack([_functions.randn_like(output) for _ in range(2)])
        single = [grad([output], chosen, [g], retain_graph=True, allow_unused=True) for g in given]
        try:
            batched = grad([output], chosen, [given], retain_graph=True, allow_unused=True, is_grads_batched=True)
        except (RuntimeError, NotImplementedError) as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n{BATCHED}") from error
        for number, (got, *want) in enumerate(zip(batched, *single)):
            if got is not None and not _same(got, _functions.stack(want), 1e-3, 1e-5):
                raise GradcheckError(f"For input {wanted[number]}, gradients of a batch differ from those computed one after the other\n{BATCHED}")


def _check_batched_forward(func, inputs, wanted):
    """The same for tangents."""
    from ..func import jvp, vmap

    for i in wanted:
        def along(tangent):
            return jvp(lambda x: tuple(_C._gradcheck_rows(func(*inputs[:i], x, *inputs[i + 1:]))), (inputs[i].detach(),), (tangent,))[1]

        given = _functions.stack([_functions.randn_like(inputs[i]) for _ in range(2)])
        single = [along(tangent) for tangent in given]
        try:
            batched = vmap(along)(given)
        except (RuntimeError, NotImplementedError) as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n{BATCHED}") from error
        for got, *want in zip(batched, *single):
            if not _same(got, _functions.stack(want), 1e-3, 1e-5):
                raise GradcheckError(f"For input {i}, tangents of a batch differ from those computed one after the other\n{BATCHED}")


def _check_linear(func, inputs, wanted, dtypes):
    """Gradients are products with those of the outputs: zeros for zeros, and of the inputs' types where that is asked for."""
    from . import grad

    outputs = [o for o in _tuple(func(*inputs)) if o.requires_grad]
    chosen = [inputs[i] for i in wanted]
    found = grad(outputs, chosen, [_functions.zeros_like(o) for o in outputs], allow_unused=True) if outputs else ()
    for x, g in zip(chosen, found):
        if g is not None and (g != 0).any():
            raise GradcheckError("backward not multiplied by grad_output")
        if dtypes and g is not None and g.dtype != x.dtype:
            raise GradcheckError("Gradient has dtype mismatch.")


class _Undefined(Function):
    """Gives no gradient to what stands before it."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return None


def _check_undefined(func, inputs, wanted):
    """Backward takes undefined gradients, and gives undefined ones or zeros for them."""
    from . import grad

    outputs = [_Undefined.apply(o) for o in _tuple(func(*inputs)) if o.requires_grad]
    found = grad(outputs, [inputs[i] for i in wanted], [_functions.zeros_like(o) for o in outputs], allow_unused=True) if outputs else ()
    if any(g is not None and (g != 0).any() for g in found):
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please look at "
            '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"')


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """True when gradients (and, if asked, tangents) agree with differences; else a GradcheckError, or False."""
    assert check_forward_ad or check_backward_ad, "Expected at least one of check_forward_ad or check_backward_ad to be True"
    assert not (check_batched_grad and not check_backward_ad), "Setting check_batched_grad=True requires check_backward_ad to be True"
    assert not (check_batched_forward_grad and not check_forward_ad), "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    inputs = _tuple(inputs)         # `masked` is about sparse tensors, of which there are none
    try:
        wanted = _wanted(inputs)
        if not any(o.requires_grad for o in _tuple(func(*inputs))) and check_backward_ad:
            _expect_zero(func, inputs, wanted, eps)
        else:
            (_check_fast if fast_mode else _check_slow)(func, inputs, wanted, eps, rtol, atol, check_forward_ad, check_backward_ad, nondet_tol)
            if check_batched_forward_grad:
                _check_batched_forward(func, inputs, wanted)
            if check_batched_grad:
                _check_batched(func, inputs, wanted)
            if check_backward_ad:
                _check_linear(func, inputs, wanted, check_grad_dtypes)
            if check_backward_ad and check_undefined_grad:
                _check_undefined(func, inputs, wanted)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _spaced(like):
    """A random gradient whose last dim has gaps."""
    return _functions.stack([_functions.randn_like(like), _functions.randn_like(like)], -1).select(-1, 0)


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """gradcheck of the gradient, as a function of the inputs and of the gradients of the outputs."""
    from . import grad

    assert check_fwd_over_rev or check_rev_over_rev, "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    assert check_rev_over_rev or not check_undefined_grad, "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in _tuple(func(*inputs)) if o.requires_grad]
        grad_outputs = tuple((_spaced(o) if gen_non_contig_grad_outputs else _functions.randn_like(o)).requires_grad_() for o in outputs)
    else:
        grad_outputs = tuple(g if g is None else g.detach().requires_grad_() for g in _tuple(grad_outputs))
    count = len(grad_outputs)

    @enable_grad()
    def gradient(*args):
        given = tuple(x.requires_grad_() if isinstance(x, Tensor) and y.requires_grad and x.is_leaf else x for x, y in zip(args, inputs))
        outputs = [o for o in _tuple(func(*given)) if o.requires_grad]
        wanted = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        found = grad(outputs, wanted, args[-count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradient, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked)
