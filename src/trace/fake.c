/* fake.c - the layer that runs shape rules instead of kernels. */
#include "trace/fake.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/dispatch.h"
#include "ops/run.h"
#include "ops/signs.h"
#include "ops/symbolic.h"

enum { MOST_RESULTS = 8, KEY = 1u << TP_LAYER_FAKE };

bool tp_is_fake(const tp_tensor *t)
{
    return t->keys & KEY;
}

tp_fake_mode *tp_fake_mode_of(const tp_tensor *t)
{
    return tp_is_fake(t) && t->storage->kind == TP_MEMORY_NONE ? t->storage->owner : NULL;
}

void tp_fake_belong(tp_tensor *fake, const tp_fake_mode *m)
{
    if (!fake || !m || !m->lasting || fake->storage->kind != TP_MEMORY_NONE || fake->storage->owner)
        return;
    m->keep(m->lasting);
    fake->storage->owner = m->lasting;
    fake->storage->release = m->drop;
}

/* ---- making ---- */

/* The expressions of a tensor, with the environment they live in and their own memory. */
typedef struct expressions {
    tp_symbolic   base;
    tp_shape_env *env;          /* counted, may be NULL */
    tp_sym        dims[];
} expressions;

static void free_expressions(void *self)
{
    expressions *e = self;
    tp_shape_env_unref(e->env);
    tp_free(e);
}

static void *copy_expressions(const void *self)
{
    const expressions *e = self;
    expressions *c = tp_alloc(sizeof *c + 2 * (size_t)e->base.ndim * sizeof *c->dims);
    if (!c)
        return NULL;
    memcpy(c, e, sizeof *c + 2 * (size_t)e->base.ndim * sizeof *c->dims);
    c->base.size = c->dims;
    c->base.stride = c->dims + c->base.ndim;
    tp_shape_env_ref(c->env);
    return c;
}

static tp_shape_env *env_of(int count, const tp_sym *word)
{
    for (int i = 0; i < count; i++)
        if (tp_sym_env(word[i]))
            return tp_sym_env(word[i]);
    return NULL;
}

static bool attach(tp_tensor *t, const tp_sym *size, const tp_sym *stride, tp_sym offset)
{
    tp_shape_env *env = env_of(t->ndim, size);
    if (!env && !(env = env_of(t->ndim, stride)) && !(env = env_of(1, &offset)))
        return true;
    expressions *e = tp_alloc(sizeof *e + 2 * t->ndim * sizeof *e->dims);
    if (!e)
        return false;
    e->base = (tp_symbolic){ .head = { free_expressions, copy_expressions }, .ndim = t->ndim, .offset = offset, .size = e->dims, .stride = e->dims + t->ndim };
    e->env = tp_shape_env_ref(env);
    memcpy(e->base.size, size, t->ndim * sizeof *size);
    memcpy(e->base.stride, stride, t->ndim * sizeof *stride);
    t->symbolic = &e->base;
    t->keys |= TP_KEY_SYMBOLIC;
    return true;
}

static tp_tensor *marked(tp_tensor *t, tp_device device)
{
    if (t) {
        t->keys |= KEY;
        t->device = device;
        if (device.type != TP_CPU && device.type != TP_META && device.index < 0)
            t->device.index = 0;            /* the current one, of which there is no other */
    }
    return t;
}

