/* run.c - the executor of jit graphs. */
#include "jit/run.h"

#include "ops/arguments.h"
#include "ops/dispatch.h"

struct jit_step;
typedef bool step_fn(const struct jit_step *s, tp_value *slot, tp_value *out);

typedef struct jit_step {
    const tp_node *node;            /* borrowed from the graph */
    step_fn  *run;
    uint32_t  drop, drop_count;     /* in tp_jit_plan.drops: slots whose last reader this is */
} jit_step;

struct tp_jit_plan {
    tp_array(jit_step) step;
    tp_array(uint32_t) drops;
    tp_array(uint32_t) inputs;      /* slot of each input */
    tp_value output;                /* owned: a node, or none */
    uint32_t slots, live;           /* node_count and live_count of the graph: a pass that edited it changed one of them */
};

enum { MOST_ARGS = 64, MOST_RESULTS = 16 };

/* The value of the k-th argument: borrowed. */
static tp_value input(const jit_step *s, const tp_value *slot, uint32_t k)
{
    const tp_node *n = tp_as_node(s->node->arg[k]);
    return n ? slot[n->id] : s->node->arg[k];
}

/* ---- ops ---- */
tp_value tp_jit_fit(const tp_arg *a, tp_value v)
{
    if (v.tag == TP_INT || v.tag == TP_BOOL) {
        switch ((tp_type)a->type) {
        case TP_TYPE_DTYPE: v = tp_of_dtype(tp_jit_dtype_numbered(v.i)); break;
        case TP_TYPE_LAYOUT: v.tag = TP_LAYOUT; break;
        case TP_TYPE_FORMAT: v.tag = TP_FORMAT_VALUE; break;
        case TP_TYPE_FLOAT: v = tp_float((double)v.i); break;
        case TP_TYPE_BOOL: v = tp_bool(v.i != 0); break;
        default: break;
        }
    }
    if (v.tag == TP_TUPLE && a->list)
        v.tag = TP_LIST;
    return v;
}

static bool run_op(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_op *op = s->node->target.op;
    tp_value arg[MOST_ARGS], result[MOST_RESULTS];
    for (int i = 0; i < op->arg_count; i++)
        arg[i] = tp_jit_fit(&op->arg[i], input(s, slot, (uint32_t)i));
    if (!tp_op_check_args(op, arg) || !tp_call(op, arg, result))
        return false;
    if (op->result_count == 1) {
        *out = result[0];
        return true;
    }
    tp_list *list = op->result_count ? tp_list_new(op->result_count) : NULL;
    if (op->result_count && !list) {
        tp_values_unref(result, op->result_count);
        return false;
    }
    if (list)
        memcpy(list->item, result, op->result_count * sizeof *result);
    *out = list ? (tp_value){ .tag = TP_TUPLE, .list = list } : tp_none();
    return true;
}

/* What a file declares a value to be and what it is may differ. */
static void *misfit(const jit_step *s, const char *wanted)
{
    return tp_fail(TP_ERR_RUNTIME, "%s expected a value of type '%s'", s->node->target.name, wanted);
}

/* ---- containers ---- */
static bool run_constant(const jit_step *s, tp_value *slot, tp_value *out)
{
    (void)slot;
    const tp_value *v = tp_node_keyword(s->node, "value");
    *out = v ? tp_value_ref(*v) : tp_none();
    return true;
}

static bool construct(const jit_step *s, const tp_value *slot, tp_tag tag, tp_value *out)
{
    tp_list *list = tp_list_new(s->node->arg_count);
    if (!list)
        return false;
    for (uint32_t i = 0; i < s->node->arg_count; i++)
        list->item[i] = tp_value_ref(input(s, slot, i));
    *out = (tp_value){ .tag = (uint8_t)tag, .list = list };
    return true;
}

static bool run_list(const jit_step *s, tp_value *slot, tp_value *out) { return construct(s, slot, TP_LIST, out); }
static bool run_tuple(const jit_step *s, tp_value *slot, tp_value *out) { return construct(s, slot, TP_TUPLE, out); }
static bool run_dict(const jit_step *s, tp_value *slot, tp_value *out) { return construct(s, slot, TP_DICT, out); }

static bool run_unpack(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_value v = input(s, slot, 0);
    uint32_t want = tp_jit_note_of(s->node)->results;
    if (v.tag != TP_LIST && v.tag != TP_TUPLE)
        return misfit(s, "Tuple or List");
    if (tp_length(v) != want)
        return tp_fail(TP_ERR_RUNTIME, "Expected %u elements in a list but found %u", want, tp_length(v));
    *out = tp_value_ref(v);
    return out->tag != TP_NONE;
}

