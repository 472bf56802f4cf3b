/* tensor_type.c - the classes TensorBase and Tensor, and the class of such classes.
 *
 * TensorBase is made from a spec and carries all slots. Tensor is made by calling the metaclass, as user classes are, and
 * then given TensorBase's own dealloc, so that plain tensors never pass through the generic one of Python classes. */
#include "ops/copy.h"
#include "python/face.h"

#include <structmember.h>

/* ---- life and death ---- */
static void tensor_dealloc(PyObject *self)
{
    tensor_object *w = (tensor_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (PyObject_GC_IsTracked(self))
        PyObject_GC_UnTrack(self);
    if (w->weakrefs)
        PyObject_ClearWeakRefs(self);
    tp_tensor *t = w->tensor;
    if (t) {
        w->tensor = NULL;
        t->wrapper = NULL;
        tp_tensor_unref(t);
    }
    Py_CLEAR(w->dict);
    if (!TP_WATCHED && type == face.tensor && face.free_wrapper_count < MOST_FREE_WRAPPERS) {
        w->tensor = (tp_tensor *)face.free_wrapper;
        face.free_wrapper = w;
        face.free_wrapper_count++;
    } else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* While C holds the tensor too, what hangs on it is not ours alone to free. */
static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    tensor_object *w = (tensor_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(w->dict);
    bool alone = w->tensor && w->tensor->autograd && atomic_load(&w->tensor->refs) == 1;
    return alone ? face_traverse_autograd(w->tensor, visit, arg) : 0;
}

/* Of garbage nobody asks the gradient any more: its history goes, and with it the cycle. */
static int tensor_clear(PyObject *self)
{
    tensor_object *w = (tensor_object *)self;
    Py_CLEAR(w->dict);
    tp_tensor *t = w->tensor;
    if (t && t->autograd && atomic_load(&t->refs) == 1) {
        tp_attached *history = (tp_attached *)(void *)t->autograd;
        t->autograd = NULL;
        t->keys &= ~TP_LAYER_BIT(TP_LAYER_GRAD);
        history->free(history);
    }
    return 0;
}

/* ---- attributes ---- */
static int tensor_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    int failed = PyObject_GenericSetAttr(self, name, value);
    if (!failed && ((tensor_object *)self)->dict)
        face_track((tensor_object *)self);
    return failed;
}

static PyObject *get_dict(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *dict = PyObject_GenericGetDict(self, NULL);
    if (dict)
        face_track((tensor_object *)self);
    return dict;
}

static int set_dict(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    int failed = PyObject_GenericSetDict(self, value, NULL);
    if (!failed)
        face_track((tensor_object *)self);
    return failed;
}

static PyGetSetDef dict_attribute[] = {
    { "__dict__", get_dict, set_dict, "attributes set by Python", NULL },
    { 0 },
};

static PyMemberDef tensor_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(tensor_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(tensor_object, weakrefs), READONLY, NULL },
    { 0 },
};

/* ---- Tensor(...), the legacy constructor ---- */
static PyObject *empty_of_sizes(PyTypeObject *type, PyObject *args)
{
    int64_t size[TP_MAX_DIMS];
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count > TP_MAX_DIMS)
        return PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions, got %zd", TP_MAX_DIMS, count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!face_read_int(PyTuple_GET_ITEM(args, i), &size[i]))
            return NULL;
    tp_tensor *t = tp_tensor_new((tp_dtype)tp_the_runtime.default_dtype, (int)count, size);
    if (t && tp_fills_uninitialized())
        tp_fill_uninitialized(t);
    return t ? face_wrap_as(type, t) : face_raise();
}

/* Gives `plain` the class `type`, sharing its data. */
static PyObject *as_subclass(PyTypeObject *type, PyObject *plain)
{
    if (!plain || type == face.tensor)
        return plain;
    tp_tensor *t = tp_tensor_alias(face_tensor(plain));
    Py_DECREF(plain);
    return t ? face_wrap_as(type, t) : face_raise();
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (type == face.tensor_base)
        return PyErr_Format(PyExc_TypeError, "Cannot create a new instance of TensorBase; use Tensor");
    if (kwargs && PyDict_GET_SIZE(kwargs) && type == face.tensor) {
        PyObject *device = PyDict_GetItemString(kwargs, "device");
        if (!device || PyDict_GET_SIZE(kwargs) > 1)
            return PyErr_Format(PyExc_TypeError, "new() received an unexpected keyword argument");
        tp_device where;
        if (device != Py_None && !face_device_read(device, &where))
            return NULL;
        if (device != Py_None && where.type != TP_CPU)
            return PyErr_Format(PyExc_RuntimeError, "legacy constructor expects device type: cpu but device type: %S was passed", device);
    }
    PyObject *first = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (first && PyTuple_GET_SIZE(args) == 1) {
        if (face_is_tensor(first)) {
            tp_tensor *t = tp_tensor_alias(face_tensor(first));
            return t ? face_wrap_as(type, t) : face_raise();
        }
        if (Py_IS_TYPE(first, face.size))
            return empty_of_sizes(type, first);
        if (!face_is_int(first))
            return as_subclass(type, face_literal(first, (tp_dtype)tp_the_runtime.default_dtype, (tp_device){ TP_CPU, -1 }, true));
    }
    if (!first) {
        int64_t none = 0;
        tp_tensor *t = tp_tensor_new((tp_dtype)tp_the_runtime.default_dtype, 1, &none);
        return t ? face_wrap_as(type, t) : face_raise();
    }
    return empty_of_sizes(type, args);
}

