/* functional_graphs.c - functions of the program made pure. */
#include "trace/functional_graphs.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ARGS = 8 };

/* A function, functionalised: it takes and gives plain values. Stands on the stack of the call that it belongs to. */
typedef struct pure {
    tp_handle      head;
    tp_functional *f;           /* borrowed */
    tp_handle     *function;    /* borrowed */
    char           title[64];   /* "cond_true", as errors say it */
} pure;

static void pure_free(tp_handle *h) { (void)h; }
static bool pure_equal(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t pure_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }

/* Tensors of a list as wrappers, in place; other values stay. */
static bool wrap_items(tp_functional *f, tp_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        tp_tensor *value = tp_as_tensor(l->item[i]), *w = value ? tp_functional_wrap(f, value) : NULL;
        if (value && !w)
            return false;
        if (w) {
            tp_tensor_unref(value);
            l->item[i] = tp_of_tensor(w);
        }
    }
    return true;
}

static tp_list *wrapped(tp_functional *f, const tp_value *arg, uint32_t count)
{
    tp_list *l = tp_list_new(count);
    for (uint32_t i = 0; l && i < count; i++)
        l->item[i] = tp_value_ref(arg[i]);
    if (l && wrap_items(f, l))
        return l;
    if (l)
        tp_value_unref(tp_of_list(l));
    return NULL;
}

static bool check_fresh(const tp_functional *f, tp_value given, const char *title)
{
    for (uint32_t i = 0; i < tp_length(given); i++) {
        const tp_tensor *t = tp_as_tensor(given.list->item[i]);
        if (t && tp_is_functional(f, t) && tp_functional_depth(t) < f->depth)
            return tp_fail(TP_ERR_RUNTIME, "%s might be aliasing the input or the output!", title);
    }
    return true;
}

static bool pure_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    const pure *p = (const pure *)(const void *)h;
    tp_functional *f = p->f;
    tp_list *operands = wrapped(f, arg, count);
    tp_value given = tp_none();
    if (!operands)
        return false;
    tp_mount *outer = f->mount.outer;
    uint32_t allowed = tp_self.allowed;
    size_t held = f->held.count;
    const char *before = f->function;
    f->depth++;
    f->function = p->title;
    tp_self.allowed = TP_ALL_LAYERS;        /* the function is code of the program: all that is switched on sees it */
    tp_functional_enter(f, (tp_layer_id)f->mount.layer);
    bool ok = p->function->type->call(p->function, operands->item, count, &given);
    tp_functional_leave(f);
    ok = ok && check_fresh(f, given, p->title) && tp_functional_unwrap(f, given, out);
    tp_self.allowed = allowed;
    f->mount.outer = outer;
    f->function = before;
    f->depth--;
    while (f->held.count > held)
        tp_tensor_unref(f->held.item[--f->held.count]);
    tp_value_unref(given);
    tp_value_unref(tp_of_list(operands));
    return ok;
}

static const tp_handle_type pure_type = { .free = pure_free, .equal = pure_equal, .hash = pure_hash, .call = pure_call, .brief = true };

bool tp_functional_graphs(tp_functional *f, const tp_op *op, const tp_value *arg, tp_value *result)
{
    pure functions[2];
    tp_value plain[MOST_ARGS] = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < op->arg_count; i++)
        ok = tp_functional_unwrap(f, arg[i], &plain[i]);
    tp_value with[MOST_ARGS];
    memcpy(with, plain, sizeof with);
    for (int i = 0; i < op->rare->graphs->count; i++) {
        const struct tp_graphs_item *item = &op->rare->graphs->item[i];
        functions[i] = (pure){ .head.type = &pure_type, .f = f, .function = arg[item->arg].handle };
        atomic_init(&functions[i].head.refs, 1);
        snprintf(functions[i].title, sizeof functions[i].title, "%s_%.*s", op->name, (int)strcspn(item->prefix, "_"), item->prefix);
        with[item->arg].handle = &functions[i].head;
    }
    ok = ok && tp_mount_next(&f->mount, op, with, result) && (wrap_items(f, result[0].list) || tp_call_take_back(op, result));
    tp_values_unref(plain, op->arg_count);
    return ok;
}
