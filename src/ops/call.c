/* call.c - calling an op from C with its trailing defaults left out. */
#include <string.h>

#include "ops/known.h"

bool tp_call1(const tp_op *op, size_t count, const tp_value *arg, tp_value *result)
{
    tp_value full[64];
    memcpy(full, arg, count * sizeof *arg);
    for (size_t i = count; i < op->arg_count; i++)
        full[i] = tp_arg_default(&op->arg[i]);
    return tp_call(op, full, result);
}
