/* margin_loss.c - hinge losses over classes, and their gradients.
 *
 * multi_margin_loss: one right class y for a row; every other class i pays max(0, margin - x[y] + x[i]) to the power p,
 * times the weight of y. multilabel_margin_loss: several right classes, listed up to the first -1; each of them against each
 * class that is none pays max(0, 1 - x[right] + x[wrong]). Both divide by the number of classes. */
#include <string.h>

#include "kernels/dense.h"
#include "kernels/rows.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

typedef struct work {
    tp_row   row;
    int64_t  rows, classes, reduction;
    const void *x, *weight;         /* weight may be NULL */
    const int64_t *target;
    int      power;
    double   margin;
} work;

static void shape(work *w, const tp_tensor *input, tp_dtype d)
{
    w->row = tp_row_of(d);
    w->rows = input->ndim < 2 ? 1 : input->size[0];
    w->classes = input->ndim == 0 ? 1 : input->size[input->ndim - 1];
}

static double at(const work *w, const void *base, int64_t i)
{
    return tp_row_get(&w->row, tp_row_at(&w->row, base, i));
}

static void put(const work *w, void *base, int64_t i, double value)
{
    tp_row_put(&w->row, tp_row_at(&w->row, base, i), value);
}

/* What a gradient of the loss is multiplied by: its own element for each row, or the one there is. */
static double scale_of(const work *w, const tp_tensor *grad, int64_t row)
{
    double g = at(w, tp_tensor_data(grad), grad->numel > 1 ? row : 0);
    return g / (double)w->classes / (w->reduction == REDUCE_MEAN ? (double)w->rows : 1);
}

/* The losses of all rows, as `reduction` wants them. */
static void reduce(const work *w, double (*loss)(const work *w, int64_t row), tp_tensor *y)
{
    double sum = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        double each = loss(w, r) / (double)w->classes;
        if (w->reduction == REDUCE_NONE)
            put(w, tp_tensor_data(y), r, each);
        sum += each;
    }
    if (w->reduction != REDUCE_NONE)
        put(w, tp_tensor_data(y), 0, w->reduction == REDUCE_MEAN && w->rows ? sum / (double)w->rows : sum);
}

/* ---- one right class ---- */
static bool check_classes(const work *w)
{
    for (int64_t r = 0; r < w->rows; r++)
        if (w->target[r] < 0 || w->target[r] >= w->classes)
            return tp_fail(TP_ERR_RUNTIME, "target out of range");
    return true;
}

static double multi_loss(const work *w, int64_t row)
{
    int64_t from = row * w->classes, y = w->target[row];
    double right = at(w, w->x, from + y), sum = 0, by = w->weight ? at(w, w->weight, y) : 1;
    for (int64_t i = 0; i < w->classes; i++) {
        double z = w->margin - right + at(w, w->x, from + i);
        if (i != y && z > 0)
            sum += (w->power == 1 ? z : z * z) * by;
    }
    return sum;
}

static void multi_gradient(const work *w, int64_t row, double scale, void *dx)
{
    int64_t from = row * w->classes, y = w->target[row];
    double right = at(w, w->x, from + y), sum = 0, by = w->weight ? at(w, w->weight, y) : 1;
    for (int64_t i = 0; i < w->classes; i++) {
        double z = w->margin - right + at(w, w->x, from + i);
        double each = i != y && z > 0 ? (w->power == 1 ? 1 : 2 * z) * by * scale : 0;
        put(w, dx, from + i, each);
        sum += each;
    }
    put(w, dx, from + y, -sum);
}

/* The two ops from `self` on: (self, target, p, margin, weight, reduction); grad NULL: the loss itself. */
static bool multi_margin(const tp_value *arg, const tp_tensor *grad, tp_tensor *result)
{
    const tp_tensor *input = arg[0].tensor, *given = tp_as_tensor(arg[4]);
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    work w = { .reduction = tp_as_int(arg[5]), .power = (int)tp_as_double(arg[2]), .margin = tp_as_double(arg[3]) };
    tp_tensor *x = tp_dense(input, d), *target = x ? tp_dense(arg[1].tensor, TP_i64) : NULL, *weight = target && given ? tp_dense(given, d) : NULL;
    tp_tensor *g = target && grad ? tp_dense(grad, d) : NULL, *y = NULL;
    bool ok = target && (weight || !given) && (g || !grad) && (y = tp_dense_out(result, d));
    if (ok) {
        shape(&w, input, d);
        w.x = tp_tensor_data(x);
        w.target = tp_tensor_data(target);
        w.weight = weight ? tp_tensor_data(weight) : NULL;
        ok = check_classes(&w);
    }
    if (ok && !grad)
        reduce(&w, multi_loss, y);
    else if (ok)
        for (int64_t r = 0; r < w.rows; r++)
            multi_gradient(&w, r, scale_of(&w, g, r), tp_tensor_data(y));
    tp_tensor_unref(x);
    tp_tensor_unref(target);
    tp_tensor_unref(weight);
    tp_tensor_unref(g);
    return tp_dense_done(y, result, ok);
}

