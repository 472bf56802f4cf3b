"""taper.cc and `taper cc`: a program as one C file. The writer is C's (src/fuse/c_writer.h); here weights are gathered."""
import sys

from ._recording import attribute, input_names, names_of, record, state_of

USAGE = "usage: taper cc model.pt2 [-o model.c] [--main] [--name function]"


def _of_exported(program):
    """(graph, constants, names) of an ExportedProgram: placeholders that hold state get their tensors."""
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise NotImplementedError("cc: programs that write to their buffers or inputs")
    rows = state_of(program)
    constants, names = {p: x for p, (_, x) in rows.items()}, {p: name for p, (name, _) in rows.items()}
    for node in program.graph.nodes:
        if node.op == "get_attr":
            constants[node.name] = attribute(program.graph_module, node.target)
    return program.graph, constants, names


def _of_module(module, named, inputs=()):
    """The same of a recorded GraphModule; weights are called as in the model it came from, which `named` tells by their ids."""
    constants, names, inputs = {}, {}, iter(inputs)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            constants[node.name] = attribute(module, node.target)
            names[node.name] = named.get(id(constants[node.name]), node.target)
        elif node.op == "placeholder":
            names[node.name] = next(inputs, node.name)
    return module.graph, constants, names


def cc(program, path=None, args=None, kwargs=None, *, main=False, function="model"):
    """Writes an ExportedProgram, or a model recorded with `args`, as C; gives the text. `main` adds a main function that reads
    each input from a file of raw elements and prints the outputs."""
    if hasattr(program, "graph_signature"):
        graph, constants, names = _of_exported(program)
    elif args is None and hasattr(program, "graph"):
        graph, constants, names = _of_module(program, names_of(program))
    else:
        args, kwargs = tuple(args or ()), kwargs or {}
        module, _, named = record(program, args, kwargs)
        function_of = program.forward if hasattr(program, "forward") else program
        graph, constants, names = _of_module(module, named, input_names(function_of, args, kwargs))
    from . import _C

    text = _C._c_write(graph, constants, names, function, main)
    if path is not None:
        with _C._OutputFile(path) as file:
            file.write(text)
    return text


def command(arguments):
    """`taper cc …`; gives the exit status."""
    source = target = None
    main, function, rest = False, "model", list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-o", "--name") and rest:
            value = rest.pop(0)
            target, function = (value, function) if word == "-o" else (target, value)
        elif word == "--main":
            main = True
        elif source is None and not word.startswith("-"):
            source = word
        else:
            print(USAGE, file=sys.stderr)
            return 2
    if source is None:
        print(USAGE, file=sys.stderr)
        return 2
    from .export import load

    text = cc(load(source), target, main=main, function=function)
    if target is None:
        sys.stdout.write(text)
    return 0
