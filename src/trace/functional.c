/* functional.c - what becomes of each kind of call, and the functionaliser that is mounted. */
#include "trace/functional_graphs.h"

#include <string.h>

#include "gen/ops.h"
#include "ops/derived.h"
#include "trace/fake.h"

enum { MOST_ARGS = 64, MOST_RESULTS = 64 };

/* ---- the arguments of a call ---- */
typedef struct call {
    tp_functional *f;
    tp_value arg[MOST_ARGS];    /* lists among them are owned */
    bool     any;               /* some argument is a wrapper */
} call;

static bool unwrap_value(tp_functional *f, tp_value v, tp_value *out, bool *any)
{
    *out = v;
    if (v.tag == TP_TENSOR && tp_is_functional(f, v.tensor)) {
        *out = tp_of_tensor(tp_functional_current(f, tp_functional_of(v.tensor)));
        *any = true;
        return out->tag == TP_TENSOR;
    }
    bool tensors = false;
    for (uint32_t i = 0; v.tag == TP_LIST && i < v.list->count; i++)
        tensors |= v.list->item[i].tag == TP_TENSOR;
    if (!tensors)
        return true;
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++) {
        tp_value one;
        if ((ok = unwrap_value(f, v.list->item[i], &one, any)))
            l->item[i] = tp_value_ref(one);
    }
    *out = ok ? tp_of_list(l) : tp_none();
    if (!ok && l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

static void call_fini(call *c, const tp_value *given, int count)
{
    for (int i = 0; i < count; i++)
        if (c->arg[i].tag == TP_LIST && c->arg[i].list != given[i].list)
            tp_value_unref(c->arg[i]);
}

static bool call_init(call *c, tp_functional *f, const tp_value *given, int count)
{
    c->f = f;
    c->any = false;
    for (int i = 0; i < count; i++)
        if (!unwrap_value(f, given[i], &c->arg[i], &c->any)) {
            call_fini(c, given, i);
            return false;
        }
    return true;
}

/* ---- results ---- */

/* The wrapper an op handed through, if it did. */
static tp_tensor *handed_through(const call *c, const tp_value *given, int count, const tp_tensor *value)
{
    for (int i = 0; i < count; i++)
        if (given[i].tag == TP_TENSOR && c->arg[i].tag == TP_TENSOR && c->arg[i].tensor == value && given[i].tensor != value)
            return tp_tensor_ref(given[i].tensor);
    return NULL;
}

static bool wrap_result(const call *c, const tp_value *given, int count, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *w = handed_through(c, given, count, v->tensor);
        if (!w && !(w = tp_functional_wrap(c->f, v->tensor)))
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = w;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!wrap_result(c, given, count, &v->list->item[i]))
            return false;
    return true;
}

/* ---- kinds of calls ---- */
static bool call_plain(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    call c;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, op, c.arg, result);
    if (ok)
        for (int i = 0; ok && i < op->result_count; i++)
            ok = wrap_result(&c, given, op->arg_count, &result[i]) || tp_call_take_back(op, result);
    call_fini(&c, given, op->arg_count);
    return ok;
}

static bool call_view(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    tp_tensor *of = given[0].tensor;
    tp_value arg[MOST_ARGS];
    memcpy(arg, given, op->arg_count * sizeof *arg);
    /* Stale or not: a view of a written state is looked at anew when it is used. One that t_ and the like changed is brought up to
     * date first; graphs of PyTorch tell. */
    tp_functional_wrapper *seen = tp_functional_of(of);
    arg[0] = tp_of_tensor(seen->metadata ? tp_functional_current(f, seen) : seen->value);
    if (arg[0].tag != TP_TENSOR || !tp_mount_next(m, op, arg, result))
        return false;
    /* The detach of a program is three in PyTorch's graphs of mid 2024. */
    for (int i = 0; i < 2 && tp_functional_detaches(op) && m->layer == TP_LAYER_TRACE_R && !tp_self.saving; i++) {
        tp_value once = result[0];
        arg[0] = once;
        bool ok = tp_mount_next(m, op, arg, result);
        tp_value_unref(once);
        if (!ok)
            return false;
    }
    bool list = result[0].tag == TP_LIST;
    uint32_t count = list ? result[0].list->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        tp_value *v = list ? &result[0].list->item[i] : &result[0];
        tp_tensor *w = tp_functional_wrap_view(f, of, op, arg, list ? (int64_t)i : -1, v->tensor);
        if (!w)
            return tp_call_take_back(op, result);
        tp_tensor_unref(v->tensor);
        v->tensor = w;
    }
    return true;
}

