/* op_table.c - the op table as Python sees it: what every op is, and the samples its entry gives.
 *
 * For tests that run every op, and for op_db. `_op_table()` gives a list of dicts; a sample is ("tensor", dtype, sizes,
 * layout), ("elements", [numbers]), ("set", name) or ("value", v). */
#include <string.h>

#include "ops/dispatch.h"
#include "ops/try.h"
#include "python/face.h"
#include "tensor/generator.h"
#include "trace/samples.h"

static PyObject *sizes_of(const tp_sample *s)
{
    PyObject *list = PyList_New(s->count);
    for (int i = 0; list && i < s->count; i++)
        PyList_SET_ITEM(list, i, PyLong_FromLongLong(s->size[i]));
    return list;
}

static PyObject *elements_of(const tp_sample *s)
{
    PyObject *list = PyList_New(s->count);
    for (int i = 0; list && i < s->count; i++)
        PyList_SET_ITEM(list, i, PyFloat_FromDouble(s->element[i]));
    return list;
}

static PyObject *sample_object(const tp_sample *s)
{
    switch ((tp_sample_kind)s->kind) {
    case TP_SAMPLE_TENSOR:   return Py_BuildValue("(ssNz)", "tensor", tp_dtypes[s->dtype].name, sizes_of(s), s->name);
    case TP_SAMPLE_ELEMENTS: return Py_BuildValue("(sN)", "elements", elements_of(s));
    case TP_SAMPLE_SET:      return Py_BuildValue("(ss)", "set", s->name);
    case TP_SAMPLE_VALUE:    return Py_BuildValue("(sN)", "value", face_from_value(tp_value_ref(s->value)));
    }
    return NULL;
}

static PyObject *row_object(const tp_op *op, const tp_try_row *row)
{
    PyObject *samples = PyList_New(row->sample_count);
    for (int i = 0; samples && i < row->sample_count; i++) {
        PyObject *sample = sample_object(&row->sample[i]);
        if (!sample) {
            Py_DECREF(samples);
            return NULL;
        }
        PyList_SET_ITEM(samples, i, sample);
    }
    return samples ? Py_BuildValue("(sN)", op->arg[row->arg].name, samples) : NULL;
}

static PyObject *tries_of(const tp_op *op)
{
    PyObject *tries = PyList_New(op->try_count);
    for (int i = 0; tries && i < op->try_count; i++) {
        PyObject *rows = PyList_New(op->tries[i].row_count);
        for (int k = 0; rows && k < op->tries[i].row_count; k++) {
            PyObject *row = row_object(op, &op->tries[i].row[k]);
            if (!row) {
                Py_CLEAR(rows);
                break;
            }
            PyList_SET_ITEM(rows, k, row);
        }
        if (!rows) {
            Py_DECREF(tries);
            return NULL;
        }
        PyList_SET_ITEM(tries, i, rows);
    }
    return tries;
}

static const char *overload_of(const tp_op *op)
{
    return !op ? NULL : *op->overload ? op->overload : "default";
}

static PyObject *op_object(const tp_op *op)
{
    static const char *const kind[] = { "pointwise", "reduction", "scan", "rowwise", "channelwise", "contraction", "window", "indexed",
                                        "view", "metadata", "random", "factory", "composite", "opaque" };
    static const char *const variant[] = { "functional", "inplace", "out" };
    PyObject *names = PyList_New(op->arg_count);
    for (int i = 0; names && i < op->arg_count; i++)
        PyList_SET_ITEM(names, i, PyUnicode_FromString(op->arg[i].name));
    return Py_BuildValue("{ss ss ss sN ss ss sN sN si sO sO sz sz}", "space", op->space, "name", op->name, "overload", overload_of(op),
                         "schema", face_schema(op, ""), "kind", kind[op->kind], "variant", variant[op->variant], "args", names, "tries", tries_of(op),
                         "positional", (int)op->positional_count, "differentiable", op->gradient->backward ? Py_True : Py_False, "random", op->flags & TP_OP_RNG ? Py_True : Py_False,
                         "inplace", overload_of(op->inplace), "out", overload_of(op->out));
}

static bool add_op(const tp_op *op, void *user)
{
    PyObject *object = op_object(op);
    bool ok = object && PyList_Append(user, object) == 0;
    Py_XDECREF(object);
    return ok;
}

static PyObject *op_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *list = PyList_New(0);
    if (list)
        tp_op_each(add_op, list);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

/* ---- samples ---- */
enum { TP_SAMPLES_RESULTS = 16 };

