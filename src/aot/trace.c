/* trace.c - recording a program above functionalisation, and its backward with it. */
#include "aot/trace.h"

#include <stdio.h>

#include "base/alloc.h"
#include "gen/ops.h"
#include "ops/known.h"
#include "ops/symbolic.h"
#include "pass/pass.h"

typedef struct tracing {
    const tp_aot_facts *facts;
    const tp_value *in;             /* borrowed: fakes */
    tp_recorder   *recorder;        /* borrowed: the trace's */
    tp_functional *functional;      /* owned */
    tp_value *primal;               /* owned array: wrappers as the graph gets them, counted */
    tp_value *entry;                /* owned array: those, or copies of them that may be written; counted */
    tp_value *face;                 /* owned array: those as the program sees them; owned */
    tp_value *tangent;              /* owned array: wrappers, counted */
    tp_value *result;               /* owned array: wrappers and symbols that the forward returns, owned */
    tp_value *gradient;             /* owned array: one for each input, none where there is none */
    tp_list  *out;                  /* owned: what the program gave */
    bool     *written_before;       /* owned array: inputs that the forward wrote */
    uint32_t result_count;
} tracing;

/* A builder gave NULL: says why. */
static bool building_failed(const tracing *t)
{
    bool fine = tp_graph_check(tp_recorder_graph(t->recorder));
    (void)fine;
    return false;
}

/* ---- inputs ---- */
static bool add_inputs(tracing *t)
{
    const tp_aot_facts *f = t->facts;
    char name[32];
    for (uint32_t i = 0; i < f->input_count; i++) {
        snprintf(name, sizeof name, f->training ? "primals_%u" : "arg%u_1", f->training ? i + 1 : i);
        if (!tp_record_input(t->recorder, name, t->in[i]))
            return building_failed(t);
    }
    for (uint32_t i = 0; f->training && i < f->tangent_count; i++) {
        snprintf(name, sizeof name, "tangents_%u", i + 1);
        if (!tp_record_tangent(t->recorder, name, f->tangent_like[i]))
            return building_failed(t);
    }
    return true;
}

static bool wrap_inputs(tracing *t)
{
    const tp_aot_facts *f = t->facts;
    for (uint32_t i = 0; i < f->input_count; i++) {
        t->primal[i] = tp_none();
        if (!f->input[i].tensor)
            continue;
        tp_tensor *w = tp_functional_wrap(t->functional, t->in[i].tensor);
        t->primal[i] = tp_of_tensor(w);
        if (!w || (f->input[i].requires_grad && !(f->input[i].leaf ? tp_set_requires_grad(w, true) : tp_aot_stand_in(w))))
            return false;
    }
    for (uint32_t i = 0; f->training && i < f->tangent_count; i++)
        if ((t->tangent[i] = tp_of_tensor(tp_functional_wrap(t->functional, f->tangent_like[i]))).tag != TP_TENSOR)
            return false;
    return true;
}

static tp_value sizes_of(const tp_tensor *t)
{
    tp_list *l = tp_list_new(t->ndim);
    for (int i = 0; l && i < t->ndim; i++)
        l->item[i] = tp_of_sym(tp_tensor_sym_size(t, i));
    return l ? tp_of_list(l) : tp_none();
}

/* An input that requires a gradient is a leaf here: the program writes into a copy, or another view, of it. */
static bool enter_input(tracing *t, uint32_t i)
{
    const tp_aot_input *f = &t->facts->input[i];
    tp_value w = t->primal[i];
    if (!f->tensor) {
        t->entry[i] = tp_value_ref(t->in[i]);
        return t->entry[i].tag == t->in[i].tag;
    }
    if (!t->facts->training || !f->requires_grad_after || !f->returned) {
        t->entry[i] = tp_value_ref(w);
        return true;
    }
    if (f->data)
        return tp_call1(&tp_op_clone, 1, &w, &t->entry[i]);
    tp_value arg[2] = { w, sizes_of(w.tensor) };
    bool ok = arg[1].tag == TP_LIST && tp_call(&tp_op_view, arg, &t->entry[i]);
    tp_value_unref(arg[1]);
    return ok;
}

/* ---- results ---- */
static bool add_result(tracing *t, tp_value borrowed)
{
    t->result[t->result_count] = tp_value_ref(borrowed);
    return t->result[t->result_count++].tag == borrowed.tag;
}

