/* map.h - open addressing from a 64-bit key to a 64-bit value, and an interning table of strings on top of it.
 *
 * Keys are words: pointers, ids, or hashes whose owner compares the rest. Linear probing over a power of two, at most
 * 5/8 full, deletion by shifting back, so no tombstones. Key 0 is a key like any other. */
#ifndef TP_BASE_MAP_H
#define TP_BASE_MAP_H

#include "base/arena.h"

typedef struct tp_map {
    struct tp_map_slot { uint64_t key, value; } *slot;  /* owned; may be NULL while empty */
    uint8_t *used;                                      /* owned, one byte a slot */
    size_t   count, room;                               /* room is 0 or a power of two */
} tp_map;

TP_API void tp_map_fini(tp_map *m);                     /* a zeroed struct is an empty map */
TP_API TP_CHECK bool tp_map_put(tp_map *m, uint64_t key, uint64_t value);   /* replaces */
TP_API TP_CHECK bool tp_map_reserve(tp_map *m, size_t count);               /* so many more keys need no memory */
TP_API bool tp_map_get(const tp_map *m, uint64_t key, uint64_t *value);     /* false: absent; `value` untouched */
TP_API bool tp_map_remove(tp_map *m, uint64_t key);                         /* false: was absent */

/* A map from strings to words that keeps its own copies of the strings. With an arena it takes all its memory there: for
 * the many small ones that die with their owner, who need not call fini then. */
typedef struct tp_text_map {
    struct tp_text_slot { char *text; uint64_t hash, value; } *slot;   /* owned or arena; text NULL: free slot */
    size_t count, room;
    tp_arena *arena;                                    /* borrowed, may be NULL; set before the first put */
} tp_text_map;

TP_API void tp_text_map_fini(tp_text_map *m);
TP_API TP_CHECK bool tp_text_map_put(tp_text_map *m, const char *text, uint64_t value);
TP_API TP_CHECK const char *tp_text_map_keep(tp_text_map *m, const char *text, uint64_t value); /* put; gives the map's copy, borrowed */
TP_API TP_CHECK bool tp_text_map_copy(tp_text_map *m, const tp_text_map *from);                  /* into an empty one, which keeps its arena */
TP_API bool tp_text_map_get(const tp_text_map *m, const char *text, uint64_t *value);

#endif
