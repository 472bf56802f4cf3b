/* linalg_orthogonal.c - factors with orthogonal columns, and least squares by them. */
#include <float.h>
#include <math.h>

#include "kernels/linalg.h"

typedef tp_lin_work work;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Column j of scratch with ld rows. */
static char *column(const work *w, void *a, int64_t ld, int64_t j)
{
    return (char *)a + (size_t)(j * ld) * tp_lin_bytes(w->z);
}

/* Factors the matrix at arg[0] in place; *tau gets min(m, n) numbers. */
static void *reflected(const work *w, tp_lin_room *room, int64_t index, void **tau)
{
    void *a = tp_lin_loaded(w, room, w->arg[0].tensor, w->m, w->n, index);
    *tau = tp_lin_take(room, least(w->m, w->n), tp_lin_bytes(w->z));
    if (room->failed)
        return NULL;
    if (w->z)
        tp_lin_qr_c128(w->m, w->n, a, w->m, *tau);
    else
        tp_lin_qr_f64(w->m, w->n, a, w->m, *tau);
    return a;
}

static bool geqrf_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    void *tau, *a = reflected(w, &room, index, &tau);
    if (a) {
        int64_t k = least(w->m, w->n);
        tp_lin_store(w->z, a, w->m, w->m, w->n, false, tp_lin_at(w->out[0], 2, &w->batch, index));
        tp_lin_store(w->z, tau, k, k, 1, false, tp_lin_at(w->out[1], 1, &w->batch, index));
    }
    return tp_lin_room_done(&room);
}

TP_HOOK_K(tp_k_geqrf)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), geqrf_item, &w);
}

/* arg: A, mode; out: Q (not in mode r), R, which has as many rows as Q has columns. */
static bool qr_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int64_t rows = w->out[1]->size[w->out[1]->ndim - 2], k = least(w->m, w->n);
    bool whole = strcmp(w->arg[1].string->text, "r") != 0;
    void *tau, *a = reflected(w, &room, index, &tau), *q = whole ? tp_lin_take(&room, w->m * rows, tp_lin_bytes(w->z)) : NULL;
    if (room.failed)
        return tp_lin_room_done(&room);
    if (whole) {
        TP_LIN(w->z, qr_form, w->m, rows, k, a, w->m, tau, q, w->m);
        tp_lin_store(w->z, q, w->m, w->m, rows, false, tp_lin_at(w->out[0], 2, &w->batch, index));
    }
    tp_lin_view to = tp_lin_at(w->out[1], 2, &w->batch, index);
    tp_lin_zero(to, rows, w->n);
    for (int64_t j = 0; j < w->n; j++) {
        tp_lin_view upper = to;
        upper.data += j * to.column * (int64_t)tp_dtype_bytes((tp_dtype)to.dtype);
        tp_lin_store(w->z, column(w, a, w->m, j), w->m, least(j + 1, k), 1, false, upper);
    }
    return tp_lin_room_done(&room);
}

TP_HOOK_K(tp_k_linalg_qr)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), qr_item, &w);
}

/* The vector of reflections' factors at arg[1]. */
static void *loaded_tau(const work *w, tp_lin_room *room, int64_t k, int64_t index)
{
    void *tau = tp_lin_take(room, k, tp_lin_bytes(w->z));
    if (tau)
        tp_lin_load(w->z, tp_lin_at(w->arg[1].tensor, 1, &w->batch, index), k, 1, false, tau);
    return tau;
}

/* arg: input, tau */
static bool product_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int64_t k = w->arg[1].tensor->size[w->arg[1].tensor->ndim - 1];
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, index), *tau = loaded_tau(w, &room, k, index);
    void *q = tp_lin_take(&room, w->m * w->n, tp_lin_bytes(w->z));
    if (!room.failed) {
        TP_LIN(w->z, qr_form, w->m, w->n, k, a, w->m, tau, q, w->m);
        tp_lin_store(w->z, q, w->m, w->m, w->n, false, tp_lin_at(w->out[0], 2, &w->batch, index));
    }
    return tp_lin_room_done(&room);
}

