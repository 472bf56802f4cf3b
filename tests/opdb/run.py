"""PyTorch's own op_db on Taper: every sample of every float32 entry through the public names, with gradients.

    run.py --oracle PYTHON [--share 0.1] [--only REGEX] [--folder DIR] [--report]

An entry is covered when all its samples (or those of the seeded share) agree. `covered.txt` is the ratchet: an entry that
stands there and fails makes the run fail; --report adds to it, prints what is missing and writes docs/conformance.md's section.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
COVERED = HERE / "covered.txt"
PAGE = HERE.parents[1] / "docs/conformance.md"


def ask(oracle, folder, share, only, *wide):
    subprocess.run([oracle, HERE / "ask.py", folder, str(share), only, *wide], check=True, stderr=subprocess.DEVNULL)


def answers(folder, names):
    """Rows of all entries; a process that dies or hangs costs the entry it was at, and the next one goes on."""
    while names:
        done = 0
        command = [sys.executable, "-m", "taper", HERE / "answer.py", folder, *names]
        with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            for line in process.stdout:
                done += 1
                yield json.loads(line)
            status = process.wait()
            if done < len(names):
                errors.seek(0)
                yield {"name": names[done], "asked": 1, "passed": 0, "faults": [f"the process ended with {status}: {errors.read()[-300:]}"]}
        names = names[done + 1:]


def compare(options, folder):
    if not any(folder.glob("*.answers")):
        ask(options.oracle, folder, options.share, options.only)
    names = sorted(path.name[:-len(".answers")] for path in folder.glob("*.answers"))
    rows = list(answers(folder, [n for n in names if re.search(options.only, n)]))
    unlike = [row["name"] for row in rows if row["passed"] < row["asked"]]
    if unlike:                          # double precision is the judge
        ask(options.oracle, folder, options.share, "", *unlike)
        judged = {row["name"]: row for row in answers(folder, unlike)}
        rows = [judged.get(row["name"], row) for row in rows]
    whole = {row["name"] for row in rows if 0 < row["asked"] == row["passed"]}
    known = set(COVERED.read_text().split()) if COVERED.exists() else set()
    lost = sorted(known & {row["name"] for row in rows} - whole)
    for row in rows:
        if row["name"] in lost or (options.report and row["name"] not in whole) or options.only:
            print(f"{row['name']}: {row['passed']} of {row['asked']}", *row["faults"], sep="\n    ")
    asked, passed = (sum(row[key] for row in rows) for key in ("asked", "passed"))
    print(f"op_db: {len(whole)} of {len(rows)} entries covered, {passed} of {asked} samples agree")
    if options.report and not options.only:
        COVERED.write_text("".join(f"{name}\n" for name in sorted(known | whole)))
        write_section(rows, whole, asked, passed)
    if lost:
        print(f"op_db: no longer covered: {' '.join(lost)}")
    print(f"{len(whole - set(lost))} passed, {len(lost)} failed")
    return 1 if lost else 0


def write_section(rows, whole, asked, passed):
    lacking = [f"{row['name']} ({row['passed']} of {row['asked']})" for row in rows if row["asked"] and row["name"] not in whole]
    empty = [row["name"] for row in rows if not row["asked"]]
    text = PAGE.read_text().split("\n## op_db")[0].rstrip()
    PAGE.write_text(f"""{text}

## op_db
PyTorch 2.13's own samples of every float32 entry, through the public names, values and gradients; written by `make test-ops` on {datetime.date.today()}:
{len(whole)} of {len(rows)} entries covered, {passed} of {asked} samples agree.

Not covered: {', '.join(lacking) or 'none'}. No sample fits the public name of: {', '.join(empty) or 'none'}.
""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return compare(options, options.folder or pathlib.Path(scratch))


sys.exit(main())
