"""Programs whose surroundings are exchanged between calls: an entry made before must not answer for them."""
import collections

import taper
import taper._dynamo as dynamo
from outside.ways import compile_source, fresh_space, plain, undisturbed

Case = collections.namedtuple("Case", "name setup body changes args")
cases = []


def case(name, setup, body, *changes, args="x"):
    """`setup` is run once, `body` is the function's, each of `changes` is run before one more call."""
    cases.append(Case(name, setup, body, changes, args))


OBJECT = "class A:\n  k = 1\n  def m(self): return 1\n  @property\n  def p(self): return 1\n  @staticmethod\n  def s(): return 1\n  @classmethod\n  def c(cls): return 1\no = A()"
for where, name in (("m", "method"), ("s", "static method"), ("c", "class method")):
    call = f"return x + o.{where}()"
    case(f"{name} hidden by the instance", OBJECT, call, f"o.{where} = lambda: 5", f"del o.{where}")
    case(f"{name} exchanged in the class", OBJECT, call, f"A.{where} = lambda self=None: 5", f"A.{where} = lambda self=None: 6")
    case(f"{name} of a base class exchanged", OBJECT + "\nclass B(A): pass\no = B()", call, f"A.{where} = lambda self=None: 5", f"B.{where} = lambda self=None: 6", f"del B.{where}")
    case(f"code of a {name} exchanged", OBJECT, call, "getattr(A, %r).__code__ = (lambda self=None: 7).__code__" % where if where != "c" else "A.c.__func__.__code__ = (lambda cls: 7).__code__")
case("property exchanged", OBJECT, "return x + o.p", "A.p = property(lambda self: 5)", "A.p = 7")
case("class of the instance assigned", OBJECT + "\nclass B(A):\n  def m(self): return 2", "return x + o.m()", "o.__class__ = B", "o.__class__ = A")
case("class attribute exchanged", OBJECT, "return x + o.k", "A.k = 5", "o.k = 6", "del o.k")
case("class attribute read from the class", OBJECT, "return x + A.k", "A.k = 5")
case("class attribute read from the type", OBJECT, "return x + type(o).k", "A.k = 5")
case("class attribute of an instance made inside", OBJECT, "return x + A().k + A().m()", "A.k = 5", "A.m = lambda self: 9")
case("class attribute that is a list", "class A: k = [1]\no = A()", "return x + len(o.k) + len(A().k)", "A.k.append(2)", "A.k = []")
case("__init__ exchanged", "class A:\n  def __init__(self): self.v = 1", "return x + A().v", "def init(self): self.v = 5\nA.__init__ = init")
case("__call__ exchanged", "class A:\n  def __call__(self, x): return x + 1\no = A()", "return o(x)", "A.__call__ = lambda self, x: x + 5")
case("__add__ exchanged", "class A:\n  def __add__(self, v): return 1\no = A()", "return x + (o + 1)", "A.__add__ = lambda self, v: 5")
case("__len__ exchanged", "class A:\n  def __len__(self): return 1\no = A()", "return x + len(o)", "A.__len__ = lambda self: 5")
case("__getitem__ exchanged", "class A:\n  def __getitem__(self, i): return 1\no = A()", "return x + o[0]", "A.__getitem__ = lambda self, i: 5")
case("__eq__ exchanged", "class A:\n  def __eq__(self, v): return True\no = A()", "return x + 1 if o == 3 else x", "A.__eq__ = lambda self, v: False")
case("__enter__ exchanged", "class A:\n  def __enter__(self): return 1\n  def __exit__(self, *a): pass\no = A()", "with o as v: return x + v", "A.__enter__ = lambda self: 5")
case("__getattr__ exchanged", "class A:\n  def __getattr__(self, n): return 1\no = A()", "return x + o.v", "A.__getattr__ = lambda self, n: 5", "o.v = 8", "del o.v")
case("descriptor exchanged", "class D:\n  def __get__(self, o, c): return 1\nclass A: d = D()\no = A()", "return x + o.d", "D.__get__ = lambda self, o, c: 5", "A.d = 3")
case("super method exchanged", "class A:\n  def m(self): return 1\nclass B(A):\n  def m(self): return super().m()\no = B()", "return x + o.m()", "A.m = lambda self: 5")
case("code of a function exchanged", "def g(x): return x + 1", "return g(x)", "g.__code__ = (lambda x: x + 5).__code__")
case("code of the function itself exchanged", "pass", "return x + 1", "f.__code__ = (lambda x: x + 5).__code__")
case("function exchanged", "def g(x): return x + 1", "return g(x)", "g = lambda x: x + 5")
case("defaults exchanged", "def g(x, v=1): return x + v", "return g(x)", "g.__defaults__ = (5,)", "g.__defaults__ = (1, 2)")
case("keyword defaults exchanged", "def g(x, *, v=1): return x + v", "return g(x)", "g.__kwdefaults__ = {'v': 5}", "g.__kwdefaults__['v'] = 6")
case("more defaults than before", "def g(x, a=1, b=2): return x + a * 10 + b", "return g(x)", "g.__defaults__ = (7,)", args="x")
case("closure contents exchanged", "def outer():\n  v = 1\n  def g(x): return x + v\n  def put(n):\n    nonlocal v\n    v = n\n  return g, put\ng, put = outer()", "return g(x)", "put(5)", "put(6)")
case("closure of a method", "def outer():\n  v = [1]\n  class A:\n    def m(self): v[0] += 1; return v[0]\n  return A, v\nA, v = outer()\no = A()", "return x + o.m()", "v[0] = 10", "v.append(1)")
case("default of a method", "class A:\n  def m(self, v=[1]): v.append(1); return len(v)\no = A()", "return x + o.m()", "A.m.__defaults__[0].clear()", "A.m.__defaults__ = ([5, 6],)")
case("decorated method that counts", "def deco(fn):\n  n = 0\n  def w(self):\n    nonlocal n\n    n += 1\n    return fn(self) + n\n  return w\nclass A:\n  @deco\n  def m(self): return 1\no = A()", "return x + o.m()", "pass", "pass")
case("builtin hidden by a global", "pass", "return x + len([1])", "len = lambda v: 5", "del len")
case("builtin exchanged", "import builtins\nold = builtins.abs", "return x + abs(-1)", "builtins.abs = lambda v: 5", "builtins.abs = old")
case("global comes to be", "pass", "try: return x + later\nexcept NameError: return x", "later = 5", "later = 6", "del later")
case("module attribute exchanged", "import types\nm = types.ModuleType('m')\nm.v = 1\nm.g = lambda x: x + 1", "return m.g(x) + m.v", "m.v = 5", "m.g = lambda x: x + 7")
case("imported module exchanged", "import sys, types\nsys.modules['outside_m'] = a = types.ModuleType('outside_m')\na.v = 1", "import outside_m\nreturn x + outside_m.v", "a.v = 5",
     "b = types.ModuleType('outside_m')\nb.v = 9\nsys.modules['outside_m'] = b")