/* A storage that this tensor alone looks into, densely, has the tensor's bytes; of others nothing is known. */
static bool note_bytes(const tp_tensor *t)
{
    int64_t item = (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    if (!t || !tp_tensor_is_symbolic(t))
        return true;
    t->storage->symbolic = TP_BYTES_UNKNOWN;
    if (t->offset || t->storage->bytes != (size_t)(t->numel * item))
        return true;
    tp_sym all = tp_sym_int(item);
    for (int i = 0; i < t->ndim; i++)
        all = tp_sym_mul(all, t->symbolic->size[i]);
    t->storage->symbolic = all.word;
    return !tp_sym_is_failed(all);
}

/* A fake with the integers of the real one, expressions not yet attached. */
static tp_tensor *bare_fake(const tp_tensor *real)
{
    tp_tensor *t = tp_tensor_take_storage(tp_storage_new_none(real->storage->bytes), (tp_dtype)real->dtype, real->ndim, real->size,
                                          real->stride, real->offset);
    const tp_fake_mode *m = tp_self.fake;
    if (t)
        tp_set_signs(t, tp_signs(real));
    tp_fake_belong(marked(t, real->device), m && m->lasting ? m : tp_fake_mode_of(real));
    return t;
}

tp_tensor *tp_fake_of(const tp_tensor *real)
{
    tp_tensor *t = bare_fake(real);
    if (t && tp_tensor_is_symbolic(real) && !attach(t, real->symbolic->size, real->symbolic->stride, real->symbolic->offset)) {
        tp_tensor_unref(t);
        return NULL;
    }
    if (t)
        t->storage->symbolic = real->storage->symbolic;
    return t;
}

/* Strides that the dense ones of this order are not: zeros stay, others are symbols of their own, and sizes outside of them
 * count on from there. */
static bool name_strides(const tp_tensor *real, tp_shape_env *env, const tp_sym *size, tp_sym *stride)
{
    bool done[TP_MAX_DIMS] = { false };
    for (int n = 0; n < real->ndim; n++) {
        int at = -1;
        int64_t hint;
        for (int i = real->ndim - 1; i >= 0; i--)
            if (!done[i] && (at < 0 || real->stride[i] < real->stride[at]))
                at = i;
        done[at] = true;
        if (tp_sym_hint(stride[at], &hint) && hint == real->stride[at])
            continue;
        bool found = real->stride[at] <= 1;
        stride[at] = tp_sym_int(real->stride[at]);
        for (int i = 0; i < real->ndim && !found; i++) {        /* what a dimension inside it spans */
            tp_sym span = done[i] && i != at ? tp_sym_mul(size[i], stride[i]) : tp_sym_int(0);
            if ((found = tp_sym_hint(span, &hint) && hint == real->stride[at]))
                stride[at] = span;
        }
        if (!found && tp_sym_is_failed(stride[at] = tp_shape_env_symbol(env, real->stride[at], NULL, (tp_range){ 0, INT64_MAX })))
            return false;
    }
    return true;
}

static bool is_static(int n, const tp_sym *size)
{
    for (int i = 0; i < n; i++)
        if (!tp_sym_is_int(size[i]))
            return false;
    return true;
}

tp_tensor *tp_fake_symbolic(const tp_tensor *real, tp_shape_env *env, const tp_sym *size)
{
    tp_sym stride[TP_MAX_DIMS];
    if (is_static(real->ndim, size))
        return tp_fake_of(real);
    tp_sym_strides_by_hint(real->ndim, real->stride, size, stride);
    if (env && !name_strides(real, env, size, stride))
        return NULL;
    tp_tensor *t = bare_fake(real);
    if (t && !(attach(t, size, stride, tp_sym_int(real->offset)) && note_bytes(t))) {
        tp_tensor_unref(t);
        return NULL;
    }
    return t;
}

tp_tensor *tp_fake_beside(const tp_tensor *like, const tp_tensor *storage_of)
{
    if (!storage_of)
        return tp_fake_of(like);
    tp_tensor *t = tp_tensor_take_storage(tp_storage_ref(storage_of->storage), (tp_dtype)like->dtype, like->ndim, like->size, like->stride, like->offset);
    if (t)
        tp_set_signs(t, tp_signs(like));
    if (marked(t, like->device) && tp_tensor_is_symbolic(like) && !attach(t, like->symbolic->size, like->symbolic->stride, like->symbolic->offset)) {
        tp_tensor_unref(t);
        return NULL;
    }
    return t;
}

bool tp_fake_take_geometry(tp_tensor *fake, const tp_tensor *like)
{
    tp_tensor *t = tp_fake_beside(like, fake);
    if (!t)
        return false;
    bool ok = tp_tensor_set_geometry(fake, like->ndim, like->size, like->stride, like->offset);
    if (ok) {
        struct tp_symbolic *old = fake->symbolic;
        fake->symbolic = t->symbolic;
        t->symbolic = old;
        fake->keys = (fake->keys & ~(uint32_t)TP_KEY_SYMBOLIC) | (t->keys & TP_KEY_SYMBOLIC);
    }
    tp_tensor_unref(t);
    return ok;
}

static bool hints(int n, const tp_sym *word, int64_t *out)
{
    for (int i = 0; i < n; i++)
        if (!tp_sym_hint(word[i], &out[i]))
            out[i] = 2;                 /* unbacked: any size will do as a stand-in */
    return true;
}

/* A tensor of this size exists where the program goes on: the size is none below zero. */
static bool note_sizes(const tp_sym_geometry *g)
{
    for (int i = 0; i < g->ndim; i++) {
        const tp_symbol *s = tp_sym_is_symbol(g->size[i]) ? tp_symbol_of(g->size[i]) : NULL;
        if (!s || s->kind != TP_SYMBOL_UNBACKED)
            continue;
        tp_symbol_set_size_like(g->size[i]);
        if (s->range.low < 0 && !tp_symbol_narrow(g->size[i], (tp_range){ 0, INT64_MAX }))
            return false;
    }
    return true;
}

static tp_tensor *from_symbolic(const tp_sym_geometry *g, const tp_tensor *view_of)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], offset = 0;
    if (!note_sizes(g))
        return NULL;
    hints(g->ndim, g->size, size);
    hints(g->ndim, g->stride, stride);
    if (view_of)
        hints(1, &g->offset, &offset);
    tp_storage *s = view_of ? tp_storage_ref(view_of->storage) : tp_storage_new_none(0);
    tp_tensor *t = marked(tp_tensor_take_storage(s, (tp_dtype)g->dtype, g->ndim, size, stride, offset), g->device);
    tp_fake_belong(t, tp_self.fake);
    if (t && view_of)
        tp_set_signs(t, tp_signs(view_of));
    if (t && !view_of)
        t->storage->bytes = (size_t)t->numel * tp_dtype_bytes((tp_dtype)g->dtype);
    if (t && !(attach(t, g->size, g->stride, view_of ? g->offset : tp_sym_int(0)) && (view_of || note_bytes(t)))) {
        tp_tensor_unref(t);
        return NULL;
    }
    return t;
}

