"""The difference between two values, and the text that tells of it."""
from ._torch import torch


class Mismatch(Exception):
    """Two values differ. `path` leads to them through the containers compared: (1, "a") for x[1]["a"]."""

    def __init__(self, text, path=(), kind=AssertionError):
        super().__init__(text)
        self.text, self.path, self.kind = text, path, kind

    def to_error(self, msg):
        """The exception for the user; `msg` may replace the text or be a function of it."""
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.path)}"
        return self.kind(msg(text) if callable(msg) else msg or text)


def headline(what, rtol, atol):
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def allowed(tolerance, rtol, atol):
    return "" if rtol == 0 and atol == 0 else f" (up to {tolerance} allowed)"


def of_numbers(actual, expected, rtol, atol, what="Scalars"):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return (headline(what, rtol, atol) + f"Expected {expected} but got {actual}.\n"
            f"Absolute difference: {absolute}{allowed(atol, rtol, atol)}\n"
            f"Relative difference: {relative}{allowed(rtol, rtol, atol)}")


def of_tensors(actual, expected, matches, rtol, atol, what="Tensor-likes"):
    """Count of the elements that differ, and where the absolute and the relative difference are greatest."""
    shape = matches.shape
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    actual, expected, matches = (t.detach().flatten() for t in (actual, expected, matches))
    total, wrong = matches.numel(), int((~matches).sum())
    absolute = torch.abs(actual - expected)
    absolute[matches] = 0
    relative = absolute / torch.abs(expected)
    relative[matches] = 0
    lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
    for name, difference, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        place = int(torch.argmax(difference))
        lines.append(f"Greatest {name} difference: {difference[place].item()} at index {index_of(place, shape)}"
                     + allowed(tolerance, rtol, atol))
    return headline(what, rtol, atol) + "\n".join(lines)


def index_of(place, shape):
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))
