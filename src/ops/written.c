/* written.c - what a call may write: checks of `out` arguments and of those that ops write in place.
 *
 * A result is written where an argument is read only where that is right. PyTorch refuses some such calls (`overlap`); whatever else
 * shares memory is computed apart and copied (run_results.c). Each check costs a comparison of storages for each argument. */
#include <string.h>

#include "base/runtime.h"
#include "base/text.h"
#include "ops/run.h"

bool tp_check_castable(tp_dtype from, tp_dtype to)
{
    if (tp_dtype_can_cast(from, to))
        return true;
    return tp_fail(TP_ERR_RUNTIME, "result type %s can't be cast to the desired output type %s", tp_dtypes[from].title, tp_dtypes[to].title);
}

bool tp_check_inference(const tp_tensor *out)
{
    if (TP_UNLIKELY((out->keys & TP_KEY_INFERENCE) && !tp_self.inference_mode))
        return tp_fail(TP_ERR_RUNTIME, "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
                       "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
    return true;
}

bool tp_check_written(const tp_tensor *out)
{
    if (!tp_check_inference(out))
        return false;
    for (int i = 0; i < out->ndim && out->numel; i++)
        if (out->stride[i] == 0 && out->size[i] > 1)
            return tp_fail(TP_ERR_RUNTIME, "unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. Please clone() the tensor before performing the operation.");
    return true;
}

bool tp_resize_out(const tp_op *op, tp_tensor *out, int ndim, const int64_t *size)
{
    if (out->ndim == ndim && (!ndim || memcmp(out->size, size, (size_t)ndim * sizeof *size) == 0))
        return true;
    bool silent = op->kind == TP_LIKE_FACTORY || op->kind == TP_LIKE_RANDOM, fine = true;
    if (!silent && out->numel != 0 && tp_the_runtime.python.warn) {
        tp_text text = { 0 };
        tp_text_add(&text, "An output with one or more elements was resized since it had shape ");
        tp_text_add_sizes(&text, out->ndim, out->size);
        tp_text_add(&text, ", which does not match the required output shape ");
        tp_text_add_sizes(&text, ndim, size);
        tp_text_add(&text, ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. "
                           "You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).");
        fine = tp_the_runtime.python.warn(tp_text_read(&text));
        tp_text_fini(&text);
    }
    return fine && tp_tensor_resize(out, ndim, size);
}

bool tp_check_out_device(const tp_op *op, tp_device made, const tp_tensor *out)
{
    char from[16], to[16];
    if (op->kind == TP_LIKE_FACTORY || op->kind == TP_LIKE_RANDOM || made.type == out->device.type)
        return true;
    return tp_fail(TP_ERR_RUNTIME, "Attempting to copy from device %s to device %s, but cross-device copies are not allowed!",
                   tp_device_name(made, from), tp_device_name(out->device, to));
}

/* ---- memory that is read and written ---- */

bool tp_check_entangled(const tp_tensor *t, const tp_tensor *written)
{
    if (!tp_tensor_overlaps(t, written) || !tp_tensor_is_dense(t) || !tp_tensor_is_dense(written))
        return true;
    return tp_fail(TP_ERR_RUNTIME, "unsupported operation: some elements of the input tensor and the written-to tensor refer "
                   "to a single memory location. Please clone() the tensor before performing the operation.");
}

static bool check_value(const tp_op *op, const tp_tensor *written, int at, tp_value v)
{
    if (v.tag == TP_TENSOR) {
        bool itself = (op->flags & TP_OP_APART_WHOLE) || (at == 0 && (op->flags & TP_OP_APART_SELF));
        return v.tensor->storage != written->storage || (itself && tp_tensor_same_place(v.tensor, written)) || tp_check_entangled(v.tensor, written);
    }
    for (uint32_t k = 0; k < tp_length(v); k++)
        if (!check_value(op, written, at, v.list->item[k]))
            return false;
    return true;
}

bool tp_check_apart(const tp_op *op, const tp_value *arg)
{
    if (TP_LIKELY(!(op->flags & (TP_OP_APART_NEVER | TP_OP_APART_SELF | TP_OP_APART_WHOLE))))
        return true;
    for (int w = 0; w < op->arg_count; w++)
        for (int i = 0; op->arg[w].written && arg[w].tag == TP_TENSOR && i < op->arg_count; i++)
            if (i != w && !op->arg[i].written && !check_value(op, arg[w].tensor, i, arg[i]))
                return false;
    return true;
}

static bool shares(const tp_tensor *written, tp_value v, bool resized)
{
    if (v.tag == TP_TENSOR)
        return v.tensor->storage == written->storage && (resized || v.tensor == written || tp_tensor_overlaps(v.tensor, written));
    for (uint32_t k = 0; k < tp_length(v); k++)
        if (shares(written, v.list->item[k], resized))
            return true;
    return false;
}

bool tp_is_entangled(const tp_op *op, const tp_value *arg, int written, bool resized)
{
    for (int i = 0; i < op->arg_count; i++)
        if (i != written && shares(arg[written].tensor, arg[i], resized))
            return true;
    return false;
}
