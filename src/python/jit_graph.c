/* jit_graph.c - Graph, Node, Value and Type of torch.jit: views into a jit graph. */
#include "python/jit.h"

typedef struct graph_object { PyObject_HEAD tp_graph *graph; } graph_object;            /* counted */
typedef struct node_object { PyObject_HEAD tp_graph *graph; tp_node *node; } node_object;   /* graph counted, node in it */
typedef struct type_object { PyObject_HEAD tp_jit_type *type; } type_object;            /* counted */

static void graph_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_graph_unref(((graph_object *)self)->graph);      /* node_object begins alike */
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *graph_like(PyTypeObject *type, tp_graph *g, tp_node *n)
{
    graph_object *made = (graph_object *)type->tp_alloc(type, 0);
    if (!made)
        return NULL;
    made->graph = tp_graph_ref(g);
    if (n)
        ((node_object *)made)->node = n;
    return (PyObject *)made;
}

PyObject *face_jit_graph(tp_graph *g) { return graph_like(face.jit_graph, g, NULL); }
static PyObject *node_view(tp_node *n) { return graph_like(face.jit_node, n->graph, n); }
static PyObject *value_view(tp_node *n) { return graph_like(face.jit_value, n->graph, n); }

tp_graph *face_jit_graph_of(PyObject *o)
{
    if (Py_IS_TYPE(o, face.jit_graph))
        return ((graph_object *)o)->graph;
    PyErr_Format(PyExc_TypeError, "a Graph is needed, not %s", Py_TYPE(o)->tp_name);
    return NULL;
}

PyObject *face_jit_text(tp_text *taken)
{
    PyObject *text = taken->failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(tp_text_read(taken), (Py_ssize_t)taken->length);
    tp_text_fini(taken);
    return text;
}

/* ---- types ---- */
PyObject *face_jit_type(tp_jit_type *t)
{
    type_object *made = (type_object *)face.jit_type->tp_alloc(face.jit_type, 0);
    if (made)
        made->type = tp_jit_type_ref(t);
    return (PyObject *)made;
}

static void type_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_jit_type_unref(((type_object *)self)->type);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *type_text(PyObject *self)
{
    tp_text text = { 0 };
    tp_jit_type_print(((type_object *)self)->type, &text);
    return face_jit_text(&text);
}

static PyObject *type_str(PyObject *self, PyObject *unused)
{
    (void)unused;
    return type_text(self);
}

static PyObject *type_python(PyObject *self, void *unused)
{
    (void)unused;
    tp_text text = { 0 };
    tp_jit_type_print_python(((type_object *)self)->type, &text);
    return face_jit_text(&text);
}

static PyObject *type_kind(PyObject *self, PyObject *unused)
{
    static const char *const names[] = {
        [TP_JIT_NONE] = "NoneType", [TP_JIT_INT] = "IntType", [TP_JIT_FLOAT] = "FloatType", [TP_JIT_BOOL] = "BoolType",
        [TP_JIT_COMPLEX] = "ComplexType", [TP_JIT_NUMBER] = "NumberType", [TP_JIT_STR] = "StringType",
        [TP_JIT_DEVICE] = "DeviceObjType", [TP_JIT_GENERATOR] = "GeneratorType", [TP_JIT_FUNCTION] = "FunctionType",
        [TP_JIT_ANY] = "AnyType", [TP_JIT_ANY_TENSOR] = "TensorType", [TP_JIT_TENSOR] = "TensorType", [TP_JIT_LIST] = "ListType",
        [TP_JIT_OPTIONAL] = "OptionalType", [TP_JIT_TUPLE] = "TupleType", [TP_JIT_DICT] = "DictType", [TP_JIT_CLASS] = "ClassType",
    };
    (void)unused;
    return PyUnicode_FromString(names[((type_object *)self)->type->kind]);
}

