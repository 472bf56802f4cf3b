/* schema_test.c - schemas read at run time, and the registry of the ops they make. */
#include "base/alloc.h"
#include "base/test.h"
#include "ops/dispatch.h"
#include "ops/registry.h"

/* The registry's own struct lives as long as the process; it is made here, so that no test seems to leak it. */
static void make_registry(void)
{
    tp_op *op = tp_op_define("tested", "first() -> ()");
    if (op)
        tp_op_undefine(op);
}

static bool same_type(const tp_arg *a, const tp_arg *b)
{
    return a->type == b->type && a->list == b->list && a->optional == b->optional && a->items_optional == b->items_optional &&
           a->written == b->written && a->alias == b->alias && a->length == b->length && strcmp(a->name, b->name) == 0;
}

static bool same_argument(const tp_arg *a, const tp_arg *b)
{
    return same_type(a, b) && a->keyword_only == b->keyword_only && !a->fallback == !b->fallback &&
           (!a->fallback || tp_value_equal(*a->fallback, *b->fallback));
}

static bool same_schema(const tp_op *a, const tp_op *b)
{
    if (a->arg_count != b->arg_count || a->positional_count != b->positional_count || a->result_count != b->result_count)
        return false;
    for (int i = 0; i < a->arg_count; i++)
        if (!same_argument(&a->arg[i], &b->arg[i]))
            return false;
    for (int i = 0; i < a->result_count; i++)
        if (!same_type(&a->result[i], &b->result[i]))
            return false;
    return strcmp(a->name, b->name) == 0 && strcmp(a->overload, b->overload) == 0;
}

/* opgen has read the same schemas with a reader of its own: both must have understood the same. */
TP_TEST(every_schema_reads_as_opgen_read_it)
{
    for (size_t i = 0; i < tp_op_table_count; i++) {
        const tp_op *known = tp_op_table[i];
        tp_text schema = { 0 };
        tp_op_schema(known, &schema);
        tp_op *op = schema.failed ? NULL : tp_op_define("tested", strstr(tp_text_read(&schema), "::") + 2);
        tp_text_fini(&schema);
        TP_NEED(op);
        bool same = same_schema(op, known) && strcmp(op->signature, known->signature) == 0;
        if (!same)
            printf("# %s.%s%s\n", op->name, op->overload, op->signature);
        TP_EXPECT(same);
        tp_op_undefine(op);
    }
out:;
}

TP_TEST(a_schema_is_read)
{
    tp_op *op = tp_op_define("tested", "scale.Tensor(Tensor(a!) self, float by=2, *, int[2]? pad=None, str how=\"mean\", "
                                       "float[] w=[0.5, 1], Tensor?[] more, MemoryFormat? f=contiguous_format) -> (Tensor(a!) out, int[] n)");
    char name[128];
    TP_NEED(op);
    TP_EXPECT_TEXT(tp_op_full_name(op, name), "tested::scale.Tensor");
    TP_EXPECT(op->arg_count == 7 && op->positional_count == 2 && op->result_count == 2);
    TP_EXPECT(op->arg[0].written && op->arg[0].alias == 'a' && op->arg[0].type == TP_TYPE_TENSOR);
    TP_EXPECT(op->arg[1].fallback && op->arg[1].fallback->tag == TP_FLOAT && op->arg[1].fallback->f == 2 && !op->arg[1].keyword_only);
    TP_EXPECT(op->arg[2].list && op->arg[2].length == 2 && op->arg[2].optional && !op->arg[2].items_optional && op->arg[2].keyword_only);
    TP_EXPECT_TEXT(op->arg[3].fallback->string->text, "mean");
    TP_EXPECT(op->arg[4].fallback->list->count == 2 && op->arg[4].fallback->list->item[1].tag == TP_FLOAT);
    TP_EXPECT(op->arg[5].list && op->arg[5].items_optional && !op->arg[5].optional && !op->arg[5].fallback);
    TP_EXPECT(op->arg[6].fallback->tag == TP_FORMAT_VALUE);
    TP_EXPECT_TEXT(op->result[0].name, "out");
    TP_EXPECT(op->result[0].written && op->result[1].list && op->result[1].type == TP_TYPE_INT);
    TP_EXPECT(op->layers == TP_LAYER_BIT(TP_LAYER_GRAD) && (op->flags & TP_OP_RUNTIME));
    TP_EXPECT(tp_op_arg_index(op, "pad") == 2 && tp_op_arg_index(op, "none") == -1);
    tp_value arg[7] = { tp_none() }, result[2];
    TP_EXPECT(!tp_run_bottom(op, arg, result));
    TP_EXPECT_TEXT(tp_error_text(), "Could not run 'tested::scale.Tensor' with arguments from the 'CPU' backend: no kernel was registered for it");
    TP_EXPECT(tp_error_kind() == TP_ERR_UNIMPLEMENTED);
    tp_error_clear();
out:
    if (op)
        tp_op_undefine(op);
}

