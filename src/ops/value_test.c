/* value_test.c - boxed values: owners, equality, hashes, and how they print. */
#include <math.h>

#include "base/alloc.h"
#include "base/test.h"
#include "ops/value.h"
#include "tensor/generator.h"

static tp_value string_of(const char *text)
{
    return tp_value_string(text, strlen(text));
}

/* An owned list or tuple of these values, which it takes. */
static tp_value list_of(tp_tag tag, size_t count, tp_value *item)
{
    tp_list *l = tp_list_new(count);
    if (!l) {
        tp_values_unref(item, count);
        return tp_none();
    }
    memcpy(l->item, item, count * sizeof *item);
    return (tp_value){ .tag = (uint8_t)tag, .list = l };
}
#define LIST(tag, ...) list_of(tag, TP_COUNT(((tp_value[]){ __VA_ARGS__ })), (tp_value[]){ __VA_ARGS__ })

static void expect_print(tp_value owned, const char *want)
{
    tp_text t = { 0 };
    tp_value_print(owned, &t);
    if (!t.failed)
        TP_EXPECT_TEXT(tp_text_read(&t), want);
    tp_text_fini(&t);
    tp_value_unref(owned);
}

TP_TEST(values_print_as_python_does)
{
    expect_print(tp_none(), "None");
    expect_print(tp_bool(true), "True");
    expect_print(tp_int(INT64_MIN), "-9223372036854775808");
    static const struct { double f; const char *text; } row[] = {
        { 0.0, "0.0" }, { -0.0, "-0.0" }, { 1, "1.0" }, { 0.1, "0.1" }, { -2.5, "-2.5" }, { 1e15, "1000000000000000.0" },
        { 1e16, "1e+16" }, { 123456789012345680.0, "1.2345678901234568e+17" }, { 1e-4, "0.0001" }, { 1e-5, "1e-05" },
        { 1.5e-7, "1.5e-07" }, { 1e22, "1e+22" }, { 1e300, "1e+300" }, { 0.30000000000000004, "0.30000000000000004" },
        { 100000, "100000.0" }, { 1234567.0, "1234567.0" }, { (double)(float)0.1, "0.10000000149011612" }, { 5e-324, "5e-324" },
        { INFINITY, "inf" }, { -INFINITY, "-inf" }, { NAN, "nan" },
    };
    for (size_t i = 0; i < TP_COUNT(row); i++)
        expect_print(tp_float(row[i].f), row[i].text);
}

TP_TEST(compound_values_print_as_python_does)
{
    static const struct { double re, im; const char *text; } row[] = {
        { 1, 2, "(1+2j)" }, { 0, 2, "2j" }, { 0, -1, "-1j" }, { -0.0, 1, "(-0+1j)" }, { 1.5, -0.25, "(1.5-0.25j)" }, { 1e20, 0, "(1e+20+0j)" },
    };
    for (size_t i = 0; i < TP_COUNT(row); i++) {
        tp_value z = tp_value_complex(row[i].re, row[i].im);
        TP_NEED(z.tag == TP_COMPLEX);
        expect_print(z, row[i].text);
    }
    expect_print(tp_of_dtype(TP_bf16), "torch.bfloat16");
    expect_print(tp_of_device((tp_device){ TP_CPU, -1 }), "device(type='cpu')");
    expect_print(tp_of_device((tp_device){ TP_CUDA, 1 }), "device(type='cuda', index=1)");
    expect_print(tp_of_format(TP_FORMAT_CHANNELS_LAST), "torch.channels_last");
    tp_value v = string_of("mean");
    TP_NEED(v.tag);
    expect_print(v, "'mean'");
    TP_NEED((v = string_of("it's")).tag);
    expect_print(v, "\"it's\"");
    TP_NEED((v = string_of("a\\b\n'\"")).tag);
    expect_print(v, "'a\\\\b\\n\\'\"'");
    TP_NEED((v = LIST(TP_LIST, tp_int(1), tp_float(2), tp_none())).tag);
    expect_print(v, "[1, 2.0, None]");
    TP_NEED((v = LIST(TP_TUPLE, tp_int(1))).tag);
    expect_print(v, "(1,)");
    TP_NEED((v = LIST(TP_TUPLE, tp_int(1), tp_bool(false))).tag);
    expect_print(v, "(1, False)");
    TP_NEED((v = LIST(TP_DICT, tp_int(1), tp_float(2), tp_int(3), tp_none())).tag);
    expect_print(v, "{1: 2.0, 3: None}");
    TP_NEED((v = LIST(TP_SLICE, tp_none(), tp_int(3), tp_none())).tag);
    expect_print(v, "slice(None, 3, None)");
out:;
}

