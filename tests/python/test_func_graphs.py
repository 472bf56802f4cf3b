"""Transforms in one another, traced by make_fx: the calls are those that PyTorch 2.13's graphs hold (recorded there)."""
import pytest
import taper
from taper.func import grad, jacrev, vmap
from taper.fx.experimental.proxy_tensor import make_fx

GRAPHS = {
    "sin":
        "sin = sin.default(arg0_1); return sin",
    "out_dims":
        "sin = sin.default(arg0_1); permute = permute.default(sin, [1, 0]); return permute",
    "not batched":
        "mul = mul.Tensor(b_1, 2); expand = expand.default(mul, [3, 4]); return expand",
    "broadcast":
        "view = view.default(x_1, [3, 1, 2]); add = add.Tensor(view, y_1); return add",
    "sum":
        "sum_1 = sum.dim_IntList(a_1, [1, 2]); return sum_1",
    "sum of a dim":
        "sum_1 = sum.dim_IntList(a_1, [1]); return sum_1",
    "mean":
        "mean = mean.dim(a_1, [1, 2]); return mean",
    "max":
        "view = view.default(a_1, [3, 10]); max_1 = max.dim(view, 1); getitem = getitem(max_1, 0); return getitem",
    "argmax":
        "view = view.default(a_1, [3, 10]); argmax = argmax.default(view, 1); return argmax",
    "var":
        "var = var.correction(a_1, [1, 2]); return var",
    "mm":
        "view = view.default(x_1, [15, 2]); mm = mm.default(view, w_1); _unsafe_view = _unsafe_view.default(mm, [3, 5, 4]); "
        "return _unsafe_view",
    "mm of both":
        "expand = expand.default(x_1, [3, 5, 2]); view = view.default(expand, [3, 5, 2]); "
        "expand_1 = expand.default(y_1, [3, 2, 4]); view_1 = view.default(expand_1, [3, 2, 4]); "
        "bmm = bmm.default(view, view_1); _unsafe_view = _unsafe_view.default(bmm, [3, 5, 4]); return _unsafe_view",
    "mv":
        "view = view.default(x_1, [15, 2]); mv = mv.default(view, y_1); _unsafe_view = _unsafe_view.default(mv, [3, 5]); "
        "return _unsafe_view",
    "mv of vectors":
        "permute = permute.default(x_1, [1, 0]); mm = mm.default(y_1, permute); permute_1 = permute.default(mm, [1, 0]); "
        "return permute_1",
    "dot of both":
        "unsqueeze = unsqueeze.default(y_1, -1); unsqueeze_1 = unsqueeze.default(y_1, -2); "
        "expand = expand.default(unsqueeze_1, [3, 1, 2]); view = view.default(expand, [3, 1, 2]); "
        "expand_1 = expand.default(unsqueeze, [3, 2, 1]); view_1 = view.default(expand_1, [3, 2, 1]); "
        "bmm = bmm.default(view, view_1); _unsafe_view = _unsafe_view.default(bmm, [3, 1, 1]); "
        "squeeze = squeeze.dim(_unsafe_view, -1); squeeze_1 = squeeze.dim(squeeze, -1); return squeeze_1",
    "linear":
        "t = t.default(w_1); view = view.default(x_1, [15, 2]); mm = mm.default(view, t); "
        "_unsafe_view = _unsafe_view.default(mm, [3, 5, 4]); mul = mul.Scalar(b_1, 1); add = add.Tensor(mul, _unsafe_view); "
        "return add",
    "ensemble":
        "transpose = transpose.int(w_1, 1, 2); expand = expand.default(x_1, [3, 5, 2]); "
        "view = view.default(expand, [3, 5, 2]); expand_1 = expand.default(transpose, [3, 2, 4]); "
        "view_1 = view.default(expand_1, [3, 2, 4]); bmm = bmm.default(view, view_1); "
        "_unsafe_view = _unsafe_view.default(bmm, [3, 5, 4]); mul = mul.Scalar(b_1, 1); view_2 = view.default(mul, [3, 1, 4]); "
        "add = add.Tensor(view_2, _unsafe_view); return add",
    "bmm":
        "expand = expand.default(x_1, [3, 2, 4, 5]); view = view.default(expand, [6, 4, 5]); "
        "expand_1 = expand.default(w_1, [3, 2, 5, 6]); clone = clone.default(expand_1); "
        "_unsafe_view = _unsafe_view.default(clone, [6, 5, 6]); bmm = bmm.default(view, _unsafe_view); "
        "_unsafe_view_1 = _unsafe_view.default(bmm, [3, 2, 4, 6]); return _unsafe_view_1",
    "softmax":
        "_softmax = _softmax.default(a_1, 2, False); return _softmax",
    "layer_norm":
        "native_layer_norm = native_layer_norm.default(x_1, [2], w_1, None, 1e-05); getitem = getitem(native_layer_norm, 0); "
        "return getitem",
    "embedding":
        "embedding = embedding.default(w_1, i_1); return embedding",
    "index":
        "index = index.Tensor(x_1, [None, i_1]); return index",
    "index by batches":
        "index = index.Tensor(x_1, [i_1]); return index",
    "gather":
        "gather = gather.default(x_1, 1, i_1); return gather",
    "select":
        "select = select.int(a_1, 1, 0); return select",
    "slices":
        "slice_1 = slice.Tensor(a_1, 1, 1, 9223372036854775807); select = select.int(slice_1, 2, 0); return select",
    "view":
        "view = view.default(a_1, [3, -1]); return view",
    "t":
        "transpose = transpose.int(a_1, 1, 2); return transpose",
    "cat":
        "cat = cat.default([a_1, a_1], 1); return cat",
    "cat with a constant":
        "expand = expand.default(y_1, [3, 5, 2]); cat = cat.default([x_1, expand], 1); return cat",
    "new_zeros":
        "new_zeros = new_zeros.default(a_1, [3, 4]); return new_zeros",
    "zeros_like":
        "zeros_like = zeros_like.default(arg0_1); return zeros_like",
    "in place":
        "clone = clone.default(a_1); add_ = add_.Tensor(clone, 1); return add_",
    "copy_":
        "clone = clone.default(a_1); copy_ = copy_.default(clone, a_1); return copy_",
    "norm":
        "linalg_vector_norm = linalg_vector_norm.default(a_1, 2, [1, 2]); return linalg_vector_norm",
    "different numbers":
        "rand = rand.default([3, 2]); add = add.Tensor(a_1, rand); return add",
    "same numbers":
        "rand = rand.default([2]); add = add.Tensor(a_1, rand); return add",
    "vmap(vmap)":
        "sin = sin.default(a_1); sum_1 = sum.dim_IntList(sin, [2]); return sum_1",
    "vmap(vmap) of two":
        "view = view.default(x_1, [4, 1]); mul = mul.Tensor(view, y_1); return mul",
    "grad(vmap)":
        "sin = sin.default(x_1); sum_1 = sum.dim_IntList(sin, [1]); sum_2 = sum.default(sum_1); "
        "ones_like = ones_like.default(sum_2); expand = expand.default(ones_like, [3]); "
        "unsqueeze = unsqueeze.default(expand, 1); expand_1 = expand.default(unsqueeze, [3, 2]); cos = cos.default(x_1); "
        "mul = mul.Tensor(expand_1, cos); return mul",
    "vmap(grad)":
        "sin = sin.default(a_1); sum_1 = sum.dim_IntList(sin, [1]); ones_like = ones_like.default(sum_1); "
        "view = view.default(ones_like, [3, 1]); expand = expand.default(view, [3, 2]); cos = cos.default(a_1); "
        "mul = mul.Tensor(expand, cos); return mul",
    "vmap(grad(grad))":
        "sin = sin.default(a_1); sum_1 = sum.dim_IntList(sin, [1]); ones_like = ones_like.default(sum_1); "
        "view = view.default(ones_like, [3, 1]); expand = expand.default(view, [3, 2]); cos = cos.default(a_1); "
        "mul = mul.Tensor(expand, cos); sum_2 = sum.dim_IntList(mul, [1]); ones_like_1 = ones_like.default(sum_2); "
        "view_1 = view.default(ones_like_1, [3, 1]); expand_1 = expand.default(view_1, [3, 2]); "
        "mul_1 = mul.Tensor(expand_1, expand); sin_1 = sin.default(a_1); neg = neg.default(sin_1); "
        "mul_2 = mul.Tensor(mul_1, neg); return mul_2",
    "grad(grad(vmap))":
        "sin = sin.default(x_1); sum_1 = sum.dim_IntList(sin, [1]); sum_2 = sum.default(sum_1); "
        "ones_like = ones_like.default(sum_2); expand = expand.default(ones_like, [3]); "
        "unsqueeze = unsqueeze.default(expand, 1); expand_1 = expand.default(unsqueeze, [3, 2]); cos = cos.default(x_1); "
        "mul = mul.Tensor(expand_1, cos); sum_3 = sum.default(mul); ones_like_1 = ones_like.default(sum_3); "
        "expand_2 = expand.default(ones_like_1, [3, 2]); mul_1 = mul.Tensor(expand_2, expand_1); sin_1 = sin.default(x_1); "
        "neg = neg.default(sin_1); mul_2 = mul.Tensor(mul_1, neg); return mul_2",
    "vmap(grad) of products":
        "view = view.default(x_1, [15, 2]); mm = mm.default(view, w_1); _unsafe_view = _unsafe_view.default(mm, [3, 5, 4]); "
        "sum_1 = sum.dim_IntList(_unsafe_view, [1, 2]); ones_like = ones_like.default(sum_1); "
        "view_1 = view.default(ones_like, [3, 1, 1]); expand = expand.default(view_1, [3, 5, 4]); "
        "transpose = transpose.int(expand, 1, 2); expand_1 = expand.default(transpose, [3, 4, 5]); "
        "view_2 = view.default(expand_1, [3, 4, 5]); expand_2 = expand.default(x_1, [3, 5, 2]); "
        "view_3 = view.default(expand_2, [3, 5, 2]); bmm = bmm.default(view_2, view_3); "
        "_unsafe_view_1 = _unsafe_view.default(bmm, [3, 4, 2]); transpose_1 = transpose.int(_unsafe_view_1, 1, 2); "
        "return transpose_1",
    "grad(vmap) of products":
        "view = view.default(x_1, [15, 2]); mm = mm.default(view, w_1); _unsafe_view = _unsafe_view.default(mm, [3, 5, 4]); "
        "sum_1 = sum.dim_IntList(_unsafe_view, [1, 2]); sum_2 = sum.default(sum_1); ones_like = ones_like.default(sum_2); "
        "expand = expand.default(ones_like, [3]); unsqueeze = unsqueeze.default(expand, 1); "
        "unsqueeze_1 = unsqueeze.default(unsqueeze, 2); expand_1 = expand.default(unsqueeze_1, [3, 5, 4]); "
        "view_1 = view.default(expand_1, [15, 4]); t = t.default(view_1); mm_1 = mm.default(t, view); t_1 = t.default(mm_1); "
        "return t_1",
    "vmap(grad(vmap))":
        "sin = sin.default(a_1); sum_1 = sum.dim_IntList(sin, [2]); sum_2 = sum.dim_IntList(sum_1, [1]); "
        "ones_like = ones_like.default(sum_2); view = view.default(ones_like, [3, 1]); expand = expand.default(view, [3, 5]); "
        "unsqueeze = unsqueeze.default(expand, 2); view_1 = view.default(unsqueeze, [3, 5, 1]); "
        "expand_1 = expand.default(view_1, [3, 5, 2]); cos = cos.default(a_1); mul = mul.Tensor(expand_1, cos); return mul",
    "jacrev":
        "sin = sin.default(arg0_1); new_zeros = new_zeros.default(sin, [4, 4]); diagonal = diagonal.default(new_zeros); "
        "fill_ = fill_.Scalar(diagonal, 1); view = view.default(new_zeros, [4, 4]); cos = cos.default(arg0_1); "
        "mul = mul.Tensor(view, cos); split_with_sizes = split_with_sizes.default(mul, [4]); "
        "getitem = getitem(split_with_sizes, 0); view_1 = view.default(getitem, [4, 4]); return view_1",
    "jacrev in chunks":
        "sin = sin.default(arg0_1); new_zeros = new_zeros.default(sin, [2, 4]); diagonal = diagonal.default(new_zeros); "
        "fill_ = fill_.Scalar(diagonal, 1); view = view.default(new_zeros, [2, 4]); cos = cos.default(arg0_1); "
        "mul = mul.Tensor(view, cos); new_zeros_1 = new_zeros.default(sin, [2, 4]); "
        "diagonal_1 = diagonal.default(new_zeros_1, 2); fill__1 = fill_.Scalar(diagonal_1, 1); "
        "view_1 = view.default(new_zeros_1, [2, 4]); cos_1 = cos.default(arg0_1); mul_1 = mul.Tensor(view_1, cos_1); "
        "cat = cat.default([mul, mul_1]); split_with_sizes = split_with_sizes.default(cat, [4]); "
        "getitem = getitem(split_with_sizes, 0); view_2 = view.default(getitem, [4, 4]); return view_2",
    "jacrev(jacrev)":
        "sin = sin.default(x_1); sum_1 = sum.default(sin); new_zeros = new_zeros.default(sum_1, [1, 1]); "
        "diagonal = diagonal.default(new_zeros); fill_ = fill_.Scalar(diagonal, 1); view = view.default(new_zeros, [1]); "
        "view_1 = view.default(view, [1, 1]); expand = expand.default(view_1, [1, 4]); cos = cos.default(x_1); "
        "mul = mul.Tensor(expand, cos); split_with_sizes = split_with_sizes.default(mul, [1]); "
        "getitem = getitem(split_with_sizes, 0); view_2 = view.default(getitem, [4]); "
        "new_zeros_1 = new_zeros.default(view_2, [4, 4]); diagonal_1 = diagonal.default(new_zeros_1); "
        "fill__1 = fill_.Scalar(diagonal_1, 1); view_3 = view.default(new_zeros_1, [4, 4]); "
        "view_4 = view.default(view_3, [4, 1, 4]); cat = cat.default([view_4], 1); mul_1 = mul.Tensor(cat, expand); "
        "sum_2 = sum.dim_IntList(mul_1, [1], True); view_5 = view.default(sum_2, [4, 4]); sin_1 = sin.default(x_1); "
        "neg = neg.default(sin_1); mul_2 = mul.Tensor(view_5, neg); split_with_sizes_1 = split_with_sizes.default(mul_2, [4]); "
        "getitem_1 = getitem(split_with_sizes_1, 0); view_6 = view.default(getitem_1, [4, 4]); return view_6",
    "vmap(jacrev)":
        "sin = sin.default(arg0_1); new_zeros = new_zeros.default(sin, [3, 2, 2]); "
        "diagonal = diagonal.default(new_zeros, 0, 1, 2); fill_ = fill_.Scalar(diagonal, 1); "
        "view = view.default(new_zeros, [3, 2, 2]); cos = cos.default(arg0_1); view_1 = view.default(cos, [3, 1, 2]); "
        "mul = mul.Tensor(view, view_1); split_with_sizes = split_with_sizes.default(mul, [2], 1); "
        "getitem = getitem(split_with_sizes, 0); view_2 = view.default(getitem, [3, 2, 2]); return view_2",
}


