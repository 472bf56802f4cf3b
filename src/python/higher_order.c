/* higher_order.c - calls of ops that take functions: torch.ops.higher_order.cond(pred, f, g, (x,)); how graphs show ops that were made
 * of others: torch.ops.higher_order.auto_functionalized(op, x=x).
 *
 * A callable becomes a handle that the op calls with flat values. How its result nests is kept, and the results of the op are
 * given back in that form. */
#include "base/alloc.h"
#include "ops/derived.h"
#include "python/fx.h"
#include "python/pytree.h"

typedef struct function {
    tp_handle head;             /* object: the callable, counted */
    PyObject *spec;             /* counted, NULL until it was called: how what it gave nests */
} function;

static void function_free(tp_handle *h)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)h->object);
    Py_XDECREF(((function *)(void *)h)->spec);
    PyGILState_Release(state);
    tp_free(h);
}

static bool function_equal(const tp_handle *a, const tp_handle *b) { return a->object == b->object; }
static uint64_t function_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h->object; }

/* ---- calling Python ---- */
static PyObject *arguments(const tp_value *arg, uint32_t count)
{
    PyObject *args = PyTuple_New(count);
    for (uint32_t i = 0; args && i < count; i++) {
        PyObject *item = face_from_value(tp_value_ref(arg[i]));
        if (!item)
            Py_CLEAR(args);
        else
            PyTuple_SET_ITEM(args, i, item);
    }
    return args;
}

/* An owned value of a tensor, a number, a symbol or None. */
static bool leaf_value(PyObject *o, tp_value *out)
{
    call_frame f;
    if (face_is_tensor(o)) {
        *out = tp_of_tensor(tp_tensor_ref(face_tensor(o)));
        return true;
    }
    if (face_is_sym(o)) {
        *out = face_sym_value(o);
        return true;
    }
    *out = tp_none();
    if (o == Py_None)
        return true;
    face_frame_init(&f);
    tp_value v;
    int got = face_to_number(o, &v, &f);
    if (got > 0)
        *out = tp_value_ref(v);
    face_frame_fini(&f);
    if (got == 0)
        PyErr_Format(PyExc_RuntimeError, "HigherOrderOperator body's output must consist of tensors or ints/bools only but got %R.", (PyObject *)Py_TYPE(o));
    return got > 0;
}

static bool list_of_leaves(PyObject *leaves, tp_value *out)
{
    Py_ssize_t count = PyList_GET_SIZE(leaves);
    tp_list *l = tp_list_new((size_t)count);
    if (!l)
        return face_raise();
    *out = tp_of_list(l);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!leaf_value(PyList_GET_ITEM(leaves, i), &l->item[i])) {
            tp_value_unref(*out);
            *out = tp_none();
            return false;
        }
    return true;
}

bool face_call_flat(PyObject *callable, const tp_value *arg, uint32_t count, tp_value *out, PyObject **spec)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args = arguments(arg, count), *given = args ? PyObject_Call(callable, args, NULL) : NULL;
    PyObject *leaves = given ? PyList_New(0) : NULL, *nests = leaves ? face_tree_flatten(given, NULL, leaves) : NULL;
    bool ok = nests && list_of_leaves(leaves, out);
    if (ok && spec)
        Py_XSETREF(*spec, Py_NewRef(nests));
    Py_XDECREF(args);
    Py_XDECREF(given);
    Py_XDECREF(leaves);
    Py_XDECREF(nests);
    PyGILState_Release(state);
    return ok || face_foreign();
}

static bool function_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    return face_call_flat(h->object, arg, count, out, &((function *)(void *)h)->spec);
}

static const tp_handle_type function_type = { .free = function_free, .equal = function_equal, .hash = function_hash, .call = function_call };

static bool function_new(PyObject *callable, tp_value *out)
{
    if (!PyCallable_Check(callable))
        return PyErr_Format(PyExc_RuntimeError, "a callable is wanted, not %R", callable);
    function *f = tp_alloc_zero(sizeof *f);
    if (!f)
        return face_raise();
    atomic_init(&f->head.refs, 1);
    f->head.type = &function_type;
    f->head.object = Py_NewRef(callable);
    *out = (tp_value){ .tag = TP_HANDLE, .handle = &f->head };
    return true;
}

