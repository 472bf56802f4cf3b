"""What the scripts here share: they say what happens, and what they say under PyTorch is kept beside them."""
import re
import warnings

warnings.simplefilter("always")


def clean(text):
    """Without addresses, paths and the name of the package."""
    text = re.sub(r"0x[0-9a-f]+", "0x", str(text)).replace("taper", "torch")
    return re.sub(r"<eval_with_key>\.\d+", "<eval_with_key>", re.sub(r"/[^ \"]*/", "", text))


def say(*values):
    print(*(clean(value) for value in values))


def _show(message, category, filename, lineno, file=None, line=None):
    say("  warns", category.__name__, message)


warnings.showwarning = _show


def attempt(f, *args, **kwargs):
    try:
        say("  gives", repr(f(*args, **kwargs)))
    except BaseException as error:
        say("  raises", type(error).__name__, error)


def case(f):
    print("==", f.__name__)
    try:
        f()
    except BaseException as error:
        say("  raises", type(error).__name__, error)
