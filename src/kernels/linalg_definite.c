/* linalg_definite.c - symmetric and Hermitian systems: Cholesky's factors, and L D L^T where nothing is positive. */
#include "kernels/linalg.h"

typedef tp_lin_work work;

/* What Cholesky works on is a lower triangle: an upper one is taken by its conjugate transpose. */
static tp_lin_view lower_view(tp_lin_view v, bool upper)
{
    return upper ? tp_lin_transposed(v) : v;
}

static bool cholesky_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    bool upper = tp_as_bool(w->arg[1]);
    int32_t info = 0;
    char *a = tp_lin_take(&room, w->n * w->n, tp_lin_bytes(w->z));
    bool ok = a != NULL;
    if (ok) {
        tp_lin_load(w->z, lower_view(tp_lin_at(w->arg[0].tensor, 2, &w->batch, index), upper), w->n, w->n, upper, a);
        ok = TP_LIN(w->z, cholesky, w->n, (void *)a, w->n, &info);
        for (int64_t j = 1; j < w->n; j++)
            memset(a + (size_t)(j * w->n) * tp_lin_bytes(w->z), 0, (size_t)j * tp_lin_bytes(w->z));
        tp_lin_store(w->z, a, w->n, w->n, w->n, upper, lower_view(tp_lin_at(w->out[0], 2, &w->batch, index), upper));
        tp_lin_store_info(w, info, 1, index);
    }
    return tp_lin_room_done(&room) && ok;
}

/* arg: self, upper, check_errors */
TP_HOOK_K(tp_k_linalg_cholesky)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), cholesky_item, &w) &&
           (!tp_as_bool(arg[2]) || tp_lin_check(out[1], "linalg.cholesky_ex", arg[0].tensor->ndim == 2));
}

/* arg: self, upper; what it tells goes into a tensor of its own. */
TP_HOOK_K(tp_k_cholesky)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    tp_tensor *info = tp_tensor_new(TP_i32, w.batch.ndim, w.batch.size), *results[2] = { out[0], info };
    w.out = results;
    bool ok = info && tp_lin_each(&w.batch, tp_lin_cost(&w), cholesky_item, &w) && tp_lin_check(info, "cholesky", w.batch.ndim == 0);
    tp_tensor_unref(info);
    return ok;
}

/* b = (L L^H)^-1 b; L's conjugate is made in `t`. */
static bool solve_both(bool z, int64_t n, int64_t columns, void *t, void *b)
{
    bool ok = TP_LIN(z, solve_triangular, false, false, n, columns, t, 1, n, b, 1, n);
    for (int64_t i = 0; z && i < n * n; i++)
        ((tp_z *)t)[i] = conj(((tp_z *)t)[i]);
    return ok && TP_LIN(z, solve_triangular, true, false, n, columns, t, n, 1, b, 1, n);
}

/* arg: B, L, upper */
static bool cholesky_solve_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    bool upper = tp_as_bool(w->arg[2]);
    int64_t columns = w->out[0]->size[w->out[0]->ndim - 1];
    void *t = tp_lin_take(&room, w->n * w->n, tp_lin_bytes(w->z)), *b = tp_lin_loaded(w, &room, w->arg[0].tensor, w->n, columns, index);
    bool ok = !room.failed;
    if (ok) {
        tp_lin_load(w->z, lower_view(tp_lin_at(w->arg[1].tensor, 2, &w->batch, index), upper), w->n, w->n, upper, t);
        ok = solve_both(w->z, w->n, columns, t, b);
        tp_lin_store(w->z, b, w->n, w->n, columns, false, tp_lin_at(w->out[0], 2, &w->batch, index));
    }
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_cholesky_solve)
{
    work w = tp_lin_work_of(arg, out, arg[1].tensor);
    w.batch = tp_lin_batch_of(out[0], 2);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), cholesky_solve_item, &w);
}

typedef struct inverse {
    work           w;
    tp_tensor     *info;
} inverse;

/* t = (L L^H)^-1 = W^H W with W = L^-1, made where b is the identity. A factor has a real diagonal: LAPACK reads no other part. */
static bool invert_product(bool z, int64_t n, void *t, void *b)
{
    bool ok = TP_LIN(z, solve_triangular, false, false, n, n, t, 1, n, b, 1, n);
    if (!z)
        return ok && tp_lin_multiply_f64(n, n, n, 1, b, n, 1, b, 1, n, 0, t, 1, n);
    tp_z *w = b, *result = t;
    tp_lin_room room = { 0 };
    tp_z *other = tp_lin_take(&room, n * n, sizeof *other);
    for (int64_t i = 0; other && i < n * n; i++)
        other[i] = conj(w[i] = i % (n + 1) == 0 ? creal(w[i]) : w[i]);
    ok = ok && other && tp_lin_multiply_c128(n, n, n, 1, other, n, 1, w, 1, n, 0, t, 1, n);
    for (int64_t i = 0; ok && i < n; i++)
        result[i * (n + 1)] = creal(result[i * (n + 1)]);
    return tp_lin_room_done(&room) && ok;
}

