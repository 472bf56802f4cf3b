/* run_pointwise.c - element-wise ops: common type, broadcast shape, memory order of the result, then one tile program.
 *
 * The three variants of an op differ only in where the result goes: a fresh tensor, the first argument, or `out`. */
#include <string.h>

#include "base/text.h"
#include "ops/copy.h"
#include "ops/hooks.h"
#include "ops/promote.h"
#include "ops/run.h"
#include "tile/set.h"

/* What a call comes down to before anything is allocated. */
typedef struct plan {
    const tp_tile_form *form;
    tp_dtype common, result;
    bool     row_major;
    uint32_t rounded;
    int      ndim;
    int64_t  size[TP_MAX_DIMS];
    const tp_tensor *input[TP_TILE_OPERANDS];   /* NULL: a number */
} plan;

static tp_dtype result_dtype(const tp_pointwise *p, tp_dtype common)
{
    return p->to == TP_DTYPE_NONE ? common : p->to == TP_TO_REAL ? tp_dtype_to_real(common) : (tp_dtype)p->to;
}

static bool same_dtypes(const tp_op *op, const tp_value *arg, uint32_t promoting, tp_dtype *common)
{
    *common = TP_DTYPE_NONE;
    for (int i = 0; i < op->arg_count; i++) {
        if (!(promoting >> i & 1) || arg[i].tag != TP_TENSOR)
            continue;
        tp_dtype d = (tp_dtype)arg[i].tensor->dtype;
        if (*common != TP_DTYPE_NONE && *common != d)
            return tp_fail(TP_ERR_RUNTIME, "expected dtype %s for `%s` but got dtype %s", tp_dtypes[*common].cpp, op->arg[i].name, tp_dtypes[d].cpp);
        *common = d;
    }
    return true;
}

/* The rule of this call: most ops have one, div with a rounding mode has another. */
static const tp_pointwise *rule_of(const tp_op *op, const tp_value *arg)
{
    const tp_pointwise *other = op->pointwise->pick ? op->pointwise->pick(arg) : NULL;
    return other ? other : op->pointwise;
}

static bool common_dtype(const tp_op *op, const tp_pointwise *p, const tp_value *arg, tp_dtype *common)
{
    tp_common c = TP_COMMON_START;
    if (p->promotion == TP_PROMOTE_SAME)
        return same_dtypes(op, arg, p->promoting, common);
    if (p->promotion == TP_PROMOTE_INTO) {
        *common = (tp_dtype)arg[0].tensor->dtype;
        return true;
    }
    for (int i = 0; i < op->arg_count; i++)
        if (p->promoting >> i & 1)
            tp_common_add(&c, arg[i]);
    *common = tp_common_dtype(&c);
    if (p->promotion == TP_PROMOTE_FLOAT && tp_dtype_is_integral(*common))
        *common = (tp_dtype)tp_the_runtime.default_dtype;
    if (p->promotion == TP_PROMOTE_COMPLEX)
        *common = tp_dtype_to_complex(*common);
    return true;
}

static bool make_plan(const tp_op *op, const tp_value *arg, plan *out)
{
    const tp_pointwise *p = rule_of(op, arg);
    if (!common_dtype(op, p, arg, &out->common))
        return false;
    int form = p->select ? p->select(arg, out->common) : 0;
    if (form < 0)
        return false;
    out->form = &p->form[form];
    out->result = result_dtype(p, out->common);
    out->row_major = p->row_major;
    out->rounded = p->rounded;
    out->ndim = 0;
    for (int i = 0; i < out->form->program.input_count; i++) {
        const tp_tensor *t = tp_as_tensor(arg[out->form->input[i]]);
        out->input[i] = t;
        if (t && !tp_broadcast(&out->ndim, out->size, t->ndim, t->size))
            return false;
    }
    return true;
}

bool tp_pointwise_form(const tp_op *op, const tp_value *arg, const tp_tile_form **form, tp_dtype *common, tp_dtype *result)
{
    plan p;
    if (!make_plan(op, arg, &p))
        return false;
    *form = p.form;
    *common = p.common;
    *result = p.result;
    return true;
}

/* ---- the order of dims in a fresh result ---- */

static bool same_sizes(const plan *p, const tp_tensor *t)
{
    return t->ndim == p->ndim && memcmp(t->size, p->size, (size_t)p->ndim * sizeof *p->size) == 0;
}

