/* serialization.c - archives as Python sees them: PyTorchFileReader and PyTorchFileWriter, over format/zip.h. */
#include <string.h>

#include "base/alloc.h"
#include "format/pickle.h"
#include "format/zip.h"
#include "python/face.h"

/* ---- reading ---- */

typedef struct reader_object {
    PyObject_HEAD
    tp_zip *zip;                /* counted; NULL only in a half-made object */
    bool    mapped;
} reader_object;

static tp_zip *zip_of(PyObject *self)
{
    return ((reader_object *)self)->zip;
}

static void release_view(void *owner)
{
    PyBuffer_Release(owner);
    PyMem_Free(owner);
}

/* A copy of nothing: the archive looks into the object's own bytes, which it keeps. */
static tp_zip *open_buffer(PyObject *buffer)
{
    Py_buffer *view = PyMem_Malloc(sizeof *view);
    if (!view) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE) < 0) {
        PyMem_Free(view);
        return NULL;
    }
    tp_zip *z = tp_zip_open_memory(view->buf, (size_t)view->len, TP_ZIP_ANY_CRC, view, release_view);
    if (!z)
        face_raise();
    return z;
}

static tp_zip *open_path(PyObject *path, bool map)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    tp_zip *z = tp_zip_open(PyBytes_AS_STRING(bytes), TP_ZIP_ANY_CRC | (map ? TP_ZIP_MAP : 0));
    Py_DECREF(bytes);
    if (!z)
        face_raise();
    return z;
}

static tp_zip *open_any(PyObject *from, bool map)
{
    if (PyObject_CheckBuffer(from))
        return open_buffer(from);
    if (!PyObject_HasAttrString(from, "read"))
        return open_path(from, map);
    PyObject *bytes = PyObject_CallMethod(from, "read", NULL);
    tp_zip *z = bytes ? open_buffer(bytes) : NULL;
    Py_XDECREF(bytes);
    return z;
}

/* PyTorchFileReader(name_or_buffer, mmap=False): a path, bytes, or a file read from where it stands. */
static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name_or_buffer", "mmap", NULL };
    PyObject *from;
    int map = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &from, &map))
        return NULL;
    tp_zip *z = open_any(from, map);
    if (!z)
        return NULL;
    size_t count;
    const tp_zip_entry *entry = tp_zip_entries(z, &count);
    if (!*tp_zip_root(z)) {
        PyErr_Format(PyExc_RuntimeError, "file in archive is not in a subdirectory: %s", count ? entry[0].name : "");
        tp_zip_unref(z);
        return NULL;
    }
    reader_object *made = (reader_object *)type->tp_alloc(type, 0);
    if (!made) {
        tp_zip_unref(z);
        return NULL;
    }
    made->zip = z;
    made->mapped = map;
    return (PyObject *)made;
}

static void reader_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_zip_unref(zip_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *reader_has_record(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyBool_FromLong(tp_zip_has_record(zip_of(self), text)) : NULL;
}

static const tp_zip_entry *record(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    const tp_zip_entry *e = text ? tp_zip_record(zip_of(self), text) : NULL;
    if (text && !e)
        face_raise();
    return e;
}

/* PyTorch does not look at sums; a wrong one means that the file is not what was written, which somebody should hear of. */
static bool read_warned(const tp_zip *z, const tp_zip_entry *e, void *out)
{
    uint32_t sum;
    if (!tp_zip_read_sum(z, e, out, &sum))
        return face_raise();
    return sum == e->crc || !tp_zip_has_sums(z) ||
           PyErr_WarnFormat(PyExc_UserWarning, 1, "the record %s is damaged: its CRC-32 is %08x, the file says %08x", e->name,
                            (unsigned)sum, (unsigned)e->crc) == 0;
}

static PyObject *reader_get_record(PyObject *self, PyObject *name)
{
    const tp_zip_entry *e = record(self, name);
    PyObject *bytes = e ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e->size) : NULL;
    if (bytes && !read_warned(zip_of(self), e, PyBytes_AS_STRING(bytes)))
        Py_CLEAR(bytes);
    return bytes;
}

static PyObject *reader_get_record_offset(PyObject *self, PyObject *name)
{
    const tp_zip_entry *e = record(self, name);
    return e ? PyLong_FromUnsignedLongLong(e->at) : NULL;
}

