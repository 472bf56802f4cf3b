/* run_reduction.c - reductions and scans: which dims, which compute type, then the tile executor. */
#include <string.h>

#include "ops/copy.h"
#include "ops/emit.h"
#include "ops/hooks.h"
#include "ops/run_results.h"

/* The program of reductions that take elements as they are. */
static const tp_tile_program element = { .input_count = 1, .register_count = 1, .output_count = 1 };

/* Which dims an argument names: an integer, a list, or none for all. An empty list means all too. False: bad dim. */
static bool dims_of(const tp_tensor *self, tp_value v, uint64_t *mask)
{
    int64_t dim[TP_MAX_DIMS];
    uint64_t all = self->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << self->ndim) - 1;
    int n = v.tag == TP_NONE ? 0 : tp_as_ints(v, dim, TP_MAX_DIMS, 0);
    if (n < 0)
        return false;
    bool bad = false;
    *mask = n == 0 ? all : tp_wrap_all(dim, n, self->ndim, &bad) & all;
    return !bad;
}

/* Sums, products and norms compute in the type of the result; choices among elements in the type of the elements. */
static tp_compute compute_type(tp_reduction r, const tp_tensor *self, const tp_tensor *out)
{
    switch (r) {
    case TP_REDUCE_max: case TP_REDUCE_min: case TP_REDUCE_any: case TP_REDUCE_all: case TP_REDUCE_argmax:
    case TP_REDUCE_argmin: case TP_REDUCE_max_index: case TP_REDUCE_min_index: case TP_REDUCE_count_nonzero:
    case TP_REDUCE_var: case TP_REDUCE_std: case TP_REDUCE_var_mean: case TP_REDUCE_std_mean:
        return tp_tile_compute((tp_dtype)self->dtype);
    default:
        return tp_tile_compute(tp_dtype_is_complex((tp_dtype)self->dtype) ? tp_dtype_promote((tp_dtype)self->dtype, (tp_dtype)out->dtype)
                                                                          : (tp_dtype)out->dtype);
    }
}

/* Complex numbers have no order, and the tile executor no logsumexp of them. */
static bool check_complex(const tp_op *op, tp_reduction r, tp_compute compute)
{
    bool has = r == TP_REDUCE_sum || r == TP_REDUCE_prod || r == TP_REDUCE_mean || r == TP_REDUCE_any || r == TP_REDUCE_all ||
               r == TP_REDUCE_norm || r == TP_REDUCE_count_nonzero;
    if (has || (compute != TP_COMPUTE_c64 && compute != TP_COMPUTE_c128))
        return true;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", op->name, compute == TP_COMPUTE_c64 ? "ComplexFloat" : "ComplexDouble");
}

/* Reductions that give an element itself when there is only one. */
static bool is_plain_choice(tp_reduction r)
{
    return r == TP_REDUCE_sum || r == TP_REDUCE_prod || r == TP_REDUCE_mean || r == TP_REDUCE_max || r == TP_REDUCE_min;
}

/* Output strides over the dims of the input: 0 where a dim is reduced. */
static void spread_strides(const tp_tensor *self, const tp_tensor *out, uint64_t mask, int64_t *stride)
{
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)out->dtype);
    bool kept = out->ndim == self->ndim;
    for (int d = 0, o = 0; d < self->ndim; d++) {
        bool gone = mask >> d & 1;
        stride[d] = gone ? 0 : out->stride[o] * bytes;
        o += kept || !gone;
    }
}

/* ---- the variance of complex numbers: that of their parts, added up ---- */

static void place(const tp_tensor *t, tp_tile_operand *operand, int64_t *stride)
{
    for (int d = 0; d < t->ndim; d++)
        stride[d] = t->stride[d] * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    *operand = (tp_tile_operand){ tp_tensor_data(t), t->dtype, stride };
}

/* Reduces self, or the part of its elements that stands at `offset` when dtype is a real type. */
static void reduce_part(tp_reduction how, double parameter, uint64_t mask, const tp_tensor *self, tp_dtype dtype, size_t offset, tp_tensor *out)
{
    int64_t stride[2][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = self->ndim, .size = self->size, .compute = (uint8_t)tp_tile_compute(dtype) };
    spread_strides(self, out, mask, stride[0]);
    loop.operand[0] = (tp_tile_operand){ tp_tensor_data(out), out->dtype, stride[0] };
    place(self, &loop.operand[1], stride[1]);
    loop.operand[1].data = (char *)loop.operand[1].data + offset;
    loop.operand[1].dtype = (uint8_t)dtype;
    tp_tile_reduce(&element, how, parameter, mask, &loop);
}

