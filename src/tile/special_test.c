/* special_test.c - special functions against values computed with forty digits. */
#include <math.h>

#include "base/test.h"
#include "tile/special.h"

static bool near(double got, double want, double tolerance)
{
    return got == want || fabs(got - want) <= tolerance * fabs(want);
}

TP_TEST(functions_of_one_argument)
{
    static const struct { const char *name; double (*f)(double), x, want, tolerance; } rows[] = {
        { "digamma", tp_digamma, -1.5, 0.703156640645243187, 1e-14 },
        { "digamma", tp_digamma, 0.25, -4.22745353337626541, 1e-14 },
        { "digamma", tp_digamma, 1, -0.577215664901532861, 1e-14 },
        { "digamma", tp_digamma, 2.5, 0.703156640645243187, 1e-14 },
        { "digamma", tp_digamma, 30, 3.38443813268552488, 1e-14 },
        { "digamma", tp_digamma, 1000000.0, 13.8155100579641908, 1e-14 },
        { "erfinv", tp_erfinv, -0.5, -0.476936276204469873, 4e-15 },
        { "erfinv", tp_erfinv, 1e-10, 8.86226925452758046e-11, 4e-15 },
        { "erfinv", tp_erfinv, 0.3, 0.272462714726754345, 4e-15 },
        { "erfinv", tp_erfinv, 0.9, 1.16308715367667416, 4e-15 },
        { "erfinv", tp_erfinv, 0.999999, 3.45891073727549878, 4e-15 },
        { "erfcx", tp_erfcx, -3, 16205.9888539995866, 1e-14 },
        { "erfcx", tp_erfcx, 0.5, 0.615690344192925875, 1e-14 },
        { "erfcx", tp_erfcx, 5, 0.110704637733068626, 1e-14 },
        { "erfcx", tp_erfcx, 20, 0.0281743487410513193, 1e-14 },
        { "erfcx", tp_erfcx, 24.9, 0.0226399877760495063, 1e-14 },
        { "erfcx", tp_erfcx, 30, 0.0187958888614167515, 1e-14 },
        { "erfcx", tp_erfcx, 100000.0, 5.64189583519546808e-6, 1e-14 },
        { "ndtri", tp_ndtri, 1e-20, -9.26234008979840758, 1e-14 },
        { "ndtri", tp_ndtri, 1e-300, -37.0470962993611992, 1e-14 },
        { "ndtri", tp_ndtri, 0.1, -1.28155156554460044, 1e-14 },
        { "ndtri", tp_ndtri, 0.3, -0.524400512708040816, 1e-14 },
        { "ndtri", tp_ndtri, 0.999, 3.09023230616781328, 1e-14 },
        { "log_ndtr", tp_log_ndtr, -100, -5005.52420869420509, 1e-14 },
        { "log_ndtr", tp_log_ndtr, -5, -15.0649983939887257, 1e-14 },
        { "log_ndtr", tp_log_ndtr, -1, -1.84102164500926351, 1e-14 },
        { "log_ndtr", tp_log_ndtr, 0.5, -0.368946415288656393, 1e-14 },
        { "log_ndtr", tp_log_ndtr, 3, -0.0013508099647481938, 1e-14 },
        { "log_ndtr", tp_log_ndtr, 8, -6.22096057427178606e-16, 1e-14 },
        { "bessel_i0", tp_bessel_i0, 0.5, 1.06348337074132352, 1e-14 },
        { "bessel_i0", tp_bessel_i0, 10, 2815.71662846625447, 1e-14 },
        { "bessel_i0", tp_bessel_i0, 34, 40068575042540.716, 1e-14 },
        { "bessel_i0", tp_bessel_i0, 36, 287666777811244.043, 1e-14 },
        { "bessel_i0", tp_bessel_i0, 300, 4.47584736793505212e+128, 1e-14 },
        { "bessel_i1", tp_bessel_i1, -0.5, -0.257894305390896316, 1e-14 },
        { "bessel_i1", tp_bessel_i1, 10, 2670.98830370125465, 1e-14 },
        { "bessel_i1", tp_bessel_i1, 34, 39474864941248.5913, 1e-14 },
        { "bessel_i1", tp_bessel_i1, 36, 283642854011343.742, 1e-14 },
        { "bessel_i1", tp_bessel_i1, 300, 4.46838138503695441e+128, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 1e-12, 27.7469526315869607, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 1e-05, 11.6288569809443622, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 0.5, 0.924419071227665862, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 2, 0.113893872749533436, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 10, 0.0000177800623161676518, 1e-14 },
        { "bessel_k0", tp_bessel_k0, 100, 4.65662822917590202e-45, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 1e-12, 1000000000000.00002, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 1e-05, 99999.9999393557069, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 0.5, 1.65644112000330089, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 2, 0.139865881816522427, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 10, 0.0000186487734538255846, 1e-14 },
        { "bessel_k1", tp_bessel_k1, 100, 4.67985373563690929e-45, 1e-14 },
        { "bessel_k0e", tp_bessel_k0e, 0.001, 7.0307160023782515, 1e-14 },
        { "bessel_k0e", tp_bessel_k0e, 1, 1.14446307980689501, 1e-14 },
        { "bessel_k0e", tp_bessel_k0e, 500, 0.0560359154172345154, 1e-14 },
        { "bessel_k0e", tp_bessel_k0e, 1000000.0, 0.00125331398065132121, 1e-14 },
        { "bessel_k1e", tp_bessel_k1e, 0.001, 1000.99673455906843, 1e-14 },
        { "bessel_k1e", tp_bessel_k1e, 1, 1.63615348626325825, 1e-14 },
        { "bessel_k1e", tp_bessel_k1e, 500, 0.0560919233705555692, 1e-14 },
        { "bessel_k1e", tp_bessel_k1e, 1000000.0, 0.00125331460730815487, 1e-14 },
        { "airy_ai", tp_airy_ai, -50, -0.161881423612320924, 1e-11 },
        { "airy_ai", tp_airy_ai, -10, 0.0402412384864431907, 1e-11 },
        { "airy_ai", tp_airy_ai, -9.1, 0.0749598872735544639, 1e-11 },
        { "airy_ai", tp_airy_ai, -8.9, -0.117266306371751809, 1e-11 },
        { "airy_ai", tp_airy_ai, -5, 0.35076100902411432, 1e-11 },
        { "airy_ai", tp_airy_ai, -0.5, 0.475728091610539589, 1e-11 },
        { "airy_ai", tp_airy_ai, 0, 0.355028053887817239, 1e-11 },
        { "airy_ai", tp_airy_ai, 0.5, 0.23169360648083349, 1e-11 },
        { "airy_ai", tp_airy_ai, 1.5, 0.0717494970081054097, 1e-11 },
        { "airy_ai", tp_airy_ai, 5, 0.000108344428136074417, 1e-11 },
        { "airy_ai", tp_airy_ai, 50, 4.58494172407482848e-104, 1e-11 },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        double got = rows[i].f(rows[i].x);
        if (!near(got, rows[i].want, rows[i].tolerance))
            printf("# %s(%g) is %.17g, not %.17g\n", rows[i].name, rows[i].x, got, rows[i].want);
        TP_EXPECT(near(got, rows[i].want, rows[i].tolerance));
    }
}

