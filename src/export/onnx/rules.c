/* rules.c - ONNX nodes of calls whose rule is no expression: lists of results, optional weights, index lists.
 *
 * Each answers as tp_onnx_fn says: 1, 0 when these arguments have no form in ONNX, -1 on failure; without a model it only
 * answers. */
#include "export/onnx/internal.h"
#include "gen/ops.h"
#include "ops/copy.h"

static int done(const tp_onnx *o)
{
    return tp_onnx_good(o) ? 1 : -1;
}

static int64_t wrapped(int64_t dim, const tp_tensor *t)
{
    return dim < 0 ? dim + t->ndim : dim;
}

static void ints_of(tp_onnx *o, const char *name, tp_value list, int want)
{
    int64_t item[TP_MAX_DIMS];
    int count = tp_as_ints(list, item, TP_MAX_DIMS, want);
    if (count < 0)
        o->failed = true;
    else
        tp_onnx_ints(o, name, item, count);
}

static int reshaped(tp_onnx *o, int value, const tp_tensor *like)
{
    return like ? tp_onnx_2(o, "Reshape", value, tp_onnx_list(o, like->size, like->ndim)) : 0;
}

/* ---- lists of pieces ---- */

/* One Split for all pieces; the k-th is as long as its fact says. */
static int pieces(tp_onnx *o, const tp_tensor *self, int64_t dim, bool drop_dim)
{
    int count = o->node ? (int)tp_length(o->node->fact) : 0;
    int64_t *length = tp_alloc_array((size_t)count + 1, sizeof *length);
    if (!length) {
        o->failed = true;
        return -1;
    }
    dim = wrapped(dim, self);
    for (int k = 0; k < count; k++)
        length[k] = drop_dim ? 1 : tp_onnx_result_fact(o, k)->size[dim];
    int x = tp_onnx_arg(o, 0), lengths = tp_onnx_list(o, length, count);
    tp_free(length);
    tp_onnx_begin(o, "Split");
    tp_onnx_input(o, x);
    tp_onnx_input(o, lengths);
    tp_onnx_int(o, "axis", dim);
    int first = tp_onnx_end_many(o, count);
    for (int k = 0; k < count && !o->failed; k++)
        tp_onnx_result(o, k, drop_dim ? reshaped(o, first + k, tp_onnx_result_fact(o, k)) : first + k);
    return done(o);
}

TP_HOOK_O(tp_o_split)
{
    return o ? pieces(o, arg[0].tensor, tp_as_int(arg[2]), false) : arg[0].tensor->ndim > 0;
}

TP_HOOK_O(tp_o_unbind)
{
    return o ? pieces(o, arg[0].tensor, tp_as_int(arg[1]), true) : arg[0].tensor->ndim > 0;
}

/* ---- joining ---- */

/* Tensors of the list in the type of the result, each seen in `ndim` dims; an empty 1-d one is nothing, as in PyTorch. */
static int joined(tp_onnx *o, int64_t dim, bool stacked)
{
    const tp_tensor *result = tp_onnx_result_fact(o, 0);
    tp_array(int) part = { 0 };
    tp_value list = o->raw[0];
    for (uint32_t k = 0; k < tp_length(list) && !o->failed; k++) {
        const tp_node *n = tp_as_node(list.list->item[k]);
        const tp_tensor *t = n ? tp_onnx_fact(n, 0) : NULL;
        if (!t || (!stacked && t->ndim == 1 && t->numel == 0 && result->ndim != 1))
            continue;
        int v = tp_onnx_cast(o, tp_onnx_value_of(o, n), (tp_dtype)result->dtype);
        if (stacked) {
            int64_t at = dim;
            v = tp_onnx_2(o, "Unsqueeze", v, tp_onnx_list(o, &at, 1));
        }
        if (!tp_array_push(&part, v))
            o->failed = true;
    }
    tp_onnx_begin(o, "Concat");
    for (size_t i = 0; i < part.count; i++)
        tp_onnx_input(o, part.item[i]);
    tp_onnx_int(o, "axis", dim);
    tp_onnx_result(o, 0, tp_onnx_end(o));
    tp_array_fini(&part);
    return done(o);
}

TP_HOOK_O(tp_o_cat)
{
    return o ? joined(o, wrapped(tp_as_int(arg[1]), tp_onnx_result_fact(o, 0)), false) : tp_length(arg[0]) > 0;
}

TP_HOOK_O(tp_o_stack)
{
    return o ? joined(o, wrapped(tp_as_int(arg[1]), tp_onnx_result_fact(o, 0)), true) : tp_length(arg[0]) > 0;
}

