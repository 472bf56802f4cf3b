/* gate.c - activations that are more than one expression: several results, halves of a dim, noise.
 *
 * All compute on row-major f32 or f64, a tile of elements at a time, by the primitives of tile programs. */
#include <math.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"
#include "ops/run.h"
#include "tensor/generator.h"

/* One run of primitives over elements that lie together; `at` are operands, `scratch` two tiles. */
typedef struct gate gate;
struct gate {
    tp_row row;
    void (*tile)(const gate *g, int64_t n, int64_t first, void *const scratch[2]);
    int64_t n;                  /* elements of a block */
    int64_t step;               /* from the start of a block of the halved operand to the next */
    const char *a, *b, *c;
    char *x, *y;
};

static void gate_chunk(void *work, int64_t index, int64_t count)
{
    const gate *g = work;
    double scratch[2][TP_TILE];
    int64_t end = tp_chunk_at(g->n, index + 1, count);
    for (int64_t i = tp_chunk_at(g->n, index, count); i < end; i += TP_TILE)
        g->tile(g, end - i < TP_TILE ? end - i : TP_TILE, i, (void *[]){ scratch[0], scratch[1] });
}

static void run(gate *g)
{
    tp_pool_run(tp_chunks_of(g->n, 4), gate_chunk, g);
}

#define AT(p, i) tp_row_at(&g->row, p, i)

/* ---- log(sigmoid): min(x, 0) - log(1 + z) with z = exp(-|x|) ---- */
static void log_sigmoid_tile(const gate *g, int64_t n, int64_t first, void *const scratch[2])
{
    const tp_row *r = &g->row;
    tp_row_number zero = tp_row_make(r, 0);
    tp_row_step(r, TP_PRIM_abs, n, scratch[0], AT(g->a, first), NULL);
    tp_row_step(r, TP_PRIM_neg, n, scratch[0], scratch[0], NULL);
    tp_row_step(r, TP_PRIM_exp, n, scratch[0], scratch[0], NULL);
    tp_row_step_one(r, TP_PRIM_minimum, n, scratch[1], AT(g->a, first), &zero);
    memcpy(AT(g->y, first), scratch[0], (size_t)n * r->bytes);
    tp_row_step(r, TP_PRIM_log1p, n, scratch[0], scratch[0], NULL);
    tp_row_step(r, TP_PRIM_sub, n, AT(g->x, first), scratch[1], scratch[0]);
}

TP_HOOK_K(tp_k_log_sigmoid)
{
    tp_dtype d = tp_row_dtype((tp_dtype)out[0]->dtype);
    tp_tensor *self = tp_dense(arg[0].tensor, d), *value = tp_dense_out(out[0], d), *kept = tp_dense_out(out[1], d);
    bool ok = self && value && kept;
    if (ok)
        run(&(gate){ .row = tp_row_of(d), .tile = log_sigmoid_tile, .n = self->numel, .a = tp_tensor_data(self),
                     .x = tp_tensor_data(value), .y = tp_tensor_data(kept) });
    tp_tensor_unref(self);
    ok = tp_dense_done(value, out[0], ok);
    return tp_dense_done(kept, out[1], ok);
}

/* ---- glu: the first half of a dim times the sigmoid of the second ---- */
static void glu_tile(const gate *g, int64_t n, int64_t first, void *const scratch[2])
{
    tp_row_step(&g->row, TP_PRIM_sigmoid, n, scratch[0], AT(g->b, first), NULL);
    tp_row_step(&g->row, TP_PRIM_mul, n, AT(g->x, first), AT(g->a, first), scratch[0]);
}

/* s = sigmoid(b): gradients s g of the first half, (1 - s) s g a of the second. */
static void glu_backward_tile(const gate *g, int64_t n, int64_t first, void *const scratch[2])
{
    const tp_row *r = &g->row;
    tp_row_number one = tp_row_make(r, 1);
    tp_row_step(r, TP_PRIM_sigmoid, n, scratch[0], AT(g->b, first), NULL);
    tp_row_step_one(r, TP_PRIM_sub, n, scratch[1], scratch[0], &one);
    tp_row_step(r, TP_PRIM_neg, n, scratch[1], scratch[1], NULL);
    tp_row_step(r, TP_PRIM_mul, n, scratch[1], scratch[1], scratch[0]);
    tp_row_step(r, TP_PRIM_mul, n, AT(g->x, first), scratch[0], AT(g->c, first));
    tp_row_step(r, TP_PRIM_mul, n, scratch[1], scratch[1], AT(g->c, first));
    tp_row_step(r, TP_PRIM_mul, n, AT(g->y, first), scratch[1], AT(g->a, first));
}

/* glu(self, dim) */
TP_HOOK_K(tp_k_glu)
{
    tp_dtype d = tp_row_dtype((tp_dtype)out[0]->dtype);
    tp_tensor *self = tp_dense(arg[0].tensor, d), *value = tp_dense_out(out[0], d);
    bool ok = self && value;
    tp_along along = tp_along_dim(arg[0].tensor, tp_as_int(arg[1]));
    int64_t half = along.size / 2 * along.inner;
    gate g = { .row = tp_row_of(d), .tile = glu_tile, .n = half };
    for (int64_t i = 0; ok && half && i < along.outer; i++) {
        g.a = tp_row_at(&g.row, tp_tensor_data(self), 2 * i * half);
        g.b = tp_row_at(&g.row, g.a, half);
        g.x = tp_row_at(&g.row, tp_tensor_data(value), i * half);
        run(&g);
    }
    tp_tensor_unref(self);
    return tp_dense_done(value, out[0], ok);
}

