"""spawn: one function in several processes; the first that fails ends the others and its traceback is raised here."""
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import sys
import tempfile
import traceback
import warnings


class ProcessException(Exception):
    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an exception of Python."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with a code other than zero."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn, i, args, error_file):
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    def __init__(self, processes, error_files):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """True when all have ended well, False when some still run after `timeout`; raises what the first failure was."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout):
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        self._raise(failed)

    def _raise(self, i):
        process = self.processes[i]
        with open(self.error_files[i], "rb") as file:
            saved = file.read()
        if saved:
            raise ProcessRaisedException(f"\n\n-- Process {i} terminated with the following error:\n{pickle.loads(saved)}", i, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(f"process {i} terminated with signal {name}", i, process.pid, code, name)
        raise ProcessExitedException(f"process {i} terminated with exit code {code}", i, process.pid, code)


class SpawnContext(ProcessContext):
    def __init__(self, processes, error_files):
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Calls fn(i, *args) in `nprocs` processes."""
    context = multiprocessing.get_context(start_method)
    folder = tempfile.TemporaryDirectory(prefix="processes")
    processes, files = [], []
    for i in range(nprocs):
        files.append(f"{folder.name}/{i}")
        open(files[i], "wb").close()
        process = context.Process(target=_run, args=(fn, i, args, files[i]), daemon=daemon)
        process.start()
        processes.append(process)
    whole = ProcessContext(processes, files)
    whole._folder = folder      # removed with the context
    if not join:
        return whole
    while not whole.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:\n\t\t "
            "torch.multiprocessing.start_processes(...)", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
