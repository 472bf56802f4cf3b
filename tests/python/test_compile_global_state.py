"""torch.compile and global state: what compiled code reads, sets, or enters is what the plain function would.

Each row is a kind of state. Programs made of it read it, set it, or enter it as a context, with and without a graph break or an
exception inside or after the block, and run three times. Results and the whole state after each call must equal those of the
plain function; under `fullgraph=True` a call may raise Unsupported instead, and then has changed nothing."""
import builtins
import contextlib
import contextvars
import decimal
import gc
import io
import locale
import logging
import os
import random
import sys
import threading
import warnings

import numpy
import pytest
import taper as torch
import taper._device as default_device
import taper._dynamo as dynamo
import taper.nn.modules._hooks as module_hooks
from taper.nn.attention import SDPBackend, sdpa_kernel
from taper._dynamo.testing import CompileCounter
from taper._subclasses import FakeTensorMode
from taper.overrides import TorchFunctionMode
from taper.utils import _pytree as pytree
from taper.utils._python_dispatch import TorchDispatchMode

local = threading.local()
variable = contextvars.ContextVar("variable", default=0)
linear = torch.nn.Linear(3, 3)
contexts = []       # entered by the program between calls


class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out + 1 if func is torch.relu else out


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.relu.default else out


class Pair:
    def __init__(self, *items):
        self.items = items


def _stance():
    number = torch._C._capture._set_stance(0)
    torch._C._capture._set_stance(number)
    return number


def packed():
    """Are hooks of saved tensors on? Seen by what a saved tensor goes through."""
    with torch.enable_grad(), torch.inference_mode(False):
        try:
            return torch.ones(2, requires_grad=True).exp().grad_fn._saved_result.tolist()
        except RuntimeError as error:
            return str(error)


def state():
    """All that a call could leave behind."""
    return {
        "grad": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(), "forward": torch._C._is_fwd_grad_enabled(),
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "autocast": [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        "nesting": (torch.autocast_increment_nesting(), torch.autocast_decrement_nesting(), torch.is_autocast_cache_enabled()),
        "dtype": torch.get_default_dtype(), "device": str(torch.get_default_device()), "made": str(torch.ones(1).device),
        "threads": torch.get_num_threads(), "deterministic": torch.get_deterministic_debug_mode(),
        "matmul": torch.get_float32_matmul_precision(), "warn": torch.is_warn_always_enabled(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), torch._C._is_torch_function_enabled()),
        "generator": (hash(torch.get_rng_state().numpy().tobytes()), torch.initial_seed()),
        "random": hash(random.getstate()), "numpy": hash((numpy.random.get_state()[1].tobytes(), *numpy.random.get_state()[2:])),
        "filters": repr(warnings.filters[:3]), "showwarning": warnings.showwarning.__name__, "environ": os.environ.get("TAPER_TEST_VALUE"),
        "putenv": os.getenv("TAPER_TEST_VALUE"), "limit": sys.getrecursionlimit(), "switch": sys.getswitchinterval(),
        "context": variable.get(), "local": dict(vars(local)), "decimal": (decimal.getcontext().prec, str(decimal.Decimal(1) / 3)),
        "locale": locale.setlocale(locale.LC_NUMERIC), "attention": torch._C._get_attention_off(), "print": repr(torch.tensor([1 / 3])),
        "backends": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32),
        "trees": len(pytree.tree_flatten(Pair(1, 2))[0]), "gc": (gc.isenabled(), gc.get_threshold()), "numpy errors": numpy.geterr()["divide"],
        "saved": packed(), "hook": sys.excepthook.__name__, "directory": os.getcwd(), "digits": sys.get_int_max_str_digits(),
        "capture": (dynamo.config.verbose, dynamo.config.cache_size_limit), "parameters": [p.tolist() for p in linear.parameters()],
        "gradients": [p.grad is None for p in linear.parameters()], "print function": builtins.print.__name__,
        "hooks": len(module_hooks._global_forward_hooks), "fake": torch._C._is_fake(torch.ones(1)),
        "module": (linear.training, len(linear._forward_hooks), list(linear._buffers), linear.weight.requires_grad, linear.weight.dtype),
        "log": logging.getLogger("taper-test").level, "path": len(sys.path), "stdout": sys.stdout is stdout,
        "stance": _stance(),
    }


