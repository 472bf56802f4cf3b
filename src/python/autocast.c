/* autocast.c - the switches of torch.autocast: whether calls are cast, to what, and which casts are kept.
 *
 * Python sets flags where the layer has regions, so each thread that touches a flag gets one region of its own, the
 * outermost, kept in the dictionary of the thread and changed in place; it ends with the thread. */
#include "base/alloc.h"
#include "python/face.h"
#include "trace/autocast.h"

static const char KEY[] = "taper.autocast";

static void end_region(PyObject *capsule)
{
    tp_autocast_state *s = PyCapsule_GetPointer(capsule, KEY);
    if (s) {
        tp_autocast_leave(s);
        tp_free(s);
    }
}

/* The region of this thread, made when `make` says so; NULL without an exception: there is none. */
static tp_autocast_state *region(bool make)
{
    PyObject *of_thread = PyThreadState_GetDict();          /* borrowed */
    PyObject *capsule = of_thread ? PyDict_GetItemString(of_thread, KEY) : NULL;
    if (capsule)
        return PyCapsule_GetPointer(capsule, KEY);
    if (!make)
        return NULL;
    tp_autocast_state *s = of_thread ? tp_alloc(sizeof *s) : NULL;
    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    tp_autocast_enter(s, false, TP_bf16, true);
    if (!(capsule = PyCapsule_New(s, KEY, end_region))) {
        tp_autocast_leave(s);
        tp_free(s);
        return NULL;
    }
    int set = PyDict_SetItemString(of_thread, KEY, capsule);
    Py_DECREF(capsule);                                     /* the last one ends the region */
    return set == 0 ? s : NULL;
}

/* _autocast_flags() -> (enabled, dtype, cache) */
static PyObject *get_flags(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const tp_autocast_state *s = region(false);
    PyObject *dtype = face_dtype(s ? (tp_dtype)s->dtype : TP_bf16);
    return dtype ? Py_BuildValue("(NNN)", PyBool_FromLong(s && s->enabled), dtype, PyBool_FromLong(!s || s->cache)) : NULL;
}

/* _set_autocast_flags(enabled, dtype, cache) */
static PyObject *set_flags(PyObject *module, PyObject *args)
{
    (void)module;
    int enabled, cache;
    PyObject *dtype;
    tp_dtype d;
    if (!PyArg_ParseTuple(args, "pOp", &enabled, &dtype, &cache) || !face_dtype_read(dtype, &d))
        return NULL;
    if (enabled && tp_self.tracer[0])               /* that tracer stands above this layer: its graph would be without the casts */
        return PyErr_Format(PyExc_NotImplementedError, "autocast in code that is traced above autograd (torch.export, make_fx with pre_dispatch=True)");
    tp_autocast_state *s = region(true);
    if (!s)
        return NULL;
    tp_autocast_change(s, enabled, d, cache);
    Py_RETURN_NONE;
}

/* _autocast_nest(by) -> how many regions of Python are open */
static PyObject *nest(PyObject *module, PyObject *by)
{
    (void)module;
    long change = PyLong_AsLong(by);
    if (change == -1 && PyErr_Occurred())
        return NULL;
    tp_autocast_state *s = region(true);
    return s ? PyLong_FromLong(s->nesting += (int)change) : NULL;
}

static PyObject *clear(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    tp_autocast_clear();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_autocast_flags", get_flags, METH_NOARGS, NULL },
    { "_set_autocast_flags", set_flags, METH_VARARGS, NULL },
    { "_autocast_nest", nest, METH_O, NULL },
    { "clear_autocast_cache", clear, METH_NOARGS, NULL },
    { 0 },
};

bool face_autocast_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