TP_HOOK_K(tp_k_linalg_householder_product)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), product_item, &w);
}

/* arg: a, tau, other, left, transpose. C Q is (Q^H C^H)^H. */
static bool ormqr_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    const tp_tensor *c = w->arg[2].tensor;
    bool left = tp_as_bool(w->arg[3]), adjoint = tp_as_bool(w->arg[4]);
    int64_t k = w->arg[1].tensor->size[w->arg[1].tensor->ndim - 1], columns = c->size[c->ndim - (left ? 1 : 2)];
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, index), *tau = loaded_tau(w, &room, k, index);
    void *b = tp_lin_take(&room, w->m * columns, tp_lin_bytes(w->z));
    if (!room.failed) {
        tp_lin_view from = tp_lin_at(c, 2, &w->batch, index), to = tp_lin_at(w->out[0], 2, &w->batch, index);
        tp_lin_load(w->z, left ? from : tp_lin_transposed(from), w->m, columns, !left, b);
        TP_LIN(w->z, qr_apply, adjoint == left, w->m, columns, k, a, w->m, tau, b, w->m);
        tp_lin_store(w->z, b, w->m, w->m, columns, !left, left ? to : tp_lin_transposed(to));
    }
    return tp_lin_room_done(&room);
}

TP_HOOK_K(tp_k_ormqr)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), ormqr_item, &w);
}

/* ---- least squares ---- */
typedef struct squares {
    work       w;
    int64_t    columns;
    int        inner;               /* dims of a right-hand side */
    bool       by_qr;
    double     rcond;
    tp_tensor *values, *info;       /* either may be NULL */
    double    *residual;            /* columns for each member, NULL: not asked for */
    int32_t   *rank;                /* one for each member */
} squares;

/* x (n x columns) from a of full rank: R x = Q^H b, or x = Q R^-H b where A^H = Q R. `x` has max(m, n) rows and holds b. */
static bool by_qr(const squares *s, tp_lin_room *room, void *a, void *x, int64_t ld, int32_t *info)
{
    const work *w = &s->w;
    int64_t m = w->m, n = w->n, k = least(m, n);
    bool wide = m < n;
    void *tau = tp_lin_take(room, k, tp_lin_bytes(w->z)), *f = a;
    if (wide) {                     /* factor the conjugate transpose */
        f = tp_lin_take(room, m * n, tp_lin_bytes(w->z));
        for (int64_t j = 0; f && j < m; j++)
            for (int64_t i = 0; i < n; i++)
                if (w->z)
                    ((tp_z *)f)[i + j * n] = conj(((tp_z *)a)[j + i * m]);
                else
                    ((double *)f)[i + j * n] = ((double *)a)[j + i * m];
    }
    if (room->failed)
        return false;
    int64_t rows = wide ? n : m;
    TP_LIN(w->z, qr, rows, k, f, rows, tau);
    bool nothing = true;            /* LAPACK's answer to a matrix of zeros is zero */
    for (int64_t i = 0; i < k; i++) {
        double d = w->z ? cabs(((tp_z *)f)[i * (rows + 1)]) : fabs(((double *)f)[i * (rows + 1)]);
        *info = *info == 0 && d == 0 ? (int32_t)(i + 1) : *info;
        nothing &= d == 0;
    }
    *info = nothing ? 0 : *info;
    if (nothing) {
        memset(x, 0, (size_t)(ld * s->columns) * tp_lin_bytes(w->z));
        return true;
    }
    if (!wide) {
        TP_LIN(w->z, qr_apply, true, m, s->columns, k, f, m, tau, x, ld);
        return TP_LIN(w->z, solve_triangular, true, false, n, s->columns, f, 1, m, x, 1, ld);
    }
    void *t = tp_lin_take(room, m * m, tp_lin_bytes(w->z));
    if (!t)
        return false;
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < m; i++)
            if (w->z)
                ((tp_z *)t)[i + j * m] = conj(((tp_z *)f)[i + j * n]);
            else
                ((double *)t)[i + j * m] = ((double *)f)[i + j * n];
    bool ok = TP_LIN(w->z, solve_triangular, false, false, m, s->columns, t, m, 1, x, 1, ld);
    for (int64_t j = 0; j < s->columns; j++)
        memset(column(w, x, ld, j) + (size_t)m * tp_lin_bytes(w->z), 0, (size_t)(n - m) * tp_lin_bytes(w->z));
    TP_LIN(w->z, qr_apply, false, n, s->columns, k, f, n, tau, x, ld);
    return ok;
}

