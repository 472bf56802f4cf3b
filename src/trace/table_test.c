/* table_test.c - the op table tests itself: every op that has `try` rows is run on their combinations.
 *
 * fake       a shape rule gives the type, sizes and strides of the real result, on integers (table_fake.c)
 * symbolic   and on expressions, which also hold at other sizes (table_fake.c)
 * variants   in-place, out and functional forms compute what the op itself computes
 * gradients  formulas agree with differences (table_gradient.c)
 * tangents   forward mode agrees with differences and with gradients (table_jvp.c)
 * bits       instruction sets and thread counts give equal bits
 * recorded, functionalised   the graph of a call gives what the call gives, elsewhere: at other sizes (table_record.c)
 * openings   an op that has both a kernel and a decomposition gets close values from them
 * vmap       a call over batches gives what calls on the members give (table_vmap.c)
 * sweep      all of this cleans up when any one allocation fails */
#include "base/test.h"

#include <math.h>
#include <stdarg.h>

#include "base/pool.h"
#include "grad/tape.h"
#include "kernels/gemm_set.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/dispatch.h"
#include "ops/registry.h"
#include "tensor/generator.h"
#include "tile/set.h"
#include "trace/fake.h"
#include "trace/table.h"

/* Ops that fail a check, and why. One that passes must be taken off. */
static const struct known { const char *kind, *op, *reason; } known[] = {
    { "gradients", "aten::embedding", "by design the row of padding_idx gets no gradient" },
    { "gradients", "aten::cholesky", "one triangle is read, the gradient is that of a symmetric change" },
    { "gradients", "aten::cholesky_inverse", "one triangle is read" },
    { "gradients", "aten::cholesky_solve", "one triangle is read" },
    { "gradients", "aten::linalg_cholesky", "one triangle is read" },
    { "gradients", "aten::linalg_cholesky_ex", "one triangle is read" },
    { "gradients", "aten::linalg_cond", "PyTorch writes to the inverse that it needs" },
    { "gradients", "aten::linalg_cond.p_str", "PyTorch writes to the inverse that it needs" },
    { "gradients", "aten::linalg_eigvalsh", "one triangle is read" },
    { "gradients", "aten::as_strided_scatter", "PyTorch's: that of the elements which are overwritten" },
    { "gradients", "aten::ctc_loss.IntList", "that of log probabilities whose exponentials sum to 1" },
    { "gradients", "aten::ldexp.Tensor", "PyTorch's: 2 to a negative integer is 0 in the gradient" },
    { "gradients", "aten::log_sigmoid_backward", "the buffer is a function of self" },
    { "gradients", "aten::linalg_qr", "not without Q, nor for all of a tall one's columns" },
    { "gradients", "aten::qr", "not for all of a tall one's columns" },
    { "recorded", "aten::corrcoef", "looks whether its weights are negative: data" },
    { "recorded", "aten::cov", "looks whether its weights are negative: data" },
    { "recorded", "aten::one_hot", "the number of classes is data" },
    { "recorded elsewhere", "aten::combinations", "selections by one mask are not known to be equally many" },
    { "functionalised elsewhere", "aten::combinations", "selections by one mask are not known to be equally many" },
    { "gradients elsewhere", "aten::combinations", "selections by one mask are not known to be equally many" },
    { "gradients elsewhere", "aten::linalg_lstsq", "the number of its residuals is data" },
    { "tangents elsewhere", "aten::combinations", "selections by one mask are not known to be equally many" },
    { "tangents elsewhere", "aten::linalg_lstsq", "the number of its residuals is data" },
    { "vmap elsewhere", "aten::bincount", "the number of bins is data, of each member" },
    { "vmap elsewhere", "aten::linalg_lstsq", "the number of its residuals is data, of each member" },
    { "tangents", "aten::_cdist_forward", "PyTorch has no rule either" },
    { "tangents", "aten::_embedding_bag", "PyTorch has no rule either" },
    { "tangents", "aten::_pdist_forward", "PyTorch has no rule either" },
    { "tangents", "aten::_scaled_dot_product_flash_attention_for_cpu", "PyTorch has no rule either" },
    { "tangents", "aten::_weight_norm_interface", "by design no gradient flows from the norms" },
    { "tangents", "aten::as_strided_scatter", "PyTorch's gradient of what is overwritten is not zero" },
    { "tangents", "aten::cdist", "PyTorch has no rule either" },
    { "tangents", "aten::cholesky", "PyTorch has no rule either" },
    { "tangents", "aten::cholesky_inverse", "one triangle is read" },
    { "tangents", "aten::cholesky_solve", "one triangle is read" },
    { "tangents", "aten::ctc_loss.IntList", "PyTorch has no rule either" },
    { "tangents", "aten::embedding", "by design the row of padding_idx gets no gradient" },
    { "tangents", "aten::geqrf", "PyTorch has no rule either" },
    { "tangents", "aten::grid_sampler", "PyTorch has no rule either" },
    { "tangents", "aten::grid_sampler_2d", "PyTorch has no rule either" },
    { "tangents", "aten::grid_sampler_3d", "PyTorch has no rule either" },
    { "tangents", "aten::index_reduce_", "PyTorch has no rule either" },
    { "tangents", "aten::ldexp.Tensor", "PyTorch's gradient is a power of integers" },
    { "tangents", "aten::log_sigmoid_backward", "the buffer is taken for what self makes it" },
    { "tangents", "aten::linalg_cholesky", "one triangle is read" },
    { "tangents", "aten::linalg_cholesky_ex", "one triangle is read" },
    { "tangents", "aten::linalg_eigvalsh", "one triangle is read" },
    { "tangents", "aten::linalg_qr", "not without Q, nor for all of a tall one's columns" },
    { "tangents", "aten::multi_margin_loss", "PyTorch has no rule either" },
    { "tangents", "aten::multilabel_margin_loss", "PyTorch has no rule either" },
    { "tangents", "aten::ormqr", "PyTorch has no rule either" },
    { "tangents", "aten::pdist", "PyTorch has no rule either" },
};

