/* emit.c - the words of the op language on plain integers, and what both twins share. */
#include "ops/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- values ---- */
tp_value tp_value_text(const char *text)
{
    return text ? tp_value_string(text, strlen(text)) : tp_none();
}

tp_value tp_value_of_ints(const tp_ints *l)
{
    return tp_value_ints(l->item, (size_t)tp_int_min(l->count, TP_MAX_DIMS));
}

tp_value tp_value_joined_ints(const tp_ints *l, const char *between)
{
    tp_text text = { 0 };
    for (int i = 0; i < l->count && i < TP_MAX_DIMS; i++)
        tp_text_add(&text, "%s%lld", i ? between : "", LL(l->item[i]));
    tp_value v = tp_value_text(tp_text_read(&text));
    tp_text_fini(&text);
    return v;
}

void tp_ints_read(tp_ints *to, tp_value v, int want, bool *bad)
{
    to->count = v.tag == TP_NONE ? 0 : tp_as_ints(v, to->item, TP_MAX_DIMS, want);
    if (to->count < 0) {
        to->count = 0;
        *bad = true;
    }
}

tp_value tp_item(tp_value list, int64_t i, bool *bad)
{
    int64_t n = tp_length(list), at = i < 0 ? i + n : i;
    if (at >= 0 && at < n)
        return list.list->item[at];
    if (!*bad)
        *bad = !tp_fail(TP_ERR_INDEX, "list index %lld is out of range for a list of %lld", LL(i), LL(n));
    return tp_none();
}

/* ---- numbers ---- */
int64_t tp_int_quotient(int64_t a, int64_t b, bool *bad)
{
    if (b)
        return tp_int_floordiv(a, b);
    if (!*bad)
        *bad = !tp_fail(TP_ERR_ZERO_DIVISION, "integer division or modulo by zero");
    return 0;
}

int64_t tp_int_remainder(int64_t a, int64_t b, bool *bad)
{
    return b ? tp_int_mod(a, b) : tp_int_quotient(a, b, bad);
}

bool tp_text_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

bool tp_number_equal_slow(tp_value a, tp_value b)
{
    if (a.tag == TP_SYM || b.tag == TP_SYM)
        return a.tag == b.tag && a.sym == b.sym;
    if (a.tag == TP_NONE || b.tag == TP_NONE)
        return false;
    tp_c128 x = tp_scalar_to_complex(tp_as_scalar(a)), y = tp_scalar_to_complex(tp_as_scalar(b));
    return x.re == y.re && x.im == y.im;
}

int tp_number_compare(tp_value a, tp_value b)
{
    double x = tp_as_double(a), y = tp_as_double(b);
    return x < y ? -1 : x > y;
}

bool tp_number_fits(tp_value number, tp_dtype d)
{
    return tp_number_is_integral(number) || tp_dtype_can_cast(tp_dtype_of_number(number), d);
}

static bool both_integral(tp_value a, tp_value b)
{
    return tp_number_is_integral(a) && tp_number_is_integral(b);
}

tp_value tp_number_negated(tp_value v)
{
    return tp_number_is_integral(v) ? tp_int(-tp_as_int(v)) : v.tag == TP_FLOAT ? tp_float(-v.f) : tp_none();
}

tp_value tp_number_sum(tp_value a, tp_value b)
{
    return both_integral(a, b) ? tp_int((int64_t)((uint64_t)tp_as_int(a) + (uint64_t)tp_as_int(b))) : tp_float(tp_as_double(a) + tp_as_double(b));
}

tp_value tp_number_difference(tp_value a, tp_value b)
{
    return both_integral(a, b) ? tp_int((int64_t)((uint64_t)tp_as_int(a) - (uint64_t)tp_as_int(b))) : tp_float(tp_as_double(a) - tp_as_double(b));
}

tp_value tp_number_product(tp_value a, tp_value b)
{
    return both_integral(a, b) ? tp_int((int64_t)((uint64_t)tp_as_int(a) * (uint64_t)tp_as_int(b))) : tp_float(tp_as_double(a) * tp_as_double(b));
}

tp_value tp_number_quotient(tp_value a, tp_value b)
{
    return tp_float(tp_as_double(a) / tp_as_double(b));
}

tp_value tp_number_log(tp_value v)
{
    return tp_float(log(tp_as_double(v)));
}

