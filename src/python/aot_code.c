/* aot_code.c - what compilers give, as the engine calls it: a plan of a graph, or a Python callable over lists. */
#include "base/alloc.h"
#include "ir/run.h"
#include "python/aot.h"
#include "python/fx.h"

/* ---- values ---- */
bool aot_plain_value(PyObject *o, tp_value *out)
{
    int overflow;
    *out = tp_none();
    if (face_is_tensor(o))
        *out = tp_of_tensor(face_tensor(o));
    else if (face_is_sym(o))
        *out = face_sym_value(o);
    else if (PyBool_Check(o))
        *out = tp_bool(o == Py_True);
    else if (PyFloat_CheckExact(o))
        *out = tp_float(PyFloat_AS_DOUBLE(o));
    else if (PyLong_CheckExact(o)) {
        long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (!overflow)
            *out = tp_int(i);
    }
    return out->tag != TP_NONE || o == Py_None;
}

/* Any object; the result is owned. False: an error is set below. */
bool aot_any_value(PyObject *o, tp_value *out)
{
    if (aot_plain_value(o, out)) {
        *out = tp_value_ref(*out);
        return true;
    }
    tp_handle *h = face_handle_new(o);
    *out = h ? (tp_value){ .tag = TP_HANDLE, .handle = h } : tp_none();
    return h != NULL;
}

PyObject *aot_from_value(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return face_wrap(tp_tensor_ref(v.tensor));
    if (v.tag == TP_HANDLE)
        return Py_NewRef((PyObject *)v.handle->object);
    return face_from_value(tp_value_ref(v));
}

/* ---- what compilers give ---- */
typedef struct code_context {
    PyObject *callable;             /* counted: takes lists if boxed */
    tp_plan  *plan;                 /* borrowed from it, may be NULL */
    bool      boxed;
} code_context;

static bool take_results(PyObject *given, tp_value *out, uint32_t results)
{
    PyObject *all = face_items(given, "a compiled function must give a list or tuple");
    bool ok = all != NULL;
    if (ok && PySequence_Fast_GET_SIZE(all) != (Py_ssize_t)results) {
        PyErr_Format(PyExc_RuntimeError, "a compiled function gave %zd results instead of %u", PySequence_Fast_GET_SIZE(all), results);
        ok = false;
    }
    uint32_t at = 0;
    while (ok && at < results) {
        if (!aot_any_value(PySequence_Fast_GET_ITEM(all, at), &out[at])) {
            tp_values_unref(out, at);
            Py_DECREF(all);
            return false;
        }
        at++;
    }
    Py_XDECREF(all);
    return ok || face_foreign();
}

PyObject *aot_list_of(const tp_value *in, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *item = aot_from_value(in[i]);
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool call_python(const code_context *c, const tp_value *in, uint32_t count, tp_value *out, uint32_t results)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *list = aot_list_of(in, count), *tuple = NULL, *given = NULL;
    if (list && c->boxed)
        given = PyObject_CallOneArg(c->callable, list);
    else if (list && (tuple = PyList_AsTuple(list)))
        given = PyObject_CallObject(c->callable, tuple);
    bool ok = given ? take_results(given, out, results) : face_foreign() != NULL;
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok;
}

static bool call_code(void *context, const tp_value *in, uint32_t count, tp_value *out, uint32_t results)
{
    const code_context *c = context;
    return c->plan ? tp_plan_run_into(c->plan, in, count, out, results) : call_python(c, in, count, out, results);
}

static void free_code(void *context)
{
    code_context *c = context;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(c->callable);
    PyGILState_Release(state);
    tp_free(c);
}

bool aot_code_make(PyObject *callable, tp_aot_code *out)
{
    code_context *c = tp_alloc_zero(sizeof *c);
    if (!c)
        return face_raise() != NULL;
    c->callable = Py_NewRef(callable);
    c->plan = fx_plan_of(callable);
    *out = (tp_aot_code){ .context = c, .call = call_code, .free = free_code };
    PyObject *boxed = c->plan ? NULL : PyObject_GetAttrString(callable, "_boxed_call");
    if (!boxed)
        PyErr_Clear();
    if (!face_read_truth(boxed, &c->boxed))
        PyErr_Clear();
    Py_XDECREF(boxed);
    return true;
}

PyObject *aot_code_callable(const tp_aot_code *c)
{
    return c->context ? ((code_context *)c->context)->callable : NULL;
}
