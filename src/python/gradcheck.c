/* gradcheck.c - Jacobians by differences and by dual tensors, for autograd.gradcheck.
 *
 * One direction at a time: the function is called at x ± eps v, or at a dual tensor with tangent v, and what changes is one row
 * for each differentiable output. A complex output counts as real and imaginary parts; of a complex input the row is the change
 * along 1 plus i times that along i, which is what gradients are here. */
#include "python/transforms.h"

#include "trace/jvp_level.h"

typedef struct check {
    PyObject *function, *inputs;        /* borrowed */
    Py_ssize_t index;                   /* of the input that moves */
    double     eps;                     /* 0: by dual tensors */
} check;

/* The function with one input replaced; takes `x`. */
static PyObject *called(const check *c, PyObject *x)
{
    PyObject *args = x ? PySequence_List(c->inputs) : NULL, *tuple = NULL, *out = NULL;
    if (args && PyList_SetItem(args, c->index, x) == 0 && (tuple = PyList_AsTuple(args)))
        out = PyObject_CallObject(c->function, tuple);
    else if (x && !args)
        Py_DECREF(x);
    Py_XDECREF(args);
    Py_XDECREF(tuple);
    return out;
}

/* An output as numbers in a row; NULL without an exception: nothing is differentiated there. Borrows. */
static PyObject *row_of(PyObject *o)
{
    if (!face_is_tensor(o) || !tp_dtype_is_inexact((tp_dtype)face_tensor(o)->dtype))
        return NULL;
    if (!tp_dtype_is_complex((tp_dtype)face_tensor(o)->dtype))
        return face_invoke(o, "reshape", Py_BuildValue("(i)", -1));
    PyObject *plain = face_invoke(o, "resolve_conj", PyTuple_New(0)), *pairs = plain ? face_call_function("view_as_real", Py_BuildValue("(N)", plain), NULL) : NULL;
    PyObject *out = pairs ? face_invoke(pairs, "reshape", Py_BuildValue("(i)", -1)) : NULL;
    Py_XDECREF(pairs);
    return out;
}

/* One row for each differentiable output, a list; takes `outputs`. */
static PyObject *rows_of(PyObject *outputs)
{
    PyObject *all = !outputs ? NULL : PyTuple_Check(outputs) || PyList_Check(outputs) ? PySequence_Tuple(outputs) : PyTuple_Pack(1, outputs);
    PyObject *out = all ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(all); i++) {
        PyObject *row = row_of(PyTuple_GET_ITEM(all, i));
        if ((!row && PyErr_Occurred()) || (row && PyList_Append(out, row) < 0))
            Py_CLEAR(out);
        Py_XDECREF(row);
    }
    Py_XDECREF(outputs);
    Py_XDECREF(all);
    return out;
}

/* ---- along one direction ---- */
static PyObject *moved(const check *c, PyObject *v, double by)
{
    PyObject *x = PyTuple_GET_ITEM(c->inputs, c->index), *plain = face_invoke(x, "detach", PyTuple_New(0));
    PyObject *step = plain ? face_invoke(v, "mul", Py_BuildValue("(d)", by)) : NULL, *out = step ? face_invoke(plain, "add", Py_BuildValue("(O)", step)) : NULL;
    Py_XDECREF(plain);
    Py_XDECREF(step);
    return out;
}

static PyObject *by_differences(const check *c, PyObject *v)
{
    PyObject *low = rows_of(called(c, moved(c, v, -c->eps))), *high = low ? rows_of(called(c, moved(c, v, c->eps))) : NULL;
    PyObject *out = high ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(high) && i < PyList_GET_SIZE(low); i++) {
        PyObject *change = face_invoke(PyList_GET_ITEM(high, i), "sub", Py_BuildValue("(O)", PyList_GET_ITEM(low, i)));
        PyObject *slope = change ? face_invoke(change, "div", Py_BuildValue("(d)", 2 * c->eps)) : NULL;
        if (!slope || PyList_Append(out, slope) < 0)
            Py_CLEAR(out);
        Py_XDECREF(change);
        Py_XDECREF(slope);
    }
    Py_XDECREF(low);
    Py_XDECREF(high);
    return out;
}

/* The rows of the tangents; zeros where an output has none. */
static PyObject *tangent_rows(tp_jvp_level *l, PyObject *outputs)
{
    PyObject *all = PyTuple_Check(outputs) || PyList_Check(outputs) ? PySequence_List(outputs) : Py_BuildValue("[O]", outputs);
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all); i++) {
        PyObject *o = PyList_GET_ITEM(all, i), *slope = NULL;
        tp_tensor *tangent = NULL;
        if (!face_is_tensor(o) || !tp_dtype_is_inexact((tp_dtype)face_tensor(o)->dtype))
            continue;
        if (!tp_jvp_level_tangent(l, face_tensor(o), &tangent))
            slope = face_raise();
        else
            slope = tangent ? face_wrap(tangent) : face_call_function("zeros_like", Py_BuildValue("(O)", o), NULL);
        if (!slope || PyList_SetItem(all, i, slope) < 0)
            Py_CLEAR(all);
    }
    return all ? rows_of(all) : NULL;
}