_random, _numpy, _seed = random.Random(0).getstate(), numpy.random.RandomState(0).get_state(), 4
_filters = warnings.filters[:]
print_function, stdout, path = builtins.print, sys.stdout, sys.path[:]


def begin():
    """Back to where each program starts."""
    while contexts:
        contexts.pop().__exit__(None, None, None)
    with contextlib.suppress(RuntimeError):
        while True:
            torch._C._pop_saved_hooks()
    torch._C._set_grad_enabled(True)
    torch._C._set_inference_mode(False)
    torch._C._set_fwd_grad_enabled(True)
    torch.autograd.set_detect_anomaly(False, True)
    torch.set_autocast_enabled("cpu", False), torch.set_autocast_dtype("cpu", torch.bfloat16), torch.set_autocast_cache_enabled(True)
    torch.set_autocast_enabled("cuda", False), torch.set_autocast_dtype("cuda", torch.float16)
    torch._C._autocast_nest(-torch._C._autocast_nest(0))
    torch.clear_autocast_cache()
    torch._C._capture._set_stance(0)
    torch.set_default_dtype(torch.float32)
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack():
        torch._C._pop_torch_dispatch_stack()
    torch._C._set_torch_function_state(0)
    default_device._base = None
    default_device._entered.clear()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_warn_always(False)
    torch.set_printoptions(profile="default")
    torch.manual_seed(_seed)
    random.setstate(_random)
    numpy.random.set_state(_numpy)
    numpy.seterr(divide="warn")
    warnings.filters[:] = _filters
    warnings._filters_mutated()
    os.environ.pop("TAPER_TEST_VALUE", None)
    os.chdir("/")
    sys.setrecursionlimit(1000)
    sys.setswitchinterval(0.005)
    sys.set_int_max_str_digits(4300)
    variable.set(0)
    vars(local).clear()
    decimal.setcontext(decimal.Context(prec=28))
    locale.setlocale(locale.LC_NUMERIC, "C")
    torch._C._set_attention_off(0)
    torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32 = True, False, False
    gc.enable()
    gc.set_threshold(700, 10, 10)
    if Pair in pytree.SUPPORTED_NODES:
        pytree._deregister_pytree_node(Pair)
    dynamo.config.verbose, dynamo.config.cache_size_limit = False, 8
    module_hooks._global_forward_hooks.clear()
    builtins.print, sys.stdout = print_function, stdout
    linear.train().float().requires_grad_(True)
    linear._forward_hooks.clear(), linear._buffers.clear()
    logging.getLogger("taper-test").setLevel(0)
    sys.path[:] = path
    with torch.no_grad():
        for i, p in enumerate(linear.parameters()):
            p.copy_(torch.arange(p.numel()).view_as(p) * 0.1 + i)
            p.grad = None


