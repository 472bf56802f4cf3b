/* gamma.c - functions around gamma and the error function.
 *
 * Sums over k of f(q + k) end in the Euler-Maclaurin formula once q + k has grown: the tail is an integral, half a term and
 * derivatives weighted by Bernoulli numbers (DLMF 2.10.1). Inverses are Newton's iteration from a close guess. */
#define _GNU_SOURCE     /* lgamma_r */
#include <math.h>

#include "tile/special.h"

static const double PI = 3.14159265358979323846, TWO_OVER_ROOT_PI = 1.12837916709551257390;
static const double ROOT_2 = 1.41421356237309504880, ROOT_PI = 1.77245385090551602730;

/* B_2k / (2k)! for k = 1 … 12 */
static const double bernoulli[] = {
    1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0, -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0, -236364091.0 / 1693824136731743669452800000.0,
};
enum { MOST_TERMS = 20000 };            /* of a sum: beyond, its value is as good as it gets, or NaN */
enum { BERNOULLI = sizeof bernoulli / sizeof *bernoulli };

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* psi(x) = log x - 1/2x - sum B_2k / 2k x^2k, after psi(x) = psi(x + 1) - 1/x has brought x up to ten. */
double tp_digamma(double x)
{
    if (x == 0)
        return copysign(INFINITY, -x);
    double sum = 0;
    if (x < 0) {
        double whole, part = modf(x, &whole);
        if (part == 0)
            return NAN;
        sum = -PI / tan(PI * part);
        x = 1 - x;
    }
    for (; x < 10; x++)
        sum -= 1 / x;
    double power = 1 / (x * x), scale = power, factorial = 1, tail = 0;     /* B_2k / 2k = bernoulli[k] (2k - 1)! */
    for (int k = 0; k < 8; k++) {
        tail += bernoulli[k] * factorial * scale;
        scale *= power;
        factorial *= (2 * k + 2) * (2 * k + 3);
    }
    return sum + log(x) - 0.5 / x - tail;
}

double tp_zeta(double s, double q)
{
    if (s == 1)
        return INFINITY;
    if (!(s > 1))
        return NAN;
    if (q <= 0 && q == floor(q))
        return INFINITY;
    if (q <= 0 && s != floor(s))
        return NAN;
    double sum = 0;
    if (q < -1e5)
        return NAN;             /* so many poles away nothing is left of the sum but rounding */
    for (int k = 0; k < 12 || q < 12; k++, q++) {
        double term = pow(q, -s);
        sum += term;
        if (q > 0 && term < sum * 1e-17)
            return sum;
    }
    double power = pow(q, -s), rising = s, scale = power / q;
    sum += power * q / (s - 1) + power / 2;
    for (int k = 0; k < BERNOULLI; k++) {
        double term = bernoulli[k] * rising * scale;
        sum += term;
        if (fabs(term) < fabs(sum) * 1e-17)
            break;
        rising *= (s + 2 * k + 1) * (s + 2 * k + 2);
        scale /= q * q;
    }
    return sum;
}

/* (-1)^(n + 1) n! zeta(n + 1, x) */
double tp_polygamma(double n, double x)
{
    if (n == 0 || (n == 1 && x == INFINITY))
        return n == 0 ? tp_digamma(x) : 0;
    double value = exp(log_gamma(n + 1)) * tp_zeta(n + 1, x);
    return fmod(n, 2) == 0 ? -value : value;
}

double tp_mvlgamma(double x, double p)
{
    double sum = p > MOST_TERMS ? NAN : p * (p - 1) / 4 * log(PI);
    for (double k = 0; k < p && sum == sum; k++)
        sum += log_gamma(x - k / 2);
    return sum;
}

/* ---- incomplete gamma ---- */

/* x^a e^-x / gamma(a). For large a by Stirling's formula around x = a, where powers and exponentials would cancel. */
static double density(double a, double x)
{
    if (a < 10)
        return exp(a * log(x) - x - log_gamma(a));
    double power = 1 / (a * a), tail = 0, scale = 1 / a, factorial = 1;     /* B_2k / (2k (2k - 1) a^(2k - 1)) */
    for (int k = 0; k < 8; k++) {
        tail += bernoulli[k] * factorial * scale;
        scale *= power;
        factorial *= (2 * k + 1) * (2 * k + 2);
    }
    double r = (x - a) / a;
    double away = fabs(r) < 0.1 ? 0 : r - log1p(r);
    if (fabs(r) < 0.1)          /* r - log(1 + r) as its series */
        for (int k = 24; k >= 2; k--)
            away = (k % 2 ? -1.0 : 1.0) / k + r * away;
    away = fabs(r) < 0.1 ? away * r * r : away;
    return sqrt(a / (2 * PI)) * exp(-a * away - tail);
}