/* ---- arguments of the op ---- */
static PyObject *bad_operands(PyObject *given)
{
    PyObject *types = PyTuple_New(PySequence_Size(given));
    for (Py_ssize_t i = 0; types && i < PyTuple_GET_SIZE(types); i++) {
        PyObject *item = PySequence_GetItem(given, i);
        PyTuple_SET_ITEM(types, i, Py_NewRef(item ? (PyObject *)Py_TYPE(item) : Py_None));
        Py_XDECREF(item);
    }
    if (types)
        PyErr_Format(PyExc_AssertionError, "%R can only be of (<class 'torch.Tensor'>, <class 'int'>, <class 'torch.SymInt'>) but got %R", given, types);
    Py_XDECREF(types);
    return NULL;
}

static bool operands(PyObject *given, tp_value *out)
{
    if (!PyTuple_Check(given) && !PyList_Check(given))
        return PyErr_Format(PyExc_RuntimeError, "operands must be a tuple or a list, got %R", (PyObject *)Py_TYPE(given));
    PyObject *list = PySequence_List(given);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (!face_is_tensor(o) && !face_is_sym(o) && !PyLong_Check(o) && !PyFloat_Check(o)) {
            Py_DECREF(list);
            return bad_operands(given);
        }
    }
    bool ok = list && list_of_leaves(list, out);
    Py_XDECREF(list);
    return ok;
}

static bool is_function(const tp_op *op, int arg)
{
    for (int i = 0; i < op->rare->graphs->count; i++)
        if (op->rare->graphs->item[i].arg == arg)
            return true;
    return false;
}

/* The results, nested as the last function that says so nests its own. */
static PyObject *nested(const tp_op *op, const tp_value *value, tp_value taken)
{
    uint32_t count = tp_length(taken);
    PyObject *flat = face_from_value(taken), *made = NULL;
    for (int i = op->rare->graphs->count; flat && !made && i-- > 0;) {
        PyObject *spec = ((function *)(void *)value[op->rare->graphs->item[i].arg].handle)->spec;
        if (spec && face_tree_leaf_count(spec) == (Py_ssize_t)count) {
            made = face_tree_unflatten(spec, flat);
            break;
        }
    }
    if (flat && !made && !PyErr_Occurred())
        made = PySequence_Tuple(flat);
    Py_XDECREF(flat);
    return made;
}

PyObject *face_call_graphs(const tp_op *op, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    tp_value value[8] = { 0 }, result = tp_none();
    PyObject *made = NULL;
    int n = 0;
    if (count != op->arg_count || (kwnames && PyTuple_GET_SIZE(kwnames)))
        return PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", op->name, op->arg_count, count);
    for (; n < op->arg_count; n++)
        if (!(is_function(op, n) ? function_new(args[n], &value[n]) : op->arg[n].list ? operands(args[n], &value[n]) : leaf_value(args[n], &value[n])))
            break;
    if (n == op->arg_count)
        made = tp_call(op, value, &result) ? nested(op, value, result) : face_raise();
    tp_values_unref(value, (size_t)n);
    return made;
}

/* ---- derived ops ---- */
static tp_handle *handle_of(PyObject *taken)
{
    tp_handle *h = taken ? face_handle_new(taken) : NULL;
    if (!h)
        (void)(taken ? NULL : face_foreign());
    Py_XDECREF(taken);
    return h;
}

bool fx_show_derived(void *context, const tp_op *op, tp_target *target, tp_value *of)
{
    char name[96];
    (void)context;
    PyOS_snprintf(name, sizeof name, "%s._higher_order_ops", face.package);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule(name);
    tp_handle *higher = handle_of(module ? PyObject_GetAttrString(module, op->name) : NULL);
    tp_handle *inner = higher ? handle_of(face_overload(op->rare->of)) : NULL;
    Py_XDECREF(module);
    *target = tp_target_handle(higher);
    *of = inner ? (tp_value){ .tag = TP_HANDLE, .handle = inner } : tp_none();
    if (higher && !inner)
        fx_target_drop(*target);
    PyGILState_Release(state);
    return inner;
}
