"""fork and wait: work is done at once, and the future holds what came of it."""


class Future:
    def __init__(self, value=None):
        self._value = value

    def wait(self):
        return self._value

    def value(self):
        return self._value

    def done(self):
        return True

    def then(self, callback):
        return Future(callback(self))


def fork(func, *args, **kwargs):
    return Future(func(*args, **kwargs))


def wait(future):
    return future.wait()


_fork, _wait = fork, wait
