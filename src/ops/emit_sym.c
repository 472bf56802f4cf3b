/* emit_sym.c - the words of the op language on symbolic sizes. Questions about sizes become guards. */
#include <assert.h>
#include <string.h>

#include "base/runtime.h"
#include "base/text.h"
#include "ops/emit.h"
#include "sym/env.h"

bool tp_guard(tp_sym condition, bool *bad)
{
    bool answer = false;
    if (TP_LIKELY(tp_sym_is_bool(condition)))
        return tp_sym_same(condition, TP_SYM_TRUE);
    /* Rules ask of sizes whether they are 0 or 1: those that depend on data are taken to be neither, as PyTorch does. */
    if (tp_sym_has_unbacked(condition)) {
        tp_answer known = tp_sym_known_of_sizes(condition);
        if (known != TP_UNKNOWN)
            return known == TP_YES;
    }
    if (!*bad && (tp_sym_is_failed(condition) || !tp_sym_guard(condition, &answer)))
        *bad = true;
    return answer;
}

/* An index that depends on data is taken to be in range: the op looks when it runs. */
tp_sym tp_sym_place(tp_sym index, tp_sym n, bool *bad)
{
    tp_sym negative = tp_sym_lt(index, tp_sym_int(0));
    if (tp_sym_has_unbacked(index) && tp_sym_known(negative) == TP_UNKNOWN)
        return tp_sym_mod(index, n);
    if (!tp_guard(tp_sym_ge(index, tp_sym_neg(n)), bad) || !tp_guard(tp_sym_lt(index, n), bad))
        return tp_sym_int(-1);
    return tp_guard(negative, bad) ? tp_sym_add(index, n) : index;
}

int64_t tp_sym_fixed(tp_sym x, bool *bad)
{
    int64_t value = 0;
    if (TP_LIKELY(tp_sym_is_int(x)))
        return tp_sym_as_int(x);
    if (!*bad && (tp_sym_is_failed(x) || !tp_sym_guard_int(x, &value)))
        *bad = true;
    return value;
}

int64_t tp_few_checked(int64_t count, bool *bad)
{
    if (count > 1 << 24 && !*bad)
        *bad = !tp_fail(TP_ERR_RUNTIME, "cannot create a list of %lld pieces", LL(count));
    return *bad ? 0 : count;
}

tp_sym tp_sym_fresh(tp_sym low, tp_sym high, bool *bad)
{
    if (!tp_self.shape_env) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_DYNAMIC_SHAPE, "a size that depends on data");
        return tp_sym_int(0);
    }
    /* As PyTorch bounds it: by a number of elements that is known, and is not so small that the symbol would vanish. */
    bool bounded = tp_sym_is_int(high) && tp_sym_as_int(high) > 2;
    tp_sym made = tp_shape_env_unbacked(tp_self.shape_env, (tp_range){ tp_sym_range(low).low, bounded ? tp_sym_as_int(high) : INT64_MAX - 1 });
    tp_symbol_set_size_like(made);
    *bad = *bad || tp_sym_is_failed(made);
    return made;
}

static bool is(tp_sym x, int64_t n)
{
    return tp_sym_same(x, tp_sym_int(n));
}

/* Is x equal to n? Asked of sizes that may be symbols: a backed one guards. */
static bool asked(tp_sym a, tp_sym b, bool *bad)
{
    return tp_sym_same(a, b) || tp_guard(tp_sym_eq(a, b), bad);
}

/* ---- values and lists ---- */
tp_value tp_value_of_syms(const tp_syms *l)
{
    int n = (int)tp_int_min(l->count, TP_MAX_DIMS);
    tp_list *list = tp_list_new((size_t)n);
    if (!list)
        return tp_none();
    for (int i = 0; i < n; i++)
        list->item[i] = tp_of_sym(l->item[i]);
    return tp_of_list(list);
}