/* The default generator is made on first use and stays: it is no leak. */
static void make_generator(void)
{
    if (!tp_generator_default())
        abort();
}

/* ---- the tally ---- */

void tp_tally_fail(tp_tally *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!t->faults++)
        vsnprintf(t->first, sizeof t->first, format, list);
    va_end(list);
}

static const struct known *known_fault(const char *kind, const char *op)
{
    for (size_t i = 0; i < TP_COUNT(known); i++)
        if (strcmp(known[i].kind, kind) == 0 && strcmp(known[i].op, op) == 0)
            return &known[i];
    return NULL;
}

static void settle(const tp_tally *t)
{
    char name[128];
    const struct known *k = known_fault(t->kind, tp_op_full_name(t->op, name));
    if (t->faults && !k) {
        printf("# %s: %s (sample %d; %d faults)\n", name, t->first, t->sample, t->faults);
        tp_test_bad++;
    }
    if (!t->faults && k) {
        printf("# %s: passes now; take it off the list of known faults\n", name);
        tp_test_bad++;
    }
}

/* One check, over all ops, samples and styles. */
static void run_table(const char *kind, tp_table_check *check, const tp_sample_style *style, size_t styles)
{
    int calls = 0, ops = 0, rows[TP_ROW_COUNT] = { 0 };
    const char *only = getenv("TAPER_TEST_OP"), *wanted = getenv("TAPER_TEST_CHECK");
    if (wanted && strcmp(wanted, kind) != 0)
        return;
    for (size_t i = 0; i < tp_op_table_count; i++) {
        const tp_op *op = tp_op_table[i];
        char name[128];
        if (!op->try_count || (only && !strstr(tp_op_full_name(op, name), only)))
            continue;
        tp_tally t = { .kind = kind, .op = op };
        int first = 0;
        for (int n = 0; n < tp_samples_count(op); n++)
            for (size_t s = 0; s < styles; s++) {
                bool clean = !t.faults;
                t.sample = n;
                check(&t, &style[s]);
                tp_error_clear();
                if (clean && t.faults)
                    first = n;
            }
        t.sample = first;
        settle(&t);
        calls += t.calls;
        ops += t.calls > 0;
        for (int k = 0; k < TP_ROW_COUNT; k++)
            rows[k] += t.rows[k];
        if (t.rows[TP_ROW_FIXED] && getenv("TAPER_TEST_FIXED"))
            printf("# %s: %d rows fixed\n", tp_op_full_name(op, name), t.rows[TP_ROW_FIXED]);
    }
    printf("# %s: %d ops, %d comparisons\n", kind, ops, calls);
    if (rows[TP_ROW_AGAIN])
        printf("# %s: rows run at a second size %d, without sizes %d, random %d, data-dependent %d, fixed %d\n", kind, rows[TP_ROW_AGAIN],
               rows[TP_ROW_SIZELESS], rows[TP_ROW_RANDOM], rows[TP_ROW_DATA], rows[TP_ROW_FIXED]);
    TP_EXPECT(ops > 0 || only);
}

