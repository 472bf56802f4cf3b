/* pt2_test.c - programs through .pt2 and back, run on both sides; files that are broken. */
#include "base/alloc.h"
#include "base/test.h"
#include "export/pt2.h"
#include "export/test_sizes.h"

static tp_tensor *filled(int ndim, const int64_t *size, float first)
{
    tp_tensor *t = tp_tensor_new(TP_f32, ndim, size);
    for (int64_t i = 0; t && i < t->numel; i++)
        ((float *)tp_tensor_data(t))[i] = first + (float)i;
    return t;
}

/* n is counted up; the halves of x @ w are given, and x's first size. */
static tp_program *make(void)
{
    static const char text[] = "graph(%p_w: f32[3, 4], %b_n: f32[1], %x):\n"
                               "    %add: f32[1] = aten.add.Tensor(%b_n, 1)\n"
                               "    %mm = aten.mm.default(%x, %p_w)\n"
                               "    %relu = aten.relu.default(%mm)\n"
                               "    return (%add, %relu, 7)\n";
    static tp_input_spec in[] = { { TP_INPUT_PARAMETER, false, "p_w", "l.w" }, { TP_INPUT_BUFFER, true, "b_n", "n" },
                                  { TP_INPUT_USER, false, "x", NULL } };
    static tp_output_spec out[] = { { TP_OUTPUT_BUFFER, "n" }, { TP_OUTPUT_USER, NULL }, { TP_OUTPUT_USER, NULL } };
    tp_program *p = tp_program_new();
    if (!p)
        return NULL;
    p->signature = (tp_signature){ in, out, 3, 3 };
    p->in_spec = p->out_spec = "[1, null]";
    p->graph = test_graph(text);
    bool ok = p->graph && TEST_FACT(p->graph, "x", "s0", "3") && TEST_FACT(p->graph, "mm", "s0", "4") &&
              TEST_FACT(p->graph, "relu", "s0", "4");
    p->state = ok ? tp_arena_take_array(&p->arena, 2, sizeof *p->state) : NULL;
    if (p->state) {
        p->state[0] = (tp_state_row){ "l.w", filled(2, (int64_t[]){ 3, 4 }, -5), true };
        p->state_count = p->state[0].tensor != NULL;
        p->state[1] = (tp_state_row){ "n", p->state_count ? filled(1, (int64_t[]){ 1 }, 10) : NULL, false };
        p->state_count += p->state[1].tensor != NULL;
    }
    if (p->state_count == 2)
        return p;
    tp_program_unref(p);
    return NULL;
}

static bool save(const tp_program *p, tp_text *out)
{
    tp_zip_writer *w = tp_zip_writer_new_text("model", out);
    bool ok = w && tp_program_write(p, w) && tp_zip_add_id(w) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    return ok;
}

static tp_program *load(const char *bytes, size_t count)
{
    tp_zip *z = tp_zip_open_memory(bytes, count, TP_ZIP_ANY_CRC, NULL, NULL);
    tp_program *p = z ? tp_program_read(z) : NULL;
    tp_zip_unref(z);
    return p;
}

static void expect_run(tp_program *p, int64_t rows, float n)
{
    tp_tensor *x = filled(2, (int64_t[]){ rows, 3 }, 0);
    tp_value in = tp_of_tensor(x), out[2] = { 0 };
    TP_NEED(x && tp_program_run(p, &in, 1, out, 2));
    TP_EXPECT(out[0].tag == TP_TENSOR && out[0].tensor->size[0] == rows && out[0].tensor->size[1] == 4);
    TP_EXPECT(((float *)tp_tensor_data(out[0].tensor))[3] == 2 * 6 + 1 * 2 + 0);
    TP_EXPECT(out[1].tag == TP_INT && out[1].i == 7);
    TP_EXPECT(*(float *)tp_tensor_data(p->state[1].tensor) == n);
out:
    tp_values_unref(out, 2);
    tp_tensor_unref(x);
}

