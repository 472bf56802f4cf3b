"""What there is to call: every function, type, method and attribute of `taper._C`, its submodules, and the types that are made in C.

A target is (name, list of (self's name, callable)). Names are stable, so a report's name chooses the target again."""
import copy
import enum
import functools
import gc
import io
import operator
import pickle
import sys
import types
import weakref

import taper
import taper._dynamo
import taper.autograd.forward_ad
import taper.export
import taper.func
import taper.fx
import taper.jit
import taper.onnx
from taper._subclasses.fake_tensor import FakeTensorMode
from taper.fx.experimental.symbolic_shapes import ShapeEnv

C = taper._C
SUBMODULES = [value for name, value in sorted(vars(C).items()) if isinstance(value, types.ModuleType)]


# ---- types -------------------------------------------------------------------------------------------------
def _below(kind, found):
    for child in type.__subclasses__(kind):
        if child not in found:
            found.add(child)
            _below(child, found)
    return found


def _made_in_c(kind):
    """A class statement makes no descriptors of C but __dict__ and __weakref__, and without __slots__ one of these below object."""
    members = vars(kind)
    if str(members.get("__module__", "")).split(".")[0] != "taper" or issubclass(kind, (BaseException, enum.Enum)):
        return False
    bare = kind.__base__ is object and not {"__dict__", "__weakref__", "__slots__"} & set(members)
    return bare or any(getattr(member, "__objclass__", None) is kind and name not in ("__dict__", "__weakref__")
                       for name, member in members.items() if not isinstance(member, types.FunctionType))


def c_types():
    found = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in _below(object, set()) if _made_in_c(kind)}
    return dict(sorted(found.items()))


# ---- instances that are whole ------------------------------------------------------------------------------
def _grad():
    return taper.ones(2, 3, requires_grad=True)


def _fx():
    graph = taper.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(taper.relu, (x,))
    graph.output(y)
    return graph


@functools.cache
def _traced():
    return taper.jit.trace(taper.nn.Linear(2, 2), taper.ones(1, 2))


@functools.cache
def _traced_function():
    return taper.jit.trace(lambda x: x * 2, taper.ones(2))


def _sym_int():
    fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(taper.ones(5, 7))
    return fake.shape[0]