static bool changed_program(void)
{
    return tp_fail(TP_ERR_RUNTIME, "the program gave other outputs when it was traced than when it was studied: it must do the same each time");
}

static bool gather_results(tracing *t)
{
    const tp_aot_facts *f = t->facts;
    if (t->out->count != f->output_count)
        return changed_program();
    for (uint32_t i = 0; i < f->input_count; i++)
        if (f->input[i].returned && !add_result(t, t->entry[i]))
            return false;
    for (uint32_t i = 0; i < f->output_count; i++)
        if (!add_result(t, f->output[i].kind == TP_AOT_CONSTANT ? tp_none() : t->out->item[i]))
            return false;
    for (uint32_t i = 0; f->moved_count && i < f->faces.count; i++)
        if (f->faces.item[i].metadata && !add_result(t, t->face[i]))
            return false;
    for (uint32_t k = 0; k < f->base_count; k++) {
        tp_tensor *base = NULL;
        for (uint32_t i = 0; !base && i < f->output_count; i++)
            if (f->output[i].kind == TP_AOT_OF_BASE && f->output[i].base == k && t->out->item[i].tag == TP_TENSOR)
                base = tp_aot_view_base(t->out->item[i].tensor);
        if (!base)
            return changed_program();
        if (!add_result(t, tp_of_tensor(base)))
            return false;
    }
    return true;
}

/* ---- the backward ---- */
typedef struct request {
    tp_edge *root, *input;          /* owned arrays, nodes counted */
    tp_value *gradient, *captured;
    uint32_t *input_of;             /* which primal an edge belongs to */
    uint32_t root_count, input_count;
} request;

static bool fill_request(tracing *t, request *r)
{
    const tp_aot_facts *f = t->facts;
    for (uint32_t i = 0; i < f->tangent_count; i++) {
        if (!tp_record_tangent_sizes(t->recorder, f->tangent_like[i]))
            return false;
        tp_tensor *of = tp_as_tensor(t->result[f->tangent[i]]);
        tp_edge *edge = &r->root[r->root_count];
        if (!of || !tp_gradient_edge(of, edge))
            return of ? false : changed_program();
        r->gradient[r->root_count] = t->tangent[i];
        r->root_count += edge->node != NULL;
    }
    for (uint32_t i = 0; i < f->input_count; i++) {
        if (!f->input[i].tensor || !f->input[i].requires_grad)
            continue;
        if (!tp_gradient_edge(t->primal[i].tensor, &r->input[r->input_count]))
            return false;
        r->input_of[r->input_count++] = i;
    }
    return true;
}

static bool run_request(tracing *t, request *r)
{
    if (!r->root_count || !r->input_count)
        return true;
    tp_backward_request b = {
        .root = r->root, .gradient = r->gradient, .root_count = r->root_count, .input = r->input, .input_count = r->input_count,
        .captured = r->captured, .keep_graph = true,
    };
    if (!tp_backward_run(&b))
        return false;
    for (uint32_t i = 0; i < r->input_count; i++)
        t->gradient[r->input_of[i]] = r->captured[i];
    return true;
}

static bool run_backward(tracing *t)
{
    const tp_aot_facts *f = t->facts;
    request r = {
        .root = tp_alloc_zero((f->tangent_count + 1) * sizeof *r.root),
        .gradient = tp_alloc_zero((f->tangent_count + 1) * sizeof *r.gradient),
        .input = tp_alloc_zero((f->input_count + 1) * sizeof *r.input),
        .captured = tp_alloc_zero((f->input_count + 1) * sizeof *r.captured),
        .input_of = tp_alloc_zero((f->input_count + 1) * sizeof *r.input_of),
    };
    bool ok = r.root && r.gradient && r.input && r.captured && r.input_of && fill_request(t, &r) && run_request(t, &r);
    for (uint32_t i = 0; r.root && i < r.root_count; i++)
        tp_grad_node_unref(r.root[i].node);
    for (uint32_t i = 0; r.input && i < r.input_count; i++)
        tp_grad_node_unref(r.input[i].node);
    tp_free(r.root);
    tp_free(r.gradient);
    tp_free(r.input);
    tp_free(r.captured);
    tp_free(r.input_of);
    return ok;
}

