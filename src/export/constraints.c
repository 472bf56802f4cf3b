/* constraints.c - findings about declared sizes as messages and suggested fixes. */
#include "export/constraints.h"

#include <string.h>

#include "base/alloc.h"

enum { MOST_SYMBOLS = 32 };

/* What became of one declared size: factor * (new root of dims[of]) + offset. */
typedef struct finding {
    bool constant, complex, equal, related;
    bool narrowed, stepped;         /* its range; a residue */
    int64_t value;                  /* of a constant */
    size_t  of;                     /* equal, related: to this dim */
    int64_t factor, offset;         /* related: of->value * factor + offset */
    int64_t step, shift;            /* stepped: step * root + shift */
    tp_range range;
} finding;

static bool is_symbol(tp_sym x)
{
    tp_sym found;
    return tp_sym_is_node(x) && tp_sym_free_symbols(x, &found, 1) == 1 && tp_sym_same(found, x);
}

static size_t find(const tp_dim *dim, size_t count, tp_sym symbol)
{
    for (size_t i = 0; i < count; i++)
        if (tp_sym_same(dim[i].symbol, symbol))
            return i;
    return count;
}

bool tp_size_is_linear(tp_sym x, tp_sym symbol, int64_t *factor, int64_t *offset)
{
    int64_t at[3];
    for (int i = 0; i < 3; i++)
        if (!tp_sym_eval(x, &(tp_binding){ symbol, tp_sym_int(i) }, 1, &at[i])) {
            tp_error_clear();
            return false;
        }
    *offset = at[0];
    return !__builtin_sub_overflow(at[1], at[0], factor) && *factor > 0 && at[2] - at[1] == *factor;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return -tp_int_floordiv(-a, b);
}

/* ---- what the environment knows ---- */
static void look(const tp_dim *dim, size_t count, size_t i, finding *f)
{
    *f = (finding){ .of = count };
    if (dim[i].derived)
        return;
    if (!is_symbol(dim[i].symbol)) {
        f->constant = tp_sym_is_int(dim[i].symbol);
        f->value = f->constant ? tp_sym_as_int(dim[i].symbol) : 0;
        return;
    }
    tp_sym now = tp_sym_simplify(dim[i].symbol), root;
    const tp_symbol *s = tp_symbol_of(dim[i].symbol);
    f->range = s->range;
    if (tp_sym_is_int(now)) {
        f->constant = true;
        f->value = tp_sym_as_int(now);
        return;
    }
    if (!tp_sym_same(now, dim[i].symbol) && tp_sym_free_symbols(now, &root, 1) == 1 && tp_size_is_linear(now, root, &f->factor, &f->offset)) {
        f->of = find(dim, count, root);
        f->equal = f->of < count && f->factor == 1 && f->offset == 0;
        f->related = f->of < count && !f->equal;
        return;
    }
    tp_range declared = s->declared;
    if (s->modulus > 1) {
        f->stepped = true;
        f->step = s->modulus;
        f->shift = 2 * s->residue <= s->modulus ? s->residue : s->residue - s->modulus;
        /* A range that only moved to the next number with this residue says nothing more. */
        declared.low = divide_up(declared.low - f->shift, f->step) * f->step + f->shift;
        if (declared.high != INT64_MAX)
            declared.high = tp_int_floordiv(declared.high - f->shift, f->step) * f->step + f->shift;
    }
    f->narrowed = s->range.low > declared.low || (s->range.high < declared.high && s->range.high < INT64_MAX - s->modulus);
}

/* The symbols of x would have to be the numbers of the example. */
static void mark_symbols(const tp_dim *dim, size_t count, tp_sym x, finding *f)
{
    tp_sym symbol[MOST_SYMBOLS];
    size_t symbols = tp_sym_free_symbols(x, symbol, MOST_SYMBOLS);
    for (size_t k = 0; k < symbols; k++) {
        size_t i = find(dim, count, symbol[k]);
        int64_t hint;
        if (i < count && tp_sym_hint(symbol[k], &hint)) {
            f[i].complex = true;
            f[i].value = hint;
        }
    }
}

/* A root that is a constant because of its derived sizes: the guards on these are what nobody could declare. */
static void mark_roots(const tp_dim *dim, size_t count, finding *f)
{
    for (size_t i = 0; i < count; i++) {
        int64_t hint;
        if (!dim[i].derived || !(f[dim[i].root].constant || f[dim[i].root].complex) || !tp_sym_hint(dim[i].symbol, &hint))
            continue;
        f[dim[i].root].complex = true;
        f[dim[i].root].constant = false;
        f[i].complex = true;
        f[i].value = hint;
    }
}

