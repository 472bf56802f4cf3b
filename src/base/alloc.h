/* alloc.h - every byte of Taper comes from here.
 *
 * Products are checked, so that a size from a file cannot wrap. A test can make the n-th allocation from now fail
 * (tp_the_runtime.allocation_fuse), and counts what is live. NULL means TP_ERR_MEMORY is set. */
#ifndef TP_BASE_ALLOC_H
#define TP_BASE_ALLOC_H

#include "base/api.h"

TP_API TP_CHECK void *tp_alloc(size_t bytes);                           /* contents undefined */
TP_API TP_CHECK void *tp_alloc_zero(size_t bytes);
TP_API TP_CHECK void *tp_alloc_array(size_t count, size_t size);        /* contents undefined */
TP_API TP_CHECK void *tp_realloc_array(void *old, size_t count, size_t size);   /* NULL: `old` is untouched */
TP_API TP_CHECK char *tp_alloc_text(const char *text);                  /* a copy of a string */
TP_API void tp_free(void *p);                                           /* NULL is fine */

#endif
