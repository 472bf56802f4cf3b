/* math_test.c - every primitive: the same bits from each instruction set; functions within their error of libm's.
 *
 * TAPER_ERRORS=1 prints the errors measured. */
#include <math.h>

#include "base/test.h"
#include "tile/set.h"

enum { COUNT = 4096 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ *state >> 29;
}

static const char *const names[] = {
#define TP_PRIM(name, count, types) #name,
#include "tile/prims.def"
#undef TP_PRIM
};
static const char *const types[] = {
#define TP_PRIM(name, count, letters) letters,
#include "tile/prims.def"
#undef TP_PRIM
};

/* Elements of a compute type: special values first, then ordinary sizes, then any bits. */
static void fill(void *to, tp_compute compute, uint64_t seed)
{
    static const double special[] = { 0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 88.5, 89, -87.4, -104, 709.5, -745, 1e-40, -1e-40,
                                      1e-310, 5e-324, 1e30, -1e30, 1e300, 31, 32, 33, 63, 64, -31, 12868, 1e6, 1e7, 0.625,
                                      2147483647.0, -2147483648.0, 9.2e18, -9223372036854775808.0 };
    int parts = compute >= TP_COMPUTE_c64 ? 2 : 1;
    bool single = compute == TP_COMPUTE_f32 || compute == TP_COMPUTE_c64;
    for (int i = 0; i < COUNT * parts; i++) {
        uint64_t bits = next_random(&seed);
        double small = (double)(int64_t)bits / 0x1p63 * 20;
        double value = bits % 7 < 3 ? special[bits / 7 % TP_COUNT(special)] : small;
        if (bits % 41 == 0)
            value = bits % 3 == 0 ? (double)NAN : bits % 3 == 1 ? (double)INFINITY : -(double)INFINITY;
        bool any = bits % 7 >= 5;
        if (compute == TP_COMPUTE_i32)
            ((int32_t *)to)[i] = any ? (int32_t)bits : (int32_t)(fabs(value) < 2e9 ? value : value > 0 ? INT32_MAX : INT32_MIN);
        else if (compute == TP_COMPUTE_i64)
            ((int64_t *)to)[i] = any ? (int64_t)bits : (int64_t)(fabs(value) < 9e18 ? value : value > 0 ? INT64_MAX : INT64_MIN);
        else if (single)
            ((uint32_t *)to)[i] = (uint32_t)(bits >> 7), ((float *)to)[i] = any ? ((float *)to)[i] : (float)value;
        else
            ((uint64_t *)to)[i] = bits, ((double *)to)[i] = any ? ((double *)to)[i] : value;
    }
}