/* Relations of several symbols that no replacement expresses, and replacements that are no linear function of one. */
static bool mark_complex(tp_shape_env *env, const tp_dim *dim, size_t count, finding *f)
{
    tp_binding now[MOST_SYMBOLS];
    size_t replaced = 0;
    for (size_t i = 0; i < count && replaced < MOST_SYMBOLS; i++)
        if (is_symbol(dim[i].symbol) && !tp_sym_same(tp_sym_simplify(dim[i].symbol), dim[i].symbol))
            now[replaced++] = (tp_binding){ dim[i].symbol, tp_sym_simplify(dim[i].symbol) };
    for (size_t g = 0; g < tp_shape_env_guard_count(env); g++) {
        const tp_sym_fact *guard = tp_shape_env_guard_at(env, g);
        tp_sym c = tp_sym_substitute(guard->condition, now, replaced), symbol[MOST_SYMBOLS];
        if (tp_sym_is_failed(c))
            return tp_shape_env_check(env);
        if (!guard->deferred && !tp_sym_is_bool(c) && tp_sym_free_symbols(c, symbol, MOST_SYMBOLS) > 1)
            mark_symbols(dim, count, c, f);
    }
    for (size_t i = 0; i < replaced; i++) {
        size_t own = find(dim, count, now[i].symbol);
        if (own < count && !f[own].constant && !f[own].equal && !f[own].related) {
            mark_symbols(dim, count, now[i].symbol, f);
            mark_symbols(dim, count, now[i].value, f);
        }
    }
    return true;
}

/* ---- the message ---- */
typedef struct writing {
    const tp_dim *dim;
    finding *found;
    size_t *order;              /* owned: dims by their sources */
    size_t count;
    tp_text *out;
} writing;

static void put_dim(const writing *w, size_t i)
{
    const tp_dim *d = &w->dim[i];
    tp_text_add(w->out, d->source ? "%s = %s" : "%s", d->name, d->source);
}

/* "3*_dx - 1" */
static void put_linear(tp_text *out, int64_t factor, const char *mark, const char *name, int64_t offset)
{
    if (factor != 1)
        tp_text_add(out, "%lld*", LL(factor));
    tp_text_add(out, "%s%s", mark, name);
    if (offset)
        tp_text_add(out, " %c %lld", offset < 0 ? '-' : '+', LL(offset < 0 ? -offset : offset));
}

static void put_guard(const writing *w, size_t i)
{
    const finding *f = &w->found[i];
    const tp_symbol *s = tp_symbol_of(w->dim[i].symbol);
    const char *source = w->dim[i].source ? w->dim[i].source : w->dim[i].name;
    bool low = f->range.low > s->declared.low, high = f->range.high < s->declared.high;
    if (high)
        tp_text_add(w->out, "%lld <= %s and %s <= %lld", LL(f->range.low), source, source, LL(f->range.high));
    else if (low)
        tp_text_add(w->out, "%s >= %lld", source, LL(f->range.low));
}

static void put_residues(const writing *w)
{
    for (size_t k = 0; k < w->count; k++) {
        size_t i = w->order[k];
        const finding *f = &w->found[i];
        if (!f->stepped || f->complex)
            continue;
        tp_text_add(w->out, "  - Not all values of ");
        put_dim(w, i);
        tp_text_add(w->out, " in the specified range satisfy the generated guard %s %% %lld == %lld.\n",
                    w->dim[i].source ? w->dim[i].source : w->dim[i].name, LL(f->step), LL(f->shift < 0 ? f->shift + f->step : f->shift));
    }
}

static void put_line(const writing *w, size_t i)
{
    const finding *f = &w->found[i];
    if (f->constant) {
        tp_text_add(w->out, "  - Not all values of ");
        put_dim(w, i);
        tp_text_add(w->out, " in the specified range are valid because %s was inferred to be a constant (%lld).\n", w->dim[i].name,
                    LL(f->value));
    } else if (f->equal || f->related) {
        tp_text_add(w->out, "  - The values of ");
        put_dim(w, i);
        tp_text_add(w->out, f->equal ? " and " : " must always be related to the values of ");
        put_dim(w, f->of);
        if (f->equal) {
            tp_text_add(w->out, " must always be equal.\n");
            return;
        }
        tp_text_add(w->out, " by %s = ", w->dim[i].name);
        put_linear(w->out, f->factor, "", w->dim[f->of].name, f->offset);
        tp_text_add(w->out, ".\n");
    } else if (f->narrowed) {
        tp_text_add(w->out, "  - Not all values of ");
        put_dim(w, i);
        tp_text_add(w->out, " in the specified range satisfy the generated guard ");
        put_guard(w, i);
        tp_text_add(w->out, ".\n");
    }
}

/* name = Dim('name', min=3, max=6); a minimum of 2 is never said */
static void put_range(tp_text *out, const char *mark, const char *name, tp_range r)
{
    tp_text_add(out, "  %s%s = Dim('%s%s'", mark, name, mark, name);
    if (r.low > 2)
        tp_text_add(out, ", min=%lld", LL(r.low));
    if (r.high != INT64_MAX)
        tp_text_add(out, ", max=%lld", LL(r.high));
    tp_text_add(out, ")\n");
}

