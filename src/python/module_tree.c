/* module_tree.c - walks over a module and all below it that are made in one go: its tensors by full name, and train().
 *
 * What a class has overridden is asked of the class: the walk goes on here where methods are those of nn.Module. Public
 * iterators stay generators of Python, whose loops may change the tree. */
#include "python/face.h"

/* One of the dicts of members, borrowed from `own`. */
static PyObject *members_in(PyObject *module, PyObject *own, int which)
{
    PyObject *members = PyDict_GetItemWithError(own, face.module_members[which]);
    if (members && PyDict_Check(members))
        return members;
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(module)->tp_name,
                                                  face.module_members[which]);
}

/* ---- tensors by full name ---- */
typedef struct listing {
    PyObject *named_modules;    /* counted: the word */
    PyObject *tensors;          /* counted dict: full name -> tensor */
    PyObject *places;           /* counted dict: full name -> the dict that has it, under the last part of the name */
} listing;

static PyObject *prefix_of(PyObject *path)
{
    return PyUnicode_GET_LENGTH(path) ? PyUnicode_FromFormat("%U.", path) : Py_NewRef(path);
}

static bool list_tensor(listing *l, PyObject *prefix, PyObject *members, PyObject *name, PyObject *tensor)
{
    PyObject *full = PyUnicode_Concat(prefix, name);
    bool ok = full && PyDict_SetItem(l->tensors, full, tensor) == 0 && PyDict_SetItem(l->places, full, members) == 0;
    Py_XDECREF(full);
    return ok;
}

static bool list_own(listing *l, PyObject *module, PyObject *own, PyObject *prefix)
{
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) {
        PyObject *members = Py_XNewRef(members_in(module, own, i)), *name, *tensor;
        Py_ssize_t at = 0;
        ok = members != NULL;
        while (ok && PyDict_Next(members, &at, &name, &tensor)) {
            Py_INCREF(name), Py_INCREF(tensor);
            ok = tensor == Py_None || list_tensor(l, prefix, members, name, tensor);
            Py_DECREF(name), Py_DECREF(tensor);
        }
        Py_XDECREF(members);
    }
    return ok;
}

static bool list_module(listing *l, PyObject *module, PyObject *path);

static bool list_children(listing *l, PyObject *module, PyObject *own, PyObject *prefix)
{
    PyObject *members = Py_XNewRef(members_in(module, own, 2)), *name, *child;
    Py_ssize_t at = 0;
    bool ok = members != NULL;
    while (ok && PyDict_Next(members, &at, &name, &child)) {
        if (child == Py_None)
            continue;
        Py_INCREF(child);
        PyObject *path = PyUnicode_Concat(prefix, name);
        ok = path && list_module(l, child, path);
        Py_XDECREF(path);
        Py_DECREF(child);
    }
    Py_XDECREF(members);
    return ok;
}

/* A class with its own idea of which modules are below it. */
static bool list_foreign(listing *l, PyObject *module, PyObject *path)
{
    PyObject *method = PyObject_GetAttr(module, l->named_modules), *none = PyTuple_New(0), *owner, *below, *pair;
    PyObject *words = Py_BuildValue("{sOsO}", "prefix", path, "remove_duplicate", Py_False);
    PyObject *given = method && none && words ? PyObject_Call(method, none, words) : NULL, *each = given ? PyObject_GetIter(given) : NULL;
    bool ok = each != NULL;
    while (ok && (pair = PyIter_Next(each))) {
        ok = PyArg_ParseTuple(pair, "UO", &below, &owner);
        PyObject *own = ok ? PyObject_GenericGetDict(owner, NULL) : NULL, *prefix = own ? prefix_of(below) : NULL;
        ok = prefix && list_own(l, owner, own, prefix);
        Py_XDECREF(prefix);
        Py_XDECREF(own);
        Py_DECREF(pair);
    }
    Py_XDECREF(each);
    Py_XDECREF(given);
    Py_XDECREF(words);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return ok && !PyErr_Occurred();
}

static bool list_module(listing *l, PyObject *module, PyObject *path)
{
    if (!face_module_is_usual(Py_TYPE(module), l->named_modules))
        return list_foreign(l, module, path);
    if (Py_EnterRecursiveCall(" in a tree of modules"))
        return false;
    PyObject *own = PyObject_GenericGetDict(module, NULL), *prefix = own ? prefix_of(path) : NULL;
    bool ok = prefix && list_own(l, module, own, prefix) && list_children(l, module, own, prefix);
    Py_XDECREF(prefix);
    Py_XDECREF(own);
    Py_LeaveRecursiveCall();
    return ok;
}

/* _module_tensors(module): ({full name: tensor}, {full name: place}), a shared tensor under each of its names. */
static PyObject *module_tensors(PyObject *unused, PyObject *module)
{
    PyObject *result = NULL;
    (void)unused;
    listing l = { 0 };
    PyObject *path = PyUnicode_FromString("");
    l.named_modules = PyUnicode_InternFromString("named_modules");
    l.tensors = PyDict_New();
    l.places = PyDict_New();
    if (path && l.named_modules && l.tensors && l.places && list_module(&l, module, path))
        result = PyTuple_Pack(2, l.tensors, l.places);
    Py_XDECREF(path);
    Py_XDECREF(l.named_modules);
    Py_XDECREF(l.tensors);
    Py_XDECREF(l.places);
    return result;
}

