/* parse_errors.c - what a call that fits no overload is told: the signatures, as PyTorch shows them. */
#include <string.h>

#include "python/face.h"

/* ---- names of types ---- */
PyObject *face_type_text(const tp_arg *a)
{
    static const char *const single[] = {
        [TP_TYPE_TENSOR] = "Tensor", [TP_TYPE_SCALAR] = "Number", [TP_TYPE_INT] = "int", [TP_TYPE_SYMINT] = "int",
        [TP_TYPE_FLOAT] = "float", [TP_TYPE_BOOL] = "bool", [TP_TYPE_STR] = "str", [TP_TYPE_DTYPE] = "dtype",
        [TP_TYPE_LAYOUT] = "layout", [TP_TYPE_DEVICE] = "device", [TP_TYPE_FORMAT] = "memory_format",
        [TP_TYPE_GENERATOR] = "Generator", [TP_TYPE_STORAGE] = "Storage", [TP_TYPE_DIMNAME] = "name",
        [TP_TYPE_STREAM] = "Stream", [TP_TYPE_ANY] = "object",
    };
    if (a->list)
        return PyUnicode_FromFormat("tuple of %ss", a->type == TP_TYPE_SCALAR ? "Scalar" : single[a->type]);
    switch ((tp_type)a->type) {
    case TP_TYPE_DTYPE:
    case TP_TYPE_LAYOUT:
    case TP_TYPE_DEVICE:
    case TP_TYPE_FORMAT:
    case TP_TYPE_GENERATOR:
    case TP_TYPE_STORAGE: return PyUnicode_FromFormat("%s.%s", face.package, single[a->type]);
    default: return PyUnicode_FromString(single[a->type]);
    }
}

static PyObject *object_type_text(PyObject *o)
{
    bool tuple = PyTuple_CheckExact(o);
    if (!tuple && !PyList_CheckExact(o))
        return PyUnicode_FromString(Py_TYPE(o)->tp_name);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    PyObject *text = PyUnicode_FromString(tuple ? "tuple of (" : "list of [");
    for (Py_ssize_t i = 0; text && i < count && i < 11; i++) {
        if (i == 10) {
            PyUnicode_AppendAndDel(&text, PyUnicode_FromString(", ..."));
            break;
        }
        PyObject *item = PySequence_Fast_ITEMS(o)[i];
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("%s%s", i ? ", " : "", Py_TYPE(item)->tp_name));
    }
    if (text)
        PyUnicode_AppendAndDel(&text, PyUnicode_FromString(tuple ? (count == 1 ? ",)" : ")") : "]"));
    return text;
}

/* ---- one signature as text ---- */
static PyObject *default_text(const tp_arg *a)
{
    tp_text out = { 0 };
    if (strcmp(a->name, "pin_memory") == 0)
        return PyUnicode_FromString("False");
    tp_value_print(*a->fallback, &out);
    PyObject *text = PyUnicode_FromString(tp_text_read(&out));
    tp_text_fini(&out);
    return text;
}

static void add(PyObject **text, PyObject *taken)
{
    if (*text)
        PyUnicode_AppendAndDel(text, taken);
    else
        Py_XDECREF(taken);
}

static void add_plain(PyObject **text, const char *more)
{
    add(text, PyUnicode_FromString(more));
}

static void add_separator(PyObject **text, bool *first)
{
    if (!*first)
        add_plain(text, ", ");
    *first = false;
}

static bool has_several_outs(const tp_op *out)
{
    int written = 0;
    for (int i = 0; i < out->arg_count; i++)
        written += out->arg[i].keyword_only && out->arg[i].written;
    return written > 1;
}

static void add_out(PyObject **text, const signature *s, bool *first)
{
    add_separator(text, first);
    add_plain(text, has_several_outs(s->out) ? "tuple of Tensors out = None" : "Tensor out = None");
}