static tp_tensor *from_integers(const tp_geometry *g, const tp_tensor *view_of)
{
    if (view_of)
        return marked(tp_tensor_view_as(view_of, g), g->device);
    tp_geometry bare = *g;
    bare.device = (tp_device){ TP_META, -1 };
    tp_tensor *t = marked(tp_tensor_new_as(&bare), g->device);
    tp_fake_belong(t, tp_self.fake);
    return t;
}

/* ---- the layer ---- */

static bool has_expression(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return v.tensor->keys & TP_KEY_SYMBOLIC;
    if (v.tag == TP_SYM)
        return true;
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (has_expression(v.list->item[i]))
            return true;
    return false;
}

/* How a tensor of a refused call is shown: that it has numbers, not which. */
static void show(tp_value v, tp_text *text)
{
    const tp_tensor *t = tp_as_tensor(v);
    if (v.tag == TP_LIST) {
        tp_text_add(text, "[");
        for (uint32_t i = 0; i < v.list->count; i++) {
            tp_text_add(text, i ? ", " : "");
            show(v.list->item[i], text);
        }
        tp_text_add(text, "]");
        return;
    }
    if (!t) {
        tp_value_print(v, text);
        return;
    }
    tp_text_add(text, "%s, size=(", tp_is_fake(t) ? "FakeTensor(..." : t->ndim ? "tensor([...]" : "tensor(...");
    for (int i = 0; i < t->ndim; i++) {
        tp_text_add(text, i ? ", " : "");
        tp_sym_print(tp_tensor_sym_size(t, i), text);
    }
    tp_text_add(text, t->ndim == 1 ? ",)" : ")");
    if (t->dtype != TP_f32 && (tp_is_fake(t) || (t->dtype != TP_i64 && t->dtype != TP_b8)))
        tp_text_add(text, ", dtype=torch.%s", tp_dtypes[t->dtype].python);
    tp_text_add(text, ")");
}

