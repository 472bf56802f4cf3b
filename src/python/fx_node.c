/* fx_node.c - torch.fx.Node: one step of a graph as Python sees it, and the view of its users. */
#include <string.h>

#include "python/fx.h"

#include <structmember.h>

/* ---- making and letting go ---- */
PyObject *fx_wrap_node(tp_node *n)
{
    if (n->wrapper)
        return Py_NewRef((PyObject *)n->wrapper);
    fx_graph *g = (fx_graph *)fx_wrap_graph(n->graph);
    fx_node *made = g ? PyObject_GC_New(fx_node, face.fx.node) : NULL;
    if (!made) {
        Py_XDECREF(g);
        return NULL;
    }
    made->node = n;
    made->graph = g;
    made->dict = made->weakrefs = NULL;
    n->wrapper = made;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static void node_dealloc(PyObject *self)
{
    fx_node *o = (fx_node *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    o->node->wrapper = NULL;
    Py_CLEAR(o->dict);
    Py_CLEAR(o->graph);
    type->tp_free(self);
    Py_DECREF(type);
}

static int node_traverse(PyObject *self, visitproc visit, void *arg)
{
    fx_node *o = (fx_node *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)o->graph);
    Py_VISIT(o->dict);
    return 0;
}

static int node_clear(PyObject *self)
{
    Py_CLEAR(((fx_node *)self)->dict);
    return 0;
}

/* An attribute of the node's own: the object must not die before the graph, or it would be forgotten. */
static int node_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    fx_node *o = (fx_node *)self;
    bool had = o->dict != NULL;
    int done = PyObject_GenericSetAttr(self, name, value);
    if (done < 0 || had || !o->dict)
        return done;
    if (!o->graph->kept && !(o->graph->kept = PyList_New(0)))
        return -1;
    return PyList_Append(o->graph->kept, self);
}

static PyObject *node_repr(PyObject *self)
{
    return PyUnicode_FromString(fx_node_of(self)->name);
}

static Py_hash_t node_hash(PyObject *self)
{
    Py_hash_t hash = (Py_hash_t)((uintptr_t)self >> 4);
    return hash == -1 ? -2 : hash;
}

/* ---- meta ---- */
static bool put_item(PyObject *dict, const char *key, PyObject *taken)
{
    int done = taken ? PyDict_SetItemString(dict, key, taken) : -1;
    Py_XDECREF(taken);
    return done == 0;
}

static bool put_tensor_meta(PyObject *dict, PyObject *value)
{
    if (!face_is_tensor(value))
        return true;
    if (!face.fx.tensor_meta) {                 /* the module that makes it registers it when it is imported */
        PyObject *maker = face_import("fx.passes.shape_prop");
        Py_XDECREF(maker);
        if (!maker || !face.fx.tensor_meta)
            return maker != NULL;
    }
    return put_item(dict, "tensor_meta", PyObject_CallOneArg(face.fx.tensor_meta, value));
}

static bool put_origin(PyObject *dict, const tp_origin *o)
{
    if (o->stack_trace && !put_item(dict, "stack_trace",
                                    PyUnicode_FromStringAndSize(o->stack_trace->text, o->stack_trace->length)))
        return false;
    if (o->module_stack && !put_item(dict, "nn_module_stack", Py_NewRef((PyObject *)o->module_stack->object)))
        return false;
    if (o->custom && !put_item(dict, "custom", Py_NewRef((PyObject *)o->custom->object)))
        return false;
    return !o->sequence || put_item(dict, "seq_nr", PyLong_FromUnsignedLongLong(o->sequence));
}

/* A copy of what a node that runs is annotated with: later changes to it are not of the nodes made before. */
static tp_handle *copied_item(PyObject *meta, const char *name)
{
    PyObject *value = PyDict_GetItemString(meta, name);
    PyObject *copy = value && PyDict_Check(value) ? PyObject_CallMethod(value, "copy", NULL) : NULL;
    tp_handle *h = copy ? face_handle_new(copy) : NULL;
    Py_XDECREF(copy);
    return h;
}

