/* generator.c - mt19937 as published by Matsumoto and Nishimura, and the form in which PyTorch stores its state.
 *
 *     bytes of a state:   0 u64 seed   8 i32 left   12 i32 seeded   16 u64 next   24 624 x u64 words
 *                      5016 f64 unused  5024 f64 cached normal  5032 f64 unused  5040 i32 normal is valid  5048 unused
 */
#define _GNU_SOURCE
#include "tensor/generator.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/runtime.h"

enum { WORDS = TP_GENERATOR_WORDS, MIDDLE = 397 };
enum { AT_SEED = 0, AT_LEFT = 8, AT_SEEDED = 12, AT_NEXT = 16, AT_WORDS = 24, AT_NORMAL = 5024, AT_NORMAL_VALID = 5040 };

/* ---- seeding ---- */
static void seed_words(tp_generator *g, uint64_t seed)
{
    g->seed = seed;
    g->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < WORDS; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ g->state[i - 1] >> 30) + i;
    g->left = 1;
    g->next = 0;
    g->has_normal = false;
    g->normal = 0;
}

tp_generator *tp_generator_new(uint64_t seed)
{
    tp_generator *g = tp_alloc_zero(sizeof *g);
    if (!g)
        return NULL;
    pthread_mutex_t *lock = tp_alloc(sizeof *lock);
    if (!lock) {
        tp_free(g);
        return NULL;
    }
    pthread_mutex_init(lock, NULL);
    atomic_init(&g->refs, 1);
    g->lock = lock;
    seed_words(g, seed);
    return g;
}

void tp_generator_free(tp_generator *g)
{
    if (!g)
        return;
    pthread_mutex_destroy(g->lock);
    tp_free(g->lock);
    tp_free(g);
}

static uint64_t system_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
}

/* Two threads may both make one; the first to store it wins. */
tp_generator *tp_generator_default(void)
{
    struct tp_generator **slot = &tp_the_runtime.generator;
    tp_generator *g = __atomic_load_n(slot, __ATOMIC_ACQUIRE), *none = NULL;
    if (g || !(g = tp_generator_new(system_seed())))
        return g;
    if (__atomic_compare_exchange_n(slot, &none, g, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return g;
    tp_generator_unref(g);
    return none;
}

void tp_generator_drop_default(void)
{
    tp_generator_unref(__atomic_exchange_n(&tp_the_runtime.generator, NULL, __ATOMIC_ACQ_REL));
}

void tp_generator_lock(tp_generator *g) { pthread_mutex_lock(g->lock); }
void tp_generator_unlock(tp_generator *g) { pthread_mutex_unlock(g->lock); }

void tp_generator_set_seed(tp_generator *g, uint64_t seed)
{
    tp_generator_lock(g);
    seed_words(g, seed);
    tp_generator_unlock(g);
}

uint64_t tp_generator_initial_seed(const tp_generator *g)
{
    return g->seed;
}

uint64_t tp_generator_random_seed(tp_generator *g)
{
    uint64_t seed = system_seed();
    tp_generator_set_seed(g, seed);
    return seed;
}

/* ---- state ---- */
static void put(uint8_t *out, size_t at, const void *value, size_t bytes) { memcpy(out + at, value, bytes); }
static void get(const uint8_t *in, size_t at, void *value, size_t bytes) { memcpy(value, in + at, bytes); }

void tp_generator_get_state(tp_generator *g, uint8_t out[TP_GENERATOR_STATE_BYTES])
{
    memset(out, 0, TP_GENERATOR_STATE_BYTES);
    tp_generator_lock(g);
    int32_t seeded = 1, valid = g->has_normal;
    uint64_t next = (uint64_t)g->next;
    put(out, AT_SEED, &g->seed, 8);
    put(out, AT_LEFT, &g->left, 4);
    put(out, AT_SEEDED, &seeded, 4);
    put(out, AT_NEXT, &next, 8);
    for (size_t i = 0; i < WORDS; i++)
        put(out, AT_WORDS + 8 * i, &g->state[i], 4);
    if (valid)
        put(out, AT_NORMAL, &g->normal, 8);
    put(out, AT_NORMAL_VALID, &valid, 4);
    tp_generator_unlock(g);
}

bool tp_generator_set_state(tp_generator *g, const uint8_t *state, size_t bytes)
{
    if (bytes != TP_GENERATOR_STATE_BYTES)
        return tp_fail(TP_ERR_RUNTIME, "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be %zu",
                       bytes);
    int32_t left, seeded, valid;
    uint64_t next;
    get(state, AT_LEFT, &left, 4);
    get(state, AT_SEEDED, &seeded, 4);
    get(state, AT_NEXT, &next, 8);
    get(state, AT_NORMAL_VALID, &valid, 4);
    bool fresh = left == 1 && next == 0;
    if (seeded != 1 || left < 1 || left > WORDS || next > WORDS || (!fresh && (uint64_t)left + next != WORDS + 1))
        return tp_fail(TP_ERR_RUNTIME, "Invalid mt19937 state");
    tp_generator_lock(g);
    get(state, AT_SEED, &g->seed, 8);
    for (size_t i = 0; i < WORDS; i++)
        get(state, AT_WORDS + 8 * i, &g->state[i], 4);
    g->left = left;
    g->next = (int32_t)next;
    g->has_normal = valid != 0;
    get(state, AT_NORMAL, &g->normal, 8);
    tp_generator_unlock(g);
    return true;
}

/* ---- words ---- */
static inline uint32_t twist(uint32_t high, uint32_t low, uint32_t far)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ y >> 1 ^ ((0u - (low & 1u)) & 0x9908b0dfu);
}

/* Each word needs the one after it, unchanged yet, and one that lies 397 ahead or 227 behind: far enough apart for the
 * compiler to make vectors of the loops. */
void tp_draw_block(tp_generator *g)
{
    uint32_t *s = g->state;
    _Pragma("GCC ivdep") for (int i = 0; i < WORDS - MIDDLE; i++)
        s[i] = twist(s[i], s[i + 1], s[i + MIDDLE]);
    _Pragma("GCC ivdep") for (int i = WORDS - MIDDLE; i < WORDS - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + MIDDLE - WORDS]);
    s[WORDS - 1] = twist(s[WORDS - 1], s[0], s[MIDDLE - 1]);
    g->left = WORDS;
    g->next = 0;
}

