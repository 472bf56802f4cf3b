/* special.h - special functions of double arguments; steps of f32 and f64 programs go through them element by element.
 *
 * Each is a plain function from the mathematics (Abramowitz & Stegun, DLMF); results are good to a few units in the last place
 * of double away from zeros, hence exact to rounding in f32. Arguments outside a function's domain give NaN. Every one ends
 * soon, whatever its arguments. Those of two arguments take them in the order of their op. */
#ifndef TP_TILE_SPECIAL_H
#define TP_TILE_SPECIAL_H

/* special.c: the next number of a 16-bit type from a towards b */
double tp_nextafter_f16(double a, double b);
double tp_nextafter_bf16(double a, double b);

/* gamma.c */
double tp_digamma(double x);
double tp_polygamma(double n, double x);        /* the n-th derivative of digamma */
double tp_mvlgamma(double x, double p);         /* the logarithm of the multivariate gamma function of dimension p */
double tp_zeta(double s, double q);             /* Hurwitz: sum of (q + k)^-s */
double tp_igamma(double a, double x);           /* the regularised incomplete gamma function, lower and upper */
double tp_igammac(double a, double x);
double tp_erfinv(double y);
double tp_erfcx(double x);                      /* exp(x²) erfc(x) */
double tp_ndtri(double p);                      /* inverse of the normal distribution function */
double tp_log_ndtr(double x);

/* bessel.c: modified ones, the scaled ones with exp(-|x|) (I) or exp(x) (K) taken out */
double tp_bessel_i0(double x);
double tp_bessel_i1(double x);
double tp_bessel_i0e(double x);
double tp_bessel_i1e(double x);
double tp_bessel_k0(double x);
double tp_bessel_k1(double x);
double tp_bessel_k0e(double x);
double tp_bessel_k1e(double x);
double tp_bessel_j0(double x);
double tp_bessel_j1(double x);
double tp_bessel_y0(double x);
double tp_bessel_y1(double x);
double tp_spherical_j0(double x);
double tp_airy_ai(double x);

/* polynomials.c: degree n is cut to an integer; below zero the polynomial is 0 */
double tp_chebyshev_t(double x, double n);
double tp_chebyshev_u(double x, double n);
double tp_chebyshev_v(double x, double n);
double tp_chebyshev_w(double x, double n);
double tp_shifted_chebyshev_t(double x, double n);
double tp_shifted_chebyshev_u(double x, double n);
double tp_shifted_chebyshev_v(double x, double n);
double tp_shifted_chebyshev_w(double x, double n);
double tp_hermite_h(double x, double n);
double tp_hermite_he(double x, double n);
double tp_laguerre_l(double x, double n);
double tp_legendre_p(double x, double n);

#endif
