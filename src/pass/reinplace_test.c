/* reinplace_test.c - graphs before and after, their values real tensors made call by call. */
#include "pass/reinplace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/test.h"
#include "ir/text.h"
#include "ops/dispatch.h"

typedef struct row {
    const char *before, *after;
} row;

static const row rows[] = {
    { "graph(%x):\n    %a = aten.clone.default(%x)\n    %b = aten.add.Tensor(%a, 1)\n    return (%b,)\n",
      "graph(%x):\n    %a = aten.clone.default(%x)\n    %b = aten.add_.Tensor(%a, 1)\n    return (%a,)\n" },
    /* an input, and what is read again */
    { "graph(%x):\n    %a = aten.add.Tensor(%x, 1)\n    %b = aten.mul.Tensor(%a, 2)\n    return (%a, %b)\n", NULL },
    { "graph(%x):\n    %a = aten.clone.default(%x)\n    %v = aten.view.default(%a, [-1])\n    %b = aten.neg.default(%a)\n    return (%b, %v)\n", NULL },
    /* a scatter of what was changed in place is nothing */
    { "graph(%x):\n    %a = aten.clone.default(%x)\n    %s = aten.select.int(%a, 0, 1)\n    %b = aten.neg.default(%s)\n"
      "    %c = aten.select_scatter.default(%a, %b, 0, 1)\n    return (%c,)\n",
      "graph(%x):\n    %a = aten.clone.default(%x)\n    %s = aten.select.int(%a, 0, 1)\n    %b = aten.neg_.default(%s)\n    return (%a,)\n" },
    /* unless what was changed shows in two places */
    { "graph(%x):\n    %a = aten.clone.default(%x)\n    %e = aten.expand.default(%a, [2, 2, 2])\n    %s = aten.select.int(%e, 0, 0)\n"
      "    %b = aten.neg.default(%s)\n    %c = aten.select_scatter.default(%e, %b, 0, 0)\n    return (%c,)\n", NULL },
    /* into another place it is a copy */
    { "graph(%x):\n    %a = aten.clone.default(%x)\n    %s = aten.select.int(%a, 0, 1)\n    %b = aten.neg.default(%s)\n"
      "    %c = aten.select_scatter.default(%a, %b, 0, 0)\n    return (%c,)\n",
      "graph(%x):\n    %a = aten.clone.default(%x)\n    %s = aten.select.int(%a, 0, 1)\n    %b = aten.neg.default(%s)\n"
      "    %select_int = aten.select.int(%a, 0, 0)\n    %copy__default = aten.copy_.default(%select_int, %b)\n    return (%a,)\n" },
};

static tp_value value_of(tp_node *n, void *data)
{
    return tp_value_ref(((const tp_value *)data)[n->id]);
}

static bool call(const tp_node *n, tp_value *value)
{
    tp_value filled[16], arg[16];
    uint32_t count = n->target.op->arg_count, done = 0;
    if (!tp_node_op_args(n, filled))
        return false;
    while (done < count && tp_value_map_nodes(filled[done], value_of, value, &arg[done]))
        done++;
    bool ok = done == count && tp_call(n->target.op, arg, &value[n->id]);
    tp_values_unref(arg, done);
    return ok;
}

static bool reinplace(tp_graph *g, tp_value *value)
{
    tp_graph_each(g, n)
        if (n->kind == TP_PLACEHOLDER) {
            tp_tensor *t = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 2 });
            if (!t)
                return false;
            memset(tp_tensor_data(t), 0, 4 * sizeof(float));
            value[n->id] = tp_of_tensor(t);
        } else if (n->kind == TP_CALL_FUNCTION && !call(n, value)) {
            return false;
        }
    return tp_reinplace(g, value);
}

TP_TEST(calls_write_where_nobody_can_tell)
{
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = tp_graph_parse(rows[i].before, strlen(rows[i].before));
        uint32_t count = g ? g->node_count + 1 : 0;
        tp_value *value = g ? tp_alloc_zero(count * sizeof *value) : NULL;
        tp_text out = { 0 };
        if (value && reinplace(g, value)) {
            tp_graph_print(g, &out);
            TP_EXPECT_TEXT(tp_text_read(&out), rows[i].after ? rows[i].after : rows[i].before);
        } else {
            TP_EXPECT(tp_test_quiet && "runs");
        }
        tp_text_fini(&out);
        if (value)
            tp_values_unref(value, count);
        tp_free(value);
        tp_graph_unref(g);
    }
    tp_error_clear();
}

TP_TESTS(TP_SWEPT(calls_write_where_nobody_can_tell))
