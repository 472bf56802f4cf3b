/* element.c - combining elements, one function for each type and way. */
#include "kernels/element.h"

/* Types whose elements combine as themselves, in arithmetic of A (unsigned integers wrap where signed ones must not). */
#define NATIVE_TYPES(X)   \
    X(u8, uint8_t, uint8_t) X(i8, int8_t, uint8_t) X(i16, int16_t, uint16_t) X(i32, int32_t, uint32_t) \
    X(i64, int64_t, uint64_t) X(f32, float, float) X(f64, double, double)

#define LOOP(T, ...)                                                                                       \
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                                    \
        T a, b;                                                                                            \
        memcpy(&a, to, sizeof a);                                                                          \
        memcpy(&b, from, sizeof b);                                                                        \
        __VA_ARGS__;                                                                                       \
        memcpy(to, &a, sizeof a);                                                                          \
    }
#define FUNCTION(name, T, ...)                                                                             \
    static void name(int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step)            \
    {                                                                                                      \
        LOOP(T, __VA_ARGS__)                                                                               \
    }

#define NATIVE(d, T, A)                                     \
    FUNCTION(add_##d, T, a = (T)((A)a + (A)b))              \
    FUNCTION(mul_##d, T, a = (T)((A)a * (A)b))              \
    FUNCTION(max_##d, T, a = b > a || b != b ? b : a)       \
    FUNCTION(min_##d, T, a = b < a || b != b ? b : a)
NATIVE_TYPES(NATIVE)

#define HALF(d, WIDEN, ROUND)                                                                              \
    FUNCTION(add_##d, uint16_t, a = ROUND(WIDEN(a) + WIDEN(b)))                                            \
    FUNCTION(mul_##d, uint16_t, a = ROUND(WIDEN(a) * WIDEN(b)))                                            \
    FUNCTION(max_##d, uint16_t, float x = WIDEN(a); float y = WIDEN(b); a = y > x || y != y ? b : a)       \
    FUNCTION(min_##d, uint16_t, float x = WIDEN(a); float y = WIDEN(b); a = y < x || y != y ? b : a)
HALF(f16, tp_half_to_float, tp_float_to_half)
HALF(bf16, tp_bfloat_to_float, tp_float_to_bfloat)

FUNCTION(add_b8, uint8_t, a = a | b)
FUNCTION(mul_b8, uint8_t, a = a & b)

#define COMPLEX(d, T)                                                                                      \
    FUNCTION(add_##d, T, a.re += b.re; a.im += b.im)                                                       \
    FUNCTION(mul_##d, T, T c = { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re }; a = c)
COMPLEX(c64, tp_c64)
COMPLEX(c128, tp_c128)

tp_combine_fn *tp_combine_of(tp_combine how, tp_dtype d)
{
#define ROW(d, T, A) [TP_##d] = { add_##d, mul_##d, max_##d, min_##d },
    static tp_combine_fn *const table[TP_DTYPE_COUNT][TP_COMBINE_COUNT] = {
        NATIVE_TYPES(ROW) ROW(f16, uint16_t, float) ROW(bf16, uint16_t, float)
        [TP_b8] = { add_b8, mul_b8, add_b8, mul_b8 },
        [TP_c64] = { add_c64, mul_c64 },
        [TP_c128] = { add_c128, mul_c128 },
    };
#undef ROW
    return table[d][how];
}
