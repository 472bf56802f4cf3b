/* dtype.c - tables and conversions of element types. */
#include "tensor/dtype.h"

#include <string.h>

#include "base/runtime.h"

const tp_dtype_info tp_dtypes[TP_DTYPE_COUNT] = {
#define TP_DTYPE(n, ctype, k, size, python, title, cpp, legacy, format) \
    [TP_##n] = { #n, size, TP_KIND_##k, python, title, cpp, legacy, format },
#include "tensor/dtype.def"
#undef TP_DTYPE
};

/* Within a kind the wider wins, except u8 with a signed type (the next wider signed) and the two halves (f32). */
static tp_dtype promote_in_kind(tp_dtype a, tp_dtype b)
{
    if ((a == TP_u8 && b == TP_i8) || (a == TP_i8 && b == TP_u8))
        return TP_i16;
    if ((a == TP_f16 && b == TP_bf16) || (a == TP_bf16 && b == TP_f16))
        return TP_f32;
    return tp_dtype_bytes(a) >= tp_dtype_bytes(b) ? a : b;
}

tp_dtype tp_dtype_promote(tp_dtype a, tp_dtype b)
{
    if (a == b)
        return a;
    tp_dtype_kind ka = tp_dtypes[a].kind, kb = tp_dtypes[b].kind;
    if (ka == TP_KIND_COMPLEX && kb == TP_KIND_FLOAT)
        return a == TP_c64 && b == TP_f64 ? TP_c128 : a;
    if (kb == TP_KIND_COMPLEX && ka == TP_KIND_FLOAT)
        return b == TP_c64 && a == TP_f64 ? TP_c128 : b;
    if (ka != kb)
        return ka > kb ? a : b;
    return promote_in_kind(a, b);
}

bool tp_dtype_can_cast(tp_dtype from, tp_dtype to)
{
    return tp_dtypes[from].kind <= tp_dtypes[to].kind;
}

tp_dtype tp_dtype_to_real(tp_dtype d)
{
    return d == TP_c64 ? TP_f32 : d == TP_c128 ? TP_f64 : d;
}

tp_dtype tp_dtype_to_complex(tp_dtype d)
{
    return d == TP_f64 || d == TP_c128 ? TP_c128 : TP_c64;
}

tp_dtype tp_dtype_opmath(tp_dtype d)
{
    return tp_dtype_is_half(d) ? TP_f32 : d;
}

tp_dtype tp_dtype_by_name(const char *name)
{
    for (int d = 0; d < TP_DTYPE_COUNT; d++)
        if (strcmp(tp_dtypes[d].name, name) == 0)
            return (tp_dtype)d;
    return TP_DTYPE_NONE;
}

float tp_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    union { uint32_t u; float f; } x;
    if (exponent == 31)
        x.u = sign | 0x7f800000u | mantissa << 13;
    else if (exponent)
        x.u = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        x.f = (float)mantissa * 0x1p-24f;       /* exact: a denormal half is a normal float */
        x.u |= sign;
    }
    return x.f;
}

uint16_t tp_float_to_half(float f)
{
    union { float f; uint32_t u; } x = { f };
    uint16_t sign = (uint16_t)(x.u >> 16 & 0x8000);
    x.u &= 0x7fffffffu;
    if (x.u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (x.u >> 13 & 0x3ff));
    if (x.u >= 0x477ff000u)                     /* rounds to 65536 or beyond */
        return sign | 0x7c00;
    if (x.u < 0x38800000u) {                    /* denormal: adding 0.5 lines the bits up and rounds to even */
        x.f += 0.5f;
        return (uint16_t)(sign | (x.u - 0x3f000000u));
    }
    return (uint16_t)(sign | (x.u - 0x38000000u + 0xfffu + (x.u >> 13 & 1)) >> 13);
}

tp_scalar tp_scalar_signed(tp_scalar s, bool conj, bool neg)
{
    if (s.kind == TP_KIND_COMPLEX)
        s.c = (tp_c128){ neg ? -s.c.re : s.c.re, conj != neg ? -s.c.im : s.c.im };
    else if (s.kind == TP_KIND_FLOAT)
        s.f = neg ? -s.f : s.f;
    else if (neg)
        s.i = (int64_t)-(uint64_t)s.i;
    return s;
}

