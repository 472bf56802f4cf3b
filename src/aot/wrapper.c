/* wrapper.c - calls of compiled programs: forward, tape node, writes, views. */
#include "aot/wrapper.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "gen/ops.h"
#include "ops/known.h"
#include "ops/copy.h"

enum { FEW = 48 };

/* ---- the tape node ---- */
typedef struct compiled_node {
    tp_grad_node node;              /* one edge for each input, one slot for each tangent */
    tp_aot_function *function;      /* counted */
    tp_value *sizes;                /* owned array of saved_sizes */
    tp_saved saved[];               /* saved_tensors */
} compiled_node;

static compiled_node *node_of(tp_grad_node *n)
{
    return (compiled_node *)(void *)n;
}

static bool need_backward(tp_aot_function *f)
{
    tp_aot_code code = { 0 };
    if (f->backward.call)
        return true;
    if (!f->compile_backward(f->host, &code))
        return false;
    f->backward = code;
    return true;
}

/* The gradient of a slot as the backward was traced with it: there, and row by row. */
static bool prepare_gradient(const tp_slot *s, tp_value g, tp_value *out)
{
    if (g.tag == TP_TENSOR) {
        if (tp_tensor_is_contiguous(g.tensor)) {
            *out = tp_value_ref(g);
            return true;
        }
        tp_value arg[2] = { g, tp_of_format(TP_FORMAT_CONTIGUOUS) };
        return tp_call(&tp_op_clone, arg, out);
    }
    tp_value sizes = tp_value_ints(s->size, s->ndim);
    tp_value arg[5] = { sizes, tp_of_dtype((tp_dtype)s->dtype), { .tag = TP_LAYOUT }, tp_of_device(s->device), tp_none() };
    bool ok = sizes.tag == TP_LIST && tp_call(&tp_op_zeros, arg, out);
    tp_value_unref(sizes);
    return ok;
}

static bool call_backward(compiled_node *n, const tp_value *g, tp_value *in, tp_value *out)
{
    tp_aot_function *f = n->function;
    uint32_t at = 0;
    bool ok = need_backward(f);
    for (uint32_t i = 0; ok && i < f->saved_sizes; i++)
        in[at++] = tp_value_ref(n->sizes[i]);
    for (uint32_t i = 0; ok && i < f->saved_tensors; i++)
        if ((ok = tp_saved_unpack(&n->saved[i], &n->node, &in[at])))
            at++;
    for (uint32_t i = 0; ok && i < n->node.slot_count; i++)
        if ((ok = prepare_gradient(&n->node.slot[i], g[i], &in[at])))
            at++;
    bool grad_mode = tp_self.grad_mode;
    tp_self.grad_mode = false;
    ok = ok && f->backward.call(f->backward.context, in, at, out, n->node.edge_count);
    tp_self.grad_mode = grad_mode;
    tp_values_unref(in, at);
    return ok;
}

/* Gradients of these gradients: asked for only by a second backward through the first. */
static bool refuse(tp_grad_node *n, const tp_value *g, tp_value *out)
{
    (void)n, (void)g, (void)out;
    return tp_fail(TP_ERR_RUNTIME, "torch.compile with aot_autograd does not currently support double backward");
}

static const char *refuse_name(const tp_grad_node *n)
{
    (void)n;
    return "CompiledFunctionBackwardBackward";
}

static const tp_grad_kind refusal = { .apply = refuse, .name = refuse_name };

