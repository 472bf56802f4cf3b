/* attributes.c - names: attributes in Python's exact order, globals, cells; stores to what is outside wait as effects.
 *
 * Order of an attribute: data descriptor of the class, the instance's own, the rest of the class, __getattr__. A property is
 * followed as a call; a function becomes a bound method; nn.Module's __getattr__ is its three dicts. */
#include <string.h>

#include "base/hash.h"
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
    if (old && kind != EFFECT_CELL && !old->value)          /* it would stand last */
        return capture_unsupported("a store to '%U', which was deleted before", name);
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

static bool has_effects(const capture *c, PyObject *o)
{
    for (size_t i = 0; i < c->effect.count; i++)
        if (c->effect.item[i].object == o)
            return true;
    return false;
}

/* Was an attribute stored in a class that this one is or derives from? */
static bool class_has_effect(const capture *c, PyTypeObject *type, PyObject *name)
{
    for (size_t i = 0; i < c->effect.count; i++) {
        const effect *e = &c->effect.item[i];
        if (e->kind == EFFECT_ATTRIBUTE && PyType_Check(e->object) && PyUnicode_Compare(e->name, name) == 0 &&
            PyType_IsSubtype(type, (PyTypeObject *)e->object))
            return true;
    }
    return false;
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

/* ---- what classes have ---- */

/* Where a class is found: through an instance from outside, by the name under which it was met, or kept by the entry. */
static int32_t class_source(capture *c, PyTypeObject *type, PyObject *instance)
{
    int32_t at = source_of(c, (PyObject *)type), base = instance ? source_of(c, instance) : NO_SOURCE;
    if (at != NO_SOURCE)
        return at;
    if (base != NO_SOURCE)
        return tp_source_in(c->sources, SOURCE_TYPE, base, 0, NULL);
    return tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, (PyObject *)type);
}

/* The class is the program's: what it has may be another thing tomorrow. */
static bool may_change(PyTypeObject *type)
{
    return capture_is_python_class(type) && !capture_trusts_class(type);
}

/* Guards that a class has `member` under that name; a function of the program's is known from here on. */
static bool keep(capture *c, PyTypeObject *type, PyObject *instance, PyObject *name, PyObject *member)
{
    int32_t at = tp_source_in(c->sources, SOURCE_ATTRIBUTE, class_source(c, type, instance), 0, name);
    if (at < 0 || !tp_guard_add(c->sources, GUARD_ID, at, member, 0))
        return false;
    bool ours = PyFunction_Check(member) && capture_trusts(PyFunction_GET_GLOBALS(member));
    return ours || capture_record(c, member) || capture_note(c, member, at, true);
}

bool capture_keep_member(capture *c, PyObject *o, PyObject *name, PyObject *member)
{
    return !may_change(Py_TYPE(o)) || keep(c, Py_TYPE(o), o, name, member);
}

PyObject *capture_special(capture *c, PyObject *o, const char *name)
{
    PyObject *method = capture_method(o, name), *word = method ? PyUnicode_InternFromString(name) : NULL;
    if (method && (!word || !capture_keep_member(c, o, word, method)))
        method = NULL;
    Py_XDECREF(word);
    return method;
}

/* The function in a staticmethod, classmethod or property of the program's. */
static PyObject *wrapped_part(capture *c, PyObject *member, const char *part)
{
    PyObject *name = PyUnicode_InternFromString(part), *inner = name ? PyObject_GetAttr(member, name) : NULL;
    int32_t base = source_of(c, member);
    if (inner && base != NO_SOURCE)
        Py_SETREF(inner, capture_wrap(c, inner, tp_source_in(c->sources, SOURCE_ATTRIBUTE, base, 0, name)));
    Py_XDECREF(name);
    return inner;
}

static PyObject *from_property(capture *c, PyObject *o, PyObject *name, PyObject *member)
{
    PyObject *get = wrapped_part(c, member, "fget");
    PyObject *value = !get ? NULL : get == Py_None ? missing(o, name) : capture_call_one(c, get, o);
    Py_XDECREF(get);
    return value;
}