/* Words that can be taken without a new block, at most n; makes a block when there are none. `take` is then called for. */
static int64_t ready(tp_generator *g, int64_t n)
{
    if (g->left == 1) {
        tp_draw_block(g);
        g->left = WORDS + 1;
    }
    return n < g->left - 1 ? n : g->left - 1;
}

static const uint32_t *take(tp_generator *g, int64_t n)
{
    const uint32_t *word = g->state + g->next;
    g->next += (int32_t)n;
    g->left -= (int32_t)n;
    return word;
}

void tp_draw_words(tp_generator *g, int64_t n, uint32_t *restrict out)
{
    for (int64_t some; n > 0; n -= some, out += some) {
        some = ready(g, n);
        const uint32_t *restrict word = take(g, some);
        for (int64_t i = 0; i < some; i++)
            out[i] = tp_mt_temper(word[i]);
    }
}

void tp_draw_u24s(tp_generator *g, int64_t n, float *restrict out)
{
    for (int64_t some; n > 0; n -= some, out += some) {
        some = ready(g, n);
        const uint32_t *restrict word = take(g, some);
        for (int64_t i = 0; i < some; i++)
            out[i] = (float)(int32_t)(tp_mt_temper(word[i]) & 0xffffffu) * 0x1p-24f;
    }
}

void tp_draw_u53s(tp_generator *g, int64_t n, double *restrict out)
{
    uint32_t word[512];
    for (int64_t some; n > 0; n -= some, out += some) {
        some = n < 256 ? n : 256;
        tp_draw_words(g, 2 * some, word);
        for (int64_t i = 0; i < some; i++)
            out[i] = (double)(int64_t)(((uint64_t)word[2 * i] << 32 | word[2 * i + 1]) & 0x1fffffffffffffu) * 0x1p-53;
    }
}

double tp_draw_normal(tp_generator *g)
{
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u1 = tp_draw_u53(g), u2 = tp_draw_u53(g);
    double radius = sqrt(-2 * log1p(-u2)), angle = 2 * 3.14159265358979323846 * u1;
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}
