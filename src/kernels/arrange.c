/* arrange.c - elements in another order: flip, roll, repeat, tril, triu; windows summed.
 *
 * flip and repeat are copies through views with other strides; a negative stride is seen only by the tile loop. */
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "tile/tile.h"

/* A copy between two geometries, strides in elements, beginning at the given offsets. Both have `to`'s type. */
static void copy_between(const tp_tensor *to, int ndim, const int64_t *size, const int64_t *to_stride, int64_t to_offset,
                         const tp_tensor *from, const int64_t *from_stride, int64_t from_offset)
{
    static const tp_tile_program program = { .input_count = 1, .register_count = 1, .output_count = 1 };
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)to->dtype), stride[2][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = (uint8_t)ndim, .compute = (uint8_t)tp_tile_compute((tp_dtype)to->dtype), .size = size };
    for (int i = 0; i < ndim; i++) {
        stride[0][i] = to_stride[i] * bytes;
        stride[1][i] = from_stride[i] * bytes;
    }
    loop.operand[0] = (tp_tile_operand){ (char *)tp_tensor_data(to) + to_offset * bytes, to->dtype, stride[0] };
    loop.operand[1] = (tp_tile_operand){ (char *)tp_tensor_data(from) + from_offset * bytes, from->dtype, stride[1] };
    tp_tile_run(&program, &loop);
}

/* Rows of a row-major tensor, each reversed if the last dim is, from where the flipped coordinates of the others say. */
static void flip_rows(const tp_tensor *from, const bool *flipped, tp_tensor *to)
{
    int last = from->ndim - 1;
    int64_t n = from->size[last], bytes = (int64_t)tp_dtype_bytes((tp_dtype)from->dtype);
    for (int64_t row = 0; row < from->numel / n; row++) {
        int64_t k = row, source = 0;
        for (int d = last - 1; d >= 0; d--) {
            int64_t i = k % from->size[d];
            source += (flipped[d] ? from->size[d] - 1 - i : i) * from->stride[d];
            k /= from->size[d];
        }
        const char *a = (const char *)tp_tensor_data(from) + source * bytes;
        char *b = (char *)tp_tensor_data(to) + row * n * bytes;
#define REVERSE(T)                                              \
    for (int64_t i = 0; i < n; i++)                             \
        ((T *)b)[i] = ((const T *)a)[n - 1 - i];                \
    break
        if (!flipped[last]) {
            memcpy(b, a, (size_t)(n * bytes));
            continue;
        }
        switch (bytes) {
        case 1: REVERSE(uint8_t);
        case 2: REVERSE(uint16_t);
        case 4: REVERSE(uint32_t);
        case 8: REVERSE(uint64_t);
        default: REVERSE(tp_c128);
        }
#undef REVERSE
    }
}

/* flip(self, dims) */
TP_HOOK_K(tp_k_flip)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t stride[TP_MAX_DIMS], offset = 0;
    bool flipped[TP_MAX_DIMS] = { false };
    memcpy(stride, self->stride, (size_t)self->ndim * sizeof *stride);
    for (uint32_t i = 0; i < tp_length(arg[1]); i++) {
        int d = tp_wrap_dim(tp_as_int(arg[1].list->item[i]), self->ndim);
        if (self->ndim) {
            offset += (self->size[d] - 1) * self->stride[d];
            stride[d] = -self->stride[d];
            flipped[d] = true;
        }
    }
    if (self->numel && self->ndim && tp_tensor_is_contiguous(self) && tp_tensor_is_contiguous(out[0]))
        flip_rows(self, flipped, out[0]);
    else if (self->numel)
        copy_between(out[0], self->ndim, self->size, out[0]->stride, 0, self, stride, offset);
    return true;
}

/* One dim at a time, from `from` into `to`: [a b c d e] by 2 is [d e | a b c]. */
static void roll_dim(tp_tensor *to, const tp_tensor *from, int dim, int64_t shift)
{
    int64_t n = from->size[dim], size[TP_MAX_DIMS];
    shift = tp_int_mod(shift, n);
    memcpy(size, from->size, (size_t)from->ndim * sizeof *size);
    size[dim] = n - shift;
    copy_between(to, to->ndim, size, to->stride, shift * to->stride[dim], from, from->stride, 0);
    size[dim] = shift;
    if (shift)
        copy_between(to, to->ndim, size, to->stride, 0, from, from->stride, (n - shift) * from->stride[dim]);
}

