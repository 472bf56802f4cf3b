"""What torch.testing says: expressions, and the text that PyTorch gives for each (recorded_testing.txt).

    python tests/conformance/testing_cases.py > tests/conformance/recorded_testing.txt     # with PyTorch, to record
"""
import collections

Pair = collections.namedtuple("Pair", "a b")
TEXT = "one two three\nadd add mul\nsub four\nend five\n"

CLOSE = """
t([1., 2., 3.]), t([1., 2.5, 3.])
torch.zeros(2, 3), torch.ones(2, 3)
t(1.), t(2.)
1.0, 2.0
1, 2
t([1, 2]), t([1, 5])
t([True, False]), t([True, True])
True, False
t([1+1j]), t([1+2j])
1+1j, 1+2j
t([1., 2.]), t([1., 3.]), rtol=0, atol=0
1., 2., rtol=0, atol=0
t([1.]), t([1.], dtype=torch.float64)
t([1.]), t([1.], dtype=torch.float64), check_dtype=False
t([1.]), t([2]), check_dtype=False
torch.ones(2), torch.ones(3)
t(1.), 1.0
1.0, 1
[t([1.]), t([2.])], [t([1.]), t([3.])]
[t([1.])], [t([1.]), t([3.])]
{'a': t([1.])}, {'b': t([3.])}
{'a': 1}, {'a': 1, 'b': 2}
{'b': 1, 'a': 2}, {'a': 3, 'b': 4}
{'a': [1, (2., 3)]}, {'a': [1, (2., 4)]}
[1., [2.]], [2., 'a']
[1.], [(1.,)]
t(nan), t(0.)
t(0.), t(nan)
t(1.), t(0.)
1., 0.
0., nan
float('inf'), float('inf')
float('inf'), 1.
1., float('inf')
-float('inf'), float('inf')
2**70, 2**70 + 1
t([[1., 2.], [3., 5.]]), t([[1., 2.], [3., 4.]])
t([1, 2**40]), t([1, 1])
t([1.5, nan, 3.]), t([1.5, 2., nan])
torch.ones(2, 0), torch.ones(0, 2)
[], []
[], [1]
t([1.]), [1.]
1, t(1)
None, None
None, t(1.)
'a', 'a'
{1}, {1}
t([nan]), t([nan])
t([nan]), t([nan]), equal_nan=True
nan, nan
1., 1., rtol=1e-3
torch.ones(2, 3), torch.ones(3, 2).t(), check_stride=True
torch.ones(2), torch.ones(2, device='meta')
1., 2., msg='hello'
[1.], [2.], msg=lambda m: 'H ' + m
t([1.], dtype=torch.float16), t([1.01], dtype=torch.float16)
t([1.], dtype=torch.bfloat16), t([1.1], dtype=torch.bfloat16)
t([1.], dtype=torch.float64), t([1.1], dtype=torch.float64)
t([float('inf')]), t([1.])
t([float('inf'), 2.]), t([float('inf'), 2.])
t([1., 0.]), t([0., 0.])
t([1, 200], dtype=torch.uint8), t([2, 1], dtype=torch.uint8)
torch.ones(0), torch.ones(0)
[1.], (1.,)
torch.ones(2, requires_grad=True), torch.zeros(2)
"""
EQUAL = """
1, 2
1, 1.0
1.0, 1.0 + 1e-5
1, 1.5
True, 1
True, False
nan, nan
t([nan]), t([nan]), equal_nan=False
torch.ones(3), torch.ones(3) * 1.001
torch.ones(3), torch.ones(3) * 1.0000005
t([1.]), t([1.]).double()
t([1.]), t([1.]).double(), exact_dtype=False
torch.ones(3, 1), torch.ones(1, 3)
t(1.), 1
t([[2.]]), 1
torch.ones(2), 1
1, t([3])
[t([1.]), 'a'], [t([1.]), 'b']
[[1, 'x'], {'k': t(2)}], [[1, 'x'], {'k': 3}]
t([1.]), None
'a', None
(1,), 'a'
{'a': 1}, [1]
float('inf'), float('inf')
float('inf'), 1
True, t([False])
2**70, 2**70
1.0, 1 + 0j
t(1), t(1.)
t([1., 2.]), (1., 2.)
[t([1.]), t([2.])], t([1., 2.])
t([1]), t([True])
t([1.]), t([1.0001]), atol=1e-3, rtol=0
b'ab', b'ac'
frozenset({1}), {1}
torch.nn.ModuleList(), []
object, object
print, print
Ellipsis, Ellipsis
t([1., 2.]).unbind(), [1., 2.]
t([1., 2.]).unbind(), (1., 3.)
t(True), 1
t(1), 1.5
torch.Size([1, 2]), [1, 2]
torch.Size([1, 2]), (1, 3)
t([1, 2]), [1, 3]
'a', 'b'
'a', 1
['a'], ['b']
[1, 2, 3], [1, 2, 4]
[1], [1, 2]
{'a': 1}, {'b': 1}
{'a': [torch.ones(2), 1]}, {'a': [torch.ones(2), 2]}
{1, 2}, {1, 3}
{1}, [1]
None, []
int, float
torch.float32, torch.float64
torch.device('cpu'), 'cpu'
Pair(1, 2), Pair(1, 3)
Pair(1, 2), (1, 2)
1, 2, 'hello'
1, 2, msg=lambda m: 'X ' + m
1., 1.1, atol=0.2
t([1.]), t([1.1]), atol=0.01, rtol=0
range(3), [0, 1, 2]
1j, 2j
torch.nn.Parameter(t([1.])), t([1.])
slice(1), slice(2)
"""
MAKE = """
(2, 2), dtype=torch.float32
(2, 2), dtype=torch.float64
(2, 2), dtype=torch.float16
(2, 2), dtype=torch.complex64
(2, 2), dtype=torch.int64
(2, 2), dtype=torch.uint8
(2, 2), dtype=torch.bool
3, dtype=torch.float32, low=0, high=1
3, dtype=torch.int64, low=0.5, high=3.5
3, dtype=torch.int8, low=-1000, high=1000
3, dtype=torch.float32, low=-float('inf'), high=float('inf')
8, dtype=torch.int64, low=-1, high=2, exclude_zero=True
(2, 3), dtype=torch.float32, noncontiguous=True
(1, 2, 2, 2), dtype=torch.float32, memory_format=torch.channels_last
3, dtype=torch.float32, low=3, high=1
3, dtype=torch.uint8, low=-5, high=-1
3, dtype=torch.int64, requires_grad=True
"""
CHECK = """
check("one").check("add")
check("nope")
check("add").check("one")
check_not("add")
check("one").check_not("add").check("mul")
check("mul").check_not("five")
check("sub").check_not("add")
check("mul").check_next("sub")
check("one").check_next("sub")
check("one").check_next("two")
check("one").check_same("three")
check("one").check_same("add")
check_count("add", 2, exactly=True)
check_count("add", 1, exactly=True)
check_count("add", 3)
check_count("add", 0, exactly=True)
check_dag("mul").check_dag("one").check("sub")
check_dag("mul").check_dag("zip")
check_dag("add").check_dag("add").check_dag("add")
check_dag("end").check_dag("one").check("sub")
check_dag("mul").check_not("four").check_dag("one")
check_dag("mul").check_not("four").check_dag("end")
check("one").check_not("zip").check_not("four").check("end")
check_regex("a.d m")
check("five").check_next("x")
check("five").check_not("x")
check("end five").check_same("\\n")
check("add").check_count("add", 1, exactly=True).check("sub")
check_count("add", 2).check_same("mul").check_next("sub").check("end")
check_not("one").check("two")
check_not("two").check("one")
check("").check("one")
check_same("two").check_next("mul")
check_dag("add").check_dag("mul").check_same("sub")
check_dag("one").check_not("add").check_dag("sub").check_dag("two")
"""


