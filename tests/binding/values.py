"""Hostile arguments: values of the wrong type, size or shape, and objects that raise or change their container while they are read.

Each is made anew for every call, since a call may change it. VALUES is a list of (name, factory); the names appear in reports and choose
single cases again."""
import collections
import math

import taper


class Refused(Exception):
    """What hostile objects raise."""


def _raise(*_, **__):
    raise Refused("hostile")


RAISING = ("__index__", "__int__", "__float__", "__complex__", "__bool__", "__len__", "__iter__", "__next__", "__getitem__", "__contains__", "__eq__",
           "__hash__", "__repr__", "__str__", "__call__", "__fspath__", "__enter__", "__exit__", "__lt__", "__add__", "__radd__", "keys")
Raises = type("Raises", (), {name: _raise for name in RAISING})


class RaisesOnAttributes:
    def __getattribute__(self, name):
        raise Refused(name)


class Shrinking(list):
    """A list whose elements empty it when they are asked for a number, an iterator, an attribute or equality."""


class Emptying:
    def __init__(self, container, answer=1):
        self.container, self.answer = container, answer

    def _empty(self, *_):
        self.container.clear()
        return self.answer

    def __iter__(self):
        self.container.clear()
        return iter((1,))

    def __repr__(self):
        self.container.clear()
        return "emptying"

    def __eq__(self, other):
        self.container.clear()
        return True

    def __hash__(self):
        return 7

    __index__ = __int__ = __len__ = __bool__ = _empty
    __float__ = lambda self: float(self._empty())  # noqa: E731

    @property
    def shape(self):
        self.container.clear()
        return (1,)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        for one in args:
            if isinstance(one, (list, dict)):
                one.clear()
        return NotImplemented


def emptying_list(kind=list):
    made = kind()
    made.extend([Emptying(made), *[object() for _ in range(7)], Emptying(made)])
    return made


def emptying_numbers():
    made = []
    made.extend([1, Emptying(made), 10 ** 6 + 1, 10 ** 6 + 2])
    return made


def emptying_dict():
    made = {}
    made.update({"a": Emptying(made), "b": object(), "c": Emptying(made), Emptying(made): 1})
    return made


class Overriding:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return 1


class OverridingBadly:
    __torch_function__ = 5


class OverridingRaising:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise Refused("torch function")


class Pretending:
    """Claims to be a tensor."""
    __class__ = property(lambda self: taper.Tensor)


class IntOfAnotherClass(int):
    def __index__(self):
        raise Refused("index")

    def __eq__(self, other):
        raise Refused("eq")
    __hash__ = int.__hash__


class TextOfAnotherClass(str):
    def __eq__(self, other):
        raise Refused("eq")
    __hash__ = str.__hash__


class ListOfAnotherClass(list):
    def __iter__(self):
        raise Refused("iter")

    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise Refused("getitem")


class TupleOfAnotherClass(tuple):
    def __iter__(self):
        raise Refused("iter")

    def __len__(self):
        return 2 ** 40


class DictOfAnotherClass(dict):
    def items(self):
        return 5

    def keys(self):
        raise Refused("keys")

    def __getitem__(self, key):
        raise Refused("getitem")


class LyingLength:
    def __len__(self):
        return 2 ** 62

    def __getitem__(self, index):
        if index > 3:
            raise IndexError
        return index


class IndexNotInt:
    def __index__(self):
        return "one"


class Big:
    def __index__(self):
        return 2 ** 70


class SubTensor(taper.Tensor):
    pass