static PyObject *type_dims(const tp_jit_type *t, int from)
{
    if (t->kind != TP_JIT_TENSOR)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(t->ndim);
    for (int i = 0; list && i < t->ndim; i++)
        PyList_SET_ITEM(list, i, PyLong_FromLongLong(t->part[from + i].dim));
    return list;
}

static PyObject *type_sizes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return type_dims(((type_object *)self)->type, 0);
}

static PyObject *type_strides(PyObject *self, PyObject *unused)
{
    (void)unused;
    return type_dims(((type_object *)self)->type, ((type_object *)self)->type->ndim);
}

static PyObject *type_dtype(PyObject *self, PyObject *unused)
{
    const tp_jit_type *t = ((type_object *)self)->type;
    (void)unused;
    return t->kind == TP_JIT_TENSOR ? PyUnicode_FromString(tp_dtypes[t->dtype].title) : Py_NewRef(Py_None);
}

static PyObject *type_dim(PyObject *self, PyObject *unused)
{
    const tp_jit_type *t = ((type_object *)self)->type;
    (void)unused;
    return t->kind == TP_JIT_TENSOR ? PyLong_FromLong(t->ndim) : Py_NewRef(Py_None);
}

static PyObject *type_element(PyObject *self, PyObject *unused)
{
    const tp_jit_type *t = ((type_object *)self)->type;
    (void)unused;
    if (t->kind == TP_JIT_LIST || t->kind == TP_JIT_OPTIONAL)
        return face_jit_type(t->part[0].type);
    return PyErr_Format(PyExc_RuntimeError, "this type has no element type");
}

static PyObject *type_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, face.jit_type) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = tp_jit_type_equal(((type_object *)a)->type, ((type_object *)b)->type);
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t type_hash(PyObject *self)
{
    return ((type_object *)self)->type->kind;
}

static PyMethodDef type_methods[] = {
    { "kind", type_kind, METH_NOARGS, NULL }, { "sizes", type_sizes, METH_NOARGS, NULL }, { "strides", type_strides, METH_NOARGS, NULL },
    { "scalarType", type_dtype, METH_NOARGS, NULL }, { "dim", type_dim, METH_NOARGS, NULL },
    { "getElementType", type_element, METH_NOARGS, NULL }, { "str", type_str, METH_NOARGS, NULL }, { 0 },
};
static PyGetSetDef type_attributes[] = { { "annotation_str", type_python, NULL, NULL, NULL }, { 0 } };
static PyType_Slot type_slots[] = {
    { Py_tp_dealloc, type_dealloc }, { Py_tp_repr, type_text }, { Py_tp_methods, type_methods }, { Py_tp_getset, type_attributes },
    { Py_tp_richcompare, type_compare }, { Py_tp_hash, type_hash }, { 0, NULL },
};
static PyType_Spec type_spec = { .name = "_C.Type", .basicsize = sizeof(type_object), .slots = type_slots,
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* ---- nodes and values: the same node seen as what runs and as what it gives ---- */
static tp_node *node_of(PyObject *self) { return ((node_object *)self)->node; }

/* The node that a value comes from: results of one are values of it. */
static tp_node *maker(tp_node *n)
{
    return tp_jit_is(n, "prim::Result") ? tp_as_node(n->arg[0]) : n;
}

static bool append_view(PyObject *list, PyObject *view)
{
    bool ok = view && PyList_Append(list, view) == 0;
    Py_XDECREF(view);
    return ok;
}

/* An iterator over a list; takes it. */
static PyObject *iterate(PyObject *list, bool ok)
{
    PyObject *it = list && ok ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return it;
}

static PyObject *view_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, Py_TYPE(a)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((node_of(a) == node_of(b)) == (op == Py_EQ));
}

static Py_hash_t view_hash(PyObject *self)
{
    return _Py_HashPointer(node_of(self));
}

static PyObject *node_kind(PyObject *self, PyObject *unused)
{
    char kind[160];
    (void)unused;
    return PyUnicode_FromString(tp_jit_kind_name(node_of(self), kind));
}

