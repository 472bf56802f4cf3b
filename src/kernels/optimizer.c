/* optimizer.c - the fused steps of optimisers: one pass over a parameter, its gradient and its state.
 *
 * Lists are walked tensor by tensor; each is read and written as row-major f32 or f64 (halves through f32). The order of
 * roundings, with one multiply-add where PyTorch's kernels have one, was found by comparing digits. A step whose gradients
 * were found to be infinite is left out; gradients come divided by `grad_scale` and are left so. */
#include <math.h>

#include "base/pool.h"
#include "kernels/dense.h"

enum { PARAM, GRAD, FIRST, SECOND, MOST, ROLES };       /* what the lists are; a rule may have fewer */

typedef struct settings {
    double lr, decay, momentum, dampening, beta1, beta2, eps, scale;
    double step_size, root;             /* of Adam: lr and second moment corrected for the step; of Adagrad: the decayed lr */
    bool   maximize, nesterov, first_step, amsgrad, decoupled, scaled, has_buffer;
} settings;

typedef struct work {
    settings with;
    void    *data[ROLES];
    int64_t  count;
    bool     wide;                      /* f64 */
    void   (*rule)(const struct work *w, int64_t from, int64_t to);
} work;

#define GRADIENT(T)                                                             \
    T g = grad[i];                                                              \
    if (s->scaled)                                                              \
        grad[i] = g = g / (T)s->scale;                                          \
    if (s->maximize)                                                            \
        g = -g

#define DATA(T) \
    T *restrict param = w->data[PARAM], *restrict grad = w->data[GRAD], *restrict first = w->data[FIRST]; \
    const settings *s = &w->with

#define ADAM(T, FMA, SQRT)                                                                                  \
    DATA(T);                                                                                                \
    T *restrict second = w->data[SECOND], *restrict most = w->data[MOST];                                   \
    const T keep = (T)(1 - s->lr * s->decay), one1 = (T)(1 - s->beta1), b2 = (T)s->beta2, one2 = (T)(1 - s->beta2);  \
    const T size = (T)s->step_size, root = (T)s->root, eps = (T)s->eps, decay = (T)s->decay;                \
    for (int64_t i = from; i < to; i++) {                                                                   \
        GRADIENT(T);                                                                                        \
        if (s->decay != 0 && s->decoupled)                                                                  \
            param[i] *= keep;                                                                               \
        else if (s->decay != 0)                                                                             \
            g = FMA(param[i], decay, g);                                                                    \
        first[i] = FMA(one1, g - first[i], first[i]);                                                       \
        T square = second[i] = FMA(one2 * g, g, second[i] * b2);                                            \
        if (s->amsgrad)                                                                                     \
            square = most[i] = most[i] > square ? most[i] : square;                                         \
        param[i] -= size * first[i] / (SQRT(square) / root + eps);                                          \
    }

#define SGD(T, FMA)                                                                                         \
    DATA(T);                                                                                                \
    const T lr = (T)s->lr, decay = (T)s->decay, momentum = (T)s->momentum, fresh = (T)(1 - s->dampening);   \
    for (int64_t i = from; i < to; i++) {                                                                   \
        GRADIENT(T);                                                                                        \
        if (s->decay != 0)                                                                                  \
            g = FMA(param[i], decay, g);                                                                    \
        if (s->has_buffer) {                                                                                \
            first[i] = s->first_step ? g : FMA(g, fresh, first[i] * momentum);                              \
            g = s->nesterov ? FMA(first[i], momentum, g) : first[i];                                        \
        }                                                                                                   \
        param[i] = FMA(-lr, g, param[i]);                                                                   \
    }

#define ADAGRAD(T, FMA, SQRT)                                                                               \
    DATA(T);                                                                                                \
    const T size = (T)s->step_size, eps = (T)s->eps, decay = (T)s->decay;                                   \
    for (int64_t i = from; i < to; i++) {                                                                   \
        GRADIENT(T);                                                                                        \
        if (s->decay != 0)                                                                                  \
            g = FMA(param[i], decay, g);                                                                    \
        first[i] = FMA(g, g, first[i]);                                                                     \
        param[i] -= size * g / (SQRT(first[i]) + eps);                                                      \
    }

