/* table.h - the parts of the test over the op table: a check looks at one sampled call of one op.
 *
 * A check tells tp_tally_fail what is wrong; the first fault of an op is printed, the others counted. Ops of the list in
 * table_test.c are known to fail a check: they are run all the same, and one that passes must leave the list. */
#ifndef TP_TRACE_TABLE_H
#define TP_TRACE_TABLE_H

#include "trace/samples.h"

enum { TP_TABLE_RESULTS = 32 };

typedef struct tp_tally {
    const char  *kind;          /* of the check, as the list of known faults calls it */
    const tp_op *op;            /* looked at now */
    const tp_op *called;        /* its form that is called: of an op that exists first in place, the functional one */
    int          sample;
    uint32_t     moving;        /* table_jvp.c: float inputs that have a tangent */
    int          calls;         /* that said something: neither refused nor out of the check's range */
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

/* Do two tensors hold the same numbers? tolerance 0: the same bits, any NaN being like any other. Else `why` is filled. */
bool tp_same_numbers(const tp_tensor *a, const tp_tensor *b, double tolerance, char why[256]);

typedef void tp_table_check(tp_tally *t, const tp_sample_style *style);
tp_table_check tp_check_fake, tp_check_symbolic, tp_check_gradient, tp_check_vmap, tp_check_recorded, tp_check_functionalised;
tp_table_check tp_check_backward;       /* runs backward and compares with in place, without differences */
tp_table_check tp_check_tangent, tp_check_forward;      /* the same of forward mode */

#endif
