/* dtype_objects.c - dtype, layout and memory_format: small interned objects; finfo and iinfo. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "python/face.h"

PyTypeObject *face_make_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base)
{
    char name[128];
    PyType_Spec named = *spec;
    snprintf(name, sizeof name, "%s.%s", face.package, spec->name);
    named.name = name;
    PyObject *type = PyType_FromModuleAndSpec(module, &named, (PyObject *)base);
    const char *dot = strrchr(spec->name, '.');
    if (type && PyModule_AddObjectRef(module, dot ? dot + 1 : spec->name, type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

PyObject *face_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", type->tp_name);
}

/* ---- dtype ---- */
PyObject *face_dtype(tp_dtype d)
{
    if (d >= TP_DTYPE_COUNT)
        Py_RETURN_NONE;
    return Py_NewRef(face.dtypes[d]);
}

bool face_dtype_read(PyObject *o, tp_dtype *out)
{
    if (!Py_IS_TYPE(o, face.dtype)) {
        PyErr_Format(PyExc_TypeError, "expected a %s.dtype, not %s", face.package, Py_TYPE(o)->tp_name);
        return false;
    }
    *out = ((dtype_object *)o)->dtype;
    return true;
}

static tp_dtype dtype_of(PyObject *self)
{
    return ((dtype_object *)self)->dtype;
}

static PyObject *dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("%s.%s", face.package, tp_dtypes[dtype_of(self)].python);
}

/* Pickles by name, looked up in the package. */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(tp_dtypes[dtype_of(self)].python);
}

static PyObject *dtype_to_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_dtype d = dtype_of(self);
    if (tp_dtype_is_integral(d) || d == TP_bf16)
        return PyErr_Format(PyExc_RuntimeError, "Cannot convert %s to its complex counterpart", tp_dtypes[d].python);
    return face_dtype(tp_dtype_to_complex(d));
}

static PyObject *dtype_to_real(PyObject *self, PyObject *unused)
{
    (void)unused;
    return face_dtype(tp_dtype_to_real(dtype_of(self)));
}

static PyObject *dtype_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(tp_dtype_bytes(dtype_of(self)));
}

static PyObject *dtype_is_float(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_float(dtype_of(self)));
}

static PyObject *dtype_is_complex(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_complex(dtype_of(self)));
}

static PyObject *dtype_is_signed(PyObject *self, void *unused)
{
    (void)unused;
    tp_dtype d = dtype_of(self);
    return PyBool_FromLong(d != TP_u8 && d != TP_b8);
}

