/* columns.c - images as columns of their windows (im2col), columns added back to an image (col2im), and shuffles of channels and
 * pixels, which are copies between two views. */
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"

/* ---- windows as columns ---- */

typedef struct work {
    size_t  bytes;
    int64_t planes, size[2], made[2], kernel[2], dilation[2], padding[2], stride[2];    /* made: windows down and across */
    char   *image, *columns;
    tp_combine_fn *add;             /* NULL: from the image to columns */
} work;

/* The windows of a row of which a tap lies inside: first … end. */
static void inside(int64_t start, int64_t stride, int64_t size, int64_t count, int64_t *first, int64_t *end)
{
    *first = start >= 0 ? 0 : (-start + stride - 1) / stride;
    *end = size > start ? (size - start + stride - 1) / stride : 0;
    *end = *end < count ? *end : count;
    *first = *first < *end ? *first : *end;
}

static void plane(const work *w, int64_t p)
{
    int64_t bytes = (int64_t)w->bytes, taps = w->kernel[0] * w->kernel[1], windows = w->made[0] * w->made[1];
    char *image = w->image + p * w->size[0] * w->size[1] * bytes;
    if (w->add)
        memset(image, 0, (size_t)(w->size[0] * w->size[1] * bytes));
    for (int64_t t = 0; t < taps; t++) {
        char *row = w->columns + (p * taps + t) * windows * bytes;
        int64_t x0 = t % w->kernel[1] * w->dilation[1] - w->padding[1], first, end;
        inside(x0, w->stride[1], w->size[1], w->made[1], &first, &end);
        for (int64_t i = 0; i < w->made[0]; i++, row += w->made[1] * bytes) {
            int64_t y = i * w->stride[0] + t / w->kernel[1] * w->dilation[0] - w->padding[0];
            bool there = y >= 0 && y < w->size[0] && first < end;
            char *from = there ? image + (y * w->size[1] + x0 + first * w->stride[1]) * bytes : NULL;
            if (!w->add)
                memset(row, 0, (size_t)(w->made[1] * bytes));
            if (there && w->add)
                w->add(end - first, from, w->stride[1] * bytes, row + first * bytes, bytes);
            else if (there)
                tp_move_elements(w->bytes, end - first, row + first * bytes, bytes, from, w->stride[1] * bytes);
        }
    }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    for (int64_t p = tp_chunk_at(w->planes, index, count); p < tp_chunk_at(w->planes, index + 1, count); p++)
        plane(w, p);
}

/* kernel_size, dilation, padding, stride at arg[0…]; `image` has the sizes of the image. */
static bool run(const tp_value *arg, const tp_tensor *image, const tp_tensor *from, tp_tensor *to, bool back)
{
    tp_dtype d = (tp_dtype)from->dtype;
    work w = { .bytes = tp_dtype_bytes(d), .size = { image->size[image->ndim - 2], image->size[image->ndim - 1] },
               .add = back ? tp_combine_of(TP_COMBINE_ADD, d) : NULL };
    if (tp_as_ints(arg[0], w.kernel, 2, 2) != 2 || tp_as_ints(arg[1], w.dilation, 2, 2) != 2 || tp_as_ints(arg[2], w.padding, 2, 2) != 2 ||
        tp_as_ints(arg[3], w.stride, 2, 2) != 2)
        return false;
    for (int i = 0; i < 2; i++)
        w.made[i] = (w.size[i] + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1) / w.stride[i] + 1;
    w.planes = w.size[0] * w.size[1] ? image->numel / (w.size[0] * w.size[1]) : 0;
    tp_tensor *source = tp_dense(from, d), *target = source ? tp_dense_out(to, d) : NULL;
    bool ok = target != NULL;
    if (ok) {
        w.image = tp_tensor_data(back ? target : source);
        w.columns = tp_tensor_data(back ? source : target);
        tp_pool_run(tp_chunks_of(w.planes, w.kernel[0] * w.kernel[1] * w.made[0] * w.made[1]), chunk, &w);
    }
    tp_tensor_unref(source);
    return tp_dense_done(target, to, ok);
}

