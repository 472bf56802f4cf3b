/* match_test.c - patterns, parts and groups on small graphs, as text. */
#include "pass/match.h"

#include "base/alloc.h"
#include "base/test.h"
#include "ir/text.h"
#include "pass/order.h"
#include "pass/partition.h"
#include "pass/split.h"

static tp_graph *parse(const char *text)
{
    return tp_graph_parse(text, strlen(text));
}

typedef struct row {
    const char *pattern, *graph;
    tp_match_options options;
    const char *found;              /* "pattern=node …; …" */
} row;

#define CHAIN "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.exp.default(%a)\n    %c = aten.exp.default(%b)\n    return %c\n"
#define PAIR  "graph(%p):\n    %one = aten.exp.default(%p)\n    %two = aten.exp.default(%one)\n    return %two\n"

static const row rows[] = {
    { PAIR, CHAIN, { 0 }, "two=b one=a p=x; " },
    { PAIR, CHAIN, { .overlapping = true }, "two=b one=a p=x; two=c one=b p=a; " },
    { PAIR, CHAIN, { .placeholders = true, .overlapping = true }, "two=b one=a p=x; " },
    { PAIR, CHAIN, { .output = true }, "output=output two=c one=b p=a; " },
    /* what is between may be read by nobody else */
    { PAIR, "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.exp.default(%a)\n    return (%a, %b)\n", { 0 }, "" },
    /* defaults, lists and tuples, literals by type, one placeholder one value */
    { "graph(%p, %q):\n    %s = aten.add.Tensor(%p, %q)\n    return %s\n",
      "graph(%x):\n    %a = aten.add.Tensor(%x, 2, alpha=1)\n    %b = aten.add.Tensor(%a, 2, alpha=3)\n    return %b\n", { 0 }, "s=a p=x q=2; " },
    { "graph(%p):\n    %s = aten.add.Tensor(%p, 2)\n    return %s\n",
      "graph(%x):\n    %a = aten.add.Tensor(%x, 2.0)\n    %b = aten.add.Tensor(%a, 2)\n    return %b\n", { 0 }, "s=b p=a; " },
    { "graph(%p):\n    %s = aten.add.Tensor(%p, 2)\n    return %s\n",
      "graph(%x):\n    %a = aten.add.Tensor(%x, 2.0)\n    %b = aten.add.Tensor(%a, %x)\n    return %b\n", { .ignore_literals = true }, "s=a p=x; s=b p=a; " },
    { "graph(%p, %q):\n    %s = aten.cat.default((%p, %q), 0)\n    return %s\n",
      "graph(%x, %y):\n    %a = aten.cat.default([%x, %y], 0)\n    %b = aten.cat.default([%x, %x], 0)\n    return (%a, %b)\n", { 0 }, "s=a p=x q=y; " },
    { "graph(%p):\n    %s = aten.mul.Tensor(%p, %p)\n    return %s\n",
      "graph(%x, %y):\n    %a = aten.mul.Tensor(%x, %y)\n    %b = aten.mul.Tensor(%a, %a)\n    return %b\n", { 0 }, "s=b p=a; " },
    /* two anchors that hang together, and two that do not */
    { "graph(%p):\n    %e = aten.exp.default(%p)\n    %f = aten.neg.default(%e)\n    %h = aten.abs.default(%e)\n    return (%h, %f)\n",
      "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.exp.default(%a)\n    %c = aten.neg.default(%b)\n    %d = aten.abs.default(%b)\n    return (%c, %d)\n",
      { 0 }, "h=d e=b p=a f=c; " },
    { "graph(%p, %q):\n    %e = aten.exp.default(%p)\n    %f = aten.neg.default(%q)\n    return (%e, %f)\n",
      "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.neg.default(%a)\n    %c = aten.exp.default(%b)\n    %d = aten.neg.default(%c)\n    return %d\n",
      { 0 }, "e=a p=x f=d q=c; " },
    { "graph():\n    %w = get_attr w\n    %e = aten.exp.default(%w)\n    return %e\n",
      "graph():\n    %v = get_attr v\n    %w = get_attr w\n    %a = aten.exp.default(%v)\n    %b = aten.exp.default(%w)\n    return (%a, %b)\n", { 0 }, "e=b w=w; " },
    { "graph(%p):\n    return 3\n", CHAIN, { 0 }, "" },
};

