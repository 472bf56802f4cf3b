/* builder.c - nodes and values of a model, written as protobuf while they are made. Field numbers are those of onnx.proto. */
#include <string.h>

#include "export/onnx/internal.h"
#include "format/protobuf.h"
#include "ops/copy.h"

enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_TEXT = 4, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_TEXT = 3, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

static bool fail(tp_onnx *o)
{
    o->failed = true;
    return false;
}

bool tp_onnx_init(tp_onnx *o, uint32_t node_count)
{
    *o = (tp_onnx){ .common = TP_DTYPE_NONE };
    tp_arena_init(&o->arena);
    o->of = tp_alloc_zero(sizeof *o->of * (node_count + 1));
    return o->of && tp_array_push(&o->value, ((struct tp_onnx_value){ NULL, TP_DTYPE_NONE }));
}

void tp_onnx_fini(tp_onnx *o)
{
    tp_arena_fini(&o->arena);
    tp_array_fini(&o->value);
    tp_array_fini(&o->input);
    tp_array_fini(&o->result);
    tp_array_fini(&o->made);
    tp_text_fini(&o->nodes);
    tp_text_fini(&o->initializers);
    tp_text_fini(&o->inputs);
    tp_text_fini(&o->outputs);
    tp_text_fini(&o->attributes);
    tp_free(o->of);
}

bool tp_onnx_good(const tp_onnx *o)
{
    return !o->failed && !o->nodes.failed && !o->initializers.failed && !o->inputs.failed && !o->outputs.failed && !o->attributes.failed;
}

int tp_onnx_data_type(tp_dtype d)
{
    static const uint8_t number[TP_DTYPE_COUNT] = {
        [TP_f32] = 1, [TP_u8] = 2, [TP_i8] = 3, [TP_i16] = 5, [TP_i32] = 6, [TP_i64] = 7, [TP_b8] = 9, [TP_f16] = 10, [TP_f64] = 11,
        [TP_c64] = 14, [TP_c128] = 15, [TP_bf16] = 16,
    };
    return d < TP_DTYPE_COUNT ? number[d] : 0;
}

/* ---- values ---- */

int tp_onnx_value_new(tp_onnx *o, const char *name, tp_dtype d)
{
    const char *kept = o->failed ? NULL : tp_text_in(&o->arena, name, strlen(name));
    if (!kept || !tp_array_push(&o->value, ((struct tp_onnx_value){ kept, (uint8_t)d })))
        return fail(o);
    return (int)o->value.count - 1;
}

const tp_tensor *tp_onnx_fact(const tp_node *n, int k)
{
    if (!n)
        return NULL;
    if (n->fact.tag == TP_TENSOR)
        return k == 0 ? n->fact.tensor : NULL;
    return k < (int)tp_length(n->fact) ? tp_as_tensor(n->fact.list->item[k]) : NULL;
}

const tp_tensor *tp_onnx_result_fact(const tp_onnx *o, int k)
{
    return tp_onnx_fact(o->node, k);
}

int tp_onnx_value_of(tp_onnx *o, const tp_node *n)
{
    struct tp_onnx_made m = o->of[n->id];
    int v = o->failed || m.count == 0 ? 0 : o->made.item[m.first];
    if (!v && !o->failed) {
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: the result '%s' has no form in ONNX", n->name);
        return fail(o);
    }
    return v;
}

void tp_onnx_result(tp_onnx *o, int k, int value)
{
    while (!o->failed && (int)o->result.count <= k)
        if (!tp_array_push(&o->result, 0))
            o->failed = true;
    if (!o->failed)
        o->result.item[k] = value;
}

static int promoted(tp_onnx *o, int i, int value)
{
    return o->promoting >> i & 1 && o->common != TP_DTYPE_NONE ? tp_onnx_cast(o, value, (tp_dtype)o->common) : value;
}

static int of_value(tp_onnx *o, int i, tp_value v)
{
    if (v.tag == TP_NODE)
        return promoted(o, i, tp_onnx_value_of(o, tp_as_node(v)));
    if (v.tag == TP_TENSOR)
        return promoted(o, i, tp_onnx_constant(o, v.tensor, NULL));
    return tp_is_number(v) ? tp_onnx_number(o, v, TP_DTYPE_NONE) : 0;
}

int tp_onnx_arg(tp_onnx *o, int i)
{
    return o->failed ? 0 : of_value(o, i, o->raw[i]);
}

/* ---- nodes ---- */

void tp_onnx_begin(tp_onnx *o, const char *operator)
{
    o->operator = operator;
    o->input.count = 0;
    o->attributes.length = 0;
}

