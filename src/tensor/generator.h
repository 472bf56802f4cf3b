/* generator.h - PyTorch's CPU stream of random words: mt19937, to the last bit.
 *
 * A generator is counted and has a lock: a draw of many numbers holds it from the first to the last, so that numbers come
 * in the order of the program whatever the threads do. The functions named tp_draw_… want the lock held; the others take
 * it themselves. What is always true: `left` is 1 + the words of the block not yet taken, or 1 before the first block;
 * `next` counts the words taken from the block.
 *
 *     w32   the next tempered word                          u24 = (w32 mod 2^24) 2^-24, a float
 *     w64   two words, the first one high                   u53 = (w64 mod 2^53) 2^-53, a double
 */
#ifndef TP_TENSOR_GENERATOR_H
#define TP_TENSOR_GENERATOR_H

#include "base/count.h"
#include "base/error.h"

enum { TP_GENERATOR_WORDS = 624, TP_GENERATOR_STATE_BYTES = 5056 };

/* The seed of torch.Generator() before anybody seeds it. */
#define TP_GENERATOR_SEED 67280421310721u

typedef struct tp_generator {
    tp_count  refs;
    bool      has_normal;               /* `normal` waits: the second of a pair drawn by tp_draw_normal */
    int32_t   left, next;
    uint64_t  seed;                     /* as given; the stream uses its lower half */
    double    normal;
    uint32_t  state[TP_GENERATOR_WORDS];
    void     *lock;                     /* owned */
    void     *wrapper;                  /* borrowed: the Python object, may be NULL */
} tp_generator;

TP_API TP_CHECK tp_generator *tp_generator_new(uint64_t seed);
TP_API void tp_generator_free(tp_generator *g);             /* the count has reached zero */
TP_API TP_CHECK tp_generator *tp_generator_default(void);   /* borrowed from the runtime; made, with a random seed, on first use */
TP_API void tp_generator_drop_default(void);                /* for leak checks at the end of a program */
TP_API void tp_generator_set_seed(tp_generator *g, uint64_t seed);
TP_API uint64_t tp_generator_initial_seed(const tp_generator *g);
TP_API uint64_t tp_generator_random_seed(tp_generator *g);  /* Generator.seed(): seeds with what the system gives */
TP_API void tp_generator_get_state(tp_generator *g, uint8_t out[TP_GENERATOR_STATE_BYTES]);
TP_API TP_CHECK bool tp_generator_set_state(tp_generator *g, const uint8_t *state, size_t bytes);
TP_API void tp_generator_lock(tp_generator *g);
TP_API void tp_generator_unlock(tp_generator *g);

static inline tp_generator *tp_generator_ref(tp_generator *g)
{
    tp_count_up(&g->refs);
    return g;
}

static inline void tp_generator_unref(tp_generator *g)
{
    if (g && tp_count_down(&g->refs))
        tp_generator_free(g);
}

/* ---- draws; the lock is held ---- */
TP_API void tp_draw_block(tp_generator *g);                 /* the next 624 words */
TP_API void tp_draw_words(tp_generator *g, int64_t n, uint32_t *out);
TP_API void tp_draw_u24s(tp_generator *g, int64_t n, float *out);
TP_API void tp_draw_u53s(tp_generator *g, int64_t n, double *out);
TP_API double tp_draw_normal(tp_generator *g);              /* mean 0, deviation 1, in pairs through the generator */

static inline uint32_t tp_mt_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static inline uint32_t tp_draw_w32(tp_generator *g)
{
    if (--g->left == 0)
        tp_draw_block(g);
    return tp_mt_temper(g->state[g->next++]);
}

static inline uint64_t tp_draw_w64(tp_generator *g)
{
    uint64_t high = tp_draw_w32(g);
    return high << 32 | tp_draw_w32(g);
}

static inline float tp_draw_u24(tp_generator *g)
{
    return (float)(tp_draw_w32(g) & 0xffffffu) * 0x1p-24f;
}

static inline double tp_draw_u53(tp_generator *g)
{
    return (double)(tp_draw_w64(g) & 0x1fffffffffffffu) * 0x1p-53;
}

#endif
