/* real.h - the steps of f32 and f64; included with T and the type's functions (math_f32.h, math_f64.h) defined.
 *
 * UNARY, BINARY (with its one-element forms), CALLED (binary through a libm call, no such forms) and TERNARY. */
#define REAL_STEPS(UNARY, GUARDED, BINARY, CALLED, TERNARY)                            \
    BINARY(add, a + b)                                                              \
    BINARY(sub, a - b)                                                              \
    BINARY(mul, a * b)                                                              \
    BINARY(div, a / b)                                                              \
    CALLED(floor_div, real_floor_div(a, b))                                         \
    BINARY(trunc_div, LIBM(trunc)(a / b))                                           \
    CALLED(mod, real_mod(a, b))                                                     \
    CALLED(fmod, LIBM(fmod)(a, b))                                                  \
    TERNARY(fma, LIBM(fma)(a, b, c))                                                \
    UNARY(neg, -a)                                                                  \
    UNARY(abs, LIBM(fabs)(a))                                                       \
    UNARY(sign, (T)(a > 0) - (T)(a < 0))                                            \
    UNARY(reciprocal, 1 / a)                                                        \
    UNARY(square, a * a)                                                            \
    BINARY(maximum, (a > b) | (a != a) ? a : b)                                     \
    BINARY(minimum, (a < b) | (a != a) ? a : b)                                     \
    BINARY(fmax, (a >= b) | (b != b) ? a : b)                                       \
    BINARY(fmin, (a <= b) | (b != b) ? a : b)                                       \
    CALLED(pow, LIBM(pow)(a, b))                                                    \
    CALLED(atan2, LIBM(atan2)(a, b))                                                \
    CALLED(hypot, LIBM(hypot)(a, b))                                                \
    BINARY(copysign, LIBM(copysign)(a, b))                                          \
    CALLED(nextafter, LIBM(nextafter)(a, b))                                        \
    BINARY(eq, (T)(a == b))                                                         \
    BINARY(ne, (T)(a != b))                                                         \
    BINARY(lt, (T)(a < b))                                                          \
    BINARY(le, (T)(a <= b))                                                         \
    BINARY(gt, (T)(a > b))                                                          \
    BINARY(ge, (T)(a >= b))                                                         \
    TERNARY(where, a != 0 ? b : c)                                                  \
    UNARY(logical_not, (T)(a == 0))                                                 \
    BINARY(logical_and, (T)((a != 0) & (b != 0)))                                   \
    BINARY(logical_or, (T)((a != 0) | (b != 0)))                                    \
    BINARY(logical_xor, (T)((a != 0) ^ (b != 0)))                                   \
    UNARY(isnan, (T)(a != a))                                                       \
    UNARY(isinf, (T)(LIBM(fabs)(a) == (T)INFINITY))                                 \
    UNARY(isfinite, (T)(LIBM(fabs)(a) < (T)INFINITY))                               \
    UNARY(signbit, (T)(LIBM(copysign)(1, a) < 0))                                   \
    UNARY(floor, LIBM(floor)(a))                                                    \
    UNARY(ceil, LIBM(ceil)(a))                                                      \
    UNARY(trunc, LIBM(trunc)(a))                                                    \
    UNARY(round, LIBM(rint)(a))                                                     \
    UNARY(frac, a - LIBM(trunc)(a))                                                 \
    UNARY(sqrt, LIBM(sqrt)(a))                                                      \
    UNARY(rsqrt, 1 / LIBM(sqrt)(a))                                                 \
    UNARY(relu, a < 0 ? 0 : a)                                                      \
    REAL_FUNCTIONS(UNARY, GUARDED)

/* Python's floor division of floats: the exact quotient rounded down, computed from the remainder. */
static inline T real_floor_div(T a, T b)
{
    if (b == 0)
        return a / b;
    T remainder = LIBM(fmod)(a, b);
    T quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0))
        quotient -= 1;
    if (quotient == 0)
        return LIBM(copysign)(0, a / b);
    T whole = LIBM(floor)(quotient);
    return quotient - whole > (T)0.5 ? whole + 1 : whole;
}

static inline T real_mod(T a, T b)
{
    T remainder = LIBM(fmod)(a, b);
    return remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

/* A function whose fast form holds for |a| <= SIN_LIMIT: runs of elements that all fit take it as vectors, the others go
 * one by one. Elements that fit give the same bits either way. */
#define GUARDED_FUNCTION(name, fast, slow)                                                                  \
    static void name##_step(int64_t n, void *to, const void *pa, const void *pb, const void *pc)            \
    {                                                                                                       \
        enum { RUN = 256 };                                                                                 \
        T *o = to;                                                                                          \
        const T *x = pa;                                                                                    \
        (void)pb, (void)pc;                                                                                 \
        for (; n > 0; n -= RUN, x += RUN, o += RUN) {                                                       \
            int64_t run = n < RUN ? n : RUN;                                                                \
            int misfits = 0;                                                                                \
            for (int64_t i = 0; i < run; i++)                                                               \
                misfits |= !(LIBM(fabs)(x[i]) <= SIN_LIMIT);                                                \
            if (!misfits) {                                                                                 \
                EACH(run) {                                                                                 \
                    T a = x[i];                                                                             \
                    o[i] = (fast);                                                                          \
                }                                                                                           \
                continue;                                                                                   \
            }                                                                                               \
            for (int64_t i = 0; i < run; i++) {                                                             \
                T a = x[i];                                                                                 \
                o[i] = LIBM(fabs)(a) <= SIN_LIMIT ? (fast) : (slow);                                        \
            }                                                                                               \
        }                                                                                                   \
    }
#define GUARDED_ENTRY(name, fast, slow) [TP_PRIM_##name] = { name##_step, NULL, NULL },

REAL_STEPS(UNARY_FUNCTION, GUARDED_FUNCTION, BINARY_FUNCTION, CALLED_FUNCTION, TERNARY_FUNCTION)

const tp_tile_forms REAL_TABLE[TP_PRIM_COUNT] = {
    REAL_STEPS(UNARY_ENTRY, GUARDED_ENTRY, BINARY_ENTRY, CALLED_ENTRY, TERNARY_ENTRY)
#define TP_PRIM(name, operands, types)
#define TP_SPECIAL(name, operands) [TP_PRIM_##name] = { SPECIAL(name), NULL, NULL },
#include "tile/prims.def"
#undef TP_PRIM
};
