/* guards.c - see guards.h. */
#include "export/guards.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "ops/symbolic.h"

typedef enum property { SIZE, STRIDE, OFFSET } property;

/* What a symbol of the guards stands for. */
typedef struct row {
    tp_sym   symbol;
    size_t   input;
    property of;
    int      dim;
} row;

typedef struct guard {
    tp_sym      condition;
    const char *text, *shown;   /* arena: as it is kept; as messages show it, with names of inputs */
} guard;

typedef struct input {
    const char *name;           /* arena: of the placeholder */
    int64_t     number;
    bool        is_number;      /* a constant, which calls may not change */
    int         ndim;           /* -1: no tensor */
    const char **symbol;        /* arena: for each dim its name where the size is a symbol, else NULL */
    tp_range   *enforced;       /* arena: for each dim what tp_inputs_check lets pass */
} input;

struct tp_guards {
    tp_arena arena;
    tp_shape_env *env;          /* owned */
    input *input;               /* arena */
    size_t input_count;
    tp_array(row) rows;
    tp_array(guard) guards;
};

/* ---- inputs ---- */
static bool read_tensor(tp_guards *g, const tp_tensor *t, input *in)
{
    in->ndim = t->ndim;
    in->symbol = tp_arena_take_array(&g->arena, (size_t)t->ndim + 1, sizeof *in->symbol);
    in->enforced = tp_arena_take_array(&g->arena, (size_t)t->ndim + 1, sizeof *in->enforced);
    if (!in->symbol || !in->enforced)
        return false;
    for (int d = 0; d < t->ndim; d++) {
        tp_sym size = tp_tensor_sym_size(t, d);
        in->enforced[d] = (tp_range){ 0, INT64_MAX };
        in->symbol[d] = NULL;
        if (tp_sym_is_int(size))
            in->enforced[d] = tp_sym_range(size);
        if (!tp_sym_is_symbol(size))
            continue;
        const tp_symbol *s = tp_symbol_of(size);
        if (!(in->symbol[d] = tp_text_in(&g->arena, s->name, strlen(s->name))))
            return false;
        if (s->declared.low > TP_LEAST_CHECKED_SIZE)
            in->enforced[d].low = s->declared.low;
        in->enforced[d].high = s->declared.high;
    }
    return true;
}

static bool read_inputs(tp_guards *g, const tp_graph *graph, const tp_signature *s)
{
    size_t at = 0;
    g->input = tp_arena_take_array(&g->arena, s->input_count + 1, sizeof *g->input);
    if (!g->input)
        return false;
    for (tp_node *n = tp_graph_first(graph); !tp_node_is_root(n); n = n->next) {
        if (n->kind != TP_PLACEHOLDER || at >= s->input_count || s->input[at++].kind != TP_INPUT_USER)
            continue;
        input *in = &g->input[g->input_count++];
        *in = (input){ .ndim = -1, .is_number = n->fact.tag == TP_INT, .name = tp_text_in(&g->arena, n->name, strlen(n->name)) };
        in->number = in->is_number ? n->fact.i : 0;
        if (!in->name || (n->fact.tag == TP_TENSOR && !read_tensor(g, n->fact.tensor, in)))
            return false;
    }
    return true;
}

/* ---- sources ---- */

/* The end of the part of a source that names the input, and what of it is meant. -1: an input itself. */
static const char *read_property(const char *text, size_t length, int *of, int *dim)
{
    static const struct { const char *text; property of; } known[] = { { ".size()[", SIZE }, { ".stride()[", STRIDE } };
    static const char offset[] = ".storage_offset()";
    const char *end = text + length;
    *of = -1;
    *dim = 0;
    if (length > sizeof offset && memcmp(end - sizeof offset + 1, offset, sizeof offset - 1) == 0) {
        *of = OFFSET;
        return end - sizeof offset + 1;
    }
    const char *digits = end - 1;
    while (digits > text && isdigit((unsigned char)digits[-1]))
        digits--;
    for (size_t i = 0; i < TP_COUNT(known); i++) {
        size_t n = strlen(known[i].text);
        if (end[-1] == ']' && end - 1 > digits && end - digits < 5 && (size_t)(digits - text) >= n && memcmp(digits - n, known[i].text, n) == 0) {
            *of = known[i].of;
            for (; isdigit((unsigned char)*digits); digits++)
                *dim = *dim * 10 + (*digits - '0');
            return end - strlen(known[i].text) - (size_t)(*dim > 9 ? 3 : 2);
        }
    }
    return end;
}