int64_t tp_wrap(int64_t dim, int64_t ndim, bool *bad)
{
    int64_t range = ndim > 0 ? ndim : 1, at = dim < 0 ? dim + range : dim;
    if (at >= 0 && at < range)
        return at;
    if (!*bad)
        *bad = !tp_fail(TP_ERR_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)", LL(-range),
                        LL(range - 1), LL(dim));
    return 0;
}

uint64_t tp_wrap_all(int64_t *dim, int count, int64_t ndim, bool *bad)
{
    uint64_t set = 0;
    for (int i = 0; i < count && !*bad; i++) {
        dim[i] = tp_wrap(dim[i], ndim, bad);
        if ((set >> dim[i] & 1) && !*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "dim %lld appears multiple times in the list of dims", LL(dim[i]));
        set |= (uint64_t)1 << dim[i];
    }
    return set;
}

/* ---- tensors ---- */
tp_device tp_device_of_list(tp_value tensors)
{
    return tp_length(tensors) ? tp_device_of(tp_as_tensor(tensors.list->item[0])) : (tp_device){ TP_CPU, -1 };
}

void tp_common_add_list(tp_common *c, tp_value tensors)
{
    for (uint32_t i = 0; i < tp_length(tensors); i++)
        tp_common_add(c, tensors.list->item[i]);
}

tp_dtype tp_promoted(const tp_value *arg, uint32_t mask, bool to_float)
{
    tp_common c = TP_COMMON_START;
    for (int i = 0; mask >> i; i++)
        if (mask >> i & 1)
            tp_common_add(&c, arg[i]);
    tp_dtype d = tp_common_dtype(&c);
    return to_float && tp_dtype_is_integral(d) ? (tp_dtype)tp_the_runtime.default_dtype : d;
}

/* ---- lists ---- */

/* What is used of a list; the struct has room for many more. */
static void copy_list(tp_ints *to, const tp_ints *from)
{
    to->count = from->count;
    memcpy(to->item, from->item, (size_t)tp_int_min(from->count, TP_MAX_DIMS) * sizeof *to->item);
}

void tp_ints_join(tp_ints *l, const tp_ints *more)
{
    for (int i = 0; i < more->count && i < TP_MAX_DIMS; i++)
        tp_ints_add(l, more->item[i]);
}

int64_t tp_ints_at(const tp_ints *l, int64_t i, bool *bad)
{
    int64_t at = i < 0 ? i + l->count : i;
    if (at >= 0 && at < l->count && at < TP_MAX_DIMS)
        return l->item[at];
    if (!*bad)
        *bad = !tp_fail(TP_ERR_INDEX, "list index %lld is out of range for a list of %d", LL(i), l->count);
    return 0;
}

void tp_ints_slice(tp_ints *to, const tp_ints *l, int64_t low, int64_t high)
{
    to->count = 0;
    int64_t n = tp_int_min(l->count, TP_MAX_DIMS);
    low = low < 0 ? tp_int_max(low + n, 0) : low;
    high = high < 0 ? high + n : tp_int_min(high, n);
    for (int64_t i = low; i < high; i++)
        tp_ints_add(to, l->item[i]);
}

bool tp_ints_equal(const tp_ints *a, const tp_ints *b, bool *bad)
{
    (void)bad;
    return a->count == b->count && memcmp(a->item, b->item, (size_t)a->count * sizeof *a->item) == 0;
}

int64_t tp_ints_product(const tp_ints *l)
{
    int64_t n = 1;
    for (int i = 0; i < l->count && i < TP_MAX_DIMS; i++)
        n *= l->item[i];
    return n;
}

void tp_ints_sizes(tp_ints *to, const tp_tensor *t)
{
    to->count = (int)tp_dim(t);
    if (to->count)
        memcpy(to->item, t->size, (size_t)to->count * sizeof *to->item);
}

void tp_ints_strides(tp_ints *to, const tp_tensor *t)
{
    to->count = (int)tp_dim(t);
    if (to->count)
        memcpy(to->item, t->stride, (size_t)to->count * sizeof *to->item);
}

static bool has_dims(const tp_tensor *t, int64_t dim, bool *bad)
{
    if (t && t->ndim)
        return true;
    if (!*bad)
        *bad = !tp_fail(TP_ERR_INDEX, "Dimension specified as %lld but tensor has no dimensions", LL(dim));
    return false;
}

