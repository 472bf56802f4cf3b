/* export.c - torch.export's tracing: a module recorded with its state as inputs and its writes as outputs.
 *
 *     placeholders: parameters, buffers, constants, user inputs      output: new buffers, new inputs, user outputs
 *
 * The package prepares fake inputs and puts them into the module; here the functionaliser and the recorder are mounted around
 * the call, above autograd (export) or below it (decompositions), and taken away whatever happens. Nodes learn where they
 * come from: the modules that are running, and the user's lines. */
#include <string.h>

#include "base/alloc.h"
#include "export/constraints.h"
#include "export/guards.h"
#include "export/signature.h"
#include "grad/tape.h"
#include "pass/pass.h"
#include "python/fx.h"
#include "python/pytree.h"
#include "python/user_stack.h"
#include "trace/functional.h"
#include "trace/record.h"

typedef struct tracing {
    PyObject *table;            /* borrowed dict, may be NULL: OpOverload -> callable */
    PyObject *stack;            /* borrowed list: nn_module_stack of each module that runs, or the node that is run again */
    user_stack lines;
    tp_recorder   *recorder;    /* owned */
    tp_functional *functional;  /* owned, may be NULL: writes are recorded as they are */
    tp_layer_id    layer;
    bool running;               /* the user's function */
    bool asserts;               /* what the program declares of numbers is asserted by the graph */
    Py_ssize_t state;           /* leaves that are state; -1: gradients are not kept apart */
    bool grad_mode;             /* around the whole call */
} tracing;

/* ---- where a node comes from ---- */

static tp_origin *origin(void *context)
{
    tracing *t = context;
    if (!t->running)
        return NULL;
    Py_ssize_t depth = PyList_GET_SIZE(t->stack);
    PyObject *top = depth ? PyList_GET_ITEM(t->stack, depth - 1) : NULL;
    if (top && fx_is_node(top))
        return fx_node_of(top)->origin ? tp_origin_ref(fx_node_of(top)->origin) : NULL;
    tp_origin *o = user_stack_origin(&t->lines);
    if (o && top)
        o->module_stack = face_handle_new(top);
    return o;
}

static int decompose(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    return face_decompose(((const tracing *)context)->table, op, arg, result);
}

/* ---- inputs ---- */

/* The placeholder has just this name, and the namespace knows it. */
static bool add_input(tracing *t, PyObject *leaf, const char *name)
{
    tp_value v = tp_none();
    bool tensor = face_is_tensor(leaf), sym = face_is_sym(leaf);
    if (!tensor && !sym && leaf != Py_None && !fx_to_value(NULL, leaf, &v))
        return false;
    if (tensor || sym)
        v = tensor ? tp_of_tensor(face_tensor(leaf)) : face_sym_value(leaf);
    tp_node *n = tp_record_input(t->recorder, name, v);
    bool ok = n && (strcmp(n->name, name) == 0 || tp_node_set_name(n, name));
    if (ok)
        tp_node_set_target(n, tp_target_name(n->name));
    if (ok && tensor && tp_requires_grad(v.tensor))
        ok = tp_set_requires_grad(n->fact.tensor, true);
    if (!tensor && !sym)
        tp_value_unref(v);
    return ok || face_raise();
}

/* What the function sees: wrappers where writes are to be caught, else the leaves themselves. */
static PyObject *add_inputs(tracing *t, PyObject *leaves, PyObject *names)
{
    PyObject *seen = PyList_New(PyList_GET_SIZE(leaves));
    for (Py_ssize_t i = 0; seen && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *item = NULL;
        const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i));
        if (name && add_input(t, leaf, name))
            item = t->functional && face_is_tensor(leaf) ? face_wrap_or_raise(tp_functional_wrap(t->functional, face_tensor(leaf)))
                                                         : Py_NewRef(leaf);
        if (!item)
            Py_CLEAR(seen);
        else
            PyList_SET_ITEM(seen, i, item);
    }
    return seen;
}

/* ---- outputs ---- */
static bool lower(tracing *t, PyObject *o, tp_value *out)
{
    if (!t->functional || !face_is_tensor(o))
        return fx_lower(t->recorder, o, out);
    tp_tensor *value = tp_functional_value(t->functional, face_tensor(o));
    bool ok = value && tp_record_lower(t->recorder, tp_of_tensor(value), out);
    tp_tensor_unref(value);
    return ok || face_raise();
}

