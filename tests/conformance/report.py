"""What a run says: lines on the terminal, and the page docs/conformance.md."""
import collections
import os

ORDER = ["pass", "fail", "error", "crash", "timeout", "skip", "xfail", "notrun"]
TITLE = """# Conformance
PyTorch's own test files, unmodified, run on Taper. Written by `tests/conformance/run.py --update`; the tests that pass
are listed in `tests/conformance/passing/` and must go on passing.

A test counts once for each of its instances (devices, parameters, ops). "Base tests" are the methods as the file spells
them: one passes when some instance passes and no other fails. A file that does not import as it is gets loaded without
the names it lacks, and the tests that need them fail.
"""
HEAD = ["file", "imports", "base tests", "of these pass", "instances"] + ORDER


def counts(record):
    return collections.Counter(test["outcome"] for test in record["instances"].values())


def bases(record):
    """Outcome of each base test: its worst instance's, where skip, xfail and notrun do no harm beside a pass."""
    groups = collections.defaultdict(set)
    for test in record["instances"].values():
        groups[test["base"]].add(test["outcome"])
    rank = ["crash", "timeout", "error", "fail", "pass", "xfail", "skip", "notrun"]
    return {base: min(outcomes, key=rank.index) for base, outcomes in groups.items()}


def lines(record):
    count, base = counts(record), collections.Counter(bases(record).values())
    yield f"{record['file']}: {count['pass']} of {sum(count.values())} instances pass ({cells(count)})"
    yield f"{'':4}{base['pass']} of {sum(base.values())} base tests pass ({cells(base)})"
    if record["import_error"]:
        yield f"{'':4}does not import: {record['import_error']}"
    elif record["strict_error"]:
        yield f"{'':4}imports leniently, {len(record['missing'])} names missing; as it is: {record['strict_error']}"


def cells(count):
    return ", ".join(f"{outcome} {count[outcome]}" for outcome in ORDER if count[outcome])


def closing(records):
    """The last line, for a machine to read. Failing as expected counts as passing, as unittest has it."""
    total = sum((counts(record) for record in records), collections.Counter())
    failed = total["fail"] + total["error"] + total["crash"] + total["timeout"]
    return f"{total['pass'] + total['xfail']} passed, {failed} failed, {total['skip'] + total['notrun']} skipped"


def row(record):
    count, base = counts(record), bases(record)
    lenient = f"lacks {len(record['missing'])} names" if record["strict_error"] else "yes"
    imports = "no" if record["import_error"] else lenient
    passing = sum(outcome == "pass" for outcome in base.values())
    return [record["file"], imports, len(base), passing, sum(count.values())] + [count[outcome] for outcome in ORDER]


def write_page(path, records):
    """Rewrite the table, keeping the rows of files that were not run and the sections below it. No dates: same results, same page."""
    rows, below = {}, ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as page:
            text = page.read()
        table = [line.strip("|\n ").split(" | ") for line in text.splitlines() if line.startswith("| test_")]
        rows = {cells[0]: cells for cells in table if len(cells) == len(HEAD)}
        below = text[text.index("\n## "):] if "\n## " in text else ""
    rows.update((record["file"], row(record)) for record in records)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as page:
        page.write(TITLE + "\n")
        for cells in [HEAD, ["---"] * len(HEAD)] + [rows[file] for file in sorted(rows)]:
            page.write("| " + " | ".join(map(str, cells)) + " |\n")
        page.write(below)
