/* bessel.c - Bessel functions and Airy's.
 *
 * I by its power series, whose terms are all positive, and by the asymptotic one from where that has double's accuracy. K by its
 * integral over exp(-x cosh t) cosh vt (DLMF 10.32.9): the trapezoidal rule converges exponentially on it. Airy's function for
 * positive arguments is a K of order 1/3. J and Y are libm's. */
#define _GNU_SOURCE     /* j0 and its kin */
#include <math.h>

#include "tile/special.h"

static const double PI = 3.14159265358979323846;

/* exp(-|x|) I_v(x), v = 0 or 1. */
static double scaled_i(int order, double x)
{
    double size = fabs(x), sum = 1, term = 1;
    if (size < 35) {
        double quarter = size * size / 4;
        for (int k = 1; term > sum * 1e-17; k++)
            sum += term *= quarter / ((double)k * (k + order));
        return sum * exp(-size) * (order ? x / 2 : 1);
    }
    for (int k = 1; k < 30 && fabs(term) > 1e-17; k++)      /* DLMF 10.40.1 */
        sum += term *= -(4.0 * order - (2 * k - 1) * (2.0 * k - 1)) / (8 * k * size);
    return copysign(sum / sqrt(2 * PI * size), order ? x : 1);
}

double tp_bessel_i0e(double x) { return scaled_i(0, x); }
double tp_bessel_i1e(double x) { return scaled_i(1, x); }

/* exp in two halves, that the product overflows only where the result does. */
static double unscaled(double value, double x)
{
    double half = exp(x / 2);
    return value * half * half;
}

double tp_bessel_i0(double x) { return unscaled(scaled_i(0, x), fabs(x)); }
double tp_bessel_i1(double x) { return unscaled(scaled_i(1, x), fabs(x)); }

/* exp(x) K_v(x), x > 0. The step shrinks with the width of the integrand. */
static double scaled_k(double order, double x)
{
    double step = fmin(0.2, 0.6 / sqrt(x)), sum = 0.5;
    for (int k = 1;; k++) {
        double t = k * step, half = sinh(t / 2);        /* cosh t - 1 = 2 sinh² t/2 */
        double term = exp(-2 * x * half * half) * cosh(order * t);
        sum += term;
        if (term < sum * 1e-17)
            return sum * step;
    }
}

/* Below this argument K_0 is -log(x / 2) - Euler's constant and K_1 is 1 / x, to double's accuracy. */
static const double TINY = 1e-9, EULER = 0.57721566490153286061;

static double modified_k(int order, double x, int scaled)
{
    if (!(x > 0))
        return x == 0 ? INFINITY : NAN;
    if (x < TINY)
        return order ? 1 / x : -log(x / 2) - EULER;
    if (isinf(x))
        return 0;
    return scaled ? scaled_k(order, x) : unscaled(scaled_k(order, x), -x);
}

double tp_bessel_k0(double x) { return modified_k(0, x, 0); }
double tp_bessel_k1(double x) { return modified_k(1, x, 0); }
double tp_bessel_k0e(double x) { return modified_k(0, x, 1); }
double tp_bessel_k1e(double x) { return modified_k(1, x, 1); }

/* At infinity PyTorch has NaN. */
double tp_bessel_j0(double x) { return isinf(x) ? NAN : j0(x); }
double tp_bessel_j1(double x) { return isinf(x) ? NAN : j1(x); }
double tp_bessel_y0(double x) { return x < 0 || isinf(x) ? NAN : x == 0 ? -INFINITY : y0(x); }
double tp_bessel_y1(double x) { return x < 0 || isinf(x) ? NAN : x == 0 ? -INFINITY : y1(x); }

double tp_spherical_j0(double x)
{
    return isinf(x) ? 0 : x == 0 ? 1 : sin(x) / x;
}

/* Ai(0) f(x) + Ai'(0) g(x), DLMF 9.4.1; for negative x the two cancel, which long double makes up for. */
static double airy_series(double x)
{
    const long double at_zero = 0.355028053887817239260063186L, slope = -0.258819403792806798405183560L;
    long double cube = (long double)x * x * x, f = 1, g = x, even = 1, odd = x;
    for (int k = 1; k < 200 && (fabsl(even) > 1e-22L || fabsl(odd) > 1e-22L); k++) {
        f += even *= cube / ((3 * k - 1) * (3.0L * k));
        g += odd *= cube / ((3 * k) * (3.0L * k + 1));
    }
    return (double)(at_zero * f + slope * g);
}

/* x << 0: an oscillation, DLMF 9.7.9. */
static double airy_wave(double x)
{
    double size = -x, zeta = 2 * size * sqrt(size) / 3, u = 1, sum[2] = { 0, 0 };
    for (int k = 0; k < 24 && fabs(u) > 1e-17; k++) {
        sum[k % 2] += k / 2 % 2 ? -u : u;
        u *= (6 * k + 1) * (6 * k + 5.0) / (72 * (k + 1) * zeta);      /* u_k of DLMF 9.7.2, over zeta^k */
    }
    return (cos(zeta - PI / 4) * sum[0] + sin(zeta - PI / 4) * sum[1]) / (sqrt(PI) * sqrt(sqrt(size)));
}

double tp_airy_ai(double x)
{
    if (!isfinite(x))
        return NAN;
    if (x < -9)
        return airy_wave(x);
    if (x < 1)
        return airy_series(x);
    if (x > 1000)
        return 0;
    double zeta = 2 * x * sqrt(x) / 3;
    return sqrt(x / 3) / PI * unscaled(scaled_k(1.0 / 3, zeta), -zeta);
}