int64_t tp_ints_size(const tp_tensor *t, int64_t dim, bool *bad)
{
    return has_dims(t, dim, bad) ? t->size[tp_wrap(dim, t->ndim, bad)] : 0;
}

int64_t tp_ints_stride(const tp_tensor *t, int64_t dim, bool *bad)
{
    return has_dims(t, dim, bad) ? t->stride[tp_wrap(dim, t->ndim, bad)] : 0;
}

tp_sym tp_syms_size(const tp_tensor *t, int64_t dim, bool *bad)
{
    return has_dims(t, dim, bad) ? tp_tensor_sym_size(t, (int)tp_wrap(dim, t->ndim, bad)) : tp_sym_int(0);
}

tp_sym tp_syms_stride(const tp_tensor *t, int64_t dim, bool *bad)
{
    return has_dims(t, dim, bad) ? tp_tensor_sym_stride(t, (int)tp_wrap(dim, t->ndim, bad)) : tp_sym_int(0);
}

/* ---- built-ins ---- */
static uint64_t dims_mask(int ndim, const tp_ints *dims, bool *bad)
{
    uint64_t all = ndim >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << ndim) - 1;
    tp_ints d;
    copy_list(&d, dims);
    return dims->count ? tp_wrap_all(d.item, d.count, ndim, bad) & all : all;
}

void tp_ints_reduced(tp_ints *to, const tp_ints *sizes, const tp_ints *dims, bool keepdim, bool *bad)
{
    uint64_t mask = dims_mask(sizes->count, dims, bad);
    to->count = 0;
    for (int i = 0; i < sizes->count; i++)
        if (!(mask >> i & 1))
            tp_ints_add(to, sizes->item[i]);
        else if (keepdim)
            tp_ints_add(to, 1);
}

tp_syms tp_syms_reduced(const tp_syms *sizes, const tp_ints *dims, bool keepdim, bool *bad)
{
    tp_syms out;
    uint64_t mask = dims_mask(sizes->count, dims, bad);
    out.count = 0;
    for (int i = 0; i < sizes->count; i++)
        if (!(mask >> i & 1))
            tp_syms_add(&out, sizes->item[i]);
        else if (keepdim)
            tp_syms_add(&out, tp_sym_int(1));
    return out;
}

void tp_ints_broadcast(tp_ints *to, const tp_ints *a, const tp_ints *b, bool *bad)
{
    copy_list(to, a);
    if (*bad || !tp_broadcast(&to->count, to->item, b->count, b->item)) {
        to->count = 0;
        *bad = true;
    }
}

static void print_sizes(const tp_ints *l, tp_text *out)
{
    tp_text_add_sizes(out, l->count < TP_MAX_DIMS ? l->count : TP_MAX_DIMS, l->item);
}

static void fail_shape(const tp_ints *sizes, int64_t numel)
{
    tp_text text = { 0 };
    print_sizes(sizes, &text);
    (void)tp_fail(TP_ERR_RUNTIME, "shape '%s' is invalid for input of size %lld", tp_text_read(&text), LL(numel));
    tp_text_fini(&text);
}

static void fail_ambiguous(const tp_ints *sizes)
{
    tp_text text = { 0 };
    print_sizes(sizes, &text);
    (void)tp_fail(TP_ERR_RUNTIME, "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any "
                  "value and is ambiguous", tp_text_read(&text));
    tp_text_fini(&text);
}

static bool fail_dimension(const tp_ints *sizes, int i)
{
    tp_text text = { 0 };
    print_sizes(sizes, &text);
    (void)tp_fail(TP_ERR_RUNTIME, "invalid shape dimension %lld at index %d of shape %s", LL(sizes->item[i]), i, tp_text_read(&text));
    tp_text_fini(&text);
    return true;
}

void tp_ints_infer(tp_ints *to, const tp_ints *sizes, int64_t numel, bool *bad)
{
    int unknown = -1;
    int64_t known = 1;
    bool empty = false, wide = false;
    copy_list(to, sizes);
    for (int i = 0; i < to->count && !*bad; i++) {
        if (to->item[i] == -1 && unknown >= 0)
            *bad = !tp_fail(TP_ERR_RUNTIME, "only one dimension can be inferred");
        else if (to->item[i] == -1)
            unknown = i;
        else if (to->item[i] < 0)
            *bad = fail_dimension(sizes, i);
        else if (to->item[i] == 0)
            empty = true;
        else
            wide |= __builtin_mul_overflow(known, to->item[i], &known);
    }
    if (*bad)
        return;
    known = empty ? 0 : known;
    if (wide && !empty) {
        fail_shape(sizes, numel);
        *bad = true;
    } else if (unknown >= 0 && known == 0 && numel == 0) {
        fail_ambiguous(sizes);
        *bad = true;
    } else if (unknown >= 0 && known > 0 && numel % known == 0) {
        to->item[unknown] = numel / known;
    } else if (unknown >= 0 || known != numel) {
        fail_shape(sizes, numel);
        *bad = true;
    }
}