tp_origin *fx_origin_of(PyObject *meta)
{
    tp_origin *o = PyDict_Check(meta) && PyDict_GET_SIZE(meta) ? tp_origin_new() : NULL;
    if (!o)
        return NULL;
    PyObject *text = PyDict_GetItemString(meta, "stack_trace");
    Py_ssize_t length = 0;
    const char *bytes = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    tp_value string = bytes ? tp_value_string(bytes, (size_t)length) : tp_none();
    o->stack_trace = string.tag == TP_STRING ? string.string : NULL;
    o->module_stack = copied_item(meta, "nn_module_stack");
    o->custom = copied_item(meta, "custom");
    PyErr_Clear();
    tp_error_clear();
    return o;
}

/* What C knows of the node, in the order in which tracing writes it. */
static bool fill_meta(PyObject *dict, const tp_node *n)
{
    if (n->origin && !put_origin(dict, n->origin))
        return false;
    if (n->fact.tag == TP_NONE)
        return true;
    PyObject *value = face_from_value(tp_value_ref(n->fact));
    bool ok = value && PyDict_SetItemString(dict, "val", value) == 0 && put_tensor_meta(dict, value);
    Py_XDECREF(value);
    return ok;
}

PyObject *fx_node_meta(tp_node *n)
{
    if (n->meta)
        return n->meta->object;
    PyObject *dict = PyDict_New();
    tp_handle *h = dict && fill_meta(dict, n) ? face_handle_new(dict) : NULL;
    if (dict && !h && !PyErr_Occurred())
        face_raise();
    Py_XDECREF(dict);
    if (!h)
        return NULL;
    tp_node_set_meta(n, h);
    tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
    return n->meta->object;
}

static PyObject *get_meta(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *dict = fx_node_meta(fx_node_of(self));
    return Py_XNewRef(dict);
}

/* meta.get("val"), without a dict for a node that has none yet: thousands of them are work for Python's collector. */
static PyObject *get_val(PyObject *self, void *unused)
{
    const tp_node *n = fx_node_of(self);
    (void)unused;
    if (!n->meta)
        return face_from_value(tp_value_ref(n->fact));
    PyObject *value = PyDict_GetItemString(n->meta->object, "val");
    return Py_NewRef(value ? value : Py_None);
}

static int set_handle(PyObject *self, PyObject *value, void (*set)(tp_node *n, tp_handle *h))
{
    tp_handle *h = value ? face_handle_new(value) : NULL;
    if (value && !h) {
        face_raise();
        return -1;
    }
    set(fx_node_of(self), h);
    if (h)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
    return 0;
}

static int set_meta(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !PyDict_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "meta must be a dict");
        return -1;
    }
    return set_handle(self, value, tp_node_set_meta);
}

static PyObject *get_stack_trace(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *dict = fx_node_meta(fx_node_of(self)), *trace = dict ? PyDict_GetItemString(dict, "stack_trace") : NULL;
    return dict ? Py_NewRef(trace ? trace : Py_None) : NULL;
}

static int set_stack_trace(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    PyObject *dict = fx_node_meta(fx_node_of(self));
    return dict ? PyDict_SetItemString(dict, "stack_trace", value ? value : Py_None) : -1;
}

/* ---- plain attributes ---- */
static PyObject *get_op(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_InternFromString(tp_node_kind_names[fx_node_of(self)->kind]);
}

static PyObject *get_target(PyObject *self, void *unused)
{
    (void)unused;
    return fx_target_object(fx_node_of(self));
}

/* The new kind and target must fit each other; Python sets them one after the other, so the target alone may come
 * first. */
static int set_target(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    tp_target target;
    tp_node *n = fx_node_of(self);
    if (!value || n->kind == TP_ROOT) {
        PyErr_SetString(PyExc_AttributeError, "a node needs its target");
        return -1;
    }
    if (!fx_target_read(PyUnicode_Check(value) ? TP_GET_ATTR : TP_CALL_FUNCTION, value, &target))
        return -1;
    tp_node_set_target(n, target);
    fx_target_drop(target);
    return 0;
}

static int set_op(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    tp_node *n = fx_node_of(self);
    const char *text = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    for (int k = TP_PLACEHOLDER; text && n->kind != TP_ROOT && k < TP_ROOT; k++)
        if (strcmp(text, tp_node_kind_names[k]) == 0) {
            n->kind = (uint16_t)k;
            return 0;
        }
    PyErr_Format(PyExc_AssertionError, "op %R is not in _legal_ops", value ? value : Py_None);
    return -1;
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fx_node_of(self)->name);
}

static int set_name(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    const char *text = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    if (!text) {
        PyErr_SetString(PyExc_TypeError, "a node's name must be a string");
        return -1;
    }
    if (tp_node_set_name(fx_node_of(self), text))
        return 0;
    face_raise();
    return -1;
}

