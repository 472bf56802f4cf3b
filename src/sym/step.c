/* step.c - expressions taken apart, outermost operation first. */
#include "sym/step.h"

#include "sym/node.h"

static bool two(tp_sym_step *out, const char *operation, tp_sym a, tp_sym b)
{
    *out = (tp_sym_step){ .operation = operation, .operand = { a, b }, .count = 2 };
    return !tp_sym_is_failed(a) && !tp_sym_is_failed(b);
}

static tp_sym piece(sym_piece p)
{
    tp_sym base = p.of == UNIT ? tp_sym_int(1) : (tp_sym){ p.of };
    return tp_sym_mul(p.exponent == 1 ? base : tp_sym_pow(base, tp_sym_int(p.exponent)), tp_sym_int(p.coefficient));
}

/* a + b + 5: the last printed term is the second operand, taken away when it is negative. */
static bool of_sum(tp_sym x, tp_sym_step *out)
{
    sym_piece_list terms = tp_sym_ordered_terms(x);
    if (!terms.item)
        return false;
    bool negative = terms.item[terms.count - 1].coefficient < 0;
    tp_sym last = piece(terms.item[terms.count - 1]), rest = tp_sym_sub(x, last);
    tp_free(terms.item);
    return negative ? two(out, "sub", rest, tp_sym_neg(last)) : two(out, "add", rest, last);
}

/* The coefficient stands last: s0 * 2. A product of atoms gives up its last factor. */
static bool of_product(sym_term t, tp_sym_step *out)
{
    if (t.coefficient != 1)
        return two(out, "mul", (tp_sym){ t.of }, tp_sym_int(t.coefficient));
    sym_piece_list factors = tp_sym_ordered_factors(t.of);
    if (!factors.item)
        return false;
    sym_piece last = factors.item[factors.count - 1];
    bool ok;
    if (factors.count == 1) {
        ok = two(out, "pow", (tp_sym){ last.of }, tp_sym_int(last.exponent));
    } else {
        tp_sym rest = tp_sym_int(1);
        for (size_t i = 0; i + 1 < factors.count; i++)
            rest = tp_sym_mul(rest, piece(factors.item[i]));
        ok = two(out, "mul", rest, piece(last));
    }
    tp_free(factors.item);
    return ok;
}

static bool of_polynomial(tp_sym x, tp_sym_step *out)
{
    sym_terms t;
    tp_sym_terms(x, &t);
    return t.count > 1 ? of_sum(x, out) : of_product(t.term[0], out);
}

/* Max(a, b, c): the first ones against the last. */
static bool of_list(tp_sym x, const char *operation, tp_sym (*join)(tp_sym, tp_sym), tp_sym_step *out)
{
    size_t count = sym_node(x)->count;
    tp_sym rest = sym_arg(x, 0);
    for (size_t i = 1; i + 1 < count; i++)
        rest = join(rest, sym_arg(x, i));
    return two(out, operation, rest, sym_arg(x, count - 1));
}

static bool of_arguments(tp_sym x, const char *operation, tp_sym_step *out)
{
    *out = (tp_sym_step){ .operation = operation, .count = (int)sym_node(x)->count };
    for (int i = 0; i < out->count && i < 3; i++)
        out->operand[i] = sym_arg(x, (size_t)i);
    return true;
}

bool tp_sym_last_step(tp_sym x, tp_sym_step *out)
{
    static const char *const compared[] = { "eq", "ne", "lt", "le", "gt", "ge" };
    tp_compare how;
    *out = (tp_sym_step){ 0 };
    if (!tp_sym_is_node(x))
        return !tp_sym_is_failed(x);
    if (tp_sym_compare_of(x, &how))
        return of_arguments(x, compared[how], out);
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_symbol:
    case KIND_number: return true;
    case KIND_monomial:
    case KIND_poly: return of_polynomial(x, out);
    case KIND_floordiv: return of_arguments(x, "floordiv", out);
    case KIND_mod: return of_arguments(x, "mod", out);
    case KIND_pow:
    case KIND_float_pow: return of_arguments(x, "pow", out);
    case KIND_max: return of_list(x, "sym_max", tp_sym_max, out);
    case KIND_min: return of_list(x, "sym_min", tp_sym_min, out);
    case KIND_and: return of_list(x, "and_", tp_sym_and, out);
    case KIND_or: return of_list(x, "or_", tp_sym_or, out);
    case KIND_float_add: return of_list(x, "add", tp_sym_add, out);
    case KIND_float_mul:                    /* its number comes first, and is written last */
        return sym_is_kind(sym_arg(x, 0), KIND_number) ? two(out, "mul", sym_arg(x, 1), sym_arg(x, 0)) : of_list(x, "mul", tp_sym_mul, out);
    case KIND_int_truediv:
    case KIND_float_truediv: return of_arguments(x, "truediv", out);
    case KIND_not: return of_arguments(x, "sym_not", out);
    case KIND_where: return of_arguments(x, "sym_ite", out);
    case KIND_to_float: return of_arguments(x, "sym_float", out);
    case KIND_abs: return of_arguments(x, "abs", out);
    case KIND_bit_and: return of_arguments(x, "and_", out);
    case KIND_bit_or: return of_arguments(x, "or_", out);
    case KIND_bit_xor: return of_arguments(x, "xor", out);
    case KIND_round_decimal: return of_arguments(x, "round", out);
    case KIND_trunc: return of_arguments(x, "trunc", out);
    case KIND_floor: return of_arguments(x, "floor", out);
    case KIND_ceil: return of_arguments(x, "ceil", out);
    case KIND_round: return of_arguments(x, "round", out);
#define TP_SYM_ONE(name) case KIND_##name: return of_arguments(x, "_sym_" #name, out);
    TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
    default: return true;
    }
}
