/* world.c - objects a capture met, and the gate through which outside ones enter. */
#include "python/capture/capture.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "grad/tape.h"
#include "trace/fake.h"

void *capture_unsupported(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text)
        PyErr_SetObject(capture_the_words()->unsupported, text);
    Py_XDECREF(text);
    return NULL;
}

void *capture_graph_error(capture *c)
{
    if (!tp_graph_check(c->graph))
        face_raise();
    return NULL;
}

/* ---- life ---- */
bool capture_init(capture *c, tp_sources *sources)
{
    memset(c, 0, sizeof *c);
    c->sources = sources;
    c->graph = tp_graph_new();
    c->attributes = PyDict_New();
    c->attribute_names = PyDict_New();
    c->callables = PyList_New(0);
    if (!c->graph)
        face_raise();
    return c->graph && c->attributes && c->attribute_names && c->callables;
}

void capture_fini(capture *c)
{
    for (size_t i = 0; i < c->record.count; i++) {
        Py_DECREF(c->record.item[i].object);
        Py_XDECREF(c->record.item[i].shadow);
    }
    for (size_t i = 0; i < c->effect.count; i++) {
        Py_DECREF(c->effect.item[i].object);
        Py_XDECREF(c->effect.item[i].name);
        Py_XDECREF(c->effect.item[i].value);
    }
    for (size_t i = 0; i < c->input.count; i++)
        Py_DECREF(c->input.item[i].stand_in);
    for (size_t i = 0; i < c->decoded.room; i++)
        if (c->decoded.used[i])
            tp_code_free((tp_code *)(uintptr_t)c->decoded.slot[i].value);
    tp_map_fini(&c->at);
    tp_map_fini(&c->builtins);
    tp_map_fini(&c->decoded);
    tp_array_fini(&c->record);
    tp_array_fini(&c->effect);
    tp_array_fini(&c->input);
    tp_graph_unref(c->graph);
    Py_XDECREF(c->attributes);
    Py_XDECREF(c->attribute_names);
    Py_XDECREF(c->callables);
    Py_XDECREF(c->handled);
}

/* ---- records ---- */
record *capture_record(capture *c, PyObject *o)
{
    uint64_t at;
    return tp_map_get(&c->at, (uint64_t)(uintptr_t)o, &at) ? &c->record.item[at] : NULL;
}

record *capture_note(capture *c, PyObject *o, int32_t source, bool outside)
{
    record r = { .object = o, .source = source, .outside = outside };
    if (!tp_array_push(&c->record, r)) {
        face_raise();
        return NULL;
    }
    Py_INCREF(o);
    if (!tp_map_put(&c->at, (uint64_t)(uintptr_t)o, c->record.count - 1)) {
        face_raise();
        return NULL;
    }
    return &c->record.item[c->record.count - 1];
}

bool capture_is_outside(capture *c, PyObject *o)
{
    const record *r = capture_record(c, o);
    return r && r->outside;
}

/* Deeper than anybody nests: probably a list that holds itself. Taken for a tensor, it is looked at by those who can fail. */
enum { DEEPEST = 200 };

static bool has_tensor(PyObject *o, int depth)
{
    if (face_is_tensor(o) || depth > DEEPEST)
        return true;
    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            if (has_tensor(PySequence_Fast_GET_ITEM(o, i), depth + 1))
                return true;
    } else if (PyDict_Check(o)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value))
            if (has_tensor(value, depth + 1))
                return true;
    } else if (PySlice_Check(o)) {
        const PySliceObject *s = (PySliceObject *)o;
        return face_is_tensor(s->start) || face_is_tensor(s->stop) || face_is_tensor(s->step);
    }
    return false;
}

bool capture_has_tensor(PyObject *o)
{
    return has_tensor(o, 0);
}

/* What the package's own code reads is the package: no program changes it under a capture. */
bool capture_is_package(const char *name)
{
    size_t length = strlen(face.package);
    return strncmp(name, face.package, length) == 0 && (name[length] == 0 || name[length] == '.');
}

bool capture_trusts(PyObject *globals)
{
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text && capture_is_package(text);
}

/* ---- attributes of the graph ---- */

/* "L['self']._modules['layers']._modules['0']" is L__self___layers_0, as if written L['self'].layers.0: what is no letter
 * or digit becomes an underscore. */
