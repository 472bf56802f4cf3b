/* autograd_saved.c - saved_tensors_hooks: Python packs what the tape keeps, and unpacks it when backward asks. */
#include "base/alloc.h"
#include "grad/tape.h"
#include "python/face.h"

/* What is kept is a pair: the unpack hook that belongs to the pack hook of that time, and what the latter gave. */
static bool pack(tp_saved_hooks *h, tp_tensor *t, tp_value *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = h->user->object, *tensor = face_wrap(tp_tensor_ref(t));
    PyObject *packed = tensor ? PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 0), tensor) : NULL;
    PyObject *kept = packed ? PyTuple_Pack(2, PyTuple_GET_ITEM(pair, 1), packed) : NULL;
    tp_handle *handle = kept ? face_handle_new(kept) : NULL;
    bool failed = PyErr_Occurred() != NULL;
    Py_XDECREF(tensor);
    Py_XDECREF(packed);
    Py_XDECREF(kept);
    PyGILState_Release(state);
    if (handle)
        *out = (tp_value){ .tag = TP_HANDLE, .handle = handle };
    return handle || (failed && face_foreign());
}

static bool unpack(tp_value packed, tp_value *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = packed.handle->object;
    PyObject *given = PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    bool ok = given && face_is_tensor(given);
    if (given && !ok)
        PyErr_Format(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s", Py_TYPE(given)->tp_name);
    if (ok)
        *out = tp_of_tensor(tp_tensor_ref(face_tensor(given)));
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok || face_foreign();
}

static PyObject *push(PyObject *module, PyObject *pair)
{
    (void)module;
    const tp_saved_hooks *outer = tp_self.saved_hooks;
    if (outer && outer->disabled)
        return PyErr_Format(PyExc_RuntimeError, "%s", outer->disabled);
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
        return PyErr_Format(PyExc_TypeError, "a pack and an unpack hook are wanted");
    tp_saved_hooks *h = tp_alloc_zero(sizeof *h);
    if (!h || !(h->user = face_handle_new(pair))) {
        tp_free(h);
        return face_raise();
    }
    h->outer = tp_self.saved_hooks;
    h->pack = pack;
    h->unpack = unpack;
    tp_self.saved_hooks = h;
    Py_RETURN_NONE;
}

/* Hooks are forbidden while a message is set; pushes a level like any other. */
static PyObject *disable(PyObject *module, PyObject *message)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(message);
    tp_saved_hooks *h = text ? tp_alloc_zero(sizeof *h) : NULL;
    if (!h || !(h->user = face_handle_new(message))) {
        tp_free(h);
        return text ? face_raise() : NULL;
    }
    h->outer = tp_self.saved_hooks;
    h->disabled = text;         /* lives as long as the string, which the handle counts */
    tp_self.saved_hooks = h;
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    tp_saved_hooks *h = tp_self.saved_hooks;
    if (!h)
        return PyErr_Format(PyExc_RuntimeError, "there are no hooks of saved tensors");
    tp_self.saved_hooks = h->outer;
    tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h->user });
    tp_free(h);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_push_saved_hooks", push, METH_O, NULL },
    { "_disable_saved_hooks", disable, METH_O, NULL },
    { "_pop_saved_hooks", pop, METH_NOARGS, NULL },
    { 0 },
};

bool face_saved_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
