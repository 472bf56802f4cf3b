/* range.c - what values an integer expression can take: intervals, and residues modulo a number.
 *
 * Interval arithmetic saturates: INT64_MIN and INT64_MAX mean "no bound" and absorb. A node's interval is that of its
 * parts, cut by what was learned of the expression itself: every polynomial is scale*p + offset with p primitive (no
 * constant, no common factor, leading coefficient positive), and facts are kept at p. */
#include "sym/node.h"

enum { MOST_TERMS = 32, LARGEST_MODULUS = 1 << 30 };      /* products of residues fit in 64 bits */

static int64_t bound_add(int64_t a, int64_t b, int64_t infinite)
{
    int64_t r;
    if (a == infinite || b == infinite)
        return infinite;
    return __builtin_add_overflow(a, b, &r) ? (a > 0 ? INT64_MAX : INT64_MIN) : r;
}

/* A lower bound that saturated at the top must not look like a single value, nor an upper one at the bottom. */
static tp_range finite(tp_range r)
{
    return (tp_range){ r.low == INT64_MAX ? INT64_MAX - 1 : r.low, r.high == INT64_MIN ? INT64_MIN + 1 : r.high };
}

tp_range tp_range_add(tp_range a, tp_range b)
{
    return finite((tp_range){ bound_add(a.low, b.low, INT64_MIN), bound_add(a.high, b.high, INT64_MAX) });
}

static int64_t bound_mul(int64_t a, int64_t b)
{
    int64_t r;
    if (a == 0 || b == 0)
        return 0;
    bool infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    if (!infinite && !__builtin_mul_overflow(a, b, &r))
        return r;
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
}

tp_range tp_range_mul(tp_range a, tp_range b)
{
    int64_t corner[] = { bound_mul(a.low, b.low), bound_mul(a.low, b.high), bound_mul(a.high, b.low),
                         bound_mul(a.high, b.high) };
    tp_range r = { corner[0], corner[0] };
    for (int i = 1; i < 4; i++) {
        r.low = corner[i] < r.low ? corner[i] : r.low;
        r.high = corner[i] > r.high ? corner[i] : r.high;
    }
    return finite(r);
}

/* An empty meeting can only come from contradicting facts; the first of them then stands. */
tp_range tp_range_meet(tp_range a, tp_range b)
{
    tp_range r = { a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high };
    return r.low <= r.high ? r : a;
}

static tp_range power_range(tp_range base, int64_t n)
{
    tp_range r = { 1, 1 };
    if (n % 2 == 0 && base.low < 0) {      /* even powers do not reach below zero: take the magnitude */
        tp_range minus = tp_range_mul(base, (tp_range){ -1, -1 });
        base = (tp_range){ base.high < 0 ? minus.low : 0, base.high > minus.high ? base.high : minus.high };
    }
    if (n > 64)
        return base.low >= 0 ? (tp_range){ base.low, INT64_MAX } : TP_RANGE_ALL;
    for (int64_t i = 0; i < n; i++)
        r = tp_range_mul(r, base);
    return r;
}

static tp_range monomial_range(const tp_sym_node *n)
{
    const sym_factor *f = (const sym_factor *)n->word;
    tp_range r = { 1, 1 };
    for (size_t i = 0; i < n->count / 2; i++)
        r = tp_range_mul(r, power_range(tp_sym_range((tp_sym){ f[i].atom }), f[i].exponent));
    return r;
}

static int64_t bound_floordiv(int64_t a, int64_t b)
{
    if (a == INT64_MIN || a == INT64_MAX)
        return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    if (b == INT64_MAX || b == INT64_MIN)
        return a == 0 || (a > 0) == (b > 0) ? 0 : -1;
    return tp_int_floordiv(a, b);
}