/* The inputs that were written or, by `replaced` (index -> tensor), given anew; a list of pairs (index, tensor). */
static PyObject *find_written(tracing *t, PyObject *seen, PyObject *replaced)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && t->functional && i < PyList_GET_SIZE(seen); i++) {
        PyObject *input = PyList_GET_ITEM(seen, i), *key = PyLong_FromSsize_t(i), *by = NULL, *pair = NULL;
        if (key && face_is_tensor(input)) {
            tp_functional_changes changes = tp_functional_changes_of(t->functional, face_tensor(input));
            by = PyDict_GetItemWithError(replaced, key);
            if (!by && changes.data)
                by = input;
            if (!by && changes.metadata) {
                PyErr_SetString(PyExc_NotImplementedError, "export of a program that changes the sizes or strides of an input in place (t_, "
                                "unsqueeze_ and the like) is not implemented in Taper yet");
                Py_CLEAR(list);
            }
        }
        if (by && (!(pair = PyTuple_Pack(2, key, by)) || PyList_Append(list, pair) < 0))
            Py_CLEAR(list);
        if (!key)
            Py_CLEAR(list);
        Py_XDECREF(key);
        Py_XDECREF(pair);
    }
    return list;
}

/* The output node: what was written, in order of the inputs, then the leaves of the result. */
static bool add_output(tracing *t, PyObject *written, PyObject *leaves)
{
    Py_ssize_t first = PyList_GET_SIZE(written), count = PyList_GET_SIZE(leaves);
    tp_list *l = tp_list_new((size_t)(first + count));
    if (!l)
        return face_raise();
    tp_value all = { .tag = TP_TUPLE, .list = l };
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < first + count; i++)
        ok = lower(t, i < first ? PyTuple_GET_ITEM(PyList_GET_ITEM(written, i), 1) : PyList_GET_ITEM(leaves, i - first), &l->item[i]);
    if (ok)
        ok = (tp_record_output(t->recorder, all) && tp_graph_check(tp_recorder_graph(t->recorder))) || face_raise();
    tp_value_unref(all);
    return ok;
}

/* The fresh copy of what is no literal is a plain copy. */
static void copy_plainly(tp_graph *g)
{
    const tp_op *fresh = tp_op_find("aten", "lift_fresh_copy", ""), *clone = tp_op_find("aten", "clone", "");
    tp_graph_each(g, n)
    {
        const tp_node *of = fresh && clone && tp_node_calls(n, fresh) && n->arg_count ? tp_as_node(n->arg[0]) : NULL;
        if (of && of->kind != TP_GET_ATTR)
            tp_node_set_target(n, tp_target_op(clone));
    }
}

static bool clean(const tracing *t, tp_graph *g)
{
    copy_plainly(g);
    if (t->state >= 0 && !tp_graph_keep_grad_modes(g, (size_t)t->state, t->grad_mode))
        return face_raise();
    const tp_pass_info dce = { "dce", tp_pass_dce, TP_STAGE_ANY };
    return tp_passes_run(g, &dce, 1, NULL, NULL) || face_raise();
}

/* (graph, constants, out_spec, indices of the inputs that were written) */
static PyObject *finish(tracing *t, PyObject *seen, PyObject *output, PyObject *replaced)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(output, NULL, leaves) : NULL;
    PyObject *written = spec ? find_written(t, seen, replaced) : NULL, *constants = NULL, *graph = NULL, *result = NULL;
    if (written && t->asserts && !tp_record_asserts(t->recorder)) {
        face_raise();
        Py_CLEAR(written);
    }
    if (written && add_output(t, written, leaves) && clean(t, tp_recorder_graph(t->recorder)) && (constants = face_constants(t->recorder)))
        graph = fx_wrap_graph(tp_recorder_graph(t->recorder));
    for (Py_ssize_t i = 0; graph && i < PyList_GET_SIZE(written); i++)
        if (PyList_SetItem(written, i, Py_NewRef(PyTuple_GET_ITEM(PyList_GET_ITEM(written, i), 0))) < 0)
            Py_CLEAR(graph);
    if (graph)
        result = Py_BuildValue("OOOO", graph, constants, spec, written);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    Py_XDECREF(written);
    Py_XDECREF(constants);
    Py_XDECREF(graph);
    return result;
}