static bool mark_refusal(compiled_node *n, const tp_value *g, tp_value *out)
{
    bool recorded = false;
    for (uint32_t i = 0; i < n->node.slot_count; i++)
        recorded |= g[i].tag == TP_TENSOR && tp_requires_grad(g[i].tensor);
    for (uint32_t i = 0; i < n->node.edge_count; i++)
        recorded |= n->node.edge[i].node != NULL;
    tp_grad_node *second = recorded ? tp_grad_node_new(&refusal, sizeof *second, 1, n->node.edge_count) : NULL;
    if (recorded && !second)
        return false;
    bool ok = true;
    for (uint32_t i = 0; ok && recorded && i < n->node.edge_count; i++) {
        tp_tensor *t = tp_as_tensor(out[i]);
        if (!t || !tp_dtype_is_inexact((tp_dtype)t->dtype))
            continue;
        tp_tensor *own = tp_detach(t);
        ok = own && tp_slot_describe(second, i, own) && tp_set_history(own, second, i);
        tp_tensor_unref(ok ? t : own);
        if (ok)
            out[i].tensor = own;
    }
    /* Any edge makes the tape come here; the first one of the forward will do. */
    for (uint32_t i = 0; ok && second && !second->edge[0].node && i < n->node.edge_count; i++)
        if (n->node.edge[i].node)
            second->edge[0] = (tp_edge){ tp_grad_node_ref(n->node.edge[i].node), n->node.edge[i].slot };
    tp_grad_node_unref(second);
    return ok;
}

static bool apply(tp_grad_node *node, const tp_value *g, tp_value *out)
{
    compiled_node *n = node_of(node);
    const tp_aot_function *f = n->function;
    uint32_t count = f->saved_sizes + f->saved_tensors + node->slot_count;
    tp_value few[FEW], *in = count <= FEW ? few : tp_alloc_array(count, sizeof *in);
    bool ok = in && call_backward(n, g, in, out);
    if (ok && tp_self.grad_mode && !mark_refusal(n, g, out)) {
        tp_values_unref(out, node->edge_count);
        ok = false;
    }
    for (uint32_t i = 0; ok && i < node->edge_count; i++)
        if (out[i].tag != TP_TENSOR) {
            tp_value_unref(out[i]);
            out[i] = tp_none();
        }
    if (in != few)
        tp_free(in);
    return ok;
}

static void release(tp_grad_node *node)
{
    compiled_node *n = node_of(node);
    for (uint32_t i = 0; i < n->function->saved_tensors; i++)
        tp_saved_release(&n->saved[i]);
}

static void free_node(tp_grad_node *node)
{
    compiled_node *n = node_of(node);
    if (!n->function)
        return;
    release(node);
    if (n->sizes)
        tp_values_unref(n->sizes, n->function->saved_sizes);
    tp_free(n->sizes);
    tp_aot_function_unref(n->function);
}

static const char *node_name(const tp_grad_node *n)
{
    (void)n;
    return "CompiledFunctionBackward";
}

static const tp_grad_kind compiled_kind = {
    .apply = apply, .release = release, .free = free_node, .name = node_name, .undefined_ok = true,
};

/* ---- making the node ---- */

/* The tensors that others know too, in a map: those of the caller, and results, by their slot of the node. */
static const uint64_t given = UINT64_MAX;

static bool know_inputs(const tp_aot_facts *f, const tp_value *in, tp_map *known)
{
    for (uint32_t i = 0; i < f->input_count; i++)
        if (in[i].tag == TP_TENSOR && !tp_map_put(known, (uintptr_t)in[i].tensor, given))
            return false;
    return true;
}

/* A result that is a tensor of the caller must not be given another history: the graph handed it through. */
static bool own_result(tp_value *v, const tp_map *known)
{
    uint64_t at;
    if (!tp_map_get(known, (uintptr_t)v->tensor, &at) || at != given)
        return true;
    tp_tensor *own = tp_detach(v->tensor);
    if (!own)
        return false;
    tp_tensor_unref(v->tensor);
    v->tensor = own;
    return true;
}

static bool know_results(const tp_aot_facts *f, tp_value *result, tp_map *known)
{
    for (uint32_t i = 0; i < f->tangent_count; i++) {
        tp_value *v = &result[f->tangent[i]];
        if (v->tag == TP_TENSOR && (!own_result(v, known) || !tp_map_put(known, (uintptr_t)v->tensor, i)))
            return false;
    }
    return true;
}

