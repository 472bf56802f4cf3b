/* library.c - ops that a program defines: torch.library.define and impl.
 *
 * A run-time op is a tp_op like any other; its kernels are Python callables kept behind op->rare->user, one for each dispatch
 * key that a program registers: "CPU", "Meta", "Autograd", "CompositeImplicitAutograd" … */
#include <string.h>

#include "ops/derived.h"
#include "ops/registry.h"
#include "python/vmap.h"

/* ---- running a Python kernel ---- */
static PyObject *kernel_for(const tp_op *op, const char *key)
{
    PyObject *kernels = op->rare->user;
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

static bool shares_memory(tp_value v, const tp_storage *with)
{
    if (v.tag == TP_TENSOR)
        return v.tensor->storage == with;
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (shares_memory(v.list->item[i], with))
            return true;
    return false;
}

static bool is_fresh(const tp_op *op, const tp_value *arg, const tp_value *result, tp_value v, int number)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!is_fresh(op, arg, result, v.list->item[i], number))
            return false;
    if (v.tag != TP_TENSOR || !v.tensor->storage)
        return true;
    for (int i = 0; i < op->arg_count; i++)
        if (shares_memory(arg[i], v.tensor->storage))
            return false;
    for (int i = 0; i < number; i++)
        if (shares_memory(result[i], v.tensor->storage))
            return false;
    return true;
}

static bool check_fresh(const tp_op *op, PyObject *kernel, const tp_value *arg, tp_value *result)
{
    for (int i = 0; i < op->result_count; i++)
        if (!is_fresh(op, arg, result, result[i], i)) {
            PyObject *module = PyObject_GetAttrString(kernel, "__module__");
            PyErr_Format(PyExc_RuntimeError, "%s (with implementation in %V): The output of this custom operator (1) must not also be an input to this "
                         "custom operator and (2) may not alias any inputs to this custom operator or other returns. The most common way to trigger "
                         "this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending "
                         "output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y.",
                         op->name, module && PyUnicode_Check(module) ? module : NULL, "a callable");
            Py_XDECREF(module);
            return tp_call_take_back(op, result);
        }
    return true;
}

/* `kernel` is borrowed; NULL: the error is set already. */
static bool call_kernel(const tp_op *op, PyObject *kernel, const tp_value *arg, tp_value *result)
{
    PyObject *given = NULL, *kwargs = kernel ? PyDict_New() : NULL, *args = kwargs ? positional(op, arg, kwargs) : NULL;
    Py_XINCREF(kernel);
    if (args)
        given = PyObject_Call(kernel, args, kwargs);
    if (given && op->result_count == 0 && given != Py_None) {
        PyErr_Format(PyExc_RuntimeError, "Expected PythonKernelHolder for %s::%s to return None but it returned something else instead.", op->space, op->name);
        Py_CLEAR(given);
    }
    bool ok = given && face_unbox_results(op, given, result) && (!(op->flags & TP_OP_UNALIASED) || check_fresh(op, kernel, arg, result));
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(given);
    Py_XDECREF(kernel);
    return ok || face_foreign();
}

static bool run_python(const tp_op *op, const tp_value *arg, tp_value *result)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *kernel = choose_kernel(op, arg);
    if (!kernel)
        PyErr_Format(PyExc_NotImplementedError, is_meta_call(op, arg) ? "%s::%s: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
                     "registered. You may have run into this message while using an operator with PT2 compilation APIs (torch.compile/torch.export); in order to "
                     "use this operator with those APIs you'll need to add a fake impl. Please see the following for next steps:  "
                     "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
                     : "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), or no kernel for %s::%s is registered for this device",
                     op->space, op->name);
    bool ok = call_kernel(op, kernel, arg, result);
    PyGILState_Release(state);
    return ok;
}

/* A kernel for all devices needs no other on fake tensors. */
static PyObject *fake_kernel(const tp_op *op)
{
    PyObject *kernel = kernel_for(op, "Meta");
    return kernel ? kernel : kernel_for(op, "CompositeExplicitAutograd");
}

