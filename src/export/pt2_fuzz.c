/* pt2_fuzz.c - broken models: each is read or refused, and what was read can be asked, written again, run and translated. */
#include "base/fuzz.h"
#include "export/pt2.h"
#include "export/translate.h"
#include "tensor/tensor.h"

#define VERSION "{\"schema_version\":{\"major\":8,\"minor\":20},"
static const char *const seeds[] = {
    VERSION "\"graph_module\":{\"graph\":{\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}],\"nodes\":[{\"target\":\"torch.ops.aten.relu.default\","
    "\"inputs\":[{\"name\":\"self\",\"arg\":{\"as_tensor\":{\"name\":\"x\"}},\"kind\":1}],\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}]}]},"
    "\"signature\":{\"input_specs\":[{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}}],\"output_specs\":[{\"user_output\":{}}]}}}",
    VERSION "\"graph_module\":{\"graph\":{\"outputs\":[],\"nodes\":[{\"target\":\"torch.ops.aten.split.Tensor\",\"inputs\":[{\"name\":\"self\","
    "\"arg\":{\"as_tensor\":{\"name\":\"x\"}}},{\"name\":\"split_size\",\"arg\":{\"as_int\":2}}],\"outputs\":[{\"as_tensors\":[{\"name\":"
    "\"a\"},{\"name\":\"b\"}]}]}]},\"signature\":{\"input_specs\":[{\"parameter\":{\"arg\":{\"name\":\"x\"},\"parameter_name\":\"w\"}}]}}}",
    VERSION "\"graph_module\":{\"graph\":{\"outputs\":[],\"nodes\":[],\"tensor_values\":{\"x\":{\"dtype\":7,\"sizes\":[{\"as_expr\":{\"expr_str\":"
    "\"Mul(Integer(2), Symbol('s0', positive=True))\",\"hint\":{\"as_int\":4}}},{\"as_int\":3}],\"strides\":[{\"as_int\":3},{\"as_int\":1}],"
    "\"storage_offset\":{\"as_int\":0}}}},\"signature\":{\"input_specs\":[{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}}]}}}",
    "Add(Pow(Symbol('s0', integer=True), Integer(2)), FloorDiv(Mod(Symbol('s1'), Integer(3)), Max(Integer(15), Symbol('s0'))))",
};

/* Zeros of the size an input is declared to have, or a number. Owned. */
static tp_value make_input(const tp_program *p, size_t i)
{
    tp_value fact;
    (void)tp_program_input(p, i, &fact);
    const tp_tensor *t = tp_as_tensor(fact);
    tp_tensor *made = t && t->numel < 1000 ? tp_tensor_new((tp_dtype)t->dtype, t->ndim, t->size) : NULL;
    if (!made)
        return tp_int(2);
    memset(tp_tensor_data(made), 0, (size_t)made->numel * tp_dtype_bytes((tp_dtype)made->dtype));
    return tp_of_tensor(made);
}

static void use(tp_program *p)
{
    enum { MOST = 8 };
    tp_value in[MOST] = { 0 }, out[MOST] = { 0 };
    size_t inputs = tp_program_input_count(p), outputs = tp_program_output_count(p);
    tp_text text = { 0 };
    if (inputs <= MOST && outputs <= MOST) {
        for (size_t i = 0; i < inputs; i++)
            in[i] = make_input(p, i);
        if (tp_program_run(p, in, inputs, out, outputs))
            tp_values_unref(out, outputs);
        tp_values_unref(in, inputs);
        tp_error_clear();
    }
    if (!tp_program_to_c(p, NULL, true, &text) || !tp_program_to_onnx(p, &text))
        tp_error_clear();
    tp_text_fini(&text);
}

static void read_model(const char *text, size_t length)
{
    tp_program *p = tp_program_new();
    tp_text again = { 0 };
    if (p && tp_pt2_read_model(p, text, length, TP_PT2_MAJOR)) {
        for (size_t i = 0; i < tp_program_input_count(p); i++) {
            tp_value fact;
            (void)tp_program_input(p, i, &fact);
        }
        if (!tp_pt2_write_model(p, &again))
            tp_error_clear();
        use(p);
    }
    tp_text_fini(&again);
    tp_program_unref(p);
}

static void one_input(const char *text, size_t length)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text again = { 0 };
    tp_sym x = env ? tp_pt2_parse(env, text) : TP_SYM_FAILED;
    if (!tp_sym_is_failed(x) && !tp_pt2_print(x, &again))
        tp_error_clear();
    tp_text_fini(&again);
    tp_shape_env_unref(env);
    tp_error_clear();
    read_model(text, length);
}

TP_FUZZ_MAIN(seeds, one_input)