TP_TEST(equal_values_hash_alike)
{
    tp_value v[24];
    size_t n = 0;
    v[n++] = tp_none();
    v[n++] = tp_bool(false);
    v[n++] = tp_bool(true);
    v[n++] = tp_int(0);
    v[n++] = tp_int(1);
    v[n++] = tp_float(1);
    v[n++] = tp_float(0.0);
    v[n++] = tp_float(-0.0);
    v[n++] = tp_float(NAN);
    v[n++] = tp_of_dtype(TP_f32);
    v[n++] = tp_of_device((tp_device){ TP_CPU, -1 });
    v[n++] = tp_of_device((tp_device){ TP_CUDA, -1 });
    v[n++] = tp_of_device((tp_device){ TP_CUDA, 0 });
    size_t plain = n;
    v[n++] = tp_value_complex(1, 0);
    v[n++] = string_of("");
    v[n++] = string_of("ab");
    v[n++] = LIST(TP_LIST, tp_int(1), tp_int(2));
    v[n++] = LIST(TP_LIST, tp_int(2), tp_int(1));
    v[n++] = LIST(TP_TUPLE, tp_int(1), tp_int(2));
    v[n++] = LIST(TP_LIST, tp_int(1));
    for (size_t i = plain; i < n; i++)
        TP_NEED(v[i].tag != TP_NONE);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            TP_EXPECT(tp_value_equal(v[i], v[j]) == (i == j));
            TP_EXPECT((tp_value_hash(v[i]) == tp_value_hash(v[j])) == (i == j));
        }
    tp_value other = LIST(TP_LIST, tp_int(1), tp_int(2)), text = string_of("ab");
    if (other.tag && text.tag) {            /* equal, though elsewhere in memory */
        TP_EXPECT(tp_value_equal(other, v[plain + 3]) && tp_value_hash(other) == tp_value_hash(v[plain + 3]));
        TP_EXPECT(tp_value_equal(text, v[plain + 2]) && tp_value_hash(text) == tp_value_hash(v[plain + 2]));
    }
    tp_value_unref(other);
    tp_value_unref(text);
out:
    tp_values_unref(v, n);
}

typedef struct handle {
    tp_handle base;
    int number, *freed;
} handle;

static void handle_free(tp_handle *h)
{
    ++*((handle *)(void *)h)->freed;
    tp_free(h);
}
static int number_of(const tp_handle *h) { return ((const handle *)(const void *)h)->number; }
static bool handle_equal(const tp_handle *a, const tp_handle *b) { return number_of(a) == number_of(b); }
static uint64_t handle_hash(const tp_handle *h) { return (uint64_t)number_of(h); }
static bool handle_repr(const tp_handle *h, tp_text *out)
{
    tp_text_add(out, "<%d>", number_of(h));
    return true;
}
static const tp_handle_type handle_type = { .free = handle_free, .equal = handle_equal, .hash = handle_hash, .repr = handle_repr };

static tp_value handle_new(int number, int *freed)
{
    handle *h = tp_alloc(sizeof *h);
    if (!h)
        return tp_none();
    *h = (handle){ .base = { .type = &handle_type }, .number = number, .freed = freed };
    atomic_init(&h->base.refs, 1);
    return (tp_value){ .tag = TP_HANDLE, .handle = &h->base };
}

