/* print.c - a jit graph as PyTorch prints it.
 *
 *     graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu),
 *           %y : Tensor):
 *       %2 : int = prim::Constant[value=1]() # model.py:4:0
 *       %3 : Float(…) = aten::add(%x, %y, %2) # model.py:4:0
 *       return (%3)
 *
 * Nodes that read one result of another are no lines of their own: they stand left of the equals sign of that node. */
#include <math.h>
#include <stdio.h>

#include "jit/graph.h"
#include "tensor/print.h"

static void print_name(const tp_node *n, tp_text *out)
{
    const tp_jit_note *note = tp_jit_note_of(n);
    if (note->name)
        tp_text_add(out, "%%%s", note->name);
    else
        tp_text_add(out, "%%%u", note->number);
}

static void print_typed(const tp_node *n, tp_text *out)
{
    print_name(n, out);
    tp_text_add(out, " : ");
    tp_jit_type_print(tp_jit_type_of(n), out);
}

/* ---- constants ---- */
void tp_jit_print_number(double v, tp_text *out)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        tp_text_add(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    snprintf(text, sizeof text, "%.17g", v);
    tp_text_add(out, strpbrk(text, ".e") ? "%s" : "%s.", text);
}

static double element(const tp_tensor *t, int64_t at)
{
    tp_scalar s = tp_scalar_read((const char *)t->storage->data + at * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype), (tp_dtype)t->dtype);
    return s.kind == TP_KIND_FLOAT ? s.f : s.kind == TP_KIND_COMPLEX ? s.c.re : (double)s.i;
}

static void print_elements(const tp_tensor *t, int dim, int64_t at, tp_text *out)
{
    if (dim == t->ndim) {
        tp_text_add(out, " %g ", element(t, at));
        return;
    }
    for (int64_t i = 0; i < t->size[dim]; i++)
        print_elements(t, dim + 1, at + i * t->stride[dim], out);
    if (dim == t->ndim - 1 && t->ndim > 1)
        tp_text_add(out, "\n");
}

static void print_tensor(const tp_tensor *t, tp_text *out)
{
    if (t->numel == 1 && t->ndim == 0) {
        tp_text_add(out, "{%g}", element(t, t->offset));
        return;
    }
    if (t->numel > 30) {
        tp_text_add(out, "<Tensor>");
        return;
    }
    print_elements(t, 0, t->offset, out);
    tp_text_add(out, "[ CPU%sType{", tp_dtypes[t->dtype].title);
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(out, "%s%lld", i ? "," : "", (long long)t->size[i]);
    tp_text_add(out, "} ]");
}

static void print_string(const char *text, tp_text *out)
{
    tp_text_add(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            tp_text_add(out, "\\%c", *text);
        else if (*text == '\n')
            tp_text_add(out, "\\n");
        else
            tp_text_put(out, text, 1);
    }
    tp_text_add(out, "\"");
}

static void print_value(tp_value v, const tp_jit_type *type, tp_text *out)
{
    char device[16];
    bool number = type->kind == TP_JIT_TENSOR;      /* a Python number in a tensor's place */
    switch ((tp_tag)v.tag) {
    case TP_FLOAT:
        if (number)
            tp_text_add(out, "{%g}", v.f);
        else
            tp_jit_print_number(v.f, out);
        break;
    case TP_BOOL:
    case TP_INT:
    case TP_LAYOUT:
    case TP_FORMAT_VALUE: tp_text_add(out, number ? "{%lld}" : "%lld", (long long)v.i); break;
    case TP_DTYPE_VALUE: tp_text_add(out, "%lld", (long long)tp_jit_dtype_number(v.i)); break;
    case TP_STRING: print_string(v.string->text, out); break;
    case TP_DEVICE: tp_text_add(out, "\"%s\"", tp_device_name(v.device, device)); break;
    case TP_TENSOR: print_tensor(v.tensor, out); break;
    case TP_LIST:
        tp_text_add(out, "[");
        for (uint32_t i = 0; i < v.list->count; i++) {
            tp_text_add(out, "%s", i ? ", " : "");
            print_value(v.list->item[i], type->kind == TP_JIT_LIST ? type->part[0].type : type, out);
        }
        tp_text_add(out, "]");
        break;
    case TP_HANDLE:
        tp_text_add(out, "\"");
        v.handle->type->repr(v.handle, out);
        tp_text_add(out, "\"");
        break;
    default: tp_value_print(v, out); break;
    }
}

/* ---- nodes ---- */
static void print_attributes(const tp_node *n, tp_text *out)
{
    const tp_value *pair = n->arg + n->arg_count;
    for (uint32_t k = 0; k < n->keyword_count; k++, pair += 2) {
        const char *name = pair[1].tag == TP_HANDLE ? "name" : pair[0].string->text;      /* a function is known by its name */
        tp_text_add(out, "%s%s=", k ? ", " : "[", name);
        print_value(pair[1], tp_jit_type_of(n), out);
    }
    if (n->keyword_count)
        tp_text_add(out, "]");
}

static void print_outputs(const tp_node *n, tp_text *out)
{
    if (!tp_jit_note_of(n)->results) {
        print_typed(n, out);
        return;
    }
    const char *between = "";
    for (uint32_t i = 0; i < n->user_count; i++) {
        if (!tp_jit_is(n->user[i], "prim::Result"))
            continue;
        tp_text_add(out, "%s", between);
        print_typed(n->user[i], out);
        between = ", ";
    }
}

/* ": <numbers of the inputs>" of a call: None where an argument of Python's function is no value. */
static void print_arguments(const tp_node *n, tp_text *out)
{
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const tp_node *in = tp_as_node(n->arg[i]);
        tp_text_add(out, "%s", i ? ", " : "");
        if (in)
            print_name(in, out);
        else
            print_value(n->arg[i], tp_jit_simple(TP_JIT_ANY), out);
    }
}

void tp_jit_print_node(const tp_node *n, tp_text *out)
{
    char kind[160];
    const tp_string *scope = tp_jit_note_of(n)->scope;
    print_outputs(n, out);
    tp_text_add(out, " = %s", tp_jit_kind_name(n, kind));
    print_attributes(n, out);
    tp_text_add(out, "(");
    print_arguments(n, out);
    tp_text_add(out, ")");
    if (scope)
        tp_text_add(out, ", scope: %s", scope->text);
    if (n->origin && n->origin->stack_trace)
        tp_text_add(out, " # %s", n->origin->stack_trace->text);
}

static void print_return(const tp_node *n, tp_text *out)
{
    tp_text_add(out, "  return (");
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const tp_node *in = tp_as_node(n->arg[i]);
        tp_text_add(out, "%s", i ? ", " : "");
        if (in)
            print_name(in, out);
    }
    tp_text_add(out, ")\n");
}

void tp_jit_print(const tp_graph *g, tp_text *out)
{
    bool first = true;
    tp_text_add(out, "graph(");
    tp_graph_each(g, n) {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        tp_text_add(out, "%s", first ? "" : ",\n      ");
        print_typed(n, out);
        first = false;
    }
    tp_text_add(out, "):\n");
    tp_graph_each(g, n) {
        if (n->kind == TP_OUTPUT) {
            print_return(n, out);
        } else if (n->kind != TP_PLACEHOLDER && !tp_jit_is(n, "prim::Result")) {
            tp_text_add(out, "  ");
            tp_jit_print_node(n, out);
            tp_text_add(out, "\n");
        }
    }
}
