/* random.c - kernels that draw: PyTorch's numbers in PyTorch's order, element by element in memory order.
 *
 * A distribution is a function that fills a run of elements of one type. Where a tensor has gaps or overlaps in memory
 * order, the run is a scratch row that is then copied into the dims sorted by stride. One lock spans the whole tensor. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "kernels/normal16.h"
#include "ops/run.h"
#include "tensor/generator.h"

typedef struct draw {
    tp_generator *g;            /* locked */
    tp_dtype      dtype;        /* of the elements */
    bool          contiguous;   /* the tensor itself is row-major: normal numbers come by sixteens */
    double        a, b;         /* the distribution's parameters */
    uint64_t      range, base;  /* of integers; range 0: all 64 bits */
} draw;

typedef void fill_fn(const draw *d, int64_t n, void *out);

/* The generator of an argument, or the default one. */
static tp_generator *generator_of(tp_value v)
{
    return v.tag == TP_GENERATOR ? v.generator : tp_generator_default();
}

/* ---- filling a tensor in memory order ---- */

/* Dims by falling stride: the view has the order in which elements lie. */
static tp_tensor *in_memory_order(const tp_tensor *t)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) {
        int j = i;
        for (; j > 0 && stride[j - 1] < t->stride[i]; j--) {
            size[j] = size[j - 1];
            stride[j] = stride[j - 1];
        }
        size[j] = t->size[i];
        stride[j] = t->stride[i];
    }
    return tp_tensor_view(t, t->ndim, size, stride, t->offset);
}

static bool fill_tensor(tp_value generator, tp_tensor *t, draw d, fill_fn *fill)
{
    if (!tp_check_written(t))
        return false;
    tp_tensor *order = NULL, *row = NULL;
    if (!(d.g = generator_of(generator)))
        return false;
    if (!t->numel)
        return true;
    d.contiguous = tp_tensor_is_contiguous(t);
    d.dtype = (tp_dtype)t->dtype;
    bool dense = tp_tensor_is_dense(t);
    if (!dense && (!(order = in_memory_order(t)) || !(row = tp_tensor_new(d.dtype, order->ndim, order->size)))) {
        tp_tensor_unref(order);
        return false;
    }
    tp_generator_lock(d.g);
    fill(&d, t->numel, tp_tensor_data(dense ? t : row));
    tp_generator_unlock(d.g);
    if (!dense)
        tp_copy(order, row);
    tp_tensor_unref(order);
    tp_tensor_unref(row);
    return true;
}

/* Writes a double as an element. */
static void put(tp_dtype d, void *out, int64_t i, double value)
{
    switch (d) {
    case TP_f32:  ((float *)out)[i] = (float)value; break;
    case TP_f64:  ((double *)out)[i] = value; break;
    case TP_f16:  ((uint16_t *)out)[i] = tp_float_to_half((float)value); break;
    case TP_bf16: ((uint16_t *)out)[i] = tp_float_to_bfloat((float)value); break;
    default: tp_scalar_write(tp_scalar_float(value), (char *)out + (size_t)i * tp_dtype_bytes(d), d);
    }
}

static bool need_float(const tp_tensor *t, const char *name)
{
    return tp_dtype_is_inexact((tp_dtype)t->dtype) ||
           tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", name, tp_dtypes[t->dtype].title);
}

static bool need_real(const tp_tensor *t, const char *name)
{
    return !tp_dtype_is_complex((tp_dtype)t->dtype) ||
           tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", name, tp_dtypes[t->dtype].title);
}

/* A distribution over all numbers has no meaning for a type that has only some. */
static bool need_continuous(const tp_tensor *t, const char *name, const char *type)
{
    return tp_dtype_is_float((tp_dtype)t->dtype) ||
           tp_fail(TP_ERR_RUNTIME, "%s distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", name, type);
}

