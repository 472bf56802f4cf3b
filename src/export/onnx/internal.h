/* internal.h - the insides of a tp_onnx: shared by builder.c (nodes and values), tile.c and model.c (the walk). */
#ifndef TP_EXPORT_ONNX_INTERNAL_H
#define TP_EXPORT_ONNX_INTERNAL_H

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "export/onnx/onnx.h"
#include "ir/graph.h"

enum { TP_ONNX_RESULTS = 8 };

struct tp_onnx {
    bool      failed;           /* the error is set */
    tp_arena  arena;            /* names */
    tp_array(struct tp_onnx_value {
        const char *name;       /* arena; NULL: absent */
        uint8_t     dtype;      /* tp_dtype; TP_DTYPE_NONE: not known */
    }) value;                   /* the first is absent */

    /* GraphProto, field by field: repeated fields may stand in any order. */
    tp_text nodes, initializers, inputs, outputs;
    uint32_t node_count, constant_count;

    /* the node that was begun */
    const char *operator;       /* borrowed */
    tp_array(int) input;
    tp_text attributes;

    /* the call that is being lowered */
    const tp_node  *node;       /* borrowed, may be NULL */
    const tp_value *raw;        /* its arguments, completed, with nodes; borrowed */
    uint32_t        promoting;  /* mask of arguments that come in the type `common` */
    uint8_t         common;     /* tp_dtype, TP_DTYPE_NONE: no element-wise op */
    tp_array(int)   result;     /* of this call, 0: not made */

    /* where the results of each node stand in `made`: by node id */
    struct tp_onnx_made { uint32_t first, count; } *of;     /* owned */
    tp_array(int) made;
};

TP_CHECK bool tp_onnx_init(tp_onnx *o, uint32_t node_count);
void tp_onnx_fini(tp_onnx *o);
int  tp_onnx_value_of(tp_onnx *o, const tp_node *n);            /* of a node with one result; 0: failed */
int  tp_onnx_value_new(tp_onnx *o, const char *name, tp_dtype d);
void tp_onnx_put_type(tp_text *out, uint32_t field, const char *name, const tp_tensor *fact);   /* a ValueInfoProto */
int  tp_onnx_data_type(tp_dtype d);                             /* TensorProto.DataType; 0: ONNX has none */
/* The fact of the k-th result of a call; NULL: not known. */
const tp_tensor *tp_onnx_fact(const tp_node *n, int k);

/* tile.c: an element-wise call by the steps of its program. As a rule: 1, 0, -1; o may be NULL. */
int tp_onnx_tile(tp_onnx *o, const tp_op *op, const tp_value *arg);

#endif
