"""make fuzz: runs every fuzz program of the build for some seconds each.

    python tools/fuzz.py --build build [--seconds 20] [--seed N]
"""
import argparse
import pathlib
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    failed = 0
    programs = sorted(p for p in (options.build / "src").glob("fuzz-*") if p.is_file())
    for program in programs:
        done = subprocess.run([str(program), str(options.seconds), str(options.seed)], capture_output=True, text=True,
                              timeout=options.seconds * 3 + 60)
        print(f"{program.name}: {done.stdout.strip()}{'' if done.returncode == 0 else f', stopped by {done.returncode}, seed {options.seed}'}")
        failed += done.returncode != 0
    print(f"{len(programs) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