static PyObject *from_class_method(capture *c, PyTypeObject *type, PyObject *o, PyObject *name, PyObject *member)
{
    PyObject *inner = wrapped_part(c, member, "__func__"), *made = NULL;
    if (inner && PyFunction_Check(inner))
        made = capture_record(c, (PyObject *)type) || !may_change(type) || capture_note(c, (PyObject *)type, class_source(c, type, o), true)
                   ? PyMethod_New(inner, (PyObject *)type)
                   : NULL;
    else if (inner)
        made = PyObject_GetAttr((PyObject *)type, name);
    Py_XDECREF(inner);
    return made;
}

/* A slot, or a field of C code. Those of an object from outside are read by path. */
static PyObject *from_field(capture *c, PyObject *o, PyObject *name, PyObject *member)
{
    int32_t base = source_of(c, o);
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    if (!strcmp(text, "__class__")) {
        PyTypeObject *type = Py_TYPE(o);
        bool known = !may_change(type) || capture_record(c, (PyObject *)type);
        return known || capture_note(c, (PyObject *)type, class_source(c, type, o), true) ? Py_NewRef((PyObject *)type) : NULL;
    }
    PyObject *value = PyObject_GenericGetAttr(o, name);
    if (base == NO_SOURCE || capture_trusts_class(Py_TYPE(o)))
        return value;
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        return capture_unsupported("an attribute from outside that is not set, '%U' of a %s", name, Py_TYPE(o)->tp_name);
    bool dict = value && !strcmp(text, "__dict__");
    if (dict && has_effects(c, o)) {
        capture_unsupported("the __dict__ of an object that was changed");
        Py_CLEAR(value);
    } else if (value && !dict && !Py_IS_TYPE(member, &PyMemberDescr_Type) && !capture_is_field(((PyDescrObject *)member)->d_type, text)) {
        capture_unsupported("the attribute '%U' of an object from outside, a %s", name, Py_TYPE(o)->tp_name);
        Py_CLEAR(value);
    }
    PyObject *inside = value ? found(c, value, base, name) : NULL;
    Py_XDECREF(value);
    return inside;
}

/* What a class has under a name, as seen from an instance. */
static PyObject *from_class(capture *c, PyObject *o, PyObject *name, PyObject *member)
{
    PyTypeObject *type = Py_TYPE(member);
    bool field = type == &PyMemberDescr_Type || type == &PyGetSetDescr_Type;
    if (!field && (type->tp_descr_get || type->tp_descr_set) && !capture_keep_member(c, o, name, member))
        return NULL;
    if (PyFunction_Check(member))
        return PyMethod_New(member, o);
    if (field)
        return from_field(c, o, name, member);
    if (Py_IS_TYPE(member, &PyStaticMethod_Type))
        return wrapped_part(c, member, "__func__");
    if (Py_IS_TYPE(member, &PyClassMethod_Type))
        return from_class_method(c, Py_TYPE(o), o, name, member);
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type)
        return PyObject_GenericGetAttr(o, name);
    if (Py_IS_TYPE(member, &PyProperty_Type))
        return from_property(c, o, name, member);
    PyObject *get = capture_special(c, member, "__get__");
    if (get) {                                  /* a descriptor of the user's */
        PyObject *args = PyTuple_Pack(3, member, o, (PyObject *)Py_TYPE(o)), *value = args ? capture_call(c, get, args, NULL) : NULL;
        Py_XDECREF(args);
        return value;
    }
    if (type->tp_descr_get && PyTuple_Check(o)) {           /* the field of a named tuple */
        PyObject *shadow = capture_shadow(c, o, false), *value = shadow ? PyObject_GenericGetAttr(shadow, name) : NULL;
        Py_XDECREF(shadow);
        return value;
    }
    if (type->tp_descr_get)
        return capture_is_outside(c, o) ? capture_unsupported("the attribute '%U', a %s", name, type->tp_name) : PyObject_GenericGetAttr(o, name);
    if (PyErr_Occurred())
        return NULL;
    if (source_of(c, o) == NO_SOURCE && !may_change(Py_TYPE(o)))
        return Py_NewRef(member);
    return found(c, member, class_source(c, Py_TYPE(o), o), name);
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
        const record *r = dict ? capture_record(c, dict) : NULL;
        bool written = r && r->written;
        PyObject *value = dict && PyDict_Check(dict) ? PyDict_GetItemWithError(written ? r->shadow : dict, name) : NULL;
        if (value && (base == NO_SOURCE || written)) {
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
        return capture_is_outside(c, o) ? capture_unsupported("a __getattr__ that is no function, of a %s", Py_TYPE(o)->tp_name) : PyObject_GetAttr(o, name);
    if (!capture_special(c, o, "__getattr__"))
        return NULL;
    PyObject *args = PyTuple_Pack(2, o, name);
    value = args ? capture_call(c, getattr, args, NULL) : NULL;
    Py_XDECREF(args);
    return value;
}