static PyObject *reader_get_all_records(PyObject *self, PyObject *unused)
{
    size_t count, root = strlen(tp_zip_root(zip_of(self)));
    const tp_zip_entry *e = tp_zip_entries(zip_of(self), &count);
    PyObject *list = PyList_New(0);
    (void)unused;
    for (size_t i = 0; list && i < count; i++) {
        bool inside = strncmp(e[i].name, tp_zip_root(zip_of(self)), root) == 0 && e[i].name[root] == '/';
        PyObject *text = PyUnicode_DecodeUTF8(e[i].name + (inside ? root + 1 : 0),
                                              (Py_ssize_t)strlen(e[i].name) - (inside ? (Py_ssize_t)root + 1 : 0),
                                              "replace");
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static void forget_archive(void *zip)
{
    tp_zip_unref(zip);
}

/* Files of machines that put the highest byte first: each element is turned round. */
static void swap_bytes(char *data, size_t bytes, size_t element)
{
    for (size_t i = 0; element > 1 && i + element <= bytes; i += element)
        for (size_t k = 0; k < element / 2; k++) {
            char low = data[i + k];
            data[i + k] = data[i + element - 1 - k];
            data[i + element - 1 - k] = low;
        }
}

/* Counted; NULL: an exception is set. */
static tp_storage *read_storage(reader_object *r, const tp_zip_entry *e, size_t swap)
{
    void *seen = r->mapped ? tp_zip_borrow(r->zip, e) : NULL;
    if (seen && swap <= 1 && e->size && (uintptr_t)seen % 16 == 0) {
        tp_storage *held = tp_storage_take_foreign(seen, e->size, tp_zip_ref(r->zip), forget_archive);
        return held ? held : (tp_storage *)face_raise();
    }
    tp_storage *s = tp_storage_new(e->size);
    if (!s)
        return (tp_storage *)face_raise();
    char none[1];
    if (!read_warned(r->zip, e, e->size ? s->data : none)) {
        tp_storage_unref(s);
        return NULL;
    }
    swap_bytes(s->data, e->size, swap);
    return s;
}

/* _read_storage(name, bytes, swap): the record as an UntypedStorage, which must have so many bytes; swap is the size of the
 * elements to turn round, or 1. A mapped file is not read: the storage looks into it, and writes stay private. */
static PyObject *reader_read_storage(PyObject *self, PyObject *args)
{
    PyObject *name;
    unsigned long long bytes;
    Py_ssize_t swap;
    if (!PyArg_ParseTuple(args, "UKn", &name, &bytes, &swap))
        return NULL;
    const tp_zip_entry *e = record(self, name);
    if (!e)
        return NULL;
    if (e->size != bytes)
        return PyErr_Format(PyExc_RuntimeError,
                            "record size (%llu bytes) does not match expected size (%llu bytes = %llu elements * 1 "
                            "bytes/element) for dtype Byte",
                            (unsigned long long)e->size, bytes, bytes);
    tp_storage *s = read_storage((reader_object *)self, e, (size_t)swap);
    if (!s)
        return NULL;
    PyObject *made = face_storage(s, (tp_device){ TP_CPU, -1 });
    tp_storage_unref(s);
    return made;
}

static PyMethodDef reader_methods[] = {
    { "has_record", reader_has_record, METH_O, NULL },
    { "get_record", reader_get_record, METH_O, NULL },
    { "get_record_offset", reader_get_record_offset, METH_O, NULL },
    { "get_all_records", reader_get_all_records, METH_NOARGS, NULL },
    { "_read_storage", reader_read_storage, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot reader_slots[] = {
    { Py_tp_new, reader_new }, { Py_tp_dealloc, reader_dealloc }, { Py_tp_methods, reader_methods }, { 0, NULL },
};
static PyType_Spec reader_spec = {
    .name = "PyTorchFileReader", .basicsize = sizeof(reader_object), .flags = Py_TPFLAGS_DEFAULT, .slots = reader_slots,
};

/* ---- writing ---- */

typedef struct writer_object {
    PyObject_HEAD
    tp_zip_writer *writer;      /* owned; NULL once finished */
    PyObject *buffer;           /* counted: a file object, may be NULL */
} writer_object;

/* A file may write less than it is given. */
static bool to_buffer(void *to, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        PyObject *view = PyMemoryView_FromMemory((char *)bytes + done, (Py_ssize_t)(count - done), PyBUF_READ);
        PyObject *answer = view ? PyObject_CallMethod(to, "write", "O", view) : NULL;
        Py_XDECREF(view);
        if (!answer)
            return face_foreign();
        Py_ssize_t written = PyLong_Check(answer) ? PyLong_AsSsize_t(answer) : (Py_ssize_t)(count - done);
        Py_DECREF(answer);
        if (written <= 0 || (size_t)written > count - done)
            return tp_fail(TP_ERR_RUNTIME, "PytorchStreamWriter failed writing file: the file took %lld of %lld bytes",
                           LL(written), LL(count - done));
        done += (size_t)written;
    }
    return true;
}

/* The root folder is the file's name without its last ending. */
static tp_zip_writer *write_path(PyObject *path)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const char *name = PyBytes_AS_STRING(bytes), *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name,
               *dot = strrchr(base, '.');
    char *root = tp_alloc_text(base);
    tp_zip_writer *w = NULL;
    if (root && dot)
        root[dot - base] = 0;
    if (root && !*root)
        PyErr_Format(PyExc_RuntimeError, "invalid file name: %s", name);
    else if (!root || !(w = tp_zip_writer_new_file(root, name)))
        face_raise();
    tp_free(root);
    Py_DECREF(bytes);
    return w;
}

/* PyTorchFileWriter(name_or_buffer): a path, or an object that has write(). */
static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name_or_buffer", NULL };
    PyObject *to;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &to))
        return NULL;
    writer_object *made = (writer_object *)type->tp_alloc(type, 0);
    if (!made)
        return NULL;
    if (PyObject_HasAttrString(to, "write")) {
        made->buffer = Py_NewRef(to);
        if (!(made->writer = tp_zip_writer_new("archive", to_buffer, to)))
            face_raise();
    } else {
        made->writer = write_path(to);
    }
    if (!made->writer)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static void writer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_zip_writer_free(((writer_object *)self)->writer);
    Py_XDECREF(((writer_object *)self)->buffer);
    type->tp_free(self);
    Py_DECREF(type);
}

