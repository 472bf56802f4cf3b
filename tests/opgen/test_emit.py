"""What entries become: fragments of C that must be there, and whole files that must compile without a warning."""
import os
import subprocess

import pytest

SIN = """op sin(Tensor self) -> Tensor
    like    pointwise float
    expr    sin(self)
    deriv self = cos(self)
op cos(Tensor self) -> Tensor
    like    pointwise float
    expr    cos(self)
op mul.Tensor(Tensor self, Tensor other) -> Tensor
    also    scalar(other) as mul.Scalar
    like    pointwise promote(self, other)
    numbers other
    expr    self * other
"""


def test_a_tile_program(generate):
    c = generate("op f(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n    like pointwise promote(self, other)\n"
                 "    expr    self + alpha * other\n")
    assert "{ TP_PRIM_mul, 3, 2, 1, 0 }" in c and "{ TP_PRIM_add, 4, 0, 3, 0 }" in c
    assert ".promotion = TP_PROMOTE, .to = TP_DTYPE_NONE, .promoting = 0x3" in c and ".form_count = 1" in c


def test_a_kernel_without_results(generate):
    c = generate("op f(Tensor info, str name) -> ()\n    like opaque\n    check info.dim() == 1 : \"f: one dim\"\n    kernel tp_k_f\n    nograd info\n")
    assert ".kernel = tp_k_f" in c and ".run = tp_run_kernel" in c and "f: one dim" in c


def test_equal_subexpressions_are_one_register(generate):
    c = generate("op f(Tensor self) -> Tensor\n    like pointwise float\n    expr exp(self) / (1 + exp(self))\n")
    assert c.count("TP_PRIM_exp") == 1


def test_static_conditions_choose_a_form(generate):
    c = generate("op f(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor\n    like pointwise promote(self, min, max)\n"
                 "    let low = has(min) ? maximum(self, min) : self\n    expr has(max) ? minimum(low, max) : low\n")
    assert ".form_count = 4" in c and ".select = f_select" in c and "if (arg[1].tag != TP_NONE)" in c


def test_a_shape_rule_is_emitted_twice(generate):
    c = generate("op f(Tensor self, int dim) -> Tensor\n    like opaque\n    check self.dim() > 0 : index \"got {} dims\", self.dim()\n"
                 "    result = tensor(self.dtype, [self.size(dim)*2, *self.sizes()[1:]])\n    kernel tp_k_f\n")
    assert "tp_ints_add(&list, ((tp_ints_size(self, dim, &bad) * 2)));" in c
    assert "tp_syms_add(&list, tp_sym_mul(tp_syms_size(self, dim, &bad), tp_sym_int(2)));" in c
    assert 'tp_fail_with(TP_ERR_INDEX, "got {} dims", 1' in c


def test_a_copy_clones_the_view(generate):
    c = generate("op v(Tensor(a) self, int dim) -> Tensor(a)\n    also copy\n    like view\n    check dim > 0 : \"no\"\n"
                 "    result = tensor(self.dtype, [self.size(dim)], [1], offset = 2)\n    grad self = g\n"
                 "op clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor\n    like opaque\n    kernel tp_k_clone\n"
                 "    result = tensor(self.dtype, self.sizes())\n")
    copy = c[c.index("v_copy: from"):]
    assert '.name = "VBackward0_copy"' in copy and "&tp_op_v, &arg[0]" in copy and "&tp_op_clone, &" in copy
    assert "tp_geometry_strides" not in copy and ".offset" not in copy.split("clone: from")[0] and ".jvp = tp_jvp_linear" in copy


def test_sizes_of_data_may_be_shared(generate):
    c = generate("op f(Tensor self) -> (Tensor, Tensor)\n    like opaque\n    let n = fresh(0, self.numel())\n"
                 "    result = tensor(self.dtype, [n]), tensor(i64, [n])\n    kernel tp_k_f\n")
    assert "out[0].unknown = true;" in c and "out[1].unknown = true;" in c


def test_an_order_of_dims_may_come_from_c(generate):
    text = generate("op f(Tensor self, int[] dim) -> Tensor\n    like opaque\n    result = tensor(self.dtype, self.sizes(), order c tp_s_order)\n"
                    "    kernel tp_k_f\n")
    assert text.count("tp_s_order(arg, &") == 2 and "tp_geometry_order(&out[0], &" in text and "tp_sym_geometry_order(&out[0], &" in text


