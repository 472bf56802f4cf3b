/* table_vmap.c - a call over batches gives what calls on each member give.
 *
 * Every argument that holds tensors is batched alone, then all of them together. The members of a batch are the sample, its
 * floats scaled down: what was positive, a probability or positive definite stays so. Random ops are seeded before: with the
 * same numbers for all members they equal calls that begin at one seed. */
#include <stdio.h>
#include <string.h>

#include "tensor/generator.h"
#include "trace/fake.h"
#include "trace/table.h"
#include "trace/vmap_level.h"

enum { MEMBERS = 3, SEED = 7 };

static double scale_of(int k)
{
    static const double scale[MEMBERS] = { 1, 0.5, 0.75 };
    return scale[k];
}

/* The k-th member: the tensor's floats scaled in place. */
static void make_member(tp_tensor *t, int k)
{
    if (!tp_dtype_is_inexact((tp_dtype)t->dtype) || k == 0)
        return;
    for (int64_t i = 0; i < t->numel; i++) {
        tp_scalar x = tp_samples_read(t, i);
        if (tp_dtype_is_complex((tp_dtype)t->dtype)) {
            tp_c128 z = tp_scalar_to_complex(x);
            tp_samples_write(t, i, ((tp_scalar){ .kind = TP_KIND_COMPLEX, .c = { z.re * scale_of(k), z.im * scale_of(k) } }));
        } else {
            tp_samples_write(t, i, tp_scalar_float(tp_scalar_to_double(x) * scale_of(k)));
        }
    }
}

static bool writable(const tp_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] > 1)
            return false;
    return true;
}

/* Members one behind the other, each laid out as `t` is. */
static tp_tensor *batch_of(const tp_tensor *t)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], span = 1;
    size[0] = MEMBERS;
    memcpy(size + 1, t->size, (size_t)t->ndim * sizeof *size);
    if (writable(t))
        memcpy(stride + 1, t->stride, (size_t)t->ndim * sizeof *stride);
    else
        tp_strides_row_major(t->ndim, t->size, stride + 1);
    for (int i = 0; i < t->ndim; i++)
        span += t->size[i] ? (t->size[i] - 1) * stride[i + 1] : 0;
    stride[0] = span;
    tp_tensor *batch = tp_tensor_new_on((tp_device){ TP_CPU, -1 }, (tp_dtype)t->dtype, t->ndim + 1, size, stride);
    for (int64_t i = 0; batch && i < batch->numel; i++)
        tp_samples_write(batch, i, tp_samples_read(t, i % t->numel));
    for (int k = 0; batch && k < MEMBERS; k++) {
        tp_tensor *member = tp_tensor_view(batch, t->ndim, t->size, stride + 1, k * span);
        if (member)
            make_member(member, k);
        tp_tensor_unref(member);
    }
    return batch;
}

/* ---- arguments ---- */
static bool holds_tensors(tp_value v)
{
    bool any = v.tag == TP_TENSOR;
    for (uint32_t i = 0; i < tp_length(v); i++)
        any |= v.list->item[i].tag == TP_TENSOR;
    return any;
}

/* Tensors of the arguments in `mask` are replaced by what `make` gives of them; of a list only the first when `first`. */
typedef tp_tensor *maker(tp_tensor *t, const void *user);
static bool replace(tp_value *v, bool first, maker *make, const void *user)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *t = make(v->tensor, user);
        if (t) {
            tp_tensor_unref(v->tensor);
            v->tensor = t;
        }
        return t != NULL;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (v->list->item[i].tag == TP_TENSOR) {
            if (!replace(&v->list->item[i], false, make, user))
                return false;
            if (first)
                break;
        }
    return true;
}

static tp_tensor *make_wrapper(tp_tensor *t, const void *level)
{
    tp_tensor *batch = batch_of(t), *w = batch ? tp_vmap_level_wrap(level, batch, 0) : NULL;
    tp_tensor_unref(batch);
    return w;
}

static tp_tensor *make_scaled(tp_tensor *t, const void *k)
{
    if (!writable(t)) {                         /* an expanded sample is scaled once for each element */
        int64_t stride[TP_MAX_DIMS];
        tp_strides_row_major(t->ndim, t->size, stride);
        tp_tensor *dense = tp_tensor_new((tp_dtype)t->dtype, t->ndim, t->size);
        for (int64_t i = 0; dense && i < dense->numel; i++)
            tp_samples_write(dense, i, tp_samples_read(t, i));
        if (dense)
            make_member(dense, *(const int *)k);
        return dense;
    }
    make_member(t, *(const int *)k);
    return tp_tensor_ref(t);
}

