/* node.h - the inside of symbolic expressions: nodes, interning, the memory of operations. Private to this folder.
 *
 * A node is immutable but for its dated answers (range) and facts. Its environment is the deepest among its parts, so
 * an expression over a parent's symbols lives in the parent even when a child built it, and stays canonical.
 * Rank (creation order, one counter for a whole line of environments) orders atoms inside monomials and monomials
 * inside polynomials; it depends on nothing but the order of the program's calls. */
#ifndef TP_SYM_NODE_H
#define TP_SYM_NODE_H

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "sym/env.h"

typedef enum sym_kind {
#define TP_SYM_KIND(name, head, sort, type) KIND_##name,
#include "sym/kinds.def"
#undef TP_SYM_KIND
    KIND_COUNT
} sym_kind;

typedef struct sym_kind_info {
    const char *head, *sort;
    tp_sym_type type;
} sym_kind_info;

extern const sym_kind_info tp_sym_kinds[KIND_COUNT];

typedef struct tp_sym_node {
    tp_shape_env *env;          /* borrowed */
    uint32_t hash, rank;
    uint8_t  kind, type;
    uint8_t  unbacked;          /* has an unbacked symbol somewhere */
    uint8_t  truth;             /* of a condition in canonical form: a tp_answer, learned */
    uint32_t count;             /* words of payload */
    uint32_t epoch;             /* of `range`; 0: never computed */
    uint32_t weight : 21;       /* nodes one meets going through it, each as often as it is met: at most MOST_WEIGHT */
    uint32_t nesting : 11;      /* of the deepest of them: at most MOST_NESTING */
    tp_range range;             /* as known at `epoch` */
    tp_range fact;              /* learned of this very expression, which is then a primitive linear form or an atom */
    uint64_t word[];
} tp_sym_node;

/* Expressions are walked by recursion, and shared parts once for each mention: both are kept within reason. */
enum { MEMO_ROOM = 512, MAX_DEPTH = 200, MOST_NESTING = 600, MOST_WEIGHT = 1 << 20 };

typedef struct sym_memo {
    uint64_t op, a, b;          /* op with the epoch: facts change what an operation simplifies to */
    tp_sym   result;            /* failed word: free */
} sym_memo;

struct tp_shape_env {
    tp_count      refs;
    tp_shape_env *parent;       /* counted, may be NULL */
    tp_shape_env *root;         /* borrowed: the oldest ancestor, or itself */
    uint32_t      depth;
    uint32_t      epoch;        /* root's counts: raised by every new fact */
    uint32_t      next_rank;    /* root's counts */
    tp_arena      arena;
    tp_sym_node **table;        /* owned; interning, open addressing */
    size_t        table_count, table_room;
    sym_memo     *memo;         /* owned; direct mapped, MEMO_ROOM of them */
    tp_text_map   names;
    tp_array(tp_symbol *) symbols;      /* arena structs */
    tp_array(tp_sym) symbol_nodes;
    tp_array(tp_sym_fact *) guards;        /* arena structs */
    tp_array(tp_sym) decided;           /* conditions, each once */
    tp_map        decided_words;
    uint32_t      numbered[3];  /* by tp_symbol_kind: the next number of its names */
    tp_shape_env_options options;
    bool          frozen, refuses_guards, keeps_decided;
    bool          no_numbers, no_sizes;     /* that depend on data */
    tp_err        error;        /* the first since the last check */
    char          error_text[240];
};

static inline tp_sym_node *sym_node(tp_sym x)
{
    return (tp_sym_node *)(uintptr_t)x.word;
}

static inline tp_sym sym_of(const tp_sym_node *n)
{
    return (tp_sym){ (uint64_t)(uintptr_t)n };
}

static inline bool sym_is_kind(tp_sym x, sym_kind k)
{
    return tp_sym_is_node(x) && sym_node(x)->kind == k;
}

static inline tp_sym sym_arg(tp_sym x, size_t i)
{
    return (tp_sym){ sym_node(x)->word[i] };
}

static inline bool sym_is_value(tp_sym x, int64_t v)
{
    return x.word == ((uint64_t)v << 1 | 1);
}

static inline tp_shape_env *sym_env(tp_sym x)
{
    return tp_sym_is_node(x) ? sym_node(x)->env : NULL;
}

static inline tp_shape_env *sym_deeper(tp_shape_env *a, tp_shape_env *b)
{
    return !a ? b : !b || a->depth >= b->depth ? a : b;
}

/* node.c. The node with this payload, found or made. `env` is the deepest environment of its parts. */
tp_sym tp_sym_intern(tp_shape_env *env, sym_kind kind, tp_sym_type type, const uint64_t *words, size_t count);
tp_sym tp_sym_find(tp_shape_env *env, sym_kind kind, const uint64_t *words, size_t count);   /* failed: not there */
tp_sym tp_sym_make(sym_kind kind, tp_sym_type type, const tp_sym *args, size_t count);         /* of arguments */
/* Binary operations done before: the result, or the failed word when it is not remembered. `op` is below 256. */
tp_sym tp_sym_recall(tp_shape_env *env, unsigned op, tp_sym a, tp_sym b);
tp_sym tp_sym_remember(tp_shape_env *env, unsigned op, tp_sym a, tp_sym b, tp_sym result);     /* returns `result` */
/* Sets the thread's error and keeps it in `env` (may be NULL); returns the failed word. */
tp_sym tp_sym_fail(tp_shape_env *env, tp_err kind, const char *format, ...) TP_PRINTF(3, 4);
tp_sym tp_sym_fail_as_set(tp_shape_env *env);           /* the thread's error is set already */
/* Around attempts that may overflow and whose failure means "not known": the error they leave is taken back. */
typedef struct sym_quiet {
    bool thread, env;           /* had no error when it began */
} sym_quiet;
sym_quiet tp_sym_quiet_begin(const tp_shape_env *env);
void tp_sym_quiet_end(tp_shape_env *env, sym_quiet q);
tp_symbol *tp_sym_symbol(tp_sym symbol);                /* tp_symbol_of for those who write */

