"""Counters, and equality of results."""
import collections
import math

from .. import _facades
from .._options import refuse


counters = collections.defaultdict(collections.Counter)


def same(ref, res, fp64_ref=None, cos_similarity=False, tol=1e-4, equal_nan=False, exact_dtype=True, relax_numpy_equality=False,
         ignore_non_fp=False, log_error=None):
    """Are two results of a program equal, tensors within a tolerance?"""
    from .. import Tensor, allclose

    refuse("torch._dynamo.utils.same", fp64_ref=(fp64_ref, None), cos_similarity=(cos_similarity, False), ignore_non_fp=(ignore_non_fp, False),
           relax_numpy_equality=(relax_numpy_equality, False))
    if isinstance(ref, (list, tuple)) and not isinstance(ref, Tensor):
        return isinstance(res, (list, tuple)) and len(ref) == len(res) and all(
            same(a, b, tol=tol, equal_nan=equal_nan, exact_dtype=exact_dtype) for a, b in zip(ref, res))
    if isinstance(ref, dict):
        return isinstance(res, dict) and set(ref) == set(res) and all(
            same(ref[k], res[k], tol=tol, equal_nan=equal_nan, exact_dtype=exact_dtype) for k in ref)
    if isinstance(ref, Tensor):
        if not isinstance(res, Tensor) or ref.shape != res.shape or (exact_dtype and ref.dtype != res.dtype):
            return False
        if ref.is_floating_point() or ref.is_complex():
            return allclose(ref, res.to(ref.dtype), atol=tol, rtol=tol, equal_nan=equal_nan)
        return bool((ref == res).all())
    if isinstance(ref, float):
        return isinstance(res, float) and (math.isclose(ref, res, rel_tol=tol, abs_tol=tol) or (math.isnan(ref) and math.isnan(res)))
    if ref is None or isinstance(ref, (int, str, bool, type)):
        return ref == res
    if hasattr(ref, "__dict__") and type(ref) is type(res):
        return same(vars(ref), vars(res), tol=tol, equal_nan=equal_nan, exact_dtype=exact_dtype)
    return ref == res


# ---- Comparing a model with its compiled self ----------------------------------------------------------------------
def same_two_models(gm, opt_gm, example_inputs, only_fwd=False, *, require_fp64=False, ignore_non_fp=False):
    raise NotImplementedError("torch._dynamo.debug_utils.same_two_models is not there yet")


# ---- Generations of modules ----------------------------------------------------------------------------------------
class GenerationTracker:
    @classmethod
    def get_generation_value(cls, obj):
        raise NotImplementedError("torch._dynamo.mutation_guard.GenerationTracker is not there yet")


_facades.settle(__name__)
