/* condition.c - comparisons, and, or, not: how they are built, their canonical form, and what is known of them. */
#include "sym/node.h"

static const sym_kind kind_of[] = { [TP_EQ] = KIND_eq, [TP_NE] = KIND_ne, [TP_LT] = KIND_lt,
                                    [TP_LE] = KIND_le, [TP_GT] = KIND_gt, [TP_GE] = KIND_ge };
static const tp_compare opposite[] = { [TP_EQ] = TP_NE, [TP_NE] = TP_EQ, [TP_LT] = TP_GE,
                                       [TP_LE] = TP_GT, [TP_GT] = TP_LE, [TP_GE] = TP_LT };

bool tp_sym_compare_of(tp_sym condition, tp_compare *how)
{
    for (int i = TP_EQ; i <= TP_GE; i++)
        if (sym_is_kind(condition, kind_of[i])) {
            *how = (tp_compare)i;
            return true;
        }
    return false;
}

static tp_answer yes_if(bool b)
{
    return b ? TP_YES : TP_NO;
}

static tp_answer negate(tp_answer a)
{
    return a == TP_UNKNOWN ? a : yes_if(a == TP_NO);
}

/* Does Min have this argument, so that it is not above it? (Max likewise, not below.) */
static bool has_argument(tp_sym x, sym_kind kind, tp_sym argument)
{
    for (size_t i = 0; sym_is_kind(x, kind) && i < sym_node(x)->count; i++)
        if (tp_sym_same(sym_arg(x, i), argument))
            return true;
    return false;
}

static tp_sym equation_of(tp_sym d, bool create);

/* Is the difference d zero? */
static tp_answer zero_known(tp_sym d, tp_range r)
{
    int64_t scale, offset, residue;
    if (r.low > 0 || r.high < 0)
        return TP_NO;
    if (r.low == 0 && r.high == 0)
        return TP_YES;
    tp_sym p = tp_sym_primitive(d, &scale, &offset, false);
    if (tp_sym_is_node(p) && (offset % scale != 0 ||
                              (tp_sym_is_symbol(p) && tp_sym_residue(p, tp_sym_symbol(p)->modulus, &residue) &&
                               tp_int_mod(-offset / scale, tp_sym_symbol(p)->modulus) != residue)))
        return TP_NO;
    tp_sym equation = equation_of(d, false);
    return tp_sym_is_node(equation) ? (tp_answer)sym_node(equation)->truth : TP_UNKNOWN;
}

/* Is 0 < d, or 0 <= d? */
static tp_answer positive_known(tp_sym d, bool or_zero)
{
    tp_range r = tp_sym_range(d);
    if (r.low > 0 || (or_zero && r.low == 0))
        return TP_YES;
    if (r.high < 0 || (!or_zero && r.high == 0))
        return TP_NO;
    if ((r.low == 0 || r.high == 0) && zero_known(d, r) == TP_NO)
        return yes_if(r.low == 0);
    /* A positive factor of all terms does not change the sign. */
    uint64_t common = tp_sym_common(d);
    if (common > UNIT && common != d.word && tp_sym_range((tp_sym){ common }).low > 0) {
        tp_sym rest = tp_sym_divide_exactly(d, (tp_sym){ common });
        if (!tp_sym_is_failed(rest))
            return positive_known(rest, or_zero);
    }
    return TP_UNKNOWN;
}

tp_answer tp_sym_sign_known(tp_compare how, tp_sym a, tp_sym b)
{
    switch (how) {
    case TP_NE: return negate(tp_sym_sign_known(TP_EQ, a, b));
    case TP_GT: return tp_sym_sign_known(TP_LT, b, a);
    case TP_GE: return tp_sym_sign_known(TP_LE, b, a);
    default: break;
    }
    if (tp_sym_same(a, b))
        return yes_if(how != TP_LT);
    tp_range ra = tp_sym_range(a), rb = tp_sym_range(b);
    if (ra.high < rb.low)
        return yes_if(how != TP_EQ);
    if (ra.low > rb.high)
        return TP_NO;
    if (how == TP_LE && ra.high == rb.low && rb.low != INT64_MIN)
        return TP_YES;
    /* Nothing is above 2**63 - 1, the open end of a slice, and no size reaches it. */
    if (how != TP_EQ && rb.low == INT64_MAX && !tp_sym_has_unbacked(a))
        return TP_YES;
    if (how == TP_LT && (has_argument(a, KIND_max, b) || has_argument(b, KIND_min, a)))
        return TP_NO;
    if (how != TP_EQ && (has_argument(a, KIND_min, b) || has_argument(b, KIND_max, a)))
        return how == TP_LE ? TP_YES : TP_UNKNOWN;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    sym_quiet quiet = tp_sym_quiet_begin(env);
    tp_sym d = tp_sym_sub(b, a);
    tp_answer answer = tp_sym_is_failed(d) ? TP_UNKNOWN
                     : how == TP_EQ        ? zero_known(d, tp_sym_range(d))
                                           : positive_known(d, how == TP_LE);
    tp_sym_quiet_end(env, quiet);
    return answer;
}