/* out = out + more, and its root for a deviation. */
static void add_parts(tp_tensor *out, const tp_tensor *more, bool root)
{
    static const tp_tile_step step[] = { { TP_PRIM_add, 2, 0, 1, 0 }, { TP_PRIM_sqrt, 3, 2, 0, 0 } };
    tp_tile_program sum = { .step = step, .step_count = root ? 2 : 1, .input_count = 2, .register_count = root ? 4 : 3,
                            .output_count = 1, .output = { root ? 3 : 2 } };
    int64_t stride[3][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = out->ndim, .size = out->size, .compute = (uint8_t)tp_tile_compute((tp_dtype)out->dtype) };
    place(out, &loop.operand[0], stride[0]);
    place(out, &loop.operand[1], stride[1]);
    place(more, &loop.operand[2], stride[2]);
    tp_tile_run(&sum, &loop);
}

static bool fill_complex_variance(tp_reduction how, double correction, uint64_t mask, const tp_tensor *self, tp_tensor **out)
{
    tp_dtype real = tp_dtype_to_real((tp_dtype)self->dtype);
    tp_geometry g = { .dtype = (uint8_t)real, .ndim = out[0]->ndim, .device = out[0]->device };
    memcpy(g.size, out[0]->size, (size_t)g.ndim * sizeof *g.size);
    tp_strides_row_major(g.ndim, g.size, g.stride);
    tp_tensor *imaginary = tp_tensor_new_as(&g);
    if (!imaginary)
        return false;
    if (imaginary->numel) {
        reduce_part(TP_REDUCE_var, correction, mask, self, real, 0, out[0]);
        reduce_part(TP_REDUCE_var, correction, mask, self, real, tp_dtype_bytes(real), imaginary);
        add_parts(out[0], imaginary, how == TP_REDUCE_std || how == TP_REDUCE_std_mean);
        if (how == TP_REDUCE_var_mean || how == TP_REDUCE_std_mean)
            reduce_part(TP_REDUCE_mean, 0, mask, self, (tp_dtype)self->dtype, 0, out[1]);
    }
    tp_tensor_unref(imaginary);
    return true;
}

static bool is_variance(tp_reduction r)
{
    return r == TP_REDUCE_var || r == TP_REDUCE_std || r == TP_REDUCE_var_mean || r == TP_REDUCE_std_mean;
}

static bool fill_reduction(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    const tp_reducing *r = op->work->reducing;
    const tp_tensor *self = arg[0].tensor;
    uint64_t mask;
    if (!dims_of(self, r->dim < 0 ? tp_none() : arg[r->dim], &mask))
        return false;
    tp_reduction how = (tp_reduction)r->reduction;
    int outputs = how == TP_REDUCE_max_index || how == TP_REDUCE_min_index || how == TP_REDUCE_var_mean || how == TP_REDUCE_std_mean ? 2 : 1;
    double parameter = r->parameter < 0 || arg[r->parameter].tag == TP_NONE ? r->constant : tp_as_double(arg[r->parameter]);
    if (is_variance(how) && tp_dtype_is_complex((tp_dtype)self->dtype))
        return fill_complex_variance(how, parameter, mask, self, out);
    int64_t stride[3][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = self->ndim, .size = self->size, .compute = (uint8_t)compute_type(how, self, out[0]) };
    if (!check_complex(op, how, (tp_compute)loop.compute))
        return false;
    for (int i = 0; i < outputs; i++) {
        spread_strides(self, out[i], mask, stride[i]);
        loop.operand[i] = (tp_tile_operand){ tp_tensor_data(out[i]), out[i]->dtype, stride[i] };
    }
    place(self, &loop.operand[outputs], stride[2]);
    if (out[0]->numel == self->numel && is_plain_choice(how) && !r->form) {
        tp_tile_run(&element, &loop);           /* nothing to combine: a batch of one is the usual case */
        return true;
    }
    if (out[0]->numel)
        tp_tile_reduce(r->form ? &r->form->program : &element, how, parameter, mask, &loop);
    return true;
}

static bool fill_scan(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    const tp_reducing *r = op->work->reducing;
    const tp_tensor *self = arg[0].tensor;
    uint64_t mask;
    if (!dims_of(self, arg[r->dim], &mask))
        return false;
    int outputs = op->result_count;
    int64_t stride[3][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = self->ndim, .size = self->size, .compute = (uint8_t)tp_tile_compute((tp_dtype)out[0]->dtype) };
    for (int i = 0; i <= outputs; i++)
        place(i < outputs ? out[i] : self, &loop.operand[i], stride[i]);
    if (self->ndim == 0) {
        tp_copy(out[0], self);
        if (outputs == 2)
            tp_fill(out[1], tp_scalar_int(0));
    } else if (self->numel) {
        tp_tile_scan((tp_reduction)r->reduction, __builtin_ctzll(mask), &loop);
    }
    return true;
}

bool tp_run_reduction(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return tp_run_results(op, arg, op->kind == TP_LIKE_SCAN ? fill_scan : fill_reduction, result);
}
