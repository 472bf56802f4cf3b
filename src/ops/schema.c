/* schema.c - reading a schema at run time: "scale.Tensor(Tensor(a!) self, float by=2.0, *, int[2]? pad=None) -> Tensor(a!)".
 *
 * The grammar is that of the op language (docs/op-language.md); opgen has the same reader in Python for *.op files. The op
 * and all its tables live in one arena that dies with it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "ops/derived.h"
#include "ops/dispatch.h"
#include "ops/registry.h"

enum { MOST_ARGS = 64 };

typedef struct runtime_op {
    tp_op    op;
    tp_rare  rare;
    tp_arena arena;
} runtime_op;

typedef struct reader {
    const char *text, *at;
    tp_arena   *arena;
    tp_arg      arg[MOST_ARGS], result[MOST_ARGS];
    int         arg_count, result_count, positional;
    struct { const char *from, *to; } number[MOST_ARGS];    /* defaults of floats, as they are written */
    int         number_count;
} reader;

static const struct { const char *name; uint8_t type; } type_names[] = {
    { "Tensor", TP_TYPE_TENSOR }, { "Scalar", TP_TYPE_SCALAR }, { "number", TP_TYPE_SCALAR }, { "SymInt", TP_TYPE_SYMINT },
    { "int", TP_TYPE_INT }, { "SymFloat", TP_TYPE_FLOAT }, { "float", TP_TYPE_FLOAT }, { "SymBool", TP_TYPE_BOOL },
    { "bool", TP_TYPE_BOOL }, { "str", TP_TYPE_STR }, { "ScalarType", TP_TYPE_DTYPE }, { "Layout", TP_TYPE_LAYOUT },
    { "Device", TP_TYPE_DEVICE }, { "MemoryFormat", TP_TYPE_FORMAT }, { "Generator", TP_TYPE_GENERATOR },
    { "Storage", TP_TYPE_STORAGE }, { "Dimname", TP_TYPE_DIMNAME }, { "Stream", TP_TYPE_STREAM }, { "Any", TP_TYPE_ANY },
};

static bool bad(const reader *r, const char *what)
{
    return tp_fail(TP_ERR_RUNTIME, "schema \"%s\": expected %s at \"%.20s\"", r->text, what, r->at);
}