def _context():
    class Keeps(taper.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            kept.append(ctx)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g
    kept = []
    Keeps.apply(_grad())
    return kept[0]


def _file(writer=False):
    buffer = io.BytesIO()
    made = C.PyTorchFileWriter(buffer) if hasattr(C, "PyTorchFileWriter") else None
    if writer:
        return made
    taper.save({"x": taper.ones(2)}, buffer := io.BytesIO())
    buffer.seek(0)
    return C.PyTorchFileReader(buffer)


def _compiled():
    return taper.compile(lambda x: x + 1, backend="eager")


def _spec(leaf=False):
    return taper.utils._pytree.tree_structure(1 if leaf else {"a": [1, (2, 3)]})


def _in_grad_level():
    kept = []
    taper.func.grad(lambda x: kept.append(x) or x.sum())(taper.ones(2))
    return kept[0]


INSTANCES = {
    "Tensor": [lambda: taper.arange(6.0).reshape(2, 3), _grad, lambda: _grad() * 2, lambda: taper.ones(2, 3, device="meta"), lambda: taper.tensor(3)],
    "TensorBase": [lambda: taper.arange(6.0).reshape(2, 3), _grad, lambda: _grad() * 2, lambda: taper.tensor(3)],
    "Generator": [taper.Generator], "Size": [lambda: taper.Size([2, 3])], "dtype": [lambda: taper.float32], "device": [lambda: taper.device("cpu")],
    "layout": [lambda: taper.strided], "memory_format": [lambda: taper.channels_last], "finfo": [lambda: taper.finfo(taper.float32)],
    "iinfo": [lambda: taper.iinfo(taper.int8)], "UntypedStorage": [lambda: taper.ones(4).untyped_storage()],
    "SymInt": [_sym_int], "SymBool": [lambda: _sym_int() > 2], "SymFloat": [lambda: taper.sym_float(_sym_int())],
    "_NodeBase": [lambda: (_grad() * 2).grad_fn, lambda: _grad().expand(2, 2, 3).grad_fn.next_functions[0][0]], "_FunctionBase": [_context],
    "_FxGraph": [_fx], "fx.node.Node": [lambda: list(_fx().nodes)[1]], "_FxUsers": [lambda: list(_fx().nodes)[0].users],
    "_node_list": [lambda: _fx().nodes], "_node_iterator": [lambda: iter(_fx().nodes)], "_InsertPoint": [lambda: _fx().inserting_after()],
    "Graph": [lambda: _traced().graph, lambda: _traced_function().graph], "_C.Node": [lambda: next(iter(_traced_function().graph.nodes()))],
    "Value": [lambda: next(iter(_traced_function().graph.inputs()))], "Type": [lambda: next(iter(_traced_function().graph.inputs())).type()],
    "ScriptFunction": [_traced_function], "ScriptModule": [_traced], "ScriptMethod": [lambda: _traced().forward],
    "PyTorchFileReader": [_file], "PyTorchFileWriter": [lambda: _file(True)], "TreeSpec": [_spec], "LeafSpec": [lambda: _spec(True)],
    "_OpOverloadBase": [lambda: taper.ops.aten.add.Tensor], "_Compiled": [_compiled], "_ShapeEnvBase": [ShapeEnv],
    "_FakeModeBase": [FakeTensorMode, lambda: FakeTensorMode(shape_env=ShapeEnv())], "method_descriptor": [lambda: vars(C.TensorBase)["add"]],
    "_BufferOfTensor": [lambda: taper.ones(2).numpy().base], "_FxPlan": [lambda: C._FxPlan(_fx())],
    "_AotFunction": [lambda: C._AotFunction(lambda x: x * 2, lambda *args: args, ())], "_StorageIds": [lambda: C._StorageIds(object, {})],
    "_VariableFunctionsClass": [lambda: C._VariableFunctions.add], "_GradLevel": [_in_grad_level],
}


def _attempts(kind):
    """Ways to get at an object of the type without what makes it whole."""
    yield "new", lambda: kind.__new__(kind)
    yield "call", lambda: kind()
    yield "object new", lambda: object.__new__(kind)
    yield "subclass new", lambda: _derived(kind).__new__(_derived(kind))
    yield "subclass call", lambda: _derived(kind)()
    for base in (tuple, type, int):
        yield f"{base.__name__} new", lambda base=base: base.__new__(kind)
    yield "reduce", lambda: copy._reconstruct(None, 0, kind.__new__, (kind,))


@functools.cache
def _derived(kind):
    return type("Derived", (kind,), {})


def instances(name, kind):
    """(name, factory) of what the type has: whole ones, and those of which a constructor left something out."""
    for key, made in INSTANCES.items():
        if name.endswith("." + key):
            for i, factory in enumerate(made):
                yield f"whole {i}", factory
    for label, attempt in _attempts(kind):
        yield label, attempt


# ---- what every object can be asked ------------------------------------------------------------------------
def _pickled(protocol):
    return lambda o: pickle.loads(pickle.dumps(o, protocol))


def _set_class(o, other):
    o.__class__ = other


def _attributes(o):
    for name in dir(o):
        getattr(o, name)


PROTOCOLS = {
    **{f.__name__: f for f in (repr, str, hash, bool, iter, next, len, dir, vars, int, float, complex, bytes, reversed, sorted, list, tuple, dict, set, abs,
                               callable, id, sum, memoryview, bytearray, aiter, anext, bin, format, round, divmod, ascii, type, isinstance, issubclass)},
    **{f"operator.{name}": getattr(operator, name) for name in sorted(operator.__all__)
       if name not in ("attrgetter", "itemgetter", "methodcaller", "length_hint", "call")},
    "length_hint": operator.length_hint, "call": lambda o, *args: o(*args), "pow": pow, "hasattr": hasattr, "getattr": getattr, "setattr": setattr,
    "delattr": delattr, "copy": copy.copy, "deepcopy": copy.deepcopy, "weakref": weakref.ref, "sizeof": sys.getsizeof, "referents": gc.get_referents,
    "enter": lambda o: o.__enter__(), "exit": lambda o, *args: o.__exit__(*args), "enter and exit": lambda o: (o.__enter__(), o.__exit__(None, None, None)),
    "set class": _set_class, "attributes": _attributes, "send": lambda o, *args: o.send(*args), "throw": lambda o, *args: o.throw(*args),
    **{f"pickle {protocol}": _pickled(protocol) for protocol in (0, 2, 4)}, "reduce": lambda o: o.__reduce_ex__(2), "setstate": lambda o, s: o.__setstate__(s),
    "unpack": lambda o: (lambda *args, **kwargs: None)(*o), "keywords": lambda o: (lambda *args, **kwargs: None)(**o), "in": lambda o, x: x in o,
    "in a set": lambda o, x: {o, x}, "str.format": lambda o, spec: format(o, spec), "percent": lambda o: "%d" % o, "subclass": lambda o: type("D", (o,), {}),
    "twice init": lambda o, *args: (o.__init__(*args), o.__init__(*args)), "init": lambda o, *args: o.__init__(*args),
    "vectors": lambda o, *args: o(*args, **{f"k{i}": i for i in range(40)}),
}


# ---- targets -----------------------------------------------------------------------------------------------
def _functions():
    for module in [C, *SUBMODULES]:
        for name in sorted(vars(module)):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type) and (module is C or not hasattr(C, name)):
                yield f"{module.__name__}.{name}", [("", value)]


