/* tile.c - an element-wise op as ONNX nodes: each step of its tile program is an operator, or a few.
 *
 *     softplus    r1 = mul r0 beta; r2 = gt r1 threshold; …          Mul, Greater, Exp, Log, Where …
 *
 * So an op that has an `expr` needs no `onnx` column, unless ONNX has an operator of its own for it. Steps compute in the
 * program's compute type, as our executor does: halves in float, small integers in int32. Comparisons give booleans in ONNX
 * and numbers here; a register is kept as what it is and cast where the other is wanted. */
#include "export/onnx/internal.h"
#include "ops/promote.h"
#include "ops/run.h"

/* Steps that are one operator. */
static const char *const direct[TP_PRIM_COUNT] = {
    [TP_PRIM_add] = "Add", [TP_PRIM_sub] = "Sub", [TP_PRIM_mul] = "Mul", [TP_PRIM_div] = "Div", [TP_PRIM_neg] = "Neg",
    [TP_PRIM_abs] = "Abs", [TP_PRIM_sign] = "Sign", [TP_PRIM_reciprocal] = "Reciprocal", [TP_PRIM_maximum] = "Max",
    [TP_PRIM_minimum] = "Min", [TP_PRIM_pow] = "Pow", [TP_PRIM_floor] = "Floor", [TP_PRIM_ceil] = "Ceil",
    [TP_PRIM_round] = "Round", [TP_PRIM_sqrt] = "Sqrt", [TP_PRIM_exp] = "Exp", [TP_PRIM_log] = "Log", [TP_PRIM_sin] = "Sin",
    [TP_PRIM_cos] = "Cos", [TP_PRIM_tan] = "Tan", [TP_PRIM_asin] = "Asin", [TP_PRIM_acos] = "Acos", [TP_PRIM_atan] = "Atan",
    [TP_PRIM_sinh] = "Sinh", [TP_PRIM_cosh] = "Cosh", [TP_PRIM_tanh] = "Tanh", [TP_PRIM_asinh] = "Asinh",
    [TP_PRIM_acosh] = "Acosh", [TP_PRIM_atanh] = "Atanh", [TP_PRIM_erf] = "Erf", [TP_PRIM_sigmoid] = "Sigmoid",
    [TP_PRIM_bit_and] = "BitwiseAnd", [TP_PRIM_bit_or] = "BitwiseOr", [TP_PRIM_bit_xor] = "BitwiseXor", [TP_PRIM_bit_not] = "BitwiseNot",
    /* these give booleans */
    [TP_PRIM_eq] = "Equal", [TP_PRIM_lt] = "Less", [TP_PRIM_le] = "LessOrEqual", [TP_PRIM_gt] = "Greater", [TP_PRIM_ge] = "GreaterOrEqual",
    [TP_PRIM_isnan] = "IsNaN", [TP_PRIM_isinf] = "IsInf",
    /* and these also take them */
    [TP_PRIM_logical_not] = "Not", [TP_PRIM_logical_and] = "And", [TP_PRIM_logical_or] = "Or", [TP_PRIM_logical_xor] = "Xor",
};

static const uint8_t operands[TP_PRIM_COUNT] = {
#define TP_PRIM(name, count, types) [TP_PRIM_##name] = count,
#include "tile/prims.def"
#undef TP_PRIM
};

typedef struct lowering {
    tp_onnx *o;
    tp_dtype compute;
    struct reg {
        int  value;
        bool boolean;           /* a BOOL of ONNX; else of the compute type */
    } reg[TP_TILE_REGISTERS];
} lowering;

static bool gives_boolean(int prim)
{
    return (prim >= TP_PRIM_eq && prim <= TP_PRIM_ge) || (prim >= TP_PRIM_logical_not && prim <= TP_PRIM_signbit);
}

static bool takes_boolean(int prim)
{
    return prim >= TP_PRIM_logical_not && prim <= TP_PRIM_logical_xor;
}

