/* output_file.c - _OutputFile: a file that is replaced whole (format/output.h), as Python's writers see it.
 *
 *     with _C._OutputFile(path) as file:
 *         file.write(data)
 *
 * The block's end puts the file in its place; an exception inside leaves the old one as it was. Failures are OSErrors. */
#include <errno.h>

#include "format/output.h"
#include "python/face.h"

typedef struct output_object {
    PyObject_HEAD
    tp_output *output;          /* owned; NULL: it is in its place, or given up */
    PyObject  *path;            /* counted: bytes */
} output_object;

static PyObject *raise_os(PyObject *path, int why)
{
    if (tp_error_kind() == TP_ERR_MEMORY)
        return face_raise();
    tp_error_clear();
    errno = why;
    PyObject *text = PyUnicode_DecodeFSDefaultAndSize(PyBytes_AS_STRING(path), PyBytes_GET_SIZE(path));
    if (text)
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, text);
    Py_XDECREF(text);
    return NULL;
}

static PyObject *output_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *path = NULL;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    tp_output *o = tp_output_new(PyBytes_AS_STRING(path));
    int why = errno;
    output_object *made = o ? (output_object *)type->tp_alloc(type, 0) : NULL;
    if (!made) {
        if (!o)
            raise_os(path, why);
        (void)tp_output_finish(o, false);
        Py_DECREF(path);
        return NULL;
    }
    made->output = o;
    made->path = path;
    return (PyObject *)made;
}

static void output_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    (void)tp_output_finish(((output_object *)self)->output, false);
    Py_XDECREF(((output_object *)self)->path);
    type->tp_free(self);
    Py_DECREF(type);
}

/* write(bytes, a text, or anything with a buffer) -> how many bytes */
static PyObject *output_write(PyObject *self, PyObject *data)
{
    output_object *o = (output_object *)self;
    Py_buffer view = { 0 };
    Py_ssize_t count = 0;
    const char *bytes;
    if (!o->output)
        return PyErr_Format(PyExc_ValueError, "I/O operation on closed file.");
    if (PyUnicode_Check(data)) {
        bytes = PyUnicode_AsUTF8AndSize(data, &count);
    } else {
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        bytes = view.buf;
        count = view.len;
    }
    PyObject *result = NULL;
    if (bytes || !count) {
        if (tp_output_write(o->output, bytes, (size_t)count))
            result = PyLong_FromSsize_t(count);
        else
            raise_os(o->path, errno);
    }
    if (view.obj)
        PyBuffer_Release(&view);
    return result;
}

static PyObject *output_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *output_exit(PyObject *self, PyObject *args)
{
    output_object *o = (output_object *)self;
    tp_output *output = o->output;
    bool keep = PyTuple_GET_SIZE(args) == 0 || PyTuple_GET_ITEM(args, 0) == Py_None;
    o->output = NULL;
    if (!tp_output_finish(output, keep) && keep && output)
        return raise_os(o->path, errno);
    Py_RETURN_NONE;
}

static PyMethodDef output_methods[] = {
    { "write", output_write, METH_O, NULL },
    { "__enter__", output_enter, METH_NOARGS, NULL },
    { "__exit__", output_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot output_slots[] = {
    { Py_tp_new, output_new }, { Py_tp_dealloc, output_dealloc }, { Py_tp_methods, output_methods }, { 0, NULL },
};
static PyType_Spec output_spec = {
    .name = "_OutputFile", .basicsize = sizeof(output_object), .flags = Py_TPFLAGS_DEFAULT, .slots = output_slots,
};

bool face_output_init(PyObject *module)
{
    PyTypeObject *type = face_make_type(module, &output_spec, NULL);
    Py_XDECREF(type);
    return type != NULL;
}
