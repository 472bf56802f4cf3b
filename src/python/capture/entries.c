/* entries.c - the lists of captured calls: joining, leaving, dying. */
#include "python/capture/entries.h"

#include "base/alloc.h"

/* ---- one entry ---- */
entry *entry_new(PyObject *backend)
{
    entry *e = tp_alloc_zero(sizeof *e);
    if (!e)
        return face_raise(), NULL;
    e->refs = 1;
    e->backend = Py_NewRef(backend);
    return e;
}

entry *entry_ref(entry *e)
{
    if (e)
        e->refs++;
    return e;
}

static void entry_free(entry *e)
{
    if (e->watch)
        *(entry **)PyCapsule_GetPointer(e->watch, NULL) = NULL;
    Py_XDECREF(e->watch);
    Py_XDECREF(e->backend);
    Py_XDECREF(e->run);
    recipe_free(e->recipe);
    tp_sources_fini(&e->sources);
    tp_free(e->input);
    tp_free(e);
}

void entry_unref(entry *e)
{
    if (e && --e->refs == 0)
        entry_free(e);
}

bool entry_is_for(const entry *e, PyObject *backend)
{
    return (e->weak_backend ? PyWeakref_GET_OBJECT(e->backend) : e->backend) == backend;
}

static bool is_module(PyObject *o)
{
    return PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)face.capture_words->module);
}

bool entry_is_about(const entry *e, const call_state *call)
{
    size_t count = e->sources.path.count;
    PyObject **values = tp_alloc_zero((count + 1) * sizeof *values);
    bool same = values;
    for (size_t i = 0; same && i < e->sources.guard.count; i++) {
        const guard *g = &e->sources.guard.item[i];
        PyObject *o = g->kind == GUARD_ID ? tp_guard_object(g) : NULL;
        if (o && is_module(o))
            same = tp_source_value(&e->sources, g->source, call, values) == o;
    }
    for (size_t i = 0; values && i < count; i++)
        Py_XDECREF(values[i]);
    tp_free(values);
    PyErr_Clear();
    return same;
}

/* ---- dying with what it is about ---- */
static void leave(entry *e)
{
    if (!e->owner)
        return;
    entry **at = &e->owner->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->owner->count--;
    e->owner = NULL;
    e->next = NULL;
    entry_unref(e);
}

static PyObject *died(PyObject *watch, PyObject *reference)
{
    entry *e = *(entry **)PyCapsule_GetPointer(watch, NULL);
    (void)reference;
    if (e)
        leave(e);
    Py_RETURN_NONE;
}

static PyMethodDef died_definition = { "_died", died, METH_O, NULL };

static void free_watch(PyObject *watch)
{
    tp_free(PyCapsule_GetPointer(watch, NULL));
}

/* Weak references can be found by the program and live longer than the entry: they know it through a box of its own. */
static bool watch(entry *e)
{
    entry **box = tp_alloc(sizeof *box);
    if (!box)
        return face_raise();
    *box = e;
    if (!(e->watch = PyCapsule_New(box, NULL, free_watch))) {
        tp_free(box);
        return false;
    }
    PyObject *tell = PyCFunction_New(&died_definition, e->watch), *weak;
    bool ok = tell;
    for (size_t i = 0; ok && i < e->sources.guard.count; i++) {
        guard *g = &e->sources.guard.item[i];
        PyObject *o = g->weak && g->kind == GUARD_ID ? tp_guard_object(g) : NULL;
        if (o && is_module(o) && (ok = (weak = PyWeakref_NewRef(o, tell))))
            Py_SETREF(g->object, weak);
    }
    if (ok && PyType_SUPPORTS_WEAKREFS(Py_TYPE(e->backend)) && (ok = (weak = PyWeakref_NewRef(e->backend, tell)))) {
        e->weak_backend = true;
        Py_SETREF(e->backend, weak);
    }
    Py_XDECREF(tell);
    return ok;
}

/* ---- lists ---- */
bool entry_add(code_entries *all, entry *e)
{
    if (!watch(e))
        return false;
    e->owner = all;
    e->next = all->first;
    all->first = entry_ref(e);
    all->count++;
    return true;
}

void entry_to_front(entry *e)
{
    code_entries *all = e->owner;
    if (!all || all->first == e)
        return;
    entry **at = &all->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->next = all->first;
    all->first = e;
}

/* Takes the entries out of their list, in front of others. What they hold dies later, for that runs any code. */
static entry *take_all(code_entries *all, entry *others)
{
    while (all->first) {
        entry *e = all->first;
        all->first = e->next;
        e->owner = NULL;
        e->next = others;
        others = e;
    }
    all->count = 0;
    all->plain = false;
    return others;
}

static void drop_all(entry *e)
{
    while (e) {
        entry *next = e->next;
        e->next = NULL;
        entry_unref(e);
        e = next;
    }
}

static void release_entries(tp_code_cache *cache)
{
    code_entries *all = (code_entries *)cache;
    entry *taken = take_all(all, NULL);
    if (all->before)
        all->before->after = all->after;
    else if (face.capture_words->entries == all)
        face.capture_words->entries = all->after;
    if (all->after)
        all->after->before = all->before;
    tp_free(all);
    drop_all(taken);
}

code_entries *entries_of(PyCodeObject *code)
{
    code_entries *all = (code_entries *)tp_code_cache_get(code);
    if (all)
        return all;
    if (!(all = tp_alloc_zero(sizeof *all)))
        return face_raise(), NULL;
    all->cache.release = release_entries;
    if (!tp_code_cache_set(code, &all->cache))
        return face_raise(), NULL;
    all->after = face.capture_words->entries;
    if (all->after)
        all->after->before = all;
    return face.capture_words->entries = all;
}

void entries_reset(void)
{
    entry *taken = NULL;
    for (code_entries *all = face.capture_words ? face.capture_words->entries : NULL; all; all = all->after)
        taken = take_all(all, taken);
    drop_all(taken);
}
