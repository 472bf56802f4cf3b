"""Modules of devices that are not there, streams, profiles, futures: answers as PyTorch 2.13 without an accelerator."""
import json

import pytest

import taper as torch


@pytest.mark.parametrize("code, expected", [
    ("torch.accelerator.is_available()", False), ("torch.accelerator.current_accelerator()", None),
    ("torch.accelerator.device_count()", 0), ("torch.cpu.is_available()", True), ("torch.cpu.current_device()", "cpu"),
    ("torch.xpu.is_available()", False), ("torch.mps.is_available()", False), ("torch.mtia.is_available()", False),
    ("torch.distributed.is_available()", False), ("torch.distributed.is_initialized()", False),
    ("torch.get_device_module() is torch.cpu", True), ("torch.Stream() == torch.Stream()", True), ("torch.Event().query()", True),
    ("torch.sym_max(2, 3.0)", 3.0), ("torch.sym_min(2, 3)", 2), ("torch.sym_int(-2.7)", -2), ("torch.sym_float(2)", 2.0),
    ("torch.sym_not(True)", False), ("torch.sym_ite(True, 1, 2)", 1), ("torch.sym_sum([1, 2])", 3),
    ("torch._check_tensor_all(torch.tensor([True, True]))", None),
])
def test_answers(code, expected):
    assert eval(code) == expected


@pytest.mark.parametrize("code, kind, message", [
    ("torch.accelerator.synchronize()", RuntimeError, "Cannot access accelerator device when none is available."),
    ("torch.Stream(device='cuda')", RuntimeError, "PyTorch is not linked with support for cuda devices"),
    ("torch.Stream().record_event()", RuntimeError, "cpu backend doesn't support events."),
    ("torch.xpu.current_device()", AssertionError, "Torch not compiled with XPU enabled"),
    ("torch.mps.empty_cache()", RuntimeError, "Cannot execute emptyCache() without MPS backend."),
    ("torch.mtia.empty_cache()", RuntimeError, "Cannot execute emptyCache() without MTIA backend."),
    ("torch.distributed.get_rank()", ValueError,
     "Default process group has not been initialized, please make sure to call init_process_group."),
    ("torch.sym_ite(1, 1, 2)", AssertionError, "expected SymBool or bool, got <class 'int'>"),
    ("torch._check_tensor_all(torch.tensor([False]), lambda: 'all')", RuntimeError, "all"),
    ("torch.get_device_module('meta')", RuntimeError, "Device 'meta' does not have a corresponding module registered as 'torch.meta'."),
])
def test_refusals(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value) == message


def test_profile(tmp_path):
    x = torch.ones(2, 2, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with torch.profiler.record_function("part"):
            (x @ x).sum().backward()
    averages = {event.key: event.count for event in profile.key_averages()}
    assert averages["part"] == 1 and averages["aten::mm"] == 3
    assert "aten::mm" in profile.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    profile.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"][0]["name"] == "part"


def test_schedule_of_a_profile():
    ready = []
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    assert [plan(i).name for i in range(6)] == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    with torch.profiler.profile(schedule=plan, on_trace_ready=lambda p: ready.append(len(p.events()))) as profile:
        for _ in range(6):
            torch.ones(2).neg()
            profile.step()
    assert len(ready) == 1 and ready[0] >= 4


def test_futures():
    first, second = torch.futures.Future(), torch.futures.Future()
    after = first.then(lambda done: done.value() + 1)
    both = torch.futures.collect_all([first, second])
    first.set_result(1)
    assert after.wait() == 2 and not both.done()
    second.set_exception(ValueError("no"))
    assert both.done()
    with pytest.raises(ValueError):
        torch.futures.wait_all([first, second])


def test_hub_from_a_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['json']\ndef twice(x):\n    'Doubles.'\n    return 2 * x\n")
    assert torch.hub.load(str(tmp_path), "twice", 4, source="local") == 8
    assert torch.hub.list(str(tmp_path), source="local") == ["twice"]
    with pytest.raises(NotImplementedError):
        torch.hub.load("someone/something", "twice")
