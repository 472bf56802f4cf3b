/* memory_plan.c - see memory_plan.h. Quadratic in the number of values, which are a few hundred. */
#include "fuse/memory_plan.h"

#include "base/alloc.h"

static bool live_together(const tp_plan_row *a, const tp_plan_row *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place where `r` overlaps none of the placed rows it lives together with. */
static int64_t lowest(const tp_plan_row *row, const size_t *placed, size_t count, const tp_plan_row *r, int64_t align)
{
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            const tp_plan_row *p = &row[placed[i]];
            if (!live_together(p, r) || at >= p->place + p->size || p->place >= at + r->size)
                continue;
            at = (p->place + p->size + align - 1) / align * align;
            moved = true;
        }
    }
    return at;
}

int64_t tp_memory_plan(tp_plan_row *row, size_t count, int64_t align)
{
    size_t *order = tp_alloc_array(count + 1, sizeof *order);
    int64_t total = 0;
    if (!order)
        return -1;
    for (size_t i = 0; i < count; i++) {
        size_t k = i;
        for (; k > 0 && row[order[k - 1]].size < row[i].size; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (size_t i = 0; i < count; i++) {
        tp_plan_row *r = &row[order[i]];
        r->place = lowest(row, order, i, r, align);
        if (r->place + r->size > total)
            total = r->place + r->size;
    }
    tp_free(order);
    return total;
}
