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
    case TP_ERR_RECURSION: return PyExc_RecursionError;
    case TP_ERR_ASSERTION: return PyExc_AssertionError;
    case TP_ERR_INTERRUPT: return PyExc_KeyboardInterrupt;
    case TP_ERR_GUARD:
    case TP_ERR_DEVICES:
    case TP_ERR_DATA_OUTPUT:
    case TP_ERR_DYNAMIC_SHAPE:
    case TP_ERR_UNSUPPORTED:
    case TP_ERR_NONE:
    case TP_ERR_FOREIGN:
    case TP_ERR_RUNTIME: break;
    }
    return PyExc_RuntimeError;
}

/* Classes that the package has, with where: their modules are imported when one is raised. */
static const struct distant { tp_err kind; bool of_op; const char *module, *name; } distant[] = {
    { TP_ERR_GUARD, false, "fx.experimental.symbolic_shapes", "GuardOnDataDependentSymNode" },
    { TP_ERR_DEVICES, false, "_subclasses.fake_tensor", "FakeTensorDeviceMismatchError" },
    { TP_ERR_DATA_OUTPUT, true, "_subclasses.fake_tensor", "DataDependentOutputException" },
    { TP_ERR_DYNAMIC_SHAPE, true, "_subclasses.fake_tensor", "DynamicOutputShapeException" },
    { TP_ERR_UNSUPPORTED, true, "_subclasses.fake_tensor", "UnsupportedOperatorException" },
};

/* The OpOverload that a full name, `space::name.overload`, means. */
static PyObject *named_op(const char *full)
{
    char text[128];
    PyOS_snprintf(text, sizeof text, "%s", full);
    char *name = strstr(text, "::"), *overload = name ? strchr(name, '.') : NULL;
    if (overload)
        *overload++ = 0;
    if (name)
        *name = 0;
    const tp_op *op = name ? tp_op_find(text, name + 2, overload ? overload : "") : NULL;
    return op ? face_overload(op) : PyUnicode_FromString(full);
}

static void raise_distant(const struct distant *d)
{
    PyObject *what = d->of_op ? named_op(tp_error_text()) : PyUnicode_FromString(tp_error_text());
    PyObject *module = what ? face_import(d->module) : NULL, *class = module ? PyObject_GetAttrString(module, d->name) : NULL;
    if (class)
        PyErr_SetObject(class, what);
    Py_XDECREF(class);
    Py_XDECREF(module);
    Py_XDECREF(what);
}

PyObject *face_raise(void)
{
    tp_err kind = tp_error_kind();
    for (size_t i = 0; i < TP_COUNT(distant); i++)
        if (distant[i].kind == kind) {
            raise_distant(&distant[i]);
            tp_error_clear();
            return NULL;
        }
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
