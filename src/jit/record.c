/* record.c - writing down calls: tensors as values, and one node for each outermost op. */
#include <stdio.h>

#include "grad/tape.h"
#include "jit/frame.h"

typedef tp_jit_frame frame;

static bool on_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);

/* ---- the trace ---- */
tp_jit_trace *tp_jit_trace_new(const tp_jit_host *host, tp_jit_module *root, bool flat, bool force_outplace)
{
    tp_jit_trace *t = tp_alloc_zero(sizeof *t);
    if (!t)
        return NULL;
    t->mount.call = on_call;
    t->host = *host;
    t->root = root;
    t->flat = flat;
    t->force_outplace = force_outplace;
    tp_arena_init(&t->arena);
    t->paths.arena = &t->arena;
    if (root)
        tp_count_up(&root->handle.refs);
    if (tp_array_push(&t->values, (tp_jit_traced){ 0 }) && (t->top = tp_jit_frame_new(t, NULL, "")))
        return t;
    tp_jit_trace_free(t);
    return NULL;
}

void tp_jit_trace_free(tp_jit_trace *t)
{
    if (!t)
        return;
    tp_jit_trace_stop(t);
    for (size_t i = 0; i < t->frames.count; i++)
        tp_graph_unref(t->frames.item[i]->graph);
    for (size_t i = 0; i < t->held.count; i++)
        tp_tensor_unref(t->held.item[i]);
    tp_array_fini(&t->frames);
    tp_array_fini(&t->values);
    tp_array_fini(&t->held);
    tp_map_fini(&t->tensors);
    tp_map_fini(&t->nodes);
    tp_arena_fini(&t->arena);
    tp_jit_module_unref(t->root);
    tp_free(t);
}

void tp_jit_trace_start(tp_jit_trace *t)
{
    if (!t->running)
        tp_mount_push(&t->mount, TP_LAYER_JIT);
    t->running = true;
}

void tp_jit_trace_stop(tp_jit_trace *t)
{
    if (t->running)
        tp_mount_pop(&t->mount);
    t->running = false;
}

void *tp_jit_trace_user(const tp_jit_trace *t) { return t->host.user; }

tp_jit_trace *tp_jit_trace_current(void)
{
    return tp_self.recorder && tp_self.recorder->call == on_call ? (tp_jit_trace *)(void *)tp_self.recorder : NULL;
}

/* ---- values ---- */
bool tp_jit_trace_bind(tp_jit_trace *t, tp_tensor *x, tp_jit_value v)
{
    uint64_t old;
    if (!v)
        return false;
    if (!tp_map_get(&t->tensors, (uint64_t)(uintptr_t)x, &old)) {
        if (!tp_array_push(&t->held, x))
            return false;
        tp_tensor_ref(x);       /* held, so its address is nobody else's while the trace lives */
    }
    return tp_map_put(&t->tensors, (uint64_t)(uintptr_t)x, v);
}

tp_jit_value tp_jit_trace_find(tp_jit_trace *t, const tp_tensor *x)
{
    uint64_t v;
    return tp_map_get(&t->tensors, (uint64_t)(uintptr_t)x, &v) ? (tp_jit_value)v : 0;
}

bool tp_jit_trace_attribute(tp_jit_trace *t, const char *path, tp_tensor *x)
{
    if (tp_jit_trace_find(t, x))
        return true;                            /* shared: its first name is its value */
    if (!t->flat)
        return tp_jit_trace_bind(t, x, tp_jit_frame_attribute(t, path));
    tp_jit_type *type = tp_jit_tensor_new(x);
    return type && tp_jit_trace_bind(t, x, tp_jit_trace_input(t, NULL, type));
}

tp_jit_value tp_jit_trace_input(tp_jit_trace *t, const char *name, tp_jit_type *type)
{
    frame *f = t->frames.item[0];
    tp_node *n = type ? tp_jit_input(f->graph, &f->names, name, type) : NULL;
    if (n)
        f->last_input = n;
    return type ? tp_jit_frame_define(t, f, n) : 0;
}