/* L['x'][0].field: x_0_field, as the package names placeholders. False: it is not of this form, or too long. */
static bool read_name(const char *text, const char *end, char out[256])
{
    size_t n = 0;
    if (*text++ != 'L')
        return false;
    while (text < end && n + 2 < 256) {
        bool item = *text == '[', quoted = item && (text[1] == '\'' || text[1] == '"');
        char quote = quoted ? text[1] : 0;
        if (!item && *text != '.')
            return false;
        text += 1 + quoted;
        if (n)
            out[n++] = '_';
        for (; text < end && n + 2 < 256 && *text != (quoted ? quote : item ? ']' : '.') && (item || *text != '['); text++) {
            text += *text == '\\' && text + 1 < end;
            out[n++] = isalnum((unsigned char)*text) && (unsigned char)*text < 128 ? (char)tolower((unsigned char)*text) : '_';
        }
        text += item ? 1 + quoted : 0;
    }
    out[n] = 0;
    return n && text == end;
}

/* Which size of which input a text means; the end of the input's own text goes to `base`. False: none. */
static bool resolve(const tp_guards *g, const char *text, size_t length, row *out, const char **base)
{
    char name[256];
    int of, dim;
    *base = read_property(text, length, &of, &dim);
    for (size_t i = 0; of < 0 && text[0] != 'L' && i < g->input_count; i++)        /* the name of a symbol */
        for (int d = 0; d < g->input[i].ndim; d++) {
            const char *symbol = g->input[i].symbol[d];
            *out = (row){ .input = i, .of = SIZE, .dim = d };
            if (symbol && strlen(symbol) == length && memcmp(symbol, text, length) == 0)
                return true;
        }
    if (!read_name(text, *base, name))
        return false;
    for (size_t i = 0; i < g->input_count; i++) {
        *out = (row){ .input = i, .of = of < 0 ? SIZE : (property)of, .dim = of < 0 ? -1 : dim };
        if (strcmp(g->input[i].name, name) == 0)
            return of < 0 ? g->input[i].is_number : dim < g->input[i].ndim || (of == OFFSET && g->input[i].ndim >= 0);
    }
    return false;
}

/* ---- reading ---- */
typedef struct reading {
    tp_guards  *guards;
    tp_text     shown;          /* the text so far, with names of inputs */
    const char *shown_to;
    bool        enforced;       /* symbols have the ranges that calls are checked for */
} reading;

static tp_sym symbol_of(reading *r, row found)
{
    tp_guards *g = r->guards;
    char name[48];
    snprintf(name, sizeof name, "i%zu_%d_%d", found.input, (int)found.of, found.dim);
    tp_sym known = tp_shape_env_find(g->env, name);
    if (!tp_sym_is_failed(known))
        return known;
    tp_range range = found.of == SIZE ? (tp_range){ 0, INT64_MAX } : TP_RANGE_ALL;
    if (r->enforced && found.of == SIZE)
        range = g->input[found.input].enforced[found.dim];
    found.symbol = tp_shape_env_named(g->env, name, NULL, range);
    return tp_sym_is_failed(found.symbol) || tp_array_push(&g->rows, found) ? found.symbol : TP_SYM_FAILED;
}

static tp_sym find_symbol(void *data, const char *text, size_t length)
{
    reading *r = data;
    row found;
    const char *base;
    if (!resolve(r->guards, text, length, &found, &base))
        return TP_SYM_FAILED;
    const input *in = &r->guards->input[found.input];
    tp_text_put(&r->shown, r->shown_to, (size_t)(text - r->shown_to));
    tp_text_add(&r->shown, "%s", in->name);
    if (text[0] == 'L')
        tp_text_put(&r->shown, base, (size_t)(text + length - base));
    else
        tp_text_add(&r->shown, ".size()[%d]", found.dim);
    r->shown_to = text + length;
    return found.dim < 0 ? tp_sym_int(in->number) : symbol_of(r, found);
}