static PyObject *get_type(PyObject *self, void *unused)
{
    (void)unused;
    tp_node *n = fx_node_of(self);
    return Py_NewRef(n->type ? (PyObject *)n->type->object : Py_None);
}

static int set_type(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    return set_handle(self, value == Py_None ? NULL : value, tp_node_set_type);
}

static PyObject *get_args(PyObject *self, void *unused)
{
    (void)unused;
    return fx_args_tuple(fx_node_of(self));
}

static PyObject *get_kwargs(PyObject *self, void *unused)
{
    (void)unused;
    return fx_kwargs_dict(fx_node_of(self));
}

/* New positional arguments, or keywords; the others stay. */
static int set_arguments(PyObject *self, PyObject *args, PyObject *kwargs)
{
    tp_node *n = fx_node_of(self);
    PyObject *old_args = args ? Py_NewRef(args) : fx_args_tuple(n),
             *old_kwargs = kwargs ? Py_NewRef(kwargs) : fx_kwargs_dict(n);
    fx_arguments a = { .value = a.few };
    bool ok = false;
    if (old_args && old_kwargs && fx_arguments_read(&a, n->graph, old_args, old_kwargs))
        ok = tp_node_set_args(n, a.value, a.count, a.keywords) || face_raise();
    fx_arguments_fini(&a);
    Py_XDECREF(old_args);
    Py_XDECREF(old_kwargs);
    return ok ? 0 : -1;
}

static int set_args(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    PyObject *tuple = value ? PySequence_Tuple(value) : NULL;
    int done = tuple ? set_arguments(self, tuple, NULL) : -1;
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "args cannot be deleted");
    Py_XDECREF(tuple);
    return done;
}

static int set_kwargs(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !PyDict_Check(value)) {
        PyErr_Format(PyExc_AssertionError, "kwargs must be a dict, got %R",
                     value ? (PyObject *)Py_TYPE(value) : Py_None);
        return -1;
    }
    return set_arguments(self, NULL, value);
}

static PyObject *get_graph(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((fx_node *)self)->graph);
}

static PyObject *get_next(PyObject *self, void *unused)
{
    (void)unused;
    return fx_wrap_node(fx_node_of(self)->next);
}

static PyObject *get_prev(PyObject *self, void *unused)
{
    (void)unused;
    return fx_wrap_node(fx_node_of(self)->prev);
}

static PyObject *get_erased(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(fx_node_of(self)->flags & TP_NODE_ERASED);
}

static void collect_input(tp_node *input, void *data)
{
    PyObject **dict = data, *o = *dict ? fx_wrap_node(input) : NULL;
    if (*dict && (!o || PyDict_SetItem(*dict, o, Py_None) < 0))
        Py_CLEAR(*dict);
    Py_XDECREF(o);
}

static PyObject *get_input_nodes(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *dict = PyDict_New();
    tp_node_each_input(fx_node_of(self), collect_input, &dict);
    return dict;
}

static PyObject *get_all_input_nodes(PyObject *self, void *unused)
{
    PyObject *dict = get_input_nodes(self, unused), *list = dict ? PyDict_Keys(dict) : NULL;
    Py_XDECREF(dict);
    return list;
}

/* ---- users: a view that behaves as a dict of node to None ---- */
typedef struct users_object {
    PyObject_HEAD
    PyObject *node;             /* counted */
} users_object;

static PyObject *get_users(PyObject *self, void *unused)
{
    (void)unused;
    users_object *made = PyObject_GC_New(users_object, face.fx.users);
    if (!made)
        return NULL;
    made->node = Py_NewRef(self);
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static tp_node *used_node(PyObject *self)
{
    return fx_node_of(((users_object *)self)->node);
}

static PyObject *users_dict(PyObject *self)
{
    tp_node *n = used_node(self);
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i < n->user_count; i++) {
        PyObject *user = fx_wrap_node(n->user[i]);
        if (!user || PyDict_SetItem(dict, user, Py_None) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(user);
    }
    return dict;
}

static void users_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((users_object *)self)->node);
    type->tp_free(self);
    Py_DECREF(type);
}

static int users_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((users_object *)self)->node);
    return 0;
}

static Py_ssize_t users_length(PyObject *self)
{
    return used_node(self)->user_count;
}