/* ---- calls and their results ---- */

static void collect(tp_outcome *o, tp_value v)
{
    if (v.tag == TP_LIST || v.tag == TP_TUPLE) {
        for (uint32_t i = 0; i < v.list->count; i++)
            collect(o, v.list->item[i]);
    } else if (o->count < TP_TABLE_RESULTS) {
        o->tensor[o->count++] = tp_as_tensor(v);
    }
}

void tp_outcome_call(tp_outcome *o, const tp_op *op, const tp_value *arg, bool (*how)(const tp_op *, const tp_value *, tp_value *))
{
    o->count = 0;
    o->error = TP_ERR_NONE;
    o->text[0] = 0;
    o->result_count = op->result_count;
    o->ok = how(op, arg, o->result);
    if (!o->ok) {
        o->error = tp_error_kind();
        snprintf(o->text, sizeof o->text, "%s", tp_error_text());
        tp_error_clear();
    }
    for (int i = 0; o->ok && i < op->result_count; i++)
        collect(o, o->result[i]);
}

void tp_outcome_fini(tp_outcome *o)
{
    if (o->ok)
        tp_values_unref(o->result, (size_t)o->result_count);
    o->ok = false;
}

static bool close_enough(double a, double b, double tolerance)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance * (1 + fabs(b));
}

static bool same_element(tp_scalar a, tp_scalar b, tp_dtype d, double tolerance)
{
    if (tp_dtype_is_complex(d)) {
        tp_c128 x = tp_scalar_to_complex(a), y = tp_scalar_to_complex(b);
        return close_enough(x.re, y.re, tolerance) && close_enough(x.im, y.im, tolerance);
    }
    if (tp_dtype_is_integral(d))
        return tp_scalar_to_int(a) == tp_scalar_to_int(b);
    double x = tp_scalar_to_double(a), y = tp_scalar_to_double(b);
    return close_enough(x, y, tolerance) && (tolerance > 0 || isnan(x) || signbit(x) == signbit(y));
}

bool tp_same_numbers(const tp_tensor *a, const tp_tensor *b, double tolerance, char why[256])
{
    if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) != 0) {
        snprintf(why, 256, "%s with %d dims and %lld elements, other has %s, %d and %lld", tp_dtypes[a->dtype].name, a->ndim,
                 LL(a->numel), tp_dtypes[b->dtype].name, b->ndim, LL(b->numel));
        return false;
    }
    if (tp_tensor_is_contiguous(a) && tp_tensor_is_contiguous(b) &&
        (!a->numel || memcmp(tp_tensor_data(a), tp_tensor_data(b), (size_t)a->numel * tp_dtype_bytes((tp_dtype)a->dtype)) == 0))
        return true;
    for (int64_t i = 0; i < a->numel; i++) {
        tp_scalar x = tp_samples_read(a, i), y = tp_samples_read(b, i);
        if (same_element(x, y, (tp_dtype)a->dtype, tolerance))
            continue;
        snprintf(why, 256, "element %lld of %s is %.17g, other has %.17g", LL(i), tp_dtypes[a->dtype].name, tp_scalar_to_double(x),
                 tp_scalar_to_double(y));
        return false;
    }
    return true;
}