TP_HOOK_K(tp_k_im2col) { return run(arg + 1, arg[0].tensor, arg[0].tensor, out[0], false); }
TP_HOOK_K(tp_k_col2im) { return run(arg + 2, out[0], arg[0].tensor, out[0], true); }

/* ---- shuffles ---- */

/* A dim of a view: size and stride. */
typedef struct dim {
    int64_t size, stride;
} dim;

/* Copies from one split of dims to the same dims of another; leading dims are those of the tensors. */
static bool copy_split(const tp_tensor *from, tp_tensor *to, int lead, int count, const dim *a, const dim *b)
{
    int64_t size[TP_MAX_DIMS + 8], stride[2][TP_MAX_DIMS + 8];
    if (lead + count > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "a shuffle of %d dims", from->ndim);
    for (int i = 0; i < lead; i++) {
        size[i] = from->size[i];
        stride[0][i] = from->stride[i];
        stride[1][i] = to->stride[i];
    }
    for (int i = 0; i < count; i++) {
        size[lead + i] = a[i].size;
        stride[0][lead + i] = a[i].stride;
        stride[1][lead + i] = b[i].stride;
    }
    tp_tensor *x = tp_tensor_view(from, lead + count, size, stride[0], from->offset);
    tp_tensor *y = x ? tp_tensor_view(to, lead + count, size, stride[1], to->offset) : NULL;
    if (y)
        tp_copy(y, x);
    bool ok = y != NULL;
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    return ok;
}

/* Of the side with few channels (`large` images) and that with many: [c, h, r, w, r] seen in both. */
static void split_pixels(const tp_tensor *large, const tp_tensor *small, int64_t r, dim *of_large, dim *of_small)
{
    const int64_t *size = small->size + small->ndim - 3, *l = large->stride + large->ndim - 3, *s = small->stride + small->ndim - 3;
    int64_t channels = large->size[large->ndim - 3];
    memcpy(of_large, (dim[5]){ { channels, l[0] }, { size[1], r * l[1] }, { r, l[1] }, { size[2], r * l[2] }, { r, l[2] } }, 5 * sizeof(dim));
    memcpy(of_small, (dim[5]){ { channels, r * r * s[0] }, { size[1], s[1] }, { r, r * s[0] }, { size[2], s[2] }, { r, s[0] } }, 5 * sizeof(dim));
}

TP_HOOK_K(tp_k_pixel_shuffle)
{
    dim large[5], small[5];
    split_pixels(out[0], arg[0].tensor, tp_as_int(arg[1]), large, small);
    return copy_split(arg[0].tensor, out[0], out[0]->ndim - 3, 5, small, large);
}

TP_HOOK_K(tp_k_pixel_unshuffle)
{
    dim large[5], small[5];
    split_pixels(arg[0].tensor, out[0], tp_as_int(arg[1]), large, small);
    return copy_split(arg[0].tensor, out[0], out[0]->ndim - 3, 5, large, small);
}

/* [groups, c / groups] becomes [c / groups, groups] in dim 1. */
TP_HOOK_K(tp_k_channel_shuffle)
{
    const tp_tensor *x = arg[0].tensor, *y = out[0];
    int64_t groups = tp_as_int(arg[1]), each = x->size[1] / groups;
    dim a[TP_MAX_DIMS + 2] = { { groups, each * x->stride[1] }, { each, x->stride[1] } }, b[TP_MAX_DIMS + 2] = { { groups, y->stride[1] }, { each, groups * y->stride[1] } };
    for (int i = 2; i < x->ndim; i++) {
        a[i] = (dim){ x->size[i], x->stride[i] };
        b[i] = (dim){ y->size[i], y->stride[i] };
    }
    return copy_split(x, out[0], 1, x->ndim, a, b);
}
