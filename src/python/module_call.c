/* module_call.c - calling an nn.Module without hooks: straight to its forward.
 *
 * The whole protocol of a call is Python (nn/modules/_hooks.py); this is its first line, the question whether there is any
 * hook at all, in C: a Linear of two features takes less time than the question took. `_module_call(slow, dicts…)` makes the
 * descriptor that becomes Module.__call__: dicts are the hooks of all modules, `slow` the protocol. */
#include <string.h>

#include "base/alloc.h"
#include "python/face.h"

/* Is a hook dict of the instance absent, not a dict, or not empty? Then Python decides. */
static bool has_hooks(PyObject *own, PyObject *name)
{
    PyObject *hooks = PyDict_GetItemWithError(own, name);
    return !hooks || !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) != 0;
}

/* The forward of the class, when looking it up on the instance would find just that: no attribute of the instance hides it
 * and the class looks attributes up in the usual way. Borrowed; NULL without an exception: look it up. */
static PyObject *forward_of(PyObject *self, PyObject *own)
{
    PyObject *forward = _PyType_Lookup(Py_TYPE(self), face.name_forward);
    bool usual = forward && PyFunction_Check(forward) && !PyDict_GetItemWithError(own, face.name_forward) &&
                 _PyType_Lookup(Py_TYPE(self), face.name_getattribute) == face.usual_getattribute;
    return usual ? forward : NULL;
}

/* Is there no hook at all? Then `forward` is what to call, counted, or NULL where it has to be looked up. */
static bool is_plain(PyObject *self, PyObject **forward)
{
    for (int i = 0; i < FACE_HOOK_DICTS; i++)
        if (PyDict_GET_SIZE(face.module_hooks[i]) != 0)
            return false;
    PyObject *own = PyObject_GenericGetDict(self, NULL);
    bool plain = own != NULL;
    for (int i = 0; plain && i < FACE_HOOK_DICTS; i++)
        plain = !has_hooks(own, face.module_hook_names[i]);
    plain = plain && !PyDict_GetItemWithError(own, face.name_compiled);
    *forward = plain ? Py_XNewRef(forward_of(self, own)) : NULL;
    Py_XDECREF(own);
    PyErr_Clear();
    return plain;
}

bool face_module_is_plain(PyObject *self)
{
    PyObject *forward;
    bool plain = is_plain(self, &forward);
    if (plain)
        Py_XDECREF(forward);
    return plain;
}

/* `args` begins with the module, which `count` counts. */
static PyObject *call_with_self(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *forward;
    if (TP_UNLIKELY(!is_plain(args[0], &forward)))
        return PyObject_Vectorcall(face.module_slow, args, (size_t)count, names);
    if (TP_UNLIKELY(face_is_traced())) {
        Py_XDECREF(forward);
        return face_jit_forward(args[0], args, (size_t)count, names);
    }
    if (!forward)
        return PyObject_VectorcallMethod(face.name_forward, args, (size_t)count, names);
    PyObject *result = PyObject_Vectorcall(forward, args, (size_t)count, names);
    Py_DECREF(forward);
    return result;
}

/* A GraphModule whose generated code failed has shown where; what is left of the traceback would be its insides. An exception that was
 * shown goes through outer modules as it is. */
