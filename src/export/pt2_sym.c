/* pt2_sym.c - numbers of enumerations in .pt2 files, and expressions: sympy's srepr, both ways.
 *
 *     2*s0 + 1   <=>   Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))  */
#include <stdlib.h>
#include <string.h>

#include "export/pt2.h"
#include "sym/step.h"

/* ---- enumerations ---- */
static const struct { tp_dtype dtype; int number; } dtypes[] = {
    { TP_u8, 1 }, { TP_i8, 2 }, { TP_i16, 3 }, { TP_i32, 4 }, { TP_i64, 5 }, { TP_f16, 6 }, { TP_f32, 7 }, { TP_f64, 8 },
    { TP_c64, 10 }, { TP_c128, 11 }, { TP_b8, 12 }, { TP_bf16, 13 },
};

int tp_pt2_dtype(tp_dtype d)
{
    for (size_t i = 0; i < TP_COUNT(dtypes); i++)
        if (dtypes[i].dtype == d)
            return dtypes[i].number;
    return 0;
}

tp_dtype tp_pt2_dtype_of(int64_t number)
{
    for (size_t i = 0; i < TP_COUNT(dtypes); i++)
        if (dtypes[i].number == number)
            return dtypes[i].dtype;
    return TP_DTYPE_NONE;
}

static const struct { tp_format format; int number; } formats[] = {
    { TP_FORMAT_CONTIGUOUS, 1 }, { TP_FORMAT_CHANNELS_LAST, 2 }, { TP_FORMAT_CHANNELS_LAST_3D, 3 }, { TP_FORMAT_PRESERVE, 4 },
};

int tp_pt2_format(tp_format f)
{
    for (size_t i = 0; i < TP_COUNT(formats); i++)
        if (formats[i].format == f)
            return formats[i].number;
    return 1;
}

bool tp_pt2_format_of(int64_t number, tp_format *out)
{
    for (size_t i = 0; i < TP_COUNT(formats); i++)
        if (formats[i].number == number) {
            *out = formats[i].format;
            return true;
        }
    return tp_fail(TP_ERR_RUNTIME, "pt2: memory format %lld is unknown", LL(number));
}

/* ---- names ---- */
enum { LONGEST_NAME = 256 };

bool tp_pt2_is_name(const char *name)
{
    static const char *const words[] = {
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
        "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
        "return", "try", "while", "with", "yield",
    };
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (!name || !*name || (*name >= '0' && *name <= '9') || strlen(name) >= LONGEST_NAME || name[strspn(name, plain)])
        return false;
    for (size_t i = 0; i < TP_COUNT(words); i++)
        if (strcmp(words[i], name) == 0)
            return false;
    return true;
}

/* ---- functions of expressions ---- */
static tp_sym mod(tp_sym a, tp_sym b)
{
    return tp_sym_mod(a, b);
}
static tp_sym add(tp_sym a, tp_sym b)
{
    return tp_sym_add(a, b);
}
static tp_sym mul(tp_sym a, tp_sym b)
{
    return tp_sym_mul(a, b);
}
static tp_sym floordiv(tp_sym a, tp_sym b)
{
    return tp_sym_floordiv(a, b);
}
/* Only known exponents, as sympy's polynomials have them. */
static tp_sym power(tp_sym a, tp_sym b)
{
    if (tp_sym_is_int(b) && tp_sym_as_int(b) >= 0)
        return tp_sym_pow(a, b);
    (void)tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: powers of sizes need a known exponent");
    return TP_SYM_FAILED;
}
static tp_sym float_power(tp_sym a, tp_sym b)
{
    return tp_sym_pow(a, b);
}
#define TP_SYM_ONE(name) static tp_sym apply_##name(tp_sym a) { return tp_sym_is_node(a) ? tp_sym_apply(TP_SYM_FN_##name, a) : TP_SYM_FAILED; }
TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
static tp_sym divide(tp_sym a, tp_sym b)
{
    return tp_sym_is_node(a) || tp_sym_is_node(b) ? tp_sym_truediv(a, b) : TP_SYM_FAILED;
}
static tp_sym to_float(tp_sym a)
{
    return tp_sym_is_node(a) ? tp_sym_to_float(a) : TP_SYM_FAILED;
}
static tp_sym max(tp_sym a, tp_sym b)
{
    return tp_sym_max(a, b);
}
static tp_sym min(tp_sym a, tp_sym b)
{
    return tp_sym_min(a, b);
}

