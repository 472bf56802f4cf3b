"""Options of torch.compile and settings of the capture: each acts, warns once where only speed is lost, or raises."""
import warnings

import pytest
import taper as torch
import taper._dynamo as dynamo
from taper import _options
from taper._dynamo.testing import CompileCounter

x = torch.ones(2)


@pytest.fixture(autouse=True)
def fresh():
    _options._told.clear()
    dynamo.reset()
    yield
    _options._told.clear()
    dynamo.reset()


def add(a):
    return a + 1


def marked(compiled):
    dynamo.reset()
    a = torch.ones(2)
    dynamo.mark_dynamic(a, 0)
    compiled(a)


def told(make, times=3):
    """The warnings of as many calls."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(times):
            made = make()
            if callable(made):
                assert made(x).tolist() == [2, 2]
    return [str(w.message) for w in seen]


@pytest.mark.parametrize("make, word", [
    (lambda: torch.compile(add, dynamic=True), "dynamic=True"),
    (lambda: dynamo.optimize("eager", dynamic=True)(add), "dynamic=True"),
    (lambda: torch.compile(add, mode="max-autotune"), "mode='max-autotune'"),
    (lambda: torch.compile(add, mode="reduce-overhead"), "mode='reduce-overhead'"),
    (lambda: torch.compile(add, options={"max_autotune": True}), "'max_autotune'"),
    (lambda: torch.compile(add, options={"max-autotune": True}), "'max-autotune'"),
    (lambda: torch.compile(add, options={"triton.cudagraphs": False}), "'triton.cudagraphs'"),
    (lambda: torch.compile(add, backend="eager", mode="max-autotune"), "'eager' ignores"),
    (lambda: marked(torch.compile(add)), "mark_dynamic"),
])
def test_what_only_costs_speed_warns_once(make, word):
    seen = told(make)
    assert len(seen) == 1 and word in seen[0], seen


@pytest.mark.parametrize("make", [
    lambda: torch.compile(add), lambda: torch.compile(add, dynamic=False), lambda: torch.compile(add, mode="default"),
    lambda: torch.compile(add, options={}), lambda: torch.compile(add, options={"fallback_random": True}),
    lambda: torch.compile(add, disable=True), lambda: dynamo.maybe_mark_dynamic(torch.ones(3), 0), lambda: dynamo.mark_static(torch.ones(3)),
])
def test_what_holds_is_accepted_without_a_word(make):
    assert told(make) == []


@pytest.mark.parametrize("make, error, words", [
    (lambda: torch.compile(add, options={"nonsense": 1}), RuntimeError, "Unexpected optimization option nonsense, known options are"),
    (lambda: torch.compile(add, options={"max_autotune": "yes"}), RuntimeError, "Unexpected type of attr max_autotune, got str should be bool"),
    (lambda: torch.compile(add, options=[1]), AttributeError, "'list' object has no attribute 'items'"),
    (lambda: torch.compile(add, options={"guard_filter_fn": len}), NotImplementedError, "guard_filter_fn"),
    (lambda: torch.compile(add, mode="nope"), RuntimeError, "Unrecognized mode=nope"),
    (lambda: torch.compile(add, mode="default", options={}), RuntimeError, "Either mode or options"),
    (lambda: torch.compile(add, dynamic="yes"), AssertionError, "Expected enable to be a bool"),
    (lambda: torch.compile(add, backend="nope"), dynamo.exc.InvalidBackend, "Invalid backend: 'nope'"),
    (lambda: torch.compile(add, nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
    (lambda: dynamo.optimize("eager", guard_export_fn=len), NotImplementedError, "guard_export_fn"),
    (lambda: dynamo.optimize_assert("eager", export=True), NotImplementedError, "export"),
    (lambda: torch.compile(3), AssertionError, "A callable function is expected"),
    (lambda: torch.compiler.set_stance("nope"), RuntimeError, "invalid torch.compile stance"),
    (lambda: torch.compiler.set_stance("eager_then_compile"), NotImplementedError, "eager_then_compile"),
    (lambda: torch.compiler.set_stance(force_backend="eager"), NotImplementedError, "force_backend"),
    (lambda: torch.compiler.set_stance("force_eager", force_backend="eager"), RuntimeError, "non-default stance cannot have force_backend set"),
    (lambda: torch.compiler.set_stance(skip_guard_eval_unsafe=True), NotImplementedError, "skip_guard_eval_unsafe"),
    (lambda: setattr(dynamo.config, "nonsense", 1), AttributeError, "does not exist"),
])
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_back_end_of_the_program_gets_mode_and_options():
    seen = []

    def backend(gm, inputs, **named):
        seen.append(named)
        return gm.forward

    torch.compile(add, backend=backend, mode="max-autotune")(x)
    torch.compile(add, backend=backend, options={"a": 1})(x)
    torch.compile(add, backend=backend, mode="default")(x)
    assert seen == [{"mode": "max-autotune"}, {"options": {"a": 1}}, {}]
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="backend='narrow' raised:\nTypeError"):
        torch.compile(add, backend=narrow, mode="max-autotune")(x)


def narrow(gm, inputs):
    return gm.forward


# ---- how often a function is captured ----------------------------------------------------------------------------------
def with_text(a, text):
    return a + len(text)


@pytest.mark.parametrize("name", ["cache_size_limit", "recompile_limit"])
def test_the_limit_of_entries(name):
    counter = CompileCounter()
    full, loose = (torch.compile(with_text, backend=counter, fullgraph=full) for full in (True, False))
    with dynamo.config.patch(**{name: 3}):
        assert dynamo.config.cache_size_limit == dynamo.config.recompile_limit == 3
        for i in range(3):
            full(x, str(i))
        with pytest.raises(dynamo.exc.FailOnRecompileLimitHit, match="fullgraph=True"):
            full(x, "more")
        assert full(x, "1").tolist() == [2, 2]
        assert loose(x, "more").tolist() == [5, 5]
    assert counter.frame_count == 3 and dynamo.config.recompile_limit == 8


def test_eight_entries_by_default():
    compiled = torch.compile(with_text, fullgraph=True)
    for i in range(8):
        compiled(x, str(i))
    with pytest.raises(dynamo.exc.FailOnRecompileLimitHit):
        compiled(x, "9")


def test_settings_that_are_not_read_warn_once():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            with dynamo.config.patch(capture_scalar_outputs=True, specialize_int=True):
                pass
        dynamo.config.verbose = False           # the default
    assert sorted(str(w.message).partition(":")[0] for w in seen) == [
        "torch._dynamo.config.capture_scalar_outputs = True", "torch._dynamo.config.specialize_int = True"]


def test_suppressed_errors_of_back_ends():
    def fails(gm, inputs):
        raise KeyError("no")

    with pytest.raises(dynamo.exc.BackendCompilerFailed):
        torch.compile(add, backend=fails)(x)
    with dynamo.config.patch(suppress_errors=True):
        assert torch.compile(add, backend=fails)(x).tolist() == [2, 2]


# ---- is this code being compiled? ----------------------------------------------------------------------------------------
def asks(a):
    return a + 1, torch.compiler.is_compiling(), dynamo.is_compiling(), torch.compiler.is_dynamo_compiling()


def test_is_compiling():
    for backend in ("eager", "inductor"):
        compiled = torch.compile(asks, backend=backend, fullgraph=True)
        for _ in range(2):
            assert compiled(x)[1:] == (True, True, True) and asks(x)[1:] == (False, False, False)

    def branches(a):
        return a * 2 if torch.compiler.is_compiling() else a * 3

    assert torch.compile(branches)(x).tolist() == [2, 2] and branches(x).tolist() == [3, 3]
    with torch.compiler.set_stance("force_eager"):
        assert torch.compile(branches)(x).tolist() == [3, 3]


def test_disabled_functions():
    plain = torch.compiler.disable(asks)
    assert torch.compile(plain, fullgraph=True)(x)[1:] == (False, False, False)
    assert torch.compile(asks, disable=True) is asks
    with pytest.raises(dynamo.exc.Unsupported, match="not to be captured"):
        torch.compile(lambda a: plain(a), fullgraph=True)(x)
    assert torch.compile(lambda a: plain(a))(x)[1:] == (False, False, False)

    class Model(torch.nn.Module):
        @torch.compiler.disable
        def forward(self, a):
            return torch.compiler.is_compiling()

    assert torch.compile(Model(), fullgraph=True)(x) is False


# ---- stances -------------------------------------------------------------------------------------------------------------
def test_stances():
    """(frames captured after: a call under the stance, one without, two under it of which one is new)"""
    counts = {}
    for stance in ("default", "force_eager", "eager_on_recompile"):
        dynamo.reset()
        counter = CompileCounter()
        compiled, got = torch.compile(add, backend=counter), []
        with torch.compiler.set_stance(stance):
            assert compiled(x).tolist() == [2, 2]
        got.append(counter.frame_count)
        compiled(x)
        got.append(counter.frame_count)
        with torch.compiler.set_stance(stance):
            compiled(x)
            assert compiled(torch.ones(3, dtype=torch.int64)).tolist() == [2, 2, 2]
        counts[stance] = (*got, counter.frame_count)
    assert counts == {"default": (1, 1, 2), "force_eager": (0, 1, 1), "eager_on_recompile": (0, 1, 1)}


def test_failing_on_a_second_capture():
    compiled = torch.compile(add)
    compiled(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(x).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: .*function name: 'add'"):
            compiled(torch.ones(3))
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]


def test_stances_as_decorators_and_statements():
    counter = CompileCounter()
    compiled = torch.compile(add, backend=counter)

    @torch.compiler.set_stance("force_eager")
    def plainly():
        return compiled(x)

    plainly()
    assert counter.frame_count == 0
    torch.compiler.set_stance("force_eager")
    compiled(x)
    assert counter.frame_count == 0
    torch.compiler.set_stance("default")
    compiled(x)
    assert counter.frame_count == 1


# ---- exceptions ----------------------------------------------------------------------------------------------------------
def test_a_programs_own_exception_comes_after_its_effects():
    seen = []

    def raises(a):
        seen.append(a.shape[0])
        raise KeyError(3)

    for fullgraph in (False, True):
        compiled = torch.compile(raises, fullgraph=fullgraph)
        for _ in range(2):
            with pytest.raises(KeyError):
                compiled(x)
    assert seen == [2, 2, 2, 2]


def test_data_that_a_capture_has_not_is_unsupported():
    with pytest.raises(dynamo.exc.Unsupported):
        torch.compile(lambda a: torch.nonzero(a), fullgraph=True)(x)
    assert torch.compile(lambda a: torch.nonzero(a))(x).tolist() == [[0], [1]]
