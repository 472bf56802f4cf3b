/* guard.c - the decisions tracing takes on sizes, and their record. */
#include <string.h>

#include "sym/node.h"

static const char *text_in(tp_shape_env *env, tp_sym x)
{
    tp_text text = { 0 };
    tp_sym_print(x, &text);
    const char *copy = text.failed ? NULL : tp_text_in(&env->arena, tp_text_read(&text), text.length);
    tp_text_fini(&text);
    return copy;
}

/* Never twice: what is on record was learned, so the next question finds it known. */
static bool record(tp_sym condition, const char *message, bool deferred)
{
    tp_shape_env *env = sym_env(condition);
    tp_sym_fact *g = tp_arena_take(&env->arena, sizeof *g);
    if (!g)
        return tp_sym_fail_as_set(env).word;
    *g = (tp_sym_fact){ .condition = condition, .deferred = deferred, .text = text_in(env, condition) };
    if (!g->text || !tp_array_reserve(&env->guards, env->guards.count + 1) ||
        (message && !(g->message = tp_text_in(&env->arena, message, strlen(message)))))
        return tp_sym_fail_as_set(env).word;
    if (env->options.stack.capture)
        g->stack = env->options.stack.capture(env->options.stack.context);
    env->guards.item[env->guards.count++] = g;
    return true;
}

bool tp_sym_note_decided(tp_compare how, tp_sym a, tp_sym b, bool answer)
{
    tp_shape_env *env = sym_deeper(sym_env(a), sym_env(b));
    uint64_t there;
    if (!env || !env->keeps_decided || tp_sym_type_of(a) != TP_SYM_INT || tp_sym_type_of(b) != TP_SYM_INT || tp_sym_has_unbacked(a) ||
        tp_sym_has_unbacked(b))
        return true;
    tp_sym c = tp_sym_compare_as_written(how, a, b);
    if (!answer)
        c = tp_sym_not(c);
    if (tp_sym_is_failed(c))
        return false;
    return tp_map_get(&env->decided_words, c.word, &there) ||
           (tp_map_put(&env->decided_words, c.word, 1) && tp_array_push(&env->decided, c)) || tp_sym_fail_as_set(env).word;
}

/* The condition with backed symbols replaced by their hints, as PyTorch shows it first. */
static tp_sym hinted(tp_sym x)
{
    tp_sym symbol[16];
    tp_binding binding[16];
    size_t count = tp_sym_free_symbols(x, symbol, TP_COUNT(symbol)), bound = 0;
    for (size_t i = 0; i < count; i++)
        if (tp_sym_symbol(symbol[i])->has_hint && tp_sym_symbol(symbol[i])->kind != TP_SYMBOL_FLOAT)
            binding[bound++] = (tp_binding){ symbol[i], tp_sym_int(tp_sym_symbol(symbol[i])->hint) };
    return tp_sym_substitute(x, binding, bound);
}

static void size_like_names(tp_sym x, tp_text *text)
{
    tp_sym symbol[16];
    size_t count = tp_sym_free_symbols(x, symbol, TP_COUNT(symbol)), named = 0;
    for (size_t i = 0; i < count; i++)
        if (tp_sym_symbol(symbol[i])->size_like)
            tp_text_add(text, "%s%s", named++ ? ", " : "", tp_sym_symbol(symbol[i])->name);
    if (!named)
        tp_text_add(text, "none");
}

static bool fail_unbacked(const char *verb, tp_sym x, const char *advice)
{
    if (tp_sym_hint_fails(x))
        return false;
    tp_text shown = { 0 }, unhinted = { 0 }, sizes = { 0 }, where = { 0 };
    const tp_shape_env *env = sym_env(x);
    tp_sym_print(hinted(x), &shown);
    tp_sym_print(x, &unhinted);
    size_like_names(x, &sizes);
    if (env->options.stack.print && env->options.stack.capture) {
        void *stack = env->options.stack.capture(env->options.stack.context);
        env->options.stack.print(stack, &where);
        if (stack && env->options.stack.release)
            env->options.stack.release(stack);
    }
    tp_fail(TP_ERR_GUARD,
            "Could not %s data-dependent expression %s (unhinted: %s).  (Size-like symbols: %s)\n\n%s\n%s", verb,
            tp_text_read(&shown), tp_text_read(&unhinted), tp_text_read(&sizes), advice, tp_text_read(&where));
    tp_text_fini(&where);
    tp_text_fini(&sizes);
    tp_text_fini(&unhinted);
    tp_text_fini(&shown);
    return false;
}

#define DECIDE_OTHERWISE \
    "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true."

/* A number as a condition is Python's truth value. */
static tp_sym condition_of(tp_sym x)
{
    if (!tp_sym_is_failed(x) && tp_sym_type_of(x) != TP_SYM_BOOL)
        x = tp_sym_ne(x, tp_sym_int(0));
    return tp_sym_simplify(x);
}

static bool refuse(tp_sym condition, bool answer)
{
    tp_text text = { 0 };
    tp_sym_print(condition, &text);
    tp_fail(TP_ERR_RUNTIME, "Guard attempted while ShapeEnv guards are frozen: %s == %s", tp_text_read(&text), answer ? "True" : "False");
    tp_text_fini(&text);
    return false;
}

