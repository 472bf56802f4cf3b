/* convert.c - Python objects to boxed values and back.
 *
 * A conversion borrows from the Python argument wherever it can: tensors, and lists in the frame on the caller's stack. */
#include <string.h>

#include "base/alloc.h"
#include "grad/tape.h"
#include "python/face.h"

void face_frame_init(call_frame *f)
{
    f->owned_count = 0;
    f->used = 0;
    f->exact = false;
    f->overloaded_count = 0;
}

void face_frame_fini(call_frame *f)
{
    for (int i = 0; i < f->owned_count; i++) {
        tp_value v = f->owned[i];
        if (v.tag == TP_LIST && atomic_load_explicit(&v.list->refs, memory_order_relaxed) == TP_STACK_LIST) {
            v.list->count = 0;                  /* its items were borrowed, as those of a list in the frame */
            atomic_init(&v.list->refs, 1);
        }
        tp_value_unref(v);
    }
    f->owned_count = 0;
}

/* Keeps `taken` alive until the call ends. */
static int own(call_frame *f, tp_value taken, tp_value *out)
{
    if (taken.tag == TP_NONE) {
        face_raise();
        return -1;
    }
    if (f->owned_count == FRAME_OWNED) {
        tp_value_unref(taken);
        PyErr_SetString(PyExc_RuntimeError, "too many compound arguments in one call");
        return -1;
    }
    f->owned[f->owned_count++] = taken;
    *out = taken;
    return 1;
}

/* A list of `count` items: in the frame when it fits, else on the heap. */
static tp_list *frame_list(call_frame *f, size_t count)
{
    size_t bytes = (sizeof(tp_list) + count * sizeof(tp_value) + 15) & ~(size_t)15;
    if (f->used + bytes <= sizeof f->bytes) {
        tp_list *list = (tp_list *)(void *)(f->bytes + f->used);
        f->used += bytes;
        atomic_init(&list->refs, TP_STACK_LIST);
        list->count = (uint32_t)count;
        return list;
    }
    tp_list *list = tp_list_new(count);
    tp_value kept;
    if (own(f, list ? tp_of_list(list) : tp_none(), &kept) <= 0)
        return NULL;
    atomic_init(&list->refs, TP_STACK_LIST);    /* who keeps it copies it, and counts the items then */
    return list;
}

bool face_note_overloaded(call_frame *f, PyObject *o)
{
    bool overrides = face_is_tensor(o) ? (face_overrides(o) & OVERRIDES_FUNCTION) != 0 : face_has_function(o);
    if (!overrides || !face_function_subclass_on())
        return false;
    int at = f->overloaded_count;
    for (int i = 0; i < f->overloaded_count; i++) {
        if (Py_TYPE(f->overloaded[i]) == Py_TYPE(o))
            return true;
        /* A subclass is asked before its base. */
        if (at == f->overloaded_count && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(f->overloaded[i])))
            at = i;
    }
    if (f->overloaded_count == (int)TP_COUNT(f->overloaded))
        return true;
    memmove(&f->overloaded[at + 1], &f->overloaded[at], (size_t)(f->overloaded_count - at) * sizeof *f->overloaded);
    f->overloaded[at] = o;
    f->overloaded_count++;
    return true;
}

/* ---- numbers ---- */
bool face_is_numpy_number(PyObject *o)
{
    const PyTypeObject *type = Py_TYPE(o);
    return strncmp(type->tp_name, "numpy.", 6) == 0 && type->tp_as_number &&
           (type->tp_as_number->nb_index || type->tp_as_number->nb_float) && strcmp(type->tp_name, "numpy.ndarray") != 0;
}

bool face_is_int(PyObject *o)
{
    if (PyLong_Check(o))
        return !PyBool_Check(o);
    return face_is_numpy_number(o) && Py_TYPE(o)->tp_as_number->nb_index;
}

bool face_read_int(PyObject *o, int64_t *out)
{
    PyObject *index = PyLong_CheckExact(o) ? Py_NewRef(o) : PyNumber_Index(o);
    if (!index)
        return false;
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return false;
    }
    *out = i;
    return i != -1 || !PyErr_Occurred();
}

bool face_read_truth(PyObject *o, bool *out)
{
    int is = o ? PyObject_IsTrue(o) : 0;
    *out = is > 0;
    return is >= 0;
}

PyObject *face_items(PyObject *o, const char *otherwise)
{
    PyObject *items = PySequence_Fast(o, otherwise), *tuple = items ? PySequence_Tuple(items) : NULL;
    Py_XDECREF(items);
    return tuple;
}