static tp_range floordiv_range(tp_range a, tp_range b)
{
    if (b.low == 0 && b.high > 0)
        b.low = 1;              /* where the divisor is zero there is no value to speak of */
    if (b.high == 0 && b.low < 0)
        b.high = -1;
    if (b.low <= 0 && b.high >= 0)
        return TP_RANGE_ALL;
    int64_t corner[] = { bound_floordiv(a.low, b.low), bound_floordiv(a.low, b.high), bound_floordiv(a.high, b.low),
                         bound_floordiv(a.high, b.high) };
    tp_range r = { corner[0], corner[0] };
    for (int i = 1; i < 4; i++) {
        r.low = corner[i] < r.low ? corner[i] : r.low;
        r.high = corner[i] > r.high ? corner[i] : r.high;
    }
    return r;
}

static tp_range mod_range(tp_sym x)
{
    tp_range a = tp_sym_range(sym_arg(x, 0)), b = tp_sym_range(sym_arg(x, 1));
    int64_t residue;
    if (b.low == b.high && b.low > 0 && tp_sym_residue(sym_arg(x, 0), b.low, &residue))
        return (tp_range){ residue, residue };
    if (b.low >= 0) {
        int64_t high = b.high == INT64_MAX ? INT64_MAX : b.high - 1;
        return (tp_range){ 0, a.low >= 0 && a.high < high ? a.high : high < 0 ? 0 : high };
    }
    if (b.high <= 0)
        return (tp_range){ b.low == INT64_MIN ? INT64_MIN : b.low + 1, 0 };
    return TP_RANGE_ALL;
}

static tp_range extreme_range(const tp_sym_node *n)
{
    tp_range r = tp_sym_range((tp_sym){ n->word[0] });
    for (size_t i = 1; i < n->count; i++) {
        tp_range s = tp_sym_range((tp_sym){ n->word[i] });
        bool max = n->kind == KIND_max;
        r.low = (s.low > r.low) == max ? s.low : r.low;
        r.high = (s.high > r.high) == max ? s.high : r.high;
    }
    return r;
}

static tp_range hull(tp_range a, tp_range b)
{
    return (tp_range){ a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high };
}

tp_sym tp_sym_primitive(tp_sym x, int64_t *scale, int64_t *offset, bool create)
{
    sym_terms t;
    sym_term part[MOST_TERMS];
    tp_sym_terms(x, &t);
    size_t count = t.count;
    *offset = 0;
    if (count && t.term[count - 1].of == UNIT)
        *offset = t.term[--count].coefficient;
    if (!count || count > MOST_TERMS)
        return TP_SYM_FAILED;
    uint64_t g = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t c = t.term[i].coefficient;
        for (uint64_t m = c < 0 ? 0 - (uint64_t)c : (uint64_t)c; m;) {
            uint64_t r = g % m;
            g = m;
            m = r;
        }
    }
    if (g > INT64_MAX)
        return TP_SYM_FAILED;
    *scale = t.term[0].coefficient < 0 ? -(int64_t)g : (int64_t)g;
    for (size_t i = 0; i < count; i++)
        part[i] = (sym_term){ t.term[i].of, t.term[i].coefficient / *scale };
    if (count == 1)
        return (tp_sym){ part[0].of };
    if (create)
        return tp_sym_from_terms(sym_env(x), part, count);
    tp_shape_env *home = NULL;
    for (size_t i = 0; i < count; i++)
        home = sym_deeper(home, sym_env((tp_sym){ part[i].of }));
    return tp_sym_find(home, KIND_poly, (const uint64_t *)part, count * 2);
}

/* Bounds through p//n >= (p - n + 1)/n and <= p/n for the first such term, so that s0 - s0//2 is seen to be positive:
 * n times the polynomial, with that term replaced, is a polynomial without it. */