static PyObject *signature_text(const signature *s)
{
    PyObject *text = PyUnicode_FromString("(");
    bool first = true, starred = false, told_out = !s->out;
    for (int p = 0; p < s->count; p++) {
        const tp_arg *a = &s->op->arg[s->order[p]];
        if (a->keyword_only && !starred) {
            add_separator(&text, &first);
            add_plain(&text, "*");
            starred = true;
        }
        if (s->options >= 0 && !told_out && s->order[p] == s->options) {
            add_out(&text, s, &first);
            told_out = true;
        }
        add_separator(&text, &first);
        add(&text, face_type_text(a));
        add(&text, PyUnicode_FromFormat(" %U", s->name[p]));
        if (a->fallback) {
            add_plain(&text, " = ");
            add(&text, default_text(a));
        }
    }
    if (!told_out) {
        if (!starred) {
            add_separator(&text, &first);
            add_plain(&text, "*");
        }
        add_out(&text, s, &first);
    }
    if (s->options >= 0)
        add_plain(&text, ", bool requires_grad = False");
    add_plain(&text, ")");
    return text;
}

/* ---- what exactly is wrong with one signature ---- */
static int parameter_of(const signature *s, PyObject *keyword)
{
    for (int p = 0; p < s->count; p++)
        if (PyUnicode_Compare(s->name[p], keyword) == 0)
            return p;
    for (int i = 0; face_numpy_names[i][0]; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, face_numpy_names[i][0]) == 0)
            for (int p = 0; p < s->count; p++)
                if (PyUnicode_CompareWithASCIIString(s->name[p], face_numpy_names[i][1]) == 0)
                    return p;
    return -1;
}

static PyObject *find_keyword(const signature *s, int p, PyObject *const *values, PyObject *kwnames)
{
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        if (parameter_of(s, PyTuple_GET_ITEM(kwnames, k)) == p)
            return values[k];
    return NULL;
}

static PyObject *missing_error(op_set *set, const signature *s, Py_ssize_t count, PyObject *const *values, PyObject *kwnames)
{
    PyObject *names = PyUnicode_FromString("");
    int missing = 0;
    for (int p = 0; p < s->count; p++) {
        const tp_arg *a = &s->op->arg[s->order[p]];
        if (p < count || a->fallback || a->keyword_only || find_keyword(s, p, values, kwnames))
            continue;
        add(&names, PyUnicode_FromFormat("%s\"%U\"", missing ? ", " : "", s->name[p]));
        missing++;
    }
    if (missing && names)
        PyErr_Format(PyExc_TypeError, "%s() missing %d required positional arguments: %U", set->name, missing, names);
    Py_XDECREF(names);
    return NULL;
}

static PyObject *wrong_type_error(op_set *set, const signature *s, int p, bool positional, PyObject *given)
{
    PyObject *wanted = face_type_text(&s->op->arg[s->order[p]]);
    if (!wanted)
        return NULL;
    if (positional)
        PyErr_Format(PyExc_TypeError, "%s(): argument '%U' (position %d) must be %U, not %s", set->name, s->name[p], p + 1,
                     wanted, Py_TYPE(given)->tp_name);
    else
        PyErr_Format(PyExc_TypeError, "%s(): argument '%U' must be %U, not %s", set->name, s->name[p], wanted,
                     Py_TYPE(given)->tp_name);
    Py_DECREF(wanted);
    return NULL;
}

static PyObject *keyword_error(op_set *set, const signature *s, Py_ssize_t count, PyObject *kwnames)
{
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, k);
        int p = parameter_of(s, keyword);
        bool extra = (s->out && PyUnicode_CompareWithASCIIString(keyword, "out") == 0) ||
                     (s->options >= 0 && PyUnicode_CompareWithASCIIString(keyword, "requires_grad") == 0);
        if (p < 0 && !extra)
            return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", set->name, keyword);
        if (p >= 0 && p < count)
            return PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", set->name, keyword);
    }
    return PyErr_Format(PyExc_TypeError, "%s(): invalid arguments", set->name);
}

