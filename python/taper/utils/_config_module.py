"""Settings as attributes of a module, and `patch` to change some for a while."""
import contextlib


class _Patch(contextlib.ContextDecorator):
    def __init__(self, module, changes):
        self.module, self.changes, self.saved = module, changes, []

    def _recreate_cm(self):
        return _Patch(self.module, self.changes)

    def __enter__(self):
        for name in self.changes:
            if not hasattr(self.module, name):
                raise AttributeError(f"{self.module.__name__}.{name} does not exist")
        self.saved.append({name: getattr(self.module, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.module, name, value)

    def __exit__(self, *_):
        for name, value in self.saved.pop().items():
            setattr(self.module, name, value)


def install_config_module(module):
    """Gives the module `patch("name", value)`, `patch({"name": value})`, `patch(name=value)`: decorator and context manager."""
    def patch(arg1=None, arg2=None, **changes):
        if isinstance(arg1, dict):
            changes.update(arg1)
        elif arg1 is not None:
            changes[arg1] = arg2
        return _Patch(module, changes)

    module.patch = patch


__all__ = ["install_config_module"]
