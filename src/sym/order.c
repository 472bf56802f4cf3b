/* order.c - the order in which sympy prints: of terms, of factors, of the arguments of Max, And and the like.
 *
 * Inside a sum the generators (symbols, then other atoms) are sorted by the key below, and the terms by their exponents
 * over the sorted generators, largest first. The key of an expression, compared part by part:
 *
 *     class      number 1, symbol 2, product 3.0, sum 3.1, function 4 (by name), Max and Min 4.5,
 *                comparison 5 (by class name), and/or 6, not 7
 *     arguments  how many, then each by its key; of a symbol its name
 *     exponent   of a power, else 1
 *     number     the coefficient of a product, the value of a number
 *
 * The rule was found by experiment and held for thousands of random expressions. */
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

sym_piece tp_sym_piece_of(tp_sym x)
{
    sym_terms t;
    if (tp_sym_type_of(x) != TP_SYM_INT)
        return (sym_piece){ x.word, 1, 1 };
    tp_sym_terms(x, &t);
    if (t.count == 0)
        return (sym_piece){ UNIT, 1, 0 };
    return t.count == 1 ? (sym_piece){ t.term[0].of, 1, t.term[0].coefficient } : (sym_piece){ x.word, 1, 1 };
}

static void insert(sym_piece_list *list, sym_piece p)
{
    size_t at = list->count++;
    for (; at && tp_sym_compare_pieces(list->item[at - 1], p) > 0; at--)
        list->item[at] = list->item[at - 1];
    list->item[at] = p;
}

sym_piece_list tp_sym_ordered_factors(uint64_t of)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t count = tp_sym_factors(of, &f, &own);
    sym_piece_list list = { tp_alloc_array(count + 1, sizeof(sym_piece)), 0 };
    for (size_t i = 0; list.item && i < count; i++)
        insert(&list, (sym_piece){ f[i].atom, f[i].exponent, 1 });
    return list;
}

/* A generator of a sum and its place among them as they print. */
typedef struct generator {
    uint64_t atom;
    size_t   place;
} generator;

static int by_atom(const void *a, const void *b)
{
    uint64_t x = ((const generator *)a)->atom, y = ((const generator *)b)->atom;
    return (x > y) - (x < y);
}

static int by_key(const void *a, const void *b)
{
    return tp_sym_compare_pieces(*(const sym_piece *)a, *(const sym_piece *)b);
}

/* The generators of a sum by word, each once; NULL when memory ran out. */
static generator *generators_of(const sym_terms *t, size_t *count)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t room = 0, kept = 0;
    for (size_t i = 0; i < t->count; i++)
        room += tp_sym_factors(t->term[i].of, &f, &own);
    generator *all = tp_alloc_array(room + 1, sizeof *all);
    sym_piece *key = all ? tp_alloc_array(room + 1, sizeof *key) : NULL;
    for (size_t i = 0, at = 0; key && i < t->count; i++)
        for (size_t j = 0, n = tp_sym_factors(t->term[i].of, &f, &own); j < n; j++)
            all[at++] = (generator){ f[j].atom, 0 };
    if (key)
        qsort(all, room, sizeof *all, by_atom);
    for (size_t i = 0; key && i < room; i++)
        if (!kept || all[kept - 1].atom != all[i].atom) {
            key[kept] = (sym_piece){ all[i].atom, 1, 1 };
            all[kept++] = all[i];
        }
    if (key)
        qsort(key, kept, sizeof *key, by_key);
    for (size_t i = 0; key && i < kept; i++)
        ((generator *)bsearch(&(generator){ key[i].of, 0 }, all, kept, sizeof *all, by_atom))->place = i;
    if (!key)
        tp_free(all);
    tp_free(key);
    *count = kept;
    return key ? all : NULL;
}

/* A term with its factors by the places of their atoms. */
typedef struct placed {
    sym_piece   piece;
    sym_factor *factor;         /* borrowed; `atom` is a place */
    size_t      count;
} placed;

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const sym_factor *)a)->atom, y = ((const sym_factor *)b)->atom;
    return (x > y) - (x < y);
}

/* The more of the first generator in which they differ, the earlier. */
static int by_exponents(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    for (size_t i = 0; i < x->count && i < y->count; i++) {
        sym_factor f = x->factor[i], g = y->factor[i];
        if (f.atom != g.atom)
            return f.atom < g.atom ? -1 : 1;
        if (f.exponent != g.exponent)
            return f.exponent > g.exponent ? -1 : 1;
    }
    return (x->count < y->count) - (x->count > y->count);
}

