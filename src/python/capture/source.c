/* source.c - paths: making, following, printing. */
#include "python/capture/source.h"

#include "base/alloc.h"
#include "base/hash.h"

void tp_sources_fini(tp_sources *s)
{
    for (size_t i = 0; i < s->path.count; i++)
        Py_XDECREF(s->path.item[i].key);
    for (size_t i = 0; i < s->guard.count; i++) {
        Py_XDECREF(s->guard.item[i].object);
        if (s->guard.item[i].facts)
            Py_DECREF(s->guard.item[i].facts->type);
        tp_free(s->guard.item[i].facts);
    }
    tp_map_fini(&s->path_at);
    tp_map_fini(&s->guard_at);
    tp_array_fini(&s->path);
    tp_array_fini(&s->guard);
}

int tp_sources_traverse(const tp_sources *s, visitproc visit, void *arg)
{
    for (size_t i = 0; i < s->path.count; i++)
        Py_VISIT(s->path.item[i].key);
    for (size_t i = 0; i < s->guard.count; i++)
        Py_VISIT(s->guard.item[i].object);
    return 0;
}

/* Keys are names, or constants of items: equal ones of one class are one. */
static bool same_key(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    if (!a || !b || Py_TYPE(a) != Py_TYPE(b) || !(PyUnicode_CheckExact(a) || PyLong_CheckExact(a)))
        return false;
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0)
        PyErr_Clear();
    return same > 0;
}

static uint64_t key_hash(PyObject *key)
{
    if (!key || !(PyUnicode_CheckExact(key) || PyLong_CheckExact(key)))
        return (uint64_t)(uintptr_t)key;
    return (uint64_t)PyObject_Hash(key);
}

int32_t tp_source_in(tp_sources *s, source_kind kind, int32_t base, int32_t number, PyObject *key)
{
    path made = { .kind = (uint8_t)kind, .base = base, .number = number, .key = key };
    uint64_t hash = tp_hash_word(key_hash(key) ^ tp_hash_word((uint64_t)kind << 56 ^ (uint64_t)(uint32_t)base << 24 ^ (uint32_t)number)), at;
    if (tp_map_get(&s->path_at, hash, &at)) {
        const path *p = &s->path.item[at];
        if (p->kind == kind && p->base == base && p->number == number && same_key(p->key, key))
            return (int32_t)at;
    }
    if (!tp_array_push(&s->path, made)) {
        face_raise();
        return -1;
    }
    Py_XINCREF(key);
    if (!tp_map_put(&s->path_at, hash, s->path.count - 1)) {
        face_raise();
        return -1;
    }
    return (int32_t)s->path.count - 1;
}

/* ---- following ---- */

/* The instance's own, or what stands in its class: no descriptor is called, nothing of the user's runs. */
static PyObject *plain_attribute(PyObject *o, PyObject *name)
{
    if (PyModule_Check(o))
        return Py_XNewRef(PyDict_GetItemWithError(PyModule_GetDict(o), name));
    if (PyType_Check(o))
        return Py_XNewRef(_PyType_Lookup((PyTypeObject *)o, name));
    PyObject *own = PyObject_GenericGetDict(o, NULL), *found = NULL;
    if (own)
        found = Py_XNewRef(PyDict_GetItemWithError(own, name));
    else
        PyErr_Clear();
    Py_XDECREF(own);
    if (found)
        return found;
    found = _PyType_Lookup(Py_TYPE(o), name);
    if (found && Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set &&
        (Py_IS_TYPE(found, &PyMemberDescr_Type) || Py_IS_TYPE(found, &PyGetSetDescr_Type)))
        return PyObject_GenericGetAttr(o, name);        /* slots and C fields */
    return Py_XNewRef(found);
}

static PyObject *item_of(PyObject *o, PyObject *key)
{
    if (PyDict_Check(o))
        return Py_XNewRef(PyDict_GetItemWithError(o, key));
    if (!(PyTuple_Check(o) || PyList_Check(o)) || !PyLong_Check(key))
        return NULL;
    Py_ssize_t i = PyLong_AsSsize_t(key), n = PySequence_Fast_GET_SIZE(o);
    if (i < 0)
        i += n;
    return i >= 0 && i < n ? Py_NewRef(PySequence_Fast_GET_ITEM(o, i)) : NULL;
}

static PyObject *closure_item(PyObject *closure, int32_t number)
{
    if (!closure || number >= PyTuple_GET_SIZE(closure))
        return NULL;
    return Py_XNewRef(PyCell_GET(PyTuple_GET_ITEM(closure, number)));
}