/* ---- tracing ---- */
static PyObject *run(tracing *t, PyObject *function, PyObject *leaves, PyObject *names)
{
    PyObject *seen = add_inputs(t, leaves, names), *given = NULL, *result = NULL;
    if (!seen)
        return NULL;
    tp_recorder_enter(t->recorder, t->layer);
    if (t->functional)
        tp_functional_enter(t->functional, t->layer);
    t->running = true;
    given = PyObject_CallOneArg(function, seen);
    t->running = false;
    if (t->functional)
        tp_functional_leave(t->functional);
    /* Stale views are made again by calls, which the recorder must see. */
    if (given && PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 2 && PyDict_Check(PyTuple_GET_ITEM(given, 1)))
        result = finish(t, seen, PyTuple_GET_ITEM(given, 0), PyTuple_GET_ITEM(given, 1));
    else if (given)
        PyErr_SetString(PyExc_TypeError, "the traced function must give its output and a dict of replaced inputs");
    tp_recorder_leave(t->recorder);
    Py_XDECREF(given);
    Py_DECREF(seen);
    return result;
}

/* _export_trace(function, leaves, names, functional, pre_dispatch, table or None, stack, asserts, count of state or -1): function takes the list of leaves and
 * gives (output, {index of an input: the tensor it is now}). */
static PyObject *export_trace(PyObject *module, PyObject *args)
{
    PyObject *function, *leaves, *names, *table, *stack, *result = NULL;
    int functional, pre_dispatch, asserts = 0;
    Py_ssize_t state = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!ppOO!|pn", &PyFunction_Type, &function, &PyList_Type, &leaves, &PyList_Type, &names, &functional,
                          &pre_dispatch, &table, &PyList_Type, &stack, &asserts, &state))
        return NULL;
    if (PyList_GET_SIZE(names) != PyList_GET_SIZE(leaves))
        return PyErr_Format(PyExc_ValueError, "one name for each input is needed");
    bool decomposes = PyDict_Check(table) && PyDict_GET_SIZE(table) > 0;
    tracing t = { .table = table, .stack = stack, .layer = pre_dispatch ? TP_LAYER_TRACE_P : TP_LAYER_TRACE_R, .asserts = asserts,
                  .state = state, .grad_mode = tp_self.grad_mode && !tp_self.inference_mode };
    tp_record_host host = { .context = &t, .decompose = decomposes ? decompose : NULL, .origin = origin, .derived = fx_show_derived, .keeps_names = true };
    if (user_stack_init(&t.lines, false)) {
        t.recorder = tp_recorder_new(&host);
        t.functional = t.recorder && functional ? tp_functional_new() : NULL;
        if (t.recorder && (t.functional || !functional))
            result = run(&t, function, leaves, names);
        else
            face_raise();
    }
    tp_recorder_free(t.recorder);
    tp_functional_free(t.functional);
    user_stack_fini(&t.lines);
    return result;
}

/* ---- signatures ---- */
typedef struct rows {
    tp_arena arena;
    tp_signature signature;     /* arena */
} rows;

static const char rows_name[] = "taper.export.signature";

static void rows_free(PyObject *capsule)
{
    rows *r = PyCapsule_GetPointer(capsule, rows_name);
    tp_arena_fini(&r->arena);
    tp_free(r);
}

/* A text of the arena, or NULL for None; false: exception set. */
static bool read_text(tp_arena *a, PyObject *o, const char **out)
{
    Py_ssize_t length = 0;
    const char *text = o == Py_None ? NULL : PyUnicode_AsUTF8AndSize(o, &length);
    *out = text ? tp_text_in(a, text, (size_t)length) : NULL;
    if (o != Py_None && !text)
        return false;
    return o == Py_None || *out || face_raise();
}

static bool read_rows(rows *r, PyObject *inputs, PyObject *outputs)
{
    tp_signature *s = &r->signature;
    s->input_count = (size_t)PyList_GET_SIZE(inputs);
    s->output_count = (size_t)PyList_GET_SIZE(outputs);
    s->input = tp_arena_take_array(&r->arena, s->input_count, sizeof *s->input);
    s->output = tp_arena_take_array(&r->arena, s->output_count, sizeof *s->output);
    if ((s->input_count && !s->input) || (s->output_count && !s->output))
        return face_raise();
    for (size_t i = 0; i < s->input_count; i++) {
        PyObject *name, *target;
        int kind, persistent;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(inputs, (Py_ssize_t)i), "iOOp", &kind, &name, &target, &persistent) ||
            !read_text(&r->arena, name, &s->input[i].name) || !read_text(&r->arena, target, &s->input[i].target))
            return false;
        s->input[i].kind = (tp_input_kind)kind;
        s->input[i].persistent = persistent;
    }
    for (size_t i = 0; i < s->output_count; i++) {
        PyObject *target;
        int kind;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(outputs, (Py_ssize_t)i), "iO", &kind, &target) ||
            !read_text(&r->arena, target, &s->output[i].target))
            return false;
        s->output[i].kind = (tp_output_kind)kind;
    }
    return true;
}

