/* fx_check.c - methods of torch.fx.Graph that look over it: erasing, dead code, lint, finding nodes. */
#include <string.h>

#include "base/alloc.h"
#include "python/fx.h"

/* ---- erasing ---- */
PyObject *fx_graph_erase_node(PyObject *self, PyObject *o)
{
    fx_graph *g = (fx_graph *)self;
    if (!fx_is_node(o))
        return PyErr_Format(PyExc_TypeError, "erase_node() needs a Node, not %R", (PyObject *)Py_TYPE(o));
    tp_node *n = fx_node_of(o);
    if (n->user_count) {
        PyObject *users = PyObject_GetAttrString(o, "users");
        if (users)
            PyErr_Format(PyExc_RuntimeError, "Tried to erase Node %s but it still had %u users in the graph: %R!",
                         n->name, n->user_count, users);
        Py_XDECREF(users);
        return NULL;
    }
    if (n->graph != g->graph)
        return PyErr_Format(PyExc_RuntimeError, "Attempting to remove %s from wrong graph!", n->name);
    if (n->kind == TP_ROOT)
        return PyErr_Format(PyExc_RuntimeError, "the root of a graph cannot be erased");
    if (n->flags & TP_NODE_ERASED)
        return PyErr_WarnFormat(PyExc_UserWarning, 1, "erase_node(%s) on an already erased node", n->name) < 0 ? NULL
                                                                                                               : Py_NewRef(Py_None);
    PyObject *owner = PyObject_GetAttrString(self, "owning_module");
    PyObject *hooks = owner && owner != Py_None ? PyObject_GetAttrString(owner, "_erase_node_hooks") : NULL;
    PyErr_Clear();
    Py_XDECREF(owner);
    for (Py_ssize_t i = 0; hooks && PyList_Check(hooks) && i < PyList_GET_SIZE(hooks); i++) {
        PyObject *done = PyObject_CallOneArg(PyList_GET_ITEM(hooks, i), o);
        if (!done) {
            Py_DECREF(hooks);
            return NULL;
        }
        Py_DECREF(done);
    }
    Py_XDECREF(hooks);
    if (!n->user_count)             /* a hook may have given it a reader */
        tp_node_erase(n);
    Py_RETURN_NONE;
}

/* 1: may go; -1: exception set. */
static int may_drop(tp_node *n, PyObject *impure)
{
    if (n->user_count || n->kind == TP_PLACEHOLDER || n->kind == TP_OUTPUT)
        return 0;
    if (!impure) {
        int kept = fx_is_impure(n, true);
        return kept < 0 ? -1 : !kept;
    }
    PyObject *o = fx_wrap_node(n), *answer = o ? PyObject_CallOneArg(impure, o) : NULL;
    int kept = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(o);
    Py_XDECREF(answer);
    return kept < 0 ? -1 : !kept;
}

PyObject *fx_graph_eliminate_dead_code(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "is_impure_node" };
    PyObject *impure, *checked;
    if (!fx_read_call("eliminate_dead_code", names, 1, 0, args, count, kwnames, &impure) ||
        !(checked = PyObject_CallMethod(self, "lint", NULL)))
        return NULL;
    Py_DECREF(checked);
    tp_graph *g = fx_graph_of(self);
    bool changed = false;
    for (tp_node *n = g->root.prev; n != &g->root;) {
        int drop = may_drop(n, impure);
        if (drop < 0)
            return NULL;
        tp_node *before = n->prev;
        if (drop && !n->user_count && !(n->flags & TP_NODE_ERASED)) {
            tp_node_erase(n);
            changed = true;
        }
        n = before;
    }
    return PyBool_FromLong(changed);
}

/* ---- lint ---- */
typedef struct linting {
    const uint8_t *seen;
    tp_node *reader, *bad;
} linting;

static void lint_input(tp_node *input, void *data)
{
    linting *l = data;
    if (!l->bad && (input->graph != l->reader->graph || !l->seen[input->id]))
        l->bad = input;
}

