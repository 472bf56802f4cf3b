/* run_results.c - ops whose results are laid out by a shape rule and filled by a kernel, in all three variants.
 *
 * Functional: results are made as the rule says. Out: the given tensors are used directly when they have the rule's type
 * and layout and share no memory with an argument, else a fresh one is filled and copied over. In-place: the functional
 * op runs and its result is copied into the first argument. An op that exists first in place writes the first argument
 * itself; its functional twin works on a clone. */
#include "ops/run_results.h"

#include <string.h>

#include "base/runtime.h"
#include "ops/copy.h"
#include "ops/dispatch.h"
#include "ops/hooks.h"
#include "ops/run.h"
#include "ops/signs.h"

enum { MOST_RESULTS = 8 };

/* May a kernel write its result straight into this tensor? */
static bool usable(const tp_tensor *out, const tp_geometry *g)
{
    if (out->dtype != g->dtype)
        return false;
    for (int i = 0; i < out->ndim; i++)
        if (out->size[i] != 1 && out->stride[i] != g->stride[i])
            return false;
    return true;
}

/* Shape rules fill what they know; these two are seldom spoken of. */
static bool infer(const tp_op *op, const tp_value *arg, tp_geometry *g)
{
    for (int i = 0; i < op->result_count; i++)
        g[i].unknown = g[i].absent = false;
    return op->work->infer(op, arg, g);
}

/* Brings an `out` argument to the size of the result, whose type it must take. */
static bool prepare_out(const tp_op *op, tp_tensor *out, tp_dtype made, int ndim, const int64_t *size)
{
    return tp_check_castable(made, (tp_dtype)out->dtype) && tp_resize_out(op, out, ndim, size) && tp_check_written(out);
}

/* What the kernel fills: the given tensor, or a fresh one to be copied over. */
static tp_tensor *place_of(const tp_op *op, const tp_value *arg, int at, const tp_geometry *g)
{
    tp_tensor *out = arg[at].tensor;
    bool resized = out->ndim != g->ndim || memcmp(out->size, g->size, g->ndim * sizeof *g->size) != 0;
    if (TP_UNLIKELY(tp_is_entangled(op, arg, at, resized)))
        return tp_check_castable((tp_dtype)g->dtype, (tp_dtype)out->dtype) && (resized || tp_check_written(out)) ? tp_tensor_new_as(g) : NULL;
    if (!prepare_out(op, out, (tp_dtype)g->dtype, g->ndim, g->size))
        return NULL;
    return usable(out, g) ? tp_tensor_ref(out) : tp_tensor_new_as(g);
}

static bool run_out(const tp_op *op, const tp_value *arg, tp_fill_fn *fill, tp_value *result)
{
    const tp_op *base = op->base;
    int first = op->arg_count - base->result_count;
    tp_geometry g[MOST_RESULTS];
    tp_tensor *filled[MOST_RESULTS] = { 0 };
    bool ok = infer(base, arg, g) && tp_check_apart(op, arg);
    for (int i = 0; ok && i < base->result_count; i++)
        if (!g[i].unknown && !g[i].absent)
            ok = (filled[i] = place_of(op, arg, first + i, &g[i])) != NULL;
    ok = ok && fill(base, arg, filled);
    for (int i = 0; ok && i < base->result_count; i++) {
        tp_tensor *out = arg[first + i].tensor;
        if (filled[i] == out || !filled[i])
            continue;
        ok = prepare_out(op, out, (tp_dtype)filled[i]->dtype, filled[i]->ndim, filled[i]->size);
        if (ok)
            tp_copy(out, filled[i]);
    }
    for (int i = 0; i < base->result_count; i++) {
        tp_tensor_unref(filled[i]);
        if (ok)
            result[i] = tp_of_tensor(tp_tensor_ref(arg[first + i].tensor));
    }
    return ok;
}