static PyObject *from_super_member(capture *c, PyObject *o, PyObject *of, PyTypeObject *class, PyObject *name, PyObject *member)
{
    PyTypeObject *type = Py_TYPE(member);
    if (may_change(class) && type->tp_descr_get && !keep(c, class, NULL, name, member))
        return NULL;
    if (PyFunction_Check(member) && !PyType_Check(of))
        return PyMethod_New(member, of);
    if (Py_IS_TYPE(member, &PyProperty_Type) && !PyType_Check(of))
        return from_property(c, of, name, member);
    if (Py_IS_TYPE(member, &PyClassMethod_Type))
        return from_class_method(c, PyType_Check(of) ? (PyTypeObject *)of : Py_TYPE(of), PyType_Check(of) ? NULL : of, name, member);
    if (Py_IS_TYPE(member, &PyStaticMethod_Type))
        return wrapped_part(c, member, "__func__");
    if (type->tp_descr_get && type != &PyMethodDescr_Type && type != &PyWrapperDescr_Type && type != &PyClassMethodDescr_Type &&
        !PyFunction_Check(member))
        return capture_unsupported("super().%U, a %s", name, type->tp_name);
    if (type->tp_descr_get || !may_change(class))
        return PyObject_GetAttr(o, name);
    return found(c, member, class_source(c, class, NULL), name);
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
            value = from_super_member(c, o, of, (PyTypeObject *)PyTuple_GET_ITEM(mro, i), name, member);
            break;
        }
        if (!value && !PyErr_Occurred())
            value = PyObject_GetAttr(o, name);
    }
    Py_XDECREF(of);
    Py_XDECREF(after);
    return value;
}

/* A function of the package that the program names may be another tomorrow; what the package's own code names is taken to stay. */
static bool pin_function(capture *c, PyObject *globals, PyObject *name, PyObject *value)
{
    if (!c->frame || capture_trusts(c->frame->globals) || !(PyFunction_Check(value) || PyCFunction_Check(value)) ||
        PyDict_GetItemWithError(globals, name) != value)
        return !PyErr_Occurred();
    int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, globals), at = held < 0 ? -1 : tp_source_in(c->sources, SOURCE_ITEM, held, 0, name);
    return at >= 0 && tp_guard_add(c->sources, GUARD_ID, at, value, 0);
}

