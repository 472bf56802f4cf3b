/* linalg_spectral.c - eigenvalues, singular values, and the exponential. */
#include <math.h>

#include "kernels/linalg.h"

typedef tp_lin_work work;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct spectrum {
    work       w;
    bool       flag;                /* eigh: the upper triangle is given; svd: all columns of U and V */
    bool       vectors;
    tp_tensor *info;                /* i32, one for each matrix */
} spectrum;

/* Runs the items with a place for what LAPACK would have told, and raises by it. */
static bool run(spectrum *s, double cost, bool (*item)(void *, int64_t), const char *name)
{
    s->info = tp_tensor_new(TP_i32, s->w.batch.ndim, s->w.batch.size);
    bool ok = s->info && tp_lin_each(&s->w.batch, cost, item, s) && tp_lin_check(s->info, name, s->w.batch.ndim == 0);
    tp_tensor_unref(s->info);
    return ok;
}

static void tell(const spectrum *s, int32_t info, int64_t index)
{
    tp_lin_store_ints(&info, 1, tp_lin_at(s->info, 0, &s->w.batch, index));
}

/* Whether all of `count` numbers (twice as many when complex) are finite. */
static bool all_finite(bool z, int64_t count, const void *a)
{
    const double *x = a;
    for (int64_t i = 0; i < (z ? 2 : 1) * count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* ---- Hermitian ---- */

/* The other triangle from the one that is given, lower in scratch. */
static void make_whole(bool z, int64_t n, void *a)
{
    for (int64_t j = 0; j < n; j++) {
        if (z)
            ((tp_z *)a)[j * (n + 1)] = creal(((tp_z *)a)[j * (n + 1)]);
        for (int64_t i = j + 1; i < n; i++)
            if (z)
                ((tp_z *)a)[j + i * n] = conj(((tp_z *)a)[i + j * n]);
            else
                ((double *)a)[j + i * n] = ((double *)a)[i + j * n];
    }
}

/* arg: A, UPLO, compute_v; out: values, vectors */
static bool eigh_item(void *p, int64_t index)
{
    spectrum *s = p;
    work *w = &s->w;
    tp_lin_room room = { 0 };
    void *a = tp_lin_take(&room, w->n * w->n, tp_lin_bytes(w->z));
    double *values = tp_lin_take(&room, w->n, sizeof *values);
    bool ok = !room.failed;
    int32_t info = 0;
    if (ok) {
        tp_lin_view from = tp_lin_at(w->arg[0].tensor, 2, &w->batch, index);
        tp_lin_load(w->z, s->flag ? tp_lin_transposed(from) : from, w->n, w->n, s->flag, a);
        make_whole(w->z, w->n, a);
        if (all_finite(w->z, w->n * w->n, a))
            ok = TP_LIN(w->z, eigh, w->n, a, s->vectors, values, &info);
        else {                      /* NaN in, NaN out */
            for (int64_t i = 0; i < w->n; i++)
                values[i] = NAN;
            for (int64_t i = 0; i < w->n * w->n * (w->z ? 2 : 1); i++)
                ((double *)a)[i] = NAN;
        }
        tp_lin_store_real(values, w->n, tp_lin_at(w->out[0], 1, &w->batch, index));
        if (s->vectors)
            tp_lin_store(w->z, a, w->n, w->n, w->n, false, tp_lin_at(w->out[1], 2, &w->batch, index));
        tell(s, info, index);
    }
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_linalg_eigh)
{
    char uplo = arg[1].string->text[0];
    spectrum s = { .w = tp_lin_work_of(arg, out, arg[0].tensor), .flag = uplo == 'U' || uplo == 'u', .vectors = tp_as_bool(arg[2]) };
    return run(&s, 4 * tp_lin_cost(&s.w), eigh_item, "linalg.eigh");
}

/* ---- singular values ---- */

/* arg: A, full_matrices, compute_uv, driver; out: U, S, Vh */
static bool svd_item(void *p, int64_t index)
{
    spectrum *s = p;
    work *w = &s->w;
    tp_lin_room room = { 0 };
    int64_t k = least(w->m, w->n), u_columns = s->flag ? w->m : k, v_columns = s->flag ? w->n : k;
    size_t bytes = tp_lin_bytes(w->z);
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, index);
    void *u = s->vectors ? tp_lin_take(&room, w->m * u_columns, bytes) : NULL, *v = s->vectors ? tp_lin_take(&room, w->n * v_columns, bytes) : NULL;
    double *values = tp_lin_take(&room, k, sizeof *values);
    int32_t info = 0;
    bool ok = !room.failed && TP_LIN(w->z, svd, w->m, w->n, a, u_columns, v_columns, u, values, v, &info);
    if (ok) {
        tp_lin_store_real(values, k, tp_lin_at(w->out[1], 1, &w->batch, index));
        if (s->vectors) {
            tp_lin_store(w->z, u, w->m, w->m, u_columns, false, tp_lin_at(w->out[0], 2, &w->batch, index));
            tp_lin_store(w->z, v, w->n, w->n, v_columns, true, tp_lin_transposed(tp_lin_at(w->out[2], 2, &w->batch, index)));
        }
        tell(s, info, index);
    }
    return tp_lin_room_done(&room) && ok;
}

static bool finite_or_fail(const work *w, tp_err kind, const char *text)
{
    bool ok = true;
    for (int64_t i = 0; ok && i < w->batch.count; i++) {
        tp_lin_room room = { 0 };
        void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, i);
        ok = a && (all_finite(w->z, w->m * w->n, a) || tp_fail(kind, "%s", text));
        ok = tp_lin_room_done(&room) && ok;
    }
    return ok;
}

