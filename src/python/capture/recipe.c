/* recipe.c - how to make a captured call's result, and what it changed outside, from the outputs of its graph.
 *
 * Parts are numbered; a tuple, list, dict or object comes to exist before what it holds, so that cycles and things held twice
 * are what they were. Other containers exist after what they hold: those that hold themselves are refused. */
#include <string.h>

#include "base/alloc.h"
#include "python/capture/capture.h"

typedef enum part_kind {
    PART_CONSTANT, PART_SOURCE, PART_OUTPUT, PART_CELL, PART_GLOBALS, PART_TUPLE, PART_LIST, PART_DICT, PART_SET, PART_SLICE, PART_METHOD, PART_OBJECT, PART_MADE,
} part_kind;

struct recipe_part {
    uint8_t   kind;
    bool      open;             /* while it is made: its parts are not all there yet */
    int32_t   number;           /* source, output, cell of the function's closure */
    PyObject *object;           /* counted, may be NULL: constant, class, function */
    int32_t  *part;             /* owned: numbers of others */
    int32_t   count;
};

typedef struct replay {
    uint8_t   kind;             /* effect_kind */
    int32_t   object, value;    /* parts; value -1: deleted */
    PyObject *name;             /* counted, may be NULL */
} replay;

struct recipe {
    tp_array(recipe_part) part;
    tp_array(replay) replay;
    tp_array(tp_node *) output;
    int32_t root;
};

/* ---- making ---- */
typedef struct making {
    capture *c;
    recipe  *r;
    tp_map   known;             /* address -> part */
    PyObject *kept;             /* counted list: what was made on the way, so that its address is no other's */
} making;

static int32_t part_of(making *m, PyObject *o);

static int32_t add(making *m, PyObject *o, part_kind kind, int32_t number, PyObject *object, int32_t count)
{
    recipe_part p = { .kind = (uint8_t)kind, .open = true, .number = number, .object = object, .count = count };
    if (count && !(p.part = tp_alloc_array((size_t)count, sizeof *p.part))) {
        face_raise();
        return -1;
    }
    if (!tp_array_push(&m->r->part, p)) {
        tp_free(p.part);
        face_raise();
        return -1;
    }
    Py_XINCREF(object);
    int32_t at = (int32_t)m->r->part.count - 1;
    if (o && !tp_map_put(&m->known, (uint64_t)(uintptr_t)o, (uint64_t)at)) {
        face_raise();
        return -1;
    }
    return at;
}

static bool set_part(making *m, int32_t at, int32_t i, PyObject *o)
{
    int32_t inner = part_of(m, o);          /* may move the array */
    if (inner >= 0)
        m->r->part.item[at].part[i] = inner;
    return inner >= 0;
}

static int32_t add_items(making *m, PyObject *o, part_kind kind, PyObject *items, PyObject *class)
{
    Py_ssize_t count = items ? PySequence_Fast_GET_SIZE(items) : 0;
    int32_t at = items ? add(m, o, kind, 0, class, (int32_t)count) : -1;
    for (Py_ssize_t i = 0; at >= 0 && i < count; i++)
        if (!set_part(m, at, (int32_t)i, PySequence_Fast_GET_ITEM(items, i)))
            at = -1;
    if (at >= 0)
        m->r->part.item[at].open = false;
    return at;
}

static int32_t add_dict(making *m, PyObject *o, part_kind kind, PyObject *dict, PyObject *class)
{
    int32_t at = dict ? add(m, o, kind, 0, class, (int32_t)(2 * PyDict_GET_SIZE(dict))) : -1, i = 0;
    Py_ssize_t next = 0;
    PyObject *key, *value;
    while (at >= 0 && PyDict_Next(dict, &next, &key, &value)) {
        if (!set_part(m, at, i, key) || !set_part(m, at, i + 1, value))
            return -1;
        i += 2;
    }
    return at;
}

static int32_t add_output(making *m, PyObject *o)
{
    tp_node *node = capture_node(m->c, o);
    if (!node)
        return -1;
    if (!tp_array_push(&m->r->output, node)) {
        face_raise();
        return -1;
    }
    return add(m, o, PART_OUTPUT, (int32_t)m->r->output.count - 1, NULL, 0);
}

