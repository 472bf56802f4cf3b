/* print.c - expressions as text, in the order sympy gives them.
 *
 * Inside a sum the generators (symbols, then other atoms) are sorted by the key below, and the terms by their exponents over
 * the sorted generators, largest first; a product names its number first. One exception: a positive number and a single
 * negative power print as `5 - 2*s0`. The key of an expression, compared part by part:
 *
 *     class      number 1, symbol 2, product 3.0, sum 3.1, function 4 (by name), Max and Min 4.5,
 *                comparison 5 (by class name), and/or 6, not 7
 *     arguments  how many, then each by its key; of a symbol its name
 *     weight     the exponent of a power, the coefficient of a product, the value of a number
 *
 * Parentheses are PyTorch's: `//`, Mod and most functions stand in their own inside sums, products and inequalities. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

/* coefficient * of**exponent; `of` is UNIT, an atom, a monomial or a sum of several terms (these two with exponent 1) */
typedef struct piece {
    uint64_t of;
    int64_t  exponent, coefficient;
} piece;

typedef struct piece_list {
    piece *item;            /* owned; NULL when memory ran out */
    size_t count;
} piece_list;

static int compare_pieces(piece a, piece b);

static piece piece_of(tp_sym x)
{
    sym_terms t;
    if (tp_sym_type_of(x) != TP_SYM_INT)
        return (piece){ x.word, 1, 1 };
    tp_sym_terms(x, &t);
    if (t.count == 0)
        return (piece){ UNIT, 1, 0 };
    return t.count == 1 ? (piece){ t.term[0].of, 1, t.term[0].coefficient } : (piece){ x.word, 1, 1 };
}

static void insert(piece_list *list, piece p)
{
    size_t at = list->count++;
    for (; at && compare_pieces(list->item[at - 1], p) > 0; at--)
        list->item[at] = list->item[at - 1];
    list->item[at] = p;
}

static piece_list factors_of(uint64_t of)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t count = tp_sym_factors(of, &f, &own);
    piece_list list = { tp_alloc_array(count + 1, sizeof(piece)), 0 };
    for (size_t i = 0; list.item && i < count; i++)
        insert(&list, (piece){ f[i].atom, f[i].exponent, 1 });
    return list;
}

/* The generators of a sum, sorted, each once. */
static piece_list generators_of(const sym_terms *t)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t room = 1;
    for (size_t i = 0; i < t->count; i++)
        room += tp_sym_factors(t->term[i].of, &f, &own);
    piece_list list = { tp_alloc_array(room, sizeof(piece)), 0 };
    for (size_t i = 0; list.item && i < t->count; i++) {
        size_t count = tp_sym_factors(t->term[i].of, &f, &own);
        for (size_t j = 0; j < count; j++) {
            bool seen = false;
            for (size_t k = 0; k < list.count; k++)
                seen = seen || list.item[k].of == f[j].atom;
            if (!seen)
                insert(&list, (piece){ f[j].atom, 1, 1 });
        }
    }
    return list;
}

static int64_t exponent_of(uint64_t of, uint64_t atom)
{
    const sym_factor *f = NULL;
    sym_factor own;
    size_t count = tp_sym_factors(of, &f, &own);
    for (size_t i = 0; i < count; i++)
        if (f[i].atom == atom)
            return f[i].exponent;
    return 0;
}

/* The terms of a sum in printing order. */
static piece_list terms_of(tp_sym x)
{
    sym_terms t;
    tp_sym_terms(x, &t);
    piece_list generators = generators_of(&t);
    piece_list list = { generators.item ? tp_alloc_array(t.count + 1, sizeof(piece)) : NULL, 0 };
    for (size_t i = 0; list.item && i < t.count; i++) {
        size_t at = list.count++;
        for (; at; at--) {
            int64_t more = 0;
            for (size_t g = 0; g < generators.count && !more; g++)
                more = exponent_of(t.term[i].of, generators.item[g].of) -
                       exponent_of(list.item[at - 1].of, generators.item[g].of);
            if (more <= 0)
                break;
            list.item[at] = list.item[at - 1];
        }
        list.item[at] = (piece){ t.term[i].of, 1, t.term[i].coefficient };
    }
    tp_free(generators.item);
    return list;
}

