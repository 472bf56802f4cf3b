"""Calls everything in the binding with hostile arguments, each target in a child of its own.

    python tests/binding/sweep.py [--python] [--share 0.02] [--seed 0] [--budget 200] [--jobs 2] [--only TEXT] [--case TEXT]

A finding is a signal (a crash, or more than 5 s of processor time), a report of a sanitizer, a child that stands still, a SystemError (a
function that returned NULL without an exception, or a result with one), or None losing references. After a crash the target goes on
behind the case. Exit status 1 when there are findings. `--only` takes targets whose name has the text, `--case` prints each case."""
import argparse
import ctypes
import gc
import json
import mmap
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings

import explore

SECONDS = 5             # of processor time a call may take
STILL = 120             # seconds without a next call and without using the processor
MOST_CRASHES = 4        # of a target, then the rest of it is left out; findings of another kind that are told
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
SANITIZER_EXIT = 99     # ASAN_OPTIONS=exitcode=99


def count_none():
    """References to None, without those of the cache of methods, whose empty entries hold it."""
    sys._clear_type_cache()
    return sys.getrefcount(None)


# ---- in the child ------------------------------------------------------------------------------------------
class Child:
    def __init__(self, target, options, skip, note, pipe):
        self.name, self.ways = target
        self.options, self.skip, self.note, self.pipe, self.count, self.said = options, skip, note, pipe, 0, {}

    def prepare(self, folder):
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        if not self.options.case:
            os.dup2(null, 1)
            if not SANITIZED:
                os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda *_: None

    def say(self, kind, case, detail):
        self.said[kind] = self.said.get(kind, 0) + 1
        if self.said[kind] <= MOST_CRASHES:
            os.write(self.pipe, (json.dumps([kind, self.name, case, detail]) + "\n").encode())

    def run(self, way, act, args, kwargs):
        case = f"{way}({', '.join([*args, *(f'{name}={value}' for name, value in kwargs.items())])})"
        if case in self.skip:
            return "crashed"
        text = case.encode()[:4000]
        self.count += 1
        self.note[:16 + len(text)] = struct.pack("QQ", self.count, len(text)) + text
        if self.options.case and self.options.case in case:
            print(self.name, case, flush=True)
        signal.setitimer(signal.ITIMER_PROF, (1 if self.options.canary else SECONDS) * (20 if SANITIZED else 1))
        error = None
        try:
            act(*explore.values(args), **dict(zip(kwargs, explore.values(kwargs.values()))))
        except BaseException as raised:
            error = raised.with_traceback(None)
        if isinstance(error, SystemError):
            self.say("SystemError", case, str(error)[:300])
        return explore.outcome_of(error)

    def all(self):
        rng = explore.seeded(self.options.seed, self.name)
        none = count_none()
        weights = [5 if i == 0 or way.startswith("whole 0") else 1 for i, (way, _) in enumerate(self.ways)]
        for (way, act), weight in zip(self.ways, weights):
            explore.cases(rng, max(self.options.budget * weight // sum(weights), 12), lambda args, kwargs: self.run(way, act, args, kwargs))
        signal.setitimer(signal.ITIMER_PROF, SECONDS * 20)
        gc.collect()
        lost = none - count_none()
        if lost > self.count // 2 + 20:
            self.say("references", "None", f"{lost} lost in {self.count} calls")


# ---- in the parent -----------------------------------------------------------------------------------------
class Running:
    """A target, its child, and what its child said."""
    def __init__(self, target, options):
        self.target, self.options, self.skip, self.findings, self.calls = target, options, set(), [], 0
        self.note = mmap.mmap(-1, 8192)
        self.start()

    def start(self):
        self.note[:16] = bytes(16)
        self.folder = tempfile.mkdtemp(prefix="binding")
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 3
            try:
                os.close(self.reader)
                child = Child(self.target, self.options, self.skip, self.note, writer)
                child.prepare(self.folder)
                child.all()
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        self.seen, self.at, self.used = 0, time.monotonic(), 0

    def case(self):
        count, length = struct.unpack("QQ", self.note[:16])
        return count, self.note[16:16 + length].decode(errors="replace")

    def stands_still(self):
        count = self.case()[0]
        with open(f"/proc/{self.pid}/stat") as stat:
            used = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
        if count != self.seen or used != self.used:
            self.seen, self.used, self.at = count, used, time.monotonic()
        return time.monotonic() - self.at > STILL

    def poll(self):
        """True when the target is done."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            if not self.stands_still():
                return False
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            status = -1
        said = b""
        while select.select([self.reader], [], [], 0)[0] and (more := os.read(self.reader, 65536)):
            said += more
        os.close(self.reader)
        shutil.rmtree(self.folder, ignore_errors=True)
        for line in said.decode().splitlines():
            if (finding := json.loads(line)) not in self.findings:
                self.findings.append(finding)
        count, case = self.case()
        self.calls += count
        if status == 0:
            return True
        self.findings.append([self.what(status), self.target[0], case, ""])
        self.skip.add(case)
        if len(self.skip) >= (1 if self.options.canary else MOST_CRASHES):
            return True
        self.start()
        return False

    @staticmethod
    def what(status):
        if status == -1:
            return f"stands still for {STILL} s"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return f"over {SECONDS} s" if number == signal.SIGPROF else signal.Signals(number).name
        return "sanitizer" if os.WEXITSTATUS(status) == SANITIZER_EXIT else f"exit status {os.WEXITSTATUS(status)}"


def sweep(targets, options):
    """All findings, and the number of calls."""
    waiting, running, findings, calls = list(reversed(targets)), [], [], 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            running.append(Running(waiting.pop(), options))
        ended = [one for one in running if one.poll()]
        for one in ended:
            running.remove(one)
            findings += one.findings
            calls += one.calls
            for finding in one.findings:
                print(*finding, sep=" | ", flush=True)
        if not ended:
            time.sleep(0.002)
    return findings, calls


def _forever(*_):
    while True:
        pass


def _segfault(*_):
    ctypes.string_at(0)


def _breaks_the_convention(*_):
    ctypes.pythonapi.PyErr_BadInternalCall()


def canaries():
    return [(act.__name__, [("", act)]) for act in (_forever, _segfault, _breaks_the_convention)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="store_true", help="the public Python names instead of the extension")
    parser.add_argument("--canary", action="store_true", help="three functions that are known to be bad")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=200, help="calls a target")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="", help="print the cases that have this text (a blank: all), and what they print")
    options = parser.parse_args()
    if options.canary:
        every = canaries()
    elif options.python:
        import names
        every = names.targets()
    else:
        import targets
        every = targets.targets()
    chosen = [one for one in every if options.only in one[0] and explore.seeded(options.seed, "share of " + one[0]).random() < options.share]
    gc.collect()
    gc.freeze()         # children share these pages
    start = time.monotonic()
    findings, calls = sweep(chosen, options)
    print(f"binding: {len(chosen)} targets, {calls} calls, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
