/* fft.c - Fourier transforms of tensors: _fft_c2c, _fft_r2c, _fft_c2r.
 *
 * Dims are transformed one after the other. Along a dim the tensor is a set of lines; a line is read into two arrays, transformed
 * (kernels/fft_plan.h) and written, scaled at the last dim. Where a line has gaps, or is short, neighbouring lines are taken side
 * by side, so that reading, transforming and writing still run over neighbours. How lines are shared does not depend on the
 * number of threads, and no line depends on another. */
#include <math.h>
#include <string.h>

#include "base/block.h"
#include "kernels/dense.h"
#include "kernels/each.h"
#include "kernels/fft_plan.h"

/* APART: elements between the arrays of scratch, so that powers of two do not share the sets of the cache. */
enum { SHORT = 32, SIDE = 16, MOST_SIDE_ELEMENTS = 32768, APART = 80 };

typedef enum kind { COMPLEX, FROM_REAL, FROM_REAL_MIRRORED, TO_REAL } kind;

typedef struct lines {
    kind     kind;
    tp_fft_plan *plan;
    bool     backward, single;
    double   scale;
    int64_t  n;                             /* numbers that are transformed */
    const char *from;
    char    *to;
    int64_t  from_step, to_step;            /* bytes along a line */
    int      ndim;                          /* of the other dims, the last one has the nearest lines */
    int64_t  size[TP_MAX_DIMS], from_stride[TP_MAX_DIMS], to_stride[TP_MAX_DIMS];
    int64_t  count, side;                   /* lines, and how many are taken at once along the last of the other dims */
    int64_t  room;                          /* elements of each of four arrays of scratch */
    size_t   scratch_bytes;                 /* of these, and of a line behind them */
    int64_t  chunks;
} lines;

/* ---- single numbers with gaps ---- */
#define EACH_TYPE(statement)        \
    do {                            \
        if (w->single) {            \
            typedef float T;        \
            statement               \
        } else {                    \
            typedef double T;       \
            statement               \
        }                           \
    } while (0)

static void read_complex(const lines *w, int64_t n, const char *from, tp_fft_pair to)
{
    if (w->from_step == (w->single ? 8 : 16)) {
        w->plan->kernels->split(n, from, to);
        return;
    }
    EACH_TYPE(for (int64_t i = 0; i < n; i++, from += w->from_step) {
        ((T *)to.re)[i] = ((const T *)from)[0];
        ((T *)to.im)[i] = ((const T *)from)[1];
    });
}

static void write_complex(const lines *w, int64_t n, tp_fft_pair from, char *to)
{
    if (w->to_step == (w->single ? 8 : 16)) {
        w->plan->kernels->join(n, from, w->scale, to);
        return;
    }
    EACH_TYPE(for (int64_t i = 0; i < n; i++, to += w->to_step) {
        ((T *)to)[0] = ((const T *)from.re)[i] * (T)w->scale;
        ((T *)to)[1] = ((const T *)from.im)[i] * (T)w->scale;
    });
}

/* n elements of `width` bytes between a line with gaps and one without. */
static void gather(int64_t n, size_t width, const char *from, int64_t step, char *to)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * width, from + i * step, width);
}

static void scatter(int64_t n, size_t width, const char *from, char *to, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * step, from + (size_t)i * width, width);
}

static tp_fft_pair exchanged(tp_fft_pair x, bool yes)
{
    return yes ? (tp_fft_pair){ x.im, x.re } : x;
}

/* ---- one line ---- */
static void complex_line(const lines *w, const char *from, char *to, tp_fft_pair x, tp_fft_pair y)
{
    read_complex(w, w->n, from, exchanged(x, w->backward));
    write_complex(w, w->n, exchanged(tp_fft_run(w->plan, x, y), w->backward), to);
}