/* The shortest x, by singular values above rcond times the first. */
static bool by_svd(const squares *s, tp_lin_room *room, const void *a, void *x, int64_t ld, double *values, int32_t *rank, int32_t *info)
{
    const work *w = &s->w;
    int64_t m = w->m, n = w->n, k = least(m, n);
    size_t bytes = tp_lin_bytes(w->z);
    void *u = tp_lin_take(room, m * k, bytes), *v = tp_lin_take(room, n * k, bytes), *c = tp_lin_take(room, k * s->columns, bytes);
    void *b = tp_lin_take(room, m * s->columns, bytes);
    if (room->failed || !TP_LIN(w->z, svd, m, n, a, k, k, u, values, v, info))
        return false;
    *rank = 0;
    while (*rank < k && values[*rank] > s->rcond * values[0])
        ++*rank;
    for (int64_t j = 0; j < s->columns; j++)
        memcpy(column(w, b, m, j), column(w, x, ld, j), (size_t)m * bytes);
    for (int64_t i = 0; w->z && i < m * k; i++)
        ((tp_z *)u)[i] = conj(((tp_z *)u)[i]);
    if (!TP_LIN(w->z, multiply, k, s->columns, m, 1, u, m, 1, b, 1, m, 0, c, 1, k))
        return false;
    for (int64_t j = 0; j < s->columns; j++)
        for (int64_t i = 0; i < k; i++) {
            double scale = i < *rank ? 1 / values[i] : 0;
            if (w->z)
                ((tp_z *)c)[i + j * k] *= scale;
            else
                ((double *)c)[i + j * k] *= scale;
        }
    return TP_LIN(w->z, multiply, n, s->columns, k, 1, v, 1, n, c, 1, k, 0, x, 1, ld);
}

/* residual[j] = |b_j - A x_j|^2; `b` is spoiled. */
static bool residuals(const squares *s, const void *a, const void *x, int64_t ld, void *b, double *residual)
{
    const work *w = &s->w;
    if (!TP_LIN(w->z, multiply, w->m, s->columns, w->n, -1, a, 1, w->m, x, 1, ld, 1, b, 1, w->m))
        return false;
    for (int64_t j = 0; j < s->columns; j++) {
        double norm = TP_LIN(w->z, norm, w->m, (void *)column(w, b, w->m, j));
        residual[j] = norm * norm;
    }
    return true;
}

/* arg: self, b, rcond, driver */
static bool squares_item(void *p, int64_t index)
{
    squares *s = p;
    work *w = &s->w;
    tp_lin_room room = { 0 };
    int64_t ld = most(w->m, w->n), k = least(w->m, w->n);
    size_t bytes = tp_lin_bytes(w->z);
    int32_t info = 0, rank = 0;
    void *a = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, index), *kept = tp_lin_loaded(w, &room, w->arg[0].tensor, w->m, w->n, index);
    void *x = tp_lin_take(&room, ld * s->columns, bytes), *b = tp_lin_take(&room, w->m * s->columns, bytes);
    double *values = tp_lin_take(&room, k, sizeof *values);
    bool ok = !room.failed;
    if (ok) {
        tp_lin_load(w->z, tp_lin_at(w->arg[1].tensor, s->inner, &w->batch, index), w->m, s->columns, false, b);
        for (int64_t j = 0; j < s->columns; j++)
            memcpy(column(w, x, ld, j), column(w, b, w->m, j), (size_t)w->m * bytes);
        ok = s->by_qr ? by_qr(s, &room, a, x, ld, &info) : by_svd(s, &room, a, x, ld, values, &rank, &info);
    }
    if (ok) {
        tp_lin_store(w->z, x, ld, w->n, s->columns, false, tp_lin_at(w->out[0], s->inner, &w->batch, index));
        tp_lin_store_ints(&info, 1, tp_lin_at(s->info, 0, &w->batch, index));
        s->rank[index] = rank;
        if (s->values)
            tp_lin_store_real(values, k, tp_lin_at(s->values, 1, &w->batch, index));
        ok = !s->residual || residuals(s, kept, x, ld, b, s->residual + index * s->columns);
    }
    return tp_lin_room_done(&room) && ok;
}

