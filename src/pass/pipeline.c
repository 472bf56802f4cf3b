/* pipeline.c - the passes in the order in which they are applied, and their runner. */
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "ir/text.h"
#include "pass/pass.h"

const tp_pass_info tp_pipeline_clean[] = {
    { "cse", tp_pass_cse, TP_STAGE_ANY },           /* first: what it leaves unread, the next one drops */
    { "dce", tp_pass_dce, TP_STAGE_ANY },
};
const size_t tp_pipeline_clean_count = TP_COUNT(tp_pipeline_clean);

const tp_pass_info tp_pipeline_simplify[] = {
    { "fold", tp_pass_fold, TP_STAGE_FUNCTIONAL },          /* numbers first: rules look at literals */
    { "algebra", tp_pass_algebra, TP_STAGE_FUNCTIONAL },
    { "cse", tp_pass_cse, TP_STAGE_FUNCTIONAL },            /* after the rules: what they made alike is one */
    { "dce", tp_pass_dce, TP_STAGE_FUNCTIONAL },
};
const size_t tp_pipeline_simplify_count = TP_COUNT(tp_pipeline_simplify);

/* ---- stages ---- */
const char *tp_stage_fault(const tp_node *n, tp_stage stage)
{
    if (stage == TP_STAGE_ANY)
        return NULL;
    if (n->kind == TP_CALL_METHOD || n->kind == TP_CALL_MODULE || (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_HANDLE))
        return "only Python knows what it does";
    if (stage == TP_STAGE_OPS || n->kind != TP_CALL_FUNCTION || n->target.kind != TP_TARGET_OP)
        return NULL;
    for (int i = 0; i < n->target.op->arg_count; i++)
        if (n->target.op->arg[i].written)
            return "it writes into an argument";
    return n->target.op->rare->hidden_writes ? "it writes into an argument" : NULL;
}

bool tp_stage_verify(const tp_graph *g, tp_stage stage)
{
    static const char *const names[] = { "any", "ops", "functional" };
    tp_graph_each(g, n) {
        const char *fault = tp_stage_fault(n, stage);
        if (fault)
            return tp_fail(TP_ERR_RUNTIME, "node '%s' is not legal in the stage '%s': %s", n->name, names[stage], fault);
    }
    return true;
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool print(const tp_graph *g, tp_text *out)
{
    tp_graph_print(g, out);
    return !out->failed || tp_fail_memory();
}

/* Names the pass in front of what the verifier found. */
static bool verify(const tp_graph *g, const tp_pass_info *pass, const char *when)
{
    char text[512];
    if (tp_graph_verify(g) && tp_stage_verify(g, pass->stage))
        return true;
    tp_err kind = tp_error_kind();
    if (kind == TP_ERR_MEMORY)
        return false;
    size_t length = strlen(tp_error_text());
    if (length >= sizeof text)
        length = sizeof text - 1;
    memcpy(text, tp_error_text(), length);
    text[length] = 0;
    return tp_fail(kind, "%s %s: %s", when, pass->name, text);
}

/* A graph without Python objects and symbolic facts reads back as it prints. */
static bool round_trip(const tp_graph *g, const char *pass)
{
    tp_text out = { 0 }, again = { 0 };
    tp_graph *copy = NULL;
    bool ok = print(g, &out);
    if (ok && !strchr(tp_text_read(&out), '`')) {
        copy = tp_graph_parse(out.at, out.length);
        if (!copy && tp_error_kind() == TP_ERR_UNIMPLEMENTED)
            tp_error_clear();
        else if (!copy || !print(copy, &again))
            ok = false;
        else if (strcmp(out.at, tp_text_read(&again)) != 0)
            ok = tp_fail(TP_ERR_RUNTIME, "after %s: the graph does not survive its text:\n%s\nbecomes\n%s", pass,
                         out.at, again.at) != NULL;
    }
    tp_graph_unref(copy);
    tp_text_fini(&out);
    tp_text_fini(&again);
    return ok;
}

static bool run_one(tp_graph *g, const tp_pass_info *info, const tp_pass_options *o, tp_pass *p)
{
    tp_text before = { 0 }, after = { 0 };
    bool reports = o && o->report, checks = o && o->verify;
    bool ok = (!reports || print(g, &before)) && (!checks || verify(g, info, "before"));
    tp_arena_reset(&p->scratch);
    p->changed = false;
    double start = reports ? now() : 0;
    ok = ok && info->run(g, p) && tp_graph_check(g);
    double seconds = reports ? now() - start : 0;
    ok = ok && (!checks || verify(g, info, "after")) && (!o || !o->round_trip || round_trip(g, info->name));
    if (ok && reports && p->changed && (ok = print(g, &after)))
        o->report(o->data, info->name, tp_text_read(&before), tp_text_read(&after), seconds);
    tp_text_fini(&before);
    tp_text_fini(&after);
    return ok;
}

bool tp_passes_run(tp_graph *g, const tp_pass_info *passes, size_t count, const tp_pass_options *options, bool *changed)
{
    tp_pass p = { .may_lose = options ? options->may_lose : 0, .constants = options ? options->constants : NULL };
    bool ok = true, any = false;
    tp_arena_init(&p.scratch);
    for (size_t i = 0; ok && i < count; i++) {
        ok = run_one(g, &passes[i], options, &p);
        any |= p.changed;
    }
    tp_arena_fini(&p.scratch);
    if (changed)
        *changed = any;
    return ok;
}