static bool refuse_real(const tp_op *op, const tp_value *arg)
{
    char name[128];
    tp_text text = { 0 };
    int last = op->arg_count;
    const char *full = tp_op_full_name(op, name), *space = strstr(full, "::");
    while (last && op->arg[last - 1].fallback && tp_value_equal(arg[last - 1], *op->arg[last - 1].fallback))
        last--;
    for (int i = 0; i < last; i++) {
        tp_text_add(&text, "%s%s%s", i ? ", " : "", op->arg[i].keyword_only ? op->arg[i].name : "", op->arg[i].keyword_only ? "=" : "");
        show(arg[i], &text);
    }
    tp_fail(TP_ERR_ASSERTION, "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
            "'allow_non_fake_inputs'. Found in %.*s.%s%s(%s)", (int)(space - full), full, space + 2, strchr(space, '.') ? "" : ".default",
            tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}

static bool allows_devices(const tp_op *op, int i)
{
    const tp_op *base = op->base ? op->base : op;
    if (strcmp(base->name, "copy") == 0 || strcmp(base->name, "copy_") == 0)
        return true;
    return op->arg[i].list && op->arg[i].items_optional;        /* indices */
}

/* A number among tensors may be one of the program. */
static bool has_real(tp_value v)
{
    const tp_tensor *t = tp_as_tensor(v);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (has_real(v.list->item[i]))
            return true;
    return t && !tp_is_fake(t) && t->ndim > 0;
}

static bool check_real(const tp_op *op, const tp_value *arg)
{
    const tp_fake_mode *m = tp_self.fake;
    if (strncmp(op->name, "lift_fresh", 10) == 0)       /* a literal of the program comes in */
        return true;
    for (int i = 0; i < op->arg_count && !(m && m->allow_real); i++)
        if (has_real(arg[i]))
            return refuse_real(op, arg);
    return true;
}

/* Tensors of one call live on one device; a 0-d tensor of the CPU goes along with any. */
static bool join_device(tp_value v, tp_device *out, bool *found)
{
    char a[16], b[16];
    const tp_tensor *t = tp_as_tensor(v);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!join_device(v.list->item[i], out, found))
            return false;
    if (!t || (t->ndim == 0 && t->device.type == TP_CPU))
        return true;
    if (*found && (t->device.type != out->type || t->device.index != out->index))
        return tp_fail(TP_ERR_DEVICES, "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                       tp_device_name(*out, a), tp_device_name(t->device, b));
    *out = t->device;
    *found = true;
    return true;
}

static bool common_device(const tp_op *op, const tp_value *arg)
{
    tp_device device;
    bool found = false;
    for (int i = 0; i < op->arg_count; i++) {
        /* An opaque op may take indices, or copy from anywhere; of a list the members are alike. */
        if (allows_devices(op, i) || (op->kind == TP_LIKE_OPAQUE && !op->arg[i].list))
            continue;
        if (!join_device(arg[i], &device, &found))
            return false;
    }
    return true;
}

/* A rule met a size that depends on data and that nobody can name: the error says whose. */
static bool name_dynamic(const tp_op *op)
{
    return tp_error_kind() == TP_ERR_DYNAMIC_SHAPE ? tp_fail_op(TP_ERR_DYNAMIC_SHAPE, op) : NULL;
}

static bool make_results(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    const tp_tensor *view_of = op->kind == TP_LIKE_VIEW ? arg[0].tensor : NULL;
    bool symbolic = false;
    for (int i = 0; i < op->arg_count && !symbolic; i++)
        symbolic = has_expression(arg[i]);
    /* A result whose size depends on data has symbols where somebody can name them. */
    if ((op->flags & TP_OP_SYNC) && tp_self.shape_env && !tp_shape_env_names_sizes(tp_self.shape_env) && op->work->infer_sym)
        return tp_fail_op(TP_ERR_DYNAMIC_SHAPE, op);
    if (op->work->infer_sym && (symbolic || ((op->flags & TP_OP_SYNC) && tp_self.shape_env))) {
        tp_sym_geometry g[MOST_RESULTS];
        for (int i = 0; i < op->result_count; i++)
            g[i].unknown = g[i].absent = false;
        if (!op->work->infer_sym(op, arg, g))
            return name_dynamic(op);
        for (int i = 0; i < op->result_count; i++)
            if (!g[i].absent && !(out[i] = from_symbolic(&g[i], view_of)))
                return false;
        return true;
    }
    tp_geometry g[MOST_RESULTS];
    for (int i = 0; i < op->result_count; i++)
        g[i].unknown = g[i].absent = false;
    if (!op->work->infer(op, arg, g))
        return name_dynamic(op);
    for (int i = 0; i < op->result_count; i++) {
        if (g[i].unknown)
            return tp_fail_op(TP_ERR_DYNAMIC_SHAPE, op);
        if (!g[i].absent && !(out[i] = from_integers(&g[i], view_of)))
            return false;
    }
    return true;
}

static bool infer_results(const tp_op *op, const tp_value *arg, tp_tensor **out)
{
    bool ok = make_results(op, arg, out);
    if (ok && tp_turns(op) && out[0])
        tp_set_signs(out[0], tp_signs(out[0]) ^ tp_turns(op));
    return ok;
}

/* May this result be written into the first argument? Symbolic sizes are guarded to be equal. */
static bool check_into(const tp_op *base, const tp_tensor *self, const tp_tensor *made)
{
    bool same = self->ndim == made->ndim;
    if (!tp_check_castable((tp_dtype)made->dtype, (tp_dtype)self->dtype))
        return false;
    for (int i = 0; same && i < self->ndim; i++)
        if (!tp_sym_guard(tp_sym_eq(tp_tensor_sym_size(self, i), tp_tensor_sym_size(made, i)), &same))
            return false;
    if (same)
        return true;
    tp_text a = { 0 }, b = { 0 };
    tp_text_add_sizes(&a, self->ndim, self->size);
    tp_text_add_sizes(&b, made->ndim, made->size);
    tp_fail(TP_ERR_RUNTIME, base->pointwise ? "output with shape %s doesn't match the broadcast shape %s"
                                            : "Bad in-place call: input tensor size %s and output tensor size %s should match",
            tp_text_read(&a), tp_text_read(&b));
    tp_text_fini(&a);
    tp_text_fini(&b);
    return false;
}

/* An `out` argument takes the size of the result. */
static bool check_out(tp_tensor *out, const tp_tensor *made)
{
    if (!tp_check_castable((tp_dtype)made->dtype, (tp_dtype)out->dtype))
        return false;
    return (out->keys & TP_KEY_SYMBOLIC) || tp_tensor_resize(out, made->ndim, made->size);
}

/* Factories inside make fakes too. */
static bool run_faked(tp_run_fn *run, const tp_op *op, const tp_value *arg, tp_value *result)
{
    uint32_t active = tp_self.active;
    tp_self.active = active | KEY;
    bool ok = run(op, arg, result);
    tp_self.active = active;
    return ok;
}

/* A literal whose number is known: it was not written since, but for numbers that are known too. */
static bool is_literal(const tp_tensor *t)
{
    return tp_is_fake(t) && t->numel == 1 && t->storage->kind != TP_MEMORY_NONE && !t->storage->stale;
}

static void mark_written(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++) {
        if (!op->arg[i].written)
            continue;
        if (arg[i].tag == TP_TENSOR)
            arg[i].tensor->storage->stale |= arg[i].tensor->storage->kind != TP_MEMORY_NONE;
        for (uint32_t k = 0; k < tp_length(arg[i]); k++)
            if (arg[i].list->item[k].tag == TP_TENSOR)
                arg[i].list->item[k].tensor->storage->stale |= arg[i].list->item[k].tensor->storage->kind != TP_MEMORY_NONE;
    }
}