static bool call_view_in_place(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *view = op->functional;
    tp_tensor *face = given[0].tensor;
    tp_value arg[MOST_ARGS], seen;
    memcpy(arg, given, op->arg_count * sizeof *arg);
    arg[0] = tp_of_tensor(tp_functional_current((tp_functional *)(void *)m, tp_functional_of(face)));
    if (arg[0].tag != TP_TENSOR || !tp_mount_next(m, view, arg, &seen) || !tp_functional_look_on(face, view, arg, seen.tensor))
        return false;
    result[0] = tp_value_ref(given[0]);
    return true;
}

static bool call_set(tp_functional *f, const tp_op *op, const tp_value *given, tp_value *result)
{
    char name[128];
    if (given[1].tag != TP_TENSOR || !tp_is_functional(f, given[1].tensor))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s of a tensor that is not traced", tp_op_full_name(op, name));
    if (!tp_functional_look_elsewhere(f, given[0].tensor, given[1].tensor))
        return false;
    result[0] = tp_value_ref(given[0]);
    return true;
}

static bool has_expressions(tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (has_expressions(v.list->item[i]))
            return true;
    return v.tag == TP_SYM;
}

static tp_value row_major(int n, const int64_t *size)
{
    int64_t stride[TP_MAX_DIMS];
    tp_strides_row_major(n, size, stride);
    tp_list *l = tp_list_new((uint32_t)n);
    for (int i = 0; l && i < n; i++)
        l->item[i] = tp_int(stride[i]);
    return l ? tp_of_list(l) : tp_none();
}

/* resize_: where it grows the tensor looks at the memory that `resize` made; else it looks at its own, dense. The call stands in
 * the graph either way. */
static bool call_resize(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    tp_tensor *face = given[0].tensor, *value = tp_functional_current(f, tp_functional_of(face));
    const tp_op *resize = tp_op_find("aten", "resize", ""), *view = tp_op_find("aten", "as_strided", "");
    int64_t size[TP_MAX_DIMS], elements = 1;
    char name[128];
    int n = has_expressions(given[1]) ? -1 : tp_as_ints(given[1], size, TP_MAX_DIMS, 0);
    if (n < 0 || !resize || !view)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s to symbolic sizes", tp_op_full_name(op, name));
    tp_value made = tp_none(), seen = tp_none(), stride = row_major(n, size);
    bool ok = value && stride.tag == TP_LIST && tp_mount_next(m, resize, (tp_value[]){ tp_of_tensor(value), given[1], given[2] }, &made);
    for (int i = 0; i < n; i++)
        elements *= size[i];
    if (ok && elements > (int64_t)(value->storage->bytes / tp_dtype_bytes((tp_dtype)value->dtype))) {
        tp_tensor *grown = tp_functional_wrap(f, made.tensor);
        ok = grown && tp_functional_look_elsewhere(f, face, grown);
        tp_tensor_unref(grown);
    } else if (ok) {
        tp_value arg[] = { tp_of_tensor(value), given[1], stride, tp_none() };
        ok = tp_mount_next(m, view, arg, &seen) && tp_functional_look_on(face, view, arg, seen.tensor);
    }
    tp_value_unref(made);
    tp_value_unref(stride);
    if (ok)
        result[0] = tp_value_ref(given[0]);
    return ok;
}

static bool same_sizes(const tp_tensor *a, const tp_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0;
}

/* The value of one written argument, or of the members of a list, taken from the result that stands for it. None was given where
 * none comes back. */
