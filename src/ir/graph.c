/* graph.c - making graphs and nodes, and letting them go. */
#include "ir/graph.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/internal.h"
#include "sym/env.h"

/* jit.trace makes a graph for each small module: the first texts come with the graph, and neither that block nor the first
 * slab reaches 1024 bytes, from where on glibc's malloc tidies up all it has before it answers. */
enum { FIRST_SLAB = 6, DOUBLINGS = 9, LARGEST_SLAB = FIRST_SLAB << DOUBLINGS };
typedef struct first_block {
    tp_graph graph;
    _Alignas(16) char text[(1008 - sizeof(tp_graph)) & ~(size_t)15];
} first_block;
static_assert(sizeof(first_block) < 1024 && FIRST_SLAB * sizeof(tp_node) < 1024, "small blocks");

const char tp_nameless[] = "";

const char *const tp_node_kind_names[] = {
    [TP_PLACEHOLDER] = "placeholder", [TP_GET_ATTR] = "get_attr",       [TP_CALL_FUNCTION] = "call_function",
    [TP_CALL_METHOD] = "call_method", [TP_CALL_MODULE] = "call_module", [TP_OUTPUT] = "output",
    [TP_ROOT] = "root",
};

/* ---- origins ---- */
tp_origin *tp_origin_new(void)
{
    tp_origin *o = tp_alloc_zero(sizeof *o);
    if (o)
        atomic_init(&o->refs, 1);
    return o;
}

tp_origin *tp_origin_ref(tp_origin *o)
{
    tp_count_up(&o->refs);
    return o;
}

static void unref_handle(tp_handle *h)
{
    if (h)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
}

void tp_origin_unref(tp_origin *o)
{
    if (!o || !tp_count_down(&o->refs))
        return;
    if (o->stack_trace)
        tp_value_unref((tp_value){ .tag = TP_STRING, .string = o->stack_trace });
    unref_handle(o->module_stack);
    unref_handle(o->custom);
    tp_free(o);
}

/* ---- the graph ---- */
tp_graph *tp_graph_new(void)
{
    first_block *block = tp_alloc(sizeof *block);
    if (!block)
        return NULL;
    tp_graph *g = memset(&block->graph, 0, sizeof block->graph);
    atomic_init(&g->refs, 1);
    tp_arena_lend(&g->arena, block->text, sizeof block->text);
    g->names.used.arena = g->names.stem.arena = &g->arena;
    g->slab = &g->first_slab;
    g->slab_room = 1;
    g->root.graph = g;
    g->root.kind = TP_ROOT;
    g->root.name = "";
    g->root.target = tp_target_name("");
    g->root.prev = g->root.next = g->insert = &g->root;
    return g;
}

tp_graph *tp_graph_ref(tp_graph *g)
{
    tp_count_up(&g->refs);
    return g;
}

static void node_fini(tp_node *n)
{
    tp_node_drop_args(n);
    if (n->target.kind == TP_TARGET_HANDLE)
        unref_handle(n->target.handle);
    tp_value_unref(n->fact);
    tp_origin_unref(n->origin);
    unref_handle(n->type);
    unref_handle(n->meta);
}

static uint32_t slab_size(uint32_t index)
{
    return index < DOUBLINGS ? FIRST_SLAB << index : LARGEST_SLAB;
}

void tp_graph_unref(tp_graph *g)
{
    if (!g || !tp_count_down(&g->refs))
        return;
    for (uint32_t s = 0; s < g->slab_count; s++) {
        uint32_t used = s + 1 < g->slab_count ? slab_size(s) : g->slab_used;
        for (uint32_t i = 0; i < used; i++)
            node_fini(&g->slab[s][i]);
        tp_free(g->slab[s]);
    }
    if (g->slab != &g->first_slab)
        tp_free(g->slab);
    for (uint32_t i = 0; i < g->child_count; i++)
        tp_graph_unref(g->child[i].graph);
    tp_free(g->child);
    tp_shape_env_unref(g->env);
    tp_arena_fini(&g->arena);
    tp_free(g);
}

tp_graph *tp_graph_child(const tp_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->child_count; i++)
        if (strcmp(g->child[i].name, name) == 0)
            return g->child[i].graph;
    return NULL;
}