/* An instance has more than its dict. */
static bool has_foreign_base(PyTypeObject *type)
{
    while (capture_is_python_class(type))
        type = type->tp_base;
    return type != &PyBaseObject_Type;
}

static int32_t add_object(making *m, PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject **at = type->tp_flags & Py_TPFLAGS_HEAPTYPE ? _PyObject_GetDictPtr(o) : NULL;
    Py_ssize_t links = (type->tp_weaklistoffset > 0 ? (Py_ssize_t)sizeof(PyObject *) : 0) + (type->tp_dictoffset > 0 ? (Py_ssize_t)sizeof(PyObject *) : 0);
    bool slots = type->tp_basicsize != PyBaseObject_Type.tp_basicsize + links;
    bool plain = type->tp_flags & Py_TPFLAGS_HEAPTYPE && !slots && PyType_IsSubtype(type, &PyBaseObject_Type) && !has_foreign_base(type);
    if (!plain || !(at || type->tp_dictoffset)) {
        capture_unsupported("a result of the class %s", type->tp_name);
        return -1;
    }
    PyObject *own = PyObject_GenericGetDict(o, NULL);
    int32_t made = add_dict(m, o, PART_OBJECT, own, (PyObject *)type);
    Py_XDECREF(own);
    return made;
}

static bool is_atom(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    return o == Py_None || o == Py_Ellipsis || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) ||
           PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || PyType_Check(o) || PyModule_Check(o) || PyCFunction_Check(o) || t == face.dtype ||
           t == face.device || t == face.layout || t == face.format || PyRange_Check(o);
}

/* One met again, maybe inside itself. */
static int32_t known_part(making *m, PyObject *o, int32_t at)
{
    const recipe_part *p = &m->r->part.item[at];
    if (p->open && (p->kind == PART_SET || p->kind == PART_SLICE || p->kind == PART_METHOD || p->kind == PART_MADE)) {
        capture_unsupported("a %s that holds itself", Py_TYPE(o)->tp_name);
        return -1;
    }
    return at;
}

static int32_t new_part(making *m, PyObject *o)
{
    if (is_atom(o))
        return add(m, NULL, PART_CONSTANT, 0, o, 0);
    const record *r = capture_record(m->c, o);
    if (r && r->source != NO_SOURCE)
        return add(m, o, PART_SOURCE, r->source, NULL, 0);
    if (face_is_tensor(o))
        return add_output(m, o);
    if (PyTuple_CheckExact(o))
        return add_items(m, o, PART_TUPLE, o, NULL);
    if (PyList_CheckExact(o))
        return add_items(m, o, PART_LIST, o, NULL);
    if (PyDict_CheckExact(o))
        return add_dict(m, o, PART_DICT, o, NULL);
    if (PySet_CheckExact(o)) {
        PyObject *items = PySequence_List(o);
        int32_t at = add_items(m, o, PART_SET, items, NULL);
        Py_XDECREF(items);
        return at;
    }
    if (PySlice_Check(o)) {
        const PySliceObject *s = (PySliceObject *)o;
        PyObject *items = PyTuple_Pack(3, s->start, s->stop, s->step);
        int32_t at = add_items(m, o, PART_SLICE, items, NULL);
        Py_XDECREF(items);
        return at;
    }
    if (PyMethod_Check(o)) {
        PyObject *items = PyTuple_Pack(2, PyMethod_GET_FUNCTION(o), PyMethod_GET_SELF(o));
        int32_t at = add_items(m, o, PART_METHOD, items, NULL);
        Py_XDECREF(items);
        return at;
    }
    if (PyFunction_Check(o)) {
        if (PyFunction_GET_CLOSURE(o) && !capture_trusts(PyFunction_GET_GLOBALS(o))) {
            capture_unsupported("a function made inside as a result");
            return -1;
        }
        return add(m, o, PART_CONSTANT, 0, o, 0);
    }
    if (PyTuple_Check(o) && capture_is_modelled(o))     /* a named tuple, a Size */
        return add_items(m, o, PART_MADE, o, (PyObject *)Py_TYPE(o));
    if (PyODict_CheckExact(o)) {
        PyObject *items = PyDict_Items(o);
        bool kept = items && PyList_Append(m->kept, items) == 0;
        int32_t at = kept ? add_items(m, o, PART_MADE, items, (PyObject *)Py_TYPE(o)) : -1;
        Py_XDECREF(items);
        return at;
    }
    if (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o)) {
        capture_unsupported("a result of the class %s", Py_TYPE(o)->tp_name);
        return -1;
    }
    return add_object(m, o);
}