static bool read_guard(tp_guards *g, const char *given, bool enforced)
{
    const char *text = tp_text_in(&g->arena, given, strlen(given));
    reading r = { .guards = g, .shown_to = text, .enforced = enforced };
    if (!text)
        return false;
    tp_sym c = tp_sym_parse_source(g->env, text, find_symbol, &r);
    tp_text_add(&r.shown, "%s", r.shown_to);
    guard made = { c, text, r.shown.failed ? NULL : tp_text_in(&g->arena, tp_text_read(&r.shown), r.shown.length) };
    tp_text_fini(&r.shown);
    if (!made.shown)
        return tp_fail_memory();
    if (tp_sym_is_failed(c) || tp_sym_type_of(c) != TP_SYM_BOOL) {
        tp_error_clear();
        return tp_fail(TP_ERR_UNIMPLEMENTED, "the guard '%s' of an exported program is not implemented in Taper yet", text);
    }
    if (!tp_sym_same(c, TP_SYM_TRUE) && tp_sym_known(c) == TP_YES)
        made.condition = TP_SYM_TRUE;
    return tp_array_push(&g->guards, made);
}

static tp_guards *read_all(const tp_graph *graph, const tp_signature *s, const char *const *text, size_t count, bool enforced)
{
    const tp_shape_env_options options = { .keep_zero_one = true };
    tp_guards *g = tp_alloc_zero(sizeof *g);
    if (!g)
        return NULL;
    tp_arena_init(&g->arena);
    bool ok = (g->env = tp_shape_env_new(NULL, &options)) && read_inputs(g, graph, s);
    for (size_t i = 0; ok && i < count; i++)
        ok = read_guard(g, text[i], enforced);
    if (ok)
        return g;
    tp_guards_free(g);
    return NULL;
}

tp_guards *tp_guards_new(const tp_graph *graph, const tp_signature *s, const char *const *text, size_t count)
{
    return read_all(graph, s, text, count, false);
}

void tp_guards_free(tp_guards *g)
{
    if (!g)
        return;
    tp_array_fini(&g->rows);
    tp_array_fini(&g->guards);
    tp_shape_env_unref(g->env);
    tp_arena_fini(&g->arena);
    tp_free(g);
}

/* ---- checking ---- */
static tp_sym value_of(const row *r, const tp_value *given)
{
    const tp_tensor *t = given[r->input].tensor;
    return r->of == SIZE ? tp_tensor_sym_size(t, r->dim) : r->of == STRIDE ? tp_tensor_sym_stride(t, r->dim) : tp_tensor_sym_offset(t);
}

static bool fails(const guard *c)
{
    return tp_fail(TP_ERR_ASSERTION, "Guard failed: %s", c->shown);
}

typedef struct asking {
    const tp_guards *guards;
    const tp_value *given;
} asking;

static tp_sym find_value(void *data, const char *text, size_t length)
{
    const asking *a = data;
    row found;
    const char *base;
    if (!resolve(a->guards, text, length, &found, &base))
        return TP_SYM_FAILED;
    return found.dim < 0 ? tp_sym_int(a->guards->input[found.input].number) : value_of(&found, a->given);
}

/* Some sizes are expressions of `env`: the guards become questions there. */
static bool ask(const tp_guards *g, tp_shape_env *env, const tp_value *given)
{
    asking a = { g, given };
    for (size_t i = 0; i < g->guards.count; i++) {
        bool answer = false;
        tp_sym c = tp_sym_parse_source(env, g->guards.item[i].text, find_value, &a);
        if (tp_sym_is_failed(c) || !tp_sym_guard(c, &answer))
            return false;
        if (!answer)
            return fails(&g->guards.item[i]);
    }
    return true;
}

