"""There is no MPS in Taper: questions are answered, work is refused."""


def is_available():
    return False


def device_count():
    return 0


def manual_seed(seed):
    pass


def _refuser(what):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"Cannot execute {what}() without MPS backend.")

    return refuse


synchronize = _refuser("deviceSynchronize")
empty_cache = _refuser("emptyCache")
current_allocated_memory = _refuser("getCurrentAllocatedMemory")
driver_allocated_memory = _refuser("getDriverAllocatedMemory")
recommended_max_memory = _refuser("getRecommendedMaxMemory")
seed = get_rng_state = set_rng_state = _refuser("getDefaultGenerator")
set_per_process_memory_fraction = _refuser("setMemoryFraction")