static int32_t part_of(making *m, PyObject *o)
{
    uint64_t known;
    if (tp_map_get(&m->known, (uint64_t)(uintptr_t)o, &known))
        return known_part(m, o, (int32_t)known);
    if (Py_EnterRecursiveCall(" while capturing a result"))
        return -1;
    int32_t at = new_part(m, o);
    Py_LeaveRecursiveCall();
    return at;
}

/* What a store goes to: the cell or the globals of whichever function is called, other things as they are. */
static int32_t target_of(making *m, const effect *e)
{
    const capture *c = m->c;
    const record *r = capture_record(m->c, e->object);
    const path *from = r && r->source != NO_SOURCE ? &c->sources->path.item[r->source] : NULL;
    if (e->kind == EFFECT_CELL && from && from->kind == SOURCE_CELL)
        return add(m, NULL, PART_CELL, from->number, NULL, 0);
    if (e->kind == EFFECT_GLOBAL && e->object == c->globals)
        return add(m, NULL, PART_GLOBALS, 0, NULL, 0);
    if (e->kind == EFFECT_CELL || e->kind == EFFECT_GLOBAL)
        return add(m, NULL, PART_CONSTANT, 0, e->object, 0);
    return part_of(m, e->object);
}

static bool is_module(PyObject *o)
{
    return PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)capture_the_words()->module);
}

/* What is written must not be the object that another path leads to, unless it was that at the capture. */
static bool guard_others(making *m, PyObject *written)
{
    capture *c = m->c;
    const record *w = capture_record(c, written);
    int32_t source = w && !w->cell ? w->source : NO_SOURCE;
    for (size_t i = 0; source != NO_SOURCE && i < c->record.count; i++) {
        const record *r = &c->record.item[i];
        bool alike = r->outside && !r->cell && r->source != NO_SOURCE && r->object != written && Py_TYPE(r->object) == Py_TYPE(written);
        if (alike && !(is_module(written) && is_module(r->object)) && !capture_is_fixed(written) &&
            !tp_guard_add(c->sources, GUARD_OTHER, source, NULL, r->source))
            return false;
    }
    return true;
}

static bool add_replays(making *m)
{
    for (size_t i = 0; i < m->c->effect.count; i++) {
        const effect *e = &m->c->effect.item[i];
        replay p = { .kind = e->kind, .object = -1, .value = -1, .name = e->name };
        const record *r = capture_record(m->c, e->object);
        PyObject *value = e->kind == EFFECT_CONTAINER ? r->shadow : e->value;
        if (!guard_others(m, e->object) || (p.object = target_of(m, e)) < 0 || (value && (p.value = part_of(m, value)) < 0))
            return false;
        if (!tp_array_push(&m->r->replay, p)) {
            face_raise();
            return false;
        }
        Py_XINCREF(p.name);
    }
    return true;
}

recipe *recipe_new(capture *c, PyObject *result)
{
    making m = { .c = c, .r = tp_alloc_zero(sizeof(recipe)), .kept = PyList_New(0) };
    if (!m.r)
        face_raise();
    bool ok = m.r && m.kept && (m.r->root = part_of(&m, result)) >= 0 && add_replays(&m);
    tp_map_fini(&m.known);
    Py_XDECREF(m.kept);
    if (ok)
        return m.r;
    recipe_free(m.r);
    return NULL;
}

