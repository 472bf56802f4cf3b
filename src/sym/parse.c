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
 * Conditions over sources (tp_sym_parse_source) are Python's: `and`, `or`, `not`, `a if c else b`, bits below comparisons, and
 * functions by the names that Python has for them.
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
    tp_sym_source *find;        /* NULL: the text is over names of symbols */
    void         *data;
} parser;

static tp_sym expression(parser *p);
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

static bool accept_word(parser *p, const char *word)
{
    const char *before = p->at;
    if (accept(p, word) && !isalnum((unsigned char)*p->at) && *p->at != '_')
        return true;
    p->at = before;
    return false;
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
        a[count] = expression(p);
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

/* ---- Python's names ---- */

/* What a text over sources calls the functions above; `math.`, `torch.sym_` and `torch._sym_` may stand in front. */
static const struct { const char *python, *name; } spelled[] = {
    { "max", "Max" }, { "min", "Min" }, { "abs", "Abs" }, { "int", "TruncToInt" }, { "trunc", "TruncToInt" }, { "floor", "FloorToInt" },
    { "ceil", "CeilToInt" }, { "float", "ToFloat" },
};

static const struct function *find_python(const char *word)
{
    static const char *const before[] = { "math.", "torch._sym_", "torch.sym_" };
    for (size_t i = 0; i < TP_COUNT(before); i++)
        if (strncmp(word, before[i], strlen(before[i])) == 0) {
            word += strlen(before[i]);
            break;
        }
    const char *name = NULL;
    for (size_t i = 0; i < TP_COUNT(spelled) && !name; i++)
        name = strcmp(spelled[i].python, word) == 0 ? spelled[i].name : NULL;
    for (size_t i = 0; i < TP_COUNT(functions); i++) {
        const char *plain = strncmp(functions[i].name, "OpaqueUnaryFn_", 14) == 0 ? functions[i].name + 14 : NULL;
        if (name ? strcmp(functions[i].name, name) == 0 : plain && strcmp(plain, word) == 0)
            return &functions[i];
    }
    return NULL;
}

/* round(x) is an integer, round(x, digits) a float. */
static tp_sym python_round(parser *p)
{
    tp_sym x = expression(p), digits = TP_SYM_FAILED;
    bool two = accept(p, ",");
    if (two)
        digits = expression(p);
    if (!accept(p, ")"))
        return wrong(p, "a closing parenthesis is missing");
    if (!typed(p, x, false) || (two && (!typed(p, digits, false) || !whole(p, digits))))
        return TP_SYM_FAILED;
    return two ? tp_sym_round_decimal(tp_sym_to_float_in(p->env, x), digits) : tp_sym_round(x);
}

/* Numbers may stand where the text had sources: what only floats have is asked of floats. */
static tp_sym python_call(parser *p, const char *word)
{
    const struct function *f = find_python(word);
    if (strcmp(word, "round") == 0)
        return python_round(p);
    if (!f || f->arguments != 1)
        return f ? call(p, f) : wrong(p, "no function has this name");
    tp_sym x = expression(p);
    if (!typed(p, x, false))
        return TP_SYM_FAILED;
    if (!accept(p, ")"))
        return wrong(p, "a closing parenthesis is missing");
    bool rounds = tp_sym_type_of(x) == TP_SYM_INT && (f->apply == parse_trunc || f->apply == parse_floor || f->apply == parse_ceil);
    if (rounds || (f->apply == parse_abs && !tp_sym_is_int(x)))
        return f->apply(&x);
    if (f->apply == parse_abs)
        return tp_sym_int(tp_sym_as_int(x) < 0 ? -tp_sym_as_int(x) : tp_sym_as_int(x));
    x = tp_sym_to_float_in(p->env, x);
    return tp_sym_is_failed(x) || f->apply == parse_to_float ? x : f->apply(&x);
}

/* L['x'][0].size()[1]: names, items and empty calls, as long as they go on. */
static tp_sym source(parser *p, const char *from)
{
    for (;;) {
        if (*p->at == '[') {
            const char *at = p->at + 1, quote = *at == '\'' || *at == '"' ? *at : 0;
            for (at += quote != 0; *at && *at != (quote ? quote : ']'); at++)
                at += *at == '\\' && at[1];
            if (!*at || (quote && at[1] != ']'))
                return wrong(p, "an item's closing bracket is missing");
            p->at = at + 1 + (quote != 0);
        } else if (strncmp(p->at, "()", 2) == 0) {
            p->at += 2;
        } else if (*p->at == '.' && (isalpha((unsigned char)p->at[1]) || p->at[1] == '_')) {
            p->at++;
            while (isalnum((unsigned char)*p->at) || *p->at == '_')
                p->at++;
        } else {
            break;
        }
    }
    tp_sym x = p->find(p->data, from, (size_t)(p->at - from));
    return tp_sym_is_failed(x) ? wrong(p, "no input has this size") : x;
}

static tp_sym name(parser *p)
{
    char word[64];
    const char *from = p->at;
    size_t length = strspn(p->at, &".abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"[!p->find]);
    if (length == 0 || length >= sizeof word)
        return wrong(p, "a number, a name or a parenthesis is needed here");
    memcpy(word, p->at, length);
    word[length] = 0;
    p->at += length;
    if (p->find && strcmp(word, "L") == 0)
        return source(p, from);
    if (accept(p, "(")) {
        if (p->find)
            return python_call(p, word);
        for (size_t i = 0; i < TP_COUNT(functions); i++)
            if (strcmp(functions[i].name, word) == 0)
                return call(p, &functions[i]);
        return wrong(p, "no function has this name");
    }
    if (strcmp(word, "True") == 0 || strcmp(word, "False") == 0)
        return tp_sym_bool(word[0] == 'T');
    tp_sym x = p->find ? p->find(p->data, from, length) : tp_shape_env_find(p->env, word);
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
        tp_sym x = expression(p);
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

static tp_sym divided(parser *p, tp_sym x, tp_sym y)
{
    if (!p->find || !tp_sym_is_int(x) || !tp_sym_is_int(y) || tp_sym_same(y, tp_sym_int(0)))
        return tp_sym_truediv(x, y);
    return tp_sym_float(p->env, (double)tp_sym_as_int(x) / (double)tp_sym_as_int(y));
}

/* Python's // and % of floats, written out. */
static tp_sym of_floats(parser *p, int op, tp_sym x, tp_sym y)
{
    x = tp_sym_to_float_in(p->env, x);
    y = tp_sym_to_float_in(p->env, y);
    tp_sym whole_part = tp_sym_floor(tp_sym_truediv(x, y));
    whole_part = tp_sym_is_failed(whole_part) ? whole_part : tp_sym_to_float_in(p->env, whole_part);
    return op == 'f' || tp_sym_is_failed(whole_part) ? whole_part : tp_sym_sub(x, tp_sym_mul(whole_part, y));
}

static tp_sym product(parser *p)
{
    tp_sym x = unary(p);
    while (!tp_sym_is_failed(x)) {
        int op = accept(p, "//") ? 'f' : accept(p, "*") ? '*' : accept(p, "/") ? '/' : accept(p, "%") ? '%' : 0;
        if (!op)
            return x;
        tp_sym y = unary(p);
        if (!typed(p, x, false) || !typed(p, y, false))
            return TP_SYM_FAILED;
        if ((op == 'f' || op == '%') && p->find && (tp_sym_type_of(x) == TP_SYM_FLOAT || tp_sym_type_of(y) == TP_SYM_FLOAT)) {
            x = of_floats(p, op, x, y);
            continue;
        }
        if ((op == 'f' || op == '%') && (!whole(p, x) || !whole(p, y)))
            return TP_SYM_FAILED;
        x = op == '*' ? tp_sym_mul(x, y) : op == 'f' ? tp_sym_floordiv(x, y) : op == '%' ? tp_sym_mod(x, y)
                                                                                         : divided(p, x, y);
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

/* Of conditions, & and | are junctions. */
static tp_sym bits(parser *p)
{
    tp_sym x = sum(p);
    while (p->find && !tp_sym_is_failed(x)) {
        int op = accept(p, "&") ? '&' : accept(p, "|") ? '|' : accept(p, "^") ? '^' : 0;
        if (!op)
            return x;
        tp_sym y = sum(p);
        if (tp_sym_is_failed(y))
            return y;
        if (op != '^' && tp_sym_type_of(x) == TP_SYM_BOOL && tp_sym_type_of(y) == TP_SYM_BOOL)
            x = op == '&' ? tp_sym_and(x, y) : tp_sym_or(x, y);
        else if (whole(p, x) && whole(p, y))
            x = op == '&' ? tp_sym_bit_and(x, y) : op == '|' ? tp_sym_bit_or(x, y) : tp_sym_bit_xor(x, y);
        else
            return TP_SYM_FAILED;
    }
    return x;
}

static tp_sym comparison(parser *p)
{
    static const struct { const char *token; tp_compare how; } signs[] = {
        { "<=", TP_LE }, { ">=", TP_GE }, { "<", TP_LT }, { ">", TP_GT }, { "==", TP_EQ }, { "!=", TP_NE },
    };
    tp_sym x = bits(p);
    for (size_t i = 0; !tp_sym_is_failed(x) && i < TP_COUNT(signs); i++)
        if (accept(p, signs[i].token)) {
            tp_sym y = bits(p);
            if (!typed(p, x, false) || !typed(p, y, false))
                return TP_SYM_FAILED;
            tp_sym made = tp_sym_compare(signs[i].how, x, y);
            if (p->find && tp_sym_is_bool(made) && !tp_sym_note_decided(signs[i].how, x, y, tp_sym_same(made, TP_SYM_TRUE)))
                return TP_SYM_FAILED;
            return made;
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

static tp_sym negation(parser *p)
{
    tp_sym x;
    if (!accept_word(p, "not"))
        return comparison(p);
    if (++p->depth > MAX_DEPTH)
        return wrong(p, "nested too deeply");
    x = negation(p);
    p->depth--;
    return typed(p, x, true) ? tp_sym_not(x) : TP_SYM_FAILED;
}

static tp_sym conjunction(parser *p)
{
    tp_sym x = negation(p);
    while (!tp_sym_is_failed(x) && accept_word(p, "and")) {
        tp_sym y = negation(p);
        x = typed(p, x, true) && typed(p, y, true) ? tp_sym_and(x, y) : TP_SYM_FAILED;
    }
    return x;
}

static tp_sym disjunction(parser *p)
{
    tp_sym x = conjunction(p);
    while (!tp_sym_is_failed(x) && accept_word(p, "or")) {
        tp_sym y = conjunction(p);
        x = typed(p, x, true) && typed(p, y, true) ? tp_sym_or(x, y) : TP_SYM_FAILED;
    }
    return x;
}

static tp_sym choice(parser *p)
{
    tp_sym x = disjunction(p);
    if (tp_sym_is_failed(x) || !accept_word(p, "if"))
        return x;
    tp_sym condition = disjunction(p);
    if (!typed(p, condition, true))
        return TP_SYM_FAILED;
    if (!accept_word(p, "else"))
        return wrong(p, "an else is missing");
    if (++p->depth > MAX_DEPTH)
        return wrong(p, "nested too deeply");
    tp_sym other = choice(p);
    p->depth--;
    return tp_sym_is_failed(other) ? other : tp_sym_where(condition, x, other);
}

static tp_sym expression(parser *p)
{
    return p->find ? choice(p) : junction(p);
}

static tp_sym parse(parser *p)
{
    tp_sym x = expression(p);
    if (tp_sym_is_failed(x))
        return x;
    p->at += strspn(p->at, " \t\n");
    return *p->at ? wrong(p, "the expression ends here") : x;
}

tp_sym tp_sym_parse(tp_shape_env *env, const char *text)
{
    return parse(&(parser){ .env = env, .text = text, .at = text });
}

tp_sym tp_sym_parse_source(tp_shape_env *env, const char *text, tp_sym_source *find, void *data)
{
    return parse(&(parser){ .env = env, .text = text, .at = text, .find = find, .data = data });
}