/* P by its power series: density / a * (1 + x / (a + 1) + x² / (a + 1)(a + 2) + …), DLMF 8.7.1. */
static double lower_series(double a, double x)
{
    double term = 1 / a, sum = term;
    for (int k = 1; k < MOST_TERMS && term > sum * 1e-17; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return density(a, x) * sum;
}

/* Q by its continued fraction 1/(x + 1 - a - 1(1 - a)/(x + 3 - a - …, DLMF 8.9.2, from the front (Lentz). */
static double upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
    for (int k = 1; k < MOST_TERMS; k++) {
        double factor = k * (a - k);
        b += 2;
        d = factor * d + b;
        c = b + factor / c;
        d = 1 / (d == 0 ? 1e-300 : d);
        c = c == 0 ? 1e-300 : c;
        value *= d * c;
        if (fabs(d * c - 1) < 1e-16)
            break;
    }
    return density(a, x) * value;
}

/* Where the series is the quick way; near x = a both are. */
static double incomplete(double a, double x, int upper)
{
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0))
        return NAN;
    if (isinf(a))
        return isinf(x) ? NAN : upper;
    if (a == 0 || isinf(x))
        return !upper;
    if (x == 0)
        return upper;
    int series = x < a + 1;
    double value = series ? lower_series(a, x) : upper_fraction(a, x);
    return series == upper ? 1 - value : value;
}

double tp_igamma(double a, double x)
{
    return incomplete(a, x, 0);
}

double tp_igammac(double a, double x)
{
    return incomplete(a, x, 1);
}

/* ---- the error function ---- */

double tp_erfcx(double x)
{
    if (x < -27)
        return INFINITY;
    if (x < 25) {
        double square = x * x, rest = fma(x, x, -square);
        return exp(square) * (1 + rest) * erfc(x);
    }
    double sum = 1, term = 1;           /* DLMF 7.12.1 */
    for (int k = 1; k < 12; k++)
        sum += term *= -(2 * k - 1) / (2 * x * x);
    return sum / (x * ROOT_PI);
}

/* Winitzki's approximation of the inverse error function, from log(1 - y²); good to two parts in a thousand. */
static double inverse_guess(double logarithm)
{
    double a = 0.147, half = 2 / (PI * a) + logarithm / 2;
    return sqrt(sqrt(half * half - logarithm / a) - half);
}

/* x > 0 with erfc(x) = c < 1/2: Newton on log erfc(x), which is nearly a parabola. */
static double inverse_of_tail(double c)
{
    double x = inverse_guess(log(c * (2 - c)));
    for (int i = 0; i < 4; i++)
        x += tp_erfcx(x) / TWO_OVER_ROOT_PI * (log(tp_erfcx(x) / c) - x * x);
    return x;
}

/* |y| <= 1/2: Halley on erf(x) - y. */
static double inverse_of_middle(double y)
{
    double x = copysign(inverse_guess(log1p(-y * y)), y);
    for (int i = 0; i < 3; i++) {
        double u = (erf(x) - y) / (TWO_OVER_ROOT_PI * exp(-x * x));
        x -= u / (1 + x * u);
    }
    return y == 0 ? y : x;
}

double tp_erfinv(double y)
{
    if (!(fabs(y) < 1))
        return fabs(y) == 1 ? copysign(INFINITY, y) : NAN;
    return fabs(y) <= 0.5 ? inverse_of_middle(y) : copysign(inverse_of_tail(1 - fabs(y)), y);
}

double tp_ndtri(double p)
{
    if (p == 0 || p == 1)
        return p ? INFINITY : -INFINITY;
    if (!(p > 0 && p < 1))
        return NAN;
    if (p >= 0.25 && p <= 0.75)
        return ROOT_2 * inverse_of_middle(2 * p - 1);
    return p < 0.5 ? -ROOT_2 * inverse_of_tail(2 * p) : ROOT_2 * inverse_of_tail(2 * (1 - p));
}

double tp_log_ndtr(double x)
{
    if (x < -1)
        return log(tp_erfcx(-x / ROOT_2) / 2) - x * x / 2;
    return log1p(-erfc(x / ROOT_2) / 2);
}
