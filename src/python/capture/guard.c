/* guard.c - assumptions: making, checking, printing. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "grad/tape.h"
#include "python/capture/capture.h"

/* Layers whose keys on an argument change what a captured op would do. */
enum { WATCHED_KEYS = TP_LAYER_BIT(TP_LAYER_FAKE) | TP_LAYER_BIT(TP_LAYER_DISPATCH) | TP_LAYER_BIT(TP_LAYER_TRANSFORM) | TP_KEY_INFERENCE };

/* ---- making ---- */
PyObject *tp_guard_object(const guard *g)
{
    if (!g->weak)
        return g->object;
    PyObject *o = PyWeakref_GET_OBJECT(g->object);
    return o == Py_None ? NULL : o;
}

bool tp_guard_add(tp_sources *s, guard_kind kind, int32_t at, PyObject *object, int64_t number)
{
    bool by_identity = kind == GUARD_ID || kind == GUARD_TYPE;
    if (by_identity)
        number = (int64_t)(uintptr_t)object;
    guard g = { .kind = (uint8_t)kind, .source = at, .number = number };
    uint64_t hash = tp_hash_word((uint64_t)(uintptr_t)object ^ tp_hash_word((uint64_t)kind << 56 ^ (uint64_t)(uint32_t)at << 24 ^ (uint64_t)number));
    uint64_t there;
    if (tp_map_get(&s->guard_at, hash, &there)) {
        const guard *old = &s->guard.item[there];
        if (old->kind == g.kind && old->source == at && tp_guard_object(old) == object && old->number == number)
            return true;
    }
    if (kind == GUARD_ID)
        g.seen[0] = (uint64_t)(uintptr_t)Py_TYPE(object);
    g.weak = by_identity && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
    g.object = g.weak ? PyWeakref_NewRef(object, NULL) : Py_XNewRef(object);
    if (g.weak && !g.object)
        return false;
    if (!tp_array_push(&s->guard, g)) {
        Py_XDECREF(g.object);
        face_raise();
        return false;
    }
    if (tp_map_put(&s->guard_at, hash, s->guard.count - 1))
        return true;
    face_raise();
    return false;
}

bool tp_guard_tensor(tp_sources *s, int32_t at, PyObject *tensor)
{
    const tp_tensor *t = face_tensor(tensor);
    tensor_facts *f = tp_alloc(sizeof *f + 2u * t->ndim * sizeof *f->dims);
    if (!f) {
        face_raise();
        return false;
    }
    *f = (tensor_facts){ .type = Py_TYPE(tensor), .dtype = t->dtype, .ndim = t->ndim, .device = t->device,
                         .requires_grad = tp_requires_grad(t), .keys = t->keys & WATCHED_KEYS };
    memcpy(f->dims, t->size, t->ndim * sizeof *f->dims);
    memcpy(f->dims + t->ndim, t->stride, t->ndim * sizeof *f->dims);
    guard g = { .kind = GUARD_TENSOR, .source = at, .facts = f };
    if (!tp_array_push(&s->guard, g)) {
        tp_free(f);
        face_raise();
        return false;
    }
    Py_INCREF(f->type);
    return true;
}

/* A constant, or a tuple of such: comparing it runs no code of the program's. */
static bool is_setting(PyObject *o)
{
    for (Py_ssize_t i = 0; PyTuple_CheckExact(o) && i < PyTuple_GET_SIZE(o); i++)
        if (!capture_is_constant(PyTuple_GET_ITEM(o, i)))
            return false;
    return PyTuple_CheckExact(o) || PyCFunction_Check(o) || capture_is_constant(o);
}

bool tp_guard_settings(tp_sources *s, int32_t at, PyObject *module)
{
    PyObject *own = PyObject_GenericGetDict(module, NULL), *kept = own ? PyDict_New() : NULL, *key, *value;
    Py_ssize_t next = 0;
    bool ok = kept;
    for (size_t i = 0; ok && i < s->guard.count; i++)
        if (s->guard.item[i].kind == GUARD_SETTINGS && s->guard.item[i].source == at) {      /* the module was called before */
            Py_DECREF(own);
            Py_DECREF(kept);
            return true;
        }
    while (ok && PyDict_Next(own, &next, &key, &value))
        ok = !is_setting(value) || PyDict_SetItem(kept, key, value) == 0;
    ok = ok && tp_guard_add(s, GUARD_SETTINGS, at, kept, PyDict_GET_SIZE(own));
    Py_XDECREF(own);
    Py_XDECREF(kept);
    return ok;
}

/* ---- checking ---- */
static bool tensor_fits(PyObject *o, const tensor_facts *f)
{
    if (Py_TYPE(o) != f->type)
        return false;
    const tp_tensor *t = face_tensor(o);
    if (t->dtype != f->dtype || t->ndim != f->ndim || t->device.type != f->device.type || t->device.index != f->device.index ||
        (t->keys & WATCHED_KEYS) != f->keys || tp_requires_grad(t) != f->requires_grad)
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] != f->dims[i] || (t->size[i] > 1 && t->stride[i] != f->dims[f->ndim + i]))
            return false;
    return true;
}

