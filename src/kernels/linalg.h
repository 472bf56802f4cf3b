/* linalg.h - decompositions of one matrix, and what carries batches of matrices to them.
 *
 * The numerics work on column-major scratch of f64 or c128: f32 is computed as f64 and c64 as c128, which costs little beside
 * the cube of the size and gives digits back. Each function exists twice, tp_lin_NAME_f64 and tp_lin_NAME_c128; TP_LIN(z, NAME, …)
 * calls the one of the type (z: complex). Element (i, j) of a matrix `a` is a[i + j*ld]; functions that take row and column
 * strides see transposed matrices too.
 * Algorithms are those of Golub and Van Loan; signs, pivots and the packing of factors are LAPACK's, so that users can compare.
 * False means that memory is short; that a matrix has no such factors is told by `info`, as LAPACK counts.
 *
 * A kernel takes scratch from a tp_lin_room per matrix, loads, calls, stores. */
#ifndef TP_KERNELS_LINALG_H
#define TP_KERNELS_LINALG_H

#include <assert.h>
#include <complex.h>
#include <string.h>
#undef complex                      /* names that others use */
#undef I

#include "kernels/dense.h"

typedef double _Complex tp_z;

/* ---- scratch: pieces that live until tp_lin_room_done ---- */
enum { TP_LIN_PIECES = 24 };
typedef struct tp_lin_room {
    int    count;
    bool   failed;
    void  *piece[TP_LIN_PIECES];    /* owned */
    size_t bytes[TP_LIN_PIECES];
} tp_lin_room;

void *tp_lin_take(tp_lin_room *room, int64_t count, size_t size);   /* contents undefined; NULL sets room->failed */
bool  tp_lin_room_done(tp_lin_room *room);                          /* releases all; false when something failed */

static inline size_t tp_lin_bytes(bool z) { return z ? sizeof(tp_z) : sizeof(double); }

/* ---- batches: a tensor is matrices of its last two dims (or vectors of its last one) behind batch dims ---- */
typedef struct tp_lin_batch {
    int     ndim;
    int64_t size[TP_MAX_DIMS], count;
} tp_lin_batch;

tp_lin_batch tp_lin_batch_of(const tp_tensor *t, int inner);        /* all dims but the last `inner` */
/* One item for each member; false when one ran out of memory. `cost`: about how many operations a member takes. */
bool tp_lin_each(const tp_lin_batch *b, double cost, bool (*item)(void *work, int64_t index), void *work);

/* Member `index` of the batch in a tensor with `inner` dims behind its batch dims, which broadcast to those of b. */
typedef struct tp_lin_view {
    char   *data;                   /* borrowed */
    int64_t row, column;            /* strides in elements; a vector has rows only */
    uint8_t dtype;
} tp_lin_view;
tp_lin_view tp_lin_at(const tp_tensor *t, int inner, const tp_lin_batch *b, int64_t index);
static inline tp_lin_view tp_lin_transposed(tp_lin_view v)
{
    return (tp_lin_view){ v.data, v.column, v.row, v.dtype };
}

/* rows x columns elements between a tensor and column-major scratch (ld = rows); `conj` conjugates on the way. */
void tp_lin_load(bool z, tp_lin_view from, int64_t rows, int64_t columns, bool conj, void *to);
void tp_lin_store(bool z, const void *from, int64_t ld, int64_t rows, int64_t columns, bool conj, tp_lin_view to);
void tp_lin_store_real(const double *from, int64_t count, tp_lin_view to);
void tp_lin_store_ints(const int32_t *from, int64_t count, tp_lin_view to);

/* What kernels share: their arguments, results and the matrices (m x n) they go through. */
typedef struct tp_lin_work {
    const tp_value *arg;            /* borrowed, as all */
    tp_tensor     **out;
    tp_lin_batch    batch;
    bool            z;              /* complex */
    int64_t         m, n;
} tp_lin_work;
tp_lin_work tp_lin_work_of(const tp_value *arg, tp_tensor **out, const tp_tensor *matrices);
double tp_lin_cost(const tp_lin_work *w);                           /* m n min(m, n) */
/* The matrix of `t` at `index`, in scratch; NULL sets room->failed. */
void *tp_lin_loaded(const tp_lin_work *w, tp_lin_room *room, const tp_tensor *t, int64_t rows, int64_t columns, int64_t index);
void tp_lin_store_info(const tp_lin_work *w, int32_t info, int result, int64_t index);
void tp_lin_zero(tp_lin_view to, int64_t rows, int64_t columns);

/* Raises LinAlgError with the words of the function `name` when an element of `info` is not 0. */
bool tp_lin_check(const tp_tensor *info, const char *name, bool is_matrix);

