/* dispatch_mode.c - __torch_dispatch__: the layer at which Python sees ops below autograd.
 *
 * Modes are asked first, innermost first, each with itself off the stack; then tensors whose class overrides dispatch,
 * subclasses before their bases. Inside, the layers above stay shut for the same op, as PyTorch has it. */
#include "python/face.h"
#include "trace/record.h"

static PyObject *boxed_args(const tp_op *op, const tp_value *arg, int from, int to)
{
    PyObject *tuple = PyTuple_New(to - from);
    for (int i = from; tuple && i < to; i++) {
        PyObject *item = face_from_value(tp_value_ref(arg[i]));
        (void)op;
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i - from, item);
    }
    return tuple;
}

bool face_show_args(const tp_op *op, const tp_value *arg, PyObject **args, PyObject **kwargs)
{
    int positional = 0, shown;
    while (positional < op->arg_count && !op->arg[positional].keyword_only)
        positional++;
    for (shown = positional; shown > 0; shown--) {
        const tp_arg *a = &op->arg[shown - 1];
        if (!a->fallback || !tp_value_equal(*a->fallback, arg[shown - 1]))
            break;
    }
    *args = boxed_args(op, arg, 0, shown);
    *kwargs = *args ? PyDict_New() : NULL;
    for (int i = positional; *kwargs && i < op->arg_count; i++) {
        if (op->arg[i].fallback && tp_value_equal(*op->arg[i].fallback, arg[i]))
            continue;
        PyObject *item = face_from_value(tp_value_ref(arg[i]));
        if (!item || PyDict_SetItemString(*kwargs, op->arg[i].name, item) < 0)
            Py_CLEAR(*kwargs);
        Py_XDECREF(item);
    }
    if (*kwargs)
        return true;
    Py_CLEAR(*args);
    return false;
}

/* ---- results ---- */
static bool unbox_one(const tp_arg *type, PyObject *o, tp_value *out)
{
    call_frame f;
    tp_value v;
    face_frame_init(&f);
    tp_arg any = *type;
    any.optional = true;
    int got = face_to_value(&f, &any, o, &v);
    if (got == 0 && type->type == TP_TYPE_TENSOR && !type->list)
        PyErr_Format(PyExc_RuntimeError, "Unable to cast %R to Tensor", o);
    else if (got == 0)
        got = face_guess_value(&f, o, &v);
    if (got > 0)
        *out = tp_value_ref(v);
    face_frame_fini(&f);
    return got > 0;
}

bool face_unbox_results(const tp_op *op, PyObject *given, tp_value *result)
{
    if (op->result_count == 0)
        return true;
    if (op->result_count == 1)
        return unbox_one(&op->result[0], given, &result[0]);
    if (!PySequence_Check(given)) {
        PyErr_Format(PyExc_RuntimeError, "Object of type '%s' is not an instance of 'sequence'", Py_TYPE(given)->tp_name);
        return false;
    }
    PyObject *items = face_items(given, "");
    bool ok = items && PySequence_Fast_GET_SIZE(items) == op->result_count;
    if (items && !ok)
        PyErr_Format(PyExc_RuntimeError, "%s::%s has %d results, got %zd", op->space, op->name, op->result_count, PySequence_Fast_GET_SIZE(items));
    int done = 0;
    for (; ok && done < op->result_count; done++)
        ok = unbox_one(&op->result[done], PySequence_Fast_ITEMS(items)[done], &result[done]);
    if (!ok && done > 0)
        tp_values_unref(result, (size_t)done - 1);
    Py_XDECREF(items);
    return ok;
}

/* ---- who is asked ---- */
static void collect(PyObject *o, call_frame *f)
{
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            collect(PySequence_Fast_ITEMS(o)[i], f);
        return;
    }
    if (!face_is_tensor(o) || !(face_overrides(o) & OVERRIDES_DISPATCH))
        return;
    int at = f->overloaded_count;
    for (int i = 0; i < f->overloaded_count; i++) {
        if (Py_TYPE(f->overloaded[i]) == Py_TYPE(o))
            return;
        if (at == f->overloaded_count && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(f->overloaded[i])))
            at = i;
    }
    if (f->overloaded_count == (int)TP_COUNT(f->overloaded))
        return;
    for (int i = f->overloaded_count; i > at; i--)
        f->overloaded[i] = f->overloaded[i - 1];
    f->overloaded[at] = o;
    f->overloaded_count++;
}

