"""torch.profiler: what ops ran, how often and for how long.

A dispatch mode around the program sees each op that reaches a kernel, in forward and in backward; composite ops are seen as
their pieces. Times are of the CPU, taken around the call, so they include what the measuring itself costs.
"""
import enum
import functools
import json
import os
import socket
import time
import warnings

from . import _C
from ._options import refuse, tell_once
from .utils._python_dispatch import TorchDispatchMode

__all__ = ["profile", "schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction", "ProfilerActivity",
           "kineto_available", "record_function"]


class ProfilerActivity(enum.Enum):
    CPU = 0
    XPU = 1
    MTIA = 4
    CUDA = 2
    HPU = 3
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities():
    return {ProfilerActivity.CPU}


def kineto_available():
    return False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0, acc_events=False):
    """What to do at each step: wait, warm up, record, over and over or `repeat` times."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), active={active} (need > 0), "
            f"repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0).")
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait        # the first cycle does not wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class FunctionEvent:
    """One call; times are in microseconds."""

    count = 1

    def __init__(self, name, start):
        self.name = self.key = name
        self.start, self.end, self.inside = start, start, 0.0

    cpu_time_total = property(lambda self: self.end - self.start)
    self_cpu_time_total = property(lambda self: self.cpu_time_total - self.inside)

    def __repr__(self):
        return f"<FunctionEvent name={self.name} cpu_time={self.cpu_time_total:.3f}us>"


class FunctionEventAvg:
    """All calls of one name."""

    def __init__(self, key):
        self.key, self.count, self.cpu_time_total, self.self_cpu_time_total = key, 0, 0.0, 0.0

    cpu_time = property(lambda self: self.cpu_time_total / self.count)

    def add(self, event):
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total


def _shown(microseconds):
    for limit, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= limit:
            return f"{microseconds / limit:.3f}{unit}"
    return f"{microseconds:.3f}us"


class EventList(list):
    """Events or their averages."""

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self):
        averages = {}
        for event in self:
            averages.setdefault(event.key, FunctionEventAvg(event.key)).add(event)
        return EventList(averages.values())

    def table(self, sort_by=None, row_limit=100, max_name_column_width=55, **unused):
        whole = self.self_cpu_time_total or 1.0
        events = sorted(self, key=lambda event: -getattr(event, sort_by)) if sort_by else self
        rows = [("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")]
        for event in events[:row_limit] if row_limit >= 0 else events:
            rows.append((
                event.key[:max_name_column_width], f"{100 * event.self_cpu_time_total / whole:.2f}%", _shown(event.self_cpu_time_total),
                f"{100 * event.cpu_time_total / whole:.2f}%", _shown(event.cpu_time_total), _shown(event.cpu_time_total / event.count),
                str(event.count)))
        widths = [max(12, *(len(row[i]) for row in rows)) for i in range(7)]
        line = "  ".join("-" * width for width in widths) + "  \n"
        text = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) + "  \n" for row in rows]
        return line + text[0] + line + "".join(text[1:]) + line + f"Self CPU time total: {_shown(self.self_cpu_time_total)}\n"

    def export_chrome_trace(self, path):
        trace = [{"ph": "X", "cat": "cpu_op", "name": event.name, "pid": os.getpid(), "tid": 0, "ts": event.start,
                  "dur": event.cpu_time_total} for event in self]
        with _C._OutputFile(path) as file:
            file.write(json.dumps({"schemaVersion": 1, "traceEvents": trace}))


_recording = []     # the recorder that is on, innermost last


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.events, self.open = EventList(), []

    def start(self, name):
        event = FunctionEvent(name, time.perf_counter_ns() / 1e3)
        self.events.append(event)
        self.open.append(event)

    def stop(self):
        event = self.open.pop()
        event.end = time.perf_counter_ns() / 1e3
        if self.open:
            self.open[-1].inside += event.cpu_time_total

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.start(func._schema.name)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.stop()


class record_function:
    """Names a part of the program in the profile; also a decorator."""

    def __init__(self, name, args=None):
        self.name = name

    def __enter__(self):
        self._recorder = _recording[-1] if _recording else None
        if self._recorder is not None:
            self._recorder.start(self.name)
        return self

    def __exit__(self, *error):
        if self._recorder is not None:
            self._recorder.stop()

    def __call__(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)

        return call


class profile:
    """Records the ops of a `with` block, or of the steps that `schedule` chooses."""

    def __init__(
        self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False, with_stack=False,
        with_flops=False, with_modules=False, experimental_config=None, execution_trace_observer=None, acc_events=False, use_cuda=None,
        custom_trace_id_callback=None, post_processing_timeout_s=None
    ):
        for name, asked in (("record_shapes", record_shapes), ("profile_memory", profile_memory), ("with_stack", with_stack),
                            ("with_flops", with_flops), ("with_modules", with_modules)):
            if asked:
                warnings.warn(f"torch.profiler.profile: Taper does not have {name}; names and times are recorded", stacklevel=2)
        refuse("torch.profiler.profile", execution_trace_observer=(execution_trace_observer, None), custom_trace_id_callback=(custom_trace_id_callback, None))
        tell_once("torch.profiler.profile", "names and times of ops on the CPU are recorded", experimental_config=(experimental_config, None),
                  use_cuda=(use_cuda, None), acc_events=(acc_events, False), post_processing_timeout_s=(post_processing_timeout_s, None))
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder = self._last = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def _wants(self):
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _begin(self):
        self._recorder = _Recorder()
        self._recorder.__enter__()
        _recording.append(self._recorder)

    def _end(self):
        _recording.remove(self._recorder)
        self._recorder.__exit__(None, None, None)
        self._last, self._recorder = self._recorder, None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start(self):
        if self._wants():
            self._begin()

    def stop(self):
        if self._recorder is not None:
            self._end()

    def step(self):
        """The next step of the schedule begins."""
        saved = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self._recorder is not None and (saved or not self._wants()):
            self._end()
        if self._recorder is None and self._wants():
            self._begin()

    def events(self):
        recorder = self._recorder or self._last
        if recorder is None:
            raise AssertionError("Profiler is not initialized: nothing was recorded yet")
        return recorder.events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        if group_by_input_shape or group_by_stack_n or group_by_overload_name:
            raise NotImplementedError("torch.profiler.profile.key_averages: Taper groups by name only")
        return self.events().key_averages()

    def export_chrome_trace(self, path):
        self.events().export_chrome_trace(path)


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """For on_trace_ready: writes each trace to a file of its own."""
    if use_gzip:
        raise NotImplementedError("torch.profiler.tensorboard_trace_handler: use_gzip")

    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))

    return handler