/* The terms of a sum in printing order. */
sym_piece_list tp_sym_ordered_terms(tp_sym x)
{
    sym_terms t;
    const sym_factor *f = NULL;
    sym_factor own;
    size_t known = 0, room = 1, used = 0;
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count; i++)
        room += tp_sym_factors(t.term[i].of, &f, &own);
    generator *generators = generators_of(&t, &known);
    placed *term = generators ? tp_alloc_array(t.count + 1, sizeof *term) : NULL;
    sym_factor *factors = term ? tp_alloc_array(room, sizeof *factors) : NULL;
    sym_piece_list list = { factors ? tp_alloc_array(t.count + 1, sizeof(sym_piece)) : NULL, 0 };
    for (size_t i = 0; list.item && i < t.count; i++) {
        size_t n = tp_sym_factors(t.term[i].of, &f, &own);
        term[i] = (placed){ { t.term[i].of, 1, t.term[i].coefficient }, factors + used, n };
        for (size_t j = 0; j < n; j++) {
            const generator *g = bsearch(&(generator){ f[j].atom, 0 }, generators, known, sizeof *g, by_atom);
            factors[used++] = (sym_factor){ g->place, f[j].exponent };
        }
        qsort(term[i].factor, n, sizeof *f, by_place);
    }
    if (list.item)
        qsort(term, t.count, sizeof *term, by_exponents);
    for (; list.item && list.count < t.count; list.count++)
        list.item[list.count] = term[list.count].piece;
    tp_free(factors);
    tp_free(term);
    tp_free(generators);
    return list;
}

bool tp_sym_is_plain_mod(tp_sym x)
{
    return tp_sym_range(sym_arg(x, 0)).low >= 0 && tp_sym_range(sym_arg(x, 1)).low >= 0;
}

typedef struct sort_key {
    int         class;
    const char *name;
} sort_key;

static sort_key key_of(sym_piece p)
{
    tp_sym x = { p.of };
    if (p.of == UNIT || !tp_sym_is_node(x))
        return (sort_key){ 10, "" };
    sort_key k = { 40, tp_sym_kinds[sym_node(x)->kind].sort };
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_number: k.class = 10; break;
    case KIND_symbol: k.class = 20; break;
    case KIND_monomial: k.class = 30; break;
    case KIND_float_mul: k.class = 30; break;
    case KIND_poly:
    case KIND_float_add: k.class = 31; break;
    case KIND_max:
    case KIND_min: k.class = 45; break;
    case KIND_mod: k.name = tp_sym_is_plain_mod(x) ? k.name : "PythonMod"; break;
    case KIND_and:
    case KIND_or: k.class = 60; break;
    case KIND_not: k.class = 70; break;
    default: k.class = sym_node(x)->type == TP_SYM_BOOL ? 50 : 40; break;
    }
    return k;
}

/* The arguments whose keys a key contains. */
sym_piece_list tp_sym_ordered_arguments(tp_sym x)
{
    if (sym_is_kind(x, KIND_monomial))
        return tp_sym_ordered_factors(x.word);
    if (sym_is_kind(x, KIND_poly))
        return tp_sym_ordered_terms(x);
    size_t count = tp_sym_is_node(x) && !sym_is_kind(x, KIND_number) ? sym_node(x)->count : 0;
    sym_piece_list list = { tp_alloc_array(count + 1, sizeof(sym_piece)), 0 };
    bool sorted = sym_is_kind(x, KIND_max) || sym_is_kind(x, KIND_min) || sym_is_kind(x, KIND_and) ||
                  sym_is_kind(x, KIND_or) || sym_is_kind(x, KIND_float_add);
    for (size_t i = 0; list.item && i < count; i++) {
        sym_piece one = tp_sym_piece_of(sym_arg(x, i));
        if (sorted)
            insert(&list, one);
        else
            list.item[list.count++] = one;
    }
    return list;
}

/* s0**2 as a monomial is the power of an atom. */
static sym_piece as_power(sym_piece p)
{
    const sym_factor *f = NULL;
    sym_factor own;
    if (sym_is_kind((tp_sym){ p.of }, KIND_monomial) && tp_sym_factors(p.of, &f, &own) == 1)
        return (sym_piece){ f->atom, f->exponent, p.coefficient };
    return p;
}

static int compare_arguments(sym_piece a, sym_piece b)
{
    sym_piece_list la = tp_sym_ordered_arguments((tp_sym){ a.of }), lb = tp_sym_ordered_arguments((tp_sym){ b.of });
    int order = 0;
    if (la.item && lb.item) {
        order = (la.count > lb.count) - (la.count < lb.count);
        for (size_t i = 0; !order && i < la.count; i++)
            order = tp_sym_compare_pieces(la.item[i], lb.item[i]);
    }
    tp_free(la.item);
    tp_free(lb.item);
    return order;
}

int tp_sym_compare_pieces(sym_piece a, sym_piece b)
{
    a = as_power(a);
    b = as_power(b);
    sort_key ka = key_of(a), kb = key_of(b);
    if (ka.class != kb.class)
        return ka.class < kb.class ? -1 : 1;
    int order = strcmp(ka.name, kb.name);
    if (!order && ka.class == 20)
        order = strcmp(tp_sym_symbol((tp_sym){ a.of })->name, tp_sym_symbol((tp_sym){ b.of })->name);
    else if (!order && ka.class > 20 && a.of != b.of)
        order = compare_arguments(a, b);
    if (!order)
        order = (a.exponent > b.exponent) - (a.exponent < b.exponent);
    return order ? order : (a.coefficient > b.coefficient) - (a.coefficient < b.coefficient);
}
