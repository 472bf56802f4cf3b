/* node.c - interning: the same expression is the same node. */
#include "sym/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

const sym_kind_info tp_sym_kinds[KIND_COUNT] = {
#define TP_SYM_KIND(name, head, sort, type) [KIND_##name] = { head, sort, TP_SYM_##type },
#include "sym/kinds.def"
#undef TP_SYM_KIND
};

tp_sym tp_sym_wide(int64_t n)
{
    uint64_t word = (uint64_t)n << 1;
    if (word < TP_SYM_FIRST_WIDE)
        return tp_sym_fail(NULL, TP_ERR_OVERFLOW, "the integer %lld is too small for a symbolic size", LL(n));
    return (tp_sym){ word };
}

uint64_t tp_sym_hash(tp_sym x)
{
    return tp_hash_word(x.word);
}

tp_sym_type tp_sym_type_of(tp_sym x)
{
    if (tp_sym_is_node(x))
        return (tp_sym_type)sym_node(x)->type;
    return tp_sym_is_bool(x) ? TP_SYM_BOOL : TP_SYM_INT;
}

tp_shape_env *tp_sym_env(tp_sym x)
{
    return sym_env(x);
}

bool tp_sym_is_symbol(tp_sym x)
{
    return sym_is_kind(x, KIND_symbol);
}

tp_symbol *tp_sym_symbol(tp_sym symbol)
{
    return sym_node(symbol)->env->symbols.item[sym_node(symbol)->word[0]];
}

tp_sym tp_sym_fail_as_set(tp_shape_env *env)
{
    if (env && env->error == TP_ERR_NONE) {
        env->error = tp_error_kind();
        snprintf(env->error_text, sizeof env->error_text, "%s", tp_error_text());
    }
    return TP_SYM_FAILED;
}

tp_sym tp_sym_fail(tp_shape_env *env, tp_err kind, const char *format, ...)
{
    char text[240];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tp_fail(kind, "%s", text);
    return tp_sym_fail_as_set(env);
}

sym_quiet tp_sym_quiet_begin(const tp_shape_env *env)
{
    return (sym_quiet){ tp_error_kind() == TP_ERR_NONE, env && env->error == TP_ERR_NONE };
}

static bool is_limit(tp_err kind)
{
    return kind == TP_ERR_OVERFLOW || kind == TP_ERR_RECURSION;
}

void tp_sym_quiet_end(tp_shape_env *env, sym_quiet q)
{
    if (q.thread && is_limit(tp_error_kind()))
        tp_error_clear();
    if (q.env && is_limit(env->error))
        env->error = TP_ERR_NONE;
}

static uint32_t hash_payload(sym_kind kind, const uint64_t *words, size_t count)
{
    uint64_t h = (uint64_t)kind * 0x9e3779b97f4a7c15u + count;
    for (size_t i = 0; i < count; i++) {
        h = (h ^ words[i]) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ h >> 29);
}

/* The slot that holds this payload, or the free one where it belongs. */
static tp_sym_node **probe(tp_shape_env *env, sym_kind kind, const uint64_t *words, size_t count, uint32_t hash)
{
    size_t mask = env->table_room - 1, i = hash & mask;
    for (tp_sym_node *n; (n = env->table[i]); i = (i + 1) & mask)
        if (n->hash == hash && n->kind == kind && n->count == count &&
            memcmp(n->word, words, count * sizeof *words) == 0)
            break;
    return &env->table[i];
}

static bool grow_table(tp_shape_env *env)
{
    size_t room = env->table_room ? env->table_room * 2 : 64;
    tp_sym_node **wide = tp_alloc_zero(room * sizeof *wide);
    if (!wide)
        return false;
    for (size_t i = 0; i < env->table_room; i++)
        if (env->table[i]) {
            size_t at = env->table[i]->hash & (room - 1);
            while (wide[at])
                at = (at + 1) & (room - 1);
            wide[at] = env->table[i];
        }
    tp_free(env->table);
    env->table = wide;
    env->table_room = room;
    return true;
}