static bool mod_as_written(tp_sym x)
{
    return tp_sym_range(sym_arg(x, 0)).low >= 0 && tp_sym_range(sym_arg(x, 1)).low >= 0;
}

typedef struct sort_key {
    int         class;
    const char *name;
    int64_t     weight;
} sort_key;

static sort_key key_of(piece p)
{
    tp_sym x = { p.of };
    if (p.of == UNIT || !tp_sym_is_node(x))
        return (sort_key){ 10, "", p.of == UNIT ? p.coefficient : 0 };
    sort_key k = { 40, tp_sym_kinds[sym_node(x)->kind].sort, p.coefficient != 1 ? p.coefficient : p.exponent };
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_number: k.class = 10; break;
    case KIND_symbol:
        k.class = 20;
        k.weight = k.weight == 1 ? 0 : k.weight;
        break;
    case KIND_monomial: k.class = 30; break;
    case KIND_float_mul: k.class = 30; break;
    case KIND_poly:
    case KIND_float_add: k.class = 31; break;
    case KIND_max:
    case KIND_min: k.class = 45; break;
    case KIND_mod: k.name = mod_as_written(x) ? k.name : "PythonMod"; break;
    case KIND_and:
    case KIND_or: k.class = 60; break;
    case KIND_not: k.class = 70; break;
    default: k.class = sym_node(x)->type == TP_SYM_BOOL ? 50 : 40; break;
    }
    return k;
}

/* The arguments whose keys a key contains. */
static piece_list arguments_of(piece p)
{
    tp_sym x = { p.of };
    if (sym_is_kind(x, KIND_monomial))
        return factors_of(p.of);
    if (sym_is_kind(x, KIND_poly))
        return terms_of(x);
    size_t count = tp_sym_is_node(x) && !sym_is_kind(x, KIND_number) ? sym_node(x)->count : 0;
    piece_list list = { tp_alloc_array(count + 1, sizeof(piece)), 0 };
    bool sorted = sym_is_kind(x, KIND_max) || sym_is_kind(x, KIND_min) || sym_is_kind(x, KIND_and) ||
                  sym_is_kind(x, KIND_or) || sym_is_kind(x, KIND_float_add);
    for (size_t i = 0; list.item && i < count; i++) {
        piece one = piece_of(sym_arg(x, i));
        if (sorted)
            insert(&list, one);
        else
            list.item[list.count++] = one;
    }
    return list;
}

/* s0**2 as a monomial is the power of an atom. */
static piece as_power(piece p)
{
    const sym_factor *f = NULL;
    sym_factor own;
    if (sym_is_kind((tp_sym){ p.of }, KIND_monomial) && tp_sym_factors(p.of, &f, &own) == 1)
        return (piece){ f->atom, f->exponent, p.coefficient };
    return p;
}

static int compare_arguments(piece a, piece b)
{
    piece_list la = arguments_of(a), lb = arguments_of(b);
    int order = 0;
    if (la.item && lb.item) {
        order = (la.count > lb.count) - (la.count < lb.count);
        for (size_t i = 0; !order && i < la.count; i++)
            order = compare_pieces(la.item[i], lb.item[i]);
    }
    tp_free(la.item);
    tp_free(lb.item);
    return order;
}

static int compare_pieces(piece a, piece b)
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
    return order ? order : (ka.weight > kb.weight) - (ka.weight < kb.weight);
}

/* Writing */

/* Does it stand in parentheses inside a sum, product or inequality? */
static bool is_wrapped(tp_sym x)
{
    if (!tp_sym_is_node(x))
        return false;
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_floordiv:
    case KIND_mod:
    case KIND_pow:
    case KIND_where:
    case KIND_trunc:
    case KIND_int_truediv:
    case KIND_float_truediv:
    case KIND_float_pow: return true;
    default: return false;
    }
}

static void print_in(tp_sym x, bool parentheses, tp_text *text)
{
    tp_text_put(text, "(", parentheses);
    tp_sym_print(x, text);
    tp_text_put(text, ")", parentheses);
}

