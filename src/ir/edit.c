/* edit.c - changing a graph: arguments and the users they imply, order, erasure, replacement.
 *
 * A user stands once in its input's list, however often it reads it. Since a node's uses are always added in one go, right
 * after its old ones were taken out, the newest entry tells whether it is already there; and since dead code is erased from
 * the end, looking for a user from the end finds it at once. So both stay linear without an index. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/internal.h"

/* ---- users ---- */
typedef struct using {
    tp_node *user;
    bool     failed;
} using;

static void add_use(tp_node *input, void *data)
{
    using *u = data;
    if (u->failed || (input->user_count && input->user[input->user_count - 1] == u->user))
        return;
    if (input->user_count == input->user_room) {
        uint32_t room = input->user_room ? 2 * input->user_room : 2;
        tp_node **user = tp_arena_take_array(&input->graph->arena, room, sizeof *user);
        if (!user) {
            u->failed = true;
            return;
        }
        if (input->user_count)
            memcpy(user, input->user, input->user_count * sizeof *user);
        input->user = user;
        input->user_room = room;
    }
    input->user[input->user_count++] = u->user;
}

static void drop_use(tp_node *input, void *data)
{
    for (uint32_t i = input->user_count; i-- > 0;)
        if (input->user[i] == data) {
            memmove(&input->user[i], &input->user[i + 1], (input->user_count - i - 1) * sizeof *input->user);
            input->user_count--;
            return;
        }
}

/* ---- arguments ---- */
void tp_node_drop_args(tp_node *n)
{
    tp_values_unref(n->arg, n->arg_count + 2 * n->keyword_count);
    n->arg_count = n->keyword_count = 0;
}

bool tp_node_set_args(tp_node *n, const tp_value *arg, uint32_t arg_count, uint32_t keyword_count)
{
    uint32_t count = arg_count + 2 * keyword_count, old_count = n->arg_count + 2 * n->keyword_count;
    tp_graph_edit(n->graph);
    tp_value *fresh = n->arg;
    if (count > old_count && !(fresh = tp_arena_take_array(&n->graph->arena, count, sizeof *fresh)))
        return tp_fail_memory();
    tp_value few[16], *kept = count <= TP_COUNT(few) ? few : tp_alloc_array(count, sizeof *kept);
    if (!kept)
        return false;
    uint32_t done = 0;                          /* `arg` may be the node's own */
    for (; done < count; done++)
        if ((kept[done] = tp_value_ref(arg[done])).tag != arg[done].tag)
            break;
    bool ok = done == count;
    if (ok) {
        tp_node_each_input(n, drop_use, n);
        tp_node_drop_args(n);
        for (uint32_t i = 0; i < count; i++)
            tp_graph_notice(n->graph, kept[i]);
        n->arg = fresh;
        if (count)
            memcpy(n->arg, kept, count * sizeof *kept);
        n->arg_count = arg_count;
        n->keyword_count = keyword_count;
        using u = { .user = n };
        tp_node_each_input(n, add_use, &u);
        ok = !u.failed || tp_fail_memory();
    } else {
        tp_values_unref(kept, done);
    }
    if (kept != few)
        tp_free(kept);
    return ok;
}

bool tp_node_set_arg(tp_node *n, uint32_t i, tp_value v)
{
    uint32_t at = i < n->arg_count ? i : n->arg_count + 2 * (i - n->arg_count) + 1;
    uint32_t count = n->arg_count + 2 * n->keyword_count;
    assert(at < count);
    tp_value *copy = tp_alloc_array(count, sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, n->arg, count * sizeof *copy);
    copy[at] = v;
    bool ok = tp_node_set_args(n, copy, n->arg_count, n->keyword_count);
    tp_free(copy);
    return ok;
}

void tp_node_set_fact(tp_node *n, tp_value fact)
{
    tp_value old = n->fact;
    n->fact = tp_value_ref(fact);
    tp_graph_notice(n->graph, fact);
    tp_value_unref(old);
}

void tp_node_set_origin(tp_node *n, tp_origin *o)
{
    tp_origin *old = n->origin;
    n->origin = o ? tp_origin_ref(o) : NULL;
    tp_origin_unref(old);
}

