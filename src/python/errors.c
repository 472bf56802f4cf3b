/* errors.c - errors of the engine become exceptions, by one table. */
#include "python/face.h"

/* A pending Python exception travels through the engine as TP_ERR_FOREIGN; it is already set. */
static PyObject *exception_class(tp_err kind)
{
    switch (kind) {
    case TP_ERR_VALUE: return PyExc_ValueError;
    case TP_ERR_INDEX: return PyExc_IndexError;
    case TP_ERR_TYPE: return PyExc_TypeError;
    case TP_ERR_KEY: return PyExc_KeyError;
    case TP_ERR_ATTRIBUTE: return PyExc_AttributeError;
    case TP_ERR_UNIMPLEMENTED: return PyExc_NotImplementedError;
    case TP_ERR_LINALG: return face.linalg_error;
    case TP_ERR_MEMORY: return PyExc_MemoryError;
    case TP_ERR_OVERFLOW: return PyExc_OverflowError;
    case TP_ERR_ZERO_DIVISION: return PyExc_ZeroDivisionError;
    case TP_ERR_ASSERTION: return PyExc_AssertionError;
    case TP_ERR_INTERRUPT: return PyExc_KeyboardInterrupt;
    case TP_ERR_NONE:
    case TP_ERR_FOREIGN:
    case TP_ERR_RUNTIME: break;
    }
    return PyExc_RuntimeError;
}

PyObject *face_raise(void)
{
    tp_err kind = tp_error_kind();
    if (kind == TP_ERR_FOREIGN && PyErr_Occurred()) {
        tp_error_clear();
        return NULL;
    }
    PyErr_SetString(exception_class(kind), tp_error_text());
    tp_error_clear();
    return NULL;
}

PyObject *face_raise_keeping(PyObject *result)
{
    Py_XDECREF(result);
    return face_raise();
}

void *face_foreign(void)
{
    return tp_fail(TP_ERR_FOREIGN, "a Python exception is pending");
}

PyObject *face_unimplemented(const char *what)
{
    PyErr_Format(PyExc_NotImplementedError, "%s is not implemented in Taper yet", what);
    return NULL;
}

PyObject *face_import(const char *module)
{
    char name[128];
    PyOS_snprintf(name, sizeof name, "%s.%s", face.package, module);
    return PyImport_ImportModule(name);
}