TP_HOOK_K(tp_k_linalg_svd)
{
    spectrum s = { .w = tp_lin_work_of(arg, out, arg[0].tensor), .flag = tp_as_bool(arg[1]), .vectors = tp_as_bool(arg[2]) };
    return finite_or_fail(&s.w, TP_ERR_LINALG, "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.") &&
           run(&s, 8 * tp_lin_cost(&s.w), svd_item, "linalg.svd");
}

/* ---- general ---- */
static bool eig_item(void *p, int64_t index)
{
    spectrum *s = p;
    work *w = &s->w;
    tp_lin_room room = { 0 };
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->n, w->n, index);
    tp_z *values = tp_lin_take(&room, w->n, sizeof *values), *vectors = s->vectors ? tp_lin_take(&room, w->n * w->n, sizeof *vectors) : NULL;
    int32_t info = 0;
    bool ok = !room.failed && TP_LIN(w->z, eig, w->n, a, values, vectors, &info);
    if (ok) {
        tp_lin_store(true, values, w->n, w->n, 1, false, tp_lin_at(w->out[0], 1, &w->batch, index));
        if (vectors)
            tp_lin_store(true, vectors, w->n, w->n, w->n, false, tp_lin_at(w->out[1], 2, &w->batch, index));
        tell(s, info, index);
    }
    return tp_lin_room_done(&room) && ok;
}

static bool eig(const tp_value *arg, tp_tensor **out, bool vectors)
{
    spectrum s = { .w = tp_lin_work_of(arg, out, arg[0].tensor), .vectors = vectors };
    return finite_or_fail(&s.w, TP_ERR_RUNTIME, "torch.linalg.eig: input tensor should not contain infs or NaNs.") &&
           run(&s, 10 * tp_lin_cost(&s.w), eig_item, "linalg.eig");
}

TP_HOOK_K(tp_k_linalg_eig)
{
    return eig(arg, out, true);
}

TP_HOOK_K(tp_k_linalg_eigvals)
{
    return eig(arg, out, false);
}

/* ---- the exponential ---- */
static bool exponential_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->n, w->n, index);
    bool ok = a && TP_LIN(w->z, expm, w->n, a);
    if (ok)
        tp_lin_store(w->z, a, w->n, w->n, w->n, false, tp_lin_at(w->out[0], 2, &w->batch, index));
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_linalg_matrix_exp)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, 8 * tp_lin_cost(&w), exponential_item, &w);
}
