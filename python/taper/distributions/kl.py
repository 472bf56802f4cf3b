"""Kullback-Leibler divergences, by the types of both distributions."""
import functools
import math

from . import continuous as c
from . import derived as e
from . import discrete as d
from . import matrices as m
from .compound import Independent, TransformedDistribution
from .distribution import Distribution, ExponentialFamily
from .utils import _sum_rightmost, euler_constant

torch = __import__(__name__.partition(".")[0])

_registry = {}


def register_kl(type_p, type_q):
    if not isinstance(type_p, type) and issubclass(type_p, Distribution):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type) and issubclass(type_q, Distribution):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def add(function):
        _registry[type_p, type_q] = function
        _find.cache_clear()
        return function

    return add


@functools.lru_cache(maxsize=None)
def _find(type_p, type_q):
    """The nearest pair: one that no other pair is below of, on both sides."""
    pairs = [(p, q) for p, q in _registry if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return None

    def rank(pair):
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    by_p, by_q = min(pairs, key=rank), min(pairs, key=lambda pair: rank(pair)[::-1])
    if _registry[by_p] is not _registry[by_q]:
        import warnings

        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
                      RuntimeWarning, stacklevel=3)
    return _registry[by_p]


def kl_divergence(p, q):
    """The divergence of q from p."""
    function = _find(type(p), type(q))
    if function is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}")
    return function(p, q)


def _infinite(x):
    return torch.full_like(x, math.inf)


@register_kl(d.Bernoulli, d.Bernoulli)
def _bernoulli(p, q):
    yes = p.probs * (torch.nn.functional.softplus(-q.logits) - torch.nn.functional.softplus(-p.logits))
    yes = torch.where(q.probs == 0, _infinite(yes), yes)
    yes = torch.where(p.probs == 0, torch.zeros_like(yes), yes)
    no = (1 - p.probs) * (torch.nn.functional.softplus(q.logits) - torch.nn.functional.softplus(p.logits))
    no = torch.where(q.probs == 1, _infinite(no), no)
    return yes + torch.where(p.probs == 1, torch.zeros_like(no), no)


@register_kl(c.Beta, c.Beta)
def _beta(p, q):
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    first = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    second = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    return (first - second + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
            + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0) + (total_q - total_p) * torch.digamma(total_p))


