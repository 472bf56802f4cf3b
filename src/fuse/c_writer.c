/* c_writer.c - the walk: values and their memory, the function, weights and main. See c_writer.h. */
#include "fuse/c_writer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/runtime.h"
#include "fuse/c_internal.h"
#include "fuse/memory_plan.h"
#include "fuse/open.h"
#include "gen/ops.h"
#include "ops/copy.h"
#include "ops/dispatch.h"
#include "ops/hooks.h"

enum { MOST_ARGS = 64, ALIGN = 16, NUMBERS_A_LINE = 8 };

/* ---- names ---- */

static bool is_taken(const tp_c *c, const char *name)
{
    for (size_t i = 0; i < c->buffer.count; i++)
        if (strcmp(c->buffer.item[i].name, name) == 0)
            return true;
    return false;
}

/* "w_conv1_weight": letters, digits and '_' only; a prefix keeps it off words of C and functions of libm. */
static const char *name_for(tp_c *c, const char *prefix, const char *wish)
{
    char text[160];
    int n = snprintf(text, sizeof text - 16, "%s_%s", prefix, wish);
    n = n < (int)sizeof text - 16 ? n : (int)sizeof text - 17;
    for (int i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]))
            text[i] = '_';
    for (int again = 2; is_taken(c, text); again++)
        snprintf(text + n, sizeof text - (size_t)n, "_%d", again);
    return tp_c_text(c, "%s", text);
}

/* ---- values ---- */

/* How many elements lie from the first to the last of a tensor. */
static int64_t span(const tp_tensor *t)
{
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] == 0)
            return 0;
        last += (t->size[d] - 1) * t->stride[d];
    }
    return last + 1;
}

static int add_buffer(tp_c *c, tp_c_kind kind, const char *prefix, const char *wish, const tp_tensor *fact)
{
    tp_dtype d = (tp_dtype)fact->dtype;
    if (!tp_c_type(d)) {
        (void)tp_c_unsupported(c, tp_dtypes[d].python);
        return -1;
    }
    if (fact->symbolic) {
        (void)tp_c_unsupported(c, "sizes that are not known");
        return -1;
    }
    tp_c_buffer b = { .kind = kind,
                      .dtype = fact->dtype,
                      .name = name_for(c, prefix, wish),
                      .wish = tp_c_text(c, "%.100s", wish),
                      .offset = fact->offset,
                      .count = span(fact),
                      .first = c->step,
                      .last = c->step };
    if (c->failed || !tp_array_push(&c->buffer, b)) {
        c->failed = true;
        return -1;
    }
    return (int)c->buffer.count - 1;
}

static bool store(tp_c *c, const tp_node *n, const tp_c_value *value, uint32_t count)
{
    c->of[n->id].first = (uint32_t)c->made.count;
    c->of[n->id].count = count;
    for (uint32_t i = 0; i < count; i++)
        if (!tp_array_push(&c->made, value[i]))
            return false;
    return true;
}

static const tp_tensor *fact_of(const tp_node *n, int k)
{
    if (n->fact.tag == TP_TENSOR)
        return k == 0 ? n->fact.tensor : NULL;
    return k < (int)tp_length(n->fact) ? tp_as_tensor(n->fact.list->item[k]) : NULL;
}

/* The value of a node; reading it keeps its memory until this step. */
static tp_c_value value_of(tp_c *c, const tp_node *n)
{
    tp_c_value v = c->failed || c->of[n->id].count == 0 ? (tp_c_value){ -1, NULL } : c->made.item[c->of[n->id].first];
    if (v.buffer < 0)
        (void)tp_c_unsupported(c, n->name);
    else if (c->buffer.item[v.buffer].last < c->step)
        c->buffer.item[v.buffer].last = c->step;
    return v;
}

tp_c_value tp_c_item(tp_c *c, tp_value v)
{
    if (v.tag == TP_NODE && !c->failed)
        return value_of(c, tp_as_node(v));
    return (tp_c_value){ -1, NULL };
}

