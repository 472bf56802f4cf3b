/* env.c - shape environments: their life, and their symbols. */
#include "sym/env.h"

#include <stdio.h>
#include <string.h>

#include "sym/node.h"

tp_shape_env *tp_shape_env_new(tp_shape_env *parent, const tp_shape_env_options *options)
{
    tp_shape_env *env = tp_alloc_zero(sizeof *env);
    if (!env)
        return NULL;
    env->refs = 1;
    if (!(env->memo = tp_alloc_zero(MEMO_ROOM * sizeof *env->memo))) {
        tp_free(env);
        return NULL;
    }
    tp_arena_init(&env->arena);
    env->parent = parent ? tp_shape_env_ref(parent) : NULL;
    env->root = parent ? parent->root : env;
    env->depth = parent ? parent->depth + 1 : 0;
    env->epoch = 1;
    if (options)
        env->options = *options;
    else if (parent)
        env->options = parent->options;
    return env;
}

tp_shape_env *tp_shape_env_ref(tp_shape_env *env)
{
    tp_count_up(&env->refs);
    return env;
}

void tp_shape_env_unref(tp_shape_env *env)
{
    if (!env || !tp_count_down(&env->refs))
        return;
    for (size_t i = 0; i < env->guards.count; i++)
        if (env->guards.item[i]->stack && env->options.stack.release)
            env->options.stack.release(env->guards.item[i]->stack);
    tp_array_fini(&env->guards);
    tp_array_fini(&env->decided);
    tp_map_fini(&env->decided_words);
    tp_array_fini(&env->symbols);
    tp_array_fini(&env->symbol_nodes);
    tp_text_map_fini(&env->names);
    tp_free(env->table);
    tp_free(env->memo);
    tp_arena_fini(&env->arena);
    tp_shape_env *parent = env->parent;
    tp_free(env);
    tp_shape_env_unref(parent);
}

bool tp_shape_env_check(tp_shape_env *env)
{
    if (env->error == TP_ERR_NONE)
        return true;
    tp_fail(env->error, "%s", env->error_text);
    if (!env->arena.failed)         /* out of memory is for ever */
        env->error = TP_ERR_NONE;
    return false;
}

void tp_shape_env_freeze(tp_shape_env *env, bool frozen)
{
    env->frozen = frozen;
}

/* Symbols */

static tp_sym add_symbol(tp_shape_env *env, const char *name, tp_symbol_kind kind)
{
    uint64_t index = env->symbols.count, taken;
    if (tp_text_map_get(&env->names, name, &taken))
        return tp_sym_fail(env, TP_ERR_VALUE, "the symbol %s exists already", name);
    tp_symbol *s = tp_arena_take(&env->arena, sizeof *s);
    if (!s)
        return tp_sym_fail_as_set(env);
    *s = (tp_symbol){ .name = tp_text_in(&env->arena, name, strlen(name)), .kind = kind, .range = TP_RANGE_ALL,
                      .declared = TP_RANGE_ALL, .modulus = 1 };
    if (!s->name || !tp_array_reserve(&env->symbols, index + 1) || !tp_array_reserve(&env->symbol_nodes, index + 1))
        return tp_sym_fail_as_set(env);
    tp_sym x = tp_sym_intern(env, KIND_symbol, kind == TP_SYMBOL_FLOAT ? TP_SYM_FLOAT : TP_SYM_INT, &index, 1);
    if (tp_sym_is_failed(x) || !tp_text_map_put(&env->names, name, x.word))
        return tp_sym_fail_as_set(env);
    sym_node(x)->unbacked = kind != TP_SYMBOL_BACKED;
    env->symbols.item[env->symbols.count++] = s;
    env->symbol_nodes.item[env->symbol_nodes.count++] = x;
    return x;
}

/* The next name of a kind that nobody uses yet: a child goes on counting where its parent is. */
static tp_sym add_numbered(tp_shape_env *env, const char *prefix, tp_symbol_kind kind)
{
    char name[32];
    if (env->parent && env->numbered[kind] < env->parent->numbered[kind])
        env->numbered[kind] = env->parent->numbered[kind];
    do
        snprintf(name, sizeof name, "%s%u", prefix, env->numbered[kind]++);
    while (!tp_sym_is_failed(tp_shape_env_find(env, name)));
    return add_symbol(env, name, kind);
}

tp_sym tp_shape_env_symbol(tp_shape_env *env, int64_t hint, const char *source, tp_range range)
{
    if (!env->options.keep_zero_one && (hint == 0 || hint == 1))
        return tp_sym_int(hint);
    if (!env->options.keep_zero_one && range.low < 2)
        range.low = 2;
    return tp_shape_env_integer(env, hint, source, range);
}

