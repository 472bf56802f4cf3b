/* samples.c - from `try` rows to boxed arguments. */
#include "trace/samples.h"

#include <math.h>
#include <string.h>

#include "ops/try.h"

/* ---- elements ---- */

int64_t tp_samples_offset(const tp_tensor *t, int64_t place)
{
    int64_t at = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        at += place % t->size[d] * t->stride[d];
        place /= t->size[d];
    }
    return at;
}

static char *address(const tp_tensor *t, int64_t place)
{
    return (char *)tp_tensor_data(t) + tp_samples_offset(t, place) * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
}

tp_scalar tp_samples_read(const tp_tensor *t, int64_t place)
{
    return tp_tensor_element(t, address(t, place));
}

void tp_samples_write(tp_tensor *t, int64_t place, tp_scalar s)
{
    tp_scalar_write(s, address(t, place), (tp_dtype)t->dtype);
}

double tp_samples_random(uint64_t stream, uint64_t place)
{
    uint64_t x = stream * 0x9e3779b97f4a7c15u + place * 0xd1342543de82ef95u + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return ((double)((x ^ x >> 31) >> 33) + 0.5) / 2147483648.0;
}

/* An element of the stream: floats in (-2, 2), integers from -4 to 4. */
static tp_scalar from_stream(tp_dtype d, uint64_t stream, int64_t place)
{
    double x = tp_samples_random(stream, (uint64_t)place);
    switch (tp_dtypes[d].kind) {
    case TP_KIND_BOOL:    return tp_scalar_int(x < 0.5);
    case TP_KIND_INTEGER: return tp_scalar_int((int64_t)(x * 9) - (d == TP_u8 ? 0 : 4));
    case TP_KIND_FLOAT:   return tp_scalar_float(x * 4 - 2);
    default:
        return (tp_scalar){ .kind = TP_KIND_COMPLEX, .c = { x * 4 - 2, tp_samples_random(stream + 1, (uint64_t)place) * 4 - 2 } };
    }
}

/* ---- tensors ---- */

static tp_tensor *make_strided(tp_dtype d, int ndim, const int64_t *size)
{
    int64_t stride[TP_MAX_DIMS], length = 2 * tp_sizes_numel(ndim, size) + 1;
    tp_strides_row_major(ndim, size, stride);
    for (int i = 0; i < ndim; i++)
        stride[i] *= 2;
    tp_tensor *all = tp_tensor_new(d, 1, &length);
    tp_tensor *t = all ? tp_tensor_view(all, ndim, size, stride, 1) : NULL;
    if (all && length > 0)
        memset(tp_tensor_data(all), 0, (size_t)length * tp_dtype_bytes(d));
    tp_tensor_unref(all);
    return t;
}

static tp_tensor *make_empty(tp_dtype d, int ndim, const int64_t *size, int layout)
{
    int64_t stride[TP_MAX_DIMS], step = 1;
    if (layout == TP_SAMPLE_STRIDED)
        return make_strided(d, ndim, size);
    tp_strides_row_major(ndim, size, stride);
    for (int i = 0; i < ndim && layout == TP_SAMPLE_TRANSPOSED; step *= size[i] > 1 ? size[i] : 1, i++)
        stride[i] = step;
    if (layout == TP_SAMPLE_CHANNELS_LAST && ndim > 2) {        /* as if the second dim were the last */
        stride[1] = 1;
        step = size[1];
        for (int i = ndim - 1; i >= 0; i--)
            if (i != 1) {
                stride[i] = step;
                step *= size[i];
            }
    }
    tp_tensor *t = tp_tensor_new_on((tp_device){ TP_CPU, -1 }, d, ndim, size, stride);
    if (!t || layout != TP_SAMPLE_BROADCAST)
        return t;
    for (int i = 0; i < ndim; i++)
        if (size[i] > 1) {
            stride[i] = 0;
            break;
        }
    tp_tensor *view = tp_tensor_view(t, ndim, size, stride, 0);
    tp_tensor_unref(t);
    return view;
}

/* Named sets. Indices are below 3; those of `places` are all different. */
static const struct set { const char *name; tp_dtype dtype; int ndim, rows, columns; const double *element; } sets[] = {
#define TP_SAMPLE_SET(name, dtype, ndim, rows, columns, ...) { #name, TP_##dtype, ndim, rows, columns, (const double[]){ __VA_ARGS__ } },
#include "ops/samples.def"
#undef TP_SAMPLE_SET
};

/* NULL: no set of that name, the error is set. */
static const struct set *find_set(const char *name)
{
    for (size_t i = 0; i < TP_COUNT(sets); i++)
        if (strcmp(sets[i].name, name) == 0)
            return &sets[i];
    return tp_fail(TP_ERR_UNIMPLEMENTED, "no sample set is called '%s'", name);
}

static tp_dtype type_of(const tp_sample *s)
{
    const struct set *of = s->kind == TP_SAMPLE_SET ? find_set(s->name) : NULL;
    return s->kind == TP_SAMPLE_TENSOR ? (tp_dtype)s->dtype : of ? of->dtype : s->kind == TP_SAMPLE_ELEMENTS ? TP_f32 : TP_DTYPE_NONE;
}