static void spaces(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool word(reader *r, const char *w)
{
    spaces(r);
    size_t n = strlen(w);
    if (strncmp(r->at, w, n) != 0)
        return false;
    r->at += n;
    return true;
}

static const char *name(reader *r)
{
    spaces(r);
    const char *start = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    return r->at == start ? NULL : tp_text_in(r->arena, start, (size_t)(r->at - start));
}

/* (a), (a!), (a -> *), (a|b! -> c) */
static bool alias(reader *r, tp_arg *a)
{
    if (*r->at != '(')
        return true;
    r->at++;
    a->alias = (uint8_t)*r->at;
    while (*r->at && *r->at != ')')
        if (*r->at++ == '!')
            a->written = true;
    return *r->at++ == ')' || bad(r, "')' of an alias annotation");
}

static bool type(reader *r, tp_arg *a)
{
    const char *n = name(r);
    if (!n)
        return r->arena->failed ? false : bad(r, "a type");
    size_t i = 0;
    while (i < TP_COUNT(type_names) && strcmp(type_names[i].name, n) != 0)
        i++;
    a->type = i < TP_COUNT(type_names) ? type_names[i].type : TP_TYPE_ANY;
    if (!alias(r, a))
        return false;
    for (;;) {
        if (*r->at == '?') {
            r->at++;
            a->optional = true;
        } else if (*r->at == '[') {
            r->at++;
            a->list = true;
            a->items_optional = a->optional;
            a->optional = false;
            a->length = (uint8_t)strtol(r->at, (char **)&r->at, 10);
            if (*r->at++ != ']')
                return bad(r, "']'");
            if (!alias(r, a))
                return false;
        } else {
            return true;
        }
    }
}

/* A default stands in the arena: lists and strings with a count that nobody ever brings to zero. */
static bool list_in(tp_arena *arena, const tp_value *item, uint32_t count, tp_value *out)
{
    tp_list *l = tp_arena_take(arena, sizeof *l + count * sizeof *l->item);
    if (!l)
        return false;
    atomic_init(&l->refs, 1 << 30);
    l->count = count;
    memcpy(l->item, item, count * sizeof *item);
    *out = tp_of_list(l);
    return true;
}

/* PyTorch's number of an element type; it also counts types that we do not have. */
static bool numbered_dtype(const reader *r, long long number, tp_value *out)
{
    static const uint8_t dtype[] = { TP_u8, TP_i8, TP_i16, TP_i32, TP_i64, TP_f16, TP_f32, TP_f64, TP_DTYPE_NONE, TP_c64, TP_c128, TP_b8,
                                     TP_DTYPE_NONE, TP_DTYPE_NONE, TP_DTYPE_NONE, TP_bf16 };
    if (number < 0 || number >= (long long)TP_COUNT(dtype) || dtype[number] == TP_DTYPE_NONE)
        return bad(r, "the number of an element type");
    *out = tp_of_dtype((tp_dtype)dtype[number]);
    return true;
}

static bool literal(reader *r, const tp_arg *a, tp_value *out)
{
    spaces(r);
    if (word(r, "None"))
        *out = tp_none();
    else if (word(r, "True"))
        *out = tp_bool(true);
    else if (word(r, "False"))
        *out = tp_bool(false);
    else if (word(r, "contiguous_format"))
        *out = tp_of_format(TP_FORMAT_CONTIGUOUS);
    else if (word(r, "Mean"))
        *out = tp_int(1);
    else if (*r->at == '[') {
        tp_value item[MOST_ARGS];
        uint32_t n = 0;
        r->at++;
        while (spaces(r), *r->at && *r->at != ']' && n < MOST_ARGS) {
            if (!literal(r, a, &item[n++]))
                return false;
            (void)word(r, ",");
        }
        if (*r->at != ']')
            return bad(r, "']'");
        r->at++;
        return list_in(r->arena, item, n, out);
    } else if (*r->at == '"' || *r->at == '\'') {
        const char quote = *r->at++, *end = strchr(r->at, quote);
        size_t n = end ? (size_t)(end - r->at) : 0;
        tp_string *s = end ? tp_arena_take(r->arena, sizeof *s + n + 1) : NULL;
        if (!s)
            return end ? false : bad(r, "a closing quote");
        atomic_init(&s->refs, 1 << 30);
        s->length = (uint32_t)n;
        memcpy(s->text, r->at, n);
        s->text[n] = 0;
        r->at = end + 1;
        *out = (tp_value){ .tag = TP_STRING, .string = s };
    } else {
        char *after_int, *after_float;
        long long i = strtoll(r->at, &after_int, 10);
        double f = strtod(r->at, &after_float);
        if (after_float == r->at)
            return bad(r, "a default");
        bool whole = after_float == after_int && a->type != TP_TYPE_FLOAT;
        if (a->type == TP_TYPE_FLOAT && r->number_count < MOST_ARGS) {
            r->number[r->number_count].from = r->at;
            r->number[r->number_count++].to = after_float;
        }
        if (whole && a->type == TP_TYPE_DTYPE)
            return numbered_dtype(r, i, out) && (r->at = after_float);
        *out = !whole ? tp_float(f) : a->type == TP_TYPE_FORMAT ? tp_of_format((tp_format)i) : tp_int(i);
        r->at = after_float;
    }
    return true;
}

/* The default of an argument: one number for a T[n] stands for n of them. */
static bool fallback(reader *r, tp_arg *a)
{
    tp_value item[UINT8_MAX], *made = tp_arena_take(r->arena, sizeof *made);
    if (!made || !literal(r, a, made))
        return false;
    a->fallback = made;
    if (!a->length || !tp_is_number(*made))
        return true;
    for (int i = 0; i < a->length; i++)
        item[i] = *made;
    return list_in(r->arena, item, a->length, made);
}

/* A name was expected: either there is none, or no memory for it. */
static bool no_name(const reader *r, const char *what)
{
    return r->arena->failed ? false : bad(r, what);
}

static bool arguments(reader *r)
{
    bool keyword = false;
    r->positional = -1;
    if (!word(r, "("))
        return bad(r, "'('");
    while (!word(r, ")")) {
        if (r->arg_count == MOST_ARGS || !*r->at)
            return bad(r, "')'");
        if (word(r, "*")) {
            keyword = true;
            r->positional = r->arg_count;
        } else {
            tp_arg *a = &r->arg[r->arg_count++];
            *a = (tp_arg){ .keyword_only = keyword };
            if (!type(r, a))
                return false;
            if (!(a->name = name(r)))
                return no_name(r, "the name of an argument");
            if (word(r, "=") && !fallback(r, a))
                return false;
        }
        (void)word(r, ",");
    }
    if (r->positional < 0)
        r->positional = r->arg_count;
    return true;
}

static bool one_result(reader *r)
{
    tp_arg *a = &r->result[r->result_count++];
    *a = (tp_arg){ .name = "" };
    if (!type(r, a))
        return false;
    spaces(r);
    if (isalpha((unsigned char)*r->at) || *r->at == '_')
        return (a->name = name(r)) != NULL;
    return true;
}

static bool results(reader *r)
{
    if (!word(r, "->"))
        return bad(r, "'->'");
    if (!word(r, "("))
        return one_result(r);
    while (!word(r, ")")) {
        if (!*r->at || r->result_count == MOST_ARGS)
            return bad(r, "')'");
        if (!one_result(r))
            return false;
        (void)word(r, ",");
    }
    return true;
}

static const tp_arg *kept(tp_arena *arena, const tp_arg *arg, int count)
{
    tp_arg *copy = tp_arena_take_array(arena, (size_t)count, sizeof *copy);
    if (copy)
        memcpy(copy, arg, (size_t)count * sizeof *copy);
    return copy;
}

static bool no_kernel(const tp_op *op, const tp_value *arg, tp_value *result)
{
    char full[128];
    (void)arg, (void)result;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "Could not run '%s' with arguments from the 'CPU' backend: no kernel was registered for it", tp_op_full_name(op, full));
}

