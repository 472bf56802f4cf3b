/* builtin.c - see builtin.h. Integers may be symbolic: then the result is an expression, and a comparison a condition. */
#include "ir/builtin.h"

#include <math.h>
#include <string.h>

#include "sym/env.h"

/* ---- numbers ---- */
static bool is_whole(tp_value v)
{
    return v.tag == TP_BOOL || v.tag == TP_INT || v.tag == TP_SYM;
}

static tp_sym as_sym(tp_value v)
{
    return v.tag == TP_SYM ? (tp_sym){ v.sym } : tp_sym_int(tp_as_int(v));
}

/* The same of an operand: a float beside an expression is a number of its environment. */
static tp_sym beside(tp_value v, tp_value other)
{
    return v.tag == TP_FLOAT ? tp_sym_float(tp_sym_env(as_sym(other)), v.f) : as_sym(v);
}

static bool is_operand(tp_value v, tp_value other)
{
    return is_whole(v) || (v.tag == TP_FLOAT && other.tag == TP_SYM);
}

static tp_sym as_truth(tp_value v)
{
    return v.tag == TP_SYM ? (tp_sym){ v.sym } : tp_sym_bool(tp_as_bool(v));
}

static bool give(tp_sym s, tp_value *out)
{
    if (tp_sym_is_failed(s))
        return false;
    if (tp_sym_is_int(s))
        *out = tp_int(tp_sym_as_int(s));
    else if (tp_sym_is_bool(s))
        *out = tp_bool(tp_sym_same(s, TP_SYM_TRUE));
    else
        *out = (tp_value){ .tag = TP_SYM, .sym = s.word };
    return true;
}