static double number_of(tp_sym x)
{
    double value = 0;
    tp_sym_hint_float(x, &value);
    return value;
}

static tp_sym compare_floats(tp_compare how, tp_sym a, tp_sym b)
{
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    a = tp_sym_to_float_in(env, a);
    b = tp_sym_to_float_in(env, b);
    if (sym_is_kind(a, KIND_number) && sym_is_kind(b, KIND_number)) {
        double x = number_of(a), y = number_of(b);
        bool truth[] = { [TP_EQ] = x == y, [TP_NE] = x != y, [TP_LT] = x < y,
                         [TP_LE] = x <= y, [TP_GT] = x > y, [TP_GE] = x >= y };
        return tp_sym_bool(truth[how]);
    }
    return tp_sym_make(kind_of[how], TP_SYM_BOOL, (tp_sym[]){ a, b }, 2);
}

tp_sym tp_sym_compare_slow(tp_compare how, tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    if (tp_sym_type_of(a) == TP_SYM_FLOAT || tp_sym_type_of(b) == TP_SYM_FLOAT)
        return compare_floats(how, a, b);
    tp_answer known = tp_sym_sign_known(how, a, b);
    if (known != TP_UNKNOWN)
        return tp_sym_bool(known == TP_YES);
    return tp_sym_make(kind_of[how], TP_SYM_BOOL, (tp_sym[]){ a, b }, 2);
}

tp_sym tp_sym_compare_as_written(tp_compare how, tp_sym a, tp_sym b)
{
    return tp_sym_make(kind_of[how], TP_SYM_BOOL, (tp_sym[]){ a, b }, 2);
}

/* And, or */

enum { OWN_ARGS = 16 };

static tp_sym junction(sym_kind kind, tp_sym a, tp_sym b)
{
    tp_sym pair[] = { a, b }, own[OWN_ARGS], *list = own, neutral = tp_sym_bool(kind == KIND_and), result;
    tp_sym absorbing = tp_sym_bool(kind != KIND_and);
    size_t room = 0, count = 0;
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return TP_SYM_FAILED;
    if (tp_sym_same(a, absorbing) || tp_sym_same(b, absorbing))
        return absorbing;
    if (tp_sym_same(a, neutral) || tp_sym_same(b, neutral))
        return tp_sym_same(a, neutral) ? b : a;
    for (int i = 0; i < 2; i++)
        room += sym_is_kind(pair[i], kind) ? sym_node(pair[i])->count : 1;
    if (room > OWN_ARGS && !(list = tp_alloc_array(room, sizeof *list)))
        return tp_sym_fail_as_set(sym_env(a));
    result = TP_SYM_FAILED;
    for (int i = 0; i < 2; i++) {
        bool nested = sym_is_kind(pair[i], kind);
        for (size_t j = 0; j < (nested ? sym_node(pair[i])->count : 1); j++) {
            tp_sym x = nested ? sym_arg(pair[i], j) : pair[i], against = tp_sym_not(x);
            size_t at = count;
            bool seen = false;
            for (size_t k = 0; k < count; k++) {
                seen = seen || tp_sym_same(list[k], x);
                if (tp_sym_same(list[k], against))
                    result = absorbing;
            }
            for (; !seen && at && sym_node(x)->rank < sym_node(list[at - 1])->rank; at--)
                list[at] = list[at - 1];
            if (!seen) {
                list[at] = x;
                count++;
            }
        }
    }
    if (tp_sym_is_failed(result))
        result = count == 1 ? list[0] : tp_sym_make(kind, TP_SYM_BOOL, list, count);
    if (list != own)
        tp_free(list);
    return result;
}

tp_sym tp_sym_and(tp_sym a, tp_sym b)
{
    return junction(KIND_and, a, b);
}

tp_sym tp_sym_or(tp_sym a, tp_sym b)
{
    return junction(KIND_or, a, b);
}

tp_sym tp_sym_not(tp_sym a)
{
    tp_compare how;
    if (tp_sym_is_failed(a))
        return a;
    if (tp_sym_is_bool(a))
        return tp_sym_bool(a.word == TP_SYM_FALSE.word);
    if (sym_is_kind(a, KIND_not))
        return sym_arg(a, 0);
    /* The opposite of a float comparison is not one: both are false of nan. */
    if (tp_sym_compare_of(a, &how) && (how <= TP_NE || tp_sym_type_of(sym_arg(a, 0)) == TP_SYM_INT))
        return tp_sym_make(kind_of[opposite[how]], TP_SYM_BOOL, (tp_sym[]){ sym_arg(a, 0), sym_arg(a, 1) }, 2);
    return tp_sym_make(KIND_not, TP_SYM_BOOL, &a, 1);
}

