"""python -m taper script.py args | -m module args | -c command | - (standard input): runs a program with Taper as its torch.

python -m taper cc model.pt2 -o model.c: writes a program as C."""
import os
import runpy
import sys
import types

USAGE = "usage: python -m taper (script.py | -m module | -c command | -) [argument ...]\n       python -m taper cc model.pt2 [-o model.c] [--main] [--name function]"


def fresh_main(file=None):
    """An empty __main__, as the interpreter makes for a script."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if file is not None:
        main.__file__ = file
    sys.modules["__main__"] = main
    return main.__dict__


def run_script(path):
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    path = os.path.abspath(path)            # as the interpreter itself names scripts
    with open(path, "rb") as source:
        code = compile(source.read(), path, "exec")
    sys.path[0] = os.path.dirname(path)
    exec(code, fresh_main(path))


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    first = arguments[0]
    if first == "cc":
        from ._cc import command

        return command(arguments[1:])
    if first in ("-m", "-c") and len(arguments) < 2:
        print(USAGE, file=sys.stderr)
        return 2
    if first in ("-c", "-"):
        text, name = (arguments[1], "<string>") if first == "-c" else (sys.stdin.read(), "<stdin>")
        sys.argv = [first, *arguments[2 if first == "-c" else 1:]]
        sys.path[0] = ""
        exec(compile(text, name, "exec"), fresh_main())
    elif first == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        run_script(first)
    return 0


def console():
    """The command `taper`."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
