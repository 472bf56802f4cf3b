"""Running one test file from outside: a worker process that is replaced whenever a test takes it down.

A test that hangs is killed and noted as "timeout"; one that ends the process is noted as "crash"; in both cases a new
worker goes on with the next test. The file is first imported as it is; only if that fails is it loaded leniently.
"""
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time

import places
from source import Source

# How a provider runs a script. `python -m taper SCRIPT` makes `import torch` mean Taper; "testing" is PyTorch with our
# torch.testing, a control of the latter.
PROVIDERS = {"torch": "{python}", "taper": "{python} -m taper",
             "testing": "{python} " + os.path.join(places.HERE, "on_torch.py")}
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
         "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}


class Worker:
    """One worker process and the pipe it reports on."""

    def __init__(self, command, env, folder):
        self.buffer, (self.pipe, write) = b"", os.pipe()
        self.log = open(os.path.join(folder, "log"), "w+b")
        command = [word.replace("REPORT_FD", str(write)) for word in command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log,
                                        pass_fds=[write], cwd=folder, env=env, start_new_session=True)
        os.close(write)

    def answer(self, timeout):
        """The worker's next message; {"outcome": "timeout" | "crash"} when there is none."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return {"outcome": "timeout", "detail": f"no answer in {timeout:g} s", "seconds": timeout}
            data = os.read(self.pipe, 1 << 16)
            if not data:
                return {"outcome": "crash", "detail": self.last_words()}
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def last_words(self):
        code = self.process.wait()
        self.log.seek(max(0, self.log.seek(0, 2) - 4000))
        lines = self.log.read().decode(errors="replace").strip().splitlines() or [""]
        sign = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{sign}; {lines[-1].strip()[:400]}"

    def ask(self, test, timeout):
        try:
            self.process.stdin.write(test.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass                                             # the answer will be "crash"
        return self.answer(timeout)

    def close(self, patience=0):
        """Ends the worker: by itself, so that its exit is tried too, if it takes no longer than `patience`."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass                                             # an order nobody read
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)      # our own child's own session, nobody else's
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.pipe)
        self.log.close()


class FileRun:
    """All tests of one file, run by a chain of workers."""

    def __init__(self, path, options):
        self.path, self.options, self.source = path, options, Source(path)
        self.mode, self.strict_error, self.import_error, self.missing = "strict", None, None, []
        self.worker = None

    def command(self):
        words = (self.options.prefix or PROVIDERS[self.options.provider]).split()
        words += [os.path.join(places.HERE, "worker.py"), self.path, "REPORT_FD", self.mode]
        return [word.replace("{python}", self.options.python) for word in words]

    def start(self, folder):
        """A live worker; returns the tests it lists."""
        paths = places.import_folders(self.path) + [p for p in [os.environ.get("PYTHONPATH")] if p]
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), **QUIET)
        self.worker = Worker(self.command(), env, folder)
        hello = self.worker.answer(self.options.import_timeout)
        if "tests" not in hello:
            hello = {"import_error": f"{hello['outcome']} while importing: {hello['detail']}", "tests": []}
        self.import_error, self.missing = hello.get("import_error"), hello.get("missing", self.missing)
        if self.import_error and self.mode == "strict":
            self.worker.close(self.options.exit_timeout)
            self.mode, self.strict_error = "lenient", self.import_error
            return self.start(folder)
        return hello["tests"]

    def run(self):
        """The file's record: how it imports and what became of each instance."""
        done = {}
        with tempfile.TemporaryDirectory() as folder:
            queue = self.select(self.start(folder), done)
            for number, test in enumerate(queue):
                if self.worker is None:
                    self.start(folder)
                reply = self.worker.ask(test["id"], self.options.timeout)
                done[test["id"]] = {**test, **reply}
                if self.options.verbose:
                    print(f"  {reply['outcome']:8}{test['id']}  {reply['detail'][:150]}", flush=True)
                lost = reply["outcome"] in ("crash", "timeout")
                if lost or (number + 1) % self.options.chunk == 0:
                    self.worker.close(0 if lost else self.options.exit_timeout)
                    self.worker = None
            if self.worker is not None:
                self.worker.close(self.options.exit_timeout)
        self.add_unseen(done)
        return {"file": os.path.basename(self.path), "strict_error": self.strict_error,
                "import_error": self.import_error, "missing": self.missing, "instances": done}

    def select(self, listing, done):
        queue = []
        for test in listing:
            if self.options.only and not re.search(self.options.only, test["id"]):
                continue
            if test["opdb"] and self.options.no_opdb:
                done[test["id"]] = dict(test, outcome="notrun", detail="--no-opdb")
            else:
                queue.append(test)
        return queue

    def add_unseen(self, done):
        """Tests that the text has and the import did not yield are errors, not absences."""
        seen = {test["base"] for test in done.values()}
        why = self.import_error and f"the file does not import: {self.import_error}"
        for base in self.source.base_tests():
            if base in seen or (self.options.only and not re.search(self.options.only, base)):
                continue
            if why or not self.source.is_template(base.split(".")[0]):
                done[base] = {"id": base, "base": base, "opdb": base in self.source.opdb, "outcome": "error",
                              "detail": why or "the test was not collected"}
