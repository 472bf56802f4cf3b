"""hop_db: the higher-order ops with sample inputs. The op table has none of them yet."""


def __getattr__(name):
    if name == "hop_db":
        raise ImportError("hop_db is made from the op table, which does not provide it yet")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
