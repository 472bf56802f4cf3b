/* derived.c - what derived ops take, give and do. */
#include "ops/derived.h"

#include <stdio.h>
#include <string.h>

#include "gen/ops.h"
#include "ops/dispatch.h"
#include "ops/promote.h"
#include "ops/registry.h"

enum { MOST_ARGS = 64 };

/* ---- calls of the pieces ---- */
static bool call_clone(tp_value v, tp_value *out)
{
    *out = tp_none();
    if (v.tag == TP_TENSOR)
        return tp_call(&tp_op_clone, (tp_value[]){ v, tp_none() }, out);
    if (v.tag != TP_LIST)
        return true;
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = call_clone(v.list->item[i], &l->item[i]);
    if (ok)
        *out = tp_of_list(l);
    else if (l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

/* The tensors of a value in another type; what is no tensor, or has the type, stays. Owned. */
static bool call_cast(tp_value v, tp_dtype dtype, tp_value *out)
{
    if (v.tag == TP_TENSOR && v.tensor->dtype != dtype) {
        const tp_op *op = &tp_op__to_copy;
        tp_value arg[MOST_ARGS];
        for (int i = 0; i < op->arg_count; i++)
            arg[i] = tp_arg_default(&op->arg[i]);
        arg[0] = v;
        arg[tp_op_arg_index(op, "dtype")] = tp_of_dtype(dtype);
        *out = tp_none();
        return tp_call(op, arg, out);
    }
    *out = tp_value_ref(v);
    return out->tag == v.tag;
}

/* ---- auto_functionalized ---- */
bool tp_op_can_functionalize(const tp_op *op)
{
    bool writes = false;
    for (int i = 0; i < op->arg_count; i++)
        writes |= op->arg[i].written;
    for (int i = 0; i < op->result_count; i++)
        if (op->result[i].alias)
            return false;
    return writes && (op->flags & TP_OP_RUNTIME) && !op->rare->of;
}

/* An op that gives nothing gives none first. */
static int first_written(const tp_op *of)
{
    return of->result_count ? of->result_count : 1;
}

static bool run_functional(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *of = op->rare->of;
    tp_value with[MOST_ARGS];
    int next = first_written(of), count = 0;
    bool ok = true;
    for (; ok && count < of->arg_count; count++)
        if (of->arg[count].written)
            ok = call_clone(arg[count], &with[count]);
        else
            with[count] = arg[count];
    result[0] = tp_none();
    ok = ok && tp_call(of, with, result);
    for (int i = 0; i < count; i++) {
        if (!of->arg[i].written)
            continue;
        if (ok)
            result[next++] = with[i];
        else
            tp_value_unref(with[i]);
    }
    return ok;
}

static bool shape_functional(const tp_op *of, tp_op *made, tp_arg *arg, tp_arg *result)
{
    char name[128];
    int next = first_written(of);
    if (!tp_op_can_functionalize(of))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s has no functional variant", tp_op_full_name(of, name));
    memcpy(arg, of->arg, of->arg_count * sizeof *arg);
    memcpy(result, of->result, of->result_count * sizeof *result);
    if (!of->result_count)
        result[0] = (tp_arg){ .name = "", .type = TP_TYPE_ANY, .optional = true };
    for (int i = 0; i < of->arg_count; i++) {
        arg[i].alias = 0;
        arg[i].written = false;
        if (!of->arg[i].written)
            continue;
        if (next == MOST_ARGS)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s writes too many arguments", tp_op_full_name(of, name));
        result[next++] = (tp_arg){ .name = "", .type = of->arg[i].type, .list = of->arg[i].list, .optional = of->arg[i].optional,
                                   .items_optional = of->arg[i].items_optional };
    }
    made->arg_count = of->arg_count;
    made->positional_count = of->positional_count;
    made->result_count = (uint8_t)next;
    made->run = run_functional;
    return true;
}

/* ---- out_dtype ---- */

/* The type in which all operands and the result find room. */
static tp_dtype common_with(tp_dtype dtype, const tp_value *arg, int count)
{
    tp_common c = TP_COMMON_START;
    for (int i = 0; i < count; i++)
        tp_common_add(&c, arg[i]);
    c.with_dims = (uint8_t)(c.with_dims == TP_DTYPE_NONE ? dtype : tp_dtype_promote((tp_dtype)c.with_dims, dtype));
    return tp_common_dtype(&c);
}

static bool run_out_dtype(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *of = op->rare->of;
    tp_dtype dtype = (tp_dtype)arg[0].i, common = common_with(dtype, arg + 1, of->arg_count);
    tp_value with[MOST_ARGS], made;
    int count = 0;
    bool ok = true;
    for (; ok && count < of->arg_count; count += ok)
        ok = call_cast(arg[1 + count], common, &with[count]);
    ok = ok && tp_call(of, with, &made);
    tp_values_unref(with, (size_t)count);
    if (!ok)
        return false;
    ok = call_cast(made, dtype, result);
    tp_value_unref(made);
    return ok;
}

static bool shape_out_dtype(const tp_op *of, tp_op *made, tp_arg *arg, tp_arg *result)
{
    char name[128];
    if (of->result_count != 1 || of->result[0].type != TP_TYPE_TENSOR || of->result[0].list || of->result[0].alias || of->arg_count == MOST_ARGS)
        return tp_fail(TP_ERR_RUNTIME, "out_dtype: %s does not give one tensor of its own", tp_op_full_name(of, name));
    arg[0] = (tp_arg){ .name = "output_dtype", .type = TP_TYPE_DTYPE };
    memcpy(arg + 1, of->arg, of->arg_count * sizeof *arg);
    result[0] = of->result[0];
    made->arg_count = (uint8_t)(of->arg_count + 1);
    made->positional_count = (uint8_t)(of->positional_count + 1);
    made->result_count = 1;
    made->run = run_out_dtype;
    return true;
}

/* ---- all of them ---- */
const tp_derivation_info tp_derivations[TP_DERIVATION_COUNT] = {
    [TP_AUTO_FUNCTIONALIZED] = { "auto_functionalized", .by_name = true, .shape = shape_functional },
    [TP_OUT_DTYPE] = { "out_dtype", .shape = shape_out_dtype },
};

/* "testlib.foo": what the registry knows it by. */
static const char *overload_of(const tp_op *of, char out[128])
{
    snprintf(out, 128, "%s.%s%s%s", of->space, of->name, *of->overload ? "." : "", of->overload);
    return out;
}

const tp_op *tp_op_derived(tp_derivation how, const tp_op *of)
{
    char overload[128];
    return tp_op_find("higher_order", tp_derivations[how].name, overload_of(of, overload));
}

const tp_op *tp_op_derive(tp_derivation how, const tp_op *of)
{
    char overload[128];
    tp_arg arg[MOST_ARGS], result[MOST_ARGS];
    tp_rare rare = { .of = of, .derivation = (uint8_t)how };
    tp_op made = { .space = "higher_order", .name = tp_derivations[how].name, .overload = overload_of(of, overload), .signature = of->signature,
                   .arg = arg, .result = result, .kind = TP_LIKE_OPAQUE, .work = &tp_no_work, .gradient = &tp_no_gradient, .rare = &rare };
    const tp_op *known = tp_op_derived(how, of);
    if (known)
        return known;
    if (!tp_derivations[how].shape(of, &made, arg, result))
        return NULL;
    rare.fake = made.run;
    return tp_op_assemble(&made);
}