static void describe(const tp_matches *m, tp_text *out)
{
    for (uint32_t i = 0; i < m->count; i++, tp_text_add(out, "; "))
        for (uint32_t k = 0; k < m->item[i].count; k++) {
            const tp_match_pair *p = &m->item[i].pair[k];
            tp_text_add(out, "%s%s=", k ? " " : "", p->pattern->name);
            if (p->found.tag == TP_NODE)
                tp_text_add(out, "%s", tp_as_node(p->found)->name);
            else
                tp_value_print(p->found, out);
        }
}

TP_TEST(patterns)
{
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *p = parse(rows[i].pattern), *g = p ? parse(rows[i].graph) : NULL;
        tp_arena arena;
        tp_matches found;
        tp_text out = { 0 };
        tp_arena_init(&arena);
        if (g && tp_match_find(p, g, &rows[i].options, &arena, &found)) {
            describe(&found, &out);
            if (!out.failed)
                TP_EXPECT_TEXT(tp_text_read(&out), rows[i].found);
        } else {
            TP_EXPECT(tp_test_quiet && "finds");
        }
        tp_text_fini(&out);
        tp_arena_fini(&arena);
        tp_graph_unref(p);
        tp_graph_unref(g);
    }
    tp_error_clear();
}

/* Twice the graph, twice the questions: nodes are looked at a fixed number of times. */
static bool count_question(const tp_node *pattern, const tp_node *n, void *data)
{
    ++*(int *)data;
    return strcmp(pattern->target.name, n->target.name) == 0;
}

static int questions(int nodes)
{
    static const char *const pattern = "graph():\n    %w = get_attr w\n    %e = aten.exp.default(%w)\n    %f = aten.neg.default(%w)\n    return (%e, %f)\n";
    const tp_op *exp = tp_op_find("aten", "exp", ""), *neg = tp_op_find("aten", "neg", "");
    tp_graph *p = parse(pattern), *g = p ? tp_graph_new() : NULL;
    int asked = 0;
    tp_match_options options = { .same_attribute = count_question, .data = &asked };
    tp_arena arena;
    tp_matches found = { 0 };
    tp_arena_init(&arena);
    for (int i = 0; g && i < nodes; i++) {
        tp_value w = tp_of_node(tp_graph_get_attr(g, i % 2 ? "w" : "v"));
        (void)tp_graph_call(g, exp, &w, w.node != NULL);
        (void)tp_graph_call(g, neg, &w, w.node != NULL);
    }
    bool ok = g && tp_graph_check(g) && tp_match_find(p, g, &options, &arena, &found);
    TP_EXPECT(ok ? found.count == (uint32_t)nodes / 2 : tp_test_quiet);
    tp_arena_fini(&arena);
    tp_graph_unref(p);
    tp_graph_unref(g);
    tp_error_clear();
    return asked;
}

TP_TEST(questions_are_linear)
{
    int once = questions(100);
    TP_EXPECT(once > 0 && questions(200) == 2 * once);
}

/* ---- parts ---- */
typedef struct cut {
    const char *parts;              /* by node: its part, '.': outside */
    const char *plan;               /* "part(inputs -> outputs) …" in the order they run; or the error */
} cut;

#define CROSS "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.neg.default(%x)\n    %c = aten.mul.Tensor(%a, %b)\n    %d = aten.sin.default(%c)\n    %e = aten.cos.default(%b)\n    return (%d, %e, %c)\n"

static const cut cuts[] = {
    { ".00000.", "0(x -> d e c) " },
    { ".01021.", "1(x -> b e) 0(x b -> c) 2(c -> d) " },
    { ".12300.", "2(x -> b) 1(x -> a) 3(a b -> c) 0(c b -> d e) " },
    { ".01101.", "cycle exists between partitions!" },
    { ".10230.", "1(x -> a) 0(x -> b e) 2(a b -> c) 3(c -> d) " },
};

static void list_names(const tp_split_list *l, tp_text *out)
{
    for (uint32_t i = 0; i < l->count; i++)
        tp_text_add(out, "%s%s", i ? " " : "", l->item[i]->name);
}

