/* atom.c - `//`, Mod, Max, Min, Abs, bits: what they simplify to, and the atom that is left when they do not.
 *
 * The rules are those PyTorch shows, and a few more that need a known range: with b known not to be zero
 *     (b*q + r) // n     ->  q' + r//n       terms that a number n divides go first
 *     (a*b) // b         ->  a               also for sums, by exact division
 *     (a // b) // c      ->  a // (b*c)      c known positive
 *     (6*a*b) // (4*b)   ->  (3*a) // 2
 *     Mod(b*q, b) -> 0   Mod(4*q + 3, 4) -> 3   Mod(a, b) -> a when 0 <= a < b
 *     Max drops what is known not to be larger than another argument */
#include "sym/node.h"

enum { OWN_ARGS = 16 };

static tp_sym zero_division(tp_shape_env *env)
{
    return tp_sym_fail(env, TP_ERR_ZERO_DIVISION, "integer division or modulo by zero");
}

static tp_sym zero_modulus(tp_shape_env *env)
{
    return tp_sym_fail(env, TP_ERR_ZERO_DIVISION, "integer modulo by zero");
}

/* a = by*quotient + rest, taking the terms whose coefficient the number `by` divides. */
static bool split(tp_sym a, int64_t by, tp_sym *quotient, tp_sym *rest)
{
    sym_terms t;
    tp_sym_terms(a, &t);
    *quotient = *rest = tp_sym_int(0);
    for (size_t i = 0; i < t.count; i++) {
        sym_term one = t.term[i];
        bool divides = one.coefficient % by == 0;
        if (divides)
            one.coefficient /= by;
        tp_sym *into = divides ? quotient : rest;
        *into = tp_sym_add(*into, tp_sym_from_terms(sym_env(a), &one, 1));
    }
    return !tp_sym_is_failed(*quotient) && !tp_sym_is_failed(*rest);
}

/* Takes out of both what divides both: a number, and a monomial known not to be zero. */
static bool cancel(tp_sym *a, tp_sym *b)
{
    int64_t ga = tp_sym_content(*a), gb = tp_sym_content(*b);
    while (gb) {
        int64_t r = ga % gb;
        ga = gb;
        gb = r;
    }
    tp_sym common = tp_sym_int(ga);
    uint64_t ma = tp_sym_common(*a), mb = tp_sym_common(*b);
    if (ma > UNIT && mb > UNIT) {
        uint64_t m = tp_sym_common(tp_sym_add((tp_sym){ ma }, (tp_sym){ mb }));
        if (ma == mb)
            m = ma;
        if (m > UNIT && tp_sym_nonzero((tp_sym){ m }))
            common = tp_sym_mul(common, (tp_sym){ m });
    }
    if (sym_is_value(common, 1) || tp_sym_is_failed(common))
        return false;
    tp_sym qa = tp_sym_divide_exactly(*a, common), qb = tp_sym_divide_exactly(*b, common);
    if (tp_sym_is_failed(qa) || tp_sym_is_failed(qb))
        return false;
    *a = qa;
    *b = qb;
    return true;
}

static tp_sym floordiv_nodes(tp_shape_env *env, tp_sym a, tp_sym b)
{
    tp_sym args[] = { a, b }, quotient, rest;
    if (tp_sym_is_int(b)) {
        int64_t n = tp_sym_as_int(b);
        if (n == 0)
            return zero_division(env);
        if (!split(a, n, &quotient, &rest))
            return TP_SYM_FAILED;
        if (!sym_is_value(quotient, 0))
            return tp_sym_add(quotient, tp_sym_floordiv(rest, b));
    } else if (tp_sym_nonzero(b)) {
        quotient = tp_sym_divide_exactly(a, b);
        if (!tp_sym_is_failed(quotient))
            return quotient;
    }
    if (sym_is_kind(a, KIND_floordiv) && tp_sym_range(b).low > 0)
        return tp_sym_floordiv(sym_arg(a, 0), tp_sym_mul(sym_arg(a, 1), b));
    if (cancel(&a, &b))
        return tp_sym_floordiv(a, b);
    tp_sym result = tp_sym_make(KIND_floordiv, TP_SYM_INT, args, 2);
    tp_range r = tp_sym_range(result);
    return r.low == r.high && tp_sym_nonzero(b) ? tp_sym_int(r.low) : result;
}