static int to_int(PyObject *o, tp_value *out)
{
    int64_t i;
    if (!face_read_int(o, &i))
        return -1;
    *out = tp_int(i);
    return 1;
}

/* A tensor of one element where a number is wanted: its value, through item() when a layer watches it. */
static int tensor_number(call_frame *f, PyObject *o, tp_value *out)
{
    tp_tensor *t = face_tensor(o);
    if (tp_requires_grad(t))
        return 0;
    if (TP_UNLIKELY(face_is_traced()) && t->device.type == TP_CPU) {
        tp_scalar s = tp_tensor_element(t, tp_tensor_data(t));
        *out = s.kind == TP_KIND_FLOAT ? tp_float(s.f) : s.kind == TP_KIND_BOOL ? tp_bool(s.i) : tp_int(s.i);
        out->mark = face_jit_mark(t);
        return out->mark ? 1 : -1;
    }
    if (!(t->keys & TP_ALL_LAYERS) && !tp_self.active && t->device.type == TP_CPU) {
        tp_scalar s = tp_tensor_element(t, tp_tensor_data(t));
        if (s.kind == TP_KIND_COMPLEX)
            return own(f, tp_value_scalar(s), out);
        *out = s.kind == TP_KIND_FLOAT ? tp_float(s.f) : s.kind == TP_KIND_BOOL ? tp_bool(s.i) : tp_int(s.i);
        return 1;
    }
    PyObject *number = PyObject_CallMethod(o, "item", NULL);
    int got = number ? face_to_number(number, out, f) : -1;
    Py_XDECREF(number);
    return got;
}

static int numpy_number(PyObject *o, tp_value *out)
{
    if (strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10) == 0) {
        *out = tp_bool(PyObject_IsTrue(o) == 1);
        return 1;
    }
    if (Py_TYPE(o)->tp_as_number->nb_index)
        return to_int(o, out);
    double value = PyFloat_AsDouble(o);
    if (value == -1 && PyErr_Occurred())
        return -1;
    *out = tp_float(value);
    return 1;
}

int face_to_number(PyObject *o, tp_value *out, call_frame *f)
{
    if (PyFloat_Check(o)) {
        *out = tp_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (PyBool_Check(o)) {
        *out = tp_bool(o == Py_True);
        return 1;
    }
    if (PyLong_Check(o))
        return to_int(o, out);
    if (PyComplex_Check(o))
        return own(f, tp_value_complex(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)), out);
    if (face_is_tensor(o))
        return face_tensor(o)->ndim == 0 ? tensor_number(f, o, out) : 0;
    if (face_is_sym(o)) {
        *out = face_sym_value(o);
        return 1;
    }
    return face_is_numpy_number(o) ? numpy_number(o, out) : 0;
}

/* ---- single values by type ---- */
static int to_tensor(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out)
{
    if (face_is_fast(o)) {
        *out = (tp_value){ .tag = TP_TENSOR, .tensor = face_tensor(o) };
        return 1;
    }
    if (face_is_tensor(o)) {
        face_note_overloaded(f, o);
        *out = (tp_value){ .tag = TP_TENSOR, .tensor = face_tensor(o) };
        return 1;
    }
    if (type->number_allowed) {
        int got = face_to_number(o, out, f);
        if (got)
            return got;
    }
    if (face_note_overloaded(f, o)) {
        *out = tp_none();
        return 1;
    }
    return 0;
}

/* A storage, or a typed one around it, travels as a tensor of its bytes. */
static int to_storage(call_frame *f, PyObject *o, tp_value *out)
{
    PyObject *inner = NULL;
    tp_storage *s = face_storage_of(o);
    if (!s && !PyLong_Check(o) && !face_is_tensor(o) && (inner = PyObject_GetAttrString(o, "_untyped_storage")))
        s = face_storage_of(inner);
    PyErr_Clear();
    int got = 0;
    if (s) {
        int64_t size = (int64_t)s->bytes, stride = 1;
        got = own(f, tp_of_tensor(tp_tensor_take_storage(tp_storage_ref(s), TP_u8, 1, &size, &stride, 0)), out);
    }
    Py_XDECREF(inner);
    return got;
}

