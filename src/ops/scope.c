/* scope.c - temporaries of formulas over tensors, and the openings that need no formula. */
#include "ops/scope.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "gen/ops.h"
#include "ops/emit.h"
#include "ops/run.h"

/* ---- owning ---- */
tp_value tp_scope_own(tp_scope *s, tp_value v)
{
    if (s->count < TP_SCOPE_INLINE) {
        s->item[s->count++] = v;
        return v;
    }
    uint32_t at = s->count - TP_SCOPE_INLINE;
    if (at == s->room) {
        uint32_t room = s->room ? 2 * s->room : 32;
        tp_value *more = tp_realloc_array(s->more, room, sizeof *more);
        if (!more) {
            tp_value_unref(v);
            s->failed = true;
            return tp_none();
        }
        s->more = more;
        s->room = room;
    }
    s->more[at] = v;
    s->count++;
    return v;
}

void tp_scope_keep(tp_scope *s, tp_value *to, tp_value v)
{
    *to = tp_none();
    if (s->failed)
        return;
    *to = tp_value_ref(v);
    if (to->tag == TP_NONE && v.tag != TP_NONE)
        s->failed = true;
    else if (s->kept_count < TP_SCOPE_KEPT)
        s->kept[s->kept_count++] = to;
}

bool tp_scope_end(tp_scope *s)
{
    tp_values_unref(s->item, s->count < TP_SCOPE_INLINE ? s->count : TP_SCOPE_INLINE);
    if (s->count > TP_SCOPE_INLINE)
        tp_values_unref(s->more, s->count - TP_SCOPE_INLINE);
    tp_free(s->more);
    for (uint32_t i = 0; s->failed && i < s->kept_count; i++) {
        tp_value_unref(*s->kept[i]);
        *s->kept[i] = tp_none();
    }
    return !s->failed;
}

/* ---- calling ---- */
/* A gradient that is undefined where a formula wants a tensor. */
static bool check_defined(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if (TP_UNLIKELY(arg[i].tag == TP_NONE) && op->arg[i].type == TP_TYPE_TENSOR && !op->arg[i].list && !op->arg[i].optional)
            return tp_fail(TP_ERR_RUNTIME, "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #%d '%s'", i, op->arg[i].name);
    return true;
}

static bool call(tp_scope *s, const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (!s->failed && !check_defined(op, arg))
        s->failed = true;
    if (!s->failed && !tp_call(op, arg, result))
        s->failed = true;
    return !s->failed;
}

tp_value tp_scope_call(tp_scope *s, const tp_op *op, const tp_value *arg)
{
    tp_value result[16];
    if (!call(s, op, arg, result))
        return tp_none();
    for (int i = 1; i < op->result_count; i++)
        tp_value_unref(result[i]);
    return op->result_count ? tp_scope_own(s, result[0]) : tp_none();
}

tp_value tp_rule_call(tp_scope *s, const tp_op *op, size_t count, const tp_value *arg)
{
    tp_value full[64];
    if (s->failed)
        return tp_none();
    memcpy(full, arg, count * sizeof *arg);
    for (size_t i = count; i < op->arg_count; i++)
        full[i] = tp_arg_default(&op->arg[i]);
    return tp_scope_call(s, op, full);
}

tp_tensor *tp_scope_tensor(tp_scope *s, const tp_op *op, const tp_value *arg)
{
    return tp_as_tensor(tp_scope_call(s, op, arg));
}

tp_value tp_scope_call_all(tp_scope *s, const tp_op *op, const tp_value *arg)
{
    tp_value result[16];
    if (!call(s, op, arg, result))
        return tp_none();
    tp_list *l = tp_list_new(op->result_count);
    if (!l) {
        tp_values_unref(result, op->result_count);
        s->failed = true;
        return tp_none();
    }
    memcpy(l->item, result, op->result_count * sizeof *result);
    return tp_scope_own(s, tp_of_list(l));
}

const tp_value tp_value_none = { .tag = TP_NONE }, tp_value_true = { .tag = TP_BOOL, .i = true }, tp_value_false = { .tag = TP_BOOL, .i = false };
const tp_value tp_value_0 = { .tag = TP_INT, .i = 0 }, tp_value_1 = { .tag = TP_INT, .i = 1 }, tp_value_minus_1 = { .tag = TP_INT, .i = -1 };

static void gather(const tp_op *op, va_list from, tp_value *full)
{
    for (int i = 0; i < op->arg_count; i++) {
        const tp_value *given = va_arg(from, const tp_value *);
        full[i] = given ? *given : tp_arg_default(&op->arg[i]);
    }
}