tp_c_value tp_c_arg(tp_c *c, int i)
{
    return tp_c_item(c, c->raw[i]);
}

/* Is the k-th of several results read? */
static bool is_read(const tp_node *n, int k)
{
    for (uint32_t i = 0; i < n->user_count; i++) {
        const tp_node *u = n->user[i];
        if (u->kind == TP_CALL_FUNCTION && u->target.kind == TP_TARGET_BUILTIN && u->arg_count == 2 &&
            u->arg[1].tag == TP_INT && u->arg[1].i == k && u->user_count)
            return true;
    }
    return false;
}

tp_c_value tp_c_memory(tp_c *c, const char *name, const tp_tensor *fact)
{
    return (tp_c_value){ c->failed ? -1 : add_buffer(c, TP_C_MEMORY, "t", name, fact), fact };
}

tp_c_value tp_c_result(tp_c *c, int k)
{
    const tp_node *n = c->node;
    if (tp_c_has(c->into))
        return c->into;
    tp_c_value v = { -1, fact_of(n, k) };
    int count = n->target.op->result_count;
    if (c->failed || (count > 1 ? !is_read(n, k) : false))
        return v;
    if (!v.fact) {
        (void)tp_c_unsupported(c, "results that are not known");
        return v;
    }
    v = tp_c_memory(c, count > 1 ? tp_c_text(c, "%s_%d", n->name, k) : n->name, v.fact);
    if (!c->failed)
        c->made.item[c->of[n->id].first + (uint32_t)k] = v;
    return v;
}

/* ---- calls ---- */

static tp_value fact_value(tp_node *n, void *data)
{
    (void)data;
    return tp_value_ref(n->fact);
}

static bool read_args(const tp_node *n, tp_value *raw, tp_value *fact)
{
    for (int i = 0; i < n->target.op->arg_count; i++)
        fact[i] = tp_none();
    if (!tp_node_op_args(n, raw))
        return false;
    for (int i = 0; i < n->target.op->arg_count; i++)
        if (!tp_value_map_nodes(raw[i], fact_value, NULL, &fact[i]))
            return false;
    return true;
}

/* Its result depends on sizes and literals alone; what reads a tensor's elements or a file is no such call. */
static bool is_factory(const tp_op *op)
{
    tp_kernel_fn *k = op->work->kernel;
    bool tensors = false;
    for (int i = 0; i < op->arg_count; i++)
        tensors |= op->arg[i].type == TP_TYPE_TENSOR;
    return op->kind == TP_LIKE_FACTORY && op->variant == TP_FUNCTIONAL && op->result_count == 1 &&
           !(op->flags & (TP_OP_RNG | TP_OP_IO | TP_OP_SYNC)) &&
           (!tensors || k == tp_k_empty || k == tp_k_zeros || k == tp_k_ones || k == tp_k_full);
}

static int keep(const tp_op *op, const tp_value *arg)
{
    if (tp_c_writes(op))
        return tp_c_can_write(op) && (tp_c_is_view(op) || tp_c_has_pointwise(op, arg) || tp_c_has_kernel(op, arg));
    return tp_c_is_view(op) || is_factory(op) || tp_c_has_pointwise(op, arg) || tp_c_has_reduction(op, arg) ||
           tp_c_has_kernel(op, arg);
}

/* A view, or a list of them: the memory of what it looks at, seen by its own facts. */
static bool write_view(tp_c *c, const tp_node *n)
{
    tp_c_value base = tp_c_arg(c, 0);
    uint32_t count = n->fact.tag == TP_TENSOR ? 1 : tp_length(n->fact);
    if (c->failed)
        return false;
    if (tp_c_writes(n->target.op) && c->buffer.item[base.buffer].kind != TP_C_MEMORY)
        return tp_c_unsupported(c, "an input or a weight that changes its sizes or strides");
    c->of[n->id].first = (uint32_t)c->made.count;
    c->of[n->id].count = count;
    for (uint32_t k = 0; k < count; k++) {
        tp_c_value v = { base.buffer, fact_of(n, (int)k) };
        if (!v.fact || v.fact->dtype != base.fact->dtype)
            return tp_c_unsupported(c, "a view of another type");
        if (!tp_array_push(&c->made, v))
            return false;
    }
    return true;
}