static bool has_steps(int prim)
{
    switch (prim) {
    case TP_PRIM_atan2: case TP_PRIM_copysign: case TP_PRIM_nextafter: case TP_PRIM_conj: case TP_PRIM_real: case TP_PRIM_imag:
    case TP_PRIM_cabs: case TP_PRIM_shift_left: case TP_PRIM_shift_right: case TP_PRIM_lgamma: case TP_PRIM_gcd: case TP_PRIM_pair: case TP_PRIM_phase:
        return false;
    default:
        return prim < TP_PRIM_digamma;      /* special functions have no operators */
    }
}

static int number(lowering *l, double v)
{
    return tp_onnx_number(l->o, tp_dtype_is_float(l->compute) ? tp_float(v) : tp_int((int64_t)v), l->compute);
}

static int as_number(lowering *l, struct reg r)
{
    return r.boolean ? tp_onnx_cast(l->o, r.value, l->compute) : r.value;
}

static int as_boolean(lowering *l, struct reg r)
{
    return r.boolean ? r.value : tp_onnx_cast(l->o, r.value, TP_b8);
}

static int truncated(lowering *l, int a)
{
    return tp_onnx_2(l->o, "Mul", tp_onnx_1(l->o, "Sign", a), tp_onnx_1(l->o, "Floor", tp_onnx_1(l->o, "Abs", a)));
}

static int modulo(tp_onnx *o, int a, int b, bool c_sign)
{
    tp_onnx_begin(o, "Mod");
    tp_onnx_input(o, a);
    tp_onnx_input(o, b);
    tp_onnx_int(o, "fmod", c_sign);
    return tp_onnx_end(o);
}

/* 0.5 x (1 + inner) */
static int half_sided(lowering *l, int x, int inner)
{
    tp_onnx *o = l->o;
    return tp_onnx_2(o, "Mul", tp_onnx_2(o, "Mul", x, number(l, 0.5)), tp_onnx_2(o, "Add", inner, number(l, 1)));
}

static int gelu_tanh(lowering *l, int x)
{
    tp_onnx *o = l->o;
    int cube = tp_onnx_2(o, "Mul", tp_onnx_2(o, "Mul", x, x), x);
    int inner = tp_onnx_2(o, "Add", x, tp_onnx_2(o, "Mul", cube, number(l, 0.044715)));
    return half_sided(l, x, tp_onnx_1(o, "Tanh", tp_onnx_2(o, "Mul", inner, number(l, 0.79788456080286535588))));
}

/* The number that is not NaN, else the larger or smaller one. */
static int ignoring_nan(lowering *l, const char *operator, int a, int b)
{
    tp_onnx *o = l->o;
    int both = tp_onnx_2(o, operator, a, b);
    if (!tp_dtype_is_float(l->compute))
        return both;
    int second = tp_onnx_3(o, "Where", tp_onnx_1(o, "IsNaN", b), a, both);
    return tp_onnx_3(o, "Where", tp_onnx_1(o, "IsNaN", a), b, second);
}