static int users_contains(PyObject *self, PyObject *o)
{
    tp_node *n = used_node(self);
    for (uint32_t i = 0; fx_is_node(o) && i < n->user_count; i++)
        if (n->user[i] == fx_node_of(o))
            return 1;
    return 0;
}

static PyObject *users_subscript(PyObject *self, PyObject *key)
{
    if (users_contains(self, key))
        Py_RETURN_NONE;
    PyErr_SetObject(PyExc_KeyError, key);
    return NULL;
}

static PyObject *users_iter(PyObject *self)
{
    PyObject *dict = users_dict(self), *keys = dict ? PyDict_Keys(dict) : NULL,
             *iterator = keys ? PyObject_GetIter(keys) : NULL;
    Py_XDECREF(dict);
    Py_XDECREF(keys);
    return iterator;
}

static PyObject *users_repr(PyObject *self)
{
    PyObject *dict = users_dict(self), *text = dict ? PyObject_Repr(dict) : NULL;
    Py_XDECREF(dict);
    return text;
}

static PyObject *users_compare(PyObject *a, PyObject *b, int how)
{
    PyObject *left = users_dict(a), *right = left && Py_IS_TYPE(b, face.fx.users) ? users_dict(b) : Py_NewRef(b),
             *result = NULL;
    if (left && right)
        result = PyObject_RichCompare(left, right, how);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return result;
}

/* keys, values, items, copy: what the dict of this moment answers. */
static PyObject *ask_dict(PyObject *self, const char *method)
{
    PyObject *dict = users_dict(self), *result = dict ? PyObject_CallMethod(dict, method, NULL) : NULL;
    Py_XDECREF(dict);
    return result;
}
static PyObject *users_keys(PyObject *self, PyObject *unused) { (void)unused; return ask_dict(self, "keys"); }
static PyObject *users_values(PyObject *self, PyObject *unused) { (void)unused; return ask_dict(self, "values"); }
static PyObject *users_items(PyObject *self, PyObject *unused) { (void)unused; return ask_dict(self, "items"); }
static PyObject *users_copy(PyObject *self, PyObject *unused) { (void)unused; return users_dict(self); }

static PyObject *users_get(PyObject *self, PyObject *args)
{
    PyObject *key, *otherwise = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &key, &otherwise))
        return NULL;
    return Py_NewRef(users_contains(self, key) ? Py_None : otherwise);
}

