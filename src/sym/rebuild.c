/* rebuild.c - going through an expression: with symbols replaced by expressions, or by numbers. */
#include <math.h>
#include <string.h>

#include "sym/node.h"

/* Replacing */

typedef struct replacing {
    const tp_binding *binding;      /* NULL: by the environment's replacements */
    size_t count;
} replacing;

static tp_sym rebuild(const replacing *r, tp_sym x);

static tp_sym replace_symbol(const replacing *r, tp_sym x)
{
    for (size_t i = 0; i < r->count; i++)
        if (tp_sym_same(r->binding[i].symbol, x))
            return r->binding[i].value;
    if (r->binding)
        return x;
    tp_sym by = tp_sym_symbol(x)->replacement;
    return tp_sym_is_failed(by) ? x : tp_sym_simplify(by);
}

/* c*n*(p//n) is c*p when n is known to divide p: only facts can tell, so only simplification looks. */
static bool exact_floordiv(const replacing *r, sym_term *t, tp_sym atom)
{
    int64_t residue;
    if (r->binding || !sym_is_kind(atom, KIND_floordiv) || !tp_sym_is_int(sym_arg(atom, 1)))
        return false;
    int64_t n = tp_sym_as_int(sym_arg(atom, 1));
    if (n < 2 || t->coefficient % n || !tp_sym_residue(sym_arg(atom, 0), n, &residue) || residue)
        return false;
    t->coefficient /= n;
    return true;
}

static tp_sym rebuild_poly(const replacing *r, tp_sym x)
{
    tp_sym sum = tp_sym_int(0);
    sym_terms t;
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count && !tp_sym_is_failed(sum); i++) {
        sym_term one = t.term[i];
        tp_sym of = one.of == UNIT ? tp_sym_int(1) : rebuild(r, (tp_sym){ one.of });
        if (exact_floordiv(r, &one, of))
            of = sym_arg(of, 0);
        sum = tp_sym_add(sum, tp_sym_scale(of, one.coefficient));
    }
    return sum;
}

static tp_sym rebuild_monomial(const replacing *r, const tp_sym_node *n)
{
    const sym_factor *f = (const sym_factor *)n->word;
    tp_sym product = tp_sym_int(1);
    for (size_t i = 0; i < n->count / 2; i++)
        product = tp_sym_mul(product, tp_sym_pow(rebuild(r, (tp_sym){ f[i].atom }), tp_sym_int(f[i].exponent)));
    return product;
}

static tp_sym rebuild_list(const replacing *r, const tp_sym_node *n, tp_sym (*join)(tp_sym, tp_sym))
{
    tp_sym x = rebuild(r, (tp_sym){ n->word[0] });
    for (size_t i = 1; i < n->count; i++)
        x = join(x, rebuild(r, (tp_sym){ n->word[i] }));
    return x;
}

static tp_sym rebuild_node(const replacing *r, tp_sym x)
{
    const tp_sym_node *n = sym_node(x);
    tp_compare how;
    tp_sym a = { 0 }, b = { 0 };
    switch ((sym_kind)n->kind) {
    case KIND_symbol: return replace_symbol(r, x);
    case KIND_number: return x;
    case KIND_poly: return rebuild_poly(r, x);
    case KIND_monomial: return rebuild_monomial(r, n);
    case KIND_max: return rebuild_list(r, n, tp_sym_max_slow);
    case KIND_min: return rebuild_list(r, n, tp_sym_min_slow);
    case KIND_and: return rebuild_list(r, n, tp_sym_and);
    case KIND_or: return rebuild_list(r, n, tp_sym_or);
    default: break;
    }
    a = rebuild(r, sym_arg(x, 0));
    if (n->count > 1)
        b = rebuild(r, sym_arg(x, 1));
    if (tp_sym_is_failed(a) || (n->count > 1 && tp_sym_is_failed(b)))
        return TP_SYM_FAILED;
    if (tp_sym_compare_of(x, &how))
        return tp_sym_compare(how, a, b);
    if (tp_sym_is_function((sym_kind)n->kind))
        return tp_sym_apply((tp_sym_function)(n->kind - KIND_sqrt), tp_sym_to_float_in(n->env, a));
    switch ((sym_kind)n->kind) {
    case KIND_floordiv: return tp_sym_floordiv(a, b);
    case KIND_mod: return tp_sym_mod(a, b);
    case KIND_pow: return tp_sym_pow(a, b);
    case KIND_abs: return tp_sym_abs(a);
    case KIND_bit_and: return tp_sym_bit_and(a, b);
    case KIND_bit_or: return tp_sym_bit_or(a, b);
    case KIND_bit_xor: return tp_sym_bit_xor(a, b);
    case KIND_round_decimal: return tp_sym_round_decimal(tp_sym_to_float_in(n->env, a), b);
    case KIND_trunc: return tp_sym_trunc(a);
    case KIND_floor: return tp_sym_floor(a);
    case KIND_ceil: return tp_sym_ceil(a);
    case KIND_round: return tp_sym_round(a);
    case KIND_not: return tp_sym_not(a);
    case KIND_where: return tp_sym_where(a, b, rebuild(r, sym_arg(x, 2)));
    case KIND_to_float: return tp_sym_to_float_in(n->env, a);
    case KIND_int_truediv:
        /* Both may have become plain integers: the quotient is then a number of the old environment. */
        if (tp_sym_is_int(a) && tp_sym_is_int(b) && !sym_is_value(b, 0))
            return tp_sym_float(n->env, (double)tp_sym_as_int(a) / (double)tp_sym_as_int(b));
        return tp_sym_truediv(a, b);
    default: return tp_sym_float_binary((sym_kind)n->kind, a, b);
    }
}

