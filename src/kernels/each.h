/* each.h - items that may fail, shared over the pool.
 *
 * A chunk of the pool must not fail, but an item that takes scratch can: its error stays behind in whatever thread ran
 * it. All items are tried; when one failed the caller's thread gets TP_ERR_MEMORY, the only way scratch fails. */
#ifndef TP_KERNELS_EACH_H
#define TP_KERNELS_EACH_H

#include "base/api.h"

typedef bool tp_item_fn(void *work, int64_t item);

/* Runs items 0 … count, `items` to a chunk; how they are numbered does not depend on the thread count. */
TP_CHECK bool tp_each_run(int64_t count, int64_t items, tp_item_fn *item, void *work);

#endif