/* The coefficients beyond the middle are the conjugates of those before it. */
static void mirror(const lines *w, char *to)
{
    EACH_TYPE(for (int64_t k = w->n / 2 + 1; k < w->n; k++) {
        const T *a = (const T *)(to + (w->n - k) * w->to_step);
        T *b = (T *)(to + k * w->to_step);
        b[0] = a[0];
        b[1] = -a[1];
    });
}

static void line_from_real(const lines *w, const char *from, char *to, tp_fft_pair x, tp_fft_pair y, char *line)
{
    size_t width = w->single ? 4 : 8;
    int64_t half = w->n / 2;
    if (w->from_step != (int64_t)width)
        gather(w->n, width, from, w->from_step, line);
    const char *dense = w->from_step != (int64_t)width ? line : from;
    if (w->n % 2) {
        memcpy(x.re, dense, (size_t)w->n * width);
        memset(x.im, 0, (size_t)w->n * width);
        write_complex(w, half + 1, tp_fft_run(w->plan, x, y), to);
    } else {
        w->plan->kernels->split(half, dense, x);
        tp_fft_pair z = tp_fft_run(w->plan->inner, x, y), made = z.re == x.re ? y : x;
        w->plan->kernels->unpack(half, z, w->plan->root, made);
        write_complex(w, half + 1, made, to);
    }
    if (w->kind == FROM_REAL_MIRRORED)
        mirror(w, to);
}

static void line_to_real(const lines *w, const char *from, char *to, tp_fft_pair x, tp_fft_pair y, char *line)
{
    size_t width = w->single ? 4 : 8;
    int64_t half = w->n / 2;
    bool apart = w->to_step != (int64_t)width;
    char *dense = apart ? line : to;
    if (w->n % 2) {
        read_complex(w, half + 1, from, x);
        EACH_TYPE(
            ((T *)x.im)[0] = 0;
            for (int64_t k = 1; k <= half; k++) {
                ((T *)x.re)[w->n - k] = ((T *)x.re)[k];
                ((T *)x.im)[w->n - k] = -((T *)x.im)[k];
            }
        );
        tp_fft_pair made = exchanged(tp_fft_run(w->plan, exchanged(x, true), exchanged(y, true)), true);
        EACH_TYPE(for (int64_t i = 0; i < w->n; i++)
            ((T *)dense)[i] = ((const T *)made.re)[i] * (T)w->scale;
        );
    } else {
        read_complex(w, half + 1, from, y);
        w->plan->kernels->pack(half, y, w->plan->root, x);
        tp_fft_pair made = exchanged(tp_fft_run(w->plan->inner, exchanged(x, true), exchanged(y, true)), true);
        w->plan->kernels->join(half, made, w->scale, dense);
    }
    if (apart)
        scatter(w->n, width, dense, to, w->to_step);
}

/* ---- lines side by side ---- */
static void complex_lines(const lines *w, int64_t side, const char *from, char *to, tp_fft_pair x, tp_fft_pair y)
{
    int64_t from_next = w->from_stride[w->ndim - 1], to_next = w->to_stride[w->ndim - 1];
    tp_fft_pair in = exchanged(x, w->backward);
    EACH_TYPE(for (int64_t i = 0; i < w->n; i++)
        for (int64_t k = 0; k < side; k++) {
            const T *v = (const T *)(from + i * w->from_step + k * from_next);
            ((T *)in.re)[i * side + k] = v[0];
            ((T *)in.im)[i * side + k] = v[1];
        }
    );
    tp_fft_pair made = exchanged(tp_fft_run_columns(w->plan, side, x, y), w->backward);
    EACH_TYPE(T scale = (T)w->scale;
        for (int64_t i = 0; i < w->n; i++)
            for (int64_t k = 0; k < side; k++) {
                T *v = (T *)(to + i * w->to_step + k * to_next);
                v[0] = ((const T *)made.re)[i * side + k] * scale;
                v[1] = ((const T *)made.im)[i * side + k] * scale;
            }
    );
}