tp_jit_type *tp_jit_trace_type(const tp_jit_trace *t, tp_jit_value v)
{
    const tp_jit_traced *x = &t->values.item[v];
    return x->node ? tp_jit_type_of(x->node) : tp_jit_simple(TP_JIT_ANY_TENSOR);
}

/* ---- constants and primitives ---- */
static void place(tp_jit_trace *t, tp_node *n)
{
    tp_origin *o = n ? t->host.origin(t->host.user) : NULL;
    if (o)
        tp_node_set_origin(n, o);
    tp_origin_unref(o);
}

static tp_node *constant(tp_jit_trace *t, tp_value v, tp_jit_type *type)
{
    tp_node *n = tp_jit_constant(t->top->graph, &t->top->names, v, type);
    if (n && !tp_is_none(v))
        place(t, n);
    return n;
}

tp_jit_value tp_jit_trace_constant(tp_jit_trace *t, tp_value v)
{
    return tp_jit_frame_define(t, t->top, constant(t, v, NULL));
}

tp_jit_value tp_jit_trace_of(tp_jit_trace *t, tp_tensor *x)
{
    if (!x)
        return tp_jit_trace_constant(t, tp_none());
    tp_jit_value known = tp_jit_trace_find(t, x);
    if (known)
        return known;
    if (tp_requires_grad(x))
        return tp_fail(TP_ERR_RUNTIME, "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, "
                                       "or detaching the gradient"), 0;
    tp_value data = tp_of_tensor(x);
    tp_jit_value v = tp_jit_trace_constant(t, data);
    return tp_jit_trace_bind(t, x, v) ? v : 0;
}

static tp_node *prim(tp_jit_trace *t, const char *kind, const tp_value *arg, uint32_t count, uint32_t keywords, tp_jit_type *type)
{
    return tp_jit_prim(t->top->graph, &t->top->names, kind, arg, count, keywords, type);
}

enum { MOST_ARGS = 64 };

static bool resolve_all(tp_jit_trace *t, const tp_jit_value *v, uint32_t count, tp_value *out)
{
    for (uint32_t i = 0; i < count; i++) {
        tp_node *n = tp_jit_frame_resolve(t, t->top, v[i]);
        if (!n)
            return false;
        out[i] = tp_of_node(n);
    }
    return true;
}

tp_jit_value tp_jit_trace_prim(tp_jit_trace *t, const char *kind, const tp_jit_value *arg, uint32_t count, tp_jit_type *type)
{
    tp_value *node = type ? tp_alloc_array(count + 1, sizeof *node) : NULL;
    tp_jit_value v = 0;
    if (node && resolve_all(t, arg, count, node)) {
        tp_node *n = prim(t, kind, node, count, 0, type);
        if (n && strncmp(kind, "aten::", 6) == 0)
            place(t, n);
        v = tp_jit_frame_define(t, t->top, n);
    } else {
        tp_jit_type_unref(type);
    }
    tp_free(node);
    return v;
}

tp_jit_value tp_jit_trace_op(tp_jit_trace *t, const tp_op *op, const tp_jit_value *arg, tp_jit_type *type)
{
    tp_value node[MOST_ARGS];
    if (!type || !resolve_all(t, arg, op->arg_count, node)) {
        tp_jit_type_unref(type);
        return 0;
    }
    tp_node *n = tp_jit_call(t->top->graph, &t->top->names, op, node, op->arg_count, type);
    place(t, n);
    return tp_jit_frame_define(t, t->top, n);
}

bool tp_jit_trace_unpack(tp_jit_trace *t, const char *kind, tp_jit_value v, tp_jit_type *const *type, uint32_t count, tp_jit_value *results)
{
    frame *f = t->top;
    tp_node *from = tp_jit_frame_resolve(t, f, v);
    tp_jit_type *tuple = from ? tp_jit_tuple_new(type, count) : NULL;
    tp_node *n = tuple ? tp_jit_frame_several(f, prim(t, kind, (tp_value[]){ tp_of_node(from) }, 1, 0, tuple), count) : NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!n || !(results[i] = tp_jit_frame_define(t, f, tp_jit_result(f->graph, &f->names, n, i, tp_jit_type_ref(type[i])))))
            return false;
    return n;
}

