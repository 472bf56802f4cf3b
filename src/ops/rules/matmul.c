/* matmul.c - matmul of batches, and linear of batches: when to fold dims into one matrix, and when to broadcast.
 *
 * Folding turns [5, 2, 3] @ [3, 4] into [10, 3] @ [3, 4]: one large product. It is done when it costs no copy of the larger
 * operand, or when a gradient is wanted, because then the gradient of the smaller one is one product too instead of a
 * batch and a sum. */
#include "ops/dispatch.h"
#include "ops/rules/matrices.h"
#include "ops/rules/rules.h"
#include "ops/symbolic.h"

static tp_value sizes_of(tp_scope *s, const tp_tensor *t, int from, int to, int extra, const tp_sym *more)
{
    tp_value item[TP_MAX_DIMS];
    int n = 0;
    for (int i = from; i < to; i++)
        item[n++] = tp_of_sym(tp_tensor_sym_size(t, i));
    for (int i = 0; i < extra; i++)
        item[n++] = tp_of_sym(more[i]);
    return tp_scope_list(s, (uint32_t)n, item);
}

static tp_tensor *call(tp_scope *s, const tp_op *op, tp_tensor *t, tp_value second)
{
    return t ? tp_scope_tensor(s, op, (tp_value[]){ tp_of_tensor(t), second }) : NULL;
}

static tp_tensor *transposed(tp_scope *s, tp_tensor *t)
{
    return t ? tp_scope_tensor(s, &tp_op_transpose_int, (tp_value[]){ tp_of_tensor(t), tp_int(-2), tp_int(-1) }) : NULL;
}

/* Do the leading dims run through memory as one? Then reshaping costs nothing. */
static bool folds_freely(const tp_tensor *t)
{
    for (int i = 0; i < t->ndim - 2; i++)
        if (t->stride[i] != t->stride[i + 1] * t->size[i + 1])
            return false;
    return true;
}

static bool should_fold(const tp_tensor *large, const tp_tensor *small)
{
    if (large->ndim < 3 || small->ndim > 2)
        return false;
    return tp_wants_gradient(large) || tp_wants_gradient(small) || large->numel == 0 || folds_freely(large);
}

/* large is [..., m, k], small [k, n] or [k]. */
static tp_tensor *folded(tp_scope *s, tp_tensor *large, tp_tensor *small)
{
    int last = large->ndim - 1;
    tp_sym rows = tp_sym_int(1);
    for (int i = 0; i < last; i++)
        rows = tp_sym_mul(rows, tp_tensor_sym_size(large, i));
    tp_sym two[2] = { rows, tp_tensor_sym_size(large, last) };
    tp_tensor *flat = call(s, &tp_op_reshape, large, sizes_of(s, large, 0, 0, 2, two));
    if (!flat)
        return NULL;
    bool vector = small->ndim == 1;
    tp_tensor *product = call(s, vector ? &tp_op_mv : &tp_op_mm, flat, tp_of_tensor(small));
    tp_sym column = vector ? tp_sym_int(0) : tp_tensor_sym_size(small, 1);
    return call(s, &tp_op__unsafe_view, product, sizes_of(s, large, 0, last, !vector, &column));
}

/* small @ large = (large^T @ small^T)^T */
static tp_tensor *folded_right(tp_scope *s, tp_tensor *small, tp_tensor *large)
{
    tp_tensor *turned = transposed(s, large);
    if (small->ndim == 1)
        return turned ? folded(s, turned, small) : NULL;
    tp_tensor *left = tp_scope_tensor(s, &tp_op_t, (tp_value[]){ tp_of_tensor(small) });
    tp_tensor *product = turned && left ? transposed(s, folded(s, turned, left)) : NULL;
    return product ? tp_scope_tensor(s, &tp_op_contiguous, (tp_value[]){ tp_of_tensor(product), tp_of_format(TP_FORMAT_CONTIGUOUS) }) : NULL;
}

/* The operand seen as [batch, rows, columns], its batch dims broadcast to `batch`. */
static tp_tensor *as_batch(tp_scope *s, tp_tensor *t, const tp_syms *batch, tp_sym count, int matrix_dims)
{
    tp_value wide[TP_MAX_DIMS + 2], three[3] = { tp_of_sym(count) };
    int n = 0, flat = 1;
    for (int i = 0; i < batch->count; i++)
        wide[n++] = tp_of_sym(batch->item[i]);
    for (int i = 0; i < matrix_dims && i < 2; i++)
        wide[n++] = three[flat++] = tp_of_sym(tp_tensor_sym_size(t, t->ndim - matrix_dims + i));
    tp_tensor *spread = tp_scope_tensor(s, &tp_op_expand, (tp_value[]){ tp_of_tensor(t), tp_scope_list(s, (uint32_t)n, wide), tp_bool(false) });
    return call(s, &tp_op_reshape, spread, tp_scope_list(s, (uint32_t)flat, three));
}

static bool join_batch(tp_syms *batch, const tp_tensor *t, int dims)
{
    for (int i = 1; i <= dims; i++) {
        tp_sym size = tp_tensor_sym_size(t, dims - i), *mine = &batch->item[batch->count - i];
        bool one, same;
        if (!tp_sym_guard(tp_sym_eq(size, tp_sym_int(1)), &one))
            return false;
        if (one)
            continue;
        if (!tp_sym_guard(tp_sym_eq(*mine, tp_sym_int(1)), &one) || !tp_sym_guard(tp_sym_eq(*mine, size), &same))
            return false;
        if (!one && !same)
            return tp_fail(TP_ERR_RUNTIME, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                           LL(tp_sym_is_int(*mine) ? tp_sym_as_int(*mine) : -1), LL(tp_sym_is_int(size) ? tp_sym_as_int(size) : -1), batch->count - i);
        *mine = size;
    }
    return true;
}