static int64_t stride_at(const plan *p, const tp_tensor *t, int dim)
{
    int i = dim - (p->ndim - t->ndim);
    return i < 0 || (t->size[i] == 1 && p->size[dim] != 1) ? 0 : t->stride[i];
}

static bool is_row_major(const plan *p)
{
    bool row_major = true;
    for (int i = 0; i < p->form->program.input_count; i++)
        row_major &= !p->input[i] || (tp_tensor_is_contiguous(p->input[i]) && same_sizes(p, p->input[i]));
    return row_major || p->row_major || p->ndim < 2;
}

static void result_strides(const plan *p, int64_t *stride)
{
    if (is_row_major(p)) {
        tp_strides_row_major(p->ndim, p->size, stride);
        return;
    }
    int order[TP_MAX_DIMS], count = 0;
    int64_t laid[TP_TILE_OPERANDS][TP_MAX_DIMS];
    const int64_t *operand[TP_TILE_OPERANDS];
    for (int i = 0; i < p->form->program.input_count; i++) {
        if (!p->input[i])
            continue;
        for (int d = 0; d < p->ndim; d++)
            laid[count][d] = stride_at(p, p->input[i], d);
        operand[count] = laid[count];
        count++;
    }
    tp_strides_order(p->ndim, p->size, count, operand, order);
    int64_t step = 1;
    for (int i = 0; i < p->ndim; i++) {
        stride[order[i]] = step;
        step *= p->size[order[i]] > 1 ? p->size[order[i]] : 1;
    }
}

/* ---- checks of a given result ---- */

static bool check_inplace_shape(const plan *p, const tp_tensor *self)
{
    if (same_sizes(p, self))
        return true;
    tp_text mine = { 0 }, wide = { 0 };
    tp_text_add_sizes(&mine, self->ndim, self->size);
    tp_text_add_sizes(&wide, p->ndim, p->size);
    tp_fail(TP_ERR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s", tp_text_read(&mine), tp_text_read(&wide));
    tp_text_fini(&mine);
    tp_text_fini(&wide);
    return false;
}

/* Operands are the result itself, or apart from it. `entangled`: one is neither, as far as can be told cheaply. */
static bool check_overlap(const plan *p, const tp_tensor *out, bool *entangled)
{
    *entangled = false;
    for (int i = 0; i < p->form->program.input_count; i++) {
        const tp_tensor *t = p->input[i];
        if (!t || t->storage != out->storage || tp_tensor_same_place(t, out) || !tp_tensor_overlaps(t, out))
            continue;
        if (!tp_check_entangled(t, out))
            return false;
        *entangled = true;
    }
    return true;
}

/* ---- running ---- */

/* Has the op the common type? Some types that could run the program are refused all the same, as PyTorch does. */
static bool check_type(const tp_op *op, const plan *p, tp_compute compute)
{
    const tp_pointwise *rule = op->pointwise;
    const tp_tile_program *program = &p->form->program;
    bool has = !rule->dtypes || (rule->dtypes >> p->common & 1);
    for (int i = 0; i < program->step_count; i++)
        has &= tp_tile_has((tp_prim)program->step[i].prim, compute);
    if (has)
        return true;
    const char *name = rule->title ? rule->title : op->base ? op->base->name : op->name;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s%s\" not implemented for '%s'", name, rule->title ? "" : "_cpu", tp_dtypes[p->common].title);
}

/* Is a number in this argument first brought to the common type? Among integers it is, as -1 among bytes is 255; among halves
 * where PyTorch rounds it (`rounded`). */
static bool is_brought(const plan *p, int i)
{
    return tp_dtype_is_integral(p->common) || (tp_dtype_is_half(p->common) && (p->rounded >> i & 1));
}

static tp_scalar brought(const plan *p, int i, tp_scalar number)
{
    _Alignas(16) char element[16];
    if (!is_brought(p, i))
        return number;
    tp_scalar_write(number, element, p->common);
    return tp_scalar_read(element, p->common);
}

static tp_scalar number_of(const plan *p, const tp_value *arg, int i)
{
    return brought(p, i, tp_as_scalar(arg[i]));
}

/* A tensor without dims counts as a number: its type may be wider than the common one. `at`: which input it is. */
static bool is_number(const plan *p, int at)
{
    const tp_tensor *t = p->input[at];
    return t->ndim == 0 && t->dtype != p->common && is_brought(p, p->form->input[at]);
}

