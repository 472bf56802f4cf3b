/* callable.c - a function of captured code in the hands of C code: sorted(key=f), map(f, …). Calling it goes back into the
 * capture, as long as that lasts. */
#include "python/capture/capture.h"

typedef struct callable {
    PyObject_HEAD
    capture  *capture;          /* borrowed; NULL: over */
    PyObject *function;         /* counted */
} callable;

static PyObject *callable_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    callable *f = (callable *)self;
    return f->capture ? capture_call(f->capture, f->function, args, kwargs) : PyObject_Call(f->function, args, kwargs);
}

static void callable_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((callable *)self)->function);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot callable_slots[] = { { Py_tp_call, callable_call }, { Py_tp_dealloc, callable_dealloc }, { 0, NULL } };
static PyType_Spec callable_spec = { "_captured_callable", sizeof(callable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     callable_slots };

PyObject *capture_callable(capture *c, PyObject *function)
{
    if (Py_IS_TYPE(function, face.capture_callable))
        return Py_NewRef(function);
    callable *f = (callable *)face.capture_callable->tp_alloc(face.capture_callable, 0);
    if (f) {
        f->capture = c;
        f->function = Py_NewRef(function);
        if (PyList_Append(c->callables, (PyObject *)f) < 0)
            Py_CLEAR(f);
    }
    return (PyObject *)f;
}

void capture_end_callables(capture *c)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(c->callables); i++)
        ((callable *)PyList_GET_ITEM(c->callables, i))->capture = NULL;
}

bool capture_callable_init(PyObject *module)
{
    return (face.capture_callable = face_make_type(module, &callable_spec, NULL));
}
