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

#define LOADS(d, ctype, read, INT)                                                      \
    CONVERT(load_##d##_f32, ctype, float, AS_f32(read))                                 \
    CONVERT(load_##d##_f64, ctype, double, AS_f64(read))                                \
    CONVERT(load_##d##_i32, ctype, int32_t, INT##_AS_i32(read))                         \
    CONVERT(load_##d##_i64, ctype, int64_t, INT##_AS_i64(read))                         \
    CONVERT(load_##d##_c64, ctype, tp_c64, ((tp_c64){ AS_f32(read), 0 }))               \
    CONVERT(load_##d##_c128, ctype, tp_c128, ((tp_c128){ AS_f64(read), 0 }))
#define COMPLEX_LOADS(d, ctype)                                                         \
    CONVERT(load_##d##_f32, ctype, float, AS_f32(v.re))                                 \
    CONVERT(load_##d##_f64, ctype, double, AS_f64(v.re))                                \
    CONVERT(load_##d##_i32, ctype, int32_t, REAL_AS_i32(v.re))                          \
    CONVERT(load_##d##_i64, ctype, int64_t, REAL_AS_i64(v.re))                          \
    CONVERT(load_##d##_c64, ctype, tp_c64, ((tp_c64){ (float)v.re, (float)v.im }))      \
    CONVERT(load_##d##_c128, ctype, tp_c128, ((tp_c128){ (double)v.re, (double)v.im }))

LOADS(u8, uint8_t, v, INTEGER)
LOADS(i8, int8_t, v, INTEGER)
LOADS(i16, int16_t, v, INTEGER)
LOADS(i32, int32_t, v, INTEGER)
LOADS(i64, int64_t, v, INTEGER)
LOADS(f16, uint16_t, from_half(v), REAL)
LOADS(f32, float, v, REAL)
LOADS(f64, double, v, REAL)
COMPLEX_LOADS(c64, tp_c64)
COMPLEX_LOADS(c128, tp_c128)
LOADS(b8, uint8_t, v != 0, INTEGER)
LOADS(bf16, uint16_t, from_bfloat(v), REAL)

#define STORES(c, ctype, real, INT, truth)                                              \
    CONVERT(store_##c##_u8, ctype, uint8_t, (uint8_t)INT##_AS_i64(real))                \
    CONVERT(store_##c##_i8, ctype, int8_t, (int8_t)INT##_AS_i64(real))                  \
    CONVERT(store_##c##_i16, ctype, int16_t, (int16_t)INT##_AS_i64(real))               \
    CONVERT(store_##c##_i32, ctype, int32_t, INT##_AS_i32(real))                        \
    CONVERT(store_##c##_i64, ctype, int64_t, INT##_AS_i64(real))                        \
    CONVERT(store_##c##_f16, ctype, uint16_t, to_half((float)(real)))                   \
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
