/* fx_edit.c - methods of torch.fx.Node: those that change the graph around it, and those that describe it. */
#include <string.h>

#include "python/fx.h"

#define METHOD(f) ((PyCFunction)(void (*)(void))(f))

PyObject *fx_foreign_error(tp_node *arg, const char *reader, tp_graph *g)
{
    PyObject *text = fx_graph_str(g);
    if (text && reader)
        PyErr_Format(PyExc_RuntimeError,
                     "Argument '%s' of Node '%s' does not belong to this Graph, but was used as an argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n%U", arg->name, reader, text);
    else if (text)
        PyErr_Format(PyExc_RuntimeError,
                     "Argument '%s' does not belong to this Graph, but was used as an argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n%U", arg->name, text);
    Py_XDECREF(text);
    return NULL;
}

/* ---- order ---- */
static PyObject *move(PyObject *self, PyObject *o, bool after)
{
    tp_node *at = fx_node_of(self);
    if (!fx_is_node(o))
        return PyErr_Format(PyExc_TypeError, "_prepend() argument must be a Node");
    tp_node *n = fx_node_of(o);
    if (n->graph != at->graph)
        return PyErr_Format(PyExc_AssertionError, "Attempting to move a Node into a different Graph");
    if (n == at)
        Py_RETURN_NONE;
    if ((n->flags | at->flags) & TP_NODE_ERASED || n->kind == TP_ROOT)
        return PyErr_Format(PyExc_RuntimeError, "Attempting to move %s, which is not in the graph",
                            n->kind == TP_ROOT ? "the root" : "an erased Node");
    tp_node_move_before(after ? at->next : at, n);
    Py_RETURN_NONE;
}

static PyObject *node_append(PyObject *self, PyObject *o)
{
    return move(self, o, true);
}

static PyObject *node_prepend(PyObject *self, PyObject *o)
{
    return move(self, o, false);
}

/* ---- arguments ---- */
static PyObject *set_attribute(PyObject *self, const char *name, PyObject *taken)
{
    int done = taken ? PyObject_SetAttrString(self, name, taken) : -1;
    Py_XDECREF(taken);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *node_update_arg(PyObject *self, PyObject *args)
{
    Py_ssize_t index;
    PyObject *value, *tuple, *list;
    if (!PyArg_ParseTuple(args, "nO", &index, &value) || !(tuple = fx_args_tuple(fx_node_of(self))))
        return NULL;
    list = PySequence_List(tuple);
    Py_DECREF(tuple);
    if (!list)
        return NULL;
    if (PySequence_SetItem(list, index, value) < 0) {
        Py_DECREF(list);
        return NULL;
    }
    tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return set_attribute(self, "args", tuple);
}

static PyObject *node_insert_arg(PyObject *self, PyObject *args)
{
    Py_ssize_t index;
    PyObject *value, *tuple, *list;
    if (!PyArg_ParseTuple(args, "nO", &index, &value) || !(tuple = fx_args_tuple(fx_node_of(self))))
        return NULL;
    if (index < 0 || index > PyTuple_GET_SIZE(tuple)) {
        Py_DECREF(tuple);
        return PyErr_Format(PyExc_AssertionError, "insert_args index must be between 0 and len(self.args), got %zd",
                            index);
    }
    list = PySequence_List(tuple);
    Py_DECREF(tuple);
    if (!list || PyList_Insert(list, index, value) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return set_attribute(self, "args", tuple);
}

static PyObject *node_update_kwarg(PyObject *self, PyObject *args)
{
    PyObject *key, *value, *frozen, *dict = PyDict_New();
    if (!dict || !PyArg_ParseTuple(args, "UO", &key, &value) || !(frozen = fx_kwargs_dict(fx_node_of(self)))) {
        Py_XDECREF(dict);
        return NULL;
    }
    int done = PyDict_Update(dict, frozen);
    Py_DECREF(frozen);
    if (done < 0 || PyDict_SetItem(dict, key, value) < 0)
        Py_CLEAR(dict);
    return set_attribute(self, "kwargs", dict);
}

typedef struct swap { PyObject *old, *fresh; } swap;

static PyObject *swap_leaf(PyObject *o, void *data)
{
    const swap *s = data;
    return Py_NewRef(o == s->old ? s->fresh : o);
}

static PyObject *replace_input(PyObject *self, swap *s)
{
    PyObject *tuple = fx_args_tuple(fx_node_of(self)), *dict = tuple ? fx_kwargs_dict(fx_node_of(self)) : NULL,
             *result = NULL;
    if (dict) {
        result = set_attribute(self, "args", fx_map(tuple, swap_leaf, s));
        if (result) {
            Py_DECREF(result);
            result = set_attribute(self, "kwargs", fx_map(dict, swap_leaf, s));
        }
    }
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

static PyObject *node_replace_input_with(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "old_input", "new_input", NULL };
    swap s;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &s.old, &s.fresh) ? replace_input(self, &s) : NULL;
}

/* ---- replacement ---- */
typedef struct replacing {
    PyObject *choose;           /* borrowed, may be NULL */
    PyObject *hooks;            /* borrowed, may be NULL: of the owning GraphModule */
    PyObject *old, *fresh;      /* borrowed */
    PyObject *changed;          /* borrowed list: users that read `fresh` now */
    tp_map    chosen;           /* their tp_nodes */
} replacing;

static bool call_hooks(replacing *r, PyObject *user)
{
    for (Py_ssize_t i = 0; r->hooks && i < PyList_GET_SIZE(r->hooks); i++) {
        PyObject *keywords = Py_BuildValue("{sOsssO}", "old", r->old, "new", fx_node_of(r->fresh)->name, "user", user);
        PyObject *done = keywords ? PyObject_Call(PyList_GET_ITEM(r->hooks, i), face.empty_tuple, keywords) : NULL;
        Py_XDECREF(keywords);
        if (!done)
            return false;
        Py_DECREF(done);
    }
    return true;
}

/* Asks before anything changes: what Python does meanwhile must not meet a half-changed graph. */
static bool ask_user(replacing *r, tp_node *n)
{
    PyObject *user = fx_wrap_node(n);
    int wanted = user ? 1 : -1;
    if (user && r->choose) {
        PyObject *answer = PyObject_CallOneArg(r->choose, user);
        wanted = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
    }
    if (wanted > 0 && (!call_hooks(r, user) || PyList_Append(r->changed, user) < 0))
        wanted = -1;
    if (wanted > 0 && !tp_map_put(&r->chosen, (uintptr_t)n, 1)) {
        face_raise();
        wanted = -1;
    }
    Py_XDECREF(user);
    return wanted >= 0;
}

static bool ask_users(replacing *r, tp_node *old)
{
    PyObject *users = PyObject_GetAttrString(r->old, "users"), *item = users ? PySequence_List(users) : NULL;
    bool ok = item;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(item); i++)
        ok = fx_node_of(PyList_GET_ITEM(item, i))->graph == old->graph &&
            ask_user(r, fx_node_of(PyList_GET_ITEM(item, i)));
    Py_XDECREF(users);
    Py_XDECREF(item);
    return ok;
}

