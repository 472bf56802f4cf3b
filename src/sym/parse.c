/* parse.c - the text of tp_sym_print, and what people write for it in tests and files, back into expressions.
 *
 *     junction   = comparison { ( "&" | "|" ) comparison }
 *     comparison = sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
 *     sum        = product { ( "+" | "-" ) product }
 *     product    = unary { ( "*" | "//" | "/" | "%" ) unary }
 *     unary      = ( "-" | "~" ) unary | power
 *     power      = primary [ "**" unary ]
 *     primary    = number | "True" | "False" | symbol | function "(" junction { "," junction } ")" | "(" junction ")"
 *
 * Nothing is trusted: operands of the wrong type and nesting beyond MAX_DEPTH are errors like any other. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

typedef struct parser {
    tp_shape_env *env;
    const char   *text, *at;
    int           depth;
} parser;

static tp_sym junction(parser *p);
static tp_sym unary(parser *p);

static tp_sym wrong(parser *p, const char *what)
{
    return tp_sym_fail(p->env, TP_ERR_VALUE, "cannot read the expression '%.100s' at column %d: %s", p->text,
                       (int)(p->at - p->text) + 1, what);
}

static bool accept(parser *p, const char *token)
{
    p->at += strspn(p->at, " \t\n");
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* Operands of arithmetic are numbers, those of junctions are conditions. */
static bool typed(parser *p, tp_sym x, bool condition)
{
    if (tp_sym_is_failed(x))
        return false;
    if ((tp_sym_type_of(x) == TP_SYM_BOOL) == condition)
        return true;
    wrong(p, condition ? "a condition is needed here" : "a condition is no number");
    return false;
}

static bool whole(parser *p, tp_sym x)
{
    if (tp_sym_type_of(x) == TP_SYM_INT)
        return true;
    wrong(p, "an integer is needed here");
    return false;
}

/* Functions by name. Of the operations those that take floats as well are marked. */
static tp_sym parse_where(tp_sym *a)
{
    return tp_sym_where(a[0], a[1], a[2]);
}

static tp_sym parse_mod(tp_sym *a)
{
    return tp_sym_mod(a[0], a[1]);
}

static tp_sym parse_max(tp_sym *a)
{
    return tp_sym_max(a[0], a[1]);
}

static tp_sym parse_min(tp_sym *a)
{
    return tp_sym_min(a[0], a[1]);
}

static tp_sym parse_floordiv(tp_sym *a)
{
    return tp_sym_floordiv(a[0], a[1]);
}

static tp_sym parse_ceildiv(tp_sym *a)
{
    return tp_sym_ceildiv(a[0], a[1]);
}

static tp_sym parse_pow(tp_sym *a)
{
    return tp_sym_pow(a[0], a[1]);
}

static tp_sym parse_abs(tp_sym *a)
{
    return tp_sym_abs(a[0]);
}

static tp_sym parse_bit_and(tp_sym *a)
{
    return tp_sym_bit_and(a[0], a[1]);
}

static tp_sym parse_bit_or(tp_sym *a)
{
    return tp_sym_bit_or(a[0], a[1]);
}

static tp_sym parse_bit_xor(tp_sym *a)
{
    return tp_sym_bit_xor(a[0], a[1]);
}

static tp_sym parse_round_decimal(tp_sym *a)
{
    return tp_sym_round_decimal(a[0], a[1]);
}

static tp_sym parse_eq(tp_sym *a)
{
    return tp_sym_eq(a[0], a[1]);
}

static tp_sym parse_ne(tp_sym *a)
{
    return tp_sym_ne(a[0], a[1]);
}

static tp_sym parse_truediv(tp_sym *a)
{
    return tp_sym_truediv(a[0], a[1]);
}

static tp_sym parse_to_float(tp_sym *a)
{
    return tp_sym_to_float(a[0]);
}

static tp_sym parse_trunc(tp_sym *a)
{
    return tp_sym_trunc(a[0]);
}

static tp_sym parse_floor(tp_sym *a)
{
    return tp_sym_floor(a[0]);
}