static void clean_name(const char *from, tp_text *out)
{
    static const char *const members[] = { "._modules['", "._parameters['", "._buffers['" };
    bool inside = false;                    /* a member's name, up to its "']" */
    while (*from) {
        size_t skip = 0;
        for (size_t i = 0; i < TP_COUNT(members) && !skip; i++)
            if (!strncmp(from, members[i], strlen(members[i])))
                skip = strlen(members[i]);
        if (skip) {
            inside = true;
            from += skip;
            tp_text_put(out, "_", 1);
        } else if (inside && !strncmp(from, "']", 2)) {
            inside = false;
            from += 2;
        } else {
            bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') || (*from >= '0' && *from <= '9');
            tp_text_put(out, plain ? from : "_", 1);
            from++;
        }
    }
}

PyObject *capture_attribute_name(capture *c, PyObject *o, int32_t source)
{
    PyObject *key = PyLong_FromVoidPtr(o), *name = key ? PyDict_GetItemWithError(c->attribute_names, key) : NULL;
    if (name || !key) {
        Py_XDECREF(key);
        return Py_XNewRef(name);
    }
    PyObject *text = tp_source_text(c->sources, source);
    const char *from = text ? PyUnicode_AsUTF8(text) : NULL;
    tp_text clean = { 0 };
    if (from) {
        clean_name(from, &clean);
        name = PyUnicode_FromStringAndSize(tp_text_read(&clean), (Py_ssize_t)clean.length);
    }
    for (int i = 1; name && PyDict_Contains(c->attributes, name) == 1; i++)
        Py_SETREF(name, PyUnicode_FromFormat("%s_%d", tp_text_read(&clean), i));
    if (name && (PyDict_SetItem(c->attributes, name, o) < 0 || PyDict_SetItem(c->attribute_names, key, name) < 0))
        Py_CLEAR(name);
    tp_text_fini(&clean);
    Py_XDECREF(text);
    Py_DECREF(key);
    return name;
}

/* ---- the gate ---- */
static bool is_plain_bound(PyObject *o)
{
    return o == Py_None || PyLong_CheckExact(o) || PyBool_Check(o);
}

bool capture_is_constant(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    if (t == &PySlice_Type) {
        const PySliceObject *s = (PySliceObject *)o;
        return is_plain_bound(s->start) && is_plain_bound(s->stop) && is_plain_bound(s->step);
    }
    return o == Py_None || o == Py_Ellipsis || o == Py_NotImplemented || t == &PyBool_Type || t == &PyLong_Type || t == &PyFloat_Type ||
           t == &PyUnicode_Type || t == &PyBytes_Type || t == &PyComplex_Type || t == &PyRange_Type || t == face.dtype ||
           t == face.device || t == face.layout || t == face.format;
}

static bool is_frozen(PyObject *set)
{
    PyObject *item;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    bool yes = PyFrozenSet_CheckExact(set);
    while (yes && _PySet_NextEntry(set, &at, &item, &hash))
        yes = capture_is_constant(item);
    return yes;
}

/* Things that are what they are: compared by identity. */
bool capture_is_fixed(PyObject *o)
{
    return is_frozen(o) || PyFunction_Check(o) || PyCFunction_Check(o) || PyType_Check(o) || PyModule_Check(o) || Py_IS_TYPE(o, face.op_function) ||
           Py_IS_TYPE(o, face.overload) || Py_IS_TYPE(o, &PyMethodDescr_Type) || Py_IS_TYPE(o, &PyWrapperDescr_Type) ||
           PyObject_IsInstance(o, face.overload_class) == 1;
}

static PyObject *noted(capture *c, PyObject *o, int32_t source)
{
    return capture_note(c, o, source, true) ? Py_NewRef(o) : NULL;
}

/* A tensor seen before under another name: both must be one again. */
static PyObject *met_again(capture *c, record *r, int32_t source, PyObject *o)
{
    if (r->source != source && r->source != NO_SOURCE && !tp_guard_add(c->sources, GUARD_SAME, source, NULL, r->source))
        return NULL;
    return Py_NewRef(r->shadow && face_is_tensor(o) ? r->shadow : o);
}

