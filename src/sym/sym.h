/* sym.h - sizes that may be unknown: integers, expressions over symbols, conditions on them.
 *
 * A tp_sym is one word, copied freely, owned by nobody:
 *
 *     ................................1   an integer of 63 bits, shifted left by one
 *     1..............................0    a wide integer, 2**62 up to 2**63 - 1, also shifted (its top bit is implied)
 *     0..............................0    the same for negative ones, whose words are 2**56 or above
 *     0000 0000 <56-bit address>  000    a node (sym/node.h) of a shape environment
 *     2, 6                               False, True
 *     0                                  failed: the result of an operation that could not be done
 *
 * so plain integers need no environment and no memory, and the open end of a slice, 2**63 - 1, is one of them. (What no
 * word can say are the integers below -2**63 + 2**55: TP_ERR_OVERFLOW.) Integer nodes are canonical polynomials over
 * atoms: symbols, `//`, Mod, Max, Min, Pow. Conditions are comparisons, and/or/not. Floats (of `.item()`) have nodes
 * too.
 *
 * Always: nodes are interned, so within one environment, its ancestors and the integers two expressions that simplify
 * alike are the same word: equality and hash are those of the word. A node dies with its environment.
 * An expression over nodes of several environments belongs to the deepest; they must be on one line of descent.
 * `//` rounds down and Mod has the sign of the divisor, as in Python, whatever the operands' signs.
 *
 * Fails: no memory, values beyond 64 bits (TP_ERR_OVERFLOW), a divisor known to be zero (TP_ERR_ZERO_DIVISION). The
 * result is then the failed word, which later operations hand on silently, and the environment keeps the first error
 * (tp_shape_env_check, env.h). An environment is used by one thread at a time. */
#ifndef TP_SYM_SYM_H
#define TP_SYM_SYM_H

#include "base/text.h"

typedef struct tp_sym {
    uint64_t word;
} tp_sym;

typedef struct tp_shape_env tp_shape_env;

typedef enum tp_answer { TP_NO, TP_YES, TP_UNKNOWN } tp_answer;
typedef enum tp_sym_type { TP_SYM_INT, TP_SYM_BOOL, TP_SYM_FLOAT } tp_sym_type;

/* Inclusive. INT64_MIN and INT64_MAX stand for "no bound". */
typedef struct tp_range {
    int64_t low, high;
} tp_range;

/* What a symbol stands for in tp_sym_substitute and tp_sym_eval. */
typedef struct tp_binding {
    tp_sym symbol, value;
} tp_binding;

#define TP_SYM_FAILED ((tp_sym){ 0 })
#define TP_SYM_FALSE ((tp_sym){ 2 })
#define TP_SYM_TRUE ((tp_sym){ 6 })
#define TP_SYM_FIRST_WIDE ((uint64_t)1 << 56)
#define TP_RANGE_ALL ((tp_range){ INT64_MIN, INT64_MAX })

/* Words. */
static inline bool tp_sym_is_small(tp_sym x)
{
    return x.word & 1;
}

static inline bool tp_sym_is_int(tp_sym x)
{
    return (x.word & 1) || x.word >= TP_SYM_FIRST_WIDE;
}

static inline bool tp_sym_is_failed(tp_sym x)
{
    return x.word == 0;
}

static inline bool tp_sym_same(tp_sym a, tp_sym b)
{
    return a.word == b.word;
}

static inline tp_sym tp_sym_bool(bool b)
{
    return b ? TP_SYM_TRUE : TP_SYM_FALSE;
}

/* True or False, decided */
static inline bool tp_sym_is_bool(tp_sym x)
{
    return x.word == 2 || x.word == 6;
}

static inline bool tp_sym_is_node(tp_sym x)
{
    return !(x.word & 7) && x.word - 1 < TP_SYM_FIRST_WIDE - 1;
}

TP_API tp_sym tp_sym_wide(int64_t n);                   /* tp_sym_int's rare case */
TP_API uint64_t tp_sym_hash(tp_sym x);

