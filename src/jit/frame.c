/* frame.c - frames: calls of submodules, and how a value of one becomes an input or a result of others. */
#include "jit/frame.h"

#include <stdio.h>

typedef tp_jit_frame frame;

void *tp_jit_graph_failed(const tp_graph *g)
{
    if (tp_graph_check(g) && tp_error_kind() == TP_ERR_NONE)
        (void)tp_fail_memory();
    return NULL;
}

/* ---- frames ---- */
/* The newest frame's `self` has the plain name, those before it odd numbers: PyTorch spends one on the newcomer too. */
static bool name_self(tp_jit_trace *t, const frame *f)
{
    char numbered[32] = "self.";
    char *own = tp_alloc_text("self"), *moved = NULL;
    if (t->self) {
        (void)tp_text_digits(numbered + 5, 2 * (uint64_t)f->index - 1);
        moved = tp_alloc_text(numbered);
    }
    if (!own || (t->self && !moved)) {
        tp_free(own);
        tp_free(moved);
        return false;
    }
    if (t->self) {
        tp_free(t->self->name);
        t->self->name = moved;
    }
    t->self = tp_jit_note_of(f->self);
    t->self->name = own;
    return true;
}

static tp_jit_module *module_at(const tp_jit_trace *t, const char *path)
{
    if (!*path)
        return t->root;
    const tp_value *v = tp_jit_module_find(t->root, path);
    tp_jit_module *m = v ? tp_jit_as_module(*v) : NULL;
    return m ? m : tp_fail(TP_ERR_RUNTIME, "no '%s' in the traced module", path);
}

frame *tp_jit_frame_new(tp_jit_trace *t, frame *parent, const char *path)
{
    frame *f = tp_arena_take(&t->arena, sizeof *f);
    if (!f)
        return NULL;
    *f = (frame){ .parent = parent, .depth = parent ? parent->depth + 1 : 0, .index = (uint32_t)t->frames.count, .path = path };
    f->names.holder.arena = f->names.counter.arena = &t->arena;
    bool ok = (f->graph = tp_graph_new());
    if (ok && t->root && !t->flat) {
        ok = (f->module = module_at(t, path)) && (f->self = tp_jit_input(f->graph, &f->names, NULL, tp_jit_type_ref(f->module->type)));
        f->last_input = f->self;
    }
    if (!ok || !tp_array_push(&t->frames, f)) {
        tp_graph_unref(f->graph);
        return NULL;
    }
    return !f->self || name_self(t, f) ? f : NULL;
}

/* ---- values ---- */
/* The key of a value in a frame: one map for all, since most frames know a handful. */
static uint64_t here(const frame *f, tp_jit_value id)
{
    return (uint64_t)f->index << 32 | id;
}

static bool put_node(tp_jit_trace *t, const frame *f, tp_jit_value id, tp_node *n)
{
    return tp_map_put(&t->nodes, here(f, id), (uint64_t)(uintptr_t)n);
}

/* NULL: the frame does not know the value yet. */
static tp_node *node_in(const tp_jit_trace *t, const frame *f, tp_jit_value id)
{
    uint64_t known;
    return tp_map_get(&t->nodes, here(f, id), &known) ? (tp_node *)(uintptr_t)known : NULL;
}

tp_jit_value tp_jit_frame_define(tp_jit_trace *t, frame *f, tp_node *n)
{
    tp_jit_value id = (tp_jit_value)t->values.count;
    if (!n)
        return tp_jit_graph_failed(f->graph), 0;
    if (!tp_array_push(&t->values, ((tp_jit_traced){ .frame = f, .node = n })))
        return 0;
    return put_node(t, f, id, n) ? id : 0;
}

/* A value with a path, which is arena; NULL: no memory. */
static tp_jit_value define_path(tp_jit_trace *t, const char *path)
{
    tp_jit_value id = (tp_jit_value)t->values.count;
    return path && tp_array_push(&t->values, ((tp_jit_traced){ .path = path })) ? id : 0;
}