static bool run_result(const jit_step *s, tp_value *slot, tp_value *out)
{
    *out = tp_value_ref(input(s, slot, 0).list->item[s->node->arg[1].i]);
    return true;
}

static bool run_item(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_value v = input(s, slot, 0), key = input(s, slot, 1);
    if (v.tag == TP_DICT) {
        for (uint32_t i = 0; i + 1 < v.list->count; i += 2)
            if (tp_value_equal(v.list->item[i], key)) {
                *out = tp_value_ref(v.list->item[i + 1]);
                return true;
            }
        tp_text text = { 0 };
        tp_value_print(key, &text);
        (void)tp_fail(TP_ERR_RUNTIME, "KeyError: %s", tp_text_read(&text));
        tp_text_fini(&text);
        return false;
    }
    if ((v.tag != TP_LIST && v.tag != TP_TUPLE) || (key.tag != TP_INT && key.tag != TP_BOOL))
        return misfit(s, "List and int");
    int64_t i = tp_as_int(key), count = tp_length(v);
    if (i < 0)
        i += count;
    if (i < 0 || i >= count)
        return tp_fail(TP_ERR_INDEX, "list index out of range");
    *out = tp_value_ref(v.list->item[i]);
    return true;
}

/* ---- numbers ---- */
static bool run_to_tensor(const jit_step *s, tp_value *slot, tp_value *out)
{
    if (!tp_is_number(input(s, slot, 0)))
        return misfit(s, "number");
    tp_scalar n = tp_as_scalar(input(s, slot, 0));
    tp_dtype d = n.kind == TP_KIND_FLOAT ? TP_f64 : n.kind == TP_KIND_COMPLEX ? TP_c128 : n.kind == TP_KIND_BOOL ? TP_b8 : TP_i64;
    *out = (tp_value){ .tag = TP_TENSOR, .tensor = tp_tensor_new_scalar(d, n) };
    return out->tensor;
}

static bool read_number(const jit_step *s, tp_value *slot, tp_scalar *out)
{
    tp_value v = input(s, slot, 0);
    if (v.tag != TP_TENSOR) {
        if (!tp_is_number(v) || v.tag == TP_SYM)
            return misfit(s, "number");
        *out = tp_as_scalar(v);
        return true;
    }
    if (v.tensor->numel != 1)
        return tp_fail(TP_ERR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)v.tensor->numel);
    *out = tp_tensor_element(v.tensor, tp_tensor_data(v.tensor));
    return true;
}

static bool run_int(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_scalar n;
    if (!read_number(s, slot, &n))
        return false;
    *out = tp_int(tp_scalar_to_int(n));
    return true;
}

static bool run_float(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_scalar n;
    if (!read_number(s, slot, &n))
        return false;
    *out = tp_float(tp_scalar_to_double(n));
    return true;
}

static bool run_bool(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_scalar n;
    if (!read_number(s, slot, &n))
        return false;
    *out = tp_bool(!tp_scalar_is_zero(n));
    return true;
}

static bool run_scalar(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_scalar n;
    if (!read_number(s, slot, &n))
        return false;
    *out = tp_value_scalar(n);
    return out->tag != TP_NONE;
}

static bool run_size(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_tensor *t = tp_as_tensor(input(s, slot, 0));
    if (!t)
        return misfit(s, "Tensor");
    if (s->node->arg_count == 1) {
        *out = tp_value_ints(t->size, t->ndim);
        return out->tag == TP_LIST;
    }
    int64_t dim = tp_as_int(input(s, slot, 1));
    if (dim < -t->ndim || dim >= t->ndim)
        return tp_fail(TP_ERR_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -t->ndim, t->ndim - 1, (long long)dim);
    *out = tp_int(t->size[dim < 0 ? dim + t->ndim : dim]);
    return true;
}

static bool run_numel(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_tensor *t = tp_as_tensor(input(s, slot, 0));
    *out = tp_int(t ? t->numel : 0);
    return t || misfit(s, "Tensor");
}

static bool run_dim(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_tensor *t = tp_as_tensor(input(s, slot, 0));
    *out = tp_int(t ? t->ndim : 0);
    return t || misfit(s, "Tensor");
}

