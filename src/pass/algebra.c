/* algebra.c - rewrite by the rules of rules.def.
 *
 *     graph(%x: f32[2]):                                graph(%x: f32[2]):
 *         %a: f32[2] = aten.neg.default(%x)                 %exp: f32[2] = aten.exp.default(%x)
 *         %b: f32[2] = aten.neg.default(%a)          =>     return (%exp,)
 *         %c: f32[2] = aten.mul.Tensor(%b, 1)
 *         %exp: f32[2] = aten.exp.default(%c)
 *         return (%exp,)
 *
 * A result that the graph returns stays a value of its own: it is not replaced by a node that is there already, which may be an
 * input. Nodes that the rules leave unread are dropped by dce. Rounds end when nothing changes; a chain shrinks by half in each.
 *
 * Needs: topological order; with writers it does nothing.  Keeps: topological order, facts.  Spoils: nothing. */
#include <string.h>

#include "base/alloc.h"
#include "gen/ops.h"
#include "ir/text.h"
#include "ops/symbolic.h"
#include "pass/pass.h"
#include "pass/rules.h"

/* ---- conditions ---- */
static const tp_value *bound(const tp_match *m, const char *name)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->pair[i].pattern->name, name) == 0)
            return &m->pair[i].found;
    return NULL;
}

/* What a node yields; NULL: not known, or Python may have changed it. */
static const tp_tensor *fact_of(const tp_match *m, const char *name)
{
    const tp_value *v = bound(m, name);
    const tp_node *n = v ? tp_as_node(*v) : NULL;
    return n && !n->meta ? tp_as_tensor(n->fact) : NULL;
}

static bool same_fact(const tp_tensor *a, const tp_tensor *b)
{
    if (!a || !b || a->dtype != b->dtype || a->ndim != b->ndim || a->device.type != b->device.type || a->device.index != b->device.index)
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (!tp_sym_same(tp_tensor_sym_size(a, d), tp_tensor_sym_size(b, d)) ||
            !tp_sym_same(tp_tensor_sym_stride(a, d), tp_tensor_sym_stride(b, d)))
            return false;
    return true;
}

/* The result is of the input's type, sizes and strides. */
static bool SAME(const tp_match *m)
{
    return same_fact(fact_of(m, "x"), fact_of(m, "r"));
}

static bool SAME_INTEGER(const tp_match *m)
{
    return SAME(m) && tp_dtype_is_integral((tp_dtype)fact_of(m, "x")->dtype);
}

/* … of those of the step before it. */
static bool SAME_STEP(const tp_match *m)
{
    return same_fact(fact_of(m, "a"), fact_of(m, "r"));
}

static bool ALWAYS(const tp_match *m)
{
    (void)m;
    return true;
}

/* Any view of it that has as many elements can be had. */
static bool DENSE(const tp_match *m)
{
    const tp_tensor *x = fact_of(m, "x");
    return x && tp_tensor_is_contiguous(x);
}

static bool INVERSE(const tp_match *m)
{
    const tp_value *p = bound(m, "p"), *q = bound(m, "q");
    uint32_t count = tp_length(*p);
    if (!SAME(m) || count != tp_length(*q))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        tp_value to = q->list->item[i];
        int64_t at = to.tag == TP_INT ? to.i + (to.i < 0 ? count : 0) : -1;
        if (at < 0 || at >= count || p->list->item[at].tag != TP_INT)
            return false;
        int64_t back = p->list->item[at].i;
        if (back + (back < 0 ? count : 0) != i)
            return false;
    }
    return true;
}

/* Does every value of one type have an equal one in the other? */
static bool holds_all(tp_dtype from, tp_dtype in)
{
    static const uint8_t digits[TP_DTYPE_COUNT] = {         /* bits of integers that are exact, without the sign */
        [TP_b8] = 1, [TP_i8] = 7, [TP_u8] = 8, [TP_i16] = 15, [TP_i32] = 31, [TP_i64] = 63, [TP_bf16] = 8, [TP_f16] = 11, [TP_f32] = 24,
        [TP_f64] = 53, [TP_c64] = 24, [TP_c128] = 53,
    };
    if (from == in)
        return true;
    if (tp_dtypes[from].kind > tp_dtypes[in].kind || !digits[from] || !digits[in])
        return false;
    if (tp_dtype_is_half(from) && tp_dtype_is_half(in))
        return false;                                       /* one has the digits, the other the range */
    bool range = tp_dtypes[from].kind < TP_KIND_FLOAT || tp_dtypes[in].bytes > tp_dtypes[from].bytes;
    return range && digits[from] <= digits[in] && !(in == TP_i8 && from == TP_u8);
}

static bool WIDENED(const tp_match *m)
{
    const tp_tensor *x = fact_of(m, "x"), *a = fact_of(m, "a");
    return x && a && holds_all((tp_dtype)x->dtype, (tp_dtype)a->dtype);
}

const tp_rule tp_rules[] = {
#define TP_RULE(NAME, ROOT, INPUTS, LEFT, RIGHT, HOLDS, LOSES) { NAME, &tp_op_##ROOT, INPUTS, LEFT, RIGHT, HOLDS, LOSES },
#include "pass/rules.def"
#undef TP_RULE
};
const size_t tp_rule_count = TP_COUNT(tp_rules);