static tp_range through_floordiv(tp_sym x, const sym_terms *t, tp_range r)
{
    for (size_t i = 0; i < t->count && t->count > 1; i++) {
        tp_sym atom = { t->term[i].of };
        if (!sym_is_kind(atom, KIND_floordiv) || !tp_sym_is_int(sym_arg(atom, 1)) ||
            tp_sym_as_int(sym_arg(atom, 1)) < 2)
            continue;
        int64_t n = tp_sym_as_int(sym_arg(atom, 1)), c = t->term[i].coefficient;
        sym_quiet quiet = tp_sym_quiet_begin(sym_env(x));
        tp_sym rest = tp_sym_sub(x, tp_sym_scale(atom, c));
        tp_sym most = tp_sym_add(tp_sym_scale(rest, n), tp_sym_scale(sym_arg(atom, 0), c));
        int64_t shift;
        if (!tp_sym_is_failed(most) && !__builtin_mul_overflow(-c, n - 1, &shift)) {
            /* One question: it may lead to another `//`, and two would double at each of them. */
            tp_range a = tp_sym_range(most), b = a;
            *(c > 0 ? &a : &b) = tp_range_add(a, (tp_range){ shift, shift });
            tp_range bounds = { a.low == INT64_MIN ? a.low : -tp_int_floordiv(-a.low, n),
                                b.high == INT64_MAX ? b.high : tp_int_floordiv(b.high, n) };
            r = tp_range_meet(r, bounds);
        }
        tp_sym_quiet_end(sym_env(x), quiet);
        break;
    }
    return r;
}

static tp_range poly_range(tp_sym x)
{
    sym_terms t;
    tp_range r = { 0, 0 };
    int64_t scale, offset;
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count; i++) {
        tp_range c = { t.term[i].coefficient, t.term[i].coefficient };
        r = tp_range_add(r, t.term[i].of == UNIT ? c : tp_range_mul(c, tp_sym_range((tp_sym){ t.term[i].of })));
    }
    tp_sym p = tp_sym_primitive(x, &scale, &offset, false);
    if (tp_sym_is_node(p) && p.word != x.word)
        r = tp_range_meet(r, tp_range_add(tp_range_mul(sym_node(p)->fact, (tp_range){ scale, scale }),
                                          (tp_range){ offset, offset }));
    return r.low == INT64_MIN || r.high == INT64_MAX || r.low < r.high ? through_floordiv(x, &t, r) : r;
}

/* Of two that are not negative: `and` is not above either, nor `or` below, and none has a bit beyond theirs. */
static tp_range bits_range(sym_kind kind, tp_range a, tp_range b)
{
    if (a.low < 0 || b.low < 0)
        return TP_RANGE_ALL;
    if (kind == KIND_bit_and)
        return (tp_range){ 0, a.high < b.high ? a.high : b.high };
    uint64_t all = (uint64_t)a.high | (uint64_t)b.high;
    for (int shift = 1; shift < 64; shift *= 2)
        all |= all >> shift;
    return (tp_range){ kind == KIND_bit_or ? (a.low > b.low ? a.low : b.low) : 0, (int64_t)all };
}

static tp_range node_range(tp_sym x)
{
    tp_sym_node *n = sym_node(x);
    switch ((sym_kind)n->kind) {
    case KIND_symbol: return n->type == TP_SYM_FLOAT ? TP_RANGE_ALL : tp_sym_symbol(x)->range;
    case KIND_monomial: return monomial_range(n);
    case KIND_poly: return poly_range(x);
    case KIND_floordiv: return floordiv_range(tp_sym_range(sym_arg(x, 0)), tp_sym_range(sym_arg(x, 1)));
    case KIND_mod: return mod_range(x);
    case KIND_max:
    case KIND_min: return n->type == TP_SYM_INT ? extreme_range(n) : TP_RANGE_ALL;
    case KIND_abs: {
        if (n->type == TP_SYM_FLOAT)
            return TP_RANGE_ALL;
        tp_range a = tp_sym_range(sym_arg(x, 0)), minus = tp_range_mul(a, (tp_range){ -1, -1 });
        return (tp_range){ 0, a.high > minus.high ? a.high : minus.high };
    }
    case KIND_pow: {
        tp_range a = tp_sym_range(sym_arg(x, 0)), e = tp_sym_range(sym_arg(x, 1));
        if (a.low < 1 || e.low < 0)
            return TP_RANGE_ALL;
        return (tp_range){ power_range(a, e.low > 64 ? 64 : e.low).low,
                           e.high > 64 ? INT64_MAX : power_range(a, e.high).high };
    }
    case KIND_bit_and:
    case KIND_bit_or:
    case KIND_bit_xor: return bits_range((sym_kind)n->kind, tp_sym_range(sym_arg(x, 0)), tp_sym_range(sym_arg(x, 1)));
    case KIND_where:
        return n->type == TP_SYM_INT ? hull(tp_sym_range(sym_arg(x, 1)), tp_sym_range(sym_arg(x, 2))) : TP_RANGE_ALL;
    default: return n->type == TP_SYM_BOOL ? (tp_range){ 0, 1 } : TP_RANGE_ALL;
    }
}

