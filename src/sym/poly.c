/* poly.c - integer expressions as canonical polynomials with integer coefficients over atoms.
 *
 *     3*s0**2*s1 - s1 + 7     terms     ((s0,2)(s1,1), 3)  ((s1,1), -1)  (UNIT, 7)
 *
 * Terms stand in falling lexicographic order: the atom of lowest rank weighs most. The order is compatible with
 * multiplication, so a product by one term needs no sorting and division can work from the leading term.
 * Always: no coefficient is zero or INT64_MIN. */
#include <string.h>

#include "sym/node.h"

enum { OWN_TERMS = 24, OWN_FACTORS = 24, MAX_EXPONENT = 1 << 20, MAX_EXPANDED_POWER = 16 };

/* Room for the terms of a result: on the stack while they are few. */
typedef struct term_buffer {
    sym_term *at;
    size_t    count;
    sym_term  own[OWN_TERMS];
} term_buffer;

static bool buffer_init(term_buffer *b, size_t room)
{
    b->count = 0;
    b->at = room <= OWN_TERMS ? b->own : tp_alloc_array(room, sizeof *b->at);
    return b->at != NULL;
}

static void buffer_fini(term_buffer *b)
{
    if (b->at != b->own)
        tp_free(b->at);
}

static tp_sym overflow(tp_shape_env *env)
{
    return tp_sym_fail(env, TP_ERR_OVERFLOW, "a symbolic size needs more than 64 bits");
}

void tp_sym_terms(tp_sym x, sym_terms *t)
{
    if (sym_is_kind(x, KIND_poly)) {
        t->term = (const sym_term *)sym_node(x)->word;
        t->count = sym_node(x)->count / 2;
        return;
    }
    t->own = tp_sym_is_int(x) ? (sym_term){ UNIT, tp_sym_as_int(x) } : (sym_term){ x.word, 1 };
    t->term = &t->own;
    t->count = t->own.coefficient != 0;
}

size_t tp_sym_factors(uint64_t of, const sym_factor **factors, sym_factor *own)
{
    if (of == UNIT)
        return 0;
    if (sym_is_kind((tp_sym){ of }, KIND_monomial)) {
        *factors = (const sym_factor *)sym_node((tp_sym){ of })->word;
        return sym_node((tp_sym){ of })->count / 2;
    }
    *own = (sym_factor){ of, 1 };
    *factors = own;
    return 1;
}

static uint32_t rank_of(uint64_t atom)
{
    return sym_node((tp_sym){ atom })->rank;
}

/* Negative: `a` stands behind `b`. */
static int order(uint64_t a, uint64_t b)
{
    const sym_factor *fa = NULL, *fb = NULL;
    sym_factor own_a, own_b;
    if (a == b)
        return 0;
    size_t na = tp_sym_factors(a, &fa, &own_a), nb = tp_sym_factors(b, &fb, &own_b);
    for (size_t i = 0; i < na && i < nb; i++) {
        if (fa[i].atom != fb[i].atom)
            return rank_of(fa[i].atom) < rank_of(fb[i].atom) ? 1 : -1;
        if (fa[i].exponent != fb[i].exponent)
            return fa[i].exponent > fb[i].exponent ? 1 : -1;
    }
    return na > nb ? 1 : -1;
}

tp_sym tp_sym_from_terms(tp_shape_env *env, const sym_term *terms, size_t count)
{
    if (count == 0)
        return tp_sym_int(0);
    if (count == 1 && terms[0].of == UNIT) {
        tp_sym n = tp_sym_int(terms[0].coefficient);
        return tp_sym_is_failed(n) ? tp_sym_fail_as_set(env) : n;
    }
    if (count == 1 && terms[0].coefficient == 1)
        return (tp_sym){ terms[0].of };
    tp_shape_env *home = NULL;
    for (size_t i = 0; i < count; i++)
        home = sym_deeper(home, sym_env((tp_sym){ terms[i].of }));
    return tp_sym_intern(home, KIND_poly, TP_SYM_INT, (const uint64_t *)terms, count * 2);
}