static bool chunk(void *pointer, int64_t index)
{
    const lines *w = pointer;
    size_t width = w->single ? 4 : 8, array = (size_t)w->room * width;
    int64_t count = w->chunks;
    char *scratch = tp_block_new(w->scratch_bytes);
    if (!scratch)
        return false;
    tp_fft_pair x = { scratch, scratch + array }, y = { scratch + 2 * array, scratch + 3 * array };
    int64_t last = w->ndim ? w->size[w->ndim - 1] : 1, groups = (last + w->side - 1) / w->side, units = w->count / last * groups;
    int64_t end = tp_chunk_at(units, index + 1, count);
    for (int64_t unit = tp_chunk_at(units, index, count); unit < end; unit++) {
        int64_t rest = unit / groups, begin = unit % groups * w->side, some = last - begin < w->side ? last - begin : w->side;
        const char *from = w->from + (w->ndim ? begin * w->from_stride[w->ndim - 1] : 0);
        char *to = w->to + (w->ndim ? begin * w->to_stride[w->ndim - 1] : 0);
        for (int d = w->ndim - 2; d >= 0; d--) {
            from += rest % w->size[d] * w->from_stride[d];
            to += rest % w->size[d] * w->to_stride[d];
            rest /= w->size[d];
        }
        if (some > 1)
            complex_lines(w, some, from, to, x, y);
        else if (w->kind == COMPLEX)
            complex_line(w, from, to, x, y);
        else if (w->kind == TO_REAL)
            line_to_real(w, from, to, x, y, scratch + 4 * array);
        else
            line_from_real(w, from, to, x, y, scratch + 4 * array);
    }
    tp_block_free(scratch, w->scratch_bytes);
    return true;
}

/* ---- one dim of a tensor ---- */

/* The other dims, by falling stride of the result. */
static void add_others(lines *w, const tp_tensor *from, const tp_tensor *to, int dim)
{
    int64_t from_bytes = (int64_t)tp_dtype_bytes((tp_dtype)from->dtype), to_bytes = (int64_t)tp_dtype_bytes((tp_dtype)to->dtype);
    w->count = 1;
    for (int i = 0; i < to->ndim; i++) {
        if (i == dim || to->size[i] == 1)
            continue;
        int at = w->ndim++;
        for (; at > 0 && w->to_stride[at - 1] < to->stride[i] * to_bytes; at--) {
            w->size[at] = w->size[at - 1];
            w->from_stride[at] = w->from_stride[at - 1];
            w->to_stride[at] = w->to_stride[at - 1];
        }
        w->size[at] = to->size[i];
        w->from_stride[at] = from->stride[i] * from_bytes;
        w->to_stride[at] = to->stride[i] * to_bytes;
        w->count *= to->size[i];
    }
}

static bool transform(const tp_tensor *from, tp_tensor *to, int dim, kind how, bool backward, double scale)
{
    tp_tensor *real = how == TO_REAL ? to : how == COMPLEX ? NULL : (tp_tensor *)from;
    lines w = { .kind = how, .backward = backward, .single = to->dtype == TP_f32 || to->dtype == TP_c64, .scale = scale,
                .n = (real ? real : to)->size[dim], .from = tp_tensor_data(from), .to = tp_tensor_data(to), .side = 1,
                .from_step = from->stride[dim] * (int64_t)tp_dtype_bytes((tp_dtype)from->dtype),
                .to_step = to->stride[dim] * (int64_t)tp_dtype_bytes((tp_dtype)to->dtype) };
    if (!to->numel)
        return true;
    add_others(&w, from, to, dim);
    if (!(w.plan = tp_fft_take(w.n, w.single, how != COMPLEX)))
        return false;
    int64_t width = w.single ? 4 : 8;
    bool gaps = w.from_step != 2 * width || w.to_step != 2 * width;
    if (how == COMPLEX && tp_fft_has_columns(w.plan) && w.ndim && (gaps || w.n < SHORT) && w.n * 4 <= MOST_SIDE_ELEMENTS) {
        w.side = MOST_SIDE_ELEMENTS / w.n < SIDE ? MOST_SIDE_ELEMENTS / w.n : SIDE;
        w.side = w.side < w.size[w.ndim - 1] ? w.side : w.size[w.ndim - 1];
    }
    int64_t last = w.ndim ? w.size[w.ndim - 1] : 1, units = w.count / last * ((last + w.side - 1) / w.side);
    w.chunks = tp_chunks_of(units, w.n * w.side * 4);
    w.room = ((tp_fft_room(w.plan) * w.side + 15) & ~(int64_t)15) + APART;
    w.scratch_bytes = ((size_t)w.room * 4 + (size_t)w.n * 2 + 32) * (size_t)width;
    bool ok = tp_each_run(w.chunks, 1, chunk, &w);
    tp_fft_give(w.plan);
    return ok;
}

