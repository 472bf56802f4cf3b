/* learn.c - taking a condition as true: what follows for ranges, residues and replacements.
 *
 *     s0 <= 7              range of s0
 *     u0 < s0              range of the linear form u0 - s0, and from it those of its symbols
 *     Eq(Mod(s0, 4), 1)    residue of s0
 *     Eq(s1, s0 + 2)       replacement of s1; what was known of s1 becomes known of s0 + 2
 *     Eq((s0//2), 3)       range of s0
 *
 * Any other condition is remembered as itself. No search: each rule looks at one condition, and consequences are
 * followed a few steps only, so learning costs about as much as printing. */
#include "sym/node.h"

enum { MOST_STEPS = 8 };        /* consequences of consequences */

static bool narrow(tp_sym p, tp_range r, int steps);

static bool contradiction(tp_sym what, tp_range r, tp_range known)
{
    tp_text text = { 0 };
    tp_sym_print(what, &text);
    tp_sym_fail(sym_env(what), TP_ERR_VALUE, "%s cannot be in [%lld, %lld]: it is known to be in [%lld, %lld]",
                tp_text_read(&text), LL(r.low), LL(r.high), LL(known.low), LL(known.high));
    tp_text_fini(&text);
    return false;
}

static void new_epoch(tp_sym x)
{
    sym_env(x)->root->epoch++;
}

/* low <= x <= high for any integer expression. */
static bool bound(tp_sym x, tp_range r, int steps)
{
    int64_t scale, offset;
    if (steps > MOST_STEPS)
        return true;
    if (!tp_sym_is_node(x)) {
        int64_t n = tp_sym_as_int(x);
        return (n >= r.low && n <= r.high) || tp_fail(TP_ERR_VALUE, "%lld is not in [%lld, %lld]", LL(n), LL(r.low),
                                                      LL(r.high));
    }
    tp_sym p = tp_sym_primitive(x, &scale, &offset, true);
    if (tp_sym_is_failed(p))
        return !sym_env(x)->arena.failed;
    tp_range shifted = tp_range_add(r, (tp_range){ -offset, -offset }), in = TP_RANGE_ALL;
    if (scale < 0)
        shifted = tp_range_mul(shifted, (tp_range){ -1, -1 });
    scale = scale < 0 ? -scale : scale;
    if (shifted.low > INT64_MIN)
        in.low = -tp_int_floordiv(-shifted.low, scale);
    if (shifted.high < INT64_MAX)
        in.high = tp_int_floordiv(shifted.high, scale);
    return narrow(p, in, steps);
}

/* Every symbol of a sum lies where the rest leaves room for it. */
static bool spread_poly(tp_sym p, int steps)
{
    sym_terms t;
    tp_sym_terms(p, &t);
    for (size_t i = 0; i < t.count; i++) {
        int64_t c = t.term[i].coefficient;
        tp_sym of = { t.term[i].of };
        tp_range rest = { 0, 0 }, minus = { -1, -1 };
        if (!tp_sym_is_symbol(of))
            continue;
        for (size_t j = 0; j < t.count; j++)
            if (j != i)
                rest = tp_range_add(rest, tp_range_mul((tp_range){ t.term[j].coefficient, t.term[j].coefficient },
                                                       tp_sym_range((tp_sym){ t.term[j].of })));
        tp_range room = tp_range_add(tp_sym_range(p), tp_range_mul(rest, minus));
        tp_sym one = tp_sym_scale(of, c);
        if (tp_sym_is_failed(one) || !bound(one, room, steps + 1))
            return false;
    }
    return true;
}

/* What a range of an atom says about its arguments. */
static bool spread(tp_sym p, int steps)
{
    tp_range r = tp_sym_range(p);
    const tp_sym_node *n = sym_node(p);
    if (n->kind == KIND_poly)
        return spread_poly(p, steps);
    if (n->kind == KIND_floordiv && tp_sym_is_int(sym_arg(p, 1)) && tp_sym_as_int(sym_arg(p, 1)) > 0) {
        tp_range by = { tp_sym_as_int(sym_arg(p, 1)), tp_sym_as_int(sym_arg(p, 1)) };
        return bound(sym_arg(p, 0), tp_range_add(tp_range_mul(r, by), (tp_range){ 0, by.low - 1 }), steps + 1);
    }
    for (size_t i = 0; (n->kind == KIND_max || n->kind == KIND_min) && i < n->count; i++) {
        tp_range side = n->kind == KIND_max ? (tp_range){ INT64_MIN, r.high } : (tp_range){ r.low, INT64_MAX };
        if (tp_sym_is_node(sym_arg(p, i)) && !bound(sym_arg(p, i), side, steps + 1))
            return false;
    }
    return true;
}

