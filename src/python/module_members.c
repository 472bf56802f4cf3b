/* module_members.c - members of an nn.Module, without the questions where their answers are plain.
 *
 * The rules of a new member are Python (nn/modules/module.py): what a class has overridden, what hooks replace, what is refused.
 * But a model of a thousand layers asks them ten thousand times, and that took longer than to draw its weights. `_module_doors`
 * makes the descriptors that stand before Module.__setattr__ and Module.add_module: they do what is surely right and leave the
 * rest to the methods. Module.__getattr__ is here alone: three dicts to look into. */
#include "grad/tape.h"
#include "python/face.h"

enum { PARAMETERS, BUFFERS, MODULES };

/* A module as its members are asked for. */
typedef struct owner {
    PyObject *module;           /* borrowed */
    PyObject *own;              /* counted: its dict */
    PyObject *in[FACE_MEMBER_DICTS];    /* borrowed from `own` */
} owner;

static bool owner_open(owner *o, PyObject *module)
{
    o->module = module;
    o->own = face.module_class ? PyObject_GenericGetDict(module, NULL) : NULL;
    bool ok = o->own != NULL;
    for (int i = 0; ok && i < FACE_MEMBER_DICTS; i++) {
        o->in[i] = PyDict_GetItemWithError(o->own, face.module_members[i]);
        ok = o->in[i] && PyDict_Check(o->in[i]);
    }
    return ok;
}

/* Whatever went wrong on the way here, the methods say better. */
static void owner_close(owner *o)
{
    Py_XDECREF(o->own);
    PyErr_Clear();
}

static bool has(PyObject *dict, PyObject *name)
{
    return PyDict_GetItemWithError(dict, name) != NULL;
}

bool face_module_is_usual(PyTypeObject *type, PyObject *method)
{
    return face.module_class && _PyType_Lookup(type, method) == _PyType_Lookup(face.module_class, method);
}

/* Members are found in the three dicts and nowhere else. */
static bool finds_as_usual(PyTypeObject *type)
{
    return _PyType_Lookup(type, face.name_getattr) == face.door_getattr &&
           _PyType_Lookup(type, face.name_getattribute) == face.usual_getattribute;
}

/* Surely no attribute of this name; false: hasattr knows. */
static bool surely_lacks(const owner *o, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(o->module);
    return !_PyType_Lookup(type, name) && finds_as_usual(type) && !has(o->own, name) && !has(o->in[PARAMETERS], name) &&
           !has(o->in[BUFFERS], name) && !has(o->in[MODULES], name);
}

/* May the name stand for a member of this kind? */
static bool is_free(const owner *o, int kind, PyObject *name)
{
    return has(o->in[kind], name) || (PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) == -1 &&
                                      surely_lacks(o, name));
}

static bool is_leaf(PyObject *tensor)
{
    tp_grad_node *node;
    uint32_t slot;
    bool ok = tp_grad_fn(face_tensor(tensor), &node, &slot);
    if (!ok)
        tp_error_clear();
    return ok && !node;
}

static bool put(const owner *o, int kind, PyObject *name, PyObject *value)
{
    return PyDict_GET_SIZE(face.module_registration[kind]) == 0 && PyDict_SetItem(o->in[kind], name, value) == 0;
}

/* Values of types that Python itself has are no members; others may claim to be one. */
static bool set_quickly(const owner *o, PyObject *name, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        PyObject *hidden = _PyType_Lookup(Py_TYPE(o->module), name);
        return !(hidden && Py_TYPE(hidden)->tp_descr_set) && !has(o->in[PARAMETERS], name) && !has(o->in[BUFFERS], name) &&
               !has(o->in[MODULES], name) && PyDict_SetItem(o->own, name, value) == 0;
    }
    if (type == face.parameter)
        return face_module_is_usual(Py_TYPE(o->module), face.name_register) && is_leaf(value) && is_free(o, PARAMETERS, name) && put(o, PARAMETERS, name, value);
    return PyType_IsSubtype(type, face.module_class) && !has(o->own, name) && !has(o->in[PARAMETERS], name) && !has(o->in[BUFFERS], name) &&
           put(o, MODULES, name, value);
}

static PyObject *slowly(PyObject *method, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *bound = PyMethod_New(method, self);
    PyObject *result = bound ? PyObject_Vectorcall(bound, args, (size_t)count, names) : NULL;
    Py_XDECREF(bound);
    return result;
}

/* ---- slots ----
 *
 * CPython asks a class for __getattr__ and __call__ at every use, and for `self.weight` makes and drops an exception before. So a door
 * that is passed puts a function into the slot of the class, where the method is the door. Whoever assigns such a method, to the
 * class or to one above it, makes CPython fill the slot anew, until a door is passed again. */

static PyObject *member_of(PyObject *self, PyObject *name)
{
    PyObject *own = PyObject_GenericGetDict(self, NULL), *member = NULL;
    for (int i = 0; own && !member && i < FACE_MEMBER_DICTS; i++) {
        PyObject *members = PyDict_GetItemWithError(own, face.module_members[i]);
        if (members && PyDict_Check(members))
            member = Py_XNewRef(PyDict_GetItemWithError(members, name));
    }
    Py_XDECREF(own);
    if (!member && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
    return member;
}

static PyObject *slot_getattr(PyObject *self, PyObject *name)
{
    PyObject *found = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1);
    return found || PyErr_Occurred() ? found : member_of(self, name);
}

