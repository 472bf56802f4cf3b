/* source.c - conditions as Python expressions over the inputs that the symbols came from.
 *
 *     Eq(Mod(s0, 4), 0)   ->  (L['x'].size()[0] % 4) == 0
 *     s0 + 1 <= 2*s1      ->  1 + L['x'].size()[0] <= 2*L['y'].size()[0]
 *
 * This is the text of guards in messages and logs. Sums begin with their number, then come plain symbols, then the
 * rest; small powers are written as products. A symbol without a source keeps its name. */
#include "sym/node.h"

enum { MOST_REPEATED = 8 };

typedef struct output {
    tp_text *text;
    bool names;                 /* of symbols, not their sources */
} output;


static void put(tp_sym x, output *out);

/* How tightly a printed expression holds together. */
typedef enum strength { CONDITION, SUM, PRODUCT, OPERATOR, ATOM } strength;

static strength strength_of(tp_sym x)
{
    if (tp_sym_is_int(x))
        return tp_sym_as_int(x) < 0 ? SUM : ATOM;
    if (!tp_sym_is_node(x))
        return ATOM;
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_poly: return sym_node(x)->count == 2 ? PRODUCT : SUM;
    case KIND_monomial: return PRODUCT;
    case KIND_float_add: return SUM;
    case KIND_float_mul: return PRODUCT;
    case KIND_floordiv:
    case KIND_mod:
    case KIND_bit_and:
    case KIND_bit_or:
    case KIND_bit_xor:
    case KIND_pow:
    case KIND_float_pow:
    case KIND_int_truediv:
    case KIND_float_truediv: return OPERATOR;
    default: return sym_node(x)->type == TP_SYM_BOOL || sym_is_kind(x, KIND_where) ? CONDITION : ATOM;
    }
}

static void put_in(tp_sym x, bool parentheses, output *out)
{
    tp_text_put(out->text, "(", parentheses);
    put(x, out);
    tp_text_put(out->text, ")", parentheses);
}

static void put_product(sym_piece p, output *out)
{
    sym_piece_list list = tp_sym_ordered_factors(p.of);
    const char *times = "";
    out->text->failed = out->text->failed || !list.item;
    if (p.coefficient != 1 || p.of == UNIT) {
        tp_text_add(out->text, p.coefficient < 0 ? "(%lld)" : "%lld", LL(p.coefficient));
        times = "*";
    }
    for (size_t i = 0; i < list.count; i++) {
        tp_sym atom = { list.item[i].of };
        int64_t repeated = list.item[i].exponent <= MOST_REPEATED ? list.item[i].exponent : 1;
        for (int64_t j = 0; j < repeated; j++, times = "*") {
            tp_text_add(out->text, "%s", times);
            put_in(atom, strength_of(atom) < ATOM, out);
        }
        if (repeated != list.item[i].exponent)
            tp_text_add(out->text, " ** %lld", LL(list.item[i].exponent));
    }
    tp_free(list.item);
}

/* The pass of a sum in which a term is written: number, plain symbols, others. */
static int turn_of(sym_piece p)
{
    return p.of == UNIT ? 0 : p.coefficient == 1 && tp_sym_is_symbol((tp_sym){ p.of }) ? 1 : 2;
}

static void put_sum(tp_sym x, output *out)
{
    sym_piece_list list = tp_sym_ordered_terms(x);
    const char *plus = "";
    out->text->failed = out->text->failed || !list.item;
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < list.count; i++) {
            bool wrapped = turn == 2 && list.item[i].coefficient < 0;
            if (turn_of(list.item[i]) != turn)
                continue;
            tp_text_add(out->text, wrapped ? "%s(" : "%s", plus);
            put_product(list.item[i], out);
            tp_text_put(out->text, ")", wrapped);
            plus = " + ";
        }
    tp_free(list.item);
}

static void put_operator(tp_sym x, const char *sign, strength weakest, output *out)
{
    for (size_t i = 0; i < sym_node(x)->count; i++) {
        tp_text_add(out->text, "%s", i ? sign : "");
        put_in(sym_arg(x, i), strength_of(sym_arg(x, i)) < weakest, out);
    }
}

static void put_comparison(tp_sym x, const char *sign, bool equality, output *out)
{
    for (size_t i = 0; i < 2; i++) {
        tp_sym side = sym_arg(x, i);
        bool power = sym_is_kind(side, KIND_monomial) && sym_node(side)->count == 2;
        strength s = strength_of(side);
        tp_text_add(out->text, "%s", i ? sign : "");
        put_in(side, s == OPERATOR || (equality && s < ATOM && !power && !tp_sym_is_int(side)), out);
    }
}