static void compare_outcomes(tp_tally *t, const char *what, const tp_outcome *a, const tp_outcome *b, double tolerance)
{
    char why[256];
    if (a->ok != b->ok)
        tp_tally_fail(t, "%s: only one of two fails: %s%s", what, a->text, b->text);
    else if (!a->ok && (a->error != b->error || strcmp(a->text, b->text) != 0))
        tp_tally_fail(t, "%s: fails with '%s', other with '%s'", what, a->text, b->text);
    else if (a->count != b->count)
        tp_tally_fail(t, "%s: %d results, other has %d", what, a->count, b->count);
    for (int i = 0; a->ok && b->ok && i < a->count && a->count == b->count; i++)
        if (!a->tensor[i] != !b->tensor[i])
            tp_tally_fail(t, "%s: only one has result %d", what, i);
        else if (a->tensor[i] && !tp_same_numbers(a->tensor[i], b->tensor[i], tolerance, why))
            tp_tally_fail(t, "%s: result %d: %s", what, i, why);
}

/* ---- variants ---- */

static bool fits(const tp_tensor *from, const tp_tensor *into)
{
    return from && tp_dtype_can_cast((tp_dtype)from->dtype, (tp_dtype)into->dtype) && from->ndim == into->ndim &&
           memcmp(from->size, into->size, (size_t)into->ndim * sizeof *into->size) == 0;
}

/* Compares what a variant wrote with the functional result, brought to its type. */
static void compare_written(tp_tally *t, const char *what, const tp_tensor *want, const tp_tensor *got)
{
    char why[256];
    tp_tensor *cast = tp_cast(want, (tp_dtype)got->dtype);
    /* An element-wise op rounds once when it writes another type, the cast of its result twice: compare loosely then. */
    double tolerance = want->dtype == got->dtype || !tp_dtype_is_inexact((tp_dtype)want->dtype) ? 0 : tp_dtype_is_half((tp_dtype)want->dtype) ||
                       tp_dtype_is_half((tp_dtype)got->dtype) ? 2e-2 : 2e-6;
    if (cast && !tp_same_numbers(got, cast, tolerance, why))
        tp_tally_fail(t, "%s: %s", what, why);
    tp_tensor_unref(cast);
}

static bool writable(const tp_tensor *x)
{
    for (int i = 0; i < x->ndim; i++)
        if (x->stride[i] == 0 && x->size[i] > 1)
            return false;
    return true;
}

static void check_inplace(tp_tally *t, const tp_sample_style *style, const tp_outcome *want)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome got;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    const tp_tensor *self = tp_as_tensor(arg[0]);
    if (self) {
        bool may = want->ok && (t->op->kind == TP_LIKE_VIEW || (fits(want->tensor[0], self) && writable(self)));
        tp_outcome_call(&got, t->op->inplace, arg, tp_call);
        if (may && !got.ok)
            tp_tally_fail(t, "in place: fails: %s", got.text);
        else if (got.ok && !may)
            tp_tally_fail(t, "in place: does not fail: %s", want->ok ? "the result has another type or size" : want->text);
        else if (got.ok && got.tensor[0] != self)
            tp_tally_fail(t, "in place: the result is not its argument");
        else if (got.ok)
            compare_written(t, "in place", want->tensor[0], self);
        tp_outcome_fini(&got);
    }
    tp_values_unref(arg, t->op->arg_count);
}

typedef enum out_form { OUT_RIGHT, OUT_EMPTY, OUT_LONGER, OUT_STRIDED, OUT_WIDER, OUT_NARROWER, OUT_FORMS } out_form;

static tp_dtype wider(tp_dtype d)
{
    return tp_dtype_is_complex(d) ? TP_c128 : tp_dtype_is_float(d) ? (d == TP_f64 ? TP_f32 : TP_f64) : d == TP_b8 ? TP_i32 : TP_f32;
}