/* ---- choosing ---- */

static int top(tp_onnx *o, const tp_tensor *self, int64_t k, int64_t dim, bool largest)
{
    int x = tp_onnx_arg(o, 0), count = tp_onnx_list(o, &k, 1);
    tp_onnx_begin(o, "TopK");
    tp_onnx_input(o, x);
    tp_onnx_input(o, count);
    tp_onnx_int(o, "axis", wrapped(dim, self));
    tp_onnx_int(o, "largest", largest);
    int first = tp_onnx_end_many(o, 2);
    tp_onnx_result(o, 0, first);
    tp_onnx_result(o, 1, first + 1);
    return done(o);
}

TP_HOOK_O(tp_o_topk)
{
    if (!o)
        return arg[0].tensor->ndim > 0 && arg[0].tensor->dtype != TP_b8;
    return top(o, arg[0].tensor, tp_as_int(arg[1]), tp_as_int(arg[2]), tp_as_bool(arg[3]));
}

TP_HOOK_O(tp_o_sort)
{
    const tp_tensor *self = arg[0].tensor;
    if (!o)
        return self->ndim > 0 && self->dtype != TP_b8;
    int64_t dim = wrapped(tp_as_int(arg[1]), self);
    return top(o, self, self->size[dim], dim, tp_as_bool(arg[2]));
}

/* x[i] or x[:, i]: one index. x[i, j, …]: indices of the leading dims. Masks and gaps have no form here. */
static bool index_form(const tp_value *arg, int *first, int *count)
{
    *first = *count = 0;
    for (uint32_t i = 0; i < tp_length(arg[1]); i++) {
        const tp_tensor *t = tp_as_tensor(arg[1].list->item[i]);
        if (!t)
            continue;
        if (!tp_dtype_is_integral((tp_dtype)t->dtype) || t->dtype == TP_b8 || t->dtype == TP_u8)
            return false;
        if (*count && *first + *count != (int)i)
            return false;
        *first = *count ? *first : (int)i;
        ++*count;
    }
    return *count == 1 || (*count > 1 && *first == 0);
}

static int gathered(tp_onnx *o, const tp_value *arg, int count)
{
    const tp_tensor *result = tp_onnx_result_fact(o, 0), *self = arg[0].tensor;
    int ndim = result->ndim - (self->ndim - count), part[TP_MAX_DIMS];
    int shape = tp_onnx_list(o, result->size, ndim), last = tp_onnx_list(o, (int64_t[]){ ndim }, 1);
    for (int i = 0; i < count && !o->failed; i++) {
        int v = tp_onnx_cast(o, tp_onnx_value_of(o, tp_as_node(o->raw[1].list->item[i])), TP_i64);
        part[i] = tp_onnx_2(o, "Unsqueeze", tp_onnx_2(o, "Expand", v, shape), last);
    }
    tp_onnx_begin(o, "Concat");
    for (int i = 0; i < count && !o->failed; i++)
        tp_onnx_input(o, part[i]);
    tp_onnx_int(o, "axis", ndim);
    int places = tp_onnx_end(o);
    return tp_onnx_2(o, "GatherND", tp_onnx_arg(o, 0), places);
}

TP_HOOK_O(tp_o_index)
{
    int first, count, v;
    bool has = index_form(arg, &first, &count);
    if (!has || !o)
        return has;
    if (count == 1) {
        int x = tp_onnx_arg(o, 0), at = tp_onnx_cast(o, tp_onnx_value_of(o, tp_as_node(o->raw[1].list->item[first])), TP_i64);
        tp_onnx_begin(o, "Gather");
        tp_onnx_input(o, x);
        tp_onnx_input(o, at);
        tp_onnx_int(o, "axis", first);
        v = tp_onnx_end(o);
    } else {
        v = gathered(o, arg, count);
    }
    tp_onnx_result(o, 0, v);
    return done(o);
}

/* ---- writing pieces ---- */