/* What is kept must not lead back to the node: results without their history, other values without what they look at. */
static bool save(compiled_node *n, const tp_map *known, const tp_value *result)
{
    const tp_aot_function *f = n->function;
    const tp_value *saved = result + tp_aot_result_count(&f->facts);
    for (uint32_t i = 0; i < f->saved_tensors; i++) {
        tp_tensor *t = tp_as_tensor(saved[i]);
        uint64_t at = 0;
        bool found = t && tp_map_get(known, (uintptr_t)t, &at), ok;
        if (found && at != given) {
            ok = tp_save_value(&n->saved[i], saved[i], true, (uint32_t)at);
        } else if (t && t->autograd && !found) {
            tp_tensor *bare = tp_detach(t);
            ok = bare && tp_save_value(&n->saved[i], tp_of_tensor(bare), false, 0);
            tp_tensor_unref(bare);
        } else {
            ok = tp_save_value(&n->saved[i], saved[i], false, 0);
        }
        if (!ok)
            return false;
    }
    for (uint32_t i = 0; i < f->saved_sizes; i++)
        n->sizes[i] = tp_value_ref(saved[f->saved_tensors + i]);
    return true;
}

static bool any_gradient(const tp_aot_facts *f, const tp_value *in)
{
    for (uint32_t i = 0; i < f->input_count; i++)
        if (f->input[i].requires_grad && in[i].tag == TP_TENSOR && tp_requires_grad(in[i].tensor))
            return true;
    return false;
}

static bool fill_node(compiled_node *n, const tp_value *in, const tp_map *known, tp_value *result)
{
    const tp_aot_facts *f = &n->function->facts;
    for (uint32_t i = 0; i < f->input_count; i++)
        if (f->input[i].requires_grad && in[i].tag == TP_TENSOR && !tp_gradient_edge(in[i].tensor, &n->node.edge[i]))
            return false;
    if (!save(n, known, result))
        return false;
    for (uint32_t i = 0; i < f->tangent_count; i++) {
        tp_tensor *t = tp_as_tensor(result[f->tangent[i]]);
        if (t && (!tp_slot_describe(&n->node, i, t) || !tp_set_history(t, &n->node, i)))
            return false;
    }
    return true;
}

static bool make_node(tp_aot_function *f, const tp_value *in, const tp_map *known, tp_value *result)
{
    const tp_aot_facts *facts = &f->facts;
    size_t bytes = sizeof(compiled_node) + f->saved_tensors * sizeof(tp_saved);
    compiled_node *n = node_of(tp_grad_node_new(&compiled_kind, bytes, facts->input_count, facts->tangent_count));
    if (!n)
        return false;
    n->sizes = NULL;
    memset(n->saved, 0, f->saved_tensors * sizeof *n->saved);
    n->function = tp_aot_function_ref(f);
    bool ok = !f->saved_sizes || (n->sizes = tp_alloc_zero(f->saved_sizes * sizeof *n->sizes));
    ok = ok && fill_node(n, in, known, result);
    tp_grad_node_unref(&n->node);
    return ok;
}

static bool record(tp_aot_function *f, const tp_value *in, tp_value *result)
{
    tp_map known = { 0 };
    if (!f->facts.tangent_count || !any_gradient(&f->facts, in))
        return true;
    bool ok = know_inputs(&f->facts, in, &known) && know_results(&f->facts, result, &known) && make_node(f, in, &known, result);
    tp_map_fini(&known);
    return ok;
}

/* ---- inputs that were written ---- */
static bool restride(tp_tensor *t, const tp_tensor *like)
{
    tp_value size = tp_value_ints(like->size, like->ndim), stride = tp_value_ints(like->stride, like->ndim), done;
    tp_value arg[4] = { tp_of_tensor(t), size, stride, tp_int(like->offset) };
    bool ok = size.tag == TP_LIST && stride.tag == TP_LIST && tp_call(&tp_op_as_strided_, arg, &done);
    if (ok)
        tp_value_unref(done);
    tp_value_unref(size);
    tp_value_unref(stride);
    return ok;
}

