/* block.c - the cache of blocks.
 *
 * Size classes are four to a power of two, so a block wastes at most a quarter. Each class is a stack of free blocks;
 * one lock guards them all: it is seldom waited for, and aligned memory from malloc, whose quick lists do not serve it, costs
 * four times as much even for a row of 64 numbers. */
#define _GNU_SOURCE
#include "base/block.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/runtime.h"

enum {
    ALIGNMENT = 64,
    CACHE_FROM_POWER = 6,
    CACHE_FROM = 1 << CACHE_FROM_POWER,
    HUGE_FROM = 4 << 20,
    CLASS_COUNT = 4 * 48,
};
static const size_t cache_cap = (size_t)1 << 30;

typedef struct free_block {
    struct free_block *next;
} free_block;

struct tp_blocks {
    pthread_mutex_t lock;
    free_block *free[CLASS_COUNT];
    size_t cached;
};

/* The class of a size, and the size every block of that class has. */
static int class_of(size_t bytes, size_t *rounded)
{
    int power = 63 - __builtin_clzll(bytes);
    size_t step = (size_t)1 << (power - 2);
    size_t up = (bytes + step - 1) / step * step;
    *rounded = up;
    power = 63 - __builtin_clzll(up);
    return 4 * (power - CACHE_FROM_POWER) + (int)((up >> (power - 2)) & 3);
}

static struct tp_blocks *blocks(void)
{
    return tp_the_runtime.blocks;
}

static void *aligned(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - ALIGNMENT)
        return tp_fail_memory();
    size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) >= 0 &&
        atomic_fetch_sub_explicit(&tp_the_runtime.allocation_fuse, 1, memory_order_relaxed) == 0)
        return tp_fail_memory();
    size_t alignment = whole >= HUGE_FROM ? 2 << 20 : ALIGNMENT;
    whole = (whole + alignment - 1) / alignment * alignment;
    void *p;
    if (posix_memalign(&p, alignment, TP_WATCHED ? bytes : whole) != 0)
        return tp_fail(TP_ERR_RUNTIME, "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate %zu bytes. Error code 12 (Cannot allocate memory)", bytes);
    if (!TP_WATCHED && alignment > ALIGNMENT)
        madvise(p, whole, MADV_HUGEPAGE);
    tp_count_allocation(1);
    return p;
}

void *tp_block_new(size_t bytes)
{
    if (TP_WATCHED || bytes < CACHE_FROM || bytes > (size_t)1 << 60)
        return aligned(bytes ? bytes : 1);

    size_t rounded;
    int c = class_of(bytes, &rounded);
    free_block *found = NULL;
    pthread_mutex_lock(&blocks()->lock);
    if (c < CLASS_COUNT && (found = blocks()->free[c])) {
        blocks()->free[c] = found->next;
        blocks()->cached -= rounded;
    }
    pthread_mutex_unlock(&blocks()->lock);
    if (found) {
        tp_count_allocation(1);
        return found;
    }
    return aligned(rounded);
}

void tp_block_free(void *block, size_t bytes)
{
    if (!block)
        return;
    tp_count_allocation(-1);
    if (!TP_WATCHED && bytes >= CACHE_FROM) {
        size_t rounded;
        int c = class_of(bytes, &rounded);
        bool kept = false;
        pthread_mutex_lock(&blocks()->lock);
        if (c < CLASS_COUNT && blocks()->cached + rounded <= cache_cap) {
            free_block *f = block;
            f->next = blocks()->free[c];
            blocks()->free[c] = f;
            blocks()->cached += rounded;
            kept = true;
        }
        pthread_mutex_unlock(&blocks()->lock);
        if (kept)
            return;
    }
    free(block);
}

void tp_block_trim(void)
{
    pthread_mutex_lock(&blocks()->lock);
    for (int c = 0; c < CLASS_COUNT; c++)
        for (free_block *f = blocks()->free[c], *next; f; f = next) {
            next = f->next;
            free(f);
        }
    for (int c = 0; c < CLASS_COUNT; c++)
        blocks()->free[c] = NULL;
    blocks()->cached = 0;
    pthread_mutex_unlock(&blocks()->lock);
}

size_t tp_block_cached(void)
{
    pthread_mutex_lock(&blocks()->lock);
    size_t cached = blocks()->cached;
    pthread_mutex_unlock(&blocks()->lock);
    return cached;
}

void tp_blocks_lock(bool lock)
{
    (lock ? pthread_mutex_lock : pthread_mutex_unlock)(&blocks()->lock);
}

bool tp_blocks_init(void)
{
    struct tp_blocks *b = calloc(1, sizeof *b);
    if (!b)
        return false;
    pthread_mutex_init(&b->lock, NULL);
    tp_the_runtime.blocks = b;
    return true;
}
