/* linalg.c - batches of matrices between tensors and column-major scratch. */
#include "kernels/linalg.h"

#include <stdio.h>

#include "base/block.h"
#include "kernels/each.h"

void *tp_lin_take(tp_lin_room *room, int64_t count, size_t size)
{
    size_t bytes = (size_t)(count > 0 ? count : 1) * size;
    assert(room->count < TP_LIN_PIECES);
    void *piece = room->failed ? NULL : tp_block_new(bytes);
    room->failed |= !piece;
    if (piece) {
        room->piece[room->count] = piece;
        room->bytes[room->count++] = bytes;
    }
    return piece;
}

bool tp_lin_room_done(tp_lin_room *room)
{
    while (room->count > 0) {
        room->count--;
        tp_block_free(room->piece[room->count], room->bytes[room->count]);
    }
    return !room->failed;
}

tp_lin_batch tp_lin_batch_of(const tp_tensor *t, int inner)
{
    tp_lin_batch b = { .ndim = t->ndim - inner, .count = 1 };
    for (int i = 0; i < b.ndim; i++)
        b.count *= b.size[i] = t->size[i];
    return b;
}

/* A single matrix is not a chunk of the pool: its products may use the threads then. */
bool tp_lin_each(const tp_lin_batch *b, double cost, bool (*item)(void *work, int64_t index), void *work)
{
    int64_t together = cost < 20000 ? (int64_t)(20000 / (cost < 1 ? 1 : cost)) + 1 : 1;
    if (b->count == 1)
        return item(work, 0);
    return b->count == 0 || tp_each_run(b->count, together, item, work);
}

tp_lin_view tp_lin_at(const tp_tensor *t, int inner, const tp_lin_batch *b, int64_t index)
{
    int ndim = t->ndim - inner;
    int64_t offset = 0;
    for (int i = b->ndim - 1, d = ndim - 1; i >= 0; i--, d--) {
        if (d >= 0 && t->size[d] != 1)
            offset += index % b->size[i] * t->stride[d];
        index /= b->size[i];
    }
    size_t bytes = tp_dtypes[t->dtype].bytes;
    return (tp_lin_view){ (char *)tp_tensor_data(t) + offset * (int64_t)bytes, inner > 0 ? t->stride[ndim] : 0, inner > 1 ? t->stride[ndim + 1] : 0, t->dtype };
}

static char *element(tp_lin_view v, int64_t i, int64_t j)
{
    return v.data + (i * v.row + j * v.column) * (int64_t)tp_dtype_bytes((tp_dtype)v.dtype);
}

#define LOAD(T, F, value)                                                                   \
    for (int64_t j = 0; j < columns; j++)                                                   \
        for (int64_t i = 0; i < rows; i++) {                                                \
            F x = ((const F *)from.data)[i * from.row + j * from.column];                   \
            ((T *)to)[i + j * rows] = (value);                                              \
        }                                                                                   \
    break

/* Types that only move through here (halves, integers), by the way of numbers. */
static double read_other(const void *at, tp_dtype d)
{
    return tp_scalar_to_double(tp_scalar_read(at, d));
}

void tp_lin_load(bool z, tp_lin_view from, int64_t rows, int64_t columns, bool conjugate, void *to)
{
    if (!z)
        switch (from.dtype) {
        case TP_f32: LOAD(double, float, x);
        case TP_f64: LOAD(double, double, x);
        default:
            for (int64_t j = 0; j < columns; j++)
                for (int64_t i = 0; i < rows; i++)
                    ((double *)to)[i + j * rows] = read_other(element(from, i, j), (tp_dtype)from.dtype);
        }
    else
        switch (from.dtype) {
        case TP_f32: LOAD(tp_z, float, x);
        case TP_f64: LOAD(tp_z, double, x);
        case TP_c64: LOAD(tp_z, float _Complex, conjugate ? conjf(x) : x);
        default: LOAD(tp_z, tp_z, conjugate ? conj(x) : x);
        }
}

#define STORE(T, F, value)                                                                  \
    for (int64_t j = 0; j < columns; j++)                                                   \
        for (int64_t i = 0; i < rows; i++) {                                                \
            T x = ((const T *)from)[i + j * ld];                                            \
            ((F *)to.data)[i * to.row + j * to.column] = (F)(value);                        \
        }                                                                                   \
    break