static bool write_result(tp_functional *f, const tp_op *op, tp_value to, tp_value *made)
{
    bool ok = true;
    if (made->tag == TP_NONE)
        return true;
    for (uint32_t k = 0; made->tag == TP_LIST && ok && k < tp_length(*made); k++)
        ok = write_result(f, op, to.list->item[k], &made->list->item[k]);
    if (made->tag == TP_LIST)
        return ok;
    if (!same_sizes(to.tensor, made->tensor))
        return tp_fail(TP_ERR_RUNTIME, "%s: the result does not have the sizes of the tensor it is written into", op->name);
    tp_tensor *value = made->tensor;
    *made = tp_none();
    return tp_functional_write(f, to.tensor, value);
}

static bool call_in_place(tp_mount *m, const tp_op *op, const tp_op *plain, const tp_value *given, tp_value *result)
{
    call c;
    tp_value made[MOST_RESULTS];
    int next = 0;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, plain, c.arg, made);
    call_fini(&c, given, op->arg_count);
    if (!ok)
        return false;
    for (int i = 0; ok && i < op->arg_count && next < plain->result_count; i++)
        if (op->arg[i].written)
            ok = write_result((tp_functional *)(void *)m, op, given[i], &made[next++]);
    tp_values_unref(made, plain->result_count);
    if (ok && op->result_count)
        result[0] = tp_value_ref(given[0]);
    return ok;
}

/* out=: the results become the values of the tensors given for them. */
static bool call_out(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *plain = op->functional;
    int first = op->arg_count - plain->result_count;
    call c;
    tp_value made[MOST_RESULTS];
    if (!call_init(&c, (tp_functional *)(void *)m, given, first))
        return false;
    bool ok = tp_mount_next(m, plain, c.arg, made);
    call_fini(&c, given, first);
    for (int i = 0; ok && i < plain->result_count; i++) {
        tp_tensor *face = given[first + i].tensor;
        tp_tensor *value = made[i].tensor;
        made[i] = tp_none();
        if (!same_sizes(face, value))
            ok = tp_functional_of(face)->view ? tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s that changes the size of a view", op->name) != NULL
                                           : tp_fake_take_geometry(face, value);
        if (!ok)
            tp_tensor_unref(value);
        ok = ok && tp_functional_write((tp_functional *)(void *)m, face, value);
        if (!ok)
            tp_values_unref(made, plain->result_count);
    }
    for (int i = 0; ok && i < op->result_count; i++)
        result[i] = tp_value_ref(given[first + i]);
    return ok;
}

/* Batch norm in training writes its running statistics: its twin gives them as results. */
static bool call_twin(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *twin = op->rare->functional_twin;
    call c;
    tp_value made[MOST_RESULTS];
    int next = 0;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, twin, c.arg, made);
    for (int i = 0; ok && i < op->result_count; i++)
        ok = wrap_result(&c, given, op->arg_count, &made[i]) || tp_call_take_back(twin, made);
    call_fini(&c, given, op->arg_count);
    if (!ok)
        return false;
    for (int i = 0; i < op->arg_count; i++) {
        if (!(op->rare->hidden_writes >> i & 1) && !op->arg[i].written)
            continue;
        int at = op->rare->functional_map[next++ & 1];
        tp_tensor *value = made[at].tensor;
        made[at] = tp_none();
        if (!tp_functional_write((tp_functional *)(void *)m, given[i].tensor, value))
            return tp_call_take_back(twin, made);
    }
    memcpy(result, made, op->result_count * sizeof *result);
    return true;
}

/* Does a tensor of `v` look into the state of a tensor of `others`? */
static bool share(tp_value v, tp_value others)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (share(v.list->item[i], others))
            return true;
    for (uint32_t i = 0; i < tp_length(others); i++)
        if (v.tag == TP_TENSOR && share(v, others.list->item[i]))
            return true;
    return v.tag == TP_TENSOR && others.tag == TP_TENSOR && tp_functional_share(v.tensor, others.tensor);
}

/* The derived op copies each argument alone, so two that overlap would come apart. */
static bool check_apart(const tp_op *op, const tp_value *arg)
{
    char name[128];
    for (int i = 0; i < op->arg_count; i++)
        for (int k = 0; k < i; k++)
            if (op->arg[i].written && op->arg[k].written && share(arg[i], arg[k]))
                return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s writes two arguments that share memory", tp_op_full_name(op, name));
    return true;
}