# ---- kinds of state: statements that set it, expressions that read it, contexts that enter it ----------------------
KINDS = {
    "default dtype": dict(
        write=["torch.set_default_dtype(torch.float64)", "torch.set_default_tensor_type(torch.DoubleTensor)"],
        read=["torch.get_default_dtype()", "torch.ones(2).dtype", "torch.tensor(1.5)", "torch.finfo().bits"]),
    "default device": dict(
        write=["torch.set_default_device('meta')"], read=["str(torch.get_default_device())", "str(torch.ones(2).device)"],
        context=["torch.device('meta')"]),
    "autocast": dict(
        write=["torch.set_autocast_enabled('cpu', True)", "torch.set_autocast_cache_enabled(False)", "torch.clear_autocast_cache()",
               "torch.autocast_increment_nesting()", "torch.set_autocast_dtype('cpu', torch.float16)"],
        read=["torch.is_autocast_enabled('cpu')", "torch.get_autocast_dtype('cpu')", "torch.is_autocast_cache_enabled()", "linear(x)", "(x @ x).dtype"],
        context=["torch.autocast('cpu')", "torch.autocast('cpu', dtype=torch.float16)", "torch.amp.autocast('cpu', cache_enabled=False)",
                 "torch.autocast('cpu', enabled=False)", "torch.cpu.amp.autocast()"]),
    "autocast of cuda": dict(
        write=["torch.set_autocast_enabled('cuda', True)", "torch.set_autocast_dtype('cuda', torch.float32)"],
        read=["torch.is_autocast_enabled('cuda')", "torch.get_autocast_dtype('cuda')"]),
    "grad mode": dict(
        write=["torch.set_grad_enabled(False)", "torch._C._set_grad_enabled(False)"], read=["torch.is_grad_enabled()", "linear(x)"],
        context=["torch.no_grad()", "torch.enable_grad()", "torch.set_grad_enabled(False)", "torch.autograd.no_grad()"]),
    "inference mode": dict(
        write=["torch._C._set_inference_mode(True)"], read=["torch.is_inference_mode_enabled()", "x.exp().is_inference()"],
        context=["torch.inference_mode()", "torch.inference_mode(False)"]),
    "forward mode": dict(write=["torch._C._set_fwd_grad_enabled(False)"], read=["torch._C._is_fwd_grad_enabled()"]),
    "dual level": dict(context=["torch.autograd.forward_ad.dual_level()"]),
    "anomaly": dict(
        write=["torch.autograd.set_detect_anomaly(True)", "torch.set_anomaly_enabled(True, False)"],
        read=["torch.is_anomaly_enabled()", "torch.is_anomaly_check_nan_enabled()"],
        context=["torch.autograd.detect_anomaly()", "torch.autograd.set_detect_anomaly(True)"]),
    "saved tensor hooks": dict(
        context=["torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)", "torch.autograd.graph.save_on_cpu()",
                 "torch.autograd.graph.disable_saved_tensors_hooks('no hooks')"],
        write=["torch._C._push_saved_hooks((lambda t: t * 2, lambda t: t))"]),
    "function mode": dict(context=["Mode()", "torch._C.DisableTorchFunction()", "torch._C.DisableTorchFunctionSubclass()"], read=["torch.relu(x)"],
                          write=["Mode().__enter__()"]),
    "modes off": dict(context=["torch._C._DisableTorchDispatch()", "torch.overrides.BaseTorchFunctionMode()"]),
    "dispatch mode": dict(context=["Dispatch()"], read=["torch.relu(x)"], write=["Dispatch().__enter__()"]),
    "generator": dict(
        write=["torch.manual_seed(7)", "torch.random.manual_seed(7)", "torch.default_generator.manual_seed(7)",
               "torch.set_rng_state(torch.Generator().manual_seed(3).get_state())", "torch.rand(3)", "torch.random.seed() * 0 + torch.manual_seed(9).initial_seed()"],
        read=["torch.initial_seed()", "torch.rand(3)", "torch.randn(2, 2)", "torch.get_rng_state()", "torch.randint(5, (3,))", "torch.randperm(5)",
              "torch.dropout(x, 0.5, True)", "x.clone().normal_()", "torch.bernoulli(torch.full((4,), 0.5))",
              "torch.nn.init.xavier_uniform_(torch.zeros(3, 3))", "torch.nn.functional.dropout(x, 0.5)", "torch.multinomial(torch.ones(4), 2)",
              "torch.Generator().manual_seed(5).initial_seed()", "torch.default_generator.initial_seed()"],
        context=["torch.random.fork_rng()", "torch.random.fork_rng(enabled=False)"]),
    "own generator": dict(read=["torch.rand(2, generator=torch.Generator().manual_seed(3))", "torch.rand(2, generator=generator)",
                                "generator.initial_seed()", "generator.get_state()"], write=["generator.manual_seed(1)"]),
    "init": dict(write=["torch.nn.init.uniform_(linear.weight)", "torch.nn.init.zeros_(linear.bias)", "linear.reset_parameters()",
                        "torch.nn.Linear(2, 2)"]),
    "threads": dict(write=["torch.set_num_threads(2)", "torch.set_num_interop_threads(1)"], read=["torch.get_num_threads()"]),
    "print options": dict(write=["torch.set_printoptions(precision=2)", "torch.set_printoptions(profile='full')"], read=["str(torch.zeros(1).dtype)", "str(x)", "f'{x}'", "'{}'.format(x)", "'%s' % x", "'%s' % (x,)", "repr([x])", "str({1: x})",
                                "x.__repr__()", "format(x.sum(), '.2f')", "f'{x.sum():.3f}'", "f'{x!r}'", "'{:.2f}'.format(x.sum())", "ascii(x)"]),
    "thread local": dict(write=["local.value = 5", "setattr(local, 'value', 6)"],
                         read=["getattr(local, 'value', 7)", "hasattr(local, 'value')", "local.value if hasattr(local, 'value') else 0", "len(vars(local))"]),
    "deterministic": dict(
        write=["torch.use_deterministic_algorithms(True)", "torch.set_deterministic_debug_mode('warn')", "torch.use_deterministic_algorithms(True, warn_only=True)"],
        read=["torch.are_deterministic_algorithms_enabled()", "torch.is_deterministic_algorithms_warn_only_enabled()", "torch.get_deterministic_debug_mode()"]),
    "matmul precision": dict(write=["torch.set_float32_matmul_precision('high')"], read=["torch.get_float32_matmul_precision()"]),
    "warn always": dict(write=["torch.set_warn_always(True)"], read=["torch.is_warn_always_enabled()"]),
    "attention": dict(
        context=["sdpa_kernel(SDPBackend.MATH)", "sdpa_kernel([SDPBackend.FLASH_ATTENTION])"],
        write=["torch.backends.cuda.enable_math_sdp(False)"], read=["torch.backends.cuda.math_sdp_enabled()"]),
    "backends": dict(
        write=["torch.backends.cudnn.enabled = False", "torch.backends.cuda.matmul.allow_tf32 = True", "setattr(torch.backends.cudnn, 'benchmark', True)"],
        read=["torch.backends.cudnn.enabled", "torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.benchmark"]),
    "python random": dict(
        write=["random.seed(3)", "random.random()", "random.shuffle([1, 2, 3])", "random.setstate(random.Random(5).getstate())"],
        read=["random.random()", "random.randint(0, 100)", "random.choice([1, 2, 3])", "random.gauss(0, 1)", "random.Random(3).random()"]),
    "numpy random": dict(write=["numpy.random.seed(3)"], read=["float(numpy.random.rand())", "int(numpy.random.randint(100))"]),
    "numpy errors": dict(write=["numpy.seterr(divide='ignore')"], read=["numpy.geterr()['divide']"], context=["numpy.errstate(divide='raise')"]),
    "warnings": dict(
        write=["warnings.simplefilter('ignore')", "warnings.filterwarnings('error', 'nothing')", "warnings.resetwarnings()"],
        read=["len(warnings.filters)", "warnings.filters[0][0]"],
        context=["warnings.catch_warnings()", "warnings.catch_warnings(record=True)", "warnings.catch_warnings(action='ignore')"]),
    "environment": dict(
        write=["os.environ['TAPER_TEST_VALUE'] = '1'", "os.environ.update(TAPER_TEST_VALUE='2')", "os.putenv('TAPER_TEST_VALUE', '3')"],
        read=["os.environ.get('TAPER_TEST_VALUE')", "os.getenv('TAPER_TEST_VALUE', 'none')", "'TAPER_TEST_VALUE' in os.environ"]),
    "directory": dict(write=["os.chdir('/tmp')"], read=["os.getcwd()"]),
    "interpreter": dict(
        write=["sys.setrecursionlimit(2000)", "sys.setswitchinterval(0.01)", "sys.set_int_max_str_digits(5000)"],
        read=["sys.getrecursionlimit()", "sys.getswitchinterval()", "sys.get_int_max_str_digits()"]),
    "collector": dict(write=["gc.disable()", "gc.set_threshold(800, 10, 10)"], read=["gc.isenabled()", "gc.get_threshold()"]),
    "context variable": dict(write=["variable.set(5)"], read=["variable.get()", "variable.get(3)", "contextvars.copy_context()[variable] if variable in contextvars.copy_context() else 0"]),
    "decimal": dict(
        write=["decimal.getcontext().prec = 5", "setattr(decimal.getcontext(), 'prec', 6)", "decimal.setcontext(decimal.Context(prec=4))"],
        read=["decimal.getcontext().prec", "str(decimal.Decimal(1) / decimal.Decimal(3))", "str(decimal.Decimal(2).sqrt())"],
        context=["decimal.localcontext()", "decimal.localcontext(decimal.Context(prec=3))"]),
    "locale": dict(write=["locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')"], read=["locale.setlocale(locale.LC_NUMERIC)", "locale.localeconv()['decimal_point']"]),
    "pytrees": dict(write=["pytree.register_pytree_node(Pair, lambda p: (p.items, None), lambda i, c: Pair(*i))"],
                    read=["len(pytree.tree_flatten([1, (2, 3)])[0])", "pytree.tree_map(lambda v: v + 1, [1, 2])", "len(pytree.tree_leaves(Pair(1, 2)))"]),
    "settings of the capture": dict(write=["dynamo.config.verbose = True"], read=["dynamo.config.verbose", "dynamo.config.cache_size_limit"],
                                    context=["dynamo.config.patch(verbose=True)"]),
    "fake mode": dict(context=["FakeTensorMode(allow_non_fake_inputs=True)"], read=["torch.ones(2) + 1"]),
    "threads of backward": dict(context=["torch.autograd.set_multithreading_enabled(False)"]),
    "hooks of tensors": dict(write=["linear.weight.register_hook(lambda g: g * 2) and None", "x.requires_grad_().register_hook(lambda g: g * 2) and None",
                                    "linear.weight.register_post_accumulate_grad_hook(lambda p: None) and None"]),
    "modules": dict(
        write=["linear.train(False)", "linear.eval()", "linear.double()", "linear.requires_grad_(False)", "linear.register_buffer('b', torch.ones(1))",
               "linear.register_forward_hook(lambda m, i, o: o + 1) and None", "linear.zero_grad()", "linear.apply(lambda m: m.eval()) and None",
               "linear.load_state_dict(linear.state_dict()) and None", "torch.nn.utils.clip_grad_norm_(linear.parameters(), 1.0)"],
        read=["linear.training", "len(list(linear.parameters()))", "len(linear.state_dict())", "sum(p.numel() for p in linear.parameters())"]),
    "library": dict(context=["torch.library._scoped_library('taper_state', 'FRAGMENT')"],
                    write=["torch.library.Library('taper_state', 'FRAGMENT')._destroy()"]),
    "logging": dict(write=["logging.getLogger('taper-test').setLevel(10)"], read=["logging.getLogger('taper-test').level",
                                                                              "logging.getLogger('taper-test').isEnabledFor(20)"]),
    "output": dict(context=["contextlib.redirect_stdout(io.StringIO())"], write=["setattr(sys, 'stdout', None)", "sys.stdout.flush()"],
                   read=["sys.stdout is stdout"]),
    "import path": dict(write=["sys.path.append('nowhere')", "sys.path.insert(0, 'nowhere')"], read=["len(sys.path)", "'nowhere' in sys.path"]),
    "stance": dict(write=["torch.compiler.set_stance('force_eager') and None"], context=["torch.compiler.set_stance('eager_on_recompile')"]),
    "hooks of all modules": dict(write=["torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1) and None"], read=["linear(x)"]),
    "builtins": dict(write=["setattr(builtins, 'print', max)"], read=["builtins.print.__name__"]),
    "gradients": dict(
        write=["linear.weight.grad = torch.ones(3, 3)", "linear(x).sum().backward()", "torch.autograd.backward(linear(x).sum())",
               "setattr(linear.bias, 'grad', torch.ones(3))"],
        read=["linear.weight.grad is None", "getattr(linear.weight, 'grad')"]),
}
AMBIENT = [kind for kind, row in KINDS.items() if kind not in ("init", "builtins", "library")]
BODIES = {
    "write": [
        "{0}; return x @ x",
        "y = x @ x; {0}; return y.exp(), torch.is_grad_enabled()",
        "y = x @ x; {0}; dynamo.graph_break(); return y",
        "{0}; y = x @ x; raise KeyError(3)",
        "dynamo.graph_break(); {0}; return x + 1",
        "y = x @ x\n try:\n  {0}; raise KeyError(3)\n except KeyError:\n  y = y + 1\n return y",
    ],
    "read": [
        "return x @ x, {0}",
        "v = {0}; return x + 1 if v else x - 1",
        "v = {0}; dynamo.graph_break(); return v, {0}",
    ],
    "context": [
        "\n with {0}:\n  y = x @ x\n return y, y.is_inference(), torch.is_grad_enabled()",
        "\n with {0}:\n  y = torch.relu(linear(x))\n return y",
        "\n with {0} as c:\n  y = torch.relu(x @ x)\n  dynamo.graph_break()\n  z = y @ y\n return z",
        "\n with {0}:\n  y = torch.relu(x @ x)\n dynamo.graph_break()\n return y @ y",
        "\n with {0}:\n  y = torch.relu(x @ x); raise KeyError(3)\n return y",
        "\n try:\n  with {0}:\n   y = torch.relu(x @ x); raise KeyError(3)\n except KeyError:\n  y = x @ x\n return y + 1",
        "\n with {0}:\n  for i in range(2):\n   with {0}:\n    x = torch.relu(x @ x)\n return x",
        "\n with {0}:\n  return torch.relu(x @ x), torch.rand(2)",
        "\n m = {0}; m.__enter__(); y = x @ x; m.__exit__(None, None, None); return y",
    ],
}