TP_HOOK_K(tp_k_multi_margin_loss) { return multi_margin(arg, NULL, out[0]); }
TP_HOOK_K(tp_k_multi_margin_loss_backward) { return multi_margin(arg + 1, arg[0].tensor, out[0]); }

/* ---- several right classes ---- */
static bool check_labels(const work *w)
{
    for (int64_t i = 0; i < w->rows * w->classes; i++)
        if (w->target[i] < -1 || w->target[i] >= w->classes)
            return tp_fail(TP_ERR_RUNTIME, "argument #2 'target' is out of range");
    return true;
}

static bool is_label(const work *w, int64_t row, int64_t class)
{
    for (int64_t k = row * w->classes; k < (row + 1) * w->classes && w->target[k] >= 0; k++)
        if (w->target[k] == class)
            return true;
    return false;
}

static double labels_loss(const work *w, int64_t row)
{
    int64_t from = row * w->classes;
    double sum = 0;
    for (int64_t k = 0; k < w->classes && w->target[from + k] >= 0; k++)
        for (int64_t i = 0; i < w->classes; i++) {
            double z = 1 - at(w, w->x, from + w->target[from + k]) + at(w, w->x, from + i);
            if (z > 0 && !is_label(w, row, i))
                sum += z;
        }
    return sum;
}

static void labels_gradient(const work *w, int64_t row, double scale, void *dx)
{
    int64_t from = row * w->classes;
    memset(tp_row_at(&w->row, dx, from), 0, (size_t)(w->classes * w->row.bytes));
    for (int64_t k = 0; k < w->classes && w->target[from + k] >= 0; k++) {
        int64_t right = from + w->target[from + k];
        for (int64_t i = 0; i < w->classes; i++)
            if (1 - at(w, w->x, right) + at(w, w->x, from + i) > 0 && !is_label(w, row, i)) {
                put(w, dx, right, at(w, dx, right) - scale);
                put(w, dx, from + i, at(w, dx, from + i) + scale);
            }
    }
}

/* (self, target, reduction); grad NULL: the loss, and is_target. */
static bool multilabel_margin(const tp_value *arg, const tp_tensor *grad, tp_tensor *result, tp_tensor *is_target)
{
    const tp_tensor *input = arg[0].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    work w = { .reduction = tp_as_int(arg[2]) };
    tp_tensor *x = tp_dense(input, d), *target = x ? tp_dense(arg[1].tensor, TP_i64) : NULL, *g = target && grad ? tp_dense(grad, d) : NULL;
    tp_tensor *y = target && (g || !grad) ? tp_dense_out(result, d) : NULL, *mark = y && is_target ? tp_dense_out(is_target, d) : NULL;
    bool ok = y && (mark || !is_target);
    if (ok) {
        shape(&w, input, d);
        w.x = tp_tensor_data(x);
        w.target = tp_tensor_data(target);
        ok = check_labels(&w);
    }
    if (ok && grad) {
        for (int64_t r = 0; r < w.rows; r++)
            labels_gradient(&w, r, scale_of(&w, g, r), tp_tensor_data(y));
    } else if (ok) {
        reduce(&w, labels_loss, y);
        for (int64_t i = 0; i < w.rows * w.classes; i++)
            put(&w, tp_tensor_data(mark), i, is_label(&w, i / w.classes, i % w.classes));
    }
    tp_tensor_unref(x);
    tp_tensor_unref(target);
    tp_tensor_unref(g);
    ok = tp_dense_done(y, result, ok);
    return is_target ? tp_dense_done(mark, is_target, ok) : ok;
}

TP_HOOK_K(tp_k_multilabel_margin_loss) { return multilabel_margin(arg, NULL, out[0], out[1]); }
TP_HOOK_K(tp_k_multilabel_margin_loss_backward) { return multilabel_margin(arg + 1, arg[0].tensor, out[0], NULL); }
