"""Futures: a value that will be set, callbacks on it, and waiting for several."""
import threading

from . import _facades

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """Set once, by set_result or set_exception; whoever waits gets the value or the exception."""

    def __init__(self, *, devices=None):
        if devices:
            raise NotImplementedError("torch.futures.Future: devices other than the CPU are not there")
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._value = self._error = None
        self._callbacks = []

    def done(self):
        return self._set.is_set()

    def wait(self):
        self._set.wait()
        return self.value()

    def value(self):
        if not self.done():
            raise RuntimeError("Future is not completed: value() needs a future that is done")
        if self._error is not None:
            raise self._error
        return self._value

    def _complete(self, value, error):
        with self._lock:
            if self._set.is_set():
                raise RuntimeError("Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once.")
            self._value, self._error = value, error
            callbacks, self._callbacks = self._callbacks, []
            self._set.set()
        for callback in callbacks:
            callback(self)

    def set_result(self, result):
        self._complete(result, None)

    def set_exception(self, result):
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def add_done_callback(self, callback):
        with self._lock:
            if not self._set.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback):
        """A future of what `callback` makes of this one."""
        after = Future()

        def run(done):
            try:
                result = callback(done)
            except Exception as error:
                after.set_exception(error)
            else:
                after.set_result(result)

        self.add_done_callback(run)
        return after


def collect_all(futures):
    """A future of the list, done when all of them are."""
    futures = list(futures)
    whole, lock, left = Future(), threading.Lock(), len(futures)
    if not futures:
        whole.set_result([])

    def one_more(_):
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            whole.set_result(futures)

    for future in futures:
        future.add_done_callback(one_more)
    return whole


def wait_all(futures):
    return [future.wait() for future in collect_all(futures).wait()]


# ---- fork and wait: work is done at once, and the future holds what came of it -------------------------------------
def fork(func, *args, **kwargs):
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    return future.wait()


_fork, _wait = fork, wait


_facades.settle(__name__)
