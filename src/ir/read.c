/* read.c - graphs from the text that text.c prints.
 *
 * A descent over the characters; each node is made when its line was read, so what it reads must stand above it.
 * Tensors of facts become tensors without data, on the meta device. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ir/text.h"
#include "sym/env.h"

enum { DEEPEST = 200 };

typedef struct reader {
    const char *text, *at, *end;
    tp_graph   *graph;
    tp_text_map names;              /* of nodes -> their address */
    int         depth;
    bool        inside;             /* a child: ends at a brace */
} reader;
typedef tp_array(tp_value) value_list;

/* ---- characters ---- */
static void *complain(const reader *r, const char *what)
{
    int line = 1, column = 1;
    for (const char *c = r->text; c < r->at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return tp_fail(TP_ERR_VALUE, "line %d, column %d: %s", line, column, what);
}

static char peek(const reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

static void skip_spaces(reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(reader *r, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool want(reader *r, const char *word)
{
    char what[64];
    if (take(r, word))
        return true;
    snprintf(what, sizeof what, "'%s' is expected here", word);
    return complain(r, what);
}

static bool is_name_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 128;
}

/* Letters, digits, underscores and, in paths, dots and dashes. */
static bool read_word(reader *r, bool path, tp_text *out)
{
    skip_spaces(r);
    const char *from = r->at;
    while (r->at < r->end && (is_name_letter(*r->at) || (path && (*r->at == '.' || *r->at == '-' || *r->at == ':'))))
        r->at++;
    if (r->at == from)
        return complain(r, "a name is expected here");
    tp_text_put(out, from, (size_t)(r->at - from));
    return !out->failed || tp_fail_memory();
}

/* A text in quotes, with Python's escapes. */
static bool read_quoted(reader *r, tp_text *out)
{
    skip_spaces(r);
    char quote = peek(r);
    if (quote != '\'' && quote != '"')
        return complain(r, "a text in quotes is expected here");
    for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
        char c = *r->at;
        if (c == '\\' && r->at + 1 < r->end) {
            c = *++r->at;
            if (c == 'x' && r->end - r->at > 2) {
                char digits[3] = { r->at[1], r->at[2], 0 };
                c = (char)strtol(digits, NULL, 16);
                r->at += 2;
            } else {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            }
        }
        tp_text_put(out, &c, 1);
    }
    return want(r, quote == '"' ? "\"" : "'") && (!out->failed || tp_fail_memory());
}

/* ---- values ---- */
static bool read_value(reader *r, tp_value *out);

static bool finish_list(value_list *items, tp_tag tag, bool ok, tp_value *out)
{
    tp_list *list = ok ? tp_list_new(items->count) : NULL;
    if (list) {
        if (items->count)
            memcpy(list->item, items->item, items->count * sizeof *items->item);
        *out = (tp_value){ .tag = (uint8_t)tag, .list = list };
    } else {
        tp_values_unref(items->item, items->count);
    }
    tp_array_fini(items);
    return list;
}

static bool read_item(reader *r, value_list *items)
{
    tp_value v;
    if (!read_value(r, &v))
        return false;
    if (tp_array_push(items, v))
        return true;
    tp_value_unref(v);
    return false;
}

static bool read_items(reader *r, tp_tag tag, const char *close, tp_value *out)
{
    value_list items = { 0 };
    bool ok = true;
    while (ok && !take(r, close)) {
        ok = read_item(r, &items);
        if (ok && tag == TP_DICT)
            ok = want(r, ":") && read_item(r, &items);
        if (ok && !take(r, ",")) {
            ok = want(r, close);
            break;
        }
    }
    if (ok && tag == TP_SLICE && items.count != 3)
        ok = complain(r, "a slice has three parts");
    return finish_list(&items, tag, ok, out);
}

static bool read_number(reader *r, tp_value *out)
{
    char digits[64], *end;
    size_t length = 0;
    bool inexact = false;
    const char *c = r->at;
    for (; c < r->end && length + 1 < sizeof digits; c++) {
        bool sign = (*c == '-' || *c == '+') && (length == 0 || digits[length - 1] == 'e');
        if (!sign && !isalnum((unsigned char)*c) && *c != '.')
            break;
        inexact |= *c == '.' || isalpha((unsigned char)*c);
        digits[length++] = *c;
    }
    digits[length] = 0;
    bool imaginary = length && digits[length - 1] == 'j';
    if (imaginary)
        digits[--length] = 0;
    double f = strtod(digits, &end);
    if (!length || *end)
        return complain(r, "a value is expected here");
    r->at = c;
    if (imaginary)
        *out = tp_value_complex(0, f);
    else
        *out = inexact ? tp_float(f) : tp_int(strtoll(digits, NULL, 10));
    return out->tag != TP_NONE;
}

/* `(1+2j)`, `()`, `(x,)` and `(x, y)` begin alike. */
static bool read_tuple(reader *r, tp_value *out)
{
    const char *c = r->at;
    while (c < r->end && (isalnum((unsigned char)*c) || strchr("+-. ", *c)))
        c++;
    if (c > r->at + 1 && c < r->end && *c == ')' && c[-1] == 'j') {
        tp_value re = tp_float(0), im;
        bool ok = read_number(r, &re) && (take(r, "+") || peek(r) == '-') && read_number(r, &im);
        if (!ok)
            return tp_error_kind() != TP_ERR_NONE ? false : complain(r, "a complex number is expected here");
        *out = tp_value_complex(tp_as_double(re), im.tag == TP_COMPLEX ? im.complex->im : 0);
        tp_value_unref(im);
        return out->tag != TP_NONE && want(r, ")");
    }
    return read_items(r, TP_TUPLE, ")", out);
}

static bool read_node(reader *r, tp_value *out)
{
    tp_text name = { 0 };
    uint64_t address;
    bool ok = read_word(r, false, &name);
    if (ok && !tp_text_map_get(&r->names, tp_text_read(&name), &address))
        ok = complain(r, "no node of this name stands above");
    else if (ok)
        *out = tp_of_node((tp_node *)(uintptr_t)address);
    tp_text_fini(&name);
    return ok;
}

static bool read_device(reader *r, tp_value *out)
{
    tp_text name = { 0 };
    char known[16];
    tp_device d = { .type = -1, .index = -1 };
    bool ok = want(r, "type") && want(r, "=") && read_quoted(r, &name);
    for (int t = 0; ok && t < TP_DEVICE_TYPES; t++)
        if (strcmp(tp_device_name((tp_device){ (int8_t)t, -1 }, known), tp_text_read(&name)) == 0)
            d.type = (int8_t)t;
    tp_text_fini(&name);
    if (ok && d.type < 0)
        return complain(r, "no such type of device");
    if (ok && take(r, ",")) {
        tp_value index = tp_int(0);
        ok = want(r, "index") && want(r, "=") && (skip_spaces(r), read_number(r, &index));
        d.index = (int8_t)tp_as_int(index);
    }
    *out = tp_of_device(d);
    return ok && want(r, ")");
}

/* The symbols that an expression names, made when they are new. */
static bool declare_symbols(reader *r, const char *text)
{
    char name[64];
    for (const char *c = text; *c;) {
        size_t length = 0;
        while (is_name_letter(c[length]))
            length++;
        if (length && length < sizeof name && (*c == 's' || *c == 'u') && isdigit((unsigned char)c[1])) {
            memcpy(name, c, length);
            name[length] = 0;
            if (tp_sym_is_failed(tp_shape_env_find(r->graph->env, name)) &&
                tp_sym_is_failed(tp_shape_env_named(r->graph->env, name, NULL, TP_RANGE_ALL)))
                return false;
        }
        c += length ? length : 1;
    }
    return true;
}

static bool read_symbol(reader *r, tp_value *out)
{
    tp_text text = { 0 };
    bool ok = read_quoted(r, &text) && want(r, ")");
    if (ok && !r->graph->env)
        ok = (r->graph->env = tp_shape_env_new(NULL, NULL));
    ok = ok && declare_symbols(r, tp_text_read(&text));
    if (ok) {
        tp_sym x = tp_sym_parse(r->graph->env, tp_text_read(&text));
        ok = !tp_sym_is_failed(x);
        *out = tp_sym_is_int(x) ? tp_int(tp_sym_as_int(x)) : (tp_value){ .tag = TP_SYM, .sym = x.word };
    }
    tp_text_fini(&text);
    return ok;
}

static bool read_torch(reader *r, tp_value *out)
{
    static const char *const format[] = { "contiguous_format", "preserve_format", "channels_last", "channels_last_3d" };
    tp_text name = { 0 };
    if (!read_word(r, false, &name))
        return false;
    const char *word = tp_text_read(&name);
    bool found = strcmp(word, "strided") == 0;
    if (found)
        *out = (tp_value){ .tag = TP_LAYOUT, .i = 0 };
    for (int d = 0; !found && d < TP_DTYPE_COUNT; d++)
        if ((found = strcmp(tp_dtypes[d].python, word) == 0))
            *out = tp_of_dtype((tp_dtype)d);
    for (int f = 0; !found && f < (int)TP_COUNT(format); f++)
        if ((found = strcmp(format[f], word) == 0))
            *out = (tp_value){ .tag = TP_FORMAT_VALUE, .i = f };
    tp_text_fini(&name);
    return found || complain(r, "torch has no such type, layout or format");
}

static bool take_word(reader *r, const char *word)
{
    const char *before = r->at;
    if (take(r, word) && !is_name_letter(peek(r)))
        return true;
    r->at = before;
    return false;
}

static bool read_plain(reader *r, tp_value *out)
{
    *out = tp_none();
    skip_spaces(r);
    if (take_word(r, "None"))
        return true;
    if (take_word(r, "True") || take_word(r, "False")) {
        *out = tp_bool(r->at[-2] == 'u');
        return true;
    }
    if (take(r, "%"))
        return read_node(r, out);
    if (take(r, "["))
        return read_items(r, TP_LIST, "]", out);
    if (take(r, "("))
        return read_tuple(r, out);
    if (take(r, "{"))
        return read_items(r, TP_DICT, "}", out);
    if (take(r, "slice("))
        return read_items(r, TP_SLICE, ")", out);
    if (take(r, "device("))
        return read_device(r, out);
    if (take(r, "sym("))
        return read_symbol(r, out);
    if (take(r, "torch."))
        return read_torch(r, out);
    if (peek(r) == '`')
        return complain(r, "a Python object cannot be read back");
    if (peek(r) == '\'' || peek(r) == '"') {
        tp_text text = { 0 };
        bool ok = read_quoted(r, &text);
        if (ok)
            *out = tp_value_string(tp_text_read(&text), text.length);
        tp_text_fini(&text);
        return ok && out->tag == TP_STRING;
    }
    return read_number(r, out);
}

static bool read_value(reader *r, tp_value *out)
{
    if (++r->depth > DEEPEST)
        return complain(r, "values are nested too deeply");
    bool ok = read_plain(r, out);
    r->depth--;
    return ok;
}

/* ---- facts ---- */
static int read_sizes(reader *r, int64_t *size)
{
    int count = 0;
    while (!take(r, "]")) {
        tp_value v;
        skip_spaces(r);
        if (peek(r) == '"') {
            (void)tp_fail(TP_ERR_UNIMPLEMENTED, "reading facts with symbolic sizes is not implemented in Taper yet");
            return -1;
        }
        if (count == TP_MAX_DIMS || !read_number(r, &v)) {
            if (count == TP_MAX_DIMS)
                (void)complain(r, "a tensor has no more dims than that");
            return -1;
        }
        size[count++] = tp_as_int(v);
        if (!take(r, ",")) {
            if (!want(r, "]"))
                return -1;
            break;
        }
    }
    return count;
}

static bool read_fact(reader *r, tp_value *out)
{
    skip_spaces(r);
    const char *from = r->at;
    char name[16] = "";
    if (isalpha((unsigned char)peek(r)))
        for (size_t i = 0; i + 1 < sizeof name && is_name_letter(peek(r)); i++)
            name[i] = *r->at++, name[i + 1] = 0;
    tp_dtype d = *name ? tp_dtype_by_name(name) : TP_DTYPE_NONE;
    if (d == TP_DTYPE_NONE || peek(r) != '[') {
        r->at = from;
        bool tuple = take(r, "(");
        if (!tuple && !take(r, "["))
            return read_value(r, out);
        value_list items = { 0 };
        bool ok = true;
        while (ok && !take(r, tuple ? ")" : "]")) {
            tp_value v;
            ok = read_fact(r, &v);
            if (ok && !tp_array_push(&items, v)) {
                tp_value_unref(v);
                ok = false;
            }
            if (ok && !take(r, ",")) {
                ok = want(r, tuple ? ")" : "]");
                break;
            }
        }
        return finish_list(&items, tuple ? TP_TUPLE : TP_LIST, ok, out);
    }
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    r->at++;
    int ndim = read_sizes(r, size);
    bool strided = ndim >= 0 && peek(r) == '[';
    if (strided) {
        r->at++;
        int count = read_sizes(r, stride);
        if (count >= 0 && count != ndim)
            return complain(r, "as many strides as sizes are expected here");
        ndim = count;
    }
    if (ndim < 0)
        return false;
    tp_tensor *t = tp_tensor_new_on((tp_device){ TP_META, -1 }, d, ndim, size, strided ? stride : NULL);
    *out = tp_of_tensor(t);
    return t;
}

/* ---- nodes ---- */
static bool read_target(reader *r, tp_node_kind *kind, tp_target *target, tp_text *name)
{
    static const struct { const char *word; tp_node_kind kind; } kinds[] = {
        { "get_attr ", TP_GET_ATTR }, { "call_method ", TP_CALL_METHOD }, { "call_module ", TP_CALL_MODULE },
    };
    for (size_t i = 0; i < TP_COUNT(kinds); i++)
        if (take(r, kinds[i].word)) {
            *kind = kinds[i].kind;
            bool ok = read_word(r, true, name);
            *target = tp_target_name(tp_text_read(name));
            return ok;
        }
    skip_spaces(r);
    if (peek(r) == '`')
        return complain(r, "a Python object cannot be read back");
    *kind = TP_CALL_FUNCTION;
    if (!read_word(r, true, name))
        return false;
    char *first = strchr(name->at, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    if (!first)
        return complain(r, "an op is named namespace.name.overload");
    *first = 0;
    if (!second) {
        const tp_builtin *b = tp_builtin_find(name->at, first + 1);
        const tp_op *op = b ? NULL : tp_op_find(name->at, first + 1, "");
        *target = b ? tp_target_builtin(b) : tp_target_op(op);
        return b || (op && op->rare->graphs) || complain(r, "no such function");
    }
    *second = 0;
    const tp_op *op = tp_op_find(name->at, first + 1, strcmp(second + 1, "default") == 0 ? "" : second + 1);
    *target = tp_target_op(op);
    return op || complain(r, "no such op");
}

/* Is this `name=`, and not a value? */
static bool at_keyword(reader *r)
{
    skip_spaces(r);
    const char *c = r->at;
    while (c < r->end && is_name_letter(*c))
        c++;
    return c > r->at && c < r->end && *c == '=' && !isdigit((unsigned char)*r->at);
}

static bool read_keyword(reader *r, value_list *args)
{
    tp_text name = { 0 };
    bool ok = read_word(r, false, &name) && want(r, "=");
    tp_value key = ok ? tp_value_string(tp_text_read(&name), name.length) : tp_none();
    tp_text_fini(&name);
    if (key.tag != TP_STRING)
        return false;
    if (!tp_array_push(args, key)) {
        tp_value_unref(key);
        return false;
    }
    return read_item(r, args);
}

static bool read_args(reader *r, value_list *args, uint32_t *count, uint32_t *keywords)
{
    if (!want(r, "("))
        return false;
    while (!take(r, ")")) {
        if (at_keyword(r)) {
            if (!read_keyword(r, args))
                return false;
            ++*keywords;
        } else {
            if (*keywords)
                return complain(r, "a keyword is expected here");
            if (!read_item(r, args))
                return false;
            ++*count;
        }
        if (!take(r, ","))
            return want(r, ")");
    }
    return true;
}

static bool add_node(reader *r, tp_node_kind kind, tp_target target, const value_list *args, uint32_t count,
                     uint32_t keywords,
                     const char *name, tp_value fact)
{
    uint64_t address;
    if (tp_text_map_get(&r->names, name, &address))
        return complain(r, "two nodes have one name");
    tp_node *n = tp_node_new(r->graph, kind, target, args ? args->item : NULL, count, keywords, name);
    if (!n)
        return tp_graph_check(r->graph);
    tp_node_set_fact(n, fact);
    return (strcmp(n->name, name) == 0 || tp_node_set_name(n, name)) && tp_text_map_put(&r->names, name, (uintptr_t)n);
}

/* %name, and `: fact` */
static bool read_name(reader *r, tp_text *name, tp_value *fact)
{
    *fact = tp_none();
    return want(r, "%") && read_word(r, false, name) && (!take(r, ":") || read_fact(r, fact));
}

static bool read_graph(reader *r);

/* `{ graph(…): … }`: the graph that a get_attr reads. */
static bool read_child(reader *r, const char *name)
{
    if (++r->depth > DEEPEST)
        return complain(r, "graphs are nested too deep");
    reader inner = { .text = r->text, .at = r->at, .end = r->end, .graph = tp_graph_new(), .depth = r->depth, .inside = true };
    bool ok = inner.graph && read_graph(&inner) && tp_graph_set_child(r->graph, name, inner.graph);
    tp_text_map_fini(&inner.names);
    tp_graph_unref(inner.graph);
    r->at = inner.at;
    r->depth--;
    return ok && want(r, "}");
}

static bool read_line(reader *r)
{
    tp_text name = { 0 }, target_name = { 0 };
    tp_value fact;
    tp_target target;
    tp_node_kind kind = TP_CALL_FUNCTION;
    value_list args = { 0 };
    uint32_t count = 0, keywords = 0;
    bool ok = read_name(r, &name, &fact) && want(r, "=") && read_target(r, &kind, &target, &target_name) &&
              (kind == TP_GET_ATTR || read_args(r, &args, &count, &keywords)) &&
              add_node(r, kind, target, &args, count, keywords, tp_text_read(&name), fact) &&
              (kind != TP_GET_ATTR || !take(r, "{") || read_child(r, tp_text_read(&target_name)));
    tp_values_unref(args.item, args.count);
    tp_array_fini(&args);
    tp_value_unref(fact);
    tp_text_fini(&name);
    tp_text_fini(&target_name);
    return ok;
}

static bool read_input(reader *r)
{
    tp_text name = { 0 }, target = { 0 };
    tp_value fact;
    value_list args = { 0 };
    bool ok = read_name(r, &name, &fact);
    if (ok && take_word(r, "as"))
        ok = read_quoted(r, &target);
    if (ok && take(r, "="))
        ok = read_item(r, &args);
    ok = ok && add_node(r, TP_PLACEHOLDER, tp_target_name(target.length ? target.at : tp_text_read(&name)), &args,
                        (uint32_t)args.count, 0, tp_text_read(&name), fact);
    tp_values_unref(args.item, args.count);
    tp_array_fini(&args);
    tp_value_unref(fact);
    tp_text_fini(&name);
    tp_text_fini(&target);
    return ok;
}

static bool read_output(reader *r)
{
    value_list args = { 0 };
    bool ok = read_item(r, &args) && add_node(r, TP_OUTPUT, tp_target_name("output"), &args, 1, 0, "output", tp_none());
    tp_values_unref(args.item, args.count);
    tp_array_fini(&args);
    return ok;
}

static bool read_graph(reader *r)
{
    if (!want(r, "graph") || !want(r, "("))
        return false;
    while (!take(r, ")")) {
        if (!read_input(r))
            return false;
        if (!take(r, ",")) {
            if (!want(r, ")"))
                return false;
            break;
        }
    }
    if (!want(r, ":"))
        return false;
    for (skip_spaces(r); r->at < r->end && !(r->inside && peek(r) == '}'); skip_spaces(r)) {
        bool output = take_word(r, "return");
        if (!(output ? read_output(r) : read_line(r)))
            return false;
    }
    return true;
}

tp_graph *tp_graph_parse(const char *text, size_t length)
{
    reader r = { .text = text, .at = text, .end = text + length, .graph = tp_graph_new() };
    if (!r.graph)
        return NULL;
    bool ok = read_graph(&r);
    tp_text_map_fini(&r.names);
    if (ok)
        return r.graph;
    tp_graph_unref(r.graph);
    return NULL;
}
