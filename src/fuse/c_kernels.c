/* c_kernels.c - calls that are no tile program, each a small nest of loops: products, convolution, pooling,
 * normalisation, softmax. Sizes and strides stand in the text as numbers. The table at the end says which writer serves
 * which kernel. */
#include <stdio.h>
#include <string.h>

#include "fuse/c_internal.h"
#include "gen/ops.h"

typedef const char *const index_list[];

/* sum += a * b in order; floats are rounded once a term, as our own kernels do, and integers wrap. */
static void add_product(tp_c *c, tp_dtype d, const char *a, const char *b)
{
    if (tp_dtype_is_float(d))
        tp_c_line(c, "sum = fma%s(%s, %s, sum);", d == TP_f32 ? "f" : "", a, b);
    else
        tp_c_line(c, "sum = (%s)((uint64_t)sum + (uint64_t)%s * (uint64_t)%s);", tp_c_type(d), a, b);
}

static bool is_one(tp_value v)
{
    return tp_as_double(v) == 1;
}

/* ---- products ---- */

/* out[b][i][j] = beta * bias + alpha * sum over k of x[b][i][k] * y[b][k][j]; dims that are not there are NULL in the
 * lists. */
typedef struct product {
    tp_c_value out, x, y, bias;
    bool batched;
    int64_t batch, rows, columns, inner;
    const char *at_out[3], *at_x[3], *at_y[3], *at_bias[3];
    tp_value alpha, beta;
} product;

static bool write_product(tp_c *c, const product *p)
{
    tp_dtype d = (tp_dtype)p->out.fact->dtype;
    if (c->failed)
        return false;
    if (p->batched)
        tp_c_loop(c, "b", p->batch);
    tp_c_loop(c, "i", p->rows);
    tp_c_loop(c, "j", p->columns);
    tp_c_line(c, "%s sum = 0;", tp_c_type(d));
    tp_c_loop(c, "k", p->inner);
    add_product(c, d, tp_c_at(c, p->x, p->at_x), tp_c_at(c, p->y, p->at_y));
    tp_c_close(c);
    const char *sum = "sum";
    if (tp_c_has(p->bias)) {
        if (!is_one(p->alpha))
            sum = tp_c_text(c, "%s * sum", tp_c_number(c, tp_as_scalar(p->alpha), d));
        const char *bias = tp_c_at(c, p->bias, p->at_bias);
        if (tp_as_double(p->beta) != 0)
            sum = is_one(p->beta) ? tp_c_text(c, "%s + %s", bias, sum)
                                  : tp_c_text(c, "%s * %s + %s", tp_c_number(c, tp_as_scalar(p->beta), d), bias, sum);
    }
    tp_c_line(c, "%s = %s;", tp_c_at(c, p->out, p->at_out), sum);
    tp_c_close_all(c, p->batched + 2);
    return !c->failed;
}

/* Indices of a bias that is broadcast to the result. */
static void place_bias(product *p)
{
    const tp_tensor *t = p->bias.fact, *o = p->out.fact;
    for (int d = 0; d < t->ndim; d++)
        p->at_bias[d] = t->size[d] == 1 ? NULL : p->at_out[d + o->ndim - t->ndim];
}

static bool matrices(tp_c *c, bool bias)
{
    product p = { .out = tp_c_result(c, 0),
                  .x = tp_c_arg(c, bias),
                  .y = tp_c_arg(c, bias + 1),
                  .bias = { .buffer = -1, .fact = NULL },
                  .at_out = { "i", "j" },
                  .at_x = { "i", "k" },
                  .at_y = { "k", "j" } };
    if (c->failed || !tp_c_has(p.out))
        return !c->failed;
    int batched = p.out.fact->ndim == 3;
    if (batched)
        p = (product){ .out = p.out,
                       .x = p.x,
                       .y = p.y,
                       .bias = p.bias,
                       .at_out = { "b", "i", "j" },
                       .at_x = { "b", "i", "k" },
                       .at_y = { "b", "k", "j" } };
    if (bias) {
        p.bias = tp_c_arg(c, 0);
        p.beta = c->arg[3];
        p.alpha = c->arg[4];
        place_bias(&p);
    }
    p.batched = batched;
    p.batch = batched ? p.out.fact->size[0] : 1;
    p.rows = p.out.fact->size[batched];
    p.columns = p.out.fact->size[batched + 1];
    p.inner = p.x.fact->size[batched + 1];
    return write_product(c, &p);
}

