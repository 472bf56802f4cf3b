/* archive_test.c - modules through an archive and back, and archives that lie. */
#include "jit/archive.h"
#include "jit/parse.h"
#include "jit/run.h"
#include "jit/test_traces.h"

/* The module saved and loaded; NULL: the error is set. */
static tp_jit_module *through_archive(tp_jit_module *m)
{
    tp_text bytes = { 0 };
    tp_zip_writer *w = tp_zip_writer_new_text("archive", &bytes);
    bool ok = w && tp_jit_save(w, m) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    tp_zip *z = ok ? tp_zip_open_memory(tp_text_read(&bytes), bytes.length, 0, NULL, NULL) : NULL;
    tp_jit_module *loaded = z ? tp_jit_load(z) : NULL;
    tp_zip_unref(z);
    tp_text_fini(&bytes);
    return loaded;
}

TP_TEST(a_module_comes_back)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_tensor *weight = LEAF(&s, 2, -1), *scale = VECTOR(&s, 10, 10), *x = VECTOR(&s, 1, 1);
    tp_jit_module *root = test_module(&s, weight, scale), *loaded = NULL, *again = NULL;
    if (root && test_trace_module(&s, root, weight, scale, x, &warned) && (loaded = through_archive(root)) && (again = through_archive(loaded))) {
        tp_value result;
        const tp_value *w = tp_jit_module_find(again, "fc.weight");
        TP_EXPECT(w && tp_requires_grad(w->tensor) && tp_jit_module_slot(again, "scale")->role == TP_JIT_BUFFER);
        if (tp_jit_run(tp_jit_module_method(again, "forward"), (tp_value[]){ tp_jit_of_module(again), T(x) }, 2, &result)) {
            EXPECT_ELEMENTS(result.tensor, 22, -1);
            tp_value_unref(result);
        }
    } else {
        TP_EXPECT(tp_test_quiet);
    }
    tp_jit_module_unref(again);
    tp_jit_module_unref(loaded);
    tp_jit_module_unref(root);
    (void)tp_scope_end(&s);
}

TP_TEST(a_function_is_saved_as_forward)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 1, 2, 3);
    tp_graph *g = test_trace_square(&s, VECTOR(&s, 1, 2), &warned);
    tp_jit_function *f = g ? tp_jit_function_new("f", g, false) : NULL;
    tp_jit_module *m = f ? tp_jit_module_of_function(f) : NULL, *loaded = m ? through_archive(m) : NULL;
    tp_value result;
    if (loaded && x && tp_jit_run(tp_jit_module_method(loaded, "forward"), (tp_value[]){ tp_jit_of_module(loaded), T(x) }, 2, &result)) {
        EXPECT_ELEMENTS(result.tensor, -2, -5, -10);
        tp_value_unref(result);
    } else {
        TP_EXPECT(tp_test_quiet);
    }
    tp_jit_module_unref(loaded);
    tp_jit_module_unref(m);
    tp_jit_function_unref(f);
    tp_graph_unref(g);
    (void)tp_scope_end(&s);
}

static tp_jit_module *no_class(void *user, const char *name) { (void)user, (void)name; return NULL; }
static tp_jit_function *no_function(void *user, const char *name)
{
    (void)user;
    return tp_fail(TP_ERR_RUNTIME, "no function %s", name);
}

/* Text that is no TorchScript is refused, whatever it is. */
TP_TEST(broken_text_is_an_error)
{
    static const char *const rows[] = {
        "def f(x: Tensor) -> Tensor:\n  return y\n", "def f(x: Tensor) -> Tensor:\n  return torch.neg(x\n", "def f(x: Tensor) -> Tensor:\n  return CONSTANTS.c7\n",
        "def f(x: Tensor) -> Tensor:\n  a, b, = x\n  return a\n", "def f(x: Wrong) -> Tensor:\n  return x\n", "def f(x: Tensor) -> Tensor:\n  return torch.neg(1, 2, 3)\n",
        "def f(x: Tensor) -> Tensor:\n  return \"abc\n", "def f(x: Tensor) -> Tensor:\n  if x:\n    return x\n", "def f(", "", "def f(x: Tensor) -> Tensor:\n  return [[[[[",
        "def f(x: Tensor) -> Tensor:\n  return x.weight\n", "def f(x: Tensor) -> Tensor:\n  return (x).forward(x, )\n",
    };
    tp_jit_reader reader = { .class_of = no_class, .function = no_function };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_jit_function *f = tp_jit_parse_function(&reader, rows[i]);
        TP_EXPECT(!f && tp_error_kind() != TP_ERR_NONE);
        tp_jit_function_unref(f);
        tp_error_clear();
    }
}

TP_TESTS(TP_SWEPT(a_module_comes_back), TP_SWEPT(a_function_is_saved_as_forward), TP_SWEPT(broken_text_is_an_error))
