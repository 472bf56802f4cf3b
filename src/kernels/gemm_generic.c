/* gemm_generic.c - integers, complex numbers and halves.
 *
 * Integers and complex numbers: strips of a row of C are summed beside it, a row of B at a time, so that the inner loop
 * runs along memory and the compiler makes vectors of it. Halves are widened, multiplied as f32 and rounded once. */
#include "kernels/gemm_generic.h"

#include "base/block.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "kernels/gemm_blocked.h"

enum { STRIP = 256, ROW_CHUNK = 32 << 10 };

typedef struct rows_job {
    const tp_gemm *g;
    const char *a, *b;
    char   *c;
    tp_dtype dtype;
    int64_t rows;               /* of a chunk */
} rows_job;

/* ---- element types: how to add a product, and how to finish ---- */

#define WRAP(type, wide)                                                                                            \
    static inline void add_product_##type(type *sum, type x, type y) { *sum = (type)(*sum + (wide)x * (wide)y); }   \
    static inline type finish_##type(type sum, tp_scalar alpha, tp_scalar beta, const type *c)                      \
    {                                                                                                               \
        wide v = (wide)tp_scalar_to_int(alpha) * (wide)sum;                                                         \
        return (type)(tp_scalar_is_zero(beta) ? v : v + (wide)tp_scalar_to_int(beta) * (wide)*c);                   \
    }
/* Unsigned, so that wrapping is defined; products of signed numbers have the same low bits. */
WRAP(uint8_t, uint32_t)
WRAP(uint16_t, uint32_t)
WRAP(uint32_t, uint32_t)
WRAP(uint64_t, uint64_t)

#define COMPLEX(type, real)                                                                                         \
    static inline type times_##type(type x, type y)                                                                 \
    {                                                                                                               \
        return (type){ x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re };                                      \
    }                                                                                                               \
    static inline void add_product_##type(type *sum, type x, type y)                                                \
    {                                                                                                               \
        type p = times_##type(x, y);                                                                                \
        sum->re += p.re;                                                                                            \
        sum->im += p.im;                                                                                            \
    }                                                                                                               \
    static inline type finish_##type(type sum, tp_scalar alpha, tp_scalar beta, const type *c)                      \
    {                                                                                                               \
        tp_c128 wa = tp_scalar_to_complex(alpha), wb = tp_scalar_to_complex(beta);                                  \
        type v = wa.re == 1 && wa.im == 0 ? sum : times_##type((type){ (real)wa.re, (real)wa.im }, sum);            \
        if (tp_scalar_is_zero(beta))                                                                                \
            return v;                                                                                               \
        type old = wb.re == 1 && wb.im == 0 ? *c : times_##type((type){ (real)wb.re, (real)wb.im }, *c);            \
        return (type){ v.re + old.re, v.im + old.im };                                                              \
    }
COMPLEX(tp_c64, float)
COMPLEX(tp_c128, double)

/* Rows i0 … i1 of C. */
#define ROWS(type)                                                                                                  \
    static void rows_##type(const rows_job *r, int64_t i0, int64_t i1)                                              \
    {                                                                                                               \
        const tp_gemm *g = r->g;                                                                                    \
        const type *a = (const type *)r->a, *b = (const type *)r->b;                                                \
        type sum[STRIP];                                                                                            \
        for (int64_t i = i0; i < i1; i++)                                                                           \
            for (int64_t j0 = 0; j0 < g->n; j0 += STRIP) {                                                          \
                int64_t n = g->n - j0 < STRIP ? g->n - j0 : STRIP;                                                  \
                type *c = (type *)r->c + i * g->c_row + j0 * g->c_column;                                           \
                for (int64_t j = 0; j < n; j++)                                                                     \
                    sum[j] = (type){ 0 };                                                                           \
                for (int64_t p = 0; p < g->k; p++) {                                                                \
                    type x = a[i * g->a_row + p * g->a_column];                                                     \
                    const type *y = b + p * g->b_row + j0 * g->b_column;                                            \
                    if (g->b_column == 1)                                                                           \
                        for (int64_t j = 0; j < n; j++)                                                             \
                            add_product_##type(&sum[j], x, y[j]);                                                   \
                    else                                                                                            \
                        for (int64_t j = 0; j < n; j++)                                                             \
                            add_product_##type(&sum[j], x, y[j * g->b_column]);                                     \
                }                                                                                                   \
                for (int64_t j = 0; j < n; j++, c += g->c_column)                                                   \
                    *c = finish_##type(sum[j], g->alpha, g->beta, c);                                               \
            }                                                                                                       \
    }
ROWS(uint8_t)
ROWS(uint16_t)
ROWS(uint32_t)
ROWS(uint64_t)
ROWS(tp_c64)
ROWS(tp_c128)

static void (*rows_of(tp_dtype d))(const rows_job *, int64_t, int64_t)
{
    switch (d) {
    case TP_u8: case TP_i8: return rows_uint8_t;
    case TP_i16: return rows_uint16_t;
    case TP_i32: return rows_uint32_t;
    case TP_i64: return rows_uint64_t;
    case TP_c64: return rows_tp_c64;
    case TP_c128: return rows_tp_c128;
    default: return NULL;
    }
}

static void rows_chunk(void *work, int64_t index, int64_t count)
{
    const rows_job *r = work;
    int64_t end = (index + 1) * r->rows < r->g->m ? (index + 1) * r->rows : r->g->m;
    (void)count;
    rows_of(r->dtype)(r, index * r->rows, end);
}

