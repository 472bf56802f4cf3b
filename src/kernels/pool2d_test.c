/* pool2d_test.c - max pooling against the plain search of each window, with NaN, equals and borders. */
#include <math.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "base/test.h"
#include "kernels/pool2d.h"

typedef struct row {
    int64_t batch, channels;
    int64_t size[3], kernel[3], stride[3], padding[3], dilation[3];
    bool ceil;
} row;

static const row rows[] = {
    { 1, 3, { 1, 8, 9 }, { 1, 2, 2 }, { 1, 2, 2 }, { 0, 0, 0 }, { 1, 1, 1 }, false },
    { 2, 5, { 1, 13, 300 }, { 1, 3, 3 }, { 1, 2, 2 }, { 0, 1, 1 }, { 1, 1, 1 }, true },
    { 1, 6, { 1, 12, 11 }, { 1, 3, 2 }, { 1, 1, 3 }, { 0, 1, 0 }, { 1, 2, 3 }, true },
    { 2, 4, { 5, 6, 7 }, { 2, 3, 2 }, { 2, 1, 2 }, { 1, 1, 1 }, { 1, 1, 1 }, false },
    { 1, 300, { 1, 1, 40 }, { 1, 1, 5 }, { 1, 1, 1 }, { 0, 0, 2 }, { 1, 1, 1 }, false },
};

static tp_maxpool shape_of(const row *r)
{
    tp_maxpool p = { .batch = r->batch, .channels = r->channels };
    for (int d = 0; d < 3; d++) {
        int64_t room = r->size[d] + 2 * r->padding[d] - r->dilation[d] * (r->kernel[d] - 1) - 1;
        p.in_size[d] = r->size[d], p.kernel[d] = r->kernel[d], p.stride[d] = r->stride[d];
        p.padding[d] = r->padding[d], p.dilation[d] = r->dilation[d];
        p.out_size[d] = (room + (r->ceil ? r->stride[d] - 1 : 0)) / r->stride[d] + 1;
        if (r->ceil && (p.out_size[d] - 1) * r->stride[d] >= r->size[d] + r->padding[d])
            p.out_size[d]--;
    }
    return p;
}

static int64_t place(const tp_conv_view *v, int64_t n, int64_t c, const int64_t p[3])
{
    return n * v->outer + c * v->channel + p[0] * v->space[0] + p[1] * v->space[1] + p[2] * v->space[2];
}

/* The rule, one window at a time: the value and place of output o. */
static double search(tp_dtype d, const tp_maxpool *p, const tp_conv_view *x, int64_t n, int64_t c, const int64_t o[3],
                     int64_t *index)
{
    double best = 0;
    int64_t t[3], at[3];
    *index = -1;
    for (t[0] = 0; t[0] < p->kernel[0]; t[0]++)
        for (t[1] = 0; t[1] < p->kernel[1]; t[1]++)
            for (t[2] = 0; t[2] < p->kernel[2]; t[2]++) {
                bool inside = true;
                for (int k = 0; k < 3; k++) {
                    at[k] = o[k] * p->stride[k] - p->padding[k] + t[k] * p->dilation[k];
                    inside = inside && at[k] >= 0 && at[k] < p->in_size[k];
                }
                if (!inside)
                    continue;
                const char *e = (const char *)x->data + place(x, n, c, at) * (int64_t)tp_dtype_bytes(d);
                double v = tp_scalar_to_double(tp_scalar_read(e, d));
                if (*index < 0 || v > best || isnan(v)) {
                    best = v;
                    *index = (at[0] * p->in_size[1] + at[1]) * p->in_size[2] + at[2];
                }
            }
    return best;
}

static int compare(tp_dtype d, const tp_maxpool *p, const tp_conv_view *x, const tp_conv_view *y, const tp_conv_view *i)
{
    int wrong = 0;
    int64_t o[3], want;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t c = 0; c < p->channels; c++)
            for (o[0] = 0; o[0] < p->out_size[0]; o[0]++)
                for (o[1] = 0; o[1] < p->out_size[1]; o[1]++)
                    for (o[2] = 0; o[2] < p->out_size[2]; o[2]++) {
                        double v = search(d, p, x, n, c, o, &want);
                        const char *e = (const char *)y->data + place(y, n, c, o) * (int64_t)tp_dtype_bytes(d);
                        double got = tp_scalar_to_double(tp_scalar_read(e, d));
                        wrong += (got != v && !(isnan(got) && isnan(v))) ||
                                 ((const int64_t *)i->data)[place(i, n, c, o)] != want;
                    }
    return wrong;
}