static bool write_mm(tp_c *c)
{
    return matrices(c, false);
}
static bool write_addmm(tp_c *c)
{
    return matrices(c, true);
}

static bool write_mv(tp_c *c)
{
    product p = { .out = tp_c_result(c, 0),
                  .x = tp_c_arg(c, 0),
                  .y = tp_c_arg(c, 1),
                  .bias = { .buffer = -1, .fact = NULL },
                  .at_out = { "i" },
                  .at_x = { "i", "k" },
                  .at_y = { "k" },
                  .columns = 1 };
    if (c->failed || !tp_c_has(p.out))
        return !c->failed;
    p.rows = p.x.fact->size[0];
    p.inner = p.x.fact->size[1];
    return write_product(c, &p);
}

static bool write_dot(tp_c *c)
{
    product p = { .out = tp_c_result(c, 0),
                  .x = tp_c_arg(c, 0),
                  .y = tp_c_arg(c, 1),
                  .bias = { .buffer = -1, .fact = NULL },
                  .at_x = { "k" },
                  .at_y = { "k" },
                  .rows = 1,
                  .columns = 1 };
    if (c->failed || !tp_c_has(p.out))
        return !c->failed;
    p.inner = p.x.fact->size[0];
    return write_product(c, &p);
}

/* ---- windows ---- */

/* Positions of a window along up to three dims: y0 = o0*stride - pad + k0*dilation, skipped outside of the input. */
typedef struct window {
    int dims;
    int64_t kernel[3], stride[3], pad[3], dilation[3];
} window;
static const char *const out_index[3] = { "y", "x", "z" }, *const tap_index[3] = { "p", "q", "r" },
                         *const in_index[3] = { "u", "v", "w" };

static void open_window(tp_c *c, const window *w, const int64_t *size)
{
    for (int i = 0; i < w->dims; i++) {
        tp_c_loop(c, tap_index[i], w->kernel[i]);
        tp_c_line(c, "const int64_t %s = %s*%lld + %s*%lld - %lld;", in_index[i], out_index[i], (long long)w->stride[i],
                  tap_index[i], (long long)w->dilation[i], (long long)w->pad[i]);
        tp_c_line(c, "if (%s < 0 || %s >= %lld)", in_index[i], in_index[i], (long long)size[i]);
        tp_c_line(c, "    continue;");
    }
}

static bool read_ints(tp_c *c, int i, int64_t *out, int want)
{
    if (tp_as_ints(c->arg[i], out, want, want) == want)
        return true;
    return tp_c_unsupported(c, "arguments of this form");
}

static bool write_convolution(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0), weight = tp_c_arg(c, 1), bias = tp_c_arg(c, 2);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    tp_dtype d = (tp_dtype)out.fact->dtype;
    window w = { .dims = x.fact->ndim - 2 };
    if (!read_ints(c, 3, w.stride, w.dims) || !read_ints(c, 4, w.pad, w.dims) || !read_ints(c, 5, w.dilation, w.dims))
        return false;
    int64_t groups = tp_as_int(c->arg[8]), wide = weight.fact->size[1], each = out.fact->size[1] / groups;
    const char *channel = groups == 1 ? "k" : tp_c_text(c, "c / %lld * %lld + k", (long long)each, (long long)wide);
    const char *at_out[5] = { "n", "c" }, *at_x[5] = { "n", channel }, *at_w[5] = { "c", "k" };
    for (int i = 0; i < w.dims; i++) {
        w.kernel[i] = weight.fact->size[2 + i];
        at_out[2 + i] = out_index[i];
        at_x[2 + i] = in_index[i];
        at_w[2 + i] = tap_index[i];
    }
    tp_c_loop(c, "n", out.fact->size[0]);
    tp_c_loop(c, "c", out.fact->size[1]);
    for (int i = 0; i < w.dims; i++)
        tp_c_loop(c, out_index[i], out.fact->size[2 + i]);
    tp_c_line(c, "%s sum = 0;", tp_c_type(d));
    tp_c_loop(c, "k", wide);
    open_window(c, &w, x.fact->size + 2);
    add_product(c, d, tp_c_at(c, x, at_x), tp_c_at(c, weight, at_w));
    tp_c_close_all(c, w.dims + 1);
    if (tp_c_has(bias))
        tp_c_line(c, "sum += %s;", tp_c_at(c, bias, (index_list){ "c" }));
    tp_c_line(c, "%s = sum;", tp_c_at(c, out, at_out));
    tp_c_close_all(c, w.dims + 2);
    return !c->failed;
}

