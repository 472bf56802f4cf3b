"""Calls every op with hostile arguments, in children: `python run.py COUNT [--first N] [--seed N] [--jobs N]`.

A child announces each call in shared memory before it makes it. When one dies, takes more than five seconds, or gives a tensor that
looks beyond its memory, the call is printed; `--one NUMBER` makes that call alone, here; `--only NAME` makes those of ops whose name has it. Memory is limited, so what cannot be
allocated is an error, not the machine's end."""
import argparse
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings

import taper as torch
import words
from calls import Calls
from seeds import all_seeds

MOST_SECONDS = 5
MOST_MEMORY = 3 << 30
BATCH = 4000                                        # calls of one child


def storage_exceeded(t):
    """Does a tensor look at elements beyond its storage?"""
    if not t.numel() or t.device.type != "cpu" or type(t) is not torch.Tensor:
        return False
    last = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    return t.storage_offset() < 0 or (last + 1) * t.element_size() > t.untyped_storage().nbytes()


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (list, tuple)) else []


def gradients(results):
    leaves = [t for t in words.made if t.requires_grad and t.is_leaf]
    outputs = [t for t in results if t.requires_grad]
    if leaves and outputs:
        return tensors_of(torch.autograd.grad(outputs, leaves, [torch.ones_like(t) for t in outputs], allow_unused=True))
    return []


def make_call(way, text):
    """Makes a call; what is wrong beyond errors, or None."""
    words.made.clear()
    torch.manual_seed(0)
    scope = dict(vars(words))
    if way == "grad":
        scope["T"] = lambda dtype, size, **more: words.T(dtype, size, **{**more, "grad": dtype[0] in "fc" or dtype == "bf16"})
    try:
        if way == "fake":
            with torch._subclasses.FakeTensorMode():
                eval(text, scope)                   # noqa: S307
            return None
        results = tensors_of(eval(text, scope))     # noqa: S307
        if way == "grad":
            results += gradients(results)
        for t in results:
            if storage_exceeded(t):
                return f"a result of {list(t.shape)}, {t.stride()} looks beyond its memory"
            if 0 < t.numel() < 1000:
                t.clone()
    except SystemError as error:
        return f"SystemError: {error}"
    except Exception:                               # noqa: BLE001  refusals are what is wanted
        pass
    return next((f"an argument of {list(t.shape)}, {t.stride()} looks beyond its memory" for t in words.made if storage_exceeded(t)), None)


def child(calls, numbers, shared, log):
    os.chdir(tempfile.mkdtemp())
    if not os.environ.get("ASAN_OPTIONS"):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    for number in numbers:
        way, text = calls[number]
        shared[:8] = struct.pack("q", number)
        wrong = make_call(way, text)
        if wrong:
            os.write(log, f"{number} {wrong}\n".encode())
    os._exit(0)


class Worker:
    """One child after the other, over every `step`-th number."""

    def __init__(self, calls, numbers):
        self.calls, self.numbers = calls, numbers
        self.shared = mmap.mmap(-1, 8)
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.found, self.pid, self.begun = [], None, 0
        self.text = b""

    def start(self):
        self.shared[:8] = struct.pack("q", -1)
        self.last, self.since, self.spent = -1, time.monotonic(), 0
        self.batch = self.numbers[:BATCH]
        self.pid = os.fork()
        if not self.pid:
            try:
                child(self.calls, self.batch, self.shared, self.write)
            finally:
                os._exit(3)

    def step(self):
        """Looks after the child; false when there is nothing left."""
        if self.pid is None:
            if not self.numbers:
                return False
            self.start()
        number = struct.unpack("q", self.shared[:8])[0]
        now = time.monotonic()
        if number != self.last:
            self.last, self.since, self.spent = number, now, spent(self.pid)
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if done:
            self.ended(struct.unpack("q", self.shared[:8])[0], status)
        elif spent(self.pid) - self.spent > MOST_SECONDS or now - self.since > 12 * MOST_SECONDS:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.note(number, f"takes more than {MOST_SECONDS} s")
            self.next_after(number)
        self.gather()
        return True

    def gather(self):
        try:
            self.text += os.read(self.read, 1 << 16)
        except BlockingIOError:
            return
        *lines, self.text = self.text.split(b"\n")
        for line in lines:
            number, wrong = line.decode().split(" ", 1)
            self.note(int(number), wrong)

    def ended(self, number, status):
        if status == 0:
            self.numbers = self.numbers[len(self.batch):]
            self.pid = None
            return
        self.note(number, f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}")
        self.next_after(number)

    def next_after(self, number):
        self.numbers = self.numbers[self.numbers.index(number) + 1:] if number >= 0 else []
        self.pid = None

    def note(self, number, wrong):
        way, text = self.calls[number] if number >= 0 else ("", "before the first call")
        self.found.append(number)
        print(f"{number}: {wrong}\n    {way}: {text}", flush=True)


def spent(pid):
    """Seconds of processor time of a child."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0


def main():
    options = argparse.ArgumentParser()
    options.add_argument("count", type=int)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--one", type=int)
    options.add_argument("--only", default="")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    table = torch._C._op_table()
    calls = Calls(table, all_seeds(table), chosen.seed)
    if chosen.one is not None:
        print(*calls[chosen.one], flush=True)
        print(make_call(*calls[chosen.one]))
        return 0
    numbers = [n for n in range(chosen.first, chosen.first + chosen.count) if chosen.only in calls.schemas[n % len(calls.schemas)].key]
    workers = [Worker(calls, numbers[k::chosen.jobs]) for k in range(chosen.jobs)]
    start = time.monotonic()
    while any([w.step() for w in workers]):
        time.sleep(0.01)
    found = sum(len(w.found) for w in workers)
    print(f"{len(numbers)} calls, {found} of them wrong, {time.monotonic() - start:.0f} s")
    return found != 0


if __name__ == "__main__":
    sys.exit(main())
