"""Kinds of objects that captured code meets but did not make: how one is made, read, written and looked at.

Each row: name, expression that makes `o`, expressions that read it, statements that write it, expression of its state, and
what the caller does between calls (the first write, when nothing is said)."""
import collections

Kind = collections.namedtuple("Kind", "name make reads writes state change")
kinds = []


def kind(name, make, reads, writes, state="repr(o)", change=None):
    kinds.append(Kind(name, make, reads, writes, state, change or (writes[0] if writes else "pass")))


# What no program changes is made once.
SHARED = '''
import collections, dataclasses, enum
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Data:
    v: int = 1
    items: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True)
class Frozen:
    v: int = 1
@dataclasses.dataclass(slots=True)
class SlotData:
    v: int = 1
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
'''
SETUP = '''
import abc, array, bisect, collections, contextlib, contextvars, copy, dataclasses, datetime, decimal, enum, fractions, functools, heapq, io
import itertools, logging, math, operator, os, queue, random, re, string, struct, sys, threading, time, types, uuid, warnings, weakref
from collections import Counter, OrderedDict, UserDict, UserList, ChainMap, defaultdict, deque
import numpy as np
import taper as torch

class Plain:
    limit = 3
    table = {"a": 1}
    def __init__(self, v=1): self.v = v; self.items = [1]
    def bump(self, by=1): self.v += by; return self.v
    @property
    def twice(self): return self.v * 2
    @twice.setter
    def twice(self, v): self.v = v // 2
    @staticmethod
    def three(): return 3
    @classmethod
    def bound(cls): return cls.limit
class Slots:
    __slots__ = ("v", "w")
    def __init__(self): self.v = 1
class Both(Slots):
    __slots__ = ("u", "__dict__")
class Field:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, o, owner): return self if o is None else o.__dict__.get(self.name, 0)
    def __set__(self, o, v): o.__dict__[self.name] = v
class Store:
    def __init__(self): self.seen = {}
    def __get__(self, o, owner): return self.seen.get("v", 0)
    def __set__(self, o, v): self.seen["v"] = v
class Described:
    f = Field()
class Shared:
    def __init__(self): type(self).f.seen if False else None
class Watched:
    def __init__(self): object.__setattr__(self, "log", []); self.v = 1
    def __setattr__(self, n, v): self.log.append(n); object.__setattr__(self, n, v)
class Lazy:
    def __init__(self): self.asked = []
    def __getattr__(self, n):
        if n.startswith("_"): raise AttributeError(n)
        self.asked.append(n); return len(self.asked)
class Meddling:
    def __init__(self): self.v = 1; self.n = 0
    def __getattribute__(self, n):
        if n == "v": self.n += 1
        return object.__getattribute__(self, n)
class MyList(list):
    pass
class LoudList(list):
    def append(self, v): list.append(self, v); super().append(v * 10)
class MyDict(dict):
    pass
class LoudDict(dict):
    def __init__(self, *a): super().__init__(*a); self.writes = 0
    def __setitem__(self, k, v): self.writes += 1; super().__setitem__(k, v)
class Default(dict):
    def __missing__(self, k): self[k] = 7; return 7
class MySet(set):
    pass
class MyTuple(tuple):
    pass
class MyInt(int):
    pass
class MyStr(str):
    pass
class Counting:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        return self.n
class Seq:
    def __init__(self): self.v = [1, 2]
    def __len__(self): return len(self.v)
    def __getitem__(self, i): return self.v[i]
    def __setitem__(self, i, x): self.v[i] = x
    def __contains__(self, x): return x in self.v
    def __iadd__(self, x): self.v += x; return self
    def __call__(self, x): self.v.append(x); return len(self.v)
    def __bool__(self): return len(self.v) % 2 == 0
    def __eq__(self, x): self.v.append(0); return True
    def __hash__(self): return 1
    def __repr__(self): self.v.append(9); return "Seq"
class Context:
    def __init__(self): self.log = []
    def __enter__(self): self.log.append("in"); return len(self.log)
    def __exit__(self, *a): self.log.append("out")
class Ranked:
    def __init__(self, v): self.v = v; self.asked = 0
    def __lt__(self, o): self.asked += 1; return self.v < o.v
class Abstract(abc.ABC):
    made = 0
    def __init__(self): type(self).made += 1
class Concrete(Abstract):
    pass
class New:
    made = []
    def __new__(cls, *a): cls.made.append(1); return super().__new__(cls)
class Made:
    log = []
    def __init__(self, v): self.v = v; Made.log.append(v)
class Failing(Exception):
    log = []
    def __init__(self, v): super().__init__(v); self.log.append(v)
class Meta(type):
    calls = []
    def __call__(cls, *a): Meta.calls.append(a); return super().__call__(*a)
class WithMeta(metaclass=Meta):
    pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.l = torch.nn.Linear(3, 3)
        self.many = torch.nn.ModuleList([torch.nn.ReLU()])
        self.register_buffer("b", torch.zeros(3))
def counted():
    counted.n += 1
    return counted.n
counted.n = 0
def keeping(v, kept=[]):
    kept.append(v)
    return len(kept)
def remembering():
    seen = []
    def f(v):
        seen.append(v)
        return len(seen)
    f.seen = seen
    return f
def counting():
    n = 0
    def f():
        nonlocal n
        n += 1
        return n
    f.now = lambda: n
    return f
def gen():
    for i in range(50): yield i
'''

