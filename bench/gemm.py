"""make bench-gemm: our products of matrices beside the better of LIBXSMM and oneDNN, as ratios.

    python bench/gemm.py PROGRAM [--rounds 5]

PROGRAM is bench/gemm.c, compiled with what there is of the two libraries. Each round runs every library once, in turn and in a
process of its own, so that a disturbance meets all; medians of the rounds are compared. Above 1: the others take longer.
"""
import argparse
import os
import statistics
import subprocess

OTHERS = ("onednn", "onednn_sgemm", "libxsmm")
INSTALL = {"onednn": "pip install onednn-cpu-gomp onednn-devel-cpu-gomp (requirements/gemm.txt)", "libxsmm": "apt-get install libxsmm-dev"}


def run(program, library, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run([program, library, str(threads)], env=environment, text=True, capture_output=True, check=True)
    return {name: float(seconds) for name, seconds in map(str.split, done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for threads in (1, 2):
        rounds = [{library: run(options.program, library, threads) for library in ("taper", *OTHERS)} for _ in range(options.rounds)]
        print(f"\nf32, {threads} thread(s), microseconds{'taper':>14}" + "".join(f"{name:>14}" for name in OTHERS) + f"{'ratio':>8}")
        for shape in rounds[0]["taper"]:
            medians = {library: statistics.median(r[library][shape] for r in rounds) * 1e6 for library in rounds[0] if shape in rounds[0][library]}
            others = [medians[name] for name in OTHERS if name in medians]
            ratio = f"{min(others) / medians['taper']:8.2f}" if others else f"{'-':>8}"
            print(f"  {shape:<32}" + "".join(f"{medians[name]:14.1f}" if name in medians else f"{'-':>14}" for name in ("taper", *OTHERS)) + ratio)
    for library, words in INSTALL.items():
        if not rounds[0][library]:
            print(f"{library} was not found when the program was compiled: {words}")


if __name__ == "__main__":
    main()
