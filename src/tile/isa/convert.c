/* convert.c - from each storage type to each compute type, and back.
 *
 * A stored element is first read as a number (b8 as 0 or 1, halves as f32), then converted as C does; float to integer
 * goes through i64, what does not fit becomes the least i64, and narrower integers keep its low bits (tp_scalar_write). */
#include "tile/isa/isa.h"

typedef union { uint32_t u; float f; } bits32;

/* Denormal halves are lined up by a float subtraction instead of a shift by a variable count. */
static inline float from_half(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    bits32 normal = { magnitude + (112u << 23) }, small = { magnitude + (113u << 23) }, least = { 113u << 23 };
    small.f -= least.f;
    uint32_t u = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : magnitude < 0x00800000u ? small.u : normal.u;
    bits32 x = { u | sign };
    return x.f;
}

static inline uint16_t to_half(float f)
{
    bits32 x = { .f = f };
    uint32_t sign = x.u >> 16 & 0x8000, u = x.u & 0x7fffffffu;
    bits32 small = { u };
    small.f += 0.5f;
    uint32_t normal = (u - 0x38000000u + 0xfffu + (u >> 13 & 1)) >> 13, nan = 0x7e00 | (u >> 13 & 0x3ff);
    uint32_t h = u > 0x7f800000u ? nan : u >= 0x477ff000u ? 0x7c00 : u < 0x38800000u ? small.u - 0x3f000000u : normal;
    return (uint16_t)(sign | h);
}