static PyMethodDef users_methods[] = {
    { "keys", users_keys, METH_NOARGS, NULL },   { "values", users_values, METH_NOARGS, NULL },
    { "items", users_items, METH_NOARGS, NULL }, { "copy", users_copy, METH_NOARGS, NULL },
    { "get", users_get, METH_VARARGS, NULL },    { 0 },
};
static PyType_Slot users_slots[] = {
    { Py_tp_dealloc, users_dealloc },   { Py_tp_traverse, users_traverse }, { Py_mp_length, users_length },
    { Py_sq_contains, users_contains }, { Py_mp_subscript, users_subscript }, { Py_tp_iter, users_iter },
    { Py_tp_repr, users_repr },         { Py_tp_richcompare, users_compare }, { Py_tp_methods, users_methods },
    { 0, NULL },
};
static PyType_Spec users_spec = {
    .name = "_C._FxUsers", .basicsize = sizeof(users_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = users_slots,
};

/* ---- purity ---- */
static int module_impure(tp_node *n)
{
    PyObject *graph = fx_wrap_graph(n->graph), *owner = graph ? PyObject_GetAttrString(graph, "owning_module") : NULL;
    int impure = -1;
    if (n->target.kind != TP_TARGET_NAME) {
        PyErr_Format(PyExc_ValueError, "the node '%s' calls a module, but its target is no name", n->name);
    } else if (owner == Py_None) {
        PyErr_SetString(PyExc_AssertionError, "self.graph.owning_module not set for purity check");
    } else if (owner) {
        PyObject *module = PyObject_CallMethod(owner, "get_submodule", "s", n->target.name);
        PyObject *flag = module ? PyObject_GetAttrString(module, "_is_impure") : NULL;
        if (module && !flag && PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear();
        if (module && !PyErr_Occurred())
            impure = flag ? PyObject_IsTrue(flag) : 0;
        Py_XDECREF(module);
        Py_XDECREF(flag);
    }
    Py_XDECREF(owner);
    Py_XDECREF(graph);
    return impure;
}

static int op_impure(tp_node *n, bool random)
{
    const tp_op *op = n->target.op;
    if (op->flags & TP_OP_IO || (random && op->flags & TP_OP_RNG))
        return 1;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return 1;
    if (!face.fx.side_effects || !PySet_GET_SIZE(face.fx.side_effects))
        return 0;
    PyObject *overload = face_overload(op);
    int found = overload ? PySet_Contains(face.fx.side_effects, overload) : -1;
    Py_XDECREF(overload);
    return found;
}

int fx_is_impure(tp_node *n, bool random)
{
    if (n->kind == TP_PLACEHOLDER || n->kind == TP_OUTPUT || n->flags & TP_NODE_IMPURE)
        return 1;
    if (n->kind == TP_CALL_MODULE)
        return module_impure(n);
    if (n->kind != TP_CALL_FUNCTION)
        return 0;
    if (n->target.kind == TP_TARGET_OP)
        return op_impure(n, random);
    if (n->target.kind != TP_TARGET_HANDLE || !face.fx.side_effects)
        return 0;
    int found = PySet_Contains(face.fx.side_effects, n->target.handle->object);
    if (found < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {     /* a callable that cannot be hashed is in no set */
        PyErr_Clear();
        return 0;
    }
    return found;
}

static PyGetSetDef node_attributes[] = {
    { "op", get_op, set_op, NULL, NULL },
    { "target", get_target, set_target, NULL, NULL },
    { "args", get_args, set_args, NULL, NULL },
    { "kwargs", get_kwargs, set_kwargs, NULL, NULL },
    { "name", get_name, set_name, NULL, NULL },
    { "type", get_type, set_type, NULL, NULL },
    { "meta", get_meta, set_meta, NULL, NULL },
    { "_val", get_val, NULL, NULL, NULL },
    { "stack_trace", get_stack_trace, set_stack_trace, NULL, NULL },
    { "users", get_users, NULL, NULL, NULL },
    { "graph", get_graph, NULL, NULL, NULL },
    { "next", get_next, NULL, NULL, NULL },
    { "prev", get_prev, NULL, NULL, NULL },
    { "_next", get_next, NULL, NULL, NULL },
    { "_prev", get_prev, NULL, NULL, NULL },
    { "_args", get_args, set_args, NULL, NULL },
    { "_kwargs", get_kwargs, set_kwargs, NULL, NULL },
    { "_erased", get_erased, NULL, NULL, NULL },
    { "_input_nodes", get_input_nodes, NULL, NULL, NULL },
    { "all_input_nodes", get_all_input_nodes, NULL, NULL, NULL },
    { "__dict__", PyObject_GenericGetDict, NULL, NULL, NULL },
    { 0 },
};
static PyMemberDef node_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(fx_node, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(fx_node, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot node_slots[] = {
    { Py_tp_dealloc, node_dealloc }, { Py_tp_traverse, node_traverse }, { Py_tp_clear, node_clear },
    { Py_tp_repr, node_repr },       { Py_tp_setattro, node_setattr },  { Py_tp_getset, node_attributes },
    { Py_tp_members, node_members }, { Py_tp_richcompare, fx_node_compare }, { Py_tp_hash, node_hash },
    { Py_tp_methods, fx_node_methods }, { 0, NULL },
};
static PyType_Spec node_spec = {
    .name = "fx.node.Node", .basicsize = sizeof(fx_node),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = node_slots,
};

/* A type whose name says where Python finds it, kept in `_C` under a name of its own. */
PyTypeObject *fx_make_type(PyObject *module, PyType_Spec *spec, const char *attribute)
{
    char name[128];
    PyType_Spec named = *spec;
    PyOS_snprintf(name, sizeof name, "%s.%s", face.package, spec->name);
    named.name = name;
    PyObject *type = PyType_FromModuleAndSpec(module, &named, NULL);
    if (type && PyModule_AddObjectRef(module, attribute, type) < 0)
        Py_CLEAR(type);
    if (type)                   /* messages name it as they name classes written in Python */
        ((PyTypeObject *)type)->tp_name = strrchr(spec->name, '.') + 1;
    return (PyTypeObject *)type;
}

bool fx_node_types_init(PyObject *module)
{
    return (face.fx.node = fx_make_type(module, &node_spec, "_FxNode")) &&
           (face.fx.users = fx_make_type(module, &users_spec, "_FxUsers"));
}