tp_sym tp_shape_env_integer(tp_shape_env *env, int64_t hint, const char *source, tp_range range)
{
    if (hint < range.low || hint > range.high)
        return tp_sym_fail(env, TP_ERR_VALUE, "the size %lld is outside the range [%lld, %lld] of its symbol", LL(hint),
                           LL(range.low), LL(range.high));
    tp_sym x = add_numbered(env, "s", TP_SYMBOL_BACKED);
    if (tp_sym_is_failed(x))
        return x;
    tp_symbol *s = tp_sym_symbol(x);
    s->has_hint = true;
    s->hint = hint;
    s->range = s->declared = range;
    return !source || tp_symbol_add_source(x, source) ? x : tp_sym_fail_as_set(env);
}

tp_sym tp_shape_env_unbacked(tp_shape_env *env, tp_range range)
{
    tp_sym x = add_numbered(env, "u", TP_SYMBOL_UNBACKED);
    if (!tp_sym_is_failed(x))
        tp_sym_symbol(x)->range = tp_sym_symbol(x)->declared = range;
    return x;
}

tp_sym tp_shape_env_unbacked_float(tp_shape_env *env)
{
    return add_numbered(env, "zuf", TP_SYMBOL_FLOAT);
}

tp_sym tp_shape_env_named(tp_shape_env *env, const char *name, const int64_t *hint, tp_range range)
{
    tp_sym x = add_symbol(env, name, TP_SYMBOL_BACKED);
    if (tp_sym_is_failed(x))
        return x;
    tp_symbol *s = tp_sym_symbol(x);
    s->range = s->declared = range;
    if (hint) {
        s->has_hint = true;
        s->hint = *hint;
    }
    return x;
}

tp_sym tp_shape_env_find(tp_shape_env *env, const char *name)
{
    uint64_t word;
    for (; env; env = env->parent)
        if (tp_text_map_get(&env->names, name, &word))
            return (tp_sym){ word };
    return TP_SYM_FAILED;
}

const tp_symbol *tp_symbol_of(tp_sym symbol)
{
    return tp_sym_symbol(symbol);
}

bool tp_symbol_add_source(tp_sym symbol, const char *source)
{
    if (tp_sym_is_failed(symbol))
        return false;
    tp_symbol *s = tp_sym_symbol(symbol);
    tp_arena *arena = &sym_env(symbol)->arena;
    const char **list = tp_arena_take_array(arena, s->source_count + 1, sizeof *list);
    const char *copy = tp_text_in(arena, source, strlen(source));
    if (!list || !copy)
        return tp_sym_fail_as_set(sym_env(symbol)).word;
    if (s->source_count)
        memcpy(list, s->sources, s->source_count * sizeof *list);
    list[s->source_count++] = copy;
    s->sources = list;
    s->source = list[0];
    return true;
}

bool tp_symbol_set_hint(tp_sym symbol, int64_t hint)
{
    if (tp_sym_is_failed(symbol))
        return false;
    tp_symbol *s = tp_sym_symbol(symbol);
    if (s->kind == TP_SYMBOL_FLOAT)
        return tp_fail(TP_ERR_TYPE, "the float symbol %s takes no integer hint", s->name);
    if (hint < s->range.low || hint > s->range.high)
        return tp_fail(TP_ERR_VALUE, "the hint %lld is outside the range [%lld, %lld] of %s", LL(hint),
                       LL(s->range.low), LL(s->range.high), s->name);
    s->has_hint = true;
    s->hint = hint;
    return true;
}

void tp_symbol_set_size_like(tp_sym symbol)
{
    if (!tp_sym_is_failed(symbol))
        tp_sym_symbol(symbol)->size_like = true;
}

void tp_shape_env_keep_decided(tp_shape_env *env, bool kept)
{
    env->keeps_decided = kept;
}

size_t tp_shape_env_decided_count(const tp_shape_env *env)
{
    return env->decided.count;
}

tp_sym tp_shape_env_decided_at(const tp_shape_env *env, size_t index)
{
    return env->decided.item[index];
}

size_t tp_shape_env_symbol_count(const tp_shape_env *env)
{
    return env->symbols.count;
}

tp_sym tp_shape_env_symbol_at(const tp_shape_env *env, size_t index)
{
    return env->symbol_nodes.item[index];
}

void tp_shape_env_refuse_guards(tp_shape_env *env, bool refused)
{
    env->refuses_guards = refused;
}

void tp_shape_env_name_data(tp_shape_env *env, bool numbers, bool sizes)
{
    env->no_numbers = !numbers;
    env->no_sizes = !sizes;
}

bool tp_shape_env_names_numbers(const tp_shape_env *env)
{
    return !env->no_numbers;
}

bool tp_shape_env_names_sizes(const tp_shape_env *env)
{
    return !env->no_sizes;
}