/* Steps that are several operators. */
static int composed(lowering *l, int prim, int a, int b, int c)
{
    tp_onnx *o = l->o;
    bool real = tp_dtype_is_float(l->compute);
    switch (prim) {
    case TP_PRIM_fma: return tp_onnx_2(o, "Add", tp_onnx_2(o, "Mul", a, b), c);
    case TP_PRIM_square: return tp_onnx_2(o, "Mul", a, a);
    case TP_PRIM_floor_div:
        return real ? tp_onnx_1(o, "Floor", tp_onnx_2(o, "Div", a, b)) : tp_onnx_2(o, "Div", tp_onnx_2(o, "Sub", a, modulo(o, a, b, false)), b);
    case TP_PRIM_trunc_div: return real ? truncated(l, tp_onnx_2(o, "Div", a, b)) : tp_onnx_2(o, "Div", a, b);
    case TP_PRIM_mod:
        return real ? tp_onnx_2(o, "Sub", a, tp_onnx_2(o, "Mul", tp_onnx_1(o, "Floor", tp_onnx_2(o, "Div", a, b)), b)) : modulo(o, a, b, false);
    case TP_PRIM_fmod: return modulo(o, a, b, true);
    case TP_PRIM_fmax: return ignoring_nan(l, "Max", a, b);
    case TP_PRIM_fmin: return ignoring_nan(l, "Min", a, b);
    case TP_PRIM_hypot: return tp_onnx_1(o, "Sqrt", tp_onnx_2(o, "Add", tp_onnx_2(o, "Mul", a, a), tp_onnx_2(o, "Mul", b, b)));
    case TP_PRIM_ne: return tp_onnx_1(o, "Not", tp_onnx_2(o, "Equal", a, b));
    case TP_PRIM_isfinite: return tp_onnx_1(o, "Not", tp_onnx_2(o, "Or", tp_onnx_1(o, "IsNaN", a), tp_onnx_1(o, "IsInf", a)));
    case TP_PRIM_signbit: return tp_onnx_2(o, "Less", real ? tp_onnx_2(o, "Div", number(l, 1), a) : a, number(l, 0));
    case TP_PRIM_trunc: return truncated(l, a);
    case TP_PRIM_frac: return tp_onnx_2(o, "Sub", a, truncated(l, a));
    case TP_PRIM_rsqrt: return tp_onnx_1(o, "Reciprocal", tp_onnx_1(o, "Sqrt", a));
    case TP_PRIM_exp2: return tp_onnx_2(o, "Pow", number(l, 2), a);
    case TP_PRIM_expm1: return tp_onnx_2(o, "Sub", tp_onnx_1(o, "Exp", a), number(l, 1));
    case TP_PRIM_log2: return tp_onnx_2(o, "Div", tp_onnx_1(o, "Log", a), number(l, 0.69314718055994530942));
    case TP_PRIM_log10: return tp_onnx_2(o, "Div", tp_onnx_1(o, "Log", a), number(l, 2.30258509299404568402));
    case TP_PRIM_log1p: return tp_onnx_1(o, "Log", tp_onnx_2(o, "Add", a, number(l, 1)));
    case TP_PRIM_erfc: return tp_onnx_2(o, "Sub", number(l, 1), tp_onnx_1(o, "Erf", a));
    /* Of integers too, for which runtimes lack Relu. */
    case TP_PRIM_relu: return real ? tp_onnx_1(o, "Relu", a) : tp_onnx_2(o, "Max", a, number(l, 0));
    case TP_PRIM_gelu: return half_sided(l, a, tp_onnx_1(o, "Erf", tp_onnx_2(o, "Mul", a, number(l, 0.70710678118654752440))));
    case TP_PRIM_gelu_tanh: return gelu_tanh(l, a);
    case TP_PRIM_silu: return tp_onnx_2(o, "Mul", a, tp_onnx_1(o, "Sigmoid", a));
    default:
        o->failed = true;
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: a step of a tile program has no operator");
        return 0;
    }
}

static void step(lowering *l, const tp_tile_step *s)
{
    struct reg a = l->reg[s->a], b = l->reg[s->b], c = l->reg[s->c], *to = &l->reg[s->to];
    int n = operands[s->prim];
    to->boolean = gives_boolean(s->prim);
    if (s->prim == TP_PRIM_where) {
        to->boolean = b.boolean && c.boolean;
        int test = as_boolean(l, a), yes = to->boolean ? b.value : as_number(l, b), no = to->boolean ? c.value : as_number(l, c);
        to->value = tp_onnx_3(l->o, "Where", test, yes, no);
        return;
    }
    bool boolean = takes_boolean(s->prim);
    /* Equality of two booleans stays among them. */
    if ((s->prim == TP_PRIM_eq || s->prim == TP_PRIM_ne) && a.boolean && b.boolean)
        boolean = true;
    int x = boolean ? as_boolean(l, a) : as_number(l, a);
    int y = n < 2 ? 0 : boolean ? as_boolean(l, b) : as_number(l, b);
    int z = n < 3 ? 0 : as_number(l, c);
    to->value = direct[s->prim] ? tp_onnx_3(l->o, direct[s->prim], x, y, z) : composed(l, s->prim, x, y, z);
}

