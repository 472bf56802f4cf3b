/* size_type.c - torch.Size: a tuple of integers that stays one under slicing, adding and repeating. */
#include "ops/symbolic.h"
#include "python/face.h"

/* Sizes of plain tensors come from free lists and are not tracked: they refer to nothing the collector could free. */
static PyObject *fresh(int ndim)
{
    PyTupleObject *made = ndim < (int)TP_COUNT(face.free_size) ? face.free_size[ndim] : NULL;
    if (!made) {
        made = PyObject_GC_NewVar(PyTupleObject, face.size, ndim);
    } else {
        face.free_size[ndim] = (PyTupleObject *)made->ob_item[0];
        face.free_size_count--;
        PyObject_InitVar((PyVarObject *)made, face.size, ndim);
    }
    for (int i = 0; made && i < ndim; i++)
        made->ob_item[i] = NULL;
    return (PyObject *)made;
}

static void size_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyTupleObject *tuple = (PyTupleObject *)self;
    Py_ssize_t n = Py_SIZE(self);
    if (TP_WATCHED || type != face.size || !n || n >= (Py_ssize_t)TP_COUNT(face.free_size) || face.free_size_count >= MOST_FREE_SIZES) {
        PyTuple_Type.tp_dealloc(self);
    } else {
        PyObject_GC_UnTrack(self);
        for (Py_ssize_t i = 0; i < n; i++)
            Py_XDECREF(tuple->ob_item[i]);
        tuple->ob_item[0] = (PyObject *)face.free_size[n];
        face.free_size[n] = tuple;
        face.free_size_count++;
    }
    Py_DECREF(type);
}

PyObject *face_size(int ndim, const int64_t *size)
{
    PyObject *made = fresh(ndim);
    for (int i = 0; made && i < ndim; i++) {
        PyObject *item = PyLong_FromLongLong(size[i]);
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

static bool is_size(const struct recent_size *r, int ndim, const int64_t *size)
{
    bool same = r->made && r->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = r->size[i] == size[i];
    return same;
}

/* Nothing can change a Size, so one object serves all who ask for the same numbers. */
static PyObject *recent(int ndim, const int64_t *size)
{
    uint64_t hash = (uint64_t)ndim;
    for (int i = 0; i < ndim; i++)
        hash = (hash ^ (uint64_t)size[i]) * UINT64_C(0x9e3779b97f4a7c15);
    struct recent_size *r = &face.recent_size[(hash >> 32) % TP_COUNT(face.recent_size)];
    if (TP_LIKELY(is_size(r, ndim, size)))
        return Py_NewRef(r->made);
    PyObject *made = face_size(ndim, size);
    if (made) {
        r->ndim = ndim;
        for (int i = 0; i < ndim; i++)
            r->size[i] = size[i];
        Py_XSETREF(r->made, Py_NewRef(made));
    }
    return made;
}

PyObject *face_size_of(const tp_tensor *t)
{
    if (!tp_tensor_is_symbolic(t))
        return t->ndim <= TP_INLINE_DIMS ? recent(t->ndim, t->size) : face_size(t->ndim, t->size);
    PyObject *made = face.size->tp_alloc(face.size, t->ndim);
    for (int i = 0; made && i < t->ndim; i++) {
        PyObject *item = face_sym(t->symbolic->size[i]);
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

/* Items are integers, what has __index__, or symbolic integers, which Python sees as objects. */
static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *made = PyTuple_Type.tp_new(type, args, kwargs);
    if (!made)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); i++) {
        PyObject *item = PyTuple_GET_ITEM(made, i);
        if (PyLong_Check(item) || face_is_sym(item))
            continue;
        PyObject *number = PyIndex_Check(item) && !PyFloat_Check(item) ? PyNumber_Index(item) : NULL;
        if (!number) {
            PyErr_Clear();
            PyErr_Format(PyExc_TypeError, "%s.Size() takes an iterable of 'int' (item %zd is '%s')", face.package, i,
                         Py_TYPE(item)->tp_name);
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SET_ITEM(made, i, number);
        Py_DECREF(item);
    }
    return made;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("%s.Size(%R)", face.package, list) : NULL;
    Py_XDECREF(list);
    return text;
}

PyObject *face_as_size(PyObject *tuple)
{
    if (!tuple || (!PyTuple_CheckExact(tuple) && !PyList_CheckExact(tuple)))
        return tuple;
    PyObject *made = PyObject_CallOneArg((PyObject *)face.size, tuple);
    Py_DECREF(tuple);
    return made;
}

static PyObject *size_concat(PyObject *self, PyObject *other)
{
    if (!PyTuple_Check(other))
        return PyErr_Format(PyExc_TypeError, "can only concatenate tuple (not %s) to %s.Size", Py_TYPE(other)->tp_name, face.package);
    return face_as_size(PyTuple_Type.tp_as_sequence->sq_concat(self, other));
}

/* tuple + Size is a Size too. */
static PyObject *size_add(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b))
        Py_RETURN_NOTIMPLEMENTED;
    return face_as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}

static PyObject *size_repeat(PyObject *self, Py_ssize_t n)
{
    PyObject *made = PyTuple_Type.tp_as_sequence->sq_repeat(self, n);
    return face_as_size(made);
}

static PyObject *size_subscript(PyObject *self, PyObject *key)
{
    PyObject *item = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    return PySlice_Check(key) ? face_as_size(item) : item;
}

static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); i++) {
        PyObject *next = PyNumber_Multiply(product, PyTuple_GET_ITEM(self, i));
        Py_DECREF(product);
        product = next;
    }
    return product;
}

static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *tuple = PySequence_Tuple(self);
    if (tuple && tuple == self) {       /* exact tuples only are returned as they are; make a plain one */
        Py_DECREF(tuple);
        tuple = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
    }
    return tuple ? Py_BuildValue("O(N)", face.size, tuple) : NULL;
}

static PyMethodDef size_methods[] = {
    { "numel", size_numel, METH_NOARGS, NULL },
    { "__reduce__", size_reduce, METH_NOARGS, NULL },
    { 0 },
};
static PyType_Slot size_slots[] = {
    { Py_tp_new, size_new }, { Py_tp_dealloc, size_dealloc }, { Py_tp_repr, size_repr }, { Py_sq_concat, size_concat }, { Py_sq_repeat, size_repeat },
    { Py_nb_add, size_add }, { Py_mp_subscript, size_subscript }, { Py_tp_methods, size_methods }, { 0, NULL },
};
static PyType_Spec size_spec = {
    .name = "Size", .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = size_slots,
};

bool face_size_init(PyObject *module)
{
    face.size = face_make_type(module, &size_spec, &PyTuple_Type);
    return face.size != NULL;
}