static int64_t inverse_mod(int64_t a, int64_t m)
{
    int64_t r0 = m, r1 = tp_int_mod(a, m), x0 = 0, x1 = 1;
    while (r1) {
        int64_t q = r0 / r1, r = r0 - q * r1, x = x0 - q * x1;
        r0 = r1, r1 = r;
        x0 = x1, x1 = x;
    }
    return tp_int_mod(x0, m);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* Joins "residue modulo modulus" to what is known of a symbol (the Chinese remainder). */
static bool join_residue(tp_sym symbol, int64_t modulus, int64_t residue)
{
    tp_symbol *s = tp_sym_symbol(symbol);
    int64_t g = gcd(s->modulus, modulus), lcm;
    if (tp_int_mod(residue - s->residue, g))
        return tp_sym_fail(sym_env(symbol), TP_ERR_VALUE, "%s cannot be %lld modulo %lld: it is %lld modulo %lld",
                           s->name, LL(residue), LL(modulus), LL(s->residue), LL(s->modulus)).word;
    if (__builtin_mul_overflow(s->modulus / g, modulus, &lcm) || lcm > 1 << 30 || lcm == s->modulus)
        return true;
    int64_t step = tp_int_mod((residue - s->residue) / g, modulus / g) * inverse_mod(s->modulus / g, modulus / g);
    s->residue = tp_int_mod(s->residue + s->modulus * tp_int_mod(step, modulus / g), lcm);
    s->modulus = lcm;
    new_epoch(symbol);
    return narrow(symbol, s->range, 0);
}

/* x is `residue` modulo `modulus`: of use when x is c*s + k for one symbol s. */
static bool learn_residue(tp_sym x, int64_t modulus, int64_t residue)
{
    int64_t scale, offset;
    if (modulus < 2 || modulus > 1 << 30 || !tp_sym_is_node(x))
        return true;
    tp_sym p = tp_sym_primitive(x, &scale, &offset, true);
    if (tp_sym_is_failed(p) || !tp_sym_is_symbol(p))
        return !sym_env(x)->arena.failed;
    int64_t g = gcd(scale, modulus), m = modulus / g;
    int64_t target = tp_int_mod(residue - tp_int_mod(offset, modulus), modulus);
    if (target % g)
        return tp_sym_fail(sym_env(x), TP_ERR_VALUE, "no integer satisfies a congruence modulo %lld", LL(modulus)).word;
    return m == 1 || join_residue(p, m, tp_int_mod(target / g * inverse_mod(tp_int_mod(scale / g, m), m), m));
}

/* Moves bounds inwards to the residue class. */
static tp_range fit(const tp_symbol *s, tp_range r)
{
    if (s->modulus > 1 && r.low != INT64_MIN && r.low < INT64_MAX - s->modulus)
        r.low += tp_int_mod(s->residue - tp_int_mod(r.low, s->modulus), s->modulus);
    if (s->modulus > 1 && r.high != INT64_MAX && r.high > INT64_MIN + s->modulus)
        r.high -= tp_int_mod(tp_int_mod(r.high, s->modulus) - s->residue, s->modulus);
    return r;
}

/* A primitive form, atom or symbol lies in r. */
static bool narrow(tp_sym p, tp_range r, int steps)
{
    tp_range known = tp_sym_range(p);
    tp_range in = { r.low > known.low ? r.low : known.low, r.high < known.high ? r.high : known.high };
    tp_sym_node *n = sym_node(p);
    if (n->kind == KIND_symbol)
        in = fit(tp_sym_symbol(p), in);
    if (in.low > in.high)
        return contradiction(p, r, known);
    if (in.low == known.low && in.high == known.high)
        return true;
    n->fact = in;
    new_epoch(p);
    if (n->kind == KIND_symbol) {
        tp_symbol *s = tp_sym_symbol(p);
        s->range = in;
        return in.low < in.high || !tp_sym_is_failed(s->replacement) || tp_symbol_replace(p, tp_sym_int(in.low));
    }
    if (n->kind == KIND_mod && in.low == in.high && tp_sym_is_int(sym_arg(p, 1)) &&
        !learn_residue(sym_arg(p, 0), tp_sym_as_int(sym_arg(p, 1)), in.low))
        return false;
    return spread(p, steps);
}

bool tp_symbol_narrow(tp_sym symbol, tp_range range)
{
    if (tp_sym_is_failed(symbol))
        return false;
    tp_sym by = tp_sym_simplify(symbol);
    return narrow(symbol, range, 0) && !tp_sym_is_failed(by) && (tp_sym_same(by, symbol) || bound(by, range, 0));
}

/* Facts on record, read again in the light of a replacement. */
static bool relearn(tp_shape_env *env)
{
    for (; env; env = env->parent)
        for (size_t i = 0; i < env->guards.count; i++) {
            tp_sym c = tp_sym_simplify(env->guards.item[i]->condition);
            if (tp_sym_is_failed(c))
                return false;
            if (tp_sym_is_node(c) && sym_node(c)->truth != TP_YES && !tp_sym_learn(c))
                return false;
        }
    return true;
}

bool tp_symbol_replace(tp_sym symbol, tp_sym by)
{
    if (tp_sym_is_failed(symbol))
        return false;
    tp_symbol *s = tp_sym_symbol(symbol);
    by = tp_sym_simplify(by);
    if (!tp_sym_is_failed(s->replacement)) {
        tp_sym same = tp_sym_eq(tp_sym_simplify(symbol), by);
        return !tp_sym_is_failed(same) && tp_sym_learn(same);
    }
    if (tp_sym_is_failed(by) || tp_sym_mentions(by, symbol))
        return !tp_sym_is_failed(by);
    s->replacement = by;
    new_epoch(symbol);
    return bound(by, s->range, 0) && learn_residue(by, s->modulus, s->residue) && relearn(sym_env(symbol));
}

/* Which symbol of an equation to write in terms of the others: an unbacked one first, then the youngest. An unbacked
 * symbol gives way to a number or a symbol only: PyTorch's graphs keep it otherwise. */
static bool replace_by_equation(tp_sym equation)
{
    tp_sym symbol[16], best = TP_SYM_FAILED, best_by = TP_SYM_FAILED;
    size_t count = tp_sym_free_symbols(equation, symbol, TP_COUNT(symbol));
    for (size_t i = 0; i < count; i++) {
        bool unbacked = tp_sym_symbol(symbol[i])->kind != TP_SYMBOL_BACKED;
        tp_sym by = tp_sym_solve(equation, symbol[i]);
        if (tp_sym_is_failed(by) || (unbacked && !tp_sym_is_int(by) && !tp_sym_is_symbol(by)) ||
            (!unbacked && tp_sym_has_unbacked(by)))
            continue;
        if (tp_sym_is_failed(best) || unbacked || tp_sym_symbol(best)->kind == TP_SYMBOL_BACKED) {
            best = symbol[i];
            best_by = by;
        }
    }
    return tp_sym_is_failed(best) || tp_symbol_replace(best, best_by);
}

static bool learn_comparison(tp_sym c, tp_compare how)
{
    tp_sym a = sym_arg(c, 0), b = sym_arg(c, 1);
    if (tp_sym_type_of(a) != TP_SYM_INT || tp_sym_type_of(b) != TP_SYM_INT)
        return true;
    tp_sym d = tp_sym_sub(b, a);
    if (tp_sym_is_failed(d))
        return false;
    tp_range r = tp_sym_range(d);
    switch (how) {
    case TP_LT: return bound(d, (tp_range){ 1, INT64_MAX }, 0);
    case TP_LE: return bound(d, (tp_range){ 0, INT64_MAX }, 0);
    case TP_NE: return (r.low != 0 || bound(d, (tp_range){ 1, INT64_MAX }, 0)) &&
                       (r.high != 0 || bound(d, (tp_range){ INT64_MIN, -1 }, 0));
    case TP_EQ: return bound(d, (tp_range){ 0, 0 }, 0) && replace_by_equation(c);
    default: return true;       /* the canonical form has no other */
    }
}

static bool mark(tp_sym c, tp_answer truth)
{
    if (tp_sym_is_failed(c))
        return false;
    if (tp_sym_is_node(c) && sym_node(c)->truth != truth) {
        sym_node(c)->truth = truth;
        new_epoch(c);
    }
    return true;
}

bool tp_sym_learn(tp_sym condition)
{
    tp_compare how;
    if (tp_sym_is_failed(condition))
        return false;
    if (tp_sym_is_bool(condition))
        return condition.word == TP_SYM_TRUE.word || tp_fail(TP_ERR_VALUE, "a false condition was declared true");
    tp_sym c = tp_sym_canonical(condition);
    if (!tp_sym_is_node(c) || !mark(condition, TP_YES) || !mark(c, TP_YES) || !mark(tp_sym_not(condition), TP_NO) ||
        !mark(tp_sym_canonical(tp_sym_not(c)), TP_NO))
        return false;
    if (tp_sym_compare_of(c, &how))
        return learn_comparison(c, how);
    bool ok = true;
    if (sym_is_kind(c, KIND_and))
        for (size_t i = 0; ok && i < sym_node(c)->count; i++)
            ok = tp_sym_learn(tp_sym_simplify(sym_arg(c, i)));
    if (sym_is_kind(c, KIND_not) && sym_is_kind(sym_arg(c, 0), KIND_or))
        for (size_t i = 0; ok && i < sym_node(sym_arg(c, 0))->count; i++)
            ok = tp_sym_learn(tp_sym_simplify(tp_sym_not(sym_arg(sym_arg(c, 0), i))));
    return ok;
}
