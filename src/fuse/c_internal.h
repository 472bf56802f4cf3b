/* c_internal.h - what the files of the C writer share: values, their memory, and lines of text.
 *
 * A value is a view of a buffer: sizes, strides and offset are those of its fact. Buffers are inputs, constants or pieces of
 * the static blocks. Sticky: after a failure nothing is written, `failed` is set and the error of the thread says why. */
#ifndef TP_FUSE_C_INTERNAL_H
#define TP_FUSE_C_INTERNAL_H

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "fuse/c_writer.h"

typedef enum tp_c_kind { TP_C_INPUT, TP_C_CONSTANT, TP_C_MEMORY } tp_c_kind;

typedef struct tp_c_buffer {
    tp_c_kind   kind;
    uint8_t     dtype;              /* tp_dtype */
    const char *name;               /* arena: "t_addmm" */
    const tp_tensor *data;          /* borrowed: of a constant */
    int64_t     offset;             /* of its first element in the storage that facts count from */
    int64_t     count;              /* elements */
    int         first, last;        /* steps at which it is alive */
} tp_c_buffer;

typedef struct tp_c_value {
    int buffer;                     /* -1: there is none */
    const tp_tensor *fact;          /* borrowed: sizes, strides, offset, type */
} tp_c_value;

typedef struct tp_c {
    bool     failed;
    tp_arena arena;
    tp_text  body;
    int      depth, step;
    tp_array(tp_c_buffer) buffer;
    tp_array(tp_c_value) made;
    struct { uint32_t first, count; } *of;      /* owned: results of each node in `made`, by node id */
    tp_array(tp_tensor *) owned;                /* constants that were computed here */
    const tp_node  *node;           /* being written; borrowed */
    const tp_value *raw, *arg;      /* its arguments: with nodes; with facts */
} tp_c;

/* ---- values ---- */
tp_c_value tp_c_arg(tp_c *c, int i);                    /* absent when it is none */
tp_c_value tp_c_item(tp_c *c, tp_value v);              /* of an argument's item: a node */
tp_c_value tp_c_result(tp_c *c, int k);                 /* its memory is made; absent when nobody reads it */
static inline bool tp_c_has(tp_c_value v) { return v.buffer >= 0; }
bool tp_c_unsupported(tp_c *c, const char *what);       /* fails, naming the op; false */

/* ---- text ---- */
void tp_c_line(tp_c *c, const char *format, ...) TP_PRINTF(2, 3);
void tp_c_open(tp_c *c, const char *format, ...) TP_PRINTF(2, 3);       /* a line that opens a block */
void tp_c_close(tp_c *c);
const char *tp_c_text(tp_c *c, const char *format, ...) TP_PRINTF(2, 3);    /* arena; "" on failure */
/* The element at these indices, C texts one per dim (NULL: 0): "t_x[5 + i*12 + j]". */
const char *tp_c_at(tp_c *c, tp_c_value v, const char *const *index);
const char *tp_c_type(tp_dtype d);                      /* "float"; NULL: the writer has none */
const char *tp_c_short(tp_dtype d);                     /* "f32", as names have it */
const char *tp_c_literal(tp_scalar s, tp_dtype d, char out[48]);    /* the number as C spells it, exactly */
const char *tp_c_number(tp_c *c, tp_scalar s, tp_dtype d);
/* What is stored of an expression of type `from`. */
const char *tp_c_store(tp_c *c, const char *expression, tp_dtype from, tp_dtype to);

/* ---- loops (c_nest.c) ---- */
/* Loops over the sizes of a result, operands broadcast to them; dims that go together are one loop. tp_c_nest_open writes
 * the loops, `at` has then the element of each operand. */
enum { TP_C_OPERANDS = 20 };
typedef struct tp_c_nest {
    int count;                                          /* operands */
    tp_c_value operand[TP_C_OPERANDS];
    int ndim;
    int64_t size[TP_MAX_DIMS];
    int64_t stride[TP_C_OPERANDS][TP_MAX_DIMS];
    const char *at[TP_C_OPERANDS];
    int opened;
} tp_c_nest;
void tp_c_nest_open(tp_c *c, tp_c_nest *n, int ndim, const int64_t *size);
void tp_c_nest_close(tp_c *c, tp_c_nest *n);

/* ---- writers of calls; each true when it has written ---- */
bool tp_c_pointwise(tp_c *c, const tp_op *op);          /* c_element.c */
bool tp_c_reduction(tp_c *c, const tp_op *op);          /* c_reduce.c */
bool tp_c_kernel(tp_c *c, const tp_op *op);             /* c_kernels.c */
bool tp_c_has_pointwise(const tp_op *op, const tp_value *arg);
bool tp_c_has_reduction(const tp_op *op, const tp_value *arg);
bool tp_c_has_kernel(const tp_op *op, const tp_value *arg);

/* The steps of a form as C: loads from `at`, one per input; gives the register of the result. */
const char *tp_c_steps(tp_c *c, const tp_tile_form *form, tp_dtype compute, const char *const *at);
tp_dtype tp_c_compute(tp_dtype d);                      /* the type a tile program computes in; TP_DTYPE_NONE: none here */
/* Functions that expressions call and libm has not: those whose name stands in `body` are written. */
void tp_c_put_helpers(const char *body, tp_text *out);

#endif