static PyObject *from_namespace(capture *c, PyObject *o, PyObject *name)
{
    PyObject *globals = PyModule_GetDict(o), *value;
    effect *e = find_effect(c, EFFECT_GLOBAL, globals, name);
    if (e)
        return e->value ? Py_NewRef(e->value) : missing(o, name);
    if (!capture_trusts(globals) && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0)
        return capture_unsupported("the __dict__ of a module");
    if (!PyModule_CheckExact(o) && !capture_trusts(globals) && !PyDict_GetItemWithError(globals, name))
        return PyErr_Occurred() ? NULL : capture_unsupported("the attribute '%U' of a module of a class of its own, %s", name, Py_TYPE(o)->tp_name);
    if (!capture_trusts(globals) && !PyDict_GetItemWithError(globals, name) && PyDict_GetItemString(globals, "__getattr__"))
        return capture_unsupported("an attribute of a module with __getattr__, '%U'", name);
    if (!capture_trusts(globals) && !PyDict_GetItemWithError(globals, name)) {
        int32_t at = source_of(c, o) != NO_SOURCE ? source_of(c, o) : tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, o);
        if (at < 0 || !tp_guard_add(c->sources, GUARD_LACKS, at, name, 0))
            return NULL;
        if (!_PyType_Lookup(Py_TYPE(o), name))
            return missing(o, name);
        return PyObject_GetAttr(o, name);
    }
    if (!(value = PyObject_GetAttr(o, name)))
        return NULL;
    int32_t base = source_of(c, o);
    if (capture_trusts(globals)) {
        PyObject *set = pin_function(c, globals, name, value) ? capture_setting(c, globals, name, value) : NULL;
        Py_DECREF(value);
        return set;
    }
    if (base == NO_SOURCE)
        base = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, o);
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
    /* What the class has, the instance may hide tomorrow; of this package's methods only a module's forward is ever replaced so. */
    int32_t base = source_of(c, o);
    bool may_hide = may_change(Py_TYPE(o)) || !PyFunction_Check(member) || PyUnicode_Compare(name, face.name_forward) == 0;
    if (base != NO_SOURCE && may_hide && !tp_guard_add(c->sources, GUARD_LACKS, base, name, 0))
        return NULL;
    return from_class(c, o, name, member);
}

/* An attribute of a class itself. */
static PyObject *from_type(capture *c, PyObject *o, PyObject *name)
{
    PyTypeObject *type = (PyTypeObject *)o;
    PyObject *member = _PyType_Lookup(type, name), *of_meta = _PyType_Lookup(Py_TYPE(o), name);
    if (!may_change(type) || (!member && !of_meta)) {
        if (may_change(type) && !tp_guard_add(c->sources, GUARD_LACKS, class_source(c, type, NULL), name, 0))
            return NULL;
        return PyObject_GetAttr(o, name);
    }
    if (of_meta && Py_TYPE(of_meta)->tp_descr_set && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0)
        return capture_unsupported("the __dict__ of a class");
    if (!member || (of_meta && Py_TYPE(of_meta)->tp_descr_set)) {
        if (PyFunction_Check(of_meta) && capture_keep_member(c, o, name, of_meta))
            return PyMethod_New(of_meta, o);
        bool c_code = !capture_is_python_class(Py_TYPE(of_meta));
        return PyErr_Occurred() ? NULL : c_code ? PyObject_GetAttr(o, name) : capture_unsupported("the attribute '%U' of a metaclass", name);
    }
    PyObject *value = NULL;
    if (capture_is_enum(type) && (value = PyObject_GetAttr(o, name)) && Py_IS_TYPE(value, type)) {
        int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, value);
        bool known = capture_record(c, value) || (held >= 0 && capture_note(c, value, held, true));
        return known ? value : (Py_DECREF(value), NULL);
    } else if (capture_is_enum(type)) {
        Py_XDECREF(value);
        if (!value)
            return NULL;
    }
    PyTypeObject *kind = Py_TYPE(member);
    if (!kind->tp_descr_get)
        return found(c, member, class_source(c, type, NULL), name);
    if (!keep(c, type, NULL, name, member))
        return NULL;
    if (PyFunction_Check(member) || kind == &PyProperty_Type)
        return Py_NewRef(member);
    if (kind == &PyStaticMethod_Type)
        return wrapped_part(c, member, "__func__");
    if (kind == &PyClassMethod_Type)
        return from_class_method(c, type, NULL, name, member);
    PyObject *get = capture_special(c, member, "__get__");
    if (!get)
        return PyErr_Occurred()               ? NULL
               : capture_is_python_class(kind) ? capture_unsupported("the attribute '%U' of a class, a %s", name, kind->tp_name)
                                               : PyObject_GetAttr(o, name);
    PyObject *args = PyTuple_Pack(3, member, Py_None, o);
    value = args ? capture_call(c, get, args, NULL) : NULL;
    Py_XDECREF(args);
    return value;
}

