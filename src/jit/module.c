/* module.c - owners and slots of traced functions and modules. */
#include "jit/module.h"

#include "jit/run.h"

static bool same(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t address(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }

/* ---- functions ---- */
static void function_free(tp_handle *h)
{
    tp_jit_function *f = (tp_jit_function *)(void *)h;
    tp_jit_plan_free(f->plan);
    tp_graph_unref(f->graph);
    tp_free(f->name);
    tp_free(f);
}

static bool function_repr(const tp_handle *h, tp_text *out)
{
    tp_text_add(out, "%s", ((const tp_jit_function *)(const void *)h)->name);
    return !out->failed;
}

static const tp_handle_type function_type = { .free = function_free, .equal = same, .hash = address, .repr = function_repr };

tp_jit_function *tp_jit_function_new(const char *name, tp_graph *g, bool method)
{
    tp_jit_function *f = tp_alloc_zero(sizeof *f);
    if (!f || !(f->name = tp_alloc_text(name))) {
        tp_free(f);
        return NULL;
    }
    atomic_init(&f->handle.refs, 1);
    f->handle.type = &function_type;
    f->graph = tp_graph_ref(g);
    f->method = method;
    return f;
}

tp_jit_function *tp_jit_function_ref(tp_jit_function *f)
{
    tp_count_up(&f->handle.refs);
    return f;
}

void tp_jit_function_unref(tp_jit_function *f)
{
    if (f)
        tp_value_unref(tp_jit_of_function(f));
}

void tp_jit_function_changed(tp_jit_function *f)
{
    tp_jit_plan_free(f->plan);
    f->plan = NULL;
}

/* ---- modules ---- */
static void module_free(tp_handle *h)
{
    tp_jit_module *m = (tp_jit_module *)(void *)h;
    for (size_t i = 0; i < m->slot.count; i++) {
        tp_free(m->slot.item[i].name);
        tp_value_unref(m->slot.item[i].value);
    }
    for (size_t i = 0; i < m->method.count; i++)
        tp_jit_function_unref(m->method.item[i]);
    tp_array_fini(&m->slot);
    tp_text_map_fini(&m->index);
    tp_array_fini(&m->method);
    tp_jit_type_unref(m->type);
    tp_free(m);
}

static bool module_repr(const tp_handle *h, tp_text *out)
{
    tp_text_add(out, "<%s>", ((const tp_jit_module *)(const void *)h)->type->name);
    return !out->failed;
}

static const tp_handle_type module_type = { .free = module_free, .equal = same, .hash = address, .repr = module_repr };

tp_jit_module *tp_jit_module_new(const char *type_name)
{
    tp_jit_module *m = tp_alloc_zero(sizeof *m);
    if (!m || !(m->type = tp_jit_class_new(type_name))) {
        tp_free(m);
        return NULL;
    }
    atomic_init(&m->handle.refs, 1);
    m->handle.type = &module_type;
    return m;
}

void tp_jit_module_unref(tp_jit_module *m)
{
    if (m)
        tp_value_unref(tp_jit_of_module(m));
}

tp_jit_module *tp_jit_as_module(tp_value v)
{
    return v.tag == TP_HANDLE && v.handle->type == &module_type ? (tp_jit_module *)(void *)v.handle : NULL;
}

tp_jit_function *tp_jit_as_function(tp_value v)
{
    return v.tag == TP_HANDLE && v.handle->type == &function_type ? (tp_jit_function *)(void *)v.handle : NULL;
}

enum { FEW_SLOTS = 8 };             /* up to so many are looked through: most modules have three */

tp_jit_slot *tp_jit_module_slot(const tp_jit_module *m, const char *name)
{
    uint64_t at;
    for (size_t i = 0; !m->index.count && i < m->slot.count; i++)
        if (strcmp(m->slot.item[i].name, name) == 0)
            return &m->slot.item[i];
    return tp_text_map_get(&m->index, name, &at) ? &m->slot.item[at] : NULL;
}

/* The slot at the end is in the index too, once there is one. */
static bool note_slot(tp_jit_module *m)
{
    size_t from = m->index.count;
    for (size_t i = from; m->slot.count > FEW_SLOTS && i < m->slot.count; i++)
        if (!tp_text_map_put(&m->index, m->slot.item[i].name, i)) {
            if (!from)
                tp_text_map_fini(&m->index);
            return false;
        }
    return true;
}

bool tp_jit_module_set(tp_jit_module *m, const char *name, tp_jit_role role, tp_value v)
{
    tp_jit_slot *old = tp_jit_module_slot(m, name);
    tp_value kept = tp_value_ref(v);
    if (tp_is_none(kept) && !tp_is_none(v))
        return false;
    if (old) {
        tp_value_unref(old->value);
        old->value = kept;
        old->role = (uint8_t)role;
        return true;
    }
    tp_jit_slot fresh = { .name = tp_alloc_text(name), .role = (uint8_t)role, .value = kept };
    if (fresh.name && tp_array_push(&m->slot, fresh)) {
        if (note_slot(m))
            return true;
        m->slot.count--;
    }
    tp_free(fresh.name);
    tp_value_unref(kept);
    return false;
}

const tp_value *tp_jit_module_find(const tp_jit_module *m, const char *path)
{
    char name[256];
    for (;;) {
        size_t length = strcspn(path, ".");
        if (length >= sizeof name)
            return NULL;
        memcpy(name, path, length);
        name[length] = 0;
        const tp_jit_slot *s = tp_jit_module_slot(m, name);
        if (!s || !path[length])
            return s ? &s->value : NULL;
        if (!(m = tp_jit_as_module(s->value)))
            return NULL;
        path += length + 1;
    }
}

tp_jit_type *tp_jit_type_of_member(tp_value v)
{
    const tp_jit_module *m = tp_jit_as_module(v);
    return m ? tp_jit_type_ref(m->type) : v.tag == TP_TENSOR ? tp_jit_simple(TP_JIT_ANY_TENSOR) : tp_jit_type_of_value(v);
}

tp_jit_type *tp_jit_module_type(const tp_jit_module *m, const char *path)
{
    const tp_value *v = *path ? tp_jit_module_find(m, path) : NULL;
    if (*path && !v)
        return tp_fail(TP_ERR_RUNTIME, "no '%s' in the traced module", path);
    return v ? tp_jit_type_of_member(*v) : tp_jit_type_ref(m->type);
}

tp_jit_function *tp_jit_module_method(const tp_jit_module *m, const char *name)
{
    for (size_t i = 0; i < m->method.count; i++)
        if (strcmp(m->method.item[i]->name, name) == 0)
            return m->method.item[i];
    return NULL;
}

bool tp_jit_module_define(tp_jit_module *m, tp_jit_function *f)
{
    for (size_t i = 0; i < m->method.count; i++)
        if (strcmp(m->method.item[i]->name, f->name) == 0) {
            tp_jit_function *old = m->method.item[i];
            m->method.item[i] = tp_jit_function_ref(f);
            tp_jit_function_unref(old);
            return true;
        }
    if (!tp_array_push(&m->method, f))
        return false;
    tp_jit_function_ref(f);
    return true;
}