static tp_tensor *make_out(const tp_tensor *want, out_form form)
{
    int64_t size[TP_MAX_DIMS] = { 0 }, stride[TP_MAX_DIMS], length = 2 * want->numel + 1;
    tp_dtype d = (tp_dtype)want->dtype;
    memcpy(size, want->size, (size_t)want->ndim * sizeof *size);
    switch (form) {
    case OUT_EMPTY:
        size[0] = 0;
        return tp_tensor_new(d, 1, size);
    case OUT_LONGER:
        return tp_tensor_new(d, 1, &length);
    case OUT_STRIDED: {
        tp_strides_row_major(want->ndim, size, stride);
        for (int i = 0; i < want->ndim; i++)
            stride[i] *= 2;
        tp_tensor *all = tp_tensor_new(d, 1, &length), *view = all ? tp_tensor_view(all, want->ndim, size, stride, 1) : NULL;
        tp_tensor_unref(all);
        return view;
    }
    case OUT_WIDER:
        return tp_tensor_new(wider(d), want->ndim, size);
    case OUT_NARROWER:
        return tp_tensor_new(tp_dtype_is_complex(d) ? TP_f32 : tp_dtype_is_float(d) ? TP_i64 : TP_b8, want->ndim, size);
    default:
        return tp_tensor_new(d, want->ndim, size);
    }
}