def outcome(action):
    try:
        return action()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def say(value):
    return "ok" if value is None else value


def cases(torch, test_case):
    """(title, text) of every case, for a torch and a TestCase instance."""
    names = {"torch": torch, "t": torch.tensor, "nan": float("nan"), "Pair": Pair, "text": TEXT, "case": test_case,
             "testing": torch.testing}

    def made(arguments):
        torch.manual_seed(0)
        x = eval(f"testing.make_tensor({arguments}, device='cpu')", names)
        return f"{x.dtype} {tuple(x.shape)} {x.stride()} {x.tolist()}"

    forms = ((CLOSE, "testing.assert_close({})"), (EQUAL, "case.assertEqual({})"),
             (CHECK, "testing.FileCheck().{}.run(text)"))
    for table, form in forms:
        for row in table.strip().splitlines():
            source = form.format(row)
            yield source, say(outcome(lambda: eval(source, names)))
    for row in MAKE.strip().splitlines():
        yield f"testing.make_tensor({row})", outcome(lambda: made(row))


def render(torch, test_case):
    return "".join(f">>> {title}\n{text.rstrip()}\n" for title, text in cases(torch, test_case))


if __name__ == "__main__":
    import torch
    from torch.testing._internal.common_utils import TestCase
    print(render(torch, type("Case", (TestCase,), {"test": lambda self: None})("test")), end="")