/* Constants: -0.0 is not 0.0 here, and nan is itself. */
static bool is_equal(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    if (Py_TYPE(a) != Py_TYPE(b))
        return false;
    if (PyFloat_CheckExact(a)) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyComplex_CheckExact(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0)
        PyErr_Clear();
    return same > 0;
}

/* An OrderedDict has an order beside that of the dict it is. */
static bool ordered_keys_fit(PyObject *o, PyObject *keys)
{
    PyObject *own = PySequence_Tuple(o);
    bool same = own && PyTuple_GET_SIZE(own) == PyTuple_GET_SIZE(keys);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(keys); i++)
        same = PyTuple_GET_ITEM(own, i) == PyTuple_GET_ITEM(keys, i) ||
               (PyUnicode_CheckExact(PyTuple_GET_ITEM(own, i)) && is_equal(PyTuple_GET_ITEM(own, i), PyTuple_GET_ITEM(keys, i)));
    Py_XDECREF(own);
    PyErr_Clear();
    return same;
}

static bool keys_fit(PyObject *o, PyObject *keys)
{
    Py_ssize_t at = 0, i = 0;
    PyObject *key, *value;
    if (!PyDict_Check(o) || PyDict_GET_SIZE(o) != PyTuple_GET_SIZE(keys))
        return false;
    if (PyODict_CheckExact(o))
        return ordered_keys_fit(o, keys);
    while (PyDict_Next(o, &at, &key, &value)) {
        PyObject *want = PyTuple_GET_ITEM(keys, i++);
        bool plain = PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyFloat_CheckExact(key);
        if (key != want && !(plain && is_equal(key, want)))     /* no __eq__ of the user's runs in the midst of his dict */
            return false;
    }
    return true;
}

