/* signs.c - the layer of conjugates and negatives that nobody has computed yet. */
#include "ops/signs.h"

#include "base/runtime.h"
#include "ops/copy.h"
#include "ops/dispatch.h"
#include "ops/hooks.h"

enum { MOST_ARGS = 64 };

TP_HOOK_K(tp_k_clone);

/* Reads no element, copies them by tp_copy, or calls ops that come by here themselves. */
static bool bears_signs(const tp_op *op)
{
    return op->kind == TP_LIKE_VIEW || op->kind == TP_LIKE_METADATA || op->work->kernel == tp_k_clone ||
           (op->kind == TP_LIKE_COMPOSITE && op->open);
}

static tp_value resolved(tp_value v);

static tp_value resolved_list(const tp_list *from)
{
    tp_list *to = tp_list_new(from->count);
    for (uint32_t i = 0; to && i < from->count; i++) {
        to->item[i] = resolved(from->item[i]);
        if (to->item[i].tag == TP_NONE && from->item[i].tag != TP_NONE) {
            tp_value_unref(tp_of_list(to));
            to = NULL;
        }
    }
    return to ? tp_of_list(to) : tp_none();
}

static bool has_signs(tp_value v)
{
    bool found = v.tag == TP_TENSOR && tp_signs(v.tensor);
    for (uint32_t i = 0; !found && i < tp_length(v); i++)
        found = has_signs(v.list->item[i]);
    return found;
}

/* The value with elements as they are meant, owned by the caller. None where it was something else: no memory. */
static tp_value resolved(tp_value v)
{
    if (!has_signs(v))
        return tp_value_ref(v);
    if (v.tag == TP_LIST)
        return resolved_list(v.list);
    tp_tensor *t = tp_clone(v.tensor, TP_FORMAT_PRESERVE);
    return t ? tp_of_tensor(t) : tp_none();
}

/* What the call wrote into a stand-in reaches the memory of the tensor, which the call may have resized. */
static bool write_back(tp_tensor *to, const tp_tensor *from)
{
    if (!tp_tensor_resize(to, from->ndim, from->size))
        return false;
    if (to->device.type == TP_CPU)
        tp_copy(to, from);
    return true;
}

static bool write_back_all(tp_value to, tp_value from)
{
    bool ok = to.tag != TP_TENSOR || to.tensor == from.tensor || write_back(to.tensor, from.tensor);
    for (uint32_t i = 0; ok && to.tag == TP_LIST && i < tp_length(to); i++)
        ok = write_back_all(to.list->item[i], from.list->item[i]);
    return ok;
}

static void give_back(const tp_op *op, const tp_value *arg, const tp_value *given, tp_value *result)
{
    for (int k = 0; k < op->result_count; k++)
        for (int i = 0; i < op->arg_count && result[k].tag == TP_TENSOR; i++)
            if (op->arg[i].written && given[i].tag == TP_TENSOR && result[k].tensor == given[i].tensor && arg[i].tensor != given[i].tensor) {
                tp_value_unref(result[k]);
                result[k] = tp_value_ref(arg[i]);
            }
}

static bool signs_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value given[MOST_ARGS];
    if (bears_signs(op))
        return tp_call_past(TP_LAYER_SIGNS, op, arg, result);
    int count = 0;
    bool ok = true;
    for (; ok && count < op->arg_count; count++) {
        given[count] = resolved(arg[count]);
        ok = given[count].tag == arg[count].tag;
    }
    bool called = ok = ok && tp_call_past(TP_LAYER_SIGNS, op, given, result);
    for (int i = 0; ok && i < op->arg_count; i++)
        ok = !op->arg[i].written || write_back_all(arg[i], given[i]);
    if (ok)
        give_back(op, arg, given, result);
    for (int i = 0; i < count; i++)
        tp_value_unref(given[i]);
    return ok || (called && tp_call_take_back(op, result));
}

static const tp_layer signs_layer = { .name = "signs", .call = signs_call };

__attribute__((constructor)) static void mount(void)
{
    tp_the_runtime.layer[TP_LAYER_SIGNS] = &signs_layer;
}