static PyObject *lint_error(linting *l)
{
    tp_graph *g = l->reader->graph;
    if (l->bad->graph != g)
        return fx_foreign_error(l->bad, l->reader->name, g);
    PyObject *text = fx_graph_str(g);
    if (text)
        PyErr_Format(PyExc_RuntimeError,
                     "Argument '%s' of Node '%s' was used before it has been defined! Please check that Nodes in the graph are topologically ordered\n%U", l->bad->name, l->reader->name, text);
    Py_XDECREF(text);
    return NULL;
}

PyObject *fx_graph_lint(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_graph *g = fx_graph_of(self);
    uint8_t *seen = tp_alloc_zero(g->node_count + 1);
    tp_text_map names = { 0 };
    linting l = { .seen = seen };
    bool ok = seen || face_raise();
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next) {
        uint64_t one;
        l.reader = n;
        tp_node_each_input(n, lint_input, &l);
        if (l.bad)
            ok = lint_error(&l);
        else if (tp_text_map_get(&names, n->name, &one))
            ok = PyErr_Format(PyExc_RuntimeError, "Node redefined name %s!", n->name);
        else
            ok = tp_text_map_put(&names, n->name, 1) || face_raise();
        seen[n->id] = 1;
    }
    tp_text_map_fini(&names);
    tp_free(seen);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- finding ---- */
static int target_is(const tp_node *n, PyObject *target, const tp_op *op)
{
    if (n->target.kind == TP_TARGET_OP)
        return op == n->target.op;
    if (n->target.kind == TP_TARGET_BUILTIN)
        return fx_builtin_of(target) == n->target.builtin;
    if (n->target.kind == TP_TARGET_NAME)
        return PyUnicode_Check(target) && PyUnicode_CompareWithASCIIString(target, n->target.name) == 0;
    return n->target.handle->object == target ? 1 : PyObject_RichCompareBool(n->target.handle->object, target, Py_EQ);
}

PyObject *fx_graph_find_nodes(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "op", "target", "sort", NULL };
    PyObject *op = NULL, *target = Py_None, *list = PyList_New(0);
    int sort = 1;               /* they come sorted */
    if (!list || !PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOp", names, &op, &target, &sort)) {
        Py_XDECREF(list);
        return NULL;
    }
    int kind = op ? fx_kind_of(op) : -1;
    if (kind < 0 && op) {       /* there are none of an unknown kind */
        PyErr_Clear();
        return list;
    }
    if (kind < 0)
        PyErr_SetString(PyExc_TypeError, "Graph.find_nodes() missing 1 required keyword-only argument: 'op'");
    else if (kind == TP_CALL_FUNCTION && target == Py_None)
        PyErr_SetString(PyExc_AssertionError, "target must not be None for call_function op");
    if (PyErr_Occurred())
        Py_CLEAR(list);
    const tp_op *wanted = face_overload_op(target);
    tp_graph *g = fx_graph_of(self);
    for (tp_node *n = g->root.next; list && n != &g->root; n = n->next) {
        int fits = n->kind != kind ? 0 : target == Py_None ? 1 : target_is(n, target, wanted);
        PyObject *o = fits > 0 ? fx_wrap_node(n) : NULL;
        if (fits < 0 || (fits && (!o || PyList_Append(list, o) < 0)))
            Py_CLEAR(list);
        Py_XDECREF(o);
    }
    return list;
}

PyObject *fx_graph_output_node(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_node *last = fx_graph_of(self)->root.prev;
    if (last->kind == TP_OUTPUT)
        return fx_wrap_node(last);
    if (tp_node_is_root(last)) {
        PyErr_SetNone(PyExc_StopIteration);
        return NULL;
    }
    return PyErr_Format(PyExc_AssertionError, "Expected output node, got op=%s", tp_node_kind_names[last->kind]);
}
