/* fake.h - tensors that have sizes, types and a device, but no data.
 *
 * A fake tensor carries the key of its layer, so every op that meets one runs its shape rule instead of its kernel: on
 * integers, or on expressions when some size is symbolic. Its device may be one that this machine does not have.
 * Always: the storage of a fake tensor has no data; its sizes are hints where `symbolic` is set. */
#ifndef TP_TRACE_FAKE_H
#define TP_TRACE_FAKE_H

#include "ops/hooks.h"
#include "sym/env.h"

/* While one is entered, factories make fake tensors and (unless allowed) real tensors are refused. Tensors made in a mode
 * that lasts belong to it: their storages count it, and calls on them are made in it, entered or not. */
typedef struct tp_fake_mode {
    struct tp_fake_mode *outer;         /* borrowed */
    struct tp_fake_mode *lasting;       /* borrowed: this mode where it stays when it is left; NULL: no tensor keeps it */
    void (*keep)(struct tp_fake_mode *lasting);     /* one more, one fewer tensor belongs to it */
    void (*drop)(void *lasting);
    tp_shape_env *env;                  /* counted, may be NULL: names what depends on data */
    bool allow_real;
    bool allow_fallback;
    bool facts_only;                    /* a call here says what its result will be like; it is made later, on data */
} tp_fake_mode;

TP_API void tp_fake_enter(tp_fake_mode *m);
TP_API void tp_fake_leave(tp_fake_mode *m);             /* must be the innermost */

/* A fake of the same type, sizes (expressions too), strides and device, with a storage of its own and no history. */
TP_API TP_CHECK tp_tensor *tp_fake_of(const tp_tensor *real);
/* The same in the storage of a fake tensor, which may be NULL: it says what aliases what, and has no data anyway. */
TP_API TP_CHECK tp_tensor *tp_fake_beside(const tp_tensor *like, const tp_tensor *storage_of);
/* The fake tensor has the sizes, strides and offset of the other from now on. */
TP_API TP_CHECK bool tp_fake_take_geometry(tp_tensor *fake, const tp_tensor *like);
/* The same with symbolic sizes: `size` has one word per dim. Strides follow the order of the real ones; with `env`, which may be
 * NULL, those that are not dense are symbols of it. */
TP_API TP_CHECK tp_tensor *tp_fake_symbolic(const tp_tensor *real, tp_shape_env *env, const tp_sym *size);
TP_API bool tp_is_fake(const tp_tensor *t);
TP_API tp_fake_mode *tp_fake_mode_of(const tp_tensor *t);       /* borrowed; NULL: belongs to none */
TP_API void tp_fake_belong(tp_tensor *fake, const tp_fake_mode *m);     /* unless it belongs to a mode already; both may be NULL */

#endif
