"""FileCheck: does a text contain these pieces, in this order?

Checks are applied from left to right, each from the end of the match before it. Those that say "not" look at the text
between their neighbours' matches. Consecutive check_dag may match in any order, and together count as one match.
"""
import re

CONTEXT = 2                                 # lines shown before and after a place in the text
SPECIAL = re.compile(r"CHECK(-COUNT-EXACTLY-(\d+)|-COUNT-(\d+)|-NEXT|-SAME|-NOT|-DAG|-REGEX)?: (.*)")


class Check:
    def __init__(self, kind, text, count=1):
        self.kind, self.text, self.count = kind, text, count

    def __str__(self):
        count = f"-{self.count}" if self.kind == "CHECK-COUNT" else ""
        return f"{self.kind}{count}: {self.text}"


def show(text, start, end):
    """The lines around text[start:end], the piece underlined where it lies within a line."""
    lines, places, place = text.split("\n"), [], 0
    for line in lines:
        places.append(place)
        place += len(line) + 1
    line_of = lambda at: max(n for n, first in enumerate(places) if first <= at)
    if not lines[-1]:
        lines.pop()                                     # what follows the last newline has a place, but is not shown
    first, last = line_of(start), line_of(end)
    shown = []
    for number in range(max(0, first - CONTEXT), min(len(lines), max(last + CONTEXT, first) + 1)):
        shown.append(lines[number])
        left, right = max(start - places[number], 0), min(end - places[number], len(lines[number]))
        if first <= number <= last and left < right:
            shown.append(" " * left + "~" * (right - left) + " <--- HERE")
    return "".join(line + "\n" for line in shown)


def find(check, text, start, end=None):
    """Where check's piece lies in text[start:end], as (start, end)."""
    if check.kind == "CHECK-REGEX":
        match = re.compile(check.text).search(text, start)
        if match is None:
            raise RuntimeError(f'Expected to find regex "{check.text}" but did not find it\nSearched string:\n'
                               + show(text, start, start) * bool(start) + f"From {check}\n")
        return match.span()
    place = text.find(check.text, start, len(text) if end is None else end)
    if place < 0:
        # PyTorch underlines as many characters as the piece has, counted from the start of the text.
        raise RuntimeError(f'Expected to find "{check.text}" but did not find it\nSearched string:\n'
                           + show(text, start, len(check.text)) + f"From {check}\n")
    return place, place + len(check.text)


def forbid(check, piece, text, start, end):
    place = text.find(piece, start, end)
    if place >= 0:
        raw = piece.replace("\n", "\\n")
        raise RuntimeError(f'Expected to not find "{raw}" but found it\n'
                           + show(text, place, place + len(piece)) + f"From {check}\n")


def match(check, text, start):
    """The span of one positive check, looked for from `start`."""
    if check.kind == "CHECK-COUNT":
        first, end = find(check, text, start)
        for _ in range(check.count - 1):
            _, end = find(check, text, end)
        return first, end
    if check.kind == "CHECK-SAME":
        span = find(check, text, start)
        forbid(check, "\n", text, start, span[0])
        return span
    if check.kind == "CHECK-NEXT":
        _, line = find(Check(check.kind, "\n"), text, start)
        span = find(check, text, line)
        forbid(check, "\n", text, line, span[0])
        return span
    return find(check, text, start)


class FileCheck:
    def __init__(self):
        self._checks = []

    def _add(self, kind, text, count=1):
        self._checks.append(Check(kind, text, count))
        return self

    def check(self, text):
        """`text` occurs after the match before."""
        return self._add("CHECK", text)

    def check_not(self, text):
        """`text` does not occur between the matches of the checks before and after."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text):
        """`text` occurs on the line of the match before."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text):
        """`text` occurs on the line after that of the match before."""
        return self._add("CHECK-NEXT", text)

    def check_count(self, text, count, exactly=False):
        """`text` occurs `count` times in a row, and with `exactly` not once more before the next match."""
        if count == 0 and not exactly:
            raise RuntimeError("Count == 0 && !exactly doesn't do anything")
        if count:
            self._add("CHECK-COUNT", text, count)
        return self._add("CHECK-NOT", text) if exactly else self

    def check_dag(self, text):
        """`text` occurs, in any order with the check_dag calls beside this one."""
        return self._add("CHECK-DAG", text)

    def check_regex(self, pattern):
        return self._add("CHECK-REGEX", pattern)

    def run(self, *texts):
        """run(text), or run(checks, text) where `checks` has lines such as `# CHECK-NEXT: piece`. A graph stands for
        its text."""
        if len(texts) == 2:
            self._read(texts[0])
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance ofFilecheck! Check for bad input.")
        text, start, forbidden, place = str(texts[-1]), 0, [], 0
        while place < len(self._checks):
            group = self._group(place)
            place += len(group)
            if group[0].kind == "CHECK-NOT":
                forbidden += group
                continue
            spans = [match(check, text, start) for check in group]
            for check in forbidden:
                forbid(check, check.text, text, start, min(first for first, _ in spans))
            start, forbidden = max(end for _, end in spans), []
        for check in forbidden:
            forbid(check, check.text, text, start, len(text))

    def _group(self, place):
        """The checks from `place` that are judged together: a run of check_dag, else one."""
        end = place + 1
        if self._checks[place].kind == "CHECK-DAG":
            while end < len(self._checks) and self._checks[end].kind == "CHECK-DAG":
                end += 1
        return self._checks[place:end]

    def _read(self, text):
        for line in text.split("\n"):
            if "CHECK" not in line:
                continue
            found = SPECIAL.search(line)
            if found is None:
                raise RuntimeError(f"Could not parse check at:\n{line}\nCheck for bad input.")
            kind, exactly, count, piece = found.groups()
            if exactly or count:
                self.check_count(piece, int(exactly or count), exactly=bool(exactly))
            else:
                self._add("CHECK" + (kind or ""), piece)
