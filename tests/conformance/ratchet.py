"""The lists of tests that pass, which only grow.

passing/FILE.txt has a line `FILE: Class.method` for each instance that passes, and `FILE: import` once the file imports
as it is. A listed line that no longer holds is a regression.
"""
import os
import re

import places


def list_path(file, folder=places.PASSING):
    return os.path.join(folder, os.path.splitext(file)[0] + ".txt")


def read(file, folder=places.PASSING):
    path = list_path(file, folder)
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as lines:
        return {line.strip().split(": ", 1)[1] for line in lines if line.strip()}


def achieved(record):
    names = {name for name, test in record["instances"].items() if test["outcome"] == "pass"}
    return names if record["strict_error"] else names | {"import"}


def regressions(record, only=None, folder=places.PASSING):
    """Listed lines that do not hold, with the reason. Of tests left out by --only or --no-opdb nothing is known."""
    lost = []
    for name in sorted(read(record["file"], folder) - achieved(record)):
        test = record["instances"].get(name)
        if name == "import":
            lost.append((name, record["strict_error"]))
        elif test is None and not (only and not re.search(only, name)):
            lost.append((name, "the test was not collected"))
        elif test is not None and test["outcome"] != "notrun":
            lost.append((name, f"{test['outcome']}: {test['detail']}"))
    return lost


def update(record, folder=places.PASSING):
    """Add what passes now; returns the lines added."""
    listed = read(record["file"], folder)
    added = sorted(achieved(record) - listed)
    if added:
        os.makedirs(folder, exist_ok=True)
        with open(list_path(record["file"], folder), "w", encoding="utf-8") as out:
            out.writelines(f"{record['file']}: {name}\n" for name in sorted(listed | set(added)))
    return added