# ---- containers of the language ----
kind("list", "[1, 2, 3]", ["len(o)", "o[0]", "o[-1]", "o[1:]", "sum(o)", "list(o)", "2 in o", "o.index(2)", "o.count(1)", "max(o)", "sorted(o)",
     "[v for v in o]", "o == [1, 2, 3]", "o + [1]", "repr(o)", "f'{o}'", "tuple(o)", "bool(o)", "o.copy()", "str(o)", "any(o)", "list(map(str, o))",
     "list(zip(o, o))", "list(enumerate(o))", "list(reversed(o))", "dict.fromkeys(o)", "set(o)", "[*o]", "bisect.bisect(o, 2)", "math.fsum(o)"],
     ["o.append(4)", "o += [5, 6]", "o *= 2", "o[0] = 9", "o[1:2] = [7, 8]", "del o[0]", "o.insert(0, 5)", "o.pop()", "o.sort(reverse=True)",
      "o.reverse()", "o.remove(o[0])", "o.extend(range(2))", "o.extend(v for v in [1])", "o.clear()", "operator.iadd(o, [3])", "operator.setitem(o, 0, 4)",
      "list.append(o, 3)", "o.__setitem__(0, 3)", "heapq.heappush(o, 0)", "bisect.insort(o, 2)", "heapq.heapify(o)", "random.shuffle(o)",
      "(o.append)(1)", "[o.append][0](8)", "list(map(o.append, [1, 2]))", "getattr(o, 'append')(2)", "o[:] = o[::-1]", "del o[:1]", "o.__iadd__([1])",
      "o.sort(key=lambda v: -v)", "o.append(o[0])", "functools.reduce(lambda a, b: a.append(b) or a, [1, 2], o)", "o.pop(0)"], change="o.append(11)")
kind("list of lists", "[[1], [2]]", ["o[0]", "o[1][0]", "sum(o, [])", "[v for r in o for v in r]"],
     ["o[0].append(3)", "o[0], o[1] = o[1], o[0]", "o.append(o[0])", "o.pop(0).append(5)", "o[1] += [4]"], change="o[1].append(5)")
kind("dict", "{'a': 1, 'b': 2}", ["len(o)", "o['a']", "o.get('z', 5)", "'a' in o", "list(o)", "list(o.items())", "list(o.values())", "list(o.keys())",
     "sum(o.values())", "{**o}", "dict(o)", "o | {'z': 1}", "sorted(o)", "repr(o)", "o == {'a': 1}", "'z' in o", "o.copy()", "o.keys() & {'a'}", "max(o)",
     "[*o]", "f'{o}'"],
     ["o['c'] = 3", "o |= {'d': 4}", "o.update(e=5)", "o.update({'a': 7})", "o.setdefault('f', 6)", "o.pop('a', 0)", "o.popitem()", "del o['b']; o['b'] = 5",
      "o.clear()", "o['a'] += 1", "dict.__setitem__(o, 'k', 2)", "operator.setitem(o, 'a', 3)", "operator.ior(o, {'q': 1})", "o.__setitem__('r', 1)",
      "o.update([('p', 1)])", "[o.update][0](s=1)", "dict.update(o, t=3)", "o.__ior__({'v': 3})", "o.get('a'); o.setdefault('a', [])"], change="o['n'] = len(o)")
kind("dict of lists", "{'a': [1]}", ["o['a'][0]", "sum(map(len, o.values()))"], ["o['a'].append(2)", "o.setdefault('b', []).append(1)", "o['c'] = o['a']"])
kind("set", "{1, 2}", ["len(o)", "1 in o", "5 in o", "sorted(o)", "o | {3}", "o & {1}", "o == {1}", "bool(o)", "sum(o)"],
     ["o.add(5)", "o |= {6}", "o.discard(1)", "o.update([7])", "o -= {2}", "o.clear()", "o.pop()", "set.add(o, 9)", "o ^= {1}"], "sorted(o)")
kind("frozenset", "frozenset({1, 2})", ["len(o)", "1 in o", "sorted(o)", "o | {3}"], [], "sorted(o)")
kind("tuple", "(1, [2])", ["len(o)", "o[0]", "o[1][0]", "o + (1,)", "1 in o", "repr(o)"], ["o[1].append(3)", "o[1][0] += 1"])
kind("named tuple", "Pair(1, [2])", ["o.a", "o.b[0]", "o[0]", "len(o)", "o._replace(a=5)", "repr(o)", "o == Pair(1, [2])"], ["o.b.append(3)", "o.b[0] = 7"])
kind("bytearray", "bytearray(b'ab')", ["len(o)", "o[0]", "bytes(o)", "o + b'c'", "97 in o", "o.hex()", "o == b'ab'"],
     ["o.append(3)", "o += b'x'", "o[0] = 1", "o.extend(b'yz')", "del o[0]", "o.clear()", "o *= 2"])
kind("memoryview", "memoryview(bytearray(b'abc'))", ["len(o)", "o[0]", "bytes(o)"], ["o[0] = 3"], "bytes(o)", "o[1] = 7")
kind("slice", "slice(0, 2)", ["[1, 2, 3][o]", "o.stop"], [])
kind("range", "range(3)", ["len(o)", "sum(o)", "list(o)", "2 in o"], [])
kind("str", "'abc'", ["o.upper()", "len(o)", "o + 'x'", "o[0]", "'b' in o", "o.split('b')"], ["o = o + 'd'"])
kind("int", "5", ["o + 1", "o * 2.0", "str(o)", "divmod(o, 3)", "o == 5", "round(o / 3, 2)"], ["o += 1"])