/* ---- uniform ---- */
static void uniform_f32(const draw *d, int64_t n, float *x)
{
    float a = (float)d->a, b = (float)d->b;
    tp_draw_u24s(d->g, n, x);
    if (a == 0 && b == 1)
        return;
    for (int64_t i = 0; i < n; i++) {
        float r = __builtin_fmaf(x[i], b - a, a);
        x[i] = r == b ? a : r;
    }
}

static void uniform_f64(const draw *d, int64_t n, double *x)
{
    tp_draw_u53s(d->g, n, x);
    for (int64_t i = 0; i < n && !(d->a == 0 && d->b == 1); i++) {
        double r = __builtin_fma(x[i], d->b - d->a, d->a);
        x[i] = r == d->b ? d->a : r;
    }
}

/* Rounded first, then compared: what rounds up to the bound becomes the start. */
static void uniform_half(const draw *d, int64_t n, uint16_t *x)
{
    uint16_t (*round)(float) = d->dtype == TP_f16 ? tp_float_to_half : tp_float_to_bfloat;
    float a = (float)d->a, b = (float)d->b;
    for (int64_t i = 0; i < n; i++) {
        uint16_t r = round(__builtin_fmaf(tp_draw_u24(d->g), b - a, a));
        x[i] = r == round(b) ? round(a) : r;
    }
}

static void uniform(const draw *d, int64_t n, void *out)
{
    switch (d->dtype) {
    case TP_f32:  uniform_f32(d, n, out); break;
    case TP_c64:  uniform_f32(d, 2 * n, out); break;
    case TP_f64:  uniform_f64(d, n, out); break;
    case TP_c128: uniform_f64(d, 2 * n, out); break;
    default:      uniform_half(d, n, out);
    }
}

/* uniform_(self, from, to, *, generator) */
TP_HOOK_K(tp_k_uniform)
{
    double from = tp_as_double(arg[1]), to = tp_as_double(arg[2]);
    if (!need_float(out[0], "check_uniform_bounds"))
        return false;
    if (!(from <= to))
        return tp_fail(TP_ERR_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
    return fill_tensor(arg[3], out[0], (draw){ .a = from, .b = to }, uniform);
}

/* rand, randint, randperm and their like: the overloads with a generator have it among the first four arguments. */
static tp_value find_generator(const tp_value *arg)
{
    for (int i = 0; i < 4; i++)
        if (arg[i].tag == TP_GENERATOR)
            return arg[i];
    return tp_none();
}

TP_HOOK_K(tp_k_rand)
{
    return need_float(out[0], "check_uniform_bounds") && fill_tensor(find_generator(arg), out[0], (draw){ .a = 0, .b = 1 }, uniform);
}

/* ---- normal ---- */
static void normals_serial(const draw *d, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++)
        put(d->dtype, out, i, __builtin_fma(tp_draw_normal(d->g), d->b, d->a));
}

static void blocks_f32(const draw *d, int64_t blocks, float *x)
{
    static void (*const by_isa[])(int64_t, float *, float, float) = { tp_normal16_plain, tp_normal16_avx2, tp_normal16_avx512 };
    by_isa[tp_the_runtime.instruction_set](blocks, x, (float)d->a, (float)d->b);
}

/* The last 16 elements are drawn again when n is not a multiple of 16. */
static void normals_f32(const draw *d, int64_t n, float *x)
{
    enum { PART = 4096 };           /* drawn and turned while in cache; a multiple of 16 */
    for (int64_t i = 0; i < n; i += PART) {
        int64_t some = n - i < PART ? n - i : PART;
        tp_draw_u24s(d->g, some, x + i);
        blocks_f32(d, some / 16, x + i);
    }
    if (n % 16) {
        tp_draw_u24s(d->g, 16, x + n - 16);
        blocks_f32(d, 1, x + n - 16);
    }
}

static void block_f64(const draw *d, double *x)
{
    for (int j = 0; j < 8; j++) {
        double radius = sqrt(-2 * log(1 - x[j])), angle = 2 * 3.14159265358979323846 * x[j + 8];
        x[j] = __builtin_fma(radius * cos(angle), d->b, d->a);
        x[j + 8] = __builtin_fma(radius * sin(angle), d->b, d->a);
    }
}