/* self with src at the places start, start + step, … along dim. */
static int scattered(tp_onnx *o, const tp_tensor *self, int src, int64_t dim, int64_t start, int64_t step, int64_t count)
{
    int64_t *place = tp_alloc_array((size_t)count + 1, sizeof *place), size[TP_MAX_DIMS], row[TP_MAX_DIMS];
    if (!place) {
        o->failed = true;
        return -1;
    }
    for (int64_t i = 0; i < count; i++)
        place[i] = start + i * step;
    for (int i = 0; i < self->ndim; i++) {
        size[i] = i == dim ? count : self->size[i];
        row[i] = i == dim ? count : 1;
    }
    int places = tp_onnx_list(o, place, (int)count);
    tp_free(place);
    places = tp_onnx_2(o, "Reshape", places, tp_onnx_list(o, row, self->ndim));
    places = tp_onnx_2(o, "Expand", places, tp_onnx_list(o, size, self->ndim));
    src = tp_onnx_2(o, "Reshape", tp_onnx_cast(o, src, (tp_dtype)self->dtype), tp_onnx_list(o, size, self->ndim));
    int x = tp_onnx_arg(o, 0);
    tp_onnx_begin(o, "ScatterElements");
    tp_onnx_input(o, x);
    tp_onnx_input(o, places);
    tp_onnx_input(o, src);
    tp_onnx_int(o, "axis", dim);
    tp_onnx_result(o, 0, tp_onnx_end(o));
    return done(o);
}

TP_HOOK_O(tp_o_select_scatter)
{
    const tp_tensor *self = arg[0].tensor;
    if (!o)
        return 1;
    int64_t dim = wrapped(tp_as_int(arg[2]), self), index = tp_as_int(arg[3]);
    return scattered(o, self, tp_onnx_arg(o, 1), dim, index < 0 ? index + self->size[dim] : index, 1, 1);
}

TP_HOOK_O(tp_o_slice_scatter)
{
    const tp_tensor *self = arg[0].tensor, *src = arg[1].tensor;
    if (!o)
        return src->ndim == self->ndim;
    int64_t dim = wrapped(tp_as_int(arg[2]), self), start = tp_is_none(arg[3]) ? 0 : tp_as_int(arg[3]);
    return scattered(o, self, tp_onnx_arg(o, 1), dim, start < 0 ? start + self->size[dim] : start, tp_as_int(arg[5]), src->size[dim]);
}

/* ---- windows ---- */

TP_HOOK_O(tp_o_convolution)
{
    int dims = arg[1].tensor->ndim - 2;
    int64_t pad[2 * TP_MAX_DIMS];
    if (!o)
        return dims > 0 && arg[0].tensor->ndim == dims + 2 && tp_dtype_is_float((tp_dtype)arg[0].tensor->dtype);
    bool transposed = tp_as_bool(arg[6]);
    int x = tp_onnx_arg(o, 0), w = tp_onnx_arg(o, 1), b = tp_onnx_arg(o, 2);
    if (tp_as_ints(arg[4], pad, TP_MAX_DIMS, dims) < 0)
        return -1;
    for (int i = 0; i < dims; i++)
        pad[dims + i] = pad[i];
    tp_onnx_begin(o, transposed ? "ConvTranspose" : "Conv");
    tp_onnx_input(o, x);
    tp_onnx_input(o, w);
    tp_onnx_input(o, b);
    ints_of(o, "strides", arg[3], dims);
    tp_onnx_ints(o, "pads", pad, 2 * dims);
    ints_of(o, "dilations", arg[5], dims);
    if (transposed)
        ints_of(o, "output_padding", arg[7], dims);
    tp_onnx_int(o, "group", tp_as_int(arg[8]));
    tp_onnx_result(o, 0, tp_onnx_end(o));
    return done(o);
}

/* Where the windows are all alike it is a plain average. */
TP_HOOK_O(tp_o_adaptive_avg_pool2d)
{
    const tp_tensor *x = arg[0].tensor;
    int64_t want[2], kernel[2];
    if (x->ndim != 4 || tp_as_ints(arg[1], want, 2, 2) != 2 || want[0] < 1 || want[1] < 1 || x->size[2] % want[0] || x->size[3] % want[1])
        return 0;
    if (!o)
        return 1;
    for (int i = 0; i < 2; i++)
        kernel[i] = x->size[2 + i] / want[i];
    int in = tp_onnx_arg(o, 0);
    tp_onnx_begin(o, "AveragePool");
    tp_onnx_input(o, in);
    tp_onnx_ints(o, "kernel_shape", kernel, 2);
    tp_onnx_ints(o, "strides", kernel, 2);
    tp_onnx_result(o, 0, tp_onnx_end(o));
    return done(o);
}

/* ---- normalisation ---- */

/* An optional weight; where there is none ONNX wants it all the same. */
static int weight_or(tp_onnx *o, int i, double value, tp_dtype d, int ndim, const int64_t *size)
{
    if (!tp_is_none(o->raw[i]))
        return tp_onnx_arg(o, i);
    tp_tensor *t = tp_tensor_new(d, ndim, size);
    if (!t) {
        o->failed = true;
        return 0;
    }
    tp_fill(t, tp_scalar_float(value));
    int v = tp_onnx_constant(o, t, NULL);
    tp_tensor_unref(t);
    return v;
}