# ---- classes derived from them, and collections ----
kind("list subclass", "MyList([1, 2])", ["len(o)", "o[0]", "sum(o)", "o + [1]", "list(o)", "repr(o)", "o[:1]", "type(o).__name__", "getattr(o, 'tag', None)"],
     ["o.append(3)", "o += [4]", "o[0] = 9", "o.tag = 5", "o.sort(reverse=True)", "o *= 2"], "(list(o), vars(o))")
kind("list that is loud", "LoudList([1])", ["len(o)", "sum(o)", "o[-1]"], ["o.append(2)", "o.extend([1])", "list.append(o, 3)"])
kind("dict subclass", "MyDict(a=1)", ["o['a']", "len(o)", "list(o.items())", "'a' in o", "o.get('b')", "repr(o)", "sorted(o)", "dict(o)"],
     ["o['b'] = 2", "o |= {'c': 3}", "o.update(d=1)", "o.pop('a', 0)", "o.tag = 5"], "(dict(o), vars(o))")
kind("dict that is loud", "LoudDict()", ["len(o)", "o.writes", "list(o)"], ["o['a'] = 2", "o.update(b=1)"], "(dict(o), o.writes)")
kind("dict with __missing__", "Default()", ["len(o)", "'x' in o", "o.get('x')"], ["o['x']", "o['y'] = 1", "o.setdefault('w', 1)"])
kind("OrderedDict", "OrderedDict(a=1, b=2)", ["o['a']", "list(o)", "list(o.items())", "len(o)", "repr(o)", "next(iter(o))", "o == {'a': 1, 'b': 2}"],
     ["o['c'] = 3", "o.move_to_end('a')", "o.popitem()", "o |= {'d': 1}", "del o['a']; o['a'] = 5", "o.update(z=1)", "o.clear()"], change="o.move_to_end(next(iter(o)))\no['n'] = 1")
kind("defaultdict", "defaultdict(list, a=[1])", ["len(o)", "o['a']", "'x' in o", "o.get('x')", "sorted(o)", "o.default_factory is list", "repr(o)"],
     ["o['x'].append(1)", "o['y']", "o['a'].append(2)", "o.setdefault('z', [])", "o |= {'q': []}"])
kind("Counter", "Counter('aab')", ["o['a']", "o['z']", "len(o)", "o.most_common(1)", "sum(o.values())", "dict(o)", "o + Counter('a')", "o.total()", "repr(o)"],
     ["o['a'] += 1", "o.update('ab')", "o.subtract('a')", "o += Counter('b')", "o['new'] = 5", "del o['a']; o['a'] = 1"])
kind("deque", "deque([1, 2], maxlen=4)", ["len(o)", "o[0]", "list(o)", "1 in o", "sum(o)", "o.maxlen", "repr(o)", "o == deque([1, 2])", "o.count(1)", "max(o)", "bool(o)", "o.copy()",
     "[*o]"], ["o.append(3)", "o.appendleft(4)", "o.pop(); o.append(1)", "o.rotate(1)", "o += [5]", "o[0] = 9", "o.extend([1, 2])", "o.popleft(); o.append(2)", "o.reverse()",
     "deque.append(o, 4)", "[o.append][0](7)", "list(map(o.append, [1]))"])
kind("ChainMap", "ChainMap({'a': 1}, {'b': 2})", ["o['a']", "len(o)", "sorted(o)", "'b' in o"], ["o['c'] = 3", "o.maps[1]['d'] = 1"], "o.maps", "o['n'] = 1")
kind("UserDict", "UserDict(a=1)", ["o['a']", "len(o)", "sorted(o)", "'a' in o"], ["o['b'] = 2", "o.data['c'] = 3", "o.update(d=4)"], "o.data")
kind("UserList", "UserList([1])", ["o[0]", "len(o)", "list(o)", "1 in o"], ["o.append(2)", "o += [3]", "o[0] = 5"], "o.data")
kind("set subclass", "MySet({1})", ["len(o)", "1 in o", "sorted(o)"], ["o.add(2)", "o |= {3}", "o.tag = 1"], "(sorted(o), vars(o))")
kind("tuple subclass", "MyTuple((1, 2))", ["o[0]", "len(o)", "sum(o)"], ["o.tag = 1"], "(tuple(o), vars(o))", "o.tag = 2")
kind("int subclass", "MyInt(3)", ["o + 1", "int(o)", "o == 3", "getattr(o, 'tag', 0)"], ["o.tag = getattr(o, 'tag', 0) + 1"], "(int(o), vars(o))")
kind("str subclass", "MyStr('ab')", ["o.upper()", "len(o)", "o == 'ab'"], ["o.tag = 1"], "(str(o), vars(o))")
kind("array.array", "array.array('i', [1, 2])", ["len(o)", "o[0]", "list(o)", "sum(o)", "o.tolist()", "1 in o"], ["o.append(3)", "o[0] = 5", "o.extend([1])", "o += array.array('i', [4])", "o.pop(); o.append(9)"])
kind("mappingproxy", "types.MappingProxyType(TABLE)", ["o['a']", "len(o)", "sorted(o)", "'a' in o"], [], "dict(o)", "TABLE['n'] = TABLE.get('n', 0) + 1; TABLE['a'] += 1")
kind("dict view", "TABLE.items()", ["len(o)", "sorted(o)", "list(o)"], [], "list(o)", "TABLE['a'] += 1")
kind("queue", "queue.deque([1])", ["len(o)"], ["o.append(2)"], "list(o)")
kind("SimpleQueue", "queue.SimpleQueue()", ["o.qsize()", "o.empty()"], ["o.put(1)", "o.put(2); o.get()"], "o.qsize()")
kind("Queue", "queue.Queue()", ["o.qsize()"], ["o.put(1)", "o.put_nowait(2)"], "list(o.queue)")