static void normals_f64(const draw *d, int64_t n, double *x)
{
    tp_draw_u53s(d->g, n, x);
    for (int64_t i = 0; i + 16 <= n; i += 16)
        block_f64(d, x + i);
    if (n % 16) {
        tp_draw_u53s(d->g, 16, x + n - 16);
        block_f64(d, x + n - 16);
    }
}

/* Whole blocks only; a ragged end takes no words of its own. */
static void normals_half(const draw *d, int64_t n, uint16_t *out)
{
    for (int64_t i = 0; i < n; i += 16) {
        float x[16];
        int64_t at = n - i < 16 ? n - 16 : i;
        tp_draw_u24s(d->g, 16, x);
        blocks_f32(d, 1, x);
        for (int k = 0; k < 16; k++)
            put(d->dtype, out, at + k, x[k]);
    }
}

static void normal(const draw *d, int64_t n, void *out)
{
    draw part = *d;
    if (tp_dtype_is_complex(d->dtype)) {
        part.dtype = tp_dtype_to_real(d->dtype);
        n *= 2;
    }
    if (n < 16 || !d->contiguous)
        normals_serial(&part, n, out);
    else if (part.dtype == TP_f32)
        normals_f32(&part, n, out);
    else if (part.dtype == TP_f64)
        normals_f64(&part, n, out);
    else
        normals_half(&part, n, out);
}

static bool draw_normal(tp_value generator, tp_tensor *out, double mean, double deviation)
{
    bool complex = tp_dtype_is_complex((tp_dtype)out->dtype);
    if (!need_float(out, "normal_kernel_cpu"))
        return false;
    if (!(deviation >= 0))
        return tp_fail(TP_ERR_RUNTIME, "normal expects std >= 0.0, but found std %g", deviation);
    return fill_tensor(generator, out, (draw){ .a = mean, .b = complex ? deviation / sqrt(2) : deviation }, normal);
}

/* normal_(self, mean, std, *, generator) */
TP_HOOK_K(tp_k_normal)
{
    return draw_normal(arg[3], out[0], tp_as_double(arg[1]), tp_as_double(arg[2]));
}

/* normal.float_float(mean, std, size, *, generator, …) */
TP_HOOK_K(tp_k_normal_numbers)
{
    return draw_normal(arg[3], out[0], tp_as_double(arg[0]), tp_as_double(arg[1]));
}

TP_HOOK_K(tp_k_randn)
{
    return draw_normal(find_generator(arg), out[0], 0, 1);
}

/* ---- integers ---- */

/* w % range + base, a word of 32 bits where the range is below 2^28. */
static void integers(const draw *d, int64_t n, void *out)
{
    size_t bytes = tp_dtype_bytes(d->dtype);
    bool narrow = d->range && d->range < (uint64_t)1 << 28;
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = narrow ? tp_draw_w32(d->g) % (uint32_t)d->range : tp_draw_w64(d->g);
        int64_t value = (int64_t)((narrow || !d->range ? word : word % d->range) + d->base);
        if (d->dtype == TP_i64)
            ((int64_t *)out)[i] = value;
        else
            tp_scalar_write(tp_scalar_int(value), (char *)out + (size_t)i * bytes, d->dtype);
    }
}

/* The words and the modulus of random_() without bounds: all values the type can hold exactly. */
static void any_integer(const draw *d, int64_t n, void *out)
{
    static const uint64_t modulus[TP_DTYPE_COUNT] = {
        [TP_b8] = 2, [TP_u8] = 1 << 8, [TP_i8] = 1 << 7, [TP_i16] = 1 << 15, [TP_i32] = (uint64_t)1 << 31, [TP_i64] = (uint64_t)1 << 63,
        [TP_f16] = (1 << 11) + 1, [TP_bf16] = (1 << 8) + 1, [TP_f32] = (1 << 24) + 1, [TP_f64] = ((uint64_t)1 << 53) + 1,
    };
    size_t bytes = tp_dtype_bytes(d->dtype);
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = d->dtype == TP_i64 || d->dtype == TP_f64 ? tp_draw_w64(d->g) : tp_draw_w32(d->g);
        tp_scalar_write(tp_scalar_int((int64_t)(word % modulus[d->dtype])), (char *)out + (size_t)i * bytes, d->dtype);
    }
}

