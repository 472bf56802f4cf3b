/* table_jvp.c - tangents against differences along the same direction, and against gradients, in f64.
 *
 * Every float tensor among the arguments gets a tangent v. What the level gives for the results, J v, is compared with the
 * difference of two calls at x ± h v, and for fixed weights u with the tape: <u, J v> = <J* u, v>. An element with a kink along v
 * counts in neither. */
#include <math.h>
#include <string.h>

#include "grad/tape.h"
#include "ops/copy.h"
#include "trace/jvp_level.h"
#include "trace/table.h"

enum { MOST_INPUTS = 24, MOST_NUMBERS = 20000 };

/* ---- directions ---- */

/* Float tensors among the arguments, in lists too, in order. */
typedef struct inputs {
    int       count;
    tp_value *at[MOST_INPUTS];          /* borrowed: where they stand */
    uint8_t   arg[MOST_INPUTS];
} inputs;

static void find(tp_value *v, int arg, inputs *in)
{
    if (v->tag == TP_TENSOR && v->tensor->dtype == TP_f64 && in->count < MOST_INPUTS) {
        in->arg[in->count] = (uint8_t)arg;
        in->at[in->count++] = v;
    }
    for (uint32_t i = 0; v->tag == TP_LIST && i < v->list->count; i++)
        find(&v->list->item[i], arg, in);
}

static void find_inputs(const tp_op *op, tp_value *arg, inputs *in)
{
    in->count = 0;
    for (int i = 0; i < op->arg_count; i++)
        find(&arg[i], i, in);
}

static double direction(int input, int64_t place)
{
    return 2 * tp_samples_random((uint64_t)input + 5000, (uint64_t)place) - 1;
}

static double weight(int result, int64_t place)
{
    return tp_samples_random((uint64_t)result + 1000, (uint64_t)place) + 0.5;
}

static tp_tensor *filled(const tp_tensor *like, int n, double (*number)(int, int64_t))
{
    tp_tensor *t = tp_tensor_new(TP_f64, like->ndim, like->size);
    for (int64_t i = 0; t && i < t->numel; i++)
        tp_samples_write(t, i, tp_scalar_float(number(n, i)));
    return t;
}

/* ---- by the level ---- */
static bool make_dual(tp_jvp_level *l, tp_value *at, int n)
{
    tp_tensor *v = filled(at->tensor, n, direction), *dual = v ? tp_jvp_level_wrap(l, at->tensor, v) : NULL;
    tp_tensor_unref(v);
    if (dual) {
        tp_tensor_unref(at->tensor);
        at->tensor = dual;
    }
    return dual;
}

/* Runs `op` on dual tensors; `tangent` gets those of the results, counted. */
static bool run_forward(tp_tally *t, const tp_op *op, tp_value *arg, tp_outcome *o, tp_tensor **tangent)
{
    inputs in;
    tp_jvp_level *l = tp_jvp_level_new(true);
    bool ok = l != NULL;
    find_inputs(t->op, arg, &in);
    o->ok = false;
    o->count = 0;
    for (int i = 0; ok && i < in.count; i++)
        ok = !(t->moving >> i & 1) || make_dual(l, in.at[i], i);
    if (ok) {
        tp_jvp_level_enter(l);
        tp_outcome_call(o, op, arg, tp_call);
        tp_jvp_level_leave(l);
        ok = o->ok;
        for (int i = 0; i < o->count; i++) {
            tangent[i] = NULL;
            ok = ok && (!o->tensor[i] || tp_jvp_level_tangent(l, o->tensor[i], &tangent[i]));
        }
    }
    tp_jvp_level_free(l);
    return ok;
}

static void drop(tp_tensor **tangent, int count)
{
    for (int i = 0; i < count; i++)
        tp_tensor_unref(tangent[i]);
}

/* ---- by differences ---- */

static bool all_finite(tp_tally *t, const tp_value *arg)
{
    inputs in;
    find_inputs(t->op, (tp_value *)arg, &in);
    for (int i = 0; i < in.count; i++)
        for (int64_t k = 0; k < in.at[i]->tensor->numel; k++)
            if (!isfinite(tp_scalar_to_double(tp_samples_read(in.at[i]->tensor, k))))
                return false;
    return true;
}

/* All float results at x + step * v, one after the other; -1: the call fails or there are too many. */
static int numbers_at(tp_tally *t, const tp_sample_style *style, double step, double *out)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome o;
    inputs in;
    int n = 0;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return -1;
    find_inputs(t->op, arg, &in);
    for (int i = 0; step != 0 && i < in.count; i++)
        for (int64_t k = 0; t->moving >> i & 1 && k < in.at[i]->tensor->numel; k++)
            tp_samples_write(in.at[i]->tensor, k, tp_scalar_float(tp_scalar_to_double(tp_samples_read(in.at[i]->tensor, k)) + step * direction(i, k)));
    tp_outcome_call(&o, t->called, arg, tp_call);
    for (int i = 0; o.ok && n >= 0 && i < o.count; i++) {
        if (!o.tensor[i] || o.tensor[i]->dtype != TP_f64)
            continue;
        if (n + o.tensor[i]->numel > MOST_NUMBERS)
            n = -1;
        for (int64_t k = 0; n >= 0 && k < o.tensor[i]->numel; k++)
            out[n++] = tp_scalar_to_double(tp_samples_read(o.tensor[i], k));
    }
    if (!o.ok)
        n = -1;
    tp_outcome_fini(&o);
    tp_values_unref(arg, t->op->arg_count);
    return n;
}