static int to_float(call_frame *f, PyObject *o, tp_value *out)
{
    if (PyFloat_Check(o)) {
        *out = tp_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (PyComplex_Check(o))
        return 0;
    int got = face_to_number(o, out, f);
    if (got == 1 && (out->tag == TP_INT || out->tag == TP_BOOL)) {
        if (face_is_tensor(o) || PyLong_Check(o) || face_is_numpy_number(o))
            *out = (tp_value){ .tag = TP_FLOAT, .mark = out->mark, .f = (double)out->i };
    }
    return got == 1 && out->tag == TP_COMPLEX ? 0 : got;
}

/* An expression stays one where the schema says SymInt, and is specialised where it says int; a tensor of one element in some dims is
 * taken for a SymInt alone. */
static int to_integer(call_frame *f, bool symbolic, PyObject *o, tp_value *out)
{
    if (PyLong_CheckExact(o))
        return to_int(o, out);
    if (face_is_int(o))
        return to_int(o, out);
    if (Py_IS_TYPE(o, face.sym_int)) {
        int64_t i;
        *out = face_sym_value(o);
        if (!symbolic && !face_sym_int(o, &i))
            return -1;
        if (!symbolic)
            *out = tp_int(i);
        return 1;
    }
    if (face_is_tensor(o)) {
        tp_tensor *t = face_tensor(o);
        if (!tp_dtype_is_integral((tp_dtype)t->dtype) || t->dtype == TP_b8)
            return 0;
        if (t->ndim != 0 && (!symbolic || t->numel != 1))
            return 0;
        return tensor_number(f, o, out);
    }
    return 0;
}

static int to_dtype(PyObject *o, tp_value *out)
{
    if (Py_IS_TYPE(o, face.dtype))
        *out = tp_of_dtype(((dtype_object *)o)->dtype);
    else if (o == (PyObject *)&PyFloat_Type)
        *out = tp_of_dtype(TP_f64);
    else if (o == (PyObject *)&PyLong_Type)
        *out = tp_of_dtype(TP_i64);
    else if (o == (PyObject *)&PyBool_Type)
        *out = tp_of_dtype(TP_b8);
    else if (o == (PyObject *)&PyComplex_Type)
        *out = tp_of_dtype(TP_c128);
    else
        return 0;
    return 1;
}

static int to_device(PyObject *o, tp_value *out)
{
    tp_device d;
    if (!face_is_device_like(o))
        return 0;
    if (!face_device_read(o, &d) || !face_device_usable(d))
        return -1;
    *out = tp_of_device(d);
    return 1;
}

static int to_string(call_frame *f, PyObject *o, tp_value *out)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(o))
        return 0;
    const char *text = PyUnicode_AsUTF8AndSize(o, &length);
    return text ? own(f, tp_value_string(text, (size_t)length), out) : -1;
}

static int to_word(PyObject *o, PyTypeObject *type, tp_tag tag, tp_value *out)
{
    if (!Py_IS_TYPE(o, type))
        return 0;
    *out = (tp_value){ .tag = (uint8_t)tag, .i = ((word_object *)o)->word };
    return 1;
}

/* Every tensor is strided: who asks for another layout must not be given one that is. */
static int to_layout(PyObject *o, tp_value *out)
{
    int known = to_word(o, face.layout, TP_LAYOUT, out);
    if (known != 1 || out->i == LAYOUT_STRIDED)
        return known;
    PyErr_Format(PyExc_NotImplementedError, "layout=%S is not implemented: tensors are strided here", o);
    return -1;
}

static int to_bool(PyObject *o, tp_value *out)
{
    if (face_is_sym(o)) {
        bool answer;
        if (!face_sym_truth(o, &answer))
            return -1;
        *out = tp_bool(answer);
        return 1;
    }
    if (!PyBool_Check(o) && strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10) != 0)
        return 0;
    *out = tp_bool(PyObject_IsTrue(o) == 1);
    return 1;
}

static int to_generator(PyObject *o, tp_value *out)
{
    if (!face.generator || !Py_IS_TYPE(o, face.generator))
        return 0;
    *out = (tp_value){ .tag = TP_GENERATOR, .generator = face_generator_of(o) };
    return 1;
}

static int to_plain(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out)
{
    switch ((tp_type)type->type) {
    case TP_TYPE_TENSOR: return to_tensor(f, type, o, out);
    case TP_TYPE_SCALAR: return face_to_number(o, out, f);
    case TP_TYPE_INT:
    case TP_TYPE_SYMINT: return to_integer(f, type->type == TP_TYPE_SYMINT, o, out);
    case TP_TYPE_FLOAT: return to_float(f, o, out);
    case TP_TYPE_BOOL: return to_bool(o, out);
    case TP_TYPE_STR: return to_string(f, o, out);
    case TP_TYPE_DTYPE: return to_dtype(o, out);
    case TP_TYPE_LAYOUT: return to_layout(o, out);
    case TP_TYPE_FORMAT: return to_word(o, face.format, TP_FORMAT_VALUE, out);
    case TP_TYPE_DEVICE: return to_device(o, out);
    case TP_TYPE_GENERATOR: return to_generator(o, out);
    case TP_TYPE_ANY: return face_guess_value(f, o, out);
    case TP_TYPE_STORAGE: return to_storage(f, o, out);
    case TP_TYPE_DIMNAME:
    case TP_TYPE_STREAM: break;
    }
    return 0;
}