static PyObject *last_part(PyObject *name)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(name), dot = PyUnicode_FindChar(name, '.', 0, length, -1);
    return dot == -2 ? NULL : PyUnicode_Substring(name, dot + 1, length);
}

/* _module_put(places, names, values): for each key of `names`, its value goes to its place. */
static PyObject *module_put(PyObject *unused, PyObject *args)
{
    PyObject *places, *names, *values, *name, *ignored;
    Py_ssize_t at = 0;
    bool ok = true;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyDict_Type, &places, &PyDict_Type, &names, &PyDict_Type, &values))
        return NULL;
    while (ok && PyDict_Next(names, &at, &name, &ignored)) {
        Py_INCREF(name);
        PyObject *place = PyDict_GetItemWithError(places, name), *value = place ? PyDict_GetItemWithError(values, name) : NULL;
        PyObject *last = value && PyUnicode_Check(name) ? last_part(name) : NULL;
        if (!last && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, name);
        ok = last && PyDict_SetItem(place, last, value) == 0;
        Py_XDECREF(last);
        Py_DECREF(name);
    }
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- train() ---- */
typedef struct training {
    PyObject *mode;             /* borrowed: True or False */
    PyObject *train, *children, *named_children, *setattr, *training, *modules;     /* counted: names of attributes */
} training;

static bool train_children(const training *t, PyObject *module);

/* Nothing but nn.Module's own train() and assignment would be seen by setting the flag. */
static bool trains_as_usual(const training *t, PyObject *module, PyObject *own)
{
    PyTypeObject *type = Py_TYPE(module);
    return face_module_is_usual(type, t->train) && face_module_is_usual(type, t->setattr) && face_module_is_usual(type, face.name_getattribute) &&
           !_PyType_Lookup(type, t->training) && PyDict_GetItemWithError(own, t->training) && !PyDict_GetItemWithError(own, t->train);
}

static bool train_module(const training *t, PyObject *module)
{
    PyObject *own = PyObject_GenericGetDict(module, NULL);
    bool usual = own && trains_as_usual(t, module, own), ok = !PyErr_Occurred();
    if (!own || (ok && !usual)) {
        PyErr_Clear();
        PyObject *done = PyObject_CallMethodOneArg(module, t->train, t->mode);
        Py_XDECREF(done);
        ok = done != NULL;
    } else if (ok) {
        ok = PyDict_SetItem(own, t->training, t->mode) == 0 && train_children(t, module);
    }
    Py_XDECREF(own);
    return ok;
}

/* Each child once, in order: from the dict, or as a class that keeps or lists them in its own way gives them. */
static bool train_children(const training *t, PyObject *module)
{
    PyTypeObject *type = Py_TYPE(module);
    bool usual = face_module_is_usual(type, t->children) && face_module_is_usual(type, t->named_children) &&
                 !_PyType_Lookup(type, t->modules);
    PyObject *own = usual ? PyObject_GenericGetDict(module, NULL) : NULL, *members = own ? members_in(module, own, 2) : NULL;
    if (members && PyDict_GET_SIZE(members) == 0) {
        Py_DECREF(own);
        return true;
    }
    PyObject *given = members ? PyDict_Values(members) : usual ? NULL : PyObject_CallMethodNoArgs(module, t->children);
    PyObject *each = given ? PyObject_GetIter(given) : NULL, *seen = each ? PySet_New(NULL) : NULL, *child;
    bool ok = seen && !Py_EnterRecursiveCall(" in a tree of modules"), entered = ok;
    while (ok && (child = PyIter_Next(each))) {
        int known = child == Py_None ? 1 : PySet_Contains(seen, child);
        ok = known == 1 || (known == 0 && PySet_Add(seen, child) == 0 && train_module(t, child));
        Py_DECREF(child);
    }
    if (entered)
        Py_LeaveRecursiveCall();
    Py_XDECREF(seen);
    Py_XDECREF(each);
    Py_XDECREF(given);
    Py_XDECREF(own);
    return ok && !PyErr_Occurred();
}

/* _module_train_children(module, mode) */
static PyObject *module_train_children(PyObject *unused, PyObject *args)
{
    PyObject *module;
    (void)unused;
    training t = { 0 };
    if (!PyArg_ParseTuple(args, "OO!", &module, &PyBool_Type, &t.mode))
        return NULL;
    bool ok = (t.train = PyUnicode_InternFromString("train")) && (t.children = PyUnicode_InternFromString("children")) &&
              (t.named_children = PyUnicode_InternFromString("named_children")) && (t.setattr = PyUnicode_InternFromString("__setattr__")) &&
              (t.training = PyUnicode_InternFromString("training")) && (t.modules = PyUnicode_InternFromString("_modules")) &&
              train_children(&t, module);
    Py_XDECREF(t.train);
    Py_XDECREF(t.children);
    Py_XDECREF(t.named_children);
    Py_XDECREF(t.setattr);
    Py_XDECREF(t.training);
    Py_XDECREF(t.modules);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_module_tensors", module_tensors, METH_O, "tensors of a module by full name, and where they are" },
    { "_module_put", module_put, METH_VARARGS, NULL },
    { "_module_train_children", module_train_children, METH_VARARGS, NULL },
    { NULL },
};

bool face_module_tree_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
