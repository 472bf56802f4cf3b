/* storage_type.c - UntypedStorage: the bytes behind a tensor. TypedStorage is a thin Python class over it. */
#include <string.h>

#include "python/face.h"

#include <structmember.h>

typedef struct storage_object {
    PyObject_HEAD
    tp_storage *storage;        /* counted */
    tp_device   device;
    PyObject   *weakrefs;
} storage_object;

static tp_storage *storage_of(PyObject *self)
{
    return ((storage_object *)self)->storage;
}

/* One object for a storage while it lives, so that `is` tells sharing. */
PyObject *face_storage(tp_storage *s, tp_device device)
{
    if (s->wrapper)
        return Py_NewRef((PyObject *)s->wrapper);
    storage_object *made = (storage_object *)face.storage->tp_alloc(face.storage, 0);
    if (!made)
        return NULL;
    made->storage = tp_storage_ref(s);
    made->device = device;
    s->wrapper = made;
    return (PyObject *)made;
}

tp_storage *face_storage_of(PyObject *o)
{
    return PyObject_TypeCheck(o, face.storage) ? storage_of(o) : NULL;
}

static void storage_dealloc(PyObject *self)
{
    storage_object *o = (storage_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    if (o->storage) {
        if (o->storage->wrapper == self)
            o->storage->wrapper = NULL;
        tp_storage_unref(o->storage);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "size", "device", NULL };
    PyObject *size = NULL, *device = NULL;
    tp_device where = { TP_CPU, -1 };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O", names, &size, &device))
        return NULL;
    if (device && device != Py_None && !face_device_read(device, &where))
        return NULL;
    int64_t bytes = 0;
    PyObject *items = NULL;
    if (size && !face_is_int(size)) {
        if (!(items = face_items(size, "UntypedStorage() takes a size or a sequence of bytes")))
            return NULL;
        bytes = PySequence_Fast_GET_SIZE(items);
    } else if (size && !face_read_int(size, &bytes)) {
        return NULL;
    }
    tp_storage *s = where.type == TP_CPU ? tp_storage_new((size_t)bytes) : tp_storage_new_none((size_t)bytes);
    storage_object *made = s ? (storage_object *)type->tp_alloc(type, 0) : NULL;
    if (!made) {
        Py_XDECREF(items);
        tp_storage_unref(s);
        return s ? NULL : face_raise();
    }
    made->storage = s;
    made->device = where;
    s->wrapper = made;
    for (int64_t i = 0; items && s->data && i < bytes; i++) {      /* there is no memory on other devices */
        int64_t byte;
        if (!face_read_int(PySequence_Fast_ITEMS(items)[i], &byte)) {
            Py_DECREF(items);
            Py_DECREF(made);
            return NULL;
        }
        ((uint8_t *)s->data)[i] = (uint8_t)byte;
    }
    Py_XDECREF(items);
    return (PyObject *)made;
}

/* An expression where the storage is one of symbolic sizes. */
static PyObject *storage_nbytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_sym size = { storage_of(self)->symbolic };
    if (TP_LIKELY(!size.word))
        return PyLong_FromSize_t(storage_of(self)->bytes);
    if (size.word == TP_BYTES_UNKNOWN)
        return PyErr_Format(PyExc_NotImplementedError, "the size of a storage that tensors of symbolic sizes share is not implemented in Taper yet");
    return face_sym(size);
}

static Py_ssize_t storage_length(PyObject *self)
{
    PyObject *size = storage_nbytes(self, NULL);
    Py_ssize_t length = size ? PyNumber_AsSsize_t(size, PyExc_OverflowError) : -1;
    Py_XDECREF(size);
    return length;
}

static PyObject *storage_data_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(storage_of(self)->data);
}

static PyObject *storage_element_size(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(1);
}

static PyObject *storage_resize(PyObject *self, PyObject *size)
{
    int64_t bytes;
    if (!face_read_int(size, &bytes))
        return NULL;
    if (bytes < 0 || !tp_storage_resize(storage_of(self), (size_t)bytes))
        return bytes < 0 ? PyErr_Format(PyExc_RuntimeError, "storage size must not be negative") : face_raise();
    return Py_NewRef(self);
}

static bool has_data(tp_storage *s)
{
    if (s->kind != TP_MEMORY_NONE)
        return true;
    PyErr_SetString(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
    return false;
}

static PyObject *storage_copy(PyObject *self, PyObject *args)
{
    PyObject *from, *ignored = NULL;
    if (!PyArg_ParseTuple(args, "O|O", &from, &ignored))
        return NULL;
    tp_storage *to = storage_of(self), *s = face_storage_of(from);
    if (!s)
        return PyErr_Format(PyExc_TypeError, "copy_(): argument must be UntypedStorage, not %s", Py_TYPE(from)->tp_name);
    if (s->bytes != to->bytes)
        return PyErr_Format(PyExc_RuntimeError, "size does not match, self was %zu bytes but src was %zu bytes", to->bytes, s->bytes);
    if (!has_data(s) || !has_data(to))
        return NULL;
    if (s->bytes)
        memcpy(to->data, s->data, s->bytes);
    return Py_NewRef(self);
}

static PyObject *storage_clone(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_storage *s = storage_of(self), *copy = s->kind == TP_MEMORY_NONE ? tp_storage_new_none(s->bytes) : tp_storage_new(s->bytes);
    if (!copy)
        return face_raise();
    if (s->data && s->bytes)
        memcpy(copy->data, s->data, s->bytes);
    PyObject *made = face_storage(copy, ((storage_object *)self)->device);
    tp_storage_unref(copy);
    return made;
}

static PyObject *storage_fill(PyObject *self, PyObject *value)
{
    int64_t byte;
    if (!face_read_int(value, &byte) || !has_data(storage_of(self)))
        return NULL;
    if (storage_of(self)->bytes)
        memset(storage_of(self)->data, (int)(uint8_t)byte, storage_of(self)->bytes);
    return Py_NewRef(self);
}

static PyObject *storage_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_storage *s = storage_of(self);
    PyObject *list = has_data(s) ? PyList_New((Py_ssize_t)s->bytes) : NULL;
    for (size_t i = 0; list && i < s->bytes; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLong(((uint8_t *)s->data)[i]));
    return list;
}

