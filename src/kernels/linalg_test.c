/* linalg_test.c - factors multiplied out again, below and above the size where recursion begins, real and complex. */
#include <math.h>

#include "base/test.h"
#include "kernels/linalg.h"

static const int64_t shapes[][2] = { { 1, 1 }, { 2, 2 }, { 5, 3 }, { 3, 5 }, { 30, 30 }, { 70, 41 }, { 41, 70 }, { 64, 64 } };
enum { MOST = 70 };

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / (double)(1ll << 52) - 1;
}

/* One matrix in both types: z[] holds it with imaginary parts, which f64 drops. */
static tp_z filled[MOST * MOST];
static void fill(int64_t m, int64_t n, bool z, void *to, uint64_t seed)
{
    for (int64_t i = 0; i < m * n; i++) {
        double re = noise(&seed), im = noise(&seed);
        filled[i] = CMPLX(re, z ? im : 0);
        if (z)
            ((tp_z *)to)[i] = filled[i];
        else
            ((double *)to)[i] = re;
    }
}

static tp_z at(bool z, const void *a, int64_t i) { return z ? ((const tp_z *)a)[i] : ((const double *)a)[i]; }

static void put(bool z, void *a, int64_t i, tp_z x)
{
    if (z)
        ((tp_z *)a)[i] = x;
    else
        ((double *)a)[i] = creal(x);
}

/* The largest element of a (m x k) b (k x n) - c. */
static double gap(bool z, int64_t m, int64_t n, int64_t k, const void *a, const void *b, const tp_z *c)
{
    double most = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            tp_z sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += at(z, a, i + p * m) * at(z, b, p + j * k);
            double d = cabs(sum - c[i + j * m]);
            most = d > most || d != d ? d : most;
        }
    return most;
}

static tp_z a[MOST * MOST], q[MOST * MOST], r[MOST * MOST], tau[MOST], w[MOST], kept[MOST * MOST];
static double values[MOST];
static int32_t pivot[MOST], info;

TP_TEST(lu_and_its_systems)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int z = 0; z < 2; z++) {
            int64_t m = shapes[s][0], n = shapes[s][1], k = m < n ? m : n;
            fill(m, n, z, a, s + 1);
            TP_NEED(TP_LIN(z, lu, m, n, (void *)a, m, pivot, &info));
            TP_EXPECT(info == 0);
            for (int64_t i = 0; i < m; i++)
                for (int64_t p = 0; p < k; p++)
                    put(z, q, i + p * m, i > p ? at(z, a, i + p * m) : i == p);
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < n; j++)
                    put(z, r, p + j * k, p <= j ? at(z, a, p + j * m) : 0);
            tp_lin_exchange_c128(k, pivot, false, n, filled, 1, m);
            TP_EXPECT(gap(z, m, n, k, q, r, filled) < 1e-12);
            for (int adjoint = 0; adjoint < 2 && m == n; adjoint++) {
                fill(n, n, z, kept, s + 1);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < n; j++)
                        put(z, q, i + j * n, adjoint ? conj(at(z, kept, j + i * n)) : at(z, kept, i + j * n));
                fill(n, n, z, r, s + 50);
                TP_NEED(TP_LIN(z, lu_solve, adjoint, n, n, (void *)a, n, pivot, (void *)r, 1, n));
                TP_EXPECT(gap(z, n, n, n, q, r, filled) < 1e-9);
            }
        }
out:
    return;
}

/* kept = x x^H + n I, also as what is compared with. */
static void make_definite(bool z, int64_t n, uint64_t seed)
{
    fill(n, n, z, q, seed);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            tp_z sum = i == j ? (double)n : 0;
            for (int64_t p = 0; p < n; p++)
                sum += at(z, q, i + p * n) * conj(at(z, q, j + p * n));
            put(z, kept, i + j * n, sum);
            filled[i + j * n] = sum;
        }
}

TP_TEST(definite_ones)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int z = 0; z < 2; z++) {
            int64_t n = shapes[s][0];
            make_definite(z, n, s);
            memcpy(a, kept, sizeof a);
            TP_NEED(TP_LIN(z, cholesky, n, (void *)a, n, &info));
            TP_EXPECT(info == 0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    put(z, q, i + j * n, i >= j ? at(z, a, i + j * n) : 0);
                    put(z, r, j + i * n, i >= j ? conj(at(z, a, i + j * n)) : 0);
                }
            TP_EXPECT(gap(z, n, n, n, q, r, filled) < 1e-10);
            memcpy(a, kept, sizeof a);
            TP_NEED(TP_LIN(z, eigh, n, (void *)a, true, values, &info));
            TP_EXPECT(info == 0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++)
                    filled[i + j * n] = at(z, a, i + j * n) * values[j];
            TP_EXPECT(gap(z, n, n, n, kept, a, filled) < 1e-10 * values[n - 1]);
        }
