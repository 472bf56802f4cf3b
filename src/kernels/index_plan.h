/* index_plan.h - advanced indexing, x[i, :, j], brought down to a table of offsets.
 *
 *     x[:, i, j, :]       outer dims x places x inner dims       the indexed dims are neighbours
 *     x[i, :, j]          places x inner dims                    they are not: the places come first
 *
 * `offset` holds where each place lies in x, in bytes, checked against the sizes. Masks are turned into the coordinates of
 * their true elements first. The shape of the result is outer + the common shape of the indices + inner. */
#ifndef TP_KERNELS_INDEX_PLAN_H
#define TP_KERNELS_INDEX_PLAN_H

#include "ops/value.h"

typedef struct tp_index_plan {
    int      outer_ndim, place_ndim, inner_ndim;
    int64_t  size[TP_MAX_DIMS];         /* of the result: outer, place, inner */
    int64_t  stride[TP_MAX_DIMS];       /* bytes in x, of the outer and the inner dims; 0 for place dims */
    int64_t *offset;                    /* owned: place_count entries */
    int64_t  outer_count, place_count, inner_count;
} tp_index_plan;

/* `indices`: a list of tensors and nones. False: wrong type, shapes that do not broadcast, an index out of range. */
TP_CHECK bool tp_index_plan_init(tp_index_plan *p, const tp_tensor *x, tp_value indices);
void tp_index_plan_fini(tp_index_plan *p);

/* The mask when it is the only index and covers all dims, which needs no plan; else NULL. Its sizes are not checked. */
const tp_tensor *tp_index_mask(const tp_tensor *x, tp_value indices);

/* The shape alone, for shape rules: counts the true elements of masks, reads no index. */
TP_CHECK bool tp_index_shape(const tp_tensor *x, tp_value indices, int *ndim, int64_t *size);

#endif
