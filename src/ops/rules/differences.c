/* differences.c - differences of neighbours: diff, gradient, and the steps of trapezoid, as calls of ops. */
#include "ops/rules/rules.h"

/* x[from : to] along dim; `to` may be none. */
static tp_value cut(tp_scope *scope, tp_value x, int64_t dim, int64_t from, tp_value to)
{
    return RUN(slice_Tensor, x, tp_int(dim), tp_int(from), to, tp_int(1));
}

/* ---- diff(self, n, dim, prepend, append) ---- */
static bool check_neighbour(const tp_tensor *self, const tp_tensor *t, int64_t dim)
{
    if (!t)
        return true;
    if (t->ndim != self->ndim)
        return tp_fail(TP_ERR_RUNTIME, "diff expects prepend or append to be the same dimension as input");
    for (int i = 0; i < t->ndim; i++)
        if (i != dim && t->size[i] != self->size[i])
            return tp_fail(TP_ERR_RUNTIME, "diff expects the shape of tensor to prepend or append to match that of input except along the "
                           "differencing dimension; input.size(%d) = %lld, but got tensor.size(%d) = %lld", i, LL(self->size[i]), i, LL(t->size[i]));
    return true;
}

TP_HOOK_D(tp_d_diff)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    int64_t n = tp_as_int(arg[1]), dim = tp_as_int(arg[2]);
    tp_values all = { 0 };
    (void)op;
    if (!self->ndim)
        return tp_fail(TP_ERR_RUNTIME, "diff expects input to be at least one-dimensional");
    int64_t at = tp_wrap(dim, self->ndim, &s.failed);
    if (s.failed)
        return tp_scope_end(&s);
    if (n < 0)
        return tp_fail(TP_ERR_RUNTIME, "order must be non-negative but got %lld", LL(n));
    if (!check_neighbour(self, tp_as_tensor(arg[3]), at) || !check_neighbour(self, tp_as_tensor(arg[4]), at))
        return false;
    if (n == 0)
        return tp_rule_done(&s, CALL(copy_, CALL(zeros_like, arg[0]), arg[0]), result);
    tp_value x = arg[0];
    if (arg[3].tag == TP_TENSOR || arg[4].tag == TP_TENSOR) {
        for (int k = 0; k < 3; k++)
            if (arg[(int[]){ 3, 0, 4 }[k]].tag == TP_TENSOR)
                tp_values_add(&s, &all, arg[(int[]){ 3, 0, 4 }[k]]);
        x = CALL(cat, tp_scope_values(&s, &all), tp_int(dim));
    }
    n = s.failed || n < x.tensor->size[at] ? n : x.tensor->size[at];
    for (int64_t i = 0; i < n && !s.failed; i++) {
        tp_sym size = tp_tensor_sym_size(x.tensor, (int)at);
        tp_value before = cut(&s, x, dim, 0, tp_of_sym(tp_sym_sub(size, tp_sym_int(1)))), after = cut(&s, x, dim, 1, tp_of_sym(size));
        x = self->dtype == TP_b8 ? CALL(logical_xor, after, before) : CALL(sub_Tensor, after, before);
    }
    return tp_rule_done(&s, x, result);
}

/* ---- the step of an even grid is a real number ---- */
static bool check_step(const char *name, tp_value dx)
{
    return (dx.tag != TP_COMPLEX && dx.tag != TP_BOOL) || tp_fail(TP_ERR_RUNTIME, "%s: Currently, we only support dx as a real number.", name);
}

TP_HOOK_C(tp_c_trapezoid_step)
{
    return check_step("trapezoid", arg[1]);
}

TP_HOOK_C(tp_c_cumulative_step)
{
    return check_step("cumulative_trapezoid", arg[1]);
}

/* ---- gradient(self, spacing, dim, edge_order): central differences, one-sided ones at both ends ---- */

/* The sum of c_k x_k of three places; a coefficient is a tensor, or a number. The last product is made first. */
static tp_value weigh(tp_scope *scope, const tp_value c[3], const tp_value x[3], const char *signs)
{
    tp_value product[3];
    for (int k = 2; k >= 0; k--)
        product[k] = c[k].tag == TP_TENSOR ? RUN(mul_Tensor, c[k], x[k]) : RUN(mul_Scalar, x[k], c[k]);
    tp_value sum = signs[0] == '+' ? RUN(add_Tensor, product[0], product[1]) : RUN(sub_Tensor, product[0], product[1]);
    return signs[1] == '+' ? RUN(add_Tensor, sum, product[2]) : RUN(sub_Tensor, sum, product[2]);
}