/* An object whose class overrides functions may stand for anything: a proxy for a size, say. */
static int to_override(call_frame *f, PyObject *o, tp_value *out)
{
    if (face_is_tensor(o) || !face_note_overloaded(f, o))
        return 0;
    *out = tp_none();
    return 1;
}

static int to_one(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out)
{
    int got = to_plain(f, type, o, out);
    return got ? got : to_override(f, o, out);
}

/* ---- lists ---- */
int face_to_ints(call_frame *f, const tp_arg *type, PyObject *const *item, Py_ssize_t count, tp_value *out)
{
    tp_list *list = frame_list(f, (size_t)count);
    if (!list)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        tp_value v;
        int got = to_one(f, type, item[i], &v);
        if (got <= 0)
            return got;
        list->item[i] = v;
    }
    *out = tp_of_list(list);
    return 1;
}

static int to_tensor_list(call_frame *f, const tp_arg *type, PyObject *const *item, Py_ssize_t count, tp_value *out)
{
    tp_list *list = frame_list(f, (size_t)count);
    if (!list)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        list->item[i] = tp_none();
        if (item[i] == Py_None && type->items_optional)
            continue;
        int got = to_tensor(f, type, item[i], &list->item[i]);
        if (got < 0 || (got == 0 && i == 0))
            return got;
        if (got == 0) {
            PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument 0, but got %s", i, Py_TYPE(item[i])->tp_name);
            return -1;
        }
    }
    *out = tp_of_list(list);
    return 1;
}

static int to_list(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out)
{
    if (PyTuple_Check(o) || PyList_Check(o)) {
        PyObject *const *item = PySequence_Fast_ITEMS(o);
        Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
        if (type->type == TP_TYPE_TENSOR)
            return to_tensor_list(f, type, item, count, out);
        return face_to_ints(f, type, item, count, out);
    }
    if (type->length == 0 || type->type == TP_TYPE_TENSOR || (f->exact && type->type == TP_TYPE_SYMINT))
        return to_override(f, o, out);
    /* int[2] takes a single int for both; SymInt[2] only where a signature is matched loosely. */
    tp_value one;
    int got = to_one(f, type, o, &one);
    if (got <= 0)
        return got;
    tp_list *list = frame_list(f, type->length);
    if (!list)
        return -1;
    for (int i = 0; i < type->length; i++)
        list->item[i] = one;
    *out = tp_of_list(list);
    return 1;
}

int face_to_value(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out)
{
    if (o == Py_None && type->optional) {
        *out = tp_none();
        return 1;
    }
    return type->list ? to_list(f, type, o, out) : to_one(f, type, o, out);
}

/* ---- any object ---- */
static void handle_free(tp_handle *h)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)h->object);
    PyGILState_Release(state);
    tp_free(h);
}

static bool handle_equal(const tp_handle *a, const tp_handle *b)
{
    int same = PyObject_RichCompareBool(a->object, b->object, Py_EQ);
    if (same < 0)
        PyErr_Clear();
    return same > 0;
}

static uint64_t handle_hash(const tp_handle *h)
{
    Py_hash_t hash = PyObject_Hash(h->object);
    if (hash == -1)
        PyErr_Clear();
    return (uint64_t)hash;
}

static bool handle_repr(const tp_handle *h, tp_text *out)
{
    PyObject *text = PyObject_Repr(h->object);
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8)
        tp_text_add(out, "%s", utf8);
    Py_XDECREF(text);
    return utf8 || face_foreign();
}

static bool handle_name(const tp_handle *h, tp_text *out)
{
    PyObject *name = PyObject_GetAttrString(h->object, "__name__");
    const char *utf8 = name ? PyUnicode_AsUTF8(name) : NULL;
    if (utf8)
        tp_text_add(out, "%s", utf8);
    Py_XDECREF(name);
    return utf8 || face_foreign();
}

static bool handle_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    return face_call_flat(h->object, arg, count, out, NULL);
}

static const tp_handle_type handle_type = {
    .free = handle_free, .equal = handle_equal, .hash = handle_hash, .repr = handle_repr, .name = handle_name, .call = handle_call,
};