# ---- instances ----
kind("instance", "Plain()", ["o.v", "o.limit", "o.items", "o.items[0]", "o.twice", "o.three()", "o.bound()", "o.table['a']", "hasattr(o, 'w')", "getattr(o, 'w', 5)",
     "vars(o)['v']", "o.__dict__['v']", "sorted(o.__dict__)", "type(o).__name__", "isinstance(o, Plain)", "type(o).limit", "o.__class__.limit", "len(vars(o))"],
     ["o.v += 1", "o.v = o.v * 2", "o.bump()", "Plain.bump(o)", "o.items.append(2)", "o.twice = 8", "setattr(o, 'v', 6)", "setattr(o, 'w', 1)", "vars(o)['v'] = 9", "o.__dict__['w'] = 3",
      "o.__dict__.update(v=5)", "object.__setattr__(o, 'v', 4)", "o.v = 3; del o.v; o.v = 5", "f = o.bump; f(2)", "[o.bump][0](3)", "list(map(o.bump, [1, 2]))", "o.w = [o.items]; o.w[0].append(4)",
      "o.__setattr__('v', 2)", "o.limit = 5", "o.__dict__ = {'v': 1, 'items': []}", "o.me = o", "functools.partial(o.bump, 2)()", "delattr(o, 'v'); o.v = 5", "del o.items; o.items = [3]",
      "operator.attrgetter('bump')(o)(1)", "operator.methodcaller('bump', 3)(o)", "o.items += [3]", "o.items, o.v = [o.v], 2", "o.bump = lambda: 5"], "vars(o) if 'me' not in vars(o) and 'bump' not in vars(o) else sorted(vars(o))",
     "o.v = getattr(o, 'v', 0) + 3")
kind("instance with slots", "Slots()", ["o.v", "hasattr(o, 'w')", "getattr(o, 'w', 3)"], ["o.v += 1", "o.w = 4", "setattr(o, 'v', 5)", "o.v = 1; del o.v; o.v = 3"], "(o.v, getattr(o, 'w', None))")
kind("slots and dict", "Both()", ["o.v", "hasattr(o, 'u')", "hasattr(o, 'z')"], ["o.u = 1", "o.z = 2", "o.v += 1"], "(o.v, getattr(o, 'u', None), vars(o))")
kind("descriptor", "Described()", ["o.f"], ["o.f = 3", "o.f += 1", "setattr(o, 'f', 5)"], "vars(o)")
kind("__setattr__", "Watched()", ["o.v", "len(o.log)"], ["o.v = 5", "o.v += 1", "setattr(o, 'w', 1)", "object.__setattr__(o, 'v', 3)"], "vars(o)")
kind("__getattr__", "Lazy()", ["len(o.asked)"], ["o.foo", "o.foo + o.bar", "getattr(o, 'x')", "hasattr(o, 'y')"], "o.asked")
kind("__getattribute__", "Meddling()", [], ["o.v", "o.v += 1"], "object.__getattribute__(o, '__dict__')")
kind("SimpleNamespace", "types.SimpleNamespace(v=1)", ["o.v", "hasattr(o, 'w')", "vars(o)['v']", "repr(o)", "o == types.SimpleNamespace(v=1)"],
     ["o.v += 1", "o.w = 2", "setattr(o, 'v', 7)", "vars(o)['z'] = 1", "o.__dict__['v'] = 4"])
kind("dataclass", "Data()", ["o.v", "o.items", "repr(o)", "o == Data()", "dataclasses.asdict(o)"], ["o.v += 1", "o.items.append(1)", "o.items = [2]"])
kind("frozen dataclass", "Frozen()", ["o.v", "o == Frozen()", "dataclasses.replace(o, v=3)", "{o: 1}[o]"], ["object.__setattr__(o, 'v', o.v + 1)"])
kind("dataclass with slots", "SlotData()", ["o.v"], ["o.v += 1"])
kind("container class", "Seq()", ["len(o)", "o[0]", "1 in o"], ["o[0] = 5", "o += [4]", "o(3)", "o == 1", "bool(o) or o(3)", "{o: 1}", "[o] == [1]", "repr(o)", "f'{o}'", "str([o])", "{1: 2}.get(o)",
     "o in [3, 4]", "[3].index(3); [3].count(o)", "'%s' % o", "'{}'.format(o)"], "o.v")