static void check_out(tp_tally *t, const tp_sample_style *style, const tp_outcome *want, out_form form)
{
    static const char *const what[] = { "out", "out, empty", "out, longer", "out, strided", "out, castable", "out, not castable" };
    const tp_op *op = t->op->out;
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome got;
    int first = op->arg_count - op->result_count;
    if (first != t->op->arg_count || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    bool ok = true, castable = true;
    for (int i = 0; i < op->result_count; i++) {
        arg[first + i] = want->tensor[i] ? tp_of_tensor(make_out(want->tensor[i], form)) : tp_none();
        ok = ok && !tp_is_none(arg[first + i]);
        if (ok)
            castable &= tp_dtype_can_cast((tp_dtype)want->tensor[i]->dtype, (tp_dtype)arg[first + i].tensor->dtype);
    }
    if (ok) {
        tp_outcome_call(&got, op, arg, tp_call);
        t->calls++;
        /* Some ops want the exact type. */
        if (!got.ok && castable && (form != OUT_WIDER || t->op->pointwise))
            tp_tally_fail(t, "%s: fails: %s", what[form], got.text);
        if (got.ok && !castable)
            tp_tally_fail(t, "%s: does not fail", what[form]);
        for (int i = 0; got.ok && castable && i < got.count; i++) {
            if (got.tensor[i] != arg[first + i].tensor)
                tp_tally_fail(t, "%s: the result is not the given tensor", what[form]);
            else
                compare_written(t, what[form], want->tensor[i], got.tensor[i]);
        }
        tp_outcome_fini(&got);
    }
    tp_values_unref(arg, op->arg_count);
}

/* An op that exists first in place: its functional twin leaves the argument alone and gives what is written there. */
static void check_functional(tp_tally *t, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome a, b;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    tp_outcome_call(&a, t->op->functional, arg, tp_call);
    tp_outcome_call(&b, t->op, arg, tp_call);
    t->calls++;
    /* Some ops refuse an expanded tensor in place, others write its elements more than once. */
    if (!(t->op->flags & TP_OP_RNG) && writable(arg[0].tensor))
        compare_outcomes(t, "functional form", &a, &b, 0);
    tp_outcome_fini(&a);
    tp_outcome_fini(&b);
    tp_values_unref(arg, t->op->arg_count);
}

static void check_variants(tp_tally *t, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome want;
    if (t->op->variant == TP_INPLACE) {
        if (t->op->functional)
            check_functional(t, style);
        return;
    }
    if ((!t->op->inplace && !t->op->out) || t->op->flags & TP_OP_RNG || !tp_samples_make(t->op, t->sample, style, arg))
        return;
    tp_outcome_call(&want, t->op, arg, tp_call);
    t->calls++;
    if (t->op->inplace)
        check_inplace(t, style, &want);
    for (out_form f = 0; t->op->out && want.ok && f < OUT_FORMS; f++)
        check_out(t, style, &want, f);
    tp_outcome_fini(&want);
    tp_values_unref(arg, t->op->arg_count);
}

/* ---- bits ---- */

static void use_machine(tp_isa isa, int threads)
{
    static const tp_gemm_set *const gemm[] = { &tp_gemm_set_plain, &tp_gemm_set_avx2, &tp_gemm_set_avx512 };
    tp_the_runtime.tile = tp_tile_set_of(isa);
    tp_the_runtime.gemm = gemm[isa];
    tp_the_runtime.instruction_set = isa;
    tp_pool_set_threads(threads);
}

/* Arguments are shared by the calls unless the op writes them. */
static bool prepare(tp_tally *t, const tp_sample_style *style, tp_value *arg, bool again)
{
    if (again && t->op->variant == TP_FUNCTIONAL && !t->op->rare->hidden_writes)
        return true;
    if (again)
        tp_values_unref(arg, t->op->arg_count);
    return tp_samples_make(t->op, t->sample, style, arg);
}

static void compare_machines(tp_tally *t, const tp_sample_style *style)
{
    tp_isa best = (tp_isa)tp_the_runtime.instruction_set;
    tp_value arg[TP_SAMPLES_ARGS];
    tp_outcome first, other;
    char what[64];
    bool made = prepare(t, style, arg, false);
    if (!made)
        return;
    use_machine(best, 1);
    tp_outcome_call(&first, t->op, arg, tp_call);
    for (int isa = 0; first.ok && made && isa <= (int)best; isa++)
        for (int threads = 1; made && threads <= 4; threads *= 2) {
            if ((isa == (int)best && threads == 1) || !(made = prepare(t, style, arg, true)))
                continue;
            use_machine((tp_isa)isa, threads);
            tp_outcome_call(&other, t->op, arg, tp_call);
            snprintf(what, sizeof what, "instruction set %d, %d threads", isa, threads);
            t->calls++;
            compare_outcomes(t, what, &first, &other, 0);
            tp_outcome_fini(&other);
        }
    tp_outcome_fini(&first);
    if (made)
        tp_values_unref(arg, t->op->arg_count);
    use_machine(best, 0);
}

static void check_bits(tp_tally *t, const tp_sample_style *style)
{
    if (!(t->op->flags & TP_OP_RNG))
        compare_machines(t, style);
}

/* The first call of each op, grown until work is split among threads. */
static void check_bits_grown(tp_tally *t, const tp_sample_style *style)
{
    bool heavy = t->op->kind == TP_LIKE_CONTRACTION || t->op->kind == TP_LIKE_COMPOSITE || t->op->kind == TP_LIKE_WINDOW;
    double enough = heavy ? 8e3 : 4e4;
    tp_value arg[TP_SAMPLES_ARGS];
    tp_sample_style grown = *style;
    if (t->sample || t->op->flags & TP_OP_RNG || !tp_samples_make(t->op, 0, style, arg))
        return;
    for (int i = 0; i < t->op->arg_count; i++) {
        const tp_tensor *x = tp_as_tensor(arg[i]);
        int long_dims = 0;
        for (int d = 0; x && d < x->ndim; d++)
            long_dims += x->size[d] > 1;
        int64_t need = x && long_dims && x->numel ? (int64_t)ceil(pow(enough / (double)x->numel, 1.0 / long_dims)) : 1;
        if (heavy && need > 48)
            need = 48;
        if (need > 1)
            grown.grow = grown.grow == 1 || need < grown.grow ? need : grown.grow;
    }
    tp_values_unref(arg, t->op->arg_count);
    compare_machines(t, &grown);
}

/* ---- openings ---- */

static void compare_opening(tp_tally *t, const tp_sample_style *style, const char *what, bool (*open)(const tp_op *, const tp_value *, tp_value *))
{
    tp_value arg[TP_SAMPLES_ARGS], again[TP_SAMPLES_ARGS];
    tp_outcome run, opened;
    if (!tp_samples_make(t->op, t->sample, style, arg))
        return;
    if (tp_samples_make(t->op, t->sample, style, again)) {
        tp_outcome_call(&run, t->op, arg, tp_call);
        tp_outcome_call(&opened, t->op, again, open);
        t->calls++;
        if (run.ok || opened.ok)
            compare_outcomes(t, what, &opened, &run, style->dtype == TP_f64 ? 1e-10 : 1e-5);
        tp_outcome_fini(&run);
        tp_outcome_fini(&opened);
        tp_values_unref(again, t->op->arg_count);
    }
    tp_values_unref(arg, t->op->arg_count);
}

static void check_opening(tp_tally *t, const tp_sample_style *style)
{
    if (t->op->flags & TP_OP_RNG)
        return;
    if (t->op->open && (t->op->work->kernel || t->op->pointwise || t->op->work->reducing))
        compare_opening(t, style, "opened", tp_call_open);
    if (t->op->work->open_traced)
        compare_opening(t, style, "opened for a trace", t->op->work->open_traced);
}

/* ---- tests ---- */

static const tp_sample_style layouts[] = {
    { .dtype = TP_DTYPE_NONE, .layout = TP_SAMPLE_PLAIN, .grow = 1 }, { .dtype = TP_DTYPE_NONE, .layout = TP_SAMPLE_TRANSPOSED, .grow = 1 },
    { .dtype = TP_DTYPE_NONE, .layout = TP_SAMPLE_STRIDED, .grow = 1 }, { .dtype = TP_DTYPE_NONE, .layout = TP_SAMPLE_BROADCAST, .grow = 1 },
    { .dtype = TP_f64, .layout = TP_SAMPLE_PLAIN, .grow = 1 }, { .dtype = TP_bf16, .layout = TP_SAMPLE_PLAIN, .grow = 1 },
    { .dtype = TP_f16, .layout = TP_SAMPLE_TRANSPOSED, .grow = 1 },
};

TP_TEST(fake_results_are_like_real_ones)
{
    run_table("fake", tp_check_fake, layouts, TP_COUNT(layouts));
}

TP_TEST(expressions_hold_at_other_sizes)
{
    run_table("symbolic", tp_check_symbolic, layouts, 2);
}

TP_TEST(variants_compute_what_the_op_does)
{
    run_table("variants", check_variants, layouts, TP_COUNT(layouts));
}

static const tp_sample_style f64 = { .dtype = TP_f64, .layout = TP_SAMPLE_PLAIN, .grow = 1 };

TP_TEST(gradients_agree_with_differences)
{
    run_table("gradients", tp_check_gradient, &f64, 1);
}

TP_TEST(tangents_agree_with_gradients)
{
    run_table("tangents", tp_check_tangent, &f64, 1);
}

TP_TEST(bits_do_not_depend_on_the_machine)
{
    run_table("bits", check_bits, layouts, TP_COUNT(layouts));
    run_table("bits", check_bits_grown, &TP_STYLE_PLAIN, 1);
}

TP_TEST(graphs_give_what_calls_give)
{
    run_table("recorded", tp_check_recorded, layouts, 2);
    run_table("functionalised", tp_check_functionalised, layouts, 2);
}

TP_TEST(graphs_hold_at_other_sizes)
{
    run_table("recorded elsewhere", tp_check_recorded_elsewhere, &TP_STYLE_PLAIN, 1);
    run_table("functionalised elsewhere", tp_check_functionalised_elsewhere, &TP_STYLE_PLAIN, 1);
    run_table("gradients elsewhere", tp_check_gradient_elsewhere, &f64, 1);
    run_table("tangents elsewhere", tp_check_tangent_elsewhere, &f64, 1);
    run_table("vmap elsewhere", tp_check_vmap_elsewhere, &TP_STYLE_PLAIN, 1);
}

TP_TEST(openings_agree_with_kernels)
{
    static const tp_sample_style styles[] = { { .dtype = TP_DTYPE_NONE, .grow = 1 }, { .dtype = TP_f64, .grow = 1 } };
    run_table("openings", check_opening, styles, TP_COUNT(styles));
}

/* Ops that know no better way than one call for each member. */
static int count_loops(void)
{
    int count = 0;
    for (size_t i = 0; i < tp_op_table_count; i++) {
        const tp_op *op = tp_op_table[i];
        bool tensors = false;
        for (int k = 0; k < op->arg_count; k++)
            tensors |= op->arg[k].type == TP_TYPE_TENSOR;
        count += tensors && op->variant != TP_OUT && op->kind != TP_LIKE_RANDOM && (op->vmap ? op->vmap == tp_vmap_loop : !op->open);
    }
    return count;
}

TP_TEST(batches_agree_with_their_members)
{
    static const tp_sample_style styles[] = { { .dtype = TP_DTYPE_NONE, .layout = TP_SAMPLE_PLAIN, .grow = 1 }, { .dtype = TP_f64, .layout = TP_SAMPLE_TRANSPOSED, .grow = 1 } };
    run_table("vmap", tp_check_vmap, styles, TP_COUNT(styles));
    printf("# %d ops are called for each member\n", count_loops());
}

/* One check of one sample, as a sweep runs it again and again. */
typedef struct swept {
    tp_tally        tally;
    tp_table_check *check;
} swept;

static void run_swept(void *arg)
{
    swept *s = arg;
    s->check(&s->tally, &f64);
    tp_error_clear();
}

/* First and last sample of each op: call, fake, expressions, variants, gradient, opening and graphs, wherever memory runs out.
 * Each check is swept alone, for a sweep takes the square of what it sweeps. */
TP_TEST(every_op_cleans_up)
{
#ifdef __SANITIZE_ADDRESS__
    const bool sparse = true;           /* ten times as slow: it looks at fewer of the failures that the plain build has all of */
#else
    const bool sparse = false;
#endif
    static tp_table_check *const checks[] = { tp_check_fake, tp_check_symbolic, check_variants, tp_check_backward, tp_check_forward,
                                              check_opening, tp_check_recorded, tp_check_functionalised, tp_check_recorded_elsewhere, tp_check_functionalised_elsewhere,
                                              tp_check_vmap };
    const char *only = getenv("TAPER_TEST_OP");
    for (size_t i = tp_test_part; tp_test_parts && i < tp_op_table_count; i += tp_test_parts) {
        swept s = { .tally = { .kind = "sweep", .op = tp_op_table[i] } };
        char name[128];
        int last = tp_samples_count(s.tally.op) - 1;
        tp_op_full_name(s.tally.op, name);
        if (last < 0 || (only && !strstr(name, only)))
            continue;
        for (size_t k = 0; k < TP_COUNT(checks); k++)
            for (int sample = 0; sample <= last; sample += last ? last : 1) {
                s.tally.sample = sample;
                s.check = checks[k];
                TP_EXPECT(tp_test_sweep(name, sparse, run_swept, &s));
            }
    }
}

TP_TESTS_AFTER(make_generator, TP_IN_PARTS(fake_results_are_like_real_ones), TP_IN_PARTS(expressions_hold_at_other_sizes),
               TP_IN_PARTS(variants_compute_what_the_op_does), TP_IN_PARTS(gradients_agree_with_differences),
               TP_IN_PARTS(tangents_agree_with_gradients), TP_IN_PARTS(bits_do_not_depend_on_the_machine),
               TP_IN_PARTS(graphs_give_what_calls_give), TP_IN_PARTS(graphs_hold_at_other_sizes),
               TP_IN_PARTS(openings_agree_with_kernels), TP_IN_PARTS(batches_agree_with_their_members), TP_SWEEPER(every_op_cleans_up))
