"""utils._pytree: containers of every kind there and back, paths, specs as text, and the errors of misfits."""
import collections
import copy
import dataclasses
import gc
import pickle
import sys

import pytest
import taper
from taper.utils import _pytree as pytree

Point = collections.namedtuple("Point", "x y")


def everything():
    return [1, (2, {"b": 3, "a": [4, None]}), collections.OrderedDict(z=5), collections.defaultdict(list, {"q": 6}),
            collections.deque([7, 8], maxlen=3), Point(9, [10])]


def test_there_and_back():
    tree = everything()
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3, 4, None, 5, 6, 7, 8, 9, 10]
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and again[4].maxlen == 3 and type(again[5]) is Point and again[3].default_factory is list
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (11, 20, 6)


def test_text():
    assert repr(pytree.tree_structure([1, (2, {"b": 3})])) == (
        "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*,\n    TreeSpec(dict, ['b'], [*])])])")
    assert repr(pytree.tree_structure(3)) == "*" and repr(pytree.tree_structure({})) == "TreeSpec(dict, [], [])"
    assert repr(pytree.tree_structure(Point(1, 2))).startswith("TreeSpec(namedtuple, <class ")


def test_what_is_a_leaf():
    for leaf in (None, 3, "ab", slice(1, 2), taper.ones(2), frozenset()):
        assert pytree.tree_is_leaf(leaf) and pytree.tree_flatten(leaf)[1].is_leaf()
    assert pytree.tree_leaves(taper.Size([1, 2])) == [1, 2]
    assert len(pytree.tree_leaves(taper.ones(2, 2).max(0))) == 2
    assert pytree.tree_leaves([[1, 2], [3], 4], is_leaf=lambda x: isinstance(x, list) and len(x) == 2) == [[1, 2], 3, 4]


def test_specs_are_values():
    a, b = pytree.tree_structure(everything()), pytree.tree_structure(everything())
    assert a == b and hash(a) == hash(b) and a != pytree.tree_structure([1])
    assert pickle.loads(pickle.dumps(a)) == a and copy.deepcopy(a) == a
    assert pytree.LeafSpec() == pytree.tree_structure(0)
    assert pytree.TreeSpec(list, None, [pytree.LeafSpec()]) == pytree.tree_structure([0])
    with pytest.raises(TypeError):
        pytree.TreeSpec(list, None, [3])


def test_map():
    assert pytree.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, 2.0]) == [2, 2.0]
    assert pytree.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 20, "a": 10}) == {"a": 11, "b": 22}
    assert pytree.tree_map_with_path(lambda p, x: (pytree.keystr(p), x), {"a": [1]}) == {"a": [("['a'][0]", 1)]}


@pytest.mark.parametrize("first, second, text", [
    ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
    ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
    ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
    ([[1]], [1], "Node type mismatch; expected <class 'list'>, but got <class 'int'>."),
])
def test_misfits(first, second, text):
    with pytest.raises(ValueError) as e:
        pytree.tree_map(lambda a, b: a, first, second)
    assert str(e.value) == text


def test_errors():
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(list, None, None)
    with pytest.raises(ZeroDivisionError):
        pytree.tree_map(lambda x: 1 / x, [1, [0]])
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        pytree.tree_leaves(loop)


def test_paths():
    paths, spec = pytree.tree_flatten_with_path(everything())
    assert [pytree.keystr(p) for p, _ in paths] == [
        "[0]", "[1][0]", "[1][1]['b']", "[1][1]['a'][0]", "[1][1]['a'][1]", "[2]['z']", "[3]['q']", "[4][0]", "[4][1]", "[5].x", "[5].y[0]"]
    assert [pytree.key_get(everything(), p) for p, _ in paths] == [leaf for _, leaf in paths]
    assert repr(paths[0][0]) == "(SequenceKey(idx=0),)"


def test_json():
    spec = pytree.tree_structure([1, (2, {"b": 3}), collections.defaultdict(list, {"q": 6}), collections.deque([7], maxlen=3)])
    text = pytree.treespec_dumps(spec)
    assert text.startswith('[1, {"type": "builtins.list", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}, ')
    assert pytree.treespec_loads(text) == spec
    with pytest.raises(NotImplementedError, match="Can't serialize TreeSpec of namedtuple class"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_loads("[2, {}]")


def test_broadcast():
    spec = pytree.tree_structure([1, [2, 3]])
    assert pytree._broadcast_to_and_flatten(1, spec) == [1, 1, 1]
    assert pytree._broadcast_to_and_flatten([1, 2], spec) == [1, 2, 2]
    assert pytree._broadcast_to_and_flatten([1], spec) is None
    assert pytree._broadcast_to_and_flatten([[1], [2, 3]], spec) is None


def test_registered_types():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c), serialized_type_name="tests.Pair",
                                flatten_with_keys_fn=lambda p: ([(pytree.GetAttrKey("a"), p.a), (pytree.GetAttrKey("b"), p.b)], None))
    try:
        made = pytree.tree_map(lambda x: x + 1, [Pair(1, (2,))])[0]
        assert (made.a, made.b) == (2, (3,))
        assert [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(Pair(1, (2,)))] == [".a", ".b[0]"]
        spec = pytree.tree_structure(Pair(1, 2))
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    finally:
        pytree._deregister_pytree_node(Pair)
    assert pytree.tree_is_leaf(Pair(1, 2))

    @dataclasses.dataclass
    class Data:
        x: int
        y: int = None

    pytree.register_dataclass(Data)
    try:
        assert pytree.tree_map(lambda x: x + 1, Data(1)) == Data(2, None)
        assert repr(pytree.tree_structure(Data(1))) == "TreeSpec(Data, [['x'], ['y']], [*])"
    finally:
        pytree._deregister_pytree_node(Data)


def test_no_references_are_lost():
    leaf = object()
    tree = [leaf, {"a": (leaf, leaf)}]

    def round():
        leaves, spec = pytree.tree_flatten(tree)
        pytree.tree_unflatten(leaves, spec)
        pytree.tree_map(lambda x, y: x, tree, tree)
        pytree.tree_leaves_with_path(tree)
        pytree._broadcast_to_and_flatten(tree, spec)
        for bad in ([1], (leaf, 2), [leaf, {"b": 3}]):
            with pytest.raises(ValueError):
                spec.flatten_up_to(bad)

    round()
    gc.collect()
    before = sys.getrefcount(leaf), len(gc.get_objects())
    for _ in range(20):
        round()
    gc.collect()
    assert sys.getrefcount(leaf) == before[0] and len(gc.get_objects()) < before[1] + 20


def test_keys_are_frozen_records():
    for key, text in ((pytree.SequenceKey(idx=1), "SequenceKey(idx=1)"), (pytree.MappingKey("a"), "MappingKey(key='a')"),
                      (pytree.GetAttrKey(name="x"), "GetAttrKey(name='x')")):
        field = text.partition("(")[2].partition("=")[0]
        assert repr(key) == text and copy.deepcopy(key) == key == pickle.loads(pickle.dumps(key)) and hash(key) == hash(copy.copy(key))
        assert key != getattr(key, field) and key != pytree.SequenceKey(2)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{field}'"):
            setattr(key, field, 0)
