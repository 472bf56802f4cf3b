"""make bench: Taper and PyTorch side by side in one run, as ratios.

    python bench/bench.py --torch PYTHON_WITH_TORCH [--only GROUP] [--threads 1] [--rounds 3] [--json FILE]

Each group runs in a process of its own, the two libraries in turn, so that a disturbance meets both; the best of all
rounds counts. A ratio above 1 means that PyTorch takes longer.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = ("startup", "overhead", "throughput", "graphs", "captures")


def run(name, command, group, threads):
    environment = dict(os.environ, BENCH_THREADS=str(threads), OMP_NUM_THREADS=str(threads), BENCH_MODULE=name)
    if group == "startup":              # the import itself is measured: nothing may load the package before
        command = command[:1]
    done = subprocess.run([*command, os.path.join(HERE, "measures.py"), group], env=environment, text=True, capture_output=True)
    rows = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    if done.returncode:
        print(f"{group}: {' '.join(command)} stopped: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True)
    parser.add_argument("--only")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    providers = {"taper": [sys.executable, "-m", "taper"], "torch": [options.torch]}
    results = {}
    for group in GROUPS:
        if options.only not in (None, group):
            continue
        best = {name: {} for name in providers}
        for _ in range(options.rounds):
            for name, command in providers.items():
                for metric, value in run(name, command, group, options.threads).items():
                    best[name][metric] = min(value, best[name].get(metric, value))
        print(f"\n{group}, {options.threads} thread(s){'':>{40 - len(group)}}{'taper':>12}{'torch':>12}{'torch/taper':>13}")
        for metric in {**best["torch"], **best["taper"]}:
            both = [best[name].get(metric) for name in ("taper", "torch")]
            shown = "".join(f"{value:12.3f}" if value else f"{'-':>12}" for value in both)
            print(f"  {metric:<50}{shown}{both[1] / both[0] if all(both) else float('nan'):13.2f}")
        results[group] = best
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