static void load(lowering *l, const tp_tile_form *form, const tp_value *arg, tp_dtype common)
{
    tp_onnx *o = l->o;
    int n = form->program.input_count;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = tp_as_tensor(arg[form->input[i]]);
        int v = tp_onnx_arg(o, form->input[i]);
        l->reg[i] = (struct reg){ v, t && t->dtype == TP_b8 && (common == TP_b8 || !(o->promoting >> form->input[i] & 1)) };
        if (!l->reg[i].boolean)
            l->reg[i].value = tp_onnx_cast(o, v, l->compute);
    }
    for (int i = 0; i < form->program.scalar_count; i++) {
        int from = form->scalar[i].arg;
        tp_scalar s = from < 0 ? form->scalar[i].constant : tp_as_scalar(arg[from]);
        tp_value v = s.kind == TP_KIND_FLOAT ? tp_float(s.f) : tp_int(s.i);
        l->reg[n + i] = (struct reg){ tp_onnx_number(o, v, l->compute), false };
    }
}

static bool reads(const tp_tile_program *p, int reg)
{
    bool read = p->output[0] == reg;
    for (int i = 0; i < p->step_count; i++) {
        const tp_tile_step *s = &p->step[i];
        read |= s->a == reg || (operands[s->prim] > 1 && s->b == reg) || (operands[s->prim] > 2 && s->c == reg);
    }
    return read;
}

/* fill(x, v) has the sizes of x but reads only v: the value is spread over them. */
static int spread(tp_onnx *o, const tp_tile_form *form, const tp_value *arg, int v)
{
    const tp_tensor *result = tp_onnx_result_fact(o, 0);
    int64_t size[TP_MAX_DIMS];
    int ndim = 0;
    bool same = true;
    for (int i = 0; i < form->program.input_count; i++) {
        const tp_tensor *t = tp_as_tensor(arg[form->input[i]]);
        if (t && reads(&form->program, i) && !tp_broadcast(&ndim, size, t->ndim, t->size)) {
            o->failed = true;
            return 0;
        }
    }
    for (int i = 0; result && i < ndim; i++)
        same = same && ndim == result->ndim && size[i] == result->size[i];
    return !result || (same && ndim == result->ndim) ? v : tp_onnx_2(o, "Expand", v, tp_onnx_list(o, result->size, result->ndim));
}

int tp_onnx_tile(tp_onnx *o, const tp_op *op, const tp_value *arg)
{
    static const uint8_t computes[TP_COMPUTE_COUNT] = { TP_f32, TP_f64, TP_i32, TP_i64, TP_DTYPE_NONE, TP_DTYPE_NONE };
    const tp_tile_form *form;
    tp_dtype common, result;
    if (!op->pointwise || op->result_count != 1 || op->result[0].type != TP_TYPE_TENSOR)
        return 0;
    if (!tp_pointwise_form(op, arg, &form, &common, &result))
        return -1;
    lowering l = { .o = o, .compute = (tp_dtype)computes[tp_tile_compute(common)] };
    bool has = l.compute != TP_DTYPE_NONE && form->program.output_count == 1;
    for (int i = 0; i < form->program.step_count; i++)
        has = has && has_steps(form->program.step[i].prim);
    for (int i = 0; i < form->program.scalar_count && has; i++) {
        int from = form->scalar[i].arg;
        has = from < 0 ? form->scalar[i].constant.kind != TP_KIND_COMPLEX : tp_is_number(arg[from]) && arg[from].tag != TP_SYM && arg[from].tag != TP_COMPLEX;
    }
    if (!has || !o)
        return has;
    load(&l, form, arg, common);
    for (int i = 0; i < form->program.step_count; i++)
        step(&l, &form->program.step[i]);
    struct reg out = l.reg[form->program.output[0]];
    if (!o->failed && !out.boolean)
        o->value.item[out.value].dtype = (uint8_t)l.compute;
    int v = out.boolean ? (result == TP_b8 ? out.value : tp_onnx_cast(o, out.value, result)) : tp_onnx_cast(o, out.value, result);
    v = spread(o, form, arg, v);
    tp_onnx_result(o, 0, form->program.step_count || result != l.compute ? v : tp_onnx_1(o, "Identity", v));
    return tp_onnx_good(o) ? 1 : -1;
}