tp_value tp_value_joined_syms(const tp_syms *l, const char *between)
{
    tp_text text = { 0 };
    for (int i = 0; i < l->count && i < TP_MAX_DIMS; i++) {
        if (i)
            tp_text_add(&text, "%s", between);
        tp_value_print(tp_of_sym(l->item[i]), &text);
    }
    tp_value v = tp_value_text(tp_text_read(&text));
    tp_text_fini(&text);
    return v;
}

tp_syms tp_syms_read(tp_value v, int want, bool *bad)
{
    tp_syms l;
    l.count = 0;
    l.item[0] = tp_sym_int(0);          /* for who reads one item of a list that could not be made */
    if (v.tag == TP_NONE)
        return l;
    if (v.tag != TP_LIST && v.tag != TP_TUPLE) {
        for (int i = 0; i < (want > 0 ? want : 1); i++)
            tp_syms_add(&l, tp_sym_read(v));
        return l;
    }
    for (uint32_t i = 0; i < v.list->count; i++)
        tp_syms_add(&l, tp_sym_read(v.list->item[i]));
    if (l.count > TP_MAX_DIMS && !*bad)
        *bad = !tp_fail(TP_ERR_RUNTIME, "a list of %u integers is longer than the %d that are allowed here", v.list->count, TP_MAX_DIMS);
    for (int i = 1; l.count == 1 && i < want; i++)
        l.item[i] = l.item[0];
    l.count = l.count == 1 && want > 1 ? want : (int)tp_int_min(l.count, TP_MAX_DIMS);
    return l;
}

void tp_syms_join(tp_syms *l, const tp_syms *more)
{
    for (int i = 0; i < more->count && i < TP_MAX_DIMS; i++)
        tp_syms_add(l, more->item[i]);
}

void tp_syms_join_ints(tp_syms *l, const tp_ints *more)
{
    for (int i = 0; i < more->count && i < TP_MAX_DIMS; i++)
        tp_syms_add(l, tp_sym_int(more->item[i]));
}

tp_syms tp_syms_of(const tp_ints *l)
{
    tp_syms out;
    out.count = 0;
    tp_syms_join_ints(&out, l);
    return out;
}

void tp_ints_of(tp_ints *to, const tp_syms *l, bool *bad)
{
    to->count = 0;
    for (int i = 0; i < l->count && i < TP_MAX_DIMS; i++)
        tp_ints_add(to, tp_sym_fixed(l->item[i], bad));
}

tp_sym tp_syms_at(const tp_syms *l, int64_t i, bool *bad)
{
    int64_t at = i < 0 ? i + l->count : i;
    if (at >= 0 && at < l->count && at < TP_MAX_DIMS)
        return l->item[at];
    if (!*bad)
        *bad = !tp_fail(TP_ERR_INDEX, "list index %lld is out of range for a list of %d", LL(i), l->count);
    return tp_sym_int(0);
}

tp_syms tp_syms_slice(const tp_syms *l, int64_t low, int64_t high)
{
    tp_syms out;
    int64_t n = tp_int_min(l->count, TP_MAX_DIMS);
    out.count = 0;
    low = low < 0 ? tp_int_max(low + n, 0) : low;
    high = high < 0 ? high + n : tp_int_min(high, n);
    for (int64_t i = low; i < high; i++)
        tp_syms_add(&out, l->item[i]);
    return out;
}

bool tp_syms_equal(const tp_syms *a, const tp_syms *b, bool *bad)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count && i < TP_MAX_DIMS; i++)
        same = asked(a->item[i], b->item[i], bad);
    return same;
}

tp_sym tp_syms_product(const tp_syms *l)
{
    tp_sym n = tp_sym_int(1);
    for (int i = 0; i < l->count && i < TP_MAX_DIMS; i++)
        n = tp_sym_mul(n, l->item[i]);
    return n;
}

tp_syms tp_syms_sizes(const tp_tensor *t)
{
    tp_syms l;
    l.count = (int)tp_dim(t);
    for (int i = 0; i < l.count; i++)
        l.item[i] = tp_tensor_sym_size(t, i);
    return l;
}

