"""Schemas are read and written to the letter, and variants have PyTorch's names."""
import pytest

SCHEMAS = [
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
    "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
    "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    "aten::dropout(Tensor input, float p, bool train) -> Tensor",
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_round_trip(schema):
    from opgen.grammar import Parser, tokens_of
    assert str(Parser(tokens_of(schema, "x.op", 1), "x.op").schema()) == schema


VARIANTS = [
    ("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "inplace, out as add.out, scalar(other) as add.Scalar", [
        "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        "add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
        "add.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)"]),
    ("_foreach_sin(Tensor[] self) -> Tensor[]", "inplace, out", [
        "_foreach_sin_(Tensor(a!)[] self) -> ()", "_foreach_sin.out(Tensor[] self, *, Tensor(a!)[] out) -> ()"]),
    ("sin(Tensor self) -> Tensor", "inplace, out", [
        "sin_(Tensor(a!) self) -> Tensor(a!)", "sin.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"]),
    ("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", "out as sort.values", [
        "sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices) -> "
        "(Tensor(a!) values, Tensor(b!) indices)"]),
    ("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", "out as max.dim_max(max, max_values)", [
        "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> "
        "(Tensor(a!) values, Tensor(b!) indices)"]),
    ("copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", "functional as copy, out as copy.out", [
        "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
        "copy.out(Tensor self, Tensor src, bool non_blocking=False, *, Tensor(a!) out) -> Tensor(a!)"]),
    ("erf(Tensor self) -> Tensor", "inplace, out, named also_erf, named special_erf", [
        "erf_(Tensor(a!) self) -> Tensor(a!)", "erf.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "also_erf(Tensor self) -> Tensor",
        "also_erf_(Tensor(a!) self) -> Tensor(a!)", "also_erf.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
        "special_erf(Tensor self) -> Tensor", "special_erf.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"]),
    ("mul.Tensor(Tensor self, Tensor other) -> Tensor", "scalar(other) as mul.Scalar, named multiply without Scalar", [
        "mul.Scalar(Tensor self, Scalar other) -> Tensor", "multiply.Tensor(Tensor self, Tensor other) -> Tensor"]),
    ("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", "inplace as transpose_, named swapaxes.default(self, axis0, axis1)", [
        "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
        "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)"]),
]


@pytest.mark.parametrize("schema, also, want", VARIANTS)
def test_variants(world, schema, also, want):
    made = world(f"op {schema}\n    also    {also}\n    like    opaque\n")
    assert [str(op.schema)[len("aten::"):] for op in made.files[0].ops[1:]] == want


@pytest.mark.parametrize("schema, want", [
    ("select.int(Tensor(a) self, int dim) -> Tensor(a)", ["select_copy.int(Tensor self, int dim) -> Tensor",
                                                          "select_copy.int_out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)"]),
    ("unbind(Tensor(a -> *) self) -> Tensor(a)[]", ["unbind_copy(Tensor self) -> Tensor[]", "unbind_copy.out(Tensor self, *, Tensor(a!)[] out) -> ()"]),
])
def test_copies_of_views(world, schema, want):
    made = world(f"op {schema}\n    also    copy\n    like    view\n")
    assert [str(op.schema)[len("aten::"):] for op in made.files[0].ops[1:]] == want


@pytest.mark.parametrize("name, node", [
    ("log1p", "Log1P"), ("max_pool2d_with_indices", "MaxPool2DWithIndices"), ("nll_loss2d_forward", "NllLoss2D"), ("smooth_l1_loss", "SmoothL1Loss"),
    ("atan2", "Atan2"), ("exp2", "Exp2"), ("native_layer_norm", "NativeLayerNorm"), ("tanh", "Tanh"), ("unsafe_view", "UnsafeView"),
])
def test_names_of_nodes(name, node):
    from opgen.model import camel
    assert camel(name) == node