TP_TEST(functions_of_two_arguments)
{
    static const struct { const char *name; double (*f)(double, double), x, y, want, tolerance; } rows[] = {
        { "polygamma", tp_polygamma, 1, 0.25, 17.1973291545071107, 1e-13 },
        { "polygamma", tp_polygamma, 1, -1.5, 9.37924664498912375, 1e-13 },
        { "polygamma", tp_polygamma, 1, 7.5, 0.1426158966967038, 1e-13 },
        { "polygamma", tp_polygamma, 2, 0.5, -16.82879664423432, 1e-13 },
        { "polygamma", tp_polygamma, 3, -2.25, 1558.45502318871434, 1e-13 },
        { "polygamma", tp_polygamma, 5, 30, 1.07269949361616239e-6, 1e-13 },
        { "zeta", tp_zeta, 2, 1, 1.64493406684822644, 1e-14 },
        { "zeta", tp_zeta, 2.5, 0.5, 6.24711063456881149, 1e-14 },
        { "zeta", tp_zeta, 1.01, 3, 99.0813970907782657, 1e-14 },
        { "zeta", tp_zeta, 30, 0.1, 9.99999999999998335e+29, 1e-14 },
        { "zeta", tp_zeta, 3, 100, 0.0000505024999166749985, 1e-14 },
        { "igamma", tp_igamma, 0.5, 0.25, 0.520499877813046538, 1e-13 },
        { "igamma", tp_igamma, 2, 3, 0.800851726528544228, 1e-13 },
        { "igamma", tp_igamma, 30, 28, 0.377389694314397636, 1e-13 },
        { "igamma", tp_igamma, 1000, 1001, 0.516811452929786221, 1e-13 },
        { "igamma", tp_igamma, 1000000.0, 999000, 0.158655213574303652, 1e-13 },
        { "igamma", tp_igamma, 0.01, 10, 0.999999957182950226, 1e-13 },
        { "igammac", tp_igammac, 0.5, 0.25, 0.479500122186953462, 1e-12 },
        { "igammac", tp_igammac, 2, 30, 2.90086312034045413e-12, 1e-12 },
        { "igammac", tp_igammac, 30, 60, 6.87626496873209669e-6, 1e-12 },
        { "igammac", tp_igammac, 1000, 1100, 0.00105932325392997735, 1e-12 },
        { "igammac", tp_igammac, 0.01, 10, 4.28170497740993888e-8, 1e-12 },
        { "mvlgamma", tp_mvlgamma, 2.5, 3, 1.8809954616117742, 1e-14 },
        { "mvlgamma", tp_mvlgamma, 30, 5, 345.216227914975539, 1e-14 },
        { "chebyshev_t", tp_chebyshev_t, 0.3, 5, 0.998879999999999997, 1e-13 },
        { "chebyshev_t", tp_chebyshev_t, 0.3, 40, 0.929159188651799107, 1e-13 },
        { "chebyshev_t", tp_chebyshev_t, 1.5, 20, 114413063.5, 1e-13 },
        { "chebyshev_t", tp_chebyshev_t, 1, 100, 1.0, 1e-13 },
        { "chebyshev_u", tp_chebyshev_u, 0.3, 5, 1.01376000000000001, 1e-13 },
        { "chebyshev_u", tp_chebyshev_u, 0.3, 40, 1.04541812753985937, 1e-13 },
        { "chebyshev_u", tp_chebyshev_u, 1.5, 20, 267914296.0, 1e-13 },
        { "chebyshev_u", tp_chebyshev_u, 1, 100, 101.0, 1e-13 },
        { "chebyshev_u", tp_chebyshev_u, -1, 101, -102.0, 1e-13 },
        { "chebyshev_v", tp_chebyshev_v, 0.3, 5, 0.964159999999999954, 1e-13 },
        { "chebyshev_v", tp_chebyshev_v, 0.3, 40, 0.657888331246325149, 1e-13 },
        { "chebyshev_v", tp_chebyshev_v, -0.9, 7, 1.06785279999999846, 1e-13 },
        { "chebyshev_w", tp_chebyshev_w, 0.3, 5, 1.06336000000000008, 1e-13 },
        { "chebyshev_w", tp_chebyshev_w, 0.3, 40, 1.43294792383339359, 1e-13 },
        { "chebyshev_w", tp_chebyshev_w, -0.9, 7, 0.996300800000000088, 1e-13 },
        { "hermite_h", tp_hermite_h, 0.3, 5, 31.7577599999999991, 1e-13 },
        { "hermite_h", tp_hermite_h, 2, 20, 5080118660096.0, 1e-13 },
        { "hermite_he", tp_hermite_he, 0.3, 5, 4.23242999999999986, 1e-13 },
        { "hermite_he", tp_hermite_he, 2, 20, -1628815029.0, 1e-13 },
        { "laguerre_l", tp_laguerre_l, 0.3, 5, -0.093332749999999973, 1e-12 },
        { "laguerre_l", tp_laguerre_l, 2, 200, 0.00860293159209941643, 1e-12 },
        { "legendre_p", tp_legendre_p, 0.3, 5, 0.345386250000000002, 1e-12 },
        { "legendre_p", tp_legendre_p, 0.3, 200, -0.00975967205442799145, 1e-12 },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        double got = rows[i].f(rows[i].x, rows[i].y);
        if (!near(got, rows[i].want, rows[i].tolerance))
            printf("# %s(%g, %g) is %.17g, not %.17g\n", rows[i].name, rows[i].x, rows[i].y, got, rows[i].want);
        TP_EXPECT(near(got, rows[i].want, rows[i].tolerance));
    }
}