tp_syms tp_syms_strides(const tp_tensor *t)
{
    tp_syms l;
    l.count = (int)tp_dim(t);
    for (int i = 0; i < l.count; i++)
        l.item[i] = tp_tensor_sym_stride(t, i);
    return l;
}

tp_sym tp_syms_numel(const tp_tensor *t)
{
    if (!t || !tp_tensor_is_symbolic(t))
        return tp_sym_int(tp_ints_numel(t));
    tp_syms l = tp_syms_sizes(t);
    return tp_syms_product(&l);
}

tp_sym tp_syms_offset(const tp_tensor *t)
{
    return t ? tp_tensor_sym_offset(t) : tp_sym_int(0);
}

/* ---- built-ins ---- */
tp_syms tp_syms_broadcast(const tp_syms *a, const tp_syms *b, bool *bad)
{
    tp_syms out;
    int n = a->count > b->count ? a->count : b->count;
    out.count = n;
    for (int i = 0; i < n; i++) {
        int ia = i - (n - a->count), ib = i - (n - b->count);
        tp_sym x = ia < 0 ? tp_sym_int(1) : a->item[ia], y = ib < 0 ? tp_sym_int(1) : b->item[ib];
        out.item[i] = is(x, 1) ? y : x;
        if (tp_sym_same(x, y) || is(x, 1) || is(y, 1))
            continue;
        if (tp_guard(tp_sym_eq(x, tp_sym_int(1)), bad))
            out.item[i] = y;
        else if (!tp_guard(tp_sym_eq(y, tp_sym_int(1)), bad) && !asked(x, y, bad) && !*bad)
            *bad = !tp_fail_with(TP_ERR_RUNTIME, "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
                                 3, (tp_value[]){ tp_of_sym(x), tp_of_sym(y), tp_int(i) });
        else if (tp_sym_is_int(y))
            out.item[i] = y;
    }
    return out;
}

tp_syms tp_syms_infer(const tp_syms *sizes, tp_sym numel, bool *bad)
{
    tp_syms out = *sizes;
    tp_sym known = tp_sym_int(1);
    int unknown = -1;
    for (int i = 0; i < out.count && !*bad; i++) {
        if (is(out.item[i], -1) && unknown >= 0)
            *bad = !tp_fail(TP_ERR_RUNTIME, "only one dimension can be inferred");
        else if (is(out.item[i], -1))
            unknown = i;
        else
            known = tp_sym_mul(known, out.item[i]);
    }
    if (*bad)
        return out;
    if (unknown >= 0) {
        if (asked(known, tp_sym_int(0), bad)) {
            if (!*bad)
                *bad = !tp_fail(TP_ERR_RUNTIME, "cannot reshape tensor of 0 elements into a shape whose unspecified dimension size -1 can be "
                                "any value and is ambiguous");
            return out;
        }
        out.item[unknown] = tp_sym_floordiv(numel, known);
        known = tp_sym_mul(known, out.item[unknown]);
    }
    if (!asked(known, numel, bad) && !*bad)
        *bad = !tp_fail_with(TP_ERR_RUNTIME, "shape '{}' is invalid for input of size {}", 2,
                             (tp_value[]){ tp_value_of_syms(sizes), tp_of_sym(numel) });
    return out;
}

