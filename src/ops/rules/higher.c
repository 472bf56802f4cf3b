/* higher.c - ops that take functions, run.
 *
 * A function is a handle that can be called with flat values and gives a flat list. Eagerly the data decides which is called and
 * how often. Where there is no data, or where a function says that it is being traced (`probes`), each is called once with
 * typical arguments, and the results have the form they would have. */
#include "ops/rules/rules.h"

#include "ops/symbolic.h"

static bool has_data(tp_value v)
{
    return v.tag != TP_TENSOR || !(v.tensor->keys & TP_LAYER_BIT(TP_LAYER_FAKE));
}

static bool all_have_data(tp_value list)
{
    for (uint32_t i = 0; i < tp_length(list); i++)
        if (!has_data(list.list->item[i]))
            return false;
    return true;
}

static bool probes(tp_value function)
{
    return function.tag == TP_HANDLE && function.handle->type->probes;
}

/* What the function gives for these lists of values, one after the other; owned by the scope. */
static tp_value call(tp_scope *s, tp_value function, const tp_value *list, int count)
{
    tp_values all = { 0 };
    tp_value made = tp_none();
    if (function.tag != TP_HANDLE || !function.handle->type->call)
        return tp_scope_fail(s, TP_ERR_TYPE, "a function is wanted");
    for (int i = 0; i < count; i++)
        tp_values_join(s, &all, list[i]);
    tp_value given = tp_scope_values(s, &all);
    if (s->failed)
        return tp_none();
    if (!function.handle->type->call(function.handle, given.list->item, given.list->count, &made)) {
        s->failed = true;
        return tp_none();
    }
    return tp_scope_own(s, made);
}

static bool decide(tp_scope *s, tp_value v)
{
    bool answer = false;
    if (v.tag == TP_LIST && v.list->count == 1)
        v = v.list->item[0];
    if (v.tag == TP_TENSOR)
        return tp_as_bool(tp_rule_call(s, &tp_op__local_scalar_dense, 1, (tp_value[]){ v }));
    if (v.tag != TP_SYM)
        return tp_as_bool(v);
    s->failed |= !tp_sym_guard((tp_sym){ v.sym }, &answer);
    return answer;
}

/* ---- cond ---- */
static bool merge(tp_value a, tp_value b)
{
    if (a.list->count != b.list->count)
        return tp_fail(TP_ERR_RUNTIME, "Expected to return same number of outputs but got:\n  true branch returns %u item(s)\n  false branch returns %u item(s)",
                       a.list->count, b.list->count);
    for (uint32_t i = 0; i < a.list->count; i++) {
        const tp_tensor *x = tp_as_tensor(a.list->item[i]), *y = tp_as_tensor(b.list->item[i]);
        if (!x || !y)
            continue;
        if (x->dtype != y->dtype)
            return tp_fail(TP_ERR_RUNTIME, "When merging two branches' output in torch.cond,  expected same dtype but got torch.%s and torch.%s.",
                           tp_dtypes[x->dtype].python, tp_dtypes[y->dtype].python);
        if (x->ndim != y->ndim)
            return tp_fail(TP_ERR_RUNTIME, "When merging two branches' output in torch.cond,  expected same dim but got %d and %d.", x->ndim, y->ndim);
        for (int d = 0; d < x->ndim; d++)
            if (x->size[d] != y->size[d])
                return tp_fail(TP_ERR_UNIMPLEMENTED, "torch.cond: branches whose results have %lld and %lld elements along dim %d",
                               (long long)x->size[d], (long long)y->size[d], d);
    }
    return true;
}

TP_HOOK_D(tp_d_cond)
{
    tp_scope s = { 0 };
    tp_value made;
    (void)op;
    if (probes(arg[1]) || !has_data(arg[0])) {
        made = call(&s, arg[1], &arg[3], 1);
        tp_value other = call(&s, arg[2], &arg[3], 1);
        if (!s.failed)
            s.failed = !merge(made, other);
    } else {
        bool first = decide(&s, arg[0]);
        made = call(&s, arg[first ? 1 : 2], &arg[3], 1);
    }
    return tp_rule_done(&s, made, result);
}

/* ---- loops ---- */
static void add_row(tp_text *out, int count, const int64_t *row, bool tuple)
{
    tp_text_add(out, tuple ? "(" : "[");
    for (int i = 0; i < count; i++)
        tp_text_add(out, "%s%lld", i ? ", " : "", (long long)row[i]);
    tp_text_add(out, tuple ? count == 1 ? ",)" : ")" : "]");
}