static int tensor_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self, (void)args, (void)kwargs;       /* everything happened in new; subclasses pass what they like */
    return 0;
}

static Py_hash_t tensor_hash(PyObject *self)
{
    return (Py_hash_t)self;         /* id(x), as PyTorch has it */
}

static PyType_Slot base_slots[] = {
    { Py_tp_dealloc, tensor_dealloc },
    { Py_tp_traverse, tensor_traverse },
    { Py_tp_clear, tensor_clear },
    { Py_tp_members, tensor_members },
    { Py_tp_setattro, tensor_setattro },
    { Py_tp_new, tensor_new },
    { Py_tp_init, tensor_init },
    { Py_tp_hash, tensor_hash },
    { Py_tp_repr, face_tensor_repr },
    { Py_tp_methods, face_tensor_methods },
    { Py_tp_getset, face_tensor_attributes },
    { Py_mp_subscript, face_index_get },
    { Py_mp_ass_subscript, face_index_set },
};

/* ---- the metaclass ---- */
static int meta_init(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    if (PyType_Type.tp_init(cls, args, kwargs) < 0)
        return -1;
    return face_class_update((PyTypeObject *)cls) ? 0 : -1;
}

static bool names_an_override(PyObject *name)
{
    return PyUnicode_Check(name) && (PyUnicode_Compare(name, face.name_function) == 0 ||
                                     PyUnicode_Compare(name, face.name_dispatch) == 0);
}

static int meta_setattro(PyObject *cls, PyObject *name, PyObject *value)
{
    if (PyType_Type.tp_setattro(cls, name, value) < 0)
        return -1;
    return names_an_override(name) && !face_class_update((PyTypeObject *)cls) ? -1 : 0;
}

static PyType_Slot meta_slots[] = {
    { Py_tp_init, meta_init },
    { Py_tp_setattro, meta_setattro },
    { 0, NULL },
};
static PyType_Spec meta_spec = {
    .name = "_C._TensorMeta",
    .basicsize = sizeof(tensor_class),
    .itemsize = sizeof(PyMemberDef),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = meta_slots,
};

/* ---- setting up ---- */
static bool make_base(PyObject *module)
{
    PyType_Slot slots[160];
    size_t n = 0;
    for (size_t i = 0; i < TP_COUNT(base_slots); i++)
        slots[n++] = base_slots[i];
    for (const PyType_Slot *s = face_number_slots; s->slot && n + 1 < TP_COUNT(slots); s++)
        slots[n++] = *s;
    slots[n] = (PyType_Slot){ 0, NULL };
    PyType_Spec spec = {
        .name = "_C.TensorBase",
        .basicsize = sizeof(tensor_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    face.tensor_base = face_make_type(module, &spec, NULL);
    if (!face.tensor_base)
        return false;
    PyObject *descriptor = PyDescr_NewGetSet(face.tensor_base, dict_attribute);
    bool ok = descriptor && PyDict_SetItemString(face.tensor_base->tp_dict, "__dict__", descriptor) == 0;
    Py_XDECREF(descriptor);
    return ok;
}

static bool make_tensor(PyObject *module)
{
    PyObject *made = PyObject_CallFunction((PyObject *)face.tensor_meta, "s(O){sssss()}", "Tensor", face.tensor_base,
                                           "__module__", face.package, "__doc__", "A tensor.", "__slots__");
    if (!made)
        return false;
    face.tensor = (PyTypeObject *)made;
    face.tensor->tp_dealloc = tensor_dealloc;
    face.tensor->tp_alloc = PyType_GenericAlloc;
    return PyModule_AddObjectRef(module, "Tensor", made) == 0;
}

bool face_tensor_type_init(PyObject *module)
{
    face.tensor_meta = face_make_type(module, &meta_spec, &PyType_Type);
    return face.tensor_meta && make_base(module) && make_tensor(module);
}