typedef struct line {               /* the results along v */
    int    count;
    double low[MOST_NUMBERS], here[MOST_NUMBERS], high[MOST_NUMBERS];
} line;

static const double STEP = 1e-6;

static bool walk(tp_tally *t, const tp_sample_style *style, line *l)
{
    l->count = numbers_at(t, style, 0, l->here);
    return l->count >= 0 && numbers_at(t, style, STEP, l->high) == l->count && numbers_at(t, style, -STEP, l->low) == l->count;
}

static double noise(const line *l, int at)
{
    return 4 * fabs(l->here[at]) * 2.3e-16 / STEP;
}

static bool smooth(const line *l, int at)
{
    double up = (l->high[at] - l->here[at]) / STEP, down = (l->here[at] - l->low[at]) / STEP, size = fabs(up) + fabs(down);
    return isfinite(size) && fabs(up - down) <= 1e-3 * size + 1e-4 + 2 * noise(l, at) && size < 1e5 * (1 + fabs(l->here[at]));
}

/* `finite`: at an infinite argument a derivative may be NaN. */
static void compare_differences(tp_tally *t, const line *l, const tp_outcome *o, tp_tensor **tangent, bool finite)
{
    for (int i = 0, at = 0; i < o->count; i++)
        for (int64_t k = 0; o->tensor[i] && o->tensor[i]->dtype == TP_f64 && k < o->tensor[i]->numel && at < l->count; k++, at++) {
            double numeric = (l->high[at] - l->low[at]) / (2 * STEP), got = tangent[i] ? tp_scalar_to_double(tp_samples_read(tangent[i], k)) : 0;
            if (!smooth(l, at) || (isnan(got) && !finite) || (!tangent[i] && t->called->gradient->nondifferentiable_results >> i & 1))
                continue;
            t->calls++;
            if (!(fabs(got - numeric) <= 2e-5 * fabs(numeric) + 1e-6 + noise(l, at))) {
                tp_tally_fail(t, "tangent of result %d at %lld is %.9g%s, differences give %.9g", i, LL(k), got, tangent[i] ? "" : " (none)", numeric);
                return;
            }
        }
}

/* ---- by the tape ---- */

/* <J* u, v>, with u zero where the result has a kink; the mask of inputs that have a gradient. */
static bool pull_back(const tp_tally *t, const tp_outcome *o, tp_tensor *const *u, const inputs *in, double *product, uint32_t *reached)
{
    tp_edge root[TP_TABLE_RESULTS], input[MOST_INPUTS] = { { NULL, 0 } };
    tp_value seed[TP_TABLE_RESULTS], found[MOST_INPUTS];
    size_t roots = 0, count = (size_t)in->count;
    bool ok = true;
    for (int i = 0; ok && i < o->count; i++)
        if (u[i] && tp_requires_grad(o->tensor[i])) {
            seed[roots] = tp_of_tensor(u[i]);
            ok = tp_gradient_edge(o->tensor[i], &root[roots]);
            roots += ok;
        }
    for (size_t i = 0; ok && i < count; i++) {
        found[i] = tp_none();
        ok = tp_gradient_edge(in->at[i]->tensor, &input[i]);
    }
    bool ran = ok && roots && tp_backward_run(&(tp_backward_request){ .root = root, .gradient = seed, .root_count = roots, .input = input, .input_count = count, .captured = found });
    *product = 0;
    *reached = 0;
    for (size_t i = 0; ran && i < count; i++) {
        const tp_tensor *g = tp_as_tensor(found[i]);
        *reached |= (uint32_t)(g != NULL) << i;
        for (int64_t k = 0; g && t->moving >> i & 1 && k < g->numel; k++)
            *product += tp_scalar_to_double(tp_samples_read(g, k)) * direction((int)i, k);
        tp_value_unref(found[i]);
    }
    for (size_t i = 0; i < roots; i++)
        tp_grad_node_unref(root[i].node);
    for (size_t i = 0; i < count; i++)
        tp_grad_node_unref(input[i].node);
    return ok && (ran || !roots);
}

/* A call whose inputs require gradients, and weights for its float results. */
typedef struct recorded {
    tp_value   arg[TP_SAMPLES_ARGS];
    inputs     in;
    tp_outcome o;
    tp_tensor *u[TP_TABLE_RESULTS];     /* owned */
} recorded;

