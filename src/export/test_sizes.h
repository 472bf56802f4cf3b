/* test_sizes.h - graphs whose facts have symbolic sizes, for tests: `test_fact(g, "x", { "s0", "3" })`. */
#ifndef TP_EXPORT_TEST_SIZES_H
#define TP_EXPORT_TEST_SIZES_H

#include <string.h>

#include "ir/text.h"
#include "trace/fake.h"

/* A graph with an environment that has s0, of hint 4. */
static tp_graph *test_graph(const char *text)
{
    tp_graph *g = tp_graph_parse(text, strlen(text));
    int64_t hint = 4;
    if (g && !g->env)
        g->env = tp_shape_env_new(NULL, NULL);
    if (g && g->env && !tp_sym_is_failed(tp_shape_env_named(g->env, "s0", &hint, (tp_range){ 0, INT64_MAX })))
        return g;
    tp_graph_unref(g);
    return NULL;
}

/* The node yields an f32 of these sizes. */
static bool test_fact(tp_graph *g, const char *name, int ndim, const char *const *size)
{
    tp_sym sym[4];
    int64_t hint[4];
    for (int i = 0; i < ndim; i++)
        if (tp_sym_is_failed(sym[i] = tp_sym_parse(g->env, size[i])) || !tp_sym_hint(sym[i], &hint[i]))
            return false;
    tp_tensor *shape = tp_tensor_new(TP_f32, ndim, hint), *fake = shape ? tp_fake_symbolic(shape, g->env, sym) : NULL;
    tp_graph_each(g, n)
    {
        if (fake && strcmp(n->name, name) == 0)
            tp_node_set_fact(n, tp_of_tensor(fake));
    }
    tp_tensor_unref(shape);
    tp_tensor_unref(fake);
    return fake != NULL;
}
#define TEST_FACT(g, name, ...) \
    test_fact(g, name, (int)TP_COUNT(((const char *const[]){ __VA_ARGS__ })), (const char *const[]){ __VA_ARGS__ })

#endif
