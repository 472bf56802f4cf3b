/* inline.c - calls of methods and functions replaced by what they call. */
#include "jit/run.h"

typedef struct inlining {
    tp_graph *out;                  /* counted */
    tp_jit_names names;
    tp_value  scope;                /* owned text, or none: which module's method the nodes come from */
} inlining;

/* What is known of a value while inlining: the module object it is, or NULL. */
typedef struct object {
    tp_node *node;
    const tp_jit_module *module;
    const char *path;               /* arena of the new graph: where the module stands, NULL: it is the root */
} object;

static tp_value mapped(tp_node *n, void *data)
{
    return tp_of_node(((object *)data)[n->id].node);
}

static bool copy_into(inlining *in, const tp_graph *g, const object *arg, uint32_t count, object *result, int depth);

static tp_node *copy_node(inlining *in, const tp_node *n, object *map)
{
    uint32_t count = n->arg_count + 2 * n->keyword_count, done = 0;
    tp_value *arg = tp_alloc_array(count + 1, sizeof *arg);
    tp_node *copy = NULL;
    while (arg && done < count && tp_value_map_nodes(n->arg[done], mapped, map, &arg[done]))
        done++;
    if (arg && done == count) {
        tp_jit_type *type = tp_jit_type_ref(tp_jit_type_of(n));
        copy = n->target.kind == TP_TARGET_OP ? tp_jit_call(in->out, &in->names, n->target.op, arg, n->arg_count, type)
                                              : tp_jit_prim(in->out, &in->names, n->target.kind == TP_TARGET_NAME ? n->target.name : "^", arg,
                                                            n->arg_count, n->keyword_count, type);
    }
    tp_values_unref(arg, done);
    tp_free(arg);
    if (!copy)
        return NULL;
    if (n->target.kind == TP_TARGET_HANDLE)
        tp_node_set_target(copy, n->target);
    tp_jit_note_of(copy)->results = tp_jit_note_of(n)->results;
    if (tp_jit_note_of(n)->results)
        in->names.next--;
    tp_node_set_origin(copy, n->origin);
    if (n->origin && in->scope.tag == TP_STRING)
        tp_jit_note_of(copy)->scope = tp_value_ref(in->scope).string;
    const char *name = tp_jit_note_of(n)->name;
    return !name || tp_jit_rename(&in->names, copy, name) ? copy : NULL;
}

static bool inline_call(inlining *in, const tp_node *n, tp_jit_function *f, uint32_t from, object *map, object *result, int depth)
{
    uint32_t count = n->arg_count - from;
    object *arg = tp_alloc_array(count + 1, sizeof *arg);
    if (!arg)
        return false;
    for (uint32_t i = 0; i < count; i++)
        arg[i] = map[tp_as_node(n->arg[i + from])->id];
    bool ok = copy_into(in, f->graph, arg, count, result, depth + 1);
    tp_free(arg);
    return ok;
}

/* Enters the method of a module: "__module.seq", then "__module.seq/__module.seq.0". Gives the scope around it. */
static bool enter_scope(inlining *in, const char *path, tp_value *around)
{
    tp_text text = { 0 };
    *around = in->scope;
    if (in->scope.tag == TP_STRING)
        tp_text_add(&text, "%s/", in->scope.string->text);
    tp_text_add(&text, "__module.%s", path);
    tp_value inside = text.failed ? tp_none() : tp_value_string(tp_text_read(&text), text.length);
    tp_text_fini(&text);
    if (tp_is_none(inside))
        return false;
    in->scope = inside;
    return true;
}

static const char *path_below(inlining *in, const object *parent, const char *name)
{
    tp_text text = { 0 };
    if (parent->path)
        tp_text_add(&text, "%s.", parent->path);
    tp_text_add(&text, "%s", name);
    const char *path = text.failed ? NULL : tp_text_in(&in->out->arena, tp_text_read(&text), text.length);
    tp_text_fini(&text);
    return path;
}

static bool inline_method(inlining *in, const tp_node *n, tp_jit_function *f, object *map, object *to, int depth)
{
    const char *path = map[tp_as_node(n->arg[0])->id].path;
    tp_value around = in->scope;
    if (path && !enter_scope(in, path, &around))
        return false;
    bool ok = inline_call(in, n, f, 0, map, to, depth);
    if (path) {
        tp_value_unref(in->scope);
        in->scope = around;
    }
    return ok;
}