/* An op of the program that writes: a derived one gives what it gives, then what it writes. */
static bool call_derived(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    const tp_op *derived = tp_op_derive(TP_AUTO_FUNCTIONALIZED, op);
    call c;
    tp_value made[MOST_RESULTS];
    int next = op->result_count ? op->result_count : 1;
    if (!derived || !check_apart(op, given) || !call_init(&c, f, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, derived, c.arg, made);
    if (!ok) {
        call_fini(&c, given, op->arg_count);
        return false;
    }
    for (int i = 0; ok && i < op->result_count; i++)
        ok = wrap_result(&c, given, op->arg_count, &made[i]);
    call_fini(&c, given, op->arg_count);
    for (int i = 0; ok && i < op->arg_count; i++)
        if (op->arg[i].written)
            ok = write_result(f, op, given[i], &made[next++]);
    for (int i = 0; ok && i < op->result_count; i++) {
        result[i] = made[i];
        made[i] = tp_none();
    }
    tp_values_unref(made, derived->result_count);
    return ok;
}

/* ---- which kind ---- */

static bool same_arguments(const tp_op *a, const tp_op *b)
{
    bool same = a->arg_count == b->arg_count;
    for (int i = 0; same && i < a->arg_count; i++)
        same = a->arg[i].type == b->arg[i].type && a->arg[i].list == b->arg[i].list;
    return same;
}

/* The op that gives what this one writes: its variant, or else an op of its own entry, bernoulli.p of bernoulli_.float. */
static const tp_op *variant_of(const tp_op *op)
{
    char name[96];
    size_t length = strlen(op->name);
    const tp_op *const *all;
    if (op->functional || op->variant != TP_INPLACE || length < 2 || length >= sizeof name || op->name[length - 1] != '_')
        return op->functional;
    memcpy(name, op->name, length - 1);
    name[length - 1] = 0;
    for (size_t i = 0, count = tp_op_overloads(op->space, name, &all); i < count; i++)
        if (all[i]->variant == TP_FUNCTIONAL && same_arguments(op, all[i]))
            return all[i];
    return NULL;
}

static bool is_wrapper(const tp_functional *f, tp_value v)
{
    return v.tag == TP_TENSOR && tp_is_functional(f, v.tensor);
}

static bool any_wrapper(const tp_functional *f, tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (any_wrapper(f, v.list->item[i]))
            return true;
    return is_wrapper(f, v);
}

static bool any_outside(const tp_functional *f, tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (any_outside(f, v.list->item[i]))
            return true;
    return v.tag == TP_TENSOR && !is_wrapper(f, v);
}

/* Written arguments must be wrappers, unless nothing of the call is. 1: they are; 0: nothing is; -1: mixed. */
static int check_written(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    bool outside = false, any = false;
    for (int i = 0; i < op->arg_count; i++) {
        any |= any_wrapper(f, arg[i]);
        outside |= op->arg[i].written && any_outside(f, arg[i]);
    }
    if (!outside)
        return 1;
    if (!any)
        return 0;
    (void)tp_fail(TP_ERR_RUNTIME, "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your inputs "
                  "are wrapped inside of a functionalize() call.");
    return -1;
}

static bool writes(const tp_op *op)
{
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return true;
    return false;
}

static bool gives_alias(const tp_op *op)
{
    for (int i = 0; i < op->result_count; i++)
        if (op->result[i].alias)
            return true;
    return false;
}

static bool refuse_alias(const tp_op *op)
{
    char name[128];
    return tp_fail(TP_ERR_RUNTIME, "Found a custom (non-ATen) operator whose output has alias annotations: %s%s. We only support functionalizing operators "
                   "whose outputs do not have alias annotations (e.g. 'Tensor(a)' is a Tensor with an alias annotation whereas 'Tensor' is a Tensor "
                   "without. The '(a)' is the alias annotation). The alias annotation specifies that the output Tensor shares storage with an input "
                   "that has the same annotation. Please check if (1) the output needs to be an output (if not, don't return it), (2) if the output "
                   "doesn't share storage with any inputs, then delete the alias annotation. (3) if the output indeed shares storage with an input, "
                   "then add a .clone() before returning it to prevent storage sharing and then delete the alias annotation. Otherwise, please file "
                   "an issue on GitHub.", tp_op_full_name(op, name), op->signature);
}

/* Of an op that writes in training only: is this that? */
static bool in_training(const tp_op *op, const tp_value *arg)
{
    int training = tp_op_arg_index(op, "training");
    return training < 0 || tp_as_bool(arg[training]);
}

static bool trains(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    if (!op->rare->functional_twin || !in_training(op, arg))
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (((op->rare->hidden_writes >> i & 1) || op->arg[i].written) && !is_wrapper(f, arg[i]))
            return false;
    return true;
}

/* Is there a list of one tensor? */
static bool has_lone_tensor(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].list && op->arg[i].type == TP_TYPE_TENSOR && tp_length(arg[i]) == 1)
            return true;
    return false;
}