/* poly.c. A polynomial seen as terms. `of` is UNIT (no generator) for the constant term, else an atom or monomial. */
typedef struct sym_term {
    uint64_t of;
    int64_t  coefficient;
} sym_term;
typedef struct sym_factor {
    uint64_t atom;
    int64_t  exponent;
} sym_factor;
typedef struct sym_terms {
    const sym_term *term;       /* borrowed: of the node, or `own` */
    size_t count;
    sym_term own;
} sym_terms;

enum { UNIT = 1 };              /* sym_term.of of a constant */

void tp_sym_terms(tp_sym x, sym_terms *terms);          /* of an integer expression; `terms` must stay where it is */
size_t tp_sym_factors(uint64_t of, const sym_factor **factors, sym_factor *own);    /* of a term's `of` */
int64_t tp_sym_content(tp_sym x);                       /* greatest common divisor of the coefficients; 0 for 0 */
tp_sym tp_sym_scale(tp_sym x, int64_t by);
tp_sym tp_sym_from_terms(tp_shape_env *env, const sym_term *terms, size_t count);      /* ordered, no zeros */
tp_sym tp_sym_divide_exactly(tp_sym a, tp_sym b);       /* failed word: not divisible (no error set unless memory) */
tp_sym tp_sym_constant(tp_sym x, int64_t *constant);    /* x without its constant term, which is stored */
uint64_t tp_sym_common(tp_sym x);           /* greatest monomial that divides every term; UNIT if none; 0 failed */

/* float.c. Operands are floats already. */
tp_sym tp_sym_float_binary(sym_kind kind, tp_sym a, tp_sym b);
double tp_sym_apply_number(sym_kind kind, double value);        /* as the kinds of TP_SYM_FUNCTIONS do */
bool tp_sym_is_function(sym_kind kind);                         /* one of these */
double tp_sym_round_number(sym_kind kind, double value);        /* as the kinds trunc, floor, ceil, round do */
double tp_sym_round_to(double value, int64_t digits);
tp_sym tp_sym_to_float_in(tp_shape_env *env, tp_sym a);  /* `env` serves when `a` is a plain integer */

/* range.c */
tp_range tp_range_add(tp_range a, tp_range b);
tp_range tp_range_mul(tp_range a, tp_range b);
tp_range tp_range_meet(tp_range a, tp_range b);
bool tp_sym_residue(tp_sym x, int64_t modulus, int64_t *residue);   /* x modulo a constant > 0, when facts tell it */
bool tp_sym_nonzero(tp_sym x);
tp_sym tp_sym_primitive(tp_sym x, int64_t *scale, int64_t *offset, bool create);  /* x = scale*result + offset */

/* atom.c */
int64_t tp_sym_bits(sym_kind kind, int64_t a, int64_t b);

/* condition.c */
tp_answer tp_sym_sign_known(tp_compare how, tp_sym a, tp_sym b);    /* of integers, by ranges and facts */
bool tp_sym_compare_of(tp_sym condition, tp_compare *how);          /* true for the six comparisons */
tp_sym tp_sym_compare_as_written(tp_compare how, tp_sym a, tp_sym b);       /* undecided; of integers, at least one a node */

/* rebuild.c */
bool tp_sym_hint_fails(tp_sym x);                       /* there is no hint, and an error is set: 0 divides, 64 bits do not do */
bool tp_sym_mentions(tp_sym x, tp_sym symbol);

/* order.c. coefficient * of**exponent; `of` is UNIT, an atom, a monomial or a sum of several terms (these two with
 * exponent 1), or a float or condition. */
typedef struct sym_piece {
    uint64_t of;
    int64_t  exponent, coefficient;
} sym_piece;
typedef struct sym_piece_list {
    sym_piece *item;            /* owned; NULL when memory ran out */
    size_t     count;
} sym_piece_list;
sym_piece tp_sym_piece_of(tp_sym x);
int tp_sym_compare_pieces(sym_piece a, sym_piece b);
sym_piece_list tp_sym_ordered_terms(tp_sym x);          /* of a sum */
sym_piece_list tp_sym_ordered_factors(uint64_t of);     /* of a term's `of` */
sym_piece_list tp_sym_ordered_arguments(tp_sym x);      /* as printed: sorted where the order means nothing */
bool tp_sym_is_plain_mod(tp_sym x);                     /* prints as Mod, not PythonMod: nothing negative is involved */

/* learn.c */
TP_CHECK bool tp_sym_learn(tp_sym condition);           /* takes a condition as true: ranges, residues, replacements */

#endif
