/* c_element.c - element-wise calls: loops around the steps of a tile program.
 *
 *     for (int64_t i = 0; i < 240; i++) {
 *         const float r0 = t_addmm[i];
 *         const float r1 = r0 < 0 ? 0 : r0;
 *         t_relu[i] = r1;
 *     } */
#include <stdio.h>
#include <string.h>

#include "fuse/c_internal.h"
#include "ops/run.h"

/* What a step is in C: %a %b %c are its operands, %f the letter of float functions (expf), %t the type's short name, %T the type
 * and %U its unsigned one: integers wrap. The first column is for floats, the second for integers, NULL: the same. */
static const struct words { const char *real, *integer; } words[TP_PRIM_COUNT] = {
    [TP_PRIM_add] = { "%a + %b", "(%T)((%U)%a + (%U)%b)" }, [TP_PRIM_sub] = { "%a - %b", "(%T)((%U)%a - (%U)%b)" },
    [TP_PRIM_mul] = { "%a * %b", "(%T)((%U)%a * (%U)%b)" },
    [TP_PRIM_div] = { "%a / %b", NULL }, [TP_PRIM_floor_div] = { "floor_div_%t(%a, %b)", "floor_div_%t(%a, %b)" },
    [TP_PRIM_trunc_div] = { "trunc%f(%a / %b)", "trunc_div_%t(%a, %b)" }, [TP_PRIM_mod] = { "mod_%t(%a, %b)", "mod_%t(%a, %b)" },
    [TP_PRIM_fmod] = { "fmod%f(%a, %b)", "rest_%t(%a, %b)" }, [TP_PRIM_fma] = { "fma%f(%a, %b, %c)", NULL }, [TP_PRIM_neg] = { "-%a", "(%T)(0 - (%U)%a)" },
    [TP_PRIM_abs] = { "fabs%f(%a)", "%a < 0 ? (%T)(0 - (%U)%a) : %a" }, [TP_PRIM_sign] = { "(%a > 0) - (%a < 0)", NULL },
    [TP_PRIM_reciprocal] = { "1 / %a", NULL }, [TP_PRIM_square] = { "%a * %a", "(%T)((%U)%a * (%U)%a)" },
    [TP_PRIM_maximum] = { "%a > %b || %a != %a ? %a : %b", "%a > %b ? %a : %b" },
    [TP_PRIM_minimum] = { "%a < %b || %a != %a ? %a : %b", "%a < %b ? %a : %b" }, [TP_PRIM_fmax] = { "%a >= %b || %b != %b ? %a : %b", "%a > %b ? %a : %b" },
    [TP_PRIM_fmin] = { "%a <= %b || %b != %b ? %a : %b", "%a < %b ? %a : %b" }, [TP_PRIM_pow] = { "pow%f(%a, %b)", "power_%t(%a, %b)" },
    [TP_PRIM_atan2] = { "atan2%f(%a, %b)", NULL }, [TP_PRIM_hypot] = { "hypot%f(%a, %b)", NULL },
    [TP_PRIM_copysign] = { "copysign%f(%a, %b)", NULL }, [TP_PRIM_nextafter] = { "nextafter%f(%a, %b)", NULL },
    [TP_PRIM_eq] = { "%a == %b", NULL }, [TP_PRIM_ne] = { "%a != %b", NULL }, [TP_PRIM_lt] = { "%a < %b", NULL }, [TP_PRIM_le] = { "%a <= %b", NULL },
    [TP_PRIM_gt] = { "%a > %b", NULL }, [TP_PRIM_ge] = { "%a >= %b", NULL }, [TP_PRIM_where] = { "%a != 0 ? %b : %c", NULL },
    [TP_PRIM_logical_not] = { "%a == 0", NULL }, [TP_PRIM_logical_and] = { "%a != 0 && %b != 0", NULL },
    [TP_PRIM_logical_or] = { "%a != 0 || %b != 0", NULL }, [TP_PRIM_logical_xor] = { "(%a != 0) != (%b != 0)", NULL },
    [TP_PRIM_isnan] = { "isnan(%a) != 0", "0" }, [TP_PRIM_isinf] = { "isinf(%a) != 0", "0" }, [TP_PRIM_isfinite] = { "isfinite(%a) != 0", "1" },
    [TP_PRIM_signbit] = { "signbit(%a) != 0", "%a < 0" }, [TP_PRIM_bit_and] = { NULL, "%a & %b" }, [TP_PRIM_bit_or] = { NULL, "%a | %b" },
    [TP_PRIM_bit_xor] = { NULL, "%a ^ %b" }, [TP_PRIM_bit_not] = { NULL, "~%a" }, [TP_PRIM_shift_left] = { NULL, "shift_left_%t(%a, %b)" },
    [TP_PRIM_shift_right] = { NULL, "shift_right_%t(%a, %b)" }, [TP_PRIM_floor] = { "floor%f(%a)", NULL }, [TP_PRIM_ceil] = { "ceil%f(%a)", NULL },
    [TP_PRIM_trunc] = { "trunc%f(%a)", NULL }, [TP_PRIM_round] = { "nearbyint%f(%a)", NULL }, [TP_PRIM_frac] = { "%a - trunc%f(%a)", NULL },
    [TP_PRIM_sqrt] = { "sqrt%f(%a)", NULL }, [TP_PRIM_rsqrt] = { "1 / sqrt%f(%a)", NULL }, [TP_PRIM_exp] = { "exp%f(%a)", NULL },
    [TP_PRIM_exp2] = { "exp2%f(%a)", NULL }, [TP_PRIM_expm1] = { "expm1%f(%a)", NULL }, [TP_PRIM_log] = { "log%f(%a)", NULL },
    [TP_PRIM_log2] = { "log2%f(%a)", NULL }, [TP_PRIM_log10] = { "log10%f(%a)", NULL }, [TP_PRIM_log1p] = { "log1p%f(%a)", NULL },
    [TP_PRIM_sin] = { "sin%f(%a)", NULL }, [TP_PRIM_cos] = { "cos%f(%a)", NULL }, [TP_PRIM_tan] = { "tan%f(%a)", NULL },
    [TP_PRIM_asin] = { "asin%f(%a)", NULL }, [TP_PRIM_acos] = { "acos%f(%a)", NULL }, [TP_PRIM_atan] = { "atan%f(%a)", NULL },
    [TP_PRIM_sinh] = { "sinh%f(%a)", NULL }, [TP_PRIM_cosh] = { "cosh%f(%a)", NULL }, [TP_PRIM_tanh] = { "tanh%f(%a)", NULL },
    [TP_PRIM_asinh] = { "asinh%f(%a)", NULL }, [TP_PRIM_acosh] = { "acosh%f(%a)", NULL }, [TP_PRIM_atanh] = { "atanh%f(%a)", NULL },
    [TP_PRIM_erf] = { "erf%f(%a)", NULL }, [TP_PRIM_erfc] = { "erfc%f(%a)", NULL }, [TP_PRIM_lgamma] = { "lgamma%f(%a)", NULL },
    [TP_PRIM_sigmoid] = { "1 / (1 + exp%f(-%a))", NULL }, [TP_PRIM_relu] = { "%a < 0 ? 0 : %a", NULL },
    [TP_PRIM_gelu] = { "%a / 2 * (1 + erf%f(%a * 0.70710678118654752440%f))", NULL },
    [TP_PRIM_gelu_tanh] = { "%a / 2 * (1 + tanh%f(0.79788456080286535588%f * (%a + 0.044715%f * %a * %a * %a)))", NULL },
    [TP_PRIM_silu] = { "%a / (1 + exp%f(-%a))", NULL },
};

