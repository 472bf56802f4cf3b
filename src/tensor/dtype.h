/* dtype.h - element types: what they are called, how they promote, how single elements are read and written.
 *
 * The list is dtype.def; everything else derives from it. Halves are stored as their bits. */
#ifndef TP_TENSOR_DTYPE_H
#define TP_TENSOR_DTYPE_H

#include "base/api.h"

typedef struct tp_c64 { float re, im; } tp_c64;
typedef struct tp_c128 { double re, im; } tp_c128;

typedef enum tp_dtype {
#define TP_DTYPE(name, ...) TP_##name,
#include "tensor/dtype.def"
#undef TP_DTYPE
    TP_DTYPE_COUNT,
    TP_DTYPE_NONE = 255,
} tp_dtype;

typedef enum tp_dtype_kind { TP_KIND_BOOL, TP_KIND_INTEGER, TP_KIND_FLOAT, TP_KIND_COMPLEX } tp_dtype_kind;

typedef struct tp_dtype_info {
    const char *name;           /* "f32", as definitions and IR text spell it */
    uint8_t     bytes;
    uint8_t     kind;           /* tp_dtype_kind */
    const char *python;         /* "float32": repr is PACKAGE.float32 */
    const char *title;          /* "Float", as messages say it */
    const char *cpp;            /* "float", as some messages say it */
    const char *legacy;         /* "FloatTensor" */
    const char *format;         /* struct module's letter */
} tp_dtype_info;

TP_API extern const tp_dtype_info tp_dtypes[TP_DTYPE_COUNT];

static inline size_t tp_dtype_bytes(tp_dtype d) { return tp_dtypes[d].bytes; }
static inline bool tp_dtype_is_float(tp_dtype d) { return tp_dtypes[d].kind == TP_KIND_FLOAT; }
static inline bool tp_dtype_is_complex(tp_dtype d) { return tp_dtypes[d].kind == TP_KIND_COMPLEX; }
static inline bool tp_dtype_is_inexact(tp_dtype d) { return tp_dtypes[d].kind >= TP_KIND_FLOAT; }
static inline bool tp_dtype_is_integral(tp_dtype d) { return tp_dtypes[d].kind <= TP_KIND_INTEGER; }  /* bool too */
static inline bool tp_dtype_is_half(tp_dtype d) { return d == TP_f16 || d == TP_bf16; }

TP_API tp_dtype tp_dtype_promote(tp_dtype a, tp_dtype b);       /* torch.promote_types */
TP_API bool     tp_dtype_can_cast(tp_dtype from, tp_dtype to);  /* torch.can_cast: by kind */
TP_API tp_dtype tp_dtype_to_real(tp_dtype d);                   /* c64 -> f32, c128 -> f64, else itself */
TP_API tp_dtype tp_dtype_to_complex(tp_dtype d);
TP_API tp_dtype tp_dtype_opmath(tp_dtype d);                    /* halves compute in f32 */
TP_API tp_dtype tp_dtype_by_name(const char *name);             /* "f32"; TP_DTYPE_NONE when unknown */

/* Halves, round to nearest even, NaN kept. */
TP_API float    tp_half_to_float(uint16_t h);
TP_API uint16_t tp_float_to_half(float f);
static inline float tp_bfloat_to_float(uint16_t h)
{
    union { uint32_t u; float f; } x = { (uint32_t)h << 16 };
    return x.f;
}
static inline uint16_t tp_float_to_bfloat(float f)
{
    union { float f; uint32_t u; } x = { f };
    if ((x.u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(x.u >> 16 | 0x40);
    return (uint16_t)((x.u + 0x7fffu + (x.u >> 16 & 1)) >> 16);
}

/* One number of any type: what a 0-d tensor, a literal or a Python number holds. */
typedef struct tp_scalar {
    uint8_t kind;               /* tp_dtype_kind; f64 and i64 and c128 precision within */
    union {
        int64_t i;              /* BOOL, INTEGER */
        double  f;              /* FLOAT */
        tp_c128 c;              /* COMPLEX */
    };
} tp_scalar;

TP_API tp_scalar tp_scalar_read(const void *element, tp_dtype d);
tp_scalar tp_scalar_signed(tp_scalar s, bool conj, bool neg);
/* Converts as C does, float to integer like PyTorch (wraps through i64); bool is "not zero". */
TP_API void      tp_scalar_write(tp_scalar s, void *element, tp_dtype d);
TP_API double    tp_scalar_to_double(tp_scalar s);
TP_API int64_t   tp_scalar_to_int(tp_scalar s);
TP_API tp_c128   tp_scalar_to_complex(tp_scalar s);
TP_API bool      tp_scalar_is_zero(tp_scalar s);
static inline tp_scalar tp_scalar_int(int64_t i) { return (tp_scalar){ .kind = TP_KIND_INTEGER, .i = i }; }
static inline tp_scalar tp_scalar_float(double f) { return (tp_scalar){ .kind = TP_KIND_FLOAT, .f = f }; }

#endif