static bool refuse(const char *what, const tp_value *arg, int count)
{
    tp_text text = { 0 };
    for (int i = 0; i < count; i++) {
        tp_text_add(&text, i ? ", " : "");
        tp_value_print(arg[i], &text);
    }
    (void)tp_fail(TP_ERR_TYPE, "%s cannot take (%s)", what, tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}

#define ARITHMETIC(NAME, SYM, FLOATS)                                       \
    static bool run_##NAME(const tp_value *arg, tp_value *out)              \
    {                                                                       \
        if (is_operand(arg[0], arg[1]) && is_operand(arg[1], arg[0]))       \
            return give(SYM(beside(arg[0], arg[1]), beside(arg[1], arg[0])), out); \
        if (!tp_is_number(arg[0]) || !tp_is_number(arg[1]))                 \
            return refuse(#NAME, arg, 2);                                   \
        double a = tp_as_double(arg[0]), b = tp_as_double(arg[1]);          \
        *out = FLOATS;                                                      \
        return true;                                                        \
    }

ARITHMETIC(add, tp_sym_add, tp_float(a + b))
ARITHMETIC(sub, tp_sym_sub, tp_float(a - b))
ARITHMETIC(mul, tp_sym_mul, tp_float(a * b))
ARITHMETIC(floordiv, tp_sym_floordiv, tp_float(floor(a / b)))
ARITHMETIC(mod, tp_sym_mod, tp_float(a - b * floor(a / b)))
ARITHMETIC(pow, tp_sym_pow, tp_float(pow(a, b)))
ARITHMETIC(eq, tp_sym_eq, tp_bool(a == b))
ARITHMETIC(ne, tp_sym_ne, tp_bool(a != b))
ARITHMETIC(lt, tp_sym_lt, tp_bool(a < b))
ARITHMETIC(le, tp_sym_le, tp_bool(a <= b))
ARITHMETIC(gt, tp_sym_gt, tp_bool(a > b))
ARITHMETIC(ge, tp_sym_ge, tp_bool(a >= b))
ARITHMETIC(sym_max, tp_sym_max, tp_float(fmax(a, b)))
ARITHMETIC(sym_min, tp_sym_min, tp_float(fmin(a, b)))

static bool run_truediv(const tp_value *arg, tp_value *out)
{
    if (arg[0].tag == TP_SYM || arg[1].tag == TP_SYM)
        return give(tp_sym_truediv(beside(arg[0], arg[1]), beside(arg[1], arg[0])), out);
    if (!tp_is_number(arg[0]) || !tp_is_number(arg[1]))
        return refuse("truediv", arg, 2);
    double b = tp_as_double(arg[1]);
    if (b == 0)
        return tp_fail(TP_ERR_ZERO_DIVISION, "division by zero");
    *out = tp_float(tp_as_double(arg[0]) / b);
    return true;
}

static bool run_neg(const tp_value *arg, tp_value *out)
{
    if (is_whole(arg[0]))
        return give(tp_sym_neg(as_sym(arg[0])), out);
    if (!tp_is_number(arg[0]))
        return refuse("neg", arg, 1);
    *out = tp_float(-tp_as_double(arg[0]));
    return true;
}

static bool is_truth(tp_value v)
{
    return v.tag == TP_BOOL || (v.tag == TP_SYM && tp_sym_type_of(as_sym(v)) == TP_SYM_BOOL);
}

/* Of conditions; of integers the bits. */
#define JUNCTION(NAME, SYM, BITS)                                           \
    static bool run_##NAME(const tp_value *arg, tp_value *out)              \
    {                                                                       \
        if (!is_whole(arg[0]) || !is_whole(arg[1]))                         \
            return refuse(#NAME, arg, 2);                                   \
        if (is_truth(arg[0]) && is_truth(arg[1]))                           \
            return give(SYM(as_truth(arg[0]), as_truth(arg[1])), out);      \
        return give(BITS(as_sym(arg[0]), as_sym(arg[1])), out);             \
    }
JUNCTION(and, tp_sym_and, tp_sym_bit_and)
JUNCTION(or, tp_sym_or, tp_sym_bit_or)

static bool run_xor(const tp_value *arg, tp_value *out)
{
    if (!is_whole(arg[0]) || !is_whole(arg[1]) || is_truth(arg[0]) || is_truth(arg[1]))
        return refuse("xor", arg, 2);
    return give(tp_sym_bit_xor(as_sym(arg[0]), as_sym(arg[1])), out);
}

/* A number to an integer, as Python's math.floor and its kind do. */
#define TO_INTEGER(NAME, SYM, FLOATS)                                       \
    static bool run_##NAME(const tp_value *arg, tp_value *out)              \
    {                                                                       \
        if (is_whole(arg[0]))                                               \
            return give(SYM(as_sym(arg[0])), out);                          \
        if (!tp_is_number(arg[0]))                                          \
            return refuse(#NAME, arg, 1);                                   \
        double whole = FLOATS(tp_as_double(arg[0]));                        \
        if (!(fabs(whole) < 0x1p63))                                        \
            return tp_fail(TP_ERR_OVERFLOW, "cannot convert %g to an integer of 64 bits", whole); \
        *out = tp_int((int64_t)whole);                                      \
        return true;                                                        \
    }
TO_INTEGER(floor, tp_sym_floor, floor)
TO_INTEGER(ceil, tp_sym_ceil, ceil)
TO_INTEGER(trunc, tp_sym_trunc, trunc)
TO_INTEGER(round_whole, tp_sym_round, rint)

/* round(x, None), or to so many decimals */
static bool run_round(const tp_value *arg, tp_value *out)
{
    if (arg[1].tag == TP_NONE)
        return run_round_whole(arg, out);
    if (arg[0].tag != TP_SYM || arg[1].tag != TP_INT)
        return refuse("round", arg, 2);
    return give(tp_sym_type_of(as_sym(arg[0])) == TP_SYM_FLOAT ? tp_sym_round_decimal(as_sym(arg[0]), as_sym(arg[1]))
                                                               : as_sym(arg[0]), out);
}

static bool run_abs(const tp_value *arg, tp_value *out)
{
    if (is_whole(arg[0]))
        return give(tp_sym_abs(as_sym(arg[0])), out);
    if (!tp_is_number(arg[0]))
        return refuse("abs", arg, 1);
    *out = tp_float(fabs(tp_as_double(arg[0])));
    return true;
}

static bool run_sym_not(const tp_value *arg, tp_value *out) { return give(tp_sym_not(as_truth(arg[0])), out); }

static bool run_sym_ite(const tp_value *arg, tp_value *out)
{
    if (arg[0].tag == TP_SYM && is_whole(arg[1]) && is_whole(arg[2]))
        return give(tp_sym_where(as_truth(arg[0]), as_sym(arg[1]), as_sym(arg[2])), out);
    *out = tp_value_ref(arg[tp_as_bool(arg[0]) ? 1 : 2]);
    return true;
}

static bool run_sym_float(const tp_value *arg, tp_value *out)
{
    if (arg[0].tag == TP_SYM)
        return give(tp_sym_to_float(as_sym(arg[0])), out);
    if (!tp_is_number(arg[0]))
        return refuse("sym_float", arg, 1);
    *out = tp_float(tp_as_double(arg[0]));
    return true;
}

#define TP_SYM_ONE(NAME)                                                    \
    static bool run_sym_##NAME(const tp_value *arg, tp_value *out)          \
    {                                                                       \
        if (arg[0].tag == TP_SYM)                                           \
            return give(tp_sym_apply(TP_SYM_FN_##NAME, as_sym(arg[0])), out); \
        if (!tp_is_number(arg[0]))                                          \
            return refuse("_sym_" #NAME, arg, 1);                           \
        *out = tp_float(NAME(tp_as_double(arg[0])));                        \
        return true;                                                        \
    }
TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE

/* ---- containers ---- */
static bool run_getitem(const tp_value *arg, tp_value *out)
{
    if (arg[0].tag == TP_DICT) {
        for (uint32_t i = 0; i + 1 < arg[0].list->count; i += 2)
            if (tp_value_equal(arg[0].list->item[i], arg[1])) {
                *out = tp_value_ref(arg[0].list->item[i + 1]);
                return true;
            }
        tp_text key = { 0 };
        tp_value_print(arg[1], &key);
        (void)tp_fail(TP_ERR_KEY, "%s", tp_text_read(&key));
        tp_text_fini(&key);
        return false;
    }
    if ((arg[0].tag != TP_LIST && arg[0].tag != TP_TUPLE) || (arg[1].tag != TP_INT && arg[1].tag != TP_BOOL))
        return refuse("getitem", arg, 2);
    int64_t i = tp_as_int(arg[1]), count = arg[0].list->count;
    if (i < -count || i >= count)
        return tp_fail(TP_ERR_INDEX, "%s index out of range", arg[0].tag == TP_LIST ? "list" : "tuple");
    *out = tp_value_ref(arg[0].list->item[i < 0 ? i + count : i]);
    return true;
}

const tp_builtin tp_builtins[] = {
    { "_operator", "getitem", 2, run_getitem, NULL },
    { "_operator", "add", 2, run_add, " + " },
    { "_operator", "sub", 2, run_sub, " - " },
    { "_operator", "mul", 2, run_mul, " * " },
    { "_operator", "floordiv", 2, run_floordiv, " // " },
    { "_operator", "truediv", 2, run_truediv, " / " },
    { "_operator", "mod", 2, run_mod, " % " },
    { "_operator", "pow", 2, run_pow, " ** " },
    { "_operator", "neg", 1, run_neg, "-" },
    { "_operator", "eq", 2, run_eq, " == " },
    { "_operator", "ne", 2, run_ne, " != " },
    { "_operator", "lt", 2, run_lt, " < " },
    { "_operator", "le", 2, run_le, " <= " },
    { "_operator", "gt", 2, run_gt, " > " },
    { "_operator", "ge", 2, run_ge, " >= " },
    { "torch", "sym_max", 2, run_sym_max, NULL },
    { "torch", "sym_min", 2, run_sym_min, NULL },
    { "_operator", "and_", 2, run_and, " & " },
    { "_operator", "or_", 2, run_or, " | " },
    { "_operator", "xor", 2, run_xor, " ^ " },
    { "math", "floor", 1, run_floor, NULL },
    { "math", "ceil", 1, run_ceil, NULL },
    { "math", "trunc", 1, run_trunc, NULL },
    { "builtins", "round", 2, run_round, NULL },
    { "_operator", "abs", 1, run_abs, NULL },
    { "torch", "sym_not", 1, run_sym_not, NULL },
    { "torch", "sym_ite", 3, run_sym_ite, NULL },
    { "torch", "sym_float", 1, run_sym_float, NULL },
#define TP_SYM_ONE(name) { "torch", "_sym_" #name, 1, run_sym_##name, NULL },
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
};
const size_t tp_builtin_count = TP_COUNT(tp_builtins);
const tp_builtin *const tp_builtin_getitem = &tp_builtins[0];

const tp_builtin *tp_builtin_find(const char *module, const char *name)
{
    for (size_t i = 0; i < tp_builtin_count; i++)
        if (!strcmp(tp_builtins[i].module, module) && !strcmp(tp_builtins[i].name, name))
            return &tp_builtins[i];
    return NULL;
}