static tp_scalar number_in(const plan *p, int at)
{
    const tp_tensor *t = p->input[at];
    return brought(p, p->form->input[at], tp_scalar_read(tp_tensor_data(t), (tp_dtype)t->dtype));
}

/* ---- division of integers by zero, which is found before anything is written ---- */

static bool has_zero(const tp_tensor *t)
{
    static const tp_tile_program element = { .input_count = 1, .register_count = 1, .output_count = 1 };
    static const int64_t still[TP_MAX_DIMS];
    int64_t stride[TP_MAX_DIMS];
    uint8_t none = 1;
    tp_tile_loop loop = { .ndim = t->ndim, .size = t->size, .compute = (uint8_t)tp_tile_compute((tp_dtype)t->dtype) };
    for (int d = 0; d < t->ndim; d++)
        stride[d] = t->stride[d] * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    loop.operand[0] = (tp_tile_operand){ &none, TP_b8, still };
    loop.operand[1] = (tp_tile_operand){ tp_tensor_data(t), t->dtype, stride };
    tp_tile_reduce(&element, TP_REDUCE_all, 0, ((uint64_t)1 << t->ndim) - 1, &loop);
    return !none;
}

/* Is an operand of a step, a register of inputs or scalars, zero anywhere? */
static bool is_zero_somewhere(const plan *p, const tp_value *arg, int at)
{
    int inputs = p->form->program.input_count;
    if (at < inputs && p->input[at])
        return is_number(p, at) ? tp_scalar_is_zero(number_in(p, at)) : has_zero(p->input[at]);
    if (at < inputs)
        return tp_scalar_is_zero(number_of(p, arg, p->form->input[at]));
    const struct tp_form_scalar *scalar = &p->form->scalar[at - inputs];
    return scalar->arg >= 0 && tp_scalar_is_zero(number_of(p, arg, scalar->arg));
}

static bool check_divisors(const plan *p, const tp_value *arg, tp_compute compute)
{
    const tp_tile_program *program = &p->form->program;
    if (compute != TP_COMPUTE_i32 && compute != TP_COMPUTE_i64)
        return true;
    for (int i = 0; i < program->step_count; i++) {
        int prim = program->step[i].prim, divisor = program->step[i].b;
        bool divides = prim == TP_PRIM_floor_div || prim == TP_PRIM_trunc_div || prim == TP_PRIM_mod || prim == TP_PRIM_fmod;
        if (divides && divisor < program->input_count + program->scalar_count && is_zero_somewhere(p, arg, divisor))
            return tp_fail(TP_ERR_RUNTIME, "ZeroDivisionError");
    }
    return true;
}

/* Where an operand of the loop stands: a tensor's memory, or a number converted once to the common type. */
static void place_operand(const plan *p, const tp_tensor *t, tp_tile_operand *operand, int64_t *stride)
{
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    operand->data = tp_tensor_data(t);
    operand->dtype = t->dtype;
    operand->stride = stride;
    for (int d = 0; d < p->ndim; d++)
        stride[d] = stride_at(p, t, d) * bytes;
}

static void run_loop(const plan *p, const tp_value *arg, tp_tensor *out, tp_compute compute)
{
    static const int64_t still[TP_MAX_DIMS];
    const tp_tile_program *program = &p->form->program;
    int64_t stride[TP_TILE_OPERANDS][TP_MAX_DIMS];
    _Alignas(16) char number[TP_TILE_OPERANDS][16];
    tp_scalar scalar[TP_TILE_REGISTERS];
    tp_tile_loop loop = { .ndim = (uint8_t)p->ndim, .compute = (uint8_t)compute, .size = p->size, .scalar = scalar };

    place_operand(p, out, &loop.operand[0], stride[0]);
    for (int i = 0; i < program->input_count; i++) {
        tp_tile_operand *operand = &loop.operand[1 + i];
        const tp_tensor *t = p->input[i];
        if (t && !is_number(p, i)) {
            place_operand(p, t, operand, stride[1 + i]);
            continue;
        }
        tp_dtype d = tp_dtype_is_half(p->common) ? TP_f32 : p->common;
        tp_scalar_write(t ? number_in(p, i) : number_of(p, arg, p->form->input[i]), number[i], d);
        *operand = (tp_tile_operand){ number[i], (uint8_t)d, still };
    }
    for (int i = 0; i < program->scalar_count; i++)
        scalar[i] = p->form->scalar[i].arg < 0 ? p->form->scalar[i].constant : number_of(p, arg, p->form->scalar[i].arg);
    tp_tile_run(program, &loop);
}

