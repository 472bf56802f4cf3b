/* call.c - the callables of ops: one object for all overloads of a name, as function and as method. */
#include <stdio.h>
#include <string.h>

#include "grad/tape.h"
#include "python/face.h"

#include <structmember.h>

enum { MOST_RESULTS = 16 };

/* ---- results ---- */
static PyObject *result_repr(PyObject *self)
{
    PyObject *text = PyUnicode_FromFormat("%s(\n", Py_TYPE(self)->tp_name);
    PyObject *names = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__match_args__");
    Py_ssize_t count = PyTuple_GET_SIZE(self);
    for (Py_ssize_t i = 0; text && names && i < count; i++)
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("%U=%R%s", PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(self, i),
                                                           i + 1 < count ? ",\n" : ")"));
    Py_XDECREF(names);
    return text;
}

/* The class of the named results of an op: PACKAGE.return_types.NAME, made once. Borrowed. */
static PyObject *result_type(op_set *set, const tp_op *op)
{
    if (set->result_type)
        return set->result_type;
    PyObject *known = PyDict_GetItemWithError(face.return_types, set->text);
    if (known || PyErr_Occurred())
        return set->result_type = Py_XNewRef(known);
    char name[160];
    PyStructSequence_Field field[MOST_RESULTS + 1] = { 0 };
    for (int i = 0; i < op->result_count; i++)
        field[i].name = op->result[i].name;
    snprintf(name, sizeof name, "%s.return_types.%s", face.package, set->name);
    PyStructSequence_Desc description = { .name = name, .fields = field, .n_in_sequence = op->result_count };
    PyTypeObject *type = PyStructSequence_NewType(&description);
    if (!type)
        return NULL;
    type->tp_repr = result_repr;
    if (PyDict_SetItem(face.return_types, set->text, (PyObject *)type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    return set->result_type = (PyObject *)type;
}

static PyObject *several_results(op_set *set, const tp_op *op, tp_value *result)
{
    PyObject *type = set && op->result[0].name && op->result[0].name[0] ? result_type(set, op) : NULL;
    PyObject *made = PyErr_Occurred() ? NULL
                   : type ? PyStructSequence_New((PyTypeObject *)type) : PyTuple_New(op->result_count);
    for (int i = 0; i < op->result_count; i++) {
        PyObject *item = made ? face_from_value(result[i]) : NULL;
        if (!made) {
            tp_value_unref(result[i]);
            continue;
        }
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

/* Takes the results. With a set, as functions and methods give them: lists become tuples, names a named tuple. */
PyObject *face_results(op_set *set, const tp_op *op, tp_value *result)
{
    if (TP_LIKELY(op->result_count == 1)) {
        if (TP_LIKELY(result[0].tag == TP_TENSOR))
            return face_wrap(result[0].tensor);
        if (set && result[0].tag == TP_LIST)
            result[0].tag = TP_TUPLE;
        return face_from_value(result[0]);
    }
    if (op->result_count == 0)
        Py_RETURN_NONE;
    return several_results(set, op, result);
}

static PyObject *run_boxed(op_set *set, const tp_op *op, const tp_value *arg)
{
    tp_value result[MOST_RESULTS];
    if (op->result_count > MOST_RESULTS)
        return PyErr_Format(PyExc_RuntimeError, "%s has too many results", op->name);
    if (!tp_call(op, arg, result))
        return face_raise();
    return face_results(set, op, result);
}

PyObject *face_call_op(const tp_op *op, const tp_value *arg)
{
    return run_boxed(NULL, op, arg);
}

/* ---- out= ---- */
static bool out_tensor(PyObject *o, tp_value *slot)
{
    if (!face_is_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "argument 'out' must be Tensor, not %s", Py_TYPE(o)->tp_name);
        return false;
    }
    *slot = tp_of_tensor(face_tensor(o));
    return true;
}

/* Arguments of the variant are those of the op, by name, and the tensors to write to. */
static PyObject *run_out(op_set *set, const signature *s, call_frame *f, PyObject *out)
{
    const tp_op *op = s->out;
    tp_value arg[FRAME_ARGS];
    int next = 0;
    bool several = PyTuple_Check(out) || PyList_Check(out);
    for (int i = 0; i < op->arg_count; i++) {
        const tp_arg *a = &op->arg[i];
        int from = tp_op_arg_index(s->op, a->name);
        if (from >= 0 && !(a->written && a->keyword_only)) {
            arg[i] = f->value[from];
            continue;
        }
        if (!(a->written && a->keyword_only)) {
            arg[i] = tp_arg_default(a);
            continue;
        }
        if (several && a->list) {
            if (face_to_value(f, a, out, &arg[i]) <= 0)
                return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be tuple of Tensors", set->name);
            continue;
        }
        if (several && next >= PySequence_Fast_GET_SIZE(out))
            return PyErr_Format(PyExc_TypeError, "%s(): argument 'out' has too few tensors", set->name);
        if (!out_tensor(several ? PySequence_Fast_ITEMS(out)[next] : out, &arg[i]))
            return NULL;
        next++;
    }
    return run_boxed(set, op, arg);
}

/* Memory is only to be had on the CPU; other devices exist while tensors are fake. */
static bool device_exists(const signature *s, const call_frame *f)
{
    if (s->options < 0 || tp_self.active)
        return true;
    for (int i = s->options; i < s->op->arg_count; i++) {
        tp_value v = f->value[i];
        if (v.tag != TP_DEVICE || v.device.type <= TP_META)
            continue;
        PyErr_Format(PyExc_AssertionError, "Torch not compiled with %s enabled",
                     v.device.type == TP_CUDA ? "CUDA" : v.device.type == TP_MPS ? "MPS" : "XPU");
        return false;
    }
    return true;
}

/* Where someone looks on, a factory called from Python names its device, and that its memory is not pinned. */
static void complete_options(const signature *s, call_frame *f)
{
    if (TP_LIKELY(s->options < 0 || !tp_self.active))
        return;
    bool of_tensor = s->op->arg_count && s->op->arg[0].type == TP_TYPE_TENSOR;
    for (int i = s->options; i < s->op->arg_count; i++) {
        if (f->value[i].tag != TP_NONE)
            continue;
        if (s->op->arg[i].type == TP_TYPE_DEVICE && !of_tensor)
            f->value[i] = tp_of_device((tp_device){ TP_CPU, -1 });
        else if (strcmp(s->op->arg[i].name, "pin_memory") == 0)
            f->value[i] = tp_bool(false);
    }
}

PyObject *face_run_signature(op_set *set, const signature *s, call_frame *f, PyObject *out, bool requires_grad)
{
    if (!device_exists(s, f))
        return NULL;
    complete_options(s, f);
    PyObject *result = out ? run_out(set, s, f, out) : run_boxed(set, s->op, f->value);
    if (!requires_grad || !result)
        return result;
    if (face_is_tensor(result) && !tp_dtype_is_inexact((tp_dtype)face_tensor(result)->dtype)) {
        Py_DECREF(result);
        return PyErr_Format(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
    }
    if (face_is_tensor(result) && !tp_set_requires_grad(face_tensor(result), true))
        return face_raise_keeping(result);
    return result;
}

/* ---- calling a set ---- */
static PyObject *overridden_call(op_set *set, call_frame *f, PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *kwnames)
{
    PyObject *tuple = face_args_tuple(self, args, count), *keywords = NULL, *result = NULL;
    if (tuple && (!kwnames || !PyTuple_GET_SIZE(kwnames) || (keywords = face_keywords_dict(args + count, kwnames))))
        result = face_call_override(set->callable, f->overloaded, f->overloaded_count, tuple, keywords);
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

/* `_foreach_add_(list, …)` gives back the very list it was called with; as an op it gives nothing. */
static PyObject *written_list(PyObject *taken, const tp_op *op, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (taken != Py_None || !op->rare->each || op->variant != TP_INPLACE)
        return taken;
    PyObject *given = count ? args[0] : NULL;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), op->arg[0].name) == 0)
            given = args[count + i];
    Py_DECREF(taken);
    return Py_NewRef(given ? given : Py_None);
}

PyObject *face_call_set(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    call_frame f;
    PyObject *out, *result;
    bool requires_grad;
    if (set->quick >= 0 && !kwnames && count + (self != NULL) == 2) {
        result = face_quick(set->quick, self ? self : args[0], self ? args[0] : args[1]);
        if (result || PyErr_Occurred())
            return result;
    }
    face_frame_init(&f);
    const signature *s = face_parse(set, self, args, count, kwnames, &f, &out, &requires_grad);
    if (TP_UNLIKELY(!s)) {
        face_frame_fini(&f);
        return NULL;
    }
    if (TP_UNLIKELY(out != NULL) && face_is_tensor(out))
        face_note_overloaded(&f, out);
    if (TP_UNLIKELY(f.overloaded_count > 0) || face_function_mode_active())
        result = overridden_call(set, &f, self, args, count, kwnames);
    else
        result = written_list(face_run_signature(set, s, &f, out, requires_grad), s->op, args, count, kwnames);
    if (TP_UNLIKELY(f.owned_count > 0))
        face_frame_fini(&f);
    return result;
}

/* ---- as builtin function ---- */
static PyObject *function_call(PyObject *set, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return face_call_set((op_set *)set, NULL, args, count, kwnames);
}

/* ---- as method ---- */
static PyObject *method_call(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *kwnames)
{
    op_set *set = (op_set *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (count < 1)
        return PyErr_Format(PyExc_TypeError, "unbound method TensorBase.%s() needs an argument", set->name);
    if (!face_is_tensor(args[0]))
        return PyErr_Format(PyExc_TypeError, "descriptor '%s' for '%s._C.TensorBase' objects doesn't apply to a '%s' object",
                            set->name, face.package, Py_TYPE(args[0])->tp_name);
    return face_call_set(set, args[0], args + 1, count - 1, kwnames);
}

static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyObject *method_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<method '%s' of '%s._C.TensorBase' objects>", ((op_set *)self)->name, face.package);
}

static PyObject *set_name(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((op_set *)self)->text);
}

static PyObject *set_qualified_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromFormat("TensorBase.%s", ((op_set *)self)->name);
}

