"""fork and wait: work is done at once, and the future holds what came of it."""
from ..futures import Future


def fork(func, *args, **kwargs):
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    return future.wait()


_fork, _wait = fork, wait
