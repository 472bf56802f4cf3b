/* array.c - growth by half again, from eight items. */
#include "base/array.h"

#include "base/error.h"

bool tp_array_grow(void **item, size_t *room, size_t count, size_t size)
{
    size_t wanted = *room < 8 ? 8 : *room + *room / 2;
    if (wanted < count)
        wanted = count;
    void *grown = tp_realloc_array(*item, wanted, size);
    if (!grown)
        return false;
    *item = grown;
    *room = wanted;
    return true;
}