static PyMethodDef dtype_methods[] = {
    { "__reduce__", dtype_reduce, METH_NOARGS, NULL },
    { "to_complex", dtype_to_complex, METH_NOARGS, NULL },
    { "to_real", dtype_to_real, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef dtype_attributes[] = {
    { "is_floating_point", dtype_is_float, NULL, NULL, NULL },
    { "is_complex", dtype_is_complex, NULL, NULL, NULL },
    { "is_signed", dtype_is_signed, NULL, NULL, NULL },
    { "itemsize", dtype_itemsize, NULL, NULL, NULL },
    { 0 },
};
static PyType_Slot dtype_slots[] = {
    { Py_tp_repr, dtype_repr },
    { Py_tp_methods, dtype_methods },
    { Py_tp_getset, dtype_attributes },
    { 0, NULL },
};
static PyType_Spec dtype_spec = {
    .name = "dtype",
    .basicsize = sizeof(dtype_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = dtype_slots,
};

/* ---- layout and memory_format ---- */
static const char *const layout_names[LAYOUT_COUNT] = {
    "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged",
};
static const char *const format_names[FORMAT_COUNT] = {
    [TP_FORMAT_CONTIGUOUS] = "contiguous_format",
    [TP_FORMAT_PRESERVE] = "preserve_format",
    [TP_FORMAT_CHANNELS_LAST] = "channels_last",
    [TP_FORMAT_CHANNELS_LAST_3D] = "channels_last_3d",
};

static const char *word_name(PyObject *self)
{
    int word = ((word_object *)self)->word;
    return Py_IS_TYPE(self, face.layout) ? layout_names[word] : format_names[word];
}

static PyObject *word_repr(PyObject *self)
{
    return PyUnicode_FromFormat("%s.%s", face.package, word_name(self));
}

static PyObject *word_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(word_name(self));
}

static PyMethodDef word_methods[] = {
    { "__reduce__", word_reduce, METH_NOARGS, NULL },
    { 0 },
};
static PyType_Slot word_slots[] = {
    { Py_tp_repr, word_repr },
    { Py_tp_methods, word_methods },
    { 0, NULL },
};
static PyType_Spec layout_spec = {
    .name = "layout", .basicsize = sizeof(word_object), .slots = word_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};
static PyType_Spec format_spec = {
    .name = "memory_format", .basicsize = sizeof(word_object), .slots = word_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* ---- finfo and iinfo ---- */
typedef struct float_facts {
    double min, max, eps, tiny, resolution;
} float_facts;

static float_facts facts_of(tp_dtype d)
{
    switch (tp_dtype_to_real(d)) {
    case TP_f16: return (float_facts){ -65504, 65504, 0x1p-10, 0x1p-14, 1e-3 };
    case TP_bf16: return (float_facts){ -0x1.fep127, 0x1.fep127, 0x1p-7, 0x1p-126, 1e-2 };
    case TP_f32: return (float_facts){ (double)-FLT_MAX, (double)FLT_MAX, (double)FLT_EPSILON, (double)FLT_MIN, 1e-6 };
    default: return (float_facts){ -DBL_MAX, DBL_MAX, DBL_EPSILON, DBL_MIN, 1e-15 };
    }
}

static PyObject *info_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "type", NULL };
    PyObject *given = NULL;
    bool floating = type == face.finfo;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &given))
        return NULL;
    tp_dtype d = (tp_dtype)tp_the_runtime.default_dtype;
    if (given && !face_dtype_read(given, &d))
        return NULL;
    if (!given && !floating)
        return PyErr_Format(PyExc_TypeError, "iinfo() missing 1 required positional arguments: \"type\"");
    if (floating && !tp_dtype_is_inexact(d))
        return PyErr_Format(PyExc_TypeError, "%s.finfo() requires a floating point input type. Use %s.iinfo to handle '%s.finfo'",
                            face.package, face.package, face.package);
    if (!floating && tp_dtypes[d].kind != TP_KIND_INTEGER)
        return PyErr_Format(PyExc_TypeError, "%s.iinfo() requires an integer input type. Use %s.finfo to handle '%s.iinfo'",
                            face.package, face.package, face.package);
    dtype_object *made = (dtype_object *)type->tp_alloc(type, 0);
    if (made)
        made->dtype = floating ? tp_dtype_to_real(d) : d;
    return (PyObject *)made;
}

static PyObject *info_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tp_dtypes[dtype_of(self)].python);
}

static PyObject *info_bits(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(8 * tp_dtype_bytes(dtype_of(self)));
}

static PyObject *finfo_get(PyObject *self, void *which)
{
    float_facts f = facts_of(dtype_of(self));
    return PyFloat_FromDouble(*(double *)((char *)&f + (size_t)which));
}

static PyGetSetDef finfo_attributes[] = {
    { "min", finfo_get, NULL, NULL, (void *)offsetof(float_facts, min) },
    { "max", finfo_get, NULL, NULL, (void *)offsetof(float_facts, max) },
    { "eps", finfo_get, NULL, NULL, (void *)offsetof(float_facts, eps) },
    { "tiny", finfo_get, NULL, NULL, (void *)offsetof(float_facts, tiny) },
    { "smallest_normal", finfo_get, NULL, NULL, (void *)offsetof(float_facts, tiny) },
    { "resolution", finfo_get, NULL, NULL, (void *)offsetof(float_facts, resolution) },
    { "bits", info_bits, NULL, NULL, NULL },
    { "dtype", info_dtype, NULL, NULL, NULL },
    { 0 },
};

static PyObject *finfo_repr(PyObject *self)
{
    char text[256];
    float_facts f = facts_of(dtype_of(self));
    snprintf(text, sizeof text, "finfo(resolution=%g, min=%g, max=%g, eps=%g, smallest_normal=%g, tiny=%g, dtype=%s)",
             f.resolution, f.min, f.max, f.eps, f.tiny, f.tiny, tp_dtypes[dtype_of(self)].python);
    return PyUnicode_FromString(text);
}

