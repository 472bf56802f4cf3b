/* code.c - a graph as Python code.
 *
 * One pass over the nodes after one that notes which of them each node reads last:
 *
 *     relu = add.relu();  add = None        <- `add` has no later reader
 */
#include "ir/code.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "ops/symbolic.h"

static void put(tp_text *out, const char *text)
{
    tp_text_put(out, text, strlen(text));
}

static bool fine(const tp_text *out)
{
    return !out->failed || tp_fail_memory();
}

/* ---- values ---- */
static bool put_items(const tp_code_host *h, tp_value v, const char *open, const char *close, tp_code_form form,
                      tp_text *out)
{
    put(out, open);
    for (uint32_t i = 0; i < v.list->count; i++) {
        bool key = v.tag == TP_DICT && i % 2 == 0;
        if (i)
            put(out, v.tag == TP_DICT && !key ? ": " : ", ");
        if (!tp_code_value(h, v.list->item[i], form, out))
            return false;
    }
    put(out, close);
    return fine(out);
}

static bool put_constant(const tp_code_host *h, tp_value v, bool plain, tp_text *out)
{
    if (h && h->constant)
        return h->constant(h->data, v, plain, out);
    tp_value_print(v, out);
    return fine(out);
}

bool tp_code_value(const tp_code_host *h, tp_value v, tp_code_form form, tp_text *out)
{
    char name[16];
    switch ((tp_tag)v.tag) {
    case TP_NODE:
        if (form == TP_FORM_LISTING || form == TP_FORM_TEXT)
            put(out, "%");
        put(out, tp_as_node(v)->name);
        return fine(out);
    case TP_SYM:
        if (form != TP_FORM_TEXT)
            break;
        put(out, "sym(\"");
        tp_sym_print((tp_sym){ v.sym }, out);
        put(out, "\")");
        return fine(out);
    case TP_STRING:
        if (form == TP_FORM_CODE || form == TP_FORM_TEXT)
            break;
        tp_text_put(out, v.string->text, v.string->length);
        return fine(out);
    case TP_DEVICE:
        if (form == TP_FORM_CODE || form == TP_FORM_TEXT)
            break;
        put(out, tp_device_name(v.device, name));
        return fine(out);
    /* Listings look into lists; str() of a list shows its items as repr does. */
    case TP_LIST:  return put_items(h, v, "[", "]", form == TP_FORM_STR ? TP_FORM_CODE : form, out);
    case TP_TUPLE: return put_items(h, v, "(", v.list->count == 1 ? ",)" : ")",
                                    form == TP_FORM_STR ? TP_FORM_CODE : form, out);
    case TP_DICT:  return put_items(h, v, "{", "}", form == TP_FORM_STR ? TP_FORM_CODE : form, out);
    case TP_SLICE: return put_items(h, v, "slice(", ")", form == TP_FORM_TEXT ? form : TP_FORM_CODE, out);
    case TP_TENSOR:
    case TP_GENERATOR:
    case TP_HANDLE:
        if (form != TP_FORM_TEXT)
            return put_constant(h, v, form != TP_FORM_CODE, out);
        put(out, "`");
        if (!put_constant(h, v, false, out))
            return false;
        put(out, "`");
        return fine(out);
    default: break;
    }
    tp_value_print(v, out);
    return fine(out);
}