static bool record(tp_tally *t, const tp_sample_style *style, recorded *r)
{
    memset(r->u, 0, sizeof r->u);
    r->o.ok = false;
    if (!tp_samples_make(t->op, t->sample, style, r->arg)) {
        for (int i = 0; i < t->op->arg_count; i++)
            r->arg[i] = tp_none();
        return false;
    }
    find_inputs(t->op, r->arg, &r->in);
    bool ok = true;
    for (int i = 0; ok && i < r->in.count; i++)
        ok = tp_set_requires_grad(r->in.at[i]->tensor, true);
    tp_outcome_call(&r->o, t->called, r->arg, tp_call);
    for (int i = 0; r->o.ok && i < r->o.count; i++)
        if (r->o.tensor[i] && r->o.tensor[i]->dtype == TP_f64)
            ok = (r->u[i] = filled(r->o.tensor[i], i, weight)) && ok;
    return ok && r->o.ok;
}

static void forget(tp_tally *t, recorded *r)
{
    drop(r->u, TP_TABLE_RESULTS);
    tp_outcome_fini(&r->o);
    tp_values_unref(r->arg, t->op->arg_count);
}

static void compare_gradients(tp_tally *t, const tp_sample_style *style, const line *l, tp_tensor **tangent)
{
    recorded r;
    double want, got = 0, size = 1;
    uint32_t reached;
    bool ok = record(t, style, &r);
    for (int i = 0, at = 0; ok && i < r.o.count; i++)
        for (int64_t k = 0; r.u[i] && k < r.u[i]->numel; k++, at++) {
            double part = tangent[i] ? weight(i, k) * tp_scalar_to_double(tp_samples_read(tangent[i], k)) : 0;
            if (at >= l->count || !smooth(l, at) || !isfinite(part)) {
                tp_samples_write(r.u[i], k, tp_scalar_float(0));
            } else {
                got += part;
                size += fabs(part);
            }
        }
    if (ok && pull_back(t, &r.o, r.u, &r.in, &want, &reached) && isfinite(want)) {
        t->calls++;
        if (!(fabs(got - want) <= 1e-9 * size))
            tp_tally_fail(t, "<u, J v> is %.15g, <J* u, v> is %.15g", got, want);
    }
    forget(t, &r);
}

/* The inputs that move: those an op is differentiated by, and of a composite those that its pieces give a gradient. */
static uint32_t find_moving(tp_tally *t, const tp_sample_style *style)
{
    recorded r;
    double product;
    uint32_t mask = 0;
    bool ok = record(t, style, &r);
    if (ok && t->op->kind == TP_LIKE_COMPOSITE) {
        if (!pull_back(t, &r.o, r.u, &r.in, &product, &mask))
            mask = 0;
    } else if (ok) {
        for (int i = 0; i < r.in.count; i++)
            mask |= (uint32_t)(t->op->differentiable >> r.in.arg[i] & 1) << i;
    }
    forget(t, &r);
    return mask;
}

/* ---- in place ---- */

/* Written into a tensor of the level, the tangent is the same. */
static void compare_inplace(tp_tally *t, const tp_sample_style *style, tp_tensor **want)
{
    const tp_op *op = t->op->variant == TP_INPLACE ? t->op : t->op->inplace;
    tp_value arg[TP_SAMPLES_ARGS];
    tp_tensor *tangent[TP_TABLE_RESULTS] = { NULL };
    tp_outcome o;
    char why[256];
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    bool ok = run_forward(t, op, arg, &o, tangent);
    if (ok && want[0] && tangent[0] && !tp_same_numbers(tangent[0], want[0], 1e-12, why))
        tp_tally_fail(t, "in place: %s", why);
    if (ok && want[0] && !tangent[0])
        tp_tally_fail(t, "in place: there is no tangent");
    drop(tangent, o.count);
    tp_outcome_fini(&o);
    tp_values_unref(arg, t->op->arg_count);
}

/* ---- the check ---- */
static void check(tp_tally *t, const tp_sample_style *style, bool numbers)
{
    static line along;                  /* too large for the stack; this test has one thread */
    tp_value arg[TP_SAMPLES_ARGS];
    tp_tensor *tangent[TP_TABLE_RESULTS] = { NULL };
    tp_outcome o;
    bool formula = t->op->gradient->backward || t->op->kind == TP_LIKE_COMPOSITE;
    t->called = t->op->variant == TP_INPLACE ? t->op->functional : t->op;
    if (!formula || !t->called || t->op->flags & TP_OP_RNG || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    t->moving = find_moving(t, style);
    tp_error_clear();
    bool ok = run_forward(t, t->called, arg, &o, tangent);
    if (!ok && numbers && !strstr(o.text, "the derivative for '") && numbers_at(t, style, 0, along.here) >= 0)
        tp_tally_fail(t, "fails: %s", o.ok ? tp_error_text() : o.text);
    if (ok && numbers && walk(t, style, &along)) {
        compare_differences(t, &along, &o, tangent, all_finite(t, arg));
        compare_gradients(t, style, &along, tangent);
    }
    if (ok && (t->op->inplace || t->op->variant == TP_INPLACE))
        compare_inplace(t, style, tangent);
    drop(tangent, o.count);
    tp_outcome_fini(&o);
    tp_values_unref(arg, t->op->arg_count);
    tp_error_clear();
}

void tp_check_tangent(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, true);
}

void tp_check_forward(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, false);
}