static int64_t integer_limit(tp_dtype d, bool top)
{
    int bits = (int)tp_dtype_bytes(d) * 8;
    if (d == TP_u8)
        return top ? 255 : 0;
    int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
    return top ? most : -most - 1;
}

static PyObject *iinfo_get(PyObject *self, void *top)
{
    return PyLong_FromLongLong(integer_limit(dtype_of(self), top != NULL));
}

static PyGetSetDef iinfo_attributes[] = {
    { "min", iinfo_get, NULL, NULL, NULL },
    { "max", iinfo_get, NULL, NULL, (void *)1 },
    { "bits", info_bits, NULL, NULL, NULL },
    { "dtype", info_dtype, NULL, NULL, NULL },
    { 0 },
};

static PyObject *iinfo_repr(PyObject *self)
{
    char text[128];
    tp_dtype d = dtype_of(self);
    snprintf(text, sizeof text, "iinfo(min=%g, max=%g, dtype=%s)", (double)integer_limit(d, false),
             (double)integer_limit(d, true), tp_dtypes[d].python);
    return PyUnicode_FromString(text);
}

static PyObject *info_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((dtype_of(a) == dtype_of(b)) == (op == Py_EQ));
}

static PyType_Slot finfo_slots[] = {
    { Py_tp_new, info_new }, { Py_tp_repr, finfo_repr }, { Py_tp_getset, finfo_attributes },
    { Py_tp_richcompare, info_compare }, { 0, NULL },
};
static PyType_Slot iinfo_slots[] = {
    { Py_tp_new, info_new }, { Py_tp_repr, iinfo_repr }, { Py_tp_getset, iinfo_attributes },
    { Py_tp_richcompare, info_compare }, { 0, NULL },
};
static PyType_Spec finfo_spec = {
    .name = "finfo", .basicsize = sizeof(dtype_object), .flags = Py_TPFLAGS_DEFAULT, .slots = finfo_slots,
};
static PyType_Spec iinfo_spec = {
    .name = "iinfo", .basicsize = sizeof(dtype_object), .flags = Py_TPFLAGS_DEFAULT, .slots = iinfo_slots,
};

/* ---- setting up ---- */
static const struct { const char *name; tp_dtype dtype; } aliases[] = {
    { "float", TP_f32 }, { "double", TP_f64 }, { "half", TP_f16 }, { "short", TP_i16 }, { "int", TP_i32 },
    { "long", TP_i64 }, { "cfloat", TP_c64 }, { "cdouble", TP_c128 },
};

static PyObject *make_word(PyTypeObject *type, int word)
{
    word_object *made = (word_object *)type->tp_alloc(type, 0);
    if (made)
        made->word = word;
    return (PyObject *)made;
}

static bool make_dtypes(PyObject *module)
{
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        dtype_object *made = (dtype_object *)face.dtype->tp_alloc(face.dtype, 0);
        if (!made)
            return false;
        made->dtype = (tp_dtype)d;
        face.dtypes[d] = (PyObject *)made;
        if (PyModule_AddObjectRef(module, tp_dtypes[d].python, (PyObject *)made) < 0)
            return false;
    }
    for (size_t i = 0; i < TP_COUNT(aliases); i++)
        if (PyModule_AddObjectRef(module, aliases[i].name, face.dtypes[aliases[i].dtype]) < 0)
            return false;
    return true;
}

static bool make_words(PyObject *module)
{
    for (int i = 0; i < LAYOUT_COUNT; i++)
        if (!(face.layouts[i] = make_word(face.layout, i)) ||
            PyModule_AddObjectRef(module, layout_names[i], face.layouts[i]) < 0)
            return false;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (!(face.formats[i] = make_word(face.format, i)) ||
            PyModule_AddObjectRef(module, format_names[i], face.formats[i]) < 0)
            return false;
    return true;
}

bool face_dtypes_init(PyObject *module)
{
    return (face.dtype = face_make_type(module, &dtype_spec, NULL)) &&
           (face.layout = face_make_type(module, &layout_spec, NULL)) &&
           (face.format = face_make_type(module, &format_spec, NULL)) &&
           (face.finfo = face_make_type(module, &finfo_spec, NULL)) &&
           (face.iinfo = face_make_type(module, &iinfo_spec, NULL)) &&
           make_dtypes(module) && make_words(module);
}
