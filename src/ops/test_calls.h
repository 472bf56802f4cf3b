/* test_calls.h - for C tests: tensors from literals, ops by name, values compared.
 *
 * Everything is made through a tp_scope, which owns it and is sticky: after a failed allocation calls do nothing and give
 * NULL, which all of these accept, so a test reads like a program and needs no checks on its way. */
#ifndef TP_OPS_TEST_CALLS_H
#define TP_OPS_TEST_CALLS_H

#include <math.h>

#include "base/test.h"
#include "ops/known.h"
#include "ops/scope.h"

#define T(t) tp_of_tensor(t)
#define I(i) tp_int(i)
#define F(f) tp_float(f)
#define INTS(s, ...) test_ints(s, TP_COUNT(((int64_t[]){ __VA_ARGS__ })), (int64_t[]){ __VA_ARGS__ })
/* A 1-d f32 tensor of these numbers. */
#define VECTOR(s, ...) test_vector(s, TP_f32, TP_COUNT(((double[]){ __VA_ARGS__ })), (double[]){ __VA_ARGS__ })
/* The first result of an op of aten, defaults filled in: CALL(&s, "mul.Tensor", T(x), T(y)). */
#define CALL(s, name, ...) tp_as_tensor(CALL_VALUE(s, name, __VA_ARGS__))
#define CALL_VALUE(s, name, ...) test_call(s, name, TP_COUNT(((tp_value[]){ __VA_ARGS__ })), (tp_value[]){ __VA_ARGS__ })
/* The call fails with this text, and the scope goes on. */
#define EXPECT_ERROR(s, text, name, ...) \
    test_call_fails(s, text, name, TP_COUNT(((tp_value[]){ __VA_ARGS__ })), (tp_value[]){ __VA_ARGS__ })
/* All elements of a tensor, in row-major order; within 1e-6 relative. */
#define EXPECT_ELEMENTS(t, ...) \
    TP_EXPECT(test_elements(t, TP_COUNT(((double[]){ __VA_ARGS__ })), (double[]){ __VA_ARGS__ }, #t))

static inline tp_tensor *test_own(tp_scope *s, tp_tensor *t)
{
    if (!t)
        s->failed = true;
    return tp_as_tensor(tp_scope_own(s, tp_of_tensor(t)));
}

static inline tp_value test_ints(tp_scope *s, size_t count, const int64_t *item)
{
    tp_value v = tp_value_ints(item, count);
    if (v.tag == TP_NONE)
        s->failed = true;
    return tp_scope_own(s, v);
}

static inline tp_tensor *test_vector(tp_scope *s, tp_dtype d, size_t count, const double *item)
{
    tp_tensor *t = test_own(s, tp_tensor_new(d, 1, (int64_t[]){ (int64_t)count }));
    for (size_t i = 0; t && i < count; i++)
        tp_scalar_write(tp_scalar_float(item[i]), (char *)tp_tensor_data(t) + i * tp_dtype_bytes(d), d);
    return t;
}

/* "add_.Tensor"; a missing op ends the program: the test itself is wrong. */
static inline const tp_op *test_op(const char *name)
{
    char base[64];
    const char *dot = strchr(name, '.');
    snprintf(base, sizeof base, "%.*s", (int)(dot ? dot - name : (ptrdiff_t)strlen(name)), name);
    const tp_op *op = tp_op_find("aten", base, dot ? dot + 1 : "");
    if (!op) {
        printf("Bail out! no op %s\n", name);
        exit(99);
    }
    return op;
}

static inline const tp_op *test_arguments(const char *name, size_t count, const tp_value *given, tp_value *arg)
{
    const tp_op *op = test_op(name);
    memcpy(arg, given, count * sizeof *given);
    for (size_t i = count; i < op->arg_count; i++)
        arg[i] = tp_arg_default(&op->arg[i]);
    return op;
}

static inline tp_value test_call(tp_scope *s, const char *name, size_t count, const tp_value *given)
{
    tp_value arg[64];
    const tp_op *op = test_arguments(name, count, given, arg);
    bool before = s->failed;
    tp_value result = tp_scope_call(s, op, arg);
    if (s->failed && !before && !tp_test_quiet) {
        tp_test_bad++;
        printf("# %s failed: %s\n", name, tp_error_text());
    }
    return result;
}

static inline void test_call_fails(tp_scope *s, const char *text, const char *name, size_t count, const tp_value *given)
{
    tp_value arg[64], result[8];
    if (s->failed)
        return;
    const tp_op *op = test_arguments(name, count, given, arg);
    if (tp_call(op, arg, result)) {
        tp_values_unref(result, op->result_count);
        TP_EXPECT(!"an error");
        return;
    }
    TP_EXPECT_TEXT(tp_error_text(), text);
    tp_error_clear();
}

static inline bool test_elements(const tp_tensor *t, size_t count, const double *want, const char *what)
{
    int64_t index[TP_MAX_DIMS] = { 0 };
    if (tp_test_quiet)
        return true;
    if (!t || (size_t)t->numel != count) {
        printf("# %s: %lld elements, not %zu\n", what, LL(t ? t->numel : -1), count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t at = t->offset;
        for (int d = 0; d < t->ndim; d++)
            at += index[d] * t->stride[d];
        tp_scalar s = tp_scalar_read((char *)t->storage->data + at * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype), (tp_dtype)t->dtype);
        double got = tp_scalar_to_double(s);
        if (!(fabs(got - want[i]) <= 1e-6 * fabs(want[i]))) {
            printf("# %s: element %zu is %.9g, not %.9g\n", what, i, got, want[i]);
            return false;
        }
        for (int d = t->ndim - 1; d >= 0 && ++index[d] == t->size[d]; d--)
            index[d] = 0;
    }
    return true;
}

#endif
