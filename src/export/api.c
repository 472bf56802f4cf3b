/* api.c - the public face in C (include/taper/taper.h): opaque tensors, programs called with tensors alone. */
#include <string.h>

#include "base/alloc.h"
#include "export/program.h"
#include "ops/dispatch.h"

#pragma GCC visibility push(default)
#include "../../include/taper/taper.h"
#pragma GCC visibility pop

/* ---- programs ---- */
void tp_program_drop(tp_program *p)
{
    tp_program_unref(p);
}

size_t tp_program_tensor_inputs(const tp_program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < tp_program_input_count(p); i++) {
        tp_value fact;
        count += tp_program_input(p, i, &fact) && fact.tag == TP_TENSOR;
    }
    return count;
}

/* Of the i-th item of the graph's output that the user sees: a node that yields a tensor? */
static bool is_tensor_output(const tp_program *p, size_t i)
{
    const tp_node *n = tp_as_node(tp_graph_output_node(p->graph)->arg[0].list->item[i]);
    tp_output_kind kind = p->signature.output[i].kind;
    return (kind == TP_OUTPUT_USER || kind == TP_OUTPUT_LOSS) && n && n->fact.tag == TP_TENSOR;
}

size_t tp_program_tensor_outputs(const tp_program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->signature.output_count; i++)
        count += is_tensor_output(p, i);
    return count;
}

const char *tp_program_input_name(const tp_program *p, size_t i)
{
    for (size_t k = 0; k < tp_program_input_count(p); k++) {
        tp_value fact;
        const char *name = tp_program_input(p, k, &fact);
        if (fact.tag == TP_TENSOR && i-- == 0)
            return name;
    }
    return NULL;
}

/* Tensors in their places; constants are what they were. */
static bool place_inputs(const tp_program *p, tp_tensor *const *input, size_t count, tp_value *all, size_t all_count)
{
    size_t used = 0;
    for (size_t i = 0; i < all_count; i++) {
        tp_value fact;
        (void)tp_program_input(p, i, &fact);
        if (fact.tag == TP_SYM)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "programs that take numbers are not implemented here");
        if (fact.tag != TP_TENSOR)
            all[i] = fact;
        else if (used < count && input[used])
            all[i] = tp_of_tensor(input[used++]);
        else
            break;
    }
    if (used != count || count != tp_program_tensor_inputs(p))
        return tp_fail(TP_ERR_TYPE, "the program takes %zu tensors, not %zu", tp_program_tensor_inputs(p), count);
    return true;
}

static void hand_tensors(const tp_program *p, tp_value *all, tp_tensor **output)
{
    size_t user = 0, made = 0;
    for (size_t i = 0; i < p->signature.output_count; i++) {
        if (p->signature.output[i].kind != TP_OUTPUT_USER && p->signature.output[i].kind != TP_OUTPUT_LOSS)
            continue;
        if (is_tensor_output(p, i))
            output[made++] = all[user].tensor;
        else
            tp_value_unref(all[user]);
        user++;
    }
}

bool tp_program_call(tp_program *p, tp_tensor *const *input, size_t input_count, tp_tensor **output, size_t output_count)
{
    size_t ins = tp_program_input_count(p), outs = tp_program_output_count(p);
    if (output_count != tp_program_tensor_outputs(p))
        return tp_fail(TP_ERR_TYPE, "the program gives %zu tensors, not %zu", tp_program_tensor_outputs(p), output_count);
    tp_value *all = tp_alloc_array(ins + outs + 1, sizeof *all);
    bool ok = all && place_inputs(p, input, input_count, all, ins) && tp_program_run(p, all, ins, all + ins, outs);
    if (ok)
        hand_tensors(p, all + ins, output);
    tp_free(all);
    return ok;
}

/* ---- tensors ---- */
tp_tensor *tp_tensor_make(const char *dtype, int rank, const int64_t *size, const void *data)
{
    int d = 0;
    while (d < TP_DTYPE_COUNT && strcmp(tp_dtypes[d].python, dtype) != 0)
        d++;
    if (d == TP_DTYPE_COUNT)
        return tp_fail(TP_ERR_TYPE, "there is no element type %s", dtype);
    if (rank < 0 || rank > TP_MAX_DIMS)
        return tp_fail(TP_ERR_VALUE, "a tensor has 0 to %d dimensions, not %d", TP_MAX_DIMS, rank);
    for (int i = 0; i < rank; i++)
        if (size[i] < 0)
            return tp_fail(TP_ERR_VALUE, "dimension %d of a tensor cannot be %lld", i, LL(size[i]));
    tp_tensor *t = tp_tensor_new((tp_dtype)d, rank, size);
    size_t bytes = t ? (size_t)t->numel * tp_dtype_bytes((tp_dtype)d) : 0;
    if (bytes && data)
        memcpy(tp_tensor_data(t), data, bytes);
    else if (bytes)
        memset(tp_tensor_data(t), 0, bytes);
    return t;
}

void tp_tensor_drop(tp_tensor *t)
{
    tp_tensor_unref(t);
}

const char *tp_tensor_type(const tp_tensor *t)
{
    return tp_dtypes[t->dtype].python;
}

int tp_tensor_rank(const tp_tensor *t)
{
    return t->ndim;
}

int64_t tp_tensor_length(const tp_tensor *t, int dim)
{
    return dim >= 0 && dim < t->ndim ? t->size[dim] : -1;
}

int64_t tp_tensor_count(const tp_tensor *t)
{
    return t->numel;
}

bool tp_tensor_read(const tp_tensor *t, void *out, size_t bytes)
{
    size_t need = (size_t)t->numel * tp_dtype_bytes((tp_dtype)t->dtype);
    if (bytes < need)
        return tp_fail(TP_ERR_VALUE, "the tensor has %zu bytes, there is room for %zu", need, bytes);
    const tp_op *op = tp_op_find("aten", "clone", "");
    tp_value dense = tp_none();
    if (tp_tensor_is_contiguous(t) && !tp_signs(t))
        dense = tp_of_tensor(tp_tensor_ref(t));
    else if (!op || !tp_call(op, (tp_value[]){ tp_of_tensor(t), tp_of_format(TP_FORMAT_CONTIGUOUS) }, &dense))
        return op ? false : tp_fail(TP_ERR_UNIMPLEMENTED, "aten::clone is not there");
    if (need)
        memcpy(out, tp_tensor_data(dense.tensor), need);
    tp_value_unref(dense);
    return true;
}