TP_TEST(programs_run)
{
    tp_program *p = make();
    TP_NEED(p);
    TP_EXPECT(tp_program_input_count(p) == 1 && tp_program_output_count(p) == 2);
    expect_run(p, 2, 11);
    expect_run(p, 5, 12);
    tp_value none = tp_none(), out[2];
    TP_EXPECT(!tp_program_run(p, &none, 1, out, 2));
    TP_EXPECT(!tp_program_run(p, &none, 0, out, 2));
    tp_error_clear();
out:
    tp_program_unref(p);
}

TP_TEST(programs_survive_the_file)
{
    tp_program *p = make(), *back = NULL;
    tp_text file = { 0 }, model = { 0 }, again = { 0 };
    TP_NEED(p && save(p, &file) && (back = load(file.at, file.length)));
    expect_run(back, 4, 11);
    TP_NEED(tp_pt2_write_model(p, &model) && tp_pt2_write_model(back, &again));
    TP_EXPECT_TEXT(tp_text_read(&again), tp_text_read(&model));
    TP_EXPECT(back->state_count == 2 && back->state[0].parameter && !back->state[1].parameter);
out:
    tp_text_fini(&file);
    tp_text_fini(&model);
    tp_text_fini(&again);
    tp_program_unref(back);
    tp_program_unref(p);
}

TP_TEST(broken_files_are_refused)
{
    tp_program *p = make();
    tp_text file = { 0 };
    char *copy = NULL;
    TP_NEED(p && save(p, &file) && (copy = tp_alloc(file.length)));
    for (size_t cut = 0; cut < file.length; cut += 53) {
        tp_program *got = load(file.at, cut);
        TP_EXPECT(!got);
        tp_program_unref(got);
        tp_error_clear();
    }
    for (size_t at = 0; at < file.length; at += 7) {
        memcpy(copy, file.at, file.length);
        copy[at] = (char)(copy[at] + 1 + (char)(at % 13));
        tp_program_unref(load(copy, file.length));
        tp_error_clear();
    }
out:
    tp_free(copy);
    tp_text_fini(&file);
    tp_program_unref(p);
}

/* ---- expressions ---- */
TP_TEST(expressions_survive)
{
    static const char *const rows[] = {
        "Symbol('s0', positive=True, integer=True)",
        "Integer(3)",
        "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))",
        "Add(Symbol('s0', positive=True, integer=True), Integer(-3))",
        "FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2))",
        "Max(Symbol('s0', positive=True, integer=True), Integer(15))",
    };
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    TP_NEED(env);
    int64_t hint = 6;
    TP_NEED(!tp_sym_is_failed(tp_shape_env_named(env, "s0", &hint, (tp_range){ 0, 40 })));
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text text = { 0 };
        tp_sym x = tp_pt2_parse(env, rows[i]), y = TP_SYM_FAILED;
        bool ok = !tp_sym_is_failed(x) && tp_pt2_print(x, &text) && !tp_sym_is_failed(y = tp_pt2_parse(env, tp_text_read(&text)));
        TP_EXPECT(ok && tp_sym_same(x, y));
        tp_text_fini(&text);
        TP_NEED(ok);
    }
out:
    tp_shape_env_unref(env);
}

TP_TEST(bad_expressions_are_refused)
{
    static const char *const rows[] = { "", "Symbol(", "Symbol('')", "Integer(x)", "Add(Integer(1)", "Foo(Integer(1))",
                                        "Integer(1) Integer(2)", "FloorDiv(Integer(1), Integer(0))", "And(Integer(1), Integer(2))",
                                        "Pow(Integer(2), Symbol('s0'))", "Symbol('s 0')", "Symbol('1s')", "Symbol('None')", "Symbol('s=f()')" };
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    TP_NEED(env);
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        TP_EXPECT(tp_sym_is_failed(tp_pt2_parse(env, rows[i])));
        tp_error_clear();
    }
out:
    tp_shape_env_unref(env);
}

TP_TESTS(TP_SPARSE(programs_run), TP_SPARSE(programs_survive_the_file), TP_IN_PARTS(broken_files_are_refused),
         TP_SWEPT(expressions_survive), TP_SWEPT(bad_expressions_are_refused))
