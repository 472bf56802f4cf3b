/* type.c - making, comparing and spelling jit types. */
#include "jit/type.h"

#include <string.h>

#include "base/alloc.h"
#include "grad/tape.h"

static const tp_jit_type simple[] = {
#define SIMPLE(k) [k] = { .kind = k, .dtype = TP_DTYPE_NONE, .requires_grad = -1 }
    SIMPLE(TP_JIT_NONE), SIMPLE(TP_JIT_INT), SIMPLE(TP_JIT_FLOAT), SIMPLE(TP_JIT_BOOL), SIMPLE(TP_JIT_COMPLEX),
    SIMPLE(TP_JIT_NUMBER), SIMPLE(TP_JIT_STR), SIMPLE(TP_JIT_DEVICE), SIMPLE(TP_JIT_GENERATOR), SIMPLE(TP_JIT_FUNCTION),
    SIMPLE(TP_JIT_ANY), SIMPLE(TP_JIT_ANY_TENSOR),
#undef SIMPLE
};
static const struct { const char *graph, *python; } names[] = {
    [TP_JIT_NONE] = { "NoneType", "NoneType" },     [TP_JIT_INT] = { "int", "int" },
    [TP_JIT_FLOAT] = { "float", "float" },          [TP_JIT_BOOL] = { "bool", "bool" },
    [TP_JIT_COMPLEX] = { "complex", "complex" },    [TP_JIT_NUMBER] = { "Scalar", "number" },
    [TP_JIT_STR] = { "str", "str" },                [TP_JIT_DEVICE] = { "Device", "Device" },
    [TP_JIT_GENERATOR] = { "Generator", "Generator" }, [TP_JIT_FUNCTION] = { "Function", "Function" },
    [TP_JIT_ANY] = { "Any", "Any" },                [TP_JIT_ANY_TENSOR] = { "Tensor", "Tensor" },
};

/* Nobody writes through the pointer: counting leaves types without parts alone. */
tp_jit_type *tp_jit_simple(tp_jit_kind kind)
{
    return (tp_jit_type *)&simple[kind];
}

tp_jit_type *tp_jit_type_ref(tp_jit_type *t)
{
    if (t && t->kind > TP_JIT_ANY_TENSOR)
        tp_count_up(&t->refs);
    return t;
}

static bool has_types(const tp_jit_type *t)
{
    return t->kind >= TP_JIT_LIST && t->kind <= TP_JIT_DICT;
}

void tp_jit_type_unref(tp_jit_type *t)
{
    if (!t || t->kind <= TP_JIT_ANY_TENSOR || !tp_count_down(&t->refs))
        return;
    for (uint32_t i = 0; has_types(t) && i < t->count; i++)
        tp_jit_type_unref(t->part[i].type);
    tp_free(t->name);
    tp_free(t);
}

static tp_jit_type *make(tp_jit_kind kind, uint32_t count)
{
    tp_jit_type *t = tp_alloc_zero(sizeof *t + count * sizeof *t->part);
    if (!t)
        return NULL;
    atomic_init(&t->refs, 1);
    t->kind = (uint8_t)kind;
    t->dtype = TP_DTYPE_NONE;
    t->requires_grad = -1;
    t->count = count;
    t->part = (union tp_jit_part *)(t + 1);
    return t;
}

/* ---- making ---- */
tp_jit_type *tp_jit_tensor_new(const tp_tensor *x)
{
    tp_jit_type *t = make(TP_JIT_TENSOR, 2u * x->ndim);
    if (!t)
        return NULL;
    t->dtype = x->dtype;
    t->ndim = x->ndim;
    t->device = x->device;
    t->requires_grad = tp_requires_grad(x);
    for (int i = 0; i < x->ndim; i++) {
        t->part[i].dim = x->size[i];
        t->part[x->ndim + i].dim = x->stride[i];
    }
    return t;
}

