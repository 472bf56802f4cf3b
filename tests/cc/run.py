"""The C of programs beside the programs themselves: `python -m taper run.py [--share S] [--seed N] [--programs N] [--compiler CC] [--options …]`.

Every sample of the op table, alone, in place and through views; element-wise ops on hostile elements; writes, aliases and modules of
programs.py; random programs. A share takes as much of each, chosen by the seed. Prints how many were the same, refused by the writer,
refused by the eager call, and wrong; ends with 1 when any was wrong.
"""
import argparse
import collections
import random
import sys
import tempfile
import time
import warnings

import batch
import grown
import programs
import rows


def chosen(cases, share, seed):
    """A share of the cases, in order."""
    rng = random.Random(seed)
    return [case for case in cases if share >= 1 or rng.random() < share]


def by_way(way, cases):
    return [case._replace(way=way) for case in cases]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--options", nargs="*", default=["-O1"])
    parser.add_argument("--refusals", type=int, default=0, help="how many of the commonest reasons are listed")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    count = int(given.programs * min(given.share, 1))
    groups = {
        "op table": chosen(rows.rows(), given.share, given.seed),
        "writes and aliases": chosen(programs.snippets(), given.share * 4, given.seed),
        "modules": chosen(programs.modules(), given.share * 4, given.seed),
        "random programs": grown.programs(given.seed, count),
        "graphs that write": by_way("graph", [
            *chosen((case for case in rows.rows() if case.name.endswith(("in place", "view", "out"))), given.share * 0.3, given.seed),
            *chosen(programs.snippets(), given.share * 4, given.seed), *grown.programs(given.seed + count, count // 4)]),
        "exported programs": by_way("exported", [
            *chosen([*programs.snippets(), *programs.modules()], given.share * 4, given.seed), *grown.programs(given.seed + 2 * count, count // 4)]),
    }
    wrong, reasons = 0, collections.Counter()

    def report(case, outcome, reason):
        if outcome == "wrong":
            print(f"{case.name}: {reason}", flush=True)
        elif outcome == "refused":
            reasons[reason.split("\n")[0][:100]] += 1

    for name, cases in groups.items():
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            counts = batch.check(cases, folder, given.compiler, ["-" + o.lstrip("-") for o in given.options], report=report)
        wrong += counts["wrong"]
        print(f"{name}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in batch.OUTCOMES) + f" ({time.monotonic() - start:.0f} s)", flush=True)
    for reason, count in reasons.most_common(given.refusals):
        print(f"{count:6} {reason}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