static void add_form(tp_text *out, const tp_tensor *t)
{
    tp_text_add(out, "FakeTensor(..., size=");
    add_row(out, t->ndim, t->size, true);
    if (t->dtype != TP_f32)
        tp_text_add(out, ", dtype=torch.%s", tp_dtypes[t->dtype].python);
    tp_text_add(out, ")");
}

static bool same_form(const tp_tensor *x, const tp_tensor *y)
{
    bool same = x->dtype == y->dtype && x->ndim == y->ndim;
    for (int i = 0; same && i < x->ndim; i++)
        same = x->size[i] == y->size[i] || ((x->keys | y->keys) & TP_KEY_SYMBOLIC);
    return same;
}

/* What is carried keeps its form from step to step. */
static bool check_forms(tp_scope *s, const char *who, tp_value left, tp_value right)
{
    for (uint32_t i = 0; !s->failed && i < tp_length(left) && i < tp_length(right); i++) {
        const tp_tensor *x = tp_as_tensor(left.list->item[i]), *y = tp_as_tensor(right.list->item[i]);
        if (!x || !y || same_form(x, y))
            continue;
        tp_text out = { 0 };
        tp_text_add(&out, "Expected %s to have same metadata but found:\npair[%u] differ in ", who, i);
        if (x->dtype != y->dtype) {
            tp_text_add(&out, "'dtype: torch.%s vs torch.%s', ", tp_dtypes[x->dtype].python, tp_dtypes[y->dtype].python);
        } else {
            tp_text_add(&out, "'shape: torch.Size(");
            add_row(&out, x->ndim, x->size, false);
            tp_text_add(&out, ") vs torch.Size(");
            add_row(&out, y->ndim, y->size, false);
            tp_text_add(&out, ")', 'stride: ");
            add_row(&out, x->ndim, x->stride, true);
            tp_text_add(&out, " vs ");
            add_row(&out, y->ndim, y->stride, true);
            tp_text_add(&out, "', ");
        }
        tp_text_add(&out, "where lhs is ");
        add_form(&out, x);
        tp_text_add(&out, " and rhs is ");
        add_form(&out, y);
        s->failed = !tp_fail(TP_ERR_RUNTIME, "%s", tp_text_read(&out));
        tp_text_fini(&out);
    }
    return !s->failed;
}

static bool check_carried(tp_scope *s, tp_value now, tp_value before)
{
    if (!s->failed && now.list->count != before.list->count)
        s->failed = !tp_fail(TP_ERR_RUNTIME, "Expected body_fn_output and carried_inputs to have same number of outputs but got lhs:%u and rhs:%u",
                             now.list->count, before.list->count);
    return check_forms(s, "body_fn_output and carried_inputs", now, before);
}

TP_HOOK_D(tp_d_while_loop)
{
    tp_scope s = { 0 };
    tp_value state[2] = { arg[2], arg[3] };
    (void)op;
    bool once = probes(arg[0]) || !all_have_data(arg[2]) || !all_have_data(arg[3]);
    if (once)
        call(&s, arg[0], state, 2);
    while (!s.failed && (once || decide(&s, call(&s, arg[0], state, 2)))) {
        tp_value next = call(&s, arg[1], state, 2);
        if (!check_carried(&s, next, state[0]))
            break;
        state[0] = next;
        if (once)
            break;
        if (tp_the_runtime.python.poll_interrupt && !tp_the_runtime.python.poll_interrupt())
            s.failed = true;
    }
    return tp_rule_done(&s, state[0], result);
}

/* The members of `xs` at one place along the first dim. */
static tp_value slices(tp_scope *scope, tp_value xs, int64_t at)
{
    tp_values all = { 0 };
    for (uint32_t i = 0; i < tp_length(xs); i++)
        tp_values_add(scope, &all, RUN(select_int, xs.list->item[i], tp_int(0), tp_int(at)));
    return tp_scope_values(scope, &all);
}

static tp_value length_of(tp_value xs)
{
    const tp_tensor *t = tp_length(xs) ? tp_as_tensor(xs.list->item[0]) : NULL;
    return t && t->ndim ? tp_of_sym(tp_tensor_sym_size(t, 0)) : tp_int(0);
}

/* `v` as often as `length` says, along a new first dim. */
static tp_value repeated(tp_scope *scope, tp_value v, tp_value length)
{
    if (v.tag != TP_TENSOR)
        return v;
    const tp_tensor *t = v.tensor;
    tp_value size[TP_MAX_DIMS + 1] = { length };
    for (int i = 0; i < t->ndim; i++)
        size[i + 1] = tp_of_sym(tp_tensor_sym_size(t, i));
    tp_value wide = RUN(expand, v, tp_scope_list(scope, (uint32_t)t->ndim + 1, size));
    return RUN(clone, wide, tp_of_format(TP_FORMAT_CONTIGUOUS));
}