/* _export_signature([(kind, name, target, persistent)…], [(kind, target)…]): a capsule for the functions below. */
static PyObject *export_signature(PyObject *module, PyObject *args)
{
    PyObject *inputs, *outputs, *capsule;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &inputs, &PyList_Type, &outputs))
        return NULL;
    rows *r = tp_alloc_zero(sizeof *r);
    if (!r)
        return face_raise();
    tp_arena_init(&r->arena);
    if (read_rows(r, inputs, outputs) && (capsule = PyCapsule_New(r, rows_name, rows_free)))
        return capsule;
    tp_arena_fini(&r->arena);
    tp_free(r);
    return NULL;
}

const tp_signature *face_signature_of(PyObject *capsule)
{
    rows *r = PyCapsule_GetPointer(capsule, rows_name);
    return r ? &r->signature : NULL;
}

/* _export_lift(graph, attribute, name, before): attributes become an input. */
static PyObject *export_lift(PyObject *module, PyObject *args)
{
    PyObject *graph, *before;
    const char *attr, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!ssO!", face.fx.graph, &graph, &attr, &name, face.fx.node, &before))
        return NULL;
    if (fx_node_of(before)->graph != fx_graph_of(graph))
        return PyErr_Format(PyExc_ValueError, "the node is one of another graph");
    return tp_graph_lift(fx_graph_of(graph), attr, name, fx_node_of(before)) ? Py_NewRef(Py_None) : face_raise();
}

/* _export_unlift(graph, signature): inputs that are state become attributes. */
static PyObject *export_unlift(PyObject *module, PyObject *args)
{
    PyObject *graph, *capsule;
    const tp_signature *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", face.fx.graph, &graph, &capsule) || !(s = face_signature_of(capsule)))
        return NULL;
    return tp_graph_unlift(fx_graph_of(graph), s) ? Py_NewRef(Py_None) : face_raise();
}

static const char *path_at(void *data, size_t i)
{
    PyObject *paths = data;
    const char *text = (Py_ssize_t)i < PyList_GET_SIZE(paths) ? PyUnicode_AsUTF8(PyList_GET_ITEM(paths, (Py_ssize_t)i)) : NULL;
    PyErr_Clear();
    return text ? text : "an input";
}

/* ---- guards ---- */
static const char guards_name[] = "taper.export.guards";

static void guards_drop(PyObject *capsule)
{
    tp_guards_free(PyCapsule_GetPointer(capsule, guards_name));
}

/* _export_guards(graph, signature, env, first): texts of what the trace took for granted. */
static PyObject *export_guards(PyObject *module, PyObject *args)
{
    PyObject *graph, *capsule, *env, *made = NULL;
    Py_ssize_t first;
    const tp_signature *s;
    const char **text;
    size_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO!n", face.fx.graph, &graph, &capsule, face.shape_env, &env, &first) || !(s = face_signature_of(capsule)))
        return NULL;
    tp_arena arena;
    tp_arena_init(&arena);
    if (!tp_guards_collect(fx_graph_of(graph), s, face_env_of(env), (size_t)first, &arena, &text, &count))
        face_raise();
    else
        made = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; made && i < count; i++) {
        PyObject *item = PyUnicode_FromString(text[i]);
        if (!item)
            Py_CLEAR(made);
        else
            PyList_SET_ITEM(made, (Py_ssize_t)i, item);
    }
    tp_arena_fini(&arena);
    return made;
}