static bool was_chosen(tp_node *user, void *data)
{
    uint64_t one;
    return tp_map_get(&((replacing *)data)->chosen, (uintptr_t)user, &one);
}

static PyObject *owner_hooks(PyObject *self)
{
    PyObject *owner = PyObject_GetAttrString((PyObject *)((fx_node *)self)->graph, "owning_module");
    PyObject *hooks = owner && owner != Py_None ? PyObject_GetAttrString(owner, "_replace_hooks") : NULL;
    PyErr_Clear();
    Py_XDECREF(owner);
    if (hooks && (!PyList_Check(hooks) || !PyList_GET_SIZE(hooks)))
        Py_CLEAR(hooks);
    return hooks;
}

static bool copy_meta(tp_node *from, tp_node *to)
{
    PyObject *source = fx_node_meta(from), *target = source ? fx_node_meta(to) : NULL;
    if (target && PyDict_GET_SIZE(target)) {
        PyErr_Format(PyExc_AssertionError,
                     "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys");
        return false;
    }
    return target && PyDict_Update(target, source) == 0;
}

static int replace_by_constant(replacing *r)
{
    swap s = { r->old, r->fresh };
    Py_ssize_t count = PyList_GET_SIZE(r->changed), done = 0;
    for (PyObject *made; done < count && (made = replace_input(PyList_GET_ITEM(r->changed, done), &s)); done++)
        Py_DECREF(made);
    return done == count ? 0 : -1;
}

static PyObject *node_replace_all_uses_with(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "replace_with", "delete_user_cb", "propagate_meta", NULL };
    replacing r = { .old = self };
    int propagate = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$p", names, &r.fresh, &r.choose, &propagate))
        return NULL;
    if (!r.fresh)
        return PyErr_Format(PyExc_TypeError,
                            "Node.replace_all_uses_with() missing 1 required positional argument: 'replace_with'");
    tp_node *old = fx_node_of(self), *fresh = fx_is_node(r.fresh) ? fx_node_of(r.fresh) : NULL;
    if (fresh && fresh->graph != old->graph)
        return fx_foreign_error(fresh, old->user_count ? old->user[0]->name : old->name, old->graph);
    if (fresh && propagate && !copy_meta(old, fresh))
        return NULL;
    if (r.choose == Py_None)
        r.choose = NULL;
    r.hooks = fresh ? owner_hooks(self) : NULL;
    r.changed = PyList_New(0);
    int done = !r.changed || !ask_users(&r, old) ? -1 : fresh ? tp_node_replace_uses(old, fresh, was_chosen, &r) : replace_by_constant(&r);
    Py_XDECREF(r.hooks);
    tp_map_fini(&r.chosen);
    if (done >= 0)
        return r.changed;
    if (!PyErr_Occurred())
        face_raise();
    Py_XDECREF(r.changed);
    return NULL;
}

