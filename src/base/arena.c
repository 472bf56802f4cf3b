/* arena.c - chunks that double in size up to a megabyte. */
#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct tp_chunk {
    struct tp_chunk *older;
    size_t bytes;
    _Alignas(16) char data[];
} tp_chunk;

enum { FIRST = 512 - sizeof(tp_chunk), LARGEST = 1 << 20 };         /* many arenas stay nearly empty: graphs of small modules */

void tp_arena_init(tp_arena *a)
{
    *a = (tp_arena){ 0 };
}

void tp_arena_lend(tp_arena *a, void *memory, size_t bytes)
{
    *a = (tp_arena){ .at = memory, .end = (char *)memory + bytes };
}

void tp_arena_fini(tp_arena *a)
{
    for (tp_chunk *c = a->chunk, *older; c; c = older) {
        older = c->older;
        tp_free(c);
    }
    tp_arena_init(a);
}

void tp_arena_reset(tp_arena *a)
{
    tp_chunk *keep = a->chunk;
    if (!keep)
        return;
    a->chunk = keep->older;
    tp_arena_fini(a);
    keep->older = NULL;
    *a = (tp_arena){ .chunk = keep, .at = keep->data, .end = keep->data + keep->bytes };
}

static bool add_chunk(tp_arena *a, size_t at_least)
{
    size_t bytes = a->chunk ? a->chunk->bytes * 2 : FIRST;
    if (bytes > LARGEST)
        bytes = LARGEST;
    if (bytes < at_least)
        bytes = at_least;
    tp_chunk *c = tp_alloc(sizeof *c + bytes);
    if (!c)
        return false;
    *c = (tp_chunk){ .older = a->chunk, .bytes = bytes };
    a->chunk = c;
    a->at = c->data;
    a->end = c->data + bytes;
    return true;
}

void *tp_arena_take(tp_arena *a, size_t bytes)
{
    if (a->failed || bytes > PTRDIFF_MAX / 2) {
        a->failed = true;
        return tp_fail_memory();
    }
    bytes = (bytes + 15) & ~(size_t)15;
    if ((size_t)(a->end - a->at) < bytes && !add_chunk(a, bytes)) {
        a->failed = true;
        return NULL;
    }
    void *p = a->at;
    a->at += bytes;
    return p;
}

void *tp_arena_take_array(tp_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return tp_arena_take(a, bytes);
}

char *tp_text_in(tp_arena *a, const char *text, size_t length)
{
    char *copy = tp_arena_take(a, length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}
