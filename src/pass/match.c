/* match.c - see match.h.
 *
 * Below an anchor nothing is left to choose: arguments match one by one or the anchor's candidate is wrong. So a match is
 * a list of pairs of values still to be compared, and backtracking is among the candidates of the anchors only. */
#include "pass/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct work { tp_value pattern, found; } work;

/* One anchor's search: where its candidates come from, those there are, and how far they were tried. */
typedef struct level {
    tp_node *anchor;
    tp_node **path;                 /* arena: from a pattern node that is matched before to the anchor; NULL: none */
    uint32_t length;
    tp_array(tp_node *) candidate;
    size_t   at;
    uint32_t mark;                  /* pairs there were before it */
} level;

typedef struct matching {
    const tp_graph *pattern, *graph;
    const tp_match_options *o;
    tp_arena *arena;                /* the caller's */
    uint32_t *slot;                 /* by pattern id: 1 + index of its pair, 0: not matched */
    uint8_t *used;                  /* by graph id: in the match at hand */
    uint8_t *taken;                 /* by graph id: in a match already found */
    uint8_t *returned;              /* by pattern id */
    tp_match_pair *pair;
    uint32_t count;
    tp_array(work) todo;
    level *level;
    uint32_t levels;
    tp_array(tp_match) found;
} matching;

enum { NO, YES, FAILED = -1 };

/* ---- one node ---- */
static bool same_target(tp_target a, tp_target b)
{
    if (a.kind != b.kind)
        return false;
    if (a.kind == TP_TARGET_NAME)
        return strcmp(a.name, b.name) == 0;
    if (a.kind == TP_TARGET_HANDLE)
        return tp_value_equal((tp_value){ .tag = TP_HANDLE, .handle = a.handle }, (tp_value){ .tag = TP_HANDLE, .handle = b.handle });
    return a.op == b.op;            /* ops and builtins: one struct each */
}

static bool same_node(const matching *m, const tp_node *p, const tp_node *n)
{
    if (p->kind == TP_PLACEHOLDER && !m->o->placeholders)
        return true;
    if (p->kind != n->kind)
        return false;
    if (p->kind == TP_PLACEHOLDER || p->kind == TP_OUTPUT)
        return true;
    if (p->kind == TP_GET_ATTR && m->o->same_attribute)
        return m->o->same_attribute(p, n, m->o->data);
    return same_target(p->target, n->target);
}

static bool bind(matching *m, tp_node *p, tp_value found)
{
    if (m->slot[p->id])
        return tp_value_equal(m->pair[m->slot[p->id] - 1].found, found);
    m->pair[m->count++] = (tp_match_pair){ p, found };
    m->slot[p->id] = m->count;
    return true;
}

static void undo(matching *m, uint32_t mark)
{
    while (m->count > mark) {
        tp_match_pair last = m->pair[--m->count];
        m->slot[last.pattern->id] = 0;
        if (last.found.tag == TP_NODE)
            m->used[tp_as_node(last.found)->id] = 0;
    }
}

/* ---- arguments: pairs go on the stack last first, so that the first is looked at first ---- */
static bool push_pairs(matching *m, const tp_value *p, const tp_value *n, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;)
        if (!tp_array_push(&m->todo, ((work){ p[i], n[i] })))
            return false;
    return true;
}

static bool same_keywords(const tp_node *p, const tp_node *n)
{
    if (p->arg_count != n->arg_count || p->keyword_count != n->keyword_count)
        return false;
    for (uint32_t k = 0; k < p->keyword_count; k++)
        if (!tp_node_keyword(n, p->arg[p->arg_count + 2 * k].string->text))
            return false;
    return true;
}

static int push_arguments(matching *m, tp_node *p, tp_node *n)
{
    if (same_keywords(p, n)) {
        for (uint32_t k = p->keyword_count; k-- > 0;) {
            const tp_value *key = &p->arg[p->arg_count + 2 * k];
            if (!tp_array_push(&m->todo, ((work){ key[1], *tp_node_keyword(n, key->string->text) })))
                return FAILED;
        }
        return push_pairs(m, p->arg, n->arg, p->arg_count) ? YES : FAILED;
    }
    if (p->target.kind != TP_TARGET_OP)
        return NO;
    tp_value a[256], b[256];        /* an op has at most 255 */
    if (!tp_node_op_args(p, a) || !tp_node_op_args(n, b)) {         /* a call that would fail matches nothing */
        tp_error_clear();
        return NO;
    }
    return push_pairs(m, a, b, (uint32_t)p->target.op->arg_count) ? YES : FAILED;
}

