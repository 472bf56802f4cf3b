/* optimizer_step.c - what every optimiser does with a list of parameters, without a Python loop: gathering gradients,
 * letting them go, and adding a scaled list.
 *
 * Nothing here computes: each update is a call of the op, which every layer sees. Plain tensors are read and called
 * directly; where Python may want to see a step (a function mode, a subclass) it is made by name. */
#include "grad/tape.h"
#include "python/face.h"

/* Lists may change under us while Python code runs: an item is counted while it is used, and looked up when its turn comes. */
static PyObject *item_at(PyObject *list, Py_ssize_t i)
{
    return i < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, i)) : NULL;
}

static bool is_plain(PyObject *tensor)
{
    return face_is_fast(tensor) && !tp_self.modes;
}

/* Groups may be edited from outside: any iterable serves. */
static PyObject *as_list(PyObject *o)
{
    return PyList_Check(o) ? Py_NewRef(o) : PySequence_List(o);
}

/* ---- gradients ---- */

/* The .grad of a parameter; one that is no leaf may have to warn. */
static PyObject *gradient_of(PyObject *parameter)
{
    if (!is_plain(parameter) || !tp_is_leaf(face_tensor(parameter)))
        return PyObject_GetAttrString(parameter, "grad");
    const tp_autograd *a = face_tensor(parameter)->autograd;
    return a && a->grad ? face_wrap(tp_tensor_ref(a->grad)) : Py_NewRef(Py_None);
}

/* _gather_gradients(parameters) -> (those that have a gradient, their gradients) */
static PyObject *gather_gradients(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *parameters = as_list(given), *having = PyList_New(0), *gradients = PyList_New(0), *parameter;
    bool ok = parameters && having && gradients;
    for (Py_ssize_t i = 0; ok && (parameter = item_at(parameters, i)); i++) {
        PyObject *grad = gradient_of(parameter);
        ok = grad && (grad == Py_None || (PyList_Append(having, parameter) == 0 && PyList_Append(gradients, grad) == 0));
        Py_XDECREF(grad);
        Py_DECREF(parameter);
    }
    PyObject *both = ok ? PyTuple_Pack(2, having, gradients) : NULL;
    Py_XDECREF(parameters);
    Py_XDECREF(having);
    Py_XDECREF(gradients);
    return both;
}

static bool drop_one(PyObject *parameter)
{
    if (!is_plain(parameter))
        return PyObject_SetAttrString(parameter, "grad", Py_None) == 0;
    return tp_set_grad(face_tensor(parameter), NULL) || face_raise();
}

/* _drop_gradients(parameters): each .grad becomes None. */
static PyObject *drop_gradients(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *parameters = as_list(given), *parameter;
    bool ok = parameters != NULL;
    for (Py_ssize_t i = 0; ok && (parameter = item_at(parameters, i)); i++) {
        ok = drop_one(parameter);
        Py_DECREF(parameter);
    }
    Py_XDECREF(parameters);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- updates ---- */
static bool add_by_name(PyObject *tensor, PyObject *other, PyObject *alpha)
{
    PyObject *method = PyObject_GetAttrString(tensor, "add_"), *args = PyTuple_Pack(1, other);
    PyObject *keywords = PyDict_New(), *done = NULL;
    if (method && args && keywords && PyDict_SetItemString(keywords, "alpha", alpha) == 0)
        done = PyObject_Call(method, args, keywords);
    Py_XDECREF(method);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    Py_XDECREF(done);
    return done != NULL;
}

static bool add_scaled(PyObject *tensor, PyObject *other, PyObject *alpha)
{
    const tp_op *add = face.op_add_inplace;
    if (!add || !is_plain(tensor) || !is_plain(other) || !PyFloat_CheckExact(alpha))
        return add_by_name(tensor, other, alpha);
    tp_value result, arg[3] = { tp_of_tensor(face_tensor(tensor)), tp_of_tensor(face_tensor(other)),
                                tp_float(PyFloat_AS_DOUBLE(alpha)) };
    if (!tp_call(add, arg, &result))
        return face_raise();
    tp_value_unref(result);
    return true;
}

/* _add_scaled_(tensors, others, alpha): tensor.add_(other, alpha=alpha), one pair after another. */
static PyObject *add_scaled_lists(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "_add_scaled_() takes 3 arguments");
    PyObject *tensors = as_list(args[0]), *others = as_list(args[1]);
    bool ok = tensors && others, more = true;
    for (Py_ssize_t i = 0; ok && more; i++) {
        PyObject *tensor = item_at(tensors, i), *other = item_at(others, i);
        more = tensor && other;
        ok = !more || add_scaled(tensor, other, args[2]);
        Py_XDECREF(tensor);
        Py_XDECREF(other);
    }
    Py_XDECREF(tensors);
    Py_XDECREF(others);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    { "_gather_gradients", gather_gradients, METH_O, NULL },
    { "_drop_gradients", drop_gradients, METH_O, NULL },
    { "_add_scaled_", (PyCFunction)(void (*)(void))add_scaled_lists, METH_FASTCALL, NULL },
    { NULL },
};

bool face_optimizer_init(PyObject *module)
{
    face.op_add_inplace = tp_op_find("aten", "add_", "Tensor");
    return PyModule_AddFunctions(module, functions) == 0;
}
