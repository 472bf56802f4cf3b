/* aot_origin.c - origins from fx.traceback, and for formulas from the calls they belong to. */
#include "python/aot_origin.h"

#include "base/alloc.h"
#include "grad/tape.h"
#include "python/fx.h"

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

tp_origin *aot_origin_now(aot_origins *o)
{
    if (tp_self.engine)
        return of_formula(o, tp_self.engine);
    if (!o->traceback)
        o->traceback = face_import("fx.traceback");
    PyObject *meta = o->traceback ? PyObject_CallMethod(o->traceback, "get_current_meta", NULL) : NULL;
    tp_origin *made = meta ? fx_origin_of(meta) : NULL;
    PyErr_Clear();
    Py_XDECREF(meta);
    if (!made)
        return NULL;                    /* a graph without the text is still the graph */
    struct aot_call call = { atomic_load(&tp_the_runtime.sequence), made };
    if (tp_array_push(&o->calls, call))
        tp_origin_ref(made);
    else
        tp_error_clear();
    return made;
}
