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
    for (size_t i = 0; i < s->texts.count; i++)
        tp_value_unref(s->texts.item[i]);
    tp_array_fini(&s->texts);
    tp_map_fini(&s->known);
}

/* ---- which frames ---- */
static bool is_forward(PyCodeObject *code)
{
    return PyUnicode_CompareWithASCIIString(code->co_name, "forward") == 0;
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

/* Borrowed; none where no frame is the user's, or no text could be made. */
static tp_value text_now(user_stack *s)
{
    place at[MOST_FRAMES];
    uint64_t hash, index;
    tp_value text = tp_none();
    int count = walk(s, at, &hash);
    if (tp_map_get(&s->known, hash, &index)) {
        text = s->texts.item[index];
    } else if (count) {
        text = chain_text(s, at, count);
        if (!tp_array_push(&s->texts, text)) {
            tp_value_unref(text);
            text = tp_none();
        } else if (!tp_map_put(&s->known, hash, s->texts.count - 1)) {
            tp_error_clear();       /* it will be made again */
        }
    }
    for (int i = 0; i < count; i++)
        Py_DECREF(at[i].code);
    return text;
}

tp_origin *user_stack_origin(user_stack *s)
{
    tp_value text = text_now(s);
    tp_origin *o = tp_origin_new();
    if (o && text.tag == TP_STRING)
        o->stack_trace = tp_value_ref(text).string;
    tp_error_clear();
    return o;
}