def test_a_check_in_c_takes_values(generate):
    text = generate("op f(Tensor self, Scalar? low=None) -> Tensor\n    like    pointwise promote(self)\n"
                    "    check   c tp_c_converts(low, self.dtype)\n    check   c tp_c_f\n    expr    self\n")
    assert "if (!tp_c_converts((tp_value[]){ arg[1], tp_of_dtype(tp_dtype_of(self)) }))\n        return false;" in text
    assert "if (!tp_c_f(arg))\n        return false;" in text


def test_a_derivative_becomes_backward_and_jvp(generate):
    c = generate(SIN)
    assert "tp_value cos_ = tp_scope_on(&s, &tp_op_cos, &b->saved[0]);" in c
    assert "tp_value conjugate = tp_scope_conj(&s, cos_);" in c
    assert "tp_value mul = tp_scope_on(&s, &tp_op_mul_Tensor, &b->g[0], &conjugate);" in c
    assert '.name = "SinBackward0"' in c and ".jvp = sin_jvp" in c


@pytest.mark.parametrize("formula, saves", [
    ("mul(g, self)", "{ TP_SAVE_ARG, 0, 0x1 }"),
    ("mul(g, result)", "{ TP_SAVE_RESULT, 0, 0x1 }"),
    ("mul(g, len(self.sizes()))", "{ TP_SAVE_SIZES, 0, 0x1 }"),
    ("twice(g, self)", "{ TP_SAVE_SIZES, 0, 0x1 }"),
])
def test_only_what_a_formula_reads_is_saved(generate, formula, saves):
    c = generate(SIN + "fn twice(g, x) = mul(g, x.size(0))\nop f(Tensor self) -> Tensor\n    like pointwise float\n"
                 f"    expr self\n    grad self = {formula}\n")
    assert f"static const tp_save f_save[] = {{ {saves} }};" in c


@pytest.mark.parametrize("call, op", [
    ("mul(self, 2)", "mul_Tensor"),             # a literal goes into the Tensor slot
    ("mul(self, alpha)", "mul_Scalar"),         # an argument declared Scalar into the Scalar slot
    ("mul(self, self.size(0))", "mul_Scalar"),
    ("mul(self, self)", "mul_Tensor"),
    ("mul.Tensor(self, alpha)", "mul_Tensor"),
    ("self * self", "mul_Tensor"),
])
def test_overloads(generate, call, op):
    c = generate(SIN + f"op f(Tensor self, Scalar alpha) -> Tensor\n    like composite\n    decomp {call}\n")
    assert f"&tp_op_{op}, &" in " ".join(c.split("f_open")[1].split())


def test_gradients_run_in_alphabetical_order(generate):
    c = generate(SIN + "op f(Tensor self, Tensor other) -> Tensor\n    like pointwise promote(self, other)\n    expr self * other\n"
                 "    grad self = mul(g, other)\n    grad other = mul(g, self)\n")
    body = c.split("f_backward(tp_backward *b)")[1]
    assert body.index("b->wanted >> 1") < body.index("b->wanted >> 0")


def test_an_op_nobody_defines_says_so(generate):
    c = generate("op f(Tensor self) -> Tensor\n    like composite\n    decomp elsewhere(self)\n")
    assert 'tp_scope_missing(&s, "elsewhere")' in c


def compiles(folder, root, name):
    return subprocess.run(["gcc", "-std=c17", "-fsyntax-only", "-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-I",
                           os.path.join(root, "src"), "-I", str(folder), str(folder / "gen" / name)], capture_output=True, text=True)


def test_the_hard_entries_compile_without_a_warning(tmp_path, root):
    from opgen.__main__ import main
    source = os.path.join(root, "tests", "opgen", "hard.op")
    prims = os.path.join(root, "src", "tile", "prims.def")
    assert main(["--prims", prims, "--root", root, "--out", str(tmp_path / "gen"), source]) == 0
    for name in ("ops_hard.c", "ops_table.c"):
        done = compiles(tmp_path, root, name)
        assert done.returncode == 0, done.stderr


def test_an_unchanged_file_is_left_alone(tmp_path, root):
    from opgen.__main__ import main
    source = os.path.join(root, "tests", "opgen", "hard.op")
    arguments = ["--prims", os.path.join(root, "src", "tile", "prims.def"), "--root", root, "--out", str(tmp_path), source]
    assert main(arguments) == 0
    os.utime(tmp_path / "ops_hard.c", (1, 1))
    assert main(arguments) == 0
    assert os.stat(tmp_path / "ops_hard.c").st_mtime == 1


