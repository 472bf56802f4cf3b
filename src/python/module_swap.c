/* module_swap.c - other tensors in a module for a while: the short way of functional_call.
 *
 * The names that a program gives usually are the module's own, in its own order. Then one walk over the tree meets them one after the
 * other, and neither full names nor dicts of places are made, which cost as much as recording small layers did. Names in another
 * order or unknown, what is no tensor, tensors that have two names, classes with their own idea of what is below them: the long way (functional_call.py,
 * module_tree.c) knows what to do, or to say. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "python/face.h"

typedef struct place {
    PyObject *members, *name;   /* counted: a dict of members and the name in it */
    PyObject *tensor;           /* counted: what is to come there */
} place;

typedef struct swap {
    tp_array(place) places;
    /* while walking */
    PyObject   *given;          /* borrowed dict */
    Py_ssize_t  at;
    PyObject   *tensor;         /* borrowed: of the next name given; NULL: there is none */
    const char *wanted;         /* that name, borrowed */
    Py_ssize_t  length;
    tp_array(char) path;        /* of the module, with a dot behind */
    tp_map      seen;           /* tensors */
    PyObject   *named_modules;  /* counted: the word */
    bool        unusual;        /* the short way ends here; no exception is set */
} swap;

static void swap_free(swap *s)
{
    for (size_t i = 0; i < s->places.count; i++) {
        Py_DECREF(s->places.item[i].members);
        Py_DECREF(s->places.item[i].name);
        Py_DECREF(s->places.item[i].tensor);
    }
    tp_array_fini(&s->places);
    tp_array_fini(&s->path);
    tp_map_fini(&s->seen);
    Py_CLEAR(s->named_modules);
    tp_free(s);
}

static void next_given(swap *s)
{
    PyObject *name;
    s->tensor = NULL;
    if (!PyDict_Next(s->given, &s->at, &name, &s->tensor))
        return;
    s->wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &s->length) : NULL;
    s->unusual |= !s->wanted || !face_is_tensor(s->tensor);
}

/* False: this is no short way, or memory is out. */
static bool meet(swap *s, PyObject *members, PyObject *name, PyObject *tensor)
{
    uint64_t known;
    Py_ssize_t length;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    s->unusual |= !text || tp_map_get(&s->seen, (uint64_t)(uintptr_t)tensor, &known);
    if (s->unusual || !tp_map_put(&s->seen, (uint64_t)(uintptr_t)tensor, 1))
        return false;
    size_t path = s->path.count;
    if (!s->tensor || (size_t)s->length != path + (size_t)length || memcmp(s->wanted + path, text, (size_t)length) != 0 ||
        (path && memcmp(s->wanted, s->path.item, path) != 0))
        return true;
    if (!tp_array_reserve(&s->places, s->places.count + 1))
        return false;
    s->places.item[s->places.count++] = (place){ Py_NewRef(members), Py_NewRef(name), Py_NewRef(s->tensor) };
    next_given(s);
    return !s->unusual;
}

static bool walk(swap *s, PyObject *module);

static bool walk_child(swap *s, PyObject *name, PyObject *child)
{
    Py_ssize_t length;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    size_t before = s->path.count;
    s->unusual |= !text;
    if (!text || !tp_array_reserve(&s->path, before + (size_t)length + 1))
        return false;
    memcpy(s->path.item + before, text, (size_t)length);
    s->path.item[before + (size_t)length] = '.';
    s->path.count = before + (size_t)length + 1;
    bool ok = walk(s, child);
    s->path.count = before;
    return ok;
}

/* Nothing of the program runs meanwhile: what is looked at are dicts. */
static bool walk(swap *s, PyObject *module)
{
    enum { MODULES = 2 };       /* behind parameters and buffers */
    PyObject *own = face_module_is_usual(Py_TYPE(module), s->named_modules) ? PyObject_GenericGetDict(module, NULL) : NULL;
    bool ok = own && !Py_EnterRecursiveCall(" in a tree of modules"), entered = ok;
    s->unusual |= !own;
    for (int i = 0; ok && i <= MODULES; i++) {
        PyObject *members = PyDict_GetItemWithError(own, face.module_members[i]), *name, *member;
        Py_ssize_t at = 0;
        ok = members && PyDict_Check(members);
        s->unusual |= !ok;
        while (ok && PyDict_Next(members, &at, &name, &member))
            if (member != Py_None)
                ok = i < MODULES ? meet(s, members, name, member) : walk_child(s, name, member);
    }
    if (entered)
        Py_LeaveRecursiveCall();
    Py_XDECREF(own);
    return ok;
}

/* Each tensor and what stands in its place change places. */
static bool exchange(swap *s)
{
    for (size_t i = 0; i < s->places.count; i++) {
        place *p = &s->places.item[i];
        PyObject *there = Py_XNewRef(PyDict_GetItemWithError(p->members, p->name));
        if ((!there && PyErr_Occurred()) || PyDict_SetItem(p->members, p->name, p->tensor) < 0) {
            Py_XDECREF(there);
            return false;
        }
        Py_SETREF(p->tensor, there ? there : Py_NewRef(Py_None));
    }
    return true;
}

/* ---- the capsule ---- */
static const char kind[] = "taper.module_swap";

static void capsule_free(PyObject *capsule)
{
    swap_free(PyCapsule_GetPointer(capsule, kind));
}

/* _module_swap(module, {full name: tensor}): the module has these tensors; what _module_swap_back takes, or None where the way is long. */
static PyObject *module_swap(PyObject *unused, PyObject *args)
{
    PyObject *module, *given, *capsule = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OO!", &module, &PyDict_Type, &given))
        return NULL;
    swap *s = tp_alloc_zero(sizeof *s);
    if (!s)
        return face_raise();
    s->given = given;
    s->named_modules = PyUnicode_InternFromString("named_modules");
    next_given(s);
    bool walked = s->named_modules && !s->unusual && walk(s, module), long_way = s->unusual || (walked && s->tensor);
    if (walked && !long_way && (capsule = PyCapsule_New(s, kind, capsule_free))) {
        if (!exchange(s))
            Py_CLEAR(capsule);
        return capsule;
    }
    swap_free(s);
    if (!long_way)
        return PyErr_Occurred() ? NULL : face_raise();
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *module_swap_back(PyObject *unused, PyObject *capsule)
{
    (void)unused;
    swap *s = PyCapsule_GetPointer(capsule, kind);
    if (!s || !exchange(s))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_module_swap", module_swap, METH_VARARGS, NULL },
    { "_module_swap_back", module_swap_back, METH_O, NULL },
    { 0 },
};

bool face_module_swap_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
