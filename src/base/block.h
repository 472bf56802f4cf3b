/* block.h - memory for tensor data: 64-byte aligned, kept for reuse.
 *
 * A fresh 32 MB block costs six times a reused one (page faults), so blocks of 64 bytes and more return to a cache by size
 * class, up to a cap; from 4 MB on they ask for huge pages. Smaller ones come straight from the allocator. */
#ifndef TP_BASE_BLOCK_H
#define TP_BASE_BLOCK_H

#include "base/api.h"

TP_API TP_CHECK void *tp_block_new(size_t bytes);       /* contents undefined; NULL on TP_ERR_MEMORY, never for 0 */
TP_API void tp_block_free(void *block, size_t bytes);   /* `bytes` as given to tp_block_new; NULL is fine */
TP_API void tp_block_trim(void);                        /* give the cache back to the system */
TP_API size_t tp_block_cached(void);                    /* bytes the cache holds */


/* For runtime.c: made at load; taken around fork, so that the child never inherits a held lock. */
bool tp_blocks_init(void);
void tp_blocks_lock(bool lock);

#endif