/* The largest number of a type, as bounds are compared with it. */
static double top_of(tp_dtype d)
{
    static const double top[TP_DTYPE_COUNT] = {
        [TP_b8] = 1, [TP_u8] = 255, [TP_i8] = 127, [TP_i16] = 32767, [TP_i32] = INT32_MAX, [TP_i64] = 0x1p63,
        [TP_f16] = 65504, [TP_bf16] = 0x1.fep127, [TP_f32] = 0x1.fffffep127, [TP_f64] = 0x1.fffffffffffffp1023,
    };
    return top[d];
}

static bool check_bound(tp_dtype d, const char *name, double value)
{
    double top = top_of(d), low = tp_dtype_is_float(d) ? -top : d == TP_b8 || d == TP_u8 ? 0 : -top - (d != TP_i64);
    return (value >= low && value <= top) || tp_fail(TP_ERR_RUNTIME, "%s is out of bounds for %s", name, tp_dtypes[d].cpp);
}

static bool draw_integers(tp_value generator, tp_tensor *out, int64_t low, int64_t high)
{
    if (low >= high)
        return tp_fail(TP_ERR_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", LL(low), LL(high));
    if (tp_dtype_is_complex((tp_dtype)out->dtype))
        return tp_fail(TP_ERR_RUNTIME, "check_random_bounds handles only integral, floating-point and boolean types");
    if (!check_bound((tp_dtype)out->dtype, "from", (double)low) || !check_bound((tp_dtype)out->dtype, "to - 1", (double)(high - 1)))
        return false;
    return fill_tensor(generator, out, (draw){ .range = (uint64_t)high - (uint64_t)low, .base = (uint64_t)low }, integers);
}

/* randint(high, size), randint.low(low, high, size) and their generator forms; randint_like has self first. */
TP_HOOK_K(tp_k_randint)
{
    return draw_integers(find_generator(arg), out[0], 0, tp_as_int(arg[0]));
}

TP_HOOK_K(tp_k_randint_low)
{
    return draw_integers(find_generator(arg), out[0], tp_as_int(arg[0]), tp_as_int(arg[1]));
}

TP_HOOK_K(tp_k_randint_like)
{
    return draw_integers(find_generator(arg), out[0], 0, tp_as_int(arg[1]));
}

TP_HOOK_K(tp_k_randint_like_low)
{
    return draw_integers(find_generator(arg), out[0], tp_as_int(arg[1]), tp_as_int(arg[2]));
}

TP_HOOK_K(tp_k_randint_like_tensor)
{
    const tp_tensor *high = arg[1].tensor;
    if (!high->storage->data)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    int64_t top = tp_scalar_to_int(tp_scalar_read(tp_tensor_data(high), (tp_dtype)high->dtype));
    return draw_integers(find_generator(arg), out[0], 0, top);
}

/* random_(self, *, generator) */
TP_HOOK_K(tp_k_random)
{
    return need_real(out[0], "random_kernel_cpu") && fill_tensor(arg[1], out[0], (draw){ 0 }, any_integer);
}

/* random_.to(self, to, *, generator) */
TP_HOOK_K(tp_k_random_to)
{
    return draw_integers(arg[2], out[0], 0, tp_as_int(arg[1]));
}

/* random_.from(self, from, to?, *, generator): without `to` up to the largest number of the type, itself included. */
TP_HOOK_K(tp_k_random_from)
{
    static const int64_t top[TP_DTYPE_COUNT] = {
        [TP_b8] = 1, [TP_u8] = 255, [TP_i8] = 127, [TP_i16] = 32767, [TP_i32] = INT32_MAX, [TP_i64] = INT64_MAX,
        [TP_f16] = 1 << 11, [TP_bf16] = 1 << 8, [TP_f32] = 1 << 24, [TP_f64] = (int64_t)1 << 53,
    };
    int64_t low = tp_as_int(arg[1]);
    if (!tp_is_none(arg[2]))
        return draw_integers(arg[3], out[0], low, tp_as_int(arg[2]));
    if (tp_dtype_is_complex((tp_dtype)out[0]->dtype))
        return tp_fail(TP_ERR_RUNTIME, "random_from_to_impl handles only integral, floating-point and boolean types");
    if (low != INT64_MIN && !check_bound((tp_dtype)out[0]->dtype, "from", (double)low))
        return false;
    if (low == INT64_MIN && out[0]->dtype != TP_i64 && out[0]->dtype != TP_f64 && out[0]->dtype != TP_f32 && out[0]->dtype != TP_bf16)
        return tp_fail(TP_ERR_RUNTIME, "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16");
    return fill_tensor(arg[3], out[0], (draw){ .range = (uint64_t)top[out[0]->dtype] + 1 - (uint64_t)low, .base = (uint64_t)low }, integers);
}

/* randperm(n, *, [generator,] …): each place swaps with one not yet placed. */
TP_HOOK_K(tp_k_randperm)
{
    int64_t n = out[0]->numel;
    tp_generator *g = generator_of(find_generator(arg));
    int64_t *row = g ? tp_alloc_array((size_t)n + 1, sizeof *row) : NULL;
    if (!row)
        return false;
    for (int64_t i = 0; i < n; i++)
        row[i] = i;
    tp_generator_lock(g);
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t j = i + (int64_t)(tp_draw_w32(g) % (uint64_t)(n - i)), swap = row[i];
        row[i] = row[j];
        row[j] = swap;
    }
    tp_generator_unlock(g);
    size_t bytes = tp_dtype_bytes((tp_dtype)out[0]->dtype);
    if (out[0]->dtype == TP_i64 && n)
        memcpy(tp_tensor_data(out[0]), row, (size_t)n * 8);
    for (int64_t i = 0; out[0]->dtype != TP_i64 && i < n; i++)
        tp_scalar_write(tp_scalar_int(row[i]), (char *)tp_tensor_data(out[0]) + (size_t)i * bytes, (tp_dtype)out[0]->dtype);
    tp_free(row);
    return true;
}

