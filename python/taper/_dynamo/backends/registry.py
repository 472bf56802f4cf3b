"""Back ends by name."""
import functools

_backends = {}
_debug = set()


def register_backend(compiler_fn=None, name=None, tags=()):
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    _backends[name] = compiler_fn
    if set(tags) & {"debug", "experimental"}:
        _debug.add(name)
    return compiler_fn


def lookup_backend(compiler_fn):
    if not isinstance(compiler_fn, str):
        return compiler_fn
    from . import own  # noqa: F401  (the built-in ones)

    if compiler_fn not in _backends:
        from ..exc import InvalidBackend

        raise InvalidBackend(name=compiler_fn)
    return _backends[compiler_fn]


def list_backends(exclude_tags=("debug", "experimental")):
    from . import own  # noqa: F401

    return sorted(name for name in _backends if not exclude_tags or name not in _debug)