tp_range tp_sym_range(tp_sym x)
{
    if (tp_sym_is_int(x))
        return (tp_range){ tp_sym_as_int(x), tp_sym_as_int(x) };
    if (!tp_sym_is_node(x))
        return tp_sym_is_bool(x) ? (tp_range){ x.word == 6, x.word == 6 } : TP_RANGE_ALL;
    tp_sym_node *n = sym_node(x);
    uint32_t epoch = n->env->root->epoch;
    if (n->epoch != epoch) {
        tp_range r = tp_range_meet(node_range(x), n->fact);
        n->range = r;
        n->epoch = epoch;
    }
    return n->range;
}

bool tp_sym_nonzero(tp_sym x)
{
    tp_range r = tp_sym_range(x);
    return r.low > 0 || r.high < 0 || tp_sym_sign_known(TP_EQ, x, tp_sym_int(0)) == TP_NO;
}

/* Residues */

static bool atom_residue(tp_sym atom, int64_t modulus, int64_t *residue)
{
    tp_range r = tp_sym_range(atom);
    if (r.low == r.high) {
        *residue = tp_int_mod(r.low, modulus);
        return true;
    }
    if (!tp_sym_is_symbol(atom) || tp_sym_symbol(atom)->modulus % modulus)
        return false;
    *residue = tp_int_mod(tp_sym_symbol(atom)->residue, modulus);
    return true;
}

static bool monomial_residue(uint64_t of, int64_t modulus, int64_t *residue)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t count = tp_sym_factors(of, &f, &own);
    int64_t product = 1 % modulus, one;
    bool known = true;
    for (size_t i = 0; i < count; i++) {
        if (!atom_residue((tp_sym){ f[i].atom }, modulus, &one)) {
            known = false;
            continue;
        }
        if (one == 0) {
            *residue = 0;
            return true;
        }
        for (int64_t e = 0; e < f[i].exponent && e < 64; e++)
            product = product * one % modulus;
        known = known && f[i].exponent <= 64;
    }
    *residue = product;
    return known;
}

bool tp_sym_residue(tp_sym x, int64_t modulus, int64_t *residue)
{
    sym_terms t;
    int64_t sum = 0, one;
    if (modulus > LARGEST_MODULUS)
        return false;
    if (tp_sym_is_node(x)) {
        tp_sym m = tp_sym_find(sym_env(x), KIND_mod, (uint64_t[]){ x.word, tp_sym_int(modulus).word }, 2);
        if (tp_sym_is_node(m) && sym_node(m)->fact.low == sym_node(m)->fact.high) {
            *residue = sym_node(m)->fact.low;
            return true;
        }
    }
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count; i++) {
        int64_t c = tp_int_mod(t.term[i].coefficient, modulus), g = modulus;
        for (int64_t m = c; m;) {
            int64_t r = g % m;
            g = m;
            m = r;
        }
        /* c*m modulo n depends on m modulo n/gcd(c, n) only. */
        if (!monomial_residue(t.term[i].of, modulus / g, &one))
            return false;
        sum = (sum + c * one) % modulus;
    }
    *residue = sum;
    return true;
}
