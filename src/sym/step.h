/* step.h - an expression as the last operation that makes it, and its operands: what a graph of sizes is built from.
 *
 *     2*s0 + 5     add of 2*s0 and 5          2*s0     mul of s0 and 2          s0     no operation
 *
 * The names are those of Python's operators (add, mul, floordiv, mod, pow, truediv, eq … ge) and of torch (sym_max, sym_min,
 * sym_not, sym_ite, sym_float …). Sums and products come term by term in the order in which they are printed. */
#ifndef TP_SYM_STEP_H
#define TP_SYM_STEP_H

#include "sym/sym.h"

typedef struct tp_sym_step {
    const char *operation;      /* NULL: a symbol, a number, True or False */
    tp_sym      operand[3];
    int         count;
} tp_sym_step;

/* Fails when out of memory. */
TP_API TP_CHECK bool tp_sym_last_step(tp_sym x, tp_sym_step *out);

#endif
