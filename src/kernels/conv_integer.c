/* conv_integer.c - each pair of an image's element and a feature's that a tap of the kernel joins, in order. */
#include "kernels/conv_integer.h"

#include "base/pool.h"

typedef struct work {
    const tp_conv *c;
    const uint64_t *from, *weight;      /* unsigned, for their sums wrap */
    uint64_t       *to;
    bool            back;
} work;

static int64_t volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

/* The image's place that tap t of feature place o looks at; -1: beyond the border. */
static int64_t place(const tp_conv *c, int64_t o, int64_t t)
{
    int64_t at[3] = { o / (c->out_size[1] * c->out_size[2]), o / c->out_size[2] % c->out_size[1], o % c->out_size[2] };
    int64_t tap[3] = { t / (c->kernel[1] * c->kernel[2]), t / c->kernel[2] % c->kernel[1], t % c->kernel[2] }, sum = 0;
    for (int d = 0; d < 3; d++) {
        int64_t p = at[d] * c->stride[d] + tap[d] * c->dilation[d] - c->padding[d];
        if (p < 0 || p >= c->in_size[d])
            return -1;
        sum = sum * c->in_size[d] + p;
    }
    return sum;
}

static void one_group(const work *w, int64_t n, int64_t group)
{
    const tp_conv *c = w->c;
    int64_t in = c->in_channels / c->groups, out = c->out_channels / c->groups, taps = volume(c->kernel);
    int64_t pixels = volume(c->in_size), places = volume(c->out_size);
    for (int64_t o = 0; o < places; o++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t p = place(c, o, t);
            for (int64_t k = 0; p >= 0 && k < out; k++)
                for (int64_t i = 0; i < in; i++) {
                    int64_t image = ((n * c->groups + group) * in + i) * pixels + p, feature = ((n * c->groups + group) * out + k) * places + o;
                    uint64_t weight = w->weight[((group * out + k) * in + i) * taps + t];
                    w->to[w->back ? image : feature] += weight * w->from[w->back ? feature : image];
                }
        }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    (void)count;
    one_group(w, index / w->c->groups, index % w->c->groups);
}

static void run(const tp_conv *c, const int64_t *from, const int64_t *weight, int64_t *to, bool back)
{
    work w = { c, (const uint64_t *)from, (const uint64_t *)weight, (uint64_t *)to, back };
    int64_t made = c->batch * (back ? c->in_channels * volume(c->in_size) : c->out_channels * volume(c->out_size));
    for (int64_t i = 0; i < made; i++)
        to[i] = 0;
    tp_pool_run(c->batch * c->groups, chunk, &w);
}

void tp_conv_integer_forward(const tp_conv *c, const int64_t *image, const int64_t *weight, int64_t *feature)
{
    run(c, image, weight, feature, false);
}

void tp_conv_integer_backward_input(const tp_conv *c, const int64_t *feature, const int64_t *weight, int64_t *image)
{
    run(c, feature, weight, image, true);
}