static tp_sym parse_ceil(tp_sym *a)
{
    return tp_sym_ceil(a[0]);
}

static tp_sym parse_round(tp_sym *a)
{
    return tp_sym_round(a[0]);
}

#define TP_SYM_ONE(name) static tp_sym parse_##name(tp_sym *a) { return tp_sym_apply(TP_SYM_FN_##name, a[0]); }
TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE

static const struct function {
    const char *name;
    size_t arguments;           /* 0: two or more, applied from the left */
    bool floats;
    tp_sym (*apply)(tp_sym *arguments);
} functions[] = {
    { "FloorDiv", 2, false, parse_floordiv }, { "CeilDiv", 2, false, parse_ceildiv },
    { "Mod", 2, false, parse_mod },           { "PythonMod", 2, false, parse_mod },
    { "Max", 0, true, parse_max },            { "Min", 0, true, parse_min },
    { "Abs", 1, true, parse_abs },            { "PowByNatural", 2, false, parse_pow },
    { "Eq", 2, true, parse_eq },              { "Ne", 2, true, parse_ne },
    { "IntTrueDiv", 2, true, parse_truediv }, { "FloatTrueDiv", 2, true, parse_truediv },
    { "FloatPow", 2, true, parse_pow },       { "ToFloat", 1, true, parse_to_float },
    { "TruncToInt", 1, true, parse_trunc },   { "FloorToInt", 1, true, parse_floor },
    { "CeilToInt", 1, true, parse_ceil },     { "RoundToInt", 1, true, parse_round },
    { "Where", 3, true, parse_where },        { "RoundDecimal", 2, true, parse_round_decimal },
    { "BitwiseFn_bitwise_and", 2, false, parse_bit_and },
    { "BitwiseFn_bitwise_or", 2, false, parse_bit_or },
    { "BitwiseFn_bitwise_xor", 2, false, parse_bit_xor },
#define TP_SYM_ONE(name) { "OpaqueUnaryFn_" #name, 1, true, parse_##name },
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
};

static tp_sym call(parser *p, const struct function *f)
{
    tp_sym a[3] = { { 0 } };
    size_t count = 0;
    do {
        if (count == (f->arguments ? f->arguments : 2))
            return wrong(p, "too many arguments");
        a[count] = junction(p);
        if (!typed(p, a[count], f->apply == parse_where && count == 0))
            return TP_SYM_FAILED;
        if (!f->floats && !whole(p, a[count]))
            return TP_SYM_FAILED;
        if (++count == 2 && f->arguments == 0) {
            a[0] = f->apply(a);
            count = 1;
        }
    } while (accept(p, ","));
    if (!accept(p, ")"))
        return wrong(p, "a closing parenthesis is missing");
    if (f->arguments == 0)
        return a[0];
    return count == f->arguments ? f->apply(a) : wrong(p, "too few arguments");
}

static tp_sym name(parser *p)
{
    char word[64];
    size_t length = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (length == 0 || length >= sizeof word)
        return wrong(p, "a number, a name or a parenthesis is needed here");
    memcpy(word, p->at, length);
    word[length] = 0;
    p->at += length;
    if (accept(p, "(")) {
        for (size_t i = 0; i < TP_COUNT(functions); i++)
            if (strcmp(functions[i].name, word) == 0)
                return call(p, &functions[i]);
        return wrong(p, "no function has this name");
    }
    if (strcmp(word, "True") == 0 || strcmp(word, "False") == 0)
        return tp_sym_bool(word[0] == 'T');
    tp_sym x = tp_shape_env_find(p->env, word);
    return tp_sym_is_failed(x) ? wrong(p, "no symbol has this name") : x;
}

static tp_sym number(parser *p)
{
    size_t digits = strspn(p->at, "0123456789");
    char *end;
    errno = 0;
    if (p->at[digits] == '.' || p->at[digits] == 'e') {
        double value = strtod(p->at, &end);
        p->at = end;
        return tp_sym_float(p->env, value);
    }
    long long value = strtoll(p->at, &end, 10);
    if (errno)
        return wrong(p, "the number has more than 64 bits");
    p->at = end;
    return tp_sym_int(value);
}

