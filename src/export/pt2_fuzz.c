/* pt2_fuzz.c - broken models: each is read or refused, and what was read can be asked and written again. */
#include "base/fuzz.h"
#include "export/pt2.h"

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