void recipe_free(recipe *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->part.count; i++) {
        Py_XDECREF(r->part.item[i].object);
        tp_free(r->part.item[i].part);
    }
    for (size_t i = 0; i < r->replay.count; i++)
        Py_XDECREF(r->replay.item[i].name);
    tp_array_fini(&r->part);
    tp_array_fini(&r->replay);
    tp_array_fini(&r->output);
    tp_free(r);
}

int recipe_traverse(const recipe *r, visitproc visit, void *arg)
{
    for (size_t i = 0; i < r->part.count; i++)
        Py_VISIT(r->part.item[i].object);
    return 0;
}

size_t recipe_output_count(const recipe *r)
{
    return r->output.count;
}

tp_node *recipe_output(const recipe *r, size_t i)
{
    return r->output.item[i];
}

int recipe_only_output(const recipe *r)
{
    const recipe_part *root = &r->part.item[r->root];
    return !r->replay.count && root->kind == PART_OUTPUT ? root->number : -1;
}

/* ---- running ---- */
typedef struct making_again {
    const recipe *r;
    PyObject *const *output;
    const tp_sources *s;
    const call_state *call;
    PyObject **values;
    PyObject **made;            /* by part; owned */
} making_again;

static PyObject *make(making_again *m, int32_t at);

static bool fill_items(making_again *m, const recipe_part *p, PyObject *into)
{
    for (int32_t i = 0; i < p->count; i++) {
        PyObject *item = make(m, p->part[i]);
        if (!item)
            return false;
        if (PyList_Check(into)) {
            if (PyList_SetItem(into, i, Py_NewRef(item)) < 0)       /* a class that was called on the way may have had it */
                return false;
        } else {
            Py_XDECREF(PyTuple_GET_ITEM(into, i));
            PyTuple_SET_ITEM(into, i, Py_NewRef(item));
        }
    }
    return true;
}

/* Full of None: what is called while it is filled may look into it. */
static PyObject *hollow(const recipe_part *p)
{
    PyObject *made = p->kind == PART_LIST ? PyList_New(p->count) : PyTuple_New(p->count);
    for (int32_t i = 0; made && i < p->count; i++) {
        if (p->kind == PART_LIST)
            PyList_SET_ITEM(made, i, Py_NewRef(Py_None));
        else
            PyTuple_SET_ITEM(made, i, Py_NewRef(Py_None));
    }
    return made;
}

static PyObject *make_items(making_again *m, const recipe_part *p, int32_t at)
{
    PyObject *made = m->made[at] = hollow(p);
    if (!made || !fill_items(m, p, made))
        return NULL;
    if (p->kind == PART_TUPLE && p->count && !PyObject_GC_IsTracked(made))     /* the collector lets go of tuples of None */
        PyObject_GC_Track(made);
    return made;
}

static bool fill_dict(making_again *m, const recipe_part *p, PyObject *into)
{
    for (int32_t i = 0; i < p->count; i += 2) {
        PyObject *key = make(m, p->part[i]), *value = key ? make(m, p->part[i + 1]) : NULL;
        if (!value || PyDict_SetItem(into, key, value) < 0)
            return false;
    }
    return true;
}

static bool fill_set(making_again *m, const recipe_part *p, PyObject *into)
{
    for (int32_t i = 0; i < p->count; i++) {
        PyObject *item = make(m, p->part[i]);
        if (!item || PySet_Add(into, item) < 0)
            return false;
    }
    return true;
}

static PyObject *make_by_class(making_again *m, const recipe_part *p)
{
    PyObject *items = PyTuple_New(p->count), *made = NULL;
    if (items && fill_items(m, p, items))
        made = PyObject_HasAttrString(p->object, "_make") ? PyObject_CallMethod(p->object, "_make", "(O)", items)
                                                          : PyObject_CallOneArg(p->object, items);
    Py_XDECREF(items);
    return made;
}

