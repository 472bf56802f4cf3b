/* print.c - repr of tensors. */
#include "grad/tape.h"
#include "python/face.h"

/* The options and the layout of numbers belong to the package's printer; here is only who is asked. */
PyObject *face_tensor_repr(PyObject *self)
{
    PyObject *printer = PyObject_GetAttrString(face.module, "_tensor_str");
    if (!printer)
        return NULL;
    PyObject *text = PyObject_CallOneArg(printer, self);
    Py_DECREF(printer);
    return text;
}