/* ---- writes that stay ---- */

/* A node that must be in the backward graph, whatever it reads. */
static bool mark_backward(tp_node *n)
{
    tp_origin *o = tp_origin_new();
    if (!o)
        return false;
    o->backward = true;
    tp_node_set_origin(n, o);
    tp_origin_unref(o);
    return true;
}

static bool write_input(tracing *t, uint32_t i, bool backward)
{
    const tp_aot_input *f = &t->facts->input[i];
    tp_tensor *value = tp_functional_value(t->functional, t->primal[i].tensor);
    tp_value done, arg[3] = { t->in[i], tp_of_tensor(value), tp_bool(false) };
    bool grad_mode = tp_self.grad_mode;
    if (!value)
        return false;
    tp_self.grad_mode = false;
    bool ok = value == t->in[i].tensor || tp_call(f->storage ? &tp_op_set__source_Tensor : &tp_op_copy_, arg, &done);
    tp_self.grad_mode = grad_mode;
    if (ok && value != t->in[i].tensor) {
        tp_value_unref(done);
        tp_node *n = tp_record_node_of(t->recorder, t->in[i].tensor), *from = tp_record_node_of(t->recorder, value);
        if (n && from && !backward)         /* it stands for the program's last write */
            tp_node_set_origin(n, from->origin);
        ok = !backward || !n || mark_backward(n);
    }
    tp_tensor_unref(value);
    return ok;
}

static bool write_inputs(tracing *t)
{
    for (uint32_t i = 0; i < t->facts->input_count; i++)
        if (t->facts->input[i].in_graph && !write_input(t, i, false))
            return false;
    for (uint32_t i = 0; i < t->facts->input_count; i++) {
        bool late = t->primal[i].tag == TP_TENSOR && !t->written_before[i] && tp_functional_changes_of(t->functional, t->primal[i].tensor).data;
        if (t->facts->training && late && !write_input(t, i, true))
            return false;
    }
    return true;
}

/* Formulas may write elements of inputs, which then happens in the backward; nothing else. */
static bool check_backward_writes(const tracing *t)
{
    for (uint32_t i = 0; i < t->facts->input_count; i++)
        if (t->primal[i].tag == TP_TENSOR && tp_functional_changes_of(t->functional, t->primal[i].tensor).metadata &&
            !t->facts->input[i].metadata)
            return tp_fail(TP_ERR_ASSERTION, "Found an input that had its metadata mutated in the backward. This is not supported");
    for (uint32_t i = 0; i < t->facts->tangent_count; i++) {
        tp_functional_changes c = tp_functional_changes_of(t->functional, t->tangent[i].tensor);
        if (c.data || c.metadata)
            return tp_fail(TP_ERR_ASSERTION, "Found an input to the backward that was mutated during the backward. This is not supported");
    }
    return true;
}

/* ---- the output node ---- */
static bool lower_result(tracing *t, tp_value v, bool is_input, uint32_t input, tp_value *out)
{
    tp_value plain;
    if (is_input && t->facts->input[input].in_graph)        /* what the graph wrote: the node that wrote it */
        return tp_record_lower(t->recorder, t->in[input], out);
    if (!tp_functional_unwrap(t->functional, v, &plain))
        return false;
    bool ok = tp_record_lower(t->recorder, plain, out);
    tp_value_unref(plain);
    return ok;
}

static bool lower_all(tracing *t, tp_list *all)
{
    const tp_aot_facts *f = t->facts;
    for (uint32_t i = 0; i < t->result_count; i++) {
        uint32_t k = i - f->returned_count;
        bool output = i >= f->returned_count && k < f->output_count, is_input = output && f->output[k].kind == TP_AOT_INPUT;
        const tp_aot_face *face = is_input && f->faces.item ? &f->faces.item[f->output[k].base] : NULL;
        is_input = is_input && !(face && face->view);
        if (!lower_result(t, t->result[i], is_input, is_input ? face ? face->input : f->output[k].base : 0, &all->item[i]))
            return false;
    }
    for (uint32_t i = 0; f->training && i < f->input_count; i++)
        if (!lower_result(t, t->gradient[i], false, 0, &all->item[t->result_count + i]))
            return false;
    return true;
}