/* An input of the graph: a fake tensor stands for it from here on. */
static PyObject *wrap_input(capture *c, PyObject *o, int32_t source)
{
    if (!tp_guard_tensor(c->sources, source, o))
        return NULL;
    tp_tensor *fake = tp_fake_of(face_tensor(o));
    if (fake && tp_requires_grad(face_tensor(o)) && !tp_set_requires_grad(fake, true)) {
        tp_tensor_unref(fake);
        fake = NULL;
    }
    PyObject *stand_in = face_wrap_or_raise(fake), *text = stand_in ? tp_source_text(c->sources, source) : NULL;
    const char *from = text ? PyUnicode_AsUTF8(text) : NULL;
    tp_text name = { 0 };
    for (; from && *from; from++) {
        bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') || (*from >= '0' && *from <= '9') || *from == '_';
        if (plain)
            tp_text_put(&name, from, 1);
        else if (name.length && name.at[name.length - 1] != '_')
            tp_text_put(&name, "_", 1);
    }
    Py_XDECREF(text);
    tp_node *first = tp_graph_first(c->graph), *node = NULL;
    if (from) {
        while (first->kind == TP_PLACEHOLDER)
            first = first->next;
        c->graph->insert = first;           /* inputs stand first, whenever they are met */
        node = tp_node_new(c->graph, TP_PLACEHOLDER, tp_target_name(tp_text_read(&name)), NULL, 0, 0, NULL);
        c->graph->insert = &c->graph->root;
    }
    tp_text_fini(&name);
    graph_input in = { source, stand_in, node };
    record *given = NULL, *fakes = NULL;
    if (node) {
        tp_node_set_fact(node, tp_of_tensor(face_tensor(stand_in)));
        if (!tp_array_push(&c->input, in))
            face_raise();
        else if ((Py_INCREF(stand_in), given = capture_note(c, o, source, true))) {
            given->shadow = Py_NewRef(stand_in);
            fakes = capture_note(c, stand_in, source, false);
        }
    } else if (from) {
        capture_graph_error(c);
    }
    if (!fakes) {
        Py_XDECREF(stand_in);
        return NULL;
    }
    fakes->node = node;
    return stand_in;
}

static PyObject *wrap_tensor(capture *c, PyObject *o, int32_t source)
{
    if (!face_is_fast(o))
        return capture_unsupported("a tensor subclass, %s", Py_TYPE(o)->tp_name);
    return wrap_input(c, o, source);
}

static PyObject *wrap_method(capture *c, PyObject *o, int32_t source)
{
    int32_t self = tp_source_in(c->sources, SOURCE_METHOD_SELF, source, 0, NULL);
    int32_t function = tp_source_in(c->sources, SOURCE_METHOD_FUNCTION, source, 0, NULL);
    if (self < 0 || function < 0 || !tp_guard_add(c->sources, GUARD_TYPE, source, (PyObject *)Py_TYPE(o), 0))
        return NULL;
    PyObject *of = capture_wrap(c, PyMethod_GET_SELF(o), self);
    PyObject *called = of ? capture_wrap(c, PyMethod_GET_FUNCTION(o), function) : NULL;
    PyObject *made = called ? PyMethod_New(called, of) : NULL;
    Py_XDECREF(of);
    Py_XDECREF(called);
    return made;
}

PyObject *capture_wrap(capture *c, PyObject *o, int32_t source)
{
    if (source < 0)
        return NULL;
    if (capture_is_constant(o) || capture_is_numpy_number(o))
        return tp_guard_add(c->sources, GUARD_EQUAL, source, o, 0) ? Py_NewRef(o) : NULL;
    record *r = capture_record(c, o);
    if (r)
        return met_again(c, r, source, o);
    if (face_is_tensor(o))
        return wrap_tensor(c, o, source);
    if (PyMethod_Check(o))
        return wrap_method(c, o, source);
    bool module = PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)capture_the_words()->module);
    if (module || capture_is_fixed(o) || capture_is_enum(Py_TYPE(o)))
        return tp_guard_add(c->sources, GUARD_ID, source, o, 0) ? noted(c, o, source) : NULL;
    if (Py_IS_TYPE(o, &_PyMethodWrapper_Type))
        return capture_unsupported("a method of C code from outside, %R", o);
    if (PyIter_Check(o))
        return capture_unsupported("an iterator from outside, %s", Py_TYPE(o)->tp_name);
    return tp_guard_add(c->sources, GUARD_TYPE, source, (PyObject *)Py_TYPE(o), 0) ? noted(c, o, source) : NULL;
}