/* roll(self, shifts, dims); without dims the tensor is rolled as one row. */
TP_HOOK_K(tp_k_roll)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t shift[TP_MAX_DIMS];
    int count = tp_as_ints(arg[1], shift, TP_MAX_DIMS, 1), dims = (int)tp_length(arg[2]);
    if (count < 0)
        return false;
    if (!self->numel)
        return true;
    if (!dims) {
        tp_tensor *row = tp_contiguous(self), *to = row ? tp_dense_out(out[0], (tp_dtype)self->dtype) : NULL;
        if (to) {
            size_t bytes = tp_dtype_bytes((tp_dtype)self->dtype), split = (size_t)tp_int_mod(shift[0], self->numel) * bytes;
            size_t all = (size_t)self->numel * bytes;
            memcpy((char *)tp_tensor_data(to) + split, tp_tensor_data(row), all - split);
            memcpy(tp_tensor_data(to), (char *)tp_tensor_data(row) + all - split, split);
        }
        tp_tensor_unref(row);
        return tp_dense_done(to, out[0], true);
    }
    tp_tensor *from = tp_tensor_ref(self);
    for (int i = 0; from && i < dims; i++) {
        tp_tensor *to = i == dims - 1 ? tp_tensor_ref(out[0]) : tp_tensor_new((tp_dtype)self->dtype, self->ndim, self->size);
        if (to)
            roll_dim(to, from, tp_wrap_dim(tp_as_int(arg[2].list->item[i]), self->ndim), shift[i]);
        tp_tensor_unref(from);
        from = to;
    }
    tp_tensor_unref(from);
    return from != NULL;
}

/* repeat(self, repeats): the result seen as [repeat, size] pairs of dims, the input standing still along repeats. */
TP_HOOK_K(tp_k_repeat)
{
    const tp_tensor *self = arg[0].tensor;
    tp_tensor *to = out[0];
    int64_t size[2 * TP_MAX_DIMS], to_stride[2 * TP_MAX_DIMS], from_stride[2 * TP_MAX_DIMS];
    int n = 0, missing = to->ndim - self->ndim;
    if (!to->numel)
        return true;
    for (int i = 0; i < to->ndim; i++) {
        int64_t own = i < missing ? 1 : self->size[i - missing];
        if (to->size[i] != own) {
            size[n] = to->size[i] / own;
            to_stride[n] = to->stride[i] * own;
            from_stride[n++] = 0;
        }
        if (own != 1) {
            size[n] = own;
            to_stride[n] = to->stride[i];
            from_stride[n++] = self->stride[i - missing];
        }
    }
    if (n > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "repeat: more than %d dimensions of input and repeats", TP_MAX_DIMS);
    copy_between(to, n, size, to_stride, 0, self, from_stride, 0);
    return true;
}

/* ---- channels and pixels ---- */

/* Dims of a copy: the same number of elements along each, with a stride on both sides. */
typedef struct paired {
    int     ndim;
    int64_t size[TP_MAX_DIMS + 2], to[TP_MAX_DIMS + 2], from[TP_MAX_DIMS + 2];
} paired;

static void pair(paired *p, int64_t size, int64_t to, int64_t from)
{
    p->size[p->ndim] = size;
    p->to[p->ndim] = to;
    p->from[p->ndim++] = from;
}

static bool copy_paired(const paired *p, const tp_tensor *to, const tp_tensor *from)
{
    if (p->ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "more than %d dimensions", TP_MAX_DIMS);
    if (to->numel)
        copy_between(to, p->ndim, p->size, p->to, 0, from, p->from, 0);
    return true;
}

/* channel_shuffle(self, groups): channel [group, k] goes to [k, group]. */
TP_HOOK_K(tp_k_channel_shuffle)
{
    const tp_tensor *self = arg[0].tensor, *to = out[0];
    int64_t groups = tp_as_int(arg[1]), each = self->size[1] / groups;
    paired p = { 0 };
    pair(&p, self->size[0], to->stride[0], self->stride[0]);
    pair(&p, each, to->stride[1] * groups, self->stride[1]);
    pair(&p, groups, to->stride[1], self->stride[1] * each);
    for (int i = 2; i < self->ndim; i++)
        pair(&p, self->size[i], to->stride[i], self->stride[i]);
    return copy_paired(&p, to, self);
}

/* Channels [c, r, r] of the small picture are pixels [h, r], [w, r] of the large one; either side may be the source. */
static bool shuffle_pixels(const tp_tensor *small, const tp_tensor *large, int64_t r, bool enlarge)
{
    int n = small->ndim - 3;
    paired p = { 0 };
    const int64_t *a = small->stride, *b = large->stride;
    for (int i = 0; i < n; i++)
        pair(&p, small->size[i], b[i], a[i]);
    pair(&p, large->size[n], b[n], a[n] * r * r);
    pair(&p, small->size[n + 1], b[n + 1] * r, a[n + 1]);
    pair(&p, r, b[n + 1], a[n] * r);
    pair(&p, small->size[n + 2], b[n + 2] * r, a[n + 2]);
    pair(&p, r, b[n + 2], a[n]);
    for (int i = 0; i < p.ndim && !enlarge; i++) {
        int64_t swap = p.to[i];
        p.to[i] = p.from[i];
        p.from[i] = swap;
    }
    return enlarge ? copy_paired(&p, large, small) : copy_paired(&p, small, large);
}