static PyObject *from_function(capture *c, PyObject *o, PyObject *name)
{
    if (PyUnicode_CompareWithASCIIString(name, "__globals__") == 0 || PyUnicode_CompareWithASCIIString(name, "__builtins__") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 || PyUnicode_CompareWithASCIIString(name, "__closure__") == 0)
        return capture_unsupported("the attribute '%U' of a function", name);
    if (source_of(c, o) == NO_SOURCE || capture_trusts(PyFunction_GET_GLOBALS(o)))
        return PyObject_GetAttr(o, name);
    PyObject *member = _PyType_Lookup(&PyFunction_Type, name);
    return member && Py_TYPE(member)->tp_descr_set ? from_field(c, o, name, member) : from_instance(c, o, name);
}

/* What a bound method has not itself is its function's. */
static PyObject *from_method(capture *c, PyObject *o, PyObject *name)
{
    PyObject *member = _PyType_Lookup(&PyMethod_Type, name);
    bool own = member && PyUnicode_CompareWithASCIIString(name, "__doc__") != 0;
    return own ? PyObject_GetAttr(o, name) : capture_load_attribute(c, PyMethod_GET_FUNCTION(o), name);
}

/* Objects of C: methods are bound, fields that are known are read by path, and there is nothing else. */
static PyObject *from_c_object(capture *c, PyObject *o, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyTraceBack_Type || type == &PyFrame_Type || (type == &PyGen_Type && !capture_is_outside(c, o)))
        return capture_unsupported("the attribute '%U' of a %s", name, type->tp_name);
    if (!capture_is_outside(c, o) || capture_trusts_class(type))
        return PyObject_GetAttr(o, name);
    PyObject *member = _PyType_Lookup(type, name);
    if (!member) {
        bool plain = type->tp_getattro == PyObject_GenericGetAttr && !type->tp_dictoffset;
        return plain ? missing(o, name) : capture_unsupported("the attribute '%U' of an object from outside, a %s", name, type->tp_name);
    }
    PyTypeObject *kind = Py_TYPE(member);
    if (type->tp_getattro != PyObject_GenericGetAttr)
        return capture_unsupported("the attribute '%U' of an object from outside, a %s", name, type->tp_name);
    if (kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type)
        return PyUnicode_CompareWithASCIIString(name, "__class__") == 0 ? Py_NewRef((PyObject *)type)
               : capture_is_field(type, PyUnicode_AsUTF8(name))          ? from_field(c, o, name, member)
                                                                         : capture_unsupported("the attribute '%U' of an object from outside, a %s", name, type->tp_name);
    return PyObject_GetAttr(o, name);
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
    if (c->effect.count && class_has_effect(c, PyType_Check(o) ? (PyTypeObject *)o : Py_TYPE(o), name))
        return capture_unsupported("the attribute '%U' of a class after a store to it", name);
    if (PyType_Check(o))
        return from_type(c, o, name);
    PyTypeObject *type = Py_TYPE(o);
    if (PyFunction_Check(o))
        return from_function(c, o, name);
    if (PyMethod_Check(o))
        return from_method(c, o, name);
    if (capture_is_thread_local(o))
        return capture_unsupported("the attribute '%U' of an object that is another in each thread", name);
    if (!capture_is_python_class(type))
        return from_c_object(c, o, name);
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
static bool call_setter(capture *c, PyObject *set, PyObject *self, PyObject *o, PyObject *last)
{
    PyObject *args = self && last ? PyTuple_Pack(3, self, o, last) : self ? PyTuple_Pack(2, self, o) : last ? PyTuple_Pack(2, o, last) : PyTuple_Pack(1, o);
    PyObject *done = args ? capture_call(c, set, args, NULL) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(done);
    return done;
}