tp_handle *face_handle_new(PyObject *object)
{
    tp_handle *h = tp_alloc(sizeof *h);
    if (!h)
        return NULL;
    atomic_init(&h->refs, 1);
    h->type = &handle_type;
    h->object = Py_NewRef(object);
    return h;
}

static int to_handle(call_frame *f, PyObject *o, tp_value *out)
{
    tp_handle *h = face_handle_new(o);
    return own(f, h ? (tp_value){ .tag = TP_HANDLE, .handle = h } : tp_none(), out);
}

int face_guess_value(call_frame *f, PyObject *o, tp_value *out)
{
    static const tp_arg tensor = { .type = TP_TYPE_TENSOR };
    if (o == Py_None) {
        *out = tp_none();
        return 1;
    }
    if (face_is_tensor(o))
        return to_tensor(f, &tensor, o, out);
    if (PyUnicode_Check(o))
        return to_string(f, o, out);
    if (Py_IS_TYPE(o, face.dtype))
        return to_dtype(o, out);
    if (Py_IS_TYPE(o, face.device))
        return to_device(o, out);
    if (Py_IS_TYPE(o, face.layout))
        return to_layout(o, out);
    if (Py_IS_TYPE(o, face.format))
        return to_word(o, face.format, TP_FORMAT_VALUE, out);
    if (PyTuple_Check(o) || PyList_Check(o)) {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
        tp_list *list = frame_list(f, (size_t)count);
        if (!list)
            return -1;
        for (Py_ssize_t i = 0; i < count; i++)
            if (face_guess_value(f, PySequence_Fast_ITEMS(o)[i], &list->item[i]) < 0)
                return -1;
        *out = (tp_value){ .tag = PyTuple_Check(o) ? TP_TUPLE : TP_LIST, .list = list };
        return 1;
    }
    int got = face_to_number(o, out, f);
    return got ? got : to_handle(f, o, out);
}

/* ---- back to Python ---- */
PyObject *face_from_scalar(tp_scalar s)
{
    switch ((tp_dtype_kind)s.kind) {
    case TP_KIND_BOOL: return PyBool_FromLong(s.i != 0);
    case TP_KIND_INTEGER: return PyLong_FromLongLong(s.i);
    case TP_KIND_FLOAT: return PyFloat_FromDouble(s.f);
    case TP_KIND_COMPLEX: return PyComplex_FromDoubles(s.c.re, s.c.im);
    }
    Py_UNREACHABLE();
}

static PyObject *from_list(tp_value taken)
{
    tp_list *l = taken.list;
    PyObject *made = taken.tag == TP_TUPLE ? PyTuple_New(l->count) : PyList_New(l->count);
    for (uint32_t i = 0; made && i < l->count; i++) {
        PyObject *item = face_from_value(tp_value_ref(l->item[i]));
        if (!item)
            Py_CLEAR(made);
        else if (taken.tag == TP_TUPLE)
            PyTuple_SET_ITEM(made, i, item);
        else
            PyList_SET_ITEM(made, i, item);
    }
    tp_value_unref(taken);
    return made;
}

PyObject *face_from_value(tp_value taken)
{
    PyObject *made = NULL;
    switch ((tp_tag)taken.tag) {
    case TP_NONE: Py_RETURN_NONE;
    case TP_BOOL: return PyBool_FromLong(taken.i != 0);
    case TP_INT: return PyLong_FromLongLong(taken.i);
    case TP_FLOAT: return PyFloat_FromDouble(taken.f);
    case TP_TENSOR: return face_wrap(taken.tensor);
    case TP_DTYPE_VALUE: return face_dtype((tp_dtype)taken.i);
    case TP_DEVICE: return face_device(taken.device);
    case TP_LAYOUT: return Py_NewRef(face.layouts[taken.i]);
    case TP_FORMAT_VALUE: return Py_NewRef(face.formats[taken.i]);
    case TP_LIST:
    case TP_TUPLE: return from_list(taken);
    case TP_COMPLEX: made = PyComplex_FromDoubles(taken.complex->re, taken.complex->im); break;
    case TP_STRING: made = PyUnicode_FromStringAndSize(taken.string->text, taken.string->length); break;
    case TP_HANDLE: made = Py_NewRef((PyObject *)taken.handle->object); break;
    case TP_GENERATOR: made = face_generator(taken.generator); break;
    case TP_SYM: return face_sym((tp_sym){ taken.sym });
    case TP_DICT:
    case TP_SLICE:
    case TP_NODE: face_unimplemented("this kind of value in Python"); break;
    }
    tp_value_unref(taken);
    return made;
}