static bool copy_into(tp_tensor *to, tp_value from)
{
    tp_value done, arg[3] = { tp_of_tensor(to), from, tp_bool(false) };
    bool ok = tp_call(&tp_op_copy_, arg, &done);
    if (ok)
        tp_value_unref(done);
    return ok;
}

static bool copy_quietly(const tp_aot_input *f, tp_tensor *to, tp_value from)
{
    bool grad_mode = tp_self.grad_mode;
    tp_tensor *plain = f->hidden ? tp_detach(to) : tp_tensor_ref(to);
    tp_self.grad_mode = false;
    bool ok = plain && copy_into(plain, from);
    tp_self.grad_mode = grad_mode;
    tp_tensor_unref(plain);
    return ok;
}

static bool write_back(const tp_aot_input *f, tp_tensor *to, tp_value now)
{
    if (now.tag != TP_TENSOR)
        return tp_fail(TP_ERR_RUNTIME, "the compiled graph gave no tensor for an input that it writes");
    if (f->metadata && !restride(to, now.tensor))
        return false;
    if (!f->data)
        return true;
    return f->hidden || f->no_grad ? copy_quietly(f, to, now) : copy_into(to, now);
}

static bool write_inputs(const tp_aot_facts *f, const tp_value *in, const tp_value *result)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < f->input_count && at < f->returned_count; i++)
        if (f->input[i].returned && !write_back(&f->input[i], in[i].tensor, result[at++]))
            return false;
    return true;
}

/* ---- outputs ---- */

/* The view again by its sizes and strides. */
static tp_tensor *view_like(tp_tensor *base, const tp_tensor *like)
{
    tp_value size = tp_value_ints(like->size, like->ndim), stride = tp_value_ints(like->stride, like->ndim), out;
    tp_value arg[4] = { tp_of_tensor(base), size, stride, tp_int(like->offset) };
    bool ok = size.tag == TP_LIST && stride.tag == TP_LIST && tp_call(&tp_op_as_strided, arg, &out);
    tp_value_unref(size);
    tp_value_unref(stride);
    return ok ? out.tensor : NULL;
}

static tp_tensor *view_again(const tp_aot_output *o, tp_tensor *base, tp_value shown)
{
    if (!base)
        return tp_fail(TP_ERR_RUNTIME, "the compiled graph gave no tensor for the base of an output");
    if (!o->recipe && shown.tag != TP_TENSOR)
        return tp_fail(TP_ERR_RUNTIME, "the compiled graph gave no tensor for an output that is a view");
    tp_tensor *t = o->recipe ? tp_recipe_follow(o->recipe, base) : view_like(base, shown.tensor);
    if (!t || tp_requires_grad(t) == o->requires_grad)
        return t;
    if (o->requires_grad && tp_self.grad_mode && !tp_requires_grad(base)) {
        if (tp_set_requires_grad(t, true))
            return t;
    } else if (o->requires_grad) {
        return t;                   /* called where nothing requires a gradient any more */
    } else {
        tp_tensor *plain = tp_detach(t);
        tp_tensor_unref(t);
        return plain;
    }
    tp_tensor_unref(t);
    return NULL;
}

static bool give_output(const tp_aot_facts *f, const tp_value *in, tp_value *result, uint32_t i, tp_value *out)
{
    const tp_aot_output *o = &f->output[i];
    tp_value *outputs = result + f->returned_count, *bases = outputs + f->output_count + f->moved_count, shown = outputs[i];
    tp_tensor *t = NULL;
    switch ((tp_aot_kind)o->kind) {
    case TP_AOT_CONSTANT: *out = tp_value_ref(o->constant); return true;
    case TP_AOT_FRESH:
        *out = shown;
        outputs[i] = tp_none();
        return true;
    case TP_AOT_INPUT: *out = tp_value_ref(in[o->base]); return true;
    case TP_AOT_OF_INPUT: t = view_again(o, in[o->base].tensor, shown); break;
    case TP_AOT_OF_OUTPUT: t = view_again(o, tp_as_tensor(out[(int64_t)o->base - (int64_t)i]), shown); break;
    case TP_AOT_OF_BASE: t = view_again(o, tp_as_tensor(bases[o->base]), shown); break;
    }
    *out = tp_of_tensor(t);
    return t != NULL;
}