static rows_job job_of(tp_dtype d, const tp_gemm *g, int64_t item)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(d);
    return (rows_job){
        .g = g, .dtype = d, .a = (const char *)g->a + item * g->a_batch * bytes,
        .b = (const char *)g->b + item * g->b_batch * bytes, .c = (char *)g->c + item * g->c_batch * bytes,
        .rows = 1 + ROW_CHUNK / (g->n * g->k + 1),
    };
}

bool tp_gemm_generic(tp_dtype d, const tp_gemm *g, int64_t item)
{
    rows_job r = job_of(d, g, item);
    tp_pool_run((g->m + r.rows - 1) / r.rows, rows_chunk, &r);
    return true;
}

bool tp_gemm_scale(tp_dtype d, const tp_gemm *g, int64_t item)
{
    rows_job r = job_of(d, g, item);
    tp_gemm none = *g;
    size_t bytes = tp_dtype_bytes(d);

    if (rows_of(d)) {
        none.k = 0;
        r.g = &none;
        rows_of(d)(&r, 0, g->m);
        return true;
    }
    double beta = tp_scalar_to_double(g->beta);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            void *c = r.c + (i * g->c_row + j * g->c_column) * (int64_t)bytes;
            double old = beta == 0 ? 0 : tp_scalar_to_double(tp_scalar_read(c, d));
            tp_scalar_write(tp_scalar_float(beta == 0 ? 0 : beta * old), c, d);
        }
    return true;
}

/* ---- halves ---- */

typedef struct widening {
    tp_dtype dtype;
    const uint16_t *half;
    float   *wide;              /* rows x columns without gaps */
    int64_t  rows, columns, row, column, rows_a_chunk;
} widening;

static float widen(tp_dtype d, uint16_t h)
{
    return d == TP_f16 ? tp_half_to_float(h) : tp_bfloat_to_float(h);
}

static void widen_chunk(void *work, int64_t index, int64_t count)
{
    const widening *w = work;
    int64_t i0 = index * w->rows_a_chunk, i1 = i0 + w->rows_a_chunk < w->rows ? i0 + w->rows_a_chunk : w->rows;
    (void)count;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = 0; j < w->columns; j++)
            w->wide[i * w->columns + j] = widen(w->dtype, w->half[i * w->row + j * w->column]);
}

static void narrow_chunk(void *work, int64_t index, int64_t count)
{
    const widening *w = work;
    int64_t i0 = index * w->rows_a_chunk, i1 = i0 + w->rows_a_chunk < w->rows ? i0 + w->rows_a_chunk : w->rows;
    uint16_t *half = (uint16_t *)w->half;
    (void)count;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = 0; j < w->columns; j++) {
            float x = w->wide[i * w->columns + j];
            half[i * w->row + j * w->column] = w->dtype == TP_f16 ? tp_float_to_half(x) : tp_float_to_bfloat(x);
        }
}

static void convert(tp_dtype d, const void *half, int64_t rows, int64_t columns, int64_t row, int64_t column,
                    float *wide, tp_chunk_fn *chunk)
{
    widening w = { d, half, wide, rows, columns, row, column, 1 + ROW_CHUNK / (columns + 1) };
    tp_pool_run((rows + w.rows_a_chunk - 1) / w.rows_a_chunk, chunk, &w);
}

bool tp_gemm_half(tp_dtype d, const tp_gemm *g, int64_t item)
{
    rows_job r = job_of(d, g, item);
    size_t a_bytes = (size_t)(g->m * g->k) * sizeof(float), b_bytes = (size_t)(g->k * g->n) * sizeof(float);
    size_t c_bytes = (size_t)(g->m * g->n) * sizeof(float);
    float *a = NULL, *b = NULL, *c = NULL;
    bool ok = (a = tp_block_new(a_bytes)) && (b = tp_block_new(b_bytes)) && (c = tp_block_new(c_bytes));

    if (ok) {
        /* A matrix that lies by columns is copied by columns: the wide copy then packs as fast as it would have. */
        bool turned = g->b_row == 1 && g->b_column != 1;
        convert(d, r.a, g->m, g->k, g->a_row, g->a_column, a, widen_chunk);
        if (turned)
            convert(d, r.b, g->n, g->k, g->b_column, g->b_row, b, widen_chunk);
        else
            convert(d, r.b, g->k, g->n, g->b_row, g->b_column, b, widen_chunk);
        if (!tp_scalar_is_zero(g->beta))
            convert(d, r.c, g->m, g->n, g->c_row, g->c_column, c, widen_chunk);
        tp_gemm_problem p = {
            .m = g->m, .n = g->n, .k = g->k, .a = a, .a_row = g->k, .a_column = 1, .b = b,
            .b_row = turned ? 1 : g->n, .b_column = turned ? g->k : 1, .c = c, .c_row = g->n, .c_column = 1,
            .alpha = tp_scalar_to_double(g->alpha), .beta = tp_scalar_to_double(g->beta),
        };
        ok = tp_gemm_solve(&p, tp_gemm_kernels_for(TP_f32), sizeof(float));
        if (ok)
            convert(d, r.c, g->m, g->n, g->c_row, g->c_column, c, narrow_chunk);
    }
    tp_block_free(c, c_bytes);
    tp_block_free(b, b_bytes);
    tp_block_free(a, a_bytes);
    return ok;
}
