"""The device that is always there. It has one stream, so that everything here is done when it is asked for."""
import contextlib

from . import amp

__all__ = [
    "is_available", "is_initialized", "synchronize", "current_device", "current_stream", "stream", "set_device", "device_count", "Stream",
    "StreamContext", "Event",
]


def is_available():
    return True


is_initialized = is_available


def synchronize(device=None):
    pass


def set_device(device):
    pass


def current_device():
    return "cpu"


def device_count():
    return 1


class Stream:
    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self):
        pass

    def wait_event(self, event):
        pass


class Event:
    def query(self):
        return True

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass


_default_stream = _current_stream = Stream()


def current_stream(device=None):
    return _current_stream


class StreamContext(contextlib.AbstractContextManager):
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current_stream
        if self.stream is not None:
            self._before, _current_stream = _current_stream, self.stream

    def __exit__(self, *error):
        global _current_stream
        if self.stream is not None:
            _current_stream = self._before


def stream(stream):
    return StreamContext(stream)