tp_sym tp_sym_find(tp_shape_env *env, sym_kind kind, const uint64_t *words, size_t count)
{
    if (!env->table_room)
        return TP_SYM_FAILED;
    return sym_of(*probe(env, kind, words, count, hash_payload(kind, words, count)));
}

/* The words of a payload that are expressions: all, every second one, or none. */
static size_t step_of(sym_kind kind)
{
    return kind == KIND_symbol || kind == KIND_number ? 0 : kind == KIND_monomial || kind == KIND_poly ? 2 : 1;
}

/* What a node is by its parts. False: it would be too large to walk. */
static bool measure(tp_sym_node *n, const uint64_t *words)
{
    size_t step = step_of((sym_kind)n->kind);
    uint64_t weight = 1;
    uint32_t nesting = 0;
    for (size_t i = 0; step && i < n->count; i += step) {
        tp_sym part = { words[i] };
        if (!tp_sym_is_node(part))
            continue;
        n->unbacked |= sym_node(part)->unbacked;
        weight += sym_node(part)->weight;
        nesting = sym_node(part)->nesting > nesting ? sym_node(part)->nesting : nesting;
    }
    n->weight = weight > MOST_WEIGHT ? MOST_WEIGHT : (uint32_t)weight;
    n->nesting = nesting < MOST_NESTING ? nesting + 1 : MOST_NESTING;
    return weight <= MOST_WEIGHT && nesting < MOST_NESTING;
}

tp_sym tp_sym_intern(tp_shape_env *env, sym_kind kind, tp_sym_type type, const uint64_t *words, size_t count)
{
    if ((env->table_count + 1) * 4 > env->table_room * 3 && !grow_table(env))
        return tp_sym_fail_as_set(env);
    uint32_t hash = hash_payload(kind, words, count);
    tp_sym_node **slot = probe(env, kind, words, count, hash), *n = *slot;
    if (n)
        return sym_of(n);
    if (!(n = tp_arena_take(&env->arena, sizeof *n + count * sizeof *words)))
        return tp_sym_fail_as_set(env);
    *n = (tp_sym_node){ .env = env, .hash = hash, .rank = env->root->next_rank++, .kind = (uint8_t)kind,
                        .type = (uint8_t)type, .truth = TP_UNKNOWN, .count = (uint32_t)count, .fact = TP_RANGE_ALL };
    if (!measure(n, words))
        return tp_sym_fail(env, TP_ERR_RECURSION, "maximum recursion depth exceeded: a symbolic size is too deeply nested");
    memcpy(n->word, words, count * sizeof *words);
    *slot = n;
    env->table_count++;
    return sym_of(n);
}

tp_sym tp_sym_make(sym_kind kind, tp_sym_type type, const tp_sym *args, size_t count)
{
    tp_shape_env *env = NULL;
    for (size_t i = 0; i < count; i++) {
        if (tp_sym_is_failed(args[i]))
            return TP_SYM_FAILED;
        env = sym_deeper(env, sym_env(args[i]));
    }
    return tp_sym_intern(env, kind, type, (const uint64_t *)args, count);
}

static sym_memo *memo_slot(tp_shape_env *env, uint64_t op, tp_sym a, tp_sym b)
{
    uint64_t h = (a.word * 0x9e3779b97f4a7c15u ^ b.word) * 0xd6e8feb86659fd93u + op * 0xff51afd7ed558ccdu;
    return &env->memo[(h >> 40 ^ h >> 20) % MEMO_ROOM];
}

tp_sym tp_sym_recall(tp_shape_env *env, unsigned op, tp_sym a, tp_sym b)
{
    uint64_t dated = op | (uint64_t)env->root->epoch << 8;
    const sym_memo *m = memo_slot(env, dated, a, b);
    return m->op == dated && m->a == a.word && m->b == b.word ? m->result : TP_SYM_FAILED;
}

tp_sym tp_sym_remember(tp_shape_env *env, unsigned op, tp_sym a, tp_sym b, tp_sym result)
{
    uint64_t dated = op | (uint64_t)env->root->epoch << 8;
    if (!tp_sym_is_failed(result))
        *memo_slot(env, dated, a, b) = (sym_memo){ dated, a.word, b.word, result };
    return result;
}