/* Functions the words above call; $ is the type, ~ its unsigned one, @ its short name, ^ the letter of float functions, # its bits. Those
 * that others call come first. As in eager calls nothing traps: a zero divisor gives 0, wide shifts leave nothing but a sign. */
static const struct helper { const char *name; bool real; const char *text; } helpers[] = {
    { "rest_", false, "static $ rest_@($ a, $ b)\n{\n    return b == 0 || b == -1 ? 0 : a % b;\n}\n\n" },
    { "trunc_div_", false, "static $ trunc_div_@($ a, $ b)\n{\n    return b == 0 ? 0 : b == -1 ? ($)(0 - (~)a) : a / b;\n}\n\n" },
    { "mod_", true, "static $ mod_@($ a, $ b)\n{\n    const $ m = fmod^(a, b);\n    return m != 0 && (m < 0) != (b < 0) ? m + b : m;\n}\n\n" },
    { "mod_", false, "static $ mod_@($ a, $ b)\n{\n    const $ m = rest_@(a, b);\n    return m != 0 && (m < 0) != (b < 0) ? m + b : m;\n}\n\n" },
    { "floor_div_", true, "static $ floor_div_@($ a, $ b)\n{\n    const $ m = fmod^(a, b), q = (a - m) / b - (m != 0 && (b < 0) != (m < 0));\n"
                          "    if (b == 0)\n        return a / b;\n    if (q == 0)\n        return copysign^(0, a / b);\n"
                          "    return q - floor^(q) > ($)0.5 ? floor^(q) + 1 : floor^(q);\n}\n\n" },
    { "floor_div_", false, "static $ floor_div_@($ a, $ b)\n{\n    const $ m = rest_@(a, b);\n"
                           "    return trunc_div_@(a, b) - (m != 0 && (m < 0) != (b < 0));\n}\n\n" },
    { "power_", false, "static $ power_@($ a, $ b)\n{\n    ~ p = 1, x = (~)a;\n    if (b < 0)\n        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;\n"
                       "    for (; b > 0; b /= 2, x *= x)\n        p *= b % 2 ? x : 1;\n    return ($)p;\n}\n\n" },
    { "shift_left_", false, "static $ shift_left_@($ a, $ b)\n{\n    return b >= 0 && b < # ? ($)((~)a << b) : 0;\n}\n\n" },
    { "shift_right_", false, "static $ shift_right_@($ a, $ b)\n{\n    return a >> (b >= 0 && b < # ? b : # - 1);\n}\n\n" },
};

