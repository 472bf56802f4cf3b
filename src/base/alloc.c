/* alloc.c - malloc with checked products, a fuse for tests and a count of what is live. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/runtime.h"

/* The fuse counts down to the allocation that fails; negative means none is lit. */
static bool refused(void)
{
    if (TP_LIKELY(atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) < 0))
        return false;
    return atomic_fetch_sub_explicit(&tp_the_runtime.allocation_fuse, 1, memory_order_relaxed) == 0;
}

static void *counted(void *p)
{
    if (!p)
        return tp_fail_memory();
    tp_count_allocation(1);
    return p;
}

void *tp_alloc(size_t bytes)
{
    return counted(refused() ? NULL : malloc(bytes ? bytes : 1));
}

void *tp_alloc_zero(size_t bytes)
{
    return counted(refused() ? NULL : calloc(1, bytes ? bytes : 1));
}

void *tp_alloc_array(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? tp_fail_memory() : tp_alloc(bytes);
}

void *tp_realloc_array(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (!old)
        return tp_alloc_array(count, size);
    if (__builtin_mul_overflow(count, size, &bytes) || refused())
        return tp_fail_memory();
    void *p = realloc(old, bytes ? bytes : 1);
    return p ? p : tp_fail_memory();
}

char *tp_alloc_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = tp_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void tp_free(void *p)
{
    if (!p)
        return;
    tp_count_allocation(-1);
    free(p);
}