static tp_value difference(tp_scope *scope, tp_value x, int64_t dim, int64_t a, tp_value a_end, int64_t b, tp_value b_end)
{
    tp_value low = cut(scope, x, dim, a, a_end), high = cut(scope, x, dim, b, b_end);
    return RUN(sub_Tensor, high, low);
}

/* The three places at an end: [first, first + 3). The last is cut first, as it is multiplied first. */
static void end_places(tp_scope *scope, tp_value x, int64_t dim, bool front, tp_value place[3])
{
    for (int k = 2; k >= 0; k--)
        place[k] = front ? cut(scope, x, dim, k, tp_int(k + 1)) : cut(scope, x, dim, k - 3, k == 2 ? tp_none() : tp_int(k - 2));
}

/* Samples at even distances. */
static tp_value gradient_evenly(tp_scope *scope, tp_value x, int64_t dim, double dx, int64_t order)
{
    tp_value step = tp_float(dx), piece[3];
    piece[1] = RUN(div_Scalar, difference(scope, x, dim, 0, tp_int(-2), 2, tp_none()), step);
    if (order == 1) {
        piece[0] = RUN(div_Scalar, difference(scope, x, dim, 0, tp_int(1), 1, tp_int(2)), step);
        piece[2] = RUN(div_Scalar, difference(scope, x, dim, -2, tp_int(-1), -1, tp_none()), step);
    } else {
        tp_value place[3];
        end_places(scope, x, dim, true, place);
        piece[0] = RUN(div_Scalar, weigh(scope, (tp_value[]){ tp_float(-1.5), tp_int(2), tp_float(0.5) }, place, "+-"), step);
        end_places(scope, x, dim, false, place);
        piece[2] = RUN(div_Scalar, weigh(scope, (tp_value[]){ tp_float(0.5), tp_int(2), tp_float(1.5) }, place, "-+"), step);
    }
    piece[1] = RUN(div_Scalar, piece[1], tp_int(2));
    return RUN(cat, tp_scope_list(scope, 3, piece), tp_int(dim));
}

/* Coefficients of the parabola through three places: h between the first two (h) and the last two (k). */
static tp_value ratio(tp_scope *scope, tp_value a, tp_value b) { return RUN(div_Tensor, a, b); }

static tp_value gradient_at_end(tp_scope *scope, tp_value x, tp_value steps, int64_t dim, bool front, int64_t order)
{
    tp_value zero = tp_int(0), near = tp_int(front ? 0 : -1), next = tp_int(front ? 1 : -2), place[3], c[3];
    if (order == 1) {
        tp_value width = RUN(select_int, steps, zero, near);
        tp_value rise = front ? difference(scope, x, dim, 0, tp_int(1), 1, tp_int(2)) : difference(scope, x, dim, -2, tp_int(-1), -1, tp_none());
        return ratio(scope, rise, width);
    }
    tp_value h = RUN(select_int, steps, zero, near), k = RUN(select_int, steps, zero, next), both = RUN(add_Tensor, h, k);
    tp_value far = RUN(add_Tensor, RUN(mul_Scalar, h, tp_float(2)), k);
    tp_value outer = ratio(scope, front ? RUN(neg, far) : far, RUN(mul_Tensor, h, both));       /* at the end itself */
    tp_value inner = ratio(scope, front ? RUN(neg, h) : h, RUN(mul_Tensor, k, both));           /* two places from it */
    c[front ? 0 : 2] = outer;
    c[1] = ratio(scope, front ? both : RUN(neg, both), RUN(mul_Tensor, h, k));
    c[front ? 2 : 0] = inner;
    end_places(scope, x, dim, front, place);
    return weigh(scope, c, place, "++");
}

