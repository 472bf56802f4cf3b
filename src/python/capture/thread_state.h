/* thread_state.h - the state of thread and process that ops read: one word of it is what an entry assumes, and what a capture
 * finds again at its end.
 *
 * A capture begins outside of every mode, tracer and autocast region (others run as they are), so the word has no room for
 * those. What captured code may change while it is followed (grad mode, autocast) is in the word; the rest of a snapshot is
 * there for back ends, which are code of anybody's. */
#ifndef TP_PYTHON_CAPTURE_THREAD_STATE_H
#define TP_PYTHON_CAPTURE_THREAD_STATE_H

#include "base/runtime.h"
#include "tensor/generator.h"
#include "trace/autocast.h"

enum {      /* bits of the word; from the fields' first bits on */
    STATE_GRAD = 1, STATE_INFERENCE = 2, STATE_FORWARD = 4, STATE_ANOMALY = 8, STATE_ANOMALY_NAN = 16, STATE_CACHE = 32, STATE_AUTOCAST = 64,
    STATE_DTYPE_AT = 8, STATE_CAST_DTYPE_AT = 16, STATE_ATTENTION_AT = 24, STATE_DETERMINISTIC_AT = 32, STATE_NESTING_AT = 40,
};

typedef uint64_t state_word;

/* Where there is no autocast region yet, the word is that of one that is off. */
static inline state_word thread_state_word(void)
{
    const tp_autocast_state *a = tp_self.autocast;
    state_word word = (state_word)tp_self.grad_mode * STATE_GRAD | (state_word)tp_self.inference_mode * STATE_INFERENCE |
                      (state_word)tp_self.forward_mode * STATE_FORWARD | (state_word)tp_self.anomaly * STATE_ANOMALY |
                      (state_word)tp_self.anomaly_nan * STATE_ANOMALY_NAN | (state_word)tp_the_runtime.default_dtype << STATE_DTYPE_AT |
                      (state_word)(atomic_load_explicit(&tp_the_runtime.attention_off, memory_order_relaxed) & 255) << STATE_ATTENTION_AT |
                      (state_word)(atomic_load_explicit(&tp_the_runtime.deterministic, memory_order_relaxed) & 255) << STATE_DETERMINISTIC_AT;
    if (TP_LIKELY(!a))
        return word | STATE_CACHE | (state_word)TP_bf16 << STATE_CAST_DTYPE_AT;
    return word | (state_word)a->cache * STATE_CACHE | (state_word)a->enabled * STATE_AUTOCAST | (state_word)a->dtype << STATE_CAST_DTYPE_AT |
           (state_word)(a->nesting & 0xffff) << STATE_NESTING_AT;
}

/* The state that a word tells of. */
void thread_state_set(state_word word);

typedef struct thread_state {
    state_word word;
    uint32_t active;                /* layers that modes have switched on */
    void    *saved_hooks;           /* borrowed: the innermost that was pushed */
    int      threads;
    bool     has_generator;
    uint8_t  generator[TP_GENERATOR_STATE_BYTES];
} thread_state;

void thread_state_save(thread_state *s);
void thread_state_keep_generator(thread_state *s);          /* what was drawn since was drawn for the program: its state now is put back */
void thread_state_restore(const thread_state *s);       /* an exception that is set stays */

#endif