/* ---- modules and calls ---- */
static bool run_get_attr(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_jit_module *m = tp_jit_as_module(input(s, slot, 0));
    const char *name = tp_jit_attr_text(s->node, "name");
    const tp_jit_slot *found = m ? tp_jit_module_slot(m, name) : NULL;
    if (!found)
        return tp_fail(TP_ERR_ATTRIBUTE, "'%s' object has no attribute or method '%s'.", m ? m->type->name : "module", name);
    *out = tp_value_ref(found->value);
    return true;
}

static bool call(const jit_step *s, const tp_value *slot, tp_jit_function *f, uint32_t from, tp_value *out)
{
    uint32_t count = s->node->arg_count - from;
    tp_value arg[MOST_ARGS] = { { 0 } }, *many = arg;
    if (count > MOST_ARGS && !(many = tp_alloc_array(count, sizeof *many)))
        return false;
    for (uint32_t i = 0; i < count; i++)
        many[i] = input(s, slot, i + from);
    bool ok = tp_jit_run(f, many, count, out);
    if (many != arg)
        tp_free(many);
    return ok;
}

static bool run_method(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_jit_module *m = tp_jit_as_module(input(s, slot, 0));
    const char *name = tp_jit_attr_text(s->node, "name");
    tp_jit_function *f = m ? tp_jit_module_method(m, name) : NULL;
    if (!f)
        return tp_fail(TP_ERR_ATTRIBUTE, "'%s' object has no attribute or method '%s'.", m ? m->type->name : "module", name);
    return call(s, slot, f, 0, out);
}

static bool run_function(const jit_step *s, tp_value *slot, tp_value *out)
{
    tp_jit_function *f = tp_jit_as_function(input(s, slot, 0));
    return f ? call(s, slot, f, 1, out) : (bool)misfit(s, "function");
}

static bool run_python(const jit_step *s, tp_value *slot, tp_value *out)
{
    const tp_value *inplace = tp_node_keyword(s->node, "inplace");
    if (inplace && inplace->i)
        return tp_fail(TP_ERR_RUNTIME, "inplace %s not supported in the JIT", tp_jit_attr_text(s->node, "name"));
    if (!tp_the_runtime.python.call)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "the Python function %s needs Python", tp_jit_attr_text(s->node, "name"));
    tp_value arg[MOST_ARGS];
    if (s->node->arg_count > MOST_ARGS)
        return tp_fail(TP_ERR_RUNTIME, "too many arguments of a Python function");
    for (uint32_t i = 0; i < s->node->arg_count; i++)
        arg[i] = input(s, slot, i);
    return tp_the_runtime.python.call(s->node->target.handle, arg, s->node->arg_count, out);
}

/* ---- plans ---- */
static const struct { const char *kind; step_fn *run; } prims[] = {
    { "prim::Constant", run_constant },      { "prim::ListConstruct", run_list },   { "prim::TupleConstruct", run_tuple },
    { "prim::DictConstruct", run_dict },     { "prim::TupleUnpack", run_unpack },   { "prim::ListUnpack", run_unpack },
    { "prim::Result", run_result },          { "prim::GetAttr", run_get_attr },     { "prim::CallMethod", run_method },
    { "prim::CallFunction", run_function },  { "prim::NumToTensor", run_to_tensor }, { "aten::Int", run_int },
    { "aten::Float", run_float },            { "aten::Bool", run_bool },            { "aten::ScalarImplicit", run_scalar },
    { "aten::size", run_size },              { "aten::numel", run_numel },          { "aten::dim", run_dim },
    { "aten::__getitem__", run_item },       { "prim::TupleIndex", run_item },
};

static step_fn *step_of(const tp_node *n)
{
    if (n->target.kind == TP_TARGET_OP)
        return run_op;
    if (n->target.kind == TP_TARGET_HANDLE)
        return run_python;
    for (size_t i = 0; i < TP_COUNT(prims); i++)
        if (strcmp(prims[i].kind, n->target.name) == 0)
            return prims[i].run;
    return NULL;
}

void tp_jit_plan_free(tp_jit_plan *p)
{
    if (!p)
        return;
    tp_array_fini(&p->step);
    tp_array_fini(&p->drops);
    tp_array_fini(&p->inputs);
    tp_value_unref(p->output);
    tp_free(p);
}

static void note_reader(tp_node *in, void *data)
{
    uint32_t *last = ((uint32_t **)data)[0];
    last[in->id] = *((uint32_t **)data)[1];
}

