/* gemm_blocked.c - one product, cut into pieces.
 *
 *               n                    few rows        A stays, B is read once: dot or sweep
 *        ┌────┬────┬────┐            otherwise       C in tiles, each a chunk of the pool;
 *      m │    │    │    │                            A and B are packed before, in chunks of their own,
 *        ├────┼────┼────┤                            where tiles would pack the same thing again and again
 *        │    │    │    │
 *        └────┴────┴────┘
 *
 * Every choice looks at sizes and strides alone, never at the number of threads: bits must not depend on it. */
#include "kernels/gemm_blocked.h"

#include "base/block.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "tile/tile.h"

enum {
    TINY = 128,                 /* multiply-adds below which the plain loop wins */
    FEW_ROWS = 3,               /* at most so many: B is read once, in its own order */
    CHUNK = 384 << 10,          /* multiply-adds worth handing to another thread: some 8 microseconds */
    READ_CHUNK = 64 << 10,      /* the same for matrix times vector, where memory sets the pace */
    SWEEP_COLUMNS = 512,        /* long enough rows for the prefetchers */
    SLICE = 2048,               /* rows and columns packed at a time, so that both stay in the last cache */
    SLICE_K = 4 * TP_GEMM_K,
    TILE_COLUMNS = 256,
    PACK_TURNED = 96,           /* up to so many rows of A, B is read as it lies: along k; */
    PACK_ACROSS = 192,          /* along n, but across lines of the cache or in one set of it; */
    PACK_IN_LINES = 640,        /* along n */
    ONE_TILE = TP_GEMM_PACKED_ROWS, /* rows of a tile at most: a block of A fits the second cache */
};

static const tp_gemm_set *const sets[] = {
    [TP_ISA_PLAIN] = &tp_gemm_set_plain, [TP_ISA_AVX2] = &tp_gemm_set_avx2, [TP_ISA_AVX512] = &tp_gemm_set_avx512
};

/* After tile/choose.c has looked at the processor. */
__attribute__((constructor(103))) static void choose_set(void)
{
    tp_the_runtime.gemm = sets[tp_the_runtime.instruction_set];
}

const tp_gemm_kernels *tp_gemm_kernels_for(tp_dtype d)
{
    return d == TP_f32 ? &tp_the_runtime.gemm->f32 : &tp_the_runtime.gemm->f64;
}

