/* rules_test.c - both sides of every rule, run on values that hurt: where the rule holds they give the same bits, but for the elements that
 * it says it loses, and it does lose those. */
#include "pass/rules.h"

#include <math.h>

#include "base/test.h"
#include "ir/run.h"

enum { ROWS = 2, COLUMNS = 4, COUNT = ROWS * COLUMNS };
static const double values[COUNT] = { NAN, INFINITY, -INFINITY, -0.0, 0.0, 1.0, -2.5, 3.0 };
static const tp_dtype types[] = { TP_f32, TP_f64, TP_f16, TP_i64, TP_u8, TP_b8 };

static tp_tensor *sample(tp_dtype d)
{
    tp_tensor *t = tp_tensor_new(d, 2, (int64_t[]){ ROWS, COLUMNS });
    for (int i = 0; t && i < COUNT; i++) {
        bool odd = !isfinite(values[i]) || values[i] < 0;
        tp_scalar s = tp_dtype_is_inexact(d) ? tp_scalar_float(values[i]) : tp_scalar_int(odd ? i : (int64_t)values[i]);
        if (d == TP_b8)
            s = tp_scalar_int(i % 2);
        tp_scalar_write(s, (char *)tp_tensor_data(t) + (size_t)i * tp_dtype_bytes(d), d);
    }
    return t;
}

/* What the inputs besides %x stand for, by the op and the name. */
typedef struct filling { const char *op, *name; int64_t item[2]; int count; } filling;

static const filling fillings[] = {
    { "permute", "%p", { 1, 0 }, 2 }, { "permute", "%q", { 1, -2 }, 2 }, { "view", "%p", { ROWS, COLUMNS }, 2 }, { "view", "%q", { COUNT }, 1 },
    { "reshape", "%p", { ROWS, COLUMNS }, 2 }, { "reshape", "%q", { COLUMNS, ROWS }, 2 }, { "expand", "%p", { ROWS, COLUMNS }, 2 },
};

static tp_value fill(const tp_rule *r, const char *name, tp_tensor *x, tp_tensor *condition)
{
    switch (name[1]) {
    case 'x': return tp_of_tensor(tp_tensor_ref(x));
    case 'c': return tp_of_tensor(tp_tensor_ref(condition));
    case 'i': return tp_int(0);
    case 'j': return tp_int(1);
    }
    if (strcmp(r->root->name, "_to_copy") == 0)
        return tp_of_dtype(name[1] == 'p' ? TP_f64 : TP_f32);
    for (size_t i = 0; i < TP_COUNT(fillings); i++)
        if (strcmp(fillings[i].op, r->root->name) == 0 && strcmp(fillings[i].name, name) == 0)
            return tp_value_ints(fillings[i].item, (size_t)fillings[i].count);
    return tp_none();
}

static bool run(tp_graph *g, const tp_value *input, uint32_t count, tp_value *out)
{
    tp_plan *p = tp_plan_new(g, NULL);
    *out = tp_none();
    bool ok = p && tp_plan_run(p, input, count, out);
    tp_plan_free(p);
    return ok;
}

/* Facts of the left side: every node's own value. */
static bool learn(tp_graph *g, const tp_value *input, uint32_t count)
{
    tp_node *output = tp_graph_output_node(g);
    tp_value result = tp_value_ref(output->arg[0]);
    uint32_t at = 0;
    bool ok = true;
    for (tp_node *n = g->root.next; ok && n != output; n = n->next) {
        if (n->kind == TP_PLACEHOLDER) {
            tp_node_set_fact(n, input[at++]);
            continue;
        }
        tp_value made, v = tp_of_node(n);
        ok = tp_node_set_args(output, &v, 1, 0) && run(g, input, count, &made);
        if (ok) {
            tp_node_set_fact(n, made);
            tp_value_unref(made);
        }
    }
    ok = tp_node_set_args(output, &result, 1, 0) && ok;
    tp_value_unref(result);
    return ok;
}

static bool is_admitted(unsigned loses, double v)
{
    return (loses & TP_LOSES_NAN && isnan(v)) || (loses & TP_LOSES_INFINITY && isinf(v)) ||
           (loses & TP_LOSES_NEGATIVE_ZERO && v <= 0);      /* what makes a negative zero */
}

/* How many elements differ; -1: one that the rule does not admit, or another type or layout. */
static int compare(const tp_rule *r, const tp_tensor *a, const tp_tensor *b)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->numel != COUNT || b->numel != COUNT)
        return -1;
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != b->size[d] || a->stride[d] != b->stride[d])
            return -1;
    size_t bytes = tp_dtype_bytes((tp_dtype)a->dtype);
    int different = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (memcmp((char *)tp_tensor_data(a) + i * bytes, (char *)tp_tensor_data(b) + i * bytes, bytes) != 0) {
            if (!is_admitted(r->loses, values[i]))
                return -1;
            different++;
        }
    return different;
}

/* One rule on one type: 1 it held and was compared; 0 the op does not take it, or the condition fails. */
static int try_one(const tp_rule *r, tp_dtype d, int *lost)
{
    tp_graph *left = tp_rule_graph(r, false), *again = tp_rule_graph(r, false), *right = tp_rule_graph(r, true);
    tp_tensor *x = sample(d), *condition = sample(TP_b8);
    tp_value input[4] = { 0 }, a = tp_none(), b = tp_none();
    uint32_t count = 0;
    tp_arena arena;
    tp_matches found = { 0 };
    tp_match_options options = { .shared = true };
    int tried = 0;
    tp_arena_init(&arena);
    bool ready = left && again && right && x && condition;
    TP_EXPECT(ready || tp_test_quiet);
    for (const char *c = r->inputs; ready && c; c = strchr(c, ',') ? strchr(c, ',') + 2 : NULL)
        input[count++] = fill(r, (char[]){ '%', c[1], 0 }, x, condition);
    if (ready && learn(again, input, count) && tp_match_find(left, again, &options, &arena, &found) && found.count) {
        TP_EXPECT(found.count == 1);
        if (r->holds(&found.item[0]) && run(left, input, count, &a) && run(right, input, count, &b)) {
            int different = compare(r, a.tensor, b.tensor);
            if (different < 0)
                fprintf(stderr, "# rule %s on %s\n", r->name, tp_dtypes[d].name);
            TP_EXPECT(different >= 0);
            *lost += different > 0 ? different : 0;
            tried = 1;
        }
    }
    tp_error_clear();
    tp_arena_fini(&arena);
    for (uint32_t i = 0; i < count; i++)
        tp_value_unref(input[i]);
    tp_value_unref(a);
    tp_value_unref(b);
    tp_tensor_unref(x);
    tp_tensor_unref(condition);
    tp_graph_unref(left);
    tp_graph_unref(again);
    tp_graph_unref(right);
    return tried;
}

TP_TEST(both_sides_give_the_same)
{
    for (size_t i = 0; i < tp_rule_count; i++) {
        int tried = 0, lost = 0;
        for (size_t t = 0; t < TP_COUNT(types); t++)
            tried += try_one(&tp_rules[i], types[t], &lost);
        if (!tried || (lost > 0) != (tp_rules[i].loses != 0))
            fprintf(stderr, "# rule %s: tried on %d types, %d elements lost\n", tp_rules[i].name, tried, lost);
        TP_EXPECT(tried > 0);
        TP_EXPECT((lost > 0) == (tp_rules[i].loses != 0));
    }
}

TP_TESTS(TP_SPARSE(both_sides_give_the_same))