static void tell_failure(PyObject *self)
{
    PyObject *type, *value, *trace;
    if (!face.fx.tell_failure || !PyObject_TypeCheck(self, (PyTypeObject *)face.fx.graph_module) || !PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    PyObject *told = PyObject_HasAttrString(value, "_fx_told") ? NULL : PyObject_CallOneArg(face.fx.tell_failure, value);
    if (told && PyObject_IsTrue(told) == 1 && PyObject_SetAttrString(value, "_fx_told", Py_True) == 0) {
        PyException_SetTraceback(value, Py_None);
        Py_CLEAR(trace);
    }
    Py_XDECREF(told);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/* As call_with_self, of arguments that lie elsewhere. */
static PyObject *call_with_args(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    size_t given = (size_t)(count + (names ? PyTuple_GET_SIZE(names) : 0));
    PyObject *few[16], **all = given < TP_COUNT(few) ? few : tp_alloc_array(given + 1, sizeof *all);
    if (!all)
        return face_raise();
    all[0] = self;
    if (given)
        memcpy(all + 1, args, given * sizeof *all);
    PyObject *result = call_with_self(all, count + 1, names);
    if (TP_UNLIKELY(!result))
        tell_failure(self);
    if (all != few)
        tp_free(all);
    return result;
}

/* In the slot of a class, as module_members.c says. */
static PyObject *slot_call(PyObject *self, PyObject *args, PyObject *words)
{
    if (words && PyDict_GET_SIZE(words) != 0)
        return face.module_class_call(self, args, words);
    return call_with_args(self, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args), NULL);
}

/* What stands before `args` is the module only when the descriptor itself was called: super().__call__(*args) hands over the items of a
 * tuple. */
static PyObject *module_call(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyTypeObject *type = Py_TYPE(self);
    if (type->tp_call != slot_call && _PyType_Lookup(type, face.name_call) == face.door_call) {
        face.module_class_call = type->tp_call;
        type->tp_call = slot_call;
    }
    return call_with_args(self, args, count, names);
}

static PyMethodDef call_methods = { "__call__", (PyCFunction)(void (*)(void))module_call, METH_FASTCALL | METH_KEYWORDS,
                                    "__call__($self, /, *args, **kwargs)\n--\n\n" };

static PyObject *make_call(PyObject *module, PyObject *args)
{
    static const char *const members[FACE_MEMBER_DICTS] = { "_parameters", "_buffers", "_modules" };
    static const char *const names[FACE_HOOK_DICTS] = { "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks" };
    PyObject *slow, *dict[FACE_HOOK_DICTS];
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!O!O!", &slow, &PyDict_Type, &dict[0], &PyDict_Type, &dict[1], &PyDict_Type, &dict[2],
                          &PyDict_Type, &dict[3]))
        return NULL;
    Py_XSETREF(face.module_slow, Py_NewRef(slow));
    for (int i = 0; i < FACE_HOOK_DICTS; i++) {
        Py_XSETREF(face.module_hooks[i], Py_NewRef(dict[i]));
        Py_XSETREF(face.module_hook_names[i], PyUnicode_InternFromString(names[i]));
        if (!face.module_hook_names[i])
            return NULL;
    }
    for (int i = 0; i < FACE_MEMBER_DICTS; i++) {
        Py_XSETREF(face.module_members[i], PyUnicode_InternFromString(members[i]));
        if (!face.module_members[i])
            return NULL;
    }
    Py_XSETREF(face.name_getattr, PyUnicode_InternFromString("__getattr__"));
    Py_XSETREF(face.name_call, PyUnicode_InternFromString(call_methods.ml_name));
    Py_XSETREF(face.name_forward, PyUnicode_InternFromString("forward"));
    Py_XSETREF(face.name_compiled, PyUnicode_InternFromString("_compiled_call_impl"));
    Py_XSETREF(face.name_getattribute, PyUnicode_InternFromString("__getattribute__"));
    if (face.name_getattribute)
        face.usual_getattribute = _PyType_Lookup(&PyBaseObject_Type, face.name_getattribute);
    Py_XSETREF(face.door_call, PyDescr_NewMethod(&PyBaseObject_Type, &call_methods));
    bool ok = face.name_getattr && face.name_call && face.name_forward && face.name_compiled && face.usual_getattribute;
    return ok ? Py_XNewRef(face.door_call) : NULL;
}

static PyMethodDef functions[] = {
    { "_module_call", make_call, METH_VARARGS, "the descriptor that becomes Module.__call__" },
    { NULL },
};

bool face_module_call_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
