/* linalg_solve.c - what LU and triangles answer: factors, inverses, determinants, systems. */
#include <math.h>

#include "kernels/linalg.h"

typedef tp_lin_work work;

/* Takes scratch for the matrix at arg[i], loads and factors it. NULL: memory is short. */
static void *factored(const work *w, tp_lin_room *room, int64_t index, bool transposed, int32_t **pivot, int32_t *info)
{
    void *a = tp_lin_take(room, w->m * w->n, tp_lin_bytes(w->z));
    *pivot = tp_lin_take(room, w->m < w->n ? w->m : w->n, sizeof **pivot);
    if (room->failed)
        return NULL;
    tp_lin_view from = tp_lin_at(w->arg[0].tensor, 2, &w->batch, index);
    tp_lin_load(w->z, transposed ? tp_lin_transposed(from) : from, w->m, w->n, false, a);
    return TP_LIN(w->z, lu, w->m, w->n, a, w->m, *pivot, info) ? a : NULL;
}

static void store_matrix(const work *w, const void *from, int64_t rows, int64_t columns, int result, int64_t index)
{
    tp_lin_store(w->z, from, rows, rows, columns, false, tp_lin_at(w->out[result], 2, &w->batch, index));
}

static void store_pivots(const work *w, const int32_t *pivot, int result, int64_t index)
{
    tp_lin_store_ints(pivot, w->m < w->n ? w->m : w->n, tp_lin_at(w->out[result], 1, &w->batch, index));
}

static bool factor_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int32_t *pivot, info = 0;
    void *lu = factored(w, &room, index, false, &pivot, &info);
    if (lu) {
        store_matrix(w, lu, w->m, w->n, 0, index);
        store_pivots(w, pivot, 1, index);
        tp_lin_store_info(w, info, 2, index);
    }
    return tp_lin_room_done(&room) && lu;
}

/* arg: A, pivot, check_errors */
TP_HOOK_K(tp_k_linalg_lu_factor)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), factor_item, &w) &&
           (!tp_as_bool(arg[2]) || tp_lin_check(out[2], "torch.linalg.lu_factor_ex", arg[0].tensor->ndim == 2));
}

static bool inverse_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int32_t *pivot, info = 0;
    void *lu = factored(w, &room, index, false, &pivot, &info), *inverse = tp_lin_take(&room, w->n * w->n, tp_lin_bytes(w->z));
    bool ok = lu && inverse;
    if (ok) {
        memset(inverse, 0, (size_t)(w->n * w->n) * tp_lin_bytes(w->z));
        for (int64_t i = 0; i < w->n; i++)
            *(double *)((char *)inverse + (size_t)(i * (w->n + 1)) * tp_lin_bytes(w->z)) = 1;
        ok = TP_LIN(w->z, lu_solve, false, w->n, w->n, lu, w->n, pivot, inverse, 1, w->n);
        store_matrix(w, inverse, w->n, w->n, 0, index);
        tp_lin_store_info(w, info, 1, index);
    }
    return tp_lin_room_done(&room) && ok;
}

/* arg: A, check_errors */
TP_HOOK_K(tp_k_linalg_inv)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), inverse_item, &w) &&
           (!tp_as_bool(arg[1]) || tp_lin_check(out[1], "linalg.inv_ex", arg[0].tensor->ndim == 2));
}

/* ---- determinants: out ends with LU and pivots. PyTorch factors the transpose of a row-major real matrix, and its users see
 * those factors. ---- */
static bool det_item(void *p, int64_t index)
{
    work *w = p;
    const tp_tensor *a = w->arg[0].tensor;
    tp_lin_room room = { 0 };
    int32_t *pivot, info = 0;
    bool logarithm = w->out[3] != NULL;
    void *lu = factored(w, &room, index, !w->z && tp_tensor_is_contiguous(a), &pivot, &info);
    tp_z product = 1;
    double sum = 0;
    for (int64_t i = 0; lu && i < w->n; i++) {
        tp_z d = w->z ? ((tp_z *)lu)[i * (w->n + 1)] : ((double *)lu)[i * (w->n + 1)];
        double size = cabs(d);
        if (logarithm) {
            sum += log(size);
            d = size > 0 ? d / size : size;
        }
        product *= pivot[i] != i + 1 ? -d : d;
    }
    if (lu) {
        double real = creal(product);
        tp_lin_store(w->z, w->z ? (void *)&product : &real, 1, 1, 1, false, tp_lin_at(w->out[0], 0, &w->batch, index));
        if (logarithm)
            tp_lin_store_real(&sum, 1, tp_lin_at(w->out[1], 0, &w->batch, index));
        store_matrix(w, lu, w->n, w->n, logarithm ? 2 : 1, index);
        store_pivots(w, pivot, logarithm ? 3 : 2, index);
    }
    return tp_lin_room_done(&room) && lu;
}