void tp_lin_store(bool z, const void *from, int64_t ld, int64_t rows, int64_t columns, bool conjugate, tp_lin_view to)
{
    if (!z)
        switch (to.dtype) {
        case TP_f32: STORE(double, float, x);
        case TP_f64: STORE(double, double, x);
        case TP_c64: STORE(double, float _Complex, x);
        case TP_c128: STORE(double, tp_z, x);
        default:
            for (int64_t j = 0; j < columns; j++)
                for (int64_t i = 0; i < rows; i++)
                    tp_scalar_write(tp_scalar_float(((const double *)from)[i + j * ld]), element(to, i, j), (tp_dtype)to.dtype);
        }
    else
        switch (to.dtype) {
        case TP_c64: STORE(tp_z, float _Complex, conjugate ? conj(x) : x);
        default: STORE(tp_z, tp_z, conjugate ? conj(x) : x);
        }
}

void tp_lin_store_real(const double *from, int64_t count, tp_lin_view to)
{
    tp_lin_store(false, from, count, count, 1, false, to);
}

void tp_lin_store_ints(const int32_t *from, int64_t count, tp_lin_view to)
{
    for (int64_t i = 0; i < count; i++)
        if (to.dtype == TP_i32)
            ((int32_t *)to.data)[i * to.row] = from[i];
        else
            ((int64_t *)to.data)[i * to.row] = from[i];
}

tp_lin_work tp_lin_work_of(const tp_value *arg, tp_tensor **out, const tp_tensor *matrices)
{
    return (tp_lin_work){
        .arg = arg, .out = out, .batch = tp_lin_batch_of(matrices, 2), .z = tp_dtype_is_complex((tp_dtype)matrices->dtype),
        .m = matrices->size[matrices->ndim - 2], .n = matrices->size[matrices->ndim - 1],
    };
}

double tp_lin_cost(const tp_lin_work *w)
{
    return (double)w->m * (double)w->n * (double)(w->m < w->n ? w->m : w->n);
}

void *tp_lin_loaded(const tp_lin_work *w, tp_lin_room *room, const tp_tensor *t, int64_t rows, int64_t columns, int64_t index)
{
    void *a = tp_lin_take(room, rows * columns, tp_lin_bytes(w->z));
    if (a)
        tp_lin_load(w->z, tp_lin_at(t, 2, &w->batch, index), rows, columns, false, a);
    return a;
}

void tp_lin_store_info(const tp_lin_work *w, int32_t info, int result, int64_t index)
{
    tp_lin_store_ints(&info, 1, tp_lin_at(w->out[result], 0, &w->batch, index));
}

void tp_lin_zero(tp_lin_view to, int64_t rows, int64_t columns)
{
    size_t bytes = tp_dtype_bytes((tp_dtype)to.dtype);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            memset(element(to, i, j), 0, bytes);
}

/* ---- what went wrong ---- */
typedef struct words {
    const char *name;               /* part of the function's name, tried in order */
    tp_err      kind;
    const char *text;               /* %d, where it stands: the code */
} words;

static const words all_words[] = {
    { "inv", TP_ERR_LINALG, "The diagonal element %d is zero, the inversion could not be completed because the input matrix is singular." },
    { "solve", TP_ERR_LINALG, "The solver failed because the input matrix is singular." },
    { "cholesky", TP_ERR_LINALG, "The factorization could not be completed because the input is not positive-definite (the leading minor of order %d is not positive-definite)." },
    { "eig", TP_ERR_LINALG, "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: %d)." },
    { "svd", TP_ERR_LINALG, "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: %d)." },
    { "lstsq", TP_ERR_LINALG, "The least squares solution could not be computed because the input matrix does not have full rank (error code: %d)." },
    { "lu_factor", TP_ERR_RUNTIME, "U[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)" },
    { "", TP_ERR_RUNTIME, "Unknown error code: %d." },
};

bool tp_lin_check(const tp_tensor *info, const char *name, bool is_matrix)
{
    tp_lin_batch all = tp_lin_batch_of(info, 0);
    for (int64_t i = 0; i < all.count; i++) {
        int code = *(const int32_t *)tp_lin_at(info, 0, &all, i).data;
        const words *w = all_words;
        char text[320], member[48] = "";
        if (!code)
            continue;
        while (!strstr(name, w->name))
            w++;
        if (!is_matrix)
            snprintf(member, sizeof member, "(Batch element %lld): ", LL(i));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, w->text, code, code);
#pragma GCC diagnostic pop
        return tp_fail(w->kind, "%s: %s%s", name, member, text);
    }
    return true;
}

/* arg: info, api_name, is_matrix */
TP_HOOK_K(tp_k_linalg_check_errors)
{
    (void)out;
    if (arg[0].tensor->dtype != TP_i32)
        return tp_fail(TP_ERR_RUNTIME, "expected scalar type Int but found %s", tp_dtypes[arg[0].tensor->dtype].title);
    return tp_lin_check(arg[0].tensor, arg[1].string->text, tp_as_bool(arg[2]));
}
