/* table_gradient.c - gradients against central differences, in f64.
 *
 * The loss is the sum of all differentiable results times fixed weights. Differences are taken element by element before
 * they are summed, so that a huge result does not drown its neighbours. Where the two one-sided slopes disagree the function
 * has a kink or a jump and any gradient will do; results that are not finite count nothing. */
#include <math.h>
#include <string.h>

#include "grad/tape.h"
#include "ops/known.h"
#include "trace/table.h"

enum { MOST_INPUTS = 16, MOST_ELEMENTS = 24, MOST_NUMBERS = 20000 };

/* Float tensors among the arguments, of which gradients are asked. */
typedef struct inputs {
    int        count;
    uint8_t    arg[MOST_INPUTS];
    tp_tensor *tensor[MOST_INPUTS];     /* borrowed */
    tp_value   gradient[MOST_INPUTS];   /* owned */
} inputs;

static void find_inputs(const tp_op *op, const tp_value *arg, inputs *in)
{
    in->count = 0;
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && arg[i].tensor->dtype == TP_f64 && in->count < MOST_INPUTS) {
            in->arg[in->count] = (uint8_t)i;
            in->gradient[in->count] = tp_none();
            in->tensor[in->count++] = arg[i].tensor;
        }
}

static double weight(int result, int64_t place)
{
    return tp_samples_random((uint64_t)result + 1000, (uint64_t)place) + 0.5;
}

/* The weights of a result, 0 where it is not finite. */
static tp_tensor *weights_of(const tp_tensor *result, int n)
{
    tp_tensor *w = tp_tensor_new(TP_f64, result->ndim, result->size);
    for (int64_t i = 0; w && i < w->numel; i++)
        tp_samples_write(w, i, tp_scalar_float(isfinite(tp_scalar_to_double(tp_samples_read(result, i))) ? weight(n, i) : 0));
    return w;
}

/* ---- by the tape ---- */

static bool run_backward(const tp_outcome *o, uint32_t counted, inputs *in)
{
    tp_edge root[TP_TABLE_RESULTS], input[MOST_INPUTS] = { { NULL, 0 } };
    tp_value gradient[TP_TABLE_RESULTS];
    size_t roots = 0;
    bool ok = true;
    for (int i = 0; ok && i < o->count; i++) {
        if (!(counted >> i & 1))
            continue;
        root[roots] = (tp_edge){ NULL, 0 };
        gradient[roots] = tp_of_tensor(weights_of(o->tensor[i], i));
        ok = !tp_is_none(gradient[roots]) && tp_gradient_edge(o->tensor[i], &root[roots]);
        roots++;
    }
    for (int i = 0; ok && i < in->count; i++)
        ok = tp_gradient_edge(in->tensor[i], &input[i]);
    ok = ok && tp_backward_run(&(tp_backward_request){ .root = root, .gradient = gradient, .root_count = roots, .input = input,
                                                      .input_count = (size_t)in->count, .captured = in->gradient });
    for (size_t i = 0; i < roots; i++) {
        tp_grad_node_unref(root[i].node);
        tp_value_unref(gradient[i]);
    }
    for (int i = 0; i < in->count; i++)
        tp_grad_node_unref(input[i].node);
    return ok;
}

/* Results that the loss adds up: those that a gradient flows from. */
static uint32_t counted_results(const tp_outcome *o)
{
    uint32_t counted = 0;
    for (int i = 0; i < o->count; i++)
        if (o->tensor[i] && o->tensor[i]->dtype == TP_f64 && tp_requires_grad(o->tensor[i]))
            counted |= 1u << i;
    return counted;
}

/* ---- by differences ---- */

/* All counted results, one after the other; -1: the call fails or there are too many. */
static int numbers_of(const tp_op *op, const tp_value *arg, uint32_t counted, double *out)
{
    tp_outcome o;
    int n = 0;
    tp_outcome_call(&o, op, arg, tp_call);
    for (int i = 0; o.ok && n >= 0 && i < o.count; i++) {
        if (!(counted >> i & 1))
            continue;
        if (n + o.tensor[i]->numel > MOST_NUMBERS)
            n = -1;
        for (int64_t k = 0; n >= 0 && k < o.tensor[i]->numel; k++)
            out[n++] = tp_scalar_to_double(tp_samples_read(o.tensor[i], k));
    }
    if (!o.ok)
        n = -1;
    tp_outcome_fini(&o);
    return n;
}