/* The attribute `name`, for the keywords of a node. */
static bool name_attr(tp_value pair[2], const char *name)
{
    tp_value text = tp_value_string(name, strlen(name));
    return !tp_is_none(text) && tp_jit_attr(pair, "name", text);
}

tp_jit_value tp_jit_trace_call(tp_jit_trace *t, const char *method, const tp_jit_value *arg, uint32_t count, tp_jit_type *type)
{
    tp_value node[MOST_ARGS + 2];
    tp_jit_value v = 0;
    bool ok = count <= MOST_ARGS && resolve_all(t, arg, count, node) && (!method || name_attr(node + count, method));
    if (!ok) {
        tp_jit_type_unref(type);
        return 0;
    }
    v = tp_jit_frame_define(t, t->top, prim(t, method ? "prim::CallMethod" : "prim::CallFunction", node, count, method ? 1 : 0, type));
    if (method)
        tp_values_unref(node + count, 2);
    return v;
}

tp_jit_value tp_jit_trace_python(tp_jit_trace *t, tp_handle *callable, const char *name, bool inplace, const tp_value *arg, uint32_t count,
                                 tp_jit_type *type)
{
    tp_value node[MOST_ARGS + 4];
    bool ok = count <= MOST_ARGS && type;
    for (uint32_t i = 0; ok && i < count; i++) {
        node[i] = arg[i];
        if (arg[i].mark) {
            tp_node *n = tp_jit_frame_resolve(t, t->top, arg[i].mark);
            ok = n;
            node[i] = tp_of_node(n);
        }
    }
    if (!ok || !name_attr(node + count, name)) {
        tp_jit_type_unref(type);
        return 0;
    }
    tp_node *n = NULL;
    if (tp_jit_attr(node + count + 2, "inplace", tp_int(inplace))) {
        n = prim(t, "^", node, count, 2, type);
        tp_values_unref(node + count + 2, 2);
    }
    tp_values_unref(node + count, 2);
    if (n) {
        tp_node_set_target(n, tp_target_handle(callable));
        place(t, n);
    }
    return tp_jit_frame_define(t, t->top, n);
}

/* ---- arguments of an op ---- */
/* The value of a tensor argument, named after the variable that holds it. */
static tp_node *tensor_node(tp_jit_trace *t, tp_tensor *x)
{
    tp_jit_value id = tp_jit_trace_of(t, x);
    tp_node *n = tp_jit_frame_resolve(t, t->top, id);
    if (!n)
        return NULL;
    tp_jit_traced *made = &t->values.item[id];
    if (!made->node || tp_jit_note_of(made->node)->name || made->node->kind == TP_PLACEHOLDER || tp_jit_is(made->node, "prim::Constant"))
        return n;
    const char *name = t->host.name(t->host.user, x);
    return !name || tp_jit_rename(&made->frame->names, made->node, name) ? n : NULL;
}

/* A number read from a traced tensor, as the slot wants it. */
static tp_node *traced_number(tp_jit_trace *t, const tp_arg *a, tp_value v)
{
    static const struct { const char *kind; tp_jit_kind type; } into[] = {
        [TP_TYPE_INT] = { "aten::Int", TP_JIT_INT }, [TP_TYPE_SYMINT] = { "aten::Int", TP_JIT_INT },
        [TP_TYPE_FLOAT] = { "aten::Float", TP_JIT_FLOAT }, [TP_TYPE_BOOL] = { "aten::Bool", TP_JIT_BOOL },
        [TP_TYPE_SCALAR] = { "aten::ScalarImplicit", TP_JIT_NUMBER },
    };
    tp_node *from = tp_jit_frame_resolve(t, t->top, v.mark);
    if (!from || a->type >= TP_COUNT(into) || !into[a->type].kind)
        return from;
    return prim(t, into[a->type].kind, (tp_value[]){ tp_of_node(from) }, 1, 0, tp_jit_simple(into[a->type].type));
}