tp_sym tp_sym_floordiv_slow(tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    if (!env)
        return sym_is_value(b, 0) ? zero_division(NULL)
                                  : tp_sym_int(tp_int_floordiv(tp_sym_as_int(a), tp_sym_as_int(b)));
    tp_sym known = tp_sym_recall(env, '/', a, b);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, '/', a, b, floordiv_nodes(env, a, b)) : known;
}

tp_sym tp_sym_ceildiv(tp_sym a, tp_sym b)
{
    return tp_sym_floordiv(tp_sym_add(a, tp_sym_sub(b, tp_sym_int(1))), b);
}

static tp_sym mod_nodes(tp_shape_env *env, tp_sym a, tp_sym b)
{
    tp_sym args[] = { a, b }, quotient, rest;
    int64_t residue;
    if (tp_sym_is_int(b)) {
        int64_t n = tp_sym_as_int(b);
        if (n == 0)
            return zero_modulus(env);
        if (!split(a, n, &quotient, &rest))
            return TP_SYM_FAILED;
        if (tp_sym_is_int(rest))
            return tp_sym_mod(rest, b);
        if (n > 0 && tp_sym_residue(a, n, &residue))
            return tp_sym_int(residue);
    } else if (tp_sym_nonzero(b)) {
        quotient = tp_sym_divide_exactly(a, b);
        if (!tp_sym_is_failed(quotient))
            return tp_sym_int(0);
    }
    if (tp_sym_range(a).low >= 0 && tp_sym_sign_known(TP_LT, a, b) == TP_YES)
        return a;
    return tp_sym_make(KIND_mod, TP_SYM_INT, args, 2);
}

tp_sym tp_sym_mod_slow(tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    if (!env)
        return sym_is_value(b, 0) ? zero_modulus(NULL) : tp_sym_int(tp_int_mod(tp_sym_as_int(a), tp_sym_as_int(b)));
    tp_sym known = tp_sym_recall(env, '%', a, b);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, '%', a, b, mod_nodes(env, a, b)) : known;
}

/* Max and Min */

static bool before(tp_sym a, tp_sym b)
{
    if (tp_sym_is_int(a) || tp_sym_is_int(b))
        return tp_sym_is_int(a);
    return sym_node(a)->rank < sym_node(b)->rank;
}

