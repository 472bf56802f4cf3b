/* attributes.c - names: attributes in Python's exact order, globals, cells; stores to what is outside wait as effects.
 *
 * Order of an attribute: data descriptor of the class, the instance's own, the rest of the class, __getattr__. A property is
 * followed as a call; a function becomes a bound method; nn.Module's __getattr__ is its three dicts. */
#include <string.h>

#include "python/capture/capture.h"

/* ---- effects ---- */
static effect *find_effect(capture *c, effect_kind kind, PyObject *o, PyObject *name)
{
    for (size_t i = c->effect.count; i-- > 0;) {
        effect *e = &c->effect.item[i];
        if (e->kind == kind && e->object == o && (e->name == name || (name && PyUnicode_Compare(e->name, name) == 0)))
            return e;
    }
    return NULL;
}

static bool add_effect(capture *c, effect_kind kind, PyObject *o, PyObject *name, PyObject *value)
{
    effect *old = find_effect(c, kind, o, name);
    if (old) {
        Py_XSETREF(old->value, Py_XNewRef(value));
        return true;
    }
    effect e = { (uint8_t)kind, o, name, value };
    if (!tp_array_push(&c->effect, e)) {
        face_raise();
        return false;
    }
    Py_INCREF(o);
    Py_XINCREF(name);
    Py_XINCREF(value);
    return true;
}

/* ---- looking up ---- */
static int32_t source_of(capture *c, PyObject *o)
{
    const record *r = capture_record(c, o);
    return r ? r->source : NO_SOURCE;
}

/* A value found at `o`.name (or in its class): guarded when `o` has a source, plain otherwise. */
static PyObject *found(capture *c, PyObject *value, int32_t base, PyObject *name)
{
    if (base == NO_SOURCE)
        return Py_NewRef(value);
    return capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ATTRIBUTE, base, 0, name));
}

static PyObject *missing(PyObject *o, PyObject *name)
{
    return PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(o)->tp_name, name);
}

/* What a class has under a name, as seen from an instance. */
static PyObject *from_class(capture *c, PyObject *o, PyObject *name, PyObject *member)
{
    PyTypeObject *type = Py_TYPE(member);
    if (PyFunction_Check(member))
        return PyMethod_New(member, o);
    if (Py_IS_TYPE(member, &PyStaticMethod_Type) || Py_IS_TYPE(member, &PyClassMethod_Type) || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type || type == &PyMemberDescr_Type || type == &PyGetSetDescr_Type)
        return PyObject_GenericGetAttr(o, name);
    if (Py_IS_TYPE(member, &PyProperty_Type)) {
        PyObject *get = PyObject_GetAttrString(member, "fget");
        PyObject *value = !get ? NULL : get == Py_None ? missing(o, name) : capture_call_one(c, get, o);
        Py_XDECREF(get);
        return value;
    }
    PyObject *get = capture_method(member, "__get__");
    if (get) {                                  /* a descriptor of the user's */
        PyObject *args = PyTuple_Pack(3, member, o, (PyObject *)Py_TYPE(o)), *value = args ? capture_call(c, get, args, NULL) : NULL;
        Py_XDECREF(args);
        return value;
    }
    if (type->tp_descr_get)
        return PyObject_GenericGetAttr(o, name);
    int32_t base = source_of(c, o);
    if (base != NO_SOURCE)
        base = tp_source_in(c->sources, SOURCE_TYPE, base, 0, NULL);
    return found(c, member, base, name);
}

/* nn.Module.__getattr__: parameters, buffers, children. 0: none of them. */
static int from_module(capture *c, PyObject *o, PyObject *name, PyObject **out)
{
    static const char *const dicts[] = { "_parameters", "_buffers", "_modules" };
    PyObject *own = PyObject_GenericGetDict(o, NULL);
    int32_t base = source_of(c, o);
    *out = NULL;
    for (size_t i = 0; own && i < TP_COUNT(dicts); i++) {
        PyObject *key = PyUnicode_InternFromString(dicts[i]), *dict = key ? PyDict_GetItemWithError(own, key) : NULL;
        PyObject *value = dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, name) : NULL;
        if (value && base == NO_SOURCE) {
            *out = Py_NewRef(value);
        } else if (value) {
            int32_t at = tp_source_in(c->sources, SOURCE_ATTRIBUTE, base, 0, key);
            *out = at < 0 ? NULL : capture_wrap_member(c, value, tp_source_in(c->sources, SOURCE_ITEM, at, 0, name));
        }
        Py_XDECREF(key);
        if (value) {
            Py_DECREF(own);
            return *out ? 1 : -1;
        }
    }
    Py_XDECREF(own);
    return PyErr_Occurred() ? -1 : 0;
}

static bool is_module_getattr(PyObject *o, PyObject *getattr)
{
    PyObject *module = capture_the_words()->module;
    PyObject *name = PyUnicode_InternFromString("__getattr__");
    PyObject *stock = name ? _PyType_Lookup((PyTypeObject *)module, name) : NULL;
    Py_XDECREF(name);
    return stock == getattr && PyObject_IsInstance(o, module) == 1;
}

