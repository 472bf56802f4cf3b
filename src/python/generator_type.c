/* generator_type.c - torch.Generator, and the default one behind manual_seed. */
#include <string.h>

#include "python/face.h"
#include "tensor/generator.h"

typedef struct generator_object {
    PyObject_HEAD
    tp_generator *generator;    /* counted */
    tp_device device;
} generator_object;

struct tp_generator *face_generator_of(PyObject *o)
{
    return ((generator_object *)o)->generator;
}

static PyObject *wrap(PyTypeObject *type, tp_generator *taken, tp_device device)
{
    generator_object *made = (generator_object *)type->tp_alloc(type, 0);
    if (!made) {
        tp_generator_unref(taken);
        return NULL;
    }
    made->generator = taken;
    made->device = device;
    taken->wrapper = made;
    return (PyObject *)made;
}

PyObject *face_generator(struct tp_generator *g)
{
    if (g->wrapper)
        return Py_NewRef((PyObject *)g->wrapper);
    return wrap(face.generator, tp_generator_ref(g), (tp_device){ TP_CPU, -1 });
}

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "device", NULL };
    PyObject *device = NULL;
    tp_device where = { TP_CPU, -1 };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &device) ||
        (device && device != Py_None && !face_device_read(device, &where)))
        return NULL;
    if (where.type != TP_CPU && where.type != TP_META)
        return PyErr_Format(PyExc_RuntimeError, "Device type %s is not supported for torch.Generator() api.", where.type == TP_CUDA ? "CUDA" : "of this kind");
    tp_generator *g = tp_generator_new(TP_GENERATOR_SEED);
    return g ? wrap(type, g, where) : face_raise();
}

static void generator_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_generator *g = face_generator_of(self);
    if (g) {
        g->wrapper = NULL;
        tp_generator_unref(g);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

/* A negative seed counts from 2^64, as PyTorch takes it. */
static bool read_seed(PyObject *o, uint64_t *seed)
{
    PyObject *number = PyNumber_Index(o);
    if (!number)
        return false;
    *seed = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        int overflow;
        long long negative = PyLong_AsLongLongAndOverflow(number, &overflow);
        if (overflow) {
            PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
            Py_DECREF(number);
            return false;
        }
        *seed = (uint64_t)negative;
    }
    Py_DECREF(number);
    return true;
}

static PyObject *generator_manual_seed(PyObject *self, PyObject *value)
{
    uint64_t seed;
    if (!read_seed(value, &seed))
        return NULL;
    tp_generator_set_seed(face_generator_of(self), seed);
    return Py_NewRef(self);
}

static PyObject *generator_seed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_generator_random_seed(face_generator_of(self)));
}

static PyObject *generator_initial_seed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_generator_initial_seed(face_generator_of(self)));
}

static PyObject *generator_get_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t size = TP_GENERATOR_STATE_BYTES;
    tp_tensor *t = tp_tensor_new(TP_u8, 1, &size);
    if (!t)
        return face_raise();
    tp_generator_get_state(face_generator_of(self), tp_tensor_data(t));
    return face_wrap(t);
}

static PyObject *generator_set_state(PyObject *self, PyObject *state)
{
    if (!face_is_tensor(state))
        return PyErr_Format(PyExc_TypeError, "expected a %s.ByteTensor, but got %s", face.package, Py_TYPE(state)->tp_name);
    tp_tensor *t = face_tensor(state);
    if (t->dtype != TP_u8 || !tp_tensor_is_contiguous(t) || t->storage->kind == TP_MEMORY_NONE)
        return PyErr_Format(PyExc_TypeError, "RNG state must be a %s.ByteTensor", face.package);
    if (!tp_generator_set_state(face_generator_of(self), tp_tensor_data(t), (size_t)t->numel))
        return face_raise();
    return Py_NewRef(self);
}

static PyObject *generator_clone_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    uint8_t state[TP_GENERATOR_STATE_BYTES];
    tp_generator *copy = tp_generator_new(TP_GENERATOR_SEED);
    if (!copy)
        return face_raise();
    tp_generator_get_state(face_generator_of(self), state);
    if (!tp_generator_set_state(copy, state, sizeof state)) {
        tp_generator_unref(copy);
        return face_raise();
    }
    return wrap(Py_TYPE(self), copy, ((generator_object *)self)->device);
}

static PyObject *generator_device(PyObject *self, void *unused)
{
    (void)unused;
    return face_device(((generator_object *)self)->device);
}

static PyMethodDef methods[] = {
    { "manual_seed", generator_manual_seed, METH_O, NULL },
    { "seed", generator_seed, METH_NOARGS, NULL },
    { "initial_seed", generator_initial_seed, METH_NOARGS, NULL },
    { "get_state", generator_get_state, METH_NOARGS, NULL },
    { "set_state", generator_set_state, METH_O, NULL },
    { "clone_state", generator_clone_state, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef attributes[] = { { "device", generator_device, NULL, NULL, NULL }, { 0 } };
static PyType_Slot slots[] = {
    { Py_tp_new, generator_new }, { Py_tp_dealloc, generator_dealloc }, { Py_tp_methods, methods }, { Py_tp_getset, attributes }, { 0, NULL },
};
static PyType_Spec spec = {
    .name = "_C.Generator", .basicsize = sizeof(generator_object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots,
};

static PyObject *default_generator(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    tp_generator *g = tp_generator_default();
    return g ? face_generator(g) : face_raise();
}

static PyMethodDef functions[] = {
    { "_default_generator", default_generator, METH_NOARGS, NULL },
    { 0 },
};

bool face_generator_init(PyObject *module)
{
    face.generator = face_make_type(module, &spec, NULL);
    return face.generator && PyModule_AddFunctions(module, functions) == 0;
}
