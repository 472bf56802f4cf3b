"""Distributions over vectors and matrices: normal with a covariance, Wishart, correlations."""
import math
import warnings

from . import constraints
from .continuous import Beta, Chi2
from .distribution import Distribution, ExponentialFamily
from .utils import _size, _standard_normal, lazy_property

torch = __import__(__name__.partition(".")[0])


def _batch_mv(matrix, vector):
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(lower, x):
    """|L^-1 x|², of x[i, b, n] with L[b, n, n], batches broadcast."""
    solved = torch.linalg.solve_triangular(lower.expand(x.shape[:-1] + lower.shape[-2:]) if x.dim() > 1 or lower.dim() > 2 else lower,
                                           x.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _half_log_det(lower):
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse, by that of the precision with rows and columns turned around."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    eye = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(inverse, eye, upper=False)


def _one_matrix(covariance_matrix, precision_matrix, scale_tril):
    given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return next(iter(given.items()))


class _Spread:
    """A covariance, given as itself, as its inverse or as its Cholesky factor; the others are computed when asked for."""

    def _unbroadcast(self):
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape[:1] + self._event_shape[:1])

    @lazy_property
    def scale_tril(self):
        return self._unbroadcast()

    @lazy_property
    def covariance_matrix(self):
        lower = self._unbroadcasted_scale_tril
        return torch.matmul(lower, lower.mT).expand(self._batch_shape + self._event_shape[:1] + self._event_shape[:1])

    @lazy_property
    def precision_matrix(self):
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape[:1] + self._event_shape[:1])


