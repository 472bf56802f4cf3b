/* gemm.c - the products of every dtype and their batches, in terms of gemm_blocked.c and gemm_generic.c. */
#include "kernels/gemm.h"

#include "base/error.h"
#include "kernels/each.h"
#include "kernels/gemm_blocked.h"
#include "kernels/gemm_generic.h"

enum { BATCH_CHUNK = 384 << 10 };       /* multiply-adds a chunk of a batch has at least */

static tp_gemm_problem problem_of(const tp_gemm *g, int64_t item, size_t bytes)
{
    return (tp_gemm_problem){
        .m = g->m, .n = g->n, .k = g->k,
        .a = (const char *)g->a + item * g->a_batch * (int64_t)bytes, .a_row = g->a_row, .a_column = g->a_column,
        .b = (const char *)g->b + item * g->b_batch * (int64_t)bytes, .b_row = g->b_row, .b_column = g->b_column,
        .c = (char *)g->c + item * g->c_batch * (int64_t)bytes, .c_row = g->c_row, .c_column = g->c_column,
        .alpha = tp_scalar_to_double(g->alpha), .beta = tp_scalar_to_double(g->beta),
    };
}

/* One product of the batch. */
typedef bool item_fn(tp_dtype d, const tp_gemm *g, int64_t item);

static bool float_item(tp_dtype d, const tp_gemm *g, int64_t item)
{
    tp_gemm_problem p = problem_of(g, item, tp_dtype_bytes(d));
    return tp_gemm_solve(&p, tp_gemm_kernels_for(d), tp_dtype_bytes(d));
}

typedef struct batch {
    tp_dtype dtype;
    const tp_gemm *g;
    item_fn *item;
} batch;

static bool batch_item(void *work, int64_t item)
{
    const batch *b = work;
    return b->item(b->dtype, b->g, item);
}

/* A few large products are split inside, many small ones between. */
static bool run_batch(tp_dtype d, const tp_gemm *g, item_fn *item)
{
    int64_t product = g->m * g->n * g->k;
    if (g->batch == 1 || (g->batch < 8 && product >= 8 * BATCH_CHUNK)) {
        for (int64_t i = 0; i < g->batch; i++)
            if (!item(d, g, i))
                return false;
        return true;
    }
    return tp_each_run(g->batch, 1 + BATCH_CHUNK / (product + 1), batch_item, &(batch){ d, g, item });
}

bool tp_gemm_run(tp_dtype d, const tp_gemm *g)
{
    if (!g->m || !g->n || !g->batch)
        return true;
    if (d == TP_b8)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
    if (!g->k || tp_scalar_is_zero(g->alpha))
        return run_batch(d, g, tp_gemm_scale);
    if (d == TP_f32 || d == TP_f64)
        return run_batch(d, g, float_item);
    return run_batch(d, g, tp_dtype_is_half(d) ? tp_gemm_half : tp_gemm_generic);
}

bool tp_gemm_f32(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_column,
                 const float *b, int64_t b_row, int64_t b_column, float beta, float *c, int64_t c_row)
{
    return tp_gemm_run(TP_f32, &(tp_gemm){
        .m = m, .n = n, .k = k, .a = a, .a_row = a_row, .a_column = a_column, .b = b, .b_row = b_row,
        .b_column = b_column, .c = c, .c_row = c_row, .c_column = 1, .batch = 1,
        .alpha = tp_scalar_float(alpha), .beta = tp_scalar_float(beta),
    });
}

bool tp_gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t a_row, int64_t a_column,
                 const double *b, int64_t b_row, int64_t b_column, double beta, double *c, int64_t c_row)
{
    return tp_gemm_run(TP_f64, &(tp_gemm){
        .m = m, .n = n, .k = k, .a = a, .a_row = a_row, .a_column = a_column, .b = b, .b_row = b_row,
        .b_column = b_column, .c = c, .c_row = c_row, .c_column = 1, .batch = 1,
        .alpha = tp_scalar_float(alpha), .beta = tp_scalar_float(beta),
    });
}