class DispatchingTensor(taper.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise Refused("torch dispatch")


Pair = collections.namedtuple("Pair", "first second")


def cyclic_list():
    made = [1]
    made.append(made)
    return made


def cyclic_dict():
    made = {}
    made["me"] = made
    return made


def deep_list():
    made = []
    for _ in range(100_000):
        made = [made]
    return made


def _generator():
    yield 1
    raise Refused("generator")


HUGE = [0] * 20_000       # made once, as what nests deep: making them would take more time than the calls
DEEP = deep_list()


def _requires_grad():
    return taper.ones(2, 3, requires_grad=True)


VALUES = [
    ("None", lambda: None), ("True", lambda: True), ("0", lambda: 0), ("1", lambda: 1), ("-1", lambda: -1), ("3", lambda: 3),
    ("2**31", lambda: 2 ** 31), ("2**63-1", lambda: 2 ** 63 - 1), ("-2**63", lambda: -2 ** 63), ("2**70", lambda: 2 ** 70),
    ("1.5", lambda: 1.5), ("nan", lambda: math.nan), ("1e400", lambda: math.inf), ("1j", lambda: 1j),
    ("''", lambda: ""), ("'x'", lambda: "x"), ("'mean'", lambda: "mean"), ("'cpu'", lambda: "cpu"), ("'x' * 100000", lambda: "x" * 100_000),
    ("surrogate", lambda: "\ud800"), ("nul", lambda: "a\0b"), ("percent", lambda: "%s%n{}%"), ("aten::add.Tensor", lambda: "aten::add.Tensor"),
    ("bytes", lambda: b"abc"), ("bytearray", lambda: bytearray(b"abcdefgh")), ("memoryview", lambda: memoryview(b"abcd")),
    ("()", lambda: ()), ("[]", lambda: []), ("{}", lambda: {}), ("set", lambda: {1, 2}), ("(1, 2)", lambda: (1, 2)), ("[1, 2]", lambda: [1, 2]),
    ("[None]", lambda: [None]), ("['x']", lambda: ["x"]), ("[2**70]", lambda: [2 ** 70]), ("[-1]", lambda: [-1]), ("((1, 2), (3, 4))", lambda: ((1, 2), (3, 4))),
    ("{'a': 1}", lambda: {"a": 1}), ("{1: 'a'}", lambda: {1: "a"}), ("pair", lambda: Pair(1, 2)), ("slice", lambda: slice(None, 2 ** 70, 0)),
    ("ellipsis", lambda: ...), ("range", lambda: range(3)), ("object", object), ("int type", lambda: int), ("len", lambda: len),
    ("identity", lambda: lambda *args, **kwargs: args[0] if args else None), ("raising function", lambda: _raise), ("generator", _generator),
    ("module", lambda: math), ("raises", lambda: Raises()), ("raises on attributes", lambda: RaisesOnAttributes()),
    ("cyclic list", cyclic_list), ("cyclic dict", cyclic_dict), ("deep list", lambda: DEEP), ("huge list", lambda: HUGE),
    ("emptying list", emptying_list), ("emptying numbers", emptying_numbers), ("emptying dict", emptying_dict),
    ("emptying in a tuple", lambda: (emptying_list(), 1)), ("tuple of an emptying list's", lambda: tuple(emptying_list())),
    ("overriding", Overriding), ("overriding badly", OverridingBadly), ("overriding, raising", OverridingRaising),
    ("[overriding]", lambda: [OverridingRaising(), Overriding()]), ("pretending", Pretending), ("pretending type", lambda: Pretending),
    ("int subclass", lambda: IntOfAnotherClass(2)), ("str subclass", lambda: TextOfAnotherClass("x")), ("list subclass", lambda: ListOfAnotherClass([1, 2])),
    ("tuple subclass", lambda: TupleOfAnotherClass((1, 2))), ("dict subclass", lambda: DictOfAnotherClass(a=1)), ("lying length", LyingLength),
    ("index not int", IndexNotInt), ("big index", Big),
    ("tensor", lambda: taper.arange(6.0).reshape(2, 3)), ("scalar tensor", lambda: taper.tensor(2)), ("int tensor", lambda: taper.tensor([0, 1, 1])),
    ("bool tensor", lambda: taper.tensor([True, False])), ("empty tensor", lambda: taper.ones(0)), ("meta tensor", lambda: taper.ones(2, 3, device="meta")),
    ("grad tensor", _requires_grad), ("tensor with history", lambda: _requires_grad() * 2), ("complex tensor", lambda: taper.ones(2, dtype=taper.complex64)),
    ("parameter", lambda: taper.nn.Parameter(taper.ones(2))), ("subclass", lambda: taper.ones(2).as_subclass(SubTensor)),
    ("dispatching", lambda: taper.Tensor._make_subclass(DispatchingTensor, taper.ones(2))), ("no tensor", lambda: taper.Tensor.__new__(taper.Tensor)),
    ("[tensor]", lambda: [taper.ones(2)]), ("(tensor, tensor)", lambda: (taper.ones(2), taper.ones(2, 3))), ("[tensor, None]", lambda: [taper.ones(2), None]),
    ("{'x': tensor}", lambda: {"x": taper.ones(2)}), ("dtype", lambda: taper.float32), ("int dtype", lambda: taper.int64), ("device", lambda: taper.device("cpu")),
    ("size", lambda: taper.Size([2, 3])), ("layout", lambda: taper.strided), ("memory format", lambda: taper.channels_last),
    ("tensor class", lambda: taper.Tensor), ("op", lambda: taper.ops.aten.add.Tensor), ("op packet", lambda: taper.ops.aten.add),
    ("module object", lambda: taper.nn.Linear(2, 2)), ("capsule", lambda: taper._C._runtime),
]