kind("iterator class", "Counting()", ["o.n"], ["next(o)", "o.__next__()", "list(zip(o, [1, 2]))", "list(itertools.islice(o, 2))"], "o.n")
kind("context manager", "Context()", ["len(o.log)"], ["with o: pass", "with o as n: o.log.append(n)"], "o.log")
kind("contextlib manager", "LOGGED", [], ["with o(): pass", "with o() as n: LOG.append(n)"], "list(LOG)", "LOG.append(7)")
kind("ranked objects", "[Ranked(2), Ranked(1)]", ["o[0].v"], ["sorted(o)[0].v", "o.sort()", "min(o).v", "max(o[0], o[1]).v"], "[(r.v, r.asked) for r in o]", "o[0].v += 1")
kind("enum member", "Color.RED", ["o.value", "o.name", "o is Color.RED", "o == Color.BLUE", "{Color.RED: 1}.get(o)", "o in (Color.RED,)", "str(o)", "repr(o)"], [])
kind("IntEnum member", "Level.LOW", ["o + 1", "o == 1", "o < Level.HIGH", "int(o)", "o is Level.LOW"], [])
kind("enum class", "Color", ["o.RED.value", "o(1).name", "o['BLUE'].value", "len(o)", "[m.name for m in o]"], [], "list(o)")

# ---- classes and functions ----
kind("class", "type('K', (Plain,), {'limit': 4, 'all': []})", ["o.limit", "o.all", "o().limit", "hasattr(o, 'w')", "getattr(o, 'w', 1)", "o.table['a']", "o.bound()", "o.three()", "o.__name__"],
     ["o.limit += 1", "o.all.append(1)", "o().all.append(2)", "o.w = 3", "setattr(o, 'limit', 9)", "o.limit = 1; o().limit", "type(o()).all.append(3)", "o().__class__.limit = 7", "o.w = 1; del o.w"],
     "(o.limit, o.all, getattr(o, 'w', None))")
kind("class that counts", "type('K', (Abstract,), {})", ["o.made"], ["o()", "o(); o()", "[o() for _ in range(2)] and None"], "o.made", "o.made += 1")
kind("class with __new__", "type('K', (New,), {'made': []})", ["len(o.made)"], ["o() and None", "list(map(o, [1, 2])) and None"], "o.made", "o()")
kind("class with __init__", "Made", ["len(o.log)"], ["o(3) and None", "list(map(o, [1, 2])) and None", "functools.partial(o, 1)() and None", "[o][0](2).v"], "list(Made.log)", "o(5)")
kind("exception class", "Failing", ["len(o.log)"], ["str(o(3))", "try: raise o(4)\nexcept Failing as e: pass", "raise o(5)"], "list(Failing.log)", "o(7)")
kind("metaclass", "WithMeta", [], ["o() and None"], "len(Meta.calls)", "o()")
kind("exception", "ValueError(1)", ["o.args"], ["o.args = (2,)", "try: raise o\nexcept ValueError: pass", "o.note = 5"], "(o.args, vars(o), o.__traceback__ is None)", "o.args = (3,)")
kind("function with attributes", "type(counted)(counted.__code__, globals(), 'g')", ["getattr(o, 'n', 0)", "o.__name__", "hasattr(o, 'z')"], ["o.n = getattr(o, 'n', 0) + 1", "o.__name__ = 'h'", "vars(o)['q'] = 1",
     "o.__doc__ = 'd'", "setattr(o, 'm', 2)", "o.__dict__['n'] = 3"], "(vars(o), o.__name__, o.__doc__)")
kind("function that counts", "counted", ["o.n"], ["o()", "o() + o()", "[o][0]()", "list(map(lambda _: o(), [1, 2]))"], "o.n", "o.n += 1")
kind("function that keeps", "type(keeping)(keeping.__code__, globals(), 'k', ([],))", ["len(o.__defaults__[0])"], ["o(3)", "o(1) + o(2)", "list(map(o, [1, 2]))", "o.__defaults__ = ([],)"], "o.__defaults__", "o(5)")
kind("closure that keeps", "remembering()", ["len(o.seen)"], ["o(3)", "list(map(o, [1, 2]))"], "o.seen", "o(5)")
kind("closure that counts", "counting()", ["o.now()"], ["o()", "o() + o()"], "o.now()", "o()")
kind("bound method", "Plain().bump", ["o.__self__.v", "o.__name__", "o.__func__ is Plain.bump"], ["o()", "o(2) + o(3)", "[o][0]()", "o.__self__.v = 5", "functools.partial(o, 4)()", "sorted([2, 1], key=o)"], "vars(o.__self__)")
kind("bound method of C", "[1, 2].append", ["o.__self__[0]", "len(o.__self__)", "o.__name__"], ["o(3)", "[o][0](4)", "{'f': o}['f'](5)", "list(map(o, [1, 2]))", "functools.partial(o, 6)()"], "o.__self__")
kind("setter of a dict", "dict(a=1).__setitem__", [], ["o('b', 2)"], "o.__self__", "o('c', 3)")
kind("deque.append", "deque([1]).append", [], ["o(2)", "[o][0](3)"], "list(o.__self__)", "o(5)")
kind("partial", "functools.partial(operator.add, 1)", ["o(2)", "o.args", "o.func(1, 2)"], ["o.tag = 1"], "(o.args, o.keywords, vars(o))", "o.__setstate__((o.func, (o.args[0] + 1,), {}, None))")
kind("partial that writes", "functools.partial(list.append, [1])", ["len(o.args[0])"], ["o(2)", "o.args[0].append(3)"], "o.args", "o(5)")
kind("lru_cache", "functools.lru_cache(lambda v=1: LOG.append(v) or len(LOG))", ["o.cache_info().hits"], ["o()", "o(2)", "o.cache_clear()"], "(list(LOG), o.cache_info())", "o(7)")
kind("singledispatch", "functools.singledispatch(lambda v: 1)", ["o(3)"], ["o.register(int, lambda v: 2)"], "sorted(map(str, o.registry))", "o.register(int, lambda v: 5)")
kind("itemgetter", "operator.itemgetter(0)", ["o([1, 2])"], [], "o([5])")
kind("module", "types.ModuleType('outside_mod')", ["getattr(o, 'v', 0)", "hasattr(o, 'v')", "o.__name__", "vars(o).get('v')"], ["o.v = getattr(o, 'v', 0) + 1", "setattr(o, 'w', 2)", "vars(o)['z'] = 1", "o.__dict__['v'] = 3", "o.v = 1; del o.v; o.v = 5"],
     "{k: v for k, v in vars(o).items() if len(k) == 1}", "o.v = getattr(o, 'v', 0) + 2")