static tp_sym rebuild(const replacing *r, tp_sym x)
{
    if (!tp_sym_is_node(x))
        return x;
    if (r->binding)
        return rebuild_node(r, x);
    tp_shape_env *env = sym_env(x);
    tp_sym known = tp_sym_recall(env, 'S', x, TP_SYM_FAILED);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, 'S', x, TP_SYM_FAILED, rebuild_node(r, x)) : known;
}

tp_sym tp_sym_simplify(tp_sym x)
{
    return rebuild(&(replacing){ 0 }, x);
}

tp_sym tp_sym_substitute(tp_sym x, const tp_binding *bindings, size_t count)
{
    return count ? rebuild(&(replacing){ bindings, count }, x) : x;
}

/* Evaluating */

typedef struct value {
    bool    is_float;
    int64_t i;
    double  f;
} value;

typedef struct evaluation {
    const tp_binding *binding;      /* NULL: by hints */
    size_t count;
    bool says;                      /* by hints: what has no value because of the arithmetic sets an error all the same */
} evaluation;

static bool evaluate(const evaluation *e, tp_sym x, value *v);

/* Without bindings a missing value is an answer, not an error. */
static bool give_up(const evaluation *e, tp_err kind, const char *text)
{
    return e->binding || e->says ? tp_fail(kind, "%s", text) : NULL;
}

static bool too_large(const evaluation *e)
{
    return give_up(e, TP_ERR_OVERFLOW, "a symbolic size needs more than 64 bits");
}

static bool symbol_value(const evaluation *e, tp_sym x, value *v)
{
    const tp_symbol *s = tp_sym_symbol(x);
    for (size_t i = 0; i < e->count; i++)
        if (tp_sym_same(e->binding[i].symbol, x))
            return evaluate(e, e->binding[i].value, v);
    if (e->binding)
        return tp_fail(TP_ERR_VALUE, "the symbol %s has no value", s->name);
    if (!s->has_hint)
        return !tp_sym_is_failed(s->replacement) && evaluate(e, s->replacement, v);
    *v = (value){ .i = s->hint };
    return true;
}

static bool power_value(const evaluation *e, int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *result = exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base;
        return true;
    }
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*result, base, result))
            return too_large(e);
    return true;
}

static bool monomial_value(const evaluation *e, uint64_t of, int64_t *result)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t count = tp_sym_factors(of, &f, &own);
    value v;
    *result = 1;
    for (size_t i = 0; i < count; i++) {
        int64_t p;
        if (!evaluate(e, (tp_sym){ f[i].atom }, &v) || !power_value(e, v.i, f[i].exponent, &p))
            return false;
        if (__builtin_mul_overflow(*result, p, result))
            return too_large(e);
    }
    return true;
}

static bool poly_value(const evaluation *e, tp_sym x, value *v)
{
    sym_terms t;
    tp_sym_terms(x, &t);
    *v = (value){ 0 };
    for (size_t i = 0; i < t.count; i++) {
        int64_t m = 1;
        if (!monomial_value(e, t.term[i].of, &m))
            return false;
        if (__builtin_mul_overflow(m, t.term[i].coefficient, &m) || __builtin_add_overflow(v->i, m, &v->i))
            return too_large(e);
    }
    return true;
}

static double as_float(value v)
{
    return v.is_float ? v.f : (double)v.i;
}

static bool compare_values(tp_compare how, value a, value b)
{
    int order;
    if (a.is_float || b.is_float) {
        double x = as_float(a), y = as_float(b);
        if (isnan(x) || isnan(y))
            return how == TP_NE;
        order = x < y ? -1 : x > y;
    } else {
        order = a.i < b.i ? -1 : a.i > b.i;
    }
    bool truth[] = { [TP_EQ] = order == 0, [TP_NE] = order != 0, [TP_LT] = order < 0,
                     [TP_LE] = order <= 0, [TP_GT] = order > 0,  [TP_GE] = order >= 0 };
    return truth[how];
}