bool tp_graph_set_child(tp_graph *g, const char *name, tp_graph *child)
{
    for (uint32_t i = 0; i < g->child_count; i++)
        if (strcmp(g->child[i].name, name) == 0) {
            tp_graph *old = g->child[i].graph;
            g->child[i].graph = tp_graph_ref(child);
            tp_graph_unref(old);
            return true;
        }
    const char *own = tp_text_in(&g->arena, name, strlen(name));
    if (!own)
        return tp_fail_memory();
    if (g->child_count == g->child_room) {
        uint32_t room = g->child_room ? 2 * g->child_room : 2;
        tp_child *more = tp_realloc_array(g->child, room, sizeof *more);
        if (!more)
            return false;
        g->child = more;
        g->child_room = room;
    }
    g->child[g->child_count++] = (tp_child){ own, tp_graph_ref(child) };
    return true;
}

void *tp_graph_fail(tp_graph *g)
{
    if (g->failed == TP_ERR_NONE) {
        const char *text = tp_error_text();
        g->failed = tp_error_kind();
        g->failure = tp_text_in(&g->arena, text, strlen(text));
        if (!g->failure)
            g->failed = TP_ERR_MEMORY;
    }
    return NULL;
}

bool tp_graph_check(const tp_graph *g)
{
    if (g->failed == TP_ERR_NONE)
        return true;
    return g->failed == TP_ERR_MEMORY ? tp_fail_memory() : tp_fail(g->failed, "%s", g->failure ? g->failure : "");
}

/* ---- nodes ---- */
static tp_node *node_take(tp_graph *g)
{
    if (!g->slab_count || g->slab_used == slab_size(g->slab_count - 1)) {
        if (g->slab_count == g->slab_room) {
            bool own = g->slab != &g->first_slab;
            uint32_t room = own ? 2 * g->slab_room : 8;
            tp_node **slab = tp_realloc_array(own ? g->slab : NULL, room, sizeof *slab);
            if (!slab)
                return NULL;
            if (!own)
                slab[0] = g->first_slab;
            g->slab = slab;
            g->slab_room = room;
        }
        tp_node *fresh = tp_alloc_array(slab_size(g->slab_count), sizeof *fresh);
        if (!fresh)
            return NULL;
        g->slab[g->slab_count++] = fresh;
        g->slab_used = 0;
    }
    tp_node *n = &g->slab[g->slab_count - 1][g->slab_used++];
    memset(n, 0, sizeof *n);
    n->graph = g;
    n->id = g->node_count++;
    return n;
}

/* A new node at the end stands PLACE_GAP behind the last one, another halfway between its neighbours. Where nothing lies between
 * them the ring is numbered anew: the gap makes that rare enough to be paid by the insertions before it. */
enum { PLACE_GAP = 1 << 20 };

void tp_node_link(tp_node *at, tp_node *n)
{
    tp_node *before = at->prev;
    n->prev = before;
    n->next = at;
    before->next = n;
    at->prev = n;
    uint64_t room = tp_node_is_root(at) ? 2 * (uint64_t)PLACE_GAP : at->place - before->place;
    n->place = before->place + room / 2;
    if (room < 2) {
        uint64_t place = 0;
        tp_graph_each(n->graph, each)
            each->place = place += PLACE_GAP;
    }
}

/* The arena's copy of a name target; the others count. */
static bool target_keep(tp_graph *g, tp_target *t)
{
    if (t->kind == TP_TARGET_NAME)
        return (t->name = tp_text_in(&g->arena, t->name, strlen(t->name)));
    if (t->kind == TP_TARGET_HANDLE) {
        g->has_handles = true;
        tp_count_up(&t->handle->refs);
    }
    return true;
}

static const char *name_for(tp_graph *g, tp_target target, const char *wish)
{
    if (wish)
        return wish == tp_nameless ? wish : tp_graph_name(g, wish);
    tp_text made = { 0 };
    const char *name = tp_target_wish(target, &made) ? tp_graph_name(g, tp_text_read(&made)) : NULL;
    tp_text_fini(&made);
    return name;
}

tp_node *tp_node_new(tp_graph *g, tp_node_kind kind, tp_target target, const tp_value *arg, uint32_t arg_count,
                     uint32_t keyword_count, const char *name)
{
    if (g->failed != TP_ERR_NONE)
        return NULL;
    tp_graph_edit(g);
    const char *kept = name_for(g, target, name);
    tp_node *n = kept ? node_take(g) : NULL;
    if (!n)
        return tp_graph_fail(g);
    n->kind = (uint16_t)kind;
    n->name = kept;
    n->target = tp_target_name("");
    if (!target_keep(g, &target))
        return tp_graph_fail(g);
    n->target = target;
    if (!tp_node_set_args(n, arg, arg_count, keyword_count))
        return tp_graph_fail(g);
    tp_node_link(g->insert, n);
    g->live_count++;
    return n;
}