class MultivariateNormal(_Spread, Distribution):
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = _one_matrix(covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            kind = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{kind} must be at least two-dimensional, with optional leading batch dimensions")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        self.loc = loc.expand(batch + (-1,))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(batch_shape, _instance, ("loc", "covariance_matrix", "precision_matrix", "scale_tril"), kind=MultivariateNormal)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape=()):
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - _half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + _half_log_det(self._unbroadcasted_scale_tril)
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def _capacitance_tril(factor, diag):
    """Of I + W' D^-1 W."""
    m = factor.size(-1)
    k = torch.matmul(factor.mT / diag.unsqueeze(-2), factor).contiguous()
    k.view(-1, m * m)[:, ::m + 1] += 1
    return torch.linalg.cholesky(k)


def _lowrank_log_det(factor, diag, capacitance):
    return 2 * _half_log_det(capacitance) + diag.log().sum(-1)


def _lowrank_mahalanobis(factor, diag, x, capacitance):
    wt = factor.mT / diag.unsqueeze(-2)
    return (x.pow(2) / diag).sum(-1) - _batch_mahalanobis(capacitance, _batch_mv(wt, x))


class LowRankMultivariateNormal(Distribution):
    """Covariance: a product of a narrow factor, and a diagonal."""
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n[0]} x m")
        if cov_diag.shape[-1:] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}")
        try:
            batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}") from error
        self.loc = loc.expand(batch + n)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + n)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, n, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(batch_shape, _instance, ("loc", "cov_factor", "cov_diag"), kind=LowRankMultivariateNormal)
        new._unbroadcasted_cov_factor, new._unbroadcasted_cov_diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return new

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        whole = torch.matmul(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_factor.mT) + torch.diag_embed(self._unbroadcasted_cov_diag)
        return whole.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return torch.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        wt = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = torch.linalg.solve_triangular(self._capacitance_tril, wt, upper=False)
        return (torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a).expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        narrow = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], dtype=self.loc.dtype, device=self.loc.device)
        wide = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, narrow) + self._unbroadcasted_cov_diag.sqrt() * wide

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        parts = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = _lowrank_mahalanobis(*parts, value - self.loc, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + _lowrank_log_det(*parts, self._capacitance_tril) + distance)

    def entropy(self):
        log_det = _lowrank_log_det(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


class Wishart(_Spread, ExponentialFamily):
    """Sums of outer products of normal vectors, by Bartlett's decomposition."""
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        name, matrix = _one_matrix(covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, (int, float, bool)):
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
            batch = _size(matrix.shape[:-2])
        else:
            batch = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch)
        event = matrix.shape[-2:]
        if self.df.le(event[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        if self.df.lt(event[-1]).any():
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.", stacklevel=2)
        super().__init__(batch, event, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(self._batch_shape))]
        self._unbroadcasted_scale_tril = matrix if name == "scale_tril" else torch.linalg.cholesky(matrix) if name == "covariance_matrix" \
            else _precision_to_scale_tril(matrix)
        steps = torch.arange(self._event_shape[-1], dtype=self._unbroadcasted_scale_tril.dtype, device=self._unbroadcasted_scale_tril.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps.expand(tuple(self._batch_shape) + (-1,)))

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(batch_shape, _instance, ("df", "covariance_matrix", "precision_matrix", "scale_tril"), kind=Wishart)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._batch_dims = [-(x + 1) for x in range(len(new._batch_shape))]
        new._dist_chi2 = self._dist_chi2.expand(_size(batch_shape) + self._event_shape[-1:])
        return new

    mean = property(lambda self: self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, torch.full_like(factor, float("nan")), factor)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + torch.einsum("...i,...j->...ij", diagonal, diagonal))

    def _bartlett_sampling(self, sample_shape=()):
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(_size(sample_shape)).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(p, p, offset=-1)
        noise[..., i, j] = torch.randn(_size(sample_shape) + self._batch_shape + (int(p * (p - 1) / 2),), dtype=noise.dtype, device=noise.device)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def rsample(self, sample_shape=(), max_try_correction=None):
        tries = 10 if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(_size(sample_shape))
        # PyTorch's stream: what passes the check is drawn once more, with its warning; only what fails then is tried again.
        again = self.support.check(sample)
        if self._batch_shape:
            again = again.amax(self._batch_dims)
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(tries):
                fresh = self._bartlett_sampling(again[again].shape)
                sample[again] = fresh
                singular = ~self.support.check(fresh)
                if self._batch_shape:
                    singular = singular.amax(self._batch_dims)
                again[again.clone()] = singular
                if not again.any():
                    break
        return sample

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        lower = self._unbroadcasted_scale_tril
        return (-nu * (p * math.log(2.0) / 2 + _half_log_det(lower)) - torch.mvlgamma(nu / 2, p=p)
                + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
                - torch.cholesky_solve(value, lower).diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2)

    def _digamma_sum(self):
        p = self._event_shape[-1]
        steps = torch.arange(p, dtype=self.df.dtype, device=self.df.device) / 2
        return torch.digamma(self.df.unsqueeze(-1) / 2 - steps).sum(-1)

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        return ((p + 1) * (p * math.log(2.0) / 2 + _half_log_det(self._unbroadcasted_scale_tril)) + torch.mvlgamma(nu / 2, p=p)
                - (nu - p - 1) / 2 * self._digamma_sum() + nu * p / 2)

    @property
    def _natural_params(self):
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        return x * (-torch.linalg.slogdet(-2 * y).logabsdet + p * math.log(2.0)) + torch.mvlgamma(x, p=p)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, by the onion method."""
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = torch.as_tensor(concentration, dtype=torch.get_default_dtype() if not isinstance(concentration, torch.Tensor) else None)
        batch = self.concentration.size()
        marginal = self.concentration + 0.5 * (self.dim - 2)
        steps = torch.arange(self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = torch.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)
        super().__init__(batch, _size((dim, dim)), validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(batch_shape, _instance, ("concentration",), kind=LKJCholesky)
        new.dim, new._beta = self.dim, self._beta.expand(_size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape=()):
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        u = torch.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
        u = u / u.norm(dim=-1, keepdim=True)
        u[..., 0, :].fill_(0.0)
        w = torch.sqrt(y) * u
        diagonal = torch.clamp(1 - torch.sum(w**2, dim=-1), min=torch.finfo(w.dtype).tiny).sqrt()
        return w + torch.diag_embed(diagonal)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalised = torch.sum(order * diagonal.log(), dim=-1)
        m = self.dim - 1
        alpha = self.concentration + 0.5 * m
        numerator = torch.mvlgamma(alpha - 0.5, m)
        return unnormalised - (0.5 * m * math.log(math.pi) + numerator - torch.lgamma(alpha) * m)