static bool make_arguments(const tp_tally *t, const tp_sample_style *style, uint64_t mask, bool first, maker *make, const void *user, tp_value *arg)
{
    bool ok = tp_samples_make(t->op, t->sample, style, arg);
    for (int i = 0; ok && i < t->op->arg_count; i++)
        if ((mask >> i & 1) && !replace(&arg[i], first, make, user)) {
            tp_values_unref(arg, t->op->arg_count);
            ok = false;
        }
    return ok;
}

/* ---- comparing ---- */

/* Refused as PyTorch refuses it, whatever the members do. */
static bool is_refusal(const char *text)
{
    return strstr(text, "dynamic shape") || strstr(text, "We don't support") || strstr(text, "is not possible because there exists a Tensor `other`") ||
           strstr(text, "out= or view ops") || strstr(text, "same randomness with a batched") || strstr(text, "data-dependent control flow") ||
           strstr(text, "We could not generate a fallback") || strstr(text, "Attempted to vmap over `mask`") || strstr(text, "isn't supported yet") ||
           strstr(text, "Batch norm got a batched tensor") || strstr(text, "we do not yet support");
}

static tp_tensor *plain(const tp_vmap_level *l, tp_tensor *t, int k)
{
    tp_tensor *whole = tp_vmap_level_unwrap(l, t, 0), *one = NULL;
    if (whole && whole->ndim && whole->size[0] == MEMBERS)
        one = tp_tensor_view(whole, whole->ndim - 1, whole->size + 1, whole->stride + 1, whole->offset + k * whole->stride[0]);
    tp_tensor_unref(whole);
    return one;
}

static void compare(tp_tally *t, const tp_vmap_level *l, tp_tensor *batch, const tp_tensor *want, int k, const char *what, double tolerance)
{
    char why[256];
    tp_tensor *got = plain(l, batch, k);
    t->calls++;
    if (!got)
        tp_tally_fail(t, "%s: no batch: %s", what, tp_error_text());
    else if (!tp_same_numbers(got, want, tolerance, why))
        tp_tally_fail(t, "%s: member %d: %s", what, k, why);
    tp_tensor_unref(got);
}

static double tolerance_of(const tp_outcome *o)
{
    double tolerance = 1e-9;
    for (int i = 0; i < o->count; i++)
        if (o->tensor[i])
            tolerance = tp_dtype_is_half((tp_dtype)o->tensor[i]->dtype) ? 2e-2 : o->tensor[i]->dtype == TP_f64 || o->tensor[i]->dtype == TP_c128 ? tolerance : 2e-5;
    return tolerance;
}

/* One call: which op (the one looked at, or its form in place or without writing), on which batches. */
typedef struct batch_call {
    const tp_op *op;
    uint64_t mask;              /* of the arguments with a batch */
    bool     first;             /* of a list only the first */
    tp_randomness randomness;
    char     what[96];
} batch_call;

static void call_batch(const batch_call *c, tp_vmap_level *l, const tp_value *arg, tp_outcome *out)
{
    tp_generator_set_seed(tp_generator_default(), SEED);
    tp_vmap_level_enter(l);
    tp_outcome_call(out, c->op, arg, tp_call);
    tp_vmap_level_leave(l);
}

/* The k-th member by itself; false: it is refused. */
static bool compare_member(tp_tally *t, const tp_sample_style *style, const batch_call *c, const tp_vmap_level *l, const tp_value *arg,
                           const tp_outcome *whole, int k)
{
    tp_value one[TP_SAMPLES_ARGS];
    tp_outcome member;
    bool random = c->op->flags & TP_OP_RNG;
    if (!make_arguments(t, style, c->mask, c->first, make_scaled, &k, one))
        return false;
    tp_generator_set_seed(tp_generator_default(), SEED);
    tp_outcome_call(&member, c->op, one, tp_call);
    bool ok = member.ok;
    if (ok && !whole->ok && !is_refusal(whole->text))
        tp_tally_fail(t, "%s: fails: %s", c->what, whole->text);
    if (ok && whole->ok && member.count != whole->count)
        tp_tally_fail(t, "%s: %d results, the member has %d", c->what, whole->count, member.count);
    for (int i = 0; ok && whole->ok && i < member.count && i < whole->count; i++) {
        if (!whole->tensor[i] != !member.tensor[i])
            tp_tally_fail(t, "%s: only one has result %d", c->what, i);
        else if (whole->tensor[i] && (!random || c->randomness == TP_RANDOM_SAME))
            compare(t, l, whole->tensor[i], member.tensor[i], k, c->what, tolerance_of(&member));
    }
    if (ok && whole->ok && c->op->variant == TP_INPLACE && arg[0].tag == TP_TENSOR && !random)
        compare(t, l, arg[0].tensor, one[0].tensor, k, "written", tolerance_of(&member));
    tp_outcome_fini(&member);
    tp_values_unref(one, t->op->arg_count);
    return ok;
}