/* The instance has none and neither has its class. */
static PyObject *last_resort(capture *c, PyObject *o, PyObject *name)
{
    PyObject *word = PyUnicode_InternFromString("__getattr__"), *value, *getattr = word ? _PyType_Lookup(Py_TYPE(o), word) : NULL;
    Py_XDECREF(word);
    int32_t base = source_of(c, o);
    if (base != NO_SOURCE && !tp_guard_add(c->sources, GUARD_LACKS, base, name, 0))
        return NULL;
    if (!getattr)
        return missing(o, name);
    if (is_module_getattr(o, getattr)) {
        int got = from_module(c, o, name, &value);
        return got == 1 ? value : got == 0 ? missing(o, name) : NULL;
    }
    if (!PyFunction_Check(getattr))
        return PyObject_GetAttr(o, name);
    PyObject *args = PyTuple_Pack(2, o, name);
    value = args ? capture_call(c, getattr, args, NULL) : NULL;
    Py_XDECREF(args);
    return value;
}

/* `super()`: the search begins behind a class; what it finds is bound to the object. */
static PyObject *from_super(capture *c, PyObject *o, PyObject *name)
{
    PyObject *of = PyObject_GetAttrString(o, "__self__"), *after = PyObject_GetAttrString(o, "__thisclass__"), *value = NULL;
    PyTypeObject *type = of && PyType_Check(of) ? (PyTypeObject *)of : of ? Py_TYPE(of) : NULL;
    if (of && after && type->tp_mro) {
        PyObject *mro = type->tp_mro;
        Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
        while (i < n && PyTuple_GET_ITEM(mro, i) != after)
            i++;
        for (i++; i < n && !value; i++) {
            PyObject *member = PyDict_GetItemWithError(((PyTypeObject *)PyTuple_GET_ITEM(mro, i))->tp_dict, name);
            if (!member)
                continue;
            if (PyFunction_Check(member) && !PyType_Check(of))
                value = PyMethod_New(member, of);
            else if (Py_IS_TYPE(member, &PyProperty_Type))
                value = from_class(c, of, name, member);
            else
                value = PyObject_GetAttr(o, name);
            break;
        }
        if (!value && !PyErr_Occurred())
            value = PyObject_GetAttr(o, name);
    }
    Py_XDECREF(of);
    Py_XDECREF(after);
    return value;
}

static PyObject *from_namespace(capture *c, PyObject *o, PyObject *name)
{
    PyObject *globals = PyModule_GetDict(o), *value;
    effect *e = find_effect(c, EFFECT_GLOBAL, globals, name);
    if (e)
        return e->value ? Py_NewRef(e->value) : missing(o, name);
    if (!(value = PyObject_GetAttr(o, name)))
        return NULL;
    int32_t base = source_of(c, o);
    if (base == NO_SOURCE || capture_trusts(globals)) {
        if (capture_trusts(globals)) {
            PyObject *set = capture_setting(c, globals, name, value);
            Py_DECREF(value);
            return set;
        }
        if (!capture_has_tensor(value))
            return value;
        base = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, o);
    }
    PyObject *inside = found(c, value, base, name);
    Py_DECREF(value);
    return inside;
}

static PyObject *from_instance(capture *c, PyObject *o, PyObject *name)
{
    PyObject *member = _PyType_Lookup(Py_TYPE(o), name);
    if (member && Py_TYPE(member)->tp_descr_set)            /* a data descriptor wins over the instance */
        return from_class(c, o, name, member);
    PyObject **at = _PyObject_GetDictPtr(o), *own = at || Py_TYPE(o)->tp_dictoffset ? PyObject_GenericGetDict(o, NULL) : NULL;
    PyObject *value = own ? PyDict_GetItemWithError(own, name) : NULL;
    PyErr_Clear();
    if (value) {
        int32_t base = source_of(c, o);
        PyObject *inside = found(c, value, base, name);
        Py_DECREF(own);
        return inside;
    }
    Py_XDECREF(own);
    if (!member)
        return last_resort(c, o, name);
    /* What the class has, the instance may hide tomorrow; of methods only a module's forward is ever replaced so. */
    int32_t base = source_of(c, o);
    bool may_hide = !PyFunction_Check(member) || PyUnicode_Compare(name, face.name_forward) == 0;
    if (base != NO_SOURCE && may_hide && !tp_guard_add(c->sources, GUARD_LACKS, base, name, 0))
        return NULL;
    return from_class(c, o, name, member);
}