static int match_nodes(matching *m, tp_node *p, tp_node *n)
{
    if (m->slot[p->id])
        return tp_as_node(m->pair[m->slot[p->id] - 1].found) == n ? YES : NO;
    if (m->used[n->id] || (m->taken[n->id] && p->kind != TP_PLACEHOLDER))
        return NO;
    if (!same_node(m, p, n))
        return NO;
    (void)bind(m, p, tp_of_node(n));
    m->used[n->id] = 1;
    return p->kind == TP_PLACEHOLDER ? YES : push_arguments(m, p, n);
}

static int match_values(matching *m, tp_value p, tp_value n)
{
    if (p.tag == TP_NODE && n.tag == TP_NODE)
        return match_nodes(m, p.node, n.node);
    if (p.tag == TP_NODE)
        return tp_as_node(p)->kind == TP_PLACEHOLDER && bind(m, p.node, n) ? YES : NO;
    bool sequence = (p.tag == TP_LIST || p.tag == TP_TUPLE) && (n.tag == TP_LIST || n.tag == TP_TUPLE);
    bool pairs = p.tag == n.tag && (p.tag == TP_DICT || p.tag == TP_SLICE);
    if (sequence || pairs)
        return p.list->count != n.list->count ? NO : push_pairs(m, p.list->item, n.list->item, p.list->count) ? YES : FAILED;
    return m->o->ignore_literals || tp_value_equal(p, n) ? YES : NO;
}

/* ---- one anchor ---- */
static int match_anchor(matching *m, tp_node *anchor, tp_node *n)
{
    m->todo.count = 0;
    int matched = match_nodes(m, anchor, n);
    while (matched == YES && m->todo.count) {
        work w = tp_array_pop(&m->todo);
        matched = match_values(m, w.pattern, w.found);
    }
    return matched;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = (*(tp_node *const *)a)->place, y = (*(tp_node *const *)b)->place;
    return x < y ? -1 : x > y;
}

static bool push_all(matching *m, level *l)
{
    tp_graph_each(m->graph, n)
        if (!tp_array_push(&l->candidate, n))
            return false;
    return true;
}

/* Up the path: what stands for its first node is known, and what stands for the next one is among its users. */
static bool find_candidates(matching *m, level *l)
{
    l->at = l->candidate.count = 0;
    tp_node *start = l->path ? tp_as_node(m->pair[m->slot[l->path[0]->id] - 1].found) : NULL;
    if (!start)
        return push_all(m, l);
    if (!tp_array_push(&l->candidate, start))
        return false;
    size_t from = 0;
    for (uint32_t step = 1; step < l->length; step++) {
        size_t end = l->candidate.count;
        for (; from < end; from++) {
            tp_node *at = l->candidate.item[from];
            for (uint32_t u = 0; u < at->user_count; u++)
                if (same_node(m, l->path[step], at->user[u]) && !tp_array_push(&l->candidate, at->user[u]))
                    return false;
        }
    }
    l->at = from;
    if (l->candidate.count > from)
        qsort(&l->candidate.item[from], l->candidate.count - from, sizeof *l->candidate.item, by_place);
    return true;
}

/* ---- the whole match ---- */
static bool is_closed(const matching *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const tp_node *p = m->pair[i].pattern, *n = tp_as_node(m->pair[i].found);
        if (p->kind == TP_PLACEHOLDER || p->kind == TP_OUTPUT || m->returned[p->id])
            continue;
        for (uint32_t u = 0; u < n->user_count; u++)
            if (!m->used[n->user[u]->id])
                return false;
    }
    return true;
}

static bool keep_match(matching *m)
{
    tp_match made = { tp_arena_take_array(m->arena, m->count, sizeof *made.pair), m->count };
    if (!made.pair || !tp_array_push(&m->found, made))
        return false;
    memcpy(made.pair, m->pair, m->count * sizeof *made.pair);
    for (uint32_t i = 0; !m->o->overlapping && i < m->count; i++)
        if (m->pair[i].pattern->kind != TP_PLACEHOLDER && m->pair[i].pattern->kind != TP_OUTPUT)
            m->taken[tp_as_node(m->pair[i].found)->id] = 1;
    return true;
}

/* Depth first: a candidate for each anchor in turn. */
static bool search(matching *m)
{
    uint32_t depth = 0;
    if (!m->levels || !push_all(m, &m->level[0]))
        return m->levels == 0;
    for (;;) {
        level *l = &m->level[depth];
        undo(m, l->mark);
        if (l->at == l->candidate.count) {
            if (!depth--)
                return true;
            continue;
        }
        int matched = match_anchor(m, l->anchor, l->candidate.item[l->at++]);
        if (matched == FAILED)
            return false;
        if (matched == NO)
            continue;
        if (depth + 1 < m->levels) {
            m->level[++depth].mark = m->count;
            if (!find_candidates(m, &m->level[depth]))
                return false;
        } else if (m->o->shared || is_closed(m)) {
            if (!keep_match(m))
                return false;
            if (!m->o->overlapping)         /* any other match from this first anchor would share it */
                depth = 0;
        }
    }
}