# ---- state of C code and of the standard library ----
kind("list iterator", "iter(list(range(50)))", [], ["next(o)", "next(o, None)", "for v in o:\n        if v > 1: break", "list(itertools.islice(o, 2))", "3 in o", "o.__next__()"], "o.__length_hint__()", "next(o)")
kind("generator", "gen()", [], ["next(o)", "o.send(None)", "list(zip(o, [1, 2]))"], "o.gi_frame.f_locals.get('i')", "pass")
kind("itertools.count", "itertools.count()", ["repr(o)"], ["next(o)", "list(zip(o, 'ab'))", "o.__next__()"], change="next(o)")
kind("itertools.cycle", "itertools.cycle([1, 2, 3])", [], ["r = next(o)", "r = list(zip(o, [1]))"], "0", "next(o)")
kind("zip object", "zip(range(50), range(50))", [], ["next(o)", "[v for v, _ in zip(o, [1])]"], "[i.__reduce__() for i in o.__reduce__()[1]]", "next(o)")
kind("iterator in a list", "[iter(range(50))]", [], ["next(o[0])", "for v in o[0]: break"], "o[0].__reduce__()", "next(o[0])")
kind("StringIO", "io.StringIO()", ["o.getvalue()", "o.tell()"], ["o.write('x')", "print('y', file=o)", "o.writelines(['a', 'b'])", "o.truncate(0)", "o.write('q'); o.seek(0); o.read()"], "(o.getvalue(), o.tell())")
kind("BytesIO", "io.BytesIO(b'ab')", ["o.getvalue()"], ["o.write(b'x')", "o.read(1)", "o.seek(1)"], "(o.getvalue(), o.tell())")
kind("file", "open(os.devnull, 'r+')", ["o.closed", "o.name", "o.mode"], ["o.write('x')", "o.close()"], "o.closed", "pass")
kind("lock", "threading.Lock()", ["o.locked()"], ["o.acquire(); o.release()", "o.acquire(False)", "with o: pass"], "o.locked()", "o.locked() and o.release()")
kind("RLock", "threading.RLock()", [], ["with o: pass", "o.acquire()"], "o._is_owned()", "o.acquire()")
kind("Event", "threading.Event()", ["o.is_set()"], ["o.set()", "o.clear()"], "o.is_set()", "o.clear() if o.is_set() else o.set()")
kind("Semaphore", "threading.Semaphore(9)", ["o._value"], ["o.acquire()", "with o: pass"], "o._value", "o.acquire()")
kind("thread-local", "threading.local()", ["getattr(o, 'v', 0)", "hasattr(o, 'v')"], ["o.v = getattr(o, 'v', 0) + 1", "setattr(o, 'w', 1)", "vars(o)['v'] = 4"], "vars(o)")
kind("ContextVar", "contextvars.ContextVar('v', default=1)", ["o.get()", "o.get(5)", "o.name"], ["o.set(3)", "o.set(o.get() + 1)", "t = o.set(5); o.reset(t)"], "o.get()", "o.set(o.get() + 2)")
kind("weakref", "weakref.ref(TARGET)", ["o().v", "o() is TARGET"], ["o().v += 1", "o().bump()"], "TARGET.v", "TARGET.v += 1")
kind("weak proxy", "weakref.proxy(TARGET)", ["o.v"], ["o.v += 1", "o.bump()"], "TARGET.v", "TARGET.v += 1")
kind("WeakValueDictionary", "weakref.WeakValueDictionary(a=TARGET)", ["len(o)", "'a' in o", "o['a'].v"], ["o['b'] = TARGET", "o['a'].v += 1"], "(sorted(o), TARGET.v)", "TARGET.v += 1")
kind("WeakKeyDictionary", "weakref.WeakKeyDictionary({TARGET: 1})", ["len(o)", "o[TARGET]"], ["o[TARGET] = 2", "o[TARGET] += 1"], "list(o.values())", "o[TARGET] += 5")
kind("WeakSet", "weakref.WeakSet([TARGET])", ["len(o)", "TARGET in o"], ["o.discard(TARGET)", "o.clear()"], "len(o)")
kind("random.Random", "random.Random(0)", [], ["o.random()", "o.randint(0, 9)", "o.seed(3)", "o.choice([1, 2, 3])", "o.shuffle([1, 2])"], "hash(o.getstate())")
kind("global random", "random", [], ["o.random()", "o.randint(0, 9)", "o.seed(4)"], "hash(o.getstate())", "o.seed(1)")
kind("re.Pattern", "re.compile('a+')", ["o.pattern", "o.match('aa').group()", "o.sub('b', 'aa')"], [], "o.pattern")
kind("re.Match", "re.match('(a)(b)', 'ab')", ["o.group(1)", "o.start()", "o[2]", "o.groups()"], [], "o.groups()")
kind("decimal", "decimal.Decimal('1.5')", ["o + 1", "str(o)", "int(o)", "o == 1.5"], [])
kind("fraction", "fractions.Fraction(1, 2)", ["o + 1", "str(o)", "o == 0.5", "o.numerator"], [])
kind("decimal context", "decimal.getcontext()", ["o.prec"], ["o.prec = 12", "o.prec += 1", "decimal.getcontext().prec = 5"], "o.prec", "o.prec += 2")
kind("date", "datetime.date(2020, 1, 2)", ["o.year", "o.isoformat()", "o < datetime.date(2021, 1, 1)"], [])
kind("uuid", "uuid.UUID(int=5)", ["o.int", "str(o)"], [])
kind("struct", "struct.Struct('i')", ["o.size", "o.unpack(o.pack(3))"], ["o.pack_into(BUFFER, 0, 7)"], "bytes(BUFFER)", "BUFFER[0] += 1")
kind("template", "string.Template('$a')", ["o.substitute(a=1)", "o.template"], ["o.template = '$a$a'"], "o.template")
kind("logger", "logging.getLogger('outside')", ["o.name", "o.level"], ["o.setLevel(10)", "o.info('x')", "o.disabled = True", "o.handlers.append(1); o.handlers.pop()"], "(o.level, o.disabled, len(o.handlers))", "o.setLevel(o.level + 1)")
kind("os.environ", "os.environ", ["o.get('OUTSIDE')", "'OUTSIDE' in o", "o['PATH'][:1]"], ["o['OUTSIDE'] = '1'", "o.pop('OUTSIDE', None)", "o.setdefault('OUTSIDE', '7')", "os.putenv('OUTSIDE', '1')"], "o.get('OUTSIDE')", "o['OUTSIDE'] = o.get('OUTSIDE', '') + 'x'")
kind("sys.path", "sys.path", ["len(o)"], ["o.append('outside')", "sys.path.insert(0, 'outside')"], "o.count('outside')")
kind("sys.modules", "sys.modules", ["'outside_m' in o", "len(o) > 3"], ["o['outside_m'] = types", "o.pop('outside_m', None)"], "'outside_m' in o", "o['outside_m'] = types")
kind("sys", "sys", ["o.getrecursionlimit() > 0"], ["o.setrecursionlimit(o.getrecursionlimit() + 1)", "o.outside = 3"], "(o.getrecursionlimit() - LIMIT, getattr(o, 'outside', 0))", "o.outside = getattr(o, 'outside', 0) + 2")
kind("warnings", "warnings", ["len(o.filters) > 0"], ["o.simplefilter('ignore')", "o.filters.insert(0, ('ignore', None, Warning, None, 0))"], "len(o.filters) - FILTERS", "o.simplefilter('default')")
kind("globals()", "globals", [], ["o()['ADDED'] = 1", "o()['ADDED'] = o().get('ADDED', 0) + 1"], "o().get('ADDED')", "o()['ADDED'] = 5")
kind("exec", "exec", [], ["o('LOG.append(1)')", "eval('LOG.append(2)')"], "list(LOG)", "LOG.append(3)")
kind("copy", "Plain()", ["copy.copy(o).v", "copy.deepcopy(o).items"], ["copy.copy(o).items.append(1)", "copy.deepcopy(o).items.append(1)"], "vars(o)", "o.v += 1; o.items.append(5)")
kind("ExitStack", "contextlib.ExitStack()", [], ["o.callback(LOG.append, 1)", "o.enter_context(Context())", "o.close()"], "(len(o._exit_callbacks), list(LOG))", "o.callback(LOG.append, 2)")
kind("thread", "threading.current_thread()", ["o.name[:4]"], ["o.tag = getattr(o, 'tag', 0) + 1", "threading.Thread(target=LOG.append, args=(1,)).start()"], "(getattr(o, 'tag', 0), len(LOG))", "LOG.append(3)")