static PyObject *node_text(PyObject *self)
{
    tp_text text = { 0 };
    if (node_of(self)->type) {
        tp_jit_print_node(node_of(self), &text);
        tp_text_add(&text, "\n");
    }
    return face_jit_text(&text);
}

static PyObject *node_inputs(PyObject *self, PyObject *unused)
{
    const tp_node *n = node_of(self);
    PyObject *list = PyList_New(0);
    bool ok = list;
    (void)unused;
    for (uint32_t i = 0; ok && i < n->arg_count; i++)
        if (tp_as_node(n->arg[i]))
            ok = append_view(list, value_view(tp_as_node(n->arg[i])));
    return iterate(list, ok);
}

static PyObject *output_list(tp_node *n)
{
    PyObject *list = PyList_New(0);
    bool ok = list;
    if (ok && n->type && !tp_jit_note_of(n)->results)
        ok = append_view(list, value_view(n));
    for (uint32_t i = 0; ok && n->type && tp_jit_note_of(n)->results && i < n->user_count; i++)
        if (tp_jit_is(n->user[i], "prim::Result"))
            ok = append_view(list, value_view(n->user[i]));
    if (!ok)
        Py_CLEAR(list);
    return list;
}

static PyObject *node_outputs(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = output_list(node_of(self));
    return iterate(list, list != NULL);
}

static PyObject *node_output(PyObject *self, PyObject *unused)
{
    PyObject *list = output_list(node_of(self));
    (void)unused;
    if (!list || PyList_GET_SIZE(list) != 1) {
        Py_XDECREF(list);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "this node has not one output");
    }
    PyObject *one = Py_NewRef(PyList_GET_ITEM(list, 0));
    Py_DECREF(list);
    return one;
}

/* The attribute of this name, *found NULL when there is none. False: `name` is no text, an exception is set. */
static bool find_attribute(PyObject *self, PyObject *name, const tp_value **found)
{
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "the name of an attribute is a str, not %s", Py_TYPE(name)->tp_name);
        return false;
    }
    const char *text = PyUnicode_AsUTF8(name);
    *found = text ? tp_node_keyword(node_of(self), text) : NULL;
    return text != NULL;
}

/* The same, where it has to be there. NULL: an exception is set. */
static const tp_value *attribute(PyObject *self, PyObject *name)
{
    const tp_value *v = NULL;
    if (find_attribute(self, name, &v) && !v)
        PyErr_Format(PyExc_RuntimeError, "required keyword attribute '%U' is undefined", name);
    return v;
}

static PyObject *node_has_attribute(PyObject *self, PyObject *name)
{
    const tp_value *v;
    return find_attribute(self, name, &v) ? PyBool_FromLong(v != NULL) : NULL;
}

static PyObject *node_attribute(PyObject *self, PyObject *name)
{
    const tp_value *v = attribute(self, name);
    if (v && v->tag == TP_DTYPE_VALUE)
        return PyLong_FromLongLong(tp_jit_dtype_number(v->i));
    return v ? face_jit_from_value(tp_value_ref(*v)) : NULL;
}

static PyObject *node_kind_of(PyObject *self, PyObject *name)
{
    const tp_value *v = attribute(self, name);
    if (!v)
        return NULL;
    return PyUnicode_FromString(v->tag == TP_FLOAT ? "f" : v->tag == TP_STRING || v->tag == TP_DEVICE ? "s" : v->tag == TP_TENSOR ? "t"
                              : v->tag == TP_LIST ? "is" : v->tag == TP_HANDLE ? "ty" : "i");
}

static PyObject *node_attribute_names(PyObject *self, PyObject *unused)
{
    const tp_node *n = node_of(self);
    PyObject *list = PyList_New(0);
    (void)unused;
    for (uint32_t k = 0; list && k < n->keyword_count; k++)
        if (!append_view(list, PyUnicode_FromString(n->arg[n->arg_count + 2 * k].string->text)))
            Py_CLEAR(list);
    return list;
}