/* From the results of each step (lists), the i-th of all stacked. */
static tp_value stacked(tp_scope *scope, const tp_values *steps, uint32_t i)
{
    tp_values all = { 0 };
    for (size_t k = 0; k < steps->count; k++) {
        if (i >= tp_length(steps->item[k]) || steps->item[k].list->item[i].tag != TP_TENSOR)
            return tp_scope_fail(scope, TP_ERR_RUNTIME, "Expect outputs of map only contains tensors or None.");
        tp_values_add(scope, &all, steps->item[k].list->item[i]);
    }
    tp_value list = tp_scope_values(scope, &all);
    return RUN(stack, list);
}

/* All that steps gave from their `first` result on, stacked (or repeated, where there was one typical step), behind `head`. */
static tp_value gathered(tp_scope *s, tp_value head, tp_values *steps, uint32_t first, bool once, tp_value length)
{
    tp_values all = { 0 };
    tp_values_join(s, &all, head);
    for (uint32_t i = first; !s->failed && steps->count && i < tp_length(steps->item[0]); i++)
        tp_values_add(s, &all, once ? repeated(s, steps->item[0].list->item[i], length) : stacked(s, steps, i));
    (void)tp_scope_values(s, steps);
    return tp_scope_values(s, &all);
}

static tp_value nothing(tp_scope *s)
{
    return tp_scope_list(s, 0, NULL);
}

TP_HOOK_D(tp_d_map)
{
    tp_scope s = { 0 };
    tp_values steps = { 0 };
    (void)op;
    bool once = probes(arg[0]) || !all_have_data(arg[1]) || !all_have_data(arg[2]);
    tp_value length = length_of(arg[1]);
    for (int64_t i = 0; !s.failed && i < (once ? 1 : tp_as_int(length)); i++)
        tp_values_add(&s, &steps, call(&s, arg[0], (tp_value[]){ slices(&s, arg[1], i), arg[2] }, 2));
    return tp_rule_done(&s, gathered(&s, nothing(&s), &steps, 0, once, length), result);
}

/* The first `count` items of a list. */
static tp_value head_of(tp_scope *s, tp_value list, uint32_t count)
{
    if (s->failed || tp_length(list) < count)
        return s->failed ? tp_none() : tp_scope_fail(s, TP_ERR_RUNTIME, "scan: combine_fn gives fewer values than it was given to carry");
    return tp_scope_list(s, count, list.list->item);
}

TP_HOOK_D(tp_d_scan)
{
    tp_scope s = { 0 };
    tp_values steps = { 0 };
    (void)op;
    bool once = probes(arg[0]) || !all_have_data(arg[1]) || !all_have_data(arg[2]) || !all_have_data(arg[3]);
    tp_value carry = arg[1], length = length_of(arg[2]);
    uint32_t carried = tp_length(carry);
    for (int64_t i = 0; !s.failed && i < (once ? 1 : tp_as_int(length)); i++) {
        tp_value step = call(&s, arg[0], (tp_value[]){ carry, slices(&s, arg[2], i), arg[3] }, 3);
        tp_value next = head_of(&s, step, carried);
        (void)(i == 0 && check_forms(&s, "init and carry", carry, next));
        carry = next;
        tp_values_add(&s, &steps, step);
    }
    return tp_rule_done(&s, gathered(&s, carry, &steps, carried, once, length), result);
}

/* combine_fn is associative: folding from the left is one order of many. */
TP_HOOK_D(tp_d_associative_scan)
{
    tp_scope s = { 0 };
    tp_values steps = { 0 };
    (void)op;
    bool once = probes(arg[0]) || !all_have_data(arg[1]) || !all_have_data(arg[2]);
    tp_value length = length_of(arg[1]), sum = slices(&s, arg[1], 0);
    if (once)
        sum = call(&s, arg[0], (tp_value[]){ sum, slices(&s, arg[1], 0), arg[2] }, 3);
    tp_values_add(&s, &steps, sum);
    for (int64_t i = 1; !s.failed && !once && i < tp_as_int(length); i++) {
        sum = call(&s, arg[0], (tp_value[]){ sum, slices(&s, arg[1], i), arg[2] }, 3);
        tp_values_add(&s, &steps, sum);
    }
    return tp_rule_done(&s, gathered(&s, nothing(&s), &steps, 0, once, length), result);
}