/* ---- the numerics ---- */
#define TP_LIN(z, name, ...) ((z) ? tp_lin_##name##_c128(__VA_ARGS__) : tp_lin_##name##_f64(__VA_ARGS__))

#define TP_LINALG_FUNCTIONS(S, d)                                                                                               \
    /* c += alpha a b, alpha real; strides in elements */                                                                       \
    bool tp_lin_multiply_##d(int64_t m, int64_t n, int64_t k, double alpha, const S *a, int64_t a_row, int64_t a_column,        \
                             const S *b, int64_t b_row, int64_t b_column, double beta, S *c, int64_t c_row, int64_t c_column);  \
    /* b = inverse(t) b, t n x n triangular */                                                                                  \
    bool tp_lin_solve_triangular_##d(bool upper, bool unit, int64_t n, int64_t columns, const S *t, int64_t t_row,              \
                                     int64_t t_column, S *b, int64_t b_row, int64_t b_column);                                  \
    /* a = P L U, min(m, n) pivots counted from 1; info: the first zero pivot */                                                \
    bool tp_lin_lu_##d(int64_t m, int64_t n, S *a, int64_t ld, int32_t *pivot, int32_t *info);                                  \
    /* The rows of b exchanged as the pivots say; backwards undoes it */                                                        \
    void tp_lin_exchange_##d(int64_t n, const int32_t *pivot, bool backwards, int64_t columns, S *b, int64_t b_row, int64_t b_column); \
    /* b = inverse(a) b from a's factors; adjoint: inverse of the conjugate transpose (lu is conjugated meanwhile) */           \
    bool tp_lin_lu_solve_##d(bool adjoint, int64_t n, int64_t columns, S *lu, int64_t ld, const int32_t *pivot, S *b,           \
                             int64_t b_row, int64_t b_column);                                                                  \
    /* The lower triangle of a becomes L with a = L L^H; info: order of the minor that is not positive */                      \
    bool tp_lin_cholesky_##d(int64_t n, S *a, int64_t ld, int32_t *info);                                                       \
    /* Bunch and Kaufman on the lower triangle; negative pivots mark 2 x 2 blocks */                                            \
    void tp_lin_ldl_##d(bool hermitian, int64_t n, S *a, int64_t ld, int32_t *pivot, int32_t *info);                            \
    void tp_lin_ldl_solve_##d(bool hermitian, int64_t n, int64_t columns, const S *a, int64_t ld, const int32_t *pivot, S *b);  \
    double tp_lin_norm_##d(int64_t n, const S *x);                                                                              \
    S tp_lin_dot_##d(int64_t n, const S *a, const S *b);       /* a^H b */                                                      \
    /* b -= tau v (v^H b), v's leading 1 not read */                                                                            \
    void tp_lin_reflect_##d(int64_t m, int64_t columns, const S *v, S tau, S *b, int64_t ld);                                   \
    /* H with H^H (alpha, x) = (beta, 0): x becomes v below its leading 1, *alpha beta; gives tau */                           \
    S tp_lin_reflector_##d(int64_t n, S *alpha, S *x);                                                                          \
    void tp_lin_qr_##d(int64_t m, int64_t n, S *a, int64_t ld, S *tau);                                                         \
    /* b = Q b or Q^H b, where a and tau are k reflectors of m rows */                                                          \
    void tp_lin_qr_apply_##d(bool adjoint, int64_t m, int64_t columns, int64_t k, const S *a, int64_t ld, const S *tau, S *b, int64_t b_ld); \
    /* q (m x columns) = the first columns of Q; q may not be a */                                                              \
    void tp_lin_qr_form_##d(int64_t m, int64_t columns, int64_t k, const S *a, int64_t ld, const S *tau, S *q, int64_t q_ld);   \
    /* The full Hermitian a: ascending w, and, when wanted, a becomes the vectors. info: what did not converge */               \
    bool tp_lin_eigh_##d(int64_t n, S *a, bool vectors, double *w, int32_t *info);                                              \
    /* a = U diag(s) V^H, k = min(m, n), s falling. u is m x u_columns, v n x v_columns (k or all); both NULL: values only */   \
    bool tp_lin_svd_##d(int64_t m, int64_t n, const S *a, int64_t u_columns, int64_t v_columns, S *u, double *s, S *v, int32_t *info); \
    /* Eigenvalues in the order of the Schur form; unit columns of v, unless NULL. a is spoiled */                              \
    bool tp_lin_eig_##d(int64_t n, S *a, tp_z *w, tp_z *v, int32_t *info);                                  \
    bool tp_lin_expm_##d(int64_t n, S *a);

TP_LINALG_FUNCTIONS(double, f64)
TP_LINALG_FUNCTIONS(tp_z, c128)

#endif