static bool same(const void *a, const void *b, tp_compute compute, int i)
{
    int64_t bytes = tp_compute_bytes(compute);
    if (memcmp((const char *)a + i * bytes, (const char *)b + i * bytes, (size_t)bytes) == 0)
        return true;
    int parts = compute >= TP_COMPUTE_c64 ? 2 : 1;
    for (int k = i * parts; k < (i + 1) * parts; k++) {
        if (compute == TP_COMPUTE_f32 || compute == TP_COMPUTE_c64) {
            float x = ((const float *)a)[k], y = ((const float *)b)[k];
            if (memcmp(&x, &y, 4) != 0 && !(isnan(x) && isnan(y)))
                return false;
        } else if (compute == TP_COMPUTE_f64 || compute == TP_COMPUTE_c128) {
            double x = ((const double *)a)[k], y = ((const double *)b)[k];
            if (memcmp(&x, &y, 8) != 0 && !(isnan(x) && isnan(y)))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

static int differences(const void *a, const void *b, tp_compute compute, int64_t n)
{
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad += !same(a, b, compute, i);
    return bad;
}

TP_TEST(every_set_gives_the_same_bits)
{
    static _Alignas(64) char a[COUNT * 16], b[COUNT * 16], c[COUNT * 16], plain[COUNT * 16], other[COUNT * 16];
    for (tp_compute compute = 0; compute < TP_COMPUTE_COUNT; compute++) {
        fill(a, compute, 1), fill(b, compute, 2), fill(c, compute, 3);
        for (int prim = 0; prim < TP_PRIM_COUNT; prim++) {
            if (!tp_tile_has((tp_prim)prim, compute))
                continue;
            tp_tile_set_of(TP_ISA_PLAIN)->step[compute][prim][0](COUNT, plain, a, b, c);
            for (tp_isa isa = TP_ISA_PLAIN; isa < TP_ISA_COUNT; isa++) {
                const tp_tile_set *set = tp_tile_set_of(isa);
                if (!set)
                    continue;
                /* Odd lengths and an odd start: elements must not depend on where in a vector they fall. */
                tp_tile_fn *step = set->step[compute][prim][0];
                int64_t bytes = tp_compute_bytes(compute);
                for (int64_t i = 0, n = 1; i < COUNT; i += n, n = n * 2 + 1) {
                    n = n < COUNT - i ? n : COUNT - i;
                    step(n, other + i * bytes, a + i * bytes, b + i * bytes, c + i * bytes);
                }
                int bad = differences(plain, other, compute, COUNT);
                if (bad)
                    printf("# %s of compute type %d, instruction set %d: %d differences\n", names[prim], compute, isa, bad);
                TP_EXPECT(bad == 0);
            }
        }
    }
}

/* The one-element forms against the vector form with the element spread out. */
TP_TEST(one_element_forms_agree)
{
    static _Alignas(64) char a[COUNT * 16], b[COUNT * 16], spread[COUNT * 16], want[COUNT * 16], got[COUNT * 16];
    for (tp_compute compute = 0; compute < TP_COMPUTE_COUNT; compute++) {
        fill(a, compute, 4), fill(b, compute, 5);
        size_t bytes = (size_t)tp_compute_bytes(compute);
        for (int prim = 0; prim < TP_PRIM_COUNT; prim++)
            for (tp_isa isa = TP_ISA_PLAIN; isa < TP_ISA_COUNT; isa++) {
                const tp_tile_set *set = tp_tile_set_of(isa);
                if (!set || !set->step[compute][prim][TP_FORM_RIGHT_ONE])
                    continue;
                for (int which = 0; which < 20; which++) {
                    for (int i = 0; i < 100; i++)
                        memcpy(spread + (size_t)i * bytes, b + (size_t)which * bytes, bytes);
                    set->step[compute][prim][TP_FORM_VECTORS](100, want, a, spread, NULL);
                    set->step[compute][prim][TP_FORM_RIGHT_ONE](100, got, a, spread, NULL);
                    TP_EXPECT(differences(want, got, compute, 100) == 0);
                    set->step[compute][prim][TP_FORM_VECTORS](100, want, spread, a, NULL);
                    set->step[compute][prim][TP_FORM_LEFT_ONE](100, got, spread, a, NULL);
                    TP_EXPECT(differences(want, got, compute, 100) == 0);
                }
            }
    }
}

/* What goes over a row in one pass gives what its steps give. */
TP_TEST(rows_are_their_steps)
{
    static float x[COUNT], w[COUNT], step[COUNT], got[COUNT];
    const float top = 3, mean = 0.25f, scale = 1.7f;
    fill(x, TP_COMPUTE_f32, 5);
    fill(w, TP_COMPUTE_f32, 6);
    for (tp_isa isa = 0; isa < TP_ISA_COUNT && tp_tile_set_of(isa); isa++) {
        const tp_tile_set *set = tp_tile_set_of(isa);
        const tp_tile_forms *steps = set->step[TP_COMPUTE_f32];
        steps[TP_PRIM_minimum][TP_FORM_RIGHT_ONE](COUNT, step, x, &top, NULL);
        set->exponentials_f32(COUNT, top, step, got);
        steps[TP_PRIM_sub][TP_FORM_RIGHT_ONE](COUNT, step, step, &top, NULL);
        steps[TP_PRIM_exp][TP_FORM_VECTORS](COUNT, step, step, NULL, NULL);
        for (int i = 0; i < COUNT; i++)
            TP_EXPECT(same(got, step, TP_COMPUTE_f32, i));
        set->normalise_f32(COUNT, mean, scale, x, w, x, got);
        steps[TP_PRIM_sub][TP_FORM_RIGHT_ONE](COUNT, step, x, &mean, NULL);
        steps[TP_PRIM_mul][TP_FORM_RIGHT_ONE](COUNT, step, step, &scale, NULL);
        steps[TP_PRIM_mul][TP_FORM_VECTORS](COUNT, step, step, w, NULL);
        steps[TP_PRIM_add][TP_FORM_VECTORS](COUNT, step, step, x, NULL);
        for (int i = 0; i < COUNT; i++)
            TP_EXPECT(same(got, step, TP_COMPUTE_f32, i));
    }
}

TP_TEST(types_have_the_steps_they_claim)
{
    static const char letters[] = { 'r', 'r', 'i', 'i', 'c', 'c' };
    for (int prim = 0; prim < TP_PRIM_COUNT; prim++)
        for (int compute = 0; compute < TP_COMPUTE_COUNT; compute++) {
            bool claimed = strchr(types[prim], letters[compute]) != NULL;
            if (claimed != tp_tile_has((tp_prim)prim, (tp_compute)compute))
                printf("# %s of compute type %d\n", names[prim], compute);
            TP_EXPECT(claimed == tp_tile_has((tp_prim)prim, (tp_compute)compute));
        }
}

TP_TEST(conversions_are_those_of_scalars)
{
    static _Alignas(64) char a[COUNT * 16], got[COUNT * 16], want[16];
    for (tp_isa isa = TP_ISA_PLAIN; isa < TP_ISA_COUNT; isa++) {
        const tp_tile_set *set = tp_tile_set_of(isa);
        for (int d = 0; set && d < TP_DTYPE_COUNT; d++)
            for (int c = 0; c < TP_COMPUTE_COUNT; c++) {
                tp_dtype to[2] = { tp_compute_dtype(c), (tp_dtype)d }, from[2] = { (tp_dtype)d, tp_compute_dtype(c) };
                for (int store = 0; store < 2; store++) {
                    fill(a, store ? (tp_compute)c : TP_COMPUTE_i64, 6);
                    if (!store && tp_dtype_bytes((tp_dtype)d) >= 4 && tp_dtype_is_inexact((tp_dtype)d))
                        fill(a, tp_tile_compute((tp_dtype)d), 7);
                    (store ? set->store[c][d] : set->load[d][c])(COUNT, got, a);
                    int bad = 0;
                    for (size_t i = 0; i < COUNT; i++) {
                        const char *element = a + i * tp_dtype_bytes(from[store]);
                        tp_scalar s = tp_scalar_read(element, from[store]);
                        size_t bytes = tp_dtype_bytes(to[store]);
                        tp_scalar_write(s, want, to[store]);
                        tp_scalar x = tp_scalar_read(want, to[store]), y = tp_scalar_read(got + i * bytes, to[store]);
                        /* i64 to f32 rounds once here, through f64 there */
                        bool twice = s.kind <= TP_KIND_INTEGER && x.kind >= TP_KIND_FLOAT;
                        bool nan = x.kind == TP_KIND_FLOAT && isnan(x.f) && isnan(y.f);
                        bad += !nan && !twice && x.kind != TP_KIND_COMPLEX && memcmp(want, got + i * bytes, bytes) != 0;
                        bad += twice && x.kind == TP_KIND_FLOAT && fabs(x.f - y.f) > fabs(x.f) * 0x1p-7;
                    }
                    if (bad)
                        printf("# %s %s compute %d, set %d: %d\n", store ? "store" : "load", tp_dtypes[d].name, c, isa, bad);
                    TP_EXPECT(bad == 0);
                }
            }
    }
}

TP_TEST(halves_are_exact)
{
    static uint16_t h[65536], back[65536];
    static float f[65536];
    for (int i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    for (tp_isa isa = TP_ISA_PLAIN; isa < TP_ISA_COUNT; isa++) {
        const tp_tile_set *set = tp_tile_set_of(isa);
        if (!set)
            continue;
        int bad = 0;
        set->load[TP_f16][TP_COMPUTE_f32](65536, f, h);
        for (int i = 0; i < 65536; i++) {
            float want = tp_half_to_float(h[i]);
            bad += memcmp(&want, &f[i], 4) != 0;
        }
        set->store[TP_COMPUTE_f32][TP_f16](65536, back, f);
        for (int i = 0; i < 65536; i++)
            bad += back[i] != tp_float_to_half(f[i]);
        TP_EXPECT(bad == 0);
    }
}

typedef long double reference(long double x);
static long double ref_sigmoid(long double x) { return 1 / (1 + expl(-x)); }

typedef struct row {
    tp_prim     prim;
    reference  *f;
    double      f32, f64;       /* most ulp allowed; 0: not measured */
} row;

static const row rows[] = {
    { TP_PRIM_exp, expl, 1.0, 1.1 },          { TP_PRIM_log, logl, 1.0, 1.0 },
    { TP_PRIM_tanh, tanhl, 1.5, 1.5 },        { TP_PRIM_erf, erfl, 1.5, 1.0 },
    { TP_PRIM_sigmoid, ref_sigmoid, 1.5, 1.5 },
    { TP_PRIM_sin, sinl, 0.6, 1.0 },          { TP_PRIM_cos, cosl, 0.6, 1.0 },
    { TP_PRIM_tan, tanl, 1.0, 1.5 },          { TP_PRIM_exp2, exp2l, 1.0, 1.0 },
    { TP_PRIM_expm1, expm1l, 0.51, 1.5 },     { TP_PRIM_log1p, log1pl, 0.51, 1.5 },
    { TP_PRIM_log2, log2l, 0.51, 1.5 },       { TP_PRIM_log10, log10l, 0.51, 2.0 },
    { TP_PRIM_sinh, sinhl, 0.51, 2.5 },       { TP_PRIM_cosh, coshl, 0.51, 2.0 },
    { TP_PRIM_asinh, asinhl, 0.51, 2.5 },     { TP_PRIM_acosh, acoshl, 0.51, 2.5 },
    { TP_PRIM_atanh, atanhl, 0.51, 2.5 },     { TP_PRIM_asin, asinl, 1.5, 1.5 },
    { TP_PRIM_acos, acosl, 1.5, 1.5 },        { TP_PRIM_atan, atanl, 1.5, 1.5 },
};

static double error_of(long double want, double got, bool single)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : 1e9;
    double rounded = single ? (double)(float)want : (double)want;
    if (isinf(rounded) || isinf(got))
        return rounded == got ? 0 : 1e9;
    if (want == 0)
        return got == 0 ? 0 : 1e9;
    int exponent;
    (void)frexpl(want, &exponent);
    int least = single ? -125 : -1021;
    exponent = exponent < least ? least : exponent;
    return (double)fabsl(ldexpl((long double)got - want, (single ? 24 : 53) - exponent));
}

static double error_f32(const row *r, float *where)
{
    static float x[COUNT], y[COUNT];
    double worst = 0;
    tp_tile_fn *step = tp_the_runtime.tile->step[TP_COMPUTE_f32][r->prim][0];
    for (uint64_t bits = 0; bits < 1ull << 32;) {
        for (int i = 0; i < COUNT; i++, bits += 6151) {
            uint32_t b = (uint32_t)bits;
            memcpy(&x[i], &b, 4);
        }
        step(COUNT, y, x, NULL, NULL);
        for (int i = 0; i < COUNT; i++) {
            double e = error_of(r->f((long double)x[i]), (double)y[i], true);
            if (e > worst)
                worst = e, *where = x[i];
        }
    }
    return worst;
}

static double error_f64(const row *r, double *where)
{
    static double x[COUNT], y[COUNT];
    double worst = 0;
    uint64_t seed = 11;
    tp_tile_fn *step = tp_the_runtime.tile->step[TP_COMPUTE_f64][r->prim][0];
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < COUNT; i++) {
            uint64_t bits = next_random(&seed);
            x[i] = (double)(int64_t)bits / 0x1p63 * (i % 4 == 0 ? 1 : i % 4 == 1 ? 40 : 750);
            if (i % 4 == 3)
                bits = next_random(&seed), memcpy(&x[i], &bits, 8);
        }
        step(COUNT, y, x, NULL, NULL);
        for (int i = 0; i < COUNT; i++) {
            double e = error_of(r->f((long double)x[i]), y[i], false);
            if (e > worst)
                worst = e, *where = x[i];
        }
    }
    return worst;
}

TP_TEST(functions_are_accurate)
{
    for (size_t k = 0; k < TP_COUNT(rows); k++) {
        float at = 0;
        double at_f64 = 0, e = error_f32(&rows[k], &at), e_f64 = error_f64(&rows[k], &at_f64);
        bool ok = e <= rows[k].f32 && e_f64 <= rows[k].f64;
        if (!ok || getenv("TAPER_ERRORS"))
            printf("# %-8s f32 %.3f ulp at %.9g, f64 %.3f ulp at %.17g\n", names[rows[k].prim], e, (double)at, e_f64, at_f64);
        TP_EXPECT(ok);
    }
}

/* The negative side of gelu is a small difference: held to half an ulp of 1, times x, like 1 + erf would be. */
TP_TEST(gelu_is_accurate)
{
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 256.0f;
    tp_the_runtime.tile->step[TP_COMPUTE_f32][TP_PRIM_gelu][0](COUNT, y, x, NULL, NULL);
    double worst = 0;
    for (int i = 0; i < COUNT; i++) {
        double d = (double)x[i], want = 0.5 * d * erfc(-d * sqrt(0.5));
        double error = fabs((double)y[i] - want) / (fabs(want) * 2 * 0x1p-23 + fabs(d) * 0x1p-24);
        worst = error > worst ? error : worst;
    }
    if (getenv("TAPER_ERRORS"))
        printf("# gelu: %.3f of what is allowed\n", worst);
    TP_EXPECT(worst <= 1);
    float special[] = { -INFINITY, INFINITY, NAN, 100, -100 };
    tp_the_runtime.tile->step[TP_COMPUTE_f32][TP_PRIM_gelu][0](5, y, special, NULL, NULL);
    TP_EXPECT(isnan(y[0]) && y[1] == INFINITY && isnan(y[2]) && y[3] == 100 && y[4] == 0);
}

TP_TESTS(TP_SWEPT(gelu_is_accurate), TP_SWEPT(every_set_gives_the_same_bits), TP_SWEPT(one_element_forms_agree), TP_SWEPT(rows_are_their_steps),
         TP_SWEPT(types_have_the_steps_they_claim), TP_SWEPT(conversions_are_those_of_scalars),
         TP_SWEPT(halves_are_exact), TP_SWEPT(functions_are_accurate))
