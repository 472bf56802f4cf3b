/* type_test.c - spelling, erasing and joining types. */
#include "jit/type.h"

#include "base/test.h"

static void expect(const tp_jit_type *t, const char *graph, const char *python)
{
    tp_text a = { 0 }, b = { 0 };
    tp_jit_type_print(t, &a);
    tp_jit_type_print_python(t, &b);
    if (!a.failed)
        TP_EXPECT_TEXT(tp_text_read(&a), graph);
    if (!b.failed)
        TP_EXPECT_TEXT(tp_text_read(&b), python);
    tp_text_fini(&a);
    tp_text_fini(&b);
}

TP_TEST(types_are_spelled_twice)
{
    tp_tensor *x = tp_tensor_new(TP_f64, 2, (int64_t[]){ 2, 3 });
    tp_jit_type *tensor = NULL, *tuple = NULL, *dict = NULL, *list = NULL, *erased = NULL;
    TP_NEED(x && (tensor = tp_jit_tensor_new(x)));
    TP_NEED((tuple = tp_jit_tuple_new((tp_jit_type *[]){ tensor, tp_jit_simple(TP_JIT_INT) }, 2)));
    TP_NEED((dict = tp_jit_dict_new(tp_jit_simple(TP_JIT_STR), tp_jit_type_ref(tuple))));
    TP_NEED((list = tp_jit_list_new(tp_jit_optional_new(tp_jit_simple(TP_JIT_ANY_TENSOR)))));
    expect(tensor, "Double(2, 3, strides=[3, 1], requires_grad=0, device=cpu)", "Tensor");
    expect(tuple, "(Double(2, 3, strides=[3, 1], requires_grad=0, device=cpu), int)", "Tuple[Tensor, int]");
    expect(list, "Tensor?[]", "List[Optional[Tensor]]");
    TP_NEED((erased = tp_jit_type_erase(dict)));
    expect(erased, "Dict(str, (Tensor, int))", "Dict[str, Tuple[Tensor, int]]");
out:
    tp_jit_type_unref(erased);
    tp_jit_type_unref(list);
    tp_jit_type_unref(dict);
    tp_jit_type_unref(tuple);
    tp_jit_type_unref(tensor);
    tp_tensor_unref(x);
}

TP_TEST(unlike_types_do_not_join)
{
    tp_jit_type *a = tp_jit_scalar_tensor_new(TP_i64, 0), *b = tp_jit_scalar_tensor_new(TP_f64, 0), *list = NULL, *both = NULL;
    TP_NEED(a && b && (list = tp_jit_list_new(tp_jit_type_ref(a))));
    TP_NEED((both = tp_jit_type_unify(a, b)));
    expect(both, "Tensor", "Tensor");
    TP_EXPECT(!tp_jit_type_unify(a, list) && tp_jit_type_equal(a, a) && !tp_jit_type_equal(a, b));
out:
    tp_jit_type_unref(both);
    tp_jit_type_unref(list);
    tp_jit_type_unref(a);
    tp_jit_type_unref(b);
}

TP_TESTS(TP_SWEPT(types_are_spelled_twice), TP_SWEPT(unlike_types_do_not_join))
