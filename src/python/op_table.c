/* op_table.c - the op table as Python sees it: what every op is, and the samples its entry gives.
 *
 * For tests that run every op, and for op_db. `_op_table()` gives a list of dicts; a sample is ("tensor", dtype, sizes,
 * layout), ("elements", [numbers]), ("set", name) or ("value", v). */
#include "ops/try.h"
#include "python/face.h"

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
    return Py_BuildValue("{ss ss ss ss ss ss sN sN sO sO sz sz}", "space", op->space, "name", op->name, "overload", overload_of(op),
                         "schema", op->schema, "kind", kind[op->kind], "variant", variant[op->variant], "args", names, "tries", tries_of(op),
                         "differentiable", op->backward ? Py_True : Py_False, "random", op->flags & TP_OP_RNG ? Py_True : Py_False,
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

static PyMethodDef functions[] = {
    { "_op_table", op_table, METH_NOARGS, "what every op is, and the samples its entry gives" },
    { NULL },
};

bool face_op_table_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