TP_TEST(bad_schemas_are_refused)
{
    static const char *const bad[] = {
        "", "f", "f(", "f(Tensor a", "f(Tensor a) Tensor", "f(Tensor a) ->", "f(Tensor) -> Tensor", "f(Tensor(a a) -> Tensor", "f(int x=) -> Tensor",
        "f(int[ x) -> Tensor", "f(str s=\"open) -> Tensor", "f(int[] x=[1, 2) -> Tensor", "f() -> (Tensor", "f() -> Tensor, Tensor",
        "f.(Tensor a) -> Tensor", "f() -> (Tensor, )x", "f(Tensor a) -> Tensor extra words",
    };
    for (size_t i = 0; i < TP_COUNT(bad); i++) {
        tp_op *op = tp_op_define("tested", bad[i]);
        if (op)
            printf("# accepted: %s\n", bad[i]);
        TP_EXPECT(!op && tp_error_kind() == TP_ERR_RUNTIME);
        if (op)
            tp_op_undefine(op);
        tp_error_clear();
    }
}

TP_TEST(overloads_stand_in_order_of_definition)
{
    static const char *const schema[] = { "f.b(Tensor a) -> Tensor", "other(Tensor a) -> Tensor", "f(Tensor a, int b) -> Tensor",
                                          "elsewhere::f(Tensor a) -> Tensor", "f.a(Tensor a) -> Tensor" };
    tp_op *op[5] = { 0 };
    const tp_op *const *found;
    for (int i = 0; i < 5; i++)
        TP_NEED(op[i] = tp_op_define("tested", schema[i]));
    TP_EXPECT(tp_op_overloads("tested", "f", &found) == 3 && found[0] == op[0] && found[1] == op[2] && found[2] == op[4]);
    TP_EXPECT(tp_op_find("tested", "f", "") == op[2] && tp_op_find("elsewhere", "f", "") == op[3]);
    TP_EXPECT(!tp_op_find("tested", "f", "c") && !tp_op_find("nowhere", "f", "") && !tp_error_kind());
    TP_EXPECT(!tp_op_define("tested", schema[2]));
    TP_EXPECT_TEXT(tp_error_text(), "Tried to register an operator (tested::f) with the same name and overload name multiple times.");
    TP_EXPECT(!tp_op_define("aten", "mul.Tensor(Tensor a) -> Tensor"));
    tp_error_clear();
    tp_op_undefine(op[2]);
    op[2] = NULL;
    TP_EXPECT(tp_op_overloads("tested", "f", &found) == 2 && found[1] == op[4] && !tp_op_find("tested", "f", ""));
    TP_EXPECT(tp_op_overloads("aten", "mul", &found) >= 2 && tp_op_find("aten", "mul", "Tensor"));
out:
    for (int i = 0; i < 5; i++)
        if (op[i])
            tp_op_undefine(op[i]);
}

static bool count_op(const tp_op *op, void *user)
{
    size_t *n = user;
    n[0]++;
    n[1] += strcmp(op->space, "tested") == 0;
    return true;
}

TP_TEST(the_table_is_sorted_and_visited)
{
    size_t n[2] = { 0, 0 };
    for (size_t i = 1; i < tp_op_table_count; i++) {
        int order = strcmp(tp_op_table[i - 1]->space, tp_op_table[i]->space);
        TP_EXPECT(order < 0 || (order == 0 && strcmp(tp_op_table[i - 1]->name, tp_op_table[i]->name) <= 0));
    }
    for (size_t i = 0; i < tp_op_table_count; i++)
        TP_EXPECT(tp_op_find(tp_op_table[i]->space, tp_op_table[i]->name, tp_op_table[i]->overload) == tp_op_table[i]);
    tp_op *op = tp_op_define("tested", "f() -> ()");
    TP_NEED(op);
    tp_op_each(count_op, n);
    TP_EXPECT(n[0] == tp_op_table_count + 1 && n[1] == 1);
    tp_op_undefine(op);
out:;
}

TP_TESTS_AFTER(make_registry, TP_SPARSE(every_schema_reads_as_opgen_read_it), TP_SWEPT(a_schema_is_read), TP_SWEPT(bad_schemas_are_refused),
               TP_SWEPT(overloads_stand_in_order_of_definition), TP_SWEPT(the_table_is_sorted_and_visited))