tp_jit_type *tp_jit_scalar_tensor_new(tp_dtype d, int requires_grad)
{
    tp_jit_type *t = make(TP_JIT_TENSOR, 0);
    if (!t)
        return NULL;
    t->dtype = (uint8_t)d;
    t->requires_grad = (int8_t)requires_grad;
    t->device = (tp_device){ TP_CPU, -1 };
    return t;
}

static tp_jit_type *of_one(tp_jit_kind kind, tp_jit_type *item)
{
    tp_jit_type *t = item ? make(kind, 1) : NULL;
    if (t)
        t->part[0].type = item;
    else
        tp_jit_type_unref(item);
    return t;
}

tp_jit_type *tp_jit_list_new(tp_jit_type *item) { return of_one(TP_JIT_LIST, item); }
tp_jit_type *tp_jit_optional_new(tp_jit_type *item) { return of_one(TP_JIT_OPTIONAL, item); }

tp_jit_type *tp_jit_dict_new(tp_jit_type *key, tp_jit_type *value)
{
    tp_jit_type *t = key && value ? make(TP_JIT_DICT, 2) : NULL;
    if (t) {
        t->part[0].type = key;
        t->part[1].type = value;
        return t;
    }
    tp_jit_type_unref(key);
    tp_jit_type_unref(value);
    return NULL;
}

tp_jit_type *tp_jit_tuple_new(tp_jit_type *const *item, uint32_t count)
{
    tp_jit_type *t = make(TP_JIT_TUPLE, count);
    for (uint32_t i = 0; t && i < count; i++)
        t->part[i].type = tp_jit_type_ref(item[i]);
    return t;
}

tp_jit_type *tp_jit_class_new(const char *name)
{
    tp_jit_type *t = make(TP_JIT_CLASS, 0);
    if (t && !(t->name = tp_alloc_text(name))) {
        tp_free(t);
        return NULL;
    }
    return t;
}

tp_jit_type *tp_jit_type_of_arg(const tp_arg *a)
{
    static const uint8_t kinds[] = {
        [TP_TYPE_TENSOR] = TP_JIT_ANY_TENSOR, [TP_TYPE_SCALAR] = TP_JIT_NUMBER, [TP_TYPE_INT] = TP_JIT_INT,
        [TP_TYPE_SYMINT] = TP_JIT_INT, [TP_TYPE_FLOAT] = TP_JIT_FLOAT, [TP_TYPE_BOOL] = TP_JIT_BOOL,
        [TP_TYPE_STR] = TP_JIT_STR, [TP_TYPE_DTYPE] = TP_JIT_INT, [TP_TYPE_LAYOUT] = TP_JIT_INT,
        [TP_TYPE_DEVICE] = TP_JIT_DEVICE, [TP_TYPE_FORMAT] = TP_JIT_INT, [TP_TYPE_GENERATOR] = TP_JIT_GENERATOR,
        [TP_TYPE_STORAGE] = TP_JIT_ANY, [TP_TYPE_DIMNAME] = TP_JIT_STR, [TP_TYPE_STREAM] = TP_JIT_ANY, [TP_TYPE_ANY] = TP_JIT_ANY,
    };
    tp_jit_type *t = tp_jit_simple(kinds[a->type]);
    if (a->items_optional)
        t = tp_jit_optional_new(t);
    if (a->list)
        t = tp_jit_list_new(t);
    return a->optional ? tp_jit_optional_new(t) : t;
}

/* ---- comparing ---- */
bool tp_jit_type_equal(const tp_jit_type *a, const tp_jit_type *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->count != b->count || a->dtype != b->dtype || a->requires_grad != b->requires_grad)
        return false;
    if (a->kind == TP_JIT_CLASS)
        return strcmp(a->name, b->name) == 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (has_types(a) ? !tp_jit_type_equal(a->part[i].type, b->part[i].type) : a->part[i].dim != b->part[i].dim)
            return false;
    return true;
}

