/* storage.h - a counted block of bytes that tensors look into.
 *
 * Several tensors may share one storage; each sees it through its own offset and strides. `version` grows by one at
 * every in-place write; the tape compares it to notice that a saved value has changed since.
 * Always: data we allocate is 64-byte aligned, borrowed memory only to its element; NULL when bytes == 0 or kind is NONE.
 *
 *     ┌ header, 64 bytes ┐┌ small data, 64 bytes ┐      a 2x2 tensor needs no second allocation; NONE is the header alone
 */
#ifndef TP_TENSOR_STORAGE_H
#define TP_TENSOR_STORAGE_H

#include "base/count.h"
#include "base/error.h"

enum { TP_SMALL_BYTES = 64, TP_BYTES_UNKNOWN = 2 };       /* 2: no number's word */

typedef enum tp_memory {
    TP_MEMORY_SMALL,            /* inside the struct */
    TP_MEMORY_BLOCK,            /* base/block.h */
    TP_MEMORY_MAPPED,           /* a file, read-only: the first write copies */
    TP_MEMORY_FOREIGN,          /* somebody else's: numpy, DLPack */
    TP_MEMORY_NONE,             /* sizes only: meta and fake tensors */
} tp_memory;

typedef struct tp_storage {
    tp_count    refs;
    atomic_uint version;        /* written through tp_storage_bump only */
    size_t      bytes;
    void       *data;
    uint8_t     kind;           /* tp_memory */
    bool        resizable;
    bool        stale;          /* a literal among fake tensors that was written: what it has is not what it would have */
    void      (*release)(void *owner);
    void       *owner;          /* counted through release, may be NULL */
    void       *wrapper;        /* borrowed: the Python object of this storage, may be NULL */
    uint64_t    symbolic;       /* the word of what `bytes` is the hint of (sym/sym.h); 0: `bytes` is it; TP_BYTES_UNKNOWN */
    char        small[];        /* TP_SMALL_BYTES; there unless kind is NONE, which it is from the beginning or never */
} tp_storage;

TP_API TP_CHECK tp_storage *tp_storage_new(size_t bytes);           /* contents undefined */
TP_API TP_CHECK tp_storage *tp_storage_new_none(size_t bytes);      /* no data */
/* Takes `owner`: release(owner) is called when the storage dies, and when this call fails. */
TP_API TP_CHECK tp_storage *tp_storage_take_foreign(void *data, size_t bytes, void *owner, void (*release)(void *));
TP_API TP_CHECK bool tp_storage_resize(tp_storage *s, size_t bytes);    /* keeps what fits */
TP_API void tp_storage_free(tp_storage *s);                         /* the count has reached zero */

static inline tp_storage *tp_storage_ref(tp_storage *s)
{
    tp_count_up(&s->refs);
    return s;
}

static inline void tp_storage_unref(tp_storage *s)
{
    if (s && tp_count_down(&s->refs))
        tp_storage_free(s);
}

static inline void tp_storage_bump(tp_storage *s)
{
    atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed);
}

#endif
