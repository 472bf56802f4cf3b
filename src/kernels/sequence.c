/* sequence.c - padded sequences packed: for each step the rows of the sequences that are still running.
 *
 *     a a a          lengths 3, 1           a b | a | a          batch sizes 2, 1, 1
 *     b . .    */
#include <string.h>

#include "kernels/dense.h"
#include "ops/emit.h"

static bool check_lengths(const int64_t *length, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (length[i] <= 0)
            return tp_fail(TP_ERR_RUNTIME, "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
        if (i && length[i] > length[i - 1])
            return tp_fail(TP_ERR_RUNTIME, "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                           "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need "
                           "ONNX exportability.");
    }
    return true;
}

/* _pack_padded_sequence(input, lengths, batch_first) */
TP_HOOK_K(tp_k_pack_padded_sequence)
{
    const tp_tensor *input = arg[0].tensor;
    bool batch_first = tp_as_bool(arg[2]);
    tp_tensor *dense = tp_contiguous(input), *lengths = dense ? tp_dense(arg[1].tensor, TP_i64) : NULL;
    bool ok = lengths && check_lengths(tp_tensor_data(lengths), lengths->numel);
    if (ok) {
        const int64_t *length = tp_tensor_data(lengths);
        int64_t batch = lengths->numel, steps = length[0], room = input->size[batch_first], rows = 0, size[TP_MAX_DIMS];
        int64_t running = batch, row = (int64_t)tp_dtype_bytes((tp_dtype)input->dtype);
        for (int64_t i = 0; i < batch; i++)
            rows += tp_int_min(length[i], room);
        size[0] = rows;
        for (int i = 2; i < input->ndim; i++) {
            size[i - 1] = input->size[i];
            row *= input->size[i];
        }
        ok = (out[0] = tp_tensor_new((tp_dtype)input->dtype, input->ndim - 1, size)) && (out[1] = tp_tensor_new(TP_i64, 1, &steps));
        char *to = ok ? tp_tensor_data(out[0]) : NULL;
        for (int64_t t = 0; ok && t < steps; t++) {
            while (running && length[running - 1] <= t)
                running--;
            ((int64_t *)tp_tensor_data(out[1]))[t] = running;
            for (int64_t b = 0; t < room && b < running; b++, to += row)
                memcpy(to, (const char *)tp_tensor_data(dense) + (batch_first ? b * room + t : t * batch + b) * row, (size_t)row);
        }
    }
    tp_tensor_unref(dense);
    tp_tensor_unref(lengths);
    return ok;
}