bool tp_node_set_name(tp_node *n, const char *name)
{
    const char *kept = tp_text_map_keep(&n->graph->names.used, name, 1);
    if (!kept)
        return tp_fail_memory();
    tp_graph_edit(n->graph);
    n->name = kept;
    return true;
}

static void keep_handle(tp_graph *g, tp_handle **field, tp_handle *h)
{
    tp_handle *old = *field;
    if (h) {
        g->has_handles = true;
        tp_count_up(&h->refs);
    }
    *field = h;
    if (old)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = old });
}

void tp_node_set_type(tp_node *n, tp_handle *type)
{
    tp_graph_edit(n->graph);
    keep_handle(n->graph, &n->type, type);
}

void tp_node_set_meta(tp_node *n, tp_handle *meta)
{
    keep_handle(n->graph, &n->meta, meta);
}

/* ---- order ---- */
static void unlink_node(tp_node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
}

void tp_node_move_before(tp_node *at, tp_node *n)
{
    if (at == n || at->prev == n)
        return;
    tp_graph_edit(n->graph);
    unlink_node(n);
    tp_node_link(at, n);
}

void tp_node_erase(tp_node *n)
{
    assert(!n->user_count && n->kind != TP_ROOT);
    if (n->flags & TP_NODE_ERASED)
        return;
    tp_graph *g = n->graph;
    tp_graph_edit(g);
    if (g->insert == n)
        g->insert = n->next;
    tp_node_each_input(n, drop_use, n);
    tp_node_drop_args(n);
    unlink_node(n);
    n->flags |= TP_NODE_ERASED;
    g->live_count--;
}

/* ---- replacement ---- */
bool tp_value_map_nodes(tp_value v, tp_map_node *map, void *data, tp_value *out)
{
    if (v.tag == TP_NODE) {
        *out = map(v.node, data);
        return true;
    }
    if (v.tag < TP_LIST || v.tag > TP_SLICE) {
        *out = tp_value_ref(v);
        return true;
    }
    tp_list *l = tp_list_new(v.list->count);
    if (!l)
        return false;
    *out = (tp_value){ .tag = v.tag, .list = l };
    for (uint32_t i = 0; i < l->count; i++)
        if (!tp_value_map_nodes(v.list->item[i], map, data, &l->item[i])) {
            tp_value_unref(*out);
            *out = tp_none();
            return false;
        }
    return true;
}

typedef struct swap {
    tp_node *old, *fresh;
} swap;

static tp_value swapped(tp_node *n, void *data)
{
    const swap *s = data;
    return tp_of_node(n == s->old ? s->fresh : n);
}

static bool rewrite(tp_node *user, swap *s)
{
    uint32_t count = user->arg_count + 2 * user->keyword_count, done = 0;
    tp_value few[16], *arg = count <= TP_COUNT(few) ? few : tp_alloc_array(count, sizeof *arg);
    if (!arg)
        return false;
    while (done < count && tp_value_map_nodes(user->arg[done], swapped, s, &arg[done]))
        done++;
    bool ok = done == count && tp_node_set_args(user, arg, user->arg_count, user->keyword_count);
    tp_values_unref(arg, done);
    if (arg != few)
        tp_free(arg);
    return ok;
}

int tp_node_replace_uses(tp_node *old, tp_node *fresh, bool (*choose)(tp_node *user, void *data), void *data)
{
    uint32_t count = 0, stay = 0;
    tp_node **user = tp_alloc_array(old->user_count + 1, sizeof *user);
    if (!user)
        return -1;
    for (uint32_t i = 0; i < old->user_count; i++)      /* out of the list first: taking each out alone would be quadratic */
        if (!choose || choose(old->user[i], data))
            user[count++] = old->user[i];
        else
            old->user[stay++] = old->user[i];
    old->user_count = stay;
    swap s = { old, fresh };
    uint32_t done = 0;
    while (done < count && rewrite(user[done], &s))
        done++;
    bool ok = done == count;
    for (; done < count; done++)                        /* still its readers */
        old->user[old->user_count++] = user[done];
    tp_free(user);
    return ok ? (int)count : -1;
}