static bool add_drops(tp_jit_plan *p, const tp_graph *g, const uint32_t *last)
{
    /* Counting sort of the slots by their last reader. */
    for (size_t i = 0; i < p->step.count; i++)
        p->step.item[i].drop_count = 0;
    tp_graph_each(g, n)
        if (n->kind == TP_CALL_FUNCTION && last[n->id] < p->step.count)
            p->step.item[last[n->id]].drop_count++;
    uint32_t total = 0;
    for (size_t i = 0; i < p->step.count; i++) {
        p->step.item[i].drop = total;
        total += p->step.item[i].drop_count;
        p->step.item[i].drop_count = 0;
    }
    if (!tp_array_reserve(&p->drops, total + 1))
        return false;
    tp_graph_each(g, n)
        if (n->kind == TP_CALL_FUNCTION && last[n->id] < p->step.count) {
            jit_step *s = &p->step.item[last[n->id]];
            p->drops.item[s->drop + s->drop_count++] = n->id;
        }
    p->drops.count = total;
    return true;
}

static bool add_steps(tp_jit_plan *p, const tp_graph *g, uint32_t *last)
{
    tp_graph_each(g, n) {
        uint32_t at = (uint32_t)p->step.count;
        if (n->kind == TP_PLACEHOLDER) {
            if (!tp_array_push(&p->inputs, n->id))
                return false;
            continue;
        }
        if (n->kind == TP_OUTPUT) {
            p->output = n->arg_count ? n->arg[0] : tp_none();
            tp_node_each_input(n, note_reader, (uint32_t *[]){ last, &(uint32_t){ UINT32_MAX } });
            continue;
        }
        char kind[160];
        jit_step s = { .node = n, .run = step_of(n) };
        if (!s.run)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "%s is not implemented in Taper's executor yet", tp_jit_kind_name(n, kind));
        last[n->id] = at;               /* nobody reads it: dropped at once */
        tp_node_each_input(n, note_reader, (uint32_t *[]){ last, &at });
        if (!tp_array_push(&p->step, s))
            return false;
    }
    return true;
}

static tp_jit_plan *plan_new(const tp_graph *g)
{
    tp_jit_plan *p = tp_alloc_zero(sizeof *p);
    uint32_t *last = tp_alloc_array(g->node_count + 1, sizeof *last);
    bool ok = p && last && add_steps(p, g, last) && add_drops(p, g, last);
    tp_free(last);
    if (ok) {
        p->slots = g->node_count;
        p->live = g->live_count;
        return p;
    }
    tp_jit_plan_free(p);
    return NULL;
}

static bool run_steps(const tp_jit_plan *p, tp_value *slot)
{
    for (size_t i = 0; i < p->step.count; i++) {
        const jit_step *s = &p->step.item[i];
        if (!s->run(s, slot, &slot[s->node->id]))
            return false;
        for (uint32_t d = 0; d < s->drop_count; d++) {
            tp_value *v = &slot[p->drops.item[s->drop + d]];
            tp_value_unref(*v);
            *v = tp_none();
        }
    }
    return true;
}

bool tp_jit_run(tp_jit_function *f, const tp_value *arg, uint32_t count, tp_value *result)
{
    enum { ON_STACK = 128 };
    tp_value few[ON_STACK], *slot = few;
    if (f->plan && (f->plan->slots != f->graph->node_count || f->plan->live != f->graph->live_count))
        tp_jit_function_changed(f);
    if (!f->plan && !(f->plan = plan_new(f->graph)))
        return false;
    const tp_jit_plan *p = f->plan;
    if (count != p->inputs.count)
        return tp_fail(TP_ERR_RUNTIME, "%s() expected at most %zu argument(s) but received %u argument(s).", f->name, p->inputs.count, count);
    if (p->slots > ON_STACK && !(slot = tp_alloc_array(p->slots, sizeof *slot)))
        return false;
    for (uint32_t i = 0; i < p->slots; i++)
        slot[i] = tp_none();
    for (uint32_t i = 0; i < count; i++)
        slot[p->inputs.item[i]] = tp_value_ref(arg[i]);
    bool ok = run_steps(p, slot);
    const tp_node *out = tp_as_node(p->output);
    if (ok)
        *result = out ? tp_value_ref(slot[out->id]) : tp_none();
    tp_values_unref(slot, p->slots);
    if (slot != few)
        tp_free(slot);
    return ok;
}
