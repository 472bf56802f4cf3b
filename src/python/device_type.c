/* device_type.c - torch.device: a type and an index, also usable as a context that sets the default. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "python/face.h"

static const char known[] = "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
                            "mps, meta, hpu, mtia, privateuseone";
static const char *const type_names[TP_DEVICE_TYPES] = { "cpu", "meta", "cuda", "mps", "xpu" };

static tp_device device_of(PyObject *self)
{
    return ((device_object *)self)->device;
}

PyObject *face_device(tp_device d)
{
    if (d.type == TP_CPU && d.index < 0 && face.cpu)
        return Py_NewRef(face.cpu);
    device_object *made = (device_object *)face.device->tp_alloc(face.device, 0);
    if (made)
        made->device = d;
    return (PyObject *)made;
}

/* "cuda:1": a known type, and digits after the colon if there is one. */
static bool parse_text(const char *text, tp_device *out)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    int type = -1;
    for (int i = 0; i < TP_DEVICE_TYPES; i++)
        if (strlen(type_names[i]) == length && memcmp(type_names[i], text, length) == 0)
            type = i;
    if (type < 0) {
        PyObject *start = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
        if (start)
            PyErr_Format(PyExc_RuntimeError, "Expected one of %s device type at start of device string: %U", known, start);
        Py_XDECREF(start);
        return false;
    }
    char *end = NULL;
    long index = colon ? strtol(colon + 1, &end, 10) : -1;
    if (colon && (end == colon + 1 || *end || index < 0 || index > 127)) {
        PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
        return false;
    }
    *out = (tp_device){ (int8_t)type, (int8_t)index };
    return true;
}

bool face_is_device_like(PyObject *o)
{
    return Py_IS_TYPE(o, face.device) || PyUnicode_Check(o) || (PyLong_Check(o) && !PyBool_Check(o));
}

bool face_device_usable(tp_device d)
{
    if (d.type <= TP_META || tp_self.active)
        return true;
    char name[32] = "this device";
    if (d.type < TP_DEVICE_TYPES && strlen(type_names[d.type]) < sizeof name)
        for (size_t i = 0; i <= strlen(type_names[d.type]); i++)
            name[i] = (char)toupper((unsigned char)type_names[d.type][i]);
    PyErr_Format(PyExc_AssertionError, "Torch not compiled with %s enabled", name);
    return false;
}

bool face_device_read(PyObject *o, tp_device *out)
{
    if (Py_IS_TYPE(o, face.device)) {
        *out = device_of(o);
        return true;
    }
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        return text && parse_text(text, out);
    }
    if (PyLong_Check(o))
        PyErr_SetString(PyExc_RuntimeError, "Cannot access accelerator device when none is available.");
    else
        PyErr_Format(PyExc_TypeError, "expected a device, not %s", Py_TYPE(o)->tp_name);
    return false;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "type", "index", NULL };
    static char *other_names[] = { "device", NULL };
    PyObject *what = NULL, *index = NULL;
    (void)type;
    if (kwargs && PyDict_GetItemString(kwargs, "device")) {
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", other_names, &what))
            return NULL;
    } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", names, &what, &index)) {
        return NULL;
    }
    tp_device d;
    if (!face_is_device_like(what))
        return PyErr_Format(PyExc_TypeError, "device(): argument 'type' (position 1) must be str, not %s", Py_TYPE(what)->tp_name);
    if (!face_device_read(what, &d))
        return NULL;
    if (index && index != Py_None) {
        long i = PyLong_AsLong(index);
        if (i == -1 && PyErr_Occurred())
            return NULL;
        if (PyUnicode_Check(what) && PyUnicode_FindChar(what, ':', 0, PyUnicode_GET_LENGTH(what), 1) >= 0)
            return PyErr_Format(PyExc_RuntimeError, "type (string) must not include an index because index was passed explicitly: %U", what);
        if (i < 0 || i > 127)
            return PyErr_Format(PyExc_RuntimeError, "Device index must not be negative");
        d.index = (int8_t)i;
    }
    return face_device(d);
}

