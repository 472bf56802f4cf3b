/* table.h - the parts of the test over the op table: a check looks at one sampled call of one op.
 *
 * A check tells tp_tally_fail what is wrong; the first fault of an op is printed, the others counted. Ops of the list in
 * table_test.c are known to fail a check: they are run all the same, and one that passes must leave the list. */
#ifndef TP_TRACE_TABLE_H
#define TP_TRACE_TABLE_H

#include "sym/env.h"
#include "trace/samples.h"

enum { TP_TABLE_RESULTS = 32 };

/* What becomes of a row at other sizes than it was recorded at. */
typedef enum tp_row {
    TP_ROW_AGAIN,               /* its graph was run there */
    TP_ROW_SIZELESS,            /* it has no size above 1 to change */
    TP_ROW_RANDOM,              /* of an op that draws, and no other sizes were allowed */
    TP_ROW_DATA,                /* of an op that looks at data, and no other sizes were allowed */
    TP_ROW_FIXED,               /* its arguments go with its sizes alone */
    TP_ROW_COUNT,
} tp_row;

typedef struct tp_tally {
    const char  *kind;          /* of the check, as the list of known faults calls it */
    const tp_op *op;            /* looked at now */
    const tp_op *called;        /* its form that is called: of an op that exists first in place, the functional one */
    int          sample;
    uint32_t     moving;        /* table_jvp.c: float inputs that have a tangent */
    int          calls;         /* that said something: neither refused nor out of the check's range */
    int          rows[TP_ROW_COUNT];    /* counted by the check of graphs at other sizes */
    int          faults;        /* of this op */
    char         first[512];
} tp_tally;

void tp_tally_fail(tp_tally *t, const char *format, ...) TP_PRINTF(2, 3);

/* Runs the call; `results` gets its tensors, lists flattened, borrowed from `result`. */
typedef struct tp_outcome {
    bool       ok;
    tp_err     error;
    char       text[256];
    tp_value   result[8];       /* owned */
    int        result_count;    /* of the op */
    int        count;
    tp_tensor *tensor[TP_TABLE_RESULTS];    /* borrowed; NULL for results that are none or no tensor */
} tp_outcome;
void tp_outcome_call(tp_outcome *o, const tp_op *op, const tp_value *arg, bool (*how)(const tp_op *, const tp_value *, tp_value *));
void tp_outcome_fini(tp_outcome *o);
bool tp_looked_at_data(const tp_outcome *o);    /* it failed for a reason that a fake call cannot see */

/* Do two tensors hold the same numbers? tolerance 0: the same bits, any NaN being like any other. Else `why` is filled. */
bool tp_same_numbers(const tp_tensor *a, const tp_tensor *b, double tolerance, char why[256]);

/* The symbols of one call on expressions, in order of creation: every size above 1 of every tensor is one of its own. */
enum { TP_TABLE_SYMBOLS = 64 };
typedef struct tp_table_symbols {
    tp_shape_env *env;          /* owned */
    int           count;
    tp_binding    value[TP_TABLE_SYMBOLS];
} tp_table_symbols;
/* Fakes of the arguments, owned; without symbols they have the sizes of the real ones. */
TP_CHECK bool tp_table_fake(const tp_op *op, const tp_value *arg, tp_table_symbols *s, tp_value *fake);
/* Binds the symbols to other sizes, as tp_sample_style says them: do the guards that were met allow them? */
bool tp_table_rebind(tp_table_symbols *s, const tp_sample_style *grown);
/* The sizes at which calls on expressions are looked at again: all grown, all grown and odd, each one grown alone.
 * `at` counts from 0; false when there are no more. */
bool tp_table_grown(const tp_table_symbols *s, const tp_sample_style *style, int at, tp_sample_style *grown, char where[64]);

/* A call, or what comes of one: the first result is the list of its gradients, tangents or batches, the others are none. */
typedef bool tp_table_call(const tp_op *op, const tp_value *arg, tp_value *result);
tp_table_call tp_table_call_back, tp_table_call_forward, tp_table_call_batched;

typedef void tp_table_check(tp_tally *t, const tp_sample_style *style);
tp_table_check tp_check_fake, tp_check_symbolic, tp_check_gradient, tp_check_vmap, tp_check_recorded, tp_check_functionalised;
/* Graphs on expressions, run at other sizes. */
tp_table_check tp_check_recorded_elsewhere, tp_check_functionalised_elsewhere, tp_check_gradient_elsewhere, tp_check_tangent_elsewhere, tp_check_vmap_elsewhere;
tp_table_check tp_check_backward;       /* runs backward and compares with in place, without differences */
tp_table_check tp_check_tangent, tp_check_forward;      /* the same of forward mode */

#endif