static PyObject *by_dual(const check *c, PyObject *v)
{
    PyObject *x = face_invoke(PyTuple_GET_ITEM(c->inputs, c->index), "detach", PyTuple_New(0)), *out = NULL;
    tp_jvp_level *l = NULL;
    if (x && tp_jvp_level_open())
        PyErr_SetString(PyExc_RuntimeError, "Nested forward mode AD is not supported at the moment");
    else if (x && !(l = tp_jvp_level_new(false)))
        (void)face_raise();
    if (l) {
        tp_jvp_level_enter(l);
        PyObject *dual = face_wrap_or_raise(tp_jvp_level_dual(l, face_tensor(x), face_tensor(v))), *outputs = called(c, dual);
        out = outputs ? tangent_rows(l, outputs) : NULL;
        Py_XDECREF(outputs);
        tp_jvp_level_leave(l);
        tp_jvp_level_free(l);
    }
    Py_XDECREF(x);
    return out;
}

static PyObject *along(const check *c, PyObject *v)
{
    return c->eps != 0 ? by_differences(c, v) : by_dual(c, v);
}

/* ---- along all of them ---- */

static PyObject *along_unit(const check *c, PyObject *x, int64_t k, double real, double imaginary)
{
    PyObject *number = imaginary != 0 ? PyComplex_FromDoubles(real, imaginary) : PyFloat_FromDouble(real), *v = number ? face_unit_vector(x, k, number) : NULL;
    PyObject *out = v ? along(c, v) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(v);
    return out;
}

/* The k-th row for each output. */
static PyObject *kth_rows(const check *c, int64_t k)
{
    PyObject *x = PyTuple_GET_ITEM(c->inputs, c->index), *real = along_unit(c, x, k, 1, 0);
    if (!real || !tp_dtype_is_complex((tp_dtype)face_tensor(x)->dtype))
        return real;
    PyObject *turned = along_unit(c, x, k, 0, 1);
    for (Py_ssize_t i = 0; turned && real && i < PyList_GET_SIZE(real) && i < PyList_GET_SIZE(turned); i++) {
        PyObject *both = face_call_function("complex", Py_BuildValue("(OO)", PyList_GET_ITEM(real, i), PyList_GET_ITEM(turned, i)), NULL);
        if (!both || PyList_SetItem(real, i, both) < 0)
            Py_CLEAR(real);
    }
    if (!turned)
        Py_CLEAR(real);
    Py_XDECREF(turned);
    return real;
}

/* For each output the matrix of its rows, [elements of the input, elements of the output]. */
static PyObject *matrices(const check *c)
{
    int64_t count = face_tensor(PyTuple_GET_ITEM(c->inputs, c->index))->numel;
    PyObject *all = PyList_New(0), *out = NULL;
    for (int64_t k = 0; all && k < count; k++) {
        PyObject *rows = kth_rows(c, k);
        for (Py_ssize_t i = 0; rows && all && i < PyList_GET_SIZE(rows); i++) {
            PyObject *fresh = i == PyList_GET_SIZE(all) ? PyList_New(0) : NULL;
            if ((fresh && PyList_Append(all, fresh) < 0) || PyList_Append(PyList_GET_ITEM(all, i), PyList_GET_ITEM(rows, i)) < 0)
                Py_CLEAR(all);
            Py_XDECREF(fresh);
        }
        if (!rows)
            Py_CLEAR(all);
        Py_XDECREF(rows);
    }
    out = all ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(all); i++) {
        PyObject *whole = face_call_function("stack", Py_BuildValue("(O)", PyList_GET_ITEM(all, i)), NULL);
        if (!whole || PyList_Append(out, whole) < 0)
            Py_CLEAR(out);
        Py_XDECREF(whole);
    }
    Py_XDECREF(all);
    return out;
}

static bool read_check(PyObject *all, check *c, PyObject **v)
{
    *v = NULL;
    if (!PyArg_ParseTuple(all, "OO!nd|O", &c->function, &PyTuple_Type, &c->inputs, &c->index, &c->eps, v))
        return false;
    bool ok = c->index >= 0 && c->index < PyTuple_GET_SIZE(c->inputs) && face_is_tensor(PyTuple_GET_ITEM(c->inputs, c->index)) && (!*v || face_is_tensor(*v));
    if (!ok)
        PyErr_SetString(PyExc_TypeError, "an input that is a tensor is wanted");
    return ok;
}

/* _gradcheck_jacobian(function, inputs, index, eps): matrices by differences, by dual tensors when eps is 0 */
static PyObject *gradcheck_jacobian(PyObject *module, PyObject *all)
{
    check c;
    PyObject *v;
    (void)module;
    return read_check(all, &c, &v) ? matrices(&c) : NULL;
}

/* _gradcheck_along(function, inputs, index, eps, v): the rows along v alone */
static PyObject *gradcheck_along(PyObject *module, PyObject *all)
{
    check c;
    PyObject *v;
    (void)module;
    return read_check(all, &c, &v) && v ? along(&c, v) : NULL;
}

/* _gradcheck_rows(outputs): what is differentiated of them, as real numbers in rows */
static PyObject *gradcheck_rows(PyObject *module, PyObject *outputs)
{
    (void)module;
    return rows_of(Py_NewRef(outputs));
}

static PyMethodDef functions[] = {
    { "_gradcheck_jacobian", gradcheck_jacobian, METH_VARARGS, NULL },
    { "_gradcheck_along", gradcheck_along, METH_VARARGS, NULL },
    { "_gradcheck_rows", gradcheck_rows, METH_O, NULL },
    { 0 },
};

bool face_gradcheck_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
