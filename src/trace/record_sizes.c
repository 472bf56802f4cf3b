/* record_sizes.c - sizes as nodes. */
#include "trace/record_sizes.h"

#include <string.h>

#include "ops/symbolic.h"
#include "sym/step.h"

enum { STRIDE_AT = TP_MAX_DIMS };

void tp_sizes_fini(tp_size_nodes *s)
{
    tp_map_fini(&s->known);
    tp_map_fini(&s->source);
    tp_array_fini(&s->sources);
}

bool tp_sizes_note_word(tp_size_nodes *s, tp_sym x, tp_node *n)
{
    return tp_map_put(&s->known, x.word, (uint64_t)(uintptr_t)n);
}

static bool note_source(tp_size_nodes *s, tp_sym x, tp_node *n, int dim)
{
    uint64_t there;
    if (!tp_sym_is_node(x) || tp_map_get(&s->source, x.word, &there))
        return true;
    return tp_array_reserve(&s->sources, s->sources.count + 1) && tp_map_put(&s->source, x.word, s->sources.count) &&
           tp_array_push(&s->sources, ((tp_size_source){ .node = n, .dim = (int8_t)dim }));
}

/* Sizes of every tensor may serve; strides and offset of inputs only, where a symbol may be found nowhere else. */
bool tp_sizes_note(tp_size_nodes *s, const tp_tensor *t, tp_node *n)
{
    if (!tp_tensor_is_symbolic(t))
        return true;
    for (int i = 0; i < t->ndim; i++)
        if (!note_source(s, tp_tensor_sym_size(t, i), n, i))
            return false;
    if (n->kind != TP_PLACEHOLDER)
        return true;
    for (int i = 0; i < t->ndim; i++)
        if (!note_source(s, tp_tensor_sym_stride(t, i), n, STRIDE_AT + i))
            return false;
    return note_source(s, tp_tensor_sym_offset(t), n, -1);
}

bool tp_sizes_prefer(tp_size_nodes *s, const tp_tensor *t, tp_node *n)
{
    bool ok = true;
    for (int i = 0; ok && tp_tensor_is_symbolic(t) && i < t->ndim; i++) {
        tp_sym x = tp_tensor_sym_size(t, i);
        if (!tp_sym_is_node(x) || tp_sym_is_symbol(x))
            continue;
        tp_map_remove(&s->source, x.word);
        ok = note_source(s, x, n, i);
    }
    return ok;
}

/* The first call that gives the tensor other sizes in place, may be NULL: what it had is read before. */
static tp_node *reshaped_by(const tp_node *n)
{
    for (uint32_t i = 0; i < n->user_count; i++) {
        const tp_node *user = n->user[i];
        const tp_op *op = user->kind == TP_CALL_FUNCTION && user->target.kind == TP_TARGET_OP ? user->target.op : NULL;
        if (op && op->variant == TP_INPLACE && (op->kind == TP_LIKE_VIEW || op->kind == TP_LIKE_METADATA))
            return n->user[i];
    }
    return NULL;
}

static tp_node *from_tensor(tp_graph *g, tp_size_source from)
{
    bool stride = from.dim >= STRIDE_AT;
    const tp_op *op = from.dim < 0 ? tp_op_find("aten", "sym_storage_offset", "") : tp_op_find("aten", stride ? "sym_stride" : "sym_size", "int");
    tp_value arg[2] = { tp_of_node(from.node), tp_int(stride ? from.dim - STRIDE_AT : from.dim) };
    if (!op)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "this build has no op that reads the size of a tensor");
    tp_node *n = tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(op), arg, from.dim < 0 ? 1 : 2, 0,
                             from.dim < 0 ? "sym_storage_offset_default" : stride ? "sym_stride_int" : "sym_size_int");
    tp_node *later = n ? reshaped_by(from.node) : NULL;
    if (later)
        tp_node_move_before(later, n);
    return n;
}

static tp_node *node_of(tp_size_nodes *s, tp_graph *g, tp_sym x, bool as_is);

static tp_value value_of(tp_size_nodes *s, tp_graph *g, tp_sym x, bool as_is)
{
    if (tp_sym_is_int(x))
        return tp_int(tp_sym_as_int(x));
    if (tp_sym_is_bool(x))
        return tp_bool(tp_sym_same(x, TP_SYM_TRUE));
    tp_sym symbol;
    double number;
    if (tp_sym_type_of(x) == TP_SYM_FLOAT && !tp_sym_free_symbols(x, &symbol, 1) && tp_sym_hint_float(x, &number))
        return tp_float(number);
    return tp_of_node(node_of(s, g, x, as_is));
}

/* A size that has become a number since is one. */
tp_value tp_sizes_value(tp_size_nodes *s, tp_graph *g, tp_sym x)
{
    return value_of(s, g, tp_sym_simplify(x), false);
}

tp_value tp_sizes_value_as_is(tp_size_nodes *s, tp_graph *g, tp_sym x)
{
    return value_of(s, g, x, true);
}

static tp_node *from_parts(tp_size_nodes *s, tp_graph *g, tp_sym x, bool as_is)
{
    tp_sym_step step;
    tp_value arg[4];
    tp_text text = { 0 };
    if (!tp_sym_last_step(x, &step))
        return NULL;
    static const char *const modules[] = { "_operator", "torch", "math", "builtins" };
    const tp_builtin *f = NULL;
    for (size_t i = 0; step.operation && !f && i < TP_COUNT(modules); i++)
        f = tp_builtin_find(modules[i], step.operation);
    bool rest = f && f->arity == step.count + 1;        /* round(x, None) */
    if (f && f->arity != step.count + rest)
        f = NULL;
    if (!f) {
        tp_sym_print(x, &text);
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, step.operation ? "a graph that computes the size %s" : "%s is not tracked with proxy: no input has it as a size",
                      tp_text_read(&text));
        tp_text_fini(&text);
        return NULL;
    }
    for (int i = 0; i < step.count; i++) {
        arg[i] = value_of(s, g, as_is ? step.operand[i] : tp_sym_simplify(step.operand[i]), as_is);
        if (arg[i].tag == TP_NODE && !arg[i].node)
            return NULL;
    }
    if (rest)
        arg[step.count] = tp_none();
    return tp_node_new(g, TP_CALL_FUNCTION, tp_target_builtin(f), arg, f->arity, 0, f->name);
}

static tp_node *node_of(tp_size_nodes *s, tp_graph *g, tp_sym x, bool as_is)
{
    uint64_t found;
    if (tp_map_get(&s->known, x.word, &found))
        return (tp_node *)(uintptr_t)found;
    tp_node *n = tp_map_get(&s->source, x.word, &found) ? from_tensor(g, s->sources.item[found]) : from_parts(s, g, x, as_is);
    if (!n)
        return NULL;
    tp_node_set_fact(n, tp_of_sym(x));
    return tp_sizes_note_word(s, x, n) ? n : NULL;
}

tp_node *tp_sizes_node(const tp_size_nodes *s, tp_sym x)
{
    uint64_t found;
    if (tp_map_get(&s->known, x.word, &found))
        return (tp_node *)(uintptr_t)found;
    return tp_map_get(&s->source, x.word, &found) ? s->sources.item[found].node : NULL;
}
