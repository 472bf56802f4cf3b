/* conv_half.c - halves by way of f32 copies. */
#include "kernels/conv_half.h"

#include "base/block.h"
#include "base/error.h"
#include "base/pool.h"

/* A tensor of halves, and its wide twin. */
typedef struct twin {
    tp_dtype     dtype;
    tp_conv_view half, wide;
    int64_t      outer, channels, space[3];
    size_t       bytes;
} twin;

static bool twin_init(twin *t, tp_dtype d, const tp_conv_view *half, int64_t outer, int64_t channels,
                      const int64_t space[3])
{
    int64_t pixels = space[0] * space[1] * space[2];
    size_t elements;
    *t = (twin){ d, *half, { 0 }, outer, channels, { space[0], space[1], space[2] }, 0 };
    if (__builtin_mul_overflow((size_t)(outer * channels), (size_t)pixels * sizeof(float), &elements))
        return tp_fail_memory();
    t->bytes = elements;
    t->wide = tp_conv_view_of(tp_block_new(elements), channels, space, false);
    return t->wide.data != NULL;
}

static void twin_fini(twin *t)
{
    tp_block_free(t->wide.data, t->bytes);
}

/* One [outer, channel] plane, either way. */
static void convert_plane(const twin *t, int64_t plane, bool narrow)
{
    const tp_conv_view *v = &t->half;
    uint16_t *half = (uint16_t *)v->data + plane / t->channels * v->outer + plane % t->channels * v->channel;
    float *wide = (float *)t->wide.data + plane * t->wide.channel;
    for (int64_t i = 0; i < t->space[0]; i++)
        for (int64_t j = 0; j < t->space[1]; j++) {
            uint16_t *row = half + i * v->space[0] + j * v->space[1];
            for (int64_t q = 0; q < t->space[2]; q++, wide++, row += v->space[2]) {
                if (narrow)
                    *row = t->dtype == TP_f16 ? tp_float_to_half(*wide) : tp_float_to_bfloat(*wide);
                else
                    *wide = t->dtype == TP_f16 ? tp_half_to_float(*row) : tp_bfloat_to_float(*row);
            }
        }
}

static void widen_chunk(void *work, int64_t index, int64_t count)
{
    (void)count;
    convert_plane(work, index, false);
}

static void narrow_chunk(void *work, int64_t index, int64_t count)
{
    (void)count;
    convert_plane(work, index, true);
}

static void widen(twin *t)
{
    tp_pool_run(t->outer * t->channels, widen_chunk, t);
}

static void narrow(twin *t)
{
    tp_pool_run(t->outer * t->channels, narrow_chunk, t);
}

bool tp_conv_half_forward(tp_dtype d, const tp_conv *c, const tp_conv_view *x, const tp_conv_view *w, const void *bias,
                          const tp_conv_view *y)
{
    static const int64_t one[3] = { 1, 1, 1 };
    twin tx = { 0 }, tw = { 0 }, tb = { 0 }, ty = { 0 };
    tp_conv_view flat = tp_conv_view_of((void *)bias, 1, one, false);
    bool ok = twin_init(&tx, d, x, c->batch, c->in_channels, c->in_size) &&
              twin_init(&tw, d, w, c->out_channels, c->in_channels / c->groups, c->kernel) &&
              twin_init(&ty, d, y, c->batch, c->out_channels, c->out_size) &&
              (!bias || twin_init(&tb, d, &flat, c->out_channels, 1, one));
    if (ok) {
        widen(&tx);
        widen(&tw);
        if (bias)
            widen(&tb);
        ok = tp_conv_forward(TP_f32, c, &tx.wide, &tw.wide, tb.wide.data, &ty.wide);
    }
    if (ok)
        narrow(&ty);
    twin_fini(&tb);
    twin_fini(&ty);
    twin_fini(&tw);
    twin_fini(&tx);
    return ok;
}

bool tp_conv_half_backward_input(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, const tp_conv_view *w,
                                 const tp_conv_view *grad_x)
{
    twin tx = { 0 }, tw = { 0 }, ty = { 0 };
    bool ok = twin_init(&tx, d, grad_x, c->batch, c->in_channels, c->in_size) &&
              twin_init(&tw, d, w, c->out_channels, c->in_channels / c->groups, c->kernel) &&
              twin_init(&ty, d, grad_y, c->batch, c->out_channels, c->out_size);
    if (ok) {
        widen(&ty);
        widen(&tw);
        ok = tp_conv_backward_input(TP_f32, c, &ty.wide, &tw.wide, &tx.wide);
    }
    if (ok)
        narrow(&tx);
    twin_fini(&ty);
    twin_fini(&tw);
    twin_fini(&tx);
    return ok;
}

bool tp_conv_half_backward_weight(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, const tp_conv_view *x,
                                  const tp_conv_view *grad_w)
{
    twin tx = { 0 }, tw = { 0 }, ty = { 0 };
    bool ok = twin_init(&tx, d, x, c->batch, c->in_channels, c->in_size) &&
              twin_init(&tw, d, grad_w, c->out_channels, c->in_channels / c->groups, c->kernel) &&
              twin_init(&ty, d, grad_y, c->batch, c->out_channels, c->out_size);
    if (ok) {
        widen(&ty);
        widen(&tx);
        ok = tp_conv_backward_weight(TP_f32, c, &ty.wide, &tx.wide, &tw.wide);
    }
    if (ok)
        narrow(&tw);
    twin_fini(&ty);
    twin_fini(&tw);
    twin_fini(&tx);
    return ok;
}