def _constructors(name, kind):
    yield f"{name}()", [("call", kind), ("new", lambda *args, **kwargs: kind.__new__(kind, *args, **kwargs)),
                        ("subclass", lambda *args, **kwargs: _derived(kind)(*args, **kwargs)),
                        ("init of another", lambda *args, **kwargs: kind.__init__(*args, **kwargs)),
                        ("type.__new__", lambda *args: type.__new__(kind, *args)), ("metaclass", lambda *args: type(kind)(*args)),
                        ("subclass twice", lambda *args: type("Twice", (kind, *args), {})), ("get item", lambda *args: kind[args]),
                        ("set attribute", lambda *args: setattr(kind, *args)), ("unpickle", lambda *args: kind.__setstate__(*args))]


def _bound(factory, act):
    return lambda *args, **kwargs: act(factory(), *args, **kwargs)


def _members(name, kind):
    made = list(instances(name, kind))
    for member in sorted(set(vars(kind)) - {"__doc__", "__module__"}):
        value = vars(kind)[member]
        if isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType, property)):
            ways = [(f"{label} get", _bound(factory, lambda o, m=member: getattr(o, m))) for label, factory in made]
            ways += [(f"{label} set", _bound(factory, lambda o, v, m=member: setattr(o, m, v))) for label, factory in made]
            ways += [(f"{label} delete", _bound(factory, lambda o, m=member: delattr(o, m))) for label, factory in made]
            ways += [("unbound get", value.__get__), ("unbound set", value.__set__)]
        elif callable(value) or hasattr(value, "__get__"):
            if member == "__new__":
                continue
            ways = [(label, _bound(factory, lambda o, *args, m=member, **kwargs: getattr(o, m)(*args, **kwargs))) for label, factory in made]
            ways += [("unbound", getattr(kind, member))]
        else:
            continue
        yield f"{name}.{member}", ways


def _protocols(name, kind):
    made = list(instances(name, kind))
    for what, act in sorted(PROTOCOLS.items()):
        yield f"{name}: {what}", [("type", functools.partial(act, kind))] + [(label, _bound(factory, act)) for label, factory in made]


def targets():
    """All of them, in an order that does not change: [(name, ways)]."""
    found = list(_functions())
    for name, kind in c_types().items():
        found += _constructors(name, kind)
        found += _members(name, kind)
        found += _protocols(name, kind)
    return found