static bool run_fresh(const tp_op *op, const tp_value *arg, tp_fill_fn *fill, tp_tensor **out)
{
    tp_geometry g[MOST_RESULTS];
    bool ok = infer(op, arg, g);
    for (int i = 0; ok && i < op->result_count; i++)
        if (!g[i].unknown && !g[i].absent)
            ok = (out[i] = tp_tensor_new_as(&g[i])) != NULL;
    ok = ok && fill(op, arg, out);
    for (int i = 0; !ok && i < op->result_count; i++) {
        tp_tensor_unref(out[i]);
        out[i] = NULL;
    }
    return ok;
}

static bool check_same_size(const tp_tensor *self, const tp_tensor *made)
{
    if (self->ndim == made->ndim && memcmp(self->size, made->size, (size_t)made->ndim * sizeof *made->size) == 0)
        return true;
    tp_text a = { 0 }, b = { 0 };
    for (int i = 0; i < self->ndim; i++)
        tp_text_add(&a, i ? ", %lld" : "%lld", LL(self->size[i]));
    for (int i = 0; i < made->ndim; i++)
        tp_text_add(&b, i ? ", %lld" : "%lld", LL(made->size[i]));
    tp_fail(TP_ERR_RUNTIME, "Bad in-place call: input tensor size [%s] and output tensor size [%s] should match", tp_text_read(&a), tp_text_read(&b));
    tp_text_fini(&a);
    tp_text_fini(&b);
    return false;
}

static bool run_inplace(const tp_op *op, const tp_value *arg, tp_fill_fn *fill, tp_value *result)
{
    tp_tensor *self = arg[0].tensor, *fresh[MOST_RESULTS] = { 0 };
    if (!tp_check_written(self) || !run_fresh(op->base, arg, fill, fresh))
        return false;
    bool ok = tp_check_castable((tp_dtype)fresh[0]->dtype, (tp_dtype)self->dtype) && check_same_size(self, fresh[0]);
    if (ok)
        tp_copy(self, fresh[0]);
    tp_tensor_unref(fresh[0]);
    if (ok)
        *result = tp_of_tensor(tp_tensor_ref(self));
    return ok;
}

bool tp_run_results(const tp_op *op, const tp_value *arg, tp_fill_fn *fill, tp_value *result)
{
    if (op->base && op->variant == TP_OUT)
        return run_out(op, arg, fill, result);
    if (op->base && op->variant == TP_INPLACE)
        return run_inplace(op, arg, fill, result);
    tp_tensor *out[MOST_RESULTS] = { 0 };
    if (!run_fresh(op, arg, fill, out))
        return false;
    for (int i = 0; i < op->result_count; i++)
        result[i] = tp_of_tensor(out[i]);
    return true;
}

static bool call_kernel(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    return op->work->kernel(arg, out);
}

bool tp_run_kernel(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return tp_run_results(op, arg, call_kernel, result);
}

/* ---- ops that exist first in place ---- */

/* What an in-place kernel reads while it writes the first argument: copies of tensors that share its memory. none: no memory. */
static tp_value apart_from(const tp_tensor *written, tp_value v)
{
    if (v.tag == TP_TENSOR && tp_tensor_overlaps(v.tensor, written)) {
        tp_tensor *copy = tp_clone(v.tensor, TP_FORMAT_PRESERVE);
        return copy ? tp_of_tensor(copy) : tp_none();
    }
    if (v.tag != TP_LIST)
        return tp_value_ref(v);
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t k = 0; ok && k < l->count; k++) {
        l->item[k] = apart_from(written, v.list->item[k]);
        ok = l->item[k].tag == v.list->item[k].tag;
    }
    if (ok)
        return tp_of_list(l);
    if (l)
        tp_value_unref(tp_of_list(l));
    return tp_none();
}

static bool run_apart(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    tp_value apart[64] = { tp_value_ref(arg[0]) };
    bool ok = true;
    for (int i = 1; i < op->arg_count; i++) {
        apart[i] = apart_from(arg[0].tensor, arg[i]);
        ok = ok && (apart[i].tag == arg[i].tag);
    }
    ok = ok && op->work->kernel(apart, out);
    tp_values_unref(apart, op->arg_count);
    return ok;
}