/* Canonical form */

enum { MOST_TERMS = 32 };

/* The comparison of d with zero: terms with a positive coefficient on one side, the others, negated, on the other. */
static tp_sym sides(sym_kind kind, tp_sym d, bool positive_left, bool create)
{
    sym_terms t;
    sym_term part[2][MOST_TERMS];
    size_t count[2] = { 0, 0 };
    tp_sym_terms(d, &t);
    if (t.count > MOST_TERMS)
        return TP_SYM_FAILED;
    for (size_t i = 0; i < t.count; i++) {
        int64_t c = t.term[i].coefficient;
        size_t side = (c > 0) == positive_left ? 0 : 1;
        part[side][count[side]++] = (sym_term){ t.term[i].of, c < 0 ? -c : c };
    }
    tp_sym args[2];
    for (int i = 0; i < 2; i++)
        args[i] = tp_sym_from_terms(sym_env(d), part[i], count[i]);
    if (create)
        return tp_sym_make(kind, TP_SYM_BOOL, args, 2);
    if (tp_sym_is_failed(args[0]) || tp_sym_is_failed(args[1]))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(args[0]), sym_env(args[1]));
    return env ? tp_sym_find(env, kind, (const uint64_t *)args, 2) : TP_SYM_FAILED;
}

static tp_sym without_content(tp_sym d)
{
    int64_t g = tp_sym_content(d);
    return g > 1 ? tp_sym_divide_exactly(d, tp_sym_int(g)) : d;
}

/* Eq(d, 0), canonical: the leading term on the left, a lone constant on the right. */
static tp_sym equation_of(tp_sym d, bool create)
{
    sym_terms t;
    d = without_content(d);
    if (!tp_sym_is_node(d))
        return TP_SYM_FAILED;
    tp_sym_terms(d, &t);
    return sides(KIND_eq, d, t.term[0].coefficient > 0, create);
}

tp_sym tp_sym_canonical(tp_sym condition)
{
    tp_compare how;
    if (!tp_sym_compare_of(condition, &how) || tp_sym_type_of(sym_arg(condition, 0)) == TP_SYM_FLOAT ||
        tp_sym_type_of(sym_arg(condition, 1)) == TP_SYM_FLOAT)
        return condition;
    tp_sym a = sym_arg(condition, 0), b = sym_arg(condition, 1), result;
    tp_shape_env *env = sym_env(condition);
    sym_quiet quiet = tp_sym_quiet_begin(env);
    tp_sym d = how == TP_GT || how == TP_GE ? tp_sym_sub(a, b) : tp_sym_sub(b, a);
    if (!tp_sym_is_node(d = without_content(d)))
        result = TP_SYM_FAILED;
    else if (how == TP_EQ)
        result = equation_of(d, true);
    else if (how == TP_NE)
        result = tp_sym_not(equation_of(d, true));
    else
        result = sides(how == TP_LT || how == TP_GT ? KIND_lt : KIND_le, d, false, true);
    tp_sym_quiet_end(env, quiet);
    return tp_sym_is_failed(result) ? condition : result;
}

/* What is known */

static tp_answer junction_known(tp_sym c)
{
    bool and = sym_is_kind(c, KIND_and);
    tp_answer all = yes_if(and);
    for (size_t i = 0; i < sym_node(c)->count; i++) {
        tp_answer one = tp_sym_known(sym_arg(c, i));
        if (one == yes_if(!and))
            return one;
        if (one == TP_UNKNOWN)
            all = TP_UNKNOWN;
    }
    return all;
}

tp_answer tp_sym_known(tp_sym condition)
{
    tp_compare how;
    tp_sym c = tp_sym_simplify(condition);
    if (tp_sym_is_failed(c))
        return TP_UNKNOWN;
    if (tp_sym_is_bool(c))
        return yes_if(c.word == TP_SYM_TRUE.word);
    if (!tp_sym_is_node(c) || sym_node(c)->type != TP_SYM_BOOL)
        return TP_UNKNOWN;
    if (sym_node(c)->truth != TP_UNKNOWN)
        return (tp_answer)sym_node(c)->truth;
    if (sym_is_kind(c, KIND_and) || sym_is_kind(c, KIND_or))
        return junction_known(c);
    if (sym_is_kind(c, KIND_not))
        return negate(tp_sym_known(sym_arg(c, 0)));
    if (!tp_sym_compare_of(c, &how) || tp_sym_type_of(sym_arg(c, 0)) != TP_SYM_INT)
        return TP_UNKNOWN;
    return tp_sym_sign_known(how, sym_arg(c, 0), sym_arg(c, 1));
}
