/* make_fx.c - a Python function recorded: its inputs become placeholders, what it calls nodes, what it gives the output.
 *
 * The package's make_fx prepares inputs (fake or symbolic ones) and makes the GraphModule; here the recorder is mounted
 * around the call, and taken away whatever happens. */
#include "python/aot_origin.h"
#include "python/fx.h"
#include "python/pytree.h"
#include "python/user_stack.h"
#include "trace/record.h"

typedef struct tracing {
    PyObject *table;            /* borrowed dict, may be NULL: OpOverload -> callable */
    user_stack   lines;
    aot_origins  kept;          /* of the nodes that run, while fx.traceback keeps them */
    tp_recorder *recorder;      /* owned */
} tracing;

/* ---- the host of a recorder ---- */

int face_decompose(PyObject *table, const tp_op *op, const tp_value *arg, tp_value *result)
{
    PyObject *overload = face_overload(op), *function = overload ? PyDict_GetItemWithError(table, overload) : NULL;
    PyObject *args = NULL, *kwargs = NULL, *given = NULL;
    int got = 0;
    Py_XDECREF(overload);
    if (!function) {
        if (PyErr_Occurred())
            (void)face_foreign();
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(function);
    if (face_show_args(op, arg, &args, &kwargs))
        given = PyObject_Call(function, args, kwargs);
    if (given && given != Py_NotImplemented)
        got = face_unbox_results(op, given, result) ? 1 : -1;
    else if (!given)
        got = -1;
    Py_DECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(given);
    if (got < 0)
        (void)face_foreign();
    return got;
}

static int decompose(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    return face_decompose(((const tracing *)context)->table, op, arg, result);
}

static bool is_parameter(void *context, const tp_tensor *t)
{
    (void)context;
    return t->wrapper && face.parameter && PyObject_TypeCheck((PyObject *)t->wrapper, face.parameter);
}

static tp_origin *origin_kept(void *context)
{
    return aot_origin_now(&((tracing *)context)->kept);
}

static tp_origin *origin(void *context)
{
    return user_stack_shared_origin(&((tracing *)context)->lines);
}

/* ---- inputs ---- */
static bool input_value(PyObject *o, tp_value *out)
{
    *out = tp_none();
    if (face_is_tensor(o))
        *out = tp_of_tensor(face_tensor(o));
    else if (face_is_sym(o))
        *out = face_sym_value(o);
    else if (PyBool_Check(o))
        *out = tp_bool(o == Py_True);
    else if (PyFloat_CheckExact(o))
        *out = tp_float(PyFloat_AS_DOUBLE(o));
    else if (PyLong_CheckExact(o)) {
        int overflow;
        long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (!overflow)
            *out = tp_int(i);
    }
    return true;
}

static bool add_inputs(tp_recorder *r, PyObject *leaves, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++) {
        const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i));
        tp_value v;
        if (!name || !input_value(PyList_GET_ITEM(leaves, i), &v))
            return false;
        if (!tp_record_input(r, name, v))
            return face_raise();
    }
    return true;
}

/* ---- the output ---- */
static bool lower_items(tp_recorder *r, PyObject *o, tp_value *out)
{
    PyObject *const *item = PySequence_Fast_ITEMS(o);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    tp_list *l = tp_list_new((size_t)count);
    if (!l)
        return face_raise();
    *out = (tp_value){ .tag = PyTuple_Check(o) ? TP_TUPLE : TP_LIST, .list = l };
    for (Py_ssize_t i = 0; i < count; i++)
        if (!fx_lower(r, item[i], &l->item[i])) {
            tp_value_unref(*out);
            *out = tp_none();               /* it may stand in a list that is dropped too */
            return false;
        }
    return true;
}

static bool lower_dict(tp_recorder *r, PyObject *o, tp_value *out)
{
    tp_list *l = tp_list_new(2 * (size_t)PyDict_GET_SIZE(o));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uint32_t i = 0;
    if (!l)
        return face_raise();
    *out = (tp_value){ .tag = TP_DICT, .list = l };
    for (; PyDict_Next(o, &at, &key, &value) && i + 1 < l->count; i += 2)
        if (!fx_lower(r, key, &l->item[i]) || !fx_lower(r, value, &l->item[i + 1])) {
            tp_value_unref(*out);
            *out = tp_none();               /* it may stand in a list that is dropped too */
            return false;
        }
    return true;
}