static PyObject *device_repr(PyObject *self)
{
    tp_device d = device_of(self);
    if (d.index < 0)
        return PyUnicode_FromFormat("device(type='%s')", type_names[d.type]);
    return PyUnicode_FromFormat("device(type='%s', index=%d)", type_names[d.type], d.index);
}

static PyObject *device_str(PyObject *self)
{
    char name[16];
    return PyUnicode_FromString(tp_device_name(device_of(self), name));
}

static Py_hash_t device_hash(PyObject *self)
{
    tp_device d = device_of(self);
    return (Py_hash_t)d.type * 256 + d.index + 2;
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, face.device) || !Py_IS_TYPE(a, face.device))
        Py_RETURN_NOTIMPLEMENTED;
    tp_device x = device_of(a), y = device_of(b);
    int order = x.type != y.type ? x.type - y.type : x.index - y.index;
    Py_RETURN_RICHCOMPARE(order, 0, op);
}

static PyObject *device_type(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(type_names[device_of(self).type]);
}

static PyObject *device_index(PyObject *self, void *unused)
{
    (void)unused;
    tp_device d = device_of(self);
    if (d.index < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(d.index);
}

static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_device d = device_of(self);
    if (d.index < 0)
        return Py_BuildValue("O(s)", face.device, type_names[d.type]);
    return Py_BuildValue("O(si)", face.device, type_names[d.type], d.index);
}

/* `with device(...)` is a function mode of the package (_device.py), entered here. */
static PyObject *device_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *name = PyUnicode_FromFormat("%s._device", face.package), *module = name ? PyImport_Import(name) : NULL;
    PyObject *made = module ? PyObject_CallMethod(module, "DeviceContext", "O", self) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(module);
    if (!made)
        return NULL;
    PyObject *entered = PyObject_CallMethod(made, "__enter__", NULL);
    if (!entered) {
        Py_DECREF(made);
        return NULL;
    }
    Py_DECREF(entered);
    device_object *d = (device_object *)self;
    if (!d->entered && !(d->entered = PyList_New(0))) {
        Py_DECREF(made);
        return NULL;
    }
    int failed = PyList_Append(d->entered, made);
    Py_DECREF(made);
    return failed ? NULL : Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
    device_object *d = (device_object *)self;
    Py_ssize_t n = d->entered ? PyList_GET_SIZE(d->entered) : 0;
    if (!n)
        return PyErr_Format(PyExc_RuntimeError, "this device was not entered");
    PyObject *context = Py_NewRef(PyList_GET_ITEM(d->entered, n - 1));
    PyObject *result = NULL, *exit = PyObject_GetAttrString(context, "__exit__");
    if (exit && PyList_SetSlice(d->entered, n - 1, n, NULL) == 0)
        result = PyObject_Call(exit, args, NULL);
    Py_XDECREF(exit);
    Py_DECREF(context);
    return result;
}

static void device_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(((device_object *)self)->entered);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef device_methods[] = {
    { "__reduce__", device_reduce, METH_NOARGS, NULL },
    { "__enter__", device_enter, METH_NOARGS, NULL },
    { "__exit__", device_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyGetSetDef device_attributes[] = {
    { "type", device_type, NULL, NULL, NULL },
    { "index", device_index, NULL, NULL, NULL },
    { 0 },
};
static PyType_Slot device_slots[] = {
    { Py_tp_new, device_new }, { Py_tp_repr, device_repr }, { Py_tp_str, device_str }, { Py_tp_hash, device_hash },
    { Py_tp_richcompare, device_compare }, { Py_tp_methods, device_methods }, { Py_tp_getset, device_attributes },
    { Py_tp_dealloc, device_dealloc }, { 0, NULL },
};
static PyType_Spec device_spec = {
    .name = "device", .basicsize = sizeof(device_object), .flags = Py_TPFLAGS_DEFAULT, .slots = device_slots,
};

bool face_device_init(PyObject *module)
{
    face.device = face_make_type(module, &device_spec, NULL);
    if (!face.device)
        return false;
    face.cpu = face_device((tp_device){ TP_CPU, -1 });
    return face.cpu != NULL;
}