static const uint8_t operands[TP_PRIM_COUNT] = {
#define TP_PRIM(name, count, types) [TP_PRIM_##name] = count,
#include "tile/prims.def"
#undef TP_PRIM
};

/* By the body, or by another function: those that call others are the ones of division. */
static bool is_called(const char *body, const char *name, tp_dtype d)
{
    char caller[2][32];
    snprintf(caller[0], sizeof caller[0], " mod_%s(", tp_c_short(d));
    snprintf(caller[1], sizeof caller[1], " floor_div_%s(", tp_c_short(d));
    bool divides = strstr(body, caller[1]), rests = divides || strstr(body, caller[0]);
    return strstr(body, name) || (strncmp(name, "rest_", 5) == 0 && rests) || (strncmp(name, "trunc_div_", 10) == 0 && divides);
}

void tp_c_put_helpers(const char *body, tp_text *out)
{
    static const uint8_t types[] = { TP_f32, TP_f64, TP_i32, TP_i64 };
    for (size_t h = 0; h < TP_COUNT(helpers); h++)
        for (size_t t = 0; t < TP_COUNT(types); t++) {
            tp_dtype d = (tp_dtype)types[t];
            char name[32];
            snprintf(name, sizeof name, "%s%s(", helpers[h].name, tp_c_short(d));
            if (tp_dtype_is_float(d) != helpers[h].real || !is_called(body, name, d))
                continue;
            for (const char *s = helpers[h].text; *s; s++) {
                if (*s == '$')
                    tp_text_add(out, "%s", tp_c_type(d));
                else if (*s == '@')
                    tp_text_add(out, "%s", tp_c_short(d));
                else if (*s == '^')
                    tp_text_add(out, "%s", d == TP_f32 ? "f" : "");
                else if (*s == '~')
                    tp_text_add(out, "u%s", tp_c_type(d));
                else if (*s == '#')
                    tp_text_add(out, "%d", (int)tp_dtype_bytes(d) * 8);
                else
                    tp_text_put(out, s, 1);
            }
        }
}

tp_dtype tp_c_compute(tp_dtype d)
{
    static const uint8_t computes[TP_COMPUTE_COUNT] = { TP_f32, TP_f64, TP_i32, TP_i64, TP_DTYPE_NONE, TP_DTYPE_NONE };
    return tp_c_type(d) ? (tp_dtype)computes[tp_tile_compute(d)] : TP_DTYPE_NONE;
}

static const char *words_of(int prim, tp_dtype compute)
{
    return tp_dtype_is_float(compute) || !words[prim].integer ? words[prim].real : words[prim].integer;
}

static bool has_words(const tp_tile_form *form, tp_dtype compute, const tp_value *arg)
{
    if (compute == TP_DTYPE_NONE || form->program.output_count != 1)
        return false;
    for (int i = 0; i < form->program.step_count; i++)
        if (!words_of(form->program.step[i].prim, compute))
            return false;
    for (int i = 0; i < form->program.scalar_count; i++) {
        int from = form->scalar[i].arg;
        if (from < 0 ? form->scalar[i].constant.kind == TP_KIND_COMPLEX : !tp_is_number(arg[from]) || arg[from].tag == TP_SYM || arg[from].tag == TP_COMPLEX)
            return false;
    }
    return true;
}

static bool types_have_words(const tp_tile_form *form, const tp_value *arg)
{
    for (int i = 0; i < form->program.input_count; i++)
        if (arg[form->input[i]].tag == TP_TENSOR && !tp_c_type((tp_dtype)arg[form->input[i]].tensor->dtype))
            return false;
    return true;
}

