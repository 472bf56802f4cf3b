/* table_fake.c - do shape rules say what kernels do? On integers, on expressions, and on expressions at other sizes.
 *
 * Every size above 1 of every tensor becomes a symbol of its own. What the expressions give at the hints must be the real
 * result; where the guards hold for larger sizes, they must give the result of a real run at those sizes. */
#include <stdio.h>
#include <string.h>

#include "ops/dispatch.h"
#include "ops/symbolic.h"
#include "trace/fake.h"
#include "trace/table.h"

static tp_tensor *fake_tensor(const tp_tensor *real, tp_table_symbols *s)
{
    tp_sym size[TP_MAX_DIMS];
    if (!s)
        return tp_fake_of(real);
    for (int i = 0; i < real->ndim; i++) {
        size[i] = tp_shape_env_symbol(s->env, real->size[i], NULL, TP_RANGE_ALL);
        if (tp_sym_is_node(size[i]) && s->count < TP_TABLE_SYMBOLS)
            s->value[s->count++] = (tp_binding){ size[i], tp_sym_int(real->size[i]) };
    }
    return tp_fake_symbolic(real, NULL, size);          /* dense ones: no symbol but those of sizes can be bound */
}

static bool fake_value(tp_value real, tp_table_symbols *s, tp_value *out)
{
    *out = tp_none();
    if (real.tag == TP_TENSOR) {
        *out = tp_of_tensor(fake_tensor(real.tensor, s));
        return !tp_is_none(*out);
    }
    if (real.tag != TP_LIST || !real.list->count || real.list->item[0].tag != TP_TENSOR) {
        *out = tp_value_ref(real);
        return true;
    }
    tp_list *l = tp_list_new(real.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = fake_value(real.list->item[i], s, &l->item[i]);
    *out = l ? tp_of_list(l) : tp_none();
    return ok;
}

bool tp_table_fake(const tp_op *op, const tp_value *arg, tp_table_symbols *s, tp_value *fake)
{
    bool ok = true;
    for (int i = 0; i < op->arg_count; i++)
        if (!fake_value(arg[i], s, &fake[i]))
            ok = false;
    if (!ok)
        tp_values_unref(fake, op->arg_count);
    return ok;
}

static bool fake_call(const tp_op *op, const tp_value *arg, tp_table_symbols *s, tp_outcome *out)
{
    tp_value fake[TP_SAMPLES_ARGS];
    bool ok = tp_table_fake(op, arg, s, fake);
    if (ok) {
        tp_fake_mode mode = { .env = s ? s->env : NULL };
        tp_fake_enter(&mode);           /* a factory's result is fake by the mode alone, also inside a composite */
        tp_outcome_call(out, op, fake, tp_call);
        tp_fake_leave(&mode);
        tp_values_unref(fake, op->arg_count);
    }
    return ok;
}

/* Zero divisors and singular matrices are found by looking at data, types that only the kernel refuses by running it. */
bool tp_looked_at_data(const tp_outcome *o)
{
    return strstr(o->text, "_cpu\" not implemented for") || o->error == TP_ERR_ZERO_DIVISION || strcmp(o->text, "ZeroDivisionError") == 0 ||
           o->error == TP_ERR_LINALG || strstr(o->text, "is zero and using it on lu_solve");
}

/* Everything else both must refuse, in the same words. */
static bool agree_on_errors(tp_tally *t, const tp_outcome *real, const tp_outcome *fake, bool words)
{
    if (real->ok && fake->ok)
        return true;
    if (real->ok)
        tp_tally_fail(t, "only the fake call fails: %s", fake->text);
    else if (fake->ok && !tp_looked_at_data(real))
        tp_tally_fail(t, "only the real call fails: %s", real->text);
    else if (!fake->ok && (real->error != fake->error || (words && strcmp(real->text, fake->text) != 0)))
        tp_tally_fail(t, "fails with '%s', fake with '%s'", real->text, fake->text);
    return false;
}

static void compare_plain(tp_tally *t, const tp_outcome *real, const tp_outcome *fake)
{
    if (real->count != fake->count)
        tp_tally_fail(t, "%d results, fake has %d", real->count, fake->count);
    for (int i = 0; i < real->count && real->count == fake->count; i++) {
        const tp_tensor *a = real->tensor[i], *b = fake->tensor[i];
        if (!a || !b) {
            if (a != b)
                tp_tally_fail(t, "result %d: only one of real and fake has it", i);
            continue;
        }
        if (a->dtype != b->dtype || a->ndim != b->ndim)
            tp_tally_fail(t, "result %d: %s with %d dims, fake has %s with %d", i, tp_dtypes[a->dtype].name, a->ndim,
                          tp_dtypes[b->dtype].name, b->ndim);
        for (int d = 0; d < a->ndim && d < b->ndim; d++)
            if (a->size[d] != b->size[d] || a->stride[d] != b->stride[d])
                tp_tally_fail(t, "result %d dim %d: size %lld stride %lld, fake has %lld and %lld", i, d, LL(a->size[d]),
                              LL(a->stride[d]), LL(b->size[d]), LL(b->stride[d]));
    }
}

static void compare_fake(tp_tally *t, const tp_op *op, const tp_value *arg)
{
    tp_outcome real, fake;
    if (!fake_call(op, arg, NULL, &fake))
        return;
    tp_outcome_call(&real, op, arg, tp_call);
    t->calls++;
    if (agree_on_errors(t, &real, &fake, true))
        compare_plain(t, &real, &fake);
    tp_outcome_fini(&real);
    tp_outcome_fini(&fake);
}

void tp_check_fake(tp_tally *t, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    /* PyTorch's fakes do not look for elements that share memory either. */
    bool overlap = t->op->variant == TP_INPLACE && style->layout == TP_SAMPLE_BROADCAST;
    if (overlap || t->op->flags & TP_OP_SYNC || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    compare_fake(t, t->op, arg);
    if (t->op->inplace && arg[0].tag == TP_TENSOR && style->layout != TP_SAMPLE_BROADCAST)
        compare_fake(t, t->op->inplace, arg);
    tp_values_unref(arg, t->op->arg_count);
}

/* ---- expressions ---- */

static bool is(const tp_table_symbols *s, tp_sym x, int64_t want)
{
    int64_t got;
    bool ok = tp_sym_eval(x, s->value, (size_t)s->count, &got) && got == want;
    tp_error_clear();
    return ok;
}

static void print(tp_sym x, char out[128])
{
    tp_text text = { 0 };
    tp_sym_print(x, &text);
    snprintf(out, 128, "%s", tp_text_read(&text));
    tp_text_fini(&text);
}

static void compare_at(tp_tally *t, const tp_table_symbols *s, const tp_outcome *real, const tp_outcome *fake, const char *where)
{
    char size[128], stride[128];
    if (real->count != fake->count)
        tp_tally_fail(t, "%s: %d results, fake has %d", where, real->count, fake->count);
    for (int i = 0; i < real->count && real->count == fake->count; i++) {
        const tp_tensor *a = real->tensor[i], *b = fake->tensor[i];
        if (!a || !b || a->ndim != b->ndim || a->dtype != b->dtype) {
            if (a || b)
                tp_tally_fail(t, "%s: result %d has another type or rank", where, i);
            continue;
        }
        for (int d = 0; d < a->ndim; d++) {
            if (is(s, tp_tensor_sym_size(b, d), a->size[d]) && is(s, tp_tensor_sym_stride(b, d), a->stride[d]))
                continue;
            print(tp_tensor_sym_size(b, d), size);
            print(tp_tensor_sym_stride(b, d), stride);
            tp_tally_fail(t, "%s: result %d dim %d: size %lld stride %lld, expressions are %s and %s", where, i, d, LL(a->size[d]),
                          LL(a->stride[d]), size, stride);
        }
    }
}

bool tp_table_rebind(tp_table_symbols *s, const tp_sample_style *grown)
{
    for (int i = 0; i < s->count; i++) {
        int64_t hint = tp_symbol_of(s->value[i].symbol)->hint;
        s->value[i].value = tp_sym_int(!grown->only || grown->only == i + 1 ? hint * grown->grow + grown->plus : hint);
    }
    for (size_t i = 0; i < tp_shape_env_guard_count(s->env); i++)
        if (!is(s, tp_shape_env_guard_at(s->env, i)->condition, 1))
            return false;
    return true;
}

bool tp_table_grown(const tp_table_symbols *s, const tp_sample_style *style, int at, tp_sample_style *grown, char where[64])
{
    *grown = *style;
    grown->grow = 2;
    grown->plus = at == 1;
    grown->only = at < 2 ? 0 : at - 1;
    if (grown->only)
        snprintf(where, 64, "s%d alone times 2", grown->only - 1);
    else
        snprintf(where, 64, "sizes times 2 plus %lld", LL(grown->plus));
    return s->count && grown->only <= s->count;
}

/* The same expressions at larger sizes, if the guards that were met allow them. */
static void compare_grown(tp_tally *t, tp_table_symbols *s, const tp_outcome *fake, const tp_sample_style *grown, const char *where)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome real;
    if (!tp_table_rebind(s, grown) || !tp_samples_make(t->op, t->sample, grown, arg))
        return;
    tp_outcome_call(&real, t->op, arg, tp_call);
    t->calls++;
    if (real.ok)
        compare_at(t, s, &real, fake, where);
    else if (!tp_looked_at_data(&real))
        tp_tally_fail(t, "%s: the guards hold, the real call fails: %s", where, real.text);
    tp_outcome_fini(&real);
    tp_values_unref(arg, t->op->arg_count);
}

void tp_check_symbolic(tp_tally *t, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome real, fake;
    tp_sample_style grown;
    char where[64];
    tp_table_symbols s = { .env = tp_shape_env_new(NULL, NULL) };
    if (t->op->flags & TP_OP_SYNC || !s.env || !tp_samples_make(t->op, t->sample, style, arg)) {
        tp_shape_env_unref(s.env);
        return;
    }
    if (fake_call(t->op, arg, &s, &fake)) {
        tp_outcome_call(&real, t->op, arg, tp_call);
        t->calls++;
        if (agree_on_errors(t, &real, &fake, false)) {
            compare_at(t, &s, &real, &fake, "hints");
            for (int at = 0; tp_table_grown(&s, style, at, &grown, where); at++)
                compare_grown(t, &s, &fake, &grown, where);
        }
        tp_outcome_fini(&real);
        tp_outcome_fini(&fake);
    }
    tp_values_unref(arg, t->op->arg_count);
    tp_shape_env_unref(s.env);
}