static PyObject *node_must_be_none(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(node_of(self)->type && tp_jit_type_of(node_of(self))->kind == TP_JIT_NONE);
}

static PyObject *node_is_random(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(tp_jit_is_random(node_of(self)));
}

static PyObject *node_source(PyObject *self, PyObject *unused)
{
    const tp_origin *o = node_of(self)->origin;
    (void)unused;
    return PyUnicode_FromString(o && o->stack_trace ? o->stack_trace->text : "");
}

static PyObject *node_scope(PyObject *self, PyObject *unused)
{
    const tp_string *scope = node_of(self)->type ? tp_jit_note_of(node_of(self))->scope : NULL;
    (void)unused;
    return PyUnicode_FromString(scope ? scope->text : "");
}

static PyMethodDef node_methods[] = {
    { "kind", node_kind, METH_NOARGS, NULL }, { "inputs", node_inputs, METH_NOARGS, NULL }, { "outputs", node_outputs, METH_NOARGS, NULL },
    { "output", node_output, METH_NOARGS, NULL }, { "hasAttribute", node_has_attribute, METH_O, NULL },
    { "kindOf", node_kind_of, METH_O, NULL }, { "attributeNames", node_attribute_names, METH_NOARGS, NULL },
    { "i", node_attribute, METH_O, NULL }, { "f", node_attribute, METH_O, NULL }, { "s", node_attribute, METH_O, NULL },
    { "t", node_attribute, METH_O, NULL }, { "is", node_attribute, METH_O, NULL }, { "mustBeNone", node_must_be_none, METH_NOARGS, NULL },
    { "isNondeterministic", node_is_random, METH_NOARGS, NULL }, { "sourceRange", node_source, METH_NOARGS, NULL },
    { "scopeName", node_scope, METH_NOARGS, NULL }, { 0 },
};
static PyType_Slot node_slots[] = {
    { Py_tp_dealloc, graph_dealloc }, { Py_tp_repr, node_text }, { Py_tp_methods, node_methods }, { Py_tp_richcompare, view_compare },
    { Py_tp_hash, view_hash }, { 0, NULL },
};
static PyType_Spec node_spec = { .name = "_C.Node", .basicsize = sizeof(node_object), .slots = node_slots,
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

static PyObject *value_node(PyObject *self, PyObject *unused)
{
    (void)unused;
    return node_view(maker(node_of(self)));
}

static PyObject *value_type(PyObject *self, PyObject *unused)
{
    (void)unused;
    return face_jit_type(tp_jit_type_of(node_of(self)));
}

static PyObject *value_name(PyObject *self, PyObject *unused)
{
    const tp_jit_note *note = tp_jit_note_of(node_of(self));
    (void)unused;
    return note->name ? PyUnicode_FromString(note->name) : PyUnicode_FromFormat("%u", note->number);
}

static PyObject *value_unique(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(tp_jit_note_of(node_of(self))->number);
}

static PyObject *value_complete(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(tp_jit_type_of(node_of(self))->kind == TP_JIT_TENSOR);
}

static PyObject *value_text(PyObject *self)
{
    PyObject *name = value_name(self, NULL), *node = value_node(self, NULL), *text = NULL;
    if (name && node)
        text = PyUnicode_FromFormat("%U defined in (%S)", name, node);
    Py_XDECREF(name);
    Py_XDECREF(node);
    return text;
}

static PyMethodDef value_methods[] = {
    { "node", value_node, METH_NOARGS, NULL }, { "type", value_type, METH_NOARGS, NULL }, { "debugName", value_name, METH_NOARGS, NULL },
    { "unique", value_unique, METH_NOARGS, NULL }, { "isCompleteTensor", value_complete, METH_NOARGS, NULL }, { 0 },
};
static PyType_Slot value_slots[] = {
    { Py_tp_dealloc, graph_dealloc }, { Py_tp_repr, value_text }, { Py_tp_methods, value_methods }, { Py_tp_richcompare, view_compare },
    { Py_tp_hash, view_hash }, { 0, NULL },
};
static PyType_Spec value_spec = { .name = "_C.Value", .basicsize = sizeof(node_object), .slots = value_slots,
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* ---- graphs ---- */
static PyObject *graph_text(PyObject *self)
{
    tp_text text = { 0 };
    tp_jit_print(((graph_object *)self)->graph, &text);
    return face_jit_text(&text);
}

static PyObject *graph_inputs(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    bool ok = list;
    (void)unused;
    tp_graph_each(((graph_object *)self)->graph, n)
        if (ok && n->kind == TP_PLACEHOLDER)
            ok = append_view(list, value_view(n));
    return iterate(list, ok);
}

static PyObject *graph_outputs(PyObject *self, PyObject *unused)
{
    const tp_node *out = tp_graph_output_node(((graph_object *)self)->graph);
    PyObject *list = PyList_New(0);
    bool ok = list;
    (void)unused;
    for (uint32_t i = 0; ok && out && i < out->arg_count; i++)
        if (tp_as_node(out->arg[i]))
            ok = append_view(list, value_view(tp_as_node(out->arg[i])));
    return iterate(list, ok);
}

static PyObject *graph_nodes(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    bool ok = list;
    (void)unused;
    tp_graph_each(((graph_object *)self)->graph, n)
        if (ok && n->kind == TP_CALL_FUNCTION && !tp_jit_is(n, "prim::Result"))
            ok = append_view(list, node_view(n));
    return iterate(list, ok);
}

static PyObject *find_nodes(PyObject *self, PyObject *kind, bool all)
{
    const char *want = PyUnicode_AsUTF8(kind);
    PyObject *list = want ? PyList_New(0) : NULL;
    char name[160];
    tp_graph_each(((graph_object *)self)->graph, n) {
        if (!list || n->kind != TP_CALL_FUNCTION || strcmp(tp_jit_kind_name(n, name), want) != 0)
            continue;
        if (!all) {
            Py_DECREF(list);
            return node_view(n);
        }
        if (!append_view(list, node_view(n)))
            Py_CLEAR(list);
    }
    if (all || !list)
        return list;
    Py_DECREF(list);
    Py_RETURN_NONE;
}

static PyObject *graph_find_all(PyObject *self, PyObject *args)
{
    PyObject *kind, *recurse = NULL;
    return PyArg_ParseTuple(args, "O|O", &kind, &recurse) ? find_nodes(self, kind, true) : NULL;
}

static PyObject *graph_find(PyObject *self, PyObject *args)
{
    PyObject *kind, *recurse = NULL;
    return PyArg_ParseTuple(args, "O|O", &kind, &recurse) ? find_nodes(self, kind, false) : NULL;
}

static PyObject *graph_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_graph *copy = tp_jit_copy(((graph_object *)self)->graph);
    PyObject *view = copy ? face_jit_graph(copy) : face_raise();
    tp_graph_unref(copy);
    return view;
}

static PyObject *graph_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, Py_TYPE(a)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((graph_object *)a)->graph == ((graph_object *)b)->graph) == (op == Py_EQ));
}

