/* fft_plan.c - factors, tables and the order of stages. */
#include "kernels/fft_plan.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/runtime.h"

enum { MOST_COLUMNS = 4096, LEAST_SPLIT = 16 };

/* The block of a plan; without memory it only counts. */
typedef struct block {
    char  *base;
    size_t at;
} block;

static void *take(block *b, size_t bytes)
{
    size_t at = b->at;
    b->at += (bytes + 63) & ~(size_t)63;
    return b->base ? b->base + at : NULL;
}

/* ---- numbers ---- */

/* exp(-2 pi i k / n), exact at the eighths of the circle and symmetric between them. */
static void unit(int64_t k, int64_t n, double *re, double *im)
{
    k %= n;
    bool below = 2 * k > n;                     /* the lower half of the circle mirrors the upper one */
    k = below ? n - k : k;
    bool left = 4 * k > n;                      /* so does the left the right */
    k = left ? n - 2 * k : 2 * k;               /* now an angle of pi k / n, at most pi / 2 */
    bool steep = 4 * k > n;
    double angle = 3.14159265358979323846 * (double)(steep ? n - 2 * k : 2 * k) / (double)(2 * n);
    double c = steep ? sin(angle) : cos(angle), s = steep ? cos(angle) : sin(angle);
    *re = left ? -c : c;
    *im = below ? s : -s;
}

static void put(void *to, int64_t i, double value, bool single)
{
    if (single)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

/* ---- factors ---- */
static bool factor(int64_t n, tp_fft_part *part)
{
    static const uint8_t odd[] = { 3, 5, 7, 11, 13 };
    int twos = 0;
    part->n = n;
    part->count = 0;
    for (; n % 2 == 0; n /= 2)
        twos++;
    for (size_t i = 0; i < sizeof odd; i++)
        for (; n % odd[i] == 0; n /= odd[i])
            part->radix[part->count++] = odd[i];
    while (twos) {
        int step = twos == 1 ? 1 : twos % 3 == 0 ? 3 : 2;       /* eights, after as many fours as make the rest fit */
        part->radix[part->count++] = (uint8_t)(1 << step);
        twos -= step;
    }
    return n == 1;
}

/* The divisor of n nearest to its root, from below. */
static int64_t split_of(int64_t n)
{
    int64_t best = 1;
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            best = d;
    return best;
}

/* ---- tables ---- */
static void fill_part(block *b, tp_fft_part *part, bool single)
{
    size_t width = single ? 4 : 8;
    int64_t n = part->n;
    for (int i = 0; i < part->count; i++) {
        int r = part->radix[i];
        int64_t m = n / r;
        void *w = take(b, (size_t)(m * (r - 1) * 2) * width), *root = r > 5 && r != 8 ? take(b, (size_t)r * 2 * width) : NULL;
        part->twiddle[i] = w;
        part->root[i] = root;
        for (int64_t p = 0; b->base && p < m; p++)
            for (int k = 1; k < r; k++) {
                double re, im;
                unit(p * k, n, &re, &im);
                put(w, (p * (r - 1) + k - 1) * 2, re, single);
                put(w, (p * (r - 1) + k - 1) * 2 + 1, im, single);
            }
        for (int j = 0; root && j < r; j++) {
            double re, im;
            unit(j, r, &re, &im);
            put(root, 2 * j, re, single);
            put(root, 2 * j + 1, im, single);
        }
        n = m;
    }
}

static tp_fft_pair take_pair(block *b, int64_t n, bool single)
{
    size_t bytes = (size_t)n * (single ? 4 : 8);
    void *re = take(b, bytes);
    return (tp_fft_pair){ re, take(b, bytes) };
}

static void put_unit(tp_fft_pair to, int64_t i, int64_t k, int64_t n, bool single)
{
    double re, im;
    unit(k, n, &re, &im);
    put(to.re, i, re, single);
    put(to.im, i, im, single);
}

static tp_fft_plan *make(block *b, int64_t n, bool single, bool real);

/* Those of the instruction set in use now: tests change it. */
static void use_kernels(tp_fft_plan *p)
{
    static const tp_fft_set *const sets[] = { &tp_fft_set_plain, &tp_fft_set_avx2, &tp_fft_set_avx512 };
    const tp_fft_set *set = sets[tp_the_runtime.instruction_set];
    for (; p; p = p->inner)
        p->kernels = p->single ? &set->f32 : &set->f64;
}

/* X[k] = chirp[k] (x chirp * 1/chirp)[k]: a convolution of length 2n - 1, done in a circle of a power of two. */
static bool make_bluestein(block *b, tp_fft_plan *p)
{
    int64_t n = p->n, m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    p->chirp = take_pair(b, n, p->single);
    p->filter = take_pair(b, m, p->single);
    p->inner = make(b, m, p->single, false);
    if (!b->base)
        return true;
    tp_fft_pair x, y;
    size_t bytes = (size_t)m * (p->single ? 4 : 8);
    char *room = tp_alloc(4 * bytes);
    if (!room)
        return false;
    memset(room, 0, 4 * bytes);
    x = (tp_fft_pair){ room, room + bytes };
    y = (tp_fft_pair){ room + 2 * bytes, room + 3 * bytes };
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double re, im;
        unit(square, 2 * n, &re, &im);
        put(p->chirp.re, k, re, p->single);
        put(p->chirp.im, k, im, p->single);
        put(x.re, k, re, p->single);
        put(x.im, k, -im, p->single);
        if (k) {
            put(x.re, m - k, re, p->single);
            put(x.im, m - k, -im, p->single);
        }
    }
    tp_fft_pair made = tp_fft_run(p->inner, x, y);
    for (int64_t k = 0; k < m; k++) {           /* the division by m of the way back is put in here */
        double re = p->single ? ((float *)made.re)[k] : ((double *)made.re)[k], im = p->single ? ((float *)made.im)[k] : ((double *)made.im)[k];
        put(p->filter.re, k, re / (double)m, p->single);
        put(p->filter.im, k, im / (double)m, p->single);
    }
    tp_free(room);
    return true;
}

