/* aot_origin.c - origins from fx.traceback, and for formulas from the calls they belong to. */
#include "python/aot_origin.h"

#include "base/alloc.h"
#include "grad/tape.h"

void aot_origins_fini(aot_origins *o)
{
    for (size_t i = 0; i < o->calls.count; i++)
        tp_origin_unref(o->calls.item[i].origin);
    tp_array_fini(&o->calls);
    Py_CLEAR(o->traceback);
}

/* The call that was noted first after the tape's node was made. */
static tp_origin *of_formula(const aot_origins *o, const tp_grad_node *n)
{
    size_t low = 0, high = o->calls.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (o->calls.item[middle].sequence <= n->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->calls.count ? tp_origin_ref(o->calls.item[low].origin) : NULL;
}

/* The text of the meta that is current; borrowed from `meta`. */
static const char *current_trace(aot_origins *o, PyObject **meta, Py_ssize_t *length)
{
    if (!o->traceback)
        o->traceback = face_import("fx.traceback");
    *meta = o->traceback ? PyObject_CallMethod(o->traceback, "get_current_meta", NULL) : NULL;
    PyObject *text = *meta && PyDict_Check(*meta) ? PyDict_GetItemString(*meta, "stack_trace") : NULL;
    return text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, length) : NULL;
}

static tp_origin *from_text(const char *text, size_t length)
{
    tp_value string = tp_value_string(text, length);
    tp_origin *made = string.tag == TP_STRING ? tp_origin_new() : NULL;
    if (made)
        made->stack_trace = string.string;
    else
        tp_value_unref(string);
    return made;
}

tp_origin *aot_origin_now(aot_origins *o)
{
    PyObject *meta = NULL;
    Py_ssize_t length = 0;
    if (tp_self.engine)
        return of_formula(o, tp_self.engine);
    const char *text = current_trace(o, &meta, &length);
    tp_origin *made = text ? from_text(text, (size_t)length) : NULL;
    PyErr_Clear();
    Py_XDECREF(meta);
    if (!made) {
        tp_error_clear();               /* a graph without the text is still the graph */
        return NULL;
    }
    struct aot_call call = { atomic_load(&tp_the_runtime.sequence), made };
    if (tp_array_push(&o->calls, call))
        tp_origin_ref(made);
    else
        tp_error_clear();
    return made;
}