bool tp_guards_check(const tp_guards *g, const tp_value *given, size_t count)
{
    tp_binding own[16], *bound = own;
    bool ok = true;
    if (!g || !g->guards.count)
        return true;
    if (count < g->input_count)
        return tp_fail(TP_ERR_TYPE, "the program takes %zu inputs, not %zu", g->input_count, count);
    for (size_t i = 0; i < g->rows.count; i++) {
        const row *r = &g->rows.item[i];
        const tp_value v = given[r->input];
        if (v.tag != TP_TENSOR || (r->of != OFFSET && r->dim >= v.tensor->ndim))
            return tp_fail(TP_ERR_RUNTIME, "input %zu of the program is not the tensor that its guards are about", r->input);
        tp_sym x = value_of(r, given);
        if (tp_sym_is_node(x))
            return ask(g, tp_sym_env(x), given);
    }
    if (g->rows.count > TP_COUNT(own) && !(bound = tp_alloc_array(g->rows.count, sizeof *bound)))
        return false;
    for (size_t i = 0; i < g->rows.count; i++)
        bound[i] = (tp_binding){ g->rows.item[i].symbol, value_of(&g->rows.item[i], given) };
    for (size_t i = 0; ok && i < g->guards.count; i++) {
        int64_t holds = 0;
        const guard *c = &g->guards.item[i];
        /* What cannot be computed (64 bits, a division by zero) does not hold. */
        if (!tp_sym_same(c->condition, TP_SYM_TRUE) && (!tp_sym_eval(c->condition, bound, g->rows.count, &holds) || !holds))
            ok = fails(c);
    }
    if (bound != own)
        tp_free(bound);
    return ok;
}

/* ---- what a trace found ---- */
static const char *text_in(tp_arena *a, tp_sym c, bool names)
{
    tp_text text = { 0 };
    names ? tp_sym_print_python(c, &text) : tp_sym_print_source(c, &text);
    const char *made = text.failed ? tp_fail_memory() : tp_text_in(a, tp_text_read(&text), text.length);
    tp_text_fini(&text);
    return made;
}

typedef struct collecting {
    tp_guards *guards;
    tp_arena  *arena;
    const char **text;
    size_t count;
} collecting;

/* Over sources; over names of symbols where a symbol has none that is an input's. */
static bool collect_one(collecting *c, tp_sym condition)
{
    const char *text = text_in(c->arena, condition, false);
    if (text && !read_guard(c->guards, text, true)) {
        if (!tp_shape_env_check(c->guards->env))        /* the next text begins without this one's error */
            tp_error_clear();
        tp_error_clear();
        const char *sources = text;
        text = text_in(c->arena, condition, true);
        if (text && !read_guard(c->guards, text, true)) {
            tp_error_clear();
            return tp_fail(TP_ERR_UNIMPLEMENTED, "export took the condition %s for granted, which no input's sizes say: this is not "
                           "implemented in Taper yet", sources);
        }
    }
    if (!text)
        return false;
    bool needed = !tp_sym_same(c->guards->guards.item[c->guards->guards.count - 1].condition, TP_SYM_TRUE);
    for (size_t i = 0; needed && i < c->count; i++)
        needed = strcmp(c->text[i], text) != 0;
    if (needed)
        c->text[c->count++] = text;
    return true;
}

bool tp_guards_collect(const tp_graph *graph, const tp_signature *s, tp_shape_env *env, size_t first, tp_arena *a, const char ***text,
                       size_t *count)
{
    size_t guards = tp_shape_env_guard_count(env), decided = tp_shape_env_decided_count(env);
    collecting c = { .arena = a, .text = tp_arena_take_array(a, guards + decided + 1, sizeof *c.text) };
    bool ok = c.text && (c.guards = read_all(graph, s, NULL, 0, true));
    for (size_t i = first; ok && i < guards; i++) {
        const tp_sym_fact *fact = tp_shape_env_guard_at(env, i);
        ok = fact->deferred || collect_one(&c, fact->condition);
    }
    for (size_t i = 0; ok && i < decided; i++)
        ok = collect_one(&c, tp_shape_env_decided_at(env, i));
    tp_guards_free(c.guards);
    *text = c.text;
    *count = c.count;
    return ok;
}
