/* print.c - expressions as text, in sympy's order (order.c).
 *
 * A product names its number first. One exception to the order: a positive number and a single negative power print as
 * `5 - 2*s0`. Parentheses are PyTorch's: `//`, Mod and most functions stand in their own inside sums, products and
 * inequalities. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

/* Does it stand in parentheses inside a sum, product or inequality? */
static bool is_wrapped(tp_sym x)
{
    if (!tp_sym_is_node(x))
        return false;
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_floordiv:
    case KIND_mod:
    case KIND_pow:
    case KIND_bit_and:
    case KIND_bit_or:
    case KIND_bit_xor:
    case KIND_where:
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

static void print_factors(sym_piece p, tp_text *text)
{
    uint64_t size = p.coefficient < 0 ? 0 - (uint64_t)p.coefficient : (uint64_t)p.coefficient;
    const char *times = "";
    if (size != 1 || p.of == UNIT) {
        tp_text_add(text, "%llu", (unsigned long long)size);
        times = "*";
    }
    sym_piece_list list = tp_sym_ordered_factors(p.of);
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
    sym_piece_list list = tp_sym_ordered_terms(x);
    text->failed = text->failed || !list.item;
    if (list.count == 2 && list.item[1].of == UNIT && list.item[1].coefficient > 0 && list.item[0].coefficient < 0 &&
        is_one_power(list.item[0].of)) {
        sym_piece first = list.item[0];
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
    sym_piece_list list = tp_sym_ordered_arguments(x);
    text->failed = text->failed || !list.item;
    if (list.count == 2 && sym_is_kind((tp_sym){ list.item[0].of }, KIND_number)) {
        sym_piece number = list.item[0];
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
    sym_piece_list list = tp_sym_ordered_arguments(x);
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
    sym_piece_list list = { 0 };
    bool sorted = sym_is_kind(x, KIND_max) || sym_is_kind(x, KIND_min);
    if (sorted) {
        list = tp_sym_ordered_arguments(x);
        text->failed = text->failed || !list.item;
    }
    tp_text_add(text, "%s(", head);
    for (size_t i = 0; i < (sorted ? list.count : sym_node(x)->count); i++) {
        tp_text_add(text, "%s", i ? ", " : "");
        if (sorted && sym_node(x)->type == TP_SYM_FLOAT) {
            tp_sym_print((tp_sym){ list.item[i].of }, text);
        } else if (sorted) {
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
        bool truth = tp_sym_same(x, TP_SYM_TRUE);
        tp_text_add(text, "%s", truth ? "True" : tp_sym_is_bool(x) ? "False" : "<failed>");
        return;
    }
    const char *head = tp_sym_kinds[sym_node(x)->kind].head;
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_symbol: tp_text_add(text, "%s", tp_sym_symbol(x)->name); break;
    case KIND_number: print_number(number_of(x), text); break;
    case KIND_monomial: print_factors((sym_piece){ x.word, 1, 1 }, text); break;
    case KIND_poly: print_poly(x, text); break;
    case KIND_floordiv: print_floordiv(x, text); break;
    case KIND_mod: print_call(x, tp_sym_is_plain_mod(x) ? head : "PythonMod", text); break;
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