static inline tp_sym tp_sym_int(int64_t n)
{
    return TP_LIKELY((uint64_t)n + ((uint64_t)1 << 62) < (uint64_t)1 << 63) ? (tp_sym){ (uint64_t)n << 1 | 1 }
                                                                           : tp_sym_wide(n);
}

/* The integer of a word for which tp_sym_is_int holds. */
static inline int64_t tp_sym_as_int(tp_sym x)
{
    if (TP_LIKELY(x.word & 1))
        return (int64_t)x.word >> 1;
    return (int64_t)(x.word >> 1 | (x.word >> 63 ? 0 : (uint64_t)1 << 63));
}

TP_API tp_sym_type tp_sym_type_of(tp_sym x);
TP_API tp_shape_env *tp_sym_env(tp_sym x);              /* borrowed; NULL for integers, True, False, failed */
TP_API bool tp_sym_is_symbol(tp_sym x);

/* Arithmetic. Operands are integers (or floats, where noted); two plain integers never leave the inline part. */
TP_API tp_sym tp_sym_add_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_sub_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_mul_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_floordiv_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_mod_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_min_slow(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_max_slow(tp_sym a, tp_sym b);

static inline bool tp_sym_both_small(tp_sym a, tp_sym b)
{
    return a.word & b.word & 1;
}

static inline tp_sym tp_sym_add(tp_sym a, tp_sym b)     /* int or float */
{
    int64_t r;
    if (TP_LIKELY(tp_sym_both_small(a, b) && !__builtin_add_overflow((int64_t)a.word, (int64_t)(b.word - 1), &r)))
        return (tp_sym){ (uint64_t)r };
    return tp_sym_add_slow(a, b);
}

static inline tp_sym tp_sym_sub(tp_sym a, tp_sym b)     /* int or float */
{
    int64_t r;
    if (TP_LIKELY(tp_sym_both_small(a, b) && !__builtin_sub_overflow((int64_t)a.word, (int64_t)(b.word - 1), &r)))
        return (tp_sym){ (uint64_t)r };
    return tp_sym_sub_slow(a, b);
}

static inline tp_sym tp_sym_mul(tp_sym a, tp_sym b)     /* int or float */
{
    int64_t r;
    if (TP_LIKELY(tp_sym_both_small(a, b) &&
                  !__builtin_mul_overflow((int64_t)(a.word - 1), (int64_t)b.word >> 1, &r)))
        return (tp_sym){ (uint64_t)r | 1 };
    return tp_sym_mul_slow(a, b);
}

static inline int64_t tp_int_floordiv(int64_t a, int64_t b)     /* b != 0, not INT64_MIN / -1 */
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t tp_int_mod(int64_t a, int64_t b)          /* b != 0; the sign of b */
{
    int64_t r = b == -1 ? 0 : a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static inline tp_sym tp_sym_floordiv(tp_sym a, tp_sym b)
{
    if (TP_LIKELY(tp_sym_both_small(a, b) && b.word != 1))
        return tp_sym_int(tp_int_floordiv((int64_t)a.word >> 1, (int64_t)b.word >> 1));
    return tp_sym_floordiv_slow(a, b);
}

static inline tp_sym tp_sym_mod(tp_sym a, tp_sym b)
{
    if (TP_LIKELY(tp_sym_both_small(a, b) && b.word != 1))
        return tp_sym_int(tp_int_mod((int64_t)a.word >> 1, (int64_t)b.word >> 1));
    return tp_sym_mod_slow(a, b);
}

static inline tp_sym tp_sym_min(tp_sym a, tp_sym b)
{
    return TP_LIKELY(tp_sym_both_small(a, b)) ? ((int64_t)a.word < (int64_t)b.word ? a : b) : tp_sym_min_slow(a, b);
}

static inline tp_sym tp_sym_max(tp_sym a, tp_sym b)
{
    return TP_LIKELY(tp_sym_both_small(a, b)) ? ((int64_t)a.word > (int64_t)b.word ? a : b) : tp_sym_max_slow(a, b);
}

static inline tp_sym tp_sym_neg(tp_sym a)
{
    return tp_sym_sub(tp_sym_int(0), a);
}

TP_API tp_sym tp_sym_ceildiv(tp_sym a, tp_sym b);       /* -(-a // b), written as PyTorch does: (a + b - 1) // b */
TP_API tp_sym tp_sym_pow(tp_sym a, tp_sym exponent);    /* a float where an integer exponent is known to be negative */
TP_API tp_sym tp_sym_abs(tp_sym a);                     /* int or float, as are Max and Min */
TP_API tp_sym tp_sym_bit_and(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_bit_or(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_bit_xor(tp_sym a, tp_sym b);

/* Floats, as far as `.item()` and true division need them. */
TP_API tp_sym tp_sym_float(tp_shape_env *env, double value);
TP_API tp_sym tp_sym_to_float(tp_sym a);                /* ToFloat(a); a float is returned as it is */
TP_API tp_sym tp_sym_truediv(tp_sym a, tp_sym b);       /* at least one operand is a node */
/* A float to an integer: rounded to zero, down, up, to the nearest (ties to even). An integer is returned as it is. */
TP_API tp_sym tp_sym_trunc(tp_sym a);
TP_API tp_sym tp_sym_floor(tp_sym a);
TP_API tp_sym tp_sym_ceil(tp_sym a);
TP_API tp_sym tp_sym_round(tp_sym a);
TP_API tp_sym tp_sym_round_decimal(tp_sym a, tp_sym digits);     /* of a float, a node, to a number of decimals */
/* Functions of a float, as `torch._sym_sqrt` and its kind have them; an integer is made a float first. */
#define TP_SYM_FUNCTIONS(EACH) \
    EACH(sqrt) EACH(cos) EACH(cosh) EACH(sin) EACH(sinh) EACH(tan) EACH(tanh) EACH(asin) EACH(acos) EACH(atan) EACH(log2)
typedef enum tp_sym_function {
#define TP_SYM_ONE(name) TP_SYM_FN_##name,
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
    TP_SYM_FN_COUNT
} tp_sym_function;
TP_API tp_sym tp_sym_apply(tp_sym_function f, tp_sym a);       /* `a` is a node */
TP_API tp_sym tp_sym_where(tp_sym condition, tp_sym a, tp_sym b);

/* Conditions. Decided ones are True or False at once; others keep the sides as written, for messages print them so. */
typedef enum tp_compare { TP_EQ, TP_NE, TP_LT, TP_LE, TP_GT, TP_GE } tp_compare;
TP_API tp_sym tp_sym_compare_slow(tp_compare how, tp_sym a, tp_sym b);

static inline tp_sym tp_sym_compare(tp_compare how, tp_sym a, tp_sym b)
{
    if (TP_UNLIKELY(!tp_sym_both_small(a, b)))
        return tp_sym_compare_slow(how, a, b);
    int64_t x = (int64_t)a.word, y = (int64_t)b.word;
    switch (how) {
    case TP_EQ: return tp_sym_bool(x == y);
    case TP_NE: return tp_sym_bool(x != y);
    case TP_LT: return tp_sym_bool(x < y);
    case TP_LE: return tp_sym_bool(x <= y);
    case TP_GT: return tp_sym_bool(x > y);
    case TP_GE: return tp_sym_bool(x >= y);
    }
    return TP_SYM_FAILED;
}

static inline tp_sym tp_sym_eq(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_EQ, a, b);
}

static inline tp_sym tp_sym_ne(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_NE, a, b);
}

static inline tp_sym tp_sym_lt(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_LT, a, b);
}

static inline tp_sym tp_sym_le(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_LE, a, b);
}

