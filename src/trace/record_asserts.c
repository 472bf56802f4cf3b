/* record_asserts.c - what a program declared of numbers that depend on data, as nodes that assert it at run time.
 *
 *     %item = aten.item.default(%x)
 *     %sym_constrain_range_for_size_default = aten.sym_constrain_range_for_size.default(%item)
 *     %sym_constrain_range_default = aten.sym_constrain_range.default(%item, min = 3, max = 5)
 *     %ge = %item >= 0
 *     %_assert_scalar_default = aten._assert_scalar.default(%ge, "Runtime assertion failed for expression 0 <= u0 on node 'ge'")
 *
 * Ranges follow the number they are about; a condition follows the last node that it needs. Nodes are made at the end of the graph,
 * where everything is known, and moved. */
#include <string.h>

#include "base/text.h"
#include "ops/symbolic.h"
#include "sym/env.h"
#include "sym/step.h"
#include "trace/record_sizes.h"

static tp_node *last_node(const tp_graph *g)
{
    return g->root.prev;
}

/* Everything after `last` goes behind `behind`, in order. */
static void settle(tp_graph *g, tp_node *last, tp_node *behind)
{
    tp_node *at = behind->next;
    for (tp_node *n = last->next, *next; behind != last && n != &g->root; n = next) {
        next = n->next;
        tp_node_move_before(at, n);
    }
}

static tp_node *call(tp_graph *g, const char *op, const tp_value *arg, uint32_t count, uint32_t keywords, const char *name)
{
    const tp_op *found = tp_op_find("aten", op, "");
    return found ? tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(found), arg, count, keywords, name)
                 : tp_fail(TP_ERR_UNIMPLEMENTED, "this build has no op aten::%s", op);
}

static bool add_bound(tp_value *arg, uint32_t *keywords, const char *name, int64_t bound)
{
    arg[1 + 2 * *keywords] = tp_value_string(name, 3);
    arg[2 + 2 * *keywords] = tp_int(bound);
    return arg[1 + 2 * (*keywords)++].tag == TP_STRING;
}

static bool assert_range(tp_graph *g, const tp_symbol *s, tp_node *number)
{
    tp_value arg[5] = { tp_of_node(number) };
    uint32_t keywords = 0;
    tp_node *last = last_node(g);
    bool ok = !s->size_like || call(g, "sym_constrain_range_for_size", arg, 1, 0, "sym_constrain_range_for_size_default");
    ok = ok && (s->range.low == INT64_MIN || add_bound(arg, &keywords, "min", s->range.low));
    ok = ok && (s->range.high >= INT64_MAX - 1 || add_bound(arg, &keywords, "max", s->range.high));
    ok = ok && (!keywords || call(g, "sym_constrain_range", arg, 1, keywords, "sym_constrain_range_default"));
    tp_values_unref(arg + 1, 2 * keywords);
    settle(g, last, number);
    return ok;
}

/* The node after which all that an expression needs is there. */
static bool find_latest(const tp_size_nodes *s, tp_sym x, const uint32_t *place, tp_node **latest)
{
    tp_sym_step step;
    tp_node *n = tp_sizes_node(s, x);
    if (n && (!*latest || place[n->id] > place[(*latest)->id]))
        *latest = n;
    if (n || !tp_sym_is_node(x))
        return true;
    if (!tp_sym_last_step(x, &step))
        return false;
    for (int i = 0; i < step.count; i++)
        if (!find_latest(s, step.operand[i], place, latest))
            return false;
    return true;
}

/* 2 < u0 is asked as u0 > 2. */
static tp_node *condition_node(tp_size_nodes *s, tp_graph *g, tp_sym c)
{
    static const char *const turned[][2] = { { "lt", "gt" }, { "le", "ge" }, { "gt", "lt" }, { "ge", "le" } };
    tp_sym_step step;
    if (tp_sizes_node(s, c) || !tp_sym_last_step(c, &step))
        return tp_sizes_value_as_is(s, g, c).node;
    for (size_t i = 0; step.count == 2 && tp_sym_is_int(step.operand[0]) && i < TP_COUNT(turned); i++)
        if (strcmp(step.operation, turned[i][0]) == 0) {
            const tp_builtin *f = tp_builtin_find("_operator", turned[i][1]);
            tp_value arg[2] = { tp_sizes_value_as_is(s, g, step.operand[1]), tp_int(tp_sym_as_int(step.operand[0])) };
            tp_node *n = arg[0].node && f ? tp_node_new(g, TP_CALL_FUNCTION, tp_target_builtin(f), arg, 2, 0, f->name) : NULL;
            if (n)
                tp_node_set_fact(n, (tp_value){ .tag = TP_SYM, .sym = c.word });
            return n;
        }
    return tp_sizes_value_as_is(s, g, c).node;
}

/* Nodes from the number `first` on are asserts. */
static bool assert_condition(tp_size_nodes *s, tp_graph *g, const tp_sym_fact *fact, uint32_t first, tp_arena *scratch)
{
    uint32_t *place = tp_arena_take_array(scratch, g->node_count + 1, sizeof *place), at = 0;
    tp_node *latest = NULL, *last = last_node(g);
    if (!place)
        return false;
    tp_graph_each(g, n)
        place[n->id] = at++;
    if (!find_latest(s, fact->condition, place, &latest))
        return false;
    while (latest && latest->next != &g->root && latest->next->id >= first)     /* ranges, and earlier conditions, stay in front */
        latest = latest->next;
    tp_node *condition = condition_node(s, g, fact->condition);
    if (!condition)
        return false;
    tp_text text = { 0 };
    tp_text_add(&text, "Runtime assertion failed for expression %s on node '%s'", fact->text, condition->name);
    tp_value message = text.failed ? tp_none() : tp_value_string(tp_text_read(&text), text.length);
    tp_text_fini(&text);
    bool ok = message.tag == TP_STRING &&
              call(g, "_assert_scalar", (tp_value[]){ tp_of_node(condition), message }, 2, 0, "_assert_scalar_default");
    tp_value_unref(message);
    if (ok && latest)
        settle(g, last, latest);
    return ok;
}

bool tp_sizes_assert(tp_size_nodes *s, tp_graph *g, tp_shape_env *env)
{
    tp_arena scratch;
    bool ok = true;
    uint32_t first = g->node_count;
    uint64_t found;
    for (size_t i = 0; ok && i < tp_shape_env_symbol_count(env); i++) {
        tp_sym x = tp_shape_env_symbol_at(env, i);
        if (tp_symbol_of(x)->kind == TP_SYMBOL_UNBACKED && tp_map_get(&s->known, x.word, &found))
            ok = assert_range(g, tp_symbol_of(x), (tp_node *)(uintptr_t)found);
    }
    tp_arena_init(&scratch);
    for (size_t i = 0; ok && i < tp_shape_env_guard_count(env); i++)
        if (tp_shape_env_guard_at(env, i)->deferred)
            ok = assert_condition(s, g, tp_shape_env_guard_at(env, i), first, &scratch);
    tp_arena_fini(&scratch);
    return ok && tp_graph_check(g);
}