/* Of numbers alone another number comes, which the program may ask for. */
static bool only_literals(const tp_op *op, const tp_value *arg)
{
    bool any = false;
    const tp_op *base = op->base ? op->base : op;
    if (!base->pointwise || op->variant == TP_OUT || op->flags & (TP_OP_RNG | TP_OP_SYNC | TP_OP_IO | TP_OP_RUNTIME))
        return false;
    for (int i = 0; i < op->arg_count; i++) {
        if (arg[i].tag == TP_SYM || tp_length(arg[i]) || (arg[i].tag == TP_TENSOR && !is_literal(arg[i].tensor)))
            return false;
        any |= arg[i].tag == TP_TENSOR;
    }
    return any;
}

static bool compute(const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (!op->run(op, arg, result))
        return false;
    for (int i = 0; i < op->result_count; i++)
        if (result[i].tag == TP_TENSOR && !tp_is_fake(result[i].tensor))
            marked(result[i].tensor, result[i].tensor->device);
    return true;
}

/* resize_ and set_ concern sizes and storages only: they are done as on any tensor without data. */
static bool change_metadata(const tp_op *op, const tp_value *arg, tp_value *result)
{
    for (int i = 0; i < op->arg_count; i++)
        if (has_expression(arg[i]))
            return tp_fail_op(TP_ERR_UNSUPPORTED, op);
    if (!check_real(op, arg) || !op->run(op, arg, result))
        return false;
    mark_written(op, arg);
    return true;
}

