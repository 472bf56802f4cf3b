/* nll_loss.c - minus the logarithm of the probability given to the right class, and the gradient.
 *
 * Inputs are items x classes x places (places: 1, or the pixels of nll_loss2d); targets items x places. A target equal to
 * ignore_index counts for nothing; others weigh as their class. */
#include <math.h>

#include "kernels/dense.h"
#include "kernels/rows.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

typedef struct work {
    tp_row   row;
    int64_t  items, classes, places, ignore;
    const int64_t *target;
    const void *weight;             /* may be NULL */
} work;

static double weight_of(const work *w, int64_t class)
{
    return w->weight ? tp_row_get(&w->row, tp_row_at(&w->row, w->weight, class)) : 1;
}

static int64_t input_at(const work *w, int64_t k, int64_t class)
{
    return (k / w->places * w->classes + class) * w->places + k % w->places;
}

static bool check_targets(const work *w)
{
    for (int64_t i = 0; i < w->items * w->places; i++)
        if (w->target[i] != w->ignore && (w->target[i] < 0 || w->target[i] >= w->classes))
            return tp_fail(TP_ERR_INDEX, "Target %lld is out of bounds.", LL(w->target[i]));
    return true;
}

/* Sizes of input (1-d: one item) and target. */
static void shape(work *w, const tp_tensor *input, tp_dtype d)
{
    w->row = tp_row_of(d);
    w->items = input->ndim == 1 ? 1 : input->size[0];
    w->classes = input->ndim == 1 ? input->size[0] : input->size[1];
    w->places = 1;
    for (int i = 2; i < input->ndim; i++)
        w->places *= input->size[i];
}

/* nll_loss_forward, nll_loss2d_forward(self, target, weight, reduction, ignore_index) -> (output, total_weight) */
TP_HOOK_K(tp_k_nll_loss)
{
    const tp_tensor *input = arg[0].tensor, *given = tp_as_tensor(arg[2]);
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    int64_t reduction = tp_as_int(arg[3]);
    work w = { .ignore = tp_as_int(arg[4]) };
    tp_tensor *x = tp_dense(input, d), *target = x ? tp_dense(arg[1].tensor, TP_i64) : NULL, *weight = target && given ? tp_dense(given, d) : NULL;
    tp_tensor *y = target && (weight || !given) ? tp_dense_out(out[0], d) : NULL;
    bool ok = y != NULL;
    shape(&w, input, d);
    if (ok) {
        w.target = tp_tensor_data(target);
        w.weight = weight ? tp_tensor_data(weight) : NULL;
        ok = check_targets(&w);
    }
    if (ok) {
        double sum = 0, total = 0;
        for (int64_t k = 0; k < w.items * w.places; k++) {
            int64_t class = w.target[k];
            bool counts = class != w.ignore;
            double by = counts ? weight_of(&w, class) : 0;
            double loss = counts ? -tp_row_get(&w.row, tp_row_at(&w.row, tp_tensor_data(x), input_at(&w, k, class))) * by : 0;
            if (reduction == REDUCE_NONE)
                tp_row_put(&w.row, tp_row_at(&w.row, tp_tensor_data(y), k), loss);
            sum += loss;
            total += by;
        }
        if (reduction != REDUCE_NONE)
            tp_row_put(&w.row, tp_tensor_data(y), reduction == REDUCE_MEAN ? sum / total : sum);
        tp_fill(out[1], tp_scalar_float(reduction == REDUCE_NONE && input->ndim > 1 ? 0 : total));
    }
    tp_tensor_unref(x);
    tp_tensor_unref(target);
    tp_tensor_unref(weight);
    return tp_dense_done(y, out[0], ok);
}

/* nll_loss_backward, nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight) */
TP_HOOK_K(tp_k_nll_loss_backward)
{
    const tp_tensor *input = arg[1].tensor, *given = tp_as_tensor(arg[3]);
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    int64_t reduction = tp_as_int(arg[4]);
    work w = { .ignore = tp_as_int(arg[5]) };
    tp_tensor *g = tp_dense(arg[0].tensor, d), *target = g ? tp_dense(arg[2].tensor, TP_i64) : NULL, *weight = target && given ? tp_dense(given, d) : NULL;
    tp_tensor *dx = target && (weight || !given) ? tp_dense_out(out[0], d) : NULL;
    bool ok = dx != NULL;
    shape(&w, input, d);
    if (ok) {
        const tp_tensor *total_weight = arg[6].tensor;
        double total = tp_scalar_to_double(tp_scalar_read(tp_tensor_data(total_weight), (tp_dtype)total_weight->dtype));
        w.target = tp_tensor_data(target);
        w.weight = weight ? tp_tensor_data(weight) : NULL;
        ok = check_targets(&w);
        tp_fill(dx, tp_scalar_int(0));
        for (int64_t k = 0; ok && k < w.items * w.places; k++) {
            int64_t class = w.target[k];
            if (class == w.ignore)
                continue;
            double incoming = tp_row_get(&w.row, tp_row_at(&w.row, tp_tensor_data(g), reduction == REDUCE_NONE ? k : 0));
            double value = -weight_of(&w, class) * incoming / (reduction == REDUCE_MEAN ? total : 1);
            tp_row_put(&w.row, tp_row_at(&w.row, tp_tensor_data(dx), input_at(&w, k, class)), value);
        }
    }
    tp_tensor_unref(g);
    tp_tensor_unref(target);
    tp_tensor_unref(weight);
    return tp_dense_done(dx, out[0], ok);
}