/* ---- one u53 an element ---- */
static void bernoulli(const draw *d, int64_t n, void *out)
{
    double u[512];
    for (int64_t i = 0; i < n; i += 512) {
        int64_t some = n - i < 512 ? n - i : 512;
        tp_draw_u53s(d->g, some, u);
        for (int64_t k = 0; k < some; k++)
            if (d->dtype == TP_f32)
                ((float *)out)[i + k] = u[k] < d->a;
            else
                put(d->dtype, out, i + k, u[k] < d->a);
    }
}

#define SERIAL(name, expression)                                        \
    static void name(const draw *d, int64_t n, void *out)               \
    {                                                                   \
        for (int64_t i = 0; i < n; i++) {                               \
            double u = tp_draw_u53(d->g);                               \
            put(d->dtype, out, i, expression);                          \
        }                                                               \
    }
SERIAL(exponential, -1 / d->a * log1p(-u))
SERIAL(geometric, ceil(log(u) / log1p(-d->a)))
SERIAL(cauchy, d->a + d->b * tan(3.14159265358979323846 * (u - 0.5)))

static void log_normal(const draw *d, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++)
        put(d->dtype, out, i, exp(__builtin_fma(tp_draw_normal(d->g), d->b, d->a)));
}

static bool draw_bernoulli(tp_value generator, tp_tensor *out, double p)
{
    if (!(p >= 0 && p <= 1))
        return tp_fail(TP_ERR_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    return need_real(out, "bernoulli_scalar_cpu_") && fill_tensor(generator, out, (draw){ .a = p }, bernoulli);
}

/* bernoulli_.float(self, p, *, generator), bernoulli.p */
TP_HOOK_K(tp_k_bernoulli_number)
{
    return draw_bernoulli(arg[2], out[0], tp_as_double(arg[1]));
}

/* Draws for each probability, row-major: the type of p decides how many words a draw takes. */
static bool bernoulli_each(tp_value generator, const tp_tensor *p, tp_tensor *out)
{
    tp_generator *g = generator_of(generator);
    tp_dtype d = tp_row_dtype((tp_dtype)p->dtype);
    tp_tensor *wide = g ? tp_tensor_new(d, out->ndim, out->size) : NULL;
    bool ok = wide != NULL;
    if (!ok)
        return false;
    tp_copy(wide, p);
    float *f = tp_tensor_data(wide);
    double *e = tp_tensor_data(wide);
    for (int64_t i = 0; i < wide->numel; i++) {
        double v = d == TP_f64 ? e[i] : (double)f[i];
        ok = ok && v >= 0 && v <= 1;
    }
    if (!ok) {
        tp_tensor_unref(wide);
        return tp_fail(TP_ERR_RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)");
    }
    tp_generator_lock(g);
    for (int64_t i = 0; i < wide->numel; i++)
        if (d == TP_f64)
            e[i] = tp_draw_u53(g) < e[i];
        else
            f[i] = tp_draw_u24(g) < f[i];
    tp_generator_unlock(g);
    tp_copy(out, wide);
    tp_tensor_unref(wide);
    return true;
}

/* bernoulli(self, *, generator) */
TP_HOOK_K(tp_k_bernoulli)
{
    return need_float(arg[0].tensor, "bernoulli_tensor_cpu_p_") && bernoulli_each(arg[1], arg[0].tensor, out[0]);
}

/* bernoulli_.Tensor(self, p, *, generator) */
TP_HOOK_K(tp_k_bernoulli_tensor)
{
    return need_float(arg[1].tensor, "bernoulli_tensor_cpu_p_") && need_real(out[0], "bernoulli_tensor_cpu_self_") && bernoulli_each(arg[2], arg[1].tensor, out[0]);
}

TP_HOOK_K(tp_k_exponential)
{
    double rate = tp_as_double(arg[1]);
    if (!(rate > 0))
        return tp_fail(TP_ERR_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", rate);
    return need_continuous(out[0], "Exponential", tp_dtypes[out[0]->dtype].title) && fill_tensor(arg[2], out[0], (draw){ .a = rate }, exponential);
}

TP_HOOK_K(tp_k_geometric)
{
    double p = tp_as_double(arg[1]);
    if (!(p > 0 && p < 1))
        return tp_fail(TP_ERR_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    return need_real(out[0], "geometric_cpu") && fill_tensor(arg[2], out[0], (draw){ .a = p }, geometric);
}

TP_HOOK_K(tp_k_cauchy)
{
    double median = tp_as_double(arg[1]), sigma = tp_as_double(arg[2]);
    if (!(sigma > 0))
        return tp_fail(TP_ERR_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    return need_continuous(out[0], "Cauchy", tp_dtypes[out[0]->dtype].cpp) && fill_tensor(arg[3], out[0], (draw){ .a = median, .b = sigma }, cauchy);
}

TP_HOOK_K(tp_k_log_normal)
{
    double mean = tp_as_double(arg[1]), deviation = tp_as_double(arg[2]);
    if (!(deviation > 0))
        return tp_fail(TP_ERR_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", deviation);
    return need_float(out[0], "log_normal_cpu") && need_real(out[0], "log_normal_cpu") && fill_tensor(arg[3], out[0], (draw){ .a = mean, .b = deviation }, log_normal);
}
