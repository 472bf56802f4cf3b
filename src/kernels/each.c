/* each.c - chunks of items, and a flag that one failed. */
#include "kernels/each.h"

#include <stdatomic.h>

#include "base/pool.h"
#include "base/runtime.h"

typedef struct each {
    tp_item_fn *item;
    void       *work;
    int64_t     count, items;
    atomic_bool failed;
} each;

static void each_chunk(void *work, int64_t index, int64_t count)
{
    each *e = work;
    int64_t end = (index + 1) * e->items < e->count ? (index + 1) * e->items : e->count;
    (void)count;
    for (int64_t i = index * e->items; i < end; i++)
        if (!e->item(e->work, i)) {
            atomic_store(&e->failed, true);
            tp_error_clear();
        }
}

bool tp_each_run(int64_t count, int64_t items, tp_item_fn *item, void *work)
{
    each e = { .item = item, .work = work, .count = count, .items = items };
    tp_pool_run((count + items - 1) / items, each_chunk, &e);
    return !e.failed || tp_fail_memory();
}