out:
    return;
}

TP_TEST(indefinite_systems)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int z = 0; z < 2; z++)
            for (int hermitian = 0; hermitian < 2; hermitian++) {
                int64_t n = shapes[s][0];
                fill(n, n, z, kept, s + 9);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j <= i; j++) {
                        tp_z x = i == j ? creal(at(z, kept, i + j * n)) / 100 : at(z, kept, i + j * n);
                        put(z, kept, i + j * n, x);
                        put(z, kept, j + i * n, hermitian ? conj(x) : x);
                    }
                memcpy(a, kept, sizeof a);
                TP_LIN(z, ldl, hermitian, n, (void *)a, n, pivot, &info);
                fill(n, 2, z, r, s);
                TP_LIN(z, ldl_solve, hermitian, n, 2, (void *)a, n, pivot, (void *)r);
                TP_EXPECT(info == 0 && gap(z, n, 2, n, kept, r, filled) < 1e-9);
            }
}

TP_TEST(orthogonal_factors)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int z = 0; z < 2; z++) {
            int64_t m = shapes[s][0], n = shapes[s][1], k = m < n ? m : n;
            fill(m, n, z, a, s + 3);
            memcpy(kept, a, sizeof a);
            TP_LIN(z, qr, m, n, (void *)a, m, (void *)tau);
            TP_LIN(z, qr_form, m, k, k, (void *)a, m, (void *)tau, (void *)q, m);
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < n; j++)
                    put(z, r, p + j * k, p <= j ? at(z, a, p + j * m) : 0);
            TP_EXPECT(gap(z, m, n, k, q, r, filled) < 1e-12);
            for (int all = 0; all < 2; all++) {     /* with all columns of U and V, and with as many as there are values */
                TP_NEED(TP_LIN(z, svd, m, n, (void *)kept, all ? m : k, all ? n : k, (void *)q, values, (void *)a, &info));
                for (int64_t p = 0; p < k; p++) {
                    TP_EXPECT(p == 0 || values[p] <= values[p - 1]);
                    for (int64_t i = 0; i < m; i++)
                        put(z, q, i + p * m, at(z, q, i + p * m) * values[p]);
                    for (int64_t j = 0; j < n; j++)
                        put(z, r, p + j * k, conj(at(z, a, j + p * n)));
                }
                TP_EXPECT(info == 0 && gap(z, m, n, k, q, r, filled) < 1e-12);
            }
        }
out:
    return;
}

TP_TEST(general_ones)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int z = 0; z < 2; z++) {
            int64_t n = shapes[s][0];
            fill(n, n, z, a, s + 7);
            memcpy(kept, filled, sizeof kept);
            TP_NEED(TP_LIN(z, eig, n, (void *)a, w, q, &info));
            for (int64_t i = 0; i < n * n; i++)
                filled[i] = q[i] * w[i / n];
            TP_EXPECT(info == 0 && gap(true, n, n, n, kept, q, filled) < 1e-10);
            fill(n, n, z, a, s + 7);
            for (int64_t i = 0; i < n * n; i++)
                put(z, r, i, -at(z, a, i));
            TP_NEED(TP_LIN(z, expm, n, (void *)a) && TP_LIN(z, expm, n, (void *)r));
            for (int64_t i = 0; i < n * n; i++)
                filled[i] = i % (n + 1) == 0;
            TP_EXPECT(gap(z, n, n, n, a, r, filled) < 1e-6);
        }
out:
    return;
}

TP_TEST(what_cannot_be_factored)
{
    for (int z = 0; z < 2; z++) {
        memset(a, 0, sizeof a);
        TP_NEED(TP_LIN(z, lu, 40, 40, (void *)a, 40, pivot, &info));
        TP_EXPECT(info == 1);
        make_definite(z, 40, 5);
        put(z, kept, 33 * 41, -1);
        TP_NEED(TP_LIN(z, cholesky, 40, (void *)kept, 40, &info));
        TP_EXPECT(info == 34);
        memset(a, 0, sizeof a);
        for (int64_t i = 0; i < 12; i++)            /* rank 1: the rest of both bases is completed */
            put(z, a, i, 1);
        TP_NEED(TP_LIN(z, svd, 4, 3, (void *)a, 4, 3, (void *)q, values, (void *)r, &info));
        TP_EXPECT(info == 0 && fabs(values[0] - sqrt(12)) < 1e-14 && values[1] < 1e-15);
    }
out:
    return;
}

TP_TESTS(TP_SPARSE(lu_and_its_systems), TP_SPARSE(definite_ones), TP_SPARSE(indefinite_systems), TP_SPARSE(orthogonal_factors),
         TP_SPARSE(general_ones), TP_SWEPT(what_cannot_be_factored))