static tp_tensor *make_tensor(const tp_sample *s, const tp_sample_style *style, uint64_t stream, int *long_sizes)
{
    int64_t size[TP_MAX_DIMS] = { s->count };
    int ndim = 1, elements = s->count, layout = style->layout;
    const double *element = s->kind == TP_SAMPLE_ELEMENTS ? s->element : NULL;
    tp_dtype d = s->kind == TP_SAMPLE_TENSOR ? (tp_dtype)s->dtype : TP_f32;
    if (s->kind == TP_SAMPLE_TENSOR) {
        ndim = s->count;
        for (int i = 0; i < ndim; i++)
            size[i] = s->size[i];
        if (s->name && strcmp(s->name, "transposed") == 0)
            layout = TP_SAMPLE_TRANSPOSED;
        else if (s->name && strncmp(s->name, "channels_last", 13) == 0)
            layout = TP_SAMPLE_CHANNELS_LAST;
        else if (s->name)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "no sample has the layout '%s'", s->name);
    } else if (s->kind == TP_SAMPLE_SET) {
        const struct set *of = find_set(s->name);
        if (!of)
            return NULL;
        d = of->dtype, ndim = of->ndim, size[0] = of->rows, size[1] = of->columns, element = of->element;
        elements = of->rows * of->columns;
    }
    for (int i = 0; i < ndim; i++)
        if (size[i] > 1 && (++*long_sizes == style->only || !style->only))
            size[i] = size[i] * style->grow + style->plus;
    if (style->dtype != TP_DTYPE_NONE && (tp_dtype_is_float(d) || (style->all && d == style->instead)))
        d = (tp_dtype)style->dtype;
    tp_tensor *t = make_empty(d, ndim, size, layout);
    for (int64_t i = 0; t && i < t->numel; i++)
        tp_samples_write(t, i, element ? tp_scalar_float(element[i % elements]) : from_stream(d, stream, i));
    return t;
}

/* ---- arguments ---- */

/* A single number stands for a list in the rows, as it does in Python. */
static tp_value make_value(const tp_arg *a, tp_value literal)
{
    if (!a->list || !tp_is_number(literal))
        return tp_value_ref(literal);
    tp_list *l = tp_list_new(a->length ? a->length : 1);
    for (uint32_t i = 0; l && i < l->count; i++)
        l->item[i] = literal;
    return l ? tp_of_list(l) : tp_none();
}

static bool make_argument(const tp_arg *a, const tp_sample *s, const tp_sample_style *style, uint64_t stream, int *long_sizes,
                          tp_value *out)
{
    if (s->kind == TP_SAMPLE_VALUE) {
        *out = make_value(a, s->value);
        return !tp_is_none(*out) || tp_is_none(s->value);
    }
    if (!a->list) {
        *out = tp_of_tensor(make_tensor(s, style, stream, long_sizes));
        return !tp_is_none(*out);
    }
    /* A list of tensors has two like the sample; one that may have gaps (indices) has one. */
    tp_list *l = tp_list_new(a->items_optional ? 1 : 2);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = !tp_is_none(l->item[i] = tp_of_tensor(make_tensor(s, style, stream + 32 * i, long_sizes)));
    *out = l ? tp_of_list(l) : tp_none();
    return ok;
}

/* ---- numbering ---- */

static bool is_complete(const tp_op *op, const tp_try *line)
{
    for (int i = 0; i < op->arg_count; i++) {
        bool has_row = op->arg[i].fallback || op->arg[i].optional;
        for (int r = 0; r < line->row_count; r++)
            has_row |= line->row[r].arg == i;
        if (!has_row)
            return false;
    }
    return true;
}

static int64_t combinations(const tp_op *op, const tp_try *line)
{
    int64_t n = is_complete(op, line);
    for (int r = 0; r < line->row_count; r++)
        n *= line->row[r].sample_count;
    return n;
}

static int taken(int64_t all)
{
    return all < TP_SAMPLES_MOST ? (int)all : TP_SAMPLES_MOST;
}

int tp_samples_count(const tp_op *op)
{
    int n = 0;
    for (int i = 0; i < op->try_count; i++)
        n += taken(combinations(op, &op->tries[i]));
    return n;
}

/* Which sample of each row makes up combination `at`: the last row turns fastest. */
static void choose(const tp_try *line, int64_t at, const tp_sample **of)
{
    for (int r = line->row_count - 1; r >= 0; r--) {
        of[line->row[r].arg] = &line->row[r].sample[at % line->row[r].sample_count];
        at /= line->row[r].sample_count;
    }
}

/* Of a call without floats that shall have another type: the type of its first tensor. */
static tp_dtype replaced(const tp_op *op, const tp_sample *const *sample)
{
    tp_dtype first = TP_DTYPE_NONE;
    for (int i = 0; i < op->arg_count; i++) {
        tp_dtype d = sample[i] ? type_of(sample[i]) : TP_DTYPE_NONE;
        if (d != TP_DTYPE_NONE && tp_dtype_is_float(d))
            return TP_DTYPE_NONE;
        first = first == TP_DTYPE_NONE ? d : first;
    }
    return first;
}

bool tp_samples_make(const tp_op *op, int n, const tp_sample_style *asked, tp_value *arg)
{
    tp_sample_style altered = *asked, *style = &altered;
    const tp_try *line = op->tries;
    const tp_sample *sample[TP_SAMPLES_ARGS] = { NULL };
    int in_line = n, long_sizes = 0;
    while (in_line >= taken(combinations(op, line)))
        in_line -= taken(combinations(op, line++));
    int64_t all = combinations(op, line);
    choose(line, in_line * all / taken(all), sample);
    if (style->all)
        style->instead = (uint8_t)replaced(op, sample);
    for (int i = 0; i < op->arg_count; i++)
        arg[i] = tp_none();
    bool ok = true;
    for (int i = 0; ok && i < op->arg_count; i++) {
        if (sample[i])
            ok = make_argument(&op->arg[i], sample[i], style, (uint64_t)(n * 64 + i), &long_sizes, &arg[i]);
        else if (op->arg[i].fallback)
            ok = !tp_is_none(arg[i] = tp_value_ref(*op->arg[i].fallback)) || tp_is_none(*op->arg[i].fallback);
    }
    if (!ok)
        tp_values_unref(arg, op->arg_count);
    return ok;
}
