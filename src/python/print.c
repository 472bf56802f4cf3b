/* print.c - repr of tensors: tensor/print.h lays out the numbers; here is what follows them, and the options. */
#include <stdio.h>
#include <string.h>

#include "grad/tape.h"
#include "ops/symbolic.h"
#include "python/capture/capture.h"
#include "python/face.h"
#include "tensor/print.h"
#include "trace/fake.h"
#include "trace/jvp_level.h"
#include "trace/level.h"
#include "trace/vmap_level.h"

enum { MOST_SUFFIXES = 7, SUFFIX_BYTES = 256 };

typedef struct suffixes {
    char text[MOST_SUFFIXES][SUFFIX_BYTES];
    const char *item[MOST_SUFFIXES];
    int  count;
} suffixes;

static void add_suffix(suffixes *s, const char *format, const char *a, const char *b)
{
    char *at = s->text[s->count];
    snprintf(at, SUFFIX_BYTES, format, a, b);
    s->item[s->count++] = at;
}

/* A type that literals give is not named. */
static bool is_default_type(const tp_tensor *t)
{
    tp_dtype usual = (tp_dtype)tp_the_runtime.default_dtype;
    return t->dtype == usual || t->dtype == tp_dtype_to_complex(usual) || t->dtype == TP_i64 || t->dtype == TP_b8;
}

/* A fake tensor may have the data of a literal; it shows none. */
static bool has_no_body(const tp_tensor *t)
{
    return t->storage->kind == TP_MEMORY_NONE || tp_is_fake(t);
}

static void add_size(char *size, const char *comma, tp_sym x)
{
    tp_text text = { 0 };
    tp_sym_print(tp_sym_simplify(x), &text);
    size_t used = strlen(size);
    snprintf(size + used, SUFFIX_BYTES - 8 - used, "%s%s", comma, tp_text_read(&text));
    tp_text_fini(&text);
}

static void collect(tp_tensor *t, suffixes *s)
{
    char device[16], size[SUFFIX_BYTES] = "(";
    tp_grad_node *node = NULL;
    uint32_t slot;
    if (t->device.type != TP_CPU)
        add_suffix(s, "device='%s'", tp_device_name(t->device, device), "");
    bool bodiless = has_no_body(t);
    if (bodiless || (t->numel == 0 && t->ndim != 1)) {
        for (int i = 0; i < t->ndim && strlen(size) < SUFFIX_BYTES - 32; i++)
            add_size(size, i ? ", " : "", tp_tensor_sym_size(t, i));
        strcat(size, t->ndim == 1 ? ",)" : ")");
        add_suffix(s, "size=%s", size, "");
    }
    if (!is_default_type(t) || ((bodiless || t->numel == 0) && t->dtype != tp_the_runtime.default_dtype))
        add_suffix(s, "dtype=%s.%s", face.package, tp_dtypes[t->dtype].python);
    if (!tp_grad_fn(t, &node, &slot))
        tp_error_clear();
    if (node)
        add_suffix(s, "grad_fn=<%s>", face_node_title(node->kind->name(node)), "");
    else if (tp_requires_grad(t))
        add_suffix(s, "requires_grad=True", "", "");
}

/* The tangent of a dual tensor, as it prints itself; NULL without an exception: there is none. */
static PyObject *tangent_text(tp_tensor *t)
{
    tp_jvp_level *l = tp_self.transforms ? tp_jvp_level_open() : NULL;
    tp_tensor *tangent = NULL;
    if (!l)
        return NULL;
    if (!tp_jvp_level_tangent(l, t, &tangent))
        return face_raise();
    PyObject *o = tangent ? face_wrap(tangent) : NULL, *words = o ? PyObject_Format(o, NULL) : NULL;
    PyObject *text = words ? PyUnicode_FromFormat("tangent=%U", words) : NULL;
    Py_XDECREF(o);
    Py_XDECREF(words);
    return text;
}

static tp_print_options current_options(void)
{
    return face.print_options_set ? face.print_options : TP_PRINT_DEFAULTS;
}

/* A subclass shows its own name, a parameter calls itself tensor. */
static const char *prefix_of(PyObject *self)
{
    if (tp_is_fake(face_tensor(self)))
        return "FakeTensor(";
    return Py_IS_TYPE(self, face.tensor) || Py_IS_TYPE(self, face.parameter) ? "tensor(" : NULL;
}