static bool opens(const tp_mount *m, const tp_op *op, const tp_value *arg)
{
    if (op->kind != TP_LIKE_COMPOSITE || !op->open || op->rare->graphs)
        return false;
    if (m->layer != TP_LAYER_TRACE_P || (op->flags & TP_OP_ALIAS_MAYBE) || op->rare->hidden_writes)
        return true;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].alias || op->arg[i].written)
            return true;
    return (op->flags & TP_OP_ALIAS_ALONE) && has_lone_tensor(op, arg);
}

static bool open_here(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    (void)user;
    return tp_call_open(op, arg, result);
}

/* Does the op write a tensor from outside the function that is being traced? */
static bool writes_outside(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if ((op->arg[i].written || (op->rare->hidden_writes >> i & 1)) && is_wrapper(f, arg[i]) && tp_functional_depth(arg[i].tensor) < f->depth)
            return true;
    return false;
}

static bool functional_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    char name[128];
    if (op->rare->graphs)
        return tp_functional_graphs(f, op, arg, result);
    if (f->depth && writes_outside(f, op, arg))
        return tp_fail(TP_ERR_RUNTIME, "%s might be modifying the input!", f->function);
    if (opens(m, op, arg))
        return tp_mount_reopen(m, open_here, op, arg, result, NULL);
    if (trains(f, op, arg))
        return call_twin(m, op, arg, result);
    if (writes(op) && (!op->rare->functional_twin || in_training(op, arg))) {
        int can = check_written(f, op, arg);
        if (can <= 0)
            return can == 0 && tp_mount_next(m, op, arg, result);
        if (op == &tp_op_set__source_Tensor)
            return call_set(f, op, arg, result);
        if (op == &tp_op_resize_)
            return call_resize(m, op, arg, result);
        const tp_op *plain = variant_of(op);
        if (!plain && (op->flags & TP_OP_RUNTIME))
            return gives_alias(op) ? refuse_alias(op) : call_derived(m, op, arg, result);
        if (!plain || op->kind == TP_LIKE_METADATA)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s has no functional variant", tp_op_full_name(op, name));
        if (op->variant == TP_OUT)
            return call_out(m, op, arg, result);
        if (plain->kind == TP_LIKE_VIEW)
            return call_view_in_place(m, op, arg, result);
        return call_in_place(m, op, plain, arg, result);
    }
    bool view = op->kind == TP_LIKE_VIEW && op->variant == TP_FUNCTIONAL && (op->rare->inverse || tp_functional_detaches(op));
    return view && is_wrapper(f, arg[0]) ? call_view(m, op, arg, result) : call_plain(m, op, arg, result);
}

/* ---- the functionaliser ---- */
tp_functional *tp_functional_new(void)
{
    tp_functional *f = tp_alloc_zero(sizeof *f);
    if (f) {
        f->mount.call = functional_call;
        f->mount.passes = true;
        f->id = atomic_fetch_add(&tp_the_runtime.sequence, 1);
    }
    return f;
}

void tp_functional_free(tp_functional *f)
{
    if (f)
        tp_array_fini(&f->held);
    tp_free(f);
}

void tp_functional_enter(tp_functional *f, tp_layer_id layer)
{
    tp_mount_push(&f->mount, layer);
}

void tp_functional_leave(tp_functional *f)
{
    tp_mount_pop(&f->mount);
}