void tp_onnx_input(tp_onnx *o, int value)
{
    if (!o->failed && !tp_array_push(&o->input, value))
        o->failed = true;
}

void tp_onnx_inputs(tp_onnx *o, int i)
{
    for (uint32_t k = 0; !o->failed && k < tp_length(o->raw[i]); k++) {
        tp_value v = o->raw[i].list->item[k];
        if (v.tag != TP_NODE) {
            (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: %s of what is no tensor", o->operator);
            o->failed = true;
            return;
        }
        tp_onnx_input(o, tp_onnx_value_of(o, tp_as_node(v)));
    }
}

/* An AttributeProto is opened, gets its name and type; the value follows. */
static size_t open_attribute(tp_onnx *o, const char *name, int type)
{
    size_t opened = tp_proto_open(&o->attributes, NODE_ATTRIBUTE);
    tp_proto_put_text(&o->attributes, ATTRIBUTE_NAME, name);
    tp_proto_put_int(&o->attributes, ATTRIBUTE_TYPE, type);
    return opened;
}

void tp_onnx_int(tp_onnx *o, const char *name, int64_t v)
{
    size_t opened = open_attribute(o, name, TYPE_INT);
    tp_proto_put_int(&o->attributes, ATTRIBUTE_INT, v);
    tp_proto_close(&o->attributes, opened);
}

void tp_onnx_float(tp_onnx *o, const char *name, double v)
{
    size_t opened = open_attribute(o, name, TYPE_FLOAT);
    tp_proto_put_float(&o->attributes, ATTRIBUTE_FLOAT, (float)v);
    tp_proto_close(&o->attributes, opened);
}

void tp_onnx_text(tp_onnx *o, const char *name, const char *v)
{
    size_t opened = open_attribute(o, name, TYPE_TEXT);
    tp_proto_put_text(&o->attributes, ATTRIBUTE_TEXT, v);
    tp_proto_close(&o->attributes, opened);
}

void tp_onnx_ints(tp_onnx *o, const char *name, const int64_t *v, int count)
{
    size_t opened = open_attribute(o, name, TYPE_INTS);
    for (int i = 0; i < count; i++)         /* one by one: the schema of ONNX is of the age before packed fields */
        tp_proto_put_int(&o->attributes, ATTRIBUTE_INTS, v[i]);
    tp_proto_close(&o->attributes, opened);
}

/* A fresh value, called after the node of the graph that it serves. */
static int output(tp_onnx *o)
{
    tp_text name = { 0 };
    tp_text_add(&name, "%s.%zu", o->node ? o->node->name : "value", o->value.count);
    int v = name.failed ? fail(o) : tp_onnx_value_new(o, tp_text_read(&name), TP_DTYPE_NONE);
    tp_text_fini(&name);
    return v;
}

int tp_onnx_end_many(tp_onnx *o, int outputs)
{
    int first = 0;
    while (o->input.count > 0 && o->input.item[o->input.count - 1] == 0)
        o->input.count--;
    for (int i = 0; i < outputs && !o->failed; i++) {
        int v = output(o);
        first = i ? first : v;
    }
    if (o->failed)
        return 0;
    size_t node = tp_proto_open(&o->nodes, GRAPH_NODE);
    for (size_t i = 0; i < o->input.count; i++) {
        const char *name = o->value.item[o->input.item[i]].name;
        tp_proto_put_text(&o->nodes, NODE_INPUT, name ? name : "");
    }
    for (int i = 0; i < outputs; i++)
        tp_proto_put_text(&o->nodes, NODE_OUTPUT, o->value.item[first + i].name);
    tp_text name = { 0 };
    tp_text_add(&name, "%s_%u", o->operator, o->node_count++);
    tp_proto_put_text(&o->nodes, NODE_NAME, tp_text_read(&name));
    o->nodes.failed |= name.failed;
    tp_text_fini(&name);
    tp_proto_put_text(&o->nodes, NODE_OPERATOR, o->operator);
    tp_text_put(&o->nodes, tp_text_read(&o->attributes), o->attributes.length);
    tp_proto_close(&o->nodes, node);
    return first;
}

int tp_onnx_end(tp_onnx *o)
{
    return tp_onnx_end_many(o, 1);
}

int tp_onnx_3(tp_onnx *o, const char *operator, int a, int b, int c)
{
    tp_onnx_begin(o, operator);
    tp_onnx_input(o, a);
    tp_onnx_input(o, b);
    tp_onnx_input(o, c);
    return tp_onnx_end(o);
}

int tp_onnx_2(tp_onnx *o, const char *operator, int a, int b)
{
    return tp_onnx_3(o, operator, a, b, 0);
}

int tp_onnx_1(tp_onnx *o, const char *operator, int a)
{
    return tp_onnx_3(o, operator, a, 0, 0);
}

int tp_onnx_cast(tp_onnx *o, int value, tp_dtype d)
{
    int type = tp_onnx_data_type(d);
    if (o->failed || !value || o->value.item[value].dtype == d)
        return value;
    if (!type) {
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: a type that ONNX does not have");
        return fail(o);
    }
    tp_onnx_begin(o, "Cast");
    tp_onnx_input(o, value);
    tp_onnx_int(o, "to", type);
    int v = tp_onnx_end(o);
    if (v)
        o->value.item[v].dtype = (uint8_t)d;
    return v;
}

/* ---- constants ---- */

static void put_tensor(tp_text *out, const char *name, tp_dtype d, int ndim, const int64_t *size, const void *data, size_t bytes)
{
    size_t tensor = tp_proto_open(out, GRAPH_INITIALIZER);
    for (int i = 0; i < ndim; i++)
        tp_proto_put_int(out, TENSOR_DIMS, size[i]);
    tp_proto_put_int(out, TENSOR_TYPE, tp_onnx_data_type(d));
    tp_proto_put_text(out, TENSOR_NAME, name);
    tp_proto_put_bytes(out, TENSOR_RAW, data, bytes);
    tp_proto_close(out, tensor);
}

static int constant(tp_onnx *o, const char *name, tp_dtype d, int ndim, const int64_t *size, const void *data, size_t bytes)
{
    tp_text fresh = { 0 };
    if (!name)
        tp_text_add(&fresh, "constant.%u", o->constant_count++);
    int v = fresh.failed ? fail(o) : tp_onnx_value_new(o, name ? name : tp_text_read(&fresh), d);
    if (v)
        put_tensor(&o->initializers, o->value.item[v].name, d, ndim, size, data, bytes);
    tp_text_fini(&fresh);
    return v;
}

int tp_onnx_number(tp_onnx *o, tp_value number, tp_dtype d)
{
    char element[16];
    if (o->failed)
        return 0;
    if (d == TP_DTYPE_NONE)
        d = o->common != TP_DTYPE_NONE ? (tp_dtype)o->common : number.tag == TP_FLOAT ? TP_f32 : number.tag == TP_BOOL ? TP_b8 : TP_i64;
    if (number.tag == TP_SYM || !tp_is_number(number)) {
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: sizes that are not known");
        return fail(o);
    }
    tp_scalar_write(tp_as_scalar(number), element, d);
    return constant(o, NULL, d, 0, NULL, element, tp_dtype_bytes(d));
}

int tp_onnx_list(tp_onnx *o, const int64_t *item, int count)
{
    int64_t size = count;
    return o->failed ? 0 : constant(o, NULL, TP_i64, 1, &size, item, sizeof *item * (size_t)count);
}

int tp_onnx_constant(tp_onnx *o, const tp_tensor *t, const char *name)
{
    tp_dtype d = (tp_dtype)t->dtype;
    if (o->failed)
        return 0;
    if (!tp_onnx_data_type(d) || !t->storage->data) {
        if (t->numel == 0)
            return constant(o, name, d, t->ndim, t->size, "", 0);
        (void)tp_fail(TP_ERR_VALUE, "ONNX export: the constant '%s' has no data", name ? name : "");
        return fail(o);
    }
    tp_tensor *rows = tp_contiguous(t);
    int v = rows ? constant(o, name, d, t->ndim, t->size, tp_tensor_data(rows), (size_t)t->numel * tp_dtype_bytes(d)) : fail(o);
    tp_tensor_unref(rows);
    return v;
}

void tp_onnx_put_type(tp_text *out, uint32_t field, const char *name, const tp_tensor *fact)
{
    size_t info = tp_proto_open(out, field);
    tp_proto_put_text(out, 1, name);
    size_t type = tp_proto_open(out, 2), tensor = tp_proto_open(out, 1);
    tp_proto_put_int(out, 1, tp_onnx_data_type((tp_dtype)fact->dtype));
    size_t shape = tp_proto_open(out, 2);
    for (int i = 0; i < fact->ndim; i++) {
        size_t dim = tp_proto_open(out, 1);
        tp_proto_put_int(out, 1, fact->size[i]);
        tp_proto_close(out, dim);
    }
    tp_proto_close(out, shape);
    tp_proto_close(out, tensor);
    tp_proto_close(out, type);
    tp_proto_close(out, info);
}
