"""make check: what eyes tire of. Layers, headers, symbols, globals and line counts, each a function that lists faults.

    python tools/check.py --build build
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

import unused_arguments

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Lowest layer first: a file includes its own folder and those before it. docs/architecture.md has the same list.
LAYERS = ["base", "format", "sym", "tensor", "tile", "ops", "kernels", "grad", "ir", "pass", "trace", "aot", "fuse", "export",
          "jit", "gen", "cli", "python"]

# Mutable data the build may have: the two structs of state; in the extension also what tools/writable.txt lists.
STATE = {"tp_the_runtime", "tp_self"}


def sources(*endings):
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "include"], cwd=ROOT, text=True,
                           capture_output=True, check=True).stdout.split()
    return [ROOT / f for f in files if f.endswith(endings) and (ROOT / f).exists()]


def layer_of(path):
    return path.relative_to(ROOT / "src").parts[0] if path.is_relative_to(ROOT / "src") else "include"


def includes_point_down():
    for path in sources(".c", ".h", ".inc"):
        own = layer_of(path)
        if own == "include":                            # the public face includes nothing of ours
            continue
        if own not in LAYERS:
            yield f"{path}: folder {own} is not in the list of layers"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include "([^"/]+)/', line)
            declares_only = '"gen/ops.h"' in line       # names of ops, defined above: the one way up
            if found and found[1] in LAYERS and LAYERS.index(found[1]) > LAYERS.index(own) and not declares_only:
                yield f"{path}:{number}: {own} includes {found[1]}, which is above it"
            if own != "python" and re.search(r"#\s*include\s*[<\"]Python\.h", line):
                yield f"{path}:{number}: Python.h outside src/python"


def compile_header(args):
    path, flags = args
    text = f'#include "{path}"\n'
    done = subprocess.run(["cc", "-std=c17", "-fsyntax-only", "-Wall", "-Wextra", f"-I{ROOT}/src", *flags, "-x", "c", "-"],
                          input=text, text=True, capture_output=True)
    return f"{path}: does not compile alone\n{done.stderr[:400]}" if done.returncode else None


def headers_compile_alone(build):
    python = subprocess.run([sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True,
                            capture_output=True).stdout.strip()
    jobs = [(h, [f"-I{build}/src", f"-I{python}"] if layer_of(h) == "python" else [f"-I{build}/src"])
            for h in sources(".h") if "/isa/" not in str(h)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from filter(None, pool.map(compile_header, jobs))


def exported_symbols(build):
    for library in [*build.glob("src/libtaper.so"), *build.glob("python/**/_C*.so")]:
        listing = subprocess.run(["nm", "-D", "--defined-only", str(library)], text=True, capture_output=True).stdout
        for line in listing.splitlines():
            name = line.split()[-1]
            if not name.startswith(("tp_", "PyInit_")):
                yield f"{library.name} exports {name}"


def writable_globals(build):
    """Data of our own objects that is neither constant nor one of the two structs of state."""
    lines = (ROOT / "tools/writable.txt").read_text().splitlines()
    extension = re.compile("|".join(f"(?:{line})" for line in lines if line and not line.startswith("#")))
    for obj in [*build.glob("src/**/*.o"), *build.glob("python/**/*.o")]:
        if "taper-test" in str(obj) or "bench-" in str(obj):
            continue
        listing = subprocess.run(["objdump", "-t", str(obj)], text=True, capture_output=True).stdout
        for line in listing.splitlines():
            # address, flags, section, size, name; constants that hold addresses are in .data.rel.ro
            found = re.match(r"[0-9a-f]+ ....... +(\S+)\t[0-9a-f]+ +(?:\.hidden )?(\S+)$", line)
            if not found or not re.match(r"\.(data|bss|tdata|tbss)|\*COM\*", found[1]) or found[1].startswith(".data.rel.ro"):
                continue
            name = found[2].split(".")[0]
            listed = "src_python" in obj.name and extension.fullmatch(name)
            if name and name not in STATE and not listed and found[2] != found[1]:
                yield f"{obj.name}: {found[2]} in {found[1]} is a mutable global"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    faults = 0
    for title, found in (("includes point downwards", includes_point_down()),
                         ("headers compile alone", headers_compile_alone(build)),
                         ("exported symbols begin with tp_", exported_symbols(build)),
                         ("no mutable global outside tp_runtime and tp_thread", writable_globals(build)),
                         ("no option is accepted and ignored", unused_arguments.unexplained())):
        lines = list(found)
        print(f"{'ok  ' if not lines else 'FAIL'} {title}")
        for line in lines:
            print("    " + line)
        faults += len(lines)
    return faults != 0


if __name__ == "__main__":
    sys.exit(main())