static uint64_t version_of(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

static bool lacks(guard *g, PyObject *o, PyObject *name)
{
    PyObject **at = _PyObject_GetDictPtr(o), *own = at && *at ? Py_NewRef(*at) : PyObject_GenericGetDict(o, NULL);
    bool there = own && version_of(own) != g->seen[0] && PyDict_Contains(own, name) == 1;
    if (own && !there)
        g->seen[0] = version_of(own);
    Py_XDECREF(own);
    PyErr_Clear();
    return !there;
}

/* Functions on the list of those that are asked: they are the package's own and only look. */
static bool answers(PyObject *function, PyObject *question)
{
    PyObject *answer = PyObject_CallObject(function, PyTuple_GET_ITEM(question, 0));
    bool same = answer && is_equal(answer, PyTuple_GET_ITEM(question, 1));
    PyErr_Clear();
    Py_XDECREF(answer);
    return same;
}

/* A dict whose version is the one seen has not changed; one whose mode was set to what it is has another, but the same contents. */
static bool settings_fit(guard *g, PyObject *module)
{
    PyObject **at = _PyObject_GetDictPtr(module), *own = at && *at ? Py_NewRef(*at) : PyObject_GenericGetDict(module, NULL), *key, *value;
    Py_ssize_t next = 0;
    bool fits = own && version_of(own) == g->seen[0], changed = own && !fits;
    if (changed && (fits = PyDict_GET_SIZE(own) == g->number))
        while (fits && PyDict_Next(g->object, &next, &key, &value)) {
            PyObject *is = PyDict_GetItemWithError(own, key);
            fits = is && is_equal(is, value);
        }
    if (changed && fits)
        g->seen[0] = version_of(own);
    Py_XDECREF(own);
    PyErr_Clear();
    return fits;
}

static bool code_fits(const guard *g, PyObject *o)
{
    if (!PyFunction_Check(o) || PyFunction_GET_CODE(o) != g->object)
        return false;
    PyObject *defaults = PyFunction_GET_DEFAULTS(o);
    return (defaults ? PyTuple_GET_SIZE(defaults) : 0) == g->number;
}

/* A name that the globals lack, so that it is the builtin. A dict whose version is the one seen has not changed. */
static bool is_builtin(guard *g, PyObject *globals)
{
    PyObject *name = PyTuple_GET_ITEM(g->object, 0), *builtins = PyTuple_GET_ITEM(g->object, 2);
    uint64_t versions[2] = { version_of(globals), version_of(builtins) };
    if (g->seen[0] == versions[0] && g->seen[1] == versions[1])
        return true;
    PyObject *value = PyDict_GetItemWithError(builtins, name), *want = PyTuple_GET_ITEM(g->object, 1);
    bool there = PyDict_Contains(globals, name) == 0 && (value ? value == want : want == Py_NotImplemented);
    PyErr_Clear();
    if (there)
        memcpy(g->seen, versions, sizeof versions);
    return there;
}

static bool holds(const tp_sources *s, guard *g, PyObject *o, const call_state *call, PyObject **values)
{
    switch ((guard_kind)g->kind) {
    case GUARD_ID: return o == tp_guard_object(g) && (uint64_t)(uintptr_t)Py_TYPE(o) == g->seen[0];
    case GUARD_TYPE: return (PyObject *)Py_TYPE(o) == tp_guard_object(g);
    case GUARD_EQUAL: return is_equal(o, g->object);
    case GUARD_TENSOR: return tensor_fits(o, g->facts);
    case GUARD_LENGTH: return PyDict_Check(o)                       ? PyDict_GET_SIZE(o) == g->number
                              : PyTuple_Check(o) || PyList_Check(o) ? PySequence_Fast_GET_SIZE(o) == g->number
                              : PyAnySet_Check(o)                   ? PySet_GET_SIZE(o) == g->number
                                                                    : false;
    case GUARD_KEYS: return keys_fit(o, g->object);
    case GUARD_HAS: {
        int there = PyDict_Check(o) ? PyDict_Contains(o, g->object) : PyAnySet_Check(o) ? PySet_Contains(o, g->object) : -1;
        if (there < 0)
            PyErr_Clear();
        return there == g->number;
    }
    case GUARD_LACKS: return lacks(g, o, g->object);
    case GUARD_SAME: return o == tp_source_value(s, (int32_t)g->number, call, values);
    case GUARD_OTHER: return o != tp_source_value(s, (int32_t)g->number, call, values);
    case GUARD_CODE: return code_fits(g, o);
    case GUARD_BUILTIN: return is_builtin(g, o);
    case GUARD_SETTINGS: return settings_fit(g, o);
    case GUARD_NO_HOOKS: return face_module_is_plain(o);
    case GUARD_ANSWER: return answers(o, g->object);
    }
    return false;
}

bool tp_guards_hold(const tp_sources *s, const call_state *call, PyObject **values, const guard **failed)
{
    for (size_t i = 0; i < s->guard.count; i++) {
        guard *g = &s->guard.item[i];
        PyObject *o = tp_source_value(s, g->source, call, values);
        if (!o || !holds(s, g, o, call, values)) {
            *failed = g;
            return false;
        }
    }
    return true;
}

/* ---- text ---- */
static PyObject *tensor_text(PyObject *where, const tensor_facts *f)
{
    PyObject *size = face_size(f->ndim, f->dims), *stride = face_size(f->ndim, f->dims + f->ndim), *dtype = face_dtype((tp_dtype)f->dtype);
    PyObject *sizes = size ? PySequence_List(size) : NULL, *strides = stride ? PySequence_List(stride) : NULL, *text = NULL;
    if (sizes && strides && dtype)
        text = PyUnicode_FromFormat("check_tensor(%U, %s, %S, size=%R, stride=%R, requires_grad=%s)", where, f->type->tp_name, dtype, sizes,
                                    strides, f->requires_grad ? "True" : "False");
    Py_XDECREF(size);
    Py_XDECREF(stride);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    Py_XDECREF(dtype);
    return text;
}

PyObject *tp_guard_text(const tp_sources *s, const guard *g)
{
    PyObject *where = tp_source_text(s, g->source), *text = NULL, *other;
    if (!where)
        return NULL;
    switch ((guard_kind)g->kind) {
    case GUARD_ID: text = PyUnicode_FromFormat("___check_obj_id(%U, %zu)", where, (size_t)g->number); break;
    case GUARD_TYPE: text = PyUnicode_FromFormat("___check_type_id(%U, %zu)", where, (size_t)g->number); break;
    case GUARD_EQUAL: text = PyUnicode_FromFormat(g->object == Py_None ? "%U is %R" : "%U == %R", where, g->object); break;
    case GUARD_TENSOR: text = tensor_text(where, g->facts); break;
    case GUARD_LENGTH: text = PyUnicode_FromFormat("len(%U) == %lld", where, LL(g->number)); break;
    case GUARD_KEYS: text = PyUnicode_FromFormat("tuple(%U.keys()) == %R", where, g->object); break;
    case GUARD_HAS: text = PyUnicode_FromFormat(g->number ? "%R in %U" : "%R not in %U", g->object, where); break;
    case GUARD_LACKS: text = PyUnicode_FromFormat("not ___dict_contains(%R, %U.__dict__)", g->object, where); break;
    case GUARD_SAME:
        if ((other = tp_source_text(s, (int32_t)g->number)))
            text = PyUnicode_FromFormat("%U is %U", where, other);
        Py_XDECREF(other);
        break;
    case GUARD_OTHER:
        if ((other = tp_source_text(s, (int32_t)g->number)))
            text = PyUnicode_FromFormat("%U is not %U", where, other);
        Py_XDECREF(other);
        break;
    case GUARD_CODE: text = PyUnicode_FromFormat("%U.__code__ is %R", where, g->object); break;
    case GUARD_BUILTIN: text = PyUnicode_FromFormat("%R not in %U", PyTuple_GET_ITEM(g->object, 0), where); break;
    case GUARD_SETTINGS: text = PyUnicode_FromFormat("%R <= %U.__dict__.items()", g->object, where); break;
    case GUARD_NO_HOOKS: text = PyUnicode_FromFormat("not %U._forward_hooks", where); break;
    case GUARD_ANSWER: text = PyUnicode_FromFormat("%U(*%R) == %R", where, PyTuple_GET_ITEM(g->object, 0), PyTuple_GET_ITEM(g->object, 1)); break;
    }
    Py_DECREF(where);
    return text;
}