case("name imported from a module", "import sys, types\nsys.modules['outside_m'] = a = types.ModuleType('outside_m')\na.v = [1]", "from outside_m import v\nv.append(1)\nreturn x + len(v)", "a.v = [1, 2, 3]")
case("other enum member", "k = Color.RED", "return x + (1 if k == Color.RED else 2) + k.value", "k = Color.BLUE", "k = Color.RED")
case("other object by identity", "a = Plain()\nb = Plain()", "return x + (1 if a is b else 2)", "b = a", "b = Plain()")
case("other object by equality", "a = Plain()\nb = Plain()", "return x + (1 if a == b else 2)", "b = a", "b = Plain()")
case("other object in a list", "a = Plain()\nl = [Plain()]", "return x + (1 if a in l else 2)", "l = [a]", "l = [Plain()]")
case("other object as a key", "a = Plain()\nd = {Plain(): 1}", "return x + d.get(a, 5)", "d[a] = 7", "a = Plain()")
case("one list for two", "a = [1]\nb = [1]", "a.append(2)\nreturn x + len(b)", "b = a", "b = [1, 2]")
case("one dict for two", "a = {'k': 1}\nb = {'k': 1}", "a['k'] += 1\nreturn x + b['k']", "b = a")
case("one instance for two", "a = Plain()\nb = Plain()", "a.v += 1\nreturn x + b.v", "b = a", "b = Plain()")
case("one tensor given twice", "a = torch.ones(3)\nb = torch.ones(3)", "def g(a, b): a.add_(1); return x + b\nreturn g(a, b)", "b = a", "b = torch.zeros(3)")
case("one tensor for two", "a = torch.ones(3)\nb = torch.ones(3)", "a.add_(1)\nreturn x + b", "b = a", "b = torch.zeros(3)")
case("values that are equal", "v = 1", "return x * v, repr(v)", "v = True", "v = 1.0", "v = -0.0", "v = 0.0", "v = 0")
case("complex of another sign", "v = complex(0.0, 0.0)", "return repr(v)", "v = complex(-0.0, 0.0)")
case("order of keys", "d = {'a': 1, 'b': 2}", "return x + list(d.values())[0]", "d = {'b': 2, 'a': 1}")
case("order of an OrderedDict", "d = OrderedDict(a=1, b=2)", "return x + list(d.values())[0]", "d.move_to_end('a')")
case("module method hidden", "class N(torch.nn.Module):\n  def help(self, x): return x + 1\n  def forward(self, x): return self.help(x)\no = N()", "return o(x)", "o.help = lambda x: x + 5", "del o.help", "N.help = lambda self, x: x + 7")
case("forward exchanged", "class N(torch.nn.Module):\n  def forward(self, x): return x + 1\no = N()", "return o(x)", "N.forward = lambda self, x: x + 5", "o.forward = lambda x: x + 6", "del o.forward")
case("class of a module assigned", "class N(torch.nn.Module):\n  def forward(self, x): return x + 1\nclass M(torch.nn.Module):\n  def forward(self, x): return x + 5\no = N()", "return o(x)", "o.__class__ = M")
case("module of a list exchanged", "o = torch.nn.ModuleList([torch.nn.ReLU()])", "return o[0](x - 2)", "o[0] = torch.nn.Tanh()", "o[0] = torch.nn.Sigmoid()")
case("hook added", "o = torch.nn.ReLU()", "return o(x - 2)", "h = o.register_forward_hook(lambda m, a, r: r + 5)", "h.remove()")
case("attribute of a tensor", "x.scale = 2", "return x * x.scale", "x.scale = 5", args="x")
case("partial exchanged", "import functools\np = functools.partial(lambda v, x: x + v, 1)", "return p(x)", "p = functools.partial(lambda v, x: x + v, 5)", "p = functools.partial(lambda v, x: x * v, 5)")
case("function in a dict exchanged", "ops = {'a': lambda x: x + 1}", "return ops['a'](x)", "ops['a'] = lambda x: x + 5")
case("numpy scalar", "v = np.float64(1.0)", "return x * v, float(v)", "v = np.float64(5.0)", "v = np.float32(5.0)")
case("frozenset", "v = frozenset({1})", "return x + len(v), sorted(v)", "v = frozenset({True, 2})", "v = frozenset({1})")
case("slice with a bound that changes", "class I:\n  def __init__(self, v): self.v = v\n  def __index__(self): return self.v\nb = I(1)\ns = slice(b)", "return [5, 6, 7][s]", "b.v = 2")
case("autograd.Function", "class F(torch.autograd.Function):\n  @staticmethod\n  def forward(ctx, v): return v * 2\n  @staticmethod\n  def backward(ctx, g): return g * 2", "return F.apply(x)", "F.forward = staticmethod(lambda ctx, v: v * 5)")
case("generator", "g = torch.Generator().manual_seed(1)", "return torch.rand(2, generator=g) + x[:2]", "g.manual_seed(1)", "pass")
case("array", "a = np.ones(3, dtype='float32')", "return x + torch.from_numpy(a)", "a += 1", "a = np.zeros(3, dtype='float32')")
case("tensor of an array", "a = np.ones(3)", "return x + torch.tensor(a) + torch.as_tensor(a)", "a += 1", "a = np.zeros(3)")
case("exception on the way", "l = []", "l.append(1)\nif len(l) > 1: raise ValueError(len(l))\nreturn x", "pass", "l.clear()", "pass")


def run(case, fullgraph, compiled, backend="eager"):
    """Results of all calls; a refusal under fullgraph counts as the plain result."""
    dynamo.reset()
    space = fresh_space()
    seen = []
    with undisturbed():
        space["x"] = taper.ones(3)
        exec(compile_source(case.setup), space)
        exec(compile_source(f"def f({case.args}):\n" + "\n".join("  " + line for line in case.body.split("\n"))), space)
        f = g = space["f"]
        if compiled:
            g = taper.compile(f, backend=backend, fullgraph=fullgraph)
        for change in ("pass", *case.changes, "pass"):
            exec(compile_source(change), space)
            seen.append(one(f, g, space["x"]))
    return seen


def one(f, g, x):
    try:
        return plain(g(x))
    except dynamo.exc.Unsupported:
        return plain(f(x))
    except Exception as error:
        return type(error).__name__, str(error)