void tp_node_set_target(tp_node *n, tp_target target)
{
    tp_graph_edit(n->graph);
    if (!target_keep(n->graph, &target)) {
        (void)tp_graph_fail(n->graph);
        return;
    }
    if (n->target.kind == TP_TARGET_HANDLE)
        unref_handle(n->target.handle);
    n->target = target;
}

tp_node *tp_graph_placeholder(tp_graph *g, const char *name)
{
    return tp_node_new(g, TP_PLACEHOLDER, tp_target_name(name), NULL, 0, 0, name);
}

tp_node *tp_graph_call(tp_graph *g, const tp_op *op, const tp_value *arg, uint32_t arg_count)
{
    return tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(op), arg, arg_count, 0, op->name);
}

tp_node *tp_graph_getitem(tp_graph *g, tp_node *of, int64_t index)
{
    if (!of)
        return NULL;
    tp_value arg[2] = { tp_of_node(of), tp_int(index) };
    return tp_node_new(g, TP_CALL_FUNCTION, tp_target_builtin(tp_builtin_getitem), arg, 2, 0, "getitem");
}

tp_node *tp_graph_get_attr(tp_graph *g, const char *path)
{
    return tp_node_new(g, TP_GET_ATTR, tp_target_name(path), NULL, 0, 0, NULL);
}

tp_node *tp_graph_output(tp_graph *g, tp_value result)
{
    return tp_node_new(g, TP_OUTPUT, tp_target_name("output"), &result, 1, 0, "output");
}

/* ---- copies ---- */
static tp_value mapped(tp_node *n, void *map)
{
    return tp_of_node(((tp_node **)map)[n->id]);
}

static tp_node *copy_node(tp_graph *g, const tp_node *n, tp_node **map, const char *name)
{
    uint32_t count = n->arg_count + 2 * n->keyword_count;
    tp_value *arg = count ? tp_alloc_array(count, sizeof *arg) : NULL;
    if (count && !arg)
        return tp_graph_fail(g);
    tp_node *copy = NULL;
    uint32_t done = 0;
    while (done < count && tp_value_map_nodes(n->arg[done], mapped, map, &arg[done]))
        done++;
    if (done == count)
        copy = tp_node_new(g, (tp_node_kind)n->kind, n->target, arg, n->arg_count, n->keyword_count, name);
    else
        (void)tp_graph_fail(g);
    tp_values_unref(arg, done);
    tp_free(arg);
    if (!copy)
        return NULL;
    copy->flags = n->flags;
    tp_node_set_fact(copy, n->fact);
    copy->origin = n->origin ? tp_origin_ref(n->origin) : NULL;
    tp_node_set_type(copy, n->type);
    tp_node_set_meta(copy, n->meta);
    return map[n->id] = copy;
}

tp_node *tp_node_copy(tp_graph *g, const tp_node *n, tp_node **map)
{
    return copy_node(g, n, map, n->name);
}

static bool copy_children(tp_graph *g, const tp_graph *from)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < from->child_count; i++)
        ok = tp_graph_set_child(g, from->child[i].name, from->child[i].graph);
    return ok;
}

bool tp_graph_append(tp_graph *g, const tp_graph *from, tp_node **map, tp_value *output)
{
    if (!copy_children(g, from))
        return false;
    tp_graph_each(from, n) {
        if (n->kind == TP_OUTPUT) {
            *output = tp_none();
            return !n->arg_count || tp_value_map_nodes(n->arg[0], mapped, map, output);
        }
        if (!tp_node_copy(g, n, map))
            return tp_graph_check(g);
    }
    *output = tp_none();
    return true;
}

tp_graph *tp_graph_copy(const tp_graph *from)
{
    tp_graph *g = tp_graph_new();
    tp_node **map = tp_alloc_array(from->node_count + 1, sizeof *map);
    bool ok = g && map;
    if (ok && from->env)
        g->env = tp_shape_env_ref(from->env);
    /* Names must come out the same, also those that a fresh namespace would have chosen otherwise. */
    ok = ok && copy_children(g, from) && tp_names_copy(g, from);
    if (ok)
        tp_graph_each(from, n) {
            tp_node *copy = copy_node(g, n, map, tp_nameless);
            if (copy && n->name != tp_nameless)
                copy->name = tp_text_in(&g->arena, n->name, strlen(n->name));
            if (!(ok = copy && copy->name))
                break;
        }
    tp_free(map);
    if (ok)
        return g;
    tp_graph_unref(g);
    return NULL;
}

/* ---- reading ---- */
tp_node *tp_graph_output_node(const tp_graph *g)
{
    for (tp_node *n = g->root.prev; n != &g->root; n = n->prev)
        if (n->kind == TP_OUTPUT)
            return n;
    return NULL;
}

