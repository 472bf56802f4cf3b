/* autocast.h - torch.autocast: ops that gain by it compute in a lower type, ops that would lose keep f32.
 *
 * An entry's `autocast` column says which. The layer casts once and is then excluded for the rest of that op's call; a
 * composite that no list names is opened here, so that its pieces meet the layer again. Casts of leaves that require a
 * gradient are kept until the outermost region ends, so that a weight is cast once a step. */
#ifndef TP_TRACE_AUTOCAST_H
#define TP_TRACE_AUTOCAST_H

#include "ops/dispatch.h"

typedef struct tp_autocast_state {
    struct tp_autocast_state *outer;    /* borrowed: the enclosing region */
    bool    enabled, cache;
    uint8_t dtype;                      /* tp_dtype: bf16 or f16 on the CPU */
    struct tp_cast { tp_tensor *from, *to; } *kept;     /* owned array, both counted */
    size_t  kept_count, kept_room;
    int     nesting;                    /* the face's count of its regions; the layer does not look at it */
} tp_autocast_state;

TP_API void tp_autocast_enter(tp_autocast_state *s, bool enabled, tp_dtype dtype, bool cache);
TP_API void tp_autocast_leave(tp_autocast_state *s);        /* must be the innermost, or of another thread, which has ended */
/* Other settings for a region that was entered; what it keeps stays. */
TP_API void tp_autocast_change(tp_autocast_state *s, bool enabled, tp_dtype dtype, bool cache);
TP_API void tp_autocast_clear(void);                        /* torch.clear_autocast_cache */

#endif