TP_HOOK_K(tp_k_pixel_shuffle)
{
    return shuffle_pixels(arg[0].tensor, out[0], tp_as_int(arg[1]), true);
}

TP_HOOK_K(tp_k_pixel_unshuffle)
{
    return shuffle_pixels(out[0], arg[0].tensor, tp_as_int(arg[1]), false);
}

/* ---- windows ---- */

typedef struct windows {
    const char    *from;
    char          *to;
    tp_combine_fn *add;
    int64_t        outer, count, inner, n, size, step, bytes;   /* count windows of `size`, `step` apart, over n elements */
} windows;

static void window_chunk(void *pointer, int64_t index, int64_t count)
{
    const windows *w = pointer;
    int64_t end = tp_chunk_at(w->outer, index + 1, count);
    for (int64_t o = tp_chunk_at(w->outer, index, count); o < end; o++)
        for (int64_t k = 0; k < w->count; k++)
            for (int64_t i = 0; i < w->inner; i++)
                w->add(w->size, w->to + ((o * w->n + k * w->step) * w->inner + i) * w->bytes, w->inner * w->bytes,
                       w->from + ((o * w->count + k) * w->inner + i) * w->size * w->bytes, w->bytes);
}

/* unfold_backward(grad_in, input_sizes, dim, size, step): every window is added where it came from. */
TP_HOOK_K(tp_k_unfold_backward)
{
    const tp_tensor *grad = arg[0].tensor;
    tp_dtype d = (tp_dtype)grad->dtype;
    tp_tensor *from = tp_dense(grad, d), *to = from ? tp_dense_out(out[0], d) : NULL;
    if (to && to->numel) {
        tp_along a = tp_along_dim(to, tp_as_int(arg[2]));
        windows w = { tp_tensor_data(from), tp_tensor_data(to), tp_combine_of(TP_COMBINE_ADD, d), a.outer, 0, a.inner, a.size,
                      tp_as_int(arg[3]), tp_as_int(arg[4]), (int64_t)tp_dtype_bytes(d) };
        memset(tp_tensor_data(to), 0, (size_t)to->numel * (size_t)w.bytes);
        w.count = w.size ? from->numel / (a.outer * a.inner * w.size) : 0;
        if (w.count)
            tp_pool_run(tp_chunks_of(w.outer, w.count * w.inner * w.size), window_chunk, &w);
    }
    tp_tensor_unref(from);
    return tp_dense_done(to, out[0], true);
}

/* ---- triangles ---- */

/* Keeps one triangle of each matrix: a row keeps columns [0, i + diagonal] or [i + diagonal, columns). */
static bool triangle(const tp_value *arg, tp_tensor *out, bool lower)
{
    const tp_tensor *self = arg[0].tensor;
    tp_tensor *from = tp_contiguous(self), *to = from ? tp_dense_out(out, (tp_dtype)self->dtype) : NULL;
    int64_t diagonal = tp_as_int(arg[1]);
    if (to && to->numel) {
        int64_t rows = self->size[self->ndim - 2], columns = self->size[self->ndim - 1];
        diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
        size_t bytes = tp_dtype_bytes((tp_dtype)self->dtype), line = (size_t)columns * bytes;
        for (int64_t i = 0; i < self->numel / columns; i++) {
            int64_t split = i % rows + diagonal + lower;
            size_t cut = (size_t)(split < 0 ? 0 : split > columns ? columns : split) * bytes;
            char *row = (char *)tp_tensor_data(to) + (size_t)i * line;
            const char *source = (const char *)tp_tensor_data(from) + (size_t)i * line;
            memcpy(lower ? row : row + cut, lower ? source : source + cut, lower ? cut : line - cut);
            memset(lower ? row + cut : row, 0, lower ? line - cut : cut);
        }
    }
    tp_tensor_unref(from);
    return tp_dense_done(to, out, true);
}

/* tril(self, diagonal), triu(self, diagonal) */
TP_HOOK_K(tp_k_tril)
{
    return triangle(arg, out[0], true);
}

TP_HOOK_K(tp_k_triu)
{
    return triangle(arg, out[0], false);
}