static inline uint16_t to_bfloat(float f)
{
    bits32 x = { .f = f };
    uint32_t nan = x.u >> 16 | 0x40, number = (x.u + 0x7fffu + (x.u >> 16 & 1)) >> 16;
    return (uint16_t)((x.u & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

static inline float from_bfloat(uint16_t h)
{
    bits32 x = { (uint32_t)h << 16 };
    return x.f;
}

#define WHOLE(v) ((v) >= -0x1p63 && (v) < 0x1p63 ? (int64_t)(v) : INT64_MIN)

/* A number v of the reading type R_… as compute type; complex ones are given as re and im. */
#define AS_f32(v) ((float)(v))
#define AS_f64(v) ((double)(v))
#define INTEGER_AS_i32(v) ((int32_t)(v))
#define INTEGER_AS_i64(v) ((int64_t)(v))
#define REAL_AS_i32(v) ((int32_t)WHOLE(v))
#define REAL_AS_i64(v) WHOLE(v)

#define CONVERT(name, from_type, to_type, expression)                       \
    static void name(int64_t n, void *to, const void *from)                 \
    {                                                                       \
        to_type *o = to;                                                    \
        const from_type *x = from;                                          \
        EACH(n) {                                                           \
            from_type v = x[i];                                             \
            o[i] = (expression);                                            \
        }                                                                   \
    }

/* A conversion with a fast way for runs of 256 elements in which nothing is amiss. */
#define GUARDED_CONVERT(name, from_type, to_type, amiss, slow, fast)        \
    static void name(int64_t n, void *to, const void *from)                 \
    {                                                                       \
        enum { RUN = 256 };                                                 \
        to_type *o = to;                                                    \
        const from_type *x = from;                                          \
        for (; n > 0; n -= RUN, x += RUN, o += RUN) {                       \
            int64_t run = n < RUN ? n : RUN;                                \
            int any = 0;                                                    \
            for (int64_t i = 0; i < run; i++) {                             \
                from_type v = x[i];                                         \
                any |= (amiss);                                             \
            }                                                               \
            if (!any) {                                                     \
                fast                                                        \
                continue;                                                   \
            }                                                               \
            for (int64_t i = 0; i < run; i++) {                             \
                from_type v = x[i];                                         \
                o[i] = (slow);                                              \
            }                                                               \
        }                                                                   \
    }
/* Numbers that fit i32 convert as vectors; the others go through i64. */
#define NARROWING(name, from_type, to_type)                                                                         \
    GUARDED_CONVERT(name, from_type, to_type, !(v < 0x1p31f) | !(v > -0x1p31f), (to_type)WHOLE(v),                  \
                    EACH(run) o[i] = (to_type)(int32_t)x[i];)

#define LOADS(d, ctype, read, INT)                                                      \
    CONVERT(load_##d##_f32, ctype, float, AS_f32(read))                                 \
    CONVERT(load_##d##_f64, ctype, double, AS_f64(read))                                \
    CONVERT(load_##d##_i32, ctype, int32_t, INT##_AS_i32(read))                         \
    CONVERT(load_##d##_i64, ctype, int64_t, INT##_AS_i64(read))                         \
    CONVERT(load_##d##_c64, ctype, tp_c64, ((tp_c64){ AS_f32(read), 0 }))               \
    CONVERT(load_##d##_c128, ctype, tp_c128, ((tp_c128){ AS_f64(read), 0 }))
/* f32 and f64 */
#define REAL_LOADS(d, ctype)                                                            \
    CONVERT(load_##d##_f32, ctype, float, AS_f32(v))                                    \
    CONVERT(load_##d##_f64, ctype, double, AS_f64(v))                                   \
    NARROWING(load_##d##_i32, ctype, int32_t)                                           \
    CONVERT(load_##d##_i64, ctype, int64_t, WHOLE(v))                                   \
    CONVERT(load_##d##_c64, ctype, tp_c64, ((tp_c64){ AS_f32(v), 0 }))                  \
    CONVERT(load_##d##_c128, ctype, tp_c128, ((tp_c128){ AS_f64(v), 0 }))
#define COMPLEX_LOADS(d, ctype)                                                         \
    CONVERT(load_##d##_f32, ctype, float, AS_f32(v.re))                                 \
    CONVERT(load_##d##_f64, ctype, double, AS_f64(v.re))                                \
    CONVERT(load_##d##_i32, ctype, int32_t, REAL_AS_i32(v.re))                          \
    CONVERT(load_##d##_i64, ctype, int64_t, REAL_AS_i64(v.re))                          \
    CONVERT(load_##d##_c64, ctype, tp_c64, ((tp_c64){ (float)v.re, (float)v.im }))      \
    CONVERT(load_##d##_c128, ctype, tp_c128, ((tp_c128){ (double)v.re, (double)v.im }))

/* f16 to f32 and back, where the machine has the conversion: it differs from ours in signalling NaN alone, read above. */
#if defined(__F16C__)
typedef short half8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef float float8 __attribute__((vector_size(32), aligned(4), may_alias));
#define HALVES_TO_FLOATS(o, x, n)                                                               \
    int64_t i = 0;                                                                              \
    for (; i + 8 <= (n); i += 8)                                                                \
        *(float8 *)(o + i) = __builtin_ia32_vcvtph2ps256(*(const half8 *)(x + i));              \
    for (; i < (n); i++)                                                                        \
        o[i] = from_half(x[i]);

static void store_f32_f16(int64_t n, void *to, const void *from)
{
    uint16_t *o = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        *(half8 *)(o + i) = __builtin_ia32_vcvtps2ph256(*(const float8 *)(x + i), 0);
    for (; i < n; i++)
        o[i] = to_half(x[i]);
}
#else
#define HALVES_TO_FLOATS(o, x, n) EACH(n) o[i] = from_half(x[i]);
CONVERT(store_f32_f16, float, uint16_t, to_half(v))
#endif
GUARDED_CONVERT(load_f16_f32, uint16_t, float, ((v & 0x7fff) > 0x7c00) & ((v & 0x7fff) < 0x7e00), from_half(v),
                { HALVES_TO_FLOATS(o, x, run) })
CONVERT(load_f16_f64, uint16_t, double, (double)from_half(v))
CONVERT(load_f16_i32, uint16_t, int32_t, (int32_t)WHOLE(from_half(v)))
CONVERT(load_f16_i64, uint16_t, int64_t, WHOLE(from_half(v)))
CONVERT(load_f16_c64, uint16_t, tp_c64, ((tp_c64){ from_half(v), 0 }))
CONVERT(load_f16_c128, uint16_t, tp_c128, ((tp_c128){ (double)from_half(v), 0 }))

LOADS(u8, uint8_t, v, INTEGER)
LOADS(i8, int8_t, v, INTEGER)
LOADS(i16, int16_t, v, INTEGER)
LOADS(i32, int32_t, v, INTEGER)
LOADS(i64, int64_t, v, INTEGER)
REAL_LOADS(f32, float)
REAL_LOADS(f64, double)
COMPLEX_LOADS(c64, tp_c64)
COMPLEX_LOADS(c128, tp_c128)
LOADS(b8, uint8_t, v != 0, INTEGER)
LOADS(bf16, uint16_t, from_bfloat(v), REAL)

#define NARROW_STORES(c, ctype, real, INT)                                              \
    CONVERT(store_##c##_u8, ctype, uint8_t, (uint8_t)INT##_AS_i64(real))                \
    CONVERT(store_##c##_i8, ctype, int8_t, (int8_t)INT##_AS_i64(real))                  \
    CONVERT(store_##c##_i16, ctype, int16_t, (int16_t)INT##_AS_i64(real))               \
    CONVERT(store_##c##_i32, ctype, int32_t, INT##_AS_i32(real))
#define REAL_NARROW_STORES(c, ctype)                                                    \
    NARROWING(store_##c##_u8, ctype, uint8_t)                                           \
    NARROWING(store_##c##_i8, ctype, int8_t)                                            \
    NARROWING(store_##c##_i16, ctype, int16_t)                                          \
    NARROWING(store_##c##_i32, ctype, int32_t)
#define STORES(c, ctype, real, INT, truth)                                              \
    CONVERT(store_##c##_i64, ctype, int64_t, INT##_AS_i64(real))                        \
    CONVERT(store_##c##_f32, ctype, float, AS_f32(real))                                \
    CONVERT(store_##c##_f64, ctype, double, AS_f64(real))                               \
    CONVERT(store_##c##_b8, ctype, uint8_t, (uint8_t)(truth))                           \
    CONVERT(store_##c##_bf16, ctype, uint16_t, to_bfloat((float)(real)))
#define REAL_STORES(c, ctype)                                                           \
    CONVERT(store_##c##_c64, ctype, tp_c64, ((tp_c64){ (float)v, 0 }))                  \
    CONVERT(store_##c##_c128, ctype, tp_c128, ((tp_c128){ (double)v, 0 }))
#define COMPLEX_STORES(c, ctype)                                                        \
    CONVERT(store_##c##_c64, ctype, tp_c64, ((tp_c64){ (float)v.re, (float)v.im }))     \
    CONVERT(store_##c##_c128, ctype, tp_c128, ((tp_c128){ (double)v.re, (double)v.im }))

REAL_NARROW_STORES(f32, float)
REAL_NARROW_STORES(f64, double)
NARROW_STORES(i32, int32_t, v, INTEGER)
NARROW_STORES(i64, int64_t, v, INTEGER)
NARROW_STORES(c64, tp_c64, v.re, REAL)
NARROW_STORES(c128, tp_c128, v.re, REAL)
CONVERT(store_f64_f16, double, uint16_t, to_half((float)v))
CONVERT(store_i32_f16, int32_t, uint16_t, to_half((float)v))
CONVERT(store_i64_f16, int64_t, uint16_t, to_half((float)v))
CONVERT(store_c64_f16, tp_c64, uint16_t, to_half(v.re))
CONVERT(store_c128_f16, tp_c128, uint16_t, to_half((float)v.re))
STORES(f32, float, v, REAL, v != 0)
STORES(f64, double, v, REAL, v != 0)
STORES(i32, int32_t, v, INTEGER, v != 0)
STORES(i64, int64_t, v, INTEGER, v != 0)
STORES(c64, tp_c64, v.re, REAL, (v.re != 0) | (v.im != 0))
STORES(c128, tp_c128, v.re, REAL, (v.re != 0) | (v.im != 0))
REAL_STORES(f32, float)
REAL_STORES(f64, double)
REAL_STORES(i32, int32_t)
REAL_STORES(i64, int64_t)
COMPLEX_STORES(c64, tp_c64)
COMPLEX_STORES(c128, tp_c128)

extern tp_convert_fn *const TP_ISA(tp_tile_load)[TP_DTYPE_COUNT][TP_COMPUTE_COUNT];
extern tp_convert_fn *const TP_ISA(tp_tile_store)[TP_COMPUTE_COUNT][TP_DTYPE_COUNT];

tp_convert_fn *const TP_ISA(tp_tile_load)[TP_DTYPE_COUNT][TP_COMPUTE_COUNT] = {
#define TP_DTYPE(d, ...) \
    [TP_##d] = { load_##d##_f32, load_##d##_f64, load_##d##_i32, load_##d##_i64, load_##d##_c64, load_##d##_c128 },
#include "tensor/dtype.def"
#undef TP_DTYPE
};

tp_convert_fn *const TP_ISA(tp_tile_store)[TP_COMPUTE_COUNT][TP_DTYPE_COUNT] = {
#define TP_DTYPE(d, ...) [TP_##d] = STORE(d),
#define STORE(d) store_f32_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#define STORE(d) store_f64_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#define STORE(d) store_i32_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#define STORE(d) store_i64_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#define STORE(d) store_c64_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#define STORE(d) store_c128_##d
    {
#include "tensor/dtype.def"
    },
#undef STORE
#undef TP_DTYPE
};