static PyObject *follow(const path *p, PyObject *base, const call_state *call)
{
    PyObject *part;
    switch ((source_kind)p->kind) {
    case SOURCE_ARGUMENT: return Py_XNewRef(call->argument[p->number]);
    case SOURCE_CELL: return closure_item(call->closure, p->number);
    case SOURCE_GLOBAL: return Py_XNewRef(PyDict_GetItemWithError(call->globals, p->key));
    case SOURCE_GLOBALS: return Py_NewRef(call->globals);
    case SOURCE_HELD: return Py_NewRef(p->key);
    case SOURCE_ATTRIBUTE: return plain_attribute(base, p->key);
    case SOURCE_ITEM: return item_of(base, p->key);
    case SOURCE_TYPE: return Py_NewRef((PyObject *)Py_TYPE(base));
    case SOURCE_CLOSURE: return PyFunction_Check(base) ? closure_item(PyFunction_GET_CLOSURE(base), p->number) : NULL;
    case SOURCE_DEFAULT:
        part = PyFunction_Check(base) ? PyFunction_GET_DEFAULTS(base) : NULL;
        return part && p->number < PyTuple_GET_SIZE(part) ? Py_NewRef(PyTuple_GET_ITEM(part, p->number)) : NULL;
    case SOURCE_KEYWORD_DEFAULT:
        part = PyFunction_Check(base) ? PyFunction_GET_KW_DEFAULTS(base) : NULL;
        return part ? Py_XNewRef(PyDict_GetItemWithError(part, p->key)) : NULL;
    case SOURCE_METHOD_SELF:
        return PyMethod_Check(base) ? Py_NewRef(PyMethod_GET_SELF(base)) : PyCFunction_Check(base) ? Py_XNewRef(PyCFunction_GET_SELF(base)) : NULL;
    case SOURCE_METHOD_FUNCTION: return PyMethod_Check(base) ? Py_NewRef(PyMethod_GET_FUNCTION(base)) : NULL;
    }
    return NULL;
}

PyObject *tp_source_value(const tp_sources *s, int32_t at, const call_state *call, PyObject **values)
{
    if (values[at])
        return values[at];
    const path *p = &s->path.item[at];
    PyObject *base = NULL;
    if (p->base != NO_SOURCE && !(base = tp_source_value(s, p->base, call, values)))
        return NULL;
    values[at] = follow(p, base, call);
    if (!values[at])
        PyErr_Clear();
    return values[at];
}

/* ---- text ---- */
static bool is_identifier(PyObject *key)
{
    return PyUnicode_Check(key) && PyUnicode_IsIdentifier(key) == 1;
}

static PyObject *held_text(PyObject *o)
{
    if (PyModule_Check(o))
        return PyUnicode_FromFormat("__import_%s", PyModule_GetName(o) ? PyModule_GetName(o) : "module");
    PyObject *name = PyDict_Check(o) ? PyDict_GetItemString(o, "__name__") : NULL;
    return name ? PyUnicode_FromFormat("__import_%S", name) : PyUnicode_FromFormat("<%s object>", Py_TYPE(o)->tp_name);
}

/* An item of an object's __dict__ reads as its attribute. */
static PyObject *item_text(const tp_sources *s, const path *p, PyObject *base)
{
    const path *of = &s->path.item[p->base];
    bool own = of->kind == SOURCE_ATTRIBUTE && PyUnicode_CompareWithASCIIString(of->key, "__dict__") == 0 && is_identifier(p->key);
    PyObject *owner = own ? tp_source_text(s, of->base) : NULL;
    PyObject *text = owner ? PyUnicode_FromFormat("%U.%U", owner, p->key) : own ? NULL : PyUnicode_FromFormat("%U[%R]", base, p->key);
    Py_XDECREF(owner);
    return text;
}

PyObject *tp_source_text(const tp_sources *s, int32_t at)
{
    const path *p = &s->path.item[at];
    PyObject *base = p->base == NO_SOURCE ? Py_NewRef(Py_None) : tp_source_text(s, p->base), *text = NULL;
    if (!base)
        return NULL;
    switch ((source_kind)p->kind) {
    case SOURCE_ARGUMENT:
    case SOURCE_CELL: text = PyUnicode_FromFormat("L[%R]", p->key); break;
    case SOURCE_GLOBAL: text = PyUnicode_FromFormat("G[%R]", p->key); break;
    case SOURCE_GLOBALS: text = PyUnicode_FromString("G"); break;
    case SOURCE_HELD: text = held_text(p->key); break;
    case SOURCE_ATTRIBUTE: text = PyUnicode_FromFormat(is_identifier(p->key) ? "%U.%U" : "getattr(%U, %R)", base, p->key); break;
    case SOURCE_ITEM: text = item_text(s, p, base); break;
    case SOURCE_TYPE: text = PyUnicode_FromFormat("type(%U)", base); break;
    case SOURCE_CLOSURE: text = PyUnicode_FromFormat("%U.__closure__[%d].cell_contents", base, (int)p->number); break;
    case SOURCE_DEFAULT: text = PyUnicode_FromFormat("%U.__defaults__[%d]", base, (int)p->number); break;
    case SOURCE_KEYWORD_DEFAULT: text = PyUnicode_FromFormat("%U.__kwdefaults__[%R]", base, p->key); break;
    case SOURCE_METHOD_SELF: text = PyUnicode_FromFormat("%U.__self__", base); break;
    case SOURCE_METHOD_FUNCTION: text = PyUnicode_FromFormat("%U.__func__", base); break;
    }
    Py_DECREF(base);
    return text;
}