static void adam_f32(const work *w, int64_t from, int64_t to) { ADAM(float, fmaf, sqrtf) }
static void adam_f64(const work *w, int64_t from, int64_t to) { ADAM(double, fma, sqrt) }
static void sgd_f32(const work *w, int64_t from, int64_t to) { SGD(float, fmaf) }
static void sgd_f64(const work *w, int64_t from, int64_t to) { SGD(double, fma) }
static void adagrad_f32(const work *w, int64_t from, int64_t to) { ADAGRAD(float, fmaf, sqrtf) }
static void adagrad_f64(const work *w, int64_t from, int64_t to) { ADAGRAD(double, fma, sqrt) }

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    w->rule(w, tp_chunk_at(w->count, index, count), tp_chunk_at(w->count, index + 1, count));
}

/* One member of the lists: made dense, stepped, and moved back where it was not dense. */
static bool step_member(work *w, void (*const rule[2])(const work *, int64_t, int64_t), tp_tensor *const role[ROLES])
{
    tp_dtype d = tp_row_dtype((tp_dtype)role[PARAM]->dtype);
    tp_tensor *dense[ROLES] = { 0 };
    bool ok = true;
    for (int r = 0; ok && r < ROLES; r++)
        if (role[r]) {
            ok = (dense[r] = tp_dense(role[r], d)) != NULL;
            w->data[r] = ok ? tp_tensor_data(dense[r]) : NULL;
        }
    if (ok && role[PARAM]->numel) {
        w->count = role[PARAM]->numel;
        w->rule = rule[d == TP_f64];
        tp_pool_run(tp_chunks_of(w->count, 1), chunk, w);
    }
    for (int r = 0; r < ROLES; r++) {
        bool written = r != GRAD || w->with.scaled;
        if (ok && dense[r] && dense[r] != role[r] && written)
            tp_copy(role[r], dense[r]);
        tp_tensor_unref(dense[r]);
    }
    return ok;
}

/* The number in a tensor of one element; `without` when there is none. */
static bool number_in(tp_value v, double without, double *out)
{
    *out = without;
    if (tp_is_none(v))
        return true;
    if (v.tag != TP_TENSOR) {
        *out = tp_as_double(v);
        return true;
    }
    if (v.tensor->numel != 1)
        return tp_fail(TP_ERR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)v.tensor->numel);
    tp_tensor *wide = tp_dense(v.tensor, TP_f64);
    if (wide)
        *out = *(const double *)tp_tensor_data(wide);
    tp_tensor_unref(wide);
    return wide != NULL;
}

/* Has each list a tensor for every parameter? `wanted`: of those that may be empty, it must be whole. */
static bool same_lengths(const tp_value *arg, int count, const char *const *name, uint32_t wanted)
{
    for (int i = 1; i < count; i++)
        if (tp_length(arg[i]) != tp_length(arg[0]) && (wanted >> i & 1 || tp_length(arg[i])))
            return tp_fail(TP_ERR_RUNTIME, "Expected %s.size() == n_tensors to be true, but got false.  (Could this error message be improved?  "
                           "If so, please report an enhancement request to PyTorch.)", name[i]);
    return true;
}

/* The last two arguments; *skip: the gradients are infinite. */
static bool read_scaling(const tp_value *arg, settings *s, bool *skip)
{
    double found;
    s->scaled = !tp_is_none(arg[0]);
    if (!number_in(arg[0], 1, &s->scale) || !number_in(arg[1], 0, &found))
        return false;
    *skip = found == 1;
    return true;
}

static bool check_member(tp_tensor *const role[ROLES])
{
    for (int r = 0; r < ROLES; r++) {
        if (role[r] && role[r]->numel != role[PARAM]->numel)
            return tp_fail(TP_ERR_RUNTIME, "Tensors of the same index must have the same number of elements");
        if (role[r] && !tp_dtype_is_float((tp_dtype)role[r]->dtype))
            return tp_fail(TP_ERR_UNIMPLEMENTED, "a fused optimizer step for '%s'", tp_dtypes[role[r]->dtype].title);
        if (role[r] && role[r]->device.type != TP_CPU)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "a fused optimizer step on a tensor without memory");
    }
    return true;
}