/* Residuals have a size only when every matrix has full rank, so they are made here, at the end. */
static bool keep_residuals(const squares *s, bool some, tp_tensor **out)
{
    const work *w = &s->w;
    tp_dtype d = tp_dtype_to_real((tp_dtype)w->arg[0].tensor->dtype);
    int64_t size[TP_MAX_DIMS];
    for (int64_t i = 0; some && i < w->batch.count; i++)
        some = s->by_qr || s->rank[i] == w->n;
    memcpy(size, w->batch.size, (size_t)w->batch.ndim * sizeof *size);
    size[w->batch.ndim] = some ? s->columns : 0;
    *out = some ? tp_tensor_new(d, w->batch.ndim + 1, size) : tp_tensor_new(d, 1, (int64_t[]){ 0 });
    for (int64_t i = 0; *out && some && i < w->batch.count; i++)
        tp_lin_store_real(s->residual + i * s->columns, s->columns, tp_lin_at(*out, 1, &w->batch, i));
    return *out;
}

TP_HOOK_K(tp_k_linalg_lstsq)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    const char *driver = arg[3].tag == TP_STRING ? arg[3].string->text : "gelsy";
    bool vector = out[0]->ndim < a->ndim;           /* the rule made it so */
    squares s = { .w = tp_lin_work_of(arg, out, a), .inner = vector ? 1 : 2, .by_qr = strcmp(driver, "gels") == 0 };
    bool with_residuals = s.w.m > s.w.n && strcmp(driver, "gelsy") != 0;
    tp_lin_room room = { 0 };
    s.w.batch = tp_lin_batch_of(out[0], s.inner);
    s.columns = vector ? 1 : b->size[b->ndim - 1];
    s.rcond = arg[2].tag == TP_NONE ? (tp_dtype_to_real((tp_dtype)a->dtype) == TP_f64 ? DBL_EPSILON : FLT_EPSILON) * (double)most(s.w.m, s.w.n) : tp_as_double(arg[2]);
    s.values = strcmp(driver, "gelsd") == 0 || strcmp(driver, "gelss") == 0 ? out[3] : NULL;
    s.info = tp_tensor_new(TP_i32, s.w.batch.ndim, s.w.batch.size);
    s.rank = tp_lin_take(&room, s.w.batch.count, sizeof *s.rank);
    s.residual = with_residuals ? tp_lin_take(&room, s.w.batch.count * s.columns, sizeof *s.residual) : NULL;
    bool ok = s.info && !room.failed && tp_lin_each(&s.w.batch, 4 * tp_lin_cost(&s.w), squares_item, &s) &&
              tp_lin_check(s.info, "torch.linalg.lstsq", s.w.batch.ndim == 0) && keep_residuals(&s, with_residuals, &out[1]);
    for (int64_t i = 0; ok && !s.by_qr && i < s.w.batch.count; i++)
        tp_lin_store_ints(&s.rank[i], 1, tp_lin_at(out[2], 0, &s.w.batch, i));
    tp_tensor_unref(s.info);
    return tp_lin_room_done(&room) && ok;
}