static inline tp_sym tp_sym_gt(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_GT, a, b);
}

static inline tp_sym tp_sym_ge(tp_sym a, tp_sym b)
{
    return tp_sym_compare(TP_GE, a, b);
}

TP_API tp_sym tp_sym_and(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_or(tp_sym a, tp_sym b);
TP_API tp_sym tp_sym_not(tp_sym a);

/* The form under which facts are kept: one constant moved, terms split so that both sides have positive coefficients
 * and no common factor, only Eq, Ne, `<`, `<=`: `s0 > 5` becomes `5 < s0`, `2*s0 - 4 >= 0` becomes `2 <= s0`. */
TP_API tp_sym tp_sym_canonical(tp_sym condition);

/* What a decided comparison was about, for an environment that keeps it (tp_shape_env_keep_decided); else nothing is done. */
TP_API TP_CHECK bool tp_sym_note_decided(tp_compare how, tp_sym a, tp_sym b, bool answer);

/* Questions that record nothing. */
TP_API tp_answer tp_sym_known(tp_sym condition);        /* from structure, ranges and facts; never from hints */
TP_API tp_range tp_sym_range(tp_sym x);                 /* of an integer; a condition: within [0, 1] */
TP_API bool tp_sym_has_unbacked(tp_sym x);
TP_API bool tp_sym_hint(tp_sym x, int64_t *value);      /* false: no hint (no error set); conditions give 0 or 1 */
TP_API bool tp_sym_hint_float(tp_sym x, double *value); /* the same, of any type */

/* The question tracing asks: decides by tp_sym_known, else by the hint, and then records a guard that the hint's answer
 * will hold. Fails (TP_ERR_GUARD) when there is neither. A number asks
 * whether it is not zero. */
TP_API TP_CHECK bool tp_sym_guard(tp_sym condition, bool *answer);
TP_API TP_CHECK bool tp_sym_guard_int(tp_sym x, int64_t *value);    /* specialises: guards Eq(x, hint) */
TP_API TP_CHECK bool tp_sym_guard_float(tp_sym x, double *value);   /* the same of a float */
/* The same without an error: `otherwise` where there is neither. */
TP_API TP_CHECK bool tp_sym_guard_or(tp_sym condition, bool otherwise, bool *answer);
/* As tp_sym_known, with every size-like unbacked symbol taken to be 2 or more. */
TP_API tp_answer tp_sym_known_of_sizes(tp_sym condition);
/* torch._check: takes the condition as a fact; known false fails; without unbacked symbols it is a guard, else it is
 * kept as a run-time assertion of the environment. `message` may be NULL. */
TP_API TP_CHECK bool tp_sym_assume(tp_sym condition, const char *message);

/* Rebuilding. */
TP_API tp_sym tp_sym_simplify(tp_sym x);                /* replacements and facts of the environment applied */
TP_API tp_sym tp_sym_substitute(tp_sym x, const tp_binding *bindings, size_t count);   /* simultaneous */
/* Value of an integer or condition (0, 1) when the listed symbols have these integer values; false with an error set
 * when a symbol is missing, a divisor is zero or 64 bits do not hold a value. */
TP_API TP_CHECK bool tp_sym_eval(tp_sym x, const tp_binding *bindings, size_t count, int64_t *value);
/* Solves an Eq, linear in `symbol`, for it. Failed word: no such solution (an error is set only if memory ran out). */
TP_API tp_sym tp_sym_solve(tp_sym equation, tp_sym symbol);
/* Writes the free symbols, in order of creation, at most `room` of them, and returns how many it wrote. */
TP_API size_t tp_sym_free_symbols(tp_sym x, tp_sym *symbols, size_t room);

/* Text, in sympy's order and with PyTorch's parentheses: `s0 + 3`, `2*((s0//2))`, `Mod(s0, 2)`, `Eq(s0, 3)`, `s0 < 5`.
 * */
TP_API void tp_sym_print(tp_sym x, tp_text *text);
/* As Python over the sources of the symbols, for messages: `L['x'].size()[0] == 3`. */
TP_API void tp_sym_print_source(tp_sym x, tp_text *text);
/* The inverse of tp_sym_print. Unknown names fail, with TP_ERR_VALUE; symbols are looked up in `env` and its ancestors.
 * */
TP_API tp_sym tp_sym_parse(tp_shape_env *env, const char *text);
/* The inverse of tp_sym_print_source, of PyTorch's texts too: `find` says what a source is, a number or an expression over `env`;
 * the failed word, without an error, where it does not know it. */
typedef tp_sym tp_sym_source(void *data, const char *text, size_t length);
TP_API tp_sym tp_sym_parse_source(tp_shape_env *env, const char *text, tp_sym_source *find, void *data);

#endif