def programs(kind):
    for how, forms in BODIES.items():
        for expression in KINDS[kind].get(how, ()):
            for form in forms:
                yield form.replace("{0}", expression)
            if how == "read":
                continue
            for read in KINDS[kind].get("read", ()):
                yield f"\n v = [{read}]\n {expression}; v.append({read})\n return x + 1, v" if how == "write" else (
                    f"\n v = [{read}]\n with {expression}:\n  v.append({read})\n v.append({read}); return x + 1, v")
    for expression in KINDS[kind].get("context", ()):
        yield f"\n @{expression}\n def g(x):\n  return linear(x) @ x\n return g(x)"
        yield f"\n @{expression}\n def g(x):\n  y = linear(x) @ x\n  dynamo.graph_break()\n  return y + 1\n return g(x)"
        yield f"\n @{expression}\n def g(x):\n  raise KeyError(3)\n try:\n  g(x)\n except KeyError:\n  return linear(x) @ x"


def made(body, helpers):
    text = "def f(x):" + (body if body.startswith("\n") else " " + body)
    if not body.startswith("\n") and "\n" in body:
        text = "def f(x):\n " + body
    exec(compile(text, "<program>", "exec"), helpers)
    return helpers["f"]


def shown(value):
    if isinstance(value, torch.Tensor):
        grad = value.requires_grad
        return (str(value.dtype), str(value.device), tuple(value.shape), grad, value.is_inference(), bool(value.grad_fn) if grad else None,
                None if value.is_meta or torch._C._is_fake(value) else value.detach().double().tolist())
    if isinstance(value, (tuple, list)):
        return type(value), [shown(v) for v in value]
    return type(value).__name__ if type(value).__repr__ is object.__repr__ else repr(value)