/* ---- whole calls ---- */

/* By what the result is multiplied: normalization 0 nothing, 1 the root of the number of elements, 2 that number. */
static double scale_of(tp_value normalization, const tp_tensor *full, const int64_t *dim, int count)
{
    double n = 1;
    for (int i = 0; i < count; i++)
        n *= (double)full->size[dim[i]];
    int64_t how = tp_as_int(normalization);
    return how == 0 ? 1 : how == 1 ? 1 / sqrt(n) : 1 / n;
}

static int read_dims(tp_value v, const tp_tensor *self, int64_t *dim)
{
    int count = tp_as_ints(v, dim, TP_MAX_DIMS, 0);
    for (int i = 0; i < count; i++)
        dim[i] = tp_wrap_dim(dim[i], self->ndim);
    return count;
}

/* All dims but those from `count` on, one after the other; the first reads `from`. */
static bool transform_dims(const tp_tensor *from, tp_tensor *to, const int64_t *dim, int count, bool backward, double scale)
{
    for (int i = count - 1; i >= 0; i--)
        if (!transform(i == count - 1 ? from : to, to, (int)dim[i], COMPLEX, backward, i == 0 ? scale : 1))
            return false;
    return true;
}

/* _fft_c2c(self, dim, normalization, forward) */
TP_HOOK_K(tp_k_fft_c2c)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t dim[TP_MAX_DIMS];
    int count = read_dims(arg[1], self, dim);
    if (count == 0)
        tp_copy(out[0], self);
    return count <= 0 ? count == 0 : transform_dims(self, out[0], dim, count, !tp_as_bool(arg[3]), scale_of(arg[2], self, dim, count));
}

/* _fft_r2c(self, dim, normalization, onesided) */
TP_HOOK_K(tp_k_fft_r2c)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t dim[TP_MAX_DIMS];
    int count = read_dims(arg[1], self, dim);
    double scale = scale_of(arg[2], self, dim, count);
    kind how = tp_as_bool(arg[3]) ? FROM_REAL : FROM_REAL_MIRRORED;
    return count > 0 && transform(self, out[0], (int)dim[count - 1], how, false, count == 1 ? scale : 1)
           && transform_dims(out[0], out[0], dim, count - 1, false, scale);
}

/* _fft_c2r(self, dim, normalization, last_dim_size) */
TP_HOOK_K(tp_k_fft_c2r)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t dim[TP_MAX_DIMS];
    int count = read_dims(arg[1], self, dim);
    double scale = scale_of(arg[2], out[0], dim, count);
    tp_tensor *half = count > 1 ? tp_tensor_new((tp_dtype)self->dtype, self->ndim, self->size) : NULL;
    bool ok = count > 0 && (count == 1 || (half && transform_dims(self, half, dim, count - 1, true, 1)));
    ok = ok && transform(half ? half : self, out[0], (int)dim[count - 1], TO_REAL, true, scale);
    tp_tensor_unref(half);
    return ok;
}