static void put_range_fixes(const writing *w)
{
    for (size_t k = 0; k < w->count; k++) {
        size_t i = w->order[k];
        const finding *f = &w->found[i];
        if (f->complex || !f->narrowed)
            continue;
        tp_range r = f->range;
        if (f->stepped) {
            r.low = divide_up(r.low - f->shift, f->step);
            r.high = r.high == INT64_MAX ? r.high : tp_int_floordiv(r.high - f->shift, f->step);
        }
        put_range(w->out, f->stepped ? "_" : "", w->dim[i].name, r);
    }
}

static void put_value_fixes(const writing *w)
{
    for (size_t k = 0; k < w->count; k++) {
        size_t i = w->order[k];
        const finding *f = &w->found[i];
        const char *name = w->dim[i].name;
        if (w->dim[i].derived)
            continue;
        if (f->constant || f->complex)
            tp_text_add(w->out, "  %s = %lld\n", name, LL(f->value));
        else if (f->equal || f->related) {
            const finding *root = &w->found[f->of];
            tp_text_add(w->out, "  %s = ", name);
            if (root->stepped)
                put_linear(w->out, f->factor * root->step, "_", w->dim[f->of].name, f->factor * root->shift + f->offset);
            else
                put_linear(w->out, f->factor, "", w->dim[f->of].name, f->offset);
            tp_text_add(w->out, "\n");
        } else if (f->stepped) {
            tp_text_add(w->out, "  %s = ", name);
            put_linear(w->out, f->step, "_", name, f->shift);
            tp_text_add(w->out, "\n");
        }
    }
}

static bool is_ordinary(const finding *f)
{
    return !f->complex && (f->constant || f->equal || f->related || f->narrowed || f->stepped);
}

/* The names of those that `choose` picks, "a, b". */
static void put_names(const writing *w, bool complex)
{
    const char *between = "";
    for (size_t k = 0; k < w->count; k++) {
        const finding *f = &w->found[w->order[k]];
        if (w->dim[w->order[k]].derived || (complex ? !f->complex : !is_ordinary(f)))
            continue;
        tp_text_add(w->out, "%s%s", between, w->dim[w->order[k]].name);
        between = ", ";
    }
}

static void write_message(const writing *w, bool ordinary, bool complex)
{
    if (ordinary) {
        tp_text_add(w->out, "Constraints violated (");
        put_names(w, false);
        tp_text_add(w->out, ")! For more information, run with TORCH_LOGS=\"+dynamic\".\n");
        put_residues(w);
        for (size_t k = 0; k < w->count; k++)
            if (!w->found[w->order[k]].complex)
                put_line(w, w->order[k]);
    }
    if (complex) {
        tp_text_add(w->out, "Specializations unexpectedly required (");
        put_names(w, true);
        tp_text_add(w->out, ")! For more information, run with TORCH_LOGS=\"+dynamic\".\n");
        for (size_t k = 0; k < w->count; k++)
            if (w->found[w->order[k]].complex) {
                tp_text_add(w->out, "  - ");
                put_dim(w, w->order[k]);
                tp_text_add(w->out, " must be specialized to %lld because the guards generated for it are too complex.\n",
                            LL(w->found[w->order[k]].value));
            }
    }
    size_t before = w->out->length;
    tp_text_add(w->out, "Suggested fixes:\n");
    size_t empty = w->out->length;
    put_range_fixes(w);
    put_value_fixes(w);
    if (!w->out->failed && w->out->length == empty)
        w->out->at[w->out->length = before] = 0;
}

static void sort_by_source(writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        size_t k = i;
        const char *source = w->dim[i].source ? w->dim[i].source : w->dim[i].name;
        for (; k > 0; k--) {
            const tp_dim *other = &w->dim[w->order[k - 1]];
            if (strcmp(other->source ? other->source : other->name, source) <= 0)
                break;
            w->order[k] = w->order[k - 1];
        }
        w->order[k] = i;
    }
}

bool tp_dims_check(tp_shape_env *env, const tp_dim *dim, size_t count, bool keep_complex, tp_text *out)
{
    writing w = { .dim = dim, .count = count, .out = out, .found = tp_alloc_array(count + 1, sizeof(finding)) };
    w.order = w.found ? tp_alloc_array(count + 1, sizeof(size_t)) : NULL;
    bool ok = w.order != NULL, ordinary = false, complex = false;
    for (size_t i = 0; ok && i < count; i++)
        look(dim, count, i, &w.found[i]);
    ok = ok && (keep_complex || mark_complex(env, dim, count, w.found));
    if (ok && !keep_complex)
        mark_roots(dim, count, w.found);
    for (size_t i = 0; ok && i < count; i++) {
        complex = complex || w.found[i].complex;
        ordinary = ordinary || is_ordinary(&w.found[i]);
    }
    if (ok && (ordinary || complex)) {
        sort_by_source(&w);
        write_message(&w, ordinary, complex);
        ok = !out->failed || tp_fail_memory();
    }
    tp_free(w.order);
    tp_free(w.found);
    return ok;
}