/* Every gradient of 1 lands where the index says: the plane's sums count the windows. */
static bool check_gradient(tp_dtype d, const tp_maxpool *p, const tp_conv_view *y, const tp_conv_view *index,
                           const tp_conv_view *grad_x, int64_t outputs, int64_t inputs)
{
    size_t bytes = tp_dtype_bytes(d);
    double total = 0;
    for (int64_t i = 0; i < outputs; i++)
        tp_scalar_write(tp_scalar_int(1), (char *)y->data + i * (int64_t)bytes, d);
    if (!tp_maxpool_backward(d, p, y, index, grad_x))
        return false;
    for (int64_t i = 0; i < inputs; i++)
        total += tp_scalar_to_double(tp_scalar_read((char *)grad_x->data + i * (int64_t)bytes, d));
    return total == (double)outputs;
}

static bool try_row(tp_dtype d, const row *r, bool last)
{
    tp_maxpool p = shape_of(r);
    size_t bytes = tp_dtype_bytes(d);
    int64_t inputs = p.batch * p.channels * p.in_size[0] * p.in_size[1] * p.in_size[2];
    int64_t outputs = p.batch * p.channels * p.out_size[0] * p.out_size[1] * p.out_size[2];
    char *x = NULL, *y = NULL, *i = NULL, *g = NULL;
    bool ok = (x = tp_alloc((size_t)inputs * bytes)) && (y = tp_alloc((size_t)outputs * bytes)) &&
              (i = tp_alloc((size_t)outputs * 8)) && (g = tp_alloc((size_t)inputs * bytes));
    if (ok) {
        uint64_t state = 3;
        for (int64_t k = 0; k < inputs; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int64_t v = (int64_t)(state >> 33) % 7;
            bool odd = tp_dtype_is_float(d) && state >> 60 == 0;
            tp_scalar_write(odd ? tp_scalar_float(v & 1 ? NAN : -INFINITY) : tp_scalar_int(v),
                            x + k * (int64_t)bytes, d);
        }
        tp_conv_view vx = tp_conv_view_of(x, p.channels, p.in_size, last);
        tp_conv_view vg = tp_conv_view_of(g, p.channels, p.in_size, last);
        tp_conv_view vy = tp_conv_view_of(y, p.channels, p.out_size, last);
        tp_conv_view vi = tp_conv_view_of(i, p.channels, p.out_size, last);
        ok = tp_maxpool_forward(d, &p, &vx, &vy, &vi);
        TP_EXPECT(ok && compare(d, &p, &vx, &vy, &vi) == 0);
        TP_EXPECT(!ok || check_gradient(d, &p, &vy, &vi, &vg, outputs, inputs));
        *(int64_t *)i = p.in_size[0] * p.in_size[1] * p.in_size[2];
        TP_EXPECT(!tp_maxpool_backward(d, &p, &vy, &vi, &vg) && tp_error_kind() == TP_ERR_RUNTIME);
        tp_error_clear();
    }
    tp_free(g);
    tp_free(i);
    tp_free(y);
    tp_free(x);
    return ok;
}

TP_TEST(every_row_in_both_layouts)
{
    static const tp_dtype types[] = { TP_f32, TP_f64, TP_f16, TP_bf16, TP_u8, TP_i8, TP_i16, TP_i32, TP_i64 };
    for (size_t t = 0; t < TP_COUNT(types); t++)
        for (size_t r = 0; r < TP_COUNT(rows); r++)
            for (int last = 0; last < 2; last++)
                TP_NEED(try_row(types[t], &rows[r], last));
out:
    return;
}

TP_TEST(some_types_have_no_maximum)
{
    tp_maxpool p = { 0 };
    TP_EXPECT(!tp_maxpool_forward(TP_b8, &p, NULL, NULL, NULL) && tp_error_kind() == TP_ERR_UNIMPLEMENTED);
    TP_EXPECT_TEXT(tp_error_text(), "\"max_pool2d\" not implemented for 'Bool'");
    tp_error_clear();
}

TP_TESTS(TP_SPARSE(every_row_in_both_layouts), TP_SWEPT(some_types_have_no_maximum))
