/* c_reduce.c - reductions: loops over what stays, inside them loops over what goes. Floats are summed in double. */
#include <math.h>
#include <string.h>

#include "fuse/c_internal.h"

enum { MOST_DIMS = 8 };

typedef struct reducing {
    tp_c_value x, out, second;
    tp_dtype in, compute, sum; /* of the input; of an element; of what is gathered */
    uint64_t gone;             /* mask of the input's dims that are reduced */
    bool keepdim;
    int64_t count; /* elements of each result */
    double parameter;
    const char *index[MOST_DIMS], *kept[MOST_DIMS];
} reducing;

bool tp_c_has_reduction(const tp_op *op, const tp_value *arg)
{
    const tp_reducing *r = op->work->reducing;
    if (!r || op->kind != TP_LIKE_REDUCTION || arg[0].tag != TP_TENSOR || arg[0].tensor->ndim > MOST_DIMS ||
        tp_c_compute((tp_dtype)arg[0].tensor->dtype) == TP_DTYPE_NONE)
        return false;
    return r->form == NULL;
}

/* Which dims go; the argument is none, an integer or a list, of which an empty one means all. */
static bool read_dims(tp_c *c, const tp_reducing *r, reducing *w)
{
    const tp_tensor *x = w->x.fact;
    int64_t dim[TP_MAX_DIMS];
    int count = 0;
    if (r->dim >= 0 && !tp_is_none(c->arg[r->dim]) && (count = tp_as_ints(c->arg[r->dim], dim, TP_MAX_DIMS, 1)) < 0)
        return false;
    if (r->dim >= 0 && c->arg[r->dim].tag == TP_LIST && tp_length(c->arg[r->dim]) == 0)
        count = 0;
    w->gone = count ? 0 : ~UINT64_C(0);
    for (int i = 0; i < count; i++)
        w->gone |= UINT64_C(1) << (dim[i] < 0 ? dim[i] + x->ndim : dim[i]);
    w->keepdim = r->keepdim >= 0 && tp_as_bool(c->arg[r->keepdim]);
    w->count = 1;
    int at = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool gone = w->gone >> d & 1;
        w->index[d] = tp_c_letters[d];
        w->count *= gone ? x->size[d] : 1;
        if (!gone || w->keepdim)
            w->kept[at++] = gone ? NULL : tp_c_letters[d];
    }
    return true;
}

static void loops(tp_c *c, const reducing *w, bool gone)
{
    for (int d = 0; d < w->x.fact->ndim; d++)
        if ((w->gone >> d & 1) == gone)
            tp_c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", tp_c_letters[d], tp_c_letters[d],
                      (long long)w->x.fact->size[d], tp_c_letters[d]);
}

static void end_loops(tp_c *c, const reducing *w, bool gone)
{
    for (int d = 0; d < w->x.fact->ndim; d++)
        if ((w->gone >> d & 1) == gone)
            tp_c_close(c);
}

static void put_result(tp_c *c, const reducing *w, tp_c_value out, const char *expression)
{
    if (tp_c_has(out))
        tp_c_line(c, "%s = %s;", tp_c_at(c, out, w->kept),
                  tp_c_store(c, expression, TP_DTYPE_NONE, (tp_dtype)out.fact->dtype));
}

/* One pass: `start`, then `each` for every element x, then what is stored. */
static void one_pass(tp_c *c, const reducing *w, const char *type, const char *start, const char *each,
                     const char *result)
{
    tp_c_line(c, "%s s = %s;", type, start);
    loops(c, w, true);
    tp_c_line(c, "const %s x = %s;", type, tp_c_at(c, w->x, w->index));
    tp_c_line(c, "%s", each);
    end_loops(c, w, true);
    put_result(c, w, w->out, result);
}

/* The largest or smallest, NaN wins; and where it is first, counted in row-major order of what goes. */
static void extreme(tp_c *c, const reducing *w, bool largest, tp_c_value value, tp_c_value place)
{
    bool real = tp_dtype_is_float(w->compute);
    const char *type = tp_c_type(w->compute);
    tp_c_line(c, "%s s = 0;", type);
    tp_c_line(c, "int64_t at = -1, count = 0;");
    loops(c, w, true);
    tp_c_line(c, "const %s x = %s;", type, tp_c_at(c, w->x, w->index));
    tp_c_open(c, "if (at < 0 || x %s s%s)", largest ? ">" : "<", real ? " || (x != x && s == s)" : "");
    tp_c_line(c, "s = x;");
    tp_c_line(c, "at = count;");
    tp_c_close(c);
    tp_c_line(c, "count++;");
    end_loops(c, w, true);
    if (tp_c_has(value))
        tp_c_line(c, "%s = %s;", tp_c_at(c, value, w->kept),
                  tp_c_store(c, "s", w->compute, (tp_dtype)value.fact->dtype));
    if (tp_c_has(place))
        tp_c_line(c, "%s = at;", tp_c_at(c, place, w->kept));
}

