/* try.h - the sample rows of an entry, for the tests that run every op.
 *
 * A row gives an argument the samples it takes; rows of one `try` multiply. */
#ifndef TP_OPS_TRY_H
#define TP_OPS_TRY_H

#include "ops/value.h"

typedef enum tp_sample_kind {
    TP_SAMPLE_TENSOR,           /* f32[2,3]: from a fixed stream */
    TP_SAMPLE_ELEMENTS,         /* of(1, nan): one 1-d tensor with these elements */
    TP_SAMPLE_SET,              /* a named set */
    TP_SAMPLE_VALUE,            /* a literal */
} tp_sample_kind;

typedef struct tp_sample {
    uint8_t        kind;        /* tp_sample_kind */
    uint8_t        dtype;       /* of a tensor */
    uint8_t        count;       /* sizes, or elements */
    const char    *name;        /* of a set; of a tensor: its layout, may be NULL */
    union {                     /* by kind; sizes stand here, for most samples are small tensors */
        int16_t        size[8];     /* of a tensor */
        const double  *element;
        tp_value       value;   /* of a literal; lists and texts are constants */
    };
} tp_sample;

typedef struct tp_try_row {
    uint8_t          arg;       /* argument index */
    uint8_t          sample_count;
    const tp_sample *sample;
} tp_try_row;

/* One `try` line. */
typedef struct tp_try {
    const tp_try_row *row;
    uint8_t           row_count;
} tp_try;

#endif