tp_scalar tp_scalar_read(const void *e, tp_dtype d)
{
    tp_scalar s = { .kind = tp_dtypes[d].kind };
    switch (d) {
    case TP_b8:   s.i = *(const uint8_t *)e != 0; break;
    case TP_u8:   s.i = *(const uint8_t *)e; break;
    case TP_i8:   s.i = *(const int8_t *)e; break;
    case TP_i16:  s.i = *(const int16_t *)e; break;
    case TP_i32:  s.i = *(const int32_t *)e; break;
    case TP_i64:  s.i = *(const int64_t *)e; break;
    case TP_f16:  s.f = (double)tp_half_to_float(*(const uint16_t *)e); break;
    case TP_bf16: s.f = (double)tp_bfloat_to_float(*(const uint16_t *)e); break;
    case TP_f32:  s.f = (double)*(const float *)e; break;
    case TP_f64:  s.f = *(const double *)e; break;
    case TP_c64:  s.c = (tp_c128){ (double)((const tp_c64 *)e)->re, (double)((const tp_c64 *)e)->im }; break;
    case TP_c128: s.c = *(const tp_c128 *)e; break;
    case TP_DTYPE_COUNT:
    case TP_DTYPE_NONE: break;
    }
    return s;
}

double tp_scalar_to_double(tp_scalar s)
{
    return s.kind == TP_KIND_COMPLEX ? s.c.re : s.kind == TP_KIND_FLOAT ? s.f : (double)s.i;
}

/* What x86 conversions give for values out of range, so that plain C and vectors agree: the least integer. */
static int64_t double_to_int(double f)
{
    return f >= -0x1p63 && f < 0x1p63 ? (int64_t)f : INT64_MIN;
}

int64_t tp_scalar_to_int(tp_scalar s)
{
    return s.kind <= TP_KIND_INTEGER ? s.i : double_to_int(tp_scalar_to_double(s));
}

tp_c128 tp_scalar_to_complex(tp_scalar s)
{
    return s.kind == TP_KIND_COMPLEX ? s.c : (tp_c128){ tp_scalar_to_double(s), 0 };
}

bool tp_scalar_is_zero(tp_scalar s)
{
    return s.kind == TP_KIND_COMPLEX ? s.c.re == 0 && s.c.im == 0 : s.kind == TP_KIND_FLOAT ? s.f == 0 : s.i == 0;
}

void tp_scalar_write(tp_scalar s, void *e, tp_dtype d)
{
    switch (d) {
    case TP_b8:   *(uint8_t *)e = !tp_scalar_is_zero(s); break;
    case TP_u8:   *(uint8_t *)e = (uint8_t)tp_scalar_to_int(s); break;
    case TP_i8:   *(int8_t *)e = (int8_t)tp_scalar_to_int(s); break;
    case TP_i16:  *(int16_t *)e = (int16_t)tp_scalar_to_int(s); break;
    case TP_i32:  *(int32_t *)e = (int32_t)tp_scalar_to_int(s); break;
    case TP_i64:  *(int64_t *)e = tp_scalar_to_int(s); break;
    case TP_f16:  *(uint16_t *)e = tp_float_to_half((float)tp_scalar_to_double(s)); break;
    case TP_bf16: *(uint16_t *)e = tp_float_to_bfloat((float)tp_scalar_to_double(s)); break;
    case TP_f32:  *(float *)e = (float)tp_scalar_to_double(s); break;
    case TP_f64:  *(double *)e = tp_scalar_to_double(s); break;
    case TP_c64: {
        tp_c128 c = tp_scalar_to_complex(s);
        *(tp_c64 *)e = (tp_c64){ (float)c.re, (float)c.im };
        break;
    }
    case TP_c128: *(tp_c128 *)e = tp_scalar_to_complex(s); break;
    case TP_DTYPE_COUNT:
    case TP_DTYPE_NONE: break;
    }
}

/* Float literals are f32 until a program says otherwise. */
__attribute__((constructor(102))) static void set_default(void)
{
    tp_the_runtime.default_dtype = TP_f32;
}