/* glu_backward(grad_output, self, dim) */
TP_HOOK_K(tp_k_glu_backward)
{
    tp_dtype d = tp_row_dtype((tp_dtype)out[0]->dtype);
    tp_tensor *grad = tp_dense(arg[0].tensor, d), *self = tp_dense(arg[1].tensor, d), *value = tp_dense_out(out[0], d);
    bool ok = grad && self && value;
    tp_along along = tp_along_dim(arg[1].tensor, tp_as_int(arg[2]));
    int64_t half = along.size / 2 * along.inner;
    gate g = { .row = tp_row_of(d), .tile = glu_backward_tile, .n = half };
    for (int64_t i = 0; ok && half && i < along.outer; i++) {
        g.a = tp_row_at(&g.row, tp_tensor_data(self), 2 * i * half);
        g.b = tp_row_at(&g.row, g.a, half);
        g.c = tp_row_at(&g.row, tp_tensor_data(grad), i * half);
        g.x = tp_row_at(&g.row, tp_tensor_data(value), 2 * i * half);
        g.y = tp_row_at(&g.row, g.x, half);
        run(&g);
    }
    tp_tensor_unref(grad);
    tp_tensor_unref(self);
    return tp_dense_done(value, out[0], ok);
}

/* ---- rrelu ---- */
typedef struct slopes {
    double lower, upper;
    bool   training;
    tp_value generator;
} slopes;

/* Draws one number for each element that is not positive, in order; without training the slope is the mean. */
static bool rrelu(const tp_tensor *self, const slopes *s, tp_tensor *noise, tp_tensor *out)
{
    tp_dtype d = tp_row_dtype((tp_dtype)self->dtype);
    tp_tensor *x = tp_dense(self, d), *kept = tp_dense_out(noise, d), *y = tp_dense_out(out, d);
    tp_generator *generator = s->generator.tag == TP_GENERATOR ? s->generator.generator : tp_generator_default();
    bool ok = x && kept && y && generator;
    if (ok) {
        tp_row r = tp_row_of(d);
        tp_generator_lock(generator);
        for (int64_t i = 0; i < x->numel; i++) {
            double value = tp_row_get(&r, tp_row_at(&r, tp_tensor_data(x), i)), slope = value > 0 ? 1 : (s->lower + s->upper) / 2;
            if (s->training && value <= 0)
                slope = fma(tp_draw_u53(generator), s->upper - s->lower, s->lower);
            if (s->training)
                tp_row_put(&r, tp_row_at(&r, tp_tensor_data(kept), i), slope);
            tp_row_put(&r, tp_row_at(&r, tp_tensor_data(y), i), r.bytes == 8 ? value * slope : (double)((float)value * (float)slope));
        }
        tp_generator_unlock(generator);
    }
    tp_tensor_unref(x);
    if (ok && !s->training) {
        tp_tensor_unref(kept);
        return tp_dense_done(y, out, ok);
    }
    ok = tp_dense_done(kept, noise, ok);
    return tp_dense_done(y, out, ok);
}

static slopes slopes_of(const tp_value *arg)
{
    return (slopes){ tp_as_double(arg[2]), tp_as_double(arg[3]), tp_as_bool(arg[4]), arg[5] };
}

/* rrelu_with_noise(self, noise, lower, upper, training, generator) */
TP_HOOK_K(tp_k_rrelu)
{
    slopes s = slopes_of(arg);
    return rrelu(arg[0].tensor, &s, arg[1].tensor, out[0]);
}

TP_HOOK_K(tp_k_rrelu_functional)
{
    slopes s = slopes_of(arg);
    tp_copy(out[1], arg[1].tensor);
    return rrelu(arg[0].tensor, &s, out[1], out[0]);
}

/* ---- frexp: x = mantissa 2^exponent ---- */
TP_HOOK_K(tp_k_frexp)
{
    tp_dtype d = tp_row_dtype((tp_dtype)out[0]->dtype);
    tp_tensor *x = tp_dense(arg[0].tensor, d), *mantissa = tp_dense_out(out[0], d), *exponent = tp_dense_out(out[1], TP_i32);
    bool ok = x && mantissa && exponent;
    tp_row r = tp_row_of(d);
    for (int64_t i = 0; ok && i < x->numel; i++) {
        int power = 0;
        double value = tp_row_get(&r, tp_row_at(&r, tp_tensor_data(x), i)), part = frexp(value, &power);
        tp_row_put(&r, tp_row_at(&r, tp_tensor_data(mantissa), i), part);
        ((int32_t *)tp_tensor_data(exponent))[i] = isfinite(value) ? power : 0;
    }
    tp_tensor_unref(x);
    ok = tp_dense_done(mantissa, out[0], ok);
    return tp_dense_done(exponent, out[1], ok);
}