/* Reads kernel, stride (empty: the kernel) and padding of a 2-d pool, and opens the loops over its results. */
static bool open_pool(tp_c *c, tp_c_value x, tp_c_value out, window *w, const char **at_x, const char **at_out)
{
    int lead = out.fact->ndim - 2;
    w->dims = 2;
    w->dilation[0] = w->dilation[1] = 1;
    if (!read_ints(c, 1, w->kernel, 2) ||
        !read_ints(c, tp_length(c->arg[2]) || c->arg[2].tag == TP_INT ? 2 : 1, w->stride, 2) ||
        !read_ints(c, 3, w->pad, 2))
        return false;
    for (int i = 0; i < lead; i++) {
        at_x[i] = at_out[i] = i ? "c" : "n";
        tp_c_loop(c, at_out[i], out.fact->size[i]);
    }
    for (int i = 0; i < 2; i++) {
        at_out[lead + i] = out_index[i];
        at_x[lead + i] = in_index[i];
        tp_c_loop(c, out_index[i], out.fact->size[lead + i]);
    }
    (void)x;
    return true;
}

static bool write_max_pool(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), place = tp_c_result(c, 1), x = tp_c_arg(c, 0);
    const char *at_x[4], *at_out[4];
    window w;
    if (c->failed || (!tp_c_has(out) && !tp_c_has(place)))
        return !c->failed;
    if (!tp_c_has(out))
        return tp_c_unsupported(c, "indices without values");
    if (!open_pool(c, x, out, &w, at_x, at_out) || !read_ints(c, 4, w.dilation, 2))
        return false;
    int lead = out.fact->ndim - 2;
    const char *type = tp_c_type((tp_dtype)x.fact->dtype);
    tp_c_line(c, "%s top = 0;", type);
    tp_c_line(c, "int64_t at = -1;");
    open_window(c, &w, x.fact->size + lead);
    tp_c_line(c, "const %s e = %s;", type, tp_c_at(c, x, at_x));
    tp_c_open(c, "if (at < 0 || e > top || e != e)");
    tp_c_line(c, "top = e;");
    tp_c_line(c, "at = u*%lld + v;", (long long)x.fact->size[lead + 1]);
    tp_c_close(c);
    tp_c_close_all(c, 2);
    tp_c_line(c, "%s = top;", tp_c_at(c, out, at_out));
    if (tp_c_has(place))
        tp_c_line(c, "%s = at;", tp_c_at(c, place, at_out));
    tp_c_close_all(c, lead + 2);
    return !c->failed;
}

/* How many elements an average divides by: those inside the input, or inside the input with its padding. */
static bool write_avg_pool(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    const char *at_x[4], *at_out[4];
    window w;
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    if (!open_pool(c, x, out, &w, at_x, at_out))
        return false;
    int lead = out.fact->ndim - 2;
    bool padded = tp_as_bool(c->arg[5]);
    tp_c_line(c, "double sum = 0;");
    if (!tp_is_none(c->arg[6])) {
        tp_c_line(c, "const int64_t count = %lld;", (long long)tp_as_int(c->arg[6]));
    } else {
        tp_c_line(c, "int64_t count = 1;");
        for (int i = 0; i < 2; i++) {
            int64_t size = x.fact->size[lead + i], pad = padded ? w.pad[i] : 0;
            tp_c_open(c, "%s", "");
            tp_c_line(c, "const int64_t first = %s*%lld - %lld, last = first + %lld;", out_index[i],
                      (long long)w.stride[i], (long long)w.pad[i], (long long)w.kernel[i]);
            tp_c_line(c, "count *= (last < %lld ? last : %lld) - (first > %lld ? first : %lld);",
                      (long long)(size + pad), (long long)(size + pad), (long long)-pad, (long long)-pad);
            tp_c_close(c);
        }
    }
    open_window(c, &w, x.fact->size + lead);
    tp_c_line(c, "sum += %s;", tp_c_at(c, x, at_x));
    tp_c_close_all(c, 2);
    tp_c_line(c, "%s = (%s)(sum / (double)count);", tp_c_at(c, out, at_out), tp_c_type((tp_dtype)out.fact->dtype));
    tp_c_close_all(c, lead + 2);
    return !c->failed;
}