static tp_fft_plan *make(block *b, int64_t n, bool single, bool real)
{
    tp_fft_plan counted, *room = take(b, sizeof counted), *p = room ? room : &counted;
    memset(p, 0, sizeof *p);
    p->n = n;
    p->single = single;
    p->real = real;
    use_kernels(p);
    if (real && n % 2 == 0) {
        p->root = take_pair(b, n / 2, single);
        for (int64_t k = 0; b->base && k < n / 2; k++)
            put_unit(p->root, k, k, n, single);
        p->inner = make(b, n / 2, single, false);
        return p->inner ? room : NULL;
    }
    if (!factor(n, &p->whole)) {
        p->whole.count = 0;
        return make_bluestein(b, p) ? room : NULL;
    }
    int64_t n1 = n >= LEAST_SPLIT ? split_of(n) : 1;
    (void)factor(n1, &p->part[0]);
    (void)factor(n / n1, &p->part[1]);
    if (n1 > 1) {
        fill_part(b, &p->part[0], single);
        fill_part(b, &p->part[1], single);
        p->turn = take_pair(b, n, single);
        for (int64_t i = 0; b->base && i < n; i++)
            put_unit(p->turn, i, i / (n / n1) * (i % (n / n1)), n, single);
    }
    if (n > MOST_COLUMNS && n1 > 1)
        p->whole.count = 0;
    else
        fill_part(b, &p->whole, single);
    return room;
}

/* ---- the cache: a plan that is in use is not in its slot ---- */
static _Atomic(void *) *slot_of(int64_t n, bool single, bool real)
{
    uint64_t hash = ((uint64_t)n * 4 + single * 2 + real) * 0x9e3779b97f4a7c15u;
    return &tp_the_runtime.fft_plan[hash >> 32 & (TP_FFT_PLANS - 1)];
}

tp_fft_plan *tp_fft_take(int64_t n, bool single, bool real)
{
    tp_fft_plan *cached = atomic_exchange(slot_of(n, single, real), NULL);
    if (cached && cached->n == n && cached->single == single && cached->real == real) {
        use_kernels(cached);
        return cached;
    }
    tp_free(cached);
    block b = { 0 };
    (void)make(&b, n, single, real);
    if (!(b.base = tp_alloc(b.at)))
        return NULL;
    b.at = 0;
    tp_fft_plan *p = make(&b, n, single, real);
    if (!p)
        tp_free(b.base);
    return p;
}

void tp_fft_give(tp_fft_plan *p)
{
    if (p)
        tp_free(atomic_exchange(slot_of(p->n, p->single, p->real), p));
}

/* ---- running ---- */
static tp_fft_pair run_part(const tp_fft_kernels *kernels, const tp_fft_part *part, int64_t s, tp_fft_pair x, tp_fft_pair y, tp_fft_pair *other)
{
    int64_t n = part->n;
    for (int i = 0; i < part->count; i++) {
        int r = part->radix[i];
        kernels->pass(r, n / r, s, x, y, part->twiddle[i], part->root[i]);
        tp_fft_pair swap = x;
        x = y;
        y = swap;
        n /= r;
        s *= r;
    }
    *other = y;
    return x;
}

static tp_fft_pair turned(tp_fft_pair x) { return (tp_fft_pair){ x.im, x.re }; }

static tp_fft_pair run_bluestein(const tp_fft_plan *p, tp_fft_pair x, tp_fft_pair y)
{
    int64_t n = p->n, m = p->inner->n;
    size_t width = p->single ? 4 : 8, rest = (size_t)(m - n) * width;
    p->kernels->multiply(n, x, p->chirp, x);
    memset((char *)x.re + (size_t)n * width, 0, rest);
    memset((char *)x.im + (size_t)n * width, 0, rest);
    tp_fft_pair a = tp_fft_run(p->inner, x, y), b = a.re == x.re ? y : x;
    p->kernels->multiply(m, a, p->filter, a);
    tp_fft_pair back = turned(tp_fft_run(p->inner, turned(a), turned(b)));
    p->kernels->multiply(n, back, p->chirp, back);
    return back;
}

int64_t tp_fft_room(const tp_fft_plan *p)
{
    return p->inner ? tp_fft_room(p->inner) : p->n;
}

tp_fft_pair tp_fft_run(const tp_fft_plan *p, tp_fft_pair x, tp_fft_pair y)
{
    tp_fft_pair other;
    if (p->filter.re)
        return run_bluestein(p, x, y);
    int64_t n1 = p->part[0].n, n2 = p->part[1].n;
    if (n1 == 1)
        return run_part(p->kernels, &p->whole, 1, x, y, &other);
    tp_fft_pair columns = run_part(p->kernels, &p->part[0], n2, x, y, &other);
    p->kernels->turn(n1, n2, columns, other, p->turn);
    return run_part(p->kernels, &p->part[1], n1, other, columns, &x);
}

tp_fft_pair tp_fft_run_columns(const tp_fft_plan *p, int64_t side, tp_fft_pair x, tp_fft_pair y)
{
    tp_fft_pair other;
    return run_part(p->kernels, &p->whole, side, x, y, &other);
}