/* One step over small contiguous operands of one type: no loop is built. */
static bool run_small(const plan *p, tp_tensor *out, tp_compute compute)
{
    const tp_tile_program *program = &p->form->program;
    if (program->step_count != 1 || program->scalar_count || out->numel > TP_TILE || !tp_tensor_is_contiguous(out) ||
        out->dtype != p->common || compute != tp_tile_compute(p->common) ||
        (int64_t)tp_dtype_bytes(p->common) != tp_compute_bytes(compute))
        return false;
    const void *in[3] = { 0 };
    const uint8_t operand[3] = { program->step->a, program->step->b, program->step->c };
    for (int i = 0; i < program->input_count; i++)
        if (!p->input[i] || p->input[i]->dtype != p->common || p->input[i]->numel != out->numel ||
            p->input[i]->ndim != out->ndim || !tp_tensor_is_contiguous(p->input[i]))
            return false;
    for (int i = 0; i < 3 && i < tp_tile_operands(program->step->prim); i++)
        in[i] = tp_tensor_data(p->input[operand[i]]);
    tp_tile_run_small((tp_prim)program->step->prim, compute, out->numel, tp_tensor_data(out), in);
    return true;
}

/* copy_ computes in the type it reads, everything else in the common type. */
static tp_compute compute_type(const tp_op *op, const plan *p)
{
    if (op->pointwise->promotion == TP_PROMOTE_INTO && p->form->program.input_count && p->input[p->form->program.input_count - 1])
        return tp_tile_compute((tp_dtype)p->input[p->form->program.input_count - 1]->dtype);
    return tp_tile_compute(p->common);
}

static bool run_into(const tp_op *op, const plan *p, const tp_value *arg, tp_tensor *out)
{
    tp_compute compute = compute_type(op, p);
    if (!check_type(op, p, compute) || (out->numel && !check_divisors(p, arg, compute)))
        return false;
    if (out->numel && !run_small(p, out, compute))
        run_loop(p, arg, out, compute);
    return true;
}

static tp_device device_of(const plan *p)
{
    for (int i = 0; i < p->form->program.input_count; i++)
        if (p->input[i] && (p->input[i]->ndim || p->ndim == 0))
            return p->input[i]->device;
    return (tp_device){ TP_CPU, -1 };
}

static void fill_geometry(const plan *p, tp_geometry *out)
{
    out->dtype = (uint8_t)p->result;
    out->ndim = (uint8_t)p->ndim;
    out->unknown = false;
    out->device = device_of(p);
    out->offset = 0;
    memcpy(out->size, p->size, (size_t)p->ndim * sizeof *p->size);
    result_strides(p, out->stride);
}

/* Writes a given result, by way of a fresh one where an operand lies across it. */
static bool run_written(const tp_op *op, const plan *p, const tp_value *arg, tp_tensor *out)
{
    bool entangled;
    if (!check_overlap(p, out, &entangled))
        return false;
    if (TP_LIKELY(!entangled))
        return run_into(op, p, arg, out);
    tp_tensor *fresh = tp_tensor_new((tp_dtype)out->dtype, p->ndim, p->size);
    bool ok = fresh && run_into(op, p, arg, fresh);
    if (ok)
        tp_copy(out, fresh);
    tp_tensor_unref(fresh);
    return ok;
}

/* The checks of the entry (`check` lines) run first: they may say more than promotion would. */
static bool checked(const tp_op *op, const tp_value *arg)
{
    const tp_op *base = op->base ? op->base : op;
    return !base->work->check || base->work->check(arg);
}

bool tp_infer_pointwise(const tp_op *op, const tp_value *arg, tp_geometry *out)
{
    plan p;
    if (!checked(op, arg) || !make_plan(op, arg, &p))
        return false;
    fill_geometry(&p, out);
    return true;
}

/* fill_ and zero_ may write an element twice. */
static bool writes_one_number(const plan *p, const tp_tensor *self)
{
    const tp_tile_program *program = &p->form->program;
    for (int i = 0; i < program->input_count; i++)
        if (p->input[i] && p->input[i] != self)
            return false;
    return program->step_count == 0 && program->output[0] >= program->input_count;
}

