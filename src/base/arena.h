/* arena.h - memory that dies together.
 *
 * An arena hands out 16-byte aligned memory from growing chunks; nothing is released alone. It is sticky like a file's
 * error flag: after one failure it yields NULL, and `failed` stays set, so a builder may look once at the end. */
#ifndef TP_BASE_ARENA_H
#define TP_BASE_ARENA_H

#include "base/api.h"

typedef struct tp_arena {
    struct tp_chunk *chunk;     /* owned list, newest first */
    char  *at, *end;            /* free space in the newest chunk */
    bool   failed;
} tp_arena;

TP_API void  tp_arena_init(tp_arena *a);
TP_API void  tp_arena_lend(tp_arena *a, void *memory, size_t bytes);       /* a fresh arena starts in memory of the caller's, 16-byte aligned */
TP_API void  tp_arena_fini(tp_arena *a);
TP_API void  tp_arena_reset(tp_arena *a);                                   /* keeps one chunk for reuse; lent memory is not used again */
TP_API TP_CHECK void *tp_arena_take(tp_arena *a, size_t bytes);             /* contents undefined */
TP_API TP_CHECK void *tp_arena_take_array(tp_arena *a, size_t count, size_t size);
TP_API TP_CHECK char *tp_text_in(tp_arena *a, const char *text, size_t length);   /* a terminated copy */

#endif