static void put_call(tp_sym x, const char *head, output *out)
{
    sym_piece_list list = tp_sym_ordered_arguments(x);
    out->text->failed = out->text->failed || !list.item;
    tp_text_add(out->text, "%s(", head);
    for (size_t i = 0; i < list.count; i++) {
        tp_text_add(out->text, "%s", i ? ", " : "");
        if (sym_is_kind((tp_sym){ list.item[i].of }, KIND_poly) ||
            tp_sym_type_of((tp_sym){ list.item[i].of }) != TP_SYM_INT)
            put((tp_sym){ list.item[i].of }, out);
        else
            put_product(list.item[i], out);
    }
    tp_text_add(out->text, ")");
    tp_free(list.item);
}

static void put_where(tp_sym x, output *out)
{
    put_in(sym_arg(x, 1), strength_of(sym_arg(x, 1)) == CONDITION, out);
    tp_text_add(out->text, " if ");
    put(sym_arg(x, 0), out);
    tp_text_add(out->text, " else ");
    put_in(sym_arg(x, 2), strength_of(sym_arg(x, 2)) == CONDITION, out);
}

static void put_node(tp_sym x, output *out)
{
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_symbol:
        tp_text_add(out->text, "%s", tp_sym_symbol(x)->source && !out->names ? tp_sym_symbol(x)->source : tp_sym_symbol(x)->name);
        break;
    case KIND_number: tp_sym_print(x, out->text); break;
    case KIND_monomial: put_product((sym_piece){ x.word, 1, 1 }, out); break;
    case KIND_poly: put_sum(x, out); break;
    case KIND_floordiv: put_operator(x, " // ", ATOM, out); break;
    case KIND_mod: put_operator(x, " % ", ATOM, out); break;
    case KIND_bit_and: put_operator(x, " & ", ATOM, out); break;
    case KIND_bit_or: put_operator(x, " | ", ATOM, out); break;
    case KIND_bit_xor: put_operator(x, " ^ ", ATOM, out); break;
    case KIND_round_decimal: put_call(x, "round", out); break;
    case KIND_pow:
    case KIND_float_pow: put_operator(x, " ** ", ATOM, out); break;
    case KIND_int_truediv:
    case KIND_float_truediv: put_operator(x, " / ", ATOM, out); break;
    case KIND_float_add: put_operator(x, " + ", SUM, out); break;
    case KIND_float_mul: put_operator(x, "*", PRODUCT, out); break;
    case KIND_max: put_call(x, "max", out); break;
    case KIND_min: put_call(x, "min", out); break;
    case KIND_abs: put_call(x, "abs", out); break;
    case KIND_trunc: put_call(x, "math.trunc", out); break;
    case KIND_floor: put_call(x, "math.floor", out); break;
    case KIND_ceil: put_call(x, "math.ceil", out); break;
    case KIND_round: put_call(x, "round", out); break;
    case KIND_to_float: put_call(x, "torch.sym_float", out); break;
    case KIND_where: put_where(x, out); break;
    case KIND_eq: put_comparison(x, " == ", true, out); break;
    case KIND_ne: put_comparison(x, " != ", true, out); break;
    case KIND_lt:
    case KIND_le:
    case KIND_gt:
    case KIND_ge: put_comparison(x, tp_sym_kinds[sym_node(x)->kind].head, false, out); break;
    case KIND_and:
    case KIND_or:
    case KIND_not:
    case KIND_COUNT: break;
#define TP_SYM_ONE(name) case KIND_##name: put_call(x, "math." #name, out); break;
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
    }
}

/* `and` binds tighter than `or`, so only an `or` inside an `and` needs parentheses. */
static void put_junction(tp_sym x, output *out)
{
    sym_piece_list list = tp_sym_ordered_arguments(x);
    bool and = sym_is_kind(x, KIND_and);
    out->text->failed = out->text->failed || !list.item;
    for (size_t i = 0; i < list.count; i++) {
        tp_sym a = { list.item[i].of };
        tp_text_add(out->text, "%s", i ? (and ? " and " : " or ") : "");
        put_in(a, and && sym_is_kind(a, KIND_or), out);
    }
    tp_free(list.item);
}

static void put(tp_sym x, output *out)
{
    if (!tp_sym_is_node(x)) {
        tp_sym_print(x, out->text);
    } else if (sym_is_kind(x, KIND_and) || sym_is_kind(x, KIND_or)) {
        put_junction(x, out);
    } else if (sym_is_kind(x, KIND_not)) {
        tp_text_add(out->text, "not ");
        put_in(sym_arg(x, 0), true, out);
    } else {
        put_node(x, out);
    }
}

void tp_sym_print_source(tp_sym x, tp_text *text)
{
    put(x, &(output){ text, false });
}

void tp_sym_print_python(tp_sym x, tp_text *text)
{
    put(x, &(output){ text, true });
}