const tp_value *tp_node_keyword(const tp_node *n, const char *name)
{
    const tp_value *pair = n->arg + n->arg_count;
    for (uint32_t k = 0; k < n->keyword_count; k++, pair += 2)
        if (strcmp(pair[0].string->text, name) == 0)
            return &pair[1];
    return NULL;
}

void tp_value_each_node(tp_value v, void (*visit)(tp_node *n, void *data), void *data)
{
    if (v.tag == TP_NODE)
        visit(v.node, data);
    else if (v.tag >= TP_LIST && v.tag <= TP_SLICE)
        for (uint32_t i = 0; i < v.list->count; i++)
            tp_value_each_node(v.list->item[i], visit, data);
}

void tp_node_each_input(const tp_node *n, void (*visit)(tp_node *input, void *data), void *data)
{
    for (uint32_t i = 0; i < n->arg_count + 2 * n->keyword_count; i++)
        tp_value_each_node(n->arg[i], visit, data);
}

bool tp_node_op_args(const tp_node *n, tp_value *out)
{
    assert(n->target.kind == TP_TARGET_OP);
    const tp_op *op = n->target.op;
    char name[128];
    if (n->arg_count > op->positional_count)
        return tp_fail(TP_ERR_TYPE, "%s() takes %d positional arguments, but the node '%s' gives %u",
                       tp_op_full_name(op, name), op->positional_count, n->name, n->arg_count);
    uint32_t found = 0;
    for (int i = 0; i < op->arg_count; i++) {
        const tp_arg *a = &op->arg[i];
        const tp_value *keyword = n->keyword_count ? tp_node_keyword(n, a->name) : NULL;
        if ((uint32_t)i < n->arg_count)
            out[i] = n->arg[i];
        else if (keyword)
            out[i] = *keyword, found++;
        else if (a->fallback)
            out[i] = *a->fallback;
        else
            return tp_fail(TP_ERR_TYPE, "%s() is missing value for argument '%s'", tp_op_full_name(op, name), a->name);
    }
    if (found != n->keyword_count)
        return tp_fail(TP_ERR_TYPE, "%s() got an unexpected or repeated keyword argument at the node '%s'",
                       tp_op_full_name(op, name), n->name);
    return true;
}

bool tp_node_has_effect(const tp_node *n)
{
    if (n->kind == TP_PLACEHOLDER || n->kind == TP_OUTPUT || n->flags & TP_NODE_IMPURE)
        return true;
    if (n->kind != TP_CALL_FUNCTION || n->target.kind != TP_TARGET_OP)
        return n->kind == TP_CALL_MODULE || n->kind == TP_CALL_METHOD;
    const tp_op *op = n->target.op;
    if (op->flags & (TP_OP_IO | TP_OP_RNG) || op->rare->hidden_writes)
        return true;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return true;
    return false;
}

static int each_handle_of(tp_value v, int (*visit)(tp_handle *h, void *data), void *data)
{
    int stop = 0;
    if (v.tag == TP_HANDLE)
        return visit(v.handle, data);
    if (v.tag >= TP_LIST && v.tag <= TP_SLICE)
        for (uint32_t i = 0; i < v.list->count && !stop; i++)
            stop = each_handle_of(v.list->item[i], visit, data);
    return stop;
}

static int found(tp_handle *h, void *data)
{
    (void)h, (void)data;
    return 1;
}

void tp_graph_notice(tp_graph *g, tp_value v)
{
    g->has_handles = g->has_handles || each_handle_of(v, found, NULL);
}

int tp_graph_each_handle(const tp_graph *g, int (*visit)(tp_handle *h, void *data), void *data)
{
    int stop = 0;
    for (uint32_t s = 0; g->has_handles && s < g->slab_count; s++) {
        uint32_t used = s + 1 < g->slab_count ? slab_size(s) : g->slab_used;
        for (uint32_t i = 0; i < used && !stop; i++) {
            const tp_node *n = &g->slab[s][i];
            for (uint32_t k = 0; k < n->arg_count + 2 * n->keyword_count && !stop; k++)
                stop = each_handle_of(n->arg[k], visit, data);
            if (!stop && n->target.kind == TP_TARGET_HANDLE)
                stop = visit(n->target.handle, data);
            if (!stop && n->type)
                stop = visit(n->type, data);
            if (!stop && n->meta)
                stop = visit(n->meta, data);
            if (!stop)
                stop = each_handle_of(n->fact, visit, data);
        }
    }
    return stop;
}