/* ---- rules as graphs ---- */
tp_graph *tp_rule_graph(const tp_rule *r, bool right)
{
    const char *side = right ? r->right : r->left;
    bool name = right && !strchr(side, '=');
    tp_text text = { 0 };
    tp_text_add(&text, "graph(%s):\n    ", r->inputs);
    if (!right || strcmp(side, "%x") != 0) {
        const char *body = name ? r->left : side;           /* a name of the left side needs its steps */
        for (const char *c = body; *c; c++)
            if (c[0] == ';' && c[1] == ' ')
                tp_text_add(&text, "\n    "), c++;
            else
                tp_text_add(&text, "%c", *c);
        tp_text_add(&text, "\n    ");
    }
    tp_text_add(&text, "return %s\n", name ? side : "%r");
    tp_graph *g = text.failed ? tp_fail_memory() : tp_graph_parse(text.at, text.length);
    tp_text_fini(&text);
    return g;
}

/* ---- applying one ---- */
typedef struct rewriting {
    tp_graph *graph;
    const tp_rule *rule;
    const tp_match *match;
    tp_node **stands;               /* by node id, may be NULL: what a replaced node's readers read now */
    uint32_t count;                 /* room of it: nodes made since are never replaced in the same round */
    bool *changed;
} rewriting;

static tp_node *newest(const rewriting *w, tp_node *n)
{
    while (n->id < w->count && w->stands[n->id])
        n = w->stands[n->id];
    return n;
}

static tp_value fill_in(tp_node *pattern, void *data)
{
    const rewriting *w = data;
    tp_value v = *bound(w->match, pattern->name);
    return v.tag == TP_NODE ? tp_of_node(newest(w, v.node)) : tp_value_ref(v);
}

/* The call on the right side, made before `at`. */
static tp_node *make_right(rewriting *w, const tp_node *call, tp_node *at)
{
    uint32_t count = call->arg_count + 2 * call->keyword_count, done = 0;
    tp_value arg[16];
    tp_node *made = NULL;
    if (count > TP_COUNT(arg))
        return tp_fail(TP_ERR_RUNTIME, "rule %s: too many arguments", w->rule->name);
    while (done < count && tp_value_map_nodes(call->arg[done], fill_in, w, &arg[done]))
        done++;
    if (done == count) {
        w->graph->insert = at;
        made = tp_node_new(w->graph, TP_CALL_FUNCTION, call->target, arg, call->arg_count, call->keyword_count, NULL);
        w->graph->insert = &w->graph->root;
    }
    tp_values_unref(arg, done);
    if (made) {
        tp_node_set_fact(made, at->fact);
        tp_node_set_origin(made, at->origin);
    }
    return made;
}

static bool is_returned(const tp_node *n)
{
    for (uint32_t i = 0; i < n->user_count; i++)
        if (n->user[i]->kind == TP_OUTPUT)
            return true;
    return false;
}

static bool rewrite(rewriting *w, const tp_graph *right)
{
    tp_node *old = tp_as_node(*bound(w->match, "r")), *fresh;
    bool name = right == NULL;
    if ((name && is_returned(old)) || !w->rule->holds(w->match))
        return true;
    if (name)
        fresh = newest(w, tp_as_node(*bound(w->match, w->rule->right + 1)));
    else if (!(fresh = make_right(w, tp_graph_output_node(right)->prev, old)))
        return false;
    if (tp_node_replace_uses(old, fresh, NULL, NULL) < 0)
        return false;
    w->stands[old->id] = fresh;
    tp_node_erase(old);
    *w->changed = true;
    return true;
}

static bool apply(tp_graph *g, const tp_rule *rule, tp_pass *p, bool *changed)
{
    tp_match_options options = { .shared = true };
    tp_graph *left = tp_rule_graph(rule, false), *right = NULL;
    rewriting w = { .graph = g, .rule = rule, .count = g->node_count, .changed = changed };
    tp_matches found = { 0 };
    bool ok = left && (!strchr(rule->right, '=') || (right = tp_rule_graph(rule, true))) && tp_match_find(left, g, &options, &p->scratch, &found) &&
        (w.stands = tp_alloc_zero((w.count + 1) * sizeof *w.stands));
    for (uint32_t i = 0; ok && i < found.count; i++) {
        w.match = &found.item[i];
        ok = rewrite(&w, right);
    }
    tp_free(w.stands);
    tp_graph_unref(left);
    tp_graph_unref(right);
    return ok;
}

/* Which rules can match at all: those whose op is called. */
static bool is_called(const tp_graph *g, const tp_op *op)
{
    tp_graph_each(g, n)
        if (tp_node_calls(n, op))
            return true;
    return false;
}

bool tp_pass_algebra(tp_graph *g, tp_pass *p)
{
    bool ok = true, changed = true;
    tp_graph_each(g, n)
        if (tp_stage_fault(n, TP_STAGE_FUNCTIONAL))         /* equal arguments need not be equal values */
            return true;
    while (ok && changed) {
        changed = false;
        for (size_t i = 0; ok && i < tp_rule_count; i++)
            if (!(tp_rules[i].loses & ~p->may_lose) && is_called(g, tp_rules[i].root))
                ok = apply(g, &tp_rules[i], p, &changed);
        p->changed |= changed;
    }
    return ok;
}