TP_TEST(parts)
{
    for (size_t i = 0; i < TP_COUNT(cuts); i++) {
        tp_graph *g = parse(CROSS);
        TP_NEED(g);
        uint32_t part[16] = { 0 }, count = 0, at = 0;
        tp_graph_each(g, n) {
            char c = cuts[i].parts[at++];
            part[n->id] = c == '.' ? 0 : (uint32_t)(c - '0') + 1;
            count = part[n->id] > count ? part[n->id] : count;
        }
        tp_arena arena;
        tp_split plan;
        tp_text out = { 0 };
        tp_arena_init(&arena);
        if (tp_split_plan(g, part, count, &arena, &plan))
            for (uint32_t k = 0; k < plan.count; k++) {
                tp_text_add(&out, "%u(", plan.order[k]);
                list_names(&plan.part[plan.order[k]].input, &out);
                tp_text_add(&out, " -> ");
                list_names(&plan.part[plan.order[k]].output, &out);
                tp_text_add(&out, ") ");
            }
        else if (tp_error_kind() != TP_ERR_MEMORY)
            tp_text_add(&out, "%s", tp_error_text());
        if (!out.failed && tp_error_kind() != TP_ERR_MEMORY)
            TP_EXPECT_TEXT(tp_text_read(&out), cuts[i].plan);
        tp_error_clear();
        tp_text_fini(&out);
        tp_arena_fini(&arena);
        tp_graph_unref(g);
    }
out:
    tp_error_clear();
}

/* ---- groups ---- */
typedef struct grouping { const char *graph, *marked, *groups; } grouping;

static const grouping groupings[] = {
    { CHAIN, ".111.", ".111." },                                /* 1 takes 0, then both are larger than the third */
    { CHAIN, ".101.", ".1.0." },                                /* the middle stands between */
    { CROSS, ".11111.", ".11111." },
    { CROSS, ".11011.", ".33.11." },                            /* c stands between */
    { CROSS, ".10111.", ".1.111." },
};

TP_TEST(groups)
{
    for (size_t i = 0; i < TP_COUNT(groupings); i++) {
        tp_graph *g = parse(groupings[i].graph);
        TP_NEED(g);
        uint8_t marked[16] = { 0 };
        uint32_t group[16] = { 0 }, at = 0;
        char text[16] = "";
        tp_graph_each(g, n)
            marked[n->id] = groupings[i].marked[at++] == '1';
        if (tp_partition(g, marked, false, group)) {
            at = 0;
            tp_graph_each(g, n)
                text[at++] = group[n->id] ? (char)('0' + group[n->id] - 1) : '.';
            TP_EXPECT_TEXT(text, groupings[i].groups);
        } else {
            TP_EXPECT(tp_test_quiet && "groups");
        }
        tp_error_clear();
        tp_graph_unref(g);
    }
out:
    tp_error_clear();
}

/* ---- order ---- */
typedef struct shuffle { const char *moved, *behind; tp_order_kind kind; const char *order; } shuffle;

static const shuffle shuffles[] = {
    { "a", "d", TP_ORDER_STABLE, "x b a c d e output " },       /* what waits for a comes right behind it */
    { "a", "d", TP_ORDER_BREADTH, "x a b c e d output " },
    { "x", "e", TP_ORDER_STABLE, "x a b c d e output " },
};

static tp_node *named(const tp_graph *g, const char *name)
{
    tp_graph_each(g, n)
        if (strcmp(n->name, name) == 0)
            return n;
    return NULL;
}

TP_TEST(orders)
{
    for (size_t i = 0; i < TP_COUNT(shuffles); i++) {
        tp_graph *g = parse(CROSS);
        TP_NEED(g);
        uint8_t placed[16];
        bool whole = false;
        tp_text out = { 0 };
        tp_node_move_before(named(g, shuffles[i].behind)->next, named(g, shuffles[i].moved));
        if (tp_order_nodes(g, shuffles[i].kind, placed, &whole)) {
            tp_graph_each(g, n)
                tp_text_add(&out, "%s ", n->name);
            if (!out.failed)
                TP_EXPECT_TEXT(tp_text_read(&out), shuffles[i].order);
            TP_EXPECT(whole);
        } else {
            TP_EXPECT(tp_test_quiet && "orders");
        }
        tp_text_fini(&out);
        tp_error_clear();
        tp_graph_unref(g);
    }
out:
    tp_error_clear();
}

TP_TESTS(TP_SWEPT(orders), TP_SWEPT(patterns), TP_SPARSE(questions_are_linear), TP_SWEPT(parts), TP_SWEPT(groups))