static bool run_fake(const tp_op *op, const tp_value *arg, tp_value *result)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool ok = call_kernel(op, fake_kernel(op), arg, result);
    PyGILState_Release(state);
    return ok;
}

static bool run_autograd(const tp_op *op, const tp_value *arg, tp_value *result)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool ok = call_kernel(op, kernel_for(op, "Autograd"), arg, result);
    PyGILState_Release(state);
    return ok;
}

/* ---- layers off: `with torch._C._AutoDispatchBelowAutograd():`, _DisableTorchDispatch, which shuts
 * Python's classes and modes, and _RestorePythonTLSSnapshot, which opens inside a handler what was shut for it ---- */
typedef struct below_object {
    PyObject_HEAD
    uint32_t allowed;           /* as it was */
    bool     entered;
} below_object;

static PyObject *enter_with(PyObject *self, uint32_t allowed)
{
    below_object *o = (below_object *)self;
    o->allowed = tp_self.allowed;
    o->entered = true;
    tp_self.allowed = allowed;
    return Py_NewRef(self);
}

#define ENTER(name, allowed) static PyObject *name(PyObject *self, PyObject *unused) { (void)unused; return enter_with(self, allowed); }
ENTER(below_enter, tp_self.allowed & (TP_LAYER_BIT(TP_LAYER_GRAD) - 1))
ENTER(plain_enter, tp_self.allowed & ~TP_LAYER_BIT(TP_LAYER_DISPATCH))
ENTER(anew_enter, TP_ALL_LAYERS)

static PyObject *below_exit(PyObject *self, PyObject *unused)
{
    below_object *o = (below_object *)self;
    (void)unused;
    if (o->entered)
        tp_self.allowed = o->allowed;
    o->entered = false;
    Py_RETURN_FALSE;
}

