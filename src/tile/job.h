/* job.h - what the two ways of reducing share: which elements, how they are prepared, how results are finished.
 *
 * A reduction folds a sequence: the reduced dims in row-major order. The order of operations is part of the contract
 * (docs/numerics.md) and knows nothing of layout, instruction set or threads:
 *
 *     blocks of 1024 ──► 4 runs of 16 striped lanes ──► tree over runs, over lanes ──► binary tree over blocks
 *
 * reduce.c walks one output at a time, tile by tile; columns.c walks many neighbouring outputs at once, row by row. Both
 * do the same operations for each output, so they give the same bits. */
#ifndef TP_TILE_JOB_H
#define TP_TILE_JOB_H

#include "tile/frame.h"
#include "tile/plan.h"

enum { TP_BLOCK = 1024, TP_RUN = 256, TP_RUNS = 4, TP_LANES = 16 };

/* How blocks are folded: to a value; to a value and its index; to count, mean and sum of squared deviations. */
typedef enum tp_job_shape { TP_JOB_VALUE, TP_JOB_INDEX, TP_JOB_MOMENTS } tp_job_shape;

typedef struct tp_job {
    const tp_plan  *kept, *over;        /* output dims in any order, reduced dims in the loop's order */
    const tp_frame *frame;
    tp_reduction kind;
    tp_job_shape shape;
    int          outputs;               /* operands that are written; inputs follow */
    int          fold;                  /* TP_FOLD_… */
    int          compute;               /* type of the folded elements */
    int64_t      bytes;                 /* of such an element */
    int64_t      count;                 /* elements folded into one output */
    double       parameter;
    bool         in_place, rows_in_place;   /* the input is the folded elements: dense along the sequence, along outputs */
    bool         whole, rows_whole;     /* in place, with nothing to prepare: one call folds a sequence, a block of rows */
    _Alignas(16) char power[16];           /* norm: p in the folded type */
    const char  *shift;                 /* logsumexp, second pass: the maximum, in the folded type */
} tp_job;

/* Prepares n elements of the program's result for folding; gives `x` itself or writes to `buffer` (TP_BLOCK elements of
 * 16 bytes). */
const char *tp_job_prepare(const tp_job *job, int64_t n, const char *x, char *buffer);
/* n folded values to what the output holds, still in the folded type, in place. */
void tp_job_finish(const tp_job *job, int64_t n, char *values);
/* The step that combines two folded values. */
tp_tile_fn *tp_job_step(const tp_job *job);

/* Can columns.c do this job, and is it the better way? */
bool tp_columns_suit(const tp_job *job);
void tp_columns_run(const tp_job *job);

#endif