/* ---- the pattern ---- */
typedef struct tracing { matching *m; tp_node *at; tp_node **user; bool failed; tp_array(tp_node *) queue; } tracing;

static void note_input(tp_node *input, void *data)
{
    tracing *t = data;
    if (t->user[input->id])
        return;
    t->user[input->id] = t->at;
    t->failed |= !tp_array_push(&t->queue, input);
}

/* The way from a node that the anchors before this one reach to this one: breadth first, so the shortest. Then all that this
 * one reaches is known too. `before` is by pattern id. */
static bool find_path(matching *m, level *l, uint8_t *before)
{
    tracing t = { .m = m };
    t.user = tp_alloc_zero((m->pattern->node_count + 1) * sizeof *t.user);
    tp_node *meet = NULL;
    bool ok = t.user && tp_array_push(&t.queue, l->anchor);
    for (size_t i = 0; ok && i < t.queue.count; i++) {
        t.at = t.queue.item[i];
        if (before[t.at->id] && !meet && i)
            meet = t.at;
        tp_node_each_input(t.at, note_input, &t);
        ok = !t.failed;
    }
    for (tp_node *n = meet; ok && n; n = n == l->anchor ? NULL : t.user[n->id])
        l->length++;
    if (ok && meet && (ok = (l->path = tp_arena_take_array(m->arena, l->length, sizeof *l->path)))) {
        uint32_t i = 0;
        for (tp_node *n = meet; n; n = n == l->anchor ? NULL : t.user[n->id])
            l->path[i++] = n;
    }
    for (size_t i = 0; ok && i < t.queue.count; i++)
        before[t.queue.item[i]->id] = 1;
    tp_array_fini(&t.queue);
    tp_free(t.user);
    return ok;
}

typedef struct listing { matching *m; tp_node **anchor; uint32_t count; } listing;

static void note_returned(tp_node *n, void *data)
{
    listing *l = data;
    if (!l->m->returned[n->id] && n->user_count == 1)
        l->anchor[l->count++] = n;
    l->m->returned[n->id] = 1;
}

static bool make_levels(matching *m, tp_node *const *anchor, uint32_t count)
{
    uint8_t *before = tp_alloc_zero(m->pattern->node_count + 1);
    bool ok = before && (m->level = tp_alloc_zero((count + 1) * sizeof *m->level));
    for (uint32_t i = 0; ok && i < count; i++, m->levels++) {
        m->level[i].anchor = anchor[i];
        ok = find_path(m, &m->level[i], before);
    }
    tp_free(before);
    return ok;
}

static bool prepare(matching *m)
{
    size_t own = m->pattern->node_count + 1, other = m->graph->node_count + 1;
    listing l = { m, tp_arena_take_array(m->arena, own, sizeof *l.anchor), 0 };
    if (!l.anchor || !(m->slot = tp_alloc_zero(own * sizeof *m->slot)) || !(m->returned = tp_alloc_zero(own)) ||
        !(m->pair = tp_alloc_array(own, sizeof *m->pair)) || !(m->used = tp_alloc_zero(other)) || !(m->taken = tp_alloc_zero(other)))
        return false;
    tp_node *output = tp_graph_output_node(m->pattern);
    if (output)
        tp_node_each_input(output, note_returned, &l);
    return output && m->o->output ? make_levels(m, &output, 1) : make_levels(m, l.anchor, l.count);
}

bool tp_match_find(const tp_graph *pattern, const tp_graph *g, const tp_match_options *o, tp_arena *arena, tp_matches *out)
{
    matching m = { .pattern = pattern, .graph = g, .o = o, .arena = arena };
    bool ok = prepare(&m) && search(&m);
    *out = (tp_matches){ 0 };
    if (ok && m.found.count && (ok = (out->item = tp_arena_take_array(arena, m.found.count, sizeof *out->item)))) {
        memcpy(out->item, m.found.item, m.found.count * sizeof *out->item);
        out->count = (uint32_t)m.found.count;
    }
    for (uint32_t i = 0; m.level && i < m.levels; i++)
        tp_array_fini(&m.level[i].candidate);
    tp_array_fini(&m.todo);
    tp_array_fini(&m.found);
    tp_free(m.level);
    tp_free(m.slot);
    tp_free(m.used);
    tp_free(m.taken);
    tp_free(m.returned);
    tp_free(m.pair);
    return ok;
}
