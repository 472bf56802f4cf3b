/* table_record.c - a call recorded, and recorded below the functionaliser, gives when its graph is run what the call gives. */
#include "base/array.h"
#include "ir/run.h"
#include "ir/text.h"
#include "tensor/generator.h"
#include "trace/functional.h"
#include "trace/record.h"
#include "trace/table.h"

typedef struct tracing {
    tp_recorder   *recorder;        /* owned */
    tp_functional *functional;      /* owned, may be NULL */
    tp_array(tp_value) input;       /* borrowed from the samples */
} tracing;

/* The value as the traced call gets it: each tensor an input, a wrapper where writes are taken out. Owned. */
static bool enter_value(tracing *t, tp_value v, tp_value *out)
{
    if (v.tag == TP_TENSOR) {
        *out = t->functional ? tp_of_tensor(tp_functional_wrap(t->functional, v.tensor)) : tp_value_ref(v);
        return out->tag == TP_TENSOR && tp_record_input(t->recorder, "x", v) && tp_array_push(&t->input, v);
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
        called = tp_call(op, in, result);
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

static tp_plan *running_plan;           /* of the graph that run_graph is to run instead of the op */
static const tracing *running;

static bool run_graph(const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)arg;
    return tp_plan_run_into(running_plan, running->input.item, (uint32_t)running->input.count, result, op->result_count);
}

static void reseed(void)
{
    tp_generator_set_seed(tp_generator_default(), 7);
}

static void compare(tp_tally *t, const char *what, const tp_outcome *want, const tp_outcome *got)
{
    char why[256];
    if (!got->ok)
        tp_tally_fail(t, "%s: the graph fails: %s", what, got->text);
    else if (got->count != want->count)
        tp_tally_fail(t, "%s: %d results, not %d", what, got->count, want->count);
    for (int i = 0; got->ok && got->count == want->count && i < got->count; i++)
        if (want->tensor[i] && (!got->tensor[i] || !tp_same_numbers(want->tensor[i], got->tensor[i], 1e-6, why)))
            tp_tally_fail(t, "%s: result %d: %s", what, i, got->tensor[i] ? why : "is none");
}

static void check(tp_tally *t, const tp_sample_style *style, bool functional)
{
    tp_value arg[TP_SAMPLES_ARGS], traced[TP_SAMPLES_ARGS], again[TP_SAMPLES_ARGS];
    const char *what = functional ? "functionalised" : "recorded";
    tp_outcome want, got = { 0 };
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    reseed();
    tp_outcome_call(&want, t->op, arg, tp_call);
    if (want.ok && tp_samples_make(t->op, t->sample, style, traced)) {
        tracing of = { .recorder = tp_recorder_new(NULL), .functional = functional ? tp_functional_new() : NULL };
        if (of.recorder && (!functional || of.functional)) {
            reseed();
            bool ok = trace(&of, t->op, traced);
            if (!ok && tp_error_kind() != TP_ERR_MEMORY)
                tp_tally_fail(t, "%s: cannot be traced: %s", what, tp_error_text());
            tp_error_clear();
            running_plan = ok && !tp_recorder_constant_count(of.recorder) ? tp_plan_new(tp_recorder_graph(of.recorder), NULL) : NULL;
            /* What was traced was also computed: the graph begins with values as fresh as the call did. */
            if (running_plan && tp_samples_make(t->op, t->sample, style, again)) {
                size_t k = 0;
                for (int i = 0; i < t->op->arg_count; i++) {
                    if (again[i].tag == TP_TENSOR)
                        of.input.item[k++] = again[i];
                    for (uint32_t n = 0; again[i].tag == TP_LIST && n < again[i].list->count; n++)
                        if (again[i].list->item[n].tag == TP_TENSOR)
                            of.input.item[k++] = again[i].list->item[n];
                }
                running = &of;
                reseed();
                tp_outcome_call(&got, t->op, again, run_graph);
                t->calls++;
                compare(t, what, &want, &got);
                tp_outcome_fini(&got);
                tp_values_unref(again, t->op->arg_count);
            }
            tp_plan_free(running_plan);
        }
        tp_array_fini(&of.input);
        tp_functional_free(of.functional);
        tp_recorder_free(of.recorder);
        tp_values_unref(traced, t->op->arg_count);
    }
    tp_outcome_fini(&want);
    tp_values_unref(arg, t->op->arg_count);
}

void tp_check_recorded(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, false);
}

void tp_check_functionalised(tp_tally *t, const tp_sample_style *style)
{
    check(t, style, true);
}