static PyObject *types_tuple(const call_frame *f)
{
    PyObject *types = PyTuple_New(f->overloaded_count);
    for (int i = 0; types && i < f->overloaded_count; i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(f->overloaded[i])));
    return types;
}

/* What a program registered for an op of its own and this class (torch.library.register_torch_dispatch); borrowed, may be NULL. */
static PyObject *registered(PyObject *overload, PyTypeObject *type)
{
    const tp_op *op = face_overload_op(overload);
    PyObject *kernels = op && (op->flags & TP_OP_RUNTIME) ? op->rare->user : NULL;
    PyObject *rules = kernels ? PyDict_GetItemString(kernels, "__torch_dispatch__") : NULL;
    return rules ? PyDict_GetItem(rules, (PyObject *)type) : NULL;
}

static PyObject *ask(PyObject *whom, PyObject *op, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *rule = registered(op, Py_TYPE(whom));
    if (rule)
        return PyObject_CallFunctionObjArgs(rule, face_is_tensor(whom) ? (PyObject *)Py_TYPE(whom) : whom, op, types, args, kwargs, NULL);
    PyObject *function = PyObject_GetAttr(whom, face.name_dispatch);
    PyObject *result = function ? PyObject_CallFunctionObjArgs(function, op, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}

static void note_stack(void)
{
    face_modes *m = tp_self.modes;
    bool any = m && m->dispatch && PyList_GET_SIZE(m->dispatch) > 0;
    if (any)
        tp_self.active |= TP_LAYER_BIT(TP_LAYER_DISPATCH);
    else
        tp_self.active &= ~TP_LAYER_BIT(TP_LAYER_DISPATCH);
}

static PyObject *ask_mode(PyObject *op, PyObject *types, PyObject *args, PyObject *kwargs)
{
    face_modes *m = tp_self.modes;
    PyObject *stack = Py_NewRef(m->dispatch);
    Py_ssize_t n = PyList_GET_SIZE(stack);
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(stack, n - 1)), *result = NULL;
    if (PyList_SetSlice(stack, n - 1, n, NULL) == 0) {
        note_stack();
        result = ask(mode, op, types, args, kwargs);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        m = face_modes_for_writing();       /* a mode that came and went inside has tidied them away */
        if (m && !m->dispatch)
            m->dispatch = Py_NewRef(stack);
        if (!m || PyList_Append(m->dispatch, mode) < 0)
            PyErr_Clear();
        note_stack();
        PyErr_Restore(type, value, traceback);
    }
    Py_DECREF(mode);
    Py_DECREF(stack);
    return result;
}

static void refuse(const tp_op *op, PyObject *mode, const call_frame *f)
{
    PyObject *who = mode ? PyUnicode_FromFormat("  - mode object %R\n", mode) : PyUnicode_FromString("");
    for (int i = 0; who && i < f->overloaded_count; i++)
        PyUnicode_AppendAndDel(&who, PyUnicode_FromFormat("  - tensor subclass %R\n", (PyObject *)Py_TYPE(f->overloaded[i])));
    if (who)
        PyErr_Format(PyExc_TypeError, "Multiple dispatch failed for '%s._ops.%s.%s.%s'; all __torch_dispatch__ handlers returned NotImplemented:\n\n%U\n"
                     "For more information, try re-running with TORCH_LOGS=not_implemented", face.package, op->space, op->name,
                     op->overload[0] ? op->overload : "default", who);
    Py_XDECREF(who);
}

static PyObject *ask_everybody(const tp_op *op, PyObject *args, PyObject *kwargs, bool *asked)
{
    call_frame f;
    PyObject *callable = face_overload(op), *types = NULL, *result = NULL, *key, *value, *mode = NULL;
    Py_ssize_t at = 0;
    face_modes *m = tp_self.modes;
    face_frame_init(&f);
    collect(args, &f);
    while (PyDict_Next(kwargs, &at, &key, &value))
        collect(value, &f);
    *asked = false;
    if (callable && (types = types_tuple(&f))) {
        if (m && m->dispatch && PyList_GET_SIZE(m->dispatch)) {
            *asked = true;
            mode = Py_NewRef(PyList_GET_ITEM(m->dispatch, PyList_GET_SIZE(m->dispatch) - 1));
            result = ask_mode(callable, types, args, kwargs);
        }
        for (int i = 0; i < f.overloaded_count && (!*asked || result == Py_NotImplemented); i++) {
            Py_XDECREF(result);
            *asked = true;
            result = ask(f.overloaded[i], callable, types, args, kwargs);
        }
    }
    if (result == Py_NotImplemented) {
        Py_CLEAR(result);
        refuse(op, mode, &f);
    }
    Py_XDECREF(mode);
    Py_XDECREF(callable);
    Py_XDECREF(types);
    return result;
}

