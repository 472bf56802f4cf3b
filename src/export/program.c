/* program.c - the life of a program, and running it. */
#include "export/program.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/runtime.h"
#include "ops/arguments.h"
#include "ops/dispatch.h"

tp_program *tp_program_new(void)
{
    tp_program *p = tp_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    p->refs = (tp_count){ 1 };
    tp_arena_init(&p->arena);
    p->dialect = "TRAINING";
    if (!tp_the_runtime.default_dtype)
        tp_the_runtime.default_dtype = TP_f32;      /* without Python nobody else has said so */
    return p;
}

tp_program *tp_program_ref(tp_program *p)
{
    tp_count_up(&p->refs);
    return p;
}

void tp_program_unref(tp_program *p)
{
    if (!p || !tp_count_down(&p->refs))
        return;
    tp_guards_free(p->guards);
    tp_plan_free(p->plan);
    tp_graph_unref(p->graph);
    for (size_t i = 0; i < p->state_count; i++)
        tp_tensor_unref(p->state[i].tensor);
    for (size_t i = 0; i < p->constant_count; i++)
        tp_tensor_unref(p->constant[i].tensor);
    tp_arena_fini(&p->arena);
    tp_free(p);
}

tp_program *tp_program_load(const char *path)
{
    tp_zip *z = tp_zip_open(path, TP_ZIP_MAP);
    tp_program *p = z ? tp_program_read(z) : NULL;
    tp_zip_unref(z);
    return p;
}

/* The folder of everything inside the archive: the name of the file without folders and ending. */
static void stem(const char *path, char out[256])
{
    const char *name = strrchr(path, '/');
    snprintf(out, 256, "%s", name ? name + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = 0;
    if (!*out)
        snprintf(out, 256, "archive");
}

bool tp_program_save(const tp_program *p, const char *path)
{
    char root[256];
    stem(path, root);
    tp_zip_writer *w = tp_zip_writer_new_file(root, path);
    bool ok = w && tp_program_write(p, w) && tp_zip_add_id(w) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    return ok;
}

/* ---- asking ---- */
static bool is_user_output(const tp_output_spec *o)
{
    return o->kind == TP_OUTPUT_USER || o->kind == TP_OUTPUT_LOSS;
}

size_t tp_program_input_count(const tp_program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->signature.input_count; i++)
        count += p->signature.input[i].kind == TP_INPUT_USER;
    return count;
}

size_t tp_program_output_count(const tp_program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->signature.output_count; i++)
        count += is_user_output(&p->signature.output[i]);
    return count;
}

const char *tp_program_input(const tp_program *p, size_t i, tp_value *fact)
{
    size_t row = 0, at = 0;
    tp_graph_each(p->graph, n)
    {
        if (n->kind != TP_PLACEHOLDER || row >= p->signature.input_count || p->signature.input[row++].kind != TP_INPUT_USER)
            continue;
        if (at++ == i) {
            *fact = n->fact;
            return n->name;
        }
    }
    *fact = tp_none();
    return NULL;
}

tp_tensor *tp_program_state(const tp_program *p, const char *name)
{
    for (size_t i = 0; i < p->state_count; i++)
        if (strcmp(p->state[i].name, name) == 0)
            return p->state[i].tensor;
    for (size_t i = 0; i < p->constant_count; i++)
        if (strcmp(p->constant[i].name, name) == 0)
            return p->constant[i].tensor;
    return NULL;
}

/* ---- running ---- */
static tp_tensor *state_of(const tp_program *p, const char *name)
{
    tp_tensor *t = tp_program_state(p, name);
    return t ? t : tp_fail(TP_ERR_RUNTIME, "the program has no state %s", name);
}

/* The value of each placeholder, borrowed. */
static bool fill_inputs(const tp_program *p, const tp_value *input, tp_value *all)
{
    for (size_t i = 0, user = 0; i < p->signature.input_count; i++) {
        const tp_input_spec *s = &p->signature.input[i];
        if (s->kind == TP_INPUT_USER) {
            all[i] = input[user++];
            continue;
        }
        tp_tensor *t = s->target ? state_of(p, s->target) : NULL;
        if (!t)
            return s->target ? false : tp_fail(TP_ERR_UNIMPLEMENTED, "programs with tokens or objects among their inputs");
        all[i] = tp_of_tensor(t);
    }
    return true;
}

static bool write_back(const tp_program *p, const tp_output_spec *o, const tp_value *all, tp_value from)
{
    const tp_op *copy = tp_op_find("aten", "copy_", "");
    for (size_t i = 0; i < p->signature.input_count; i++) {
        const tp_input_spec *s = &p->signature.input[i];
        const char *name = o->kind == TP_OUTPUT_INPUT ? s->name : s->target;
        if ((o->kind == TP_OUTPUT_INPUT) != (s->kind == TP_INPUT_USER) || !name || strcmp(name, o->target) != 0)
            continue;
        tp_value result, arg[] = { all[i], from, tp_bool(false) };
        if (!copy || !tp_op_check_args(copy, arg) || !tp_call(copy, arg, &result))
            return copy ? false : tp_fail(TP_ERR_UNIMPLEMENTED, "aten::copy_ is not there");
        tp_value_unref(result);
        return true;
    }
    return tp_fail(TP_ERR_RUNTIME, "the program writes to %s, which is no input", o->target);
}

static bool hand_out(const tp_program *p, const tp_value *all, tp_value result, tp_value *output)
{
    size_t made = 0;
    if (tp_length(result) != p->signature.output_count)
        return tp_fail(TP_ERR_RUNTIME, "the graph gave %u results, its signature says %zu", tp_length(result), p->signature.output_count);
    for (size_t i = 0; i < p->signature.output_count; i++)
        if (is_user_output(&p->signature.output[i]))
            output[made++] = tp_value_ref(result.list->item[i]);
    for (size_t i = 0; i < p->signature.output_count; i++) {
        const tp_output_spec *o = &p->signature.output[i];
        if ((o->kind == TP_OUTPUT_BUFFER || o->kind == TP_OUTPUT_INPUT) && !write_back(p, o, all, result.list->item[i])) {
            tp_values_unref(output, made);
            return false;
        }
    }
    return true;
}

static const char *input_name(void *data, size_t i)
{
    tp_value fact;
    const char *name = tp_program_input(data, i, &fact);
    return name ? name : "an input";
}

bool tp_program_run(tp_program *p, const tp_value *input, size_t count, tp_value *output, size_t output_count)
{
    if (count != tp_program_input_count(p) || output_count != tp_program_output_count(p))
        return tp_fail(TP_ERR_TYPE, "the program takes %zu inputs and gives %zu outputs, not %zu and %zu", tp_program_input_count(p),
                       tp_program_output_count(p), count, output_count);
    if (!tp_inputs_check(p->graph, &p->signature, input, count, input_name, p))
        return false;
    if (p->guard_count && !p->guards && !(p->guards = tp_guards_new(p->graph, &p->signature, p->guard, p->guard_count)))
        return false;
    if (!tp_guards_check(p->guards, input, count))
        return false;
    if (!p->plan) {
        if (!(p->plan = tp_plan_new(p->graph, NULL)))
            return false;
        tp_plan_check_args(p->plan);
    }
    tp_value *all = tp_alloc_array(p->signature.input_count + 1, sizeof *all), result = tp_none();
    bool ok = all && fill_inputs(p, input, all) && tp_plan_run(p->plan, all, (uint32_t)p->signature.input_count, &result);
    if (ok) {
        ok = hand_out(p, all, result, output);
        tp_value_unref(result);
    }
    tp_free(all);
    return ok;
}
