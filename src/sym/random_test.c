/* random_test.c - random expressions: simplification, facts, ranges and text never change a value, and the guards on
 * record imply every answer that was given.
 *
 * Each expression is built twice at once: as a tp_sym, and as its plain values at a few dozen random points. After some
 * guards have been taken (true of point 0, the hints), only points that satisfy all of them count. */
#include "base/test.h"
#include "sym/program.h"

enum { POINTS = 48, SYMBOLS = 5, POOL = 60, ROUNDS = 400, LARGEST = 1000000 };

typedef struct sample {
    tp_sym  x;
    bool    condition;
    bool    valid[POINTS];          /* no division by zero, no large number on the way */
    int64_t value[POINTS];
} sample;

typedef struct world {
    tp_shape_env *env;
    uint64_t random;
    tp_sym symbol[SYMBOLS];
    tp_binding at[POINTS][SYMBOLS];
    bool counts[POINTS];            /* satisfies the facts learned so far */
    bool differs[POINTS];           /* has a condition with another answer than the one guarded on */
    sample pool[POOL];
    size_t count;
} world;

static uint64_t draw(world *w, uint64_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % below;
}

/* Ranges differ: sizes, small ranges, negative numbers. Unbacked symbols have hints here, for guards to be decided. */
static bool begin(world *w)
{
    static const tp_range ranges[SYMBOLS] = { { 2, 30 }, { 2, 30 }, { 1, 4 }, { -9, 9 }, { 0, 20 } };
    static const char *const names[SYMBOLS] = { "s0", "s1", "s2", "u0", "u1" };
    w->count = 0;
    for (int p = 0; p < POINTS; p++) {
        w->counts[p] = true;
        w->differs[p] = false;
        for (int s = 0; s < SYMBOLS; s++) {
            uint64_t width = (uint64_t)(ranges[s].high - ranges[s].low + 1);
            w->at[p][s].value = tp_sym_int(ranges[s].low + (int64_t)draw(w, width));
        }
    }
    if (!(w->env = tp_shape_env_new(NULL, NULL)))
        return false;
    for (int s = 0; s < SYMBOLS; s++) {
        int64_t hint = tp_sym_as_int(w->at[0][s].value);
        tp_range r = ranges[s].high == 30 ? (tp_range){ 2, INT64_MAX } : ranges[s];
        w->symbol[s] = tp_shape_env_named(w->env, names[s], &hint, r);
        if (tp_sym_is_failed(w->symbol[s]))
            return false;
        sample *one = &w->pool[w->count++];
        *one = (sample){ .x = w->symbol[s] };
        for (int p = 0; p < POINTS; p++) {
            w->at[p][s].symbol = w->symbol[s];
            one->value[p] = tp_sym_as_int(w->at[p][s].value);
            one->valid[p] = true;
        }
    }
    return true;
}

static const sample *pick(world *w, bool condition)
{
    for (;;) {
        const sample *s = &w->pool[draw(w, w->count)];
        if (s->condition == condition)
            return s;
        if (condition && draw(w, 30) == 0)
            return NULL;
    }
}

static int64_t compute(int op, int64_t a, int64_t b, bool *valid)
{
    if ((op == 3 || op == 4) && b == 0) {
        *valid = false;
        return 0;
    }
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return tp_int_floordiv(a, b);
    case 4: return tp_int_mod(a, b);
    case 5: return a < b ? a : b;
    case 6: return a > b ? a : b;
    case 7: return a == b;
    case 8: return a != b;
    case 9: return a < b;
    case 10: return a <= b;
    case 11: return a > b;
    case 12: return a >= b;
    case 13: return a && b;
    case 14: return a || b;
    case 15: return !a;
    default: return a < 0 ? -a : a;
    }
}

static tp_sym build(int op, tp_sym a, tp_sym b)
{
    switch (op) {
    case 0: return tp_sym_add(a, b);
    case 1: return tp_sym_sub(a, b);
    case 2: return tp_sym_mul(a, b);
    case 3: return tp_sym_floordiv(a, b);
    case 4: return tp_sym_mod(a, b);
    case 5: return tp_sym_min(a, b);
    case 6: return tp_sym_max(a, b);
    case 13: return tp_sym_and(a, b);
    case 14: return tp_sym_or(a, b);
    case 15: return tp_sym_not(a);
    case 16: return tp_sym_abs(a);
    default: return tp_sym_compare((tp_compare)(op - 7), a, b);
    }
}

/* One more expression from those there are; false: it was no good (a divisor zero everywhere, numbers too large). */
static bool grow(world *w, sample *s)
{
    int op = (int)draw(w, 17);
    bool logical = op >= 13 && op <= 15;
    const sample *a = pick(w, logical), *b = pick(w, logical);
    sample number = { .x = { 0 } };
    if (!a || !b)
        return false;
    if (!logical && draw(w, 3) == 0) {
        int64_t n = (int64_t)draw(w, 12) - 3;
        number.x = tp_sym_int(n);
        for (int p = 0; p < POINTS; p++) {
            number.value[p] = n;
            number.valid[p] = true;
        }
        b = &number;
    }
    if ((op == 3 || op == 4) && tp_sym_is_int(b->x) && tp_sym_as_int(b->x) == 0)
        return false;
    *s = (sample){ .condition = op >= 7 && op != 16 };
    bool any = false;
    for (int p = 0; p < POINTS; p++) {
        s->valid[p] = a->valid[p] && b->valid[p];
        s->value[p] = s->valid[p] ? compute(op, a->value[p], b->value[p], &s->valid[p]) : 0;
        if (s->value[p] > LARGEST || s->value[p] < -LARGEST)
            return false;
        any = any || (s->valid[p] && w->counts[p]);
    }
    s->x = any ? build(op, a->x, b->x) : TP_SYM_FAILED;
    return any && (!tp_sym_is_failed(s->x) || tp_test_quiet);
}

