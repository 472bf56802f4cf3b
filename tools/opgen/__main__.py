"""python -m opgen --prims src/tile/prims.def --out build/gen src/ops/*.op: writes one .c per .op file, ops.h and table.c.

A file whose text has not changed is left alone, so the build compiles only what an edit touched."""
import argparse
import gc
import os
import pickle
import sys

from .ast import Mistake
from .emit_docs import emit_docs
from .emit_elements import read_prims
from .emit_file import emit_file
from .emit_tables import emit_header, emit_table
from .grammar import parse
from .model import File, World


def read_world(paths, root="."):
    files = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            name = os.path.relpath(path, root)
            files.append(File(name, parse(f.read(), name)))
    world = World(files)
    world.hooks, world.kernels, world.unrunnable, world.named = set(), {}, [], {}
    return world


def emit_files(world, files, prims):
    """Output name -> text; what is said of all of them is noted in the world."""
    out = {}
    for file in files:
        base = os.path.splitext(os.path.basename(file.name))[0]
        out[f"ops_{base}.c"] = emit_file(world, file, prims, file.name)
    return out


def emit_beside(world, files, prims):
    """The same in a process of its own: who edits an entry waits for it. The answer is had by calling the result."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = emit_files(world, files, prims), world.named, world.missing, world.unrunnable
        except Mistake as mistake:
            answer = str(mistake)
        with open(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write)

    def finish():
        with open(read, "rb") as pipe:
            answer = pickle.load(pipe)
        os.waitpid(child, 0)
        if isinstance(answer, str):
            raise Mistake(*answer.split(": ", 1))
        texts, named, missing, unrunnable = answer
        world.named.update(named)
        for name, where in missing.items():
            world.missing.setdefault(name, where)
        world.unrunnable += unrunnable
        return texts

    return finish


def generate(world, prims):
    """Output name -> text."""
    if hasattr(os, "fork") and len(world.files) > 8 and len(os.sched_getaffinity(0)) > 1:
        finish = emit_beside(world, world.files[1::2], prims)
        out = emit_files(world, world.files[::2], prims)
        out |= finish()
    else:
        out = emit_files(world, world.files, prims)
    out["ops.h"] = emit_header(world)
    out["ops_table.c"] = emit_table(world)
    return out


def write_changed(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except OSError:
        pass
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main(argv):
    parser = argparse.ArgumentParser(prog="opgen")
    parser.add_argument("--prims", required=True)
    parser.add_argument("--out", help="folder of the output; without it the files are only checked")
    parser.add_argument("--root", default=".", help="paths in messages are relative to it")
    parser.add_argument("--docs", help="the page of all ops to write")
    parser.add_argument("--missing", action="store_true", help="list ops that formulas call and no file defines")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(argv)
    try:
        world = read_world(options.files, options.root)
        texts = generate(world, read_prims(options.prims))
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    if options.missing:
        for name, where in sorted(world.missing.items()):
            print(f"{where}: {name} is not defined")
        for op in world.unrunnable:
            print(f"{op.where}: {op.schema.full} has no way to run")
    if options.docs:
        write_changed(options.docs, emit_docs(world))
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        for name, text in texts.items():
            write_changed(os.path.join(options.out, name), text)
    return 0


if __name__ == "__main__":
    gc.disable()                # all that is made lives to the end
    sys.exit(main(sys.argv[1:]))