/* What the function gave, tensors and symbols as the nodes they are. */
bool fx_lower(tp_recorder *r, PyObject *o, tp_value *out)
{
    *out = tp_none();
    if (face_is_tensor(o) || face_is_sym(o)) {
        tp_value v = face_is_sym(o) ? face_sym_value(o) : tp_of_tensor(face_tensor(o));
        return tp_record_lower(r, v, out) || face_raise();
    }
    if (!PyTuple_Check(o) && !PyList_Check(o) && !PyDict_Check(o))
        return fx_to_value(tp_recorder_graph(r), o, out);
    if (Py_EnterRecursiveCall(" in the output of a traced function"))
        return false;
    bool ok = PyDict_Check(o) ? lower_dict(r, o, out) : lower_items(r, o, out);
    Py_LeaveRecursiveCall();
    return ok;
}

static bool add_output(tp_recorder *r, PyObject *given)
{
    tp_value v;
    if (!fx_lower(r, given, &v))
        return false;
    bool ok = tp_record_output(r, v) && tp_graph_check(tp_recorder_graph(r));
    tp_value_unref(v);
    return ok || face_raise();
}

PyObject *face_constants(const tp_recorder *r)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < tp_recorder_constant_count(r); i++) {
        const char *name;
        PyObject *tensor = face_wrap(tp_tensor_ref(tp_recorder_constant(r, i, &name)));
        if (!tensor || PyDict_SetItemString(dict, name, tensor) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    return dict;
}

/* ---- tracing ---- */

/* (graph, constants, out_spec): the output's leaves in a list when `flatten`, else as they nest and a spec of None. */
static PyObject *finish(tp_recorder *r, PyObject *given, bool flatten)
{
    PyObject *leaves = flatten ? PyList_New(0) : Py_NewRef(given), *spec = NULL, *constants = NULL, *graph = NULL;
    if (leaves)
        spec = flatten ? face_tree_flatten(given, NULL, leaves) : Py_NewRef(Py_None);
    if (spec && add_output(r, leaves) && (constants = face_constants(r)))
        graph = fx_wrap_graph(tp_recorder_graph(r));
    Py_XDECREF(leaves);
    if (graph)
        return Py_BuildValue("(NNN)", graph, constants, spec);
    Py_XDECREF(constants);
    Py_XDECREF(spec);
    return NULL;
}

/* _make_fx(function, leaves, names, in_spec, pre_dispatch, table or None, flatten_output, with_lines, with_kept_meta): function takes the
 * arguments that the leaves make by the spec. */
static PyObject *make_fx(PyObject *module, PyObject *args)
{
    PyObject *function, *leaves, *names, *spec, *table, *result = NULL;
    int pre_dispatch, flatten, lines, kept;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!O!pOppp", &function, &PyList_Type, &leaves, &PyList_Type, &names, face.pytree->spec, &spec, &pre_dispatch,
                          &table, &flatten, &lines, &kept))
        return NULL;
    if (PyList_GET_SIZE(names) != PyList_GET_SIZE(leaves))
        return PyErr_Format(PyExc_ValueError, "one name for each input is needed");
    bool decomposes = PyDict_Check(table) && PyDict_GET_SIZE(table) > 0;
    tracing t = { .table = table };
    tp_record_host host = { .context = &t, .decompose = decomposes ? decompose : NULL, .is_parameter = is_parameter,
                            .origin = kept ? origin_kept : lines ? origin : NULL, .derived = fx_show_derived };
    PyObject *given = NULL, *positional = NULL;
    if (!lines || user_stack_init(&t.lines, true)) {
        if (!(t.recorder = tp_recorder_new(&host)))
            face_raise();
        else if ((given = face_tree_unflatten(spec, leaves)))
            positional = PySequence_Tuple(given);
    }
    Py_CLEAR(given);
    if (positional && add_inputs(t.recorder, leaves, names)) {
        tp_recorder_enter(t.recorder, pre_dispatch ? TP_LAYER_TRACE_P : TP_LAYER_TRACE_R);
        given = PyObject_Call(function, positional, NULL);
        tp_recorder_leave(t.recorder);
    }
    if (given)
        result = finish(t.recorder, given, flatten);
    Py_XDECREF(given);
    Py_XDECREF(positional);
    tp_recorder_free(t.recorder);
    user_stack_fini(&t.lines);
    aot_origins_fini(&t.kept);
    return result;
}

static PyMethodDef functions[] = {
    { "_make_fx", make_fx, METH_VARARGS, "records a call of a function as a graph" },
    { 0 },
};

bool face_make_fx_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