bool tp_run_metadata(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_geometry g[MOST_RESULTS];
    tp_tensor *out[MOST_RESULTS] = { arg[0].tensor };
    bool written = op->variant == TP_INPLACE && op->kind != TP_LIKE_METADATA && arg[0].tag == TP_TENSOR && op->arg[0].written;
    if ((op->work->infer && !op->work->infer(op, arg, g)) || !tp_check_apart(op, arg))
        return false;
    if (!(written && tp_is_entangled(op, arg, 0, false) ? run_apart : call_kernel)(op, arg, out))
        return false;
    if (op->result_count)               /* a step of an optimiser writes lists and gives nothing back */
        *result = tp_of_tensor(tp_tensor_ref(arg[0].tensor));
    return true;
}

/* What an op that exists first in place works on when its result is to be fresh: a copy, laid out as the entry's `result` says. */
static tp_tensor *copy_to_write(const tp_op *base, const tp_value *arg)
{
    const tp_tensor *self = arg[0].tensor;
    tp_geometry g[MOST_RESULTS];
    if (!base->work->kernel || !base->work->infer)
        return tp_clone(self, TP_FORMAT_PRESERVE);
    if (!base->work->infer(base, arg, g))
        return NULL;
    tp_tensor *work = tp_tensor_new_on(self->device, (tp_dtype)self->dtype, self->ndim, self->size, g[0].stride);
    if (work && self->device.type == TP_CPU)
        tp_copy(work, self);
    return work;
}

/* The functional twin, or the out form, of an op that exists first in place. */
bool tp_run_variant(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value changed[64];
    memcpy(changed, arg, op->base->arg_count * sizeof *arg);
    tp_tensor *work = tp_check_apart(op, arg) ? copy_to_write(op->base, arg) : NULL;
    if (!work)
        return false;
    changed[0] = tp_of_tensor(work);
    bool ok = op->base->run(op->base, changed, result);
    tp_tensor_unref(work);
    if (!ok || op->variant != TP_OUT)
        return ok;
    tp_tensor *out = arg[op->arg_count - 1].tensor, *made = result->tensor;
    ok = prepare_out(op, out, (tp_dtype)made->dtype, made->ndim, made->size);
    if (ok)
        tp_copy(out, made);
    *result = ok ? tp_of_tensor(tp_tensor_ref(out)) : tp_none();
    tp_tensor_unref(made);
    return ok;
}

/* t_, squeeze_: the tensor itself looks another way from now on. */
static bool run_view_inplace(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_geometry g;
    tp_tensor *self = arg[0].tensor;
    if (!tp_check_inference(self) || !op->base->work->infer(op->base, arg, &g))
        return false;
    tp_tensor *view = tp_tensor_view_as(self, &g);      /* checks that it stays inside the storage */
    if (!view || !tp_tensor_set_geometry(self, g.ndim, g.size, g.stride, g.offset)) {
        tp_tensor_unref(view);
        return false;
    }
    tp_tensor_unref(view);
    *result = tp_value_ref(arg[0]);
    return true;
}

bool tp_run_view(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_geometry g;
    const tp_tensor *self = arg[0].tensor;
    if (op->variant == TP_INPLACE)
        return run_view_inplace(op, arg, result);
    if (!op->work->infer(op, arg, &g))
        return false;
    tp_tensor *view = tp_tensor_view_as(self, &g);
    if (!view)
        return false;
    if (op->variant == TP_OUT) {
        tp_tensor *out = arg[op->arg_count - 1].tensor;
        tp_tensor *from = out->storage == self->storage ? tp_clone(view, TP_FORMAT_PRESERVE) : tp_tensor_ref(view);
        bool ok = from && tp_check_out_device(op, self->device, out) && prepare_out(op, out, (tp_dtype)g.dtype, g.ndim, g.size);
        if (ok && out->device.type == TP_CPU)
            tp_copy(out, from);
        tp_tensor_unref(from);
        tp_tensor_unref(view);
        *result = ok ? tp_of_tensor(tp_tensor_ref(out)) : tp_none();
        return ok;
    }
    *result = tp_of_tensor(view);
    return true;
}