TP_HOOK_K(tp_k_linalg_det)
{
    tp_tensor *results[4] = { out[0], out[1], out[2], NULL };
    work w = tp_lin_work_of(arg, results, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), det_item, &w);
}

TP_HOOK_K(tp_k_linalg_slogdet)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), det_item, &w);
}

/* ---- systems from factors ---- */

/* One right-hand side: `left`: A X = B, else X A = B, taken as A^H X^H = B^H. `b` lies n x columns in scratch. */
typedef struct side {
    bool        left, adjoint, vector;
    int64_t     n, columns;
    tp_lin_view b, x;
} side;

static bool solve_side(const work *w, const side *s, void *lu, const int32_t *pivot, void *b)
{
    bool swap = !s->left;
    tp_lin_load(w->z, swap ? tp_lin_transposed(s->b) : s->b, s->n, s->columns, swap, b);
    bool ok = TP_LIN(w->z, lu_solve, s->adjoint != swap, s->n, s->columns, lu, s->n, pivot, b, 1, s->n);
    tp_lin_store(w->z, b, s->n, s->n, s->columns, swap, swap ? tp_lin_transposed(s->x) : s->x);
    return ok;
}

/* arg: A, B, left, check_errors; out: X, LU, pivots, info */
static side solve_ex_side(const work *w, int64_t index, const tp_lin_batch *batch)
{
    const tp_tensor *b = w->arg[1].tensor, *x = w->out[0];
    int inner = x->ndim - batch->ndim;
    bool left = tp_as_bool(w->arg[2]);
    side s = { .left = left, .vector = inner == 1, .n = w->n };
    s.columns = inner == 1 ? 1 : x->size[x->ndim - (left ? 1 : 2)];
    s.b = tp_lin_at(b, inner, batch, index);
    s.x = tp_lin_at(x, inner, batch, index);
    return s;
}

/* Loads stored factors again: LU and pivots at lu[index] of a batch that broadcasts to `batch`. */
static void *stored_factors(const work *w, tp_lin_room *room, const tp_tensor *lu, const tp_tensor *pivots, const tp_lin_batch *batch, int64_t index,
                            int32_t **pivot)
{
    void *a = tp_lin_take(room, w->n * w->n, tp_lin_bytes(w->z));
    *pivot = tp_lin_take(room, w->n, sizeof **pivot);
    if (room->failed)
        return NULL;
    tp_lin_view at = tp_lin_at(pivots, 1, batch, index);
    tp_lin_load(w->z, tp_lin_at(lu, 2, batch, index), w->n, w->n, false, a);
    for (int64_t i = 0; i < w->n; i++)
        (*pivot)[i] = ((const int32_t *)at.data)[i * at.row];
    return a;
}

static bool solve_ex_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int32_t *pivot, info = 0;
    void *lu = factored(w, &room, index, false, &pivot, &info);
    bool ok = lu != NULL;
    if (ok) {
        store_matrix(w, lu, w->n, w->n, 1, index);
        store_pivots(w, pivot, 2, index);
        tp_lin_store_info(w, info, 3, index);
    }
    if (ok && w->out[0]) {
        side s = solve_ex_side(w, index, &w->batch);
        void *b = tp_lin_take(&room, s.n * s.columns, tp_lin_bytes(w->z));
        ok = b && solve_side(w, &s, lu, pivot, b);
    }
    return tp_lin_room_done(&room) && ok;
}

typedef struct spread {
    work        *w;
    tp_lin_batch batch;
} spread;

static bool spread_item(void *p, int64_t index)
{
    spread *sp = p;
    tp_lin_room room = { 0 };
    int32_t *pivot;
    void *lu = stored_factors(sp->w, &room, sp->w->out[1], sp->w->out[2], &sp->batch, index, &pivot);
    side s = solve_ex_side(sp->w, index, &sp->batch);
    void *b = tp_lin_take(&room, s.n * s.columns, tp_lin_bytes(sp->w->z));
    bool ok = lu && b && solve_side(sp->w, &s, lu, pivot, b);
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_linalg_solve_ex)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    work w = tp_lin_work_of(arg, out, a);
    bool vector = b->ndim == 1 || (b->ndim == a->ndim - 1 && memcmp(b->size, a->size, (size_t)b->ndim * sizeof *b->size) == 0);
    tp_lin_batch all = tp_lin_batch_of(out[0], vector ? 1 : 2);
    bool ok;
    if (all.count == w.batch.count && all.ndim == w.batch.ndim)
        ok = tp_lin_each(&w.batch, tp_lin_cost(&w), solve_ex_item, &w);
    else {                          /* a matrix serves several systems: factored once */
        tp_tensor *factors[4] = { NULL, out[1], out[2], out[3] };
        work first = w;
        first.out = factors;
        spread sp = { &w, all };
        ok = tp_lin_each(&w.batch, tp_lin_cost(&w), solve_ex_item, &first) && tp_lin_each(&all, tp_lin_cost(&w), spread_item, &sp);
    }
    return ok && (!tp_as_bool(arg[3]) || tp_lin_check(out[3], "torch.linalg.solve_ex", a->ndim == 2));
}