tp_value tp_scope_on(tp_scope *s, const tp_op *op, ...)
{
    tp_value full[64];
    va_list from;
    if (s->failed)
        return tp_none();
    va_start(from, op);
    gather(op, from, full);
    va_end(from);
    return tp_scope_call(s, op, full);
}

tp_value tp_scope_all_on(tp_scope *s, const tp_op *op, ...)
{
    tp_value full[64];
    va_list from;
    if (s->failed)
        return tp_none();
    va_start(from, op);
    gather(op, from, full);
    va_end(from);
    return tp_scope_call_all(s, op, full);
}

tp_value tp_scope_fail(tp_scope *s, tp_err kind, const char *text)
{
    if (!s->failed)
        tp_fail(kind, "%s", text);
    s->failed = true;
    return tp_none();
}

tp_value tp_scope_missing(tp_scope *s, const char *name)
{
    if (!s->failed)
        tp_fail(TP_ERR_UNIMPLEMENTED, "aten::%s is not there yet", name);
    s->failed = true;
    return tp_none();
}

/* ---- boxing ---- */
static tp_value owned(tp_scope *s, tp_value v)
{
    if (v.tag == TP_NONE) {
        s->failed = true;
        return v;
    }
    return tp_scope_own(s, v);
}

tp_value tp_scope_list(tp_scope *s, uint32_t count, const tp_value *item)
{
    tp_list *l = s->failed ? NULL : tp_list_new(count);
    if (!l) {
        s->failed = true;
        return tp_none();
    }
    for (uint32_t i = 0; i < count; i++)
        l->item[i] = tp_value_ref(item[i]);
    return tp_scope_own(s, tp_of_list(l));
}

/* A list that a number asks for, as chunk(2**62) does: each item takes memory, and none is made in vain for long. */
enum { MOST_VALUES = 1 << 23 };

void tp_values_add(tp_scope *s, tp_values *l, tp_value v)
{
    if (s->failed)
        return;
    if (l->count == MOST_VALUES)
        s->failed = !tp_fail(TP_ERR_RUNTIME, "a list of more than %d values cannot be made", MOST_VALUES);
    else if (tp_array_push(l, v))
        l->item[l->count - 1] = tp_value_ref(v);
    else
        s->failed = true;
}

void tp_values_join(tp_scope *s, tp_values *l, tp_value list)
{
    for (uint32_t i = 0; i < tp_length(list); i++)
        tp_values_add(s, l, list.list->item[i]);
}

tp_value tp_scope_values(tp_scope *s, tp_values *l)
{
    tp_value list = tp_scope_list(s, (uint32_t)l->count, l->item);
    tp_values_unref(l->item, l->count);
    tp_array_fini(l);
    return list;
}

tp_value tp_scope_ints(tp_scope *s, const tp_ints *l)
{
    return s->failed ? tp_none() : owned(s, tp_value_of_ints(l));
}

tp_value tp_scope_syms(tp_scope *s, const tp_syms *l)
{
    return s->failed ? tp_none() : owned(s, tp_value_of_syms(l));
}

tp_value tp_scope_text(tp_scope *s, const char *text)
{
    return s->failed ? tp_none() : owned(s, tp_value_text(text));
}

/* ---- what formulas say ---- */
static tp_tensor *copied_to(tp_scope *s, tp_tensor *t, tp_dtype d, tp_value layout, tp_value device)
{
    const tp_op *to_copy = tp_op_find("aten", "_to_copy", "");
    if (!to_copy)
        return tp_as_tensor(tp_scope_missing(s, "_to_copy"));
    return tp_scope_tensor(s, to_copy, (tp_value[]){ tp_of_tensor(t), tp_of_dtype(d), layout, device, tp_none(), tp_bool(false), tp_none() });
}

tp_tensor *tp_scope_to_dtype(tp_scope *s, tp_tensor *t, tp_dtype d)
{
    return !t || t->dtype == d ? t : copied_to(s, t, d, tp_none(), tp_none());
}

tp_tensor *tp_scope_to_options(tp_scope *s, tp_tensor *t, tp_dtype d, tp_device device)
{
    bool same = !t || (t->dtype == d && t->device.type == device.type && t->device.index == device.index);
    return same ? t : copied_to(s, t, d, (tp_value){ .tag = TP_LAYOUT }, tp_of_device(device));
}

