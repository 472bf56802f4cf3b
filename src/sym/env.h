/* env.h - the shape environment: symbols, what is known of them, and the guards that made it known.
 *
 * An environment owns the nodes of expressions over its symbols (sym.h), and knows about them
 *   - ranges of symbols and of linear forms (`u0 - s0 <= -1` is the range of u0 - s0),
 *   - residues (`s0` is 3 modulo 4),
 *   - replacements (`s1` is `s0`, `s0` is 3), the outcome of equalities,
 *   - conditions that were found or declared true.
 * All of it only grows; each new fact raises the epoch, which dates the answers cached in nodes.
 *
 * Symbols are numbered in order of creation, each kind for itself: s0, s1 … are backed (they have a hint, the size of
 * the example input), u0, u1 … are not (data-dependent), zuf0 … are unbacked floats. Sharing one symbol among equal
 * sizes (duck sizing) is the tracer's business.
 *
 * Counted. A child environment counts its parent and may use its symbols; facts a child learns about the parent's
 * symbols are the parent's. Guards and symbols are borrowed from the environment and stay where they are. */
#ifndef TP_SYM_ENV_H
#define TP_SYM_ENV_H

#include "base/count.h"
#include "base/error.h"
#include "sym/sym.h"

typedef enum tp_symbol_kind { TP_SYMBOL_BACKED, TP_SYMBOL_UNBACKED, TP_SYMBOL_FLOAT } tp_symbol_kind;

typedef struct tp_symbol {
    const char    *name;            /* arena */
    tp_symbol_kind kind;
    bool           has_hint;
    bool           size_like;       /* unbacked, used as a size; named so in messages */
    int64_t        hint;
    tp_range       range;           /* known by now */
    tp_range       declared;        /* assumed when the symbol was made: to be checked like a guard */
    int64_t        modulus, residue;    /* the symbol is `residue` modulo `modulus`; 1 and 0 when nothing is known */
    tp_sym         replacement;     /* failed word: stands for itself */
    const char    *source;          /* arena, may be NULL: "L['x'].size()[0]", the first of `sources` */
    const char   **sources;         /* arena, in order of arrival */
    size_t         source_count;
} tp_symbol;

typedef struct tp_sym_fact {
    tp_sym      condition;          /* as it was asked, replacements applied; true of the example */
    const char *text;               /* arena: the condition printed when it was recorded */
    const char *message;            /* arena, may be NULL: of tp_sym_assume */
    void       *stack;              /* owned through the environment's hooks, may be NULL: the user's stack */
    bool        deferred;           /* a run-time assertion on unbacked symbols, not a guard on inputs */
} tp_sym_fact;

/* How an environment learns where in the user's program a guard or symbol arose. All may be NULL. */
typedef struct tp_stack_hooks {
    void *(*capture)(void *context);        /* the current user stack, owned by the environment from then on */
    void  (*release)(void *stack);
    void  (*print)(void *stack, tp_text *text);     /* adds "The following call raised this error: …" */
    void  *context;
} tp_stack_hooks;

typedef struct tp_shape_env_options {
    bool keep_zero_one;                     /* do not turn hints 0 and 1 into integers */
    tp_stack_hooks stack;
} tp_shape_env_options;

/* `parent` and `options` may be NULL; a child without options has its parent's. */
TP_API TP_CHECK tp_shape_env *tp_shape_env_new(tp_shape_env *parent, const tp_shape_env_options *options);
TP_API tp_shape_env *tp_shape_env_ref(tp_shape_env *env);
TP_API void tp_shape_env_unref(tp_shape_env *env);      /* NULL is fine */
TP_API TP_CHECK bool tp_shape_env_check(tp_shape_env *env);     /* false: sets the first error since the last check */

/* A backed symbol. A hint of 0 or 1 yields that integer and takes no number; otherwise the range is cut to 2 and above,
 * unless the environment keeps zero and one. `source` may be NULL. */
TP_API tp_sym tp_shape_env_symbol(tp_shape_env *env, int64_t hint, const char *source, tp_range range);
/* The same of any integer, with the range as it is. */
TP_API tp_sym tp_shape_env_integer(tp_shape_env *env, int64_t hint, const char *source, tp_range range);
TP_API tp_sym tp_shape_env_unbacked(tp_shape_env *env, tp_range range);
TP_API tp_sym tp_shape_env_unbacked_float(tp_shape_env *env);
/* A symbol of a given, unused name, with nothing done to its range: roots of derived dims, loop indices, files. */
TP_API tp_sym tp_shape_env_named(tp_shape_env *env, const char *name, const int64_t *hint, tp_range range);
TP_API tp_sym tp_shape_env_find(tp_shape_env *env, const char *name);   /* failed word: none (no error set) */

TP_API const tp_symbol *tp_symbol_of(tp_sym symbol);            /* borrowed; tp_sym_is_symbol(symbol) holds */
/* These take a symbol, or the failed word of one that could not be made: they then fail too, its error being set. */
TP_API TP_CHECK bool tp_symbol_add_source(tp_sym symbol, const char *source);
TP_API TP_CHECK bool tp_symbol_narrow(tp_sym symbol, tp_range range);   /* fails when nothing is left (TP_ERR_VALUE) */
TP_API TP_CHECK bool tp_symbol_set_hint(tp_sym symbol, int64_t hint);   /* an unbacked symbol seen in a real run */
TP_API void tp_symbol_set_size_like(tp_sym symbol);             /* torch._check_is_size's second half */
TP_API TP_CHECK bool tp_symbol_replace(tp_sym symbol, tp_sym by);       /* the export solver's choice; no guard */

TP_API size_t tp_shape_env_symbol_count(const tp_shape_env *env);       /* of this environment, without ancestors */
TP_API tp_sym tp_shape_env_symbol_at(const tp_shape_env *env, size_t index);
TP_API size_t tp_shape_env_guard_count(const tp_shape_env *env);
TP_API const tp_sym_fact *tp_shape_env_guard_at(const tp_shape_env *env, size_t index);    /* borrowed */
/* An environment may keep the comparisons that a program asked for and that ranges decided: sizes below 2, which ranges leave out,
 * decide them otherwise, and a program that is called with such sizes wants to know. As conditions that held. */
TP_API void tp_shape_env_keep_decided(tp_shape_env *env, bool kept);
TP_API size_t tp_shape_env_decided_count(const tp_shape_env *env);
TP_API tp_sym tp_shape_env_decided_at(const tp_shape_env *env, size_t index);
TP_API void tp_shape_env_format_guards(const tp_shape_env *env, tp_text *text);     /* " - Eq(s1, 20)", a line each */
/* As tp_sym_print_source, with the names of the symbols in place of their sources: to be evaluated over them. */
TP_API void tp_sym_print_python(tp_sym x, tp_text *text);
/* While frozen, guards are neither recorded nor used to specialise: answers come from hints alone. */
TP_API void tp_shape_env_freeze(tp_shape_env *env, bool frozen);
TP_API void tp_shape_env_refuse_guards(tp_shape_env *env, bool refused);        /* a question that needs one then fails */
/* What depends on data may have a name here: the number in a tensor, and a size. Both do unless forbidden. */
TP_API void tp_shape_env_name_data(tp_shape_env *env, bool numbers, bool sizes);
TP_API bool tp_shape_env_names_numbers(const tp_shape_env *env);
TP_API bool tp_shape_env_names_sizes(const tp_shape_env *env);

#endif