static tp_sym primary(parser *p)
{
    if (accept(p, "(")) {
        tp_sym x = junction(p);
        return tp_sym_is_failed(x) || accept(p, ")") ? x : wrong(p, "a closing parenthesis is missing");
    }
    return isdigit((unsigned char)*p->at) ? number(p) : name(p);
}

static tp_sym power(parser *p)
{
    tp_sym x = primary(p);
    if (tp_sym_is_failed(x) || !accept(p, "**"))
        return x;
    tp_sym exponent = unary(p);
    return typed(p, x, false) && typed(p, exponent, false) ? tp_sym_pow(x, exponent) : TP_SYM_FAILED;
}

static tp_sym unary(parser *p)
{
    tp_sym x = TP_SYM_FAILED;
    if (++p->depth > MAX_DEPTH)
        return wrong(p, "nested too deeply");
    if (accept(p, "-")) {
        x = unary(p);
        x = typed(p, x, false) ? tp_sym_neg(x) : TP_SYM_FAILED;
    } else if (accept(p, "~")) {
        x = unary(p);
        x = typed(p, x, true) ? tp_sym_not(x) : TP_SYM_FAILED;
    } else {
        x = power(p);
    }
    p->depth--;
    return x;
}

static tp_sym product(parser *p)
{
    tp_sym x = unary(p);
    while (!tp_sym_is_failed(x)) {
        int op = accept(p, "//") ? 'f' : accept(p, "*") ? '*' : accept(p, "/") ? '/' : accept(p, "%") ? '%' : 0;
        if (!op)
            return x;
        tp_sym y = unary(p);
        if (!typed(p, x, false) || !typed(p, y, false) || ((op == 'f' || op == '%') && (!whole(p, x) || !whole(p, y))))
            return TP_SYM_FAILED;
        x = op == '*' ? tp_sym_mul(x, y) : op == 'f' ? tp_sym_floordiv(x, y) : op == '%' ? tp_sym_mod(x, y)
                                                                                         : tp_sym_truediv(x, y);
    }
    return x;
}

static tp_sym sum(parser *p)
{
    tp_sym x = product(p);
    while (!tp_sym_is_failed(x)) {
        bool plus = accept(p, "+");
        if (!plus && !accept(p, "-"))
            return x;
        tp_sym y = product(p);
        if (!typed(p, x, false) || !typed(p, y, false))
            return TP_SYM_FAILED;
        x = plus ? tp_sym_add(x, y) : tp_sym_sub(x, y);
    }
    return x;
}

static tp_sym comparison(parser *p)
{
    static const struct { const char *token; tp_compare how; } signs[] = {
        { "<=", TP_LE }, { ">=", TP_GE }, { "<", TP_LT }, { ">", TP_GT }, { "==", TP_EQ }, { "!=", TP_NE },
    };
    tp_sym x = sum(p);
    for (size_t i = 0; !tp_sym_is_failed(x) && i < TP_COUNT(signs); i++)
        if (accept(p, signs[i].token)) {
            tp_sym y = sum(p);
            return typed(p, x, false) && typed(p, y, false) ? tp_sym_compare(signs[i].how, x, y) : TP_SYM_FAILED;
        }
    return x;
}

static tp_sym junction(parser *p)
{
    tp_sym x = comparison(p);
    while (!tp_sym_is_failed(x)) {
        bool and = accept(p, "&");
        if (!and && !accept(p, "|"))
            return x;
        tp_sym y = comparison(p);
        if (!typed(p, x, true) || !typed(p, y, true))
            return TP_SYM_FAILED;
        x = and ? tp_sym_and(x, y) : tp_sym_or(x, y);
    }
    return x;
}

tp_sym tp_sym_parse(tp_shape_env *env, const char *text)
{
    parser p = { env, text, text, 0 };
    tp_sym x = junction(&p);
    if (tp_sym_is_failed(x))
        return x;
    p.at += strspn(p.at, " \t\n");
    return *p.at ? wrong(&p, "the expression ends here") : x;
}