/* Runs over the members; `lists` tensors of each have a role in order, steps are at arg[steps] (-1: none). */
static bool run(const tp_value *arg, int lists, int steps, settings *s, void (*const rule[2])(const work *, int64_t, int64_t),
                void (*at_step)(settings *s, double step))
{
    for (uint32_t i = 0; i < tp_length(arg[0]); i++) {
        tp_tensor *role[ROLES] = { 0 };
        for (int r = 0; r < lists; r++)
            role[r] = i < tp_length(arg[r]) ? arg[r].list->item[i].tensor : NULL;
        if (steps >= 0) {
            double step;
            if (!number_in(arg[steps].list->item[i], 0, &step))
                return false;
            at_step(s, step);
        }
        work w = { .with = *s };
        if (!check_member(role) || !step_member(&w, rule, role))
            return false;
    }
    return true;
}

static void correct_adam(settings *s, double step)
{
    s->step_size = s->lr / (1 - pow(s->beta1, step));
    s->root = sqrt(1 - pow(s->beta2, step));
}

/* arg: self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize,
 * grad_scale, found_inf */
static bool adam(const tp_value *arg, bool decoupled)
{
    static void (*const rule[2])(const work *, int64_t, int64_t) = { adam_f32, adam_f64 };
    settings s = { .beta1 = tp_as_double(arg[7]), .beta2 = tp_as_double(arg[8]), .decay = tp_as_double(arg[9]),
                   .eps = tp_as_double(arg[10]), .amsgrad = tp_as_bool(arg[11]), .maximize = tp_as_bool(arg[12]),
                   .decoupled = decoupled };
    bool skip = false;
    static const char *const name[] = { "self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps" };
    if (!same_lengths(arg, 6, name, s.amsgrad ? 0x3f : 0x2f) || !number_in(arg[6], 0, &s.lr) || !read_scaling(arg + 13, &s, &skip))
        return false;
    return skip || run(arg, s.amsgrad ? 5 : 4, 5, &s, rule, correct_adam);
}

TP_HOOK_K(tp_k_fused_adam)
{
    (void)out;
    return adam(arg, false);
}

TP_HOOK_K(tp_k_fused_adamw)
{
    (void)out;
    return adam(arg, true);
}

/* arg: self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step, grad_scale,
 * found_inf */
TP_HOOK_K(tp_k_fused_sgd)
{
    static void (*const rule[2])(const work *, int64_t, int64_t) = { sgd_f32, sgd_f64 };
    settings s = { .decay = tp_as_double(arg[3]), .momentum = tp_as_double(arg[4]), .dampening = tp_as_double(arg[6]),
                   .nesterov = tp_as_bool(arg[7]), .maximize = tp_as_bool(arg[8]), .first_step = tp_as_bool(arg[9]),
                   .has_buffer = tp_length(arg[2]) != 0 };
    bool skip = false;
    (void)out;
    static const char *const name[] = { "self", "grads", "momentum_buffer_list" };
    if (!same_lengths(arg, 3, name, s.momentum != 0 ? 7 : 3) || !number_in(arg[5], 0, &s.lr) || !read_scaling(arg + 10, &s, &skip))
        return false;
    return skip || run(arg, 3, -1, &s, rule, NULL);
}

static void decay_adagrad(settings *s, double step)
{
    s->step_size = s->lr / (1 + (step - 1) * s->beta1);
}

/* arg: self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf */
TP_HOOK_K(tp_k_fused_adagrad)
{
    static void (*const rule[2])(const work *, int64_t, int64_t) = { adagrad_f32, adagrad_f64 };
    settings s = { .beta1 = tp_as_double(arg[5]), .decay = tp_as_double(arg[6]), .eps = tp_as_double(arg[7]),
                   .maximize = tp_as_bool(arg[8]) };
    bool skip = false;
    (void)out;
    static const char *const name[] = { "self", "grads", "state_sums", "state_steps" };
    if (!same_lengths(arg, 4, name, 15) || !number_in(arg[4], 0, &s.lr) || !read_scaling(arg + 9, &s, &skip))
        return false;
    return skip || run(arg, 3, 3, &s, rule, decay_adagrad);
}