static void print_factors(piece p, tp_text *text)
{
    uint64_t size = p.coefficient < 0 ? 0 - (uint64_t)p.coefficient : (uint64_t)p.coefficient;
    const char *times = "";
    if (size != 1 || p.of == UNIT) {
        tp_text_add(text, "%llu", (unsigned long long)size);
        times = "*";
    }
    piece_list list = factors_of(p.of);
    text->failed = text->failed || !list.item;
    for (size_t i = 0; i < list.count; i++, times = "*") {
        tp_text_add(text, "%s", times);
        print_in((tp_sym){ list.item[i].of }, is_wrapped((tp_sym){ list.item[i].of }), text);
        if (list.item[i].exponent != 1)
            tp_text_add(text, "**%lld", LL(list.item[i].exponent));
    }
    tp_free(list.item);
}

static bool is_one_power(uint64_t of)
{
    const sym_factor *f = NULL;
    sym_factor own;
    return of != UNIT && tp_sym_factors(of, &f, &own) == 1;
}

static void print_poly(tp_sym x, tp_text *text)
{
    piece_list list = terms_of(x);
    text->failed = text->failed || !list.item;
    if (list.count == 2 && list.item[1].of == UNIT && list.item[1].coefficient > 0 && list.item[0].coefficient < 0 &&
        is_one_power(list.item[0].of)) {
        piece first = list.item[0];
        list.item[0] = list.item[1];
        list.item[1] = first;
    }
    for (size_t i = 0; i < list.count; i++) {
        bool minus = list.item[i].coefficient < 0;
        tp_text_add(text, "%s", i ? (minus ? " - " : " + ") : minus ? "-" : "");
        print_factors(list.item[i], text);
    }
    tp_free(list.item);
}

/* Digits enough to read the same double back, always with a point, exponents without leading zeros: 2.0, 1.0e-9. */
static void print_number(double value, tp_text *text)
{
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        double back;
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (!isfinite(value) || (sscanf(digits, "%lf", &back) == 1 && back == value))
            break;
    }
    if (!isfinite(value)) {
        tp_text_add(text, "%s", isnan(value) ? "nan" : value < 0 ? "-oo" : "oo");
        return;
    }
    char *e = strchr(digits, 'e');
    if (e && fabs(value) < 1e16 && fabs(value) >= 1) {      /* %g turns to exponents sooner than Python does */
        snprintf(digits, sizeof digits, "%.1f", value);
        e = NULL;
    }
    size_t length = e ? (size_t)(e - digits) : strlen(digits);
    tp_text_put(text, digits, length);
    if (!memchr(digits, '.', length))
        tp_text_add(text, ".0");
    if (e)
        tp_text_add(text, "e%c%d", e[1], atoi(e + 2));
}

static double number_of(tp_sym x)
{
    double value = 0;
    if (sym_is_kind(x, KIND_number))
        memcpy(&value, sym_node(x)->word, sizeof value);
    return value;
}

static void print_float_sum(tp_sym x, tp_text *text)
{
    piece_list list = arguments_of((piece){ x.word, 1, 1 });
    text->failed = text->failed || !list.item;
    if (list.count == 2 && sym_is_kind((tp_sym){ list.item[0].of }, KIND_number)) {
        piece number = list.item[0];
        list.item[0] = list.item[1];
        list.item[1] = number;
    }
    for (size_t i = 0; i < list.count; i++) {
        tp_sym part = { list.item[i].of };
        if (i && number_of(part) < 0) {
            tp_text_add(text, " - ");
            print_number(-number_of(part), text);
            continue;
        }
        tp_text_add(text, "%s", i ? " + " : "");
        print_in(part, is_wrapped(part), text);
    }
    tp_free(list.item);
}

static void print_float_product(tp_sym x, tp_text *text)
{
    tp_sym a = sym_arg(x, 0), b = sym_arg(x, 1);
    bool minus = number_of(a) == -1;
    if (!minus)
        print_in(a, is_wrapped(a) || sym_is_kind(a, KIND_float_add), text);
    tp_text_add(text, minus ? "-" : "*");
    print_in(b, is_wrapped(b) || sym_is_kind(b, KIND_float_add), text);
}