tp_value tp_scope_conj(tp_scope *s, tp_value v)
{
    if (v.tag == TP_COMPLEX)
        return owned(s, tp_value_complex(v.complex->re, -v.complex->im));
    if (v.tag != TP_TENSOR || !tp_dtype_is_complex((tp_dtype)v.tensor->dtype))
        return v;
    const tp_op *conj = tp_op_find("aten", "_conj", "");
    return conj ? tp_scope_call(s, conj, (tp_value[]){ v }) : tp_scope_missing(s, "_conj");
}

tp_value tp_scope_sum(tp_scope *s, tp_value a, tp_value b)
{
    const tp_op *add = tp_op_find("aten", "add", "Tensor");
    if (a.tag == TP_NONE || b.tag == TP_NONE)
        return a.tag == TP_NONE ? b : a;
    return add ? tp_scope_call(s, add, (tp_value[]){ a, b, tp_int(1) }) : tp_scope_missing(s, "add.Tensor");
}

tp_value tp_scope_geometry(tp_scope *s, const tp_tensor *t)
{
    tp_syms size = tp_syms_sizes(t), stride = tp_syms_strides(t);
    return tp_scope_list(s, 3, (tp_value[]){ tp_scope_syms(s, &size), tp_scope_syms(s, &stride), tp_of_sym(tp_syms_offset(t)) });
}

tp_syms tp_scope_result_strides(tp_scope *s, const tp_op *op, const tp_value *arg)
{
    tp_syms l;
    tp_sym_geometry g;
    l.count = 0;
    if (!s->failed && !op->work->infer_sym(op, arg, &g))
        s->failed = true;
    for (int i = 0; !s->failed && i < g.ndim; i++)
        tp_syms_add(&l, g.stride[i]);
    return l;
}

tp_value tp_scope_gradient(tp_scope *s, const tp_backward *b, int result)
{
    tp_value zeros = tp_none();
    if (s->failed || b->g[result].tag != TP_NONE)
        return b->g[result];
    if (!b->zeros(b, result, &zeros)) {
        s->failed = true;
        return zeros;
    }
    return tp_scope_own(s, zeros);
}

void tp_scope_keep_wanted(tp_scope *s, tp_backward *b, int arg, tp_value results, int n)
{
    if (!s->failed && (b->wanted >> arg & 1) && results.tag != TP_NONE)
        tp_scope_keep(s, &b->grad[arg], tp_item(results, n, &s->failed));
}

tp_value tp_scope_tangent(tp_scope *s, const tp_value *arg, const tp_value *tangent, int i)
{
    if (tangent[i].tag != TP_NONE || arg[i].tag != TP_TENSOR)
        return tangent[i];
    const tp_op *zeros = tp_op_find("aten", "zeros_like", "");
    return zeros ? tp_scope_call(s, zeros, (tp_value[]){ arg[i], tp_none(), tp_none(), tp_none(), tp_none(), tp_none() })
                 : tp_scope_missing(s, "zeros_like");
}

tp_sym tp_sizes_at(tp_value sizes, int64_t i, bool *bad)
{
    int64_t n = tp_length(sizes);
    return n ? tp_sym_read(sizes.list->item[tp_wrap(i, n, bad)]) : tp_sym_int(tp_wrap(i, n, bad));
}

tp_sym tp_sizes_product(tp_value sizes)
{
    tp_sym n = tp_sym_int(1);
    for (uint32_t i = 0; i < tp_length(sizes); i++)
        n = tp_sym_mul(n, tp_sym_read(sizes.list->item[i]));
    return n;
}

/* Which dims of `have` a tensor of sizes `want` was spread over: leading ones, and those of size 1. */
static void spread_dims(const tp_syms *have, const tp_syms *want, tp_ints *dims, bool *bad)
{
    int lead = have->count - want->count;
    for (int i = 0; i < have->count; i++)
        if (i < lead || (!tp_sym_same(have->item[i], want->item[i - lead]) &&
                         tp_guard(tp_sym_eq(want->item[i - lead], tp_sym_int(1)), bad) &&
                         !tp_guard(tp_sym_eq(have->item[i], tp_sym_int(1)), bad)))
            tp_ints_add(dims, i);
}