/* ---- paths ---- */
static bool is_name(const char *text, size_t length)
{
    if (!length || isdigit((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 128 && !isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return true;
}

void tp_put_escaped(tp_text *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        tp_text_add(out, c < 32 || c == 127 ? "\\x%02x" : c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
}

void tp_code_path(const char *root, const char *path, tp_text *out)
{
    tp_text made = { 0 };
    put(&made, root);
    for (const char *end; *path; path = *end ? end + 1 : end) {
        end = path + strcspn(path, ".");
        if (is_name(path, (size_t)(end - path))) {
            tp_text_add(&made, ".%.*s", (int)(end - path), path);
        } else {
            tp_text inner = made;
            made = (tp_text){ .failed = inner.failed };
            tp_text_add(&made, "getattr(%s, \"", tp_text_read(&inner));
            tp_put_escaped(&made, path, (size_t)(end - path));
            put(&made, "\")");
            tp_text_fini(&inner);
        }
    }
    out->failed |= made.failed;
    tp_text_put(out, tp_text_read(&made), made.length);
    tp_text_fini(&made);
}

/* ---- what nodes yield ---- */
static void put_words(tp_text *out, const tp_tensor *t, tp_sym (*word)(const tp_tensor *t, int dim))
{
    put(out, "[");
    for (int i = 0; i < t->ndim; i++) {
        if (i)
            put(out, ", ");
        tp_sym_print(word(t, i), out);
    }
    put(out, "]");
}

void tp_code_fact(tp_value fact, bool stride, bool device, tp_text *out)
{
    if (fact.tag == TP_SYM) {
        put(out, "Sym(");
        tp_sym_print((tp_sym){ fact.sym }, out);
        put(out, ")");
    }
    if (fact.tag != TP_TENSOR)
        return;
    char name[16];
    put(out, tp_dtypes[fact.tensor->dtype].name);
    put_words(out, fact.tensor, tp_tensor_sym_size);
    if (stride)
        put_words(out, fact.tensor, tp_tensor_sym_stride);
    if (device)
        put(out, tp_device_name(fact.tensor->device, name));
}

/* ---- one function ---- */
typedef tp_array(char *) text_list;
typedef struct printer {
    const tp_graph *graph;
    const tp_code_host *host;
    const tp_code_options *options;
    tp_text   *out;
    tp_text    body, returns;
    text_list  parameter;           /* owned, each owned */
    tp_arena   scratch;
    struct last_use {               /* arena, by node id: what this node reads last, in order of appearance */
        tp_node **node;
        uint32_t  count, room;
    } *last;
    uint8_t   *seen;                /* arena, by node id */
    tp_node   *reader;              /* while noting last uses */
    char      *trace;               /* owned, may be NULL: of the node before; "" : none, and said so */
    bool       failed;
} printer;

static void note_last(tp_node *input, void *data)
{
    printer *p = data;
    if (p->failed || input->id >= p->graph->node_count || p->seen[input->id])
        return;
    struct last_use *last = &p->last[p->reader->id];
    if (last->count == last->room) {
        uint32_t room = last->room ? 2 * last->room : 2;
        tp_node **grown = tp_arena_take_array(&p->scratch, room, sizeof *grown);
        if (!grown) {
            p->failed = true;
            return;
        }
        if (last->count)
            memcpy(grown, last->node, last->count * sizeof *grown);
        last->node = grown;
        last->room = room;
    }
    p->seen[input->id] = 1;
    last->node[last->count++] = input;
}

static bool find_last_uses(printer *p)
{
    size_t count = p->graph->node_count + 1;
    p->last = tp_arena_take_array(&p->scratch, count, sizeof *p->last);
    p->seen = tp_arena_take_array(&p->scratch, count, sizeof *p->seen);
    if (!p->last || !p->seen)
        return tp_fail_memory();
    memset(p->last, 0, count * sizeof *p->last);
    memset(p->seen, 0, count);
    for (tp_node *n = p->graph->root.prev; n != &p->graph->root; n = n->prev) {
        p->reader = n;
        tp_node_each_input(n, note_last, p);
    }
    return !p->failed || tp_fail_memory();
}

/* `;  a = b = None` and the end of the line: what is read here last, and the node itself if nobody reads it. */
static void put_releases(printer *p, const tp_node *n)
{
    const struct last_use *last = &p->last[n->id];
    uint32_t count = last->count + !n->user_count;
    for (uint32_t i = 0; i < count; i++) {
        put(&p->body, i ? " = " : ";  ");
        put(&p->body, i < last->count ? last->node[i]->name : n->name);
    }
    put(&p->body, count ? " = None\n" : "\n");
}

/* ---- arguments and calls ---- */
static bool put_value(printer *p, tp_value v)
{
    return tp_code_value(p->host, v, TP_FORM_CODE, &p->body);
}

static bool put_args(printer *p, const tp_node *n, uint32_t from)
{
    bool first = true;
    for (uint32_t i = from; i < n->arg_count; i++, first = false) {
        if (!first)
            put(&p->body, ", ");
        if (!put_value(p, n->arg[i]))
            return false;
    }
    const tp_value *pair = n->arg + n->arg_count;
    for (uint32_t k = 0; k < n->keyword_count; k++, pair += 2, first = false) {
        if (!first)
            put(&p->body, ", ");
        put(&p->body, pair[0].string->text);
        put(&p->body, " = ");
        if (!put_value(p, pair[1]))
            return false;
    }
    return true;
}

/* Functions of the operator module that have a form of their own: the text before, between and after their operands. */
static const struct operator_form {
    const char *name, *piece[4];
    uint8_t operands;
    bool writes;                    /* a statement; the node's name is then given to the first operand */
} operator_forms[] = {
    { "eq", { "", " == ", "" }, 2, false },      { "ne", { "", " != ", "" }, 2, false },
    { "lt", { "", " < ", "" }, 2, false },       { "gt", { "", " > ", "" }, 2, false },
    { "le", { "", " <= ", "" }, 2, false },      { "ge", { "", " >= ", "" }, 2, false },
    { "pos", { "+", "" }, 1, false },            { "neg", { "-", "" }, 1, false },
    { "invert", { "~", "" }, 1, false },         { "add", { "", " + ", "" }, 2, false },
    { "and_", { "", " & ", "" }, 2, false },     { "floordiv", { "", " // ", "" }, 2, false },
    { "getitem", { "", "[", "]" }, 2, false },   { "lshift", { "", " << ", "" }, 2, false },
    { "matmul", { "", " @ ", "" }, 2, false },   { "mod", { "", " % ", "" }, 2, false },
    { "mul", { "", " * ", "" }, 2, false },      { "or_", { "", " | ", "" }, 2, false },
    { "pow", { "", " ** ", "" }, 2, false },     { "rshift", { "", " >> ", "" }, 2, false },
    { "sub", { "", " - ", "" }, 2, false },      { "truediv", { "", " / ", "" }, 2, false },
    { "xor", { "", " ^ ", "" }, 2, false },      { "iadd", { "", " += ", "" }, 2, true },
    { "iand", { "", " &= ", "" }, 2, true },     { "ifloordiv", { "", " //= ", "" }, 2, true },
    { "ilshift", { "", " <<= ", "" }, 2, true }, { "imod", { "", " %= ", "" }, 2, true },
    { "imul", { "", " *= ", "" }, 2, true },     { "imatmul", { "", " @= ", "" }, 2, true },
    { "ior", { "", " |= ", "" }, 2, true },      { "ipow", { "", " **= ", "" }, 2, true },
    { "irshift", { "", " >>= ", "" }, 2, true }, { "isub", { "", " -= ", "" }, 2, true },
    { "itruediv", { "", " /= ", "" }, 2, true }, { "ixor", { "", " ^= ", "" }, 2, true },
    { "setitem", { "", "[", "] = ", "" }, 3, true },
};

static const struct operator_form *form_of(const char *magic, const tp_node *n)
{
    for (size_t i = 0; i < TP_COUNT(operator_forms); i++)
        if (strcmp(operator_forms[i].name, magic) == 0)
            return n->arg_count == operator_forms[i].operands && !n->keyword_count ? &operator_forms[i] : NULL;
    return NULL;
}

static bool put_form(printer *p, const tp_node *n, const struct operator_form *form)
{
    for (uint32_t i = 0; i < form->operands; i++) {
        put(&p->body, form->piece[i]);
        if (!put_value(p, n->arg[i]))
            return false;
    }
    put(&p->body, form->piece[form->operands]);
    return true;
}

/* ` : torch.Tensor`, or in verbose code what the node yields: `: "f32[2, 3]"`. */
static bool put_annotation(printer *p, const tp_node *n, tp_text *out)
{
    size_t before = out->length;
    if (p->options->verbose) {
        put(out, ": \"");
        size_t begin = out->length;
        if (p->host && p->host->yields) {
            if (!p->host->yields(p->host->data, n, out))
                return false;
        } else {
            tp_code_fact(n->fact, p->options->stride, p->options->device, out);
        }
        if (out->length > begin || out->failed) {
            put(out, "\"");
            return fine(out);
        }
        out->at[out->length = before] = 0;
    }
    if (!n->type || !p->host || !p->host->annotation)
        return true;
    put(out, " : ");
    return p->host->annotation(p->host->data, n->type, false, out);
}

static bool put_target(printer *p, const tp_node *n)
{
    if (n->target.kind == TP_TARGET_OP) {
        const tp_op *op = n->target.op;
        tp_target_op_text(op, "torch.ops.", &p->body);
        return true;
    }
    if (n->target.kind == TP_TARGET_BUILTIN) {
        const tp_builtin *b = n->target.builtin;
        if (strcmp(b->module, "torch") != 0 && p->host && p->host->builtin)
            return p->host->builtin(p->host->data, b, &p->body);
        tp_text_add(&p->body, strcmp(b->module, "torch") == 0 ? "%s.%s" : "%s_%s", b->module, b->name);
        return true;
    }
    if (p->host && p->host->callable)
        return p->host->callable(p->host->data, n->target.handle, &p->body);
    return put_constant(p->host, (tp_value){ .tag = TP_HANDLE, .handle = n->target.handle }, false, &p->body);
}

static bool put_function(printer *p, const tp_node *n)
{
    const char *magic = NULL;
    if (n->target.kind == TP_TARGET_BUILTIN && strcmp(n->target.builtin->module, "torch") != 0)
        magic = n->target.builtin->name;
    else if (n->target.kind == TP_TARGET_HANDLE && p->host && p->host->magic)
        magic = p->host->magic(p->host->data, n->target.handle);
    const struct operator_form *form = magic ? form_of(magic, n) : NULL;
    if (form && form->writes) {
        if (!put_form(p, n, form))
            return false;
        tp_text_add(&p->body, ";  %s", n->name);
        if (!put_annotation(p, n, &p->body))
            return false;
        put(&p->body, " = ");
        return put_value(p, n->arg[0]);
    }
    put(&p->body, n->name);
    if (!put_annotation(p, n, &p->body))
        return false;
    put(&p->body, " = ");
    if (form)
        return put_form(p, n, form);
    if (magic && strcmp(magic, "getattr") == 0 && n->arg_count == 2 && !n->keyword_count &&
        n->arg[1].tag == TP_STRING &&
        is_name(n->arg[1].string->text, n->arg[1].string->length)) {
        if (!put_value(p, n->arg[0]))
            return false;
        tp_text_add(&p->body, ".%s", n->arg[1].string->text);
        return true;
    }
    if (!put_target(p, n))
        return false;
    put(&p->body, "(");
    bool ok = put_args(p, n, 0);
    put(&p->body, ")");
    return ok;
}

static bool put_method(printer *p, const tp_node *n)
{
    tp_text self = { 0 };
    bool ok = n->arg_count ? tp_code_value(p->host, n->arg[0], TP_FORM_CODE, &self)
                           : tp_fail(TP_ERR_VALUE, "the node '%s' calls a method of nothing", n->name) != NULL;
    if (ok)
        tp_code_path(tp_text_read(&self), n->target.name, &p->body);
    tp_text_fini(&self);
    put(&p->body, "(");
    ok = ok && put_args(p, n, 1);
    put(&p->body, ")");
    return ok;
}

static bool put_named(printer *p, const tp_node *n)
{
    put(&p->body, n->name);
    if (!put_annotation(p, n, &p->body))
        return false;
    put(&p->body, " = ");
    if (n->kind == TP_CALL_METHOD)
        return put_method(p, n);
    tp_code_path(p->options->root, n->target.name, &p->body);
    if (n->kind == TP_GET_ATTR)
        return true;
    put(&p->body, "(");
    bool ok = put_args(p, n, 0);
    put(&p->body, ")");
    return ok;
}

/* ---- inputs and output ---- */
static bool put_placeholder(printer *p, const tp_node *n)
{
    tp_text made = { 0 };
    const char *bare = n->target.name + strspn(n->target.name, "*");
    put(&made, n->target.name);
    bool ok = put_annotation(p, n, &made);
    if (ok && n->arg_count) {
        put(&made, " = ");
        ok = tp_code_value(p->host, n->arg[0], TP_FORM_CODE, &made);
    }
    char *kept = ok && fine(&made) ? tp_alloc_text(tp_text_read(&made)) : NULL;
    tp_text_fini(&made);
    if (!kept)
        return false;
    if (!tp_array_push(&p->parameter, kept)) {
        tp_free(kept);
        return false;
    }
    if (strcmp(bare, n->name) != 0)
        tp_text_add(&p->body, "    %s = %s\n", n->name, bare);
    return true;
}

static bool put_output(printer *p, const tp_node *n)
{
    if (n->type && p->host && p->host->annotation) {
        put(&p->returns, " -> ");
        if (!p->host->annotation(p->host->data, n->type, false, &p->returns))
            return false;
    }
    tp_text value = { 0 };
    bool ok = tp_code_value(p->host, n->arg_count ? n->arg[0] : tp_none(), TP_FORM_CODE, &value);
    put(&p->body, "    ");
    if (ok && p->host && p->host->result)
        ok = p->host->result(p->host->data, n, tp_text_read(&value), &p->body);
    else if (ok)
        tp_text_add(&p->body, "return %s", tp_text_read(&value));
    put(&p->body, "\n");
    tp_text_fini(&value);
    return ok;
}

/* ---- where nodes come from ---- */

/* Of the innermost frame of a trace: `# File: model.py:16 in forward, code: return x + 1`. */
static void put_place(tp_text *out, const char *trace)
{
    const char *at = NULL;
    for (const char *s = trace; (s = strstr(s, "File \"")); s++)
        if (s == trace || s[-1] == '\n' || s[-1] == ' ')
            at = s + 6;
    const char *quote = at ? strstr(at, "\", line ") : NULL;
    if (!quote || strcspn(at, "\r\n") < (size_t)(quote - at))       /* it stands in a comment: one line */
        return;
    const char *line = quote + 8, *end = line + strspn(line, "0123456789"), *function = strstr(end, "in ");
    size_t length = function ? strcspn(function + 3, "\r\n") : 0;
    const char *code = function ? function + 3 + length : "";
    code += strspn(code, " \r\n");
    tp_text_add(out, "# File: %.*s:%.*s in %.*s, code: %.*s", (int)(quote - at), at, (int)(end - line), line,
                (int)length,
                function ? function + 3 : "", (int)strcspn(code, "\r\n"), code);
}

static bool put_origin(printer *p, const tp_node *n)
{
    const char *trace = NULL;
    if (p->host && p->host->trace)
        trace = p->host->trace(p->host->data, n);
    else if (n->origin && n->origin->stack_trace)
        trace = n->origin->stack_trace->text;
    if (!trace)
        trace = "";
    if (p->trace && strcmp(p->trace, trace) == 0)
        return true;
    tp_free(p->trace);
    if (!(p->trace = tp_alloc_text(trace)))
        return false;
    put(&p->body, "    \n    ");
    if (*trace)
        put_place(&p->body, trace);
    else
        put(&p->body, "# No stacktrace found for following nodes");
    put(&p->body, "\n");
    return true;
}

/* ---- the whole ---- */
static bool put_node(printer *p, const tp_node *n)
{
    if ((n->kind == TP_CALL_FUNCTION) == (n->target.kind == TP_TARGET_NAME))
        return tp_fail(TP_ERR_VALUE, "the node '%s' is a %s, but its target is not of that kind", n->name,
                       tp_node_kind_names[n->kind]);
    if (n->kind == TP_PLACEHOLDER)
        return put_placeholder(p, n);
    if (n->kind == TP_OUTPUT)
        return put_output(p, n);
    if (p->options->verbose && !put_origin(p, n))
        return false;
    put(&p->body, "    ");
    if (!(n->kind == TP_CALL_FUNCTION ? put_function(p, n) : put_named(p, n)))
        return false;
    put_releases(p, n);
    return true;
}

static bool put_signature(printer *p)
{
    if (p->host && p->host->signature)
        return p->host->signature(p->host->data, p->parameter.item, p->parameter.count, tp_text_read(&p->returns),
                                  p->out);
    put(p->out, "def forward(");
    if (!p->parameter.count || strcmp(p->parameter.item[0], "self") != 0)
        put(p->out, p->parameter.count ? "self, " : "self");
    for (size_t i = 0; i < p->parameter.count; i++) {
        put(p->out, i ? ", " : "");
        put(p->out, p->parameter.item[i]);
    }
    tp_text_add(p->out, ")%s:", tp_text_read(&p->returns));
    return fine(p->out);
}

/* Functions marked by fx.wrap are marked again when the code is run: one line each. */
static bool put_wraps(printer *p)
{
    tp_text_map done = { 0 };
    bool ok = true;
    for (tp_node *n = p->graph->root.next; ok && n != &p->graph->root && p->host && p->host->wrapped; n = n->next) {
        uint64_t one;
        tp_text name = { 0 };
        bool builtin = n->target.kind == TP_TARGET_BUILTIN;
        if (n->kind == TP_CALL_FUNCTION && (builtin || n->target.kind == TP_TARGET_HANDLE) && p->host->wrapped(p->host->data, n)) {
            ok = builtin ? p->host->builtin(p->host->data, n->target.builtin, &name)
                         : p->host->callable(p->host->data, n->target.handle, &name);
            if (ok && !tp_text_map_get(&done, tp_text_read(&name), &one)) {
                tp_text_add(p->out, "%storch.fx._symbolic_trace.wrap(\"%s\")", done.count ? "\n" : "",
                            tp_text_read(&name));
                ok = tp_text_map_put(&done, tp_text_read(&name), 1);
            }
        }
        tp_text_fini(&name);
    }
    tp_text_map_fini(&done);
    return ok;
}

static void printer_fini(printer *p)
{
    for (size_t i = 0; i < p->parameter.count; i++)
        tp_free(p->parameter.item[i]);
    tp_array_fini(&p->parameter);
    tp_text_fini(&p->body);
    tp_text_fini(&p->returns);
    tp_arena_fini(&p->scratch);
    tp_free(p->trace);
}

bool tp_graph_code(const tp_graph *g, const tp_code_host *host, const tp_code_options *options, tp_text *out)
{
    printer p = { .graph = g, .host = host, .options = options, .out = out };
    tp_arena_init(&p.scratch);
    bool ok = find_last_uses(&p);
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next)
        ok = put_node(&p, n) && fine(&p.body);
    put(out, "\n");
    ok = ok && put_wraps(&p);
    put(out, "\n\n");
    ok = ok && put_signature(&p);
    const char *body = tp_text_read(&p.body);
    if (strncmp(body, "    \n", 5) == 0)        /* no empty line right below the signature */
        body += 5;
    put(out, "\n");
    put(out, *body ? body : "    pass\n");
    put(out, "    ");
    ok = ok && fine(&p.body) && fine(out);
    printer_fini(&p);
    return ok;
}