/* A real tensor of a fake one's form: a factory looks at no more. */
static bool to_real(tp_value *v)
{
    const tp_tensor *t = tp_as_tensor(*v);
    tp_tensor *made = t ? tp_tensor_new_on(t->device, (tp_dtype)t->dtype, t->ndim, t->size, t->stride) : NULL;
    if (t && !made)
        return false;
    if (made) {
        tp_value_unref(*v);
        *v = tp_of_tensor(made);
    }
    return true;
}

static bool same_layout(const tp_tensor *a, const tp_tensor *b)
{
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->size[d] == b->size[d] && (a->stride[d] == b->stride[d] || a->size[d] < 2);
    return same;
}

/* Views of a weight count in the strides and from the offset of its fact: where the tensor lies otherwise it is copied.
 */
static bool add_constant(tp_c *c, const tp_node *n, const tp_tensor *t, const char *name)
{
    const tp_tensor *fact = fact_of(n, 0);
    tp_c_value v = { -1, fact ? fact : t };
    if (!t->storage->data && t->numel)
        return tp_c_unsupported(c, "weights without data");
    if (!same_layout(v.fact, t)) {
        tp_tensor *copy = tp_tensor_new_on(t->device, (tp_dtype)t->dtype, v.fact->ndim, v.fact->size, v.fact->stride);
        if (!copy || !tp_array_push(&c->owned, copy)) {
            tp_tensor_unref(copy);
            c->failed = true;
            return false;
        }
        tp_copy(copy, t);
        t = copy;
    }
    v.buffer = add_buffer(c, TP_C_CONSTANT, "w", name, v.fact);
    if (c->failed)
        return false;
    c->buffer.item[v.buffer].data = t;
    return store(c, n, &v, 1);
}

static void add_name(tp_node *n, void *data)
{
    tp_text *t = data;
    tp_text_add(t, "%s%s", t->length ? ", " : "", n->name);
}

/* Which node the lines that follow come from. */
static void write_heading(tp_c *c, const tp_node *n)
{
    tp_text inputs = { 0 };
    tp_node_each_input(n, add_name, &inputs);
    tp_text_add(&c->body, "\n");
    tp_c_line(c, "/* %s = %s(%.200s) */", n->name, n->target.op->name, tp_text_read(&inputs));
    tp_text_fini(&inputs);
}

static bool write_factory(tp_c *c, const tp_node *n, tp_value *arg)
{
    tp_value result = tp_none();
    for (int i = 0; i < n->target.op->arg_count; i++)
        if (!to_real(&arg[i]))
            return false;
    if (!tp_call(n->target.op, arg, &result))
        return false;
    if (result.tag != TP_TENSOR || !tp_array_push(&c->owned, result.tensor)) {
        tp_value_unref(result);
        return tp_c_unsupported(c, "a factory of what is no tensor");
    }
    tp_tensor *t = result.tensor;
    if (n->target.op->work->kernel == tp_k_empty && t->storage->data) /* what nobody wrote is zero: the same text each time */
        memset(t->storage->data, 0, t->storage->bytes);
    if (!c->written[n->id])
        return add_constant(c, n, t, n->name);
    tp_c_value v = { -1, NULL };
    write_heading(c, n);
    if (!tp_c_is_uniform(t)) {
        if (!add_constant(c, n, t, n->name))
            return false;
        v = value_of(c, n);
    }
    v = tp_c_filled(c, n->name, fact_of(n, 0), t, v);
    return !c->failed && store(c, n, &v, 1);
}

/* Has none of the results an element? */
static bool is_empty(const tp_node *n)
{
    for (int k = 0; k < n->target.op->result_count; k++)
        if (!fact_of(n, k) || fact_of(n, k)->numel)
            return false;
    return true;
}

