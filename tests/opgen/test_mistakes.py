"""Mistakes in .op files are reported with file and line, in words."""
import pytest
from opgen.ast import Mistake

HEAD = "op f(Tensor self, Scalar alpha=1) -> Tensor\n    like    pointwise promote(self)\n    numbers self\n"

MISTAKES = [
    ("op f(Tensor self -> Tensor\n", "x.op:1: expected ',', found '->'"),
    ("op f(Tensor self) -> Tensor\n    likes   view\n", "x.op:2: expected a column, found 'likes'"),
    ("op f(Tensor self) -> Tensor\n    like    sideways\n", "x.op:2: expected a kind, found 'sideways'"),
    ("op f(Tensor self) -> Tensor\n    also    upside\n", "x.op:2: expected inplace, out, functional, scalar(…), named or copy, found 'upside'"),
    ("op f(Tensor self) -> Tensor\n    also    copy\n    like    opaque\n", "x.op:1: 'also copy' belongs to a view"),
    ("op f(Tensor self) -> Tensor\n    also    named g without out\n    like    opaque\n", "x.op:1: named g without 'out': there is none"),
    ("op f(Tensor self) -> Tensor\n    also    named g(a, b)\n    like    opaque\n", "x.op:1: named g: 2 names for 1 arguments"),
    ("op f(Tensor[] self) -> Tensor[]\n    each    g(self)\n", "x.op:2: each g: no such op"),
    ("    like view\n", "x.op:1: a column without an entry"),
    ("op f(Tensor self) -> Tensor\n    core\n  core\n", "x.op:3: this line is indented less than the columns before it"),
    (HEAD + "    expr    self < alpha < 2\n", "x.op:4: comparisons do not chain, found '<'"),
    (HEAD + "    expr    sinus(self)\n", "x.op:4: 'sinus' is no primitive of the tile executor"),
    (HEAD + "    expr    add(self)\n", "x.op:4: add has 2 operands, 1 are given"),
    (HEAD + "    expr    beta\n", "x.op:4: 'beta' is not known here"),
    (HEAD + "    expr    self $ 2\n", "x.op:4: unexpected character '$'"),
    (HEAD + "    expr    self\n    grad other = g\n", "x.op:5: 'grad' names 'other', which is no argument of f"),
    (HEAD + "    expr    self\n    check   alpha > 0 : \"got {}\"\n",
     "x.op:5: the text has 1 places and 0 arguments follow, found the end of the line"),
    (HEAD + "    expr    when self > 0 : self\n", "x.op:4: this condition changes from element to element: use ? :"),
    ("op f(Tensor self) -> Tensor\n    like    opaque\n    result  = self\n    kernel  tp_k_f\n",
     "x.op:1: a kernel fills results: 'result' must say what they are, as tensor(dtype, sizes, …)"),
    ("op f(Tensor self) -> Tensor\n    like    composite\n    decomp  self\n    decomp  self\n",
     "x.op:4: this line is never reached: the one before it has no condition"),
    ("op f(Tensor self) -> Tensor\n    like    composite\n    decomp  c tp_x_f\n",
     "x.op:3: expected a C function: tp_k_, tp_s_, tp_c_, tp_d_, tp_v_, tp_j_, tp_f_ or tp_o_, found 'tp_x_f'"),
    (HEAD + "    expr    self\n    check   c tp_c_f(self.sizes())\n", "x.op:5: a check in C takes arguments, numbers and types"),
    ("op f(Tensor self) -> Tensor\n    core\n    core\n", "x.op:3: a second 'core'"),
    ("op f(Tensor self) -> Tensor\n    like composite\n    decomp self\nop f(Tensor x) -> Tensor\n    like composite\n    decomp x\n",
     "x.op:4: f is also defined at x.op:1"),
]


@pytest.mark.parametrize("text, message", MISTAKES)
def test_mistake(generate, text, message):
    with pytest.raises(Mistake) as caught:
        generate(text)
    assert str(caught.value) == message


def test_a_tie_is_a_mistake(generate):
    two = "op h.a(Tensor self) -> Tensor\n    like composite\n    decomp self\nop h.b(Tensor other) -> Tensor\n    like composite\n    decomp other\n"
    with pytest.raises(Mistake, match="x.op:9: a tie between h.a, h.b: name the overload"):
        generate(two + "op f(Tensor self) -> Tensor\n    like composite\n    decomp h(self)\n")
    assert "tp_op_h_b" in generate(two + "op f(Tensor self) -> Tensor\n    like composite\n    decomp h.b(self)\n")


def test_a_mistake_in_any_of_many_files(generate):
    good = {f"{i}.op": HEAD.replace("op f", f"op f{i}") + "    expr    self\n    check   c tp_c_f%d\n" % i for i in range(12)}
    text = generate(good)
    assert all(f"tp_c_f{i}(" in text for i in range(12))
    for name in ("4.op", "7.op"):       # several processes write them
        with pytest.raises(Mistake) as caught:
            generate(good | {name: HEAD + "    expr    sinus(self)\n"})
        assert str(caught.value) == f"{name}:4: 'sinus' is no primitive of the tile executor"