/* Adds one argument to the list unless another makes it idle, and drops those it makes idle. */
static size_t insert(sym_kind kind, tp_sym *list, size_t count, tp_sym x)
{
    tp_compare idle = kind == KIND_max ? TP_LE : TP_GE;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (tp_sym_sign_known(idle, x, list[i]) == TP_YES)
            return count;
    for (size_t i = 0; i < count; i++)
        if (tp_sym_sign_known(idle, list[i], x) != TP_YES)
            list[kept++] = list[i];
    size_t at = kept;
    for (; at && before(x, list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = x;
    return kept + 1;
}

static tp_sym extreme_nodes(tp_shape_env *env, sym_kind kind, tp_sym a, tp_sym b)
{
    tp_sym pair[] = { a, b }, own[OWN_ARGS], *list = own;
    size_t room = 0, count = 0;
    for (int i = 0; i < 2; i++)
        room += sym_is_kind(pair[i], kind) ? sym_node(pair[i])->count : 1;
    if (room > OWN_ARGS && !(list = tp_alloc_array(room, sizeof *list)))
        return tp_sym_fail_as_set(env);
    for (int i = 0; i < 2; i++) {
        bool nested = sym_is_kind(pair[i], kind);
        for (size_t j = 0; j < (nested ? sym_node(pair[i])->count : 1); j++)
            count = insert(kind, list, count, nested ? sym_arg(pair[i], j) : pair[i]);
    }
    tp_sym result = count == 1 ? list[0] : tp_sym_make(kind, TP_SYM_INT, list, count);
    if (list != own)
        tp_free(list);
    return result;
}

/* Of floats nothing is known: two arguments, as they are. */
static tp_sym extreme_floats(tp_shape_env *env, sym_kind kind, tp_sym a, tp_sym b)
{
    double x, y;
    if (tp_sym_same(a, b))
        return a;
    if (sym_is_kind(a, KIND_number) && sym_is_kind(b, KIND_number) && tp_sym_hint_float(a, &x) && tp_sym_hint_float(b, &y))
        return tp_sym_float(env, (x > y) == (kind == KIND_max) ? x : y);
    return tp_sym_make(kind, TP_SYM_FLOAT, (tp_sym[]){ a, b }, 2);
}

static tp_sym extreme(sym_kind kind, tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    if (!env)
        return (tp_sym_as_int(a) > tp_sym_as_int(b)) == (kind == KIND_max) ? a : b;
    if (tp_sym_type_of(a) == TP_SYM_FLOAT || tp_sym_type_of(b) == TP_SYM_FLOAT)
        return extreme_floats(env, kind, tp_sym_to_float_in(env, a), tp_sym_to_float_in(env, b));
    tp_sym known = tp_sym_recall(env, kind, a, b);
    if (!tp_sym_is_failed(known))
        return known;
    known = tp_sym_remember(env, kind, a, b, extreme_nodes(env, kind, a, b));
    /* The end of a slice that ranges decided. (Max is asked for strides, of which a size of 0 has any.) */
    if (kind == KIND_min && env->keeps_decided && (tp_sym_same(known, a) || tp_sym_same(known, b)) &&
        !tp_sym_note_decided(TP_LE, known, tp_sym_same(known, a) ? b : a, true))
        return TP_SYM_FAILED;
    return known;
}

tp_sym tp_sym_max_slow(tp_sym a, tp_sym b)
{
    return extreme(KIND_max, a, b);
}

tp_sym tp_sym_min_slow(tp_sym a, tp_sym b)
{
    return extreme(KIND_min, a, b);
}

static tp_sym absolute_float(tp_sym a)
{
    double x;
    if (sym_is_kind(a, KIND_number) && tp_sym_hint_float(a, &x))
        return tp_sym_float(sym_env(a), x < 0 ? -x : x);
    if (sym_is_kind(a, KIND_to_float))
        return tp_sym_to_float_in(sym_env(a), tp_sym_abs(sym_arg(a, 0)));
    return tp_sym_make(KIND_abs, TP_SYM_FLOAT, &a, 1);
}

tp_sym tp_sym_abs(tp_sym a)
{
    if (tp_sym_is_failed(a))
        return a;
    if (tp_sym_type_of(a) == TP_SYM_FLOAT)
        return absolute_float(a);
    tp_range r = tp_sym_range(a);
    if (r.low >= 0)
        return a;
    return r.high <= 0 ? tp_sym_neg(a) : tp_sym_make(KIND_abs, TP_SYM_INT, &a, 1);
}

int64_t tp_sym_bits(sym_kind kind, int64_t a, int64_t b)
{
    return kind == KIND_bit_and ? a & b : kind == KIND_bit_or ? a | b : a ^ b;
}

static tp_sym bits(sym_kind kind, tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    if (tp_sym_is_int(a) && tp_sym_is_int(b))
        return tp_sym_int(tp_sym_bits(kind, tp_sym_as_int(a), tp_sym_as_int(b)));
    return tp_sym_make(kind, TP_SYM_INT, (tp_sym[]){ a, b }, 2);
}

tp_sym tp_sym_bit_and(tp_sym a, tp_sym b)
{
    return bits(KIND_bit_and, a, b);
}

tp_sym tp_sym_bit_or(tp_sym a, tp_sym b)
{
    return bits(KIND_bit_or, a, b);
}

tp_sym tp_sym_bit_xor(tp_sym a, tp_sym b)
{
    return bits(KIND_bit_xor, a, b);
}
