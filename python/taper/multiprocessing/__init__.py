"""Python's multiprocessing, and spawn. Tensors travel between processes as copies: their memory is not shared."""
import multiprocessing as _python
from multiprocessing import *  # noqa: F403
from multiprocessing import current_process  # noqa: F401

from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes

__all__ = ["set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", "ProcessContext", "ProcessExitedException",
           "ProcessRaisedException", "SpawnContext", "spawn", "start_processes", *_python.__all__]


def _missing(name):
    def missing(*args, **kwargs):
        raise NotImplementedError(f"torch.multiprocessing.{name}: Taper does not share the memory of tensors between processes")

    missing.__name__ = missing.__qualname__ = name
    return missing


set_sharing_strategy, get_sharing_strategy, get_all_sharing_strategies = map(
    _missing, "set_sharing_strategy get_sharing_strategy get_all_sharing_strategies".split())
