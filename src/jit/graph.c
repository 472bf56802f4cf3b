/* graph.c - notes and builders of jit graphs. */
#include "jit/graph.h"

#include <ctype.h>
#include <stdio.h>

#include "base/alloc.h"

/* ---- notes ---- */
static void note_free(tp_handle *h)
{
    tp_jit_note *note = (tp_jit_note *)(void *)h;
    tp_jit_type_unref(note->type);
    tp_free(note->name);
    if (note->scope)
        tp_value_unref((tp_value){ .tag = TP_STRING, .string = note->scope });
}

static bool note_equal(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t note_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }

static bool note_repr(const tp_handle *h, tp_text *out)
{
    tp_jit_type_print(((const tp_jit_note *)(const void *)h)->type, out);
    return !out->failed;
}

static const tp_handle_type note_type = { .free = note_free, .equal = note_equal, .hash = note_hash, .repr = note_repr };

/* Hangs a note at a fresh node; takes the type. */
static tp_node *annotate(tp_node *n, tp_jit_names *names, tp_jit_type *type)
{
    tp_jit_note *note = n && type ? tp_arena_take(&n->graph->arena, sizeof *note) : NULL;
    if (!note) {
        tp_jit_type_unref(type);
        if (n && n->graph->failed == TP_ERR_NONE)
            n->graph->failed = TP_ERR_MEMORY;
        return NULL;
    }
    *note = (tp_jit_note){ .handle.type = &note_type, .type = type, .number = names->next++ };
    atomic_init(&note->handle.refs, 1);
    n->type = &note->handle;
    return n;
}

bool tp_jit_retype(tp_node *n, tp_jit_type *type)
{
    if (!type)
        return false;
    tp_jit_type_unref(tp_jit_note_of(n)->type);
    tp_jit_note_of(n)->type = type;
    return true;
}

const char *tp_jit_attr_text(const tp_node *n, const char *name)
{
    const tp_value *v = tp_node_keyword(n, name);
    return v && v->tag == TP_STRING ? v->string->text : NULL;
}

const char *tp_jit_kind_name(const tp_node *n, char out[160])
{
    if (n->target.kind == TP_TARGET_OP)
        snprintf(out, 160, "%s::%s", n->target.op->space, n->target.op->name);
    else if (n->target.kind == TP_TARGET_HANDLE)
        snprintf(out, 160, "^%s", tp_jit_attr_text(n, "name"));
    else
        snprintf(out, 160, "%s", n->kind == TP_CALL_FUNCTION ? n->target.name : n->kind == TP_OUTPUT ? "prim::Return" : "prim::Param");
    return out;
}

/* ---- names ---- */
void tp_jit_names_fini(tp_jit_names *names)
{
    tp_text_map_fini(&names->holder);
    tp_text_map_fini(&names->counter);
}

/* A legal name has letters, digits, dots and underscores, and starts with no digit. */
static void legal(const char *name, char out[128])
{
    size_t k = 0;
    if (isdigit((unsigned char)*name))
        out[k++] = '_';
    for (; *name && k < 120; name++)
        out[k++] = isalnum((unsigned char)*name) || *name == '_' || *name == '.' ? *name : '_';
    out[k] = 0;
}

bool tp_jit_rename(tp_jit_names *names, tp_node *n, const char *wish)
{
    char name[128];
    uint64_t old, last = (uint64_t)-1;
    legal(wish, name);
    if (tp_text_map_get(&names->holder, name, &old) && old) {
        /* The former holder steps aside. Odd numbers, since PyTorch spends one on the newcomer too. */
        tp_jit_note *former = (tp_jit_note *)(uintptr_t)old;
        char numbered[sizeof name + 24];
        size_t length = strlen(name);
        uint64_t taken;
        (void)tp_text_map_get(&names->counter, name, &last);
        memcpy(numbered, name, length);
        numbered[length] = '.';
        do
            (void)tp_text_digits(numbered + length + 1, last += 2);
        while (tp_text_map_get(&names->holder, numbered, &taken));
        char *moved = tp_alloc_text(numbered);
        if (!moved || !tp_text_map_put(&names->holder, moved, old) || !tp_text_map_put(&names->counter, name, last)) {
            tp_free(moved);
            return tp_fail_memory();
        }
        tp_free(former->name);
        former->name = moved;
    }
    char *own = tp_alloc_text(name);
    if (!own || !tp_text_map_put(&names->holder, name, (uint64_t)(uintptr_t)tp_jit_note_of(n))) {
        tp_free(own);
        return false;
    }
    tp_free(tp_jit_note_of(n)->name);
    tp_jit_note_of(n)->name = own;
    return true;
}

/* ---- element types ---- */
static const uint8_t numbers[TP_DTYPE_COUNT] = {        /* 8 is a half complex, 12 to 14 are quantised: we have none */
    [TP_u8] = 0, [TP_i8] = 1, [TP_i16] = 2, [TP_i32] = 3, [TP_i64] = 4, [TP_f16] = 5,
    [TP_f32] = 6, [TP_f64] = 7, [TP_c64] = 9, [TP_c128] = 10, [TP_b8] = 11, [TP_bf16] = 15,
};