/* out = a + scale*b. False: 64 bits do not hold a coefficient. */
static bool merge(const sym_term *a, size_t na, const sym_term *b, size_t nb, int64_t scale, term_buffer *out)
{
    size_t i = 0, j = 0;
    out->count = 0;
    while (i < na || j < nb) {
        int o = j == nb ? 1 : i == na ? -1 : order(a[i].of, b[j].of);
        sym_term t = { .of = o >= 0 ? a[i].of : b[j].of };
        if (o <= 0 && __builtin_mul_overflow(b[j].coefficient, scale, &t.coefficient))
            return false;
        if (o >= 0 && __builtin_add_overflow(t.coefficient, a[i].coefficient, &t.coefficient))
            return false;
        i += o >= 0;
        j += o <= 0;
        if (t.coefficient == INT64_MIN)     /* never a coefficient, so that each may be negated and divided */
            return false;
        if (t.coefficient)
            out->at[out->count++] = t;
    }
    return true;
}

static tp_sym combine(tp_shape_env *env, tp_sym a, tp_sym b, int64_t scale)
{
    sym_terms ta, tb;
    term_buffer out;
    tp_sym_terms(a, &ta);
    tp_sym_terms(b, &tb);
    if (!buffer_init(&out, ta.count + tb.count))
        return tp_sym_fail_as_set(env);
    tp_sym r = merge(ta.term, ta.count, tb.term, tb.count, scale, &out) ? tp_sym_from_terms(env, out.at, out.count)
                                                                        : overflow(env);
    buffer_fini(&out);
    return r;
}

static tp_sym integer_result(tp_shape_env *env, bool overflows, int64_t value)
{
    tp_sym r = overflows ? overflow(env) : tp_sym_int(value);
    return tp_sym_is_failed(r) ? tp_sym_fail_as_set(env) : r;
}

/* Operands of arithmetic: failed ones are handed on, floats go to float.c, conditions are a mistake of ours. */
typedef enum operands { OPERANDS_FAILED, OPERANDS_INTEGERS, OPERANDS_FLOAT, OPERANDS_NODES } operands;

static operands look(tp_sym a, tp_sym b)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(b))
        return OPERANDS_FAILED;
    if (tp_sym_is_int(a) && tp_sym_is_int(b))
        return OPERANDS_INTEGERS;
    return tp_sym_type_of(a) == TP_SYM_FLOAT || tp_sym_type_of(b) == TP_SYM_FLOAT ? OPERANDS_FLOAT : OPERANDS_NODES;
}

static tp_sym float_node(sym_kind kind, tp_sym a, tp_sym b)
{
    return tp_sym_float_binary(kind, tp_sym_to_float_in(sym_env(b), a), tp_sym_to_float_in(sym_env(a), b));
}

tp_sym tp_sym_add_slow(tp_sym a, tp_sym b)
{
    int64_t r;
    switch (look(a, b)) {
    case OPERANDS_FAILED: return TP_SYM_FAILED;
    case OPERANDS_FLOAT: return float_node(KIND_float_add, a, b);
    case OPERANDS_INTEGERS: {
        bool overflows = __builtin_add_overflow(tp_sym_as_int(a), tp_sym_as_int(b), &r);
        return integer_result(NULL, overflows, r);
    }
    case OPERANDS_NODES: break;
    }
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    tp_sym known = tp_sym_recall(env, '+', a, b);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, '+', a, b, combine(env, a, b, 1)) : known;
}

tp_sym tp_sym_sub_slow(tp_sym a, tp_sym b)
{
    int64_t r;
    switch (look(a, b)) {
    case OPERANDS_FAILED: return TP_SYM_FAILED;
    case OPERANDS_FLOAT:
        b = tp_sym_mul(tp_sym_int(-1), b);
        return sym_is_value(a, 0) ? b : tp_sym_add(a, b);
    case OPERANDS_INTEGERS: {
        bool overflows = __builtin_sub_overflow(tp_sym_as_int(a), tp_sym_as_int(b), &r);
        return integer_result(NULL, overflows, r);
    }
    case OPERANDS_NODES: break;
    }
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    tp_sym known = tp_sym_recall(env, '-', a, b);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, '-', a, b, combine(env, a, b, -1)) : known;
}

/* The monomial of these factors, ordered by rank, without zero exponents; 0: failed. */
static uint64_t from_factors(const sym_factor *f, size_t count)
{
    if (count == 0)
        return UNIT;
    if (count == 1 && f[0].exponent == 1)
        return f[0].atom;
    tp_shape_env *env = NULL;
    for (size_t i = 0; i < count; i++)
        env = sym_deeper(env, sym_env((tp_sym){ f[i].atom }));
    return tp_sym_intern(env, KIND_monomial, TP_SYM_INT, (const uint64_t *)f, count * 2).word;
}