# ---- numpy and tensors ----
kind("ndarray", "np.arange(3.0)", ["o.shape", "float(o[0])", "o.sum().item()", "len(o)", "o.tolist()", "(o + 1).tolist()", "o.dtype.name", "float(np.sum(o))", "(x + torch.from_numpy(o)).tolist()", "o.ndim"],
     ["o[0] = 5", "o += 1", "o.fill(3)", "o.sort()", "np.add(o, 1, out=o)", "o[1:] = 2", "o.flat[0] = 7", "torch.from_numpy(o).add_(1)", "o *= 2", "o.shape = (3, 1); o.shape = (3,)", "np.copyto(o, 1)", "operator.iadd(o, 1)"], "o.tolist()")
kind("numpy scalar", "np.float64(2.5)", ["o + 1", "float(o)", "(x * o).tolist()", "o.item()", "o == 2.5"], [])
kind("numpy int", "np.int64(2)", ["int(o) + 1", "int(o + 1)", "o.item()", "[1, 2, 3][o]"], [])
kind("numpy generator", "np.random.default_rng(0)", [], ["float(o.random())", "o.integers(0, 9).item()"], "o.bit_generator.state['state']['state']", "o.random()")
kind("numpy random", "np.random", [], ["float(o.rand())", "o.seed(5)"], "o.get_state()[1][:3].tolist()", "o.seed(1)")
kind("list of tensors", "[torch.ones(3), torch.zeros(3)]", ["o[0].tolist() if False else len(o)", "(o[0] + x).sum().shape", "len(o)", "o[0].shape"], ["o.append(x)", "o[0] = x * 2", "o[0].add_(1)", "o[1] += 3", "o.reverse()", "o.extend([x, x + 1])",
     "o.pop(0)", "o[0], o[1] = o[1], o[0]", "o.clear()", "o.insert(0, o[-1])"], "[t.tolist() for t in o]", "o.append(torch.ones(3) * 5)\no.insert(0, torch.ones(3))")
