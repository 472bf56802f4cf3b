/* array.h - a growable array of any type, as three fields and one macro.
 *
 *     tp_array(tp_node *) work = {0};
 *     if (!tp_array_push(&work, node)) return false;
 *     … work.item[i], work.count …
 *     tp_array_fini(&work);
 *
 * `item` is owned. A failed push leaves the array as it was, with TP_ERR_MEMORY set. */
#ifndef TP_BASE_ARRAY_H
#define TP_BASE_ARRAY_H

#include "base/alloc.h"

#define tp_array(type)   \
    struct {             \
        type  *item;     \
        size_t count;    \
        size_t room;     \
    }

TP_API TP_CHECK bool tp_array_grow(void **item, size_t *room, size_t count, size_t size);

#define tp_array_reserve(a, n) \
    ((n) <= (a)->room || tp_array_grow((void **)&(a)->item, &(a)->room, (n), sizeof(*(a)->item)))
#define tp_array_push(a, x) (tp_array_reserve(a, (a)->count + 1) && ((a)->item[(a)->count++] = (x), true))
#define tp_array_pop(a) ((a)->item[--(a)->count])
#define tp_array_fini(a) (tp_free((a)->item), (a)->item = NULL, (a)->count = (a)->room = 0)

#endif