TP_TEST(handles_speak_through_their_type)
{
    int freed = 0;
    tp_value a = handle_new(7, &freed), b = handle_new(7, &freed), c = handle_new(8, &freed);
    if (a.tag && b.tag && c.tag) {
        TP_EXPECT(tp_value_equal(a, b) && !tp_value_equal(a, c) && tp_value_hash(a) == tp_value_hash(b));
        expect_print(tp_value_ref(a), "<7>");
        TP_EXPECT(freed == 0);
    }
    int made = (a.tag != 0) + (b.tag != 0) + (c.tag != 0);
    tp_value_unref(a);
    tp_value_unref(b);
    tp_value_unref(c);
    TP_EXPECT(freed == made);
}

TP_TEST(a_list_on_the_stack_is_copied_when_kept)
{
    _Alignas(tp_list) char room[2][sizeof(tp_list) + 2 * sizeof(tp_value)];
    tp_list *inner = (tp_list *)(void *)room[0], *outer = (tp_list *)(void *)room[1];
    tp_tensor *t = tp_tensor_new(TP_f32, 0, NULL);
    TP_NEED(t);
    atomic_init(&inner->refs, TP_STACK_LIST);
    atomic_init(&outer->refs, TP_STACK_LIST);
    inner->count = outer->count = 2;
    inner->item[0] = tp_of_tensor(t);
    inner->item[1] = tp_int(3);
    outer->item[0] = tp_of_list(inner);
    outer->item[1] = tp_int(4);
    tp_value kept = tp_value_ref(tp_of_list(outer));
    if (kept.tag == TP_NONE)
        TP_NEED(kept.tag);                  /* whole or not at all: never a list with a hole */
    if (kept.list->item[0].tag != TP_LIST)
        abort();
    TP_EXPECT(kept.list != outer && kept.list->item[0].list != inner && tp_value_equal(kept, tp_of_list(outer)));
    TP_EXPECT(atomic_load(&t->refs) == 2);
    tp_value again = tp_value_ref(kept);
    TP_EXPECT(again.list == kept.list);
    tp_value_unref(again);
    tp_value_unref(kept);
    TP_EXPECT(atomic_load(&t->refs) == 1);
out:
    tp_tensor_unref(t);
}

TP_TEST(values_are_read)
{
    int64_t out[4];
    tp_value z = tp_value_complex(2, 3), ints = tp_value_ints((int64_t[]){ 5, 6, 7 }, 3), single = tp_value_ints((int64_t[]){ 9 }, 1);
    tp_tensor *t = tp_tensor_new_scalar(TP_f16, tp_scalar_float(1.5));
    TP_NEED(z.tag && ints.tag && single.tag && t);
    TP_EXPECT(tp_as_scalar(z).c.im == 3 && tp_as_scalar(tp_of_tensor(t)).f == 1.5 && tp_as_scalar(tp_int(4)).i == 4);
    TP_EXPECT(tp_as_double(tp_int(4)) == 4 && tp_as_double(tp_bool(true)) == 1 && tp_as_int(tp_bool(true)) == 1);
    TP_EXPECT(tp_as_bool(tp_float(0.5)) && !tp_as_bool(tp_none()) && !tp_as_bool(tp_int(0)));
    TP_EXPECT(tp_as_ints(ints, out, 4, 0) == 3 && out[2] == 7);
    TP_EXPECT(tp_as_ints(tp_int(8), out, 4, 2) == 2 && out[0] == 8 && out[1] == 8);
    TP_EXPECT(tp_as_ints(single, out, 4, 3) == 3 && out[2] == 9);
    TP_EXPECT(tp_as_ints(ints, out, 2, 0) == -1 && tp_error_kind() == TP_ERR_RUNTIME);
    tp_error_clear();
out:
    tp_value_unref(z);
    tp_value_unref(ints);
    tp_value_unref(single);
    tp_tensor_unref(t);
}

TP_TESTS(TP_SWEPT(values_print_as_python_does), TP_SWEPT(compound_values_print_as_python_does), TP_SWEPT(equal_values_hash_alike),
         TP_SWEPT(handles_speak_through_their_type), TP_SWEPT(a_list_on_the_stack_is_copied_when_kept), TP_SWEPT(values_are_read))
