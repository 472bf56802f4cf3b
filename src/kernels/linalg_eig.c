/* linalg_eig.c - eigenvalues and vectors of one general matrix: what is done on the complex triangular form. */
#include <math.h>
#include <float.h>

#include "kernels/linalg.h"

#define A(i, j) a[(i) + (j) * n]
#define SIZE1(x) (fabs(creal(x)) + fabs(cimag(x)))

/* Rows (columns) k and k + 1 by the unitary ((c, s), (-conj(s), c)). */
static void turn_rows(int64_t n, tp_z *a, int64_t k, int64_t first, double c, tp_z s)
{
    for (int64_t j = first; j < n; j++) {
        tp_z x = A(k, j), y = A(k + 1, j);
        A(k, j) = c * x + s * y;
        A(k + 1, j) = c * y - conj(s) * x;
    }
}

static void turn_columns(int64_t n, tp_z *a, int64_t k, int64_t last, double c, tp_z s)
{
    for (int64_t i = 0; i <= last; i++) {
        tp_z x = A(i, k), y = A(i, k + 1);
        A(i, k) = c * x + conj(s) * y;
        A(i, k + 1) = c * y - s * x;
    }
}

/* c and s with (c, s; -conj(s), c) (x, y) = (r, 0). */
static void unitary(tp_z x, tp_z y, double *c, tp_z *s)
{
    double size = cabs(x), r = hypot(size, cabs(y));
    *c = r > 0 ? size / r : 1;
    *s = r > 0 ? (size > 0 ? x / size : 1) * conj(y) / r : 0;
}

/* The columns of v become eigenvectors of the triangular a, times v as it was; each of length 1. */
static bool vectors_of(int64_t n, const tp_z *a, tp_z *v)
{
    tp_lin_room room = { 0 };
    tp_z *x = tp_lin_take(&room, n, sizeof(tp_z)), *result = tp_lin_take(&room, n * n, sizeof(tp_z));
    double size = 0;
    for (int64_t i = 0; i < n * n; i++)
        size = fmax(size, SIZE1(a[i]));
    double least = fmax(DBL_EPSILON * size, DBL_MIN);
    for (int64_t k = 0; !room.failed && k < n; k++) {
        tp_z w = A(k, k);
        for (int64_t i = 0; i < k; i++)
            x[i] = -A(i, k);
        x[k] = 1;
        for (int64_t j = k - 1; j >= 0; j--) {
            tp_z d = A(j, j) - w;
            x[j] /= SIZE1(d) < least ? least : d;
            double most = SIZE1(x[j]);
            if (most > 1e100)                       /* far from overflow in what follows */
                for (int64_t i = 0; i <= k; i++)
                    x[i] /= most;
            for (int64_t i = 0; i < j; i++)
                x[i] -= A(i, j) * x[j];
        }
        tp_z *to = result + k * n;
        memset(to, 0, (size_t)n * sizeof(tp_z));
        for (int64_t j = 0; j <= k; j++)
            for (int64_t i = 0; i < n; i++)
                to[i] += v[i + j * n] * x[j];
    }
    if (!room.failed)
        memcpy(v, result, (size_t)(n * n) * sizeof(tp_z));
    return tp_lin_room_done(&room);
}

/* Length 1; of a vector that is not real, the largest component made real. */
static void normalize(int64_t n, tp_z *v, bool real)
{
    double length = tp_lin_norm_c128(n, v);
    tp_z phase = 1;
    int64_t most = 0;
    for (int64_t i = 1; i < n; i++)
        if (cabs(v[i]) > cabs(v[most]))
            most = i;
    if (!real && n && v[most] != 0)
        phase = conj(v[most]) / cabs(v[most]);
    for (int64_t i = 0; i < n; i++)
        v[i] = real ? creal(v[i]) / length : v[i] / length * phase;
    if (!real && n)
        v[most] = creal(v[most]);
}

/* Undoes the balancing. */
static void unbalance(int64_t n, int64_t low, int64_t high, const double *scale, tp_z *v)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = low; i <= high; i++)
            v[i + j * n] *= scale[i];
    for (int64_t step = 0; step < n; step++) {
        int64_t i = step < low ? low - 1 - step : step, other = (int64_t)scale[i];
        for (int64_t j = 0; (i < low || i > high) && other != i && j < n; j++) {
            tp_z x = v[i + j * n];
            v[i + j * n] = v[other + j * n];
            v[other + j * n] = x;
        }
    }
}

#undef A
#undef SIZE1
#define TP_LINALG_BODY "kernels/linalg_eig.inc"
#include "kernels/linalg_types.inc"
