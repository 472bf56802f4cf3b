/* special.c - special functions as steps: one loop an element type for each, for every instruction set the same. */
#include "tile/special.h"

#include "tile/set.h"

static void each_f32(int64_t n, float *to, const float *a, const float *b, double (*one)(double), double (*two)(double, double))
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(one ? one(a[i]) : two(a[i], b[i]));
}

static void each_f64(int64_t n, double *to, const double *a, const double *b, double (*one)(double), double (*two)(double, double))
{
    for (int64_t i = 0; i < n; i++)
        to[i] = one ? one(a[i]) : two(a[i], b[i]);
}

/* Neighbours in a 16-bit type have neighbouring bits; those of zero are the least numbers of either sign. */
static double neighbour(double a, double b, uint16_t (*narrow)(float), float (*widen)(uint16_t))
{
    if (a == b || a != a || b != b)
        return a != a ? a : b;
    uint16_t bits = narrow((float)a);
    if (a == 0)
        return widen(b < 0 ? 0x8001 : 1);
    return widen((uint16_t)((b > a) == (a > 0) ? bits + 1 : bits - 1));
}

double tp_nextafter_f16(double a, double b)
{
    return neighbour(a, b, tp_float_to_half, tp_half_to_float);
}

static float widen_bfloat(uint16_t bits)
{
    return tp_bfloat_to_float(bits);
}

static uint16_t narrow_bfloat(float x)
{
    return tp_float_to_bfloat(x);
}

double tp_nextafter_bf16(double a, double b)
{
    return neighbour(a, b, narrow_bfloat, widen_bfloat);
}

#define FUNCTIONS_1(f) f, NULL
#define FUNCTIONS_2(f) NULL, f
#define TP_PRIM(name, operands, types)
#define TP_SPECIAL(name, operands)                                                                              \
    void tp_special_##name##_f32(int64_t n, void *to, const void *a, const void *b, const void *c)              \
    {                                                                                                           \
        (void)c;                                                                                                \
        each_f32(n, to, a, b, FUNCTIONS_##operands(tp_##name));                                                 \
    }                                                                                                           \
    void tp_special_##name##_f64(int64_t n, void *to, const void *a, const void *b, const void *c)              \
    {                                                                                                           \
        (void)c;                                                                                                \
        each_f64(n, to, a, b, FUNCTIONS_##operands(tp_##name));                                                 \
    }
#include "tile/prims.def"
#undef TP_PRIM