/* _export_read_guards(graph, signature, texts): a capsule for _export_check. */
static PyObject *export_read_guards(PyObject *module, PyObject *args)
{
    PyObject *graph, *capsule, *texts;
    const tp_signature *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO!", face.fx.graph, &graph, &capsule, &PyList_Type, &texts) || !(s = face_signature_of(capsule)))
        return NULL;
    size_t count = (size_t)PyList_GET_SIZE(texts), read = 0;
    const char **text = tp_alloc_array(count + 1, sizeof *text);
    if (!text)
        return face_raise();
    while (read < count && (text[read] = PyUnicode_AsUTF8(PyList_GET_ITEM(texts, (Py_ssize_t)read))))
        read++;
    tp_guards *g = read == count ? tp_guards_new(fx_graph_of(graph), s, text, count) : NULL;
    if (!g && read == count)
        face_raise();
    tp_free(text);
    PyObject *made = g ? PyCapsule_New(g, guards_name, guards_drop) : NULL;
    if (g && !made)
        tp_guards_free(g);
    return made;
}

/* _export_check(graph, signature, leaves, paths, guards or None): raises what a call with these inputs must raise. */
static PyObject *export_check(PyObject *module, PyObject *args)
{
    PyObject *graph, *capsule, *leaves, *paths, *held;
    const tp_signature *s;
    const tp_guards *guards = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO!O!O", face.fx.graph, &graph, &capsule, &PyList_Type, &leaves, &PyList_Type, &paths, &held) ||
        !(s = face_signature_of(capsule)) || (held != Py_None && !(guards = PyCapsule_GetPointer(held, guards_name))))
        return NULL;
    size_t count = (size_t)PyList_GET_SIZE(leaves), made = 0;
    tp_value *input = tp_alloc_array(count + 1, sizeof *input);
    bool ok = input != NULL;
    for (; ok && made < count; made += ok) {
        PyObject *leaf = PyList_GET_ITEM(leaves, (Py_ssize_t)made);
        ok = true;
        if (face_is_tensor(leaf))
            input[made] = tp_of_tensor(tp_tensor_ref(face_tensor(leaf)));
        else
            ok = fx_to_value(NULL, leaf, &input[made]);
    }
    if (!input || (ok && !(tp_inputs_check(fx_graph_of(graph), s, input, count, path_at, paths) && tp_guards_check(guards, input, count)))) {
        ok = false;
        face_raise();
    }
    if (input)
        tp_values_unref(input, made);
    tp_free(input);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- declared sizes ---- */

/* _export_violations(env, [(name, source or None, symbol, index of its root or -1)…], keep_complex): the message, or None. */
static PyObject *export_violations(PyObject *module, PyObject *args)
{
    PyObject *env, *list;
    int keep;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!p", face.shape_env, &env, &PyList_Type, &list, &keep))
        return NULL;
    size_t count = (size_t)PyList_GET_SIZE(list);
    tp_dim *dim = tp_alloc_array(count + 1, sizeof *dim);
    bool ok = dim != NULL;
    if (!ok)
        return face_raise();
    for (size_t i = 0; ok && i < count; i++) {
        PyObject *symbol;
        int64_t number;
        Py_ssize_t root;
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "szOn", &dim[i].name, &dim[i].source, &symbol, &root);
        dim[i].derived = ok && root >= 0 && (size_t)root < i;
        dim[i].root = dim[i].derived ? (size_t)root : 0;
        if (ok && face_is_sym(symbol))
            dim[i].symbol = (tp_sym){ face_sym_value(symbol).sym };
        else if (ok && (ok = face_read_int(symbol, &number)))
            dim[i].symbol = tp_sym_int(number);
    }
    tp_text text = { 0 };
    PyObject *made = NULL;
    if (ok && !tp_dims_check(face_env_of(env), dim, count, keep, &text))
        face_raise();
    else if (ok)
        made = text.length ? PyUnicode_FromStringAndSize(text.at, (Py_ssize_t)text.length) : Py_NewRef(Py_None);
    tp_text_fini(&text);
    tp_free(dim);
    return made;
}

static PyMethodDef functions[] = {
    { "_export_violations", export_violations, METH_VARARGS, NULL },
    { "_export_signature", export_signature, METH_VARARGS, NULL },
    { "_export_lift", export_lift, METH_VARARGS, NULL },
    { "_export_unlift", export_unlift, METH_VARARGS, NULL },
    { "_export_check", export_check, METH_VARARGS, NULL },
    { "_export_guards", export_guards, METH_VARARGS, NULL },
    { "_export_read_guards", export_read_guards, METH_VARARGS, NULL },
    { "_export_trace", export_trace, METH_VARARGS, "records a call of a module as a graph without writes" },
    { 0 },
};

bool face_export_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