/* What an operand must be; those of one call are all alike. */
typedef enum operand { INTEGERS, FLOATS, NUMBERS, CONDITIONS } operand;

/* Names of sympy and PyTorch, the step that makes them (step.h), and what they do; the first name of a step is written. */
static const struct {
    const char *name, *step;
    operand of;
    tp_sym (*two)(tp_sym a, tp_sym b);
    tp_sym (*one)(tp_sym a);
} functions[] = {
    { "Add", "add", NUMBERS, add, NULL },
    { "Mul", "mul", NUMBERS, mul, NULL },
    { "Pow", "pow", INTEGERS, power, NULL },
    { "PowByNatural", NULL, INTEGERS, power, NULL },
    { "FloatPow", "pow", FLOATS, float_power, NULL },
    { "FloorDiv", "floordiv", INTEGERS, floordiv, NULL },
    { "CleanDiv", NULL, INTEGERS, floordiv, NULL },
    { "PythonMod", "mod", INTEGERS, mod, NULL },
    { "Mod", NULL, INTEGERS, mod, NULL },
    { "Max", "sym_max", INTEGERS, max, NULL },
    { "Min", "sym_min", INTEGERS, min, NULL },
    { "Equality", "eq", NUMBERS, tp_sym_eq, NULL },
    { "Unequality", "ne", NUMBERS, tp_sym_ne, NULL },
    { "StrictLessThan", "lt", NUMBERS, tp_sym_lt, NULL },
    { "LessThan", "le", NUMBERS, tp_sym_le, NULL },
    { "StrictGreaterThan", "gt", NUMBERS, tp_sym_gt, NULL },
    { "GreaterThan", "ge", NUMBERS, tp_sym_ge, NULL },
    { "And", "and_", CONDITIONS, tp_sym_and, NULL },
    { "Or", "or_", CONDITIONS, tp_sym_or, NULL },
    { "Not", "sym_not", CONDITIONS, NULL, tp_sym_not },
    { "IntTrueDiv", "truediv", INTEGERS, divide, NULL },
    { "FloatTrueDiv", NULL, NUMBERS, divide, NULL },
    { "ToFloat", "sym_float", INTEGERS, NULL, to_float },
    { "Abs", "abs", INTEGERS, NULL, tp_sym_abs },
    { "TruncToInt", "trunc", NUMBERS, NULL, tp_sym_trunc },
    { "FloorToInt", "floor", NUMBERS, NULL, tp_sym_floor },
    { "CeilToInt", "ceil", NUMBERS, NULL, tp_sym_ceil },
    { "RoundToInt", "round", NUMBERS, NULL, tp_sym_round },
#define TP_SYM_ONE(name) { "OpaqueUnaryFn_" #name, "_sym_" #name, NUMBERS, NULL, apply_##name },
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
};

/* Operands of functions are of the types these are defined on, and of one type in one call. */
static bool fits(operand of, tp_sym x, tp_sym_type first)
{
    tp_sym_type type = tp_sym_type_of(x);
    return type == first && (of == CONDITIONS ? type == TP_SYM_BOOL
                             : of == INTEGERS ? type == TP_SYM_INT
                             : of == FLOATS   ? type == TP_SYM_FLOAT
                                              : type != TP_SYM_BOOL);
}

/* ---- writing ---- */
/* Sizes of models have a dozen operands; sums and products of thousands take minutes to bring into order. */
enum { DEEPEST = 200, MOST_OPERANDS = 512, EXTREME = 7 };

static bool put_leaf(tp_sym x, tp_text *out)
{
    double f;
    if (tp_sym_is_int(x))
        tp_text_add(out, "Integer(%lld)", LL(tp_sym_as_int(x)));
    else if (tp_sym_is_bool(x))
        tp_text_add(out, x.word == TP_SYM_TRUE.word ? "true" : "false");
    else if (tp_sym_type_of(x) == TP_SYM_FLOAT && tp_sym_hint_float(x, &f))
        tp_text_add(out, "Float('%.17g', precision=53)", f);
    else {
        const tp_symbol *s = tp_symbol_of(x);
        tp_text_add(out, s->kind == TP_SYMBOL_BACKED ? "Symbol('%s', positive=True, integer=True)" : "Symbol('%s', integer=True)", s->name);
    }
    return true;
}