/* A wrapper of a level shows what it stands for, four columns further in. */
static PyObject *wrapper_repr(tp_tensor *t, tp_level *level, int number)
{
    PyObject *inner = face_wrap(tp_tensor_ref(tp_wrapped_at(level, t)->inner)), *text = inner ? PyObject_Repr(inner) : NULL, *out = NULL;
    PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL, *gap = PyUnicode_FromString("\n    ");
    PyObject *body = lines && gap ? PyUnicode_Join(gap, lines) : NULL;
    if (body && tp_vmap_level_at(&level->mount))
        out = PyUnicode_FromFormat("BatchedTensor(lvl=%d, bdim=0, value=\n    %U\n)", number, body);
    else if (body)
        out = PyUnicode_FromFormat("GradTrackingTensor(lvl=%d, value=\n    %U\n)", number, body);
    Py_XDECREF(inner);
    Py_XDECREF(text);
    Py_XDECREF(lines);
    Py_XDECREF(gap);
    Py_XDECREF(body);
    return out;
}

/* A tensor of another class that was made a parameter says so around its own text, which is taken. */
static PyObject *as_parameter(PyObject *self, PyObject *text)
{
    PyObject *dict = ((tensor_object *)self)->dict, *mark = dict ? PyDict_GetItemString(dict, "_is_param") : NULL;
    if (mark == Py_True)
        Py_SETREF(text, PyUnicode_FromFormat("Parameter(%U)", text));
    return text;
}

PyObject *face_tensor_repr(PyObject *self)
{
    if (TP_UNLIKELY(face_overridden(self)))
        return face_override_method(self, "__repr__", NULL, 0, NULL);
    const tp_fake_mode *fake = tp_self.fake;
    if (TP_UNLIKELY(fake && fake->facts_only))              /* whatever asks, in C or Python: the text would be that of a stand-in */
        return capture_unsupported("the text of a tensor");
    tp_tensor *t = face_tensor(self);
    int number;
    tp_level *level = tp_level_of(t, &number);
    if (level && (void *)level != (void *)tp_jvp_level_open())      /* a dual tensor prints as it is, with its tangent */
        return wrapper_repr(t, level, number);
    tp_print_options options = current_options();
    tp_text out = { 0 };
    suffixes s = { .count = 0 };
    char named[128];
    const char *prefix = prefix_of(self);
    if (!prefix) {
        snprintf(named, sizeof named, "%s(", Py_TYPE(self)->tp_name);
        prefix = named;
    }
    collect(t, &s);
    PyObject *tangent = tangent_text(t);
    if (tangent && !(s.item[s.count++] = PyUnicode_AsUTF8(tangent)))
        Py_CLEAR(tangent);
    if (!tangent && PyErr_Occurred())
        return NULL;
    if (!has_no_body(t)) {
        tp_tensor_print(t, &options, prefix, s.item, s.count, &out);
    } else {
        tp_text_add(&out, "%s...", prefix);
        for (int i = 0; i < s.count; i++)
            tp_text_add(&out, ", %s", s.item[i]);
        tp_text_add(&out, ")");
    }
    PyObject *text = out.failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(tp_text_read(&out), (Py_ssize_t)out.length);
    tp_text_fini(&out);
    Py_XDECREF(tangent);
    return prefix == named && text ? as_parameter(self, text) : text;
}

/* ---- options ---- */
static bool read_option(PyObject *options, const char *name, int64_t *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (!value || value == Py_None)
        return true;
    if (PyFloat_Check(value)) {
        *out = PyFloat_AS_DOUBLE(value) > 0x1p62 ? INT64_MAX : (int64_t)PyFloat_AS_DOUBLE(value);
        return true;
    }
    return face_read_int(value, out);
}

static PyObject *set_options(PyObject *module, PyObject *options)
{
    (void)module;
    tp_print_options o = TP_PRINT_DEFAULTS;
    int64_t threshold = o.threshold, precision = o.precision, edges = o.edge_items, width = o.line_width;
    if (!PyDict_Check(options))
        return PyErr_Format(PyExc_TypeError, "a dict of options is wanted");
    if (!read_option(options, "threshold", &threshold) || !read_option(options, "precision", &precision) ||
        !read_option(options, "edgeitems", &edges) || !read_option(options, "linewidth", &width))
        return NULL;
    PyObject *scientific = PyDict_GetItemString(options, "sci_mode");
    bool on;
    if (!face_read_truth(scientific, &on))
        return NULL;
    o = (tp_print_options){ threshold, (int)precision, (int)edges, (int)width, !scientific || scientific == Py_None ? -1 : on };
    face.print_options = o;
    face.print_options_set = true;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_set_print_options", set_options, METH_O, NULL },
    { 0 },
};

bool face_print_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