static PyObject *set_class(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    return Py_NewRef((PyObject *)face.tensor_base);
}

/* The signatures, one a line: what help() shows. */
static PyObject *set_doc(PyObject *self, void *unused)
{
    (void)unused;
    const tp_op *const *all;
    size_t count = tp_op_overloads("aten", ((op_set *)self)->name, &all);
    PyObject *text = PyUnicode_FromString("");
    for (size_t i = 0; text && i < count; i++)
        PyUnicode_AppendAndDel(&text, face_schema(all[i], "\n"));
    return text;
}

static PyObject *method_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *builtins = PyEval_GetBuiltins();
    PyObject *getattr = builtins ? PyDict_GetItemString(builtins, "getattr") : NULL;
    return getattr ? Py_BuildValue("O(OO)", getattr, face.tensor_base, ((op_set *)self)->text) : NULL;
}

static void set_dealloc(PyObject *self)
{
    op_set *set = (op_set *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (int i = 0; i < set->count; i++)
        for (int p = 0; p < set->item[i].count; p++)
            Py_XDECREF(set->item[i].name[p]);
    PyMem_Free(set->item);
    Py_XDECREF(set->result_type);
    Py_XDECREF(set->text);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef method_methods[] = {
    { "__reduce__", method_reduce, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef method_attributes[] = {
    { "__name__", set_name, NULL, NULL, NULL },
    { "__qualname__", set_qualified_name, NULL, NULL, NULL },
    { "__objclass__", set_class, NULL, NULL, NULL },
    { "__doc__", set_doc, NULL, NULL, NULL },
    { 0 },
};
static PyMemberDef method_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(op_set, call), READONLY, NULL },
    { 0 },
};
static PyType_Slot method_slots[] = {
    { Py_tp_dealloc, set_dealloc }, { Py_tp_call, PyVectorcall_Call }, { Py_tp_descr_get, method_get },
    { Py_tp_repr, method_repr }, { Py_tp_getset, method_attributes }, { Py_tp_methods, method_methods },
    { Py_tp_members, method_members }, { 0, NULL },
};
static PyType_Spec method_spec = {
    .name = "_C.method_descriptor", .basicsize = sizeof(op_set), .slots = method_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};
static PyType_Slot function_slots[] = { { Py_tp_dealloc, set_dealloc }, { 0, NULL } };
static PyType_Spec function_spec = {
    .name = "_C._VariableFunctionsClass", .basicsize = sizeof(op_set), .slots = function_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* ---- all of them ---- */
static op_set *new_set(PyTypeObject *type, const char *name, uint8_t which)
{
    op_set *set = (op_set *)type->tp_alloc(type, 0);
    if (!set)
        return NULL;
    set->name = name;
    set->where = which;
    set->count = -1;
    set->quick = face_quick_slot(name);
    set->call = method_call;
    set->callable = (PyObject *)set;
    if (!(set->text = PyUnicode_InternFromString(name)))
        Py_CLEAR(set);
    return set;
}

/* Where callables go. A function of the nn face whose name begins with the prefix of a module stands there, others in _nn. */
static const struct { const char *name, *prefix; } places[] = {
    { "_VariableFunctions", NULL }, { "_fft", "fft_" }, { "_linalg", "linalg_" }, { "_special", "special_" }, { "_nn", "" },
};
enum { PLACES = sizeof places / sizeof *places };

typedef struct visit_state {
    PyObject *module[PLACES], *name[PLACES];    /* owned; the name is what functions there give as their module */
    bool failed;
} visit_state;

static int place_of(const tp_op *op, uint8_t which)
{
    int i = which == 2;
    while (i && strncmp(op->name, places[i].prefix, strlen(places[i].prefix)) != 0)
        i++;
    return i;
}

static bool add_function(visit_state *v, const tp_op *op, uint8_t which)
{
    PyObject *sets = which == 2 ? face.nn_sets : face.function_sets;
    int place = place_of(op, which);
    if (PyDict_GetItemString(sets, op->name))
        return true;
    op_set *set = new_set(face.op_function, op->name, which);
    if (!set)
        return false;
    set->definition = (PyMethodDef){ op->name, (PyCFunction)(void (*)(void))function_call, METH_FASTCALL | METH_KEYWORDS, op->signature };
    PyObject *callable = PyCFunction_NewEx(&set->definition, (PyObject *)set, v->name[place]);
    set->callable = callable;
    bool ok = callable && PyDict_SetItem(sets, set->text, (PyObject *)set) == 0 &&
              PyObject_SetAttr(v->module[place], set->text, callable) == 0;
    Py_XDECREF(callable);
    Py_DECREF(set);
    return ok;
}

/* A method that tensor_methods.c writes by hand stays. */
static bool add_method(const tp_op *op)
{
    PyObject *dict = face.tensor_base->tp_dict;
    if (PyDict_GetItemString(face.method_sets, op->name))
        return true;
    op_set *set = new_set(face.op_method, op->name, 1);
    if (!set)
        return false;
    bool ok = PyDict_SetItem(face.method_sets, set->text, (PyObject *)set) == 0 &&
              (PyDict_Contains(dict, set->text) || PyDict_SetItem(dict, set->text, (PyObject *)set) == 0);
    Py_DECREF(set);
    return ok;
}

static bool visit(const tp_op *op, void *user)
{
    visit_state *v = user;
    if (strcmp(op->space, "aten") != 0 || op->variant == TP_OUT)
        return true;
    v->failed = ((op->flags & TP_OP_FUNCTION) && !add_function(v, op, 0)) ||
                ((op->flags & TP_OP_NN) && !add_function(v, op, 2)) || ((op->flags & TP_OP_METHOD) && !add_method(op));
    return !v->failed;
}

op_set *face_method_set(const char *name)
{
    PyObject *set = PyDict_GetItemString(face.method_sets, name);
    if (!set)
        set = PyDict_GetItemString(face.function_sets, name);
    if (!set)
        PyErr_Format(PyExc_NotImplementedError, "the op '%s' is not implemented in Taper yet", name);
    return (op_set *)set;
}

PyObject *face_call_method(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    op_set *set = face_method_set(name);
    PyObject *all[8];
    if (!set)
        return NULL;
    if (set->where == 1)
        return face_call_set(set, self, args, count, NULL);
    all[0] = self;
    for (Py_ssize_t i = 0; i < count && i < 7; i++)
        all[i + 1] = args[i];
    return face_call_set(set, NULL, all, count + 1, NULL);
}

bool face_calls_init(PyObject *module)
{
    face.op_method = face_make_type(module, &method_spec, NULL);
    face.op_function = face_make_type(module, &function_spec, NULL);
    face.function_sets = PyDict_New();
    face.method_sets = PyDict_New();
    face.nn_sets = PyDict_New();
    face.return_types = PyDict_New();
    visit_state v = { 0 };
    bool ok = face.op_method && face.op_function && face.function_sets && face.method_sets && face.nn_sets && face.return_types;
    for (int i = 0; ok && i < PLACES; i++) {
        v.name[i] = PyUnicode_FromFormat(i ? "%s._C.%s" : "%s", face.package, places[i].name);
        ok = v.name[i] && (v.module[i] = PyModule_NewObject(v.name[i])) && PyModule_AddObjectRef(module, places[i].name, v.module[i]) == 0;
    }
    if (ok)
        tp_op_each(visit, &v);
    PyType_Modified(face.tensor_base);
    ok = ok && !v.failed && PyModule_AddObjectRef(module, "_return_types", face.return_types) == 0;
    for (int i = 0; i < PLACES; i++) {
        Py_XDECREF(v.module[i]);
        Py_XDECREF(v.name[i]);
    }
    return ok;
}