def call(f, x):
    try:
        return shown(f(x))
    except dynamo.exc.Unsupported:
        return "Unsupported"
    except Exception as error:
        return type(error).__name__, str(error)


def run(body, between=(), again=False, **options):
    """[(result, state before, state after)] of three calls; `between[i]` is executed before call i, which may begin anew."""
    dynamo.reset()
    begin()
    helpers = dict(globals(), generator=torch.Generator().manual_seed(11))
    f = made(body, helpers)
    x = helpers["x"] = torch.arange(9.0).view(3, 3) * 0.1 + 1
    if options:
        f = torch.compile(f, backend="eager" if options.pop("plain", False) else "inductor", **options)
    out = []
    for i in range(3):
        if again:
            begin()
        if i < len(between) and between[i]:
            exec(between[i], helpers)
        before = state()
        result = call(f, x)
        out.append((result, before, state()))
    begin()
    return out


def compared(body, between=(), again=False):
    """None, or how the compiled function differs from the plain one."""
    want = run(body, between, again)
    for options in [dict(fullgraph=False)] + [dict(fullgraph=False, plain=True)] * (not again):
        got = run(body, between, again, **options)
        for i in range(3):
            if got[i][0] != want[i][0]:
                return f"call {i}: {got[i][0]} instead of {want[i][0]}"
            for name in want[i][2]:
                if got[i][2][name] != want[i][2][name]:
                    return f"call {i} leaves {name} {got[i][2][name]} instead of {want[i][2][name]}"
    got, follows = run(body, between, again, fullgraph=True), True
    for i in range(3):
        if got[i][0] == "Unsupported":
            follows = again                     # else the states differ from here on, for one has acted and one has not
            if got[i][1] != got[i][2]:
                return f"call {i}, Unsupported, changed {[n for n in got[i][1] if got[i][1][n] != got[i][2][n]]}"
        elif follows and (got[i][0] != want[i][0] or got[i][2] != want[i][2]):
            return f"fullgraph, call {i}: {got[i][0]} instead of {want[i][0]}, {[n for n in want[i][2] if got[i][2][n] != want[i][2][n]]}"
    return None