static bool write_call(tp_c *c, const tp_node *n, const tp_op *op)
{
    tp_c_value none = { -1, NULL };
    c->of[n->id].first = (uint32_t)c->made.count;
    c->of[n->id].count = op->result_count;
    for (int k = 0; k < op->result_count; k++)
        if (!tp_array_push(&c->made, none))
            return false;
    write_heading(c, n);
    if (tp_c_writes(op)) {
        if (!tp_c_can_write(op) || !(tp_c_has_pointwise(op, c->arg) || tp_c_has_kernel(op, c->arg)))
            return tp_c_unsupported(c, "");
        c->made.item[c->of[n->id].first] = tp_c_arg(c, 0);
        return tp_c_write_into(c, op);
    }
    if (is_empty(n)) {
        for (int k = 0; k < op->result_count; k++)
            (void)tp_c_result(c, k);
        return !c->failed;
    }
    return tp_c_has_pointwise(op, c->arg)   ? tp_c_pointwise(c, op)
           : tp_c_has_reduction(op, c->arg) ? tp_c_reduction(c, op)
           : tp_c_has_kernel(op, c->arg)    ? tp_c_kernel(c, op)
                                            : tp_c_unsupported(c, "");
}

static bool write_op(tp_c *c, const tp_node *n)
{
    tp_value raw[MOST_ARGS], fact[MOST_ARGS];
    const tp_op *op = n->target.op;
    bool ok = read_args(n, raw, fact);
    c->node = n;
    c->raw = raw;
    c->arg = fact;
    if (!ok)
        c->failed = true;
    else if (tp_c_is_view(op))
        ok = write_view(c, n);
    else if (is_factory(op))
        ok = write_factory(c, n, fact);
    else
        ok = write_call(c, n, op);
    tp_values_unref(fact, op->arg_count);
    c->node = NULL;
    return ok && !c->failed;
}

static bool write_getitem(tp_c *c, const tp_node *n)
{
    const tp_node *of = n->arg_count == 2 ? tp_as_node(n->arg[0]) : NULL;
    if (!of || n->arg[1].tag != TP_INT)
        return tp_c_unsupported(c, n->name);
    int64_t i = n->arg[1].i;
    if (i < 0 || i >= c->of[of->id].count)
        return tp_c_unsupported(c, n->name);
    tp_c_value v = c->made.item[c->of[of->id].first + (uint32_t)i];
    return store(c, n, &v, 1);
}

/* ---- inputs and outputs ---- */

static bool add_input(tp_c *c, const tp_node *n, const char *name)
{
    tp_c_value v = { -1, fact_of(n, 0) };
    if (!v.fact)
        return n->user_count == 0 || tp_c_unsupported(c, "inputs that are no tensors");
    if (!tp_tensor_is_contiguous(v.fact))
        return tp_c_unsupported(c, "inputs that are not row-major");
    v.buffer = add_buffer(c, TP_C_INPUT, "in", name, v.fact);
    return !c->failed && store(c, n, &v, 1);
}

typedef struct outputs {
    tp_c *c;
    tp_array(tp_c_value) value;
} outputs;

static void add_output(tp_node *n, void *data)
{
    outputs *o = data;
    tp_c_value v = value_of(o->c, n);
    if (!o->c->failed && !tp_array_push(&o->value, v))
        o->c->failed = true;
}

/* out_0[…] = value, row by row. */
static void write_output(tp_c *c, tp_c_value v, size_t k)
{
    tp_tensor rows = *v.fact;
    int64_t stride[TP_MAX_DIMS];
    tp_strides_row_major(rows.ndim, rows.size, stride);
    rows.stride = stride;
    rows.offset = 0;
    tp_c_buffer b = { .kind = TP_C_INPUT, .dtype = rows.dtype, .name = tp_c_text(c, "out_%zu", k) };
    if (c->failed || !tp_array_push(&c->buffer, b)) {
        c->failed = true;
        return;
    }
    tp_c_nest n = { .count = 2, .operand = { { (int)c->buffer.count - 1, &rows }, v } };
    tp_text_add(&c->body, "\n");
    tp_c_nest_open(c, &n, rows.ndim, rows.size);
    tp_c_line(c, "%s = %s;", n.at[0], n.at[1]);
    tp_c_nest_close(c, &n);
    c->buffer.count--;
}

