"""Does ahead-of-time autograd give what eager mode gives, gradients included?"""
from .test_case import set_rng_seed
from .._comparison import assert_close
from ..._root import torch


def assert_raises_regex(kind, pattern):
    """unittest's context manager, for callers that have no test case."""
    import unittest
    return unittest.TestCase().assertRaisesRegex(kind, pattern)


def aot_autograd_check(func, args, kwargs, dynamic, assert_raises_regex_fn=assert_raises_regex,
                       assert_equals_fn=assert_close, check_gradients=True, try_check_data_specialization=False,
                       skip_correctness_check=False, disable_functionalization=False):
    """Compile `func` with the no-op compiler and hold outputs and, where there are any, gradients against eager's."""
    from ..._functorch.aot_autograd import aot_function
    from ..._functorch.compilers import nop
    from ..._functorch.partitioners import min_cut_rematerialization_partition
    if disable_functionalization:
        raise NotImplementedError("aot_autograd_check(disable_functionalization=True)")
    pytree = torch.utils._pytree
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[n] for n in places]

    def on_tensors(given):
        """`func` as a function of its tensors alone: the rest are constants of the trace."""
        full = list(leaves)
        for n, tensor in zip(places, given):
            full[n] = tensor
        args, kwargs = pytree.tree_unflatten(full, spec)
        return func(*args, **kwargs)

    compiled = aot_function(on_tensors, nop, nop, partition_fn=min_cut_rematerialization_partition, dynamic=dynamic,
                            keep_inference_input_mutations=True)
    if check_gradients == "auto":
        out = pytree.tree_leaves(on_tensors(tensors))
        check_gradients = (any(t.requires_grad for t in tensors)
                           and any(isinstance(t, torch.Tensor) and t.requires_grad for t in out))
    if not check_gradients:
        set_rng_seed()
        expected = on_tensors(tensors)
        set_rng_seed()
        actual = compiled(tensors)
        if not skip_correctness_check:
            assert_equals_fn(actual, expected, msg=OUTPUTS_DIFFER)
        return
    _test_aot_autograd_forwards_backwards_helper(
        on_tensors, compiled, tensors, assert_raises_regex_fn, assert_equals_fn, try_check_data_specialization,
        skip_correctness_check)


OUTPUTS_DIFFER = "Outputs of the operator are different in eager-mode PyTorch vs AOTDispatcher tracing."
GRADS_DIFFER = "Gradients of the operator are different in eager-mode PyTorch vs AOTDispatcher."
NO_GRADIENT = "does not require grad and does not have a grad_fn"


def outputs_and_gradients(f, args):
    """The outputs of f(args), and the gradients of their sum in the tensors that require any."""
    set_rng_seed()
    out = f(args)
    inputs = [x for x in torch.utils._pytree.tree_leaves(args) if isinstance(x, torch.Tensor) and x.requires_grad]
    total = sum((x.sum().abs() for x in torch.utils._pytree.tree_leaves(out)
                 if isinstance(x, torch.Tensor) and x.requires_grad), torch.zeros(()))
    return out, torch.autograd.grad(total, inputs, allow_unused=True)


def _test_aot_autograd_forwards_backwards_helper(f, compiled_f, args, assert_raises_regex_fn, assert_equals_fn,
                                                 try_check_data_specialization, skip_correctness_check=False):
    def check(args, ignore_failure=False):
        try:
            expected, expected_grad = outputs_and_gradients(f, args)
        except Exception:
            if ignore_failure:
                return
            raise
        if all(grad is None for grad in expected_grad):
            with assert_raises_regex_fn(RuntimeError, NO_GRADIENT):
                outputs_and_gradients(compiled_f, args)
            return
        actual, actual_grad = outputs_and_gradients(compiled_f, args)
        if not skip_correctness_check:
            assert_equals_fn(actual, expected, msg=OUTPUTS_DIFFER)
            assert_equals_fn(actual_grad, expected_grad, msg=GRADS_DIFFER)

    check(args)
    if try_check_data_specialization:           # other values must not need another graph
        check(torch.utils._pytree.tree_map(with_other_values, args), ignore_failure=True)


def with_other_values(x):
    if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
        return torch.randn_like(x).requires_grad_(x.requires_grad)
    return x