static tp_node *single_node(tp_jit_trace *t, const tp_arg *a, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tensor_node(t, v.tensor);
    if (v.mark && tp_is_number(v))
        return traced_number(t, a, v);
    if (a->type == TP_TYPE_TENSOR && tp_is_number(v)) {
        tp_dtype d = v.tag == TP_FLOAT ? TP_f64 : v.tag == TP_BOOL ? TP_b8 : v.tag == TP_COMPLEX ? TP_c128 : TP_i64;
        tp_jit_type *type = tp_jit_scalar_tensor_new(d, 0);
        return type ? constant(t, v, type) : NULL;
    }
    return constant(t, v, NULL);
}

static tp_node *argument_node(tp_jit_trace *t, const tp_arg *a, tp_value v)
{
    if (v.tag != TP_LIST && v.tag != TP_TUPLE)
        return single_node(t, a, v);
    tp_arg plain = *a;
    plain.optional = false;
    tp_value few[16], *item = v.list->count > 16 ? tp_alloc_array(v.list->count, sizeof *item) : few;
    bool ok = item;
    for (uint32_t i = 0; ok && i < v.list->count; i++) {
        tp_node *n = single_node(t, a, v.list->item[i]);
        ok = n;
        item[i] = tp_of_node(n);
    }
    tp_jit_type *type = ok ? tp_jit_type_of_arg(&plain) : NULL;
    tp_node *n = type ? prim(t, "prim::ListConstruct", item, v.list->count, 0, type) : NULL;
    if (item != few)
        tp_free(item);
    return n;
}

/* ---- results of an op ---- */
static bool bind_list(tp_jit_trace *t, tp_jit_value list, tp_value v)
{
    uint32_t count = v.list->count;
    tp_jit_type **type = tp_alloc_array(count + 1, sizeof *type);
    tp_jit_value *item = tp_alloc_array(count + 1, sizeof *item);
    bool ok = type && item;
    uint32_t typed = 0;
    while (ok && typed < count)
        ok = (type[typed] = v.list->item[typed].tag == TP_TENSOR ? tp_jit_tensor_new(v.list->item[typed].tensor) : tp_jit_simple(TP_JIT_ANY_TENSOR)) && ++typed;
    ok = ok && tp_jit_trace_unpack(t, "prim::ListUnpack", list, type, count, item);
    for (uint32_t i = 0; ok && i < count; i++)
        ok = v.list->item[i].tag != TP_TENSOR || tp_jit_trace_bind(t, v.list->item[i].tensor, item[i]);
    for (uint32_t i = 0; i < typed; i++)
        tp_jit_type_unref(type[i]);
    tp_free(type);
    tp_free(item);
    return ok;
}

static tp_jit_type *result_type(const tp_op *op, int i, tp_value v)
{
    return v.tag == TP_TENSOR ? tp_jit_tensor_new(v.tensor) : tp_jit_type_of_arg(&op->result[i]);
}

static bool bind_result(tp_jit_trace *t, tp_jit_value id, tp_value v)
{
    if (!id)
        return false;
    if (v.tag == TP_TENSOR)
        return tp_jit_trace_bind(t, v.tensor, id);
    return v.tag != TP_LIST || !v.list->count || v.list->item[0].tag != TP_TENSOR || bind_list(t, id, v);
}

/* The node stands before its results are known: it was made before the call, for the call may write to its arguments. */
static bool bind_results(tp_jit_trace *t, tp_node *n, const tp_op *op, const tp_value *result)
{
    frame *f = t->top;
    if (op->result_count == 1)
        return tp_jit_retype(n, result_type(op, 0, result[0])) && bind_result(t, tp_jit_frame_define(t, f, n), result[0]);
    f->names.next = tp_jit_note_of(n)->number + 1;
    tp_jit_frame_several(f, n, op->result_count);
    for (int i = 0; i < op->result_count; i++) {
        tp_jit_type *type = result_type(op, i, result[i]);
        tp_node *one = type ? tp_jit_result(f->graph, &f->names, n, (uint32_t)i, type) : NULL;
        if (!bind_result(t, tp_jit_frame_define(t, f, one), result[i]))
            return false;
    }
    return true;
}

