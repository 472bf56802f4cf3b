/* state_calls.c - calls that read or set what belongs to thread or process, not to the program's own objects.
 *
 * The extension's functions that are no ops are on one of the lists that Python tells, or they give the capture up before they
 * are called: `pure` ones depend on their arguments and on what the entry's state word holds; `asked` ones read a setting, and a
 * guard asks again; `acting` ones set what the word holds, so they are done here and are nodes of the graph, done in each call.
 *
 * What the package's modules keep as plain values and containers are settings too: programs set them, so they are guarded,
 * unlike its functions and classes. */
#include <string.h>

#include "python/capture/capture.h"
#include "trace/fake.h"

int capture_is_listed(PyObject *list, PyObject *callable)
{
    int yes = PySet_Contains(list, callable);
    if (yes < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {       /* it has no hash: nobody could list it */
        PyErr_Clear();
        yes = 0;
    }
    return yes;
}

static bool is_plain_answer(PyObject *o)
{
    if (PyTuple_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
            if (!is_plain_answer(PyTuple_GET_ITEM(o, i)))
                return false;
        return true;
    }
    PyTypeObject *t = Py_TYPE(o);
    return o == Py_None || t == &PyBool_Type || t == &PyLong_Type || t == &PyFloat_Type || t == &PyUnicode_Type || t == face.dtype ||
           t == face.device;
}

PyObject *capture_ask(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !is_plain_answer(args))
        return capture_unsupported("a call of %R, which reads global state, with these arguments", callable);
    PyObject *answer = PyObject_CallObject(callable, args);
    if (!answer)
        return NULL;
    int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, callable);
    PyObject *question = held >= 0 && is_plain_answer(answer) ? PyTuple_Pack(2, args, answer) : NULL;
    bool ok = question && tp_guard_add(c->sources, GUARD_ANSWER, held, question, 0);
    if (!question && !PyErr_Occurred())
        capture_unsupported("a call of %R, which reads global state", callable);
    Py_XDECREF(question);
    if (!ok)
        Py_CLEAR(answer);
    return answer;
}

/* Are the registered classes Python's and the package's? */
static bool trees_are_known(PyObject *classes)
{
    static const char *const modules[] = { "builtins", "collections" };
    PyObject *class, *definition;
    Py_ssize_t at = 0;
    bool known = true;
    while (known && PyDict_Next(classes, &at, &class, &definition)) {
        PyObject *module = PyObject_GetAttrString(class, "__module__");
        const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : "";
        size_t length = strlen(face.package);
        known = !strncmp(name, face.package, length) && (!name[length] || name[length] == '.');
        for (size_t i = 0; !known && i < TP_COUNT(modules); i++)
            known = !strcmp(name, modules[i]);
        Py_XDECREF(module);
    }
    PyErr_Clear();
    return known;
}

/* Functions over trees are the package's; those they are given go back into the capture. The classes a tree may have are a
 * setting: with one of the program's own, whose functions would run here, the capture is given up. */
static PyObject *call_tree(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    capture_words *w = capture_the_words();
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, w->tree_classes);
    const record *r = capture_record(c, w->tree_classes);
    if ((r && r->written) || !trees_are_known(w->tree_classes))
        return capture_unsupported("a function over trees, where the program has registered a class of its own");
    if (held < 0 || !tp_guard_add(c->sources, GUARD_LENGTH, held, NULL, PyDict_GET_SIZE(w->tree_classes)))
        return NULL;
    PyObject *all = PyTuple_New(count), *named = kwargs ? PyDict_New() : NULL, *result = NULL, *key, *value;
    bool ok = all && (!kwargs || named);
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *given = PyTuple_GET_ITEM(args, i);
        PyObject *item = PyFunction_Check(given) || PyMethod_Check(given) ? capture_callable(c, given) : capture_inside(c, given);
        if ((ok = item))
            PyTuple_SET_ITEM(all, i, item);
    }
    Py_ssize_t at = 0;
    while (ok && kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        PyObject *item = PyFunction_Check(value) || PyMethod_Check(value) ? capture_callable(c, value) : capture_inside(c, value);
        ok = item && PyDict_SetItem(named, key, item) == 0;
        Py_XDECREF(item);
    }
    if (ok)
        result = PyObject_Call(function, all, named);
    Py_XDECREF(all);
    Py_XDECREF(named);
    return result;
}

PyObject *capture_call_extension(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    capture_words *w = capture_the_words();
    int pure = capture_is_listed(w->pure, function), acting = pure ? 0 : capture_is_listed(w->acting, function);
    if (pure < 0 || acting < 0)
        return NULL;
    if (pure)
        return capture_call_function(c, function, args, kwargs);
    if (acting)
        return capture_call_acting(c, function, args, kwargs);
    if (function == w->function_apply && !c->runs_code) {
        c->takes_objects = true;        /* the class and its context */
        PyObject *result = capture_call_function(c, function, args, kwargs);
        c->takes_objects = false;
        return result;
    }
    int tree = capture_is_listed(w->trees, function);
    if (tree)
        return tree < 0 ? NULL : call_tree(c, function, args, kwargs);
    const char *name = ((PyCFunctionObject *)function)->m_ml->ml_name;
    PyObject *known = PyDict_GetItemString(w->known_as, name);
    return known ? capture_unsupported("%U (%s reads or sets state outside of the captured code)", known, name)
                 : capture_unsupported("a call of %s.%s, which reads or sets state outside of the captured code", face.package, name);
}

/* ---- settings ---- */
static bool is_setting(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    if (o == Py_None || t == &PyBool_Type || t == &PyLong_Type || t == &PyUnicode_Type || PyDict_Check(o) || PyList_Check(o))
        return true;
    return capture_the_words()->switches == (PyObject *)t;
}

static bool is_dunder(PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    return text && !strncmp(text, "__", 2);
}

PyObject *capture_setting(capture *c, PyObject *globals, PyObject *name, PyObject *value)
{
    if (!is_setting(value) || is_dunder(name) || PyDict_GetItemWithError(globals, name) != value)
        return PyErr_Occurred() ? NULL : Py_NewRef(value);
    int32_t held = tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, globals);
    return held < 0 ? NULL : capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ITEM, held, 0, name));
}