static bool run_inplace(const tp_op *op, const plan *p, const tp_value *arg, tp_value *result)
{
    tp_tensor *self = arg[0].tensor;
    if (!tp_check_castable(p->result, (tp_dtype)self->dtype) || !(writes_one_number(p, self) || tp_check_written(self)) ||
        !check_inplace_shape(p, self) || !run_written(op, p, arg, self))
        return false;
    *result = tp_of_tensor(tp_tensor_ref(self));
    return true;
}

static bool run_out(const tp_op *op, const plan *p, const tp_value *arg, tp_value *result)
{
    tp_tensor *out = arg[op->arg_count - 1].tensor;
    if (!tp_check_castable(p->result, (tp_dtype)out->dtype))
        return false;
    if (!same_sizes(p, out)) {          /* its dims lie as those of a fresh result would */
        int64_t stride[TP_MAX_DIMS];
        for (int i = 0; i < p->form->program.input_count; i++)
            if (p->input[i] == out)
                return check_inplace_shape(p, out);
        result_strides(p, stride);
        if (!tp_resize_out(op, out, p->ndim, p->size) || !tp_tensor_set_geometry(out, p->ndim, p->size, stride, out->offset))
            return false;
    }
    if (!tp_check_written(out) || !run_written(op, p, arg, out))
        return false;
    *result = tp_of_tensor(tp_tensor_ref(out));
    return true;
}

/* The commonest call of all: small row-major tensors of one inexact type and the same sizes, one step, a fresh result. It
 * comes to the same as the long way below, without a plan. Gives NULL, without an error, when the call is another one. */
static tp_tensor *run_express(const tp_op *op, const tp_value *arg)
{
    const tp_pointwise *p = op->pointwise;
    const tp_tensor *first = tp_as_tensor(arg[0]);
    if (op->variant != TP_FUNCTIONAL || p->to != TP_DTYPE_NONE || p->promotion > TP_PROMOTE_FLOAT || !first || first->numel > TP_TILE ||
        !first->numel || (first->dtype != TP_f32 && first->dtype != TP_f64) || (p->dtypes && !(p->dtypes >> first->dtype & 1)))
        return NULL;
    int form = p->select ? p->select(arg, (tp_dtype)first->dtype) : 0;
    const tp_tile_program *program = form < 0 ? NULL : &p->form[form].program;
    if (!program || program->step_count != 1 || program->scalar_count || program->input_count > 3)
        return NULL;
    tp_compute compute = first->dtype == TP_f32 ? TP_COMPUTE_f32 : TP_COMPUTE_f64;
    const uint8_t operand[3] = { program->step->a, program->step->b, program->step->c };
    const void *in[3], *data[3];
    for (int i = 0; i < program->input_count; i++) {
        const tp_tensor *t = tp_as_tensor(arg[p->form[form].input[i]]);
        if (!t || t->dtype != first->dtype || t->ndim != first->ndim || !tp_tensor_is_contiguous(t) ||
            memcmp(t->size, first->size, first->ndim * sizeof *first->size) != 0)
            return NULL;
        data[i] = tp_tensor_data(t);
    }
    for (int i = 0; i < tp_tile_operands(program->step->prim); i++)
        in[i] = data[operand[i]];
    if (!tp_tile_has((tp_prim)program->step->prim, compute))
        return NULL;
    tp_tensor *out = tp_tensor_new((tp_dtype)first->dtype, first->ndim, first->size);
    if (out)
        tp_tile_run_small((tp_prim)program->step->prim, compute, first->numel, tp_tensor_data(out), in);
    return out;
}

bool tp_run_pointwise(const tp_op *op, const tp_value *arg, tp_value *result)
{
    plan p;
    if (!checked(op, arg))
        return false;
    tp_tensor *express = run_express(op, arg);
    if (express) {
        *result = tp_of_tensor(express);
        return true;
    }
    if (!make_plan(op, arg, &p))
        return false;
    if (op->variant == TP_INPLACE)
        return run_inplace(op, &p, arg, result);
    if (op->variant == TP_OUT)
        return run_out(op, &p, arg, result);

    tp_geometry g;
    fill_geometry(&p, &g);
    tp_tensor *out = tp_tensor_new_as(&g);
    if (!out || !run_into(op, &p, arg, out)) {
        tp_tensor_unref(out);
        return false;
    }
    *result = tp_of_tensor(out);
    return true;
}
