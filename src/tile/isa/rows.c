/* rows.c - what kernels along rows do to all elements of a row at once, several steps in one pass. Each step rounds as the
 * primitive of its name does. */
#include "tile/isa/math_f32.h"
#include "tile/isa/isa.h"

#define ROWS(type, T, below)                                                                                    \
    void TP_ISA(tp_tile_exponentials_##type)(int64_t n, T top, const T *x, T *to);                              \
    void TP_ISA(tp_tile_exponentials_##type)(int64_t n, T top, const T *x, T *to)                               \
    {                                                                                                           \
        EACH(n)                                                                                                 \
            to[i] = below(x[i] - top);                                                                          \
    }                                                                                                           \
    void TP_ISA(tp_tile_normalise_##type)(int64_t n, T mean, T scale, const T *x, const T *w, const T *b, T *to); \
    void TP_ISA(tp_tile_normalise_##type)(int64_t n, T mean, T scale, const T *x, const T *w, const T *b, T *to) \
    {                                                                                                           \
        if (w && b)                                                                                             \
            EACH(n)                                                                                             \
                to[i] = (x[i] - mean) * scale * w[i] + b[i];                                                    \
        else if (w)                                                                                             \
            EACH(n)                                                                                             \
                to[i] = (x[i] - mean) * scale * w[i];                                                           \
        else if (b)                                                                                             \
            EACH(n)                                                                                             \
                to[i] = (x[i] - mean) * scale + b[i];                                                           \
        else                                                                                                    \
            EACH(n)                                                                                             \
                to[i] = (x[i] - mean) * scale;                                                                  \
    }
ROWS(f32, float, exp_below_f32)
ROWS(f64, double, exp_f64)