def captures():
    """Is anything captured at all? Where a mode or a tracer was left on, all would run plainly and equal."""
    counter = CompileCounter()
    torch.compile(lambda x: x + 1, backend=counter)(torch.ones(2))
    return counter.frame_count == 1


@pytest.fixture(autouse=True)
def kept():
    """What the process had before."""
    begin()
    assert captures()
    directory, limit, thresholds, threads = os.getcwd(), sys.getrecursionlimit(), gc.get_threshold(), torch.get_num_threads()
    rng, python, of_numpy = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    with warnings.catch_warnings(), decimal.localcontext():
        warnings.simplefilter("ignore")
        yield
        begin()
        assert captures()
    os.chdir(directory)
    sys.setrecursionlimit(limit)
    gc.set_threshold(*thresholds)
    torch.set_num_threads(threads)
    torch.set_rng_state(rng), random.setstate(python), numpy.random.set_state(of_numpy)


@pytest.mark.parametrize("kind", KINDS)
def test_inside(kind):
    """Read, set and entered in compiled code."""
    wrong = []
    for body in programs(kind):
        difference = compared(body) or compared(body, again=True)
        if difference:
            wrong.append(f"{body!r}: {difference}")
    assert not wrong, f"{len(wrong)} of {len(list(programs(kind)))}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("kind", AMBIENT)