/* arg: L, upper */
static bool cholesky_inverse_item(void *p, int64_t index)
{
    inverse *v = p;
    work *w = &v->w;
    tp_lin_room room = { 0 };
    bool upper = tp_as_bool(w->arg[1]);
    size_t bytes = tp_lin_bytes(w->z);
    char *t = tp_lin_take(&room, w->n * w->n, bytes), *b = tp_lin_take(&room, w->n * w->n, bytes);
    bool ok = !room.failed;
    int32_t info = 0;
    if (ok) {
        tp_lin_load(w->z, lower_view(tp_lin_at(w->arg[0].tensor, 2, &w->batch, index), upper), w->n, w->n, upper, t);
        memset(b, 0, (size_t)(w->n * w->n) * bytes);
        for (int64_t i = w->n - 1; i >= 0; i--) {
            size_t at = (size_t)(i * (w->n + 1)) * bytes;
            *(double *)(b + at) = 1;
            if (*(double *)(t + at) == 0 && (!w->z || ((double *)(t + at))[1] == 0))
                info = (int32_t)(i + 1);
        }
        ok = invert_product(w->z, w->n, t, b);
        tp_lin_store(w->z, t, w->n, w->n, w->n, false, tp_lin_at(w->out[0], 2, &w->batch, index));
        tp_lin_store_ints(&info, 1, tp_lin_at(v->info, 0, &w->batch, index));
    }
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_cholesky_inverse)
{
    inverse v = { .w = tp_lin_work_of(arg, out, arg[0].tensor) };
    v.info = tp_tensor_new(TP_i32, v.w.batch.ndim, v.w.batch.size);
    bool ok = v.info && tp_lin_each(&v.w.batch, tp_lin_cost(&v.w), cholesky_inverse_item, &v) &&
              tp_lin_check(v.info, "cholesky_inverse", v.w.batch.ndim == 0);
    tp_tensor_unref(v.info);
    return ok;
}

/* ---- indefinite ---- */

/* arg: self, hermitian, check_errors */
static bool ldl_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    char *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->n, w->n, index);
    int32_t *pivot = tp_lin_take(&room, w->n, sizeof *pivot), info = 0;
    if (!room.failed) {
        bool hermitian = w->z && tp_as_bool(w->arg[1]);
        if (w->z)
            tp_lin_ldl_c128(hermitian, w->n, (tp_z *)a, w->n, pivot, &info);
        else
            tp_lin_ldl_f64(false, w->n, (double *)a, w->n, pivot, &info);
        for (int64_t j = 1; j < w->n; j++)
            memset(a + (size_t)(j * w->n) * tp_lin_bytes(w->z), 0, (size_t)j * tp_lin_bytes(w->z));
        tp_lin_store(w->z, a, w->n, w->n, w->n, false, tp_lin_at(w->out[0], 2, &w->batch, index));
        tp_lin_store_ints(pivot, w->n, tp_lin_at(w->out[1], 1, &w->batch, index));
        tp_lin_store_info(w, info, 2, index);
    }
    return tp_lin_room_done(&room);
}

TP_HOOK_K(tp_k_linalg_ldl_factor)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), ldl_item, &w) &&
           (!tp_as_bool(arg[2]) || tp_lin_check(out[2], "torch.linalg.ldl_factor_ex", arg[0].tensor->ndim == 2));
}

/* arg: LD, pivots, B, hermitian */
static bool ldl_solve_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int64_t columns = w->out[0]->size[w->out[0]->ndim - 1];
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->n, w->n, index), *b = tp_lin_loaded(w, &room, w->arg[2].tensor, w->n, columns, index);
    int32_t *pivot = tp_lin_take(&room, w->n, sizeof *pivot);
    if (!room.failed) {
        tp_lin_view at = tp_lin_at(w->arg[1].tensor, 1, &w->batch, index);
        for (int64_t i = 0; i < w->n; i++)
            pivot[i] = at.dtype == TP_i32 ? ((const int32_t *)at.data)[i * at.row] : (int32_t)((const int64_t *)at.data)[i * at.row];
        if (w->z)
            tp_lin_ldl_solve_c128(tp_as_bool(w->arg[3]), w->n, columns, a, w->n, pivot, b);
        else
            tp_lin_ldl_solve_f64(false, w->n, columns, a, w->n, pivot, b);
        tp_lin_store(w->z, b, w->n, w->n, columns, false, tp_lin_at(w->out[0], 2, &w->batch, index));
    }
    return tp_lin_room_done(&room);
}

/* Is each pivot a row, and does each negative one have its twin? What follows would read outside otherwise. */
static bool pivots_fit(const tp_tensor *pivots, int64_t n)
{
    tp_lin_batch all = tp_lin_batch_of(pivots, 1);
    for (int64_t k = 0; k < all.count; k++) {
        tp_lin_view at = tp_lin_at(pivots, 1, &all, k);
        for (int64_t i = 0, p = 0; i < n; i++) {
            p = at.dtype == TP_i32 ? ((const int32_t *)at.data)[i * at.row] : ((const int64_t *)at.data)[i * at.row];
            if (p > n || p < -n)
                return tp_fail(TP_ERR_RUNTIME, "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). Did you properly pass the result of ldl_factor?");
            if (p == 0)
                return tp_fail(TP_ERR_RUNTIME, "Pivots given to ldl_solve must not be zero. Did you properly pass the result of ldl_factor?");
            if (p < 0) {
                int64_t next = i + 1 < n ? at.dtype == TP_i32 ? ((const int32_t *)at.data)[(i + 1) * at.row] : ((const int64_t *)at.data)[(i + 1) * at.row] : 0;
                if (next != p)
                    return tp_fail(TP_ERR_RUNTIME, "Pivots given to ldl_solve must come in equal pairs when negative. Did you properly pass the result of ldl_factor?");
                i++;
            }
        }
    }
    return true;
}

TP_HOOK_K(tp_k_linalg_ldl_solve)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    w.batch = tp_lin_batch_of(out[0], 2);
    return pivots_fit(arg[1].tensor, w.n) && tp_lin_each(&w.batch, tp_lin_cost(&w), ldl_solve_item, &w);
}