tp_jit_value tp_jit_trace_path(tp_jit_trace *t, const char *path)
{
    uint64_t known;
    if (tp_text_map_get(&t->paths, path, &known))
        return (tp_jit_value)known;
    return define_path(t, tp_text_map_keep(&t->paths, path, t->values.count));
}

/* Found by its tensor, never by its path. */
tp_jit_value tp_jit_frame_attribute(tp_jit_trace *t, const char *path)
{
    return define_path(t, tp_text_in(&t->arena, path, strlen(path)));
}

tp_node *tp_jit_frame_several(frame *f, tp_node *n, uint32_t count)
{
    if (n) {
        tp_jit_note_of(n)->results = count;
        f->names.next--;
    }
    return n;
}

/* ---- a value where it is wanted ---- */
static bool starts_with_path(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    return !length || (strncmp(path, prefix, length) == 0 && path[length] == '.');
}

/* Builds at another place than the end of a graph: right after `n`. */
static tp_node *set_after(tp_graph *g, tp_node *n)
{
    tp_node *old = g->insert;
    g->insert = n ? n->next : g->root.next;
    return old;
}

/* A prim::GetAttr of `object`, which is `m` (NULL: no module, an error). */
static tp_node *read_member(frame *f, tp_node *object, const tp_jit_module *m, const char *name, const tp_jit_slot **slot)
{
    if (!(*slot = m ? tp_jit_module_slot(m, name) : NULL))
        return tp_fail(TP_ERR_RUNTIME, "no '%s' in the traced module", name);
    tp_node *old = set_after(f->graph, object == f->self ? f->last_input : object);
    tp_node *n = tp_jit_get_attr(f->graph, &f->names, object, name, tp_jit_type_of_member((*slot)->value));
    f->graph->insert = old;
    return n;
}

/* The chain of prim::GetAttr that reads the path of `of` (relative to the frame's module), each link once. */
static tp_node *read_path(tp_jit_trace *t, frame *f, tp_jit_value of)
{
    const char *path = t->values.item[of].path;
    const tp_jit_module *m = f->module;
    tp_node *object = f->self;
    tp_text prefix = { 0 };
    for (const char *at = path + (*f->path ? strlen(f->path) + 1 : 0); object;) {
        size_t length = strcspn(at, ".");
        const char *upto = path;
        tp_jit_value id = of;
        const tp_jit_slot *slot = NULL;
        if (at[length]) {
            prefix.length = 0;
            tp_text_put(&prefix, path, (size_t)(at - path) + length);
            upto = tp_text_read(&prefix);
            id = prefix.failed ? 0 : tp_jit_trace_path(t, upto);
        }
        tp_node *known = id ? node_in(t, f, id) : NULL;
        if (known) {
            object = known;
            slot = m ? tp_jit_module_slot(m, upto + (at - path)) : NULL;
        } else if (!id || !(object = read_member(f, object, m, upto + (at - path), &slot)) || !put_node(t, f, id, object)) {
            object = NULL;
        }
        if (!at[length])
            break;
        m = slot ? tp_jit_as_module(slot->value) : NULL;
        at += length + 1;
    }
    tp_text_fini(&prefix);
    return object;
}

/* One more at the end of a list of crossings. */
static bool cross(tp_jit_trace *t, tp_jit_crossing **first, tp_jit_crossing **last, uint32_t *count, tp_jit_crossing c)
{
    tp_jit_crossing *kept = tp_arena_take(&t->arena, sizeof *kept);
    if (!kept)
        return false;
    *kept = c;
    *(*last ? &(*last)->next : first) = kept;
    *last = kept;
    ++*count;
    return true;
}

/* From the frame around: one more input here. */
static tp_node *take_in(tp_jit_trace *t, frame *f, tp_jit_value id)
{
    tp_node *outside = tp_jit_frame_resolve(t, f->parent, id);
    if (!outside)
        return NULL;
    tp_node *old = set_after(f->graph, f->last_input);
    tp_node *n = tp_jit_input(f->graph, &f->names, tp_jit_note_of(outside)->name, tp_jit_type_ref(tp_jit_type_of(outside)));
    f->graph->insert = old;
    if (!n || !cross(t, &f->input, &f->last_taken, &f->input_count, (tp_jit_crossing){ .value = id }) || !put_node(t, f, id, n))
        return NULL;
    return f->last_input = n;
}