static PyObject *single_error(op_set *set, const signature *s, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    call_frame f;
    bool flat = s->varargs && count && (face_is_int(args[0]) || Py_IS_TYPE(args[0], face.sym_int));
    if (count > s->positional && !flat && !(s->varargs && count >= 1)) {
        return PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", set->name,
                            s->positional, s->positional == 1 ? "" : "s", count);
    }
    missing_error(set, s, count, args + count, kwnames);
    if (PyErr_Occurred())
        return NULL;
    face_frame_init(&f);
    for (int p = 0; p < s->count; p++) {
        PyObject *given = p < count && p < s->positional ? args[p] : find_keyword(s, p, args + count, kwnames);
        tp_value ignored;
        int got = given && !(flat && p == 0) ? face_to_value(&f, &s->op->arg[s->order[p]], given, &ignored) : 1;
        if (got == 0)
            wrong_type_error(set, s, p, p < count && p < s->positional, given);
        if (got <= 0)
            break;
    }
    face_frame_fini(&f);
    return PyErr_Occurred() ? NULL : keyword_error(set, s, count, kwnames);
}

/* ---- all signatures ---- */
static PyObject *given_text(PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *text = PyUnicode_FromString("(");
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        add_plain(&text, i ? ", " : "");
        add(&text, object_type_text(args[i]));
    }
    for (Py_ssize_t k = 0; k < keywords; k++) {
        add(&text, PyUnicode_FromFormat("%s%U=", count || k ? ", " : "", PyTuple_GET_ITEM(kwnames, k)));
        add(&text, object_type_text(args[count + k]));
    }
    add_plain(&text, !count && keywords ? ", )" : ")");
    return text;
}

/* Which arguments fit no parameter; told only when the counts are equal and nothing is given by name. */
static void add_reason(PyObject **text, const signature *s, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (s->count != count || s->positional != count || s->out || kwnames || !count)
        return;
    add_plain(text, "\n      didn't match because some of the arguments have invalid types: (");
    for (Py_ssize_t i = 0; i < count; i++) {
        call_frame f;
        tp_value ignored;
        face_frame_init(&f);
        int got = face_to_value(&f, &s->op->arg[s->order[i]], args[i], &ignored);
        face_frame_fini(&f);
        PyErr_Clear();
        add_plain(text, i ? ", " : "");
        add_plain(text, got > 0 ? "" : "!");
        add(text, object_type_text(args[i]));
        add_plain(text, got > 0 ? "" : "!");
    }
    add_plain(text, ")");
}

static PyObject *combination_error(op_set *set, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *text = PyUnicode_FromFormat("%s() received an invalid combination of arguments - got ", set->name);
    add(&text, given_text(args, count, kwnames));
    add_plain(&text, set->count == 1 ? ", but expected " : ", but expected one of:\n");
    for (int i = 0; i < set->count; i++) {
        if (set->count > 1)
            add_plain(&text, " * ");
        add(&text, signature_text(&set->item[i]));
        if (set->count == 1)
            break;
        add_reason(&text, &set->item[i], args, count, kwnames);
        add_plain(&text, "\n");
    }
    if (text)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

/* These have an old form in PyTorch, add(input, alpha, other), that is never shown but counts when it says what is wrong. */
static bool has_old_form(const op_set *set)
{
    static const char *const names[] = { "add", "sub", "addcdiv", "addcmul", "addmm", "addmv", "addr", "addbmm", "baddbmm" };
    for (size_t i = 0; i < TP_COUNT(names); i++)
        if (strcmp(set->name, names[i]) == 0)
            return true;
    return false;
}

PyObject *face_parse_error(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    (void)self;
    if (set->count == 0) {
        PyErr_Format(PyExc_NotImplementedError, "%s.%s is not implemented in Taper yet", face.package, set->name);
        return NULL;
    }
    Py_ssize_t passed = count + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    const signature *plausible = NULL;
    int found = 0;
    for (int i = 0; i < set->count; i++) {
        const signature *s = &set->item[i];
        int most = s->count + (s->out != NULL) + (s->options >= 0), least = s->required;
        for (int p = s->positional; p < s->count; p++)
            least += !s->op->arg[s->order[p]].fallback;
        if (passed >= least && (passed <= most || s->varargs)) {
            plausible = s;
            found++;
        }
    }
    bool only = set->count == 1 && !has_old_form(set);
    if (only)
        plausible = &set->item[0];
    if (only || found == 1)
        return single_error(set, plausible, args, count, kwnames);
    return combination_error(set, args, count, kwnames);
}