static bool put(tp_sym x, tp_text *out, int depth)
{
    tp_sym_step s;
    if (depth > DEEPEST)
        return tp_fail(TP_ERR_RUNTIME, "pt2: an expression of sizes is too deep");
    if (!tp_sym_last_step(x, &s))
        return false;
    if (!s.operation)
        return put_leaf(x, out);
    if (strcmp(s.operation, "sub") == 0) {
        tp_text_add(out, "Add(");
        bool ok = put(s.operand[0], out, depth + 1);
        tp_text_add(out, ", ");
        ok = ok && put(tp_sym_neg(s.operand[1]), out, depth + 1);
        tp_text_add(out, ")");
        return ok;
    }
    for (size_t i = 0; i < TP_COUNT(functions); i++) {
        if (!functions[i].step || strcmp(functions[i].step, s.operation) != 0 || (s.count == 1) != (functions[i].one != NULL) ||
            !fits(functions[i].of, s.operand[0], tp_sym_type_of(s.operand[0])))
            continue;
        bool ok = true;
        tp_text_add(out, "%s(", functions[i].name);
        for (int k = 0; ok && k < s.count; k++) {
            tp_text_add(out, k ? ", " : "");
            ok = put(s.operand[k], out, depth + 1);
        }
        tp_text_add(out, ")");
        return ok;
    }
    return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %s among sizes cannot be saved", s.operation);
}

bool tp_pt2_print(tp_sym x, tp_text *out)
{
    return put(x, out, 0) && (!out->failed || tp_fail_memory());
}

/* ---- reading ---- */
typedef struct reading {
    tp_shape_env *env;
    const char *at;
    int depth, count;           /* of calls around this one; of all operands so far */
} reading;

static tp_sym read_expression(reading *r);

static tp_sym fail_at(const reading *r)
{
    (void)tp_fail(TP_ERR_RUNTIME, "pt2: an expression of sizes ends unexpectedly before \"%.40s\"", r->at);
    return TP_SYM_FAILED;
}

static void skip_space(reading *r)
{
    while (*r->at == ' ')
        r->at++;
}