static tp_zip_writer *open_writer(PyObject *self)
{
    if (!((writer_object *)self)->writer)
        PyErr_SetString(PyExc_RuntimeError, "the archive is finished");
    return ((writer_object *)self)->writer;
}

/* write_record(name, data, size): `data` is a text or anything with a buffer, storages too; `size` is how many bytes of it. */
static PyObject *writer_write_record(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *data, *size;
    tp_zip_writer *w = open_writer(self);
    if (!w || !PyArg_ParseTuple(args, "sOO", &name, &data, &size))
        return NULL;
    Py_ssize_t count = PyLong_AsSsize_t(size), length;
    if (count == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer view = { 0 };
    const char *bytes;
    if (PyUnicode_Check(data)) {
        bytes = PyUnicode_AsUTF8AndSize(data, &length);
    } else {
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        bytes = view.buf;
        length = view.len;
    }
    bool ok = bytes && count >= 0 && count <= length;
    if (bytes && !ok)
        PyErr_Format(PyExc_RuntimeError, "write_record: %zd bytes are wanted of %zd", count, length);
    if (ok && !(ok = tp_zip_add(w, name, bytes, (size_t)count)))
        face_raise();
    if (view.obj)
        PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *writer_write_end(PyObject *self, PyObject *unused)
{
    tp_zip_writer *w = open_writer(self);
    (void)unused;
    if (!w)
        return NULL;
    bool ok = tp_zip_add_id(w) && tp_zip_writer_finish(w);
    ((writer_object *)self)->writer = NULL;
    tp_zip_writer_free(w);
    return ok ? Py_NewRef(Py_None) : face_raise();
}

static PyMethodDef writer_methods[] = {
    { "write_record", writer_write_record, METH_VARARGS, NULL },
    { "write_end_of_file", writer_write_end, METH_NOARGS, NULL },
    { 0 },
};
static PyType_Slot writer_slots[] = {
    { Py_tp_new, writer_new }, { Py_tp_dealloc, writer_dealloc }, { Py_tp_methods, writer_methods }, { 0, NULL },
};
static PyType_Spec writer_spec = {
    .name = "PyTorchFileWriter", .basicsize = sizeof(writer_object), .flags = Py_TPFLAGS_DEFAULT, .slots = writer_slots,
};

bool face_archive_init(PyObject *module)
{
    PyTypeObject *reader = face_make_type(module, &reader_spec, NULL),
                 *writer = reader ? face_make_type(module, &writer_spec, NULL) : NULL;
    Py_XDECREF(reader);
    Py_XDECREF(writer);
    return writer != NULL;
}
