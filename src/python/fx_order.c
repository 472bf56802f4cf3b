/* fx_order.c - where a graph's new nodes go, and the list of its nodes. */
#include "python/fx.h"

#define METHOD(f) ((PyCFunction)(void (*)(void))(f))

/* ---- where new nodes go ---- */
typedef struct insert_object {
    PyObject_HEAD
    fx_graph *graph;            /* counted */
    tp_node  *insert, *after;   /* borrowed from the graph: as it was before */
} insert_object;

static PyObject *inserting(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, bool after)
{
    static const char *const names[] = { "n" };
    fx_graph *g = (fx_graph *)self;
    PyObject *o;
    if (!fx_read_call(after ? "inserting_after" : "inserting_before", names, 1, 0, args, count, kwnames, &o))
        return NULL;
    if (o && (!fx_is_node(o) || fx_node_of(o)->graph != g->graph))
        return PyErr_Format(PyExc_AssertionError, "Node to insert %s is not in graph.", after ? "after" : "before");
    if (o && fx_node_of(o)->flags & TP_NODE_ERASED)
        return PyErr_Format(PyExc_AssertionError, "Node to insert %s is erased.", after ? "after" : "before");
    insert_object *made = PyObject_GC_New(insert_object, face.fx.insert_point);
    if (!made)
        return NULL;
    made->graph = (fx_graph *)Py_NewRef(self);
    made->insert = g->graph->insert;
    made->after = g->after;
    /* before nothing: at the start, that is, after the root; after nothing: at the end */
    if (!o)
        after = !after;
    tp_node *n = o ? fx_node_of(o) : &g->graph->root;
    g->after = after ? n : NULL;
    g->graph->insert = after ? n->next : n;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

PyObject *fx_inserting_before(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return inserting(self, args, count, kwnames, false);
}

PyObject *fx_inserting_after(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return inserting(self, args, count, kwnames, true);
}

static PyObject *insert_enter(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    Py_RETURN_NONE;
}

static PyObject *insert_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    insert_object *o = (insert_object *)self;
    tp_node *at = o->insert;
    (void)args, (void)count;
    while (at->flags & TP_NODE_ERASED)
        at = at->next;
    o->graph->graph->insert = at;
    o->graph->after = o->after;
    Py_RETURN_NONE;
}

static void insert_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((insert_object *)self)->graph);
    type->tp_free(self);
    Py_DECREF(type);
}

static int insert_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)((insert_object *)self)->graph);
    return 0;
}

static PyMethodDef insert_methods[] = {
    { "__enter__", insert_enter, METH_NOARGS, NULL },
    { "__exit__", METHOD(insert_exit), METH_FASTCALL, NULL },
    { 0 },
};
static PyType_Slot insert_slots[] = {
    { Py_tp_dealloc, insert_dealloc }, { Py_tp_traverse, insert_traverse }, { Py_tp_methods, insert_methods },
        { 0, NULL },
};
static PyType_Spec insert_spec = {
    .name = "fx.graph._InsertPoint", .basicsize = sizeof(insert_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = insert_slots,
};

/* ---- the list of nodes ---- */
typedef struct nodes_object {
    PyObject_HEAD
    fx_graph *graph;            /* counted */
    tp_node  *at;               /* iterators: the one given last; its graph lives while `graph` does */
    bool      backwards, done;
} nodes_object;

static PyObject *nodes_new(PyTypeObject *type, fx_graph *g, bool backwards)
{
    nodes_object *made = PyObject_GC_New(nodes_object, type);
    if (!made)
        return NULL;
    made->graph = (fx_graph *)Py_NewRef((PyObject *)g);
    made->backwards = backwards;
    made->at = &g->graph->root;
    made->done = false;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

PyObject *fx_graph_nodes(PyObject *self, void *unused)
{
    (void)unused;
    return nodes_new(face.fx.nodes, (fx_graph *)self, false);
}

static Py_ssize_t nodes_length(PyObject *self)
{
    return ((nodes_object *)self)->graph->graph->live_count;
}

static PyObject *nodes_iter(PyObject *self)
{
    return nodes_new(face.fx.nodes_iterator, ((nodes_object *)self)->graph, false);
}

static PyObject *nodes_reversed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return nodes_new(face.fx.nodes_iterator, ((nodes_object *)self)->graph, true);
}

/* Nodes may be erased, moved and added while somebody walks: the step is taken when the next is asked for, and an
 * erased node leads on from where it stood. */
static PyObject *nodes_next(PyObject *self)
{
    nodes_object *o = (nodes_object *)self;
    do
        o->at = o->done ? o->at : o->backwards ? o->at->prev : o->at->next;
    while (o->at->flags & TP_NODE_ERASED);
    o->done |= o->at->kind == TP_ROOT;
    return o->done ? NULL : fx_wrap_node(o->at);
}

static void nodes_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((nodes_object *)self)->graph);
    type->tp_free(self);
    Py_DECREF(type);
}

static int nodes_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)((nodes_object *)self)->graph);
    return 0;
}

static PyMethodDef nodes_methods[] = {
    { "__reversed__", nodes_reversed, METH_NOARGS, NULL },
    { 0 },
};
static PyType_Slot nodes_slots[] = {
    { Py_tp_dealloc, nodes_dealloc }, { Py_tp_traverse, nodes_traverse }, { Py_sq_length, nodes_length },
    { Py_tp_iter, nodes_iter },       { Py_tp_methods, nodes_methods },   { 0, NULL },
};
static PyType_Spec nodes_spec = {
    .name = "fx.graph._node_list", .basicsize = sizeof(nodes_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = nodes_slots,
};
static PyType_Slot iterator_slots[] = {
    { Py_tp_dealloc, nodes_dealloc }, { Py_tp_traverse, nodes_traverse }, { Py_tp_iter, PyObject_SelfIter },
    { Py_tp_iternext, nodes_next },   { 0, NULL },
};
static PyType_Spec iterator_spec = {
    .name = "fx.graph._node_iterator", .basicsize = sizeof(nodes_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = iterator_slots,
};

bool fx_order_init(PyObject *module)
{
    return (face.fx.nodes = fx_make_type(module, &nodes_spec, "_FxNodeList")) &&
           (face.fx.nodes_iterator = fx_make_type(module, &iterator_spec, "_FxNodeIterator")) &&
           (face.fx.insert_point = fx_make_type(module, &insert_spec, "_FxInsertPoint"));
}