static void variance(tp_c *c, const reducing *w, bool root, bool with_mean)
{
    double free_count = (double)w->count - w->parameter;
    tp_c_line(c, "double mean = 0, s = 0;");
    loops(c, w, true);
    tp_c_line(c, "mean += %s;", tp_c_at(c, w->x, w->index));
    end_loops(c, w, true);
    tp_c_line(c, w->count ? "mean /= %lld;" : "mean = NAN;", (long long)w->count);
    loops(c, w, true);
    tp_c_line(c, "const double d = %s - mean;", tp_c_at(c, w->x, w->index));
    tp_c_line(c, "s += d * d;");
    end_loops(c, w, true);
    const char *divisor = tp_c_number(c, tp_scalar_float(free_count > 0 ? free_count : 0), TP_f64);
    put_result(c, w, w->out, tp_c_text(c, root ? "sqrt(s / %s)" : "s / %s", divisor));
    if (with_mean)
        put_result(c, w, w->second, "mean");
}

static void norm(tp_c *c, const reducing *w)
{
    double p = w->parameter;
    if (p == 0)
        one_pass(c, w, "double", "0", "s += x != 0;", "s");
    else if (p == 1)
        one_pass(c, w, "double", "0", "s += fabs(x);", "s");
    else if (p == 2)
        one_pass(c, w, "double", "0", "s += x * x;", "sqrt(s)");
    else if (isinf(p))
        one_pass(c, w, "double", p > 0 ? "0" : "INFINITY",
                 p > 0 ? "s = fabs(x) > s || x != x ? fabs(x) : s;" : "s = fabs(x) < s || x != x ? fabs(x) : s;", "s");
    else
        one_pass(c, w, "double", "0", tp_c_text(c, "s += pow(fabs(x), %.17g);", p),
                 tp_c_text(c, "pow(s, %.17g)", 1 / p));
}

static void log_sum(tp_c *c, const reducing *w)
{
    tp_c_line(c, "double top = -INFINITY, s = 0;");
    loops(c, w, true);
    tp_c_line(c, "top = %s > top ? %s : top;", tp_c_at(c, w->x, w->index), tp_c_at(c, w->x, w->index));
    end_loops(c, w, true);
    tp_c_line(c, "top = isinf(top) ? 0 : top;");
    loops(c, w, true);
    tp_c_line(c, "s += exp(%s - top);", tp_c_at(c, w->x, w->index));
    end_loops(c, w, true);
    put_result(c, w, w->out, "log(s) + top");
}

bool tp_c_reduction(tp_c *c, const tp_op *op)
{
    const tp_reducing *r = op->work->reducing;
    reducing w = { .x = tp_c_arg(c, 0), .out = tp_c_result(c, 0), .second = { .buffer = -1, .fact = NULL } };
    if (op->result_count > 1)
        w.second = tp_c_result(c, 1);
    if (c->failed || !read_dims(c, r, &w))
        return false;
    w.in = (tp_dtype)w.x.fact->dtype;
    w.compute = tp_c_compute(w.in);
    w.parameter = r->parameter >= 0 && !tp_is_none(c->arg[r->parameter]) ? tp_as_double(c->arg[r->parameter])
                                                                         : r->constant;
    /* Elements take the type of a sum before they are summed: where it is an integer, floats give their low bits. */
    bool sums = r->reduction == TP_REDUCE_sum || r->reduction == TP_REDUCE_prod;
    bool real = tp_dtype_is_float(sums ? (tp_dtype)w.out.fact->dtype : w.in);
    const char *type = real ? "double" : "int64_t";
    tp_c_value none = { .buffer = -1, .fact = NULL };
    loops(c, &w, false);
    tp_c_open(c, "%s", "");
    switch ((tp_reduction)r->reduction) {
    case TP_REDUCE_sum: one_pass(c, &w, type, "0", real ? "s += x;" : "s = (int64_t)((uint64_t)s + (uint64_t)(int64_t)x);", "s"); break;
    case TP_REDUCE_prod: one_pass(c, &w, type, "1", real ? "s *= x;" : "s = (int64_t)((uint64_t)s * (uint64_t)(int64_t)x);", "s"); break;
    case TP_REDUCE_mean: one_pass(c, &w, "double", "0", "s += x;", w.count ? tp_c_text(c, "s / %lld", (long long)w.count) : "NAN"); break;
    case TP_REDUCE_any: one_pass(c, &w, type, "0", "s = s != 0 || x != 0;", "s"); break;
    case TP_REDUCE_all: one_pass(c, &w, type, "1", "s = s != 0 && x != 0;", "s"); break;
    case TP_REDUCE_count_nonzero: one_pass(c, &w, type, "0", "s += x != 0;", "s"); break;
    case TP_REDUCE_max: extreme(c, &w, true, w.out, none); break;
    case TP_REDUCE_min: extreme(c, &w, false, w.out, none); break;
    case TP_REDUCE_argmax: extreme(c, &w, true, none, w.out); break;
    case TP_REDUCE_argmin: extreme(c, &w, false, none, w.out); break;
    case TP_REDUCE_max_index: extreme(c, &w, true, w.out, w.second); break;
    case TP_REDUCE_min_index: extreme(c, &w, false, w.out, w.second); break;
    case TP_REDUCE_var: variance(c, &w, false, false); break;
    case TP_REDUCE_std: variance(c, &w, true, false); break;
    case TP_REDUCE_var_mean: variance(c, &w, false, true); break;
    case TP_REDUCE_std_mean: variance(c, &w, true, true); break;
    case TP_REDUCE_norm: norm(c, &w); break;
    case TP_REDUCE_logsumexp: log_sum(c, &w); break;
    case TP_REDUCE_COUNT: break;
    }
    tp_c_close(c);
    end_loops(c, &w, false);
    return !c->failed;
}