PyObject *capture_load_attribute(capture *c, PyObject *o, PyObject *name)
{
    effect *e = c->effect.count ? find_effect(c, EFFECT_ATTRIBUTE, o, name) : NULL;
    if (e)
        return e->value ? Py_NewRef(e->value) : missing(o, name);
    if (face_is_tensor(o))
        return capture_tensor_attribute(c, o, name);
    if (PyModule_Check(o))
        return from_namespace(c, o, name);
    if (Py_IS_TYPE(o, &PySuper_Type))
        return from_super(c, o, name);
    if (PyType_Check(o)) {
        PyObject *value = PyObject_GetAttr(o, name), *inside;
        int32_t base = source_of(c, o);
        if (!value || base == NO_SOURCE || PyMethod_Check(value) || capture_trusts(((PyTypeObject *)o)->tp_dict))
            return value;
        inside = found(c, value, base, name);
        Py_DECREF(value);
        return inside;
    }
    PyTypeObject *type = Py_TYPE(o);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE))            /* functions, lists, strings: C keeps no secrets from us */
        return PyObject_GetAttr(o, name);
    PyObject *custom = capture_method(o, "__getattribute__");
    if (custom)
        return capture_unsupported("a class with __getattribute__, %s", type->tp_name);
    return PyErr_Occurred() ? NULL : from_instance(c, o, name);
}

PyObject *capture_method(PyObject *o, const char *name)
{
    if (!(Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) || face_is_tensor(o))
        return NULL;
    PyObject *word = PyUnicode_InternFromString(name), *found_there = word ? _PyType_Lookup(Py_TYPE(o), word) : NULL;
    Py_XDECREF(word);
    return found_there && PyFunction_Check(found_there) ? found_there : NULL;
}

/* ---- stores ---- */
bool capture_store_attribute(capture *c, PyObject *o, PyObject *name, PyObject *value)
{
    if (face_is_tensor(o))
        return capture_unsupported("a store to the attribute '%U' of a tensor", name);
    PyObject *member = _PyType_Lookup(Py_TYPE(o), name);
    if (member && Py_IS_TYPE(member, &PyProperty_Type)) {
        PyObject *set = PyObject_GetAttrString(member, value ? "fset" : "fdel");
        PyObject *args = !set ? NULL : value ? PyTuple_Pack(2, o, value) : PyTuple_Pack(1, o);
        PyObject *done = !args         ? NULL
                         : set == Py_None ? PyErr_Format(PyExc_AttributeError, "property '%U' of '%s' object has no setter", name, Py_TYPE(o)->tp_name)
                                          : capture_call(c, set, args, NULL);
        Py_XDECREF(set);
        Py_XDECREF(args);
        Py_XDECREF(done);
        return done;
    }
    if (capture_is_outside(c, o) || PyModule_Check(o) || PyType_Check(o)) {
        bool module = PyObject_IsInstance(o, capture_the_words()->module) == 1;
        if (capture_method(o, "__setattr__") && !module)
            return capture_unsupported("a store to an object of a class with __setattr__, %s", Py_TYPE(o)->tp_name);
        if (PyModule_Check(o))
            return capture_store_global(c, PyModule_GetDict(o), name, value);
        return add_effect(c, EFFECT_ATTRIBUTE, o, name, value);
    }
    PyObject *custom = capture_method(o, value ? "__setattr__" : "__delattr__");
    if (custom) {
        PyObject *args = value ? PyTuple_Pack(3, o, name, value) : PyTuple_Pack(2, o, name);
        PyObject *done = args ? capture_call(c, custom, args, NULL) : NULL;
        Py_XDECREF(args);
        Py_XDECREF(done);
        return done;
    }
    return PyObject_SetAttr(o, name, value) == 0;
}

/* ---- globals ---- */
PyObject *capture_load_global(capture *c, PyObject *globals, PyObject *builtins, PyObject *name)
{
    effect *e = c->effect.count ? find_effect(c, EFFECT_GLOBAL, globals, name) : NULL;
    if (e && e->value)
        return Py_NewRef(e->value);
    PyObject *value = e ? NULL : PyDict_GetItemWithError(globals, name);
    if (!value && PyErr_Occurred())
        return NULL;
    if (!value) {
        value = PyDict_GetItemWithError(builtins, name);
        return value              ? Py_NewRef(value)
               : PyErr_Occurred() ? NULL
                                  : PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
    }
    if (capture_trusts(globals))
        return capture_setting(c, globals, name, value);
    if (globals == c->globals)
        return capture_wrap(c, value, tp_source_in(c->sources, SOURCE_GLOBAL, NO_SOURCE, 0, name));
    int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, globals);
    return held < 0 ? NULL : capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ITEM, held, 0, name));
}

bool capture_store_global(capture *c, PyObject *globals, PyObject *name, PyObject *value)
{
    return add_effect(c, EFFECT_GLOBAL, globals, name, value);
}

/* ---- cells ---- */
PyObject *capture_load_cell(capture *c, PyObject *cell, PyObject *name)
{
    effect *e = c->effect.count ? find_effect(c, EFFECT_CELL, cell, NULL) : NULL;
    PyObject *value = e ? e->value : PyCell_GET(cell);
    if (!value)
        return PyErr_Format(PyExc_NameError, "cannot access free variable '%U' where it is not associated with a value in enclosing scope", name);
    const record *r = capture_record(c, cell);
    if (e || !r || !r->cell)
        return Py_NewRef(value);
    return capture_wrap(c, value, r->source);
}

bool capture_store_cell(capture *c, PyObject *cell, PyObject *value)
{
    const record *r = capture_record(c, cell);
    if (r && r->cell)
        return add_effect(c, EFFECT_CELL, cell, NULL, value);
    return PyCell_Set(cell, value) == 0;
}