static bool store_property(capture *c, PyObject *o, PyObject *name, PyObject *property, PyObject *value)
{
    if (!capture_keep_member(c, o, name, property))
        return false;
    PyObject *set = wrapped_part(c, property, value ? "fset" : "fdel");
    bool ok = set && set != Py_None && call_setter(c, set, NULL, o, value);
    if (set == Py_None)
        PyErr_Format(PyExc_AttributeError, "property '%U' of '%s' object has no %s", name, Py_TYPE(o)->tp_name, value ? "setter" : "deleter");
    Py_XDECREF(set);
    return ok;
}

/* A store to the class itself: seen by all instances, so what is found there by rules of its own is not written. */
static bool store_to_class(capture *c, PyObject *o, PyObject *name, PyObject *value)
{
    const char *text = PyUnicode_AsUTF8(name);
    PyObject *old = _PyType_Lookup((PyTypeObject *)o, name);
    if (!text || !capture_is_python_class((PyTypeObject *)o) || capture_trusts_class((PyTypeObject *)o) || !value || !strncmp(text, "__", 2) ||
        Py_TYPE(value)->tp_descr_get || (old && Py_TYPE(old)->tp_descr_get) || (Py_TYPE(o) != &PyType_Type && capture_method(o, "__setattr__")))
        return capture_unsupported("a store to the attribute '%U' of a class", name);
    return add_effect(c, EFFECT_ATTRIBUTE, o, name, value);
}

/* Will Python take it when the call is over, as it would now? */
static bool is_storable(capture *c, PyObject *o, PyObject *name, PyObject *member, PyObject *value)
{
    const char *text = PyUnicode_AsUTF8(name);
    bool slot = member && Py_IS_TYPE(member, &PyMemberDescr_Type), plain = !member || !Py_TYPE(member)->tp_descr_set;
    if (!text || !strcmp(text, "__class__") || !strcmp(text, "__dict__") || (PyFunction_Check(o) && !strncmp(text, "__", 2)))
        return false;
    if (!capture_is_python_class(Py_TYPE(o)) && !PyFunction_Check(o))
        return false;
    if (!slot && !(plain && Py_TYPE(o)->tp_dictoffset))
        return false;
    const record *r = capture_record(c, o);
    for (size_t i = 0; r && i < c->record.count; i++) {         /* its dict was read as a dict */
        const record *dict = &c->record.item[i];
        const path *p = dict->source == NO_SOURCE ? NULL : &c->sources->path.item[dict->source];
        if (p && p->kind == SOURCE_ATTRIBUTE && p->base == r->source && PyUnicode_CompareWithASCIIString(p->key, "__dict__") == 0)
            return false;
    }
    if (value)
        return true;
    PyObject *now = plain && !member ? capture_load_attribute(c, o, name) : NULL;      /* what is deleted must be there, and nothing behind it */
    PyErr_Clear();
    Py_XDECREF(now);
    return now;
}

static bool store_outside(capture *c, PyObject *o, PyObject *name, PyObject *member, PyObject *value)
{
    PyTypeObject *module = (PyTypeObject *)capture_the_words()->module;
    PyObject *custom = capture_method(o, value ? "__setattr__" : "__delattr__");
    bool stock = custom && PyType_IsSubtype(Py_TYPE(o), module) && capture_trusts(PyFunction_GET_GLOBALS(custom));
    if (custom && !stock)
        return capture_unsupported("a store to an object of a class with __setattr__, %s", Py_TYPE(o)->tp_name);
    if (stock && value && !strncmp(PyUnicode_AsUTF8(name), "_", 1) && (PyDict_Check(value) || !strcmp(PyUnicode_AsUTF8(name), "_modules")))
        return capture_unsupported("a store to the attribute '%U' of a module", name);
    if (!is_storable(c, o, name, member, value))
        return capture_unsupported("a store to the attribute '%U' of an object from outside, a %s", name, Py_TYPE(o)->tp_name);
    return add_effect(c, EFFECT_ATTRIBUTE, o, name, value);
}

