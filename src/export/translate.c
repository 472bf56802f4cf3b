/* translate.c - see translate.h. */
#include "export/translate.h"

#include <string.h>

#include "base/alloc.h"
#include "export/onnx/model.h"
#include "fuse/c_writer.h"

/* What the placeholders of a program hold, by node id. */
typedef struct weights {
    const tp_tensor **constant; /* owned array */
    const char **name;          /* owned array */
} weights;

static bool weights_read(weights *w, const tp_program *p)
{
    const tp_signature *s = &p->signature;
    size_t row = 0;
    for (size_t i = 0; i < s->output_count; i++)
        if (s->output[i].kind != TP_OUTPUT_USER)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "a program that writes to '%s' has no form without memory of its own",
                           s->output[i].target);
    w->constant = tp_alloc_zero(sizeof *w->constant * (p->graph->node_count + 1));
    w->name = tp_alloc_zero(sizeof *w->name * (p->graph->node_count + 1));
    if (!w->constant || !w->name)
        return false;
    tp_graph_each(p->graph, n)
    {
        if (n->kind != TP_PLACEHOLDER || row == s->input_count)
            continue;
        const tp_input_spec *in = &s->input[row++];
        if (in->kind != TP_INPUT_USER && in->target) {
            w->name[n->id] = in->target;
            if (!(w->constant[n->id] = tp_program_state(p, in->target)))
                return tp_fail(TP_ERR_VALUE, "the program has no state called '%s'", in->target);
        }
    }
    return true;
}

static void weights_fini(weights *w)
{
    tp_free(w->constant);
    tp_free(w->name);
}

bool tp_program_to_c(const tp_program *p, const char *function, bool with_main, tp_text *out)
{
    weights w = { NULL, NULL };
    tp_c_source s = { .graph = p->graph, .function = function, .with_main = with_main };
    bool ok = weights_read(&w, p);
    s.constant = w.constant;
    s.name = w.name;
    ok = ok && tp_c_write(&s, out);
    weights_fini(&w);
    return ok;
}

bool tp_program_to_onnx(const tp_program *p, tp_text *out)
{
    weights w = { NULL, NULL };
    bool ok = weights_read(&w, p);
    tp_onnx_source s = { .graph = p->graph, .constant = w.constant, .name = w.name };
    ok = ok && tp_onnx_write(&s, out);
    weights_fini(&w);
    return ok;
}