kind("tensor with attributes", "torch.ones(3)", ["getattr(o, 'tag', 0)", "hasattr(o, 'tag')", "o.grad is None", "o.requires_grad"], ["o.tag = 1", "setattr(o, 'tag', 3)", "o.data = torch.zeros(3)", "o.requires_grad_()", "o.requires_grad = True", "o.grad = None",
     "o.add_(1)", "o[0] = 7", "o.mul_(2).add_(1)", "o.zero_()", "o.retain_grad()", "o.grad = torch.ones(3)", "o.resize_(2)", "o.set_(torch.ones(2))", "o.detach_()", "del o.tag", "vars(o)['tag'] = 5", "o.__dict__.update(tag=2)", "o.copy_(x)", "o += x"],
     "(o.tolist(), vars(o) if o.is_leaf else 0, o.requires_grad, o.shape, None if o.grad is None else o.grad.tolist())", "o.tag = getattr(o, 'tag', 0) + 1")
kind("parameter", "torch.nn.Parameter(torch.ones(3))", ["getattr(o, 'tag', 0)", "hasattr(o, 'tag')", "o.requires_grad"], ["o.tag = 1", "o.data = torch.zeros(3)", "o.requires_grad_(False)", "o.grad = None", "o.data.add_(1)", "o.grad = torch.ones(3)",
     "with torch.no_grad(): o.add_(1)", "o.register_hook(lambda g: g)", "o.requires_grad = False", "o.register_post_accumulate_grad_hook(lambda p: None)", "o.retain_grad()"],
     "(o.tolist(), vars(o), o.requires_grad, o._backward_hooks is None, None if o.grad is None else o.grad.tolist())", "o.tag = getattr(o, 'tag', 0) + 1")
kind("module of nn", "Net()", ["o.count", "o.training", "len(o.many)", "sorted(n for n, _ in o.named_parameters())", "o.b.shape", "hasattr(o, 'z')", "len(list(o.buffers()))", "type(o).__name__"],
     ["o.count += 1", "o.train(False)", "o.eval()", "o.register_buffer('c', torch.ones(2))", "o.add_module('m', torch.nn.ReLU())", "o.many.append(torch.nn.ReLU())", "o.many.append(o.l)", "o.z = torch.nn.Parameter(torch.ones(1))", "o.b = o.b + 1",
      "o.b.add_(1)", "o.register_forward_hook(lambda *a: None)", "o.w = [1]", "o.requires_grad_(False)", "o.zero_grad()", "o._buffers['q'] = torch.ones(1)", "o.l = torch.nn.Linear(3, 2)", "del o.count; o.count = 3", "o.double()", "o.apply(lambda m: None)", "o.load_state_dict(o.state_dict())", "setattr(o, 'count', 5)",
      "o.l.weight.data.zero_()", "o.l.flag = True", "o.__dict__['count'] = 8", "o.training = False"],
     "(o.count, o.training, len(o.many), sorted(o._buffers), o.b.tolist(), sorted(o._modules), sorted(o._parameters), len(o._forward_hooks), [p.requires_grad for p in o.parameters()], getattr(o, 'w', 0), str(o.l.weight.dtype), getattr(o.l, 'flag', 0))",
     "o.count += 2; o.b += 1")
kind("ModuleList", "torch.nn.ModuleList([torch.nn.ReLU()])", ["len(o)", "o[0](x).shape", "len([m for m in o])"], ["o.append(torch.nn.ReLU())", "o.append(o[0])", "o.extend([o[0]])", "o.insert(0, o[0])", "o[0] = o[-1]", "del o[0]; o.append(RELU)", "o += [o[0]]"], "len(o)")
kind("ParameterList", "torch.nn.ParameterList([torch.ones(3)])", ["len(o)", "o[0].shape"], ["o.append(torch.ones(2))", "o[0].data.zero_()"], "[p.tolist() for p in o]")
kind("ModuleDict", "torch.nn.ModuleDict({'a': torch.nn.ReLU()})", ["len(o)", "'a' in o", "o['a'](x).shape", "sorted(o.keys())"], ["o['b'] = o['a']", "o.pop('a'); o['a'] = RELU", "o.update({'c': RELU})"], "sorted(o.keys())", "o['n'] = RELU")
kind("Generator", "torch.Generator().manual_seed(3)", ["o.initial_seed()"], ["torch.rand(2, generator=o).tolist()", "o.manual_seed(5)", "x.uniform_(generator=o).shape", "torch.randperm(3, generator=o).shape"], "o.get_state().sum().item()", "o.manual_seed(9)")
