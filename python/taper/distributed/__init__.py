"""There is no communication between processes in Taper: questions are answered, work is refused."""
import enum
import os


def is_available():
    return False


is_initialized = is_mpi_available = is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = is_available


def is_torchelastic_launched():
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


class ReduceOp(enum.IntEnum):
    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class ProcessGroup:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.distributed.ProcessGroup: Taper does not have it")


class group:
    WORLD = None


class GroupMember:
    WORLD = None
    NON_GROUP_MEMBER = -100


def _missing(name):
    def missing(*args, **kwargs):
        raise NotImplementedError(f"torch.distributed.{name}: Taper does not have it")

    missing.__name__ = missing.__qualname__ = name
    return missing


init_process_group, init_device_mesh, new_group = map(_missing, "init_process_group init_device_mesh new_group".split())


def _no_group(*args, **kwargs):
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


get_rank = get_world_size = get_backend = get_global_rank = get_group_rank = get_process_group_ranks = _no_group
barrier = monitored_barrier = all_reduce = all_gather = all_gather_into_tensor = all_gather_object = all_to_all = _no_group
all_to_all_single = broadcast = broadcast_object_list = gather = gather_object = reduce = reduce_scatter = _no_group
reduce_scatter_tensor = scatter = scatter_object_list = send = recv = isend = irecv = batch_isend_irecv = _no_group


def destroy_process_group(group=None):
    raise AssertionError("Process group cannot be None")