typedef struct slopes {
    double forward, backward, noise;
    bool   jumps;               /* some result changes too much for the step */
    bool   infinite;            /* some result is not finite */
} slopes;

static void slopes_of(const tp_outcome *o, uint32_t counted, const double *low, const double *here, const double *high, double step, slopes *s)
{
    int at = 0;
    *s = (slopes){ .noise = 0 };
    for (int i = 0; i < o->count; i++)
        for (int64_t k = 0; counted >> i & 1 && k < o->tensor[i]->numel; k++, at++) {
            s->infinite |= !isfinite(here[at]);
            if (!isfinite(here[at]))
                continue;
            s->jumps |= fabs(high[at] - low[at]) > 0.1 * fabs(here[at]) + 0.01;
            s->forward += weight(i, k) * (high[at] - here[at]) / step;
            s->backward += weight(i, k) * (here[at] - low[at]) / step;
            if (high[at] != low[at])
                s->noise += 2 * fabs(here[at]) * 2.3e-16 / step;
        }
}

static bool has_kink(const slopes *s)
{
    double size = fabs(s->forward) + fabs(s->backward);
    return s->jumps || !isfinite(size) || fabs(s->forward - s->backward) > 1e-3 * size + 1e-4 + 4 * s->noise;
}

/* Samples are remade for the differences: in-place ops have overwritten theirs. */
static bool remake(tp_tally *t, const tp_sample_style *style, int arg_index, int64_t place, double step, uint32_t counted, double *out)
{
    tp_value arg[TP_SAMPLES_ARGS];
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return false;
    tp_tensor *x = arg[arg_index].tensor;
    if (step != 0)
        tp_samples_write(x, place, tp_scalar_float(tp_scalar_to_double(tp_samples_read(x, place)) + step));
    bool ok = numbers_of(t->called, arg, counted, out) >= 0;
    tp_values_unref(arg, t->op->arg_count);
    return ok;
}

static void compare_input(tp_tally *t, const tp_sample_style *style, const tp_outcome *o, uint32_t counted, const inputs *in, int i, const double *x)
{
    static const char *const none = "none";
    double low[MOST_NUMBERS], here[MOST_NUMBERS], high[MOST_NUMBERS];
    const tp_tensor *g = tp_as_tensor(in->gradient[i]);
    const char *name = t->op->arg[in->arg[i]].name;
    int64_t numel = in->tensor[i]->numel, stride = numel > MOST_ELEMENTS ? numel / MOST_ELEMENTS : 1;
    if (!remake(t, style, in->arg[i], 0, 0, counted, here))
        return;
    for (int64_t k = 0; k < numel; k += stride) {
        double step = 1e-6 * fmax(1, fabs(x[k]));
        slopes s;
        if (!isfinite(x[k]) || !remake(t, style, in->arg[i], k, step, counted, high) ||
            !remake(t, style, in->arg[i], k, -step, counted, low))
            continue;
        slopes_of(o, counted, low, here, high, step, &s);
        if (has_kink(&s))
            continue;
        double numeric = (s.forward + s.backward) / 2, got = g ? tp_scalar_to_double(tp_samples_read(g, k)) : 0;
        if (s.infinite && !isfinite(got))
            continue;
        t->calls++;
        if (!(fabs(got - numeric) <= 2e-5 * fabs(numeric) + 1e-6 + 4 * s.noise)) {
            tp_tally_fail(t, "gradient of %s[%lld] at %.9g is %.9g%s, differences give %.9g", name, LL(k), x[k], got, g ? "" : none, numeric);
            return;
        }
    }
}

static bool has_form(tp_tally *t, const tp_tensor *x, const tp_tensor *g, const char *name)
{
    bool same = !g || (g->dtype == x->dtype && g->ndim == x->ndim && memcmp(g->size, x->size, (size_t)x->ndim * sizeof *x->size) == 0);
    if (!same)
        tp_tally_fail(t, "gradient of %s has another type or other sizes", name);
    return same;
}

/* ---- in place ---- */