/* a * b**sign as monomials. 0: failed (an error is set) for a product, not divisible (none is set) for a quotient. */
static uint64_t join(tp_shape_env *env, uint64_t a, uint64_t b, int sign)
{
    const sym_factor *fa = NULL, *fb = NULL;
    sym_factor own_a, own_b, own[OWN_FACTORS], *out = own;
    if (b == UNIT)
        return a;
    size_t na = tp_sym_factors(a, &fa, &own_a), nb = tp_sym_factors(b, &fb, &own_b), n = 0, i = 0, j = 0;
    uint64_t result = 0;
    if (na + nb > OWN_FACTORS && !(out = tp_alloc_array(na + nb, sizeof *out)))
        return tp_sym_fail_as_set(env).word;
    while (i < na || j < nb) {
        bool left = j == nb || (i < na && rank_of(fa[i].atom) <= rank_of(fb[j].atom));
        bool right = i == na || (j < nb && rank_of(fb[j].atom) <= rank_of(fa[i].atom));
        sym_factor f = { left ? fa[i].atom : fb[j].atom, 0 };
        f.exponent = (left ? fa[i].exponent : 0) + (right ? sign * fb[j].exponent : 0);
        i += left;
        j += right;
        if (f.exponent < 0)
            goto out;
        if (f.exponent > MAX_EXPONENT) {
            overflow(env);
            goto out;
        }
        if (f.exponent)
            out[n++] = f;
    }
    result = from_factors(out, n);
out:
    if (out != own)
        tp_free(out);
    return result;
}

/* out = one term times `b`. */
static bool multiply_term(tp_shape_env *env, sym_term t, const sym_terms *b, term_buffer *out)
{
    out->count = 0;
    for (size_t j = 0; j < b->count; j++) {
        sym_term *p = &out->at[out->count++];
        if (!(p->of = join(env, b->term[j].of, t.of, 1)))
            return false;
        if (__builtin_mul_overflow(t.coefficient, b->term[j].coefficient, &p->coefficient) ||
            p->coefficient == INT64_MIN)
            return overflow(env).word;
    }
    return true;
}

static tp_sym expand(tp_shape_env *env, tp_sym a, tp_sym b)
{
    sym_terms ta, tb;
    term_buffer row, sum[2];
    tp_sym_terms(a, &ta);
    tp_sym_terms(b, &tb);
    size_t room = ta.count * tb.count, now = 0;
    row.at = row.own, sum[0].at = sum[0].own, sum[1].at = sum[1].own;
    bool ok = buffer_init(&row, tb.count) && buffer_init(&sum[0], room) && buffer_init(&sum[1], room);
    for (size_t i = 0; ok && i < ta.count; i++, now ^= 1) {
        ok = multiply_term(env, ta.term[i], &tb, &row);
        if (ok && !merge(sum[now].at, sum[now].count, row.at, row.count, 1, &sum[now ^ 1]))
            ok = overflow(env).word;
    }
    tp_sym r = ok ? tp_sym_from_terms(env, sum[now].at, sum[now].count) : tp_sym_fail_as_set(env);
    buffer_fini(&sum[1]);
    buffer_fini(&sum[0]);
    buffer_fini(&row);
    return r;
}

tp_sym tp_sym_mul_slow(tp_sym a, tp_sym b)
{
    int64_t r;
    switch (look(a, b)) {
    case OPERANDS_FAILED: return TP_SYM_FAILED;
    case OPERANDS_FLOAT: return float_node(KIND_float_mul, a, b);
    case OPERANDS_INTEGERS: {
        bool overflows = __builtin_mul_overflow(tp_sym_as_int(a), tp_sym_as_int(b), &r);
        return integer_result(NULL, overflows, r);
    }
    case OPERANDS_NODES: break;
    }
    if (a.word > b.word) {
        tp_sym swap = a;
        a = b;
        b = swap;
    }
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    tp_sym known = tp_sym_recall(env, '*', a, b);
    return tp_sym_is_failed(known) ? tp_sym_remember(env, '*', a, b, expand(env, a, b)) : known;
}

tp_sym tp_sym_scale(tp_sym x, int64_t by)
{
    return tp_sym_mul(x, tp_sym_int(by));
}

