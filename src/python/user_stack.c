/* user_stack.c - frames from the running one outwards, each as a line of a traceback. */
#include "python/user_stack.h"

#include <string.h>

#include "base/hash.h"

enum { MOST_FRAMES = 256 };     /* the innermost of a deeper stack */

bool user_stack_init(user_stack *s, bool forwards)
{
    PyObject *linecache = PyImport_ImportModule("linecache");
    *s = (user_stack){ .outermost = PyEval_GetFrame(), .forwards = forwards, .codes = PyList_New(0),
                       .getline = linecache ? PyObject_GetAttrString(linecache, "getline") : NULL };
    Py_XDECREF(linecache);
    return s->codes && s->getline;
}

void user_stack_fini(user_stack *s)
{
    Py_CLEAR(s->getline);
    Py_CLEAR(s->codes);
    for (size_t i = 0; i < s->chains.count; i++) {
        tp_value_unref(s->chains.item[i].text);
        tp_origin_unref(s->chains.item[i].origin);
    }
    tp_array_fini(&s->chains);
    tp_map_fini(&s->known);
}

/* ---- which frames ---- */
static bool is_forward(PyCodeObject *code)
{
    return PyUnicode_GET_LENGTH(code->co_name) == 7 && PyUnicode_CompareWithASCIIString(code->co_name, "forward") == 0;
}

bool face_is_user_frame(PyFrameObject *f, PyCodeObject *code)
{
    if (is_forward(code))
        return true;
    PyObject *globals = PyFrame_GetGlobals(f), *name = PyDict_GetItemString(globals, "__name__");
    const char *module = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    size_t length = strlen(face.package);
    bool own = module && strncmp(module, face.package, length) == 0 && (module[length] == '.' || !module[length]);
    Py_DECREF(globals);
    return !own;
}

typedef struct place {
    PyCodeObject *code;         /* counted */
    int           instruction;
} place;

/* The places of the user's frames, innermost first, and a hash that tells chains of places apart. */
static int walk(const user_stack *s, place *at, uint64_t *hash)
{
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    int count = 0;
    *hash = 0;
    while (f && f != s->outermost && count < MOST_FRAMES) {
        PyCodeObject *code = PyFrame_GetCode(f);
        if (s->forwards ? is_forward(code) : face_is_user_frame(f, code)) {
            at[count] = (place){ code, PyFrame_GetLasti(f) };
            *hash = tp_hash_word(*hash ^ tp_hash_word((uint64_t)(uintptr_t)code ^ (uint64_t)at[count++].instruction << 40));
        } else {
            Py_DECREF(code);
        }
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF((PyObject *)f);
    return count;
}

/* ---- their text ---- */

/* `File "f.py", line 3, in forward\n    return x + y` */
static PyObject *line_text(user_stack *s, const place *p)
{
    int line = PyCode_Addr2Line(p->code, p->instruction);
    PyObject *source = PyObject_CallFunction(s->getline, "Oi", p->code->co_filename, line);
    PyObject *bare = source ? PyObject_CallMethod(source, "strip", NULL) : NULL;
    PyObject *text = bare ? PyUnicode_FromFormat("File \"%U\", line %d, in %U\n    %U", p->code->co_filename, line, p->code->co_name, bare) : NULL;
    Py_XDECREF(source);
    Py_XDECREF(bare);
    return text;
}

static tp_value chain_text(user_stack *s, const place *at, int count)
{
    PyObject *lines = PyList_New(0), *joint = PyUnicode_FromString("\n  "), *text = NULL;
    bool ok = lines && joint;
    while (ok && count-- > 0) {
        PyObject *line = line_text(s, &at[count]);
        ok = line && PyList_Append(lines, line) == 0 && PyList_Append(s->codes, (PyObject *)at[count].code) == 0;
        Py_XDECREF(line);
    }
    text = ok ? PyUnicode_Join(joint, lines) : NULL;
    Py_XDECREF(lines);
    Py_XDECREF(joint);
    Py_ssize_t length = 0;
    const char *bytes = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    tp_value string = bytes ? tp_value_string(bytes, (size_t)length) : tp_none();
    Py_XDECREF(text);
    PyErr_Clear();
    return string;
}

/* Borrowed until the next one; NULL where no frame is the user's, or no text could be made. */
static struct chain *chain_now(user_stack *s)
{
    place at[MOST_FRAMES];
    uint64_t hash, index;
    int count = walk(s, at, &hash);
    bool known = tp_map_get(&s->known, hash, &index);
    if (!known && count) {
        struct chain made = { .text = chain_text(s, at, count) };
        index = s->chains.count;
        known = tp_array_push(&s->chains, made);
        if (!known)
            tp_value_unref(made.text);
        else if (!tp_map_put(&s->known, hash, index))
            tp_error_clear();       /* it will be made again */
    }
    for (int i = 0; i < count; i++)
        Py_DECREF(at[i].code);
    return known && s->chains.item[index].text.tag == TP_STRING ? &s->chains.item[index] : NULL;
}

static tp_origin *origin_of(const struct chain *c)
{
    tp_origin *o = tp_origin_new();
    if (o && c)
        o->stack_trace = tp_value_ref(c->text).string;
    tp_error_clear();
    return o;
}

tp_origin *user_stack_origin(user_stack *s)
{
    return origin_of(chain_now(s));
}

tp_origin *user_stack_shared_origin(user_stack *s)
{
    struct chain *c = chain_now(s);
    if (c && !c->origin)
        c->origin = origin_of(c);
    tp_error_clear();
    return c && c->origin ? tp_origin_ref(c->origin) : NULL;
}