static bool list_value(const evaluation *e, const tp_sym_node *n, value *v)
{
    value one;
    if (!evaluate(e, (tp_sym){ n->word[0] }, v))
        return false;
    for (size_t i = 1; i < n->count; i++) {
        if (!evaluate(e, (tp_sym){ n->word[i] }, &one))
            return false;
        switch ((sym_kind)n->kind) {
        case KIND_max: *v = compare_values(TP_GT, one, *v) ? one : *v; break;
        case KIND_min: *v = compare_values(TP_LT, one, *v) ? one : *v; break;
        case KIND_and: v->i = v->i && one.i; break;
        default: v->i = v->i || one.i; break;
        }
    }
    return true;
}

static bool divide_values(const evaluation *e, sym_kind kind, value a, value b, value *v)
{
    if (kind == KIND_int_truediv || kind == KIND_float_truediv) {
        if (as_float(b) == 0)
            return give_up(e, TP_ERR_ZERO_DIVISION, "division by zero");
        *v = (value){ .is_float = true, .f = as_float(a) / as_float(b) };
        return true;
    }
    if (b.i == 0)
        return give_up(e, TP_ERR_ZERO_DIVISION, kind == KIND_mod ? "integer modulo by zero" : "integer division or modulo by zero");
    if (a.i == INT64_MIN && b.i == -1)
        return too_large(e);
    *v = (value){ .i = kind == KIND_mod ? tp_int_mod(a.i, b.i) : tp_int_floordiv(a.i, b.i) };
    return true;
}

static bool rounded_value(const evaluation *e, sym_kind kind, value a, value *v)
{
    double rounded = tp_sym_round_number(kind, as_float(a));
    if (!(fabs(rounded) < 0x1p63))
        return too_large(e);
    *v = (value){ .i = (int64_t)rounded };
    return true;
}

static bool node_value(const evaluation *e, tp_sym x, value *v)
{
    const tp_sym_node *n = sym_node(x);
    value a = { 0 }, b = { 0 };
    tp_compare how;
    if (!evaluate(e, sym_arg(x, 0), &a))
        return false;
    if (n->kind == KIND_where)
        return evaluate(e, sym_arg(x, a.i ? 1 : 2), v);
    if (n->count > 1 && !evaluate(e, sym_arg(x, 1), &b))
        return false;
    *v = a;
    if (tp_sym_compare_of(x, &how)) {
        *v = (value){ .i = compare_values(how, a, b) };
        return true;
    }
    if (tp_sym_is_function((sym_kind)n->kind)) {
        *v = (value){ .is_float = true, .f = tp_sym_apply_number((sym_kind)n->kind, as_float(a)) };
        return true;
    }
    switch ((sym_kind)n->kind) {
    case KIND_pow: return b.i < 0 ? give_up(e, TP_ERR_VALUE, "a negative exponent") : power_value(e, a.i, b.i, &v->i);
    case KIND_abs:
        if (!a.is_float && a.i == INT64_MIN)
            return too_large(e);
        v->f = fabs(a.f);
        v->i = a.i < 0 ? -a.i : a.i;
        return true;
    case KIND_bit_and:
    case KIND_bit_or:
    case KIND_bit_xor: v->i = tp_sym_bits((sym_kind)n->kind, a.i, b.i); return true;
    case KIND_round_decimal: v->f = tp_sym_round_to(as_float(a), b.i); return true;
    case KIND_trunc:
    case KIND_floor:
    case KIND_ceil:
    case KIND_round: return rounded_value(e, (sym_kind)n->kind, a, v);
    case KIND_not: v->i = !a.i; return true;
    case KIND_to_float: *v = (value){ .is_float = true, .f = as_float(a) }; return true;
    case KIND_float_add: v->f = as_float(a) + as_float(b); return true;
    case KIND_float_mul: v->f = as_float(a) * as_float(b); return true;
    case KIND_float_pow: v->f = pow(as_float(a), as_float(b)); return true;
    default: return divide_values(e, (sym_kind)n->kind, a, b, v);
    }
}

static bool evaluate(const evaluation *e, tp_sym x, value *v)
{
    if (tp_sym_is_int(x) || tp_sym_is_bool(x)) {
        *v = (value){ .i = tp_sym_is_int(x) ? tp_sym_as_int(x) : x.word == TP_SYM_TRUE.word };
        return true;
    }
    if (!tp_sym_is_node(x))
        return give_up(e, TP_ERR_VALUE, "the expression failed when it was built");
    const tp_sym_node *n = sym_node(x);
    switch ((sym_kind)n->kind) {
    case KIND_symbol: return symbol_value(e, x, v);
    case KIND_number:
        *v = (value){ .is_float = true };
        memcpy(&v->f, n->word, sizeof v->f);
        return true;
    case KIND_poly:
    case KIND_monomial: return poly_value(e, x, v);
    case KIND_max:
    case KIND_min:
    case KIND_and:
    case KIND_or: return list_value(e, n, v);
    default: return node_value(e, x, v);
    }
}