/* arg: LU, pivots, B, left, adjoint */
static bool lu_solve_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int32_t *pivot;
    const tp_tensor *x = w->out[0];
    void *lu = stored_factors(w, &room, w->arg[0].tensor, w->arg[1].tensor, &w->batch, index, &pivot);
    side s = { .left = tp_as_bool(w->arg[3]), .adjoint = tp_as_bool(w->arg[4]), .n = w->n };
    s.columns = x->size[x->ndim - (s.left ? 1 : 2)];
    s.b = tp_lin_at(w->arg[2].tensor, 2, &w->batch, index);
    s.x = tp_lin_at(x, 2, &w->batch, index);
    void *b = tp_lin_take(&room, s.n * s.columns, tp_lin_bytes(w->z));
    bool ok = lu && b && solve_side(w, &s, lu, pivot, b);
    return tp_lin_room_done(&room) && ok;
}

/* False: a pivot outside 1 … n. */
static bool pivots_within(const tp_tensor *pivots, int64_t n, const char *low, const char *high)
{
    tp_lin_batch all = tp_lin_batch_of(pivots, 0);
    for (int64_t i = 0; i < all.count; i++) {
        int32_t p = *(const int32_t *)tp_lin_at(pivots, 0, &all, i).data;
        if (p < 1 || p > n)
            return tp_fail(TP_ERR_RUNTIME, "%s", p < 1 ? low : high);
    }
    return true;
}

TP_HOOK_K(tp_k_linalg_lu_solve)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    w.batch = tp_lin_batch_of(out[0], 2);
    return pivots_within(arg[1].tensor, w.n,
                         "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?",
                         "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of lu_factor?") &&
           tp_lin_each(&w.batch, tp_lin_cost(&w), lu_solve_item, &w);
}

/* ---- factors apart ---- */
static void put_one(tp_lin_view to, int64_t i, int64_t j, bool z)
{
    double one[2] = { 1, 0 };
    size_t bytes = tp_dtype_bytes((tp_dtype)to.dtype);
    to.data += (i * to.row + j * to.column) * (int64_t)bytes;
    tp_lin_store(z, one, 1, 1, 1, false, to);
}

/* P, L and U (any may be empty) of member `index` from packed factors. */
static bool unpack(const work *w, tp_lin_room *room, const void *lu, const int32_t *pivot, bool data, bool pivots, int64_t index)
{
    int64_t k = w->m < w->n ? w->m : w->n;
    size_t bytes = tp_lin_bytes(w->z);
    if (pivots) {                           /* row i of P^T A is row order[i] of A */
        int64_t *order = tp_lin_take(room, w->m, sizeof *order);
        if (!order)
            return false;
        for (int64_t i = 0; i < w->m; i++)
            order[i] = i;
        for (int64_t i = 0; i < k; i++) {
            int64_t swap = order[i];
            order[i] = order[pivot[i] - 1];
            order[pivot[i] - 1] = swap;
        }
        tp_lin_view p = tp_lin_at(w->out[0], 2, &w->batch, index);
        tp_lin_zero(p, w->m, w->m);
        for (int64_t i = 0; i < w->m; i++)
            put_one(p, order[i], i, w->z);
    }
    if (!data)
        return true;
    tp_lin_view l = tp_lin_at(w->out[1], 2, &w->batch, index), u = tp_lin_at(w->out[2], 2, &w->batch, index);
    size_t l_bytes = tp_dtype_bytes((tp_dtype)l.dtype);
    tp_lin_zero(l, w->m, k);
    tp_lin_zero(u, k, w->n);
    for (int64_t j = 0; j < w->n; j++) {
        const char *column = (const char *)lu + (size_t)(j * w->m) * bytes;
        tp_lin_view to = u;
        to.data += j * u.column * (int64_t)l_bytes;
        tp_lin_store(w->z, column, w->m, j + 1 < k ? j + 1 : k, 1, false, to);
        if (j < k) {
            to = l;
            to.data += ((j + 1) * l.row + j * l.column) * (int64_t)l_bytes;
            tp_lin_store(w->z, column + (size_t)(j + 1) * bytes, w->m, w->m - j - 1, 1, false, to);
            put_one(l, j, j, w->z);
        }
    }
    return true;
}

static bool lu_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    int32_t *pivot, info;
    void *lu = factored(w, &room, index, false, &pivot, &info);
    bool ok = lu && unpack(w, &room, lu, pivot, true, true, index);
    return tp_lin_room_done(&room) && ok;
}