int64_t tp_jit_dtype_number(int64_t dtype)
{
    return dtype >= 0 && dtype < TP_DTYPE_COUNT ? numbers[dtype] : dtype;
}

tp_dtype tp_jit_dtype_numbered(int64_t number)
{
    for (int d = 0; d < TP_DTYPE_COUNT; d++)
        if (numbers[d] == number)
            return (tp_dtype)d;
    return TP_DTYPE_NONE;
}

/* ---- builders ---- */

tp_node *tp_jit_input(tp_graph *g, tp_jit_names *names, const char *name, tp_jit_type *type)
{
    tp_node *n = tp_node_new(g, TP_PLACEHOLDER, tp_target_name(name ? name : "v"), NULL, 0, 0, tp_nameless);
    n = annotate(n, names, type);
    return n && (!name || tp_jit_rename(names, n, name)) ? n : NULL;
}

tp_node *tp_jit_call(tp_graph *g, tp_jit_names *names, const tp_op *op, const tp_value *arg, uint32_t count, tp_jit_type *type)
{
    return annotate(tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(op), arg, count, 0, tp_nameless), names, type);
}

tp_node *tp_jit_prim(tp_graph *g, tp_jit_names *names, const char *kind, const tp_value *arg, uint32_t count, uint32_t keywords,
                     tp_jit_type *type)
{
    return annotate(tp_node_new(g, TP_CALL_FUNCTION, tp_target_name(kind), arg, count, keywords, tp_nameless), names, type);
}

bool tp_jit_attr(tp_value pair[2], const char *name, tp_value v)
{
    pair[0] = tp_value_string(name, strlen(name));
    pair[1] = v;
    if (!tp_is_none(pair[0]))
        return true;
    tp_value_unref(v);
    pair[1] = tp_none();
    return false;
}

tp_jit_type *tp_jit_type_of_value(tp_value v)
{
    switch ((tp_tag)v.tag) {
    case TP_NONE: return tp_jit_simple(TP_JIT_NONE);
    case TP_BOOL: return tp_jit_simple(TP_JIT_BOOL);
    case TP_INT:
    case TP_DTYPE_VALUE:
    case TP_LAYOUT:
    case TP_FORMAT_VALUE: return tp_jit_simple(TP_JIT_INT);
    case TP_FLOAT: return tp_jit_simple(TP_JIT_FLOAT);
    case TP_COMPLEX: return tp_jit_simple(TP_JIT_COMPLEX);
    case TP_STRING: return tp_jit_simple(TP_JIT_STR);
    case TP_DEVICE: return tp_jit_simple(TP_JIT_DEVICE);
    case TP_GENERATOR: return tp_jit_simple(TP_JIT_GENERATOR);
    case TP_TENSOR: return tp_jit_tensor_new(v.tensor);
    case TP_LIST: return tp_jit_list_new(v.list->count ? tp_jit_type_of_value(v.list->item[0]) : tp_jit_simple(TP_JIT_INT));
    case TP_HANDLE: return tp_jit_simple(TP_JIT_FUNCTION);
    default: return tp_jit_simple(TP_JIT_ANY);
    }
}

tp_node *tp_jit_constant(tp_graph *g, tp_jit_names *names, tp_value v, tp_jit_type *type)
{
    if (!type)
        type = tp_jit_type_of_value(v);
    if (tp_is_none(v))
        return tp_jit_prim(g, names, "prim::Constant", NULL, 0, 0, type);
    tp_value pair[2];
    tp_value kept = tp_value_ref(v);
    if ((tp_is_none(kept)) || !tp_jit_attr(pair, "value", kept)) {
        tp_jit_type_unref(type);
        if (g->failed == TP_ERR_NONE)
            g->failed = TP_ERR_MEMORY;
        return NULL;
    }
    tp_node *n = tp_jit_prim(g, names, "prim::Constant", pair, 0, 1, type);
    tp_values_unref(pair, 2);
    return n;
}

tp_node *tp_jit_result(tp_graph *g, tp_jit_names *names, tp_node *of, uint32_t index, tp_jit_type *type)
{
    return tp_jit_prim(g, names, "prim::Result", (tp_value[]){ tp_of_node(of), tp_int(index) }, 2, 0, type);
}

tp_node *tp_jit_get_attr(tp_graph *g, tp_jit_names *names, tp_node *self, const char *name, tp_jit_type *type)
{
    tp_value arg[3] = { tp_of_node(self) };
    tp_value text = tp_value_string(name, strlen(name));
    if (tp_is_none(text) || !tp_jit_attr(&arg[1], "name", text)) {
        tp_jit_type_unref(type);
        g->failed = TP_ERR_MEMORY;
        return NULL;
    }
    tp_node *n = tp_jit_prim(g, names, "prim::GetAttr", arg, 1, 1, type);
    tp_values_unref(arg + 1, 2);
    return n && tp_jit_rename(names, n, name) ? n : NULL;
}

tp_node *tp_jit_output(tp_graph *g, const tp_node *result)
{
    tp_value v = tp_of_node(result);
    return result ? tp_node_new(g, TP_OUTPUT, tp_target_name("output"), &v, 1, 0, tp_nameless) : NULL;
}