static void fail_expand(const tp_ints *have, const tp_ints *want, int dim, int64_t from, int64_t to)
{
    tp_text target = { 0 }, mine = { 0 };
    print_sizes(want, &target);
    print_sizes(have, &mine);
    (void)tp_fail(TP_ERR_RUNTIME, "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d."
                  "  Target sizes: %s.  Tensor sizes: %s", LL(to), LL(from), dim, tp_text_read(&target), tp_text_read(&mine));
    tp_text_fini(&target);
    tp_text_fini(&mine);
}

void tp_ints_expanded(tp_ints *to, const tp_ints *have, const tp_ints *want, bool *bad)
{
    int shift = want->count - have->count;
    copy_list(to, want);
    if (shift < 0) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "expand: the number of sizes provided (%d) must be greater or equal to the number of dimensions in "
                            "the tensor (%d)", want->count, have->count);
        copy_list(to, have);
        return;
    }
    for (int i = 0; i < want->count && !*bad; i++) {
        int64_t from = i < shift ? 1 : have->item[i - shift], size = want->item[i];
        if (size == -1 && i < shift)
            *bad = !tp_fail(TP_ERR_RUNTIME, "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", i);
        else if (size == -1)
            to->item[i] = from;
        else if (from != 1 && from != size) {
            fail_expand(have, want, i, from, size);
            *bad = true;
        }
    }
}

bool tp_ints_view(tp_ints *strides, const tp_tensor *t, const tp_ints *sizes, bool *bad)
{
    strides->count = sizes->count;
    return !*bad && t && sizes->count <= TP_MAX_DIMS &&
           tp_strides_view(t->ndim, t->size, t->stride, sizes->count, sizes->item, strides->item);
}

/* ---- orders of dims ---- */
bool tp_ints_distinct(const tp_ints *l)
{
    for (int i = 0; i < l->count; i++)
        for (int j = 0; j < i; j++)
            if (l->item[i] == l->item[j])
                return false;
    return true;
}

void tp_ints_sorted(tp_ints *to, const tp_ints *dims, int64_t ndim, bool *bad)
{
    to->count = 0;
    uint64_t mask = dims->count ? dims_mask((int)ndim, dims, bad) : 0;
    for (int i = 0; i < ndim; i++)
        if (mask >> i & 1)
            tp_ints_add(to, i);
}

void tp_ints_inverse(tp_ints *to, const tp_ints *order)
{
    copy_list(to, order);
    for (int i = 0; i < order->count; i++)
        if (order->item[i] >= 0 && order->item[i] < order->count)
            to->item[order->item[i]] = i;
}

void tp_ints_moved(tp_ints *order, int64_t ndim, const tp_ints *from, const tp_ints *to, bool *bad)
{
    order->count = (int)ndim;
    uint64_t taken = 0, placed = 0;
    for (int i = 0; i < from->count && i < to->count; i++) {
        int64_t f = tp_wrap(from->item[i], ndim, bad), t = tp_wrap(to->item[i], ndim, bad);
        if (((taken >> f & 1) || (placed >> t & 1)) && !*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "movedim: repeated dim in `%s`", taken >> f & 1 ? "source" : "destination");
        taken |= (uint64_t)1 << f;
        placed |= (uint64_t)1 << t;
        order->item[t] = f;
    }
    for (int64_t at = 0, d = 0; at < ndim; at++) {
        if (placed >> at & 1)
            continue;
        while (taken >> d & 1)
            d++;
        order->item[at] = d++;
    }
}

/* ---- results ---- */
static bool fail_negative(const tp_ints *sizes, int64_t size)
{
    tp_text text = { 0 };
    print_sizes(sizes, &text);
    (void)tp_fail(TP_ERR_RUNTIME, "Trying to create tensor with negative dimension %lld: %s", LL(size), tp_text_read(&text));
    tp_text_fini(&text);
    return true;
}

