"""torch.distributions: parameterised distributions with sampling, densities and gradients through samples.

PyTorch has a module for each distribution; here related ones stand together, and its modules are names for the file that has them.
"""
import sys as _sys

from . import compound as _compound
from . import constraint_registry, constraints
from . import continuous as _continuous
from . import derived as _derived
from . import discrete as _discrete
from . import distribution, kl
from . import matrices as _matrices
from . import transforms, utils
from .constraint_registry import biject_to, transform_to
from .kl import kl_divergence, register_kl
from .transforms import *  # noqa: F403

_PLACES = {
    _discrete: "bernoulli:Bernoulli binomial:Binomial categorical:Categorical geometric:Geometric multinomial:Multinomial "
               "negative_binomial:NegativeBinomial one_hot_categorical:OneHotCategorical,OneHotCategoricalStraightThrough poisson:Poisson",
    _continuous: "beta:Beta cauchy:Cauchy chi2:Chi2 continuous_bernoulli:ContinuousBernoulli dirichlet:Dirichlet exponential:Exponential "
                 "fishersnedecor:FisherSnedecor gamma:Gamma generalized_pareto:GeneralizedPareto laplace:Laplace normal:Normal "
                 "studentT:StudentT uniform:Uniform von_mises:VonMises",
    _derived: "gumbel:Gumbel half_cauchy:HalfCauchy half_normal:HalfNormal inverse_gamma:InverseGamma kumaraswamy:Kumaraswamy "
              "log_normal:LogNormal logistic_normal:LogisticNormal pareto:Pareto relaxed_bernoulli:RelaxedBernoulli,LogitRelaxedBernoulli "
              "relaxed_categorical:RelaxedOneHotCategorical,ExpRelaxedCategorical weibull:Weibull",
    _compound: "independent:Independent mixture_same_family:MixtureSameFamily transformed_distribution:TransformedDistribution",
    _matrices: "lkj_cholesky:LKJCholesky lowrank_multivariate_normal:LowRankMultivariateNormal multivariate_normal:MultivariateNormal wishart:Wishart",
    distribution: "distribution:Distribution exp_family:ExponentialFamily",
}
__all__ = ["biject_to", "kl_divergence", "register_kl", "transform_to", *transforms.__all__]
for _file, _rows in _PLACES.items():
    for _row in _rows.split():
        _module, _, _classes = _row.partition(":")
        for _name in _classes.split(","):
            _class = getattr(_file, _name)
            _class.__module__ = f"{__name__}.{_module}"
            globals()[_name] = _class
            __all__.append(_name)
        globals()[_module] = _sys.modules.setdefault(f"{__name__}.{_module}", _file)
for _name in ("LogitRelaxedBernoulli", "ExpRelaxedCategorical"):
    del globals()[_name]
    __all__.remove(_name)