static bool walk(tp_c *c, const tp_c_source *s, outputs *out)
{
    c->depth = 1;
    tp_graph_each(s->graph, n)
    {
        const tp_tensor *constant = s->constant ? s->constant[n->id] : NULL;
        const char *name = s->name && s->name[n->id] ? s->name[n->id] : n->name;
        bool ok = true;
        c->step++;
        if ((n->kind == TP_PLACEHOLDER || n->kind == TP_GET_ATTR) && constant)
            ok = n->user_count == 0 || add_constant(c, n, constant, name);
        else if (n->kind == TP_PLACEHOLDER)
            ok = add_input(c, n, name);
        else if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP)
            ok = write_op(c, n);
        else if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN &&
                 strcmp(n->target.builtin->name, "getitem") == 0)
            ok = write_getitem(c, n);
        else if (n->kind == TP_OUTPUT)
            tp_value_each_node(n->arg[0], add_output, out);
        else
            ok = tp_c_unsupported(c, n->name);
        if (!ok || c->failed || c->body.failed)
            return false;
    }
    for (size_t k = 0; k < out->value.count; k++)
        write_output(c, out->value.item[k], k);
    return !c->failed && !c->body.failed;
}

/* ---- the file ---- */

static void put_constant(const tp_c_buffer *b, tp_text *out)
{
    char number[48];
    tp_dtype d = (tp_dtype)b->dtype;
    const char *data = b->count ? tp_tensor_data(b->data) : NULL;
    tp_text_add(out, "static const %s %s[%lld] = {", tp_c_type(d), b->name, (long long)(b->count ? b->count : 1));
    for (int64_t i = 0; i < b->count; i++)
        tp_text_add(out, "%s%s",
                    i == 0               ? "\n    "
                    : i % NUMBERS_A_LINE ? ", "
                                         : ",\n    ",
                    tp_c_literal(tp_scalar_read(data + i * (int64_t)tp_dtype_bytes(d), d), d, number));
    tp_text_add(out, "%s};\n\n", b->count ? "\n" : " 0 ");
}

/* Does the function mention it? What it does not would be a warning. */
static bool is_named(const tp_c *c, const tp_c_buffer *b)
{
    size_t length = strlen(b->name);
    const char *body = tp_text_read(&c->body);
    for (const char *at = body; (at = strstr(at, b->name)); at += length)
        if (at[length] == '[' && at > body && !isalnum((unsigned char)at[-1]) && at[-1] != '_')
            return true;
    return false;
}

/* Does it need a piece of the block of this type? One without elements is seldom mentioned. */
static bool is_placed(const tp_c *c, const tp_c_buffer *b, tp_dtype d)
{
    return b->kind == TP_C_MEMORY && b->dtype == d && (b->count || is_named(c, b));
}

/* One block a type; `declare` gets the lines that name its pieces. */
static bool plan_memory(tp_c *c, tp_dtype d, tp_text *out, tp_text *declare)
{
    tp_array(tp_plan_row) row = { 0 };
    bool ok = true;
    for (size_t i = 0; ok && i < c->buffer.count; i++) {
        const tp_c_buffer *b = &c->buffer.item[i];
        if (is_placed(c, b, d))
            ok = tp_array_push(&row, ((tp_plan_row){ b->count, b->first, b->last, 0 }));
    }
    int64_t total = ok ? tp_memory_plan(row.item, row.count, ALIGN) : -1;
    if (total >= 0 && row.count) {
        size_t k = 0;
        tp_text_add(out, "static %s memory_%s[%lld];\n", tp_c_type(d), tp_c_short(d), (long long)(total ? total : 1));
        for (size_t i = 0; i < c->buffer.count; i++) {
            const tp_c_buffer *b = &c->buffer.item[i];
            if (is_placed(c, b, d))
                tp_text_add(declare, "    %s *const %s = memory_%s + %lld;\n", tp_c_type(d), b->name, tp_c_short(d),
                            (long long)row.item[k++].place);
        }
    }
    tp_array_fini(&row);
    return total >= 0;
}