static bool write_adaptive_avg_pool(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    const char *at_x[4], *at_out[4];
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int lead = out.fact->ndim - 2;
    for (int i = 0; i < lead + 2; i++) {
        at_out[i] = i < lead ? (i ? "c" : "n") : out_index[i - lead];
        at_x[i] = i < lead ? at_out[i] : in_index[i - lead];
        tp_c_loop(c, at_out[i], out.fact->size[i]);
    }
    tp_c_line(c, "double sum = 0;");
    tp_c_line(c, "int64_t count = 0;");
    for (int i = 0; i < 2; i++) {
        long long size = x.fact->size[lead + i], want = out.fact->size[lead + i];
        tp_c_open(c, "for (int64_t %s = %s*%lld/%lld; %s < ((%s + 1)*%lld + %lld)/%lld; %s++)", in_index[i],
                  out_index[i], size, want, in_index[i], out_index[i], size, want - 1, want, in_index[i]);
    }
    tp_c_line(c, "sum += %s;", tp_c_at(c, x, at_x));
    tp_c_line(c, "count++;");
    tp_c_close_all(c, 2);
    tp_c_line(c, "%s = (%s)(sum / (double)count);", tp_c_at(c, out, at_out), tp_c_type((tp_dtype)out.fact->dtype));
    tp_c_close_all(c, lead + 2);
    return !c->failed;
}

/* ---- rows ---- */

static bool softmax(tp_c *c, bool logarithm)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    const tp_tensor *t = x.fact;
    int64_t dim = t->ndim ? tp_as_int(c->arg[1]) : 0;
    dim = dim < 0 ? dim + t->ndim : dim;
    const char *type = tp_c_type((tp_dtype)out.fact->dtype), *at = tp_c_at(c, x, tp_c_letters),
               *to = tp_c_at(c, out, tp_c_letters);
    const char *letter = t->ndim ? tp_c_letters[dim] : "i";
    int64_t size = t->ndim ? t->size[dim] : 1;
    for (int d = 0; d < t->ndim; d++)
        if (d != dim)
            tp_c_loop(c, tp_c_letters[d], t->size[d]);
    tp_c_open(c, "%s", "");
    tp_c_line(c, "double top = -INFINITY, sum = 0;");
    tp_c_loop(c, letter, size);
    tp_c_line(c, "top = %s > top || %s != %s ? %s : top;", at, at, at, at);
    tp_c_close(c);
    tp_c_loop(c, letter, size);
    tp_c_line(c, "sum += exp(%s - top);", at);
    tp_c_close(c);
    if (logarithm)
        tp_c_line(c, "sum = log(sum);");
    tp_c_loop(c, letter, size);
    tp_c_line(c, logarithm ? "%s = (%s)(%s - top - sum);" : "%s = (%s)(exp(%s - top) / sum);", to, type, at);
    tp_c_close_all(c, 2 + t->ndim - (t->ndim > 0));
    return !c->failed;
}

static bool write_softmax(tp_c *c)
{
    return softmax(c, false);
}
static bool write_log_softmax(tp_c *c)
{
    return softmax(c, true);
}

/* (x - mean) * scale, weighted: the text of one element. */
static const char *normalised(tp_c *c, const char *x, tp_c_value weight, tp_c_value bias, const char *const *index)
{
    const char *e = tp_c_text(c, "(%s - mean) * scale", x);
    if (tp_c_has(weight))
        e = tp_c_text(c, "%s * %s", e, tp_c_at(c, weight, index));
    return tp_c_has(bias) ? tp_c_text(c, "%s + %s", e, tp_c_at(c, bias, index)) : e;
}