/* The op in place on a copy of its first argument must give the same gradients, unless its entry says `grad inplace = error`. */
static void compare_inplace(tp_tally *t, const tp_sample_style *style, const inputs *want)
{
    tp_value arg[TP_SAMPLES_ARGS], leaf, copy;
    tp_outcome o;
    inputs in;
    char why[256];
    const tp_op *op = t->op->variant == TP_INPLACE ? t->op : t->op->inplace;
    bool own_rule = op->base && op->gradient->backward && op->gradient->backward != op->base->gradient->backward;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    find_inputs(t->op, arg, &in);
    bool ok = true;
    for (int i = 0; i < in.count; i++)
        ok = ok && tp_set_requires_grad(in.tensor[i], true);
    if (ok && tp_call1(&tp_op_clone, 1, arg, &copy)) {
        leaf = arg[0];
        arg[0] = copy;
        tp_outcome_call(&o, op, arg, tp_call);
        if (o.ok && counted_results(&o)) {
            if (!run_backward(&o, counted_results(&o), &in) && !(own_rule && tp_error_kind() == TP_ERR_UNIMPLEMENTED))
                tp_tally_fail(t, "in place: backward fails: %s", tp_error_text());
            tp_error_clear();
            for (int i = 0; i < in.count; i++) {
                const tp_tensor *a = tp_as_tensor(in.gradient[i]), *b = tp_as_tensor(want->gradient[i]);
                if (a && b && !tp_same_numbers(a, b, 1e-12, why))
                    tp_tally_fail(t, "in place: gradient of %s: %s", op->arg[in.arg[i]].name, why);
            }
        }
        tp_outcome_fini(&o);
        arg[0] = leaf;
        tp_value_unref(copy);
    }
    tp_values_unref(in.gradient, (size_t)in.count);
    tp_values_unref(arg, t->op->arg_count);
}

/* ---- the check ---- */

static void compare_all(tp_tally *t, const tp_sample_style *style, const tp_outcome *o, uint32_t counted, inputs *in)
{
    double x[MOST_NUMBERS];
    for (int i = 0; i < in->count; i++) {
        const tp_tensor *g = tp_as_tensor(in->gradient[i]);
        /* What a composite's pieces differentiate it does not say: running statistics and class weights are not. */
        bool differentiable = t->op->kind == TP_LIKE_COMPOSITE ? g != NULL : t->op->differentiable >> in->arg[i] & 1;
        tp_value fresh[TP_SAMPLES_ARGS];
        if (!differentiable || in->tensor[i]->numel > MOST_NUMBERS || !has_form(t, in->tensor[i], g, t->op->arg[in->arg[i]].name) ||
            !tp_samples_make(t->op, t->sample, style, fresh))
            continue;
        for (int64_t k = 0; k < in->tensor[i]->numel; k++)
            x[k] = tp_scalar_to_double(tp_samples_read(fresh[in->arg[i]].tensor, k));
        tp_values_unref(fresh, t->op->arg_count);
        tp_self.grad_mode = false;
        compare_input(t, style, o, counted, in, i, x);
        tp_self.grad_mode = true;
    }
}

static void check(tp_tally *t, const tp_sample_style *style, bool differences)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome o;
    inputs in;
    bool formula = t->op->gradient->backward || t->op->kind == TP_LIKE_COMPOSITE;
    t->called = t->op->variant == TP_INPLACE ? t->op->functional : t->op;
    if (!formula || !t->called || t->op->flags & TP_OP_RNG || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    find_inputs(t->op, arg, &in);
    bool ok = in.count > 0;
    for (int i = 0; i < in.count; i++)
        ok = ok && tp_set_requires_grad(in.tensor[i], true);
    if (ok) {
        tp_outcome_call(&o, t->called, arg, tp_call);
        uint32_t counted = o.ok ? counted_results(&o) : 0;
        if (counted && !run_backward(&o, counted, &in)) {
            if (!strstr(tp_error_text(), "the derivative for '"))       /* what PyTorch does not differentiate either */
                tp_tally_fail(t, "backward fails: %s", tp_error_text());
        } else if (counted) {
            if (differences)
                compare_all(t, style, &o, counted, &in);
            if (t->op->inplace || t->op->variant == TP_INPLACE)
                compare_inplace(t, style, &in);
        }
        tp_outcome_fini(&o);
    }
    tp_values_unref(in.gradient, (size_t)in.count);
    tp_values_unref(arg, t->op->arg_count);
    tp_error_clear();
}

void tp_check_gradient(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, true);
}

void tp_check_backward(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, false);
}