/* "const float *in_x, float *out_0" */
static void put_parameters(const tp_c *c, const outputs *o, tp_text *out)
{
    size_t count = 0;
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT)
            tp_text_add(out, "%s%s%s *%s", count++ ? ", " : "", c->buffer.item[i].written ? "" : "const ",
                        tp_c_type((tp_dtype)c->buffer.item[i].dtype), c->buffer.item[i].name);
    for (size_t k = 0; k < o->value.count; k++)
        tp_text_add(out, "%s%s *out_%zu", count++ ? ", " : "", tp_c_type((tp_dtype)o->value.item[k].fact->dtype), k);
    if (!count)
        tp_text_add(out, "void");
}

static void put_sizes(const tp_tensor *t, tp_text *out)
{
    for (int d = 0; d < t->ndim; d++)
        tp_text_add(out, "%s%lld", d ? "x" : "", (long long)t->size[d]);
    if (t->ndim == 0)
        tp_text_add(out, "scalar");
}

static void put_main(const tp_c *c, const tp_c_source *s, const outputs *o, tp_text *out)
{
    size_t inputs = 0, count = 0;
    for (size_t i = 0; i < c->buffer.count; i++)
        inputs += c->buffer.item[i].kind == TP_C_INPUT;
    if (inputs)
        tp_text_add(
            out,
            "\nstatic int read_raw(const char *path, void *to, size_t bytes)\n{\n    FILE *f = fopen(path, \"rb\");\n"
            "    const int ok = f && fread(to, 1, bytes, f) == bytes && fgetc(f) == EOF;\n    if (f)\n        "
            "fclose(f);\n    if (!ok)\n"
            "        fprintf(stderr, \"%%s: not a file of %%lu bytes\\n\", path, (unsigned long)bytes);\n    return "
            "ok;\n}\n");
    tp_text_add(out, "\n/* Inputs are files of raw elements, row-major; outputs are printed, one number a line. "
                     "*/\nint main(int argc, char **argv)\n{\n");
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT)
            tp_text_add(out, "    static %s %s[%lld];\n", tp_c_type((tp_dtype)c->buffer.item[i].dtype),
                        c->buffer.item[i].name, (long long)(c->buffer.item[i].count ? c->buffer.item[i].count : 1));
    for (size_t k = 0; k < o->value.count; k++)
        tp_text_add(out, "    static %s out_%zu[%lld];\n", tp_c_type((tp_dtype)o->value.item[k].fact->dtype), k,
                    (long long)(o->value.item[k].fact->numel ? o->value.item[k].fact->numel : 1));
    tp_text_add(out, "    if (argc != %zu) {\n        fprintf(stderr, \"usage: %%s", inputs + 1);
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT)
            tp_text_add(out, " %s", c->buffer.item[i].name + 3);
    tp_text_add(out, "\\n\", argv[0]);\n        return 2;\n    }\n");
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT)
            tp_text_add(out, "    if (!read_raw(argv[%zu], %s, %lld * sizeof *%s))\n        return 1;\n", ++count,
                        c->buffer.item[i].name, (long long)c->buffer.item[i].count, c->buffer.item[i].name);
    tp_text_add(out, "    %s(", s->function ? s->function : "model");
    count = 0;
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT)
            tp_text_add(out, "%s%s", count++ ? ", " : "", c->buffer.item[i].name);
    for (size_t k = 0; k < o->value.count; k++)
        tp_text_add(out, "%sout_%zu", count++ ? ", " : "", k);
    tp_text_add(out, ");\n");
    for (size_t k = 0; k < o->value.count; k++) {
        const tp_tensor *t = o->value.item[k].fact;
        bool real = tp_dtype_is_float((tp_dtype)t->dtype);
        tp_text_add(out, "    printf(\"out_%zu %s ", k, tp_c_type((tp_dtype)t->dtype));
        put_sizes(t, out);
        tp_text_add(out, "\\n\");\n    for (long i = 0; i < %lld; i++)\n        printf(\"%s\\n\", (%s)out_%zu[i]);\n",
                    (long long)t->numel, real ? (t->dtype == TP_f32 ? "%.9g" : "%.17g") : "%lld",
                    real ? "double" : "long long", k);
    }
    tp_text_add(out, "    return 0;\n}\n");
}

