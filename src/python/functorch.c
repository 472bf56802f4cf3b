/* functorch.c - torch._C._functorch: what programs ask about wrappers of transforms, and levels of vmap entered by hand. */
#include "python/vmap.h"

#include "trace/grad_level.h"
#include "trace/level.h"

/* ---- asking ---- */
static tp_level *level_of(PyObject *o, int *number)
{
    *number = -1;
    return face_is_tensor(o) ? tp_level_of(face_tensor(o), number) : NULL;
}

static PyObject *is_batchedtensor(PyObject *module, PyObject *o)
{
    int number;
    tp_level *l = level_of(o, &number);
    (void)module;
    return PyBool_FromLong(l && tp_vmap_level_at(&l->mount));
}

static PyObject *is_gradtrackingtensor(PyObject *module, PyObject *o)
{
    int number;
    tp_level *l = level_of(o, &number);
    (void)module;
    return PyBool_FromLong(l && tp_grad_level_at(&l->mount));
}

static PyObject *is_functorch_wrapped_tensor(PyObject *module, PyObject *o)
{
    int number;
    (void)module;
    return PyBool_FromLong(level_of(o, &number) != NULL);
}

static PyObject *maybe_get_level(PyObject *module, PyObject *o)
{
    int number;
    (void)module;
    return PyLong_FromLong(level_of(o, &number) ? number : -1);
}

static PyObject *maybe_get_bdim(PyObject *module, PyObject *o)
{
    int number;
    tp_level *l = level_of(o, &number);
    (void)module;
    return PyLong_FromLong(l && tp_vmap_level_at(&l->mount) ? 0 : -1);
}

static PyObject *get_unwrapped(PyObject *module, PyObject *o)
{
    int number;
    tp_level *l = level_of(o, &number);
    (void)module;
    if (!l)
        return PyErr_Format(PyExc_RuntimeError, "No wrappers present!");
    return face_wrap(tp_tensor_ref(tp_wrapped_at(l, face_tensor(o))->inner));
}

static long depth(void)
{
    long n = 0;
    for (const tp_mount *m = tp_self.transforms; m; m = m->outer)
        n++;
    return n;
}

static PyObject *maybe_current_level(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (!tp_self.transforms)
        Py_RETURN_NONE;
    return PyLong_FromLong(depth());
}

static PyObject *current_level(PyObject *module, PyObject *unused)
{
    if (!tp_self.transforms)
        return PyErr_Format(PyExc_RuntimeError, "no transform is entered");
    return maybe_current_level(module, unused);
}

/* ---- levels of vmap by hand ---- */

/* The level of vmap with this number; NULL: RuntimeError set. */
static tp_vmap_level *numbered(long number)
{
    tp_mount *m = tp_self.transforms;
    for (long n = depth(); m && n > number; n--)
        m = m->outer;
    tp_vmap_level *l = number > 0 ? tp_vmap_level_at(m) : NULL;
    if (!l)
        PyErr_Format(PyExc_RuntimeError, "level %ld is no level of vmap", number);
    return l;
}

static PyObject *vmap_increment_nesting(PyObject *module, PyObject *args)
{
    long long size;
    const char *word;
    tp_randomness randomness;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ls", &size, &word) || !face_randomness_read(word, &randomness))
        return NULL;
    tp_vmap_level *l = tp_vmap_level_new(tp_sym_int(size), randomness);
    if (!l)
        return face_raise();
    tp_vmap_level_enter(l);
    return PyLong_FromLong(depth());
}

static PyObject *vmap_decrement_nesting(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    long number = depth();
    tp_vmap_level *l = numbered(number);
    if (!l)
        return NULL;
    tp_vmap_level_leave(l);
    tp_vmap_level_free(l);
    return PyLong_FromLong(number);
}

static PyObject *add_batch_dim(PyObject *module, PyObject *args)
{
    PyObject *t;
    long dim, number;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!ll", face.tensor_base, &t, &dim, &number))
        return NULL;
    tp_vmap_level *l = numbered(number);
    return l ? face_wrap_or_raise(tp_vmap_level_wrap(l, face_tensor(t), dim)) : NULL;
}

static PyObject *remove_batch_dim(PyObject *module, PyObject *args)
{
    PyObject *t, *size;
    long dim, number;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!lOl", face.tensor_base, &t, &number, &size, &dim))
        return NULL;
    tp_vmap_level *l = numbered(number);
    return l ? face_wrap_or_raise(tp_vmap_level_unwrap(l, face_tensor(t), dim)) : NULL;
}

static PyMethodDef functions[] = {
    { "is_batchedtensor", is_batchedtensor, METH_O, NULL },
    { "is_gradtrackingtensor", is_gradtrackingtensor, METH_O, NULL },
    { "is_functorch_wrapped_tensor", is_functorch_wrapped_tensor, METH_O, NULL },
    { "maybe_get_level", maybe_get_level, METH_O, NULL },
    { "maybe_get_bdim", maybe_get_bdim, METH_O, NULL },
    { "get_unwrapped", get_unwrapped, METH_O, NULL },
    { "current_level", current_level, METH_NOARGS, NULL },
    { "maybe_current_level", maybe_current_level, METH_NOARGS, NULL },
    { "_vmap_increment_nesting", vmap_increment_nesting, METH_VARARGS, NULL },
    { "_vmap_decrement_nesting", vmap_decrement_nesting, METH_NOARGS, NULL },
    { "_add_batch_dim", add_batch_dim, METH_VARARGS, NULL },
    { "_remove_batch_dim", remove_batch_dim, METH_VARARGS, NULL },
    { 0 },
};

bool face_functorch_init(PyObject *module)
{
    PyObject *name = PyUnicode_FromFormat("%s._C._functorch", face.package), *made = name ? PyModule_NewObject(name) : NULL;
    bool ok = made && PyModule_AddFunctions(made, functions) == 0 && PyModule_AddObjectRef(module, "_functorch", made) == 0 &&
              PyObject_SetItem(PyImport_GetModuleDict(), name, made) == 0;
    Py_XDECREF(name);
    Py_XDECREF(made);
    return ok;
}
