#!/usr/bin/env python3
"""Run PyTorch's own test files, unmodified, on Taper or, as a control, on PyTorch.

    python tests/conformance/run.py --python PYTHON [--provider taper|torch] [--seeds DIR] [--only PATTERN]
                                    [--update] [--json FILE] [FILE...]

FILE is the name of a test file in DIR, or the path of one; without any, all that places.py lists. On Taper the run
fails when a test listed under passing/ does not pass any more; --update adds the tests that newly pass and rewrites
docs/conformance.md. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import concurrent.futures
import json
import os
import sys

import places
import pool
import ratchet
import report


def options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--provider", choices=sorted(pool.PROVIDERS), default="taper")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the provider")
    parser.add_argument("--prefix", help="how to start a script under the provider, instead of the built-in way")
    parser.add_argument("--seeds", default=os.environ.get("SEEDS", ""), help="folder of the test files, or a checkout")
    parser.add_argument("--only", help="run only the instances whose name matches this regular expression")
    parser.add_argument("--no-opdb", action="store_true", help="leave out tests that run for each op or module")
    parser.add_argument("--update", action="store_true", help="add newly passing tests to the lists, rewrite the page")
    parser.add_argument("--json", metavar="FILE", help="where to write every outcome")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="files run at a time")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a test")
    parser.add_argument("--import-timeout", type=float, default=180, help="seconds for importing a file")
    parser.add_argument("--exit-timeout", type=float, default=5, help="seconds for a worker's exit before it is killed")
    parser.add_argument("--chunk", type=int, default=100, help="a fresh worker after this many tests")
    parser.add_argument("--passing", default=places.PASSING, help="the folder of the lists of passing tests")
    parser.add_argument("--page", default=places.PAGE, help="the page that --update writes")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


def find_files(args):
    """(paths, names not found)"""
    found = {name: places.find(args.seeds, name) for name in args.files or places.FILES}
    return [path for path in found.values() if path], [name for name, path in found.items() if not path]


def absent(names, seeds):
    """Without the files there is nothing to say, which only a machine that must have them takes for a failure."""
    print(f"conformance: skipped: {', '.join(names)} not found in {seeds or 'SEEDS, which is not set'}")
    print("0 passed, 0 failed, 0 skipped")
    return 1 if os.environ.get("CI") == "true" else 0


def judge(args, records):
    """Hold the records against the lists; returns the number of regressions."""
    lost = 0
    for record in records:
        for name, why in ratchet.regressions(record, args.only, args.passing):
            print(f"REGRESSION {record['file']}: {name}: {why}")
            lost += 1
        if args.update:
            added = ratchet.update(record, args.passing)
            print(f"{record['file']}: {len(added)} newly passing")
    if args.update and not args.only:
        report.write_page(args.page, records)
    return lost


def main(arguments=None):
    args = options(arguments)
    paths, missing = find_files(args)
    if missing and (not paths or args.files or os.environ.get("CI") == "true"):
        return absent(missing, args.seeds)
    if missing:
        print(f"conformance: not found in {args.seeds}, left out: {', '.join(missing)}")
    records = []
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as executor:
        for record in executor.map(lambda path: pool.FileRun(path, args).run(), paths):
            records.append(record)
            print("\n".join(report.lines(record)), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(records, out, indent=1)
    lost = judge(args, records) if args.provider == "taper" else 0
    print(report.closing(records))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