TP_TEST(ends_of_domains)
{
    TP_EXPECT(isnan(tp_digamma(-2)) && tp_digamma(0) == -(double)INFINITY && tp_digamma(INFINITY) == (double)INFINITY);
    TP_EXPECT(tp_zeta(1, 2) == (double)INFINITY && isnan(tp_zeta(0.5, 2)) && tp_zeta(2, -3) == (double)INFINITY && isnan(tp_zeta(2.5, -1.5)));
    TP_EXPECT(tp_erfinv(1) == (double)INFINITY && isnan(tp_erfinv(1.5)) && tp_ndtri(0) == -(double)INFINITY && isnan(tp_ndtri(2)));
    TP_EXPECT(tp_igamma(0, 1) == 1 && tp_igamma(1, 0) == 0 && isnan(tp_igamma(-1, 1)) && tp_igammac(1, INFINITY) == 0);
    TP_EXPECT(tp_bessel_k0(0) == (double)INFINITY && isnan(tp_bessel_k1(-1)) && tp_bessel_k0(INFINITY) == 0 && isnan(tp_bessel_y0(-1)));
    TP_EXPECT(tp_airy_ai(1e300) == 0 && isnan(tp_airy_ai(INFINITY)) && tp_legendre_p(0.5, -1) == 0 && isnan(tp_legendre_p(0.5, 1e18)));
    TP_EXPECT(tp_nextafter_f16(1, 2) == 1 + 0x1p-10 && tp_nextafter_f16(0, -1) == -0x1p-24 && tp_nextafter_bf16(1, 0) == 1 - 0x1p-8);
}

TP_TESTS(TP_SWEPT(functions_of_one_argument), TP_SWEPT(functions_of_two_arguments), TP_SWEPT(ends_of_domains))
