/* complex.c - pieces of formulas over complex numbers that the op language has no words for. */
#include "ops/rules/rules.h"

/* (x): x times the imaginary unit. */
TP_HOOK_D(tp_d_times_i)
{
    (void)op;
    tp_scope s = { 0 };
    tp_value unit = tp_value_complex(0, 1);
    bool ok = unit.tag == TP_COMPLEX && tp_rule_done(&s, CALL(mul_Scalar, arg[0], unit), result);
    tp_value_unref(unit);
    return ok;
}
