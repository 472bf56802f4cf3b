/* lift.c - state as inputs of a graph, and back as attributes.
 *
 *     %w = get_attr l.weight                        %p_l_weight = placeholder
 *     %y = linear(%x, %w)            <=>            %y = linear(%x, %p_l_weight)
 *     %c = copy_(%b, %y)                            return (%y, %y)
 *     return (%c,)  */
#include <string.h>

#include "base/alloc.h"
#include "export/signature.h"

bool tp_signature_check(const tp_signature *s, const tp_graph *g)
{
    size_t i = 0;
    tp_graph_each(g, n)
    {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        if (i >= s->input_count || strcmp(s->input[i].name, n->name) != 0)
            return tp_fail(TP_ERR_VALUE, "the signature has no row for input %zu of the graph, %s", i, n->name);
        if (s->input[i].kind != TP_INPUT_USER && s->input[i].kind != TP_INPUT_TOKEN && !s->input[i].target)
            return tp_fail(TP_ERR_VALUE, "input %s of the signature names no state", n->name);
        i++;
    }
    const tp_node *output = tp_graph_output_node(g);
    if (i != s->input_count)
        return tp_fail(TP_ERR_VALUE, "the signature has %zu inputs, the graph %zu", s->input_count, i);
    if (!output || output->arg_count != 1 || tp_length(output->arg[0]) != s->output_count)
        return tp_fail(TP_ERR_VALUE, "the signature has %zu outputs, not those of the graph", s->output_count);
    for (i = 0; i < s->output_count; i++)
        if ((s->output[i].kind == TP_OUTPUT_BUFFER || s->output[i].kind == TP_OUTPUT_INPUT) &&
            (!s->output[i].target || !tp_as_node(output->arg[0].list->item[i])))
            return tp_fail(TP_ERR_VALUE, "output %zu of the signature says what it writes to, but there is none", i);
    return true;
}

/* ---- attributes to inputs ---- */
bool tp_graph_lift(tp_graph *g, const char *attr, const char *name, tp_node *before)
{
    tp_node *insert = g->insert, *made;
    g->insert = before;
    made = tp_graph_placeholder(g, name);
    g->insert = insert;
    if (!made || (strcmp(made->name, name) != 0 && !tp_node_set_name(made, name)))
        return made ? false : tp_graph_check(g);
    tp_node_set_target(made, tp_target_name(made->name));
    for (tp_node *n = tp_graph_first(g), *next; !tp_node_is_root(n); n = next) {
        next = n->next;
        if (n->kind != TP_GET_ATTR || strcmp(n->target.name, attr) != 0)
            continue;
        if (made->fact.tag == TP_NONE)
            tp_node_set_fact(made, n->fact);
        if (tp_node_replace_uses(n, made, NULL, NULL) < 0)
            return false;
        tp_node_erase(n);
    }
    return true;
}

/* ---- inputs to attributes ---- */

/* What stands for each input afterwards; NULL: nobody reads it. */
static bool unlift_inputs(tp_graph *g, const tp_signature *s, tp_node **now)
{
    size_t i = 0;
    for (tp_node *n = tp_graph_first(g), *next; !tp_node_is_root(n); n = next) {
        next = n->next;
        if (n->kind != TP_PLACEHOLDER)
            continue;
        const tp_input_spec *spec = &s->input[i];
        now[i++] = n;
        if (spec->kind == TP_INPUT_USER)
            continue;
        bool written = false;
        for (size_t k = 0; k < s->output_count; k++)
            written = written || (s->output[k].kind == TP_OUTPUT_BUFFER && strcmp(s->output[k].target, spec->target) == 0);
        now[i - 1] = NULL;
        if (n->user_count || written) {
            tp_node *insert = g->insert;
            g->insert = next;
            tp_node *made = now[i - 1] = tp_graph_get_attr(g, spec->target);
            g->insert = insert;
            if (!made)
                return tp_graph_check(g);
            tp_node_set_fact(made, n->fact);
            tp_node_set_origin(made, n->origin);
            if (tp_node_replace_uses(n, made, NULL, NULL) < 0)
                return false;
        }
        tp_node_erase(n);
    }
    return true;
}

static tp_node *written_input(const tp_signature *s, const tp_output_spec *o, tp_node *const *now)
{
    for (size_t i = 0; i < s->input_count; i++) {
        bool user = s->input[i].kind == TP_INPUT_USER;
        if (o->kind == TP_OUTPUT_INPUT ? user && strcmp(s->input[i].name, o->target) == 0
                                       : !user && s->input[i].target && strcmp(s->input[i].target, o->target) == 0)
            return now[i];
    }
    return NULL;
}

/* `result`: the items of the output that the user sees; a value that was written back is the result of the copy. */
static bool write_back(tp_graph *g, const tp_signature *s, tp_node *const *now, tp_node *output, tp_list *result)
{
    const tp_op *copy = tp_op_find("aten", "copy_", "");
    const tp_list *item = output->arg[0].list;
    size_t kept = 0;
    tp_node *insert = g->insert;
    if (!copy)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "aten::copy_ is not there");
    for (size_t i = 0; i < s->output_count; i++)
        if (s->output[i].kind == TP_OUTPUT_USER || s->output[i].kind == TP_OUTPUT_LOSS)
            result->item[kept++] = tp_value_ref(item->item[i]);
    result->count = (uint32_t)kept;
    for (size_t i = 0; i < s->output_count; i++) {
        if (s->output[i].kind != TP_OUTPUT_BUFFER && s->output[i].kind != TP_OUTPUT_INPUT)
            continue;
        tp_node *to = written_input(s, &s->output[i], now), *from = tp_as_node(item->item[i]);
        if (!to)
            return tp_fail(TP_ERR_VALUE, "output %zu of the signature writes to %s, which is no input", i, s->output[i].target);
        g->insert = output;
        tp_node *made = tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(copy), (tp_value[]){ tp_of_node(to), tp_of_node(from) }, 2, 0,
                                    "copy__default");
        g->insert = insert;
        if (!made)
            return tp_graph_check(g);
        tp_node_set_fact(made, to->fact);
        for (size_t k = 0; k < kept; k++)
            if (tp_as_node(result->item[k]) == from)
                result->item[k] = tp_of_node(made);
    }
    return true;
}

bool tp_graph_unlift(tp_graph *g, const tp_signature *s)
{
    if (!tp_signature_check(s, g))
        return false;
    tp_node *output = tp_graph_output_node(g);
    tp_node **now = tp_alloc_array(s->input_count + 1, sizeof *now);
    tp_list *result = now ? tp_list_new(s->output_count) : NULL;
    bool ok = result && unlift_inputs(g, s, now) && write_back(g, s, now, output, result);
    if (ok) {
        tp_value all = { .tag = TP_TUPLE, .list = result };
        ok = tp_node_set_args(output, &all, 1, 0);
    }
    if (result)
        tp_value_unref((tp_value){ .tag = TP_TUPLE, .list = result });
    tp_free(now);
    return ok;
}