@register_kl(d.Binomial, d.Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more = p.total_count > q.total_count
    return torch.where(more, _infinite(kl), kl)


@register_kl(d.Categorical, d.Categorical)
def _categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = torch.where((q.probs == 0).expand_as(t), _infinite(t), t)
    return torch.where((p.probs == 0).expand_as(t), torch.zeros_like(t), t).sum(-1)


@register_kl(d.OneHotCategorical, d.OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(c.ContinuousBernoulli, c.ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return (p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + torch.log1p(-p.probs)
            - q._cont_bern_log_norm() - torch.log1p(-q.probs))


@register_kl(c.Dirichlet, c.Dirichlet)
def _dirichlet(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    normalisers = total_p.lgamma() - total_q.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    return normalisers + ((p.concentration - q.concentration) * (p.concentration.digamma() - total_p.digamma().unsqueeze(-1))).sum(-1)


@register_kl(c.Exponential, c.Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed using Bregman divergences")
    params_p = [x.detach().requires_grad_() for x in p._natural_params]
    params_q = q._natural_params
    normaliser = p._log_normalizer(*params_p)
    gradients = torch.autograd.grad(normaliser.sum(), params_p, create_graph=True)
    result = q._log_normalizer(*params_q) - normaliser
    for x, y, gradient in zip(params_p, params_q, gradients):
        result = result - _sum_rightmost((y - x) * gradient, len(q.event_shape))
    return result


@register_kl(c.Gamma, c.Gamma)
def _gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log() + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
            + (p.concentration - q.concentration) * torch.digamma(p.concentration) + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(e.Gumbel, e.Gumbel)
def _gumbel(p, q):
    ratio, loc_q, loc_p = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    return -ratio.log() + loc_q - loc_p + ratio * euler_constant + torch.exp(loc_q + (1 + ratio).lgamma() - loc_p) - (1 + euler_constant)


@register_kl(d.Geometric, d.Geometric)
def _geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(e.HalfNormal, e.HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(c.Laplace, c.Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(m.LowRankMultivariateNormal, m.LowRankMultivariateNormal)
def _lowrank(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Low Rank Multivariate Normals with different event shapes cannot be computed")
    parts_p, parts_q = (p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag), (q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag)
    logs = m._lowrank_log_det(*parts_q, q._capacitance_tril) - m._lowrank_log_det(*parts_p, p._capacitance_tril)
    distance = m._lowrank_mahalanobis(*parts_q, q.loc - p.loc, q._capacitance_tril)
    trace = (q.precision_matrix * p.covariance_matrix).sum([-2, -1])
    return 0.5 * (logs + distance + trace - p.event_shape[0])


def _trace_against(lower, factor):
    """The trace of (L L')^-1 F F'."""
    n = lower.shape[-1]
    batch = torch.broadcast_shapes(lower.shape[:-2], factor.shape[:-2])
    solved = torch.linalg.solve_triangular(lower.expand(batch + (n, n)), factor.expand(batch + factor.shape[-2:]), upper=False)
    return solved.pow(2).sum([-2, -1])


@register_kl(m.MultivariateNormal, m.LowRankMultivariateNormal)
def _normal_lowrank(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed")
    parts = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    logs = m._lowrank_log_det(*parts, q._capacitance_tril) - 2 * m._half_log_det(p._unbroadcasted_scale_tril)
    distance = m._lowrank_mahalanobis(*parts, q.loc - p.loc, q._capacitance_tril)
    return 0.5 * (logs + distance + (q.precision_matrix * p.covariance_matrix).sum([-2, -1]) - p.event_shape[0])


@register_kl(m.LowRankMultivariateNormal, m.MultivariateNormal)
def _lowrank_normal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed")
    logs = 2 * m._half_log_det(q._unbroadcasted_scale_tril) - m._lowrank_log_det(p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag, p._capacitance_tril)
    distance = m._batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return 0.5 * (logs + distance + _trace_against(q._unbroadcasted_scale_tril, p.scale_tril) - p.event_shape[0])


@register_kl(m.MultivariateNormal, m.MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    logs = m._half_log_det(q._unbroadcasted_scale_tril) - m._half_log_det(p._unbroadcasted_scale_tril)
    distance = m._batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    trace = _trace_against(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    return logs + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(c.Normal, c.Normal)
def _normal(p, q):
    ratio, shift = (p.scale / q.scale).pow(2), ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(e.Pareto, e.Pareto)
def _pareto(p, q):
    ratio, alpha = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - alpha.log() + alpha - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, _infinite(result), result)


@register_kl(d.Poisson, d.Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(c.Uniform, c.Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), _infinite(result), result)


@register_kl(m.Wishart, m.Wishart)
def _wishart(p, q):
    n = p.event_shape[-1]
    nu_p, nu_q = p.df, q.df
    logs = 2 * (m._half_log_det(q._unbroadcasted_scale_tril) - m._half_log_det(p._unbroadcasted_scale_tril))
    trace = _trace_against(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    return (nu_q * logs / 2 + nu_p / 2 * (trace - n) + torch.mvlgamma(nu_q / 2, p=n) - torch.mvlgamma(nu_p / 2, p=n)
            + (nu_p - nu_q) / 2 * p._digamma_sum())


@register_kl(c.Cauchy, c.Cauchy)
def _cauchy(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- different families on the real line ----
def _outside(p_type, q_type):
    """The support of p reaches beyond that of q."""
    register_kl(p_type, q_type)(lambda p, q: _infinite(p.mean))


for _p, _q in ((c.Exponential, c.Beta), (c.Exponential, e.Pareto), (c.Exponential, c.Uniform), (c.Exponential, c.ContinuousBernoulli),
               (c.Gamma, c.Beta), (c.Gamma, e.Pareto), (c.Gamma, c.Uniform), (c.Gamma, c.ContinuousBernoulli),
               (e.Gumbel, c.Beta), (e.Gumbel, c.Exponential), (e.Gumbel, c.Gamma), (e.Gumbel, e.Pareto), (e.Gumbel, c.Uniform),
               (e.Gumbel, c.ContinuousBernoulli), (c.Laplace, c.Beta), (c.Laplace, c.Exponential), (c.Laplace, c.Gamma),
               (c.Laplace, e.Pareto), (c.Laplace, c.Uniform), (c.Laplace, c.ContinuousBernoulli), (c.Normal, c.Beta),
               (c.Normal, c.Exponential), (c.Normal, c.Gamma), (c.Normal, e.Pareto), (c.Normal, c.Uniform),
               (c.Normal, c.ContinuousBernoulli), (e.Pareto, c.Beta), (e.Pareto, c.Uniform), (e.Pareto, c.ContinuousBernoulli),
               (d.Poisson, d.Bernoulli), (d.Poisson, d.Binomial), (c.ContinuousBernoulli, e.Pareto), (c.Beta, e.Pareto)):
    _outside(_p, _q)


@register_kl(d.Bernoulli, d.Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(c.Beta, c.ContinuousBernoulli)
def _beta_continuous(p, q):
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(c.Beta, c.Exponential)
def _beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(c.Beta, c.Gamma)
def _beta_gamma(p, q):
    t = q.concentration.lgamma() - q.concentration * q.rate.log()
    logs = (q.concentration - 1) * (p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma())
    return -p.entropy() + t - logs + q.rate * p.concentration1 / (p.concentration1 + p.concentration0)


def _squares(p, q):
    """Twice the mean of (x - q.loc)² over q's variance, halved: what a normal q makes of p."""
    return (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2)) + 0.5 * (2 * math.pi * q.scale.pow(2)).log()


def _against_normal(p_type):
    register_kl(p_type, c.Normal)(lambda p, q: -p.entropy() + _squares(p, q))


for _p in (c.Beta, c.ContinuousBernoulli, c.Exponential, c.Gamma, e.Gumbel, c.Laplace, c.Uniform):
    _against_normal(_p)


@register_kl(c.Beta, c.Uniform)
def _beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return torch.where((q.low > 0.0) | (q.high < 1.0), _infinite(result), result)


@register_kl(c.ContinuousBernoulli, c.Exponential)
def _continuous_exponential(p, q):
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(c.ContinuousBernoulli, c.Uniform)
def _continuous_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    inside = torch.max(torch.ge(q.low, 0.0) & torch.gt(q.low, 0.0), torch.lt(q.high, 1.0))
    return torch.where(inside, _infinite(result), result)


@register_kl(c.Exponential, c.Gamma)
def _exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return -q.concentration * torch.log(ratio) + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(c.Exponential, e.Gumbel)
def _exponential_gumbel(p, q):
    scale, loc = p.rate * q.scale, q.loc / q.scale
    return scale.log() - 1 + torch.exp(loc) * scale / (scale + 1) - loc + scale.reciprocal()


@register_kl(c.Gamma, c.Exponential)
def _gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(c.Gamma, e.Gumbel)
def _gamma_gumbel(p, q):
    scale, loc = p.rate * q.scale, q.loc / q.scale
    return ((p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration + scale.log()
            + p.concentration / scale - loc + torch.exp(loc) * (1 + scale.reciprocal()).pow(-p.concentration))


@register_kl(c.Normal, e.Gumbel)
def _normal_gumbel(p, q):
    mean, spread, loc = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    return -loc + mean + torch.exp(-mean + 0.5 * spread + loc) - 0.5 * (1 + math.log(2 * math.pi)) - (p.scale / q.scale).log()


@register_kl(c.Normal, c.Laplace)
def _normal_laplace(p, q):
    scale, z = p.scale / q.scale, (p.loc - q.loc) / p.scale
    spread = math.sqrt(2 / math.pi) * torch.exp(-0.5 * z.pow(2)) + z * torch.erf(math.sqrt(0.5) * z)
    return -scale.log() + scale * spread - (0.5 * math.log(0.5 * math.pi) + 0.5)


@register_kl(e.Pareto, c.Exponential)
def _pareto_exponential(p, q):
    scale = p.scale * q.rate
    result = (p.alpha / scale).log() - p.alpha.reciprocal() + p.alpha * scale / (p.alpha - 1) - 1
    return torch.where(p.alpha <= 1, _infinite(result), result)


@register_kl(e.Pareto, c.Gamma)
def _pareto_gamma(p, q):
    common = p.scale.log() + p.alpha.reciprocal()
    result = (p.alpha.log() - common + q.concentration.lgamma() - q.concentration * q.rate.log() + (1 - q.concentration) * common
              + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1)
    return torch.where(p.alpha <= 1, _infinite(result), result)


@register_kl(e.Pareto, c.Normal)
def _pareto_normal(p, q):
    variance = 2 * q.scale.pow(2)
    common = p.scale / (p.alpha - 1)
    result = ((math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log() - p.alpha.reciprocal()
              + (p.alpha * common.pow(2) / (p.alpha - 2) + (p.alpha * common - q.loc).pow(2)) / variance - 1)
    return torch.where(p.alpha <= 2, _infinite(result), result)


@register_kl(c.Uniform, c.Beta)
def _uniform_beta(p, q):
    width = p.high - p.low

    def x_log_x(x):
        return torch.special.xlogy(x, x)

    logs_high = (q.concentration1 - 1) * (x_log_x(p.high) - x_log_x(p.low) - width) / width
    logs_low = (q.concentration0 - 1) * (x_log_x(1 - p.high) - x_log_x(1 - p.low) + width) / width
    normaliser = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    result = logs_low - logs_high + normaliser - width.log()
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), _infinite(result), result)


@register_kl(c.Uniform, c.ContinuousBernoulli)
def _uniform_continuous(p, q):
    result = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), _infinite(result), result)


@register_kl(c.Uniform, c.Exponential)
def _uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return torch.where(p.low < q.support.lower_bound, _infinite(result), result)


@register_kl(c.Uniform, c.Gamma)
def _uniform_gamma(p, q):
    width = p.high - p.low
    logs = (torch.special.xlogy(p.high, p.high) - torch.special.xlogy(p.low, p.low) - width) / width
    result = -width.log() + q.concentration.lgamma() - q.concentration * q.rate.log() + (1 - q.concentration) * logs + q.rate * (p.high + p.low) / 2
    return torch.where(p.low < q.support.lower_bound, _infinite(result), result)


@register_kl(c.Uniform, e.Gumbel)
def _uniform_gumbel(p, q):
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * (torch.exp(-high) - torch.exp(-low))


@register_kl(c.Uniform, e.Pareto)
def _uniform_pareto(p, q):
    width = p.high - p.low
    logs = (torch.special.xlogy(p.high, p.high) - torch.special.xlogy(p.low, p.low) - width) / width
    result = logs * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * width).log()
    return torch.where(p.low < q.support.lower_bound, _infinite(result), result)
