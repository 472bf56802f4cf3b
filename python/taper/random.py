"""Seeds and states of the default generator."""
import contextlib

from . import _C

default_generator = _C._default_generator()


def manual_seed(seed):
    return default_generator.manual_seed(int(seed))


def seed():
    return default_generator.seed()


def initial_seed():
    return default_generator.initial_seed()


def get_rng_state():
    return default_generator.get_state()


def set_rng_state(new_state):
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Brings the generator back to where it was at the end of the block."""
    if not enabled:
        yield
        return
    if devices:
        raise AssertionError(f"Torch not compiled with {device_type.upper()} enabled")
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
