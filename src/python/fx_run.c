/* fx_run.c - running a graph in C: a plan (ir/run.h) as a Python callable.
 *
 *     plan = _C._FxPlan(graph, module)        plan(x, y)
 *
 * Ops go straight to the dispatcher; what is Python's (callables, methods, modules, attributes) is called through the
 * host below, with the module that was given. */
#include <string.h>

#include "base/alloc.h"
#include "ir/run.h"
#include "ir/text.h"
#include "python/fx.h"

typedef struct plan_object {
    PyObject_HEAD
    tp_plan  *plan;             /* owned */
    PyObject *graph, *owner;    /* counted; owner may be NULL */
} plan_object;

/* ---- values ---- */
static bool to_value(PyObject *o, tp_value *out)
{
    if (face_is_tensor(o)) {
        *out = tp_of_tensor(tp_tensor_ref(face_tensor(o)));
        return true;
    }
    return fx_to_value(NULL, o, out);
}

static bool take_result(PyObject *taken, tp_value *out)
{
    bool ok = taken && to_value(taken, out);
    Py_XDECREF(taken);
    return ok || face_foreign();
}

static PyObject *from_value(tp_value v)
{
    return v.tag == TP_TENSOR ? face_wrap(tp_tensor_ref(v.tensor)) : fx_from_value(v);
}

/* Positional values and pairs as Python calls them. */
static PyObject *call_python(PyObject *callable, const tp_value *arg, uint32_t count, uint32_t keywords)
{
    PyObject *args = PyTuple_New(count), *kwargs = args && keywords ? PyDict_New() : NULL, *result = NULL;
    bool ok = args && (!keywords || kwargs);
    for (uint32_t i = 0; ok && i < count; i++) {
        PyObject *item = from_value(arg[i]);
        ok = item;
        if (item)
            PyTuple_SET_ITEM(args, i, item);
    }
    const tp_value *pair = arg + count;
    for (uint32_t k = 0; ok && k < keywords; k++, pair += 2) {
        PyObject *item = from_value(pair[1]);
        ok = item && PyDict_SetItemString(kwargs, pair[0].string->text, item) == 0;
        Py_XDECREF(item);
    }
    if (ok)
        result = PyObject_Call(callable, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

/* ---- the host ---- */
static PyObject *look_up(PyObject *at, const char *path)
{
    Py_XINCREF(at);
    if (!at)
        PyErr_Format(PyExc_RuntimeError, "the graph reads '%s', but no module was given", path);
    while (at && *path) {
        size_t length = strcspn(path, ".");
        PyObject *name = PyUnicode_FromStringAndSize(path, (Py_ssize_t)length);
        Py_SETREF(at, name ? PyObject_GetAttr(at, name) : NULL);
        Py_XDECREF(name);
        path += length + (path[length] == '.');
    }
    return at;
}

static bool host_attribute(void *owner, const char *path, tp_value *out)
{
    return take_result(look_up(owner, path), out);
}

static bool host_call(tp_handle *callable, const tp_value *arg, uint32_t count, uint32_t keywords, tp_value *out)
{
    return take_result(call_python(callable->object, arg, count, keywords), out);
}

static bool host_builtin(const tp_builtin *f, const tp_value *arg, tp_value *out)
{
    PyObject *callable = fx_builtin_object(f);
    bool ok = take_result(callable ? call_python(callable, arg, f->arity, 0) : NULL, out);
    Py_XDECREF(callable);
    return ok;
}

static bool host_method(const char *name, const tp_value *arg, uint32_t count, uint32_t keywords, tp_value *out)
{
    if (!count)
        return tp_fail(TP_ERR_TYPE, "a call of the method '%s' needs an object", name);
    PyObject *self = from_value(arg[0]), *method = self ? PyObject_GetAttrString(self, name) : NULL;
    bool ok = take_result(method ? call_python(method, arg + 1, count - 1, keywords) : NULL, out);
    Py_XDECREF(method);
    Py_XDECREF(self);
    return ok;
}

static bool host_module(void *owner, const char *path, const tp_value *arg, uint32_t count, uint32_t keywords,
                        tp_value *out)
{
    PyObject *module = look_up(owner, path);
    bool ok = take_result(module ? call_python(module, arg, count, keywords) : NULL, out);
    Py_XDECREF(module);
    return ok;
}

/* ---- the type ---- */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "graph", "module", NULL };
    PyObject *graph, *owner = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O", names, face.fx.graph, &graph, &owner))
        return NULL;
    plan_object *o = (plan_object *)type->tp_alloc(type, 0);
    if (!o)
        return NULL;
    o->graph = Py_NewRef(graph);
    o->owner = owner == Py_None ? NULL : Py_XNewRef(owner);
    tp_run_host host = {
        .owner = o->owner, .attribute = host_attribute, .call = host_call, .builtin = host_builtin,
            .method = host_method,
        .module = host_module,
    };
    if (tp_graph_verify(fx_graph_of(graph)))        /* Python may have left it half edited */
        o->plan = tp_plan_new(fx_graph_of(graph), &host);
    if (o->plan)
        return (PyObject *)o;
    Py_DECREF(o);
    return face_raise();
}

static PyObject *plan_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    plan_object *o = (plan_object *)self;
    fx_arguments a = { .value = a.few };
    tp_value result = tp_none();
    PyObject *made = NULL;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "a plan takes its inputs by position");
    uint32_t count = (uint32_t)PyTuple_GET_SIZE(args);
    if (count > TP_COUNT(a.few) && !(a.value = tp_alloc_array(count, sizeof *a.value))) {
        a.value = a.few;
        return face_raise();
    }
    while (a.filled < count && to_value(PyTuple_GET_ITEM(args, a.filled), &a.value[a.filled]))
        a.filled++;
    if (a.filled == count)
        made = tp_plan_run(o->plan, a.value, count, &result) ? fx_from_value(result) : face_raise();
    tp_value_unref(result);
    fx_arguments_fini(&a);
    return made;
}

static void plan_dealloc(PyObject *self)
{
    plan_object *o = (plan_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tp_plan_free(o->plan);
    Py_CLEAR(o->graph);
    Py_CLEAR(o->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

static int plan_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((plan_object *)self)->graph);
    Py_VISIT(((plan_object *)self)->owner);
    return 0;
}

static PyType_Slot plan_slots[] = {
    { Py_tp_new, plan_new }, { Py_tp_call, plan_call }, { Py_tp_dealloc, plan_dealloc },
        { Py_tp_traverse, plan_traverse }, { 0, NULL },
};
static PyType_Spec plan_spec = {
    .name = "_C._FxPlan", .basicsize = sizeof(plan_object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = plan_slots,
};

tp_plan *fx_plan_of(PyObject *o)
{
    return Py_IS_TYPE(o, face.fx.plan) ? ((plan_object *)o)->plan : NULL;
}

bool fx_run_init(PyObject *module)
{
    return (face.fx.plan = fx_make_type(module, &plan_spec, "_FxPlan"));
}