static Py_hash_t graph_hash(PyObject *self)
{
    return _Py_HashPointer(((graph_object *)self)->graph);
}

static PyMethodDef graph_methods[] = {
    { "inputs", graph_inputs, METH_NOARGS, NULL }, { "outputs", graph_outputs, METH_NOARGS, NULL }, { "nodes", graph_nodes, METH_NOARGS, NULL },
    { "findAllNodes", graph_find_all, METH_VARARGS, NULL }, { "findNode", graph_find, METH_VARARGS, NULL },
    { "copy", graph_copy, METH_NOARGS, NULL }, { 0 },
};
static PyType_Slot graph_slots[] = {
    { Py_tp_dealloc, graph_dealloc }, { Py_tp_repr, graph_text }, { Py_tp_methods, graph_methods }, { Py_tp_richcompare, graph_compare },
    { Py_tp_hash, graph_hash }, { 0, NULL },
};
static PyType_Spec graph_spec = { .name = "_C.Graph", .basicsize = sizeof(graph_object), .slots = graph_slots,
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* ---- passes by name ---- */
static PyObject *run_pass(PyObject *graph, bool (*pass)(tp_graph *g))
{
    tp_graph *g = face_jit_graph_of(graph);
    if (!g)
        return NULL;
    return pass(g) ? Py_NewRef(Py_None) : face_raise();
}

static PyObject *pass_dce(PyObject *module, PyObject *graph) { (void)module; return run_pass(graph, tp_jit_eliminate_dead); }
static PyObject *pass_erase(PyObject *module, PyObject *graph) { (void)module; return run_pass(graph, tp_jit_erase_shapes); }

static PyObject *pass_canonicalize(PyObject *module, PyObject *graph)
{
    tp_graph *g = face_jit_graph_of(graph), *copy = g ? tp_jit_copy(g) : NULL;
    (void)module;
    PyObject *made = !g ? NULL : copy && tp_jit_canonicalize(copy) ? face_jit_graph(copy) : face_raise();
    tp_graph_unref(copy);
    return made;
}

/* Every value is read after it was made, and there is one output, last. */
static PyObject *pass_lint(PyObject *module, PyObject *graph)
{
    tp_graph *g = face_jit_graph_of(graph);
    (void)module;
    if (!g)
        return NULL;
    const tp_node *last = g->root.prev;
    uint8_t *seen = PyMem_Calloc(g->node_count + 1, 1);
    bool ok = seen && last->kind == TP_OUTPUT;
    if (seen)
        tp_graph_each(g, n) {
            for (uint32_t i = 0; i < n->arg_count; i++)
                ok = ok && (!tp_as_node(n->arg[i]) || seen[tp_as_node(n->arg[i])->id]);
            seen[n->id] = 1;
        }
    PyMem_Free(seen);
    return ok ? Py_NewRef(Py_None) : PyErr_Format(PyExc_RuntimeError, "the graph is not well formed:\n%S", graph);
}

static PyObject *pass_inline(PyObject *module, PyObject *args)
{
    PyObject *graph, *self = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O|O", &graph, &self) || !face_jit_graph_of(graph))
        return NULL;
    tp_graph *made = tp_jit_inline(face_jit_graph_of(graph), self ? face_jit_module_of(self) : NULL);
    PyObject *view = made ? face_jit_graph(made) : face_raise();
    tp_graph_unref(made);
    return view;
}

static PyObject *pass_pool(PyObject *module, PyObject *graph) { (void)module; return run_pass(graph, tp_jit_pool_constants); }

static PyMethodDef functions[] = {
    { "_jit_pass_constant_pooling", pass_pool, METH_O, NULL },
    { "_jit_pass_dce", pass_dce, METH_O, NULL }, { "_jit_pass_erase_shape_information", pass_erase, METH_O, NULL },
    { "_jit_pass_canonicalize", pass_canonicalize, METH_O, NULL }, { "_jit_pass_lint", pass_lint, METH_O, NULL },
    { "_jit_pass_inline", pass_inline, METH_VARARGS, NULL }, { 0 },
};

bool face_jit_graph_init(PyObject *module)
{
    return (face.jit_graph = face_make_type(module, &graph_spec, NULL)) && (face.jit_node = face_make_type(module, &node_spec, NULL)) &&
           (face.jit_value = face_make_type(module, &value_spec, NULL)) && (face.jit_type = face_make_type(module, &type_spec, NULL)) &&
           PyModule_AddFunctions(module, functions) == 0;
}