bool tp_c_has_pointwise(const tp_op *op, const tp_value *arg)
{
    const tp_tile_form *form;
    tp_dtype common, result;
    if (!op->pointwise || op->result_count != 1 || op->result[0].type != TP_TYPE_TENSOR)
        return false;
    if (!tp_pointwise_form(op, arg, &form, &common, &result)) {
        tp_error_clear();
        return false;
    }
    return tp_c_type(result) && has_words(form, tp_c_compute(common), arg) && types_have_words(form, arg);
}

/* One step's words with its registers put in. */
static void write_step(tp_c *c, const tp_tile_step *s, tp_dtype compute)
{
    tp_text t = { 0 };
    for (const char *w = words_of(s->prim, compute); *w; w++) {
        if (*w != '%') {
            tp_text_put(&t, w, 1);
            continue;
        }
        w++;
        if (*w == 'a' || *w == 'b' || *w == 'c')
            tp_text_add(&t, "r%d", *w == 'a' ? s->a : *w == 'b' ? s->b : s->c);
        else if (*w == 't')
            tp_text_add(&t, "%s", tp_c_short(compute));
        else if (*w == 'T' || *w == 'U')
            tp_text_add(&t, "%s%s", *w == 'U' ? "u" : "", tp_c_type(compute));
        else if (*w == '%')
            tp_text_add(&t, "%%");
        else if (compute == TP_f32)
            tp_text_add(&t, "f");
    }
    tp_c_line(c, "const %s r%d = %s;", tp_c_type(compute), s->to, tp_text_read(&t));
    c->failed |= t.failed;
    tp_text_fini(&t);
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

/* Among integers a number is brought to the common type first, as eager calls do: -1 among bytes is 255. */
static const char *number_as(tp_c *c, tp_value v, tp_dtype common, tp_dtype compute)
{
    _Alignas(16) char element[16];
    tp_scalar s = tp_as_scalar(v);
    if (tp_dtype_is_integral(common)) {
        tp_scalar_write(s, element, common);
        s = tp_scalar_read(element, common);
    }
    return tp_c_number(c, s, compute);
}

const char *tp_c_steps(tp_c *c, const tp_tile_form *form, tp_dtype common, const char *const *at)
{
    tp_dtype compute = tp_c_compute(common);
    const tp_tile_program *p = &form->program;
    for (int i = 0; i < p->input_count; i++)
        if (reads(p, i))
            tp_c_line(c, "const %s r%d = %s;", tp_c_type(compute), i, at[i]);
    for (int i = 0; i < p->scalar_count; i++) {
        int from = form->scalar[i].arg;
        if (reads(p, p->input_count + i))
            tp_c_line(c, "const %s r%d = %s;", tp_c_type(compute), p->input_count + i,
                      from < 0 ? tp_c_number(c, form->scalar[i].constant, compute) : number_as(c, c->arg[from], common, compute));
    }
    for (int i = 0; i < p->step_count; i++)
        write_step(c, &p->step[i], compute);
    return tp_c_text(c, "r%d", p->output[0]);
}

bool tp_c_pointwise(tp_c *c, const tp_op *op)
{
    const tp_tile_form *form;
    tp_dtype common, result;
    if (!tp_pointwise_form(op, c->arg, &form, &common, &result))
        return false;
    tp_c_nest n = { .count = 0 };
    const char *at[TP_TILE_OPERANDS] = { 0 };
    int operand[TP_TILE_OPERANDS];
    tp_c_value out = tp_c_result(c, 0);
    tp_dtype compute = tp_c_compute(common);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    n.operand[n.count++] = out;
    for (int i = 0; i < form->program.input_count; i++) {
        tp_c_value v = tp_c_arg(c, form->input[i]);
        operand[i] = tp_c_has(v) ? n.count : -1;
        if (tp_c_has(v))
            n.operand[n.count++] = v;
    }
    tp_c_nest_open(c, &n, out.fact->ndim, out.fact->size);
    for (int i = 0; i < form->program.input_count; i++) {
        tp_value v = c->arg[form->input[i]];
        at[i] = operand[i] >= 0 ? n.at[operand[i]] : tp_is_number(v) ? number_as(c, v, common, compute) : "0";
        if (operand[i] >= 0 && tp_dtype_is_integral(common))
            at[i] = tp_c_store(c, at[i], (tp_dtype)v.tensor->dtype, common);
    }
    const char *r = tp_c_steps(c, form, common, at);
    tp_c_line(c, "%s = %s;", n.at[0], tp_c_store(c, r, compute, (tp_dtype)out.fact->dtype));
    tp_c_nest_close(c, &n);
    return !c->failed;
}
