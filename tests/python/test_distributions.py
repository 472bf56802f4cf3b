"""torch.distributions: moments, densities and draws agree with each other; parameters and values are checked."""
import math

import pytest
import taper as torch

D = torch.distributions
T = torch.tensor

CONTINUOUS = [
    D.Normal(T(1.0), T(2.0)), D.Uniform(T(-1.0), T(3.0)), D.Laplace(T(0.5), T(1.5)), D.Exponential(T(0.7)), D.Gamma(T(2.5), T(1.5)),
    D.Beta(T(2.0), T(3.0)), D.StudentT(T(6.0)), D.Chi2(T(3.0)), D.LogNormal(T(0.0), T(0.4)), D.Gumbel(T(0.0), T(1.0)), D.HalfNormal(T(1.5)),
    D.Weibull(T(1.0), T(2.0)), D.Kumaraswamy(T(2.0), T(3.0)), D.Pareto(T(1.0), T(5.0)), D.InverseGamma(T(5.0), T(2.0)),
    D.ContinuousBernoulli(T(0.3)), D.FisherSnedecor(T(5.0), T(12.0)),
    D.MixtureSameFamily(D.Categorical(T([0.3, 0.7])), D.Normal(T([-1.0, 2.0]), T([0.5, 1.0]))),
    D.TransformedDistribution(D.Normal(T(0.0), T(1.0)), [D.AffineTransform(1.0, 0.5)]),
]
DISCRETE = [
    D.Bernoulli(T(0.3)), D.Binomial(8, T(0.4)), D.Categorical(T([0.2, 0.5, 0.3])), D.Poisson(T(3.0)), D.Geometric(T(0.4)),
    D.NegativeBinomial(T(4.0), T(0.4)),
]


@pytest.mark.parametrize("d", CONTINUOUS, ids=lambda d: type(d).__name__)
def test_draws_follow_the_density(d):
    torch.manual_seed(0)
    x = d.sample((40000,)).double()
    if d.__class__ is not D.TransformedDistribution:
        assert abs(float(x.mean()) - float(d.mean)) < 5 * float(x.std()) / 200
    low, high = float(x.quantile(0.001)), float(x.quantile(0.999))
    grid = torch.linspace(low, high, 20001)
    inside = d.log_prob(grid).exp().nan_to_num()
    assert abs(float(torch.trapezoid(inside, grid)) - 0.998) < 0.01


@pytest.mark.parametrize("d", DISCRETE, ids=lambda d: type(d).__name__)
def test_probabilities_add_up(d):
    values = torch.arange(0, 3 if isinstance(d, D.Categorical) else 2 if isinstance(d, D.Bernoulli) else 9 if isinstance(d, D.Binomial) else 120).float()
    probs = d.log_prob(values).exp()
    assert abs(float(probs.sum()) - 1) < 1e-4
    if not isinstance(d, D.Categorical):
        assert abs(float((probs * values).sum()) - float(d.mean)) < 1e-3
        assert abs(float((probs * (values - d.mean) ** 2).sum()) - float(d.variance)) < 1e-2


def test_vectors_and_matrices():
    torch.manual_seed(0)
    covariance = T([[2.0, 0.5], [0.5, 1.0]])
    d = D.MultivariateNormal(T([1.0, -1.0]), covariance)
    assert torch.allclose(torch.cov(d.sample((50000,)).T), covariance, atol=0.05)
    assert torch.allclose(d.precision_matrix @ covariance, torch.eye(2), atol=1e-5)
    same = D.MultivariateNormal(d.loc, scale_tril=torch.linalg.cholesky(covariance))
    assert torch.allclose(d.log_prob(torch.zeros(2)), same.log_prob(torch.zeros(2))) and float(D.kl_divergence(d, same)) == pytest.approx(0, abs=1e-6)
    wishart = D.Wishart(T(6.0), covariance)
    with pytest.warns(UserWarning):
        assert torch.allclose(wishart.sample((4000,)).mean(0), wishart.mean, atol=0.5)


def test_gradients_pass_through_draws():
    torch.manual_seed(0)
    a = T(2.5, dtype=torch.float64).requires_grad_()
    D.Gamma(a, T(1.0, dtype=torch.float64)).rsample((20000,)).mean().backward()         # the mean is a
    assert abs(float(a.grad) - 1) < 0.02
    c = T([1.0, 2.0], dtype=torch.float64).requires_grad_()
    D.Dirichlet(c).rsample((20000,))[:, 0].mean().backward()                            # the mean is c0 / (c0 + c1)
    assert torch.allclose(c.grad, T([2 / 9, -1 / 9], dtype=torch.float64), atol=0.01)


def test_divergences():
    p, q = D.Normal(T(0.0), T(1.0)), D.Normal(T(1.0), T(2.0))
    assert float(D.kl_divergence(p, q)) == pytest.approx(math.log(2) + 2 / 8 - 0.5)
    x = torch.linspace(-8, 8, 4001)
    for p, q in ((p, D.Laplace(T(0.3), T(1.2))), (p, D.Gumbel(T(0.0), T(2.0))), (D.Uniform(T(0.0), T(1.0)), D.Beta(T(2.0), T(2.0)))):
        grid = torch.linspace(1e-4, 1 - 1e-4, 4001) if isinstance(p, D.Uniform) else x
        numeric = torch.trapezoid(p.log_prob(grid).exp() * (p.log_prob(grid) - q.log_prob(grid)), grid)
        assert float(D.kl_divergence(p, q)) == pytest.approx(float(numeric), rel=1e-2)
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))


@pytest.mark.parametrize("constraint", ["positive", "unit_interval", "simplex", "corr_cholesky"])
def test_bijections(constraint):
    wanted = getattr(D.constraints, constraint)
    t, x = D.biject_to(wanted), torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3)
    y = t(x)
    assert bool(wanted.check(y).all()) and torch.allclose(t.inv(y), x)
    assert torch.allclose(t.inv.log_abs_det_jacobian(y, x), -t.log_abs_det_jacobian(x, y))


def test_checks():
    for make, text in (
        (lambda: D.Normal(0.0, T(-1.0)), "Expected parameter scale"), (lambda: D.Categorical(), "Either `probs` or `logits` must be specified"),
        (lambda: D.Bernoulli(0.5).log_prob(T(0.5)), "to be within the support"), (lambda: D.Normal(0.0, 1.0).log_prob(1), "must be a Tensor"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "Expected reinterpreted_batch_ndims <="),
        (lambda: D.MultivariateNormal(torch.zeros(2)), "Exactly one of covariance_matrix"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)" and repr(D.constraints.positive) == "GreaterThan(lower_bound=0.0)"
    assert D.Normal.__module__.endswith("distributions.normal") and D.normal.Normal is D.Normal


def test_expanding():
    d = D.Independent(D.Normal(torch.zeros(3), 1.0), 1).expand((2,))
    assert (d.batch_shape, d.event_shape) == ((2,), (3,)) and d.sample((5,)).shape == (5, 2, 3)
    assert D.Categorical(torch.ones(3)).expand((4,)).sample().shape == (4,)