static bool give_outputs(const tp_aot_facts *f, const tp_value *in, tp_value *result, tp_value *out)
{
    for (int pass = 0; pass < 2; pass++)            /* views of other outputs come last */
        for (uint32_t i = 0; i < f->output_count; i++)
            if ((f->output[i].kind == TP_AOT_OF_OUTPUT) == (pass == 1) && !give_output(f, in, result, i, &out[i])) {
                tp_values_unref(out, f->output_count);
                return false;
            }
    return true;
}

/* One of several views of an input, made inside the graph: the caller's tape must know what it is. */
static bool note_views(const tp_aot_facts *f, const tp_value *in, tp_value *result)
{
    for (uint32_t i = 0; i < f->output_count; i++) {
        const tp_aot_output *o = &f->output[i];
        tp_tensor *t = o->of_many ? tp_as_tensor(result[f->returned_count + i]) : NULL;
        if (t && in[o->base].tensor->storage == t->storage && !tp_set_view(t, in[o->base].tensor, TP_VIEW_MULTI))
            return false;
    }
    return true;
}

/* ---- overlapping inputs ---- */

/* The tensor that all faces of one input look into: what autograd says they are views of, or all of their memory. */
tp_tensor *tp_aot_common_base(const tp_aot_faces *f, uint32_t input, const tp_value *face)
{
    tp_tensor *first = NULL;
    bool gradients = false;
    for (uint32_t i = 0; i < f->count; i++) {
        tp_tensor *t = f->item[i].input == input ? tp_as_tensor(face[i]) : NULL;
        if (!t)
            continue;
        if (tp_aot_view_base(t))
            return tp_tensor_ref(tp_aot_view_base(t));
        gradients |= tp_requires_grad(t);
        first = first ? first : t;
    }
    if (!first)
        return tp_fail(TP_ERR_TYPE, "an input that was a tensor when the program was compiled is none now");
    return gradients ? tp_tensor_ref(first) : tp_aot_whole_memory(first);
}

tp_tensor *tp_aot_whole_memory(const tp_tensor *t)
{
    int64_t size[1] = { (int64_t)(t->storage->bytes / tp_dtype_bytes((tp_dtype)t->dtype)) }, stride[1] = { 1 };
    return tp_tensor_view(t, 1, size, stride, 0);
}

/* The inputs of the graph from those of the caller; bases are counted in `held`. */
static bool gather_inputs(const tp_aot_facts *f, const tp_value *face, tp_value *in, tp_value *held)
{
    const tp_aot_faces *faces = &f->faces;
    for (uint32_t i = 0; i < faces->count; i++) {
        const tp_aot_face *at = &faces->item[i];
        if (!at->view) {
            in[at->input] = face[i];
        } else if (held[at->input].tag != TP_TENSOR) {
            held[at->input] = tp_of_tensor(tp_aot_common_base(faces, at->input, face));
            in[at->input] = held[at->input];
            if (in[at->input].tag != TP_TENSOR)
                return false;
        }
    }
    return true;
}

static bool move_faces(const tp_aot_facts *f, const tp_value *face, const tp_value *result)
{
    const tp_value *moved = result + f->returned_count + f->output_count;
    for (uint32_t i = 0, at = 0; i < f->faces.count && at < f->moved_count; i++)
        if (f->faces.item[i].metadata && !restride(face[i].tensor, moved[at++].tensor))
            return false;
    return true;
}