static int64_t up(int64_t x, int64_t step)
{
    return (x + step - 1) / step * step;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct job {
    const tp_gemm_problem *g;
    const tp_gemm_kernels *kernels;
    int64_t tile_rows, tile_columns, down;      /* tiles, and how many lie below each other */
    char   *packed_a, *packed_b;                /* NULL: not packed */
    int64_t a_chunks, a_panels, b_panels;       /* the first chunks of packing are A's */
    int64_t panels_a_chunk, panels_b_chunk;
} job;

static void pack_chunk(void *work, int64_t index, int64_t count)
{
    const job *j = work;
    (void)count;
    if (index < j->a_chunks) {
        int64_t from = index * j->panels_a_chunk;
        for (int64_t p = from; p < least(from + j->panels_a_chunk, j->a_panels); p++)
            j->kernels->pack_a(j->g, p, j->packed_a);
    } else {
        int64_t from = (index - j->a_chunks) * j->panels_b_chunk;
        for (int64_t p = from; p < least(from + j->panels_b_chunk, j->b_panels); p++)
            j->kernels->pack_b(j->g, p, j->packed_b);
    }
}

static void tile_chunk(void *work, int64_t index, int64_t count)
{
    const job *j = work;
    int64_t i = index % j->down * j->tile_rows, column = index / j->down * j->tile_columns;
    (void)count;
    j->kernels->tile(j->g, i, least(i + j->tile_rows, j->g->m), column, least(column + j->tile_columns, j->g->n));
}

/* Tiles start as large as the caches like and are halved while that gives the pool something to share. */
static void choose_tiles(job *j)
{
    const tp_gemm_problem *g = j->g;
    int64_t rows = j->kernels->rows, columns = j->kernels->columns;
    int64_t tr = least(up(g->m, rows), up(96, rows)), tc = least(up(g->n, columns), TILE_COLUMNS);
    bool filled = g->fill || g->packed_a;
    if (g->m <= ONE_TILE && (filled || g->k * g->m <= 64 << 10))
        tr = up(g->m, rows);
    for (int64_t tiles; (tiles = up(g->m, tr) / tr * (up(g->n, tc) / tc)) < 8 && tr * tc * g->k >= 2 * CHUNK;) {
        if (tc > columns && (tc >= tr || filled))
            tc = up(tc / 2, columns);
        else if (tr > rows && (!filled || tiles < 2))   /* each row of tiles fills the panels again */
            tr = up(tr / 2, rows);
        else
            break;
    }
    j->tile_rows = tr;
    j->tile_columns = tc;
    j->down = up(g->m, tr) / tr;
}

static void run_packing(job *j)
{
    int64_t a_panel = j->kernels->rows * j->g->k, b_panel = j->kernels->columns * j->g->k, worth = 32 << 10;
    j->panels_a_chunk = 1 + worth / (a_panel + 1);
    j->panels_b_chunk = 1 + worth / (b_panel + 1);
    j->a_panels = j->packed_a ? up(j->g->m, j->kernels->rows) / j->kernels->rows : 0;
    j->b_panels = j->packed_b ? up(j->g->n, j->kernels->columns) / j->kernels->columns : 0;
    j->a_chunks = up(j->a_panels, j->panels_a_chunk) / j->panels_a_chunk;
    tp_pool_run(j->a_chunks + up(j->b_panels, j->panels_b_chunk) / j->panels_b_chunk, pack_chunk, j);
}

/* A slice: at most SLICE rows along at most SLICE_K of k; at most SLICE columns where B is packed. */
static void run_slice(const tp_gemm_problem *g, const tp_gemm_kernels *kernels, char *packed_a, char *packed_b)
{
    tp_gemm_problem slice = *g;
    job j = { .g = &slice, .kernels = kernels, .packed_a = packed_a, .packed_b = packed_b };
    choose_tiles(&j);
    if (packed_a || packed_b)
        run_packing(&j);
    slice.packed_a = packed_a ? packed_a : g->packed_a;
    slice.packed_b = packed_b;
    tp_pool_run(j.down * (up(g->n, j.tile_columns) / j.tile_columns), tile_chunk, &j);
}

static void advance(const void **p, int64_t elements, size_t bytes)
{
    *p = (const char *)*p + elements * (int64_t)bytes;
}

static bool run_blocked(const tp_gemm_problem *g, const tp_gemm_kernels *kernels, size_t bytes)
{
    bool pack_a = !g->packed_a && (g->a_offset || g->a_column != 1 || (g->n > 256 && g->m * g->k > 128 << 10));
    int64_t apart = g->b_row * (int64_t)bytes;
    bool in_lines = apart % 64 == 0 && apart % TP_GEMM_SAME_SET != 0;
    bool pack_b = g->m > (g->fill || g->packed_a ? ONE_TILE : g->b_column != 1 ? PACK_TURNED : in_lines ? PACK_IN_LINES : PACK_ACROSS);
    int64_t sm = least(g->m, SLICE), sn = pack_b ? least(g->n, SLICE) : g->n, sk = least(g->k, SLICE_K);
    size_t a_bytes = pack_a ? (size_t)(up(sm, kernels->rows) * sk) * bytes : 0;
    size_t b_bytes = pack_b ? (size_t)(up(sn, kernels->columns) * sk) * bytes : 0;
    char *scratch = NULL;

    a_bytes = (size_t)up((int64_t)a_bytes, 64);
    if (a_bytes + b_bytes && !(scratch = tp_block_new(a_bytes + b_bytes)))
        return false;
    for (int64_t k0 = 0; k0 < g->k; k0 += sk)
        for (int64_t j0 = 0; j0 < g->n; j0 += sn)
            for (int64_t i0 = 0; i0 < g->m; i0 += sm) {
                tp_gemm_problem slice = *g;
                const void *c = g->c;
                slice.m = least(sm, g->m - i0);
                slice.n = least(sn, g->n - j0);
                slice.k = least(sk, g->k - k0);
                slice.beta = k0 ? 1 : g->beta;
                advance(&slice.a, i0 * g->a_row + (g->a_offset ? 0 : k0 * g->a_column), bytes);
                slice.a_offset = g->a_offset ? g->a_offset + k0 : NULL;
                if (g->packed_a)
                    advance(&slice.packed_a, k0 * up(g->m, kernels->rows), bytes);
                if (!g->fill)
                    advance(&slice.b, k0 * g->b_row + j0 * g->b_column, bytes);
                advance(&c, i0 * g->c_row + j0 * g->c_column, bytes);
                slice.c = (void *)c;
                slice.fill_k = g->fill_k + k0;
                slice.fill_n = g->fill_n + j0;
                run_slice(&slice, kernels, pack_a ? scratch : NULL, pack_b ? scratch + a_bytes : NULL);
            }
    tp_block_free(scratch, a_bytes + b_bytes);
    return true;
}

typedef struct reading {
    const tp_gemm_problem *g;
    void (*kernel)(const tp_gemm_problem *g, int64_t j0, int64_t j1);
    int64_t columns;
} reading;

static void reading_chunk(void *work, int64_t index, int64_t count)
{
    const reading *r = work;
    (void)count;
    r->kernel(r->g, index * r->columns, least((index + 1) * r->columns, r->g->n));
}

static void run_reading(const tp_gemm_problem *g, void (*kernel)(const tp_gemm_problem *, int64_t, int64_t),
                        int64_t step)
{
    reading r = { g, kernel, up(1 + READ_CHUNK / g->k, step) };
    tp_pool_run(up(g->n, r.columns) / r.columns, reading_chunk, &r);
}

/* C' = B' A'. */
static tp_gemm_problem transposed(const tp_gemm_problem *g)
{
    tp_gemm_problem t = *g;
    t.m = g->n, t.n = g->m;
    t.a = g->b, t.a_row = g->b_column, t.a_column = g->b_row;
    t.b = g->a, t.b_row = g->a_column, t.b_column = g->a_row;
    t.c_row = g->c_column, t.c_column = g->c_row;
    return t;
}

bool tp_gemm_solve(const tp_gemm_problem *g, const tp_gemm_kernels *kernels, size_t element_bytes)
{
    tp_gemm_problem turned;
    if (g->fill || g->a_offset || g->packed_a)
        return run_blocked(g, kernels, element_bytes);
    if (g->m * g->n <= TINY && g->m * g->n * g->k <= TINY && g->k <= TP_GEMM_K) {
        kernels->tiny(g);
        return true;
    }
    if ((g->n <= FEW_ROWS && g->m > g->n) || (g->m > FEW_ROWS && g->c_column != 1 && g->c_row == 1)) {
        turned = transposed(g);
        g = &turned;
    }
    if (g->m <= FEW_ROWS && g->a_column == 1 && g->b_row == 1) {
        run_reading(g, kernels->dot, 4);
        return true;
    }
    if (g->m <= FEW_ROWS && g->b_column == 1) {
        run_reading(g, kernels->sweep, SWEEP_COLUMNS);
        return true;
    }
    return run_blocked(g, kernels, element_bytes);
}