/* Samples at the given places. */
static tp_value gradient_at(tp_scope *scope, tp_value x, int64_t dim, tp_value places, int64_t order)
{
    tp_value column[TP_MAX_DIMS], c[3], place[3], piece[3];
    if (scope->failed)
        return tp_none();
    for (int i = 0; i < x.tensor->ndim; i++)
        column[i] = tp_int(i == dim ? -1 : 1);
    tp_value shape = tp_scope_list(scope, x.tensor->ndim, column);
    tp_value n = tp_of_sym(tp_tensor_sym_size(places.tensor, 0)), before = tp_of_sym(tp_sym_sub(tp_tensor_sym_size(places.tensor, 0), tp_sym_int(1)));
    tp_value steps = difference(scope, places, 0, 0, before, 1, n);
    tp_value h = cut(scope, steps, 0, 0, tp_int(-1)), k = cut(scope, steps, 0, 1, tp_none());
    c[0] = RUN(view, ratio(scope, RUN(neg, k), RUN(mul_Tensor, h, RUN(add_Tensor, h, k))), shape);
    c[1] = RUN(view, ratio(scope, RUN(sub_Tensor, k, h), RUN(mul_Tensor, h, k)), shape);
    c[2] = RUN(view, ratio(scope, h, RUN(mul_Tensor, k, RUN(add_Tensor, h, k))), shape);
    place[2] = cut(scope, x, dim, 2, tp_none());
    place[1] = cut(scope, x, dim, 1, tp_int(-1));
    place[0] = cut(scope, x, dim, 0, tp_int(-2));
    piece[1] = weigh(scope, c, place, "++");
    piece[0] = gradient_at_end(scope, x, steps, dim, true, order);
    piece[2] = gradient_at_end(scope, x, steps, dim, false, order);
    return RUN(cat, tp_scope_list(scope, 3, piece), tp_int(dim));
}

/* Which dims: all, one, or those listed; wrapped. -1: an error. */
static int gradient_dims(const tp_tensor *self, tp_value given, int64_t *dim)
{
    bool bad = false;
    int n = given.tag == TP_NONE ? self->ndim : given.tag == TP_INT ? 1 : tp_as_ints(given, dim, TP_MAX_DIMS, 0);
    if (given.tag == TP_INT)
        dim[0] = given.i;
    for (int i = 0; i < n && given.tag == TP_NONE; i++)
        dim[i] = i;
    (void)tp_wrap_all(dim, n, self->ndim, &bad);
    return bad ? -1 : n;
}

static bool check_gradient(const tp_tensor *self, tp_value spacing, bool all, int n, const int64_t *dim, int64_t order)
{
    if (self->dtype == TP_u8)
        return tp_fail(TP_ERR_RUNTIME, "torch.gradient does not support uint8 input.");
    if (order != 1 && order != 2)
        return tp_fail(TP_ERR_RUNTIME, "torch.gradient only supports edge_order=1 and edge_order=2.");
    if (spacing.tag == TP_LIST && (int)tp_length(spacing) != n && all)
        return tp_fail(TP_ERR_RUNTIME, "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = %d', "
                       "since dim argument was not given, but got a list of length %u", self->ndim, tp_length(spacing));
    if (spacing.tag == TP_LIST && (int)tp_length(spacing) != n)
        return tp_fail(TP_ERR_RUNTIME, "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
                       "same length, but got a spacing argument of length %u and a dim argument of length %d.", tp_length(spacing), n);
    for (int i = 0; i < n; i++)
        if (self->size[dim[i]] < order + 1)
            return tp_fail(TP_ERR_RUNTIME, "torch.gradient expected each dimension size to be at least edge_order+1");
    for (uint32_t i = 0; i < tp_length(spacing); i++)
        if (spacing.list->item[i].tag == TP_TENSOR && spacing.list->item[i].tensor->ndim != 1)
            return tp_fail(TP_ERR_RUNTIME, "torch.gradient expected each element of spacing to have one dimension, but got an element with %d dimensions!",
                           spacing.list->item[i].tensor->ndim);
    return true;
}

/* arg: self, spacing (none, a number, a list of numbers or of places), dim, edge_order. */
TP_HOOK_D(tp_d_gradient)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    int64_t dim[TP_MAX_DIMS], order = tp_as_int(arg[3]);
    tp_values all = { 0 };
    int n = gradient_dims(self, arg[2], dim);
    (void)op;
    if (n < 0 || !check_gradient(self, arg[1], arg[2].tag == TP_NONE, n, dim, order))
        return false;
    for (int i = 0; i < n && !s.failed; i++) {
        tp_value step = arg[1].tag == TP_LIST ? arg[1].list->item[i] : arg[1];
        tp_values_add(&s, &all, step.tag == TP_TENSOR ? gradient_at(&s, arg[0], dim[i], step, order)
                                                      : gradient_evenly(&s, arg[0], dim[i], step.tag == TP_NONE ? 1 : tp_as_double(step), order));
    }
    return tp_rule_done(&s, tp_scope_values(&s, &all), result);
}