static void report(const char *what, tp_sym x, tp_sym y, int64_t got, int64_t want)
{
    tp_text text = { 0 };
    tp_sym_print(x, &text);
    tp_text_add(&text, "  |  ");
    tp_sym_print(y, &text);
    printf("# %s: %s: got %lld, want %lld\n", what, tp_text_read(&text), LL(got), LL(want));
    tp_text_fini(&text);
}

static void check_value(world *w, const sample *s, tp_sym x, const char *what)
{
    for (int p = 0; p < POINTS; p++) {
        int64_t got = -1;
        if (!s->valid[p] || !w->counts[p])
            continue;
        bool ok = tp_sym_eval(x, w->at[p], SYMBOLS, &got) && got == s->value[p];
        if (!ok && !tp_test_quiet)
            report(what, s->x, x, got, s->value[p]);
        TP_EXPECT(ok);
        if (!ok)
            return;
    }
}

static void check_range(world *w, const sample *s, tp_sym x)
{
    tp_range r = tp_sym_range(x);
    tp_answer known = s->condition ? tp_sym_known(x) : TP_UNKNOWN;
    for (int p = 0; p < POINTS; p++) {
        if (!s->valid[p] || !w->counts[p])
            continue;
        bool ok = s->value[p] >= r.low && s->value[p] <= r.high;
        ok = ok && (known == TP_UNKNOWN || s->value[p] == (known == TP_YES));
        if (!ok && !tp_test_quiet)
            report("range or answer", s->x, x, r.low, s->value[p]);
        TP_EXPECT(ok);
        if (!ok)
            return;
    }
}

static bool check_text(world *w, const sample *s)
{
    tp_text text = { 0 };
    tp_sym_print(s->x, &text);
    tp_sym back = text.failed ? TP_SYM_FAILED : tp_sym_parse(w->env, tp_text_read(&text));
    bool ok = !tp_sym_is_failed(back);
    if (ok)
        check_value(w, s, back, "text");
    tp_text_fini(&text);
    return ok;
}

/* Guards on a condition, and drops the points where it has the other value. */
static bool learn(world *w, const sample *s)
{
    bool answer;
    if (!s->condition || !s->valid[0])
        return true;
    if (!tp_sym_guard(s->x, &answer))
        return false;
    TP_EXPECT(answer == (s->value[0] != 0));
    for (int p = 0; p < POINTS; p++) {
        bool same = (s->value[p] != 0) == answer;
        w->counts[p] = w->counts[p] && s->valid[p] && same;
        w->differs[p] = w->differs[p] || (s->valid[p] && !same);
    }
    return true;
}

/* The guards on record must admit every point that agrees with the answers given, and no point that does not: answers
 * that were known and recorded nothing have to follow from the others. */
static bool check_guards(world *w)
{
    tp_guard_program *program = tp_guard_program_new(w->env);
    if (!program)
        return false;
    for (int p = 0; p < POINTS; p++) {
        int64_t values[SYMBOLS];
        for (int s = 0; s < SYMBOLS; s++)
            values[s] = tp_sym_as_int(w->at[p][s].value);
        bool holds = tp_guard_program_check(program, values, NULL);
        TP_EXPECT(holds || !w->counts[p]);
        TP_EXPECT(!holds || !w->differs[p]);
    }
    tp_guard_program_free(program);
    return true;
}

static bool round_of(world *w)
{
    sample s;
    if (!begin(w))
        return false;
    while (w->count < POOL) {
        if (!grow(w, &s))
            continue;
        if (tp_sym_is_failed(s.x))
            return false;
        check_value(w, &s, s.x, "built");
        check_range(w, &s, s.x);
        tp_sym simple = tp_sym_simplify(s.x), canonical = tp_sym_canonical(s.x);
        if (tp_sym_is_failed(simple) || tp_sym_is_failed(canonical) || !check_text(w, &s))
            return false;
        check_value(w, &s, simple, "simplified");
        check_value(w, &s, canonical, "canonical");
        check_range(w, &s, simple);
        w->pool[w->count++] = s;
        if (draw(w, 6) == 0 && !learn(w, &s))
            return false;
    }
    for (size_t i = 0; i < w->count; i++) {
        check_value(w, &w->pool[i], tp_sym_simplify(w->pool[i].x), "simplified at the end");
        check_range(w, &w->pool[i], w->pool[i].x);
    }
    return check_guards(w);
}

static void run(int rounds)
{
    static world w;
    w = (world){ .random = 2024 };
    for (int i = 0; i < rounds && tp_test_bad < 5; i++) {
        bool ok = round_of(&w);
        tp_shape_env_unref(w.env);
        w.env = NULL;
        TP_NEED(ok);
    }
out:
    return;
}

TP_TEST(values_survive)
{
    run(ROUNDS);
}

TP_TEST(failures_are_clean)
{
    run(1);
}

TP_TESTS(TP_SPARSE(values_survive), TP_SWEPT(failures_are_clean))