static bool inline_node(inlining *in, const tp_node *n, object *map, int depth)
{
    object *to = &map[n->id];
    *to = (object){ 0 };
    if (tp_jit_is(n, "prim::CallMethod")) {
        const tp_jit_module *m = map[tp_as_node(n->arg[0])->id].module;
        tp_jit_function *f = m ? tp_jit_module_method(m, tp_jit_attr_text(n, "name")) : NULL;
        if (f)
            return inline_method(in, n, f, map, to, depth);
    }
    if (tp_jit_is(n, "prim::CallFunction")) {
        const tp_value *v = tp_node_keyword(tp_as_node(n->arg[0]), "value");
        tp_jit_function *f = v ? tp_jit_as_function(*v) : NULL;
        if (f)
            return inline_call(in, n, f, 1, map, to, depth);
    }
    if (tp_jit_is(n, "prim::GetAttr")) {
        const tp_jit_module *m = map[tp_as_node(n->arg[0])->id].module;
        const tp_jit_slot *s = m ? tp_jit_module_slot(m, tp_jit_attr_text(n, "name")) : NULL;
        to->module = s ? tp_jit_as_module(s->value) : NULL;
        if (to->module && !(to->path = path_below(in, &map[tp_as_node(n->arg[0])->id], s->name)))
            return false;
    }
    /* A tuple that was made by an inlined call is taken apart at once. */
    const tp_node *of = tp_jit_is(n, "prim::Result") ? map[tp_as_node(n->arg[0])->id].node : NULL;
    if (of && tp_jit_is(of, "prim::TupleConstruct")) {
        *to = (object){ .node = tp_as_node(of->arg[n->arg[1].i]) };
        return true;
    }
    of = tp_jit_is(n, "prim::TupleUnpack") ? map[tp_as_node(n->arg[0])->id].node : NULL;
    if (of && tp_jit_is(of, "prim::TupleConstruct") && depth >= 0) {
        to->node = (tp_node *)of;
        return true;
    }
    return (to->node = copy_node(in, n, map));
}

static bool copy_into(inlining *in, const tp_graph *g, const object *arg, uint32_t count, object *result, int depth)
{
    if (depth > 200)
        return tp_fail(TP_ERR_RUNTIME, "calls nest too deeply to be inlined");
    object *map = tp_alloc_array(g->node_count + 1, sizeof *map);
    uint32_t input = 0;
    bool ok = map;
    *result = (object){ 0 };
    if (ok)
        tp_graph_each(g, n) {
            if (n->kind == TP_PLACEHOLDER) {
                ok = input < count;
                if (ok)
                    map[n->id] = arg[input++];
            } else if (n->kind == TP_OUTPUT) {
                *result = map[tp_as_node(n->arg[0])->id];
            } else {
                ok = inline_node(in, n, map, depth);
            }
            if (!ok)
                break;
        }
    tp_free(map);
    return ok;
}

tp_graph *tp_jit_inline(const tp_graph *g, const tp_jit_module *self)
{
    inlining in = { .out = tp_graph_new() };
    tp_array(object) arg = { 0 };
    bool ok = in.out;
    if (ok)
        tp_graph_each(g, n) {
            if (n->kind != TP_PLACEHOLDER)
                continue;
            object o = { .node = tp_jit_input(in.out, &in.names, NULL, tp_jit_type_ref(tp_jit_type_of(n))), .module = arg.count ? NULL : self };
            const char *name = tp_jit_note_of(n)->name;
            if (!(ok = o.node && (!name || tp_jit_rename(&in.names, o.node, name)) && tp_array_push(&arg, o)))
                break;
        }
    object result = { 0 };
    ok = ok && copy_into(&in, g, arg.item, (uint32_t)arg.count, &result, 0) && result.node && tp_graph_output(in.out, tp_of_node(result.node)) &&
         tp_jit_eliminate_dead(in.out);
    tp_array_fini(&arg);
    tp_jit_names_fini(&in.names);
    if (ok)
        return in.out;
    tp_graph_unref(in.out);
    return NULL;
}