/* The text of a schema with its floats as every schema has them: 2. and 1.0000000000000001e-05. */
static const char *normal_text(const reader *r, const char *from)
{
    tp_text out = { 0 };
    for (int i = 0; i < r->number_count; i++) {
        double f = strtod(r->number[i].from, NULL);
        tp_text_add(&out, "%.*s", (int)(r->number[i].from - from), from);
        if (f == (double)(long long)f && f < 1e15 && f > -1e15)
            tp_text_add(&out, "%lld.", (long long)f);
        else
            tp_text_add(&out, "%.17g", f);
        from = r->number[i].to;
    }
    tp_text_add(&out, "%s", from);
    const char *text = out.failed ? NULL : tp_text_in(r->arena, tp_text_read(&out), out.length);
    tp_text_fini(&out);
    return text;
}

static bool fill(runtime_op *made, const char *space, const char *schema)
{
    tp_arena *arena = &made->arena;
    reader r = { .text = schema, .at = schema, .arena = arena };
    tp_op *op = &made->op;
    const char *first = name(&r);
    bool spaced = first && word(&r, "::");
    op->space = spaced ? first : tp_text_in(arena, space, strlen(space));
    if (spaced)
        first = name(&r);
    op->name = first;
    op->overload = *r.at == '.' ? (r.at++, name(&r)) : "";
    if (!op->name || !op->overload || !op->space)
        return no_name(&r, "the name of an op");
    const char *signature = r.at;
    if (!arguments(&r) || !results(&r))
        return false;
    spaces(&r);
    if (*r.at)
        return bad(&r, "the end");
    op->signature = normal_text(&r, signature);
    op->arg = kept(arena, r.arg, r.arg_count);
    op->result = kept(arena, r.result, r.result_count);
    op->arg_count = (uint8_t)r.arg_count;
    op->positional_count = (uint8_t)r.positional;
    op->result_count = (uint8_t)r.result_count;
    op->kind = TP_LIKE_OPAQUE;
    op->flags = TP_OP_RUNTIME;
    op->run = no_kernel;
    op->work = &tp_no_work;
    op->gradient = &tp_no_gradient;
    op->rare = &made->rare;
    for (int i = 0; i < r.arg_count; i++)
        if (r.arg[i].written)
            op->layers |= TP_LAYER_BIT(TP_LAYER_GRAD);
    return op->signature && op->arg && op->result;
}

static void drop(runtime_op *made)
{
    if (made)
        tp_arena_fini(&made->arena);
    tp_free(made);
}

static runtime_op *runtime_op_new(void)
{
    runtime_op *made = tp_alloc_zero(sizeof *made);
    if (made)
        tp_arena_init(&made->arena);
    return made;
}

tp_op *tp_op_define(const char *space, const char *schema)
{
    runtime_op *made = runtime_op_new();
    bool ok = made && fill(made, space, schema);
    char full[128];
    if (ok && tp_op_find(made->op.space, made->op.name, made->op.overload))
        ok = tp_fail(TP_ERR_RUNTIME, "Tried to register an operator (%s) with the same name and overload name multiple times.", tp_op_full_name(&made->op, full));
    if (ok && tp_registry_add(&made->op))
        return &made->op;
    drop(made);
    return NULL;
}

tp_op *tp_op_assemble(const tp_op *from)
{
    runtime_op *made = runtime_op_new();
    if (!made)
        return NULL;
    tp_op *op = &made->op;
    *op = *from;
    made->rare = *from->rare;
    op->rare = &made->rare;
    op->overload = tp_text_in(&made->arena, from->overload, strlen(from->overload));
    op->arg = kept(&made->arena, from->arg, from->arg_count);
    op->result = kept(&made->arena, from->result, from->result_count);
    op->flags |= TP_OP_RUNTIME;
    if (op->overload && op->arg && op->result && tp_registry_add(op))
        return op;
    drop(made);
    return NULL;
}

tp_rare *tp_op_rare(tp_op *op)
{
    return &((runtime_op *)(void *)op)->rare;
}

bool tp_op_retire(tp_op *op)
{
    for (int how = 0; !op->rare->of && how < TP_DERIVATION_COUNT; how++) {
        tp_op *derived = (tp_op *)tp_op_derived((tp_derivation)how, op);
        if (derived && !tp_op_retire(derived))
            return false;
    }
    return tp_registry_retire(op);
}

void tp_op_undefine(tp_op *op)
{
    for (int how = 0; !op->rare->of && how < TP_DERIVATION_COUNT; how++) {
        tp_op *derived = (tp_op *)tp_op_derived((tp_derivation)how, op);
        if (derived)
            tp_op_undefine(derived);
    }
    tp_registry_remove(op);
    drop((runtime_op *)(void *)op);
}
