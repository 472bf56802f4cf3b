"""Options of PyTorch's that Taper takes and does not act on: where that would change a result they are refused, where it changes only speed,
memory or what is printed, the program is told once."""
import warnings

_told = set()


def refuse(function, **options):
    """refuse("f", x=(x, None)): an option whose value is not its default raises. Called before `f` has an effect."""
    for name, (given, default) in options.items():
        if given is not default and not (isinstance(given, (bool, int, str, tuple, list)) and given == default):
            raise NotImplementedError(f"{function}({name}={given!r}): Taper does not have this option yet")


def warn_once(text, stacklevel=3):
    if text not in _told:
        _told.add(text)
        warnings.warn(text, stacklevel=stacklevel)


def tell_once(function, what, **options):
    """The same for an option whose neglect leaves results alone: a warning, once for each option. `what` says what stays as it is."""
    for name, (given, default) in options.items():
        if given is not default:
            warn_once(f"{function}({name}=) changes nothing in Taper yet: {what}", stacklevel=4)