/* ---- a call ---- */
static bool check_inputs(const tp_aot_function *f, const tp_value *in)
{
    for (uint32_t i = 0; i < f->facts.input_count; i++)
        if (f->facts.input[i].tensor && in[i].tag == TP_TENSOR && !f->facts.input[i].requires_grad && tp_requires_grad(in[i].tensor))
            return tp_fail(TP_ERR_ASSERTION, "At compilation time, graph %lld was compiled under the assumption that input %u would not require grad, "
                           "but at runtime this was not the case.  This indicates a guard bug in AOTAutograd or Dynamo, please file a bug to PyTorch.",
                           LL(f->id), i);
    return true;
}

static bool check_kinds(const tp_aot_facts *f, const tp_value *in)
{
    for (uint32_t i = 0; i < f->input_count; i++)
        if (f->input[i].tensor && in[i].tag != TP_TENSOR)
            return tp_fail(TP_ERR_TYPE, "input %u was a tensor when the program was compiled", i);
    return true;
}

static bool run_forward(const tp_aot_function *f, const tp_value *in, tp_value *result, uint32_t count)
{
    bool grad_mode = tp_self.grad_mode;
    tp_self.grad_mode = false;
    bool ok = f->forward.call(f->forward.context, in, f->facts.input_count, result, count);
    tp_self.grad_mode = grad_mode;
    return ok;
}

/* From the inputs of the graph, and those of the caller, to the outputs. */
static bool call(tp_aot_function *f, const tp_value *in, const tp_value *face, tp_value *out)
{
    const tp_aot_facts *facts = &f->facts;
    uint32_t count = tp_aot_result_count(facts) + f->saved_tensors + f->saved_sizes;
    tp_value few[FEW], *result = count <= FEW ? few : tp_alloc_array(count, sizeof *result);
    if (!result)
        return false;
    bool ran = check_kinds(facts, in) && (!f->checks || check_inputs(f, in)) && run_forward(f, in, result, count);
    bool ok = ran && (!facts->training || !tp_self.grad_mode || (note_views(facts, face, result) && record(f, in, result)));
    ok = ok && (!facts->returned_count || write_inputs(facts, in, result)) && (!facts->moved_count || move_faces(facts, face, result)) &&
         give_outputs(facts, face, result, out);
    if (ran)
        tp_values_unref(result, count);
    if (result != few)
        tp_free(result);
    return ok;
}

bool tp_aot_function_call(tp_aot_function *f, const tp_value *face, tp_value *out)
{
    const tp_aot_facts *facts = &f->facts;
    for (uint32_t i = 0; i < facts->output_count; i++)
        out[i] = tp_none();
    if (!facts->faces.item)
        return call(f, face, face, out);
    tp_value *in = tp_alloc_zero(2 * ((size_t)facts->input_count + 1) * sizeof *in), *held = in + facts->input_count + 1;
    bool ok = in && gather_inputs(facts, face, in, held) && call(f, in, face, out);
    if (in)
        tp_values_unref(held, facts->input_count);
    tp_free(in);
    return ok;
}

/* ---- the function itself ---- */
tp_aot_function *tp_aot_function_new(tp_aot_facts *facts, tp_aot_code forward)
{
    tp_aot_function *f = tp_alloc_zero(sizeof *f);
    if (!f) {
        tp_aot_facts_fini(facts);
        if (forward.free)
            forward.free(forward.context);
        return NULL;
    }
    atomic_init(&f->refs, 1);
    f->facts = *facts;
    f->forward = forward;
    *facts = (tp_aot_facts){ 0 };
    return f;
}

tp_aot_function *tp_aot_function_ref(tp_aot_function *f)
{
    tp_count_up(&f->refs);
    return f;
}

void tp_aot_function_unref(tp_aot_function *f)
{
    if (!f || !tp_count_down(&f->refs))
        return;
    if (f->forward.free)
        f->forward.free(f->forward.context);
    if (f->backward.free)
        f->backward.free(f->backward.context);
    if (f->free_host)
        f->free_host(f->host);
    tp_aot_facts_fini(&f->facts);
    tp_free(f);
}
