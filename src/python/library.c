/* library.c - ops that a program defines: torch.library.define and impl.
 *
 * A run-time op is a tp_op like any other; its kernels are Python callables kept behind op->user, one for each dispatch
 * key that a program registers: "CPU", "Meta", "Autograd", "CompositeImplicitAutograd" … */
#include <string.h>

#include "python/vmap.h"

/* ---- running a Python kernel ---- */
static PyObject *kernel_for(const tp_op *op, const char *key)
{
    PyObject *kernels = op->user;
    return kernels ? PyDict_GetItemString(kernels, key) : NULL;
}

static bool is_meta_call(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && arg[i].tensor->device.type != TP_CPU)
            return true;
    return false;
}

static PyObject *choose_kernel(const tp_op *op, const tp_value *arg)
{
    static const char *const cpu[] = { "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "" };
    static const char *const meta[] = { "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "" };
    const char *const *keys = is_meta_call(op, arg) ? meta : cpu;
    for (; **keys; keys++) {
        PyObject *kernel = kernel_for(op, *keys);
        if (kernel)
            return kernel;
    }
    return NULL;
}

static PyObject *positional(const tp_op *op, const tp_value *arg, PyObject *kwargs)
{
    int count = 0;
    while (count < op->arg_count && !op->arg[count].keyword_only)
        count++;
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < op->arg_count; i++) {
        PyObject *item = face_from_value(tp_value_ref(arg[i]));
        if (!item) {
            Py_CLEAR(tuple);
        } else if (i < count) {
            PyTuple_SET_ITEM(tuple, i, item);
        } else {
            if (PyDict_SetItemString(kwargs, op->arg[i].name, item) < 0)
                Py_CLEAR(tuple);
            Py_DECREF(item);
        }
    }
    return tuple;
}

static bool run_python(const tp_op *op, const tp_value *arg, tp_value *result)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *kernel = Py_XNewRef(choose_kernel(op, arg)), *given = NULL;
    bool ok = false;
    if (!kernel) {
        PyErr_Format(PyExc_NotImplementedError, "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), or no kernel for %s::%s is registered for this device", op->space, op->name);
    } else {
        PyObject *kwargs = PyDict_New(), *args = kwargs ? positional(op, arg, kwargs) : NULL;
        if (args)
            given = PyObject_Call(kernel, args, kwargs);
        Py_XDECREF(args);
        Py_XDECREF(kwargs);
    }
    if (given)
        ok = face_unbox_results(op, given, result);
    Py_XDECREF(given);
    Py_XDECREF(kernel);
    PyGILState_Release(state);
    return ok || face_foreign();
}

/* ---- batching ---- */
/* The result of a rule with its batch in front. */
static bool to_front(PyObject *dims, tp_value *v)
{
    tp_value moved;
    int64_t at;
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!to_front(dims, &v->list->item[i]))
            return false;
    if (v->tag != TP_TENSOR || dims == Py_None)
        return true;
    if (!face_read_int(dims, &at))
        return false;
    if (!tp_call(tp_op_find("aten", "movedim", "int"), (tp_value[]){ *v, tp_int(at), tp_int(0) }, &moved))
        return face_raise() != NULL;
    tp_value_unref(*v);
    *v = moved;
    return true;
}

/* What register_vmap was given: rule(info, in_dims, *args) gives (output, out_dims). */
static bool batch_python(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *rule = Py_XNewRef(kernel_for(op, "FuncTorchBatched")), *kwargs = PyDict_New(), *args = kwargs ? positional(op, arg, kwargs) : NULL;
    PyObject *dims = args ? PyTuple_New(PyTuple_GET_SIZE(args)) : NULL, *info = dims ? face_vmap_info(size, TP_RANDOM_ERROR) : NULL;
    for (Py_ssize_t i = 0; info && i < PyTuple_GET_SIZE(args); i++)
        PyTuple_SET_ITEM(dims, i, batched >> i & 1 ? PyLong_FromLong(0) : Py_NewRef(Py_None));
    PyObject *head = info ? PyTuple_Pack(2, info, dims) : NULL, *all = head ? PySequence_Concat(head, args) : NULL;
    PyObject *given = all && rule ? PyObject_Call(rule, all, kwargs) : NULL;
    bool ok = given && PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 2;
    if (given && !ok)
        PyErr_Format(PyExc_RuntimeError, "the vmap rule of %s::%s must give (output, out_dims)", op->space, op->name);
    ok = ok && face_unbox_results(op, PyTuple_GET_ITEM(given, 0), result);
    for (int i = 0; ok && i < op->result_count; i++) {
        PyObject *each = PyTuple_GET_ITEM(given, 1), *one = PyTuple_Check(each) && i < PyTuple_GET_SIZE(each) ? PyTuple_GET_ITEM(each, i) : each;
        if (!to_front(one, &result[i]))
            ok = tp_call_take_back(op, result);
    }
    Py_XDECREF(rule);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(dims);
    Py_XDECREF(info);
    Py_XDECREF(head);
    Py_XDECREF(all);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok || face_foreign();
}

/* ---- defining ---- */
static PyObject *define(PyObject *module, PyObject *args)
{
    const char *space, *schema;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &space, &schema))
        return NULL;
    tp_op *op = tp_op_define(space, schema);
    if (!op)
        return face_raise();
    op->run = run_python;
    op->user = NULL;
    return face_overload(op);
}

static tp_op *runtime_op(PyObject *o)
{
    const tp_op *op = face_overload_op(o);
    if (!op)
        PyErr_SetString(PyExc_TypeError, "an OpOverload is wanted");
    else if (!(op->flags & TP_OP_RUNTIME))
        PyErr_Format(PyExc_NotImplementedError, "replacing kernels of %s::%s, which is built in, is not implemented in Taper yet", op->space, op->name);
    return op && (op->flags & TP_OP_RUNTIME) ? (tp_op *)op : NULL;
}

static PyObject *implement(PyObject *module, PyObject *args)
{
    PyObject *overload, *kernel;
    const char *key;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsO", &overload, &key, &kernel))
        return NULL;
    tp_op *op = runtime_op(overload);
    if (!op || (!op->user && !(op->user = PyDict_New())))
        return NULL;
    if (PyDict_SetItemString(op->user, key, kernel) < 0)
        return NULL;
    if (strcmp(key, "FuncTorchBatched") == 0)
        op->vmap = batch_python;
    Py_RETURN_NONE;
}

static PyObject *kernels_of(PyObject *module, PyObject *overload)
{
    (void)module;
    const tp_op *op = face_overload_op(overload);
    return Py_NewRef(op && (op->flags & TP_OP_RUNTIME) && op->user ? (PyObject *)op->user : Py_None);
}

static PyObject *undefine(PyObject *module, PyObject *overload)
{
    (void)module;
    tp_op *op = runtime_op(overload);
    if (!op)
        return NULL;
    PyObject *kernels = op->user, *key = PyLong_FromVoidPtr(op);
    op->user = NULL;
    Py_XDECREF(kernels);
    if (!key || PyDict_DelItem(face.overloads, key) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
    tp_op_undefine(op);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_library_define", define, METH_VARARGS, NULL },
    { "_library_impl", implement, METH_VARARGS, NULL },
    { "_library_kernels", kernels_of, METH_O, NULL },
    { "_library_undefine", undefine, METH_O, NULL },
    { 0 },
};

bool face_library_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