static PyObject *door_getattr(PyObject *self, PyObject *name)
{
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%s'", Py_TYPE(name)->tp_name);
    if (finds_as_usual(Py_TYPE(self)))
        Py_TYPE(self)->tp_getattro = slot_getattr;
    return member_of(self, name);
}

/* No slot for this one: object.__setattr__, which classes call to get around Module's, refuses one that is not CPython's own. */
static PyObject *door_setattr(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    owner o = { 0 };
    bool done = count == 2 && PyUnicode_CheckExact(args[0]) && owner_open(&o, self) && set_quickly(&o, args[0], args[1]);
    owner_close(&o);
    if (!done)
        return slowly(face.module_setattr, self, args, count, NULL);
    Py_RETURN_NONE;
}

static PyObject *door_add_module(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    owner o = { 0 };
    bool done = count == 2 && !names && PyUnicode_CheckExact(args[0]) && PyObject_TypeCheck(args[1], face.module_class) && owner_open(&o, self) &&
                is_free(&o, MODULES, args[0]) && put(&o, MODULES, args[0], args[1]);
    owner_close(&o);
    if (!done)
        return slowly(face.module_add, self, args, count, names);
    Py_RETURN_NONE;
}

static PyMethodDef door_methods[] = {
    { "__getattr__", door_getattr, METH_O, "__getattr__($self, name)\n--\n\n" },
    { "__setattr__", (PyCFunction)(void (*)(void))door_setattr, METH_FASTCALL, "__setattr__($self, name, value)\n--\n\n" },
    { "add_module", (PyCFunction)(void (*)(void))door_add_module, METH_FASTCALL | METH_KEYWORDS,
      "add_module($self, name, module)\n--\n\nA module below this one, by name." },
};

/* The door becomes a method of Module; the method that it stands before, if any, is kept. */
static bool make_door(PyMethodDef *of, PyObject **door, PyObject **before)
{
    PyObject *plain = (PyObject *)face.module_class, *made = PyDescr_NewMethod(face.module_class, of);
    if (before)
        Py_XSETREF(*before, PyObject_GetAttrString(plain, of->ml_name));
    bool ok = made && (!before || *before) && PyObject_SetAttrString(plain, of->ml_name, made) == 0;
    if (door)
        Py_XSETREF(*door, Py_XNewRef(made));
    Py_XDECREF(made);
    return ok;
}

/* _module_doors(Module, registration hooks of parameters, of buffers, of modules) */
static PyObject *make_doors(PyObject *unused, PyObject *args)
{
    PyObject *plain, *hooks[FACE_MEMBER_DICTS];
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &plain, &PyDict_Type, &hooks[0], &PyDict_Type, &hooks[1], &PyDict_Type, &hooks[2]))
        return NULL;
    Py_XSETREF(face.module_class, (PyTypeObject *)Py_NewRef(plain));
    Py_XSETREF(face.name_register, PyUnicode_InternFromString("register_parameter"));
    for (int i = 0; i < FACE_MEMBER_DICTS; i++)
        Py_XSETREF(face.module_registration[i], Py_NewRef(hooks[i]));
    if (!face.name_register || !make_door(&door_methods[0], &face.door_getattr, NULL) ||
        !make_door(&door_methods[1], NULL, &face.module_setattr) || !make_door(&door_methods[2], NULL, &face.module_add))
        return NULL;
    Py_RETURN_NONE;
}

/* _module_lacks(module, name): surely no attribute of this name; false: hasattr knows. */
static PyObject *module_lacks(PyObject *unused, PyObject *const *args, Py_ssize_t count)
{
    owner o = { 0 };
    (void)unused;
    bool lacks = count == 2 && PyUnicode_Check(args[1]) && owner_open(&o, args[0]) && surely_lacks(&o, args[1]);
    owner_close(&o);
    return PyBool_FromLong(lacks);
}

/* _module_begin(dict, values): what every new module holds; of a value that is a class, a new instance. */
static PyObject *module_begin(PyObject *unused, PyObject *const *args, Py_ssize_t count)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    (void)unused;
    if (count != 2 || !PyDict_Check(args[0]) || !PyDict_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "_module_begin takes the dict of a module and that of its first values");
    while (PyDict_Next(args[1], &at, &name, &value)) {
        value = PyType_Check(value) ? PyObject_CallNoArgs(value) : Py_NewRef(value);
        bool ok = value && PyDict_SetItem(args[0], name, value) == 0;
        Py_XDECREF(value);
        if (!ok)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_module_doors", make_doors, METH_VARARGS, NULL },
    { "_module_lacks", (PyCFunction)(void (*)(void))module_lacks, METH_FASTCALL, NULL },
    { "_module_begin", (PyCFunction)(void (*)(void))module_begin, METH_FASTCALL, NULL },
    { NULL },
};

bool face_module_members_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
