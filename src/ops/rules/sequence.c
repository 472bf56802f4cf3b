/* sequence.c - sequences of different lengths, as calls of ops: padded to one tensor, and back from packed form. */
#include "ops/copy.h"
#include "ops/rules/rules.h"

static tp_value full_like_list(tp_scope *scope, const tp_tensor *like, const tp_syms *size, tp_value fill)
{
    return tp_rule_call(scope, &tp_op_full, 5, (tp_value[]){ tp_scope_syms(scope, size), fill, tp_of_dtype((tp_dtype)like->dtype),
                                                             (tp_value){ .tag = TP_LAYOUT }, tp_of_device(like->device) });
}

/* pad_sequence(sequences, batch_first, padding_value, padding_side) */
TP_HOOK_D(tp_d_pad_sequence)
{
    tp_scope s = { 0 };
    const tp_list *l = arg[0].list;
    bool batch_first = tp_as_bool(arg[1]), left = strcmp(arg[3].string->text, "left") == 0;
    tp_sym longest = tp_sym_int(0);
    (void)op;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!l->item[i].tensor->ndim)
            return tp_fail(TP_ERR_RUNTIME, "ArrayRef: invalid slice, N = 1; size = 0");
        longest = tp_sym_max(longest, tp_tensor_sym_size(l->item[i].tensor, 0));
    }
    tp_syms rest = tp_syms_sizes(l->item[0].tensor), size = { 2, { longest, longest } };
    size.item[batch_first ? 0 : 1] = tp_sym_int(l->count);
    for (int i = 1; i < rest.count; i++)
        tp_syms_add(&size, rest.item[i]);
    tp_value whole = full_like_list(&s, l->item[0].tensor, &size, arg[2]);
    for (uint32_t i = 0; i < l->count && !s.failed; i++) {
        tp_sym n = tp_tensor_sym_size(l->item[i].tensor, 0), from = left ? tp_sym_sub(longest, n) : tp_sym_int(0);
        tp_value place = batch_first ? CALL(select_int, whole, tp_int(0), tp_int(i)) : whole;
        place = CALL(slice_Tensor, place, tp_int(0), tp_of_sym(from), tp_of_sym(tp_sym_add(from, n)));
        if (!batch_first)
            place = CALL(select_int, place, tp_int(1), tp_int(i));
        (void)CALL(copy_, place, l->item[i]);
    }
    return tp_rule_done(&s, whole, result);
}

/* The elements of batch_sizes, owned by the caller; NULL: failed. */
static tp_tensor *read_sizes(const tp_tensor *t)
{
    if (t->storage->kind == TP_MEMORY_NONE)
        return tp_fail(TP_ERR_RUNTIME, "packed sequences: batch sizes depend on data, which a fake tensor does not have");
    if (t->ndim != 1 || t->dtype != TP_i64)
        return tp_fail(TP_ERR_RUNTIME, "Expected batch_sizes to be a 1D int64 tensor");
    return tp_contiguous(t);
}

/* (grad, input_size, batch_sizes, batch_first) */
TP_HOOK_D(tp_d_pack_padded_sequence_backward)
{
    tp_scope s = { 0 };
    tp_tensor *sizes = read_sizes(arg[2].tensor);
    bool batch_first = tp_as_bool(arg[3]);
    (void)op;
    if (!sizes)
        return false;
    tp_syms shape = tp_syms_read(arg[1], 0, &s.failed);
    if (batch_first && shape.count > 1) {
        tp_sym swap = shape.item[0];
        shape.item[0] = shape.item[1];
        shape.item[1] = swap;
    }
    const tp_tensor *g = arg[0].tensor;
    tp_value whole = CALL(zeros, tp_scope_syms(&s, &shape), tp_of_dtype((tp_dtype)g->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(g->device));
    for (int64_t i = 0, at = 0; i < sizes->numel && !s.failed; i++) {
        int64_t n = ((const int64_t *)tp_tensor_data(sizes))[i];
        tp_value to = CALL(slice_Tensor, CALL(select_int, whole, tp_int(0), tp_int(i)), tp_int(0), tp_int(0), tp_int(n));
        (void)CALL(copy_, to, CALL(slice_Tensor, arg[0], tp_int(0), tp_int(at), tp_int(at + n)));
        at += n;
    }
    tp_tensor_unref(sizes);
    if (batch_first)
        whole = CALL(transpose_int, whole, tp_int(0), tp_int(1));
    return tp_rule_done(&s, whole, result);
}

/* (data, batch_sizes, batch_first, padding_value, total_length): steps with as many sequences are copied together. */
TP_HOOK_D(tp_d_pad_packed_sequence)
{
    tp_scope s = { 0 };
    const tp_tensor *data = arg[0].tensor;
    tp_tensor *sizes = read_sizes(arg[1].tensor);
    (void)op;
    if (!sizes)
        return false;
    const int64_t *size = tp_tensor_data(sizes);
    int64_t steps = sizes->numel, batch = steps ? size[0] : 0, total = tp_as_int(arg[4]) > 0 ? tp_as_int(arg[4]) : steps, at = 0, begun = 0, left = batch;
    tp_syms rest = tp_syms_sizes(data), shape = { 2, { tp_sym_int(total), tp_sym_int(batch) } };
    for (int i = 1; i < rest.count; i++)
        tp_syms_add(&shape, rest.item[i]);
    tp_value whole = full_like_list(&s, data, &shape, arg[3]), count = tp_int(batch);
    tp_value lengths = CALL(empty_memory_format, tp_scope_list(&s, 1, &count), tp_of_dtype(TP_i64), (tp_value){ .tag = TP_LAYOUT }, tp_of_device((tp_device){ TP_CPU, -1 }));
    int64_t *length = !s.failed && lengths.tensor->storage->kind != TP_MEMORY_NONE ? tp_tensor_data(lengths.tensor) : NULL;
    for (int64_t i = 1; i <= steps && !s.failed; i++) {
        int64_t now = i < steps ? size[i] : 0, before = size[i - 1], n = before * (i - begun);
        if (now == before)
            continue;
        if (now > before || now < 0) {
            s.failed = !tp_fail(TP_ERR_RUNTIME, "batch_sizes must be in decreasing order");
            break;
        }
        tp_value from = CALL(slice_Tensor, arg[0], tp_int(0), tp_int(at), tp_int(at + n));
        tp_value to = CALL(slice_Tensor, CALL(slice_Tensor, whole, tp_int(0), tp_int(begun), tp_int(i)), tp_int(1), tp_int(0), tp_int(before));
        shape.item[0] = tp_sym_int(i - begun);
        shape.item[1] = tp_sym_int(before);
        (void)CALL(copy_, to, CALL(view, from, tp_scope_syms(&s, &shape)));
        for (; left > now; left--)
            if (length)
                length[left - 1] = i;
        at += n;
        begun = i;
    }
    tp_tensor_unref(sizes);
    if (tp_as_bool(arg[2]))
        whole = CALL(transpose_int, whole, tp_int(0), tp_int(1));
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], whole);
        tp_scope_keep(&s, &result[1], lengths);
    }
    return tp_scope_end(&s);
}
