/* memory_plan.h - places in one block for values that do not live at the same time.
 *
 *     step      0   1   2   3             a  [0, 8)
 *     a  8      xxxxxxx                   b  [8, 12)
 *     b  4          xxxxxxx         =>    c  [0, 6)
 *     c  6              xxxxxxx
 *
 * A value lives from the step that writes it to the last that reads it, both included: what a step reads is never where it
 * writes. Large values are placed first, each as low as it can be; the same rows give the same plan. */
#ifndef TP_FUSE_MEMORY_PLAN_H
#define TP_FUSE_MEMORY_PLAN_H

#include "base/error.h"

typedef struct tp_plan_row {
    int64_t size;               /* elements, at least 0 */
    int     first, last;        /* steps */
    int64_t place;              /* what the plan says */
} tp_plan_row;

/* Gives the size of the block; -1: no memory. Places are multiples of `align`. */
TP_API TP_CHECK int64_t tp_memory_plan(tp_plan_row *row, size_t count, int64_t align);

#endif
