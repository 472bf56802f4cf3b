/* storage.c - storages, recycled per thread. */
#include "tensor/storage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/block.h"
#include "base/runtime.h"

static_assert(sizeof(tp_storage) == 64, "small data is aligned as the struct is");

/* Headers alone come from malloc: a trace makes tens of thousands, and aligned pieces would leave holes between them. */
enum { WHOLE = 1, HEADER = 6, MOST_FREE = 4096, WHOLE_BYTES = sizeof(tp_storage) + TP_SMALL_BYTES };

static tp_storage *fresh(int list)
{
    tp_thread *t = &tp_self;
    tp_storage *s = t->free_list[list];
    if (s && atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) < 0) {
        t->free_list[list] = *(void **)s;
        t->free_count[list]--;
        tp_count_allocation(1);
        return s;
    }
    return list == WHOLE ? tp_block_new(WHOLE_BYTES) : tp_alloc(sizeof *s);
}

static void recycle(tp_storage *s, int list)
{
    tp_thread *t = &tp_self;
    if (TP_WATCHED || t->free_count[list] >= MOST_FREE) {
        if (list == WHOLE)
            tp_block_free(s, WHOLE_BYTES);
        else
            tp_free(s);
        return;
    }
    tp_thread_note_end();
    *(void **)s = t->free_list[list];
    t->free_list[list] = s;
    t->free_count[list]++;
    tp_count_allocation(-1);
}

static tp_storage *with(tp_storage *s, tp_memory kind, void *data, size_t bytes)
{
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->bytes = bytes;
    s->data = data;
    s->kind = (uint8_t)kind;
    s->resizable = kind != TP_MEMORY_FOREIGN;
    s->stale = false;
    s->release = NULL;
    s->owner = NULL;
    s->wrapper = NULL;
    s->symbolic = 0;
    return s;
}

tp_storage *tp_storage_new(size_t bytes)
{
    tp_storage *s = fresh(WHOLE);
    if (!s)
        return NULL;
    if (bytes <= TP_SMALL_BYTES)
        return with(s, TP_MEMORY_SMALL, bytes ? s->small : NULL, bytes);
    void *data = tp_block_new(bytes);
    if (!data) {
        recycle(s, WHOLE);
        return NULL;
    }
    return with(s, TP_MEMORY_BLOCK, data, bytes);
}

tp_storage *tp_storage_new_none(size_t bytes)
{
    tp_storage *s = fresh(HEADER);
    return s ? with(s, TP_MEMORY_NONE, NULL, bytes) : NULL;
}

tp_storage *tp_storage_take_foreign(void *data, size_t bytes, void *owner, void (*release)(void *))
{
    tp_storage *s = fresh(WHOLE);
    if (!s) {
        if (release)
            release(owner);
        return NULL;
    }
    with(s, TP_MEMORY_FOREIGN, data, bytes);
    s->owner = owner;
    s->release = release;
    return s;
}

static void drop_data(tp_storage *s)
{
    if (s->kind == TP_MEMORY_BLOCK)
        tp_block_free(s->data, s->bytes);
    else if (s->release)
        s->release(s->owner);
    s->release = NULL;
    s->owner = NULL;
}

void tp_storage_free(tp_storage *s)
{
    drop_data(s);
    recycle(s, s->kind == TP_MEMORY_NONE ? HEADER : WHOLE);
}

bool tp_storage_resize(tp_storage *s, size_t bytes)
{
    if (!s->resizable)
        return tp_fail(TP_ERR_RUNTIME, "Trying to resize storage that is not resizable");
    if (s->symbolic)
        s->symbolic = TP_BYTES_UNKNOWN;
    if (s->kind == TP_MEMORY_NONE) {
        s->bytes = bytes;
        return true;
    }
    size_t kept = bytes < s->bytes ? bytes : s->bytes;
    if (bytes <= TP_SMALL_BYTES) {
        if (s->kind != TP_MEMORY_SMALL) {
            memcpy(s->small, s->data, kept);
            drop_data(s);
            s->kind = TP_MEMORY_SMALL;
        }
        s->data = bytes ? s->small : NULL;
    } else {
        void *data = tp_block_new(bytes);
        if (!data)
            return false;
        if (kept)
            memcpy(data, s->data, kept);
        drop_data(s);
        s->kind = TP_MEMORY_BLOCK;
        s->data = data;
    }
    s->bytes = bytes;
    return true;
}