static bool take(reading *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

/* A quoted text of names and digits. */
static bool read_quoted(reading *r, char out[64])
{
    size_t length = 0;
    if (!take(r, '\''))
        return false;
    while (*r->at && *r->at != '\'' && length + 1 < 64)
        out[length++] = *r->at++;
    out[length] = 0;
    return take(r, '\'') && length > 0;
}

/* What follows the first argument of Symbol and Float: properties that we know without them. */
static bool skip_properties(reading *r)
{
    while (*r->at && *r->at != ')')
        r->at++;
    return take(r, ')');
}

static tp_sym read_symbol(reading *r)
{
    char name[64];
    if (!read_quoted(r, name) || !tp_pt2_is_name(name) || !skip_properties(r))
        return fail_at(r);
    tp_sym known = tp_shape_env_find(r->env, name);
    return tp_sym_is_failed(known) ? tp_shape_env_named(r->env, name, NULL, TP_RANGE_ALL) : known;
}

static tp_sym read_number(reading *r, bool whole)
{
    char text[64], *end;
    if (!whole) {
        if (!read_quoted(r, text) || !skip_properties(r))
            return fail_at(r);
        double f = strtod(text, &end);
        return *end ? fail_at(r) : tp_sym_float(r->env, f);
    }
    long long i = strtoll(r->at, &end, 10);
    if (end == r->at)
        return fail_at(r);
    r->at = end;
    return take(r, ')') ? tp_sym_int(i) : fail_at(r);
}

static tp_sym apply(reading *r, size_t i)
{
    tp_sym x = read_expression(r);
    if (tp_sym_is_failed(x))
        return x;
    tp_sym_type first = tp_sym_type_of(x);
    if (!fits(functions[i].of, x, first))
        return fail_at(r);
    if (functions[i].one)
        return take(r, ')') ? functions[i].one(x) : fail_at(r);
    int count = 1;
    bool extreme = functions[i].two == max || functions[i].two == min;      /* each is compared with each */
    for (; take(r, ','); count++) {
        r->count += extreme ? EXTREME : 0;
        tp_sym y = read_expression(r);
        if (tp_sym_is_failed(y))
            return y;
        if (!fits(functions[i].of, y, first) || (count > 1 && !fits(functions[i].of, x, first)))
            return fail_at(r);
        if (tp_sym_is_failed(x = functions[i].two(x, y)))
            return x;
    }
    return take(r, ')') && count > 1 ? x : fail_at(r);
}

static tp_sym read_call(reading *r, const char *name, size_t length)
{
    for (size_t i = 0; i < TP_COUNT(functions); i++)
        if (strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
            return apply(r, i);
    (void)tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %.*s among sizes is not implemented", (int)length, name);
    return TP_SYM_FAILED;
}

static tp_sym read_expression(reading *r)
{
    skip_space(r);
    const char *name = r->at;
    while ((*r->at >= 'a' && *r->at <= 'z') || (*r->at >= 'A' && *r->at <= 'Z') || *r->at == '_' || (r->at > name && *r->at >= '0' && *r->at <= '9'))
        r->at++;
    size_t length = (size_t)(r->at - name);
    if (!length || r->depth >= DEEPEST)
        return fail_at(r);
    if (++r->count > MOST_OPERANDS) {
        (void)tp_fail(TP_ERR_RUNTIME, "pt2: an expression of sizes has more than %d operands", MOST_OPERANDS);
        return TP_SYM_FAILED;
    }
    if (length == 4 && strncmp(name, "true", 4) == 0)
        return TP_SYM_TRUE;
    if (length == 5 && strncmp(name, "false", 5) == 0)
        return TP_SYM_FALSE;
    if (!take(r, '('))
        return fail_at(r);
    r->depth++;
    tp_sym x = length == 6 && strncmp(name, "Symbol", 6) == 0    ? read_symbol(r)
               : length == 7 && strncmp(name, "Integer", 7) == 0 ? read_number(r, true)
               : length == 5 && strncmp(name, "Float", 5) == 0   ? read_number(r, false)
                                                                 : read_call(r, name, length);
    r->depth--;
    return x;
}

tp_sym tp_pt2_parse(tp_shape_env *env, const char *text)
{
    reading r = { .env = env, .at = text };
    tp_sym x = read_expression(&r);
    skip_space(&r);
    if (tp_sym_is_failed(x)) {
        if (tp_error_kind() == TP_ERR_NONE && tp_shape_env_check(env))
            (void)tp_fail(TP_ERR_RUNTIME, "pt2: an expression of sizes cannot be computed");
        return x;
    }
    return *r.at ? fail_at(&r) : x;
}

/* ---- in JSON ---- */
bool tp_pt2_put_sym(tp_json_writer *w, tp_sym x)
{
    int64_t hint;
    double number;
    tp_json_open_object(w);
    if (tp_sym_is_int(x)) {
        tp_json_put_key(w, "as_int");
        tp_json_put_int(w, tp_sym_as_int(x));
        tp_json_close_object(w);
        return true;
    }
    tp_text text = { 0 };
    bool ok = tp_pt2_print(x, &text);
    tp_json_put_key(w, "as_expr");
    tp_json_open_object(w);
    tp_json_put_key(w, "expr_str");
    tp_json_put_text(w, tp_text_read(&text), text.length);
    tp_text_fini(&text);
    tp_json_put_key(w, "hint");
    tp_sym_type type = tp_sym_type_of(x);
    if (type == TP_SYM_FLOAT ? !tp_sym_hint_float(x, &number) : !tp_sym_hint(x, &hint))
        tp_json_put_null(w);
    else {
        tp_json_open_object(w);
        tp_json_put_key(w, type == TP_SYM_FLOAT ? "as_float" : type == TP_SYM_BOOL ? "as_bool" : "as_int");
        if (type == TP_SYM_FLOAT)
            tp_json_put_float(w, number);
        else if (type == TP_SYM_BOOL)
            tp_json_put_bool(w, hint != 0);
        else
            tp_json_put_int(w, hint);
        tp_json_close_object(w);
    }
    tp_json_close_object(w);
    tp_json_close_object(w);
    return ok;
}

tp_sym tp_pt2_get_sym(tp_shape_env *env, const tp_json *v)
{
    const tp_json *plain = tp_json_get(v, "as_int");
    const char *text = tp_json_text(tp_json_get(tp_json_get(v, "as_expr"), "expr_str"), NULL);
    if (tp_json_is(plain, TP_JSON_INT))
        return tp_sym_int(plain->integer);
    if (text)
        return tp_pt2_parse(env, text);
    (void)tp_fail(TP_ERR_RUNTIME, "pt2: a size is neither a number nor an expression");
    return TP_SYM_FAILED;
}