PyObject *capture_wrap_member(capture *c, PyObject *o, int32_t source)
{
    if (source < 0)
        return NULL;
    record *r = capture_record(c, o);
    if (r || !face_is_fast(o))
        return capture_wrap(c, o, source);
    /* A parameter belongs to the graph's module, as itself: fake mode looks at its sizes only. */
    PyObject *name = tp_guard_add(c->sources, GUARD_ID, source, o, 0) ? capture_attribute_name(c, o, source) : NULL;
    if (!name || !tp_guard_tensor(c->sources, source, o)) {
        Py_XDECREF(name);
        return NULL;
    }
    tp_node *node = tp_graph_get_attr(c->graph, PyUnicode_AsUTF8(name));
    Py_DECREF(name);
    if (!node) {
        capture_graph_error(c);
        return NULL;
    }
    tp_node_set_fact(node, tp_of_tensor(face_tensor(o)));
    if (!(r = capture_note(c, o, source, true)))
        return NULL;
    r->node = node;
    return Py_NewRef(o);
}

/* ---- containers from outside ---- */
static PyObject *shadow_items(capture *c, PyObject *o, int32_t source)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    if (!tp_guard_add(c->sources, GUARD_LENGTH, source, NULL, count))
        return NULL;
    PyObject *items = PyList_New(count);
    for (Py_ssize_t i = 0; items && i < count; i++) {
        PyObject *given = PySequence_GetItem(o, i), *key = given ? PyLong_FromSsize_t(i) : NULL;
        PyObject *item = key ? capture_wrap(c, given, tp_source_in(c->sources, SOURCE_ITEM, source, 0, key)) : NULL;
        Py_XDECREF(given);
        Py_XDECREF(key);
        if (!item)
            Py_CLEAR(items);
        else
            PyList_SET_ITEM(items, i, item);
    }
    return items;
}

static PyObject *shadow_tuple(capture *c, PyObject *o, int32_t source)
{
    PyObject *items = shadow_items(c, o, source), *made = NULL;
    if (!items)
        return NULL;
    PyObject *plain = PyList_AsTuple(items);
    if (plain && PyTuple_CheckExact(o))
        made = Py_NewRef(plain);
    else if (plain && PyObject_HasAttrString(o, "_make"))
        made = PyObject_CallMethod((PyObject *)Py_TYPE(o), "_make", "(O)", plain);
    else if (plain)
        made = PyObject_CallOneArg((PyObject *)Py_TYPE(o), plain);
    Py_XDECREF(plain);
    Py_DECREF(items);
    return made;
}

/* As C code stores them, whatever a class of the program's makes of it. */
static PyObject *keys_of(PyObject *dict)
{
    PyObject *keys = PyTuple_New(PyDict_GET_SIZE(dict)), *key, *value;
    Py_ssize_t at = 0, i = 0;
    while (keys && PyDict_Next(dict, &at, &key, &value))
        PyTuple_SET_ITEM(keys, i++, Py_NewRef(key));
    return keys;
}

/* Of a class derived from dict the shadow is a plain one, for those who look at keys and items only. */
static PyObject *shadow_dict(capture *c, PyObject *o, int32_t source)
{
    bool ordered = capture_is_modelled(o) && !PyDict_CheckExact(o);
    PyObject *keys = ordered ? PySequence_Tuple(o) : keys_of(o), *made = ordered ? PyObject_CallNoArgs((PyObject *)Py_TYPE(o)) : PyDict_New();
    bool ok = keys && made && tp_guard_add(c->sources, GUARD_KEYS, source, keys, 0);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i), *value = Py_XNewRef(PyDict_GetItemWithError(o, key));
        if (capture_has_tensor(key) || !capture_sees(c, key, CAPTURE_SEES_KEYS)) {
            if (!PyErr_Occurred())
                capture_unsupported("a dict from outside with a tensor as a key");
            Py_XDECREF(value);
            ok = false;
            break;
        }
        PyObject *inside = value ? capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ITEM, source, 0, key)) : NULL;
        if (!value && !PyErr_Occurred())
            capture_unsupported("a dict that changed while it was read");
        ok = inside && PyObject_SetItem(made, key, inside) == 0;
        Py_XDECREF(value);
        Py_XDECREF(inside);
    }
    Py_XDECREF(keys);
    if (!ok)
        Py_CLEAR(made);
    return made;
}

static bool is_instance_dict(const capture *c, const record *r)
{
    PyObject *name = c->sources->path.item[r->source].key;
    return PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0;
}