/* ---- in place, recorded as if not ---- */
static bool warn_shared(tp_jit_trace *t, const tp_op *op, const tp_tensor *x)
{
    char text[512];
    if (atomic_load(&x->storage->refs) <= 1)
        return true;
    snprintf(text, sizeof text, "There are %d live references to the data region being modified when tracing in-place operator %s. "
             "This might cause the trace to be incorrect, because all other views that also reference this data will not reflect "
             "this change in the trace! On the other hand, if all other views use the same memory chunk, but are disjoint (e.g. "
             "are outputs of torch.split), this might still be safe.", (int)atomic_load(&x->storage->refs), op->name);
    return t->host.warn(t->host.user, text);
}

/* What is written down for a writer: itself, or what computes the same without writing. Arguments beyond its own are given
 * in `more`: options of full_like and zeros_like, all none. */
typedef struct written {
    const tp_op *op;
    bool swap;                      /* copy_(self, src): expand_as(src, self) */
} written;

static bool choose(tp_jit_trace *t, const tp_op *op, const tp_value *arg, written *out)
{
    *out = (written){ op, false };
    if (strcmp(op->name, "detach_") == 0) {
        out->op = tp_op_find("aten", "detach", "");
        return true;
    }
    if (!t->force_outplace || op->variant != TP_INPLACE || arg[0].tag != TP_TENSOR)
        return true;
    if (!warn_shared(t, op, arg[0].tensor))
        return false;
    const tp_op *other = strcmp(op->name, "fill_") == 0 ? tp_op_find("aten", "full_like", "")
                       : strcmp(op->name, "zero_") == 0 ? tp_op_find("aten", "zeros_like", "")
                       : strcmp(op->name, "copy_") == 0 ? tp_op_find("aten", "expand_as", "") : op->base;
    out->swap = other && strcmp(op->name, "copy_") == 0;
    if (other)
        out->op = other;
    return true;
}

/* ---- the call ---- */
/* A factory's device and pin_memory are written down as they were meant: a replay must not follow another default. */
static tp_value where_made(const tp_op *op, int i)
{
    const tp_arg *a = &op->arg[i];
    if (op->arg[0].type == TP_TYPE_TENSOR)
        return tp_none();
    if (a->type == TP_TYPE_DEVICE)
        return tp_of_device((tp_device){ TP_CPU, -1 });
    return strcmp(a->name, "pin_memory") == 0 ? tp_bool(false) : tp_none();
}

static tp_node *record(tp_jit_trace *t, const tp_op *op, const tp_value *arg)
{
    written w;
    tp_value node[MOST_ARGS];
    if (!choose(t, op, arg, &w))
        return NULL;
    for (int i = 0; i < w.op->arg_count; i++) {
        tp_value v = w.swap ? arg[1 - i] : i < op->arg_count ? arg[i] : tp_arg_default(&w.op->arg[i]);
        if (op->kind == TP_LIKE_FACTORY && tp_is_none(v))
            v = where_made(op, i);
        tp_node *n = argument_node(t, &w.op->arg[i], v);
        if (!n)
            return tp_jit_graph_failed(t->top->graph);
        node[i] = tp_of_node(n);
    }
    tp_node *n = tp_jit_call(t->top->graph, &t->top->names, w.op, node, w.op->arg_count, tp_jit_simple(TP_JIT_ANY_TENSOR));
    place(t, n);
    return n;
}

static bool on_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_jit_trace *t = (tp_jit_trace *)(void *)m;
    tp_node *n = record(t, op, arg);
    if (!n || !tp_mount_next(m, op, arg, result))
        return false;
    if (bind_results(t, n, op, result))
        return true;
    tp_values_unref(result, op->result_count);
    return false;
}

/* ---- the end ---- */
tp_graph *tp_jit_trace_finish(tp_jit_trace *t, tp_jit_value result)
{
    frame *root = t->frames.item[0];
    t->top = root;
    tp_node *n = result ? tp_jit_frame_resolve(t, root, result) : tp_jit_constant(root->graph, &root->names, tp_none(), NULL);
    if (!n || !tp_jit_output(root->graph, n))
        return tp_jit_graph_failed(root->graph);
    if (!tp_jit_frames_finish(t))
        return NULL;
    return tp_jit_eliminate_dead(root->graph) && tp_graph_check(root->graph) ? tp_graph_ref(root->graph) : NULL;
}