static PyObject *storage_item(PyObject *self, Py_ssize_t i)
{
    tp_storage *s = storage_of(self);
    if (i < 0 || (size_t)i >= s->bytes)
        return PyErr_Format(PyExc_IndexError, "index %zd out of range for storage of size %zu", i, s->bytes);
    return has_data(s) ? PyLong_FromLong(((uint8_t *)s->data)[i]) : NULL;
}

static int storage_set_item(PyObject *self, Py_ssize_t i, PyObject *value)
{
    tp_storage *s = storage_of(self);
    int64_t byte;
    if (!value || i < 0 || (size_t)i >= s->bytes) {
        PyErr_Format(PyExc_IndexError, "index %zd out of range for storage of size %zu", i, s->bytes);
        return -1;
    }
    if (!has_data(s) || !face_read_int(value, &byte))
        return -1;
    ((uint8_t *)s->data)[i] = (uint8_t)byte;
    return 0;
}

static PyObject *storage_repr(PyObject *self)
{
    char device[16];
    storage_object *o = (storage_object *)self;
    PyObject *text = PyUnicode_FromString("");
    size_t n = o->storage->kind == TP_MEMORY_NONE ? 0 : o->storage->bytes;
    for (size_t i = 0; text && i < n && i < 1000; i++)
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat(" %d\n", ((uint8_t *)o->storage->data)[i]));
    if (text)
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("[%s.storage.UntypedStorage(device=%s) of size %zu]", face.package,
                                                           tp_device_name(o->device, device), o->storage->bytes));
    return text;
}

static PyObject *storage_device(PyObject *self, void *unused)
{
    (void)unused;
    return face_device(((storage_object *)self)->device);
}

static PyObject *storage_cdata(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(storage_of(self));
}

static PyObject *storage_untyped(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static int storage_buffer(PyObject *self, Py_buffer *view, int flags)
{
    tp_storage *s = storage_of(self);
    return has_data(s) ? PyBuffer_FillInfo(view, self, s->data ? s->data : (void *)s->small, (Py_ssize_t)s->bytes, 0, flags) : -1;
}

/* Storages and their contents pickle as bytes; checkpoints have a format of their own. */
static PyObject *storage_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_storage *s = storage_of(self);
    if (!has_data(s))
        return NULL;
    PyObject *rebuild = PyObject_GetAttrString(face.module, "_storage_from_bytes");
    return rebuild ? Py_BuildValue("N(y#)", rebuild, s->data ? (char *)s->data : "", (Py_ssize_t)s->bytes) : NULL;
}

static PyObject *storage_from_bytes(PyObject *module, PyObject *bytes)
{
    char *data;
    Py_ssize_t count;
    (void)module;
    if (PyBytes_AsStringAndSize(bytes, &data, &count) < 0)
        return NULL;
    tp_storage *s = tp_storage_new((size_t)count);
    if (!s)
        return face_raise();
    if (count)
        memcpy(s->data, data, (size_t)count);
    PyObject *made = face_storage(s, (tp_device){ TP_CPU, -1 });
    tp_storage_unref(s);
    return made;
}

static PyMethodDef storage_methods[] = {
    { "nbytes", storage_nbytes, METH_NOARGS, NULL },
    { "size", storage_nbytes, METH_NOARGS, NULL },
    { "data_ptr", storage_data_ptr, METH_NOARGS, NULL },
    { "element_size", storage_element_size, METH_NOARGS, NULL },
    { "resize_", storage_resize, METH_O, NULL },
    { "copy_", storage_copy, METH_VARARGS, NULL },
    { "clone", storage_clone, METH_NOARGS, NULL },
    { "fill_", storage_fill, METH_O, NULL },
    { "tolist", storage_tolist, METH_NOARGS, NULL },
    { "untyped", storage_untyped, METH_NOARGS, NULL },
    { "__reduce__", storage_reduce, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef storage_attributes[] = {
    { "device", storage_device, NULL, NULL, NULL },
    { "_cdata", storage_cdata, NULL, NULL, NULL },
    { 0 },
};
static PyMemberDef storage_members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(storage_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot storage_slots[] = {
    { Py_tp_new, storage_new }, { Py_tp_dealloc, storage_dealloc }, { Py_tp_repr, storage_repr },
    { Py_tp_methods, storage_methods }, { Py_tp_getset, storage_attributes }, { Py_tp_members, storage_members },
    { Py_sq_length, storage_length }, { Py_sq_item, storage_item }, { Py_sq_ass_item, storage_set_item },
    { Py_bf_getbuffer, storage_buffer }, { 0, NULL },
};
static PyType_Spec storage_spec = {
    .name = "UntypedStorage", .basicsize = sizeof(storage_object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = storage_slots,
};
static PyMethodDef functions[] = {
    { "_storage_from_bytes", storage_from_bytes, METH_O, NULL },
    { 0 },
};

bool face_storage_init(PyObject *module)
{
    face.storage = face_make_type(module, &storage_spec, NULL);
    return face.storage && PyModule_AddFunctions(module, functions) == 0;
}