TP_HOOK_O(tp_o_layer_norm)
{
    const tp_tensor *x = arg[0].tensor;
    int dims = (int)tp_length(arg[1]);
    if (!o)
        return dims > 0 && tp_dtype_is_float((tp_dtype)x->dtype);
    int in = tp_onnx_arg(o, 0), w = weight_or(o, 2, 1, (tp_dtype)x->dtype, dims, x->size + x->ndim - dims), b = tp_onnx_arg(o, 3);
    tp_onnx_begin(o, "LayerNormalization");
    tp_onnx_input(o, in);
    tp_onnx_input(o, w);
    tp_onnx_input(o, b);
    tp_onnx_int(o, "axis", -dims);
    tp_onnx_float(o, "epsilon", tp_as_double(arg[4]));
    tp_onnx_result(o, 0, tp_onnx_end(o));
    return done(o);
}

static int batch_norm(tp_onnx *o, const tp_tensor *x, double eps)
{
    tp_dtype d = (tp_dtype)x->dtype;
    int in[5] = { tp_onnx_arg(o, 0), weight_or(o, 1, 1, d, 1, x->size + 1), weight_or(o, 2, 0, d, 1, x->size + 1), tp_onnx_arg(o, 3), tp_onnx_arg(o, 4) };
    tp_onnx_begin(o, "BatchNormalization");
    for (int i = 0; i < 5; i++)
        tp_onnx_input(o, in[i]);
    tp_onnx_float(o, "epsilon", eps);
    tp_onnx_result(o, 0, tp_onnx_end(o));
    return done(o);
}

TP_HOOK_O(tp_o_batch_norm)
{
    const tp_tensor *x = arg[0].tensor;
    if (tp_as_bool(arg[5]) || tp_is_none(arg[3]) || tp_is_none(arg[4]) || x->ndim < 2)
        return 0;
    return o ? batch_norm(o, x, tp_as_double(arg[7])) : 1;
}

TP_HOOK_O(tp_o_batch_norm_no_training)
{
    const tp_tensor *x = arg[0].tensor;
    if (x->ndim < 2)
        return 0;
    return o ? batch_norm(o, x, tp_as_double(arg[6])) : 1;
}

/* Groups are instances of a reshaped input: the operator for groups takes one weight a group in this opset. */
TP_HOOK_O(tp_o_group_norm)
{
    const tp_tensor *x = arg[0].tensor;
    tp_dtype d = (tp_dtype)x->dtype;
    if (x->ndim < 2 || x->numel == 0)
        return 0;
    if (!o)
        return 1;
    int64_t groups = tp_as_int(arg[6]), wide[TP_MAX_DIMS];
    tp_tensor *one = tp_tensor_new(d, 1, &groups), *zero = tp_tensor_new(d, 1, &groups);
    if (!one || !zero) {
        o->failed = true;
    } else {
        tp_fill(one, tp_scalar_float(1));
        tp_fill(zero, tp_scalar_float(0));
        int in = tp_onnx_2(o, "Reshape", tp_onnx_arg(o, 0), tp_onnx_list(o, (int64_t[]){ x->size[0], groups, -1 }, 3));
        int scale = tp_onnx_constant(o, one, NULL), shift = tp_onnx_constant(o, zero, NULL);
        tp_onnx_begin(o, "InstanceNormalization");
        tp_onnx_input(o, in);
        tp_onnx_input(o, scale);
        tp_onnx_input(o, shift);
        tp_onnx_float(o, "epsilon", tp_as_double(arg[7]));
        int v = reshaped(o, tp_onnx_end(o), x);
        for (int i = 0; i < x->ndim - 1; i++)
            wide[i] = i ? 1 : x->size[1];
        if (!tp_is_none(arg[1]))
            v = tp_onnx_2(o, "Mul", v, tp_onnx_2(o, "Reshape", tp_onnx_arg(o, 1), tp_onnx_list(o, wide, x->ndim - 1)));
        if (!tp_is_none(arg[2]))
            v = tp_onnx_2(o, "Add", v, tp_onnx_2(o, "Reshape", tp_onnx_arg(o, 2), tp_onnx_list(o, wide, x->ndim - 1)));
        tp_onnx_result(o, 0, v);
    }
    tp_tensor_unref(one);
    tp_tensor_unref(zero);
    return done(o);
}
