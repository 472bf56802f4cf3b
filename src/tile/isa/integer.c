/* integer.c - the steps of i32 and i64: arithmetic wraps, and nothing traps.
 *
 * The file includes itself, once for each type. A zero divisor gives 0 (callers report it), the least integer divided
 * by -1 is itself. Shifts by the width or more, or by less than 0, leave nothing but the sign of a right shift. */
#ifndef T
#include "tile/isa/isa.h"

#define INTEGER_STEPS(UNARY, BINARY, CALLED, TERNARY)                               \
    BINARY(add, (T)((U)a + (U)b))                                                   \
    BINARY(sub, (T)((U)a - (U)b))                                                   \
    BINARY(mul, (T)((U)a * (U)b))                                                   \
    CALLED(floor_div, NAME(floor_div)(a, b))                                        \
    CALLED(trunc_div, NAME(trunc_div)(a, b))                                        \
    CALLED(mod, NAME(mod)(a, b))                                                    \
    CALLED(fmod, NAME(fmod)(a, b))                                                  \
    UNARY(neg, (T)(0 - (U)a))                                                       \
    UNARY(abs, a < 0 ? (T)(0 - (U)a) : a)                                           \
    UNARY(sign, (T)((a > 0) - (a < 0)))                                             \
    UNARY(square, (T)((U)a * (U)a))                                                 \
    BINARY(maximum, a > b ? a : b)                                                  \
    BINARY(minimum, a < b ? a : b)                                                  \
    BINARY(fmax, a > b ? a : b)                                                     \
    BINARY(fmin, a < b ? a : b)                                                     \
    CALLED(pow, NAME(pow)(a, b))                                                    \
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
    UNARY(signbit, (T)(a < 0))                                                      \
    BINARY(bit_and, a & b)                                                          \
    BINARY(bit_or, a | b)                                                           \
    BINARY(bit_xor, a ^ b)                                                          \
    UNARY(bit_not, ~a)                                                              \
    BINARY(shift_left, (U)b < WIDTH ? (T)((U)a << ((U)b & (WIDTH - 1))) : 0)        \
    BINARY(shift_right, a >> ((U)b < WIDTH ? b : WIDTH - 1))                        \
    CALLED(gcd, NAME(gcd)(a, b))                                                    \
    UNARY(relu, a < 0 ? 0 : a)

#define T int32_t
#define U uint32_t
#define WIDTH 32
#define NAME(name) i32_##name
#define INTEGER_TABLE TP_ISA(tp_tile_steps_i32)
#define UNARY_FN(name, e) UNARY_FUNCTION(i32_##name, e)
#define BINARY_FN(name, e) BINARY_FUNCTION(i32_##name, e)
#define CALLED_FN(name, e) CALLED_FUNCTION(i32_##name, e)
#define TERNARY_FN(name, e) TERNARY_FUNCTION(i32_##name, e)
#define ONE_ENTRY(name, e) [TP_PRIM_##name] = { i32_##name##_step, NULL, NULL },
#define THREE_ENTRY(name, e) [TP_PRIM_##name] = { i32_##name##_step, i32_##name##_right_one, i32_##name##_left_one },
#include "tile/isa/integer.c"

#define T int64_t
#define U uint64_t
#define WIDTH 64
#define NAME(name) i64_##name
#define INTEGER_TABLE TP_ISA(tp_tile_steps_i64)
#define UNARY_FN(name, e) UNARY_FUNCTION(i64_##name, e)
#define BINARY_FN(name, e) BINARY_FUNCTION(i64_##name, e)
#define CALLED_FN(name, e) CALLED_FUNCTION(i64_##name, e)
#define TERNARY_FN(name, e) TERNARY_FUNCTION(i64_##name, e)
#define ONE_ENTRY(name, e) [TP_PRIM_##name] = { i64_##name##_step, NULL, NULL },
#define THREE_ENTRY(name, e) [TP_PRIM_##name] = { i64_##name##_step, i64_##name##_right_one, i64_##name##_left_one },
#include "tile/isa/integer.c"

#else /* T */

static inline T NAME(trunc_div)(T a, T b)
{
    return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b;
}

static inline T NAME(fmod)(T a, T b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline T NAME(floor_div)(T a, T b)
{
    T remainder = NAME(fmod)(a, b);
    return NAME(trunc_div)(a, b) - (remainder != 0 && (remainder < 0) != (b < 0));
}

static inline T NAME(mod)(T a, T b)
{
    T remainder = NAME(fmod)(a, b);
    return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

static inline T NAME(gcd)(T a, T b)
{
    U x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b;
    while (y) {
        U rest = x % y;
        x = y;
        y = rest;
    }
    return (T)x;
}

/* A negative exponent leaves a whole number only of 1 and -1. */
static inline T NAME(pow)(T base, T exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    U power = 1, square = (U)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1)
            power *= square;
    return (T)power;
}

INTEGER_STEPS(UNARY_FN, BINARY_FN, CALLED_FN, TERNARY_FN)

extern const tp_tile_forms INTEGER_TABLE[TP_PRIM_COUNT];
const tp_tile_forms INTEGER_TABLE[TP_PRIM_COUNT] = {
    INTEGER_STEPS(ONE_ENTRY, THREE_ENTRY, ONE_ENTRY, ONE_ENTRY)
};

#undef T
#undef U
#undef WIDTH
#undef NAME
#undef INTEGER_TABLE
#undef UNARY_FN
#undef BINARY_FN
#undef CALLED_FN
#undef TERNARY_FN
#undef ONE_ENTRY
#undef THREE_ENTRY
#endif