/* ---- description ---- */
static PyObject *node_is_impure(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "impure_random", NULL };
    int random = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", names, &random))
        return NULL;
    int impure = fx_is_impure(fx_node_of(self), random);
    return impure < 0 ? NULL : PyBool_FromLong(impure);
}

static PyObject *node_format(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "placeholder_names", "maybe_return_typename", "include_tensor_metadata", NULL };
    PyObject *placeholders = NULL, *returns = NULL;
    int metadata = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$p", names, &placeholders, &returns, &metadata))
        return NULL;
    if (metadata)
        return face_unimplemented("Node.format_node(include_tensor_metadata=True)");
    return fx_node_str(fx_node_of(self));
}

static PyObject *node_normalized(PyObject *self, PyObject *args, PyObject *kwargs)
{
    char name[96];
    PyOS_snprintf(name, sizeof name, "%s.fx.operator_schemas", face.package);
    PyObject *module = PyImport_ImportModule(name), *function = module ? PyObject_GetAttrString(module, "_normalized_arguments") : NULL;
    PyObject *all = function ? face_args_tuple(self, PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args)) : NULL;
    PyObject *result = all ? PyObject_Call(function, all, kwargs) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(function);
    Py_XDECREF(all);
    return result;
}

static PyObject *node_rename(PyObject *self, PyObject *candidate)
{
    tp_node *n = fx_node_of(self);
    const char *text = PyUnicode_Check(candidate) ? PyUnicode_AsUTF8(candidate) : NULL;
    if (!text)
        return PyErr_Format(PyExc_TypeError, "a node's name must be a string");
    if (strcmp(text, n->name) == 0)
        Py_RETURN_NONE;
    const char *name = tp_graph_name(n->graph, text);
    return name && tp_node_set_name(n, name) ? Py_NewRef(Py_None) : face_raise();
}

/* How many nodes stand before it, for pickles. */
static Py_ssize_t position(const tp_node *n)
{
    Py_ssize_t at = 0;
    for (const tp_node *p = n->graph->root.next; p != n && p != &n->graph->root; p = p->next)
        at++;
    return at;
}

PyObject *fx_node_compare(PyObject *a, PyObject *b, int how)
{
    if (how == Py_EQ || how == Py_NE || !fx_is_node(a) || !fx_is_node(b))
        Py_RETURN_NOTIMPLEMENTED;
    Py_RETURN_RICHCOMPARE(fx_node_of(a)->place, fx_node_of(b)->place, how);
}

static PyObject *node_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_node *n = fx_node_of(self);
    if (n->kind == TP_ROOT || n->flags & TP_NODE_ERASED)
        return PyErr_Format(PyExc_TypeError, "cannot pickle a Node that is not in its graph");
    PyObject *get = PyObject_GetAttrString(face.module, "_fx_node_at");
    return get ? Py_BuildValue("N(On)", get, (PyObject *)((fx_node *)self)->graph, position(n)) : NULL;
}

/* A copy of a node alone would belong to no graph: the node itself. */
static PyObject *node_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* A target as listings show it. */
static PyObject *node_show_target(PyObject *self, PyObject *target)
{
    (void)self;
    if (PyUnicode_Check(target))
        return Py_NewRef(target);
    PyObject *name = fx_qualified_name(target);
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    if (text && strncmp(text, "_operator.", 10) == 0)
        Py_SETREF(name, PyUnicode_FromString(text + 1));
    return name;
}

PyMethodDef fx_node_methods[] = {
    { "_pretty_print_target", node_show_target, METH_O, NULL },
    { "append", node_append, METH_O, NULL },
    { "prepend", node_prepend, METH_O, NULL },
    { "update_arg", node_update_arg, METH_VARARGS, NULL },
    { "insert_arg", node_insert_arg, METH_VARARGS, NULL },
    { "update_kwarg", node_update_kwarg, METH_VARARGS, NULL },
    { "replace_input_with", METHOD(node_replace_input_with), METH_VARARGS | METH_KEYWORDS, NULL },
    { "replace_all_uses_with", METHOD(node_replace_all_uses_with), METH_VARARGS | METH_KEYWORDS, NULL },
    { "is_impure", METHOD(node_is_impure), METH_VARARGS | METH_KEYWORDS, NULL },
    { "format_node", METHOD(node_format), METH_VARARGS | METH_KEYWORDS, NULL },
    { "normalized_arguments", METHOD(node_normalized), METH_VARARGS | METH_KEYWORDS, NULL },
    { "_rename", node_rename, METH_O, NULL },
    { "__copy__", node_copy, METH_NOARGS, NULL },
    { "__reduce__", node_reduce, METH_NOARGS, NULL },
    { 0 },
};