static void print_floordiv(tp_sym x, tp_text *text)
{
    for (size_t i = 0; i < 2; i++) {
        tp_sym a = sym_arg(x, i);
        bool bare = tp_sym_is_symbol(a) || sym_is_kind(a, KIND_max) || sym_is_kind(a, KIND_min) ||
                    (tp_sym_is_int(a) && tp_sym_as_int(a) >= 0);
        tp_text_add(text, i ? "//" : "(");
        print_in(a, !bare, text);
    }
    tp_text_add(text, ")");
}

static bool is_inequality(tp_sym x)
{
    tp_compare how;
    return tp_sym_compare_of(x, &how) && how >= TP_LT;
}

static void print_junction(tp_sym x, tp_text *text)
{
    piece_list list = arguments_of((piece){ x.word, 1, 1 });
    text->failed = text->failed || !list.item;
    for (size_t i = 0; i < list.count; i++) {
        tp_sym a = { list.item[i].of };
        if (i)
            tp_text_add(text, "%s", tp_sym_kinds[sym_node(x)->kind].head);
        print_in(a, is_inequality(a) || sym_is_kind(a, KIND_and) || sym_is_kind(a, KIND_or), text);
    }
    tp_free(list.item);
}

static void print_call(tp_sym x, const char *head, tp_text *text)
{
    piece_list list = { 0 };
    bool sorted = sym_is_kind(x, KIND_max) || sym_is_kind(x, KIND_min);
    if (sorted) {
        list = arguments_of((piece){ x.word, 1, 1 });
        text->failed = text->failed || !list.item;
    }
    tp_text_add(text, "%s(", head);
    for (size_t i = 0; i < (sorted ? list.count : sym_node(x)->count); i++) {
        tp_text_add(text, "%s", i ? ", " : "");
        if (sorted) {
            sym_term term = { list.item[i].of, list.item[i].coefficient };
            bool sum = sym_is_kind((tp_sym){ term.of }, KIND_poly);
            tp_sym_print(sum ? (tp_sym){ term.of } : tp_sym_from_terms(sym_env(x), &term, term.coefficient != 0), text);
        } else {
            tp_sym_print(sym_arg(x, i), text);
        }
    }
    tp_text_add(text, ")");
    tp_free(list.item);
}

void tp_sym_print(tp_sym x, tp_text *text)
{
    if (tp_sym_is_int(x)) {
        tp_text_add(text, "%lld", LL(tp_sym_as_int(x)));
        return;
    }
    if (!tp_sym_is_node(x)) {
        tp_text_add(text, "%s", x.word == TP_SYM_TRUE.word ? "True" : x.word == TP_SYM_FALSE.word ? "False" : "<failed>");
        return;
    }
    const char *head = tp_sym_kinds[sym_node(x)->kind].head;
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_symbol: tp_text_add(text, "%s", tp_sym_symbol(x)->name); break;
    case KIND_number: print_number(number_of(x), text); break;
    case KIND_monomial: print_factors((piece){ x.word, 1, 1 }, text); break;
    case KIND_poly: print_poly(x, text); break;
    case KIND_floordiv: print_floordiv(x, text); break;
    case KIND_mod: print_call(x, mod_as_written(x) ? head : "PythonMod", text); break;
    case KIND_float_add: print_float_sum(x, text); break;
    case KIND_float_mul: print_float_product(x, text); break;
    case KIND_lt:
    case KIND_le:
    case KIND_gt:
    case KIND_ge:
        print_in(sym_arg(x, 0), is_wrapped(sym_arg(x, 0)), text);
        tp_text_add(text, "%s", head);
        print_in(sym_arg(x, 1), is_wrapped(sym_arg(x, 1)), text);
        break;
    case KIND_and:
    case KIND_or: print_junction(x, text); break;
    case KIND_not:
        tp_text_add(text, "~");
        print_in(sym_arg(x, 0), true, text);
        break;
    default: print_call(x, head, text); break;
    }
}
