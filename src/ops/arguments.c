/* arguments.c - see arguments.h. */
#include "ops/arguments.h"

static bool one_fits(const tp_arg *a, tp_value v)
{
    switch ((tp_type)a->type) {
    case TP_TYPE_TENSOR: return v.tag == TP_TENSOR || (a->number_allowed && tp_is_number(v));
    case TP_TYPE_SCALAR: return tp_is_number(v);
    case TP_TYPE_INT:
    case TP_TYPE_SYMINT:
    case TP_TYPE_BOOL: return v.tag == TP_INT || v.tag == TP_BOOL || v.tag == TP_SYM;
    case TP_TYPE_FLOAT: return tp_is_number(v) && v.tag != TP_COMPLEX;
    case TP_TYPE_STR:
    case TP_TYPE_DIMNAME: return v.tag == TP_STRING;
    case TP_TYPE_DTYPE: return v.tag == TP_DTYPE_VALUE && v.i >= 0 && v.i < TP_DTYPE_COUNT;
    case TP_TYPE_LAYOUT: return v.tag == TP_LAYOUT;
    case TP_TYPE_FORMAT: return v.tag == TP_FORMAT_VALUE && v.i >= 0 && v.i <= TP_FORMAT_CHANNELS_LAST_3D;
    case TP_TYPE_DEVICE: return v.tag == TP_DEVICE;
    case TP_TYPE_GENERATOR: return v.tag == TP_GENERATOR;
    case TP_TYPE_STORAGE:
    case TP_TYPE_STREAM: return v.tag == TP_HANDLE;
    case TP_TYPE_ANY: return true;
    }
    return false;
}

/* The default fits whatever its type is: none where nothing was said. */
static bool fits(const tp_arg *a, tp_value v)
{
    if (v.tag == TP_NONE)
        return a->optional || a->type == TP_TYPE_ANY || (a->fallback && a->fallback->tag == TP_NONE);
    if (!a->list)
        return one_fits(a, v);
    if (v.tag != TP_LIST && v.tag != TP_TUPLE)
        return false;
    for (uint32_t i = 0; i < v.list->count; i++)
        if (v.list->item[i].tag == TP_NONE ? !a->items_optional : !one_fits(a, v.list->item[i]))
            return false;
    return true;
}

/* Element-wise ops take numbers for operands after the first, which is how decompositions write `x << 3`. */
bool tp_op_check_args(const tp_op *op, const tp_value *arg)
{
    static const char *const types[] = {
        [TP_TYPE_TENSOR] = "Tensor", [TP_TYPE_SCALAR] = "number", [TP_TYPE_INT] = "int", [TP_TYPE_SYMINT] = "int", [TP_TYPE_FLOAT] = "float",
        [TP_TYPE_BOOL] = "bool", [TP_TYPE_STR] = "str", [TP_TYPE_DTYPE] = "dtype", [TP_TYPE_LAYOUT] = "layout", [TP_TYPE_DEVICE] = "Device",
        [TP_TYPE_FORMAT] = "memory_format", [TP_TYPE_GENERATOR] = "Generator", [TP_TYPE_STORAGE] = "Storage", [TP_TYPE_DIMNAME] = "str",
        [TP_TYPE_STREAM] = "Stream", [TP_TYPE_ANY] = "Any",
    };
    static const char *const found[] = {
        [TP_NONE] = "NoneType", [TP_BOOL] = "bool", [TP_INT] = "int", [TP_SYM] = "SymInt", [TP_FLOAT] = "float", [TP_COMPLEX] = "complex",
        [TP_TENSOR] = "Tensor", [TP_DTYPE_VALUE] = "dtype", [TP_DEVICE] = "device", [TP_LAYOUT] = "layout", [TP_FORMAT_VALUE] = "memory_format",
        [TP_STRING] = "str", [TP_LIST] = "list", [TP_TUPLE] = "tuple", [TP_DICT] = "dict", [TP_SLICE] = "slice", [TP_NODE] = "Node",
        [TP_GENERATOR] = "Generator", [TP_HANDLE] = "object",
    };
    for (int i = 0; i < op->arg_count; i++) {
        const tp_arg *a = &op->arg[i];
        bool scalar_operand = op->pointwise && i > 0 && a->type == TP_TYPE_TENSOR && !a->written && tp_is_number(arg[i]);
        if (!scalar_operand && !fits(a, arg[i]))
            return tp_fail(TP_ERR_RUNTIME, "%s::%s() Expected a value of type '%s%s%s' for argument '%s' but instead found type '%s'.", op->space,
                           op->name, a->list ? "List[" : "", types[a->type], a->list ? "]" : "", a->name, found[arg[i].tag]);
    }
    return true;
}