static bool write_layer_norm(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), means = tp_c_result(c, 1), scales = tp_c_result(c, 2), x = tp_c_arg(c, 0),
               weight = tp_c_arg(c, 2), bias = tp_c_arg(c, 3);
    if (c->failed)
        return false;
    const tp_tensor *t = x.fact;
    int lead = t->ndim - (int)tp_length(c->arg[1]);
    int64_t count = 1;
    const char *at = tp_c_at(c, x, tp_c_letters), *row[8] = { NULL };
    for (int d = 0; d < t->ndim; d++) {
        count *= d < lead ? 1 : t->size[d];
        row[d] = d < lead ? tp_c_letters[d] : NULL;
    }
    for (int d = 0; d < lead; d++)
        tp_c_loop(c, tp_c_letters[d], t->size[d]);
    tp_c_open(c, "%s", "");
    tp_c_line(c, "double mean = 0, sum = 0;");
    for (int pass = 0; pass < 3; pass++) {
        if (pass == 2) {
            tp_c_line(c, "const double scale = 1 / sqrt(sum / %lld + %.17g);", (long long)(count ? count : 1),
                      tp_as_double(c->arg[4]));
            if (tp_c_has(means))
                tp_c_line(c, "%s = (%s)mean;", tp_c_at(c, means, row), tp_c_type((tp_dtype)means.fact->dtype));
            if (tp_c_has(scales))
                tp_c_line(c, "%s = (%s)scale;", tp_c_at(c, scales, row),
                          tp_c_type((tp_dtype)scales.fact->dtype));
            if (!tp_c_has(out))
                break;
        }
        for (int d = lead; d < t->ndim; d++)
            tp_c_loop(c, tp_c_letters[d], t->size[d]);
        if (pass == 0)
            tp_c_line(c, "mean += %s;", at);
        else if (pass == 1)
            tp_c_line(c, "sum += (%s - mean) * (%s - mean);", at, at);
        else
            tp_c_line(c, "%s = (%s)(%s);", tp_c_at(c, out, tp_c_letters), tp_c_type((tp_dtype)out.fact->dtype),
                      normalised(c, at, weight, bias, tp_c_letters + lead));
        tp_c_close_all(c, t->ndim - lead);
        if (pass == 0)
            tp_c_line(c, count ? "mean /= %lld;" : "mean = NAN;", (long long)count);
    }
    tp_c_close_all(c, lead + 1);
    return !c->failed;
}

/* Channels of one group share their statistics. */
static bool write_group_norm(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0), weight = tp_c_arg(c, 1), bias = tp_c_arg(c, 2);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    const tp_tensor *t = x.fact;
    int64_t groups = tp_as_int(c->arg[6]), each = t->size[1] / groups, count = each;
    const char *at[8], *channel = tp_c_text(c, "g*%lld + %s", (long long)each, tp_c_letters[1]);
    for (int d = 0; d < t->ndim; d++) {
        at[d] = d == 1 ? channel : tp_c_letters[d];
        count *= d > 1 ? t->size[d] : 1;
    }
    tp_c_loop(c, tp_c_letters[0], t->size[0]);
    tp_c_loop(c, "g", groups);
    tp_c_line(c, "double mean = 0, sum = 0;");
    for (int pass = 0; pass < 3; pass++) {
        if (pass == 2)
            tp_c_line(c, "const double scale = 1 / sqrt(sum / %lld + %.17g);", (long long)(count ? count : 1),
                      tp_as_double(c->arg[7]));
        for (int d = 1; d < t->ndim; d++)
            tp_c_loop(c, tp_c_letters[d], d == 1 ? each : t->size[d]);
        const char *e = tp_c_at(c, x, at);
        if (pass == 0)
            tp_c_line(c, "mean += %s;", e);
        else if (pass == 1)
            tp_c_line(c, "sum += (%s - mean) * (%s - mean);", e, e);
        else
            tp_c_line(c, "%s = (%s)(%s);", tp_c_at(c, out, at), tp_c_type((tp_dtype)out.fact->dtype),
                      normalised(c, e, weight, bias, (index_list){ channel }));
        tp_c_close_all(c, t->ndim - 1);
        if (pass == 0)
            tp_c_line(c, count ? "mean /= %lld;" : "mean = NAN;", (long long)count);
    }
    tp_c_close_all(c, 2);
    return !c->failed;
}

