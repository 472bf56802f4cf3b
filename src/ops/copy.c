/* copy.c - copies as tile programs without a step. */
#include "ops/copy.h"

#include <math.h>
#include <string.h>

#include "tile/tile.h"

static const tp_tile_program from_input = { .input_count = 1, .register_count = 1, .output_count = 1 };
/* The same for tensors that stand for something else than they hold: conj, neg, both. */
static const tp_tile_step turning[3][2] = {
    { { TP_PRIM_conj, 1, 0, 0, 0 } }, { { TP_PRIM_neg, 1, 0, 0, 0 } }, { { TP_PRIM_conj, 1, 0, 0, 0 }, { TP_PRIM_neg, 2, 1, 0, 0 } },
};
static const tp_tile_program turned[3] = {
    { .step = turning[0], .step_count = 1, .input_count = 1, .register_count = 2, .output_count = 1, .output = { 1 } },
    { .step = turning[1], .step_count = 1, .input_count = 1, .register_count = 2, .output_count = 1, .output = { 1 } },
    { .step = turning[2], .step_count = 2, .input_count = 1, .register_count = 3, .output_count = 1, .output = { 2 } },
};
static const tp_tile_program from_scalar = { .scalar_count = 1, .register_count = 1, .output_count = 1 };

static void place(const tp_tensor *t, int ndim, const int64_t *size, tp_tile_operand *operand, int64_t *stride)
{
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    for (int d = 0; d < ndim; d++) {
        int i = d - (ndim - t->ndim);
        stride[d] = i < 0 || (t->size[i] == 1 && size[d] != 1) ? 0 : t->size[i] == 1 ? 0 : t->stride[i] * bytes;        /* where nothing moves, a stride may be any number */
    }
    *operand = (tp_tile_operand){ tp_tensor_data(t), t->dtype, stride };
}

/* Bytes that may be moved as they are, with no loop built: the same type, a small row-major target, and a source that is the
 * same, or one row for all of them, as a bias is. */
enum { SMALL_COPY = 2048 };

static bool moved(tp_tensor *to, const tp_tensor *from)
{
    size_t bytes = (size_t)to->numel * tp_dtype_bytes((tp_dtype)to->dtype);
    if (to->dtype != from->dtype || tp_signs(to) != tp_signs(from) || bytes > SMALL_COPY || !(to->keys & from->keys & TP_KEY_CONTIGUOUS))
        return false;
    if (from->numel == to->numel) {
        memmove(tp_tensor_data(to), tp_tensor_data(from), bytes);
        return true;
    }
    size_t row = (size_t)from->numel * tp_dtype_bytes((tp_dtype)to->dtype);
    if (!to->ndim || !from->ndim || from->size[from->ndim - 1] != from->numel || to->size[to->ndim - 1] != from->numel ||
        to->storage == from->storage)
        return false;
    for (size_t at = 0; at < bytes; at += row)
        memcpy((char *)tp_tensor_data(to) + at, tp_tensor_data(from), row);
    return true;
}

/* Both may stand for other elements than they hold: a sign that both have is none. */
static const tp_tile_program *program_for(const tp_tensor *to, const tp_tensor *from)
{
    uint32_t differ = tp_signs(to) ^ tp_signs(from);
    int conj = (differ & TP_KEY_CONJ) && tp_dtype_is_complex((tp_dtype)to->dtype) && tp_dtype_is_complex((tp_dtype)from->dtype), neg = (differ & TP_KEY_NEG) != 0;
    return conj | neg ? &turned[conj + 2 * neg - 1] : &from_input;
}

/* A conversion computes in the type it reads: an i64 reaches an f16 in one rounding. */
void tp_copy(tp_tensor *to, const tp_tensor *from)
{
    int64_t stride[2][TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = to->ndim, .compute = (uint8_t)tp_tile_compute((tp_dtype)from->dtype), .size = to->size };
    if (!to->numel || moved(to, from))
        return;
    place(to, to->ndim, to->size, &loop.operand[0], stride[0]);
    place(from, to->ndim, to->size, &loop.operand[1], stride[1]);
    tp_tile_run(program_for(to, from), &loop);
}

void tp_fill(tp_tensor *to, tp_scalar value)
{
    int64_t stride[TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = to->ndim, .compute = (uint8_t)tp_tile_compute((tp_dtype)to->dtype), .size = to->size, .scalar = &value };
    if (!to->numel)
        return;
    if (to->dtype == TP_b8)
        value = tp_scalar_int(!tp_scalar_is_zero(value));       /* 2^40 would be cut to 32 bits, all zero */
    place(to, to->ndim, to->size, &loop.operand[0], stride);
    tp_tile_run(&from_scalar, &loop);
}

void tp_fill_uninitialized(tp_tensor *to)
{
    tp_dtype d = (tp_dtype)to->dtype;
    int bits = 8 * (int)tp_dtype_bytes(d);
    if (tp_dtype_is_float(d) || tp_dtype_is_complex(d))
        tp_fill(to, tp_scalar_float(NAN));
    else
        tp_fill(to, tp_scalar_int(d == TP_b8 ? 1 : d == TP_u8 ? UINT8_MAX : INT64_MAX >> (64 - bits)));
}

static tp_tensor *copied(const tp_tensor *t, tp_dtype d, const int64_t *stride)
{
    tp_tensor *fresh = tp_tensor_new_on(t->device, d, t->ndim, t->size, stride);
    if (fresh && t->device.type == TP_CPU)
        tp_copy(fresh, t);
    return fresh;
}

tp_tensor *tp_clone(const tp_tensor *t, tp_format format)
{
    int64_t stride[TP_MAX_DIMS];
    switch (format) {
    case TP_FORMAT_PRESERVE:
        tp_strides_like(t, t->ndim, t->size, stride);
        break;
    case TP_FORMAT_CHANNELS_LAST: case TP_FORMAT_CHANNELS_LAST_3D:
        tp_strides_channels_last(t->ndim, t->size, stride);
        break;
    default:
        tp_strides_row_major(t->ndim, t->size, stride);
    }
    return copied(t, (tp_dtype)t->dtype, stride);
}

tp_tensor *tp_contiguous(const tp_tensor *t)
{
    return tp_tensor_is_contiguous(t) && !tp_signs(t) ? tp_tensor_ref(t) : copied(t, (tp_dtype)t->dtype, NULL);
}

tp_tensor *tp_cast(const tp_tensor *t, tp_dtype d)
{
    if (t->dtype == d && !tp_signs(t))
        return tp_tensor_ref(t);
    int64_t stride[TP_MAX_DIMS];
    tp_strides_like(t, t->ndim, t->size, stride);
    return copied(t, d, stride);
}
