/* overload.c - which overload of an op a call in TorchScript's text means: the first whose types fit. */
#include "jit/overload.h"

static bool one_fits(const tp_arg *a, const tp_jit_type *t)
{
    switch ((tp_type)a->type) {
    case TP_TYPE_TENSOR: return tp_jit_is_tensor(t) || (a->number_allowed && t->kind >= TP_JIT_INT && t->kind <= TP_JIT_NUMBER);
    case TP_TYPE_SCALAR: return t->kind >= TP_JIT_INT && t->kind <= TP_JIT_NUMBER;
    case TP_TYPE_INT:
    case TP_TYPE_SYMINT: return t->kind == TP_JIT_INT;
    case TP_TYPE_FLOAT: return t->kind == TP_JIT_FLOAT || t->kind == TP_JIT_INT;
    case TP_TYPE_BOOL: return t->kind == TP_JIT_BOOL;
    case TP_TYPE_STR: return t->kind == TP_JIT_STR;
    case TP_TYPE_DTYPE:
    case TP_TYPE_LAYOUT:
    case TP_TYPE_FORMAT: return t->kind == TP_JIT_INT;
    case TP_TYPE_DEVICE: return t->kind == TP_JIT_DEVICE;
    case TP_TYPE_GENERATOR: return t->kind == TP_JIT_GENERATOR;
    default: return true;
    }
}

static bool type_fits(const tp_arg *a, const tp_jit_type *t)
{
    if (t->kind == TP_JIT_NONE)
        return a->optional || a->items_optional;
    if (t->kind == TP_JIT_OPTIONAL)
        t = t->part[0].type;
    if (!a->list)
        return t->kind != TP_JIT_LIST && one_fits(a, t);
    if (t->kind != TP_JIT_LIST)
        return false;
    t = t->part[0].type;
    return one_fits(a, t->kind == TP_JIT_OPTIONAL ? t->part[0].type : t);
}

int tp_jit_given_for(const tp_op *op, int i, const tp_jit_given *g)
{
    for (uint32_t k = 0; k < g->count; k++)
        if (g->name[k][0] ? strcmp(g->name[k], op->arg[i].name) == 0 : (int)k == i && !op->arg[i].keyword_only)
            return (int)k;
    return -1;
}

static bool op_fits(const tp_op *op, const tp_jit_given *g)
{
    uint32_t used = 0;
    for (int i = 0; i < op->arg_count; i++) {
        int k = tp_jit_given_for(op, i, g);
        if (k < 0 && !op->arg[i].fallback)
            return false;
        if (k >= 0 && !type_fits(&op->arg[i], tp_jit_type_of(g->arg[k].node)))
            return false;
        used += k >= 0;
    }
    return used == g->count;
}

const tp_op *tp_jit_overload(const char *space, const char *name, const tp_jit_given *g)
{
    const tp_op *const *all;
    size_t count = tp_op_overloads(space, name, &all);
    for (size_t i = 0; i < count; i++)
        if (op_fits(all[i], g))
            return all[i];
    return tp_fail(TP_ERR_UNIMPLEMENTED, "the op %s::%s with these arguments is not implemented in Taper yet", space, name);
}