/* What an op writes is its result, whatever a handler gave for it. */
static void give_written(const tp_op *op, const tp_value *arg, tp_value *result)
{
    int k = 0;
    for (int i = 0; i < op->arg_count && k < op->result_count && op->variant != TP_FUNCTIONAL; i++)
        if (op->arg[i].written && arg[i].tag == TP_TENSOR && result[k].tag == TP_TENSOR) {
            tp_tensor *written = tp_tensor_ref(arg[i].tensor);
            tp_tensor_unref(result[k].tensor);
            result[k++].tensor = written;
        }
}

/* What Python calls meets every layer again but the ones above this, which have had the op. */
static bool dispatch_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (op->rare->graphs)             /* what its functions call is seen */
        return tp_call_past(TP_LAYER_DISPATCH, op, arg, result);
    if (!(tp_self.active & TP_LAYER_BIT(TP_LAYER_DISPATCH)) && tp_record_holds(op, arg, NULL))     /* the recorder comes first, then the class */
        return tp_call_below(TP_LAYER_DISPATCH, op, arg, result);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args, *kwargs, *given = NULL;
    bool ok = false, asked = true;
    if (face_show_args(op, arg, &args, &kwargs)) {
        given = ask_everybody(op, args, kwargs, &asked);
        Py_DECREF(args);
        Py_DECREF(kwargs);
    }
    if (given)
        ok = face_unbox_results(op, given, result);
    if (ok)
        give_written(op, arg, result);
    Py_XDECREF(given);
    bool failed = PyErr_Occurred() != NULL;
    PyGILState_Release(state);
    if (!asked && !failed)
        return tp_call_below(TP_LAYER_DISPATCH, op, arg, result);
    return ok || face_foreign();
}

static const tp_layer dispatch_layer = {
    .name = "dispatch",
    .call = dispatch_call,
    .shuts = TP_LAYER_BIT(TP_LAYER_GRAD) | TP_LAYER_BIT(TP_LAYER_AUTOCAST) | TP_LAYER_BIT(TP_LAYER_JIT),
};

/* ---- the stack, for the package ---- */
static PyObject *push(PyObject *module, PyObject *mode)
{
    (void)module;
    face_modes *m = face_modes_for_writing();
    if (!m || (!m->dispatch && !(m->dispatch = PyList_New(0))) || PyList_Append(m->dispatch, mode) < 0)
        return NULL;
    note_stack();
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    face_modes *m = tp_self.modes;
    Py_ssize_t n = m && m->dispatch ? PyList_GET_SIZE(m->dispatch) : 0;
    if (!n)
        return PyErr_Format(PyExc_RuntimeError, "the stack of dispatch modes is empty");
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(m->dispatch, n - 1));
    if (PyList_SetSlice(m->dispatch, n - 1, n, NULL) < 0)
        Py_CLEAR(mode);
    note_stack();
    face_modes_tidy();
    return mode;
}

static PyObject *depth(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    face_modes *m = tp_self.modes;
    return PyLong_FromSsize_t(m && m->dispatch ? PyList_GET_SIZE(m->dispatch) : 0);
}

static PyObject *at_index(PyObject *module, PyObject *index)
{
    (void)module;
    face_modes *m = tp_self.modes;
    Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (!m || !m->dispatch || i < 0 || i >= PyList_GET_SIZE(m->dispatch))
        return PyErr_Format(PyExc_IndexError, "no dispatch mode at %zd", i);
    return Py_NewRef(PyList_GET_ITEM(m->dispatch, i));
}

static PyMethodDef functions[] = {
    { "_push_on_torch_dispatch_stack", push, METH_O, NULL },
    { "_pop_torch_dispatch_stack", pop, METH_NOARGS, NULL },
    { "_len_torch_dispatch_stack", depth, METH_NOARGS, NULL },
    { "_get_dispatch_stack_at", at_index, METH_O, NULL },
    { 0 },
};

bool face_dispatch_init(PyObject *module)
{
    tp_the_runtime.layer[TP_LAYER_DISPATCH] = &dispatch_layer;
    return PyModule_AddFunctions(module, functions) == 0;
}
