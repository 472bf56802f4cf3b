/* float.c - symbolic floats, as far as `.item()`, true division and scale factors need them; and Where.
 *
 * They are kept as written but for constants: no reordering, since float addition does not forgive it. A number in a
 * float expression is a node of the environment. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

static double number_of(tp_sym x)
{
    double value;
    memcpy(&value, sym_node(x)->word, sizeof value);
    return value;
}

tp_sym tp_sym_float(tp_shape_env *env, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return tp_sym_intern(env, KIND_number, TP_SYM_FLOAT, &bits, 1);
}

tp_sym tp_sym_to_float_in(tp_shape_env *env, tp_sym a)
{
    if (tp_sym_is_failed(a))
        return a;
    if (tp_sym_is_int(a))
        return tp_sym_float(env, (double)tp_sym_as_int(a));
    if (tp_sym_is_bool(a))
        return tp_sym_float(env, tp_sym_same(a, TP_SYM_TRUE));
    return tp_sym_type_of(a) == TP_SYM_FLOAT ? a : tp_sym_make(KIND_to_float, TP_SYM_FLOAT, &a, 1);
}

tp_sym tp_sym_to_float(tp_sym a)
{
    if (tp_sym_is_int(a) || tp_sym_is_bool(a))
        return tp_sym_fail(NULL, TP_ERR_TYPE, "a plain integer becomes a float by a cast, not by a symbolic operation");
    return tp_sym_to_float_in(sym_env(a), a);
}

static double compute(sym_kind kind, double a, double b)
{
    switch (kind) {
    case KIND_float_add: return a + b;
    case KIND_float_mul: return a * b;
    case KIND_float_pow: return pow(a, b);
    default: return a / b;
    }
}

tp_sym tp_sym_float_binary(sym_kind kind, tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    bool na = sym_is_kind(a, KIND_number), nb = sym_is_kind(b, KIND_number);
    if (kind == KIND_float_truediv && nb && number_of(b) == 0)
        return tp_sym_fail(env, TP_ERR_ZERO_DIVISION, "float division by zero");
    if (na && nb)
        return tp_sym_float(env, compute(kind, number_of(a), number_of(b)));
    if (kind == KIND_float_mul && na && number_of(a) == 1)
        return b;
    if (kind == KIND_float_mul && nb && number_of(b) == 1)
        return a;
    /* A product prints its number first, a sum last: put them there. */
    if ((kind == KIND_float_mul && nb) || (kind == KIND_float_add && na))
        return tp_sym_make(kind, TP_SYM_FLOAT, (tp_sym[]){ b, a }, 2);
    return tp_sym_make(kind, TP_SYM_FLOAT, (tp_sym[]){ a, b }, 2);
}

tp_sym tp_sym_truediv(tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    if (!env)
        return tp_sym_fail(NULL, TP_ERR_TYPE, "the quotient of two plain integers is no symbolic float");
    if (tp_sym_type_of(a) == TP_SYM_INT && tp_sym_type_of(b) == TP_SYM_INT) {
        if (sym_is_value(b, 0))
            return tp_sym_fail(env, TP_ERR_ZERO_DIVISION, "division by zero");
        return tp_sym_make(KIND_int_truediv, TP_SYM_FLOAT, (tp_sym[]){ a, b }, 2);
    }
    return tp_sym_float_binary(KIND_float_truediv, tp_sym_to_float_in(env, a), tp_sym_to_float_in(env, b));
}

double tp_sym_round_number(sym_kind kind, double value)
{
    switch (kind) {
    case KIND_floor: return floor(value);
    case KIND_ceil: return ceil(value);
    case KIND_round: return rint(value);
    default: return trunc(value);
    }
}

double tp_sym_apply_number(sym_kind kind, double value)
{
    switch (kind) {
#define TP_SYM_ONE(name) case KIND_##name: return name(value);
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
    default: return value;
    }
}

bool tp_sym_is_function(sym_kind kind)
{
    return kind >= KIND_sqrt && kind < KIND_sqrt + TP_SYM_FN_COUNT;
}

tp_sym tp_sym_apply(tp_sym_function f, tp_sym a)
{
    sym_kind kind = (sym_kind)(KIND_sqrt + (int)f);
    if (tp_sym_is_failed(a) || tp_sym_is_failed(a = tp_sym_to_float(a)))
        return TP_SYM_FAILED;
    if (sym_is_kind(a, KIND_number))
        return tp_sym_float(sym_env(a), tp_sym_apply_number(kind, number_of(a)));
    return tp_sym_make(kind, TP_SYM_FLOAT, &a, 1);
}

static tp_sym to_integer(sym_kind kind, tp_sym a)
{
    if (tp_sym_is_failed(a) || tp_sym_type_of(a) != TP_SYM_FLOAT)
        return a;
    if (sym_is_kind(a, KIND_to_float))
        return sym_arg(a, 0);
    if (!sym_is_kind(a, KIND_number))
        return tp_sym_make(kind, TP_SYM_INT, &a, 1);
    double value = tp_sym_round_number(kind, number_of(a));
    if (!(fabs(value) < 0x1p63))
        return tp_sym_fail(sym_env(a), TP_ERR_OVERFLOW, "cannot convert %g to an integer of 64 bits", value);
    return tp_sym_int((int64_t)value);
}

tp_sym tp_sym_trunc(tp_sym a)
{
    return to_integer(KIND_trunc, a);
}

tp_sym tp_sym_floor(tp_sym a)
{
    return to_integer(KIND_floor, a);
}

tp_sym tp_sym_ceil(tp_sym a)
{
    return to_integer(KIND_ceil, a);
}

tp_sym tp_sym_round(tp_sym a)
{
    return to_integer(KIND_round, a);
}

/* As Python's round does it: by way of the decimal text. */
double tp_sym_round_to(double value, int64_t digits)
{
    char text[400];
    if (!isfinite(value) || digits > 323 || digits < -308)
        return digits < -308 ? 0 * value : value;
    if (digits < 0) {
        double scale = pow(10, (double)-digits);
        return rint(value / scale) * scale;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, fabs(value) < 1e22 ? value : 0);
    return fabs(value) < 1e22 ? strtod(text, NULL) : value;
}

tp_sym tp_sym_round_decimal(tp_sym a, tp_sym digits)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(digits))
        return TP_SYM_FAILED;
    if (sym_is_kind(a, KIND_number) && tp_sym_is_int(digits))
        return tp_sym_float(sym_env(a), tp_sym_round_to(number_of(a), tp_sym_as_int(digits)));
    return tp_sym_make(KIND_round_decimal, TP_SYM_FLOAT, (tp_sym[]){ a, digits }, 2);
}

tp_sym tp_sym_where(tp_sym condition, tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(condition) || tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    if (tp_sym_is_bool(condition))
        return condition.word == TP_SYM_TRUE.word ? a : b;
    if (tp_sym_same(a, b))
        return a;
    if (tp_sym_type_of(a) != tp_sym_type_of(b)) {
        tp_shape_env *env = sym_env(condition);
        a = tp_sym_to_float_in(env, a);
        b = tp_sym_to_float_in(env, b);
        if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
            return TP_SYM_FAILED;
    }
    return tp_sym_make(KIND_where, tp_sym_type_of(a), (tp_sym[]){ condition, a, b }, 3);
}