def test_an_onnx_rule_adds_nodes(generate):
    c = generate("op f(Tensor self, Tensor[] more, Tensor? bias=None, *, Scalar alpha=1, int[] dims, int dim=0) -> Tensor\n    like opaque\n"
                 "    onnx Concat(Mul(self, alpha == 1 ? bias : number(alpha, self.dtype)), *more, axis = dim, perm = [d + 1 for d in dims]) if self.dim() > 1\n")
    assert "static int f_onnx(tp_onnx *o, const tp_value *arg)" in c and ".onnx = f_onnx" in c
    assert "if (!(tp_dim(self) > 1))\n        return 0;\n    if (!o)\n        return 1;" in c
    assert 'tp_onnx_begin(o, "Concat");\n    tp_onnx_input(o, mul);\n    tp_onnx_inputs(o, 1);\n    tp_onnx_int(o, "axis", dim);\n    tp_onnx_ints(o, "perm", list.item, list.count);' in c
    assert "tp_onnx_arg(o, 2)" in c and "tp_onnx_number(o, arg[3], tp_dtype_of(self))" in c
    assert '#include "export/onnx/onnx.h"' in c


def test_an_onnx_rule_in_c_is_named_itself(generate):
    c = generate("op f(Tensor self) -> Tensor\n    also out\n    like opaque\n    onnx c tp_o_f\n")
    assert c.count(".onnx = tp_o_f") == 1


def test_an_onnx_rule_takes_lists_as_inputs_only_when_told(generate):
    import pytest
    from opgen.ast import Mistake

    with pytest.raises(Mistake, match="a list of numbers is one as ints"):
        generate("op f(Tensor self, int[] dims) -> Tensor\n    like opaque\n    onnx Tile(self, dims)\n")


def test_a_layout_is_one_of_two(generate):
    c = generate("op f(Tensor self, bool keep) -> Tensor\n    like opaque\n"
                 "    result = tensor(self.dtype, self.sizes(), keep ? like self : channels(self))\n    kernel tp_k_f\n")
    assert "tp_geometry_like(&out[0], self);" in c and "tp_sym_geometry_channels_last(&out[0]);" in c


def test_an_argument_called_g_is_still_reached(generate):
    mul = "op mul.Tensor(Tensor self, Tensor other) -> Tensor\n    like pointwise promote(self, other)\n    expr self * other\n"
    c = generate(mul + "op f(Tensor v, Tensor g) -> Tensor\n    like opaque\n    result = tensor(v.dtype, v.sizes())\n    kernel tp_k_f\n"
                 "    grad v = mul.Tensor(g, arg.g)\n")
    assert "{ TP_SAVE_ARG, 1, " in c and "{ TP_SAVE_ARG, 0, " not in c


def test_forward_rules_of_kinds(generate):
    formulas = "    grad self = mul.Tensor(g, self)\n"
    mul = SIN[SIN.index("op mul"):]
    diagonal = generate(mul + "op f(Tensor self) -> Tensor\n    like pointwise float\n    expr self\n" + formulas)
    assert ".jvp = tp_jvp_diagonal" in diagonal
    assert ".jvp = tp_jvp_zero" in generate("op f(Tensor self) -> Tensor\n    like opaque\n    result = tensor(self.dtype, self.sizes())\n    kernel tp_k_f\n"
                                            "    grad self = zero\nop zeros_like(Tensor self) -> Tensor\n    like opaque\n"
                                            "    result = tensor(self.dtype, self.sizes())\n    kernel tp_k_zeros\n")
    opaque = "op f(Tensor self, Tensor other, Scalar value) -> Tensor\n    like opaque\n    result = tensor(self.dtype, self.sizes())\n    kernel tp_k_f\n"
    both = opaque + "    grad self = g\n    grad other = g\n"
    assert ".jvp" not in generate(both)
    assert ".jvp = tp_jvp_linear," in generate(both + "    jvp = linear\n")
    assert "tp_jvp_linear_in(op, 0x5, arg, tangent, out)" in generate(both + "    jvp = linear(self, value)\n")
    assert "tp_jvp_product(op, 0x3, arg, tangent, out)" in generate(both + "    jvp = product(self, other)\n")
    assert ".jvp = tp_j_transposed" in generate(both + "    jvp = transposed\n")
