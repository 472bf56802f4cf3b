/* table_record.c - a call recorded, and recorded below the functionaliser, gives when its graph is run what the call gives.
 *
 * Elsewhere: it is recorded on fakes whose sizes are symbols, and its graph is run at the sizes it was recorded at and, where
 * its guards allow them, at larger ones. The same for its gradients, tangents and batches (table_calls.c). */
#include "base/array.h"
#include "ir/run.h"
#include "ir/text.h"
#include "ops/dispatch.h"
#include "tensor/generator.h"
#include "trace/fake.h"
#include "trace/functional.h"
#include "trace/record.h"
#include "trace/table.h"

typedef struct tracing {
    tp_table_call *call;            /* tp_call, or one of table_calls.c */
    tp_recorder   *recorder;        /* owned */
    tp_functional *functional;      /* owned, may be NULL */
    const char    *what;            /* of it is told in faults */
} tracing;

/* The value as the traced call gets it: each tensor an input, a wrapper where writes are taken out. Owned. */
static bool enter_value(tracing *t, tp_value v, tp_value *out)
{
    if (v.tag == TP_TENSOR) {
        *out = t->functional ? tp_of_tensor(tp_functional_wrap(t->functional, v.tensor)) : tp_value_ref(v);
        return out->tag == TP_TENSOR && tp_record_input(t->recorder, "x", v);
    }
    if (v.tag != TP_LIST) {
        *out = tp_value_ref(v);
        return out->tag == v.tag;
    }
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = enter_value(t, v.list->item[i], &l->item[i]);
    *out = l ? tp_of_list(l) : tp_none();
    return ok;
}

/* The results of the call as the output of the graph. */
static bool add_output(tracing *t, const tp_value *result, int count)
{
    tp_list *l = tp_list_new((size_t)count);
    bool ok = l;
    for (int i = 0; ok && i < count; i++) {
        tp_value plain = tp_none();
        ok = (t->functional ? tp_functional_unwrap(t->functional, result[i], &plain) : (plain = tp_value_ref(result[i])).tag == result[i].tag) &&
             tp_record_lower(t->recorder, plain, &l->item[i]);
        tp_value_unref(plain);
    }
    tp_value all = { .tag = TP_TUPLE, .list = l };
    ok = ok && tp_record_output(t->recorder, all) && tp_graph_check(tp_recorder_graph(t->recorder));
    if (l)
        tp_value_unref(all);
    return ok;
}

static bool trace(tracing *t, const tp_op *op, const tp_value *arg)
{
    tp_value in[TP_SAMPLES_ARGS] = { 0 }, result[8] = { 0 };
    bool ok = true, called = false;
    for (int i = 0; ok && i < op->arg_count; i++)
        ok = enter_value(t, arg[i], &in[i]);
    tp_recorder_enter(t->recorder, TP_LAYER_TRACE_R);
    if (ok) {
        if (t->functional)
            tp_functional_enter(t->functional, TP_LAYER_TRACE_R);
        called = t->call(op, in, result);
        if (t->functional)
            tp_functional_leave(t->functional);
        ok = called && add_output(t, result, op->result_count);
    }
    tp_recorder_leave(t->recorder);
    if (called)
        tp_values_unref(result, op->result_count);
    tp_values_unref(in, op->arg_count);
    return ok;
}

/* The graph that run_graph runs instead of the op, and its inputs. */
typedef struct running {
    tp_plan *plan;                  /* owned */
    tp_array(tp_value) input;       /* borrowed from the samples */
} running;
static running now;

static bool run_graph(const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)arg;
    return tp_plan_run_into(now.plan, now.input.item, (uint32_t)now.input.count, result, op->result_count);
}

static bool gather_inputs(const tp_value *v, int64_t count)
{
    bool ok = true;
    for (int64_t i = 0; ok && i < count; i++)
        ok = v[i].tag == TP_TENSOR ? tp_array_push(&now.input, v[i]) : v[i].tag != TP_LIST || gather_inputs(v[i].list->item, v[i].list->count);
    return ok;
}

static void reseed(void)
{
    tp_generator_set_seed(tp_generator_default(), 7);
}

static void compare(tp_tally *t, const char *what, const char *where, const tp_outcome *want, const tp_outcome *got)
{
    char why[256];
    if (!got->ok)
        tp_tally_fail(t, "%s: %s: the graph fails: %s", what, where, got->text);
    else if (got->count != want->count)
        tp_tally_fail(t, "%s: %s: %d results, not %d", what, where, got->count, want->count);
    for (int i = 0; got->ok && got->count == want->count && i < got->count; i++)
        if (want->tensor[i] && (!got->tensor[i] || !tp_same_numbers(want->tensor[i], got->tensor[i], 1e-6, why)))
            tp_tally_fail(t, "%s: %s: result %d: %s", what, where, i, got->tensor[i] ? why : "is none");
}