bool capture_store_attribute(capture *c, PyObject *o, PyObject *name, PyObject *value)
{
    if (!PyUnicode_CheckExact(name))
        return capture_unsupported("an attribute whose name is a %s", Py_TYPE(name)->tp_name);
    if (face_is_tensor(o))
        return capture_unsupported("a store to the attribute '%U' of a tensor", name);
    if (PyModule_Check(o)) {
        if (!PyModule_CheckExact(o) || capture_trusts(PyModule_GetDict(o)))
            return capture_unsupported("a store to the attribute '%U' of a module, %R", name, o);
        return capture_store_global(c, PyModule_GetDict(o), name, value);
    }
    if (PyType_Check(o))
        return store_to_class(c, o, name, value);
    PyObject *member = _PyType_Lookup(Py_TYPE(o), name), *custom = capture_special(c, o, value ? "__setattr__" : "__delattr__");
    if (PyErr_Occurred())
        return false;
    bool outside = capture_is_outside(c, o);
    if (custom && !outside)
        return call_setter(c, custom, o, name, value);
    if (member && Py_IS_TYPE(member, &PyProperty_Type) && (!custom || PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)capture_the_words()->module)))
        return store_property(c, o, name, member, value);
    PyObject *set = member && capture_is_python_class(Py_TYPE(member)) ? capture_method(member, value ? "__set__" : "__delete__") : NULL;
    if (set) {                                  /* a descriptor of the program's */
        PyObject *known = capture_keep_member(c, o, name, member) ? capture_special(c, member, value ? "__set__" : "__delete__") : NULL;
        return known && call_setter(c, known, member, o, value);
    }
    return outside ? store_outside(c, o, name, member, value) : PyObject_SetAttr(o, name, value) == 0;
}

/* ---- globals ---- */
/* The name is a builtin, or nothing (value NULL), as long as the globals lack it and nobody exchanged it there. */
static bool guard_builtin(capture *c, PyObject *globals, PyObject *builtins, PyObject *name, PyObject *value)
{
    uint64_t key = tp_hash_word((uint64_t)(uintptr_t)globals ^ tp_hash_word((uint64_t)(uintptr_t)name)), known;
    if (tp_map_get(&c->builtins, key, &known))
        return true;
    if (value && !capture_is_fixed(value) && !capture_is_constant(value))
        return capture_unsupported("an object among the builtins, '%U'", name);
    int32_t at = globals == c->globals ? tp_source_in(c->sources, SOURCE_GLOBALS, NO_SOURCE, 0, NULL)
                                       : tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, globals);
    PyObject *facts = at < 0 ? NULL : value ? PyTuple_Pack(3, name, value, builtins) : PyTuple_Pack(3, name, Py_NotImplemented, builtins);
    bool ok = facts && tp_guard_add(c->sources, GUARD_BUILTIN, at, facts, 0);
    Py_XDECREF(facts);
    if (ok && !tp_map_put(&c->builtins, key, 1)) {
        face_raise();
        ok = false;
    }
    return ok;
}

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
        if (!e && !PyErr_Occurred() && !capture_trusts(globals) && !guard_builtin(c, globals, builtins, name, value))
            return NULL;
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
    const record *r = capture_record(c, globals);
    if (r && r->shadow)
        return capture_unsupported("a store to a global of a namespace that was read as a dict");
    if (!value) {
        effect *e = find_effect(c, EFFECT_GLOBAL, globals, name);
        bool there = e ? e->value != NULL : PyDict_Contains(globals, name) == 1;
        if (!there)
            return PyErr_Format(PyExc_NameError, "name '%U' is not defined", name), false;
    }
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