static bool call_inside(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *base = op->base ? op->base : op;
    char name[128];
    if (base->kind == TP_LIKE_METADATA && arg[0].tag == TP_TENSOR && !tp_is_fake(arg[0].tensor))
        return tp_fail(TP_ERR_RUNTIME, "Can't call metadata mutating ops on non-Fake Tensor inputs. Found in %s", tp_op_full_name(op, name));
    /* What runs by its decomposition is that also here: its pieces check and guard. */
    if (!base->work->infer || op->kind == TP_LIKE_COMPOSITE || base->run == tp_run_open || op->run == tp_run_open) {
        tp_run_fn *run = op->rare->fake ? op->rare->fake : op->open;
        if (run && run == op->rare->fake)
            mark_written(op, arg);
        if (run)
            return run_faked(run, op, arg, result);
        if (op->kind == TP_LIKE_METADATA && op->work->kernel)
            return change_metadata(op, arg, result);
        return tp_fail_op(TP_ERR_UNSUPPORTED, op);
    }
    if (!check_real(op, arg) || !common_device(op, arg))
        return false;
    if (only_literals(op, arg))
        return compute(op, arg, result);
    mark_written(op, arg);
    tp_tensor *out[MOST_RESULTS] = { 0 };
    bool ok = true;
    int first = op->arg_count - base->result_count;
    if (op->variant != TP_INPLACE || base->kind != TP_LIKE_METADATA)
        ok = infer_results(base, arg, out);
    for (int i = 0; ok && i < base->result_count && out[i]; i++)
        ok = op->variant == TP_INPLACE ? base->kind == TP_LIKE_VIEW ? tp_fake_take_geometry(arg[0].tensor, out[i]) : check_into(base, arg[0].tensor, out[i])
             : op->variant == TP_OUT   ? check_out(arg[first + i].tensor, out[i])
                                       : true;
    for (int i = 0; i < base->result_count; i++) {
        if (!ok || op->variant != TP_FUNCTIONAL)
            tp_tensor_unref(out[i]);
        if (ok)
            result[i] = op->variant == TP_INPLACE ? tp_value_ref(arg[0]) : op->variant == TP_OUT ? tp_value_ref(arg[first + i]) : tp_of_tensor(out[i]);
    }
    return ok;
}

/* The mode of the tensors, which must be one. */
static bool find_mode(tp_value v, const tp_fake_mode **found)
{
    const tp_fake_mode *m = v.tag == TP_TENSOR ? tp_fake_mode_of(v.tensor) : NULL;
    if (m && *found && (*found)->lasting && (*found)->lasting != m)
        return tp_fail(TP_ERR_ASSERTION, "Mixing fake modes NYI");
    if (m && !(*found && (*found)->lasting))
        *found = m;
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!find_mode(v.list->item[i], found))
            return false;
    return true;
}

static bool fake_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    void *outside = tp_self.fake;
    struct tp_shape_env *names = tp_self.shape_env;
    const tp_fake_mode *m = outside;
    for (int i = 0; i < op->arg_count; i++)
        if (!find_mode(arg[i], &m))
            return false;
    tp_self.fake = (void *)m;
    tp_self.shape_env = m ? m->env : NULL;
    bool ok = call_inside(op, arg, result);
    tp_self.fake = outside;
    tp_self.shape_env = names;
    return ok;
}

static const tp_layer fake_layer = { .name = "fake", .call = fake_call };

__attribute__((constructor)) static void mount_layer(void)
{
    tp_the_runtime.layer[TP_LAYER_FAKE] = &fake_layer;
}

void tp_fake_enter(tp_fake_mode *m)
{
    m->outer = tp_self.fake;
    tp_self.fake = m;
    tp_self.active |= KEY;
}

void tp_fake_leave(tp_fake_mode *m)
{
    tp_self.fake = m->outer;
    if (!m->outer)
        tp_self.active &= ~(uint32_t)KEY;
}