static PyObject *make_new(making_again *m, int32_t at)
{
    const recipe_part *p = &m->r->part.item[at];
    PyObject *made = NULL, *own, *found;
    switch ((part_kind)p->kind) {
    case PART_CONSTANT: return Py_NewRef(p->object);
    case PART_OUTPUT: return Py_NewRef(m->output[p->number]);
    case PART_SOURCE:
        found = tp_source_value(m->s, p->number, m->call, m->values);
        return found ? Py_NewRef(found) : PyErr_Format(PyExc_RuntimeError, "a captured call lost an object it refers to");
    case PART_CELL: return Py_NewRef(PyTuple_GET_ITEM(m->call->closure, p->number));
    case PART_GLOBALS: return Py_NewRef(m->call->globals);
    case PART_TUPLE:
    case PART_LIST: return make_items(m, p, at);
    case PART_DICT:
        m->made[at] = PyDict_New();
        return m->made[at] && fill_dict(m, p, m->made[at]) ? m->made[at] : NULL;
    case PART_SET: return (made = PySet_New(NULL)) && fill_set(m, p, made) ? made : (Py_XDECREF(made), NULL);
    case PART_SLICE: {
        PyObject *a = make(m, p->part[0]), *b = a ? make(m, p->part[1]) : NULL, *c = b ? make(m, p->part[2]) : NULL;
        return c ? PySlice_New(a, b, c) : NULL;
    }
    case PART_METHOD: {
        PyObject *f = make(m, p->part[0]), *self = f ? make(m, p->part[1]) : NULL;
        return self ? PyMethod_New(f, self) : NULL;
    }
    case PART_OBJECT:
        m->made[at] = ((PyTypeObject *)p->object)->tp_alloc((PyTypeObject *)p->object, 0);
        own = m->made[at] ? PyObject_GenericGetDict(m->made[at], NULL) : NULL;
        bool ok = own && fill_dict(m, p, own);
        Py_XDECREF(own);
        return ok ? m->made[at] : NULL;
    case PART_MADE: return make_by_class(m, p);
    }
    return NULL;
}

/* Borrowed from `made`. */
static PyObject *make(making_again *m, int32_t at)
{
    if (m->made[at])
        return m->made[at];
    if (Py_EnterRecursiveCall(" while making a captured result"))
        return NULL;
    PyObject *fresh = make_new(m, at);
    Py_LeaveRecursiveCall();
    if (fresh)
        m->made[at] = fresh;
    return fresh;
}

static bool replace_contents(PyObject *o, PyObject *value)
{
    if (PyList_Check(o))
        return PyList_SetSlice(o, 0, PyList_GET_SIZE(o), value) == 0;
    if (PyDict_Check(o)) {
        PyObject *copy = PyDict_Copy(value);
        PyDict_Clear(o);
        bool ok = copy && PyDict_Update(o, copy) == 0;
        Py_XDECREF(copy);
        return ok;
    }
    return true;
}

static bool do_replay(making_again *m, const replay *p)
{
    PyObject *o = make(m, p->object), *value = p->value < 0 ? NULL : make(m, p->value);
    if (!o || (p->value >= 0 && !value))
        return false;
    switch ((effect_kind)p->kind) {
    case EFFECT_ATTRIBUTE: return PyObject_SetAttr(o, p->name, value) == 0;
    case EFFECT_CELL: return PyCell_Set(o, value) == 0;
    case EFFECT_GLOBAL: return (value ? PyDict_SetItem(o, p->name, value) : PyDict_DelItem(o, p->name)) == 0;
    case EFFECT_CONTAINER: return replace_contents(o, value);
    }
    return true;
}

PyObject *recipe_run(const recipe *r, PyObject *const *outputs, const tp_sources *s, const call_state *call, PyObject **values)
{
    PyObject *few[32] = { 0 };
    size_t count = r->part.count;
    making_again m = { r, outputs, s, call, values, count <= TP_COUNT(few) ? few : tp_alloc_zero(count * sizeof *few) };
    if (!m.made)
        return face_raise();
    PyObject *result = Py_XNewRef(make(&m, r->root));
    for (size_t i = 0; result && i < r->replay.count; i++)
        if (!do_replay(&m, &r->replay.item[i]))
            Py_CLEAR(result);
    for (size_t i = 0; i < count; i++)
        Py_XDECREF(m.made[i]);
    if (m.made != few)
        tp_free(m.made);
    return result;
}
