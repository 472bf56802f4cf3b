/* columns.c - images as columns of their windows (im2col), and columns added back to an image (col2im). */
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"

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
            int64_t step = end - first > 1 ? w->stride[1] * bytes : 0;
            if (!w->add)
                memset(row, 0, (size_t)(w->made[1] * bytes));
            if (there && w->add)
                w->add(end - first, from, step, row + first * bytes, bytes);
            else if (there)
                tp_move_elements(w->bytes, end - first, row + first * bytes, bytes, from, step);
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
    w.planes = w.size[0] * w.size[1] > 0 ? image->numel / (w.size[0] * w.size[1]) : 0;
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