static const tp_op *read_op(PyObject *args, const char *format, PyObject **dtype, int *fails)
{
    const char *name, *overload;
    if (!PyArg_ParseTuple(args, format, &name, &overload, dtype, fails))
        return NULL;
    const tp_op *op = tp_op_find("aten", name, strcmp(overload, "default") == 0 ? "" : overload);
    if (!op)
        PyErr_Format(PyExc_AttributeError, "no op aten::%s.%s", name, overload);
    return op;
}

static PyObject *arguments_object(const tp_op *op, int n, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS];
    if (!tp_samples_make(op, n, style, arg))
        return face_raise();
    PyObject *list = PyList_New(op->arg_count);
    for (int i = 0; i < op->arg_count; i++) {
        PyObject *item = list ? face_from_value(arg[i]) : NULL;
        if (!list)
            tp_value_unref(arg[i]);
        else if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* Runs a sample. 1: it runs; 0: it raises, the error is set; -1: no sample, the error is set. The generator is left as it was. */
static int try_sample(const tp_op *op, int n, const tp_sample_style *style)
{
    tp_value arg[TP_SAMPLES_ARGS], result[TP_SAMPLES_RESULTS];
    uint8_t state[TP_GENERATOR_STATE_BYTES];
    tp_generator *g = tp_generator_default();
    if (!g || op->result_count > TP_SAMPLES_RESULTS || !tp_samples_make(op, n, style, arg))
        return -1;
    tp_generator_get_state(g, state);
    bool runs = tp_call(op, arg, result);
    tp_values_unref(arg, op->arg_count);
    if (runs)
        tp_values_unref(result, op->result_count);
    return tp_generator_set_state(g, state, sizeof state) ? runs : -1;
}

/* The sample's arguments; with `fails`, those of a call that raises, and the exception. None: it is of the other kind. */
static PyObject *sample_of_kind(const tp_op *op, int n, const tp_sample_style *style, bool fails)
{
    int runs = try_sample(op, n, style);
    if (runs < 0)
        return face_raise();
    if (runs == fails)
        Py_RETURN_NONE;
    if (!fails)
        return arguments_object(op, n, style);
    face_raise();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *arguments = value ? arguments_object(op, n, style) : NULL;
    PyObject *pair = arguments ? Py_BuildValue("(NO)", arguments, value) : NULL;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return pair;
}

/* _op_samples(name, overload, dtype or None, fails): the calls of the op's rows, floats of that type, that run: a list of
 * arguments each; or those that raise: (arguments, exception). */
static PyObject *op_samples(PyObject *module, PyObject *args)
{
    int fails;
    PyObject *dtype;
    tp_sample_style style = TP_STYLE_PLAIN;
    tp_dtype d = TP_DTYPE_NONE;
    const tp_op *op = read_op(args, "ssOp", &dtype, &fails);
    (void)module;
    if (!op || (dtype != Py_None && !face_dtype_read(dtype, &d)))
        return NULL;
    style.dtype = (uint8_t)d;
    style.all = true;
    PyObject *all = PyList_New(0);
    for (int n = 0; all && n < tp_samples_count(op); n++) {
        PyObject *call = sample_of_kind(op, n, &style, fails);
        if (!call || (call != Py_None && PyList_Append(all, call) < 0))
            Py_CLEAR(all);
        Py_XDECREF(call);
    }
    return all;
}

/* _op_dtypes(name, overload): the types in which the op's first sample runs */
static PyObject *op_dtypes(PyObject *module, PyObject *args)
{
    const tp_op *op = read_op(args, "ss", NULL, NULL);
    PyObject *all = op ? PyList_New(0) : NULL;
    (void)module;
    for (int d = 0; all && d < TP_DTYPE_COUNT && tp_samples_count(op); d++) {
        tp_sample_style style = TP_STYLE_PLAIN;
        style.dtype = (uint8_t)d;
        style.all = true;
        if (try_sample(op, 0, &style) <= 0)
            continue;
        PyObject *object = face_dtype((tp_dtype)d);
        if (!object || PyList_Append(all, object) < 0)
            Py_CLEAR(all);
        Py_XDECREF(object);
    }
    return all;
}

static PyMethodDef functions[] = {
    { "_op_samples", op_samples, METH_VARARGS, "the calls that the rows of an op's entry make" },
    { "_op_dtypes", op_dtypes, METH_VARARGS, "the types in which an op's first sample runs" },
    { "_op_table", op_table, METH_NOARGS, "what every op is, and the samples its entry gives" },
    { NULL },
};

bool face_op_table_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