static bool add_output(tracing *t)
{
    const tp_aot_facts *f = t->facts;
    tp_list *all = tp_list_new(t->result_count + (f->training ? f->input_count : 0));
    if (!all)
        return false;
    tp_value v = { .tag = f->training ? TP_LIST : TP_TUPLE, .list = all };
    bool ok = lower_all(t, all) && (tp_record_output(t->recorder, v) || building_failed(t));
    tp_value_unref(v);
    return ok;
}

/* ---- the whole ---- */

/* Inside both tracers: the program, then the tape. */
static bool run_inside(tracing *t, const tp_aot_program *p)
{
    const tp_aot_facts *f = t->facts;
    for (uint32_t i = 0; i < f->input_count; i++)
        if (!enter_input(t, i))
            return false;
    if (!tp_aot_faces_show(&f->faces, t->entry, t->face) || !p->call(p->context, t->face, f->faces.count, &t->out))
        return false;
    for (uint32_t i = 0; i < f->input_count; i++)
        t->written_before[i] = t->primal[i].tag == TP_TENSOR && tp_functional_changes_of(t->functional, t->primal[i].tensor).data;
    t->result = tp_alloc_zero((tp_aot_result_count(f) + 1) * sizeof *t->result);
    return t->result && gather_results(t) && (!f->training || (run_backward(t) && check_backward_writes(t)));
}

static bool record(tracing *t, const tp_aot_program *p)
{
    if (!add_inputs(t))
        return false;
    tp_recorder_enter(t->recorder, TP_LAYER_TRACE_R);
    bool ok = wrap_inputs(t);
    if (ok) {
        tp_functional_enter(t->functional, TP_LAYER_TRACE_R);
        ok = run_inside(t, p);
        tp_functional_leave(t->functional);
    }
    ok = ok && write_inputs(t) && add_output(t);
    tp_recorder_leave(t->recorder);
    return ok;
}

static bool clean(tp_graph *g)
{
    tp_pass pass = { 0 };
    tp_arena_init(&pass.scratch);
    bool ok = tp_pass_dce(g, &pass) && tp_graph_check(g);
    tp_arena_fini(&pass.scratch);
    return ok;
}

bool tp_aot_trace_program(const tp_aot_program *p, const tp_value *in, const tp_aot_facts *facts, const tp_record_host *host, tp_aot_trace *out)
{
    uint32_t count = facts->input_count, tangents = facts->training ? facts->tangent_count : 0;
    *out = (tp_aot_trace){ .recorder = tp_recorder_new(host), .result_count = tp_aot_result_count(facts) };
    tracing t = {
        .facts = facts, .in = in, .recorder = out->recorder, .functional = tp_functional_new(),
        .primal = tp_alloc_zero((count + 1) * sizeof *t.primal), .entry = tp_alloc_zero((count + 1) * sizeof *t.entry),
        .face = tp_alloc_zero((facts->faces.count + 1) * sizeof *t.face),
        .tangent = tp_alloc_zero((tangents + 1) * sizeof *t.tangent), .gradient = tp_alloc_zero((count + 1) * sizeof *t.gradient),
        .written_before = tp_alloc_zero((count + 1) * sizeof *t.written_before),
    };
    bool ok = t.recorder && t.functional && t.primal && t.entry && t.face && t.tangent && t.gradient && t.written_before && record(&t, p) &&
              clean(tp_recorder_graph(t.recorder));
    if (t.gradient)
        tp_values_unref(t.gradient, count);
    if (t.result)
        tp_values_unref(t.result, t.result_count);
    if (t.out)
        tp_value_unref(tp_of_list(t.out));
    if (t.tangent)
        tp_values_unref(t.tangent, tangents);
    if (t.face)
        tp_values_unref(t.face, facts->faces.count);
    if (t.entry)
        tp_values_unref(t.entry, count);
    if (t.primal)
        tp_values_unref(t.primal, count);
    tp_free(t.written_before);
    tp_free(t.gradient);
    tp_free(t.result);
    tp_free(t.tangent);
    tp_free(t.face);
    tp_free(t.entry);
    tp_free(t.primal);
    tp_functional_free(t.functional);
    if (!ok)
        tp_aot_trace_fini(out);
    return ok;
}

void tp_aot_trace_fini(tp_aot_trace *t)
{
    tp_recorder_free(t->recorder);
    *t = (tp_aot_trace){ 0 };
}