PyObject *capture_shadow(capture *c, PyObject *o, bool write)
{
    record *r = capture_record(c, o);
    bool container = PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || PySet_Check(o);
    if (r && r->outside && write && !PyList_Check(o) && !PyDict_CheckExact(o))
        return capture_unsupported("a change of an object from outside, a %s", Py_TYPE(o)->tp_name);
    if (!r || !r->outside || !container || r->source == NO_SOURCE)
        return Py_NewRef(o);
    if (write && c->sources->path.item[r->source].kind == SOURCE_ATTRIBUTE && is_instance_dict(c, r))
        return capture_unsupported("a change of an object's __dict__");
    if (!r->shadow) {
        if (PyTuple_Check(o) && !capture_is_modelled(o))
            return capture_unsupported("a tuple from outside of a class of its own, %s", Py_TYPE(o)->tp_name);
        PyObject *made = PyTuple_Check(o)  ? shadow_tuple(c, o, r->source)
                         : PyList_Check(o) ? shadow_items(c, o, r->source)
                         : PyDict_Check(o) ? shadow_dict(c, o, r->source)
                                           : NULL;
        if (!made && !PyErr_Occurred())
            return capture_unsupported("a set from outside");
        if (!made)
            return NULL;
        r = capture_record(c, o);           /* wrapping items may have moved the records */
        r->shadow = made;
    }
    if (write && !r->written) {
        r->written = true;
        effect e = { EFFECT_CONTAINER, o, NULL, NULL };
        if (!tp_array_push(&c->effect, e)) {
            face_raise();
            return NULL;
        }
        Py_INCREF(o);
    }
    return Py_NewRef(r->shadow);
}

/* A named tuple or an OrderedDict of things that are inside. */
static PyObject *rebuilt(capture *c, PyObject *taken)
{
    PyObject *items = PyTuple_Check(taken) ? PySequence_Tuple(taken) : PyDict_Copy(taken), *made = NULL;
    PyObject *plain = items && PyTuple_Check(taken) && !PyTuple_CheckExact(items) ? PyList_AsTuple(items) : Py_XNewRef(items);
    PyObject *inside = plain ? capture_inside(c, plain) : NULL;
    if (inside == plain && inside)
        made = Py_NewRef(taken);
    else if (inside && PyObject_HasAttrString(taken, "_make"))
        made = PyObject_CallMethod((PyObject *)Py_TYPE(taken), "_make", "(O)", inside);
    else if (inside)
        made = PyObject_CallOneArg((PyObject *)Py_TYPE(taken), inside);
    Py_XDECREF(items);
    Py_XDECREF(plain);
    Py_XDECREF(inside);
    Py_DECREF(taken);
    return made;
}

/* A copy only where something inside must be another object. */
static PyObject *inside_of(capture *c, PyObject *o)
{
    if (PyDict_Check(o) && capture_is_outside(c, o) && !capture_is_modelled(o))
        return capture_unsupported("an object from outside that has no model, a %s", Py_TYPE(o)->tp_name);
    PyObject *base = capture_shadow(c, o, false);
    if (!base)
        return NULL;
    if (PyTuple_Check(base) && !PyTuple_CheckExact(base) && capture_is_named_tuple(Py_TYPE(base)))
        return rebuilt(c, base);
    if (PyODict_CheckExact(base) && base != o)
        return rebuilt(c, base);
    if (!(PyTuple_CheckExact(base) || PyList_CheckExact(base) || PyDict_CheckExact(base)))
        return base;
    PyObject *copy = PyTuple_CheckExact(base) ? PyTuple_New(PyTuple_GET_SIZE(base)) : NULL;
    bool changed = false, ok = true;
    if (PyDict_CheckExact(base)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        ok = (copy = PyDict_New());
        while (ok && PyDict_Next(base, &at, &key, &value)) {
            PyObject *inside = capture_inside(c, value);
            changed |= inside != value;
            ok = inside && PyDict_SetItem(copy, key, inside) == 0;
            Py_XDECREF(inside);
        }
    } else {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(base);
        if (!copy)
            copy = PyList_New(count);
        ok = copy;
        for (Py_ssize_t i = 0; ok && i < count; i++) {
            PyObject *item = PySequence_Fast_GET_ITEM(base, i), *inside = capture_inside(c, item);
            changed |= inside != item;
            if ((ok = inside) && PyTuple_Check(copy))
                PyTuple_SET_ITEM(copy, i, inside);
            else if (ok)
                PyList_SET_ITEM(copy, i, inside);
        }
    }
    if (ok && !changed) {
        Py_XDECREF(copy);
        return base;
    }
    Py_DECREF(base);
    if (!ok)
        Py_CLEAR(copy);
    return copy;
}

PyObject *capture_inside(capture *c, PyObject *o)
{
    if (Py_EnterRecursiveCall(" while capturing a container"))
        return NULL;
    PyObject *inside = inside_of(c, o);
    Py_LeaveRecursiveCall();
    return inside;
}