bool tp_run_turn(const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (!tp_run_view(op, arg, result))
        return false;
    tp_set_signs(result->tensor, tp_signs(result->tensor) ^ tp_turns(op));
    return true;
}

bool tp_run_list_view(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return op->open(op, arg, result);
}

bool tp_run_open(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return op->open(op, arg, result);
}

bool tp_open_named(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return tp_call(op->rare->same_as, arg, result);
}

/* ---- tensors without memory ---- */

static bool no_data(void)
{
    return tp_fail(TP_ERR_UNIMPLEMENTED, "Cannot copy out of meta tensor; no data!");
}

static bool meta_fill(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    char name[128];
    for (int i = 0; i < op->result_count; i++)
        if (out[i] && out[i]->device.type != TP_META)       /* zeros_like(x, device = cpu) asks for sizes alone */
            return op->kind == TP_LIKE_FACTORY && op->work->kernel ? op->work->kernel(arg, out) : no_data();
        else if (!out[i] && (op->flags & TP_OP_SYNC))
            return tp_fail(TP_ERR_UNIMPLEMENTED, "%s: the size of its result depends on data, which a meta tensor does not have", tp_op_full_name(op, name));
    return true;
}

/* Of the operands of a loop either all have memory or none; numbers do not matter. */
static bool meta_alone(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++) {
        const tp_tensor *t = tp_as_tensor(arg[i]);
        if (t && t->ndim > 0 && t->device.type != TP_META)
            return tp_fail(TP_ERR_RUNTIME, "Tensor on device cpu is not on the expected device meta!");
    }
    return true;
}

bool tp_run_meta(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *base = op->base ? op->base : op;
    tp_geometry g[MOST_RESULTS];
    char name[128];
    if (base->pointwise && op->variant == TP_FUNCTIONAL && !meta_alone(op, arg))
        return false;
    if (op->variant == TP_INPLACE && arg[0].tag == TP_TENSOR && arg[0].tensor->device.type != TP_META)
        return no_data();
    if (op->variant == TP_INPLACE && base->kind == TP_LIKE_VIEW)
        return run_view_inplace(op, arg, result);
    if (op->variant == TP_INPLACE) {
        if (base->work->infer && base->variant != TP_INPLACE && !base->work->infer(base, arg, g))
            return false;
        if (op->result_count)           /* a step of an optimiser gives nothing back */
            *result = tp_of_tensor(tp_tensor_ref(arg[0].tensor));
        return true;
    }
    if (!base->work->infer && op->kind == TP_LIKE_OPAQUE && !op->open)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "%s: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered.",
                       tp_op_full_name(op, name));
    if (!base->work->infer || (op->variant == TP_FUNCTIONAL && !op->work->infer))
        return op->run(op, arg, result);
    if (op->variant == TP_OUT) {
        int first = op->arg_count - base->result_count;
        if (!infer(base, arg, g))
            return false;
        for (int i = 0; i < base->result_count; i++)
            if (g[i].unknown || g[i].absent)
                continue;
            else if (!tp_check_out_device(op, g[i].device, arg[first + i].tensor) ||
                     !prepare_out(op, arg[first + i].tensor, (tp_dtype)g[i].dtype, g[i].ndim, g[i].size))
                return false;
        for (int i = 0; i < base->result_count; i++)
            result[i] = tp_of_tensor(tp_tensor_ref(arg[first + i].tensor));
        return true;
    }
    tp_tensor *out[MOST_RESULTS] = { 0 };
    if (!run_fresh(op, arg, meta_fill, out))
        return false;
    for (int i = 0; i < op->result_count; i++)
        result[i] = tp_of_tensor(out[i]);
    return true;
}