static tp_sym power(tp_sym base, int64_t n)
{
    tp_sym r = tp_sym_int(1);
    for (; n; n >>= 1) {
        if (n & 1)
            r = tp_sym_mul(r, base);
        if (n > 1)
            base = tp_sym_mul(base, base);
        if (tp_sym_is_failed(r))
            break;
    }
    return r;
}

tp_sym tp_sym_pow(tp_sym a, tp_sym exponent)
{
    if (tp_sym_is_failed(a) || tp_sym_is_failed(exponent))
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(exponent));
    if (tp_sym_type_of(a) == TP_SYM_FLOAT || tp_sym_type_of(exponent) == TP_SYM_FLOAT)
        return float_node(KIND_float_pow, a, exponent);
    if (tp_sym_range(exponent).high < 0 && env)
        return float_node(KIND_float_pow, tp_sym_to_float_in(env, a), tp_sym_to_float_in(env, exponent));
    if (tp_sym_range(exponent).low < 0)
        return tp_sym_fail(env, TP_ERR_VALUE, "the power of a symbolic integer needs an exponent that is not negative");
    if (tp_sym_is_int(exponent) && (!sym_is_kind(a, KIND_poly) || sym_node(a)->count == 2 ||
                                    tp_sym_as_int(exponent) <= MAX_EXPANDED_POWER))
        return power(a, tp_sym_as_int(exponent));
    if (sym_is_value(a, 1))
        return a;
    return tp_sym_make(KIND_pow, TP_SYM_INT, (tp_sym[]){ a, exponent }, 2);
}

/* Parts of polynomials */

static uint64_t magnitude(int64_t n)
{
    return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

int64_t tp_sym_content(tp_sym x)
{
    sym_terms t;
    uint64_t g = 0;
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count && g != 1; i++)
        g = gcd(g, magnitude(t.term[i].coefficient));
    return g > INT64_MAX ? 1 : (int64_t)g;
}

tp_sym tp_sym_constant(tp_sym x, int64_t *constant)
{
    sym_terms t;
    tp_sym_terms(x, &t);
    *constant = 0;
    if (!t.count || t.term[t.count - 1].of != UNIT)
        return x;
    *constant = t.term[t.count - 1].coefficient;
    return tp_sym_from_terms(sym_env(x), t.term, t.count - 1);
}

/* The greatest monomial dividing both. */
static uint64_t common_monomial(uint64_t a, uint64_t b)
{
    const sym_factor *fa = NULL, *fb = NULL;
    sym_factor own_a, own_b, out[OWN_FACTORS];
    size_t na = tp_sym_factors(a, &fa, &own_a), nb = tp_sym_factors(b, &fb, &own_b), n = 0;
    for (size_t i = 0; i < na && n < OWN_FACTORS; i++)
        for (size_t j = 0; j < nb; j++)
            if (fa[i].atom == fb[j].atom)
                out[n++] = (sym_factor){ fa[i].atom,
                                         fa[i].exponent < fb[j].exponent ? fa[i].exponent : fb[j].exponent };
    return from_factors(out, n);
}

uint64_t tp_sym_common(tp_sym x)
{
    sym_terms t;
    tp_sym_terms(x, &t);
    uint64_t common = t.count ? t.term[0].of : UNIT;
    for (size_t i = 1; i < t.count && common != UNIT && common; i++)
        common = common_monomial(common, t.term[i].of);
    return common;
}

tp_sym tp_sym_divide_exactly(tp_sym a, tp_sym b)
{
    sym_terms ta, tb;
    tp_sym quotient = tp_sym_int(0);
    tp_sym_terms(b, &tb);
    if (!tb.count)
        return TP_SYM_FAILED;
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    while (!sym_is_value(a, 0)) {
        tp_sym_terms(a, &ta);
        sym_term lead = ta.term[0], by = tb.term[0];
        if (lead.coefficient % by.coefficient != 0)
            return TP_SYM_FAILED;
        sym_term q = { join(env, lead.of, by.of, -1), lead.coefficient / by.coefficient };
        if (!q.of)
            return TP_SYM_FAILED;
        tp_sym step = tp_sym_from_terms(env, &q, 1);
        quotient = tp_sym_add(quotient, step);
        a = tp_sym_sub(a, tp_sym_mul(step, b));
        if (tp_sym_is_failed(a) || tp_sym_is_failed(quotient))
            return TP_SYM_FAILED;
    }
    return quotient;
}