/* With given statistics: a channel at a time. */
static bool batch_norm(tp_c *c, double eps)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0), weight = tp_c_arg(c, 1), bias = tp_c_arg(c, 2),
               mean = tp_c_arg(c, 3), var = tp_c_arg(c, 4);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    const tp_tensor *t = x.fact;
    const char *channel[] = { tp_c_letters[1] };
    tp_c_loop(c, tp_c_letters[1], t->size[1]);
    tp_c_line(c, "const double mean = %s, scale = 1 / sqrt(%s + %.17g);", tp_c_at(c, mean, channel),
              tp_c_at(c, var, channel), eps);
    for (int d = 0; d < t->ndim; d++)
        if (d != 1)
            tp_c_loop(c, tp_c_letters[d], t->size[d]);
    tp_c_line(c, "%s = (%s)(%s);", tp_c_at(c, out, tp_c_letters), tp_c_type((tp_dtype)out.fact->dtype),
              normalised(c, tp_c_at(c, x, tp_c_letters), weight, bias, channel));
    tp_c_close_all(c, t->ndim);
    return !c->failed;
}

static bool write_batch_norm(tp_c *c)
{
    return batch_norm(c, tp_as_double(c->arg[7]));
}
static bool write_batch_norm_no_training(tp_c *c)
{
    return batch_norm(c, tp_as_double(c->arg[6]));
}

/* ---- which writer serves a call ---- */

static const struct row {
    tp_kernel_fn *kernel;
    bool (*write)(tp_c *c);
} rows[] = {
    { tp_k_mm, write_mm },
    { tp_k_bmm, write_mm },
    { tp_k_addmm, write_addmm },
    { tp_k_baddbmm, write_addmm },
    { tp_k_mv, write_mv },
    { tp_k_dot, write_dot },
    { tp_k_convolution, write_convolution },
    { tp_k_max_pool2d, write_max_pool },
    { tp_k_avg_pool2d, write_avg_pool },
    { tp_k_adaptive_avg_pool2d, write_adaptive_avg_pool },
    { tp_k_softmax, write_softmax },
    { tp_k_log_softmax, write_log_softmax },
    { tp_k_layer_norm, write_layer_norm },
    { tp_k_batch_norm, write_batch_norm },
    { tp_k_batch_norm_no_training, write_batch_norm_no_training },
    { tp_k_group_norm, write_group_norm },
    { tp_k_clone, tp_c_write_copy },
    { tp_k_cat, tp_c_write_cat },
    { tp_k_embedding, tp_c_write_embedding },
    { tp_k_index_select, tp_c_write_index_select },
    { tp_k_gather, tp_c_write_gather },
    { tp_k_index, tp_c_write_index },
    { tp_k_flip, tp_c_write_flip },
    { tp_k_repeat, tp_c_write_repeat },
    { tp_k_tril, tp_c_write_tril },
    { tp_k_triu, tp_c_write_triu },
};

static const struct row *row_of(const tp_op *op)
{
    for (size_t i = 0; i < TP_COUNT(rows); i++)
        if (op->work->kernel && op->work->kernel == rows[i].kernel)
            return &rows[i];
    return NULL;
}

static bool few_dims(tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!few_dims(v.list->item[i]))
            return false;
    return v.tag != TP_TENSOR || (v.tensor->ndim <= 6 && tp_c_type((tp_dtype)v.tensor->dtype));
}

bool tp_c_has_kernel(const tp_op *op, const tp_value *arg)
{
    const struct row *r = row_of(op);
    for (int i = 0; r && i < op->arg_count; i++)
        if (!few_dims(arg[i]))
            return false;
    if (r && op->work->kernel == tp_k_convolution)
        return !tp_as_bool(arg[6]) && arg[0].tensor->ndim == arg[1].tensor->ndim && arg[0].tensor->ndim <= 5;
    if (r && op->work->kernel == tp_k_index)
        return tp_c_index_has(arg);
    if (r && op->work->kernel == tp_k_batch_norm)
        return !tp_as_bool(arg[5]) && !tp_is_none(arg[3]) && !tp_is_none(arg[4]);
    return r != NULL;
}

bool tp_c_kernel(tp_c *c, const tp_op *op)
{
    return row_of(op)->write(c);
}