static tp_tensor *broadcast_product(tp_scope *s, tp_tensor *a, tp_tensor *b)
{
    int a_batch = a->ndim > 2 ? a->ndim - 2 : 0, b_batch = b->ndim > 2 ? b->ndim - 2 : 0;
    tp_syms batch = { .count = a_batch > b_batch ? a_batch : b_batch };
    for (int i = 0; i < batch.count; i++)
        batch.item[i] = tp_sym_int(1);
    if (!join_batch(&batch, a, a_batch) || !join_batch(&batch, b, b_batch)) {
        s->failed = true;
        return NULL;
    }
    tp_sym count = tp_sym_int(1);
    for (int i = 0; i < batch.count; i++)
        count = tp_sym_mul(count, batch.item[i]);
    bool row = a->ndim == 1, column = b->ndim == 1;
    if (row)
        a = tp_scope_tensor(s, &tp_op_unsqueeze, (tp_value[]){ tp_of_tensor(a), tp_int(0) });
    tp_tensor *left = a ? as_batch(s, a, &batch, count, 2) : NULL;
    tp_tensor *right = left ? as_batch(s, b, &batch, count, column ? 1 : 2) : NULL;
    if (right && column)
        right = call(s, &tp_op_unsqueeze, right, tp_int(2));
    tp_tensor *product = right ? call(s, &tp_op_bmm, left, tp_of_tensor(right)) : NULL;
    if (product && column)
        product = call(s, &tp_op_squeeze_dim, product, tp_int(-1));
    if (!product)
        return NULL;
    tp_value shape[TP_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < batch.count; i++)
        shape[n++] = tp_of_sym(batch.item[i]);
    if (!row)
        shape[n++] = tp_of_sym(tp_tensor_sym_size(a, a->ndim - 2));
    if (!column)
        shape[n++] = tp_of_sym(tp_tensor_sym_size(b, b->ndim - 1));
    return call(s, &tp_op__unsafe_view, product, tp_scope_list(s, (uint32_t)n, shape));
}

/* Leading dims of size one of the smaller operand say nothing: [5, 2, 3] @ [1, 3, 4] is [5, 2, 3] @ [3, 4]. */
static tp_tensor *without_ones(tp_scope *s, tp_tensor *t, const tp_tensor *other)
{
    while (t && t->ndim > 2 && other->ndim >= t->ndim && t->size[0] == 1 && !tp_tensor_is_symbolic(t) && other->size[0] != 1)
        t = call(s, &tp_op_squeeze_dim, t, tp_int(0));
    return t;
}

static tp_tensor *product(tp_scope *s, tp_tensor *a, tp_tensor *b)
{
    if (b->ndim == 3 && a->ndim == 3)
        b = without_ones(s, b, a);
    if (!b)
        return NULL;
    if (should_fold(a, b))
        return folded(s, a, b);
    if (should_fold(b, a) && (tp_wants_gradient(a) || tp_wants_gradient(b) || b->numel == 0))
        return folded_right(s, a, b);
    return broadcast_product(s, a, b);
}

bool tp_d_matmul_fold(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_scope s = { 0 };
    (void)op;
    tp_tensor *made = product(&s, arg[0].tensor, arg[1].tensor);
    if (made)
        tp_scope_keep(&s, &result[0], tp_of_tensor(made));
    return tp_scope_end(&s);
}

/* linear with a bias of an input that is no matrix: folded into one addmm when that costs no copy. */
bool tp_d_linear(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_scope s = { 0 };
    tp_tensor *input = arg[0].tensor, *weight = arg[1].tensor, *made = NULL;
    (void)op;
    if (tp_tensor_is_contiguous(input)) {
        int last = input->ndim - 1;
        tp_sym rows = tp_sym_int(1);
        for (int i = 0; i < last; i++)
            rows = tp_sym_mul(rows, tp_tensor_sym_size(input, i));
        tp_sym two[2] = { rows, tp_tensor_sym_size(input, last) }, columns = tp_tensor_sym_size(weight, 0);
        tp_tensor *flat = call(&s, &tp_op_view, input, sizes_of(&s, input, 0, 0, 2, two));
        tp_tensor *turned = tp_scope_tensor(&s, &tp_op_t, (tp_value[]){ arg[1] });
        if (flat && turned) {
            tp_tensor *sum = tp_scope_tensor(&s, &tp_op_addmm, (tp_value[]){ arg[2], tp_of_tensor(flat), tp_of_tensor(turned), tp_int(1), tp_int(1) });
            made = call(&s, &tp_op_view, sum, sizes_of(&s, input, 0, last, 1, &columns));
        }
    } else {
        tp_tensor *turned = tp_scope_tensor(&s, &tp_op_t, (tp_value[]){ arg[1] });
        tp_tensor *plain = turned ? call(&s, &tp_op_matmul, input, tp_of_tensor(turned)) : NULL;
        if (plain)
            made = tp_scope_tensor(&s, &tp_op_add_Tensor, (tp_value[]){ tp_of_tensor(plain), arg[2], tp_int(1) });
    }
    if (made)
        tp_scope_keep(&s, &result[0], tp_of_tensor(made));
    return tp_scope_end(&s);
}
