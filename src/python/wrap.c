/* wrap.c - the two owners of a tensor: one Python object for each tensor Python has seen, for as long as either lives. */
#include "python/face.h"

/* ---- the hooks of the runtime ---- */
static void hold(tp_tensor *t)
{
    Py_INCREF((PyObject *)t->wrapper);
}

static void drop(tp_tensor *t)
{
    Py_DECREF((PyObject *)t->wrapper);
}

static bool may_touch(void)
{
    return PyGILState_Check();
}

static bool poll_interrupt(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool quiet = PyErr_CheckSignals() == 0;
    PyGILState_Release(state);
    return quiet || face_foreign();
}

static bool warn(const char *text)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool fine = PyErr_WarnEx(PyExc_UserWarning, text, 1) == 0;
    PyGILState_Release(state);
    return fine || face_foreign();
}

/* The lines of the user's program that lead here, as traceback.format_stack gives them. */
static tp_handle *capture_stack(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("traceback");
    PyObject *lines = module ? PyObject_CallMethod(module, "format_stack", NULL) : NULL;
    tp_handle *handle = lines ? face_handle_new(lines) : NULL;
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(lines);
    PyGILState_Release(state);
    return handle;
}

static bool report_stack(const char *node, tp_handle *stack)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *empty = PyUnicode_FromString(""), *text = empty && stack ? PyUnicode_Join(empty, stack->object) : NULL;
    bool fine;
    if (text)
        fine = PyErr_WarnFormat(PyExc_UserWarning, 1, "Error detected in %s. Traceback of forward call that caused the error:\n%U", node, text) == 0;
    else
        fine = PyErr_WarnFormat(PyExc_UserWarning, 1, "Error detected in %s. No forward pass information available. Enable detect anomaly during forward pass for more information.", node) == 0;
    Py_XDECREF(empty);
    Py_XDECREF(text);
    PyGILState_Release(state);
    return fine || face_foreign();
}

static void release_gil(void **state)
{
    *state = PyGILState_Check() ? PyEval_SaveThread() : NULL;
}

static void restore_gil(void **state)
{
    if (!*state)
        return;
    PyEval_RestoreThread(*state);
    if (atomic_load_explicit(&tp_the_runtime.orphans, memory_order_relaxed))
        tp_tensor_adopt_orphans();
}

void face_wrap_init(void)
{
    tp_the_runtime.python = (tp_wrapper_hooks){
        .hold = hold,
        .drop = drop,
        .may_touch = may_touch,
        .poll_interrupt = poll_interrupt,
        .capture_stack = capture_stack,
        .report_stack = report_stack,
        .warn = warn,
        .release_gil = release_gil,
        .restore_gil = restore_gil,
    };
}

/* ---- making wrappers ---- */

/* Plain tensors come from a free list and are not tracked: they refer to nothing the collector could free. */
static tensor_object *fresh_plain(void)
{
    tensor_object *w = face.free_wrapper;
    if (!w)
        return PyObject_GC_New(tensor_object, face.tensor);
    face.free_wrapper = (tensor_object *)w->tensor;
    face.free_wrapper_count--;
    return (tensor_object *)PyObject_Init((PyObject *)w, face.tensor);
}

static PyObject *attach(tensor_object *w, tp_tensor *taken)
{
    w->tensor = taken;
    taken->wrapper = w;
    if (atomic_load_explicit(&taken->refs, memory_order_relaxed) > 1)
        Py_INCREF(w);           /* C keeps it too: the state two owners are in above a count of one */
    return (PyObject *)w;
}

PyObject *face_wrap(tp_tensor *taken)
{
    if (!taken)
        Py_RETURN_NONE;
    if (taken->wrapper) {
        PyObject *w = Py_NewRef((PyObject *)taken->wrapper);
        tp_tensor_unref(taken);
        return w;
    }
    tensor_object *w = fresh_plain();
    if (!w) {
        tp_tensor_unref(taken);
        return NULL;
    }
    w->dict = w->weakrefs = NULL;
    if (taken->autograd)
        face_track(w);
    return attach(w, taken);
}

PyObject *face_wrap_or_raise(tp_tensor *taken)
{
    return taken ? face_wrap(taken) : face_raise();
}

PyObject *face_wrap_as(PyTypeObject *type, tp_tensor *taken)
{
    if (type == face.tensor)
        return face_wrap(taken);
    tensor_object *w = (tensor_object *)type->tp_alloc(type, 0);
    if (!w) {
        tp_tensor_unref(taken);
        return NULL;
    }
    if (((tensor_class *)type)->overrides & OVERRIDES_DISPATCH)
        taken->keys |= TP_LAYER_BIT(TP_LAYER_DISPATCH);
    return attach(w, taken);
}

void face_track(tensor_object *w)
{
    if (!PyObject_GC_IsTracked((PyObject *)w))
        PyObject_GC_Track(w);
}