static bool put_file(tp_c *c, const tp_c_source *s, const outputs *o, tp_text *out)
{
    static const uint8_t types[] = { TP_f32, TP_f64, TP_i64, TP_i32, TP_i16, TP_i8, TP_u8, TP_b8 };
    tp_text declare = { 0 };
    bool ok = true;
    tp_text_add(out,
                "/* Written by taper from a traced program: one function, no allocation, libc and libm only. "
                "*/\n#include <math.h>\n#include <stdint.h>\n%s\n",
                s->with_main ? "#include <stdio.h>\n" : "");
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_CONSTANT && is_named(c, &c->buffer.item[i]))
            put_constant(&c->buffer.item[i], out);
    for (size_t i = 0; ok && i < TP_COUNT(types); i++)
        ok = plan_memory(c, (tp_dtype)types[i], out, &declare);
    tp_text_add(out, "\n");
    tp_c_put_helpers(tp_text_read(&c->body), out);
    tp_text_add(out, "void %s(", s->function ? s->function : "model");
    put_parameters(c, o, out);
    tp_text_add(out, ");\nvoid %s(", s->function ? s->function : "model");
    put_parameters(c, o, out);
    tp_text_add(out, ")\n{\n%s", tp_text_read(&declare));
    for (size_t i = 0; i < c->buffer.count; i++)
        if (c->buffer.item[i].kind == TP_C_INPUT && !is_named(c, &c->buffer.item[i]))
            tp_text_add(out, "    (void)%s;\n", c->buffer.item[i].name);
    tp_text_put(out, tp_text_read(&c->body), c->body.length);
    tp_text_add(out, "}\n");
    if (s->with_main)
        put_main(c, s, o, out);
    ok = ok && !declare.failed && !c->failed;
    tp_text_fini(&declare);
    return ok && !out->failed;
}

static bool write_graph(const tp_c_source *s, tp_text *out)
{
    tp_c c = { .failed = false, .into = { -1, NULL } };
    outputs o = { .c = &c };
    tp_arena_init(&c.arena);
    c.of = tp_alloc_zero(sizeof *c.of * (s->graph->node_count + 1));
    bool ok = c.of && tp_c_find_written(&c, s->graph) && walk(&c, s, &o) && put_file(&c, s, &o, out);
    tp_arena_fini(&c.arena);
    tp_text_fini(&c.body);
    tp_array_fini(&c.buffer);
    tp_array_fini(&c.made);
    tp_array_fini(&o.value);
    for (size_t i = 0; i < c.owned.count; i++)
        tp_tensor_unref(c.owned.item[i]);
    tp_array_fini(&c.owned);
    tp_free(c.of);
    tp_free(c.written);
    if (!ok && tp_error_kind() == TP_ERR_NONE)
        return tp_fail_memory();
    return ok;
}

bool tp_c_write(const tp_c_source *s, tp_text *out)
{
    tp_graph *g = tp_fuse_open(s->graph, keep);
    const void **constant = g ? tp_alloc_zero(sizeof *constant * (g->node_count + 1)) : NULL;
    const void **name = g ? tp_alloc_zero(sizeof *name * (g->node_count + 1)) : NULL;
    bool ok = constant && name;
    if (ok) {
        tp_fuse_open_map(s->graph, (const void *const *)s->constant, g, constant);
        tp_fuse_open_map(s->graph, (const void *const *)s->name, g, name);
        tp_c_source opened = { g, (const tp_tensor *const *)constant, (const char *const *)name, s->function,
                               s->with_main };
        ok = write_graph(&opened, out);
    }
    tp_free(constant);
    tp_free(name);
    tp_graph_unref(g);
    return ok;
}