static bool failed_word(void)
{
    return tp_error_kind() != TP_ERR_NONE ? NULL : tp_fail(TP_ERR_RUNTIME, "the condition failed when it was built");
}

bool tp_sym_guard(tp_sym condition, bool *answer)
{
    int64_t hint;
    tp_sym c = condition_of(condition);
    if (tp_sym_is_failed(c))
        return failed_word();
    tp_answer known = tp_sym_known(c);
    if (known != TP_UNKNOWN) {
        *answer = known == TP_YES;
        return true;
    }
    if (!tp_sym_hint(c, &hint))
        return fail_unbacked("guard on", c, DECIDE_OTHERWISE);
    *answer = hint != 0;
    if (sym_env(c)->refuses_guards)
        return refuse(c, *answer);
    if (sym_env(c)->frozen)
        return true;
    tp_sym fact = hint ? c : tp_sym_not(c);
    return !tp_sym_is_failed(fact) && record(fact, NULL, tp_sym_has_unbacked(fact)) && tp_sym_learn(fact);
}

bool tp_sym_guard_or(tp_sym condition, bool otherwise, bool *answer)
{
    int64_t hint;
    tp_sym c = condition_of(condition);
    if (tp_sym_is_failed(c))
        return failed_word();
    if (tp_sym_known(c) != TP_UNKNOWN || tp_sym_hint(c, &hint))
        return tp_sym_guard(c, answer);
    *answer = otherwise;
    return true;
}

/* Asked of stand-ins for the symbols, in an environment that is gone afterwards. */
tp_answer tp_sym_known_of_sizes(tp_sym condition)
{
    tp_sym c = condition_of(condition), symbol[16];
    tp_binding binding[16];
    tp_answer known = tp_sym_known(c);
    if (known != TP_UNKNOWN || !tp_sym_is_node(c))
        return known;
    size_t count = tp_sym_free_symbols(c, symbol, TP_COUNT(symbol)), bound = 0;
    tp_shape_env *child = tp_shape_env_new(sym_env(c), NULL);
    for (size_t i = 0; child && i < count; i++) {
        const tp_symbol *s = tp_sym_symbol(symbol[i]);
        tp_range r = { s->range.low > 2 ? s->range.low : 2, s->range.high };
        if (!s->size_like || r.high < 2)
            continue;
        tp_sym stand_in = tp_shape_env_unbacked(child, r);
        if (!tp_sym_is_failed(stand_in))
            binding[bound++] = (tp_binding){ symbol[i], stand_in };
    }
    if (bound)
        known = tp_sym_known(tp_sym_substitute(c, binding, bound));
    tp_shape_env_unref(child);
    return known;
}

bool tp_sym_guard_int(tp_sym x, int64_t *value)
{
    bool answer;
    x = tp_sym_simplify(x);
    if (tp_sym_is_failed(x))
        return failed_word();
    tp_range r = tp_sym_range(x);
    if (r.low == r.high) {
        *value = r.low;
        return true;
    }
    if (!tp_sym_hint(x, value))
        return fail_unbacked("extract specialized integer from", x, "");
    return tp_sym_guard(tp_sym_eq(x, tp_sym_int(*value)), &answer);
}

bool tp_sym_guard_float(tp_sym x, double *value)
{
    bool answer;
    if (!tp_sym_hint_float(x, value))
        return fail_unbacked("guard on", x, DECIDE_OTHERWISE);
    return tp_sym_guard(tp_sym_eq(x, tp_sym_float(sym_env(x), *value)), &answer);
}

bool tp_sym_assume(tp_sym condition, const char *message)
{
    tp_sym c = condition_of(condition);
    if (tp_sym_is_failed(c))
        return failed_word();
    tp_answer known = tp_sym_known(c);
    if (known == TP_YES)
        return true;
    if (known == TP_NO) {
        tp_text text = { 0 };
        tp_sym_print(condition, &text);
        tp_fail(TP_ERR_RUNTIME, "Runtime assertion failed for expression %s%s%s", tp_text_read(&text),
                message ? ": " : "", message ? message : "");
        tp_text_fini(&text);
        return false;
    }
    if (!tp_sym_has_unbacked(c)) {
        bool answer;
        if (!tp_sym_guard(c, &answer))
            return false;
        return answer || tp_fail(TP_ERR_RUNTIME, "%s", message ? message : "Expected cond to be True, but got False");
    }
    c = tp_sym_canonical(c);
    return record(c, message, true) && tp_sym_learn(c);
}

size_t tp_shape_env_guard_count(const tp_shape_env *env)
{
    return env->guards.count;
}

const tp_sym_fact *tp_shape_env_guard_at(const tp_shape_env *env, size_t index)
{
    return env->guards.item[index];
}

void tp_shape_env_format_guards(const tp_shape_env *env, tp_text *text)
{
    bool first = true;
    for (size_t i = 0; i < env->guards.count; i++)
        if (!env->guards.item[i]->deferred) {
            tp_text_add(text, "%s - %s", first ? "" : "\n", env->guards.item[i]->text);
            first = false;
        }
}