static PyMethodDef below_methods[] = {
    { "__enter__", below_enter, METH_NOARGS, NULL },
    { "__exit__", below_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot below_slots[] = { { Py_tp_methods, below_methods }, { 0, NULL } };
static PyMethodDef plain_methods[] = {
    { "__enter__", plain_enter, METH_NOARGS, NULL },
    { "__exit__", below_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot plain_slots[] = { { Py_tp_methods, plain_methods }, { 0, NULL } };
static PyType_Spec plain_spec = { "taper._C._DisableTorchDispatch", sizeof(below_object), 0, Py_TPFLAGS_DEFAULT, plain_slots };
static PyMethodDef anew_methods[] = {
    { "__enter__", anew_enter, METH_NOARGS, NULL },
    { "__exit__", below_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot anew_slots[] = { { Py_tp_methods, anew_methods }, { 0, NULL } };
static PyType_Spec anew_spec = { "taper._C._RestorePythonTLSSnapshot", sizeof(below_object), 0, Py_TPFLAGS_DEFAULT, anew_slots };
static PyType_Spec below_spec = { "taper._C._AutoDispatchBelowAutograd", sizeof(below_object), 0, Py_TPFLAGS_DEFAULT, below_slots };

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
    int unaliased = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss|p", &space, &schema, &unaliased))
        return NULL;
    tp_op *op = tp_op_define(space, schema);
    if (!op)
        return face_raise();
    op->run = run_python;
    op->flags |= unaliased ? TP_OP_UNALIASED : 0;
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

/* A kernel for all devices and with its gradients from its pieces makes a composite, unless another is nearer. */
static void choose_way(tp_op *op)
{
    bool whole = kernel_for(op, "CPU") || kernel_for(op, "CompositeExplicitAutograd") || kernel_for(op, "Autograd");
    bool pieces = kernel_for(op, "CompositeImplicitAutograd") && !whole;
    op->kind = pieces ? TP_LIKE_COMPOSITE : TP_LIKE_OPAQUE;
    op->open = pieces ? run_python : NULL;
    tp_op_rare(op)->autograd = kernel_for(op, "Autograd") ? run_autograd : NULL;
    tp_op_rare(op)->fake = fake_kernel(op) ? run_fake : NULL;
    if (kernel_for(op, "FuncTorchBatched"))
        op->vmap = batch_python;
    else if (op->vmap == batch_python)
        op->vmap = NULL;
    op->layers |= op->rare->autograd ? TP_LAYER_BIT(TP_LAYER_GRAD) : 0; /* whether or not anything wants a gradient */
}

static PyObject *implement(PyObject *module, PyObject *args)
{
    PyObject *overload, *kernel;
    const char *key;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsO", &overload, &key, &kernel))
        return NULL;
    tp_op *op = runtime_op(overload);
    if (!op || (!op->rare->user && !(tp_op_rare(op)->user = PyDict_New())))
        return NULL;
    bool autograd = !strncmp(key, "Autograd", 8);
    if (PyDict_SetItemString(op->rare->user, autograd ? "Autograd" : key, kernel) < 0)
        return NULL;
    choose_way(op);
    Py_RETURN_NONE;
}

/* _library_remove(overload, key, kernel): takes the kernel back, unless another has come in its place. */
static PyObject *take_back(PyObject *module, PyObject *args)
{
    PyObject *overload, *key, *kernel;
    (void)module;
    if (!PyArg_ParseTuple(args, "OUO", &overload, &key, &kernel))
        return NULL;
    tp_op *op = runtime_op(overload);
    if (!op)
        return NULL;
    PyObject *kept = PyUnicode_FromString("Autograd");
    bool autograd = kept && PyUnicode_Tailmatch(key, kept, 0, PyUnicode_GET_LENGTH(key), -1) > 0;
    PyObject *name = autograd ? kept : key, *there = op->rare->user && kept ? PyDict_GetItemWithError(op->rare->user, name) : NULL;
    bool ok = kept && !PyErr_Occurred() && (there != kernel || PyDict_DelItem(op->rare->user, name) == 0);
    Py_XDECREF(kept);
    if (ok && there == kernel)
        choose_way(op);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *kernels_of(PyObject *module, PyObject *overload)
{
    (void)module;
    const tp_op *op = face_overload_op(overload);
    return Py_NewRef(op && (op->flags & TP_OP_RUNTIME) && op->rare->user ? (PyObject *)op->rare->user : Py_None);
}

static PyObject *undefine(PyObject *module, PyObject *overload)
{
    (void)module;
    tp_op *op = runtime_op(overload);
    if (!op)
        return NULL;
    PyObject *kernels = op->rare->user;
    tp_op_rare(op)->user = NULL;
    Py_XDECREF(kernels);
    for (int how = 0; how < TP_DERIVATION_COUNT; how++) {
        const tp_op *derived = tp_op_derived((tp_derivation)how, op);
        if (derived)
            face_forget_overload(derived);
    }
    face_forget_overload(op);
    choose_way(op);                     /* without kernels a call is an error, and none stays of what they asked for */
    return tp_op_find(op->space, op->name, op->overload) != op || tp_op_retire(op) ? Py_NewRef(Py_None) : face_raise();
}

static PyMethodDef functions[] = {
    { "_library_define", define, METH_VARARGS, NULL },
    { "_library_impl", implement, METH_VARARGS, NULL },
    { "_library_kernels", kernels_of, METH_O, NULL },
    { "_library_undefine", undefine, METH_O, NULL },
    { "_library_remove", take_back, METH_VARARGS, NULL },
    { 0 },
};

bool face_library_init(PyObject *module)
{
    static PyType_Spec *const guards[] = { &below_spec, &plain_spec, &anew_spec };
    bool ok = true;
    for (size_t i = 0; ok && i < TP_COUNT(guards); i++) {
        PyObject *type = PyType_FromSpec(guards[i]);
        ok = type && PyModule_AddObjectRef(module, strrchr(guards[i]->name, '.') + 1, type) == 0;
        Py_XDECREF(type);
    }
    return ok && PyModule_AddFunctions(module, functions) == 0;
}