/* arg: A, pivot */
TP_HOOK_K(tp_k_linalg_lu)
{
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return tp_lin_each(&w.batch, tp_lin_cost(&w), lu_item, &w);
}

/* arg: LU_data, LU_pivots, unpack_data, unpack_pivots */
static bool lu_unpack_item(void *p, int64_t index)
{
    work *w = p;
    tp_lin_room room = { 0 };
    bool data = tp_as_bool(w->arg[2]), pivots = tp_as_bool(w->arg[3]);
    int64_t k = w->m < w->n ? w->m : w->n;
    void *lu = tp_lin_take(&room, w->m * w->n, tp_lin_bytes(w->z));
    int32_t *pivot = tp_lin_take(&room, k, sizeof *pivot);
    if (!room.failed) {
        tp_lin_load(w->z, tp_lin_at(w->arg[0].tensor, 2, &w->batch, index), w->m, w->n, false, lu);
        tp_lin_view at = tp_lin_at(w->arg[1].tensor, 1, &w->batch, index);
        for (int64_t i = 0; pivots && i < k; i++)
            pivot[i] = ((const int32_t *)at.data)[i * at.row];
    }
    bool ok = !room.failed && unpack(w, &room, lu, pivot, data, pivots, index);
    return tp_lin_room_done(&room) && ok;
}

TP_HOOK_K(tp_k_lu_unpack)
{
    static const char outside[] = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                                  "Did you properly pass the result of lu_factor?";
    work w = tp_lin_work_of(arg, out, arg[0].tensor);
    return (!tp_as_bool(arg[3]) || pivots_within(arg[1].tensor, w.m, outside, outside)) &&
           tp_lin_each(&w.batch, (double)w.m * (double)w.n, lu_unpack_item, &w);
}

/* ---- triangles ---- */
typedef struct triangle {
    work w;
    bool upper, left, unit, transposed;
    const tp_tensor *t, *b;
} triangle;

/* X A = B is A^T X^T = B^T; nothing is conjugated, so the transposed view of the triangle serves. */
static bool triangle_item(void *p, int64_t index)
{
    triangle *s = p;
    work *w = &s->w;
    tp_lin_room room = { 0 };
    const tp_tensor *x = w->out[0];
    int64_t n = w->n, columns = x->size[x->ndim - (s->left ? 1 : 2)];
    bool flip = s->transposed != !s->left;                          /* is it T^T that is solved with? */
    void *t = tp_lin_take(&room, n * n, tp_lin_bytes(w->z)), *b = tp_lin_take(&room, n * columns, tp_lin_bytes(w->z));
    bool ok = !room.failed;
    if (ok) {
        tp_lin_view triangle_view = tp_lin_at(s->t, 2, &w->batch, index), bv = tp_lin_at(s->b, 2, &w->batch, index);
        tp_lin_view xv = tp_lin_at(x, 2, &w->batch, index);
        tp_lin_load(w->z, flip ? tp_lin_transposed(triangle_view) : triangle_view, n, n, false, t);
        tp_lin_load(w->z, s->left ? bv : tp_lin_transposed(bv), n, columns, false, b);
        ok = TP_LIN(w->z, solve_triangular, s->upper != flip, s->unit, n, columns, t, 1, n, b, 1, n);
        tp_lin_store(w->z, b, n, n, columns, false, s->left ? xv : tp_lin_transposed(xv));
    }
    return tp_lin_room_done(&room) && ok;
}

/* arg: A, B, upper, left, unitriangular */
TP_HOOK_K(tp_k_linalg_solve_triangular)
{
    triangle s = { .w = tp_lin_work_of(arg, out, arg[0].tensor), .upper = tp_as_bool(arg[2]), .left = tp_as_bool(arg[3]),
                   .unit = tp_as_bool(arg[4]), .t = arg[0].tensor, .b = arg[1].tensor };
    s.w.batch = tp_lin_batch_of(out[0], 2);
    return tp_lin_each(&s.w.batch, tp_lin_cost(&s.w), triangle_item, &s);
}

/* arg: B, A, upper, transpose, unitriangular; out: X, A spread */
TP_HOOK_K(tp_k_triangular_solve)
{
    triangle s = { .w = tp_lin_work_of(arg, out, arg[1].tensor), .upper = tp_as_bool(arg[2]), .left = true, .transposed = tp_as_bool(arg[3]),
                   .unit = tp_as_bool(arg[4]), .t = arg[1].tensor, .b = arg[0].tensor };
    s.w.batch = tp_lin_batch_of(out[0], 2);
    tp_copy(out[1], arg[1].tensor);
    return tp_lin_each(&s.w.batch, tp_lin_cost(&s.w), triangle_item, &s);
}