/* The same kind of type around other parts. */
static tp_jit_type *rebuild(tp_jit_type *a, tp_jit_type *b, tp_jit_type *(*each)(tp_jit_type *, tp_jit_type *))
{
    tp_jit_type *t = make((tp_jit_kind)a->kind, a->count);
    bool ok = t;
    for (uint32_t i = 0; t && i < a->count; i++)
        ok = (t->part[i].type = each(a->part[i].type, b->part[i].type)) && ok;
    if (ok)
        return t;
    tp_jit_type_unref(t);
    return NULL;
}

static tp_jit_type *erase_one(tp_jit_type *t, tp_jit_type *same)
{
    (void)same;
    if (t->kind == TP_JIT_TENSOR)
        return tp_jit_simple(TP_JIT_ANY_TENSOR);
    return has_types(t) ? rebuild(t, t, erase_one) : tp_jit_type_ref(t);
}

tp_jit_type *tp_jit_type_erase(tp_jit_type *t)
{
    return erase_one(t, t);
}

tp_jit_type *tp_jit_type_unify(tp_jit_type *a, tp_jit_type *b)
{
    if (tp_jit_type_equal(a, b))
        return tp_jit_type_ref(a);
    if (tp_jit_is_tensor(a) && tp_jit_is_tensor(b))
        return tp_jit_simple(TP_JIT_ANY_TENSOR);
    return a->kind == b->kind && a->count == b->count && has_types(a) ? rebuild(a, b, tp_jit_type_unify) : NULL;
}

/* ---- spelling ---- */
static void print_dims(const tp_jit_type *t, tp_text *out)
{
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(out, "%lld, ", (long long)t->part[i].dim);
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(out, "%s%lld", i ? ", " : "strides=[", (long long)t->part[t->ndim + i].dim);
    if (t->ndim)
        tp_text_add(out, "], ");
}

static void print_tensor(const tp_jit_type *t, tp_text *out)
{
    char device[16];
    tp_text_add(out, "%s(", tp_dtypes[t->dtype].title);
    print_dims(t, out);
    if (t->requires_grad >= 0)
        tp_text_add(out, "requires_grad=%d, ", t->requires_grad);
    tp_text_add(out, "device=%s)", tp_device_name(t->device, device));
}

static void print_parts(const tp_jit_type *t, tp_text *out, void (*print)(const tp_jit_type *, tp_text *))
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (i)
            tp_text_add(out, ", ");
        print(t->part[i].type, out);
    }
}

void tp_jit_type_print(const tp_jit_type *t, tp_text *out)
{
    switch ((tp_jit_kind)t->kind) {
    case TP_JIT_TENSOR: print_tensor(t, out); break;
    case TP_JIT_LIST:
    case TP_JIT_OPTIONAL:
        tp_jit_type_print(t->part[0].type, out);
        tp_text_add(out, t->kind == TP_JIT_LIST ? "[]" : "?");
        break;
    case TP_JIT_TUPLE:
    case TP_JIT_DICT:
        tp_text_add(out, t->kind == TP_JIT_DICT ? "Dict(" : "(");
        print_parts(t, out, tp_jit_type_print);
        tp_text_add(out, ")");
        break;
    case TP_JIT_CLASS: tp_text_add(out, "%s", t->name); break;
    default: tp_text_add(out, "%s", names[t->kind].graph); break;
    }
}

void tp_jit_type_print_python(const tp_jit_type *t, tp_text *out)
{
    static const char *const open[] = { [TP_JIT_LIST] = "List[", [TP_JIT_OPTIONAL] = "Optional[", [TP_JIT_TUPLE] = "Tuple[", [TP_JIT_DICT] = "Dict[" };
    if (has_types(t)) {
        tp_text_add(out, "%s", open[t->kind]);
        if (t->kind == TP_JIT_TUPLE && !t->count)
            tp_text_add(out, "()");
        print_parts(t, out, tp_jit_type_print_python);
        tp_text_add(out, "]");
    } else {
        tp_text_add(out, "%s", t->kind == TP_JIT_TENSOR ? "Tensor" : t->kind == TP_JIT_CLASS ? t->name : names[t->kind].python);
    }
}
