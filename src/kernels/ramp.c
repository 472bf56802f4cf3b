/* ramp.c - points between two ends, powers of them, and windows over them.
 *
 * A ramp goes from both ends to the middle, so that both are exact; it is counted in the result's type, integers in f32.
 * Complex ends make two ramps, of the real and of the imaginary parts. */
#include <math.h>

#include "kernels/dense.h"
#include "ops/run.h"
#include "tile/special.h"

static double rounded(double x, tp_dtype d)
{
    switch (d) {
    case TP_f64:  return x;
    case TP_f16:  return tp_half_to_float(tp_float_to_half((float)x));
    case TP_bf16: return tp_bfloat_to_float(tp_float_to_bfloat((float)x));
    default:      return (float)x;
    }
}

static double ramp_at(double a, double b, int64_t i, int64_t n, tp_dtype d)
{
    if (n == 1)
        return a;
    double step = rounded((b - a) / (double)(n - 1), d);
    double value = i < n / 2 ? fma(step, (double)i, a) : fma(-step, (double)(n - i - 1), b);
    return rounded(value, d);
}

/* An end: a number, or a tensor of one; of an integral result it is an integer. */
static tp_c128 end_of(tp_value v, tp_dtype d)
{
    tp_scalar s = v.tag == TP_TENSOR ? tp_scalar_read(tp_tensor_data(v.tensor), (tp_dtype)v.tensor->dtype) : tp_as_scalar(v);
    _Alignas(16) char element[16];
    if (tp_dtype_is_integral(d)) {
        tp_scalar_write(s, element, d);
        s = tp_scalar_read(element, d);
    }
    tp_c128 c = s.kind == TP_KIND_COMPLEX ? s.c : (tp_c128){ tp_scalar_to_double(s), 0 };
    tp_dtype real = tp_dtype_to_real(d);
    return tp_dtype_is_integral(d) ? c : (tp_c128){ rounded(c.re, real), rounded(c.im, real) };
}

/* base^z, by the polar form of a real base. */
static tp_c128 to_power(double base, tp_c128 z)
{
    double size = log(fabs(base)), turn = base < 0 ? acos(-1) : 0;
    double length = exp(z.re * size - z.im * turn), angle = z.im * size + z.re * turn;
    return (tp_c128){ length * cos(angle), length * sin(angle) };
}

/* (start, end, steps, …): each point, or base to its power. */
static bool ramp(const tp_value *arg, const double *base, tp_tensor *out)
{
    tp_dtype d = (tp_dtype)out->dtype, real = tp_dtype_to_real(d);
    for (int i = 0; i < 2; i++)
        if (arg[i].tag == TP_TENSOR && !arg[i].tensor->storage->data)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    tp_c128 a = end_of(arg[0], d), b = end_of(arg[1], d);
    int64_t n = out->numel, stride = out->ndim ? out->stride[0] : 1;
    char *to = tp_tensor_data(out);
    for (int64_t i = 0; i < n; i++, to += stride * (int64_t)tp_dtype_bytes(d)) {
        tp_scalar point = tp_scalar_float(ramp_at(a.re, b.re, i, n, real));
        if (tp_dtype_is_complex(d)) {
            tp_c128 c = { point.f, ramp_at(a.im, b.im, i, n, real) };
            point = (tp_scalar){ .kind = TP_KIND_COMPLEX, .c = base ? to_power(*base, c) : c };
        } else if (base) {
            point.f = pow(*base, point.f);
        }
        tp_scalar_write(point, to, d);
    }
    return true;
}

TP_HOOK_K(tp_k_linspace)
{
    return ramp(arg, NULL, out[0]);
}

/* logspace(start, end, steps, base, …) */
TP_HOOK_K(tp_k_logspace)
{
    double base = tp_as_double(arg[3]);
    return ramp(arg, &base, out[0]);
}

/* ---- windows: (window_length, periodic?, …) ---- */
typedef double window_fn(double where, double a, double b);     /* where: 0 at the first point, 1 at the last */

static const double PI = 3.14159265358979323846;

/* A periodic window is a symmetric one with a point more, which is left out. Overloads without `periodic` are. */
static bool window(const tp_value *arg, window_fn *f, double a, double b, tp_tensor *out)
{
    tp_dtype d = (tp_dtype)out->dtype;
    bool periodic = arg[1].tag != TP_BOOL || arg[1].b;
    int64_t n = out->numel, stride = out->ndim ? out->stride[0] : 1;
    char *to = tp_tensor_data(out);
    for (int64_t i = 0; i < n; i++, to += stride * (int64_t)tp_dtype_bytes(d))
        tp_scalar_write(tp_scalar_float(n == 1 ? 1 : f((double)i / (double)(n - !periodic), a, b)), to, d);
    return true;
}

static double cosine_window(double where, double a, double b) { return a - b * cos(2 * PI * where); }
static double triangle(double where, double a, double b) { (void)a, (void)b; return 1 - fabs(2 * where - 1); }

static double blackman(double where, double a, double b)
{
    (void)a, (void)b;
    return 0.42 - 0.5 * cos(2 * PI * where) + 0.08 * cos(4 * PI * where);
}

static double kaiser(double where, double beta, double b)
{
    (void)b;
    double x = 2 * where - 1;
    return tp_bessel_i0(beta * sqrt(fmax(0, 1 - x * x))) / tp_bessel_i0(beta);
}

/* The numbers after `periodic`, where an overload has them. */
static double parameter(const tp_value *arg, int i, double fallback)
{
    return arg[1].tag == TP_BOOL && arg[i].tag == TP_FLOAT ? arg[i].f : fallback;
}

TP_HOOK_K(tp_k_hann_window)     { return window(arg, cosine_window, 0.5, 0.5, out[0]); }
TP_HOOK_K(tp_k_bartlett_window) { return window(arg, triangle, 0, 0, out[0]); }
TP_HOOK_K(tp_k_blackman_window) { return window(arg, blackman, 0, 0, out[0]); }
TP_HOOK_K(tp_k_hamming_window)  { return window(arg, cosine_window, parameter(arg, 2, 0.54), parameter(arg, 3, 0.46), out[0]); }
TP_HOOK_K(tp_k_kaiser_window)   { return window(arg, kaiser, parameter(arg, 2, 12), 0, out[0]); }
