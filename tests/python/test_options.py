"""Options that PyTorch has: each acts, is refused by name, or is told once to change nothing."""
import warnings

import pytest
import taper as torch
from taper.autograd import Function, gradcheck, gradgradcheck


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(False)


# ---- deterministic algorithms ----
def test_new_memory_is_filled(deterministic):
    made = [torch.empty(3), torch.empty_like(torch.ones(3)), torch.ones(1).new_empty(3), torch.empty_strided((3,), (2,)), torch.Tensor(3),
            torch.empty_permuted((3, 1), (1, 0)), torch.ones(1).new_empty_strided((3,), (1,)), torch.empty(3, dtype=torch.bfloat16)]
    assert all(t.isnan().all() for t in made)
    assert torch.empty(2, dtype=torch.complex64).real.isnan().all()
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        assert (torch.empty(3, dtype=dtype) == torch.iinfo(dtype).max).all()
    assert torch.empty(3, dtype=torch.bool).all()
    assert torch.ones(1).resize_(3).isnan().tolist() == [False, True, True]
    assert torch.ones(1).resize_as_(torch.ones(2, 2)).isnan().sum() == 3
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False


def test_deterministic_settings_refuse_what_they_do_not_know():
    with pytest.raises(TypeError, match="'mode' .position 1. must be bool, not int"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match="'warn_only' must be bool"):
        torch.use_deterministic_algorithms(True, warn_only=1)
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        torch.utils.deterministic.fill_uninitialized_memory = 1
    with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`, but got x"):
        torch.set_deterministic_debug_mode("x")
    assert not torch.are_deterministic_algorithms_enabled()


# ---- gradcheck ----
class Flaky(Function):
    """A gradient that is a little different at every second call."""
    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Flaky.calls += 1
        return g * (2 + 1e-7 * (Flaky.calls % 2))


class Constant(Flaky):
    @staticmethod
    def backward(ctx, g):
        return g * 2 + 1e-7


class Looks(Flaky):
    @staticmethod
    def backward(ctx, g):
        g.sum().item()
        return g * 2


def numbers(*shape):
    return torch.linspace(0.5, 1.5, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape).requires_grad_()


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_says_what_it_is_asked(fast):
    x = numbers(3)
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        gradcheck(Flaky.apply, (x,), fast_mode=fast)
    assert gradcheck(Flaky.apply, (x,), fast_mode=fast, nondet_tol=1e-5)
    assert not gradcheck(Flaky.apply, (x,), fast_mode=fast, raise_exception=False)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        gradcheck(Constant.apply, (x,), fast_mode=fast, check_undefined_grad=False)
    with pytest.raises(RuntimeError, match="While computing batched gradients, got: "):
        gradcheck(Looks.apply, (x,), fast_mode=fast, check_batched_grad=True)
    assert gradcheck(torch.sin, (x,), fast_mode=fast, check_batched_grad=True, check_grad_dtypes=True, masked=True)
    assert gradcheck(torch.sin, (x,), fast_mode=fast, check_forward_ad=True, check_batched_forward_grad=True)
    assert gradgradcheck(torch.sin, (x,), fast_mode=fast, check_batched_grad=True, check_grad_dtypes=True)


def test_gradients_with_gaps():
    seen = []

    class Strides(Flaky):
        @staticmethod
        def backward(ctx, g):
            seen.append(g.is_contiguous())
            return g * 2

    gradgradcheck(Strides.apply, (numbers(2, 3),), gen_non_contig_grad_outputs=True, fast_mode=True)
    assert not all(seen)


# ---- options that are refused, told, or act ----
def refused():
    from taper._functorch.aot_autograd import aot_export_module, aot_function, aot_module, aot_module_simplified
    from taper._functorch.compilers import nop
    from taper.fx.experimental.proxy_tensor import make_fx

    linear, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    graph = torch.fx.symbolic_trace(linear)
    return {
        "aot_function(disable_functionalization=True)": lambda: aot_function(torch.sin, nop, disable_functionalization=True),
        "aot_module(disable_functionalization=True)": lambda: aot_module(linear, nop, disable_functionalization=True),
        "aot_module_simplified(ignore_shape_env=True)": lambda: aot_module_simplified(linear, (x,), nop, ignore_shape_env=True),
        "aot_export_module(dynamic_shapes=True)": lambda: aot_export_module(linear, (x,), trace_joint=False, dynamic_shapes=True),
        "aot_export_module(pre_dispatch=True)": lambda: aot_export_module(linear, (x,), trace_joint=False, pre_dispatch=True),
        "make_fx(record_module_stack=True)": lambda: make_fx(torch.sin, record_module_stack=True),
        "make_fx(proxy_module_inputs=True)": lambda: make_fx(torch.sin, proxy_module_inputs=True),
        "python_code(record_func=True)": lambda: graph.graph.python_code("self", record_func=True),
        "python_code(expanded_def=True)": lambda: graph.graph.python_code("self", expanded_def=True),
        "print_readable(expanded_def=True)": lambda: graph.print_readable(expanded_def=True),
        "save_on_cpu(pin_memory=True)": lambda: torch.autograd.graph.save_on_cpu(pin_memory=True),
        "register_decomposition(unsafe=True)": lambda: torch._decomp.register_decomposition(torch.ops.aten.add, unsafe=True),
        "TypedStorage(device=meta)": lambda: torch.storage.TypedStorage(3, device="meta"),
        "torch.profiler.profile(execution_trace_observer=1)": lambda: torch.profiler.profile(execution_trace_observer=1),
    }


@pytest.mark.parametrize("text", list(refused()))
def test_refused_by_name(text):
    with pytest.raises(NotImplementedError) as raised:
        refused()[text]()
    assert str(raised.value).startswith(text)


def test_unknown_options_are_no_options():
    from taper._functorch.aot_autograd import aot_module_simplified
    from taper._functorch.compilers import nop

    with pytest.raises(TypeError, match="nothing"):
        aot_module_simplified(torch.nn.Linear(2, 2), (torch.ones(1, 2),), nop, nothing=1)


def test_what_changes_nothing_is_told_once():
    from taper import _options

    _options._told.clear()
    with pytest.warns(UserWarning, match=r"profile\(use_cuda=\) changes nothing"):
        torch.profiler.profile(use_cuda=True)
    with pytest.warns(UserWarning, match="no decomposition of aten.mm.default"):
        assert torch._decomp.get_decompositions([torch.ops.aten.mm.default]) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.profiler.profile(use_cuda=True)
        torch._decomp.get_decompositions([torch.ops.aten.mm.default])


def test_dlpack_options_act():
    x = torch.ones(2, 3)
    exchange = torch.utils.dlpack.from_dlpack
    assert exchange(x.__dlpack__(copy=False)).data_ptr() == x.data_ptr() != exchange(x.__dlpack__(copy=True)).data_ptr()
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        x.__dlpack__(stream=5)
    with pytest.raises(BufferError, match="the device .2, 0."):
        x.__dlpack__(dl_device=(2, 0))


def test_old_options_of_backward():
    y = torch.ones(1, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        torch.autograd.backward(y * 2, grad_variables=torch.full((1,), 3.0))
    assert y.grad.item() == 6
    with pytest.warns(FutureWarning, match="grad_variables"), pytest.raises(RuntimeError, match="both passed"):
        torch.autograd.backward(y * 2, torch.ones(1), grad_variables=torch.ones(1))
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        torch.autograd.grad(y * 2, y, only_inputs=False)


def test_dim_order_can_be_ambiguous():
    with pytest.raises(RuntimeError, match="unique dim order"):
        torch.ones(1, 1, 2).dim_order(ambiguity_check=True)
    assert torch.ones(2, 3, 2).dim_order(ambiguity_check=True) == (0, 1, 2)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        torch.ones(2).dim_order(ambiguity_check="x")


@pytest.mark.parametrize("call, text", [
    (lambda x: x.is_neg(1), "takes no arguments"), (lambda x: x.retain_grad(foo=1), "takes no keyword arguments"),
    (lambda x: x.float(torch.preserve_format), "takes 0 positional arguments but 1 was given"), (lambda x: x.cpu(foo=1), "unexpected keyword argument 'foo'"),
    (lambda x: x.bool(memory_format=3), "must be taper.memory_format, not int"), (lambda x: x.is_contiguous(memory_format=3), "must be taper.memory_format"),
    (lambda x: x.numpy(force=1), "must be bool"), (lambda x: x.size(0, 1), "takes from 0 to 1 positional arguments but 2 were given"),
    (lambda x: x.stride(foo=1), "unexpected keyword argument 'foo'"), (lambda x: x.type(5), "dtype must be a type, str, or dtype object"),
    (lambda x: x.requires_grad_(foo=True), "unexpected keyword argument 'foo'"), (lambda x: x.is_set_to(x, x), "takes 1 positional argument but 2 were given"),
])
def test_methods_drop_no_arguments(call, text):
    with pytest.raises(TypeError, match=text):
        call(torch.ones(2))


def test_chunks_of_nothing():
    assert len(torch.ones(0).chunk(100)) == len(torch.ones(2, 0).unsafe_chunk(100, 1)) == 100
    with pytest.raises(RuntimeError, match="cannot be made"):
        torch.ones(0).chunk(2 ** 63 - 1)