/* A second result: the node that was the call and its result stays the result, since others may have it in hand; the call
 * is a new one before it. */
static bool spread(frame *inside)
{
    frame *f = inside->parent;
    tp_node *one = inside->call, *old = f->graph->insert;
    f->graph->insert = one;
    tp_node *call = tp_jit_prim(f->graph, &f->names, "prim::CallMethod", one->arg, one->arg_count, one->keyword_count,
                                tp_jit_simple(TP_JIT_ANY_TENSOR));
    f->graph->insert = old;
    if (!call)
        return false;
    tp_jit_note_of(call)->number = inside->call_number;
    f->names.next--;
    inside->call = call;
    tp_node_set_target(one, tp_target_name("prim::Result"));
    return tp_node_set_args(one, (tp_value[]){ tp_of_node(call), tp_int(0) }, 2, 0);
}

/* From a frame inside, which has returned: one more result of its call. */
static tp_node *take_out(tp_jit_trace *t, frame *f, frame *inside, tp_jit_value id)
{
    tp_node *made = tp_jit_frame_resolve(t, inside, id), *n = inside->call;
    uint32_t index = inside->output_count;
    if (!made)
        return NULL;
    if (!index) {
        tp_jit_note_of(n)->number = f->names.next++;
    } else if (index > 1 || spread(inside)) {
        tp_node *old = set_after(f->graph, inside->last_given->outside);
        n = tp_jit_result(f->graph, &f->names, inside->call, index, tp_jit_simple(TP_JIT_ANY_TENSOR));
        f->graph->insert = old;
    } else {
        return NULL;
    }
    tp_jit_crossing c = { .value = id, .inside = made, .outside = n };
    return n && cross(t, &inside->output, &inside->last_given, &inside->output_count, c) && put_node(t, f, id, n) ? n : NULL;
}

tp_node *tp_jit_frame_resolve(tp_jit_trace *t, frame *f, tp_jit_value id)
{
    tp_node *known = id ? node_in(t, f, id) : NULL;
    if (!id || known)
        return known;
    const tp_jit_traced *v = &t->values.item[id];
    if (v->path)
        return starts_with_path(v->path, f->path) ? read_path(t, f, id) : take_in(t, f, id);
    frame *inside = v->frame;
    while (inside->depth > f->depth + 1)
        inside = inside->parent;
    return inside->depth == f->depth + 1 && inside->parent == f ? take_out(t, f, inside, id) : take_in(t, f, id);
}

/* ---- frames from outside ---- */
bool tp_jit_trace_push(tp_jit_trace *t, const char *path)
{
    if (t->flat || !t->root)
        return true;
    frame *parent = t->top;
    tp_jit_value id = tp_jit_trace_path(t, path);
    frame *f = id ? tp_jit_frame_new(t, parent, t->values.item[id].path) : NULL;
    tp_node *module = f ? tp_jit_frame_resolve(t, parent, id) : NULL;
    tp_value arg[3] = { tp_of_node(module), tp_none(), tp_none() }, name = module ? tp_value_string("forward", 7) : tp_none();
    if (tp_is_none(name) || !tp_jit_attr(arg + 1, "name", name))
        return false;
    f->call = tp_jit_prim(parent->graph, &parent->names, "prim::CallMethod", arg, 1, 1, tp_jit_simple(TP_JIT_ANY_TENSOR));
    tp_values_unref(arg + 1, 2);
    if (!f->call)
        return false;
    f->call_number = tp_jit_note_of(f->call)->number;
    t->top = f;
    return true;
}

void tp_jit_trace_pop(tp_jit_trace *t)
{
    if (t->top->parent)
        t->top = t->top->parent;
}

