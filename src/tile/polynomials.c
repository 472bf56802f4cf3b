/* polynomials.c - orthogonal polynomials of any degree at a point, by their recurrences in the degree (DLMF 18.9).
 *
 * Chebyshev's are trigonometric functions of n arccos x inside [-1, 1], which serves where the recurrence would be long. */
#include <math.h>
#include <stdint.h>

#include "tile/special.h"

/* Recurrences longer than this are not run: NaN. */
enum { MOST_DEGREE = 100000, LONG = 16 };

/* p_n from p_0 and p_1 by p_(k + 1) = (a_k x + b_k) p_k + c_k p_(k - 1). */
typedef enum family { CHEBYSHEV, HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE } family;

static double climb(family f, double x, int64_t n, double first, double second)
{
    if (n > MOST_DEGREE)
        return NAN;
    if (n <= 0)
        return n < 0 ? 0 : first;
    double below = first, here = second;
    for (int64_t i = 1; i < n && here == here; i++) {
        double k = (double)i, next = 0;
        switch (f) {
        case CHEBYSHEV:  next = 2 * x * here - below; break;
        case HERMITE_H:  next = 2 * x * here - 2 * k * below; break;
        case HERMITE_HE: next = x * here - k * below; break;
        case LAGUERRE:   next = ((2 * k + 1 - x) * here - k * below) / (k + 1); break;
        case LEGENDRE:   next = ((2 * k + 1) * x * here - k * below) / (k + 1); break;
        }
        below = here;
        here = next;
    }
    return here;
}

static int64_t degree(double n)
{
    return n >= 0 ? n < 9e18 ? (int64_t)n : INT64_MAX : n > -1 ? 0 : -1;
}

/* With x = cos 2h: T is cos 2nh, U sin 2(n + 1)h / sin 2h, V cos (2n + 1)h / cos h, W sin (2n + 1)h / sin h. */
double tp_chebyshev_t(double x, double n)
{
    int64_t d = degree(n);
    return d > LONG && fabs(x) <= 1 ? cos((double)d * acos(x)) : climb(CHEBYSHEV, x, d, 1, x);
}

double tp_chebyshev_u(double x, double n)
{
    int64_t d = degree(n);
    return d > LONG && fabs(x) < 1 ? sin(((double)d + 1) * acos(x)) / sin(acos(x)) : climb(CHEBYSHEV, x, d, 1, 2 * x);
}

double tp_chebyshev_v(double x, double n)
{
    int64_t d = degree(n);
    double half = d > LONG && fabs(x) < 1 ? acos(x) / 2 : 0;
    return half > 0 ? cos((2 * (double)d + 1) * half) / cos(half) : climb(CHEBYSHEV, x, d, 1, 2 * x - 1);
}

double tp_chebyshev_w(double x, double n)
{
    int64_t d = degree(n);
    double half = d > LONG && fabs(x) < 1 ? acos(x) / 2 : 0;
    return half > 0 ? sin((2 * (double)d + 1) * half) / sin(half) : climb(CHEBYSHEV, x, d, 1, 2 * x + 1);
}

double tp_shifted_chebyshev_t(double x, double n) { return tp_chebyshev_t(2 * x - 1, n); }
double tp_shifted_chebyshev_u(double x, double n) { return tp_chebyshev_u(2 * x - 1, n); }
double tp_shifted_chebyshev_v(double x, double n) { return tp_chebyshev_v(2 * x - 1, n); }
double tp_shifted_chebyshev_w(double x, double n) { return tp_chebyshev_w(2 * x - 1, n); }

double tp_hermite_h(double x, double n) { return climb(HERMITE_H, x, degree(n), 1, 2 * x); }
double tp_hermite_he(double x, double n) { return climb(HERMITE_HE, x, degree(n), 1, x); }
double tp_laguerre_l(double x, double n) { return climb(LAGUERRE, x, degree(n), 1, 1 - x); }
double tp_legendre_p(double x, double n) { return climb(LEGENDRE, x, degree(n), 1, x); }