static tp_tensor *make_fake(tp_tensor *t, const void *unused)
{
    (void)unused;
    return tp_is_fake(t) ? tp_tensor_ref(t) : tp_fake_of(t);
}

static tp_tensor *make_fake_wrapper(tp_tensor *t, const void *level)
{
    tp_tensor *batch = batch_of(t), *fake = batch ? tp_fake_of(batch) : NULL, *w = fake ? tp_vmap_level_wrap(level, fake, 0) : NULL;
    tp_tensor_unref(batch);
    tp_tensor_unref(fake);
    return w;
}

/* Batches without data: the same types and sizes come out. */
static void compare_fake(tp_tally *t, const tp_sample_style *style, const batch_call *c, tp_vmap_level *l, const tp_outcome *real)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome fake;
    tp_fake_mode mode = { .allow_fallback = true };
    if (!real->ok || !make_arguments(t, style, c->mask, c->first, make_fake_wrapper, l, arg))
        return;
    bool ok = true;
    for (int i = 0; ok && i < t->op->arg_count; i++)
        ok = replace(&arg[i], false, make_fake, NULL);
    if (ok) {
        tp_fake_enter(&mode);
        call_batch(c, l, arg, &fake);
        tp_fake_leave(&mode);
        if (!fake.ok && !strstr(fake.text, "data-dependent") && !strstr(fake.text, "DataDependent") && !strstr(fake.text, "dynamic"))
            tp_tally_fail(t, "%s, fake: fails: %s", c->what, fake.text);
        for (int i = 0; fake.ok && i < fake.count && i < real->count; i++) {
            const tp_tensor *a = fake.tensor[i], *b = real->tensor[i];
            if (a && b && (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) != 0))
                tp_tally_fail(t, "%s, fake: another type or size of result %d", c->what, i);
        }
        tp_outcome_fini(&fake);
    }
    tp_values_unref(arg, t->op->arg_count);
}

static void compare_call(tp_tally *t, const tp_sample_style *style, batch_call c)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome whole;
    tp_vmap_level *l = tp_vmap_level_new(tp_sym_int(MEMBERS), c.randomness);
    snprintf(c.what, sizeof c.what, "%s, batched %#llx%s", c.op->name, (unsigned long long)c.mask, c.first ? ", first of the list" : "");
    if (l && make_arguments(t, style, c.mask, c.first, make_wrapper, l, arg)) {
        call_batch(&c, l, arg, &whole);
        for (int k = 0; k < MEMBERS && compare_member(t, style, &c, l, arg, &whole, k); k++) {}
        if (!(c.op->flags & TP_OP_SYNC))
            compare_fake(t, style, &c, l, &whole);
        tp_outcome_fini(&whole);
        tp_values_unref(arg, t->op->arg_count);
    }
    tp_vmap_level_free(l);
    tp_error_clear();
}

void tp_check_vmap(tp_tally *t, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    uint64_t all = 0, lists = 0;
    bool random = t->op->flags & TP_OP_RNG;
    const tp_op *forms[] = { t->op, t->op->inplace, t->op->variant == TP_INPLACE ? t->op->functional : NULL };
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    for (int i = 0; i < t->op->arg_count; i++)
        if (holds_tensors(arg[i])) {
            all |= 1ull << i;
            lists |= (uint64_t)(arg[i].tag == TP_LIST) << i;
        }
    tp_values_unref(arg, t->op->arg_count);
    for (size_t f = 0; f < TP_COUNT(forms); f++)
        for (tp_randomness r = random ? TP_RANDOM_DIFFERENT : TP_RANDOM_ERROR; forms[f] && r <= (random ? TP_RANDOM_SAME : TP_RANDOM_ERROR); r++) {
            for (int i = 0; i < t->op->arg_count; i++)
                if (all >> i & 1)
                    compare_call(t, style, (batch_call){ .op = forms[f], .mask = 1ull << i, .first = lists >> i & 1, .randomness = r });
            if (all & (all - 1) || lists)
                compare_call(t, style, (batch_call){ .op = forms[f], .mask = all, .randomness = r });
        }
}
