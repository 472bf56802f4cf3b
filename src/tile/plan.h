/* plan.h - a loop in its simplest form: few dims, the innermost the densest.
 *
 *     sizes 4 1 8 16, all operands contiguous      =>   one dim of 512
 *     sizes 8 16, output transposed                =>   sizes 16 8, output contiguous
 *
 * Always: no dim of size 1 unless it is the only one; neighbouring dims that every operand walks as one are one. */
#ifndef TP_TILE_PLAN_H
#define TP_TILE_PLAN_H

#include "tile/tile.h"

enum { TP_PLAN_DIMS = 66 };

typedef struct tp_plan {
    int      ndim, operands;
    int64_t  elements;
    int64_t  size[TP_PLAN_DIMS];
    int64_t  stride[TP_TILE_OPERANDS][TP_PLAN_DIMS];
    char    *data[TP_TILE_OPERANDS];
    uint8_t  dtype[TP_TILE_OPERANDS];
} tp_plan;

/* Takes the dims of the loop whose bit is set in `dims`, in the loop's order. */
void tp_plan_init(tp_plan *plan, const tp_tile_loop *loop, int operands, uint64_t dims);
void tp_plan_sort(tp_plan *plan);       /* orders dims by stride, for loops whose order does not matter */
void tp_plan_coalesce(tp_plan *plan);
void tp_plan_swap(tp_plan *plan, int a, int b);

/* Moves `at` (a pointer for each operand) to where position `index` of the plan's dims [first, last) is. */
void tp_plan_seek(const tp_plan *plan, int first, int last, int64_t index, char **at);

#endif
