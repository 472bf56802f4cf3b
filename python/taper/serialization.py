"""save and load: the checkpoint format is not there yet."""


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    raise NotImplementedError("save() is not implemented in Taper yet")


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    raise NotImplementedError("load() is not implemented in Taper yet")