tp_syms tp_syms_expanded(const tp_syms *have, const tp_syms *want, bool *bad)
{
    tp_syms out = *want;
    int shift = want->count - have->count;
    if (shift < 0) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "expand: the number of sizes provided (%d) must be greater or equal to the number of dimensions in "
                            "the tensor (%d)", want->count, have->count);
        return *have;
    }
    for (int i = 0; i < want->count && !*bad; i++) {
        tp_sym from = i < shift ? tp_sym_int(1) : have->item[i - shift], to = want->item[i];
        if (is(to, -1))
            out.item[i] = from;
        else if (!tp_sym_same(from, to) && !asked(from, tp_sym_int(1), bad) && !asked(from, to, bad) && !*bad)
            *bad = !tp_fail_with(TP_ERR_RUNTIME, "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton "
                                 "dimension {}.  Target sizes: {}.  Tensor sizes: {}", 5,
                                 (tp_value[]){ tp_of_sym(to), tp_of_sym(from), tp_int(i), tp_value_of_syms(want), tp_value_of_syms(have) });
    }
    return out;
}

/* Row-major tensors are seen with any sizes; others dim by dim: a run of old dims that lie in one line becomes a run of
 * new ones. */
static bool view_runs(tp_syms *strides, const tp_syms *size, const tp_syms *stride, const tp_syms *want, bool *bad)
{
    int at = want->count - 1;
    tp_sym one = tp_sym_int(1), run = one, base = size->count ? stride->item[size->count - 1] : one;
    for (int d = size->count - 1; d >= 0; d--) {
        run = tp_sym_mul(run, size->item[d]);
        bool ends = d == 0 || (!asked(size->item[d - 1], one, bad) && !asked(stride->item[d - 1], tp_sym_mul(run, base), bad));
        if (!ends)
            continue;
        tp_sym taken = one;
        while (at >= 0 && (!asked(taken, run, bad) || asked(want->item[at], one, bad))) {
            strides->item[at] = tp_sym_mul(taken, base);
            taken = tp_sym_mul(taken, want->item[at--]);
            if (*bad)
                return false;
        }
        if (!asked(taken, run, bad))
            return false;
        if (d) {
            base = stride->item[d - 1];
            run = one;
        }
    }
    return at < 0;
}

bool tp_syms_view(tp_syms *strides, const tp_tensor *t, const tp_syms *sizes, bool *bad)
{
    strides->count = sizes->count;
    if (*bad || !t || sizes->count > TP_MAX_DIMS)
        return false;
    if (tp_tensor_is_contiguous(t) || t->ndim == 0) {
        tp_sym step = tp_sym_int(1);
        for (int i = sizes->count - 1; i >= 0; i--) {
            strides->item[i] = step;
            step = tp_sym_mul(step, tp_sym_max(sizes->item[i], tp_sym_int(1)));
        }
        return true;
    }
    tp_syms size = tp_syms_sizes(t), stride = tp_syms_strides(t);
    return view_runs(strides, &size, &stride, sizes, bad);
}

/* ---- results ---- */
static void row_major(tp_sym_geometry *g)
{
    tp_sym step = tp_sym_int(1);
    for (int i = g->ndim - 1; i >= 0; i--) {
        g->stride[i] = step;
        step = tp_sym_mul(step, tp_sym_max(g->size[i], tp_sym_int(1)));
    }
}

void tp_sym_geometry_start(tp_sym_geometry *g, tp_dtype d, const tp_syms *sizes, tp_device device, bool *bad)
{
    int n = sizes->count;
    if (n > TP_MAX_DIMS) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "a tensor has at most %d dims", TP_MAX_DIMS);
        n = TP_MAX_DIMS;
    }
    *g = (tp_sym_geometry){ .dtype = (uint8_t)d, .ndim = (uint8_t)n, .device = device, .offset = tp_sym_int(0) };
    for (int i = 0; i < n; i++) {
        g->size[i] = sizes->item[i];
        if (tp_sym_is_failed(g->size[i]))
            *bad = true;
    }
    row_major(g);
}

void tp_sym_geometry_order(tp_sym_geometry *g, const tp_ints *order)
{
    tp_sym step = tp_sym_int(1);
    for (int i = order->count - 1; i >= 0; i--) {
        int d = (int)order->item[i];
        if (d < 0 || d >= g->ndim)
            continue;
        g->stride[d] = step;
        step = tp_sym_mul(step, tp_sym_max(g->size[d], tp_sym_int(1)));
    }
}