def programs():
    x, X, w, b = taper.zeros(3, 2), taper.zeros(3, 5, 2), taper.zeros(4, 2), taper.zeros(4)
    i = taper.zeros(3, 2, dtype=taper.long)
    return {
        "sin": (vmap(taper.sin), x),
        "out_dims": (vmap(taper.sin, out_dims=1), x),
        "not batched": (lambda x, b: vmap(lambda a: b * 2)(x), x, b),
        "broadcast": (lambda x, y: vmap(lambda a: a + y)(x), x, X[0]),
        "sum": (vmap(lambda a: a.sum()), X),
        "sum of a dim": (vmap(lambda a: a.sum(0)), X),
        "mean": (vmap(lambda a: a.mean()), X),
        "max": (vmap(lambda a: a.max()), X),
        "argmax": (vmap(lambda a: a.argmax()), X),
        "var": (vmap(lambda a: a.var()), X),
        "mm": (lambda x, w: vmap(lambda a: a.mm(w))(x), X, w.t()),
        "mm of both": (lambda x, y: vmap(taper.mm)(x, y), X, taper.zeros(3, 2, 4)),
        "mv": (lambda x, y: vmap(lambda a: a.mv(y))(x), X, taper.zeros(2)),
        "mv of vectors": (lambda x, y: vmap(lambda a: y.mv(a))(x), x, w),
        "dot of both": (lambda x, y: vmap(taper.dot)(x, y), x, x),
        "linear": (lambda x, w, b: vmap(lambda a: taper.nn.functional.linear(a, w, b))(x), X, w, b),
        "ensemble": (lambda x, w, b: vmap(taper.nn.functional.linear)(x, w, b), X, taper.zeros(3, 4, 2), taper.zeros(3, 4)),
        "bmm": (lambda x, w: vmap(lambda a: taper.bmm(a, w))(x), taper.zeros(3, 2, 4, 5), taper.zeros(2, 5, 6)),
        "softmax": (vmap(lambda a: a.softmax(-1)), X),
        "layer_norm": (lambda x, w: vmap(lambda a: taper.nn.functional.layer_norm(a, (2,), w))(x), X, taper.ones(2)),
        "embedding": (lambda w, i: vmap(lambda i: taper.nn.functional.embedding(i, w))(i), w, i),
        "index": (lambda x, i: vmap(lambda a: a[i])(x), X, i[0]),
        "index by batches": (lambda x, i: vmap(lambda i: x[i])(i), X[0], i),
        "gather": (lambda x, i: vmap(lambda a, i: a.gather(0, i))(x, i), x, i),
        "select": (vmap(lambda a: a[0]), X),
        "slices": (vmap(lambda a: a[1:, 0]), X),
        "view": (vmap(lambda a: a.view(-1)), X),
        "t": (vmap(lambda a: a.t()), X),
        "cat": (vmap(lambda a: taper.cat([a, a])), X),
        "cat with a constant": (lambda x, y: vmap(lambda a: taper.cat([a, y]))(x), X, X[0]),
        "new_zeros": (vmap(lambda a: a.new_zeros(4)), X),
        "zeros_like": (vmap(taper.zeros_like), X),
        "in place": (vmap(lambda a: a.clone().add_(1)), X),
        "copy_": (vmap(lambda a: a.clone().copy_(a)), x),
        "norm": (vmap(lambda a: a.norm()), X),
        "different numbers": (vmap(lambda a: a + taper.rand(2), randomness="different"), x),
        "same numbers": (vmap(lambda a: a + taper.rand(2), randomness="same"), x),
        "vmap(vmap)": (vmap(vmap(lambda a: a.sin().sum())), X),
        "vmap(vmap) of two": (lambda x, y: vmap(lambda a: vmap(lambda c: a * c)(y))(x), b, taper.zeros(5)),
        "grad(vmap)": (grad(lambda x: vmap(lambda a: a.sin().sum())(x).sum()), x),
        "vmap(grad)": (vmap(grad(lambda a: a.sin().sum())), x),
        "vmap(grad(grad))": (vmap(grad(lambda a: grad(lambda c: c.sin().sum())(a).sum())), x),
        "grad(grad(vmap))": (grad(lambda x: grad(lambda y: vmap(lambda a: a.sin().sum())(y).sum())(x).sum()), x),
        "vmap(grad) of products": (lambda x, w: vmap(grad(lambda w, a: a.mm(w).sum()), (None, 0))(w, x), X, w.t()),
        "grad(vmap) of products": (lambda x, w: grad(lambda w: vmap(lambda a: a.mm(w).sum())(x).sum())(w), X, w.t()),
        "vmap(grad(vmap))": (vmap(grad(lambda a: vmap(lambda c: c.sin().sum())(a).sum())), X),
        "jacrev": (jacrev(taper.sin), b),
        "jacrev in chunks": (jacrev(taper.sin, chunk_size=2), b),
        "jacrev(jacrev)": (jacrev(jacrev(lambda x: x.sin().sum())), b),
        "vmap(jacrev)": (vmap(jacrev(taper.sin)), x),
    }



def listing(gm):
    """The calls of a graph, those that nobody reads left out."""
    gm.graph.eliminate_dead_code()
    lines = []
    for n in gm.graph.nodes:
        if n.op == "output":
            lines.append(f"return {n.args[0]}")
        elif n.op != "placeholder":
            target = getattr(n.target, "__name__", str(n.target))
            named = [f"{k} = {v}" for k, v in n.kwargs.items() if k in ("keepdim", "dtype", "alpha", "accumulate")]
            lines.append(f"{n.name} = {target}({', '.join([*map(str, n.args), *named])})")
    return "; ".join(lines)


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name):
    f, *args = programs()[name]
    assert listing(make_fx(f)(*args)) == GRAPHS[name]


def test_nothing_is_forgotten():
    assert set(programs()) == set(GRAPHS)