/* ---- the end ---- */
/* One result is the call itself; several are a tuple that the frame around takes apart. */
static bool finish_outputs(frame *f)
{
    tp_graph *g = f->graph, *outer = f->parent->graph;
    uint32_t count = f->output_count, k = 0;
    if (count == 0)
        return tp_jit_retype(f->call, tp_jit_simple(TP_JIT_NONE)) && tp_jit_output(g, tp_jit_constant(g, &f->names, tp_none(), NULL));
    if (count == 1)
        return tp_jit_output(g, f->output->inside);
    tp_value *item = tp_alloc_array(count, sizeof *item);
    tp_jit_type **type = tp_alloc_array(count, sizeof *type);
    bool ok = item && type;
    for (const tp_jit_crossing *c = f->output; ok && c; c = c->next, k++) {
        item[k] = tp_of_node(c->inside);
        type[k] = tp_jit_simple(TP_JIT_ANY_TENSOR);
    }
    tp_jit_type *tuple = ok ? tp_jit_tuple_new(type, count) : NULL;
    tp_node *made = tuple ? tp_jit_prim(g, &f->names, "prim::TupleConstruct", item, count, 0, tp_jit_type_ref(tuple)) : NULL;
    ok = made && tp_jit_output(g, made) && tp_jit_retype(f->call, tp_jit_type_ref(tuple));
    if (!ok)
        tp_jit_type_unref(tuple);
    tp_node *old = set_after(outer, f->call);
    tp_node *unpack = ok ? tp_jit_frame_several(f->parent, tp_jit_prim(outer, &f->parent->names, "prim::TupleUnpack",
                                                                       (tp_value[]){ tp_of_node(f->call) }, 1, 0, tuple), count) : NULL;
    outer->insert = old;
    for (const tp_jit_crossing *c = f->output; unpack && ok && c; c = c->next)
        ok = tp_node_set_arg(c->outside, 0, tp_of_node(unpack));
    tp_free(item);
    tp_free(type);
    return ok && unpack;
}

static bool finish_inputs(tp_jit_trace *t, frame *f)
{
    uint32_t count = f->input_count, k = 1;
    if (!count)
        return true;
    tp_value few[8], *arg = count + 3 <= TP_COUNT(few) ? few : tp_alloc_array(count + 3, sizeof *arg);
    if (!arg)
        return false;
    bool ok = true;
    arg[0] = f->call->arg[0];
    for (const tp_jit_crossing *c = f->input; ok && c; c = c->next) {
        tp_node *n = tp_jit_frame_resolve(t, f->parent, c->value);
        ok = n;
        arg[k++] = tp_of_node(n);
    }
    memcpy(arg + count + 1, f->call->arg + 1, 2 * sizeof *arg);     /* its attribute, borrowed: it is the call's own */
    ok = ok && tp_node_set_args(f->call, arg, count + 1, 1);
    if (arg != few)
        tp_free(arg);
    return ok;
}

/* forward, forward1, forward2 … as often as the module was called. */
static bool define_method(frame *f)
{
    char name[32] = "forward";
    int again = 0;
    while (tp_jit_module_method(f->module, name))
        snprintf(name, sizeof name, "forward%d", ++again);
    tp_value text = again ? tp_value_string(name, strlen(name)) : tp_none();
    bool ok = !again || (!tp_is_none(text) && tp_node_set_arg(f->call, f->call->arg_count, text));
    tp_value_unref(text);
    tp_jit_function *made = ok && tp_jit_eliminate_dead(f->graph) ? tp_jit_function_new(name, f->graph, true) : NULL;
    ok = made && tp_jit_module_define(f->module, made);
    tp_jit_function_unref(made);
    return ok;
}

bool tp_jit_frames_finish(tp_jit_trace *t)
{
    /* Inside out: what a frame takes in may become a result of another of its parent's frames. */
    for (size_t i = t->frames.count; i-- > 1;) {
        if (!t->frames.item[i]->call)                   /* its push failed, and the program went on */
            return tp_fail_memory();
        if (!finish_inputs(t, t->frames.item[i]))
            return false;
    }
    for (size_t i = t->frames.count; i-- > 1;)
        if (!finish_outputs(t->frames.item[i]))
            return tp_jit_graph_failed(t->frames.item[0]->graph);
    for (size_t i = 1; i < t->frames.count; i++)
        if (!define_method(t->frames.item[i]))
            return false;
    return true;
}
