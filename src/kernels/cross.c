/* cross.c - the vector product along a dim of size 3. */
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"

/* Both operands broadcast to the result's shape, row-major in the type computed in. */
typedef struct work {
    const void *a, *b;
    void       *to;
    int64_t     outer, inner;
    tp_dtype    dtype;
} work;

#define CROSS(T)                                                                                            \
    for (int64_t o = first; o < end; o++)                                                                   \
        for (int64_t i = 0; i < w->inner; i++) {                                                            \
            const T *a = (const T *)w->a + o * 3 * w->inner + i, *b = (const T *)w->b + o * 3 * w->inner + i; \
            T *c = (T *)w->to + o * 3 * w->inner + i;                                                       \
            const int64_t n = w->inner;                                                                     \
            c[0] = (T)(a[n] * b[2 * n] - a[2 * n] * b[n]);                                                  \
            c[n] = (T)(a[2 * n] * b[0] - a[0] * b[2 * n]);                                                  \
            c[2 * n] = (T)(a[0] * b[n] - a[n] * b[0]);                                                      \
        }                                                                                                   \
    break

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t first = tp_chunk_at(w->outer, index, count), end = tp_chunk_at(w->outer, index + 1, count);
    switch (w->dtype) {
    case TP_f32: CROSS(float);
    case TP_f64: CROSS(double);
    case TP_c128: CROSS(_Complex double);
    default: CROSS(uint64_t);           /* integers wrap, whatever their sign */
    }
}

static tp_tensor *spread(const tp_tensor *t, const tp_tensor *shape, tp_dtype d)
{
    tp_tensor *out = tp_tensor_new(d, shape->ndim, shape->size);
    if (out)
        tp_copy(out, t);
    return out;
}

/* linalg_cross(self, other, *, dim) */
TP_HOOK_K(tp_k_cross)
{
    tp_dtype own = (tp_dtype)out[0]->dtype;
    tp_dtype d = tp_dtype_is_complex(own) ? TP_c128 : tp_dtype_is_float(own) ? tp_row_dtype(own) : TP_i64;
    tp_tensor *a = spread(arg[0].tensor, out[0], d), *b = a ? spread(arg[1].tensor, out[0], d) : NULL, *to = b ? tp_dense_out(out[0], d) : NULL;
    if (to && to->numel) {
        tp_along along = tp_along_dim(to, tp_as_int(arg[2]));
        work w = { tp_tensor_data(a), tp_tensor_data(b), tp_tensor_data(to), along.outer, along.inner, d };
        tp_pool_run(tp_chunks_of(w.outer, 3 * w.inner), chunk, &w);
    }
    tp_tensor_unref(a);
    tp_tensor_unref(b);
    return tp_dense_done(to, out[0], true);
}
