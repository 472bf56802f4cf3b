/* losses.c - what losses ask of their arguments, in PyTorch's words, and ctc_loss as calls of ops. */
#include "ops/rules/losses.h"

#include "base/alloc.h"
#include "ops/copy.h"
#include "ops/rules/rules.h"

static bool is_fake(const tp_tensor *t)
{
    return t->storage->kind == TP_MEMORY_NONE;
}

/* ---- connectionist temporal classification ---- */
/* The elements in row-major order as type d, counted for the caller. */
static tp_tensor *row_major(const tp_tensor *t, tp_dtype d)
{
    tp_tensor *cast = tp_cast(t, d), *made = cast ? tp_contiguous(cast) : NULL;
    tp_tensor_unref(cast);
    return made;
}

#define IN_CTC " (while checking arguments for ctc_loss_allocate_outputs)"

/* A list or tensor of integers as an array that the caller owns; NULL: failed. */
static int64_t *read_lengths(tp_value v, int64_t *count)
{
    tp_tensor *dense = v.tag == TP_TENSOR ? row_major(v.tensor, TP_i64) : NULL;
    if (v.tag == TP_TENSOR && !dense)
        return NULL;
    *count = dense ? dense->numel : tp_length(v);
    int64_t *length = tp_alloc_array((size_t)*count + 1, sizeof *length);
    for (int64_t i = 0; length && i < *count; i++)
        length[i] = dense ? ((const int64_t *)tp_tensor_data(dense))[i] : tp_as_int(v.list->item[i]);
    tp_tensor_unref(dense);
    return length;
}

void tp_ctc_fini(tp_ctc *c)
{
    tp_free(c->input_length);
    tp_free(c->target_length);
    tp_free(c->from);
    tp_tensor_unref(c->targets);
}