bool tp_sym_eval(tp_sym x, const tp_binding *bindings, size_t count, int64_t *result)
{
    static const tp_binding none = { { 0 }, { 0 } };
    evaluation e = { .binding = count ? bindings : &none, .count = count };
    value v;
    if (tp_sym_type_of(x) == TP_SYM_FLOAT)
        return tp_fail(TP_ERR_TYPE, "a symbolic float has no integer value");
    if (!evaluate(&e, x, &v))
        return false;
    *result = v.i;
    return true;
}

bool tp_sym_hint_float(tp_sym x, double *result)
{
    value v;
    if (!evaluate(&(evaluation){ 0 }, x, &v))
        return false;
    *result = as_float(v);
    return true;
}

bool tp_sym_hint_fails(tp_sym x)
{
    value v;
    return !evaluate(&(evaluation){ .says = true }, x, &v) && tp_error_kind() != TP_ERR_NONE;
}

bool tp_sym_hint(tp_sym x, int64_t *result)
{
    value v;
    if (!evaluate(&(evaluation){ 0 }, x, &v) || v.is_float)
        return false;
    *result = v.i;
    return true;
}

/* Symbols inside */

typedef struct symbol_list {
    tp_sym *item;
    size_t  count, room;
} symbol_list;

static void collect(tp_sym x, symbol_list *list)
{
    if (!tp_sym_is_node(x))
        return;
    const tp_sym_node *n = sym_node(x);
    if (n->kind == KIND_symbol) {
        size_t at = 0;
        while (at < list->count && sym_node(list->item[at])->rank < n->rank)
            at++;
        if (list->count == list->room || (at < list->count && tp_sym_same(list->item[at], x)))
            return;
        memmove(&list->item[at + 1], &list->item[at], (list->count++ - at) * sizeof x);
        list->item[at] = x;
        return;
    }
    size_t step = n->kind == KIND_poly || n->kind == KIND_monomial ? 2 : n->kind == KIND_number ? n->count + 1 : 1;
    for (size_t i = 0; i < n->count && step <= n->count; i += step)
        collect((tp_sym){ n->word[i] }, list);
}

size_t tp_sym_free_symbols(tp_sym x, tp_sym *symbols, size_t room)
{
    symbol_list list = { symbols, 0, room };
    collect(x, &list);
    return list.count;
}

bool tp_sym_has_unbacked(tp_sym x)
{
    return tp_sym_is_node(x) && sym_node(x)->unbacked;
}

bool tp_sym_mentions(tp_sym x, tp_sym symbol)
{
    if (!tp_sym_is_node(x) || tp_sym_same(x, symbol))
        return tp_sym_same(x, symbol);
    const tp_sym_node *n = sym_node(x);
    if (n->kind == KIND_symbol || n->kind == KIND_number)
        return false;
    size_t step = n->kind == KIND_poly || n->kind == KIND_monomial ? 2 : 1;
    for (size_t i = 0; i < n->count; i += step)
        if (tp_sym_mentions((tp_sym){ n->word[i] }, symbol))
            return true;
    return false;
}

/* d = 0, for a symbol that stands in one term of d, alone. */
static tp_sym solve(tp_sym d, tp_sym symbol)
{
    sym_terms t;
    int64_t coefficient = 0;
    if (tp_sym_is_failed(d))
        return d;
    tp_sym_terms(d, &t);
    for (size_t i = 0; i < t.count; i++)
        if (t.term[i].of == symbol.word)
            coefficient = t.term[i].coefficient;
    if (!coefficient)
        return TP_SYM_FAILED;
    tp_sym rest = tp_sym_sub(tp_sym_scale(symbol, coefficient), d);
    if (tp_sym_is_failed(rest) || tp_sym_mentions(rest, symbol))
        return TP_SYM_FAILED;
    return tp_sym_divide_exactly(rest, tp_sym_int(coefficient));
}

tp_sym tp_sym_solve(tp_sym equation, tp_sym symbol)
{
    if (!sym_is_kind(equation, KIND_eq) || tp_sym_type_of(sym_arg(equation, 0)) != TP_SYM_INT)
        return TP_SYM_FAILED;
    sym_quiet quiet = tp_sym_quiet_begin(sym_env(equation));
    tp_sym result = solve(tp_sym_sub(sym_arg(equation, 0), sym_arg(equation, 1)), symbol);
    tp_sym_quiet_end(sym_env(equation), quiet);
    return result;
}
