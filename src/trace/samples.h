/* samples.h - calls of an op, made from the `try` rows of its entry: what op_db and the tests over the whole table stand on.
 *
 * Rows of one `try` line multiply; the calls of an op are numbered through all its lines, and a line with more than
 * TP_SAMPLES_MOST combinations gives evenly spaced ones. The n-th call is always the same: elements are a function of the
 * call's number, the argument and the place in row-major order, whatever the layout and type.
 * A style varies the call: another float type, another layout, larger sizes. Arguments without a row have their default;
 * a line that leaves a required argument open gives no calls. */
#ifndef TP_TRACE_SAMPLES_H
#define TP_TRACE_SAMPLES_H

#include "ops/op.h"

enum { TP_SAMPLES_MOST = 200, TP_SAMPLES_ARGS = 64 };

typedef enum tp_sample_layout {
    TP_SAMPLE_PLAIN,            /* as the row says, else row-major */
    TP_SAMPLE_TRANSPOSED,       /* column-major */
    TP_SAMPLE_STRIDED,          /* every other element of a longer storage, from the second on */
    TP_SAMPLE_CHANNELS_LAST,
    TP_SAMPLE_BROADCAST,        /* the first dim longer than 1 has stride 0 */
} tp_sample_layout;

typedef struct tp_sample_style {
    uint8_t dtype;              /* of float tensors; TP_DTYPE_NONE: as the row says */
    uint8_t layout;             /* tp_sample_layout */
    int64_t grow, plus;         /* a size n > 1 of a tensor becomes n * grow + plus */
    int     only;               /* 0: all such sizes; k: only the k-th of them, counted through all tensors */
    bool    all;                /* a call without floats gets the dtype too: its tensors of the first one's type */
    uint8_t instead;            /* that type: set by tp_samples_make */
} tp_sample_style;

#define TP_STYLE_PLAIN ((tp_sample_style){ TP_DTYPE_NONE, TP_SAMPLE_PLAIN, 1, 0, 0, false, 0 })

TP_API int tp_samples_count(const tp_op *op);
/* Fills op->arg_count owned values. Fails on memory, and (TP_ERR_UNIMPLEMENTED) on a set that it does not know. */
TP_API TP_CHECK bool tp_samples_make(const tp_op *op, int n, const tp_sample_style *style, tp_value *arg);

/* The elements of a tensor in row-major order; `at` is what each_place counts. */
TP_API int64_t tp_samples_offset(const tp_tensor *t, int64_t place);
TP_API tp_scalar tp_samples_read(const tp_tensor *t, int64_t place);
TP_API void tp_samples_write(tp_tensor *t, int64_t place, tp_scalar s);
/* A number in (0, 1) that depends on nothing but its arguments. */
TP_API double tp_samples_random(uint64_t stream, uint64_t place);

#endif
