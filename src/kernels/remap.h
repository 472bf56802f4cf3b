/* remap.h - copies in which each place of a result reads one place of its source, dim by dim.
 *
 *     to[plane][i][j][k] = from[plane][at[0][i]][at[1][j]][at[2][k]]
 *
 * Padding by reflection or replication and resampling by the nearest neighbour are such maps; their gradients add instead
 * of copying, with the sides exchanged. Planes are what stands before the last `dims` dims.
 * Always: every entry of a table is a place of the source; of a spread, elements are added in row-major order of the
 * mapped side. The tables are the map's (tp_remap_fini). What allocates can fail. */
#ifndef TP_KERNELS_REMAP_H
#define TP_KERNELS_REMAP_H

#include "tensor/tensor.h"

typedef struct tp_remap {
    int64_t  planes, from[3], to[3];        /* absent dims come first, with size 1 */
    int64_t *at[3];                         /* owned, in one block that begins at at[0]: to[d] entries each */
} tp_remap;

/* Sizes from the two sides, tables unfilled. `narrow` is the side that is read, `wide` the one of the map's results. */
TP_CHECK bool tp_remap_init(tp_remap *m, int dims, const tp_tensor *narrow, const tp_tensor *wide);
void tp_remap_fini(tp_remap *m);

TP_CHECK bool tp_remap_copy(const tp_remap *m, const tp_tensor *from, tp_tensor *to);
/* From the mapped side back, added in type d. */
TP_CHECK bool tp_remap_spread(const tp_remap *m, const tp_tensor *from, tp_tensor *to, tp_dtype d);

#endif