/* Runs the op and the graph on equal, fresh arguments, if the op takes them. */
static bool replay(tp_tally *t, const tracing *of, const char *where, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS], again[TP_SAMPLES_ARGS];
    tp_outcome want, got = { 0 };
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return false;
    reseed();
    tp_outcome_call(&want, t->op, arg, of->call);
    bool taken = want.ok;
    if (taken && tp_samples_make(t->op, t->sample, style, again)) {
        now.input.count = 0;
        if (gather_inputs(again, t->op->arg_count)) {
            reseed();
            tp_outcome_call(&got, t->op, again, run_graph);
            t->calls++;
            compare(t, of->what, where, &want, &got);
            tp_outcome_fini(&got);
        }
        tp_values_unref(again, t->op->arg_count);
    }
    tp_outcome_fini(&want);
    tp_values_unref(arg, t->op->arg_count);
    return taken;
}

/* Makes the plan of the call; false: there is none, for a reason that is told where it is a fault. */
static bool plan(tp_tally *t, tracing *of, const tp_value *arg)
{
    reseed();
    bool ok = trace(of, t->op, arg);
    if (!ok && tp_error_kind() != TP_ERR_MEMORY)
        tp_tally_fail(t, "%s: cannot be traced: %s", of->what, tp_error_text());
    tp_error_clear();
    now.plan = ok && !tp_recorder_constant_count(of->recorder) ? tp_plan_new(tp_recorder_graph(of->recorder), NULL) : NULL;
    return now.plan;
}

static bool begin(tracing *of, const char *what, tp_table_call *call, bool functional)
{
    *of = (tracing){ .what = what, .call = call, .recorder = tp_recorder_new(NULL), .functional = functional ? tp_functional_new() : NULL };
    return of->recorder && (!functional || of->functional);
}

static void end(tracing *of)
{
    tp_plan_free(now.plan);
    tp_array_fini(&now.input);
    now = (running){ 0 };
    tp_functional_free(of->functional);
    tp_recorder_free(of->recorder);
}

static bool is_refused(tp_tally *t, const tp_value *arg, tp_table_call *call)
{
    tp_outcome real;
    tp_outcome_call(&real, t->op, arg, call);
    bool refused = !real.ok;
    tp_outcome_fini(&real);
    return refused;
}

static void check(tp_tally *t, const tp_sample_style *style, const char *what, bool functional)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tracing of;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    /* What is traced is also computed: a call that was tried has changed its arguments. */
    bool refused = is_refused(t, arg, tp_call);
    tp_values_unref(arg, t->op->arg_count);
    if (refused || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    if (begin(&of, what, tp_call, functional) && plan(t, &of, arg))
        (void)replay(t, &of, "at its sizes", style);
    end(&of);
    tp_values_unref(arg, t->op->arg_count);
}

static tp_row row_of(const tp_op *op, const tp_table_symbols *s, bool again)
{
    if (again || !s->count)
        return again ? TP_ROW_AGAIN : TP_ROW_SIZELESS;
    return op->flags & TP_OP_SYNC ? TP_ROW_DATA : op->flags & TP_OP_RNG || op->kind == TP_LIKE_RANDOM ? TP_ROW_RANDOM : TP_ROW_FIXED;
}

static void check_elsewhere(tp_tally *t, const tp_sample_style *style, const char *what, tp_table_call *call, bool functional)
{
    tp_value arg[TP_SAMPLES_ARGS], fake[TP_SAMPLES_ARGS];
    tp_table_symbols s = { .env = tp_shape_env_new(NULL, NULL) };
    tp_sample_style grown;
    char where[64];
    tracing of;
    if (!s.env || !tp_samples_make(t->op, t->sample, style, arg)) {
        tp_shape_env_unref(s.env);
        return;
    }
    if (tp_table_fake(t->op, arg, &s, fake)) {
        tp_fake_mode mode = { .env = s.env };
        if (!is_refused(t, arg, call)) {
            bool ok = begin(&of, what, call, functional), again = false;
            tp_fake_enter(&mode);
            ok = ok && plan(t, &of, fake);
            tp_fake_leave(&mode);
            ok = ok && replay(t, &of, "at its sizes", style);
            for (int at = 0; ok && tp_table_grown(&s, style, at, &grown, where); at++)
                again |= tp_table_rebind(&s, &grown) && replay(t, &of, where, &grown);
            if (ok)
                t->rows[row_of(t->op, &s, again)]++;
            end(&of);
        }
        tp_values_unref(fake, t->op->arg_count);
    }
    tp_values_unref(arg, t->op->arg_count);
    tp_shape_env_unref(s.env);
}

void tp_check_recorded(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, "recorded", false);
}

void tp_check_functionalised(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, "functionalised", true);
}

void tp_check_recorded_elsewhere(tp_tally *t, const tp_sample_style *style)
{
    check_elsewhere(t, style, "recorded elsewhere", tp_call, false);
}

void tp_check_functionalised_elsewhere(tp_tally *t, const tp_sample_style *style)
{
    check_elsewhere(t, style, "functionalised elsewhere", tp_call, true);
}

void tp_check_gradient_elsewhere(tp_tally *t, const tp_sample_style *style)
{
    check_elsewhere(t, style, "gradients elsewhere", tp_table_call_back, false);
}

void tp_check_tangent_elsewhere(tp_tally *t, const tp_sample_style *style)
{
    check_elsewhere(t, style, "tangents elsewhere", tp_table_call_forward, false);
}

void tp_check_vmap_elsewhere(tp_tally *t, const tp_sample_style *style)
{
    check_elsewhere(t, style, "vmap elsewhere", tp_table_call_batched, false);
}
