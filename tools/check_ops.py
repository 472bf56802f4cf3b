"""How much of PyTorch's ops and names is here: `make check-ops` prints counts and every missing one by name.

tests/coverage/overloads.tsv lists ATen overloads by tier (1: everyday and core, 2: other dense ones with a public name, foreach, fused) with
how many programs and tests use each; names.tsv lists public names with their priority and use. Both are observed facts.
"""
import argparse
import collections
import csv
import pathlib
import re

import torch

FACTS = pathlib.Path(__file__).parents[1] / "tests/coverage"
AREAS = ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
# What belongs to sparse, nested and vendors' tensors, which are not planned.
ELSEWHERE = re.compile(r"sparse|nested|mkldnn|nnpack|coalesced|_indices|_values|^values|_nnz|dense_dim|cuda|cudnn")
# Names that programs ask for and PyTorch itself has not: plugins for other devices, a function of another package.
NOWHERE = re.compile(r"torch\.(npu|neuron|sdaa|musa|mlu|hpu|logerfc)$")


def rows(file):
    with open(FACTS / file, newline="") as text:
        return list(csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE))


def has_overload(name):
    packet, overload = name.rsplit(".", 1)
    return hasattr(getattr(torch.ops.aten, packet, None), overload)


def has_name(path):
    place = torch
    for word in path.split(".")[1:]:
        try:
            place = getattr(place, word)
        except (AttributeError, ImportError, NotImplementedError):
            return False
    return True


class Count:
    def __init__(self):
        self.there, self.all, self.missing = 0, 0, []

    def add(self, name, there, weight=1):
        self.there += weight if there else 0
        self.all += weight
        if not there:
            self.missing.append((weight, name))

    def __str__(self):
        return f"{self.there:6} of {self.all:6}   {100 * self.there / max(self.all, 1):5.1f} %"


def overloads():
    counts = collections.defaultdict(Count)
    for row in rows("overloads.tsv"):
        there = has_overload(row["overload"])
        counts[f"overloads, tier {row['tier']}" if row["tier"] in "12" else f"overloads, {row['tier']}", row["form"]].add(row["overload"], there)
        if int(row["programs"]) and not ELSEWHERE.search(row["overload"]):
            counts["overloads that programs use", ""].add(row["overload"], there)
    return counts


def names():
    counts = collections.defaultdict(Count)
    for row in rows("names.tsv"):
        path, used = row["name"], int(row["programs"])
        if not path.startswith("torch.") or path.rsplit(".", 1)[0] not in AREAS or ELSEWHERE.search(path) or NOWHERE.match(path):
            continue
        there = has_name(path)
        if row["kind"] in ("function", "method", "property") and row["priority"] in "12":
            counts[f"public names, priority {row['priority']}", ""].add(path, there)
        if used:
            counts["public names, by programs that use them", ""].add(path, there, used)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brief", action="store_true", help="counts only")
    brief = parser.parse_args().brief
    for (what, form), count in sorted({**overloads(), **names()}.items()):
        print(f"{what + (', out=' if form else ''):42}{count}")
        if count.missing and not brief:
            print("    " + " ".join(name for _, name in sorted(count.missing, key=lambda m: (-m[0], m[1]))))


main()