tp_tensor *tp_scope_sum_to(tp_scope *s, tp_tensor *t, const tp_syms *sizes)
{
    const tp_op *sum = tp_op_find("aten", "sum", "dim_IntList"), *view = tp_op_find("aten", "view", "");
    if (!t || s->failed)
        return t;
    if (!sum || !view)
        return tp_as_tensor(tp_scope_missing(s, sum ? "view" : "sum.dim_IntList"));
    tp_syms have = tp_syms_sizes(t);
    tp_ints dims = { .count = 0 };
    const tp_op *all = sizes->count == 0 && have.count ? tp_op_find("aten", "sum", "") : NULL;
    if (all)                                    /* to a scalar: all at once */
        return tp_scope_tensor(s, all, (tp_value[]){ tp_of_tensor(t), tp_none() });
    spread_dims(&have, sizes, &dims, &s->failed);
    if (dims.count)
        t = tp_scope_tensor(s, sum, (tp_value[]){ tp_of_tensor(t), tp_scope_ints(s, &dims), tp_bool(true), tp_none() });
    if (have.count > sizes->count)
        t = tp_scope_tensor(s, view, (tp_value[]){ tp_of_tensor(t), tp_scope_syms(s, sizes) });
    return t;
}

/* ---- openings ---- */
bool tp_run_missing(const tp_op *op, const tp_value *arg, tp_value *result)
{
    char name[128];
    (void)arg;
    (void)result;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "%s has no kernel yet", tp_op_full_name(op, name));
}

static bool has_history(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && arg[i].tensor->autograd)
            return tp_self.grad_mode;
    return false;
}

/* One result into the argument that takes it. */
static void copy_result(tp_scope *s, const tp_op *op, tp_value to, tp_value from)
{
    if (!tp_check_castable((tp_dtype)from.tensor->dtype, (tp_dtype)to.tensor->dtype) ||
        (op->variant == TP_OUT && !tp_check_out_device(op, from.tensor->device, to.tensor)) ||
        (op->variant == TP_OUT && !tp_resize_out(op, to.tensor, from.tensor->ndim, from.tensor->size)))
        s->failed = true;
    tp_scope_call(s, &tp_op_copy_, (tp_value[]){ to, from, tp_bool(false) });
}

void tp_scope_copy_out(tp_scope *s, const tp_op *op, tp_value to, tp_value from)
{
    if (s->failed)
        return;
    if (from.tag != TP_LIST) {
        copy_result(s, op, to, from);
        return;
    }
    if (tp_length(to) != tp_length(from))
        s->failed = !tp_fail(TP_ERR_RUNTIME, "%s_%s expected an out= argument of size %u, got size %u", op->name, op->overload,
                             tp_length(from), tp_length(to));
    for (uint32_t k = 0; k < tp_length(from) && !s->failed; k++)
        copy_result(s, op, to.list->item[k], from.list->item[k]);
}

/* The functional op runs; its results are copied into the arguments that the variant writes. In place, pieces of the op
 * may save the argument for backward: they then work on a copy, which is not written. */
bool tp_open_variant(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_scope s;
    tp_value changed[64];
    const tp_op *base = op->base;
    int first = op->variant == TP_OUT ? op->arg_count - base->result_count : 0;
    tp_scope_start(&s);
    s.failed = !tp_check_apart(op, arg);
    memcpy(changed, arg, base->arg_count * sizeof *arg);
    if (op->variant == TP_INPLACE && has_history(op, arg))
        changed[0] = tp_scope_call(&s, &tp_op_clone, (tp_value[]){ arg[0], tp_none() });
    tp_value made = tp_scope_call_all(&s, base, changed);
    for (int i = 0; !s.failed && i < base->result_count; i++) {
        tp_scope_copy_out(&s, op, arg[first + i], made.list->item[i]);
        if (made.list->item[i].tag != TP_LIST)          /* a list is written where it stands and not given back */
            tp_scope_keep(&s, &result[i], arg[first + i]);
    }
    return tp_scope_end(&s);
}

/* ---- forward mode ---- */

/* A linear op maps tangents as it maps values; an operand without a tangent contributes zeros. */
tp_value tp_scope_piece(tp_scope *s, tp_open_fn *piece, const tp_value *arg)
{
    tp_value result = tp_none();
    if (s->failed)
        return result;
    if (!piece(NULL, arg, &result)) {
        s->failed = true;
        return tp_none();
    }
    return tp_scope_own(s, result);
}

tp_syms tp_scope_sizes(tp_scope *s, bool (*piece)(const tp_value *arg, tp_syms *out), const tp_value *arg)
{
    tp_syms sizes;
    sizes.count = 0;
    if (!s->failed && !piece(arg, &sizes)) {
        s->failed = true;
        sizes.count = 0;
    }
    return sizes;
}