def test_changed_between_calls(kind):
    """Read in compiled code, and set by the program before the second call."""
    row, wrong = KINDS[kind], []
    changes = [*row.get("write", ()), *(f"contexts.append({c}); contexts[-1].__enter__()" for c in row.get("context", ()) if "graph" not in c)]
    reads = [*row.get("read", ()), "torch.ones(2)", "torch.relu(linear(x))", "torch.rand(2)"]
    for change in changes:
        for read in reads:
            for body in (f"return x @ x, {read}", f"v = {read}; return x + 1 if v is not None else x, v"):
                difference = compared(body, (None, change))
                if difference:
                    wrong.append(f"{body!r} after {change!r}: {difference}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


BY_A_BACK_END = [
    "torch.set_default_dtype(torch.float64)", "torch._C._set_grad_enabled(False)", "torch._C._set_inference_mode(True)", "torch._C._set_fwd_grad_enabled(False)",
    "torch.autocast('cpu').__enter__()", "torch.autograd.set_detect_anomaly(True)", "torch.use_deterministic_algorithms(True)", "torch.rand(3)",
    "torch.manual_seed(9)", "Mode().__enter__()", "Dispatch().__enter__()", "torch._C._set_torch_function_state(1)", "torch.set_num_threads(2)",
    "torch._C._push_saved_hooks((lambda t: t * 2, lambda t: t))", "torch._C._set_attention_off(3)", "torch.autocast_increment_nesting()",
]


@pytest.mark.parametrize("fails", [False, True])
def test_a_back_end_leaves_no_state(fails):
    for change in BY_A_BACK_END:
        def backend(gm, inputs):
            exec(change, dict(globals()))
            if fails:
                raise KeyError("no")
            return gm.forward

        dynamo.reset()
        begin()
        before, a = state(), torch.ones(2)
        compiled = torch.compile(lambda x: x + 1, backend=backend)
        for _ in range(2):
            if fails:
                with pytest.raises(dynamo.exc.BackendCompilerFailed):
                    compiled(a)
            else:
                assert compiled(a).tolist() == [2, 2]
            assert {name: (value, before[name]) for name, value in state().items() if value != before[name]} == {}, change


def test_lazy_modules_draw_once():
    """Parameters that a capture makes for good move the generator, though a capture puts it back."""
    def drawn(compile):
        torch.manual_seed(0)
        first, second = torch.nn.LazyLinear(3), torch.nn.LazyLinear(3)
        compile(lambda x: first(x) + second(x))(torch.ones(2, 4))
        return first.weight.tolist(), second.weight.tolist(), torch.rand(2).tolist()

    want = drawn(lambda f: f)
    assert drawn(torch.compile) == want and want[0] != want[1]
