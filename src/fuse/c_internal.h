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
    const char *wish;               /* arena: what it is called in the program */
    const tp_tensor *data;          /* borrowed: of a constant */
    bool        written;            /* an input that the program writes to */
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
    tp_c_value into;                /* where its result goes; absent: to memory of its own */
    bool *written;                  /* owned: by node id, is its memory written later? */
} tp_c;

/* ---- values ---- */
tp_c_value tp_c_arg(tp_c *c, int i);                    /* absent when it is none */
tp_c_value tp_c_item(tp_c *c, tp_value v);              /* of an argument's item: a node */
tp_c_value tp_c_result(tp_c *c, int k);                 /* its memory is made; absent when nobody reads it */
tp_c_value tp_c_memory(tp_c *c, const char *name, const tp_tensor *fact);       /* new memory */
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

extern const char *const tp_c_letters[8];               /* "i", "j" … */
void tp_c_loop(tp_c *c, const char *name, int64_t size);
void tp_c_close_all(tp_c *c, int count);

/* ---- writers of calls; each true when it has written ---- */
bool tp_c_pointwise(tp_c *c, const tp_op *op);          /* c_element.c */
bool tp_c_reduction(tp_c *c, const tp_op *op);          /* c_reduce.c */
bool tp_c_kernel(tp_c *c, const tp_op *op);             /* c_kernels.c */
bool tp_c_has_pointwise(const tp_op *op, const tp_value *arg);
bool tp_c_has_reduction(const tp_op *op, const tp_value *arg);
bool tp_c_has_kernel(const tp_op *op, const tp_value *arg);

/* c_write.c */
bool tp_c_is_view(const tp_op *op);                     /* its results are its first argument's memory */
bool tp_c_writes(const tp_op *op);
bool tp_c_can_write(const tp_op *op);                   /* it writes its first argument, gives it back and does no more */
bool tp_c_find_written(tp_c *c, const tp_graph *g);     /* fills `written` */
bool tp_c_is_uniform(const tp_tensor *t);               /* every element is the same; dense */
/* New memory filled from a constant of its form; absent: with the one element there is in `data`. */
tp_c_value tp_c_filled(tp_c *c, const char *name, const tp_tensor *fact, const tp_tensor *data, tp_c_value from);
bool tp_c_write_into(tp_c *c, const tp_op *op);         /* such a call, when it is element-wise or a kernel of ours */

/* c_index.c */
bool tp_c_write_copy(tp_c *c);
bool tp_c_write_cat(tp_c *c);
bool tp_c_write_embedding(tp_c *c);
bool tp_c_write_index_select(tp_c *c);
bool tp_c_write_gather(tp_c *c);
bool tp_c_write_index(tp_c *c);
bool tp_c_write_flip(tp_c *c);
bool tp_c_write_repeat(tp_c *c);
bool tp_c_write_tril(tp_c *c);
bool tp_c_write_triu(tp_c *c);
bool tp_c_index_has(const tp_value *arg);

/* The steps of a form as C, on operands of a common type: loads from `at`, one per input; gives the register of the result. */
const char *tp_c_steps(tp_c *c, const tp_tile_form *form, tp_dtype common, const char *const *at);
tp_dtype tp_c_compute(tp_dtype d);                      /* the type a tile program computes in; TP_DTYPE_NONE: none here */
/* Functions that expressions call and libm has not: those whose name stands in `body` are written. */
void tp_c_put_helpers(const char *body, tp_text *out);

#endif