static bool check_lengths(tp_ctc *c, const tp_tensor *log_probs, const tp_tensor *targets)
{
    int64_t batch = log_probs->size[1], total = 0;
    for (int64_t i = 0; i < batch; i++) {
        if (c->target_length[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "Expected target_lengths to have value at least 0, but got value %lld" IN_CTC, LL(c->target_length[i]));
        c->from[i] = targets->ndim == 1 ? total : i * (targets->ndim ? targets->size[targets->ndim - 1] : 0);
        total += c->target_length[i];
        c->longest = c->longest > c->target_length[i] ? c->longest : c->target_length[i];
    }
    for (int64_t i = 0; i < batch; i++) {
        if (c->input_length[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "Expected input_lengths to have value at least 0, but got value %lld" IN_CTC, LL(c->input_length[i]));
        if (c->input_length[i] > log_probs->size[0])
            return tp_fail(TP_ERR_RUNTIME, "Expected input_lengths to have value at most %lld, but got value %lld" IN_CTC, LL(log_probs->size[0]), LL(c->input_length[i]));
    }
    if (targets->ndim == 1 && targets->size[0] != total)
        return tp_fail(TP_ERR_RUNTIME, "Expected tensor to have size %lld at dimension 0, but got size %lld for argument #2 'targets'" IN_CTC, LL(total), LL(targets->size[0]));
    if (targets->ndim == 2 && targets->size[0] != batch)
        return tp_fail(TP_ERR_RUNTIME, "Expected tensor to have size %lld at dimension 0, but got size %lld for argument #2 'targets'" IN_CTC, LL(batch), LL(targets->size[0]));
    if (targets->ndim == 2 && targets->size[1] < c->longest)
        return tp_fail(TP_ERR_RUNTIME, "Expected tensor to have size at least %lld at dimension 1, but got size %lld for argument #2 'targets'" IN_CTC, LL(c->longest), LL(targets->size[1]));
    return true;
}

bool tp_ctc_read(tp_ctc *c, const tp_value *arg)
{
    const tp_tensor *log_probs = arg[0].tensor, *targets = arg[1].tensor;
    int64_t inputs = 0, outputs = 0;
    *c = (tp_ctc){ .step = 1, .blank = tp_as_int(arg[4]) };
    if (log_probs->ndim != 3)
        return tp_fail(TP_ERR_RUNTIME, "Expected 3-dimensional tensor, but got %d-dimensional tensor for argument #1 'log_probs'" IN_CTC, log_probs->ndim);
    if (targets->ndim < 1 || targets->ndim > 2)
        return tp_fail(TP_ERR_RUNTIME, "Expected 1 to 2 dimensions, but got %d-dimensional tensor for argument #2 'targets'" IN_CTC, targets->ndim);
    if (!log_probs->numel)
        return tp_fail(TP_ERR_RUNTIME, "log_probs tensor must not be empty");
    if (c->blank < 0 || c->blank >= log_probs->size[2])
        return tp_fail(TP_ERR_RUNTIME, "blank must be in label range");
    bool ok = (c->input_length = read_lengths(arg[2], &inputs)) && (c->target_length = read_lengths(arg[3], &outputs)) &&
              (c->from = tp_alloc_array((size_t)outputs + 1, sizeof *c->from)) && (c->targets = row_major(targets, TP_i64));
    if (ok && inputs != log_probs->size[1])
        ok = tp_fail(TP_ERR_RUNTIME, "input_lengths must be of size batch_size") != NULL;
    else if (ok && outputs != log_probs->size[1])
        ok = tp_fail(TP_ERR_RUNTIME, "target_lengths must be of size batch_size") != NULL;
    ok = ok && check_lengths(c, log_probs, targets);
    if (ok)
        c->target = tp_tensor_data(c->targets);
    else
        tp_ctc_fini(c);
    return ok;
}

static bool guarded(tp_sym condition, const char *words)
{
    bool held;
    return tp_sym_guard(condition, &held) && (held || tp_fail(TP_ERR_RUNTIME, "%s", words));
}

/* Of fake tensors: what lengths given as numbers ask of the sizes. */
static bool check_sizes(const tp_value *arg)
{
    const tp_tensor *targets = arg[1].tensor;
    if (arg[2].tag == TP_TENSOR || arg[0].tensor->ndim != 3)
        return true;
    tp_sym batch = tp_tensor_sym_size(arg[0].tensor, 1);
    int64_t longest[2] = { 0 };
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < tp_length(arg[2 + k]); i++)
            longest[k] = tp_int_max(longest[k], tp_as_int(arg[2 + k].list->item[i]));
    return guarded(tp_sym_eq(batch, tp_sym_int(tp_length(arg[2]))), "input_lengths must be of size batch_size") &&
           guarded(tp_sym_eq(batch, tp_sym_int(tp_length(arg[3]))), "target_lengths must be of size batch_size") &&
           guarded(tp_sym_ge(tp_tensor_sym_size(arg[0].tensor, 0), tp_sym_int(longest[0])), "Expected input_lengths to be at most as long as log_probs") &&
           (targets->ndim != 2 ||
            (guarded(tp_sym_eq(tp_tensor_sym_size(targets, 0), batch), "Expected targets to have a row for each item of the batch") &&
             guarded(tp_sym_ge(tp_tensor_sym_size(targets, 1), tp_sym_int(longest[1])), "Expected targets to have as many columns as target_lengths say")));
}

/* On values that a fake tensor lacks there is nothing to check. */
TP_HOOK_C(tp_c_ctc_loss)
{
    tp_ctc c;
    for (int i = 0; i < 4; i++)
        if (arg[i].tag == TP_TENSOR && is_fake(arg[i].tensor))
            return check_sizes(arg);
    if (!tp_ctc_read(&c, arg))
        return false;
    tp_ctc_fini(&c);
    return true;
}

/* Batch, time and the states of the longest label sequence. */
TP_HOOK_S(tp_s_ctc_alpha)
{
    int64_t longest = 0;
    for (uint32_t i = 0; i < tp_length(arg[3]); i++)
        longest = tp_int_max(longest, tp_as_int(arg[3].list->item[i]));
    *out = (tp_syms){ 3, { tp_tensor_sym_size(arg[0].tensor, 1), tp_tensor_sym_size(arg[0].tensor, 0), tp_sym_int(2 * longest + 1) } };
    return true;
}

/* Lengths as numbers of log_probs' type; given as a tensor they stay what they are. */
static tp_value lengths_tensor(tp_scope *s, tp_value lengths, const tp_tensor *like)
{
    if (lengths.tag == TP_TENSOR)
        return lengths;
    int64_t count = tp_length(lengths);
    tp_tensor *t = tp_tensor_new(TP_i64, 1, &count), *typed = NULL;
    for (int64_t i = 0; t && i < count; i++)
        ((int64_t *)tp_tensor_data(t))[i] = tp_as_int(lengths.list->item[i]);
    if (t)
        typed = row_major(t, (tp_dtype)like->dtype);
    tp_tensor_unref(t);
    s->failed |= !typed;
    tp_value literal = typed ? tp_scope_own(s, tp_of_tensor(typed)) : tp_none();
    return tp_rule_call(s, &tp_op_lift_fresh_copy, 1, &literal);        /* a tracer must see where it comes from */
}

/* ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity); a matrix of log_probs is one item. */
TP_HOOK_D(tp_d_ctc_loss)
{
    tp_scope s = { 0 };
    bool single = arg[0].tensor->ndim != 3;
    int64_t reduction = tp_as_int(arg[5]);
    tp_value item[8];
    memcpy(item, arg, 5 * sizeof *arg);
    item[5] = arg[6];
    (void)op;
    if (single) {
        item[0] = CALL(unsqueeze, arg[0], tp_int(1));
        for (int i = 2; i < 4; i++)
            if (arg[i].tag == TP_TENSOR && !arg[i].tensor->ndim)
                item[i] = CALL(unsqueeze, arg[i], tp_int(0));
    }
    tp_value loss = s.failed ? tp_none() : tp_scope_call(&s, arg[2].tag == TP_TENSOR ? &tp_op__ctc_loss_Tensor : &tp_op__ctc_loss, item);
    if (!s.failed && tp_as_bool(arg[6])) {
        const tp_tensor *like = loss.tensor;
        tp_value zero = CALL(zeros, tp_scope_list(&s, 0, NULL), tp_of_dtype((tp_dtype)like->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(like->device));
        loss = CALL(where_self, CALL(eq_Scalar, loss, tp_float(INFINITY)), zero, loss);
    }
    if (!s.failed && reduction == 1) {
        tp_value lengths = CALL(clamp_min, lengths_tensor(&s, item[3], arg[0].tensor), tp_int(1));
        loss = CALL(mean, CALL(div_Tensor, loss, lengths));
    } else if (reduction == 2) {
        loss = CALL(sum, loss);
    } else if (single) {
        loss = CALL(squeeze_dim, loss, tp_int(0));
    }
    return tp_rule_done(&s, loss, result);
}
