/* isa.h - how the files of this folder are written once and compiled for each instruction set.
 *
 * Steps are scalar text that the compiler turns into vectors: branches are choices (?:), never jumps, and contraction is
 * off, so each element goes through the same operations whatever the width. TP_ISA(name) is a name of this copy.
 * ivdep: an output is the same memory as an input or does not touch it, so no element waits for another. */
#ifndef TP_TILE_ISA_H
#define TP_TILE_ISA_H

#include "tile/set.h"

#define TP_JOIN_(a, b) a##_##b
#define TP_JOIN(a, b) TP_JOIN_(a, b)
#define TP_ISA(name) TP_JOIN(name, TP_ISA_NAME)

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

#define EACH(n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)

/* Functions and table entries of a step, from one line in a list: STEP(name, expression over a, b, c). */
#define UNARY_FUNCTION(name, expression)                                                                     \
    static void name##_step(int64_t n, void *to, const void *pa, const void *pb, const void *pc)             \
    {                                                                                                        \
        T *o = to;                                                                                           \
        const T *x = pa;                                                                                     \
        (void)pb, (void)pc;                                                                                  \
        EACH(n) {                                                                                            \
            T a = x[i];                                                                                      \
            o[i] = (expression);                                                                             \
        }                                                                                                    \
    }
#define BINARY_FORM_(function, element_a, element_b, expression)                                             \
    static void function(int64_t n, void *to, const void *pa, const void *pb, const void *pc)                \
    {                                                                                                        \
        T *o = to;                                                                                           \
        const T *x = pa, *y = pb;                                                                            \
        T x0 = *x, y0 = *y;                                                                                  \
        (void)pc, (void)x0, (void)y0;                                                                        \
        _Pragma("GCC unroll 4") EACH(n) {                                                                                            \
            T a = element_a, b = element_b;                                                                  \
            o[i] = (expression);                                                                             \
        }                                                                                                    \
    }
#define BINARY_FUNCTION(name, expression)                                                                    \
    BINARY_FORM_(name##_step, x[i], y[i], expression)                                                        \
    BINARY_FORM_(name##_right_one, x[i], y0, expression)                                                     \
    BINARY_FORM_(name##_left_one, x0, y[i], expression)
#define CALLED_FUNCTION(name, expression) BINARY_FORM_(name##_step, x[i], y[i], expression)
#define TERNARY_FUNCTION(name, expression)                                                                   \
    static void name##_step(int64_t n, void *to, const void *pa, const void *pb, const void *pc)             \
    {                                                                                                        \
        T *o = to;                                                                                           \
        const T *x = pa, *y = pb, *z = pc;                                                                   \
        EACH(n) {                                                                                            \
            T a = x[i], b = y[i], c = z[i];                                                                  \
            o[i] = (expression);                                                                             \
        }                                                                                                    \
    }
#define UNARY_ENTRY(name, expression) [TP_PRIM_##name] = { name##_step, NULL, NULL },
#define BINARY_ENTRY(name, expression) [TP_PRIM_##name] = { name##_step, name##_right_one, name##_left_one },
#define CALLED_ENTRY(name, expression) [TP_PRIM_##name] = { name##_step, NULL, NULL },
#define TERNARY_ENTRY(name, expression) [TP_PRIM_##name] = { name##_step, NULL, NULL },

#endif