void tp_geometry_start(tp_geometry *g, tp_dtype d, const tp_ints *sizes, tp_device device, bool *bad)
{
    int n = sizes->count;
    if (n > TP_MAX_DIMS) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "a tensor has at most %d dims", TP_MAX_DIMS);
        n = TP_MAX_DIMS;
    }
    g->dtype = (uint8_t)d;
    g->ndim = (uint8_t)n;
    g->unknown = g->absent = false;
    g->device = device;
    g->offset = 0;
    for (int i = 0; i < n; i++) {
        g->size[i] = sizes->item[i];
        if (g->size[i] < 0 && !*bad)
            *bad = fail_negative(sizes, g->size[i]);
    }
    tp_strides_row_major(n, g->size, g->stride);
}

void tp_geometry_like(tp_geometry *g, const tp_tensor *t)
{
    if (t && t->ndim == g->ndim)
        tp_strides_like(t, g->ndim, g->size, g->stride);
}

void tp_geometry_like_list(tp_geometry *g, tp_value tensors)
{
    bool all = tp_length(tensors) > 0;
    for (uint32_t i = 0; i < tp_length(tensors); i++) {
        const tp_tensor *t = tp_as_tensor(tensors.list->item[i]);
        all = all && t && tp_tensor_is_channels_last(t) && !tp_tensor_is_contiguous(t);
    }
    if (all)
        tp_geometry_channels_last(g);
}

void tp_geometry_order(tp_geometry *g, const tp_ints *order)
{
    int64_t step = 1;
    for (int i = order->count - 1; i >= 0; i--) {
        int d = (int)order->item[i];
        if (d < 0 || d >= g->ndim)
            continue;
        g->stride[d] = step;
        step *= g->size[d] > 1 ? g->size[d] : 1;
    }
}

void tp_geometry_channels_last(tp_geometry *g)
{
    if (g->ndim == 4 || g->ndim == 5)
        tp_strides_channels_last(g->ndim, g->size, g->stride);
}

void tp_geometry_format(tp_geometry *g, tp_value format, const tp_tensor *like, bool *bad)
{
    tp_format f = format.tag == TP_FORMAT_VALUE ? (tp_format)format.i : TP_FORMAT_PRESERVE;
    int want = f == TP_FORMAT_CHANNELS_LAST ? 4 : f == TP_FORMAT_CHANNELS_LAST_3D ? 5 : g->ndim;
    if (g->ndim != want && !*bad)
        *bad = !tp_fail(TP_ERR_RUNTIME, "required rank %d tensor to use channels_last%s format", want, want == 5 ? "_3d" : "");
    else if (f == TP_FORMAT_PRESERVE)
        tp_geometry_like(g, like);
    else if (f != TP_FORMAT_CONTIGUOUS)
        tp_geometry_channels_last(g);
}

void tp_geometry_strides(tp_geometry *g, const tp_ints *strides, bool *bad)
{
    if (strides->count != g->ndim) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "mismatch in length of strides and shape");
        return;
    }
    memcpy(g->stride, strides->item, (size_t)g->ndim * sizeof *g->stride);
}

/* ---- messages ---- */
void *tp_fail_with(tp_err kind, const char *text, int count, tp_value *values)
{
    tp_text out = { 0 };
    int next = 0;
    for (const char *at = text; *at; at++) {
        if (at[0] != '{' || at[1] != '}' || next == count) {
            tp_text_put(&out, at, 1);
            continue;
        }
        tp_value v = values[next++];
        if (v.tag == TP_STRING)
            tp_text_put(&out, v.string->text, v.string->length);
        else if (v.tag == TP_DTYPE_VALUE && v.i < TP_DTYPE_COUNT)
            tp_text_add(&out, "%s", tp_dtypes[v.i].title);
        else
            tp_value_print(v, &out);
        at++;
    }
    tp_values_unref(values, (size_t)count);
    if (out.failed)
        tp_fail_memory();
    else
        tp_fail(kind, "%s", tp_text_read(&out));
    tp_text_fini(&out);
    return NULL;
}

void tp_not_same(bool *bad)
{
    if (!*bad)
        *bad = !tp_fail(TP_ERR_RUNTIME, "expected all to be alike");
}

void *tp_fail_dtype(const char *name, tp_dtype d)
{
    return tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", name, tp_dtypes[d].title);
}