/* The order of dims is that of the hints' strides: a layout is not guarded on. */
void tp_sym_geometry_like(tp_sym_geometry *g, const tp_tensor *t)
{
    tp_ints order;
    int64_t stride[TP_MAX_DIMS];
    if (!t || t->ndim != g->ndim)
        return;
    tp_strides_like(t, t->ndim, t->size, stride);
    order.count = 0;
    for (int i = 0; i < g->ndim; i++) {
        int at = order.count++;
        for (; at > 0 && stride[order.item[at - 1]] < stride[i]; at--)
            order.item[at] = order.item[at - 1];
        order.item[at] = i;
    }
    tp_sym_geometry_order(g, &order);
}

void tp_sym_geometry_like_list(tp_sym_geometry *g, tp_value tensors)
{
    bool all = tp_length(tensors) > 0;
    for (uint32_t i = 0; i < tp_length(tensors); i++) {
        const tp_tensor *t = tp_as_tensor(tensors.list->item[i]);
        all = all && t && tp_tensor_is_channels_last(t) && !tp_tensor_is_contiguous(t);
    }
    if (all)
        tp_sym_geometry_channels_last(g);
}

void tp_sym_geometry_channels_last(tp_sym_geometry *g)
{
    static const tp_ints four = { 4, { 0, 2, 3, 1 } }, five = { 5, { 0, 2, 3, 4, 1 } };
    if (g->ndim == 4 || g->ndim == 5)
        tp_sym_geometry_order(g, g->ndim == 4 ? &four : &five);
}

void tp_sym_geometry_format(tp_sym_geometry *g, tp_value format, const tp_tensor *like, bool *bad)
{
    tp_format f = format.tag == TP_FORMAT_VALUE ? (tp_format)format.i : TP_FORMAT_PRESERVE;
    int want = f == TP_FORMAT_CHANNELS_LAST ? 4 : f == TP_FORMAT_CHANNELS_LAST_3D ? 5 : g->ndim;
    if (g->ndim != want && !*bad)
        *bad = !tp_fail(TP_ERR_RUNTIME, "required rank %d tensor to use channels_last%s format", want, want == 5 ? "_3d" : "");
    else if (f == TP_FORMAT_PRESERVE)
        tp_sym_geometry_like(g, like);
    else if (f != TP_FORMAT_CONTIGUOUS)
        tp_sym_geometry_channels_last(g);
}

void tp_sym_geometry_strides(tp_sym_geometry *g, const tp_syms *strides, bool *bad)
{
    if (strides->count != g->ndim) {
        if (!*bad)
            *bad = !tp_fail(TP_ERR_RUNTIME, "mismatch in length of strides and shape");
        return;
    }
    memcpy(g->stride, strides->item, (size_t)g->ndim * sizeof *g->stride);
}

/* ---- ops that are seldom called ---- */
bool tp_infer_seldom(const tp_op *op, const tp_value *arg, tp_geometry *out)
{
    tp_sym_geometry made[16];
    bool bad = false;
    assert(op->result_count <= TP_COUNT(made));
    for (int i = 0; i < op->result_count; i++)
        made[i].unknown = made[i].absent = false;
    if (!op->work->infer_sym(op, arg, made))
        return false;
    for (int i = 0; i < op->result_count; i++) {
        const tp_sym_geometry *from = &made[i];
        out[i].absent = from->absent;
        out[i].unknown = false;
        if (from->absent)
            continue;
        out[i].dtype = from->dtype;
        out[i].ndim = from->ndim;
        out[i].device = from->device;
        out[i].offset = tp_sym_fixed(from->offset, &bad);
        for (int d = 0; d < from->ndim; d++) {
            out[i].size[d] = tp_sym_fixed(from->size[d], &bad);
            out[i].stride[d] = tp_sym_fixed(from->stride[d], &bad);
        }
    }
    return !bad;
}
